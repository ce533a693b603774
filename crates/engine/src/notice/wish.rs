//! What a person wants to be told, as the configuration says it.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use super::Kind;
use crate::run::Program;

/// `[notice]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    pub on: On,
    pub how: How,
    pub command: Option<Program>,
    /// Work that took longer is told of when it is done; `None` is never.
    pub after: Option<Duration>,
    pub quiet: Option<Quiet>,
    /// What holds instead of `on`, by a project's folder or its name.
    pub projects: BTreeMap<String, On>,
}

/// What is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum On {
    #[default]
    Off,
    Attention,
    Done,
    All,
}

impl On {
    pub fn wants(self, kind: Kind) -> bool {
        match (self, kind) {
            (Self::Off, _) => false,
            (Self::All, _) => true,
            (Self::Attention, kind) => kind == Kind::Attention,
            (Self::Done, kind) => kind != Kind::Attention,
        }
    }

    /// Whether this tells less than the other.
    pub fn is_less_than(self, other: Self) -> bool {
        self != other && (self == Self::Off || other == Self::All)
    }
}

/// By what way, where the terminal is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum How {
    #[default]
    Bell,
    Osc9,
    Osc777,
    /// Never by the terminal.
    Command,
}

impl How {
    /// What the terminal gets. OSC 9 takes a sentence, which must not begin with a digit; OSC 777
    /// takes title and text, with a semicolon between them.
    pub(super) fn sequence(self, title: &str, text: &str) -> Option<String> {
        match self {
            Self::Bell => Some("\u{7}".to_owned()),
            Self::Osc9 => Some(format!("\u{1b}]9;{title} {text}\u{7}")),
            Self::Osc777 => {
                let title = title.replace(';', ",");
                Some(format!("\u{1b}]777;notify;{title};{text}\u{7}"))
            }
            Self::Command => None,
        }
    }
}

/// Hours of the day in which nothing is told, in minutes. They may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    from: u16,
    to: u16,
}

impl Quiet {
    /// Reads `22:00-07:00`; `never` is none.
    pub fn read(text: &str) -> Result<Option<Self>, String> {
        let wrong = || format!("expected hours like \"22:00-07:00\" or \"never\", found {text:?}");
        if text == "never" {
            return Ok(None);
        }
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minute(from), minute(to));
        match (from, to) {
            (Some(from), Some(to)) if from != to => Ok(Some(Self { from, to })),
            _ => Err(wrong()),
        }
    }

    pub fn covers(self, minute: u16) -> bool {
        match self.from < self.to {
            true => (self.from..self.to).contains(&minute),
            false => minute >= self.from || minute < self.to,
        }
    }
}

/// The minute of the day of `7:30`.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str, most: u16| -> Option<u16> {
        let digits = (1..=2).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
        let number = text.parse().ok().filter(|number| *number <= most);
        number.filter(|_| digits)
    };
    Some(number(hour, 23)? * 60 + number(minute, 59)?)
}

macro_rules! words {
    ($type:ident: $($word:literal = $value:ident),*) => {
        impl $type {
            pub const WORDS: &[&str] = &[$($word),*];
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$value),)*
                    _ => Err(format!("expected one of {}, found {text:?}", Self::WORDS.join(", "))),
                }
            }
        }
    };
}

words!(On: "off" = Off, "attention" = Attention, "done" = Done, "all" = All);
words!(How: "bell" = Bell, "osc9" = Osc9, "osc777" = Osc777, "command" = Command);

impl Wishes {
    /// What holds for a project: the longest folder that it is in, else its name, else `on`.
    pub fn for_project(&self, project: Option<&str>) -> On {
        let Some(project) = project else {
            return self.on;
        };
        let inside = |named: &&String| {
            let named = Path::new(named.as_str());
            named.is_absolute() && Path::new(project).starts_with(named)
        };
        let by_folder = self
            .projects
            .keys()
            .filter(inside)
            .max_by_key(|it| it.len());
        let named = by_folder.map(String::as_str).or_else(|| folder(project));
        let own = named.and_then(|named| self.projects.get(named));
        own.copied().unwrap_or(self.on)
    }
}

/// The name of a project: its folder's.
pub(super) fn folder(project: &str) -> Option<&str> {
    Path::new(project).file_name()?.to_str()
}
