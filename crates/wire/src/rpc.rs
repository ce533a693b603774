//! Requests of becket's programs to the daemon, and its responses.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::answer::Output;
use crate::effort::{EffortAsk, EffortTold};
use crate::frame::{self, Frame, FrameError, FrameHead, FrameKind, HEAD};
pub use crate::log::{AnswerWord, DecisionRow, EventQuery, EventRow, FollowCursor, Source};
use crate::question::{AnsweredIn, PersonAnswer, QuestionRow};
use crate::session::{SessionQuery, SessionRow};
use crate::{EventId, PROTOCOL, Version};

/// The reason why a frame is no request or response.
#[derive(Debug, Error)]
pub enum RpcError {
    /// A kind that this protocol does not have in this direction.
    #[error("a frame of the unknown kind {0:#04x}")]
    UnknownKind(u8),
    /// A protocol other than becket's.
    #[error("a frame of protocol {0}, not {PROTOCOL}")]
    Protocol(u8),
    /// A body that does not fit its kind.
    #[error("a malformed frame: {0}")]
    Malformed(&'static str),
    #[error("a malformed frame: {0}")]
    Json(serde_json::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl From<serde_json::Error> for RpcError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

/// The reason why the daemon did not answer. The shim hands it to the standalone process, and the spool keeps
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoAnswer {
    /// No daemon listens.
    #[error("absent")]
    Absent,
    /// The daemon did not answer in time.
    #[error("slow")]
    Slow,
    /// The daemon has too much to do.
    #[error("busy")]
    Busy,
    /// The daemon has another protocol, or runs in another namespace. The version is the daemon's.
    #[error("refused")]
    Refused(Version),
    /// The stream ended, or brought data that is no answer.
    #[error("broken")]
    Broken,
    /// The listener belongs to another user.
    #[error("stranger")]
    Stranger,
    /// `BECKET_NO_DAEMON` is set.
    #[error("unwanted")]
    Unwanted,
}

/// A request to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Judge and keep an event of Claude Code.
    Event(EventRequest),
    /// Take the figures of a status line, and return the text to print. A status line is no event and is not
    /// kept.
    StatusLine(EventRequest),
    /// The shim's whole environment, after `Hold { need_env }`: NAME=VALUE, each ended by NUL.
    Environment(Vec<u8>),
    /// End, if the client is strictly newer. The same bytes in every protocol.
    Yield { protocol: u8, version: Version },
    /// Any other request of a user or a program.
    Ask(Ask),
}

/// A request to the daemon besides judging.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Report the state of the daemon.
    Status,
    /// Take in the spool, and report when it is done.
    TakeIn,
    /// The log of events, oldest first; with `follow`, what comes after it too.
    Events(EventQuery),
    /// The sessions as they are now, in no order.
    Sessions(SessionQuery),
    /// The live sessions as they are now, and then every change.
    Watch,
    /// Give a session (its id, or a unique prefix of it) a title, or remove it.
    Name {
        session: String,
        title: Option<String>,
    },
    /// The user looks at this session now: its attention is `checked`.
    Seen(SeenAt),
    /// Colour the panes of a tmux server (its socket) by display state, or stop.
    Paint { tmux_socket: String, on: bool },
    /// The questions that wait for a person, oldest first.
    Questions,
    /// The answer of a person to the question with this number.
    Answer {
        id: i64,
        answer: PersonAnswer,
        via: AnsweredIn,
    },
    /// Tasks, efforts, logs.
    Effort(Box<EffortAsk>),
    /// End after the running hooks have ended.
    Stop,
}

/// The session that the user looks at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenAt {
    Session(String),
    Pane { tmux_socket: String, pane: String },
}

impl Request {
    pub fn to_frame(&self) -> Result<Vec<u8>, RpcError> {
        match self {
            Self::Event(event) => event.to_frame(FrameKind::EVENT),
            Self::StatusLine(line) => line.to_frame(FrameKind::STATUS_LINE),
            Self::Environment(block) => Ok(frame::encode(FrameKind::ENVIRONMENT, &[block])?),
            Self::Yield { protocol, version } => Ok(frame::encode(
                FrameKind::YIELD,
                &[&[*protocol], &version.to_bits().to_le_bytes()],
            )?),
            Self::Ask(ask) => Ok(frame::encode(FrameKind::ASK, &[&serde_json::to_vec(ask)?])?),
        }
    }

