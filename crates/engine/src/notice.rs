//! Notices: for a session that needs its user, that is done after long work, or that ran a call which becket
//! had denied. This module makes their text and picks the way; the callers write to the terminal and run the
//! command.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use becket_wire::Head;
use becket_wire::event::EventName;
use becket_wire::rpc::Envelope;
use becket_wire::session::{Display, SessionRow};
use jiff::civil::Time;

use crate::local_time;
use crate::process::Program;
use crate::session::{Session, SessionEvent};
use crate::statusline::clean as plain;

/// The longest text in a notice, in characters.
const MAX_CHARS: usize = 120;

/// The subject of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    Attention,
    Done,
    Error,
    /// A call ran that becket had denied.
    RanDenied,
}

impl NoticeKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Done => "done",
            Self::Error => "error",
            Self::RanDenied => "ran-denied",
        }
    }
}

/// A change of a session's display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayChange {
    pub session: String,
    pub before: Display,
    pub after: Display,
    /// The time of the change: milliseconds since 1970.
    pub at: i64,
    /// The time of the user's last prompt.
    pub prompted_at: Option<i64>,
    pub attended: bool,
    /// True if the session has ended or the user interrupted the turn: the user knows that it is done.
    pub by_person: bool,
    pub project: Option<String>,
    pub title: Option<String>,
    /// The question to the user, or the reason of a failure.
    pub reason: Option<String>,
}

/// A notice to the user, by the terminal of Claude Code or by a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    pub session: String,
    pub project: Option<String>,
    /// The subject of a sentence that `text` continues. Neither has control characters.
    pub title: String,
    pub text: String,
    /// The escape sequence for the terminal, if the event's answer can carry it.
    pub sequence: Option<String>,
    /// The command that the daemon runs if the terminal cannot be reached.
    pub command: Option<Program>,
}

impl Notice {
    /// Returns the variables for the command's environment.
    pub fn variables(&self) -> [(&'static str, String); 5] {
        let project = self.project.as_deref().unwrap_or_default();
        [
            ("BECKET_NOTICE_TITLE", self.title.clone()),
            ("BECKET_NOTICE_TEXT", self.text.clone()),
            ("BECKET_NOTICE_KIND", self.kind.word().to_owned()),
            ("BECKET_NOTICE_SESSION", plain(&self.session)),
            ("BECKET_NOTICE_PROJECT", plain(project)),
        ]
    }
}

impl DisplayChange {
    /// Compares a session with its display before. Returns none if that is the same.
    pub fn of(before: Display, session: &Session, at: i64) -> Option<Self> {
        let (after, ..) = session.display();
        (before != after).then(|| Self {
            session: session.session_id.clone(),
            before,
            after,
            at,
            prompted_at: session.prompted_at,
            attended: session.attended,
            by_person: session.ended_at.is_some() || session.main.interrupted,
            project: session.project.clone(),
            title: session.title.clone(),
            reason: session.doing(),
        })
    }

    /// Makes the change that an event alone shows, without knowledge of its session: a question to the user.
    pub fn alone(head: &Head<'_>, envelope: &Envelope, project: Option<&Path>) -> Option<Self> {
        let project = project.and_then(Path::to_str);
        let event = SessionEvent::new(head, envelope).in_project(project);
        let mut session = Session::new(head.session_id.as_deref()?, event.at);
        let before = session.display().0;
        session.apply(&event);
        Self::of(before, &session, event.at)
    }

    /// Returns the subject of the notice for this change, if it deserves one.
    fn kind(&self, settings: &NoticeSettings) -> Option<NoticeKind> {
        let lasted = self.lasted().zip(settings.after);
        let long = lasted.is_some_and(|(lasted, after)| lasted > after.as_millis() as i64);
        match (self.before, self.after) {
            _ if !self.attended => None,
            (before, Display::Attention) if before != Display::Attention => {
                Some(NoticeKind::Attention)
            }
            _ if self.by_person => None,
            (Display::Working, Display::Done) if long => Some(NoticeKind::Done),
            (Display::Working | Display::Checked, Display::Error) if long => {
                Some(NoticeKind::Error)
            }
            _ => None,
        }
    }

