//! What lies over everything else: the help, and the question before a session is ended.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Clear, Widget};

use super::super::keys::HELP;
use super::super::look::{Look, Tone};
use super::super::model::Mode;
use super::super::text::{fit, visible, width};
use super::Scene;
use super::strip::Strip;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let look = scene.look;
    match &scene.model.mode {
        Mode::Help => {
            let lines = HELP.map(|(key, what)| (ascii(look, key), what.to_owned()));
            sheet(look, area, buffer, "keys", &lines);
        }
        Mode::End(target) => {
            let row = scene.model.row(&target.key);
            let mut where_ = Vec::new();
            where_.extend(row.and_then(|row| row.pid).map(|pid| format!("pid {pid}")));
            where_.extend(
                row.and_then(|row| row.tmux_pane.as_ref())
                    .map(|pane| format!("pane {pane}")),
            );
            let title = fit(&visible(&target.title, look.unicode), 50, look.unicode);
            let lines = [
                (String::new(), title),
                (String::new(), visible(&where_.join(", "), look.unicode)),
                ("y".to_owned(), "end it".to_owned()),
                ("any key".to_owned(), "leave it".to_owned()),
            ];
            sheet(look, area, buffer, "end this session?", &lines);
        }
        _ => {}
    }
}

fn ascii(look: &Look, key: &str) -> String {
    let plain = || match key {
        "↑ ↓  k j" => "Up Down k j",
        "← →  h l" => "Left Right h l",
        key => key,
    };
    if look.unicode { key } else { plain() }.to_owned()
}

/// A framed sheet in the middle, as large as its lines.
fn sheet(look: &Look, area: Rect, buffer: &mut Buffer, title: &str, lines: &[(String, String)]) {
    let widest =
        |cells: &dyn Fn(&(String, String)) -> usize| lines.iter().map(cells).max().unwrap_or(0);
    let keys = widest(&|(key, _)| width(key));
    let inner = widest(&|(key, what)| match key.as_str() {
        "" => width(what),
        _ => keys + 2 + width(what),
    })
    .max(width(title) + 2);
    let size = |cells: usize, most: u16| (cells as u16).min(most);
    let (wide, high) = (
        size(inner + 4, area.width),
        size(lines.len() + 2, area.height),
    );
    let sheet = Rect {
        x: area.x + (area.width - wide) / 2,
        y: area.y + (area.height - high) / 2,
        width: wide,
        height: high,
    };
    // A wide character that reaches under the sheet would hide its edge.
    if let Some(x) = sheet.x.checked_sub(1).filter(|x| *x >= area.x) {
        for y in sheet.top()..sheet.bottom() {
            if width(buffer[(x, y)].symbol()) > 1 {
                buffer[(x, y)].set_symbol(" ");
            }
        }
    }
    Clear.render(sheet, buffer);
    let (across, down) = (look.sign("─", "-"), look.sign("│", "|"));
    for y in sheet.top()..sheet.bottom() {
        let mut strip = Strip::new(buffer, look, sheet, y);
        strip.own(down, Tone::Accent);
        let right = Rect {
            x: sheet.right().saturating_sub(1),
            width: 1,
            ..sheet
        };
        Strip::new(buffer, look, right, y).own(down, Tone::Accent);
    }
    let edges = [
        (sheet.top(), look.sign("╭", "+"), look.sign("╮", "+")),
        (
            sheet.bottom().saturating_sub(1),
            look.sign("╰", "+"),
            look.sign("╯", "+"),
        ),
    ];
    for (y, left, right) in edges {
        let mut strip = Strip::new(buffer, look, sheet, y);
        let middle = across.repeat(strip.room().saturating_sub(2));
        strip
            .own(left, Tone::Accent)
            .own(&middle, Tone::Accent)
            .own(right, Tone::Accent);
    }
    let mut strip = Strip::new(buffer, look, sheet, sheet.y);
    strip.skip(2).own(&format!(" {title} "), Tone::Strong);
    let inside = Rect {
        x: sheet.x + 1,
        width: sheet.width.saturating_sub(2),
        height: sheet.height.saturating_sub(1),
        ..sheet
    };
    for ((key, what), y) in lines.iter().zip(sheet.y + 1..) {
        let mut strip = Strip::new(buffer, look, inside, y);
        strip.skip(1);
        if !key.is_empty() {
            strip.column(key, keys, Tone::Strong).skip(1);
        }
        strip.own(what, Tone::Plain);
    }
}
