//! Frames: a head of eight bytes, then a body of the length that the head names. Encoding and
//! decoding only; the blocking shim and the async daemon do their own reading and writing.
//!
//! ```text
//! "bk" · protocol (1) · kind (1) · length of the body (4, little endian) · body
//! ```
//!
//! The head never changes, whatever the protocol: it is how two versions find out that they differ.

use thiserror::Error;

use crate::version::PROTOCOL;

/// The longest payload of an event, and the limit for stdin.
pub const MAX_PAYLOAD: usize = 32 << 20;
/// The longest body: one payload and an envelope.
pub const MAX_BODY: usize = MAX_PAYLOAD + (1 << 20);
pub const HEAD: usize = 8;

const MAGIC: [u8; 2] = *b"bk";

/// The content of a frame. Requests are below 0x80, responses above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameKind(pub u8);

impl FrameKind {
    pub const EVENT: Self = Self(0x01);
    pub const ENVIRONMENT: Self = Self(0x02);
    pub const ASK: Self = Self(0x03);
    pub const YIELD: Self = Self(0x04);
    /// Like an event, but with the JSON of a status line.
    pub const STATUS_LINE: Self = Self(0x05);
    /// Follows an event in a spool file: the answer of the standalone process.
    pub const LEFT: Self = Self(0x10);
    pub const ANSWER: Self = Self(0x81);
    pub const HOLD: Self = Self(0x82);
    pub const BUSY: Self = Self(0x83);
    pub const REFUSED: Self = Self(0x84);
    pub const REPLY: Self = Self(0x85);
    pub const ROW: Self = Self(0x86);
    pub const YIELDING: Self = Self(0x87);
}

/// The head of a frame: the kind and the length of what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHead {
    pub protocol: u8,
    pub kind: FrameKind,
    pub len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The first bytes are not those of becket.
    #[error("not a becket frame")]
    NotAFrame,
    /// The body would be longer than [`MAX_BODY`].
    #[error("a frame of {0} bytes is over the bound of {MAX_BODY}")]
    TooLong(usize),
}

impl FrameHead {
    pub fn encode(kind: FrameKind, len: usize) -> Result<[u8; HEAD], FrameError> {
        if len > MAX_BODY {
            return Err(FrameError::TooLong(len));
        }
        let size = (len as u32).to_le_bytes();
        Ok([
            MAGIC[0], MAGIC[1], PROTOCOL, kind.0, size[0], size[1], size[2], size[3],
        ])
    }

    pub fn decode(head: [u8; HEAD]) -> Result<Self, FrameError> {
        let [m0, m1, protocol, kind, l0, l1, l2, l3] = head;
        if [m0, m1] != MAGIC {
            return Err(FrameError::NotAFrame);
        }
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if len > MAX_BODY {
            return Err(FrameError::TooLong(len));
        }
        Ok(Self {
            protocol,
            kind: FrameKind(kind),
            len,
        })
    }
}

/// A whole frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub protocol: u8,
    pub kind: FrameKind,
    pub body: Vec<u8>,
}

/// Puts one frame together from the parts of its body.
pub fn encode(kind: FrameKind, parts: &[&[u8]]) -> Result<Vec<u8>, FrameError> {
    let len = parts.iter().map(|part| part.len()).sum();
    let mut frame = Vec::with_capacity(HEAD + len);
    frame.extend_from_slice(&FrameHead::encode(kind, len)?);
    for part in parts {
        frame.extend_from_slice(part);
    }
    Ok(frame)
}

/// Collects bytes as they arrive and returns frames as they are complete. It never holds more than one frame
/// and what was pushed after it.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// The start of the next frame in the buffer.
    start: usize,
}

impl Decoder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole frame, if it has arrived.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some(head) = rest.first_chunk::<HEAD>() else {
            let seen = rest.len().min(MAGIC.len());
            return if rest[..seen] == MAGIC[..seen] {
                Ok(None)
            } else {
                Err(FrameError::NotAFrame)
            };
        };
        let head = FrameHead::decode(*head)?;
        let Some(body) = rest[HEAD..].get(..head.len) else {
            return Ok(None);
        };
        let frame = Frame {
            protocol: head.protocol,
            kind: head.kind,
            body: body.to_vec(),
        };
        self.start += HEAD + head.len;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_frames_cut_anywhere_come_back_whole(
            bodies in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..300)), 0..6),
            cuts in prop::collection::vec(1usize..50, 1..40),
        ) {
            let mut stream = Vec::new();
            for (kind, body) in &bodies {
                stream.extend(encode(FrameKind(*kind), &[body]).unwrap());
            }
            let mut decoder = Decoder::new();
            let mut seen = Vec::new();
            let mut rest = &stream[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                decoder.push(now);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    seen.push((frame.kind.0, frame.body));
                }
                rest = later;
            }
            prop_assert_eq!(decoder.start, decoder.buffer.len());
            prop_assert_eq!(seen, bodies);
        }

        #[test]
        fn garbage_is_an_error_or_a_wait_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut decoder = Decoder::new();
            decoder.push(&bytes);
            if let Ok(Some(frame)) = decoder.next_frame() {
                prop_assert!(frame.body.len() <= bytes.len());
                prop_assert_eq!(&bytes[..2], b"bk");
            }
        }
    }

    #[test]
    fn a_length_over_the_bound_is_refused_before_its_body() {
        let mut head = FrameHead::encode(FrameKind::EVENT, 0).unwrap();
        head[4..].copy_from_slice(&(MAX_BODY as u32 + 1).to_le_bytes());
        assert_eq!(
            FrameHead::decode(head),
            Err(FrameError::TooLong(MAX_BODY + 1))
        );
        assert_eq!(
            FrameHead::encode(FrameKind::EVENT, MAX_BODY + 1),
            Err(FrameError::TooLong(MAX_BODY + 1))
        );
    }

    #[test]
    fn one_wrong_byte_is_enough() {
        let mut decoder = Decoder::new();
        decoder.push(b"H");
        assert_eq!(decoder.next_frame(), Err(FrameError::NotAFrame));
    }
}