    pub fn from_frame(frame: Frame) -> Result<Self, RpcError> {
        match frame.kind {
            FrameKind::EVENT => EventRequest::from_body(frame.body).map(Self::Event),
            FrameKind::STATUS_LINE => EventRequest::from_body(frame.body).map(Self::StatusLine),
            FrameKind::ENVIRONMENT => Ok(Self::Environment(frame.body)),
            FrameKind::YIELD => {
                let mut rest = &frame.body[..];
                let [protocol] = take(&mut rest)?;
                Ok(Self::Yield {
                    protocol,
                    version: Version::from_bits(u64::from_le_bytes(take(&mut rest)?)),
                })
            }
            FrameKind::ASK => Ok(Self::Ask(serde_json::from_slice(&frame.body)?)),
            FrameKind(other) => Err(RpcError::UnknownKind(other)),
        }
    }
}

/// A response of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub enum Response {
    /// The output and the exit code for Claude Code. `version` is the daemon's.
    Answer { version: Version, output: Output },
    /// The guards have passed, and named hooks are to run: wait this many milliseconds more. With `need_env`
    /// the hooks wait for the environment, and none has begun; without it they run.
    Hold { for_ms: u32, need_env: bool },
    /// The daemon has too much to do: go standalone.
    Busy,
    /// Another protocol, another namespace, or no reason to yield: go standalone. `version` is the daemon's.
    /// The same bytes in every protocol.
    Refused { version: Version },
    /// The daemon ends. The same bytes in every protocol.
    Yielding,
    /// The answer to an [`Ask`].
    Reply(AskReply),
    /// One event of the log.
    Row(Box<EventRow>),
}

/// The answer to an [`Ask`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskReply {
    Status(Box<DaemonStatus>),
    /// Sessions, in no order.
    Sessions(Vec<SessionRow>),
    /// A new or changed session. One with `ended_at` is no longer live.
    Changed(Box<SessionRow>),
    Questions(Vec<QuestionRow>),
    Effort(Box<EffortTold>),
    /// The request is done, or a stream of rows has reached the present.
    Done,
    /// No session has an id with this prefix.
    NoSuchSession(String),
    /// Several sessions have an id with this prefix.
    Ambiguous(Vec<String>),
    /// The request was refused, for this reason.
    Refused(String),
}

/// Finds the one session whose id begins with the typed text, in upper or lower case: Claude Code keeps the
/// case of an id that the user chose. A whole id wins over longer ones.
pub fn complete_session<'a>(
    typed: &str,
    ids: impl Iterator<Item = &'a str>,
) -> Result<String, AskReply> {
    let found: BTreeSet<&str> = ids
        .filter(|id| {
            id.get(..typed.len())
                .is_some_and(|prefix| prefix.eq_ignore_ascii_case(typed))
        })
        .collect();
    let whole = found.get(typed);
    let whole = whole.or_else(|| found.iter().find(|id| id.len() == typed.len()));
    match (whole, found.first(), found.len()) {
        (Some(id), ..) | (None, Some(id), 1) => Ok((*id).to_owned()),
        (None, None, _) => Err(AskReply::NoSuchSession(typed.to_owned())),
        _ => Err(AskReply::Ambiguous(
            found.into_iter().map(str::to_owned).collect(),
        )),
    }
}

/// The state of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    pub pid: u32,
    pub version: Version,
    pub protocol: u8,
    pub socket: String,
    pub started_at: i64,
    /// The number of live sessions.
    pub sessions: u64,
    /// The number of events in the database.
    pub events: u64,
    pub counts: Counts,
    /// Problems that the user should know: a damaged database that was set aside, a config that does not parse.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// True if the daemon was told to end, and waits for its hooks.
    #[serde(default)]
    pub ending: bool,
}

