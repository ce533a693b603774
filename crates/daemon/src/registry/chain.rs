//! Sessions that continue another one: after `/clear` in the same process, or as a fork.

use becket_engine::session::{Chain, SessionEvent};
use becket_wire::event::EventName;
use rusqlite::Connection;

use super::{LiveSession, Registry, load_session};

impl Registry {
    /// Chains a session that starts to the one that it continues. Returns both ids, the older first.
    pub(super) fn chain(
        &mut self,
        database: &Connection,
        id: &str,
        event: &SessionEvent<'_>,
    ) -> Option<(String, String)> {
        if event.name != EventName::SessionStart || !event.envelope.pid_is_claude {
            return None;
        }
        let (prev, chain) = match event.head.source.as_deref() {
            Some("clear") => (self.cleared(id, event)?, Chain::Clear),
            Some("fork") => {
                let pid = event.envelope.pid;
                (self.forked_from(database, id, pid)?, Chain::Fork)
            }
            _ => return None,
        };
        let prev = self.sessions.get(&prev)?.session.clone();
        let live = self.sessions.get_mut(id)?;
        if live.session.prev_session_id.is_some() {
            return None;
        }
        live.session.continue_from(&prev, chain);
        Some((prev.session_id, id.to_owned()))
    }

    /// Chains the next session of the same process to one that ended by `/clear`. This is for an end that arrives
    /// after the start of the next session.
    pub(super) fn chain_next(&mut self, id: &str) -> Option<(String, String)> {
        let ended = self.sessions.get(id)?.session.clone();
        let process = (ended.pid, ended.pid_start);
        let next = self.sessions.iter_mut().filter(|(_, live)| {
            let session = &live.session;
            (session.pid, session.pid_start) == process
                && session.prev_session_id.is_none()
                && Some(session.started_at) >= ended.ended_at
        });
        let (next, live) = next.min_by_key(|(_, live)| live.session.started_at)?;
        let cleared = ended.pid.is_some() && ended.end_reason.as_deref() == Some("clear");
        if !cleared || next == id {
            return None;
        }
        live.session.continue_from(&ended, Chain::Clear);
        let next = next.clone();
        self.unwritten.insert(next.clone());
        self.changed.insert(next.clone());
        Some((ended.session_id, next))
    }

    /// Returns the session that ended by `/clear` in this process last.
    fn cleared(&self, id: &str, event: &SessionEvent<'_>) -> Option<String> {
        let process = (Some(event.envelope.pid), event.envelope.pid_start);
        self.sessions
            .iter()
            .filter(|(other, live)| {
                let session = &live.session;
                *other != id
                    && (session.pid, session.pid_start) == process
                    && session.end_reason.as_deref() == Some("clear")
            })
            .max_by_key(|(_, live)| live.session.ended_at)
            .map(|(other, _)| other.clone())
    }

    /// Returns the session that Claude Code's command line resumes: the events of a fork do not name it.
    fn forked_from(&mut self, database: &Connection, id: &str, pid: u32) -> Option<String> {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let prev = resumed(&line)?;
        if prev == id {
            return None;
        }
        if !self.sessions.contains_key(&prev) {
            let session = load_session(database, &prev)?;
            self.sessions
                .insert(prev.clone(), LiveSession::new(session));
        }
        Some(prev)
    }
}

/// Returns the session of `--resume ID` in a command line.
fn resumed(line: &[u8]) -> Option<String> {
    let mut words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    while let Some(word) = words.next() {
        let id = match word.strip_prefix("--resume=") {
            Some(id) => id.to_owned(),
            None if word == "--resume" || word == "-r" => words.next()?.into_owned(),
            None => continue,
        };
        return (!id.is_empty() && !id.starts_with('-')).then_some(id);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_names_the_session_that_it_resumes() {
        let found = |line: &str| resumed(line.replace(' ', "\0").as_bytes());
        assert_eq!(
            found("claude --resume abc --fork-session"),
            Some("abc".into())
        );
        assert_eq!(found("claude -p -r abc"), Some("abc".into()));
        assert_eq!(found("claude --resume=abc x"), Some("abc".into()));
        assert_eq!(found("claude --resume --fork-session"), None);
        assert_eq!(found("claude --continue"), None);
    }
}
