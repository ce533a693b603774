//! Draws the selected session: its last prompt, its facts, its last events.

use becket_wire::session::{Display, SessionRow};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::model::Focus;
use super::super::theme::{Theme, Tone};
use super::{DrawContext, DrawnFrame, wrapped};
use crate::session::words;
use crate::tui::draw::RowWriter;
use crate::tui::model::EventLine;
use crate::tui::theme::tone;
use crate::ui::text::{count, short_id, tokens};

pub(super) fn draw(ctx: DrawContext<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut DrawnFrame) {
    let theme = ctx.theme;
    let beside = area.y == 0 || area.x > 0;
    let mut inner = area;
    if beside {
        for y in area.top()..area.bottom() {
            let mut writer = RowWriter::new(buffer, theme, area, y);
            writer.own(theme.sign("│", "|"), Tone::Dim);
        }
        inner.x += 1;
        inner.width = inner.width.saturating_sub(1);
    }
    let Some(row) = ctx.model.current() else {
        return;
    };
    draw_title_line(ctx, row, inner, buffer);
    let mut y = inner.y + 1;
    let most = usize::from(inner.height / 5).clamp(1, 4);
    for (text, tone) in summary(theme, row, usize::from(inner.width), most) {
        if y + 2 >= inner.bottom() {
            break;
        }
        let mut writer = RowWriter::new(buffer, theme, inner, y);
        writer.skip(1).own(&text, tone);
        y += 1;
    }
    if y + 4 < inner.bottom() {
        y += 1;
    }
    let y = y.min(inner.bottom());
    let events = Rect::new(inner.x, y, inner.width, inner.bottom() - y);
    drawn.events = area;
    draw_events(ctx, events, buffer);
}

/// Draws the line above the pane, with the name of the session.
fn draw_title_line(ctx: DrawContext<'_>, row: &SessionRow, area: Rect, buffer: &mut Buffer) {
    let theme = ctx.theme;
    let focused = ctx.model.focus == Focus::Events;
    let tone = if focused { Tone::Accent } else { Tone::Dim };
    let mut writer = RowWriter::new(buffer, theme, area, area.y);
    let line = theme.sign("─", "-");
    writer.own(line, tone).skip(1);
    let room = writer.room();
    writer
        .foreign(title_or_id(row), room.saturating_sub(16), Tone::Strong)
        .skip(1);
    if focused && writer.room() > 30 {
        let back = ctx.model.events.scrolled_back;
        let hint = match back {
            0 => "events, newest below".to_owned(),
            back => format!("events, {back} newer ones below"),
        };
        writer.own(&hint, Tone::Accent).skip(1);
    }
    writer.fill(line, tone);
}

/// Returns the title of a session, else its short id: its last prompt is shown below.
fn title_or_id(row: &SessionRow) -> &str {
    let title = row.title.as_deref();
    title.unwrap_or_else(|| short_id(&row.session_id))
}

/// Formats the prompt, question, effort, facts and troubles of a session in a few lines.
fn summary(
    theme: &Theme,
    row: &SessionRow,
    width: usize,
    prompt_lines: usize,
) -> Vec<(String, Tone)> {
    let room = width.saturating_sub(2);
    let prompt = row.last_prompt.as_deref().unwrap_or_default();
    let prompt = wrapped(theme, prompt, room.saturating_sub(2), prompt_lines);
    let signs = std::iter::once(theme.sign("› ", "> ")).chain(std::iter::repeat("  "));
    let mut lines: Vec<(String, Tone)> = signs
        .zip(prompt)
        .map(|(sign, line)| (format!("{sign}{line}"), Tone::Plain))
        .collect();
    // The list has no room for a whole question or error.
    let is_cut = matches!(
        row.display,
        Display::Error | Display::Attention | Display::Checked
    );
    let doing = row.doing.as_deref().filter(|_| is_cut).unwrap_or_default();
    let effort = row.effort.as_ref().map(|effort| match &effort.title {
        Some(title) => format!("{}: {title}", effort.line()),
        None => effort.line(),
    });
    let effort = effort.unwrap_or_default();
    let facts = facts(theme, row).join(theme.sign(" · ", ", "));
    let mut parts = vec![
        (doing, 2, tone(row.display)),
        (&effort, 1, Tone::Accent),
        (&facts, prompt_lines.min(2), Tone::Dim),
    ];
    for trouble in row.troubles.iter().take(3) {
        parts.push((trouble, 1, Tone::Attention));
    }
    for (text, most, tone) in parts {
        let wrapped = wrapped(theme, text, room, most).into_iter();
        lines.extend(wrapped.map(|line| (line, tone)));
    }
    lines
}

fn facts(theme: &Theme, row: &SessionRow) -> Vec<String> {
    let figures = &row.figures;
    let mut facts = Vec::new();
    if row.title.is_some() {
        facts.push(short_id(&row.session_id).to_owned());
    }
    facts.extend(row.cwd.as_deref().map(|cwd| theme.path(cwd)));
    facts.extend(Some(words::model(row)).filter(|model| !model.is_empty()));
    facts.extend(row.tmux_pane.as_ref().map(|pane| format!("pane {pane}")));
    facts.extend(row.pid.map(|pid| {
        let gone = if row.alive { "" } else { " is gone" };
        format!("pid {pid}{gone}")
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
    let failed = count(row.failed_tools as usize, "failed call", "failed calls");
    for (fact, holds) in [
        (&*failed, row.failed_tools > 0),
        ("unattended", !row.attended),
        ("status inferred", row.inferred),
        ("figures from the transcript", figures.from_transcript),
    ] {
        if holds {
            facts.push(fact.to_owned());
        }
    }
    facts
}

/// Draws the events that fit, the newest at the bottom.
fn draw_events(ctx: DrawContext<'_>, area: Rect, buffer: &mut Buffer) {
    let events = &ctx.model.events;
    if events.lines.is_empty() && area.height > 0 {
        let mut writer = RowWriter::new(buffer, ctx.theme, area, area.y);
        writer.skip(1).own("no events yet", Tone::Dim);
        return;
    }
    let height = usize::from(area.height);
    let end = events.lines.len().saturating_sub(events.scrolled_back);
    let begin = end.saturating_sub(height);
    for (line, y) in events.lines.range(begin..end).zip(area.y..) {
        draw_event(ctx.theme, line, RowWriter::new(buffer, ctx.theme, area, y));
    }
}

fn draw_event(theme: &Theme, line: &EventLine, mut writer: RowWriter<'_>) {
    let at = jiff::Timestamp::from_millisecond(line.at).unwrap_or_default();
    let at = at.to_zoned(theme.zone.clone()).strftime("%H:%M:%S");
    writer.skip(1).own(&at.to_string(), Tone::Dim).skip(1);
    let wide = writer.room() > 60;
    let branch = if line.by_agent {
        theme.sign("└ ", "`-")
    } else {
        ""
    };
    writer.own(branch, Tone::Dim);
    writer.column(&line.event, 18 - branch.chars().count(), line.tone);
    writer.column(&line.tool, if wide { 12 } else { 8 }, Tone::Plain);
    writer.foreign(&line.about, usize::MAX, Tone::Dim);
}
