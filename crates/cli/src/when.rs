//! Moments and spans as people type them.

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
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => {
            return Err(
                "neither a span like 10m, 2h or 3d nor a moment like 2026-11-15T08:00:00Z"
                    .to_owned(),
            );
        }
    };
    let span = number
        .parse::<i64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    span.map(|span| now_ms() - span)
        .ok_or_else(|| "too long a span".to_owned())
}

#[cfg(test)]
mod tests {
    use super::since;

    #[test]
    fn takes_spans_and_moments() {
        assert_eq!(since("1970-01-01T00:00:01Z"), Ok(1000));
        assert!(since("2026-11-15").is_ok());
        assert!(since("10m").unwrap() < since("1s").unwrap());
        for bad in ["", "x", "10", "m", "99999999999999999999d", "-1h"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
