//! `becket tmux` with the real daemon: the tmux server of a pane shows the state of its session until its
//! process ends.

use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Output;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::fails;

/// A tmux server with the panes %0 and %1 in two windows and no attached terminal, and a daemon that does
/// not know the server yet.
struct LiveTmuxWorld {
    world: World,
    inner: Terminal,
}

fn live_world() -> Result<LiveTmuxWorld, Unavailable> {
    let cat = [OsString::from("cat")];
    let inner = Terminal::start(&cat, &[], Path::new("/"), (100, 30))?;
    inner.tmux_says(&["new-window", "-d", "cat"]);
    let world = World::new();
    world.start_daemon();
    Ok(LiveTmuxWorld { world, inner })
}

fn with_tmux(name: &str, test: impl FnOnce(&LiveTmuxWorld)) {
    match live_world() {
        Ok(world) => test(&world),
        Err(why) => skip(name, &why),
    }
}

impl Deref for LiveTmuxWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl LiveTmuxWorld {
    fn tmux(&self) -> String {
        format!("{},1,0", self.inner.socket().display())
    }

    /// Returns a tmux format of a pane.
    fn says(&self, pane: &str, format: &str) -> String {
        let asked = ["display-message", "-p", "-t", pane, format];
        self.inner.tmux_says(&asked)
    }

    /// Returns the program in a pane.
    fn program(&self, pane: &str) -> String {
        self.says(pane, "#{pane_pid}")
    }

    /// Sends an event of a session whose Claude Code is the program in this pane.
    #[track_caller]
    fn tell(&self, session: &str, pane: &str, event: &str) {
        let mut shim = self.world.shim(event);
        shim.env("TMUX", self.tmux())
            .env("TMUX_PANE", pane)
            .env("CLAUDE_PID", self.program(pane));
        let payload = json!({
            "session_id": session, "hook_event_name": event, "prompt": "do it", "tool_name": "Bash",
        });
        let called = call(shim, payload.to_string().as_bytes());
        assert!(called.is_silent(), "{called:?}");
    }

    fn becket_in_tmux(&self, args: &[&str]) -> Output {
        let mut becket = self.world.becket(args);
        becket.env("TMUX", self.tmux());
        becket.output().expect("becket runs")
    }

    #[track_caller]
    fn runs(&self, args: &[&str]) {
        let output = self.becket_in_tmux(args);
        assert!(output.status.success(), "{output:?}");
    }

    /// Returns becket's text in the status line of the server.
    fn text(&self) -> String {
        self.says("%0", "#{@becket}")
    }

    /// Returns the state of a pane in the server, and its colours while it is inactive and active.
    fn look(&self, pane: &str) -> [String; 3] {
        let look = "#{@becket_state}\t#{window-style}\t#{window-active-style}";
        let seen = self.says(pane, look);
        let mut fields = seen.split('\t').map(str::to_owned);
        [(); 3].map(|()| fields.next().unwrap_or_default())
    }

    #[track_caller]
    fn comes<T: PartialEq + std::fmt::Debug>(&self, what: &T, look: impl Fn() -> T) {
        let came = wait::until(PATIENCE, || (look() == *what).then_some(()));
        assert!(came.is_some(), "{:?} instead of {what:?}", look());
    }

    #[track_caller]
    fn shows(&self, pane: &str, state: &str, [style, active]: [&str; 2]) {
        let wanted = [state, style, active].map(str::to_owned);
        self.comes(&wanted, || self.look(pane));
    }

    #[track_caller]
    fn counts(&self, text: &str) {
        self.comes(&true, || {
            let shown = self.text();
            // A waiting time may have been added since.
            shown == text || (text.starts_with('◆') && shown.starts_with(&format!("{text} ")))
        });
    }
}

const PLAIN: [&str; 2] = ["default", "default"];

#[test]
fn a_session_is_in_the_tmux_status_line_until_its_process_ends() {
    let name = "a_session_is_in_the_tmux_status_line_until_its_process_ends";
    with_tmux(name, |world| {
        world.tell("aaa", "%0", "UserPromptSubmit");
        world.counts("●1");
        world.shows("%0", "working", PLAIN);
        world.tell("bbb", "%1", "PermissionRequest");
        world.counts("◆1");
        world.shows("%1", "waiting", PLAIN);
        world.tell("aaa", "%0", "Stop");
        world.shows("%0", "done", PLAIN);
        let asks = world.program("%1").parse().ok().and_then(Pid::from_raw);
        kill_process(asks.expect("a process"), Signal::KILL).expect("kill the program in a pane");
        world.counts("○1");
        world.shows("%1", "", PLAIN);
        world.inner.kill();
        world.counts("");
        world.shows("%0", "", PLAIN);
    });
}

