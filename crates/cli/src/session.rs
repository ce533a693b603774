//! Sessions as people and scripts see them: queries, history, statistics, tables, JSON.

pub mod agent_tree;
pub mod details;
pub mod history;
pub mod source;
pub mod stats;
pub mod table;
pub mod words;

#[cfg(test)]
pub mod tests;

use std::cmp::Reverse;

use becket_wire::session::{Display, SessionRow};

pub fn sort(rows: &mut [SessionRow]) {
    rows.sort_by(|one, other| urgency(one).cmp(&urgency(other)));
}

/// Returns the sort key of a session. Sessions that need the user come first, the longest wait first;
/// then the others, the last change first; then those without hooks; then those that have ended.
pub fn urgency(row: &SessionRow) -> impl Ord {
    let waits = matches!(
        row.display,
        Display::Error | Display::Attention | Display::Checked
    );
    let at = match row.ended_at {
        Some(ended) => ended.saturating_neg(),
        None if !row.hooked => row.started_at.saturating_neg(),
        None if waits => row.display_since,
        None => row.display_since.saturating_neg(),
    };
    let rank = (row.ended_at.is_some(), !row.hooked, row.display);
    (rank, at, Reverse(row.last_activity), &*row.session_id)
}
