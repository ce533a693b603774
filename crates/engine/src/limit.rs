//! Usage limits: recognises their messages and reads the time of the reset. The forms of the time are those of
//! Claude Code 2.1.325, measured or read in the program, and of its predecessors.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::LazyLock;

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::Value;

use crate::stamp::open_regular;

/// The length of a transcript's end that is searched. A handful of short lines follows the message.
const TRANSCRIPT_END: u64 = 64 << 10;

/// Returns true if a turn that ended with this `error` (of StopFailure, or of a transcript's line) met a limit.
/// It may be one per minute that names no reset. `overloaded` is the server's state and passes in seconds;
/// `billing_error` has no end.
pub fn is_limit(error: &str) -> bool {
    error == "rate_limit"
}

/// Returns the time of the reset, in milliseconds since 1970, if `text` names one. `said_at` is the time of the
/// text; `zone` counts if the text names none. The text is rounded down to the minute, so the limit may hold up
/// to a minute longer.
pub fn reset(text: &str, said_at: i64, zone: &TimeZone) -> Option<i64> {
    if let Some(found) = UNIX_SECONDS.captures(text) {
        return found[1].parse::<i64>().ok()?.checked_mul(1000);
    }
    let said_at = Timestamp::from_millisecond(said_at).ok()?;
    let mut named = RESET_TIME.captures_iter(text);
    let reset = named.find_map(|named| named_time(&named, said_at, zone))?;
    Some(reset.as_millisecond())
}

/// Returns the end of the limit in the last answer of this transcript: to the second, in milliseconds since
/// 1970. Returns none if that answer is no limit, or the file cannot be read.
pub fn at_end(transcript: &Path) -> Option<i64> {
    let end = read_end(transcript).ok()?;
    let line = last_answer(&end)?;
    if line["isApiErrorMessage"] != true || !is_limit(line["error"].as_str()?) {
        return None;
    }
    line["quotaLimits"]["resetsAt"].as_i64()?.checked_mul(1000)
}

fn read_end(transcript: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_regular(transcript)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TRANSCRIPT_END)))?;
    let mut end = Vec::new();
    file.take(TRANSCRIPT_END).read_to_end(&mut end)?;
    Ok(end)
}

/// The old form: `Claude AI usage limit reached|1763300000`.
static UNIX_SECONDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"limit reached\|([0-9]{9,11})").expect("a valid pattern"));

/// `resets 3pm`, `reset at 3:30pm (Europe/Berlin)`, `resets Nov 20, 3pm`, `resets Jan 15, 2027,
/// 11:56am (UTC)`, `resets on December 1 at 00:00 UTC`, `resets Aug 8`.
static RESET_TIME: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"(?<month>[A-Z][a-z]{2,8}) (?<day>[0-9]{1,2})(?:, (?<year>[0-9]{4}))?";
    let time = r"(?<hour>[0-9]{1,2})(?::(?<minute>[0-9]{2}))?(?:[ \u{202f}]?(?<half>[apAP][mM]))?";
    let zone = r"(?: \((?<zone>[A-Za-z0-9/_+-]+)\)| (?<utc>UTC))?";
    let pattern = format!("resets? (?:at |on )?(?:{date})?(?:(?:,| at)? ?{time})?{zone}");
    Regex::new(&pattern).expect("a valid pattern")
});

fn named_time(named: &Captures<'_>, said_at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let zone = match named.name("zone") {
        Some(name) => TimeZone::get(name.as_str()).unwrap_or_else(|_| zone.clone()),
        None if named.name("utc").is_some() => TimeZone::UTC,
        None => zone.clone(),
    };
    let today = said_at.to_zoned(zone.clone()).date();
    let Some(month) = named.name("month") else {
        let time = time_of_day(named)?;
        let reset = instant(today.to_datetime(time), &zone)?;
        // The named minute may have begun.
        if reset + SignedDuration::from_mins(1) > said_at {
            return Some(reset);
        }
        return instant(today.tomorrow().ok()?.to_datetime(time), &zone);
    };
    let month = month_number(month.as_str())?;
    let day = number(named, "day")?;
    // A date without a time is in UTC.
    let (time, zone) = match named.name("hour") {
        Some(_) => (time_of_day(named)?, zone),
        None => (Time::midnight(), TimeZone::UTC),
    };
    if let Some(year) = number(named, "year") {
        return instant(Date::new(year, month, day).ok()?.to_datetime(time), &zone);
    }
    let date = Date::new(today.year(), month, day).ok()?;
    let this_year = instant(date.to_datetime(time), &zone)?;
    if this_year + SignedDuration::from_hours(24) >= said_at {
        return Some(this_year);
    }
    let date = Date::new(today.year() + 1, month, day).ok()?;
    instant(date.to_datetime(time), &zone)
}

/// Reads `3pm`, `3:30pm`, `15:30`; a bare number is no time.
fn time_of_day(named: &Captures<'_>) -> Option<Time> {
    let hour: i8 = number(named, "hour")?;
    let minute = number(named, "minute");
    let hour = match named.name("half") {
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(half) if half.as_str().eq_ignore_ascii_case("pm") => hour % 12 + 12,
        Some(_) => hour % 12,
        None => minute.map(|_: i8| hour)?,
    };
    Time::new(hour, minute.unwrap_or(0), 0, 0).ok()
}

/// Reads the name of a month, by its first three letters.
fn month_number(name: &str) -> Option<i8> {
    BrokenDownTime::parse("%b", &name[..3]).ok()?.month()
}

fn number<T: std::str::FromStr>(named: &Captures<'_>, group: &str) -> Option<T> {
    named.name(group)?.as_str().parse().ok()
}

fn instant(moment: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_timestamp(moment).ok()
}

