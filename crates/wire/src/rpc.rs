//! Requests and responses: what becket's programs say to the daemon, and what it says back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::answer::Output;
use crate::envelope::encode_sent;
pub use crate::envelope::{
    CARRIED, CARRIED_BY_LINE, Cut, Envelope, EventFrame, EventRequest, WRONG, carried,
    encode_event, environment_block, read_environment,
};
use crate::frame::{self, Frame, FrameError, Kind};
pub use crate::log::{DecisionRow, EventQuery, EventRow, Shown, Source};
use crate::session::{SessionQuery, SessionRow};
use crate::{PROTOCOL, Version};

/// What a request or a response could not be read as.
#[derive(Debug)]
pub enum RpcError {
    /// A kind that this protocol does not have, or does not have here.
    UnknownKind(u8),
    /// Another protocol than ours.
    Protocol(u8),
    /// The body is not what its kind promises.
    Malformed(&'static str),
    Json(serde_json::Error),
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "a frame of the unknown kind {kind:#04x}"),
            Self::Protocol(number) => write!(f, "a frame of protocol {number}, not {PROTOCOL}"),
            Self::Malformed(what) => write!(f, "a malformed frame: {what}"),
            Self::Json(error) => write!(f, "a malformed frame: {error}"),
        }
    }
}

impl std::error::Error for RpcError {}

impl From<serde_json::Error> for RpcError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

pub(crate) fn too_long(_: FrameError) -> RpcError {
    RpcError::Malformed("too long for a frame")
}

/// What may be said to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An event of Claude Code's: judge it, keep it.
    Event(EventRequest),
    /// What Claude Code says for its status line: take the figures, and say what to print. It is no
    /// event: nothing is kept.
    StatusLine(EventRequest),
    /// The shim's whole environment, after `Hold { need_env }`: NAME=VALUE, each ended by NUL.
    Environment(Vec<u8>),
    /// Make room, if the one who asks is strictly newer. The same bytes in every protocol.
    Yield { protocol: u8, version: Version },
    /// Anything else that a person or a program wants to know or to have done.
    Ask(Ask),
}

/// What is asked of the daemon besides judging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Who are you, and how are you?
    Status,
    /// Take in the spool, and say when it is done.
    TakeIn,
    /// The log of events, oldest first; with `follow`, what comes after it too.
    Events(EventQuery),
    /// Sessions as they are now, those that need somebody first.
    Sessions(SessionQuery),
    /// The live sessions as they are now, and then every change.
    Watch,
    /// Give a session (its id, or a unique beginning of it) a title, or take it away.
    Name {
        session: String,
        title: Option<String>,
    },
    /// The person looks at this session now: its attention is `checked`.
    Seen(SeenAt),
    /// Colour the panes of a tmux server (its socket) by display state, or stop that.
    Paint { tmux_socket: String, on: bool },
    /// End, orderly.
    Stop,
}

/// What the person looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenAt {
    Session(String),
    Pane { tmux_socket: String, pane: String },
}

impl Request {
    pub fn to_frame(&self) -> Result<Vec<u8>, RpcError> {
        match self {
            Self::Event(event) => {
                encode_sent(Kind::EVENT, &event.envelope, event.sent, &event.payload)
            }
            Self::StatusLine(line) => {
                encode_sent(Kind::STATUS_LINE, &line.envelope, line.sent, &line.payload)
            }
            Self::Environment(block) => {
                frame::encode(Kind::ENVIRONMENT, &[block]).map_err(too_long)
            }
            Self::Yield { protocol, version } => frame::encode(
                Kind::YIELD,
                &[&[*protocol], &version.to_bits().to_le_bytes()],
            )
            .map_err(too_long),
            Self::Ask(ask) => {
                frame::encode(Kind::ASK, &[&serde_json::to_vec(ask)?]).map_err(too_long)
            }
        }
    }

    pub fn from_frame(frame: Frame) -> Result<Self, RpcError> {
        match frame.kind {
            Kind::EVENT => EventRequest::from_body(frame.body).map(Self::Event),
            Kind::STATUS_LINE => EventRequest::from_body(frame.body).map(Self::StatusLine),
            Kind::ENVIRONMENT => Ok(Self::Environment(frame.body)),
            Kind::YIELD => {
                let mut rest = &frame.body[..];
                let [protocol] = take(&mut rest)?;
                Ok(Self::Yield {
                    protocol,
                    version: Version::from_bits(u64::from_le_bytes(take(&mut rest)?)),
                })
            }
            Kind::ASK => Ok(Self::Ask(serde_json::from_slice(&frame.body)?)),
            Kind(other) => Err(RpcError::UnknownKind(other)),
        }
    }
}

/// What the daemon says.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// The decision: print this, exit so. `version` is the daemon's.
    Answer { version: Version, output: Output },
    /// The guards have passed, and named hooks are to run: wait so many milliseconds more. With
    /// `need_env` they wait for the environment, and none has begun; without it they run.
    Hold { for_ms: u32, need_env: bool },
    /// Too much at once: judge it alone.
    Busy,
    /// Another protocol, another namespace, or no reason to yield: judge it alone. `version` is the
    /// daemon's. The same bytes in every protocol.
    Refused { version: Version },
    /// The daemon ends and makes room. The same bytes in every protocol.
    Yielding,
    /// The answer to an [`Ask`].
    Told(Told),
    /// One event of the log.
    Row(Box<EventRow>),
}

