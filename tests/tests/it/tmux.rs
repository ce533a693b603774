//! `becket tmux` in a real tmux: a person in an outer terminal is switched to other panes. A fake daemon
//! lists the sessions and records its requests.

mod live;

use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

use becket_tests::skip::{Unavailable, skip};
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use becket_wire::rpc::{Ask, AskReply, Request, Response, SeenAt};
use becket_wire::session::{Display, SessionRow};
use serde_json::{Value, json};

use crate::bad_input::fake_daemon::{self, FakeDaemon};

/// The sessions of the fake daemon, and its recorded requests.
#[derive(Clone, Default)]
struct FakeSessions {
    rows: Arc<Mutex<Vec<SessionRow>>>,
    asked: Arc<Mutex<Vec<Ask>>>,
}

impl FakeSessions {
    fn listen(&self, world: &World) -> FakeDaemon {
        let daemon = self.clone();
        FakeDaemon::new(world, move |mut stream| {
            while let Some(frame) = fake_daemon::frame(&mut stream) {
                let Ok(Request::Ask(ask)) = Request::from_frame(frame) else {
                    return;
                };
                let told = daemon.answer(&ask);
                daemon.asked.lock().expect("a list").push(ask);
                fake_daemon::say(&mut stream, &Response::Reply(told));
            }
        })
    }

    fn answer(&self, ask: &Ask) -> AskReply {
        let Ask::Sessions(query) = ask else {
            return AskReply::Done;
        };
        let rows = self.rows.lock().expect("rows").clone();
        let Some(prefix) = &query.session else {
            return AskReply::Sessions(rows);
        };
        let begins = |row: &SessionRow| row.session_id.starts_with(prefix.as_str());
        let found: Vec<SessionRow> = rows.into_iter().filter(begins).collect();
        match found.len() {
            0 => AskReply::NoSuchSession(prefix.clone()),
            1 => AskReply::Sessions(found),
            _ => AskReply::Ambiguous(found.into_iter().map(|row| row.session_id).collect()),
        }
    }

    fn has(&self, socket: &str, session: &str, pane: &str, display: Display, since: i64) {
        self.rows.lock().expect("rows").push(SessionRow {
            session_id: session.to_owned(),
            display,
            display_since: since,
            hooked: true,
            tmux_pane: Some(pane.to_owned()),
            tmux_socket: Some(socket.to_owned()),
            ..SessionRow::default()
        });
    }

    fn was_asked(&self, what: &Ask) -> bool {
        self.asked.lock().expect("a list").contains(what)
    }
}

/// A tmux server with the panes %0 and %1 in two windows of one session and %2 in another, and a terminal
/// that shows %0.
struct TmuxWorld {
    world: World,
    daemon: FakeSessions,
    inner: Terminal,
    outer: Terminal,
    _fake: FakeDaemon,
}

fn tmux_world() -> Result<TmuxWorld, Unavailable> {
    let start = |command: &[&str], env: &[(&str, &str)]| {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let env: Vec<_> = env.collect();
        Terminal::start(&command, &env, Path::new("/"), (100, 30))
    };
    let inner = start(&["cat"], &[])?;
    inner.tmux_says(&["new-window", "-d", "cat"]);
    inner.tmux_says(&["new-session", "-d", "-s", "two", "cat"]);
    let socket = inner.socket().to_string_lossy().into_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let attach = [
        "env", "-u", "TMUX", "tmux", "-u", "-S", &socket, "attach", "-t", "%0",
    ];
    let outer = start(&attach, &[("PATH", &path)])?;
    let world = World::new();
    let daemon = FakeSessions::default();
    let fake = daemon.listen(&world);
    let world = TmuxWorld {
        world,
        daemon,
        inner,
        outer,
        _fake: fake,
    };
    world.shows("%0");
    Ok(world)
}

impl Deref for TmuxWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl TmuxWorld {
    fn socket(&self) -> String {
        self.inner.socket().to_string_lossy().into_owned()
    }

