//! What the view knows: sessions, what is selected, what is being typed.

use std::collections::HashMap;

use becket_wire::session::{Display, SessionRow};

use super::events::Events;
use super::field::Field;
use super::tree::{self, Twig, Wish, key};

#[derive(Debug, Default)]
pub struct Model {
    rows: Vec<SessionRow>,
    places: HashMap<String, usize>,
    pub wish: Wish,
    twigs: Vec<Twig>,
    grown: bool,
    pub totals: Totals,
    /// The line that is selected. It may be gone for a moment while `/clear` replaces its session.
    selected: Option<String>,
    /// Where the selection stands, or stood, in the list.
    at: usize,
    /// The first row of the list in sight, and how many fit: as last drawn.
    pub top: usize,
    pub page: usize,
    pub mode: Mode,
    pub focus: Focus,
    pub events: Events,
    /// Whether the daemon's word has come at all.
    pub heard: bool,
    /// Why the daemon cannot be heard.
    pub lost: Option<String>,
    /// What the daemon itself says is wrong.
    pub troubles: Vec<String>,
    /// What the last deed gave.
    pub said: Option<Said>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    List,
    Events,
}

/// What keys mean at the moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Normal,
    Help,
    Filter(Field),
    Name(Target, Field),
    Line(Target, Field),
    /// Whether to end it.
    End(Target),
}

/// The session that something was begun for, which is another one after `/clear`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub key: String,
    pub session_id: String,
    pub title: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub text: String,
    pub bad: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    pub counts: [usize; Display::ALL.len()],
    /// Since when the one waits that has waited longest.
    pub waits_since: Option<i64>,
    pub tokens: u64,
    pub cost: f64,
}

impl Totals {
    fn of(rows: &[SessionRow]) -> Self {
        let mut totals = Self::default();
        for row in rows {
            totals.counts[row.display as usize] += 1;
            totals.tokens += row.figures.context_tokens.unwrap_or(0);
            totals.cost += row
                .figures
                .cost_usd
                .filter(|cost| cost.is_finite())
                .unwrap_or(0.0);
            if row.display == Display::Attention {
                let since = totals.waits_since.unwrap_or(i64::MAX);
                totals.waits_since = Some(since.min(row.display_since));
            }
        }
        totals
    }

    pub fn count(&self, display: Display) -> usize {
        self.counts[display as usize]
    }
}

impl Model {
    pub fn new() -> Self {
        Self {
            wish: Wish {
                grouped: true,
                ..Wish::default()
            },
            ..Self::default()
        }
    }

    /// All live sessions as they are now.
    pub fn put_all(&mut self, rows: Vec<SessionRow>) {
        self.heard = true;
        self.rows.clear();
        self.places.clear();
        rows.into_iter().for_each(|row| self.put(row));
        self.grown = false;
    }

    /// One session that is new, has changed, or has ended.
    pub fn put(&mut self, row: SessionRow) {
        self.grown = false;
        let place = self.places.get(key(&row)).copied();
        match (place, row.ended_at) {
            (Some(place), None) => self.rows[place] = row,
            (None, None) => {
                self.places.insert(key(&row).to_owned(), self.rows.len());
                self.rows.push(row);
            }
            // After `/clear` the line has gone on to its next session already.
            (Some(place), Some(_)) if self.rows[place].session_id == row.session_id => {
                self.remove(place, &row);
            }
            (_, Some(_)) => {}
        }
    }

    fn remove(&mut self, place: usize, ended: &SessionRow) {
        self.places.remove(key(ended));
        self.rows.swap_remove(place);
        if let Some(moved) = self.rows.get(place) {
            self.places.insert(key(moved).to_owned(), place);
        }
        self.wish.folded.remove(key(ended));
        let cleared = ended.end_reason.as_deref() == Some("clear");
        if self.selected.as_deref() == Some(key(ended)) && !cleared {
            self.selected = None;
        }
    }

    /// The wish has changed.
    pub fn regrow(&mut self) {
        self.grown = false;
    }

