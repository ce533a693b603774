//! Moments and spans as people type them.

use std::time::Duration;

use becket_daemon::life::now_ms;

/// A span before now (`10m`, `2h`, `3d`) or a moment (`2026-11-15T08:00:00Z`): milliseconds since 1970.
pub fn since(text: &str) -> Result<i64, String> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(moment.as_millisecond());
    }
    if let Ok(local) = text.parse::<jiff::civil::DateTime>()
        && let Ok(zoned) = local.to_zoned(jiff::tz::TimeZone::system())
    {
        return Ok(zoned.timestamp().as_millisecond());
    }
    let span = span_ms(text).ok_or(
        "neither a span like 10m, 2h or 3d nor a moment like 2026-11-15T08:00:00Z".to_owned(),
    )?;
    now_ms()
        .checked_sub(span)
        .ok_or_else(|| "too long a span".to_owned())
}

/// A span (`30s`, `5m`, `2h`).
pub fn span(text: &str) -> Result<Duration, String> {
    let span = span_ms(text).and_then(|span| u64::try_from(span).ok());
    span.map(Duration::from_millis)
        .ok_or_else(|| "not a span like 30s, 5m or 2h".to_owned())
}

/// Milliseconds; none if it is no span, or a longer one than anybody means.
fn span_ms(text: &str) -> Option<i64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
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
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("5m"), span("5min"));
        assert_eq!(span("0s"), Ok(Duration::ZERO));
        for bad in ["", "5", "s", "-5s", "5 m", "1.5h", "99999999999999999999s"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }
}
