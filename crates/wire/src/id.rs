//! The id of one event: 128 bits, ordered by time. The first program that sees the event makes it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A UUID of version 7: 48 bits of milliseconds, 12 bits of fractions of one, then random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId([u8; 16]);

impl EventId {
    /// Makes an id from the time in milliseconds since 1970 and two random numbers.
    pub fn new(at_ms: i64, random: [u64; 2]) -> Self {
        let time = at_ms.max(0).to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&time[2..]);
        bytes[6..8].copy_from_slice(&random[0].to_ne_bytes()[..2]);
        bytes[8..].copy_from_slice(&random[1].to_ne_bytes());
        bytes[6] = 0x70 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        Self(bytes)
    }

    /// Makes an id from the time since 1970, with a resolution of a quarter of a microsecond: two events of one
    /// millisecond keep their order.
    pub fn at(since: Duration, random: [u64; 2]) -> Self {
        let mut id = Self::new(since.as_millis() as i64, random);
        let part = u64::from(since.subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
        id.0[6] = 0x70 | (part >> 8) as u8;
        id.0[7] = part as u8;
        id
    }

    /// Returns the first and the last id with this prefix, with or without hyphens; none if no id can have it.
    pub fn beginning(prefix: &str) -> Option<(Self, Self)> {
        let digits: Vec<u8> = prefix.bytes().filter(|&c| c != b'-').collect();
        let (mut first, mut last) = ([0; 16], [0; 16]);
        for place in 0..32.max(digits.len()) {
            let (low, high) = match digits.get(place) {
                Some(&digit) => hex(digit).map(|value| (value, value))?,
                None => (0, 15),
            };
            *first.get_mut(place / 2)? |= low << (4 * (1 - place % 2));
            *last.get_mut(place / 2)? |= high << (4 * (1 - place % 2));
        }
        Some((Self(first), Self(last)))
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the time of the event: milliseconds since 1970.
    pub fn at_ms(&self) -> i64 {
        let mut time = [0; 8];
        time[2..].copy_from_slice(&self.0[..6]);
        i64::from_be_bytes(time)
    }
}

impl EventId {
    /// Returns the text of the id. It is written by hand, because `format!` took a twentieth of the daemon's time
    /// for an event.
    fn text(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = String::with_capacity(36);
        for (i, byte) in self.0.into_iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        text
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not an event id (32 hex digits in five groups)")]
pub struct NotAnId;

impl FromStr for EventId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        parse_uuid(text).map(Self).ok_or(NotAnId)
    }
}

/// Reads a hyphenated UUID of any version. Claude Code's ids become part of a path only after they passed here.
pub fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    if text.len() != 36 || [8, 13, 18, 23].iter().any(|&i| text[i] != b'-') {
        return None;
    }
    let mut digits = text.iter().filter(|&&c| c != b'-');
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = hex(*digits.next()?)? << 4 | hex(*digits.next()?)?;
    }
    digits.next().is_none().then_some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|d| d as u8)
}

impl Serialize for EventId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_time_and_order() {
        let early = EventId::new(1_700_000_000_000, [u64::MAX; 2]);
        let late = EventId::new(1_700_000_000_001, [0; 2]);
        assert_eq!(early.at_ms(), 1_700_000_000_000);
        assert!(early < late);
        assert!(early.to_string() < late.to_string());
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(&early.to_string()[14..15], "7");
    }

    #[test]
    fn keeps_the_order_within_a_millisecond() {
        let at = |nanos| EventId::at(Duration::new(1_700_000_000, nanos), [u64::MAX, 5]);
        let ids = [0, 400, 999_999, 1_000_000, 1_000_300, 999_999_999].map(at);
        assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]));
        assert_eq!(ids[2].at_ms(), 1_700_000_000_000);
        assert_eq!(ids[3].at_ms(), 1_700_000_000_001);
        assert_eq!(&ids[5].to_string()[14..15], "7");
    }

    #[test]
    fn a_prefix_means_all_ids_that_begin_with_it() {
        let id: EventId = "0190a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b".parse().unwrap();
        for part in ["", "0", "0190A1B2-c3d", "0190a1b2c3d4", &id.to_string()] {
            let (first, last) = EventId::beginning(part).unwrap();
            assert!((first..=last).contains(&id), "{part}");
        }
        let (first, last) = EventId::beginning("0190a1b2-c3d5").unwrap();
        assert!(id < first && first < last);
        for part in ["x", "0190a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b0"] {
            assert!(EventId::beginning(part).is_none(), "{part}");
        }
    }

    #[test]
    fn refuses_other_texts() {
        for text in [
            "",
            "../x",
            "0190a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2",
            "0190a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2g",
            "0190a1b2cc3d4c7e5fc8a6bc7c8d9e0f1a2b",
        ] {
            assert!(parse_uuid(text).is_none(), "{text}");
        }
    }
}
