//! The appearance of the view: glyphs, colours, motion; with or without colour and Unicode.

use becket_wire::session::Display;
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};

use crate::ui::style::Glyphs;

/// The abilities of the terminal, and the format of paths and times.
#[derive(Debug, Clone)]
pub struct Theme {
    pub colour: bool,
    pub glyphs: Glyphs,
    /// The folder that is shown as `~`.
    pub home: Option<String>,
    pub zone: TimeZone,
}

/// The purpose of a piece of text, which decides its style.
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

impl Theme {
    /// Reads the abilities of the terminal from the environment.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        Self {
            colour: set("NO_COLOR").is_none(),
            glyphs: Glyphs::chosen_by(set),
            home: set("HOME"),
            zone: becket_engine::local_time::zone(),
        }
    }

    /// Returns the one of two spellings that the terminal can show.
    pub fn sign<'a>(&self, unicode: &'a str, ascii: &'a str) -> &'a str {
        self.glyphs.pick(unicode, ascii)
    }

    /// Returns the style of a tone. It uses the sixteen colours of the terminal's own theme, which
    /// fit its background.
    pub fn style(&self, tone: Tone) -> Style {
        let (colour, modifier) = match tone {
            Tone::Plain => (None, Modifier::empty()),
            Tone::Strong => (None, Modifier::BOLD),
            Tone::Dim => (None, Modifier::DIM),
            Tone::Error => (Some(Color::Red), Modifier::BOLD),
            Tone::Attention => (Some(Color::Yellow), Modifier::BOLD),
            Tone::Working => (Some(Color::Cyan), Modifier::empty()),
            Tone::Good => (Some(Color::Green), Modifier::empty()),
            Tone::Accent => (Some(Color::Magenta), Modifier::BOLD),
        };
        let style = Style::new().add_modifier(modifier);
        match colour {
            Some(colour) if self.colour => style.fg(colour),
            _ => style,
        }
    }

    /// Returns the style of a state's symbol at `now`. Only working and waiting pulse.
    pub fn pulse(&self, display: Display, now: i64) -> Style {
        let style = self.style(tone(display));
        let pulses = matches!(display, Display::Working | Display::Attention);
        if pulses && now.div_euclid(PULSE).rem_euclid(2) == 1 {
            style
                .remove_modifier(Modifier::BOLD)
                .add_modifier(Modifier::DIM)
        } else {
            style
        }
    }

    /// Shortens the home folder in a path to `~`.
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

/// The duration of half a pulse, in milliseconds.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn theme(pairs: &[(&str, &str)]) -> Theme {
        Theme::read(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides() {
        assert!(theme(&[("NO_COLOR", "")]).colour);
        assert!(!theme(&[("NO_COLOR", "1")]).colour);
    }

    #[test]
    fn home_is_written_short() {
        let theme = theme(&[("HOME", "/home/u")]);
        assert_eq!(theme.path("/home/u/x"), "~/x");
        assert_eq!(theme.path("/home/u"), "~");
        assert_eq!(theme.path("/home/user"), "/home/user");
    }
}
