//! The selected session: what it was asked, what is known of it, its last events.

use becket_wire::session::{Display, SessionRow};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::look::{Look, Tone};
use super::super::model::Focus;
use super::{Drawn, Scene};
use crate::session::words;
use crate::tui::draw::Strip;
use crate::tui::look::{tone, visible, wrap};
use crate::tui::model::EventLine;
use crate::ui::text::tokens;

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut Drawn) {
    let look = scene.look;
    let beside = area.y == 0 || area.x > 0;
    let mut inner = area;
    if beside {
        for y in area.top()..area.bottom() {
            let mut strip = Strip::new(buffer, look, area, y);
            strip.own(look.sign("│", "|"), Tone::Dim);
        }
        inner.x += 1;
        inner.width = inner.width.saturating_sub(1);
    }
    let Some(row) = scene.model.current() else {
        return;
    };
    rule(scene, row, inner, buffer);
    let mut y = inner.y + 1;
    let most = usize::from(inner.height / 5).clamp(1, 4);
    for (text, tone) in about(look, row, usize::from(inner.width), most) {
        if y + 2 >= inner.bottom() {
            break;
        }
        let mut strip = Strip::new(buffer, look, inner, y);
        strip.skip(1).own(&text, tone);
        y += 1;
    }
    if y + 4 < inner.bottom() {
        y += 1;
    }
    let events = Rect {
        y: y.min(inner.bottom()),
        height: inner.bottom().saturating_sub(y),
        ..inner
    };
    drawn.events = area;
    list(scene, events, buffer);
}

/// The line above: whose pane this is.
fn rule(scene: Scene<'_>, row: &SessionRow, area: Rect, buffer: &mut Buffer) {
    let look = scene.look;
    let focused = scene.model.focus == Focus::Events;
    let tone = if focused { Tone::Accent } else { Tone::Dim };
    let mut strip = Strip::new(buffer, look, area, area.y);
    let line = look.sign("─", "-");
    strip.own(line, tone).skip(1);
    let name = named(row);
    let room = strip.room();
    strip
        .foreign(&name, room.saturating_sub(16), Tone::Strong)
        .skip(1);
    if focused && strip.room() > 30 {
        let back = scene.model.events.back;
        let hint = match back {
            0 => "events, newest below".to_owned(),
            back => format!("events, {back} newer ones below"),
        };
        strip.own(&hint, Tone::Accent).skip(1);
    }
    strip.fill(line, tone);
}

/// A session without a title is called by what it was asked, which stands below.
fn named(row: &SessionRow) -> String {
    let short = || row.session_id.chars().take(8).collect();
    row.title.clone().unwrap_or_else(short)
}

/// What is known of a session, in a few lines.
fn about(look: &Look, row: &SessionRow, width: usize, prompt_lines: usize) -> Vec<(String, Tone)> {
    let mut lines: Vec<(String, Tone)> = Vec::new();
    let room = width.saturating_sub(2);
    if let Some(prompt) = &row.last_prompt {
        let prompt = visible(prompt, look.unicode);
        let wrapped = wrap(&prompt, room.saturating_sub(2), prompt_lines, look.unicode);
        for (at, line) in wrapped.iter().enumerate() {
            let sign = if at == 0 {
                look.sign("› ", "> ")
            } else {
                "  "
            };
            lines.push((format!("{sign}{line}"), Tone::Plain));
        }
    }
    // The list has no room for a whole question or error.
    if matches!(
        row.display,
        Display::Error | Display::Attention | Display::Checked
    ) {
        let doing = visible(row.doing.as_deref().unwrap_or_default(), look.unicode);
        let wrapped = wrap(&doing, room, 2, look.unicode);
        let tone = tone(row.display);
        lines.extend(wrapped.into_iter().map(|line| (line, tone)));
    }
    if let Some(effort) = &row.effort {
        let title = effort.title.as_ref().map(|title| format!(": {title}"));
        let effort = format!("{}{}", effort.line(), title.unwrap_or_default());
        let effort = visible(&effort, look.unicode);
        let wrapped = wrap(&effort, room, 1, look.unicode);
        lines.extend(wrapped.into_iter().map(|line| (line, Tone::Accent)));
    }
    let facts = facts(look, row).join(look.sign(" · ", ", "));
    let facts = visible(&facts, look.unicode);
    for line in wrap(&facts, room, prompt_lines.min(2), look.unicode) {
        lines.push((line, Tone::Dim));
    }
    for trouble in row.troubles.iter().take(3) {
        let trouble = visible(trouble, look.unicode);
        let wrapped = wrap(&trouble, room, 1, look.unicode);
        lines.extend(wrapped.into_iter().map(|line| (line, Tone::Attention)));
    }
    lines
}

fn facts(look: &Look, row: &SessionRow) -> Vec<String> {
    let figures = &row.figures;
    let mut facts = Vec::new();
    let short = || row.session_id.chars().take(8).collect();
    facts.extend(row.title.as_ref().map(|_| short()));
    facts.extend(row.cwd.as_deref().map(|cwd| look.path(cwd)));
    facts.extend(Some(words::model(row)).filter(|model| !model.is_empty()));
    facts.extend(row.tmux_pane.as_ref().map(|pane| format!("pane {pane}")));
    facts.extend(row.pid.map(|pid| match row.alive {
        true => format!("pid {pid}"),
        false => format!("pid {pid} is gone"),
    }));
    let mode = row
        .permission_mode
        .as_ref()
        .filter(|mode| *mode != "default");
    facts.extend(mode.map(|mode| format!("mode {mode}")));
    if let (Some(used), Some(size)) = (figures.context_tokens, figures.context_size) {
        facts.push(format!("{} of {} tokens", tokens(used), tokens(size)));
    }
    if let (Some(added), Some(removed)) = (figures.lines_added, figures.lines_removed) {
        facts.push(format!("+{added} -{removed} lines"));
    }
    if row.failed_tools > 0 {
        facts.push(format!("{} failed calls", row.failed_tools));
    }
    for (word, holds) in [
        ("unattended", !row.attended),
        ("status inferred", row.inferred),
        ("figures from the transcript", figures.from_transcript),
    ] {
        if holds {
            facts.push(word.to_owned());
        }
    }
    facts
}

/// The events that fit, the newest below.
fn list(scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let events = &scene.model.events;
    if events.lines.is_empty() && area.height > 0 {
        let mut strip = Strip::new(buffer, scene.look, area, area.y);
        strip.skip(1).own("no events yet", Tone::Dim);
        return;
    }
    let height = usize::from(area.height);
    let end = events.lines.len().saturating_sub(events.back);
    let begin = end.saturating_sub(height);
    for (line, y) in events.lines.range(begin..end).zip(area.y..) {
        event(scene.look, line, Strip::new(buffer, scene.look, area, y));
    }
}

fn event(look: &Look, line: &EventLine, mut strip: Strip<'_>) {
    let at = jiff::Timestamp::from_millisecond(line.at).ok();
    let at = at.map(|at| {
        at.to_zoned(look.zone.clone())
            .strftime("%H:%M:%S")
            .to_string()
    });
    strip
        .skip(1)
        .own(&at.unwrap_or_default(), Tone::Dim)
        .skip(1);
    let wide = strip.room() > 60;
    let branch = if line.by_agent {
        look.sign("└ ", "`-")
    } else {
        ""
    };
    strip.own(branch, Tone::Dim);
    strip.column(&line.event, 18 - branch.chars().count(), line.tone);
    strip.column(&line.tool, if wide { 12 } else { 8 }, Tone::Plain);
    let room = strip.room();
    strip.foreign(&line.about, room, Tone::Dim);
}
