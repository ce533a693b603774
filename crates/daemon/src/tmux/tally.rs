//! How many sessions do what, in a few characters.

use becket_wire::session::{Display, SessionRow};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The live sessions, counted by display state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub error: usize,
    pub attention: usize,
    pub working: usize,
    pub checked: usize,
    pub done: usize,
    /// Since when the one that has waited longest needs attention.
    pub waiting_since: Option<i64>,
}

impl Tally {
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a SessionRow>) -> Self {
        let mut tally = Self::default();
        for row in rows.into_iter().filter(|row| is_live(row)) {
            match row.display {
                Display::Error => tally.error += 1,
                Display::Attention => {
                    tally.attention += 1;
                    let since = tally.waiting_since.unwrap_or(i64::MAX);
                    tally.waiting_since = Some(since.min(row.display_since));
                }
                Display::Working => tally.working += 1,
                Display::Checked => tally.checked += 1,
                Display::Done => tally.done += 1,
            }
        }
        tally
    }

    /// `✗1 !2 4m ▸3 ?1 ✓5`: those that failed, that wait and for how long, that work, that wait
    /// and were looked at, that are done. What is none is left out.
    pub fn text(&self, now: i64) -> String {
        let counted = [
            ('✗', self.error),
            ('!', self.attention),
            ('▸', self.working),
            ('?', self.checked),
            ('✓', self.done),
        ];
        let mut parts = Vec::new();
        for (glyph, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
            parts.push(format!("{glyph}{count}"));
            if glyph == '!' {
                parts.extend(self.waiting_since.and_then(|since| span(now - since)));
            }
        }
        parts.join(" ")
    }

    /// When the text changes though nothing happens.
    pub fn next_change(&self, now: i64) -> Option<i64> {
        let waited = (now - self.waiting_since?).max(0);
        let step = match waited {
            ..HOUR => MINUTE,
            HOUR..DAY => HOUR,
            _ => DAY,
        };
        Some(now + step - waited % step)
    }
}

/// Whether a session counts at all. One that was only found running says nothing of itself.
pub fn is_live(row: &SessionRow) -> bool {
    row.ended_at.is_none() && row.hooked
}

/// Nothing for less than a minute.
fn span(ms: i64) -> Option<String> {
    match ms {
        ..MINUTE => None,
        MINUTE..HOUR => Some(format!("{}m", ms / MINUTE)),
        HOUR..DAY => Some(format!("{}h", ms / HOUR)),
        _ => Some(format!("{}d", ms / DAY)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(display: Display, since: i64) -> SessionRow {
        SessionRow {
            display,
            display_since: since,
            hooked: true,
            ..SessionRow::default()
        }
    }

    #[test]
    fn counts_what_is_live() {
        let mut rows: Vec<SessionRow> = Display::ALL.map(|display| row(display, 0)).into();
        rows.push(row(Display::Attention, -4 * MINUTE));
        let ended = SessionRow {
            ended_at: Some(1),
            ..row(Display::Error, 0)
        };
        let found = SessionRow {
            hooked: false,
            ..row(Display::Done, 0)
        };
        rows.extend([ended, found]);
        assert_eq!(Tally::of(&rows).text(1000), "✗1 !2 4m ▸1 ?1 ✓1");
        assert_eq!(Tally::of(&[]).text(0), "");
    }

    #[test]
    fn the_wait_is_told_in_one_unit_and_next_changes_then() {
        let tally = Tally::of([&row(Display::Attention, 0)]);
        for (now, text, next) in [
            (-5, "!1", MINUTE - 5),
            (59_999, "!1", MINUTE),
            (MINUTE, "!1 1m", 2 * MINUTE),
            (HOUR - 1, "!1 59m", HOUR),
            (DAY - 1, "!1 23h", DAY),
            (9 * DAY, "!1 9d", 10 * DAY),
        ] {
            assert_eq!(tally.text(now), text, "{now}");
            assert_eq!(tally.next_change(now), Some(next), "{now}");
        }
        assert_eq!(Tally::default().next_change(0), None);
    }
}