#[test]
fn paint_colours_the_panes_and_off_restores_them() {
    with_tmux("paint_colours_the_panes_and_off_restores_them", |world| {
        world.tell("aaa", "%0", "UserPromptSubmit");
        world.tell("bbb", "%1", "PermissionRequest");
        world.shows("%1", "waiting", PLAIN);
        world.runs(&["tmux", "paint"]);
        world.shows("%0", "working", ["bg=colour17"; 2]);
        world.shows("%1", "waiting", ["bg=colour58"; 2]);
        world.tell("aaa", "%0", "Stop");
        world.shows("%0", "done", ["bg=colour22"; 2]);
        world.runs(&["tmux", "paint", "--off"]);
        world.shows("%0", "done", PLAIN);
        world.shows("%1", "waiting", PLAIN);
        world.tell("aaa", "%0", "UserPromptSubmit");
        world.shows("%0", "working", PLAIN);

        world.runs(&["tmux", "paint"]);
        world.shows("%1", "waiting", ["bg=colour58"; 2]);
        world.tell("bbb", "%1", "SessionEnd");
        world.shows("%1", "", PLAIN);
        world.shows("%0", "working", ["bg=colour17"; 2]);
    });
}

#[test]
fn a_pane_in_view_counts_as_seen() {
    with_tmux("a_pane_in_view_counts_as_seen", |world| {
        let conf = world.home.join("tmux.conf");
        fs::write(&conf, "").expect("a file");
        let conf = conf.to_string_lossy();
        world.runs(&["up", "--tmux", "--write", &conf]);
        world.inner.tmux_says(&["source-file", &conf]);
        world.runs(&["tmux", "paint"]);
        world.tell("aaa", "%0", "UserPromptSubmit");
        world.tell("bbb", "%1", "PermissionRequest");
        world.shows("%1", "waiting", ["bg=colour58"; 2]);

        world.inner.tmux_says(&["select-window", "-t", "%1"]);
        world.shows("%1", "seen", ["bg=colour236"; 2]);
        let rows = world.sessions();
        let asks = rows.iter().find(|row| row["session_id"] == "bbb");
        assert_eq!(asks.map(|row| &row["display"]), Some(&json!("checked")));
        assert_eq!(asks.map(|row| &row["status"]), Some(&json!("attention")));
        world.shows("%0", "working", ["bg=colour17"; 2]);
    });
}

#[test]
fn jump_without_an_attached_terminal_is_an_error() {
    let name = "jump_without_an_attached_terminal_is_an_error";
    with_tmux(name, |world| {
        world.tell("aaa", "%1", "UserPromptSubmit");
        let inside = world.becket_in_tmux(&["tmux", "jump", "aaa"]);
        fails(&inside, 1, "no terminal is attached to that tmux server");
        let outside = world.output(&["tmux", "jump", "aaa"]);
        fails(&outside, 1, "no terminal shows the tmux session 0");
        fails(&outside, 1, "attach -t %1");
    });
}

#[test]
fn after_uninit_the_server_is_clean_and_no_daemon_comes_back() {
    with_tmux(
        "after_uninit_the_server_is_clean_and_no_daemon_comes_back",
        |world| {
            let conf = world.home.join("tmux.conf");
            fs::write(&conf, "").expect("a file");
            let conf = conf.to_string_lossy();
            let seen = || {
                [
                    "show-options -g",
                    "show-options -s",
                    "show-hooks -g",
                    "list-keys",
                ]
                .map(|asked| world.inner.tmux_says(&asked.split(' ').collect::<Vec<_>>()))
                .join("\n")
            };
            world
                .inner
                .tmux_says(&["set-option", "-g", "focus-events", "on"]);
            let before = seen();
            world.runs(&["up", "--only-register"]);
            world.runs(&["up", "--tmux", "--write", &conf]);
            world.inner.tmux_says(&["source-file", &conf]);
            world.tell("aaa", "%0", "UserPromptSubmit");
            world.runs(&["tmux", "paint"]);
            world.shows("%0", "working", ["bg=colour17"; 2]);

            // Run outside tmux: the sessions name the servers.
            world.run(&["down"]);
            world.shows("%0", "", PLAIN);
            assert_eq!(seen(), before);
            world.tell("aaa", "%0", "Stop");
            assert!(world.daemons().is_empty(), "an entry that was taken out");
            world.runs(&["up", "--only-register"]);
            world.tell("aaa", "%0", "UserPromptSubmit");
            assert!(world.daemon_pid().is_some(), "it is wanted again");
        },
    );
}