    /// Returns the milliseconds since the user's last prompt.
    fn lasted(&self) -> Option<i64> {
        Some(self.at.saturating_sub(self.prompted_at?))
    }

    fn title(&self) -> String {
        let project = self.project.as_deref().and_then(folder);
        match project.map(clean).filter(|name| !name.is_empty()) {
            Some(name) => format!("Claude Code in {name}"),
            None => "Claude Code".to_owned(),
        }
    }

    fn text(&self, kind: NoticeKind) -> String {
        let lasted = span(self.lasted().unwrap_or(0));
        let reason = self.reason.as_deref().map(clean).unwrap_or_default();
        let mut text = match (kind, &*reason) {
            (NoticeKind::Attention, "") => "is waiting for you".to_owned(),
            (NoticeKind::Attention, reason) => format!("is waiting for you: {reason}"),
            (NoticeKind::Done, _) => format!("is done after {lasted}"),
            (NoticeKind::Error, "") => format!("failed after {lasted}"),
            (NoticeKind::Error, reason) => format!("failed after {lasted}: {reason}"),
            (NoticeKind::RanDenied, tool) => format!("ran a {tool} call that becket had denied"),
        };
        if let Some(title) = self.title.as_deref().map(clean).filter(|it| !it.is_empty()) {
            text = format!("{text} ({title})");
        }
        text
    }
}

/// Makes the notice for a change, given the event that made it (none if it was inferred) and the local time of
/// day in minutes.
pub fn for_change(
    settings: &NoticeSettings,
    change: &DisplayChange,
    event: Option<&EventName>,
    minute: u16,
) -> Option<Notice> {
    // The main agent goes on with the result of a subagent.
    if event == Some(&EventName::SubagentStop) {
        return None;
    }
    notice(settings, change.kind(settings)?, change, event, minute)
}

/// Makes the notice of a call that ran though becket had denied it. No event's answer carries it.
pub fn for_ran_denied(
    settings: &NoticeSettings,
    session: &SessionRow,
    tool: &str,
    minute: u16,
) -> Option<Notice> {
    let change = DisplayChange {
        session: session.session_id.clone(),
        before: session.display,
        after: session.display,
        at: session.last_activity,
        prompted_at: None,
        attended: session.attended,
        by_person: false,
        project: session.project.clone(),
        title: session.title.clone(),
        reason: Some(tool.to_owned()),
    };
    notice(settings, NoticeKind::RanDenied, &change, None, minute)
}

fn notice(
    settings: &NoticeSettings,
    kind: NoticeKind,
    change: &DisplayChange,
    event: Option<&EventName>,
    minute: u16,
) -> Option<Notice> {
    let wanted = settings.for_project(change.project.as_deref()).wants(kind);
    let quiet = settings.quiet.is_some_and(|quiet| quiet.covers(minute));
    if !wanted || quiet {
        return None;
    }
    let (title, text) = (change.title(), change.text(kind));
    let sequence = event
        .filter(|event| is_shown(event))
        .and_then(|_| settings.how.sequence(&title, &text));
    let command = match sequence {
        Some(_) => None,
        None => settings.command.clone(),
    };
    (sequence.is_some() || command.is_some()).then(|| Notice {
        kind,
        session: change.session.clone(),
        project: change.project.clone(),
        title,
        text,
        sequence,
        command,
    })
}

/// Returns the local time of day, in minutes.
pub fn minute_of_day(at_ms: i64) -> u16 {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    minutes(at.to_zoned(local_time::zone()).time())
}

fn minutes(time: Time) -> u16 {
    time.hour().unsigned_abs() as u16 * 60 + time.minute().unsigned_abs() as u16
}

/// Returns true if Claude Code passes escape sequences in the answer to this event to the terminal (measured
/// with 2.1.325). The question of an interactive tool, such as AskUserQuestion, begins with PreToolUse.
fn is_shown(event: &EventName) -> bool {
    matches!(
        event,
        EventName::PreToolUse
            | EventName::PermissionRequest
            | EventName::Elicitation
            | EventName::Stop
    )
}

/// Makes one line of bounded length without characters that a terminal obeys. Titles and project names may come
/// from strangers.
fn clean(text: &str) -> String {
    let words = text.split_whitespace().map(plain);
    let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn span(ms: i64) -> String {
    let seconds = ms / 1000;
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests;

/// The settings of the section `[notice]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoticeSettings {
    pub on: NoticeFilter,
    pub how: NoticeChannel,
    pub command: Option<Program>,
    /// The time from which finished work is reported; `None` is never.
    pub after: Option<Duration>,
    pub quiet: Option<QuietHours>,
    /// The values in place of `on`, by a project's folder or its name.
    pub projects: BTreeMap<String, NoticeFilter>,
}

/// The kinds of notices that the user wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoticeFilter {
    #[default]
    Off,
    Attention,
    Done,
    All,
}

impl NoticeFilter {
    pub fn wants(self, kind: NoticeKind) -> bool {
        match (self, kind) {
            (Self::Off, _) => false,
            (Self::All, _) => true,
            (Self::Attention, kind) => {
                matches!(kind, NoticeKind::Attention | NoticeKind::RanDenied)
            }
            (Self::Done, kind) => matches!(kind, NoticeKind::Done | NoticeKind::Error),
        }
    }

