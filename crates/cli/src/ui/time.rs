//! Parses and formats moments and durations for people.

use std::time::Duration;

use becket_daemon::lifecycle::now_ms;
use jiff::SpanRelativeTo;
use serde::Serializer;

/// Parses a duration before now (`10m`, `2h`, `3d`) or a moment (`2026-11-15T08:00:00Z`). Returns
/// milliseconds since 1970.
pub fn since(text: &str) -> Result<i64, String> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(moment.as_millisecond());
    }
    if let Ok(local) = text.parse::<jiff::civil::DateTime>()
        && let Ok(zoned) = local.to_zoned(becket_engine::local_time::zone())
    {
        return Ok(zoned.timestamp().as_millisecond());
    }
    let span = parse_span(text).map_err(|_| {
        "neither a span like 10m, 2h or 3d nor a moment like 2026-11-15T08:00:00Z".to_owned()
    })?;
    let span = i64::try_from(span.as_millis()).ok();
    let since = span.and_then(|span| now_ms().checked_sub(span));
    since.ok_or_else(|| "too long a span".to_owned())
}

/// Parses a duration (`30s`, `5m`, `2h`).
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let span = text.parse::<jiff::Span>();
    let span = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let span = span.ok().and_then(|span| Duration::try_from(span).ok());
    span.ok_or_else(|| "not a span like 30s, 5m or 2h".to_owned())
}

/// Formats a moment for scripts: RFC 3339 in UTC, with milliseconds.
pub fn timestamp(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| at_ms.to_string(), |at| format!("{at:.3}"))
}

/// Serializes milliseconds since 1970 as [`timestamp`] formats them.
pub fn serialize_timestamp<S: Serializer>(at_ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&timestamp(*at_ms))
}

/// Formats a moment for people: the local time, with the day if it is not today.
pub fn clock(at_ms: i64, now: &jiff::Zoned) -> String {
    let Ok(at) = jiff::Timestamp::from_millisecond(at_ms) else {
        return at_ms.to_string();
    };
    let at = at.to_zoned(now.time_zone().clone());
    let form = if at.date() == now.date() {
        "%H:%M:%S"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    at.strftime(form).to_string()
}

/// Formats a duration in few characters: `12s`, `4m`, `1h05m`, `13h`, `3d`.
pub fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..36_000 => format!("{hours}h{:02}m", minutes % 60),
        36_000..172_800 => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}

/// Formats a duration with two units: `42s`, `4m10s`, `1h05m`, `3d04h`.
pub fn lasted(span_ms: i64) -> String {
    let seconds = span_ms.max(0) / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{:02}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// Formats a duration with one unit: `42s`, `4m`, `1h`, `3d`.
pub fn about(span_ms: i64) -> String {
    let seconds = span_ms.max(0) / 1_000;
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats a run time in few characters: `840 µs`, `12 ms`, `1.2 s`, `2m05s`.
pub fn took(us: i64) -> String {
    let us = us.max(0);
    match us {
        ..1000 => format!("{us} µs"),
        1000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1000),
        1_000_000..60_000_000 => format!("{:.1} s", us as f64 / 1e6),
        _ => {
            let seconds = us / 1_000_000;
            format!("{}m{:02}s", seconds / 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_spans_and_moments() {
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(1000));
        assert!(since("2026-11-15").is_ok());
        assert!(since("10m").unwrap() < since("1s").unwrap());
        for bad in ["", "x", "10", "m", "99999999999999999999d", "-1h"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn takes_spans() {
        assert_eq!(parse_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_span("5m"), parse_span("5min"));
        assert_eq!(parse_span("0s"), Ok(Duration::ZERO));
        for bad in ["", "5", "s", "-5s", "99999999999999999999s"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_stay_short() {
        let said = |seconds: i64| span(seconds * 1000);
        assert_eq!(said(-5), "0s");
        assert_eq!(said(59), "59s");
        assert_eq!(said(60), "1m");
        assert_eq!(said(3599), "59m");
        assert_eq!(said(3900), "1h05m");
        assert_eq!(said(36_000), "10h");
        assert_eq!(said(172_799), "47h");
        assert_eq!(said(172_800), "2d");
        assert_eq!(span(i64::MIN), "0s");
    }

    #[test]
    fn spans_are_short() {
        let spans = [-5, 0, 59_999, 60_000, 3_599_000, 3_600_000, 86_400_000];
        assert_eq!(
            spans.map(lasted),
            ["0s", "0s", "59s", "1m00s", "59m59s", "1h00m", "1d00h"]
        );
        assert_eq!(
            spans.map(about),
            ["0s", "0s", "59s", "1m", "59m", "1h", "1d"]
        );
    }

    #[test]
    fn times_stay_short() {
        let all = [
            -1,
            840,
            1240,
            9990,
            12_345,
            999_999,
            1_234_567,
            59_940_000,
            125_000_000,
        ];
        let all = all.map(took);
        let expected = [
            "0 µs", "840 µs", "1.2 ms", "10.0 ms", "12 ms", "999 ms", "1.2 s", "59.9 s", "2m05s",
        ];
        assert_eq!(all, expected);
    }
}
