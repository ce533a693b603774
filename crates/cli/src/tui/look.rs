//! How things look: glyphs, colours, motion. With or without colour, with or without Unicode.

use becket_wire::session::{Display, Status};
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};

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
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let unicode = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            colour: set("NO_COLOR").is_none(),
            unicode,
            home: set("HOME"),
            zone: TimeZone::system(),
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

    /// The glyph of a state at a moment. Work turns, attention blinks, all else stands still.
    pub fn glyph(&self, display: Display, now: i64) -> &'static str {
        let frame = |frames: &[&'static str], ms: i64| {
            frames[(now.div_euclid(ms)).rem_euclid(frames.len() as i64) as usize]
        };
        match (display, self.unicode) {
            (Display::Error, true) => "✗",
            (Display::Error, false) => "x",
            (Display::Attention, true) => frame(&["◆", "◇"], BLINK),
            (Display::Attention, false) => frame(&["!", " "], BLINK),
            (Display::Working, true) => frame(&["⠋", "⠙", "⠸", "⠴", "⠦", "⠇"], TURN),
            (Display::Working, false) => frame(&["|", "/", "-", "\\"], TURN),
            (Display::Checked, true) => "◐",
            (Display::Checked, false) => "?",
            (Display::Done, true) => "○",
            (Display::Done, false) => ".",
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

/// How long a frame of each motion stands, in milliseconds.
pub const TURN: i64 = 250;
pub const BLINK: i64 = 500;

pub fn tone(display: Display) -> Tone {
    match display {
        Display::Error => Tone::Error,
        Display::Attention => Tone::Attention,
        Display::Working => Tone::Working,
        Display::Checked => Tone::Plain,
        Display::Done => Tone::Dim,
    }
}

/// A subagent's status in the words of a session's display.
pub fn display_of(status: &Status) -> Display {
    match status {
        Status::Idle => Display::Done,
        Status::Working { .. } => Display::Working,
        Status::Attention { .. } => Display::Attention,
    }
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
        assert!(look(&[("LANG", "en_US.UTF-8")]).unicode);
        assert!(!look(&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")]).unicode);
        assert!(look(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]).unicode);
        assert!(!look(&[]).unicode);
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
    fn work_and_attention_move_and_the_rest_stands_still() {
        for unicode in [true, false] {
            let look = Look {
                unicode,
                ..look(&[])
            };
            let moves = |display| look.glyph(display, 0) != look.glyph(display, BLINK);
            let moving = Display::ALL.map(moves);
            assert_eq!(moving, [false, true, true, false, false]);
            assert_eq!(look.glyph(Display::Working, -1).chars().count(), 1);
        }
    }
}
