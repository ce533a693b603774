//! The header: how many work, wait, are done or failed, what it all costs, and what is wrong.

use becket_wire::session::Display;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::super::look::{Tone, tone};
use super::strip::Strip;
use super::{Drawn, Scene};
use crate::tui::text::{dollars, width};
use crate::ui::text::tokens;
use crate::ui::time::lasted;

impl Scene<'_> {
    /// What is wrong with becket itself.
    pub(super) fn trouble(self) -> Option<String> {
        let model = self.model;
        if let Some(why) = &model.lost {
            return Some(why.clone());
        }
        let first = model.troubles.first()?;
        Some(match model.troubles.len() - 1 {
            0 => first.clone(),
            more => format!("{first} (and {more} more; try becket doctor)"),
        })
    }
}

pub(super) fn draw(scene: Scene<'_>, area: Rect, buffer: &mut Buffer, drawn: &mut Drawn) {
    let Scene { model, look, now } = scene;
    let totals = &model.totals;
    let mut parts: Vec<(String, Tone)> = Vec::new();
    for (display, what) in [
        (Display::Error, "failed"),
        (Display::Attention, "waiting"),
        (Display::Working, "working"),
        (Display::Checked, "seen"),
        (Display::Done, "done"),
    ] {
        let count = totals.count(display);
        let always = matches!(
            display,
            Display::Attention | Display::Working | Display::Done
        );
        if count == 0 && !always {
            continue;
        }
        // The header stands still: its glyphs are those of a fixed moment.
        let mut text = format!("{} {count} {what}", look.glyph(display, 0));
        if let (Display::Attention, Some(since)) = (display, totals.waits_since) {
            text = format!("{text} {}", lasted(now.saturating_sub(since)));
            let unit = if now.saturating_sub(since) < 3_600_000 {
                1_000
            } else {
                60_000
            };
            drawn.ticks(now.saturating_sub(since), unit);
        }
        let tone = if count == 0 { Tone::Dim } else { tone(display) };
        parts.push((text, tone));
    }
    let mut strip = Strip::new(buffer, look, area, area.y);
    strip.own(" becket", Tone::Accent).skip(2);
    for (text, tone) in &parts {
        if width(text) > strip.room() {
            break;
        }
        strip.own(text, *tone).skip(2);
    }
    let sums = sums(scene);
    let room = strip.room();
    if let Some(gap) = room.checked_sub(width(&sums) + 1) {
        strip.skip(gap as u16).own(&sums, Tone::Dim);
    }
    if let Some(trouble) = scene.trouble() {
        let tone = match model.lost {
            Some(_) => Tone::Error,
            None => Tone::Attention,
        };
        let mut strip = Strip::new(buffer, look, area, area.y + 1);
        strip.own(look.sign(" ⚠ ", " ! "), tone);
        let room = strip.room();
        strip.foreign(&trouble, room, tone);
    }
}

fn sums(scene: Scene<'_>) -> String {
    let totals = &scene.model.totals;
    let mut parts = Vec::new();
    if totals.tokens > 0 {
        parts.push(format!("{} tokens", tokens(totals.tokens)));
    }
    if totals.cost > 0.0 {
        parts.push(dollars(totals.cost));
    }
    parts.join(scene.look.sign(" · ", ", "))
}