    /// Brings list and selection up to date.
    pub fn settle(&mut self) {
        if self.grown {
            return;
        }
        self.grown = true;
        self.twigs = tree::grow(&self.rows, &self.wish);
        self.totals = Totals::of(&self.rows);
        let wanted = self.selected.as_ref().and_then(|key| self.places.get(key));
        let found = wanted.and_then(|&place| self.find(place));
        self.at = found.unwrap_or_else(|| self.nearest(self.at));
        if self.selected.is_none() {
            self.selected = self.current().map(|row| key(row).to_owned());
        }
    }

    fn find(&self, place: usize) -> Option<usize> {
        let is_it = |twig: &Twig| *twig == Twig::Session(place);
        self.twigs.iter().position(is_it)
    }

    /// The session at or after a place in the list, else the last one before it.
    fn nearest(&self, at: usize) -> usize {
        let is_session = |twig: &Twig| matches!(twig, Twig::Session(_));
        let at = at.min(self.twigs.len());
        let after = self.twigs[at..].iter().position(is_session);
        let before = || self.twigs[..at].iter().rposition(is_session);
        after.map(|by| at + by).or_else(before).unwrap_or(0)
    }

    pub fn rows(&self) -> &[SessionRow] {
        &self.rows
    }

    pub fn row(&self, key: &str) -> Option<&SessionRow> {
        self.places.get(key).map(|&place| &self.rows[place])
    }

    pub fn twigs(&self) -> &[Twig] {
        &self.twigs
    }

    /// Where the selection stands in the list.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The selected session.
    pub fn current(&self) -> Option<&SessionRow> {
        let place = self.twigs.get(self.at)?.session()?;
        self.rows.get(place)
    }

    /// Selects the session that a row of the list belongs to.
    pub fn select_at(&mut self, at: usize) {
        let at = match self.twigs.get(at) {
            Some(Twig::Group(_)) => self.nearest(at),
            Some(twig) => twig
                .session()
                .and_then(|place| self.find(place))
                .unwrap_or(at),
            None => return,
        };
        self.at = at;
        self.selected = self.current().map(|row| key(row).to_owned());
    }

    /// Selects a session by its id, if it is in the list.
    pub fn select(&mut self, session_id: &str) {
        let is_it = |twig: &Twig| match twig {
            Twig::Session(place) => self.rows[*place].session_id == session_id,
            _ => false,
        };
        if let Some(at) = self.twigs.iter().position(is_it) {
            self.select_at(at);
        }
    }

    /// Moves the selection by so many sessions, as far as there are any.
    pub fn step(&mut self, by: isize) {
        let sessions: Vec<usize> = (0..self.twigs.len())
            .filter(|&at| matches!(self.twigs[at], Twig::Session(_)))
            .collect();
        let Some(last) = sessions.len().checked_sub(1) else {
            return;
        };
        let here = sessions.partition_point(|&at| at < self.at);
        self.select_at(sessions[here.saturating_add_signed(by).min(last)]);
    }

    /// Selects the next session that needs the person, from here on and around; false if none does.
    pub fn next_waiting(&mut self) -> bool {
        let waits = |twig: &Twig| match twig {
            Twig::Session(place) => self.rows[*place].display <= Display::Attention,
            _ => false,
        };
        let (before, after) = self.twigs.split_at((self.at + 1).min(self.twigs.len()));
        let next = after.iter().position(waits).map(|by| before.len() + by);
        let Some(at) = next.or_else(|| before.iter().position(waits)) else {
            return false;
        };
        self.select_at(at);
        true
    }

    pub fn say(&mut self, text: impl Into<String>, bad: bool) {
        self.said = Some(Said {
            text: text.into(),
            bad,
        });
    }
}

/// What a session is called: its title, else what it was asked last, else where it is.
pub fn title(row: &SessionRow) -> &str {
    let named = [&row.title, &row.last_prompt]
        .into_iter()
        .flatten()
        .find(|text| !text.trim().is_empty());
    let id = || {
        row.session_id
            .char_indices()
            .nth(8)
            .map_or(&*row.session_id, |(at, _)| &row.session_id[..at])
    };
    named.map_or_else(id, String::as_str)
}

#[cfg(test)]
mod tests;