/// Returns the last line of the main agent's answers. The first line of `end` may be cut: it does not parse,
/// and is ignored.
fn last_answer(end: &[u8]) -> Option<Value> {
    let lines = end.rsplit(|byte| *byte == b'\n');
    let mut parsed = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    parsed.find(|line| line["type"] == "assistant" && line["isSidechain"] != true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads `text` as said at `said_at`; the zone of the machine is two hours ahead of UTC.
    fn reset_of(text: &str, said_at: &str) -> String {
        let said_at: Timestamp = said_at.parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        match reset(text, said_at.as_millisecond(), &zone) {
            Some(at) => Timestamp::from_millisecond(at).unwrap().to_string(),
            None => "none".to_owned(),
        }
    }

    #[test]
    fn a_reset_is_read_in_each_form() {
        let said_at = "2026-11-16T11:56:38Z";
        let forms = [
            // Measured with 2.1.325.
            (
                "You've hit your 5-hour limit · resets 2:56pm (UTC)",
                "2026-11-16T14:56:00Z",
            ),
            (
                "You've hit your weekly limit · resets Nov 19, 9:56am (UTC)",
                "2026-11-19T09:56:00Z",
            ),
            (
                "You've hit your weekly limit · resets Jan 15, 2027, 11:56am (UTC)",
                "2027-01-15T11:56:00Z",
            ),
            // Read in 2.1.325.
            (
                "You've hit your Opus limit · resets 3pm (America/New_York) · progress saved",
                "2026-11-16T20:00:00Z",
            ),
            (
                "spend limit reached · resets Dec 1 · ask your lead",
                "2026-12-01T00:00:00Z",
            ),
            (
                "try again after it resets on December 1 at 00:00 UTC.",
                "2026-12-01T00:00:00Z",
            ),
            (
                "You've hit your monthly spend limit · your weekly limit resets 4pm (UTC)",
                "2026-11-16T16:00:00Z",
            ),
            // Of versions before.
            (
                "Claude AI usage limit reached|1763300000",
                "2025-11-16T13:33:20Z",
            ),
            ("5-hour limit reached ∙ resets 3pm", "2026-11-16T13:00:00Z"),
            (
                "limit reached ∙ resets Nov 20 at 3:30pm",
                "2026-11-20T13:30:00Z",
            ),
            (
                "Your limit will reset at 12am (UTC).",
                "2026-11-17T00:00:00Z",
            ),
            ("resets 3\u{202f}PM (No/Such)", "2026-11-16T13:00:00Z"),
        ];
        for (text, expected) in forms {
            assert_eq!(reset_of(text, said_at), expected, "{text}");
        }
    }

    #[test]
    fn a_time_of_day_is_the_next_one_and_the_named_minute_is_not_over() {
        let text = "resets 2:56pm (UTC)";
        assert_eq!(
            reset_of(text, "2026-11-16T14:56:59Z"),
            "2026-11-16T14:56:00Z"
        );
        assert_eq!(
            reset_of(text, "2026-11-16T14:57:00Z"),
            "2026-11-17T14:56:00Z"
        );
        let new_year = reset_of("resets Jan 2, 1am (UTC)", "2026-12-31T23:00:00Z");
        assert_eq!(new_year, "2027-01-02T01:00:00Z");
    }

    #[test]
    fn a_text_without_a_time_names_none() {
        let texts = [
            "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.",
            "API Error: Server is temporarily limiting requests (not your usage limit) · try later",
            "it resets next month",
            "Fast limit reached and temporarily disabled · resets in 8m",
            "resets 15",
            "resets 13pm",
            "resets 0am",
            "resets 25:00",
            "resets Feb 30, 3pm",
            "resets Foo 3, 3pm",
            "limit reached|12",
            "resets",
            "",
        ];
        for text in texts {
            assert_eq!(reset_of(text, "2026-11-16T11:56:38Z"), "none", "{text}");
        }
    }

    #[test]
    fn only_a_rate_limit_is_one() {
        assert!(is_limit("rate_limit"));
        for other in [
            "overloaded",
            "server_error",
            "billing_error",
            "unknown",
            "",
            "max_output_tokens",
        ] {
            assert!(!is_limit(other), "{other}");
        }
    }

    fn written(lines: &[Value]) -> Option<i64> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        at_end(&path)
    }

    #[test]
    fn the_message_is_found_at_the_end_of_a_transcript() {
        let text = "You've hit your weekly limit · resets Jan 15, 2027, 11:56am (UTC)";
        let limit = json!({
            "type": "assistant", "isSidechain": false, "timestamp": "2026-11-16T11:56:40.898Z",
            "message": {"model": "<synthetic>", "content": [{"type": "text", "text": text}]},
            "apiError": "usage_limit_reached", "error": "rate_limit", "isApiErrorMessage": true,
            "quotaLimits": {"status": "rejected", "resetsAt": 1_800_014_198},
        });
        let other = json!({"type": "system", "subtype": "turn_duration"});
        let answer =
            json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "ok"}]}});
        let child = json!({"type": "assistant", "isSidechain": true, "message": {}});
        let long = json!({"type": "user", "text": "x".repeat(2 * TRANSCRIPT_END as usize)});

        let lines = [
            long.clone(),
            answer.clone(),
            limit.clone(),
            child,
            other.clone(),
        ];
        assert_eq!(written(&lines), Some(1_800_014_198_000));
        assert_eq!(written(&[limit.clone(), other, answer]), None);
        let mut overloaded = limit.clone();
        overloaded["error"] = json!("overloaded");
        assert_eq!(written(&[overloaded]), None);
        assert_eq!(written(&[limit, long]), None, "too far from the end");
        assert_eq!(written(&[]), None);
    }
}
