//! How things look: glyphs, colours, motion. With or without colour, with or without Unicode.

use becket_wire::session::Display;
use becket_wire::text::is_hidden;
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::ui::style::Glyphs;

/// What the terminal can show, and how paths and moments are told.
#[derive(Debug, Clone)]
pub struct Look {
    pub colour: bool,
    pub unicode: bool,
    /// Written as `~`.
    pub home: Option<String>,
    pub zone: TimeZone,
}

/// What a piece of text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Dim,
    Error,
    Attention,
    Working,
    Good,
    Accent,
}

impl Look {
    /// What the environment says of the terminal.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            colour: set("NO_COLOR").is_none(),
            unicode: Glyphs::chosen_by(set) == Glyphs::Unicode,
            home: set("HOME"),
            zone: becket_engine::local_time::zone(),
        }
    }

    /// One of two ways to write something.
    pub fn sign<'a>(&self, unicode: &'a str, ascii: &'a str) -> &'a str {
        if self.unicode { unicode } else { ascii }
    }

    /// The sixteen colours of the terminal's own theme: they fit its background.
    pub fn style(&self, tone: Tone) -> Style {
        let colour = |colour: Color| match self.colour {
            true => Style::new().fg(colour),
            false => Style::new(),
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Error => colour(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Attention => colour(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Working => colour(Color::Cyan),
            Tone::Good => colour(Color::Green),
            Tone::Accent => colour(Color::Magenta).add_modifier(Modifier::BOLD),
        }
    }

    pub fn glyphs(&self) -> Glyphs {
        match self.unicode {
            true => Glyphs::Unicode,
            false => Glyphs::Ascii,
        }
    }

    /// The style of a state's symbol at a moment: work and waiting pulse, all else stands still.
    pub fn pulse(&self, display: Display, now: i64) -> Style {
        let style = self.style(tone(display));
        let pulses = matches!(display, Display::Working | Display::Attention);
        match pulses && now.div_euclid(PULSE).rem_euclid(2) == 1 {
            true => style
                .remove_modifier(Modifier::BOLD)
                .add_modifier(Modifier::DIM),
            false => style,
        }
    }

    /// A path as a person writes it.
    pub fn path(&self, path: &str) -> String {
        let home = self.home.as_deref().filter(|home| home.len() > 1);
        let under = home.and_then(|home| path.strip_prefix(home));
        match under {
            Some("") => "~".to_owned(),
            Some(rest) if rest.starts_with('/') => format!("~{rest}"),
            _ => path.to_owned(),
        }
    }
}

/// How long each half of a pulse lasts, in milliseconds.
pub const PULSE: i64 = 500;

pub fn tone(display: Display) -> Tone {
    match display {
        Display::Error => Tone::Error,
        Display::Attention => Tone::Attention,
        Display::Working => Tone::Working,
        Display::Checked => Tone::Plain,
        Display::Done => Tone::Dim,
    }
}

/// More of one text than any line shows is not looked at.
const MOST: usize = 2_000;

/// One line of a foreign text, without escape sequences and hidden characters. Without Unicode, what is not ASCII becomes a question mark.
pub fn visible(text: &str, unicode: bool) -> String {
    let text = beginning(text);
    let stripped = anstream::adapter::strip_str(text).to_string();
    let mut out = String::with_capacity(stripped.len());
    let mut gap = false;
    for c in stripped.chars() {
        if c.is_whitespace() {
            gap = !out.is_empty();
        } else if !is_hidden(c) {
            if gap {
                out.push(' ');
                gap = false;
            }
            out.push(if unicode || c.is_ascii() { c } else { '?' });
        }
    }
    out
}

fn beginning(text: &str) -> &str {
    let end = text
        .char_indices()
        .nth(MOST)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

pub fn width(text: &str) -> usize {
    // An ASCII byte is a cell; asking for the width of each would be most of a frame's time.
    if text.is_ascii() {
        text.len()
    } else {
        Span::raw(text).width()
    }
}

/// As much of a text as fits, with a mark where it was cut.
pub fn fit(text: &str, room: usize, unicode: bool) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mark = if unicode { "…" } else { "~" };
    if room == 0 {
        return String::new();
    }
    let mut out = take(text, room - 1);
    out.truncate(out.trim_end().len());
    out + mark
}

/// The beginning of a text that is at most so wide.
fn take(text: &str, room: usize) -> String {
    let span = Span::raw(text);
    let mut out = String::new();
    let mut used = 0;
    for grapheme in span.styled_graphemes(Style::new()) {
        used += width(grapheme.symbol);
        if used > room {
            break;
        }
        out.push_str(grapheme.symbol);
    }
    out
}

/// A text broken at spaces into lines that fit, at most so many; the last one is cut.
pub fn wrap(text: &str, room: usize, most: usize, unicode: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() && lines.len() < most && room > 0 {
        if lines.len() + 1 == most || width(rest) <= room {
            lines.push(fit(rest, room, unicode));
            break;
        }
        let head = take(rest, room);
        let at = match head.rfind(' ') {
            Some(at) if rest.as_bytes().get(head.len()) != Some(&b' ') => at,
            _ => head.len(),
        };
        // A single character that is wider than the room.
        if at == 0 {
            lines.push(fit(rest, room, unicode));
            break;
        }
        lines.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pairs: &[(&str, &str)]) -> Look {
        Look::read(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides() {
        assert!(look(&[("NO_COLOR", "")]).colour);
        assert!(!look(&[("NO_COLOR", "1")]).colour);
    }

    #[test]
    fn home_is_written_short() {
        let look = look(&[("HOME", "/home/u")]);
        assert_eq!(look.path("/home/u/x"), "~/x");
        assert_eq!(look.path("/home/u"), "~");
        assert_eq!(look.path("/home/user"), "/home/user");
    }

    #[test]
    fn escapes_and_controls_go() {
        assert_eq!(visible("\u{1b}[31mred\u{1b}[0m\r\n\tx\u{7}", true), "red x");
        assert_eq!(visible("a\u{202e}b\u{200b}c\u{9b}2J", true), "abc2J");
        let hidden = "a\u{200c}b\u{200d}c\u{34f}d\u{e0041}e";
        assert_eq!(visible(hidden, true), "abcde");
        assert_eq!(visible("\u{1b}]0;title\u{7}ok", true), "ok");
        assert_eq!(visible("  für 日本  ", false), "f?r ??");
        assert_eq!(visible("  ", true), "");
    }

    #[test]
    fn what_is_cut_fits_and_says_so() {
        assert_eq!(fit("short", 5, true), "short");
        assert_eq!(fit("longer", 5, true), "long…");
        assert_eq!(fit("longer", 5, false), "long~");
        // A wide character that half fits does not count.
        assert_eq!(fit("日本語", 4, true), "日…");
        assert_eq!(width(&fit("日本語", 5, true)), 5);
        assert_eq!(fit("x", 0, true), "");
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("one two three", 7, 5, true), ["one two", "three"]);
        assert_eq!(wrap("one two three", 7, 1, true), ["one tw…"]);
        assert_eq!(wrap("abcdefghij", 4, 5, true), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("日本", 1, 5, true), ["…"]);
        assert!(wrap("", 7, 5, true).is_empty());
    }
}
