//! Sessions as a test looks at them: what `becket sessions --json` says, and how soon.

use std::ops::Index;
use std::process::Output;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::Story;
use crate::wait::{self, PATIENCE};
use crate::world::World;

/// One session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session(pub Value);

impl Index<&str> for Session {
    type Output = Value;

    fn index(&self, field: &str) -> &Value {
        &self.0[field]
    }
}

impl Session {
    /// A field as text; empty when it is null.
    pub fn text(&self, field: &str) -> &str {
        self.0[field].as_str().unwrap_or_default()
    }

    pub fn id(&self) -> &str {
        self.text("session_id")
    }

    /// A moment, in milliseconds since 1970.
    #[track_caller]
    pub fn at(&self, field: &str) -> i64 {
        let moment: Result<jiff::Timestamp, _> = self.text(field).parse();
        let moment = moment.unwrap_or_else(|why| panic!("{field} is no moment ({why}): {self:?}"));
        moment.as_millisecond()
    }

    /// The main agent's status in one word: `working(Bash)`.
    pub fn status(&self) -> String {
        word(&self.0)
    }

    /// The same for what every view shows.
    pub fn display(&self) -> &str {
        self.text("display")
    }

    /// Its subagents, as sessions of which only some fields are there.
    pub fn agents(&self) -> Vec<Self> {
        let agents = self.0["agents"].as_array().cloned().unwrap_or_default();
        agents.into_iter().map(Self).collect()
    }
}

fn word(row: &Value) -> String {
    let status = row["status"].as_str().unwrap_or_default();
    match row["detail"].as_str().or(row["reason"].as_str()) {
        Some(more) => format!("{status}({more})"),
        None => status.to_owned(),
    }
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0))
}

/// A `becket wait` under way.
#[derive(Debug)]
pub struct Waiting(JoinHandle<(Output, i64)>);

impl Waiting {
    /// What it printed, and when it came back.
    #[track_caller]
    pub fn came_back(self) -> (Session, i64) {
        let (output, at) = self.0.join().expect("wait for becket wait");
        assert!(output.status.success(), "becket wait: {output:?}");
        let row = serde_json::from_slice(&output.stdout).expect("a session as JSON");
        (Session(row), at)
    }
}

impl Story {
    /// The becket of this story.
    #[track_caller]
    pub fn becket(&self) -> &World {
        let mut worlds = self.registered.iter().filter_map(|one| one.world());
        worlds.next().expect("becket is registered in this story")
    }

    /// The live sessions.
    #[track_caller]
    pub fn sessions(&self) -> Vec<Session> {
        self.listed(&["sessions", "--json"])
    }

    /// Those that have ended too, and Claude Code processes without becket.
    #[track_caller]
    pub fn all_sessions(&self) -> Vec<Session> {
        self.listed(&["sessions", "--all", "--json"])
    }

    fn listed(&self, args: &[&str]) -> Vec<Session> {
        let rows = serde_json::from_str(&self.becket().run(args));
        let rows: Vec<Value> = rows.expect("an array of sessions");
        rows.into_iter().map(Session).collect()
    }

    /// The one session with this id, live or ended.
    #[track_caller]
    pub fn session(&self, id: &str) -> Session {
        let row = self.becket().run(&["show", id, "--json"]);
        Session(serde_json::from_str(&row).expect("a session as JSON"))
    }

    /// Waits until a live session is as `fits` says.
    #[track_caller]
    pub fn wait_session(&self, what: &str, fits: impl Fn(&Session) -> bool) -> Session {
        self.wait_listed(what, || self.sessions(), fits)
    }

    /// Waits until a session of those that have ended too is as `fits` says.
    #[track_caller]
    pub fn wait_any_session(&self, what: &str, fits: impl Fn(&Session) -> bool) -> Session {
        self.wait_listed(what, || self.all_sessions(), fits)
    }

    /// Waits until a live session is so, and fails if that took longer than `bound` since `began`.
    #[track_caller]
    pub fn soon(
        &self,
        (began, bound): (Instant, Duration),
        what: &str,
        fits: impl Fn(&Session) -> bool,
    ) -> Session {
        let session = self.wait_session(what, fits);
        let took = began.elapsed();
        println!("{what} after {took:.1?}");
        assert!(took < bound, "{what} took {took:?}");
        session
    }

    #[track_caller]
    fn wait_listed(
        &self,
        what: &str,
        list: impl Fn() -> Vec<Session>,
        fits: impl Fn(&Session) -> bool,
    ) -> Session {
        let found = wait::until(PATIENCE, || list().into_iter().find(&fits));
        match found {
            Some(session) => session,
            None => panic!(
                "no session was ever {what}: {:#?}\n{}",
                list(),
                self.so_far()
            ),
        }
    }

    /// Starts `becket wait ID --for GOAL`.
    pub fn waits(&self, id: &str, goal: &str) -> Waiting {
        let mut wait =
            self.becket()
                .becket(["wait", id, "--for", goal, "--timeout", "60s", "--json"]);
        Waiting(std::thread::spawn(move || {
            let output = wait.output().expect("becket wait runs");
            (output, now_ms())
        }))
    }
}