    fn has(&self, session: &str, pane: &str, display: Display, since: i64) {
        self.daemon
            .has(&self.socket(), session, pane, display, since);
    }

    fn becket_in_tmux(&self, args: &[&str]) -> Output {
        let mut becket = self.world.becket(args);
        becket.env("TMUX", format!("{},1,0", self.socket()));
        becket.output().expect("becket runs")
    }

    /// Waits until the outer terminal shows this pane.
    #[track_caller]
    fn shows(&self, pane: &str) {
        let look = || self.inner.tmux_says(&["list-clients", "-F", "#{pane_id}"]);
        let shown = wait::until(PATIENCE, || (look() == pane).then_some(()));
        assert!(shown.is_some(), "{:?} instead of {pane}", look());
    }
}

fn with_tmux(name: &str, test: impl FnOnce(&TmuxWorld)) {
    match tmux_world() {
        Ok(world) => test(&world),
        Err(why) => skip(name, &why),
    }
}

#[track_caller]
fn fails(output: &Output, code: i32, what: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(what), "{stderr}");
}

#[test]
fn next_and_jump_lead_to_the_pane() {
    with_tmux("next_and_jump_lead_to_the_pane", |world| {
        fails(&world.becket_in_tmux(&["tmux", "next"]), 3, "waits for you");
        world.has("aaa", "%0", Display::Working, 1);
        world.has("bbb", "%2", Display::Attention, 9);
        world.has("bbc", "%1", Display::Attention, 5);
        assert!(world.becket_in_tmux(&["tmux", "next"]).status.success());
        world.shows("%1");
        assert!(
            world
                .becket_in_tmux(&["tmux", "jump", "bbb"])
                .status
                .success()
        );
        world.shows("%2");
        fails(
            &world.becket_in_tmux(&["tmux", "jump", "bb"]),
            2,
            "bbb, bbc",
        );
        fails(
            &world.becket_in_tmux(&["tmux", "jump", "x"]),
            3,
            "the title `x`",
        );
        world.shows("%2");
    });
}

#[test]
fn a_missing_pane_and_a_missing_tmux_are_errors_with_hints() {
    let name = "a_missing_pane_and_a_missing_tmux_are_errors_with_hints";
    with_tmux(name, |world| {
        world.has("gone", "%9", Display::Done, 1);
        world
            .daemon
            .has("/nowhere/tmux", "closed", "%0", Display::Done, 1);
        world.has("here", "%1", Display::Done, 1);
        fails(&world.becket_in_tmux(&["tmux", "jump", "gone"]), 3, "hint:");
        fails(
            &world.becket_in_tmux(&["tmux", "jump", "closed"]),
            3,
            "/nowhere/tmux is gone",
        );
        let mut becket = world.becket(["tmux", "jump", "here"]);
        let output = becket
            .env("PATH", "/nowhere")
            .output()
            .expect("becket runs");
        fails(&output, 1, "there is no tmux");
        world.shows("%0");
    });
}

#[test]
fn the_lines_of_init_bind_the_key_and_mark_panes_as_seen() {
    with_tmux(
        "the_lines_of_init_bind_the_key_and_mark_panes_as_seen",
        |world| {
            let conf = world.home.join("a tmux.conf");
            fs::write(&conf, "set -g status-right mine").expect("a file");
            let conf = conf.to_string_lossy();
            assert!(
                world
                    .becket_in_tmux(&["up", "--tmux", "--write", &conf])
                    .status
                    .success()
            );
            world.inner.tmux_says(&["source-file", &conf]);
            world
                .inner
                .tmux_says(&["set-option", "-g", "@becket", "!7 3m"]);
            world.outer.wait_text("mine !7 3m");
            world.has("a", "%1", Display::Attention, 5);
            world.outer.press("C-b");
            world.outer.press("B");
            world.shows("%1");
            let seen = Ask::Seen(SeenAt::Pane {
                tmux_socket: world.socket(),
                pane: "%1".to_owned(),
            });
            let told = wait::until(PATIENCE, || world.daemon.was_asked(&seen).then_some(()));
            assert!(told.is_some(), "{:?}", world.daemon.asked);
            world.inner.tmux_says(&["source-file", &conf]);
            let right = world
                .inner
                .tmux_says(&["show-options", "-gv", "status-right"]);
            assert_eq!(right, "mine #{@becket}");
        },
    );
}

