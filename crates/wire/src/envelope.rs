//! One event on its way from the shim: what the shim knows of it, and the payload untouched.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};

use crate::frame::{FrameHead, HEAD, Kind};
use crate::rpc::{RpcError, SHORT, Source, take, too_long};
use crate::{EventId, Version};

/// What the shim knows of an event besides its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub id: EventId,
    /// When the shim was started: milliseconds since 1970.
    pub at: i64,
    pub version: Version,
    /// `--event` of the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// `--from` of the registration: settings, plugin, run, sdk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The becket home that the shim works for.
    pub home: String,
    /// Claude Code's process (`CLAUDE_PID`), else the shim's parent.
    pub pid: u32,
    /// Its start time in clock ticks since boot: a pid alone is used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_start: Option<u64>,
    /// Whether `pid` is Claude Code's own word. A parent pid never chains or ends a session.
    #[serde(default)]
    pub pid_is_claude: bool,
    /// The parent of `pid`, where `BECKET_LAUNCH` is set: `becket run` is the parent of the Claude
    /// Code that it started, and of no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_parent: Option<u32>,
    /// The variables of `CARRIED` that were set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Set when the payload is not all that was sent. It stands in the frame beside the envelope,
    /// which is written before the payload is read.
    #[serde(skip)]
    pub cut: Option<Cut>,
}

/// The environment variables that an envelope carries.
pub const CARRIED: [&str; 8] = [
    "TMUX",
    "TMUX_PANE",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_ENV_FILE",
    "AGENT_ID",
    LAUNCH,
];

/// Names the `becket run` that started Claude Code: `<pid>:<start time>`, the latter in clock ticks
/// since boot.
pub const LAUNCH: &str = "BECKET_LAUNCH";

/// The variables that the envelope of a status line carries besides.
pub const CARRIED_BY_LINE: [&str; 2] = ["COLUMNS", "NO_COLOR"];

/// Where the envelope of a status line says what else is wrong. No variable of that name is carried,
/// so no environment can say it.
pub const WRONG: &str = "wrong";

/// How long one may be: an environment must not push an event out of its frame.
const MAX_VARIABLE: usize = 8 << 10;

/// The variables of an environment that an envelope carries: those that all do, and these.
pub fn carried(
    environment: impl Iterator<Item = (OsString, OsString)>,
    besides: &[&str],
) -> BTreeMap<String, String> {
    let wanted = |name: &str| CARRIED.contains(&name) || besides.contains(&name);
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| wanted(name) && name.len() + value.len() <= MAX_VARIABLE)
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .collect()
}

/// A whole environment, as `Environment` carries it: NAME=VALUE, each ended by NUL.
pub fn environment_block(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in environment {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            block.extend_from_slice(part);
        }
    }
    block
}

/// The variables of such a block; what is none is passed over.
pub fn read_environment(block: &[u8]) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let variable = |line: &[u8]| {
        let equals = line.iter().position(|byte| *byte == b'=')?;
        (equals > 0).then(|| (text(&line[..equals]), text(&line[equals + 1..])))
    };
    let lines = block.split(|byte| *byte == 0);
    lines.filter_map(variable).collect()
}

const ATTENDED: &str = "CLAUDE_CODE_SESSION_ATTENDED";

impl Envelope {
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Which road the event took, for the daemon that it reached.
    pub fn source(&self) -> Source {
        match self.from.as_deref() {
            Some("replay") => Source::Replay,
            _ => Source::Daemon,
        }
    }

    /// Whether a person attends; unknown is yes.
    pub fn attended(&self) -> bool {
        self.variable(ATTENDED) != Some("0")
    }

    /// Whether the event comes from the Claude Code that a `becket run` started itself. A `claude -p`
    /// that the session starts inherits the variable, but not the parent.
    pub fn is_launched(&self) -> bool {
        let launch = self
            .variable(LAUNCH)
            .and_then(|launch| launch.split_once(':'));
        let launcher = launch.and_then(|(pid, _)| pid.parse().ok());
        self.pid_is_claude && launcher.is_some() && launcher == self.pid_parent
    }

    /// Whether Claude Code says so, one way or the other: older ones do not.
    pub fn knows_attended(&self) -> bool {
        self.variable(ATTENDED).is_some()
    }
}

/// Why a payload is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It was longer than the bound; what stood before the bound is kept.
    TooLong,
    /// stdin neither brought anything nor ended; what came is kept.
    NeverEnded,
}

/// One event on its way: envelope and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRequest {
    pub envelope: Envelope,
    /// When the frame was sent: milliseconds since 1970.
    pub sent: i64,
    /// As Claude Code gave it.
    pub payload: Vec<u8>,
}

/// The frame of an event, made in one buffer: head, envelope, and then the payload as it comes.
///
/// ```text
/// head · sent (8) · cut (1) · length of the envelope (4) · envelope · payload
/// ```
#[derive(Debug)]
pub struct EventFrame(Vec<u8>);

/// Where the envelope begins.
const ENVELOPE: usize = HEAD + 8 + 1 + 4;

impl EventFrame {
    pub fn begin(envelope: &Envelope) -> Result<Self, RpcError> {
        // An event of ordinary size fits without growing.
        let mut bytes = Vec::with_capacity(8 << 10);
        bytes.resize(ENVELOPE, 0);
        serde_json::to_writer(&mut bytes, envelope)?;
        let len = (bytes.len() - ENVELOPE) as u32;
        bytes[ENVELOPE - 4..ENVELOPE].copy_from_slice(&len.to_le_bytes());
        Ok(Self(bytes))
    }

    /// Where the payload is appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// The whole frame, of the kind `EVENT` or `STATUS_LINE`.
    pub fn finish(mut self, kind: Kind, sent: i64, cut: Option<Cut>) -> Result<Vec<u8>, RpcError> {
        let head = FrameHead::encode(kind, self.0.len() - HEAD).map_err(too_long)?;
        self.0[..HEAD].copy_from_slice(&head);
        self.0[HEAD..HEAD + 8].copy_from_slice(&sent.to_le_bytes());
        self.0[HEAD + 8] = match cut {
            None => 0,
            Some(Cut::TooLong) => 1,
            Some(Cut::NeverEnded) => 2,
        };
        Ok(self.0)
    }
}

impl EventRequest {
    pub(crate) fn from_body(mut body: Vec<u8>) -> Result<Self, RpcError> {
        let mut rest = &body[..];
        let sent = i64::from_le_bytes(take(&mut rest)?);
        let [cut] = take(&mut rest)?;
        let len = u32::from_le_bytes(take(&mut rest)?) as usize;
        let envelope = rest.get(..len).ok_or(SHORT)?;
        let mut envelope: Envelope = serde_json::from_slice(envelope)?;
        envelope.cut = match cut {
            0 => None,
            1 => Some(Cut::TooLong),
            _ => Some(Cut::NeverEnded),
        };
        body.drain(..ENVELOPE - HEAD + len);
        Ok(Self {
            envelope,
            sent,
            payload: body,
        })
    }
}

/// The whole frame of an event that is there already.
pub fn encode_event(envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>, RpcError> {
    encode_sent(Kind::EVENT, envelope, envelope.at, payload)
}

pub(crate) fn encode_sent(
    kind: Kind,
    envelope: &Envelope,
    sent: i64,
    payload: &[u8],
) -> Result<Vec<u8>, RpcError> {
    let mut frame = EventFrame::begin(envelope)?;
    frame.buffer().extend_from_slice(payload);
    frame.finish(kind, sent, envelope.cut)
}
