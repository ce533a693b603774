//! Draws the box in which the user answers a question: the request in full, and the keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{DrawContext, RowWriter, draw_frame, short_title};
use crate::question::{self, LineUse, QuestionLine};
use crate::tui::answer_box::{AnswerBox, BoxState, DrawnBox};
use crate::tui::theme::Tone;
use crate::ui::text::{fold, one_line, screen_line};

/// The width of the box in a wide terminal.
const WIDTH: usize = 110;
/// The size from which a question can be read, and answered.
const MIN_SIZE: (u16, u16) = (40, 8);
/// The rows of the box besides the request: the frame, an empty line, the keys.
const ROWS_AROUND: usize = 4;

/// Draws the box. Returns which keys act, and how far the request scrolls.
pub(super) fn draw(
    ctx: DrawContext<'_>,
    open: &AnswerBox,
    area: Rect,
    buffer: &mut Buffer,
) -> DrawnBox {
    let theme = ctx.theme;
    let wide = WIDTH.min(usize::from(area.width));
    let room = wide.saturating_sub(4).max(1);
    let mut lines = Vec::new();
    for (text, tone) in content(ctx, open) {
        let text = theme.glyphs.encode(&text);
        lines.extend(fold(&text, room).into_iter().map(|line| (line, tone)));
    }
    let most = usize::from(area.height).saturating_sub(ROWS_AROUND);
    let page = lines.len().min(most);
    let max_scroll = lines.len() - page;
    let scroll = open.scroll.min(max_scroll);
    let note = match max_scroll - scroll {
        0 if scroll == 0 => String::new(),
        0 => "the end".to_owned(),
        1 => theme.sign("1 more line ↓", "1 more line").to_owned(),
        below => format!("{below} more lines{}", theme.sign(" ↓", "")),
    };
    let size = (wide, page + ROWS_AROUND);
    let inside = draw_frame(theme, area, buffer, size, &title(ctx, open), &note);
    let visible = lines.iter().skip(scroll).take(page);
    for ((text, tone), y) in visible.zip(inside.y..) {
        let mut writer = RowWriter::new(buffer, theme, inside, y);
        writer.skip(1).own(text, *tone);
    }
    let last = inside.bottom().saturating_sub(1);
    draw_keys(
        ctx,
        open,
        max_scroll > 0,
        RowWriter::new(buffer, theme, inside, last),
    );
    let is_readable = area.width >= MIN_SIZE.0 && area.height >= MIN_SIZE.1;
    let step = open.step().filter(|_| is_readable);
    DrawnBox {
        state: step.map_or(BoxState::Passive, BoxState::Asks),
        max_scroll,
    }
}

/// Returns the session, its subagent, and the tool.
fn title(ctx: DrawContext<'_>, open: &AnswerBox) -> String {
    let title = short_title(ctx.theme, &open.target.title, 40);
    let Some(row) = &open.question else {
        return title;
    };
    let session = ctx.model.row(&open.target.key);
    let agents = session.map(|session| session.agents.iter()).into_iter();
    let mut agents = agents.flatten();
    let agent = agents.find(|agent| row.agent_id.as_deref() == Some(&agent.agent_id));
    let agent = agent.and_then(|agent| agent.agent_type.as_deref());
    let agent = agent.map(|agent| format!(" ({agent})")).unwrap_or_default();
    let verb = if row.asked().is_empty() {
        format!(" wants to use {}", row.tool)
    } else {
        " asks".to_owned()
    };
    let rest = screen_line(&format!("{agent}{verb}"), ctx.theme.glyphs);
    short_title(ctx.theme, &format!("{title} {rest}"), WIDTH - 10)
}

/// Returns the request, the guard's reason, and the rules of `always`.
fn content(ctx: DrawContext<'_>, open: &AnswerBox) -> Vec<(String, Tone)> {
    let mut content = Vec::new();
    let Some(row) = &open.question else {
        let text = match open.over {
            Some(_) => ctx
                .model
                .row(&open.target.key)
                .and_then(crate::session::words::question),
            None => Some("asking the daemon".to_owned()),
        };
        content.extend(text.map(|text| (text, Tone::Dim)));
        return content;
    };
    let rules = question::suggested_rules(row);
    if open.confirms_always {
        content.push((
            "From now on allowed, without a question:".to_owned(),
            Tone::Attention,
        ));
        content.extend(
            rules
                .iter()
                .map(|rule| (format!("  {rule}"), Tone::Attention)),
        );
        content.push((String::new(), Tone::Plain));
    }
    match open.current() {
        Some((asked, nth, count)) => {
            if count > 1 {
                content.push((format!("question {} of {count}", nth + 1), Tone::Dim));
            }
            let mut lines = question::asked_lines(&asked);
            if asked.multi_select {
                // The first line is the question.
                for (option, line) in lines.iter_mut().skip(1).enumerate() {
                    let mark = if open.is_marked(option) { "x" } else { " " };
                    line.text = format!("[{mark}]{}", line.text);
                }
            }
            content.extend(lines.into_iter().map(toned));
        }
        None => content.extend(question::lines(row).into_iter().map(toned)),
    }
    if !open.confirms_always && open.has_rules() {
        content.push((String::new(), Tone::Plain));
        content.extend(
            rules
                .iter()
                .map(|rule| (format!("always allows: {rule}"), Tone::Dim)),
        );
    }
    let cwd = row.cwd.as_deref().map(|cwd| ctx.theme.path(cwd));
    content.extend(cwd.map(|cwd| (format!("in {}", one_line(&cwd)), Tone::Dim)));
    content
}

fn toned(line: QuestionLine) -> (String, Tone) {
    let tone = match line.line_use {
        LineUse::Plain => Tone::Plain,
        LineUse::Added => Tone::Good,
        LineUse::Removed => Tone::Error,
        LineUse::Note => Tone::Attention,
    };
    (line.text, tone)
}

/// Draws the keys that act, or the reason why none does.
fn draw_keys(ctx: DrawContext<'_>, open: &AnswerBox, scrolls: bool, mut writer: RowWriter<'_>) {
    let mut keys: Vec<(String, &str)> = Vec::new();
    if let Some(over) = &open.over {
        writer.skip(1);
        let room = writer.room().saturating_sub(12);
        writer.foreign(over, room, Tone::Attention).skip(1);
    }
    if open.step().is_some() {
        match open.current() {
            Some((asked, ..)) => {
                let count = asked.options.len().min(9);
                if asked.multi_select {
                    keys.extend([(format!("1-{count}"), "mark"), ("Enter".to_owned(), "send")]);
                } else {
                    keys.push((format!("1-{count}"), "choose"));
                }
                keys.push(("n".to_owned(), "decline"));
            }
            None if open.confirms_always => {
                keys.extend([
                    ("A".to_owned(), "add this rule"),
                    ("y".to_owned(), "only this time"),
                ]);
                keys.push(("n".to_owned(), "no"));
            }
            None => {
                keys.extend([("y".to_owned(), "yes"), ("n".to_owned(), "no")]);
                if open.has_rules() {
                    keys.push(("A".to_owned(), "always"));
                }
            }
        }
    }
    if scrolls {
        keys.push((ctx.theme.sign("↑↓", "Up Down").to_owned(), "scroll"));
    }
    keys.push(("Esc".to_owned(), "close"));
    for (key, label) in keys {
        writer
            .skip(1)
            .own(&key, Tone::Strong)
            .skip(1)
            .own(label, Tone::Dim)
            .skip(1);
    }
}