#[test]
fn paint_asks_the_daemon_for_this_server() {
    with_tmux("paint_asks_the_daemon_for_this_server", |world| {
        for (args, on) in [
            (&["tmux", "paint"][..], true),
            (&["tmux", "paint", "--off"], false),
        ] {
            assert!(world.becket_in_tmux(args).status.success());
            let tmux_socket = world.socket();
            assert!(world.daemon.was_asked(&Ask::Paint { tmux_socket, on }));
        }
    });
}

#[test]
fn tmux_status_prints_a_few_characters() {
    let (world, daemon) = (World::new(), FakeSessions::default());
    let _fake = daemon.listen(&world);
    assert_eq!(world.run(&["tmux", "status"]), "\n");
    let long_ago = 1_000;
    daemon.has("/s", "a", "%1", Display::Attention, long_ago);
    daemon.has("/s", "b", "%2", Display::Working, 1);
    daemon.has("/s", "c", "%3", Display::Done, 1);
    daemon.has("/s", "d", "%4", Display::Done, 1);
    let text = world.run(&["tmux", "status"]);
    assert!(
        text.starts_with("◆1 ") && text.ends_with("d ●1 ○2\n"),
        "{text}"
    );
    let printed: Value =
        serde_json::from_str(&world.run(&["tmux", "status", "--json"])).expect("JSON");
    assert_eq!(printed["text"], text.trim_end());
    for (field, count) in [
        ("error", 0),
        ("attention", 1),
        ("working", 1),
        ("checked", 0),
        ("done", 2),
    ] {
        assert_eq!(printed[field], json!(count), "{field}");
    }
    assert!(printed["longest_wait_ms"].as_i64().is_some_and(|ms| ms > 0));
}

#[test]
fn paint_and_seen_need_tmux_or_an_explicit_pane() {
    let world = World::new();
    fails(&world.output(&["tmux", "paint"]), 1, "not inside tmux");
    fails(&world.output(&["tmux", "seen"]), 1, "not inside tmux");
    let quiet = world.output(&["tmux", "seen", "--socket", "/s", "--pane", "%1"]);
    assert!(
        quiet.status.success() && quiet.stderr.is_empty(),
        "{quiet:?}"
    );
    fails(
        &world.output(&["tmux", "seen", "--socket", "/s", "--pane", "x"]),
        2,
        "%3",
    );
    assert!(world.daemon_pid().is_none(), "a daemon was started");
}

#[test]
fn init_changes_only_the_named_file() {
    let world = World::new();
    let printed = world.run(&["up", "--tmux"]);
    assert!(printed.contains("bind-key B"), "{printed}");
    let own = world.home.join(".tmux.conf");
    let settings = world.home.join(".claude/settings.json");
    assert!(!own.exists() && !settings.exists());
    let named = world.home.join("named.conf");
    fs::write(&named, "set -g mouse on\n").expect("a file");
    for _ in 0..2 {
        world.run(&["up", "--tmux", "--write", "named.conf"]);
        let text = fs::read_to_string(&named).expect("a file");
        assert_eq!(text, format!("set -g mouse on\n{printed}"));
    }
    assert!(!own.exists() && !settings.exists());
    fails(&world.output(&["up", "--write", "x"]), 2, "--tmux");
    fails(
        &world.output(&["up", "--tmux", "--strict"]),
        2,
        "cannot be used",
    );
    let told = world.run(&["down"]);
    assert!(told.contains("took becket's lines out of"), "{told}");
    assert_eq!(
        fs::read_to_string(&named).expect("a file"),
        "set -g mouse on\n"
    );
}
