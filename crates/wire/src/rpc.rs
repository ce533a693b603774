//! Requests and responses: what becket's programs say to the daemon, and what it says back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use crate::answer::Output;
use crate::frame::{self, Frame, FrameError, Kind};
use crate::{EventId, Version};

/// What a request or a response could not be read as.
#[derive(Debug)]
pub enum RpcError {
    /// A kind that this protocol does not have, or does not have here.
    UnknownKind(u8),
    /// The body is not what its kind promises.
    Malformed(&'static str),
    Json(serde_json::Error),
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(f, "a frame of the unknown kind {kind:#04x}"),
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
    /// `--from` of the registration: settings, plugin, run.
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
    /// The variables of `CARRIED` and `BECKET_*` that were set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// Set when the payload is not all that was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

/// The environment variables that an envelope carries, besides `BECKET_*`.
pub const CARRIED: [&str; 6] = [
    "TMUX_PANE",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_ENV_FILE",
    "AGENT_ID",
];

/// The variables of an environment that an envelope carries.
pub fn carried(
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<String, String> {
    let wanted = |name: &str| CARRIED.contains(&name) || name.starts_with("BECKET_");
    environment
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| wanted(name))
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

impl Envelope {
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Whether a person attends; unknown is yes.
    pub fn attended(&self) -> bool {
        self.variable("CLAUDE_CODE_SESSION_ATTENDED") != Some("0")
    }
}

/// Why a payload is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// As Claude Code gave it.
    pub payload: Vec<u8>,
}

impl EventRequest {
    pub fn to_frame(&self) -> Result<Vec<u8>, RpcError> {
        encode_event(&self.envelope, &self.payload)
    }

    fn from_body(mut body: Vec<u8>) -> Result<Self, RpcError> {
        let (len, rest) = body
            .split_first_chunk::<4>()
            .ok_or(RpcError::Malformed("no envelope"))?;
        let len = u32::from_le_bytes(*len) as usize;
        let envelope = rest
            .get(..len)
            .ok_or(RpcError::Malformed("an envelope without its end"))?;
        let envelope = serde_json::from_slice(envelope)?;
        body.drain(..4 + len);
        Ok(Self {
            envelope,
            payload: body,
        })
    }
}

/// The frame of an event, without a copy of the payload beside it.
pub fn encode_event(envelope: &Envelope, payload: &[u8]) -> Result<Vec<u8>, RpcError> {
    let envelope = serde_json::to_vec(envelope)?;
    let len = (envelope.len() as u32).to_le_bytes();
    frame::encode(Kind::EVENT, &[&len, &envelope, payload]).map_err(too_long)
}

fn too_long(_: FrameError) -> RpcError {
    RpcError::Malformed("too long for a frame")
}

/// What may be said to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// An event of Claude Code's: judge it, keep it.
    Event(EventRequest),
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
    /// End, orderly.
    Stop,
}

/// Which events are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventQuery {
    /// The session’s id, whole; the daemon completes a beginning.
    pub session: Option<String>,
    pub event: Option<String>,
    pub tool: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<i64>,
    pub id: Option<EventId>,
    /// Only what has a higher seq.
    pub after: Option<i64>,
    /// The newest so many; all, if absent.
    pub limit: Option<u32>,
    pub follow: bool,
    /// Double registrations too.
    pub duplicates: bool,
}

impl EventQuery {
    /// Whether an event is one of those asked for.
    pub fn wants(&self, row: &EventRow) -> bool {
        let is = |want: &Option<String>, have: &Option<String>| want.is_none() || want == have;
        is(&self.session, &row.session_id)
            && is(&self.event, &row.event)
            && is(&self.tool, &row.tool)
            && self.since.is_none_or(|since| row.at >= since)
            && self.id.is_none_or(|id| row.id == id)
            && self.after.is_none_or(|after| row.seq > after)
            && (self.duplicates || row.duplicate_of.is_none())
    }
}

