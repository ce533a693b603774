//! An event to try a hook on: recorded here, in a file, or one that becket brings along.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use becket_engine::hooks::Hook;
use becket_wire::event::EventName;
use becket_wire::rpc::{EventQuery, EventRow};
use becket_wire::{EventId, Head};

use super::Bench;
use crate::failure::{Code, Failure};
use crate::log;

/// So many recorded events of a kind are looked at for one that a hook wants.
const LOOKED_AT: u32 = 200;
/// No event is longer.
const LONGEST: u64 = 32 << 20;

#[derive(Debug, Clone)]
pub struct Sample {
    pub event: EventName,
    pub payload: Vec<u8>,
    pub from: From,
}

/// Where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// The log. Secrets in it were masked.
    Log {
        id: EventId,
        at: i64,
        masked: i64,
    },
    File(PathBuf),
    BuiltIn,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// Events as Claude Code really sent them, one or a few of each kind.
        const BUILT_IN: &[&str] = &[
            $(include_str!(concat!("../../../wire/fixtures/", $name, ".json")),)*
        ];
    };
}

built_in![
    "PreToolUse.Bash",
    "PreToolUse.Write",
    "PreToolUse.Edit",
    "PreToolUse.Read",
    "PostToolUse.Write",
    "PostToolUse.Edit",
    "PostToolUse.Bash",
    "PostToolUse.Read",
    "PostToolUseFailure.Bash",
    "PostToolBatch",
    "PermissionRequest.Bash",
    "UserPromptSubmit",
    "SessionStart.startup",
    "SessionEnd.other",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact.manual",
    "PostCompact.manual",
    "Notification.idle_prompt.tui",
];

/// Where those were recorded.
const RECORDED_IN: &str = "/home/user/project";

/// Those that becket brings along, as if they came from this project.
fn built_in(project: &Path) -> impl Iterator<Item = Sample> {
    let here = serde_json::to_string(&project.to_string_lossy()).unwrap_or_default();
    let here = here.trim_matches('"').to_owned();
    BUILT_IN.iter().filter_map(move |text| {
        let payload = text.replace(RECORDED_IN, &here).into_bytes();
        Sample::read(payload, From::BuiltIn)
    })
}

impl Sample {
    /// None if the payload does not say which event it is.
    fn read(payload: Vec<u8>, from: From) -> Option<Self> {
        let event = Head::read(&payload).ok()?.event?.as_ref().into();
        Some(Self {
            event,
            payload,
            from,
        })
    }

    /// The same of a recorded event whose payload is kept.
    pub fn of(row: EventRow) -> Option<Self> {
        let from = From::Log {
            id: row.id,
            at: row.at,
            masked: row.masked,
        };
        Self::read(row.payload?, from)
    }

    pub fn id(&self) -> Option<EventId> {
        match self.from {
            From::Log { id, .. } => Some(id),
            _ => None,
        }
    }

    pub fn tool(&self) -> Option<String> {
        let head = Head::read(&self.payload).ok()?;
        head.tool.map(std::borrow::Cow::into_owned)
    }

    /// The event, and the tool that it is about.
    pub fn name(&self) -> String {
        let tool = self.tool();
        let words = [Some(self.event.as_str()), tool.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl Bench<'_> {
    /// The event with this id, else the one in this file.
    pub fn sample(&self, meant: &str) -> Result<Sample> {
        match meant.parse() {
            Ok(id) => self.recorded(id),
            Err(_) => from_file(&self.world.cwd.join(meant)),
        }
    }

    fn recorded(&self, id: EventId) -> Result<Sample> {
        let query = EventQuery {
            id: Some(id),
            duplicates: true,
            ..EventQuery::default()
        };
        let row = log::read(self.world, query)?.pop().ok_or_else(|| {
            let failure = Failure::new(Code::Missing, format!("no event has the id {id}"));
            failure.hint("becket events --json shows the ids of events")
        })?;
        let kept = row.payload.is_some();
        Sample::of(row).ok_or_else(|| {
            let why = if kept {
                "is no event of Claude Code's"
            } else {
                "was kept without its payload"
            };
            Failure::new(Code::Failed, format!("the event {id} {why}")).into()
        })
    }

    /// The newest recorded event of this project that the hook wants, else one that becket brings
    /// along; none if none fits.
    pub fn sample_for(&self, hook: &Hook) -> Result<Option<Sample>> {
        let mut newest: Option<(i64, Sample)> = None;
        for event in &hook.on {
            let query = EventQuery {
                event: Some(event.as_str().to_owned()),
                limit: Some(LOOKED_AT),
                ..EventQuery::default()
            };
            let rows = log::read(self.world, query)?.into_iter().rev();
            let rows = rows.take_while(|row| newest.as_ref().is_none_or(|(at, _)| row.at > *at));
            let found = rows
                .filter_map(|row| Some((row.at, Sample::of(row)?)))
                .find(|(_, sample)| self.is_from_here(sample) && self.wants(hook, sample));
            newest = found.or(newest);
        }
        let built_in = || built_in(&self.project).find(|sample| self.wants(hook, sample));
        Ok(newest.map(|(_, sample)| sample).or_else(built_in))
    }

    fn is_from_here(&self, sample: &Sample) -> bool {
        let head = Head::read(&sample.payload).unwrap_or_default();
        let cwd = head.cwd.as_deref().map(Path::new);
        cwd.is_some_and(|cwd| cwd.starts_with(&self.project))
    }
}

fn from_file(path: &Path) -> Result<Sample> {
    let unreadable = |why: io::Error| {
        let code = match why.kind() {
            ErrorKind::NotFound => Code::Missing,
            _ => Code::Failed,
        };
        let what = format!("could not read the event {}: {why}", path.display());
        Failure::new(code, what).hint("--event takes a file, or the id of a recorded event")
    };
    let mut payload = Vec::new();
    // What is no plain file does not say how long it is.
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(LONGEST + 1).read_to_end(&mut payload);
    if read.map_err(unreadable)? as u64 > LONGEST {
        let what = format!("{} is longer than any event (32 MiB)", path.display());
        let failure = Failure::new(Code::Failed, what);
        return Err(failure.hint("--event takes a file with one event").into());
    }
    Sample::read(payload, From::File(path.to_path_buf())).ok_or_else(|| {
        let what = format!("{} is no event: it has no hook_event_name", path.display());
        Failure::new(Code::Failed, what)
            .hint("becket events --raw prints events as they came")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_its_end() {
        let error = from_file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "/dev/zero is longer than any event (32 MiB)");
    }

    #[test]
    fn every_event_that_comes_along_is_one_of_this_project() {
        let project = Path::new("/srv/a \"b\" ä");
        let samples: Vec<Sample> = built_in(project).collect();
        assert_eq!(samples.len(), BUILT_IN.len());
        for sample in samples {
            let head = Head::read(&sample.payload).unwrap();
            assert_eq!(head.cwd.as_deref(), project.to_str(), "{}", sample.name());
            assert!(sample.event.as_str().len() > 3);
        }
    }
}