    /// Returns true if this means fewer notices than the other.
    pub fn is_less_than(self, other: Self) -> bool {
        self != other && (self == Self::Off || other == Self::All)
    }
}

/// The way of a notice, if the terminal can be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoticeChannel {
    #[default]
    Bell,
    Osc9,
    Osc777,
    /// Never by the terminal.
    Command,
}

impl NoticeChannel {
    /// Returns the escape sequence. OSC 9 takes a sentence, which must not begin with a digit; OSC 777 takes
    /// title and text, with a semicolon between them.
    fn sequence(self, title: &str, text: &str) -> Option<String> {
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

/// The hours without notices, in minutes of the day. They may span midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietHours {
    from: u16,
    to: u16,
}

impl QuietHours {
    /// Reads `22:00-07:00` or `never`.
    pub fn read(text: &str) -> Result<Option<Self>, String> {
        if text == "never" {
            return Ok(None);
        }
        let hours = text
            .split_once('-')
            .and_then(|(from, to)| minute(from).zip(minute(to)));
        match hours {
            Some((from, to)) if from != to => Ok(Some(Self { from, to })),
            _ => Err(format!(
                "expected hours like \"22:00-07:00\" or \"never\", found {text:?}"
            )),
        }
    }

    pub fn covers(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// Reads a time of day like `7:30`, in minutes.
fn minute(text: &str) -> Option<u16> {
    Time::strptime("%H:%M", text.trim()).ok().map(minutes)
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

words!(NoticeFilter: "off" = Off, "attention" = Attention, "done" = Done, "all" = All);
words!(NoticeChannel: "bell" = Bell, "osc9" = Osc9, "osc777" = Osc777, "command" = Command);

impl NoticeSettings {
    /// Picks the setting for a project. The longest matching folder wins, then the project name, then `on`.
    pub fn for_project(&self, project: Option<&str>) -> NoticeFilter {
        let Some(project) = project else {
            return self.on;
        };
        let by_folder = self
            .projects
            .keys()
            .filter(|named| {
                let named = Path::new(named.as_str());
                named.is_absolute() && Path::new(project).starts_with(named)
            })
            .max_by_key(|named| named.len());
        let named = by_folder.map(String::as_str).or_else(|| folder(project));
        let own = named.and_then(|named| self.projects.get(named));
        own.copied().unwrap_or(self.on)
    }
}

/// Returns the name of a project: that of its folder.
fn folder(project: &str) -> Option<&str> {
    Path::new(project).file_name()?.to_str()
}
