//! The cost and the tokens of each turn of a session.

use rusqlite::{Connection, Row, params};

/// The newest figures of one turn. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TurnFigures {
    pub session_id: String,
    /// The time when its prompt was sent.
    pub began: i64,
    /// The time of the last event before these figures arrived.
    pub at: i64,
    pub model: Option<String>,
    /// The cost of the whole session up to the end of this turn.
    pub cost_usd: Option<f64>,
    /// The tokens of this turn alone.
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl TurnFigures {
    /// Returns true if the figures are equal, apart from the time when they arrived.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        Self {
            at: other.at,
            ..self.clone()
        } == *other
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            session_id: row.get(0)?,
            began: row.get(1)?,
            at: row.get(2)?,
            model: row.get(3)?,
            cost_usd: row.get(4)?,
            input_tokens: row.get::<_, i64>(5)?.unsigned_abs(),
            output_tokens: row.get::<_, i64>(6)?.unsigned_abs(),
        })
    }
}

/// Writes the figures of turns over older ones. Tokens only rise: a daemon that starts in the middle of a turn
/// has not read all of it. `at` changes only if another figure does.
pub(super) fn write(connection: &Connection, figures: &[TurnFigures]) -> rusqlite::Result<()> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO figures (session_id, began, at, model, cost_usd, input_tokens, output_tokens)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (session_id, began) DO UPDATE SET at = excluded.at, model = excluded.model,
         cost_usd = coalesce(excluded.cost_usd, cost_usd),
         input_tokens = max(excluded.input_tokens, input_tokens),
         output_tokens = max(excluded.output_tokens, output_tokens)
         WHERE coalesce(excluded.cost_usd, cost_usd) IS NOT cost_usd
         OR excluded.input_tokens > input_tokens OR excluded.output_tokens > output_tokens",
    )?;
    for turn in figures {
        upsert.execute(params![
            turn.session_id,
            turn.began,
            turn.at,
            turn.model,
            turn.cost_usd,
            turn.input_tokens as i64,
            turn.output_tokens as i64,
        ])?;
    }
    Ok(())
}

/// Reads the figures of one session or of all sessions. The turns of each session are in order.
pub fn figures(
    connection: &Connection,
    session: Option<&str>,
) -> rusqlite::Result<Vec<TurnFigures>> {
    let mut select = connection.prepare(
        "SELECT session_id, began, at, model, cost_usd, input_tokens, output_tokens FROM figures
         WHERE ?1 IS NULL OR session_id = ?1 ORDER BY session_id, began",
    )?;
    select.query_map([session], TurnFigures::read)?.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::Home;
    use super::*;

    #[test]
    fn the_newest_figures_of_a_turn_count_and_equal_ones_keep_its_day() {
        let connection = Home::new().open();
        let turn = |began, at, cost_usd, input_tokens| TurnFigures {
            session_id: "s".to_owned(),
            began,
            at,
            cost_usd,
            input_tokens,
            ..TurnFigures::default()
        };
        let written = |turns: &[TurnFigures]| {
            write(&connection, turns).unwrap();
            figures(&connection, Some("s")).unwrap()
        };
        let first = turn(10, 20, Some(0.5), 7);
        let first = [first];
        assert_eq!(written(&first), first);
        assert_eq!(
            written(&[turn(10, 99, Some(0.5), 3), turn(10, 99, None, 0)]),
            first,
            "nothing new"
        );
        let both = [turn(10, 30, Some(0.75), 7), turn(40, 50, Some(1.0), 1)];
        assert_eq!(written(&both), both);
        assert_eq!(figures(&connection, None).unwrap(), both);
        assert_eq!(figures(&connection, Some("t")).unwrap(), []);
    }
}