impl Request {
    pub fn to_frame(&self) -> Result<Vec<u8>, RpcError> {
        match self {
            Self::Event(event) => event.to_frame(),
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// The decision: print this, exit so. `version` is the daemon's.
    Answer { version: Version, output: Output },
    /// The guards have passed and named hooks run: wait so many milliseconds more.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    Status(Box<DaemonStatus>),
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
    /// Events in memory, because neither database nor spool took them.
    pub in_memory: u64,
    /// Events that nothing could keep.
    pub lost: u64,
    /// Events taken in from the spool.
    pub taken_in: u64,
    /// Spool files that could not be read, set aside in `spool/bad`.
    pub spool_bad: u64,
    /// Events that came twice from two registrations.
    pub duplicates: u64,
}

/// One event as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRow {
    pub seq: i64,
    pub id: EventId,
    /// Milliseconds since 1970.
    pub at: i64,
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
    pub event: Option<String>,
    pub tool: Option<String>,
    pub decision: Option<DecisionRow>,
    /// From arrival to the answer's readiness; none if nobody was answered.
    pub took_us: Option<i64>,
    pub source: Source,
    /// How many secrets were masked.
    pub masked: i64,
    /// Why the payload is not an event: not JSON, cut.
    #[serde(default)]
    pub fault: Option<String>,
    /// The event that this one repeats (a double registration).
    #[serde(default)]
    pub duplicate_of: Option<i64>,
    /// As it came, but for masked secrets; none once retention dropped it.
    #[serde(skip)]
    pub payload: Option<Vec<u8>>,
}

/// What was answered, and on whose account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRow {
    pub answer: String,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// Which road an event took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Daemon,
    Alone,
    Replay,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Alone => "alone",
            Self::Replay => "replay",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Daemon, Self::Alone, Self::Replay]
            .into_iter()
            .find(|source| source.as_str() == name)
    }
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

const SHORT: RpcError = RpcError::Malformed("it ends too early");

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], RpcError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(SHORT)?;
    *rest = tail;
    Ok(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Decoder;

    fn decode(bytes: &[u8]) -> Frame {
        let mut decoder = Decoder::new();
        decoder.push(bytes);
        decoder.next_frame().unwrap().unwrap()
    }

    #[test]
    fn an_event_keeps_its_bytes() {
        let envelope = Envelope {
            id: EventId::new(5, [7; 2]),
            at: 5,
            version: Version::current(),
            event: Some("Stop".into()),
            from: None,
            home: "/h".into(),
            pid: 4,
            pid_start: Some(9),
            pid_is_claude: true,
            variables: BTreeMap::from([("TMUX_PANE".into(), "%3".into())]),
            cut: Some(Cut::TooLong),
        };
        let request = Request::Event(EventRequest {
            envelope,
            payload: b"\0\xff{".to_vec(),
        });
        assert_eq!(
            Request::from_frame(decode(&request.to_frame().unwrap())).unwrap(),
            request
        );
    }

    #[test]
    fn responses_come_back_as_they_were() {
        let row = EventRow {
            seq: 1,
            id: EventId::new(5, [7; 2]),
            at: 5,
            session_id: None,
            agent_id: None,
            event: Some("Stop".into()),
            tool: None,
            decision: Some(DecisionRow {
                answer: "deny".into(),
                by: None,
                reason: Some("no".into()),
            }),
            took_us: Some(3),
            source: Source::Alone,
            masked: 0,
            fault: None,
            duplicate_of: None,
            payload: Some(vec![0, 255]),
        };
        let version = Version::current();
        for response in [
            Response::Answer {
                version,
                output: Output {
                    stdout: b"{}".to_vec(),
                    stderr: b"e".to_vec(),
                    exit: 2,
                },
            },
            Response::Hold {
                for_ms: 5,
                need_env: true,
            },
            Response::Busy,
            Response::Refused { version },
            Response::Yielding,
            Response::Told(Told::No("why".into())),
            Response::Row(Box::new(EventRow {
                payload: None,
                ..row.clone()
            })),
            Response::Row(Box::new(row)),
        ] {
            assert_eq!(
                Response::from_frame(decode(&response.to_frame().unwrap())).unwrap(),
                response
            );
        }
    }

    #[test]
    fn a_short_body_is_an_error() {
        for kind in [0x01, 0x81, 0x82, 0x84, 0x85, 0x86, 0x99] {
            for body in [&b""[..], b"\x05\0\0\0", b"\xff\xff\xff\xff\0"] {
                let frame = Frame {
                    protocol: 1,
                    kind: Kind(kind),
                    body: body.to_vec(),
                };
                if kind < 0x80 {
                    assert!(Request::from_frame(frame).is_err());
                } else if kind != 0x82 || body.len() < 5 {
                    assert!(Response::from_frame(frame).is_err(), "{kind:#x} {body:?}");
                }
            }
        }
    }
}