/// The numbers of refusals and failures since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Connections and events that were answered `Busy`.
    pub busy: u64,
    /// Peers of another user.
    pub strangers: u64,
    /// Peers in another namespace, or of another protocol.
    pub refused: u64,
    /// Frames that could not be read.
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
        Ok(match self {
            Self::Answer { version, output } => frame::encode(
                FrameKind::ANSWER,
                &[
                    &version.to_bits().to_le_bytes(),
                    &[output.exit],
                    &(output.stdout.len() as u32).to_le_bytes(),
                    &output.stdout,
                    &output.stderr,
                ],
            ),
            Self::Hold { for_ms, need_env } => frame::encode(
                FrameKind::HOLD,
                &[&for_ms.to_le_bytes(), &[u8::from(*need_env)]],
            ),
            Self::Busy => frame::encode(FrameKind::BUSY, &[]),
            Self::Refused { version } => {
                frame::encode(FrameKind::REFUSED, &[&version.to_bits().to_le_bytes()])
            }
            Self::Yielding => frame::encode(FrameKind::YIELDING, &[]),
            Self::Reply(told) => frame::encode(FrameKind::REPLY, &[&serde_json::to_vec(told)?]),
            Self::Row(row) => {
                let head = serde_json::to_vec(row)?;
                let kept = [u8::from(row.payload.is_some())];
                let payload = row.payload.as_deref().unwrap_or_default();
                frame::encode(
                    FrameKind::ROW,
                    &[&(head.len() as u32).to_le_bytes(), &head, &kept, payload],
                )
            }
        }?)
    }

    pub fn from_frame(frame: Frame) -> Result<Self, RpcError> {
        let stable = matches!(frame.kind, FrameKind::REFUSED | FrameKind::YIELDING);
        if frame.protocol != PROTOCOL && !stable {
            return Err(RpcError::Protocol(frame.protocol));
        }
        let body = frame.body;
        match frame.kind {
            FrameKind::ANSWER => {
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
            FrameKind::HOLD => {
                let mut rest = &body[..];
                let for_ms = u32::from_le_bytes(take(&mut rest)?);
                let [need_env] = take(&mut rest)?;
                Ok(Self::Hold {
                    for_ms,
                    need_env: need_env != 0,
                })
            }
            FrameKind::BUSY => Ok(Self::Busy),
            FrameKind::REFUSED => Ok(Self::Refused {
                version: Version::from_bits(u64::from_le_bytes(take(&mut &body[..])?)),
            }),
            FrameKind::YIELDING => Ok(Self::Yielding),
            FrameKind::REPLY => Ok(Self::Reply(serde_json::from_slice(&body)?)),
            FrameKind::ROW => {
                let mut rest = &body[..];
                let len = u32::from_le_bytes(take(&mut rest)?) as usize;
                let (head, mut rest) = rest.split_at_checked(len).ok_or(SHORT)?;
                let [kept] = take(&mut rest)?;
                let mut row: EventRow = serde_json::from_slice(head)?;
                row.payload = (kept != 0).then(|| rest.to_vec());
                Ok(Self::Row(Box::new(row)))
            }
            FrameKind(other) => Err(RpcError::UnknownKind(other)),
        }
    }
}

pub(crate) const SHORT: RpcError = RpcError::Malformed("it ends too early");

pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RpcError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(SHORT)?;
    *rest = tail;
    Ok(*head)
}

/// The facts that the shim adds to the payload of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    pub id: EventId,
    /// The start time of the shim: milliseconds since 1970.
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
    /// Its start time in clock ticks since boot, because the system uses a pid again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_start: Option<u64>,
    /// True if `pid` comes from Claude Code. A parent pid never chains or ends a session.
    #[serde(default)]
    pub pid_is_claude: bool,
    /// The parent of `pid`, where `BECKET_LAUNCH` is set: `becket run` is the parent of the Claude
    /// Code that it started, and of no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_parent: Option<u32>,
    /// The variables of `CARRIED` that were set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Set if the payload was cut. The frame has it beside the envelope, which is written before the payload is
    /// read.
    #[serde(skip)]
    pub cut: Option<Cut>,
}

/// The environment variables that an envelope carries.
pub const CARRIED: [&str; 9] = [
    AGENT,
    "TMUX",
    "TMUX_PANE",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_ENV_FILE",
    "AGENT_ID",
    LAUNCH,
];

/// The variable that names the `becket run` which started Claude Code: `<pid>:<start time>`, the latter in
/// clock ticks since boot. With `--restart` it ends in `:restart`.
pub const LAUNCH: &str = "BECKET_LAUNCH";

/// The variables that only the envelope of a status line carries.
pub const CARRIED_BY_LINE: [&str; 2] = ["COLUMNS", "NO_COLOR"];

/// The entry of a status line's envelope for other problems. No variable of that name is carried, so no
/// environment can set it.
pub const WRONG: &str = "wrong";

/// The entry of a status line's envelope that is shown beneath the user's own. The daemon answers with both if
/// it has the output of the user's program for the same input, else with `Busy`, and the caller runs the
/// program.
pub const BESIDE: &str = "beside";

/// The entry with the output of the user's status line program, for the daemon to keep.
pub const SHOWN: &str = "shown";

/// The longest variable: an environment must not push an event out of its frame.
const MAX_VARIABLE: usize = 8 << 10;

/// Returns the variables of an environment that an envelope carries: [`CARRIED`] and `besides`.
pub fn carried(
    environment: impl Iterator<Item = (OsString, OsString)>,
    besides: &[&str],
) -> BTreeMap<String, String> {
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| CARRIED.contains(&name.as_str()) || besides.contains(&name.as_str()))
        .filter(|(name, value)| name.len() + value.len() <= MAX_VARIABLE)
        .map(|(name, value)| (name, value.to_string_lossy().into_owned()))
        .collect()
}

/// Writes an environment as `Environment` carries it: NAME=VALUE, each ended by NUL.
pub fn environment_block(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in environment {
        for part in [name.as_bytes(), b"=", value.as_bytes(), b"\0"] {
            block.extend_from_slice(part);
        }
    }
    block
}

/// Reads the variables of such a block. It ignores lines that are not variables.
pub fn read_environment(block: &[u8]) -> Vec<(OsString, OsString)> {
    block
        .split(|byte| *byte == 0)
        .filter_map(read_variable)
        .collect()
}

