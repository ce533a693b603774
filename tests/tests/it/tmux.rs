//! `becket tmux` in a real tmux: somebody looks at one session in an outer terminal, and is led to
//! others. A stand-in for the daemon tells of the sessions and keeps what it is asked.

mod live;

use std::ffi::OsString;
use std::fs;
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

use crate::bad_input::fake::{self, Fake};

/// The sessions of the stand-in, and what was asked of it.
#[derive(Clone, Default)]
struct Daemon {
    rows: Arc<Mutex<Vec<SessionRow>>>,
    asked: Arc<Mutex<Vec<Ask>>>,
}

impl Daemon {
    fn listen(&self, world: &World) -> Fake {
        let daemon = self.clone();
        Fake::new(world, move |mut stream| {
            while let Some(frame) = fake::frame(&mut stream) {
                let Ok(Request::Ask(ask)) = Request::from_frame(frame) else {
                    return;
                };
                let told = daemon.answer(&ask);
                daemon.asked.lock().expect("a list").push(ask);
                fake::say(&mut stream, &Response::Reply(told));
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

/// A tmux server with the panes %0 and %1 in two windows of one session and %2 in another, and a
/// terminal that shows %0.
struct Scene {
    world: World,
    daemon: Daemon,
    inner: Terminal,
    outer: Terminal,
    _fake: Fake,
}

fn scene() -> Result<Scene, Unavailable> {
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
    let daemon = Daemon::default();
    let fake = daemon.listen(&world);
    let scene = Scene {
        world,
        daemon,
        inner,
        outer,
        _fake: fake,
    };
    scene.shows("%0");
    Ok(scene)
}

impl Scene {
    fn socket(&self) -> String {
        self.inner.socket().to_string_lossy().into_owned()
    }

    fn has(&self, session: &str, pane: &str, display: Display, since: i64) {
        self.daemon
            .has(&self.socket(), session, pane, display, since);
    }

    fn becket(&self, args: &[&str]) -> Output {
        let mut becket = self.world.becket(args);
        becket.env("TMUX", format!("{},1,0", self.socket()));
        becket.output().expect("becket runs")
    }

    /// Waits until the person's terminal shows this pane.
    #[track_caller]
    fn shows(&self, pane: &str) {
        let look = || self.inner.tmux_says(&["list-clients", "-F", "#{pane_id}"]);
        let shown = wait::until(PATIENCE, || (look() == pane).then_some(()));
        assert!(shown.is_some(), "{:?} instead of {pane}", look());
    }
}

fn told(name: &str, tell: impl FnOnce(&Scene)) {
    match scene() {
        Ok(scene) => tell(&scene),
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
    told("next_and_jump_lead_to_the_pane", |scene| {
        fails(&scene.becket(&["tmux", "next"]), 3, "waits for you");
        scene.has("aaa", "%0", Display::Working, 1);
        scene.has("bbb", "%2", Display::Attention, 9);
        scene.has("bbc", "%1", Display::Attention, 5);
        assert!(scene.becket(&["tmux", "next"]).status.success());
        scene.shows("%1");
        assert!(scene.becket(&["tmux", "jump", "bbb"]).status.success());
        scene.shows("%2");
        fails(&scene.becket(&["tmux", "jump", "bb"]), 2, "bbb, bbc");
        fails(&scene.becket(&["tmux", "jump", "x"]), 3, "begins with `x`");
        scene.shows("%2");
    });
}

#[test]
fn a_pane_that_is_gone_and_a_tmux_that_is_absent_are_said() {
    let name = "a_pane_that_is_gone_and_a_tmux_that_is_absent_are_said";
    told(name, |scene| {
        scene.has("gone", "%9", Display::Done, 1);
        scene
            .daemon
            .has("/nowhere/tmux", "closed", "%0", Display::Done, 1);
        scene.has("here", "%1", Display::Done, 1);
        fails(&scene.becket(&["tmux", "jump", "gone"]), 3, "hint:");
        fails(
            &scene.becket(&["tmux", "jump", "closed"]),
            3,
            "/nowhere/tmux is gone",
        );
        let mut becket = scene.world.becket(["tmux", "jump", "here"]);
        let output = becket
            .env("PATH", "/nowhere")
            .output()
            .expect("becket runs");
        fails(&output, 1, "there is no tmux");
        scene.shows("%0");
    });
}

#[test]
fn the_lines_of_init_bind_the_key_and_tell_what_is_seen() {
    told(
        "the_lines_of_init_bind_the_key_and_tell_what_is_seen",
        |scene| {
            let conf = scene.world.home.join("a tmux.conf");
            fs::write(&conf, "set -g status-right mine").expect("a file");
            let conf = conf.to_string_lossy();
            assert!(
                scene
                    .becket(&["init", "--tmux", "--write", &conf])
                    .status
                    .success()
            );
            scene.inner.tmux_says(&["source-file", &conf]);
            scene
                .inner
                .tmux_says(&["set-option", "-g", "@becket", "!7 3m"]);
            scene.outer.wait_text("mine !7 3m");
            scene.has("a", "%1", Display::Attention, 5);
            scene.outer.press("C-b");
            scene.outer.press("B");
            scene.shows("%1");
            let seen = Ask::Seen(SeenAt::Pane {
                tmux_socket: scene.socket(),
                pane: "%1".to_owned(),
            });
            let told = wait::until(PATIENCE, || scene.daemon.was_asked(&seen).then_some(()));
            assert!(told.is_some(), "{:?}", scene.daemon.asked);
            scene.inner.tmux_says(&["source-file", &conf]);
            let right = scene
                .inner
                .tmux_says(&["show-options", "-gv", "status-right"]);
            assert_eq!(right, "mine #{@becket}");
        },
    );
}

#[test]
fn paint_is_asked_of_the_daemon_for_this_server() {
    told("paint_is_asked_of_the_daemon_for_this_server", |scene| {
        for (args, on) in [
            (&["tmux", "paint"][..], true),
            (&["tmux", "paint", "--off"], false),
        ] {
            assert!(scene.becket(args).status.success());
            let tmux_socket = scene.socket();
            assert!(scene.daemon.was_asked(&Ask::Paint { tmux_socket, on }));
        }
    });
}

#[test]
fn status_is_a_few_characters() {
    let (world, daemon) = (World::new(), Daemon::default());
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
fn outside_tmux_there_is_nothing_to_paint() {
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
fn init_touches_only_the_file_that_was_named() {
    let world = World::new();
    let printed = world.run(&["init", "--tmux"]);
    assert!(printed.contains("bind-key B"), "{printed}");
    let own = world.home.join(".tmux.conf");
    let settings = world.home.join(".claude/settings.json");
    assert!(!own.exists() && !settings.exists());
    let named = world.home.join("named.conf");
    fs::write(&named, "set -g mouse on\n").expect("a file");
    for _ in 0..2 {
        world.run(&["init", "--tmux", "--write", "named.conf"]);
        let text = fs::read_to_string(&named).expect("a file");
        assert_eq!(text, format!("set -g mouse on\n{printed}"));
    }
    assert!(!own.exists() && !settings.exists());
    fails(&world.output(&["init", "--write", "x"]), 2, "--tmux");
    fails(
        &world.output(&["init", "--tmux", "--strict"]),
        2,
        "cannot be used",
    );
    let told = world.run(&["uninit"]);
    assert!(told.contains("took becket's lines out of"), "{told}");
    assert_eq!(
        fs::read_to_string(&named).expect("a file"),
        "set -g mouse on\n"
    );
}