/// Answers to an [`Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Status(Box<DaemonStatus>),
    /// Sessions, the most urgent first.
    Sessions(Vec<SessionRow>),
    /// A session is new or has changed. One that has `ended_at` leaves the live ones.
    Changed(Box<SessionRow>),
    /// It is done; a stream of rows has come to the present.
    Done,
    /// No session has an id that begins so.
    NoSuchSession(String),
    /// Several sessions have an id that begins so.
    Ambiguous(Vec<String>),
    /// It will not be done, and why.
    No(String),
}

/// How the daemon is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    pub pid: u32,
    pub version: Version,
    pub protocol: u8,
    pub socket: String,
    pub started_at: i64,
    /// Sessions that live now.
    pub sessions: u64,
    /// Events in the database.
    pub events: u64,
    pub counts: Counts,
    /// What a person should know: a damaged database that was set aside, a config that does not parse.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// It was told to end, and waits for its hooks.
    #[serde(default)]
    pub ending: bool,
}

/// What went past a bound or wrong since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Connections and events that were answered `Busy`.
    pub busy: u64,
    /// Peers of another user.
    pub strangers: u64,
    /// Peers in another namespace, or of another protocol.
    pub refused: u64,
    /// Frames that made no sense.
    pub garbage: u64,
    /// Events that came after their deadline and were only recorded.
    pub late: u64,
    /// Events that the database would not take and the spool did.
    pub to_spool: u64,
    /// Events that nothing could keep.
    pub lost: u64,
    /// Runs of hooks that nothing could keep.
    pub runs_lost: u64,
    /// Events taken in from the spool.
    pub taken_in: u64,
    /// Spool files that could not be read, set aside in `spool/bad`.
    pub spool_bad: u64,
    /// Events that came twice from two registrations.
    pub duplicates: u64,
    /// Calls of tmux that failed.
    pub tmux_failed: u64,
}

impl Response {
    pub fn to_frame(&self) -> Result<Vec<u8>, RpcError> {
        match self {
            Self::Answer { version, output } => frame::encode(
                Kind::ANSWER,
                &[
                    &version.to_bits().to_le_bytes(),
                    &[output.exit],
                    &(output.stdout.len() as u32).to_le_bytes(),
                    &output.stdout,
                    &output.stderr,
                ],
            ),
            Self::Hold { for_ms, need_env } => {
                frame::encode(Kind::HOLD, &[&for_ms.to_le_bytes(), &[u8::from(*need_env)]])
            }
            Self::Busy => frame::encode(Kind::BUSY, &[]),
            Self::Refused { version } => {
                frame::encode(Kind::REFUSED, &[&version.to_bits().to_le_bytes()])
            }
            Self::Yielding => frame::encode(Kind::YIELDING, &[]),
            Self::Told(told) => frame::encode(Kind::TOLD, &[&serde_json::to_vec(told)?]),
            Self::Row(row) => {
                let head = serde_json::to_vec(row)?;
                let kept = [u8::from(row.payload.is_some())];
                let payload = row.payload.as_deref().unwrap_or_default();
                frame::encode(
                    Kind::ROW,
                    &[&(head.len() as u32).to_le_bytes(), &head, &kept, payload],
                )
            }
        }
        .map_err(too_long)
    }

    pub fn from_frame(frame: Frame) -> Result<Self, RpcError> {
        let stable = matches!(frame.kind, Kind::REFUSED | Kind::YIELDING);
        if frame.protocol != PROTOCOL && !stable {
            return Err(RpcError::Protocol(frame.protocol));
        }
        let body = frame.body;
        match frame.kind {
            Kind::ANSWER => {
                let mut rest = &body[..];
                let version = Version::from_bits(u64::from_le_bytes(take(&mut rest)?));
                let [exit] = take(&mut rest)?;
                let len = u32::from_le_bytes(take(&mut rest)?) as usize;
                let (stdout, stderr) = rest.split_at_checked(len).ok_or(SHORT)?;
                let output = Output {
                    stdout: stdout.to_vec(),
                    stderr: stderr.to_vec(),
                    exit,
                };
                Ok(Self::Answer { version, output })
            }
            Kind::HOLD => {
                let mut rest = &body[..];
                let for_ms = u32::from_le_bytes(take(&mut rest)?);
                let [need_env] = take(&mut rest)?;
                Ok(Self::Hold {
                    for_ms,
                    need_env: need_env != 0,
                })
            }
            Kind::BUSY => Ok(Self::Busy),
            Kind::REFUSED => Ok(Self::Refused {
                version: Version::from_bits(u64::from_le_bytes(take(&mut &body[..])?)),
            }),
            Kind::YIELDING => Ok(Self::Yielding),
            Kind::TOLD => Ok(Self::Told(serde_json::from_slice(&body)?)),
            Kind::ROW => {
                let mut rest = &body[..];
                let len = u32::from_le_bytes(take(&mut rest)?) as usize;
                let (head, mut rest) = rest.split_at_checked(len).ok_or(SHORT)?;
                let [kept] = take(&mut rest)?;
                let mut row: EventRow = serde_json::from_slice(head)?;
                row.payload = (kept != 0).then(|| rest.to_vec());
                Ok(Self::Row(Box::new(row)))
            }
            Kind(other) => Err(RpcError::UnknownKind(other)),
        }
    }
}

pub(crate) const SHORT: RpcError = RpcError::Malformed("it ends too early");

pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RpcError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(SHORT)?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests;