fn read_variable(line: &[u8]) -> Option<(OsString, OsString)> {
    let equals = line.iter().position(|byte| *byte == b'=')?;
    if equals == 0 {
        return None;
    }
    let (name, value) = (&line[..equals], &line[equals + 1..]);
    Some((
        OsString::from_vec(name.to_vec()),
        OsString::from_vec(value.to_vec()),
    ))
}

const ATTENDED: &str = "CLAUDE_CODE_SESSION_ATTENDED";
/// The variable that names the program of the session and its version: `claude-code_2-1-325_harness`.
const AGENT: &str = "AI_AGENT";
/// The first version of Claude Code that is known to show its dialog while a PermissionRequest hook runs.
const DIALOG_RACES: [u32; 3] = [2, 1, 325];

impl Envelope {
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the source of an event that reached the daemon.
    pub fn source(&self) -> Source {
        match self.from.as_deref() {
            Some("replay") => Source::Replay,
            _ => Source::Daemon,
        }
    }

    /// Returns true if a user attends the session, or if that is unknown.
    pub fn attended(&self) -> bool {
        self.variable(ATTENDED) != Some("0")
    }

    /// Returns true if Claude Code shows its dialog while the hook of a PermissionRequest runs. An unknown program
    /// or an older version may wait for the hook first, and its user would see no dialog.
    pub fn shows_dialog_beside_hook(&self) -> bool {
        let version = self.variable(AGENT).and_then(|agent| {
            let version = agent.strip_prefix("claude-code_")?.split('_').next()?;
            let parts: Vec<u32> = version
                .split('-')
                .map_while(|part| part.parse().ok())
                .collect();
            <[u32; 3]>::try_from(parts).ok()
        });
        version.is_some_and(|version| version >= DIALOG_RACES)
    }

    /// Returns true if the event comes from the Claude Code that a `becket run` started itself. A `claude -p`
    /// that the session starts inherits the variable, but not the parent.
    pub fn is_launched(&self) -> bool {
        let launch = self
            .variable(LAUNCH)
            .and_then(|launch| launch.split_once(':'));
        let launcher = launch.and_then(|(pid, _)| pid.parse().ok());
        self.pid_is_claude && launcher.is_some() && launcher == self.pid_parent
    }

    /// Returns the launch that started this Claude Code itself.
    pub fn launch(&self) -> Option<&str> {
        self.variable(LAUNCH).filter(|_| self.is_launched())
    }

    /// Returns true if that launch starts a fresh Claude Code when the context is full.
    pub fn restarts(&self) -> bool {
        self.launch()
            .is_some_and(|launch| launch.ends_with(":restart"))
    }

    /// Returns true if Claude Code tells whether a user attends. Older ones do not.
    pub fn knows_attended(&self) -> bool {
        self.variable(ATTENDED).is_some()
    }
}

/// The reason why a payload is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It was longer than the limit. The bytes before the limit are kept.
    TooLong,
    /// Stdin neither brought data nor ended. The bytes that came are kept.
    NeverEnded,
}

/// One event on its way: envelope and payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRequest {
    pub envelope: Envelope,
    /// The time when the frame was sent: milliseconds since 1970.
    pub sent: i64,
    /// The payload as Claude Code sent it.
    pub payload: Vec<u8>,
}

/// The frame of an event, made in one buffer: head, envelope, and then the payload as it comes.
///
/// ```text
/// head · sent (8) · cut (1) · length of the envelope (4) · envelope · payload
/// ```
#[derive(Debug)]
pub struct EventFrame(Vec<u8>);

/// The start of the envelope in the frame.
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

    /// Returns the buffer to append the payload to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// Returns the whole frame, of the kind `EVENT` or `STATUS_LINE`.
    pub fn finish(
        mut self,
        kind: FrameKind,
        sent: i64,
        cut: Option<Cut>,
    ) -> Result<Vec<u8>, RpcError> {
        let head = FrameHead::encode(kind, self.0.len() - HEAD)?;
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
    fn to_frame(&self, kind: FrameKind) -> Result<Vec<u8>, RpcError> {
        let mut frame = EventFrame::begin(&self.envelope)?;
        frame.buffer().extend_from_slice(&self.payload);
        frame.finish(kind, self.sent, self.envelope.cut)
    }

    fn from_body(mut body: Vec<u8>) -> Result<Self, RpcError> {
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

/// Encodes the frame of a complete event.
pub fn encode_event(envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>, RpcError> {
    let mut frame = EventFrame::begin(envelope)?;
    frame.buffer().extend_from_slice(payload);
    frame.finish(FrameKind::EVENT, envelope.at, envelope.cut)
}

#[cfg(test)]
mod tests;
