//! The pusher against a real tmux server.

use std::ffi::OsString;
use std::path::Path;

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_wire::session::Display;
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;

use super::*;

/// A tmux server with one pane, `%0`, and a pusher.
struct Scene {
    terminal: Terminal,
    pusher: RunningPusher,
}

struct RunningPusher {
    requests: mpsc::Sender<TmuxRequest>,
    failed: Arc<Counters>,
}

impl RunningPusher {
    fn start() -> Self {
        let (requests, taking) = mpsc::channel(64);
        let failed = Arc::new(Counters::default());
        let counter = Arc::clone(&failed);
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(push(taking, counter));
        });
        Self { requests, failed }
    }

    fn update(&self, row: SessionRow) {
        let request = TmuxRequest::Session(Arc::new(row));
        self.requests.blocking_send(request).expect("a pusher");
    }

    fn paint(&self, socket: &str, on: bool) -> Result<(), TmuxError> {
        let (done, came) = oneshot::channel();
        let request = TmuxRequest::Paint {
            tmux_socket: socket.to_owned(),
            on,
            done,
        };
        self.requests.blocking_send(request).expect("a pusher");
        came.blocking_recv().expect("an answer")
    }
}

fn scene(name: &str) -> Option<Scene> {
    let command = ["/bin/sh", "-c", "sleep 600"].map(OsString::from);
    match Terminal::start(&command, &[], Path::new("/"), (80, 24)) {
        Ok(terminal) => Some(Scene {
            terminal,
            pusher: RunningPusher::start(),
        }),
        Err(why) => {
            skip(name, &why);
            None
        }
    }
}

impl Scene {
    fn socket(&self) -> String {
        self.terminal.socket().to_string_lossy().into_owned()
    }

    fn row(&self, id: &str, display: Display) -> SessionRow {
        SessionRow {
            session_id: id.to_owned(),
            display,
            display_since: now_ms(),
            hooked: true,
            tmux_socket: Some(self.socket()),
            tmux_pane: Some("%0".to_owned()),
            ..SessionRow::default()
        }
    }

    fn ended(&self, id: &str) -> SessionRow {
        SessionRow {
            ended_at: Some(1),
            ..self.row(id, Display::Done)
        }
    }

    fn text(&self) -> String {
        self.terminal
            .tmux_says(&["show-options", "-gqv", "@becket"])
    }

    /// Returns the options that are set on the pane.
    fn options(&self) -> String {
        self.terminal.tmux_says(&["show-options", "-p", "-t", "%0"])
    }

    #[track_caller]
    fn comes(&self, what: &str, looks: impl Fn() -> bool) {
        let came = wait::until(PATIENCE, || looks().then_some(()));
        assert!(
            came.is_some(),
            "never {what}: {:?} {}",
            self.text(),
            self.options()
        );
    }
}

#[test]
fn the_states_of_sessions_are_pushed() {
    let Some(scene) = scene("the_states_of_sessions_are_pushed") else {
        return;
    };
    scene.pusher.update(SessionRow {
        tmux_pane: Some("%9".to_owned()),
        ..scene.row("gone", Display::Working)
    });
    scene.pusher.update(scene.row("a", Display::Done));
    scene.comes("done", || scene.options() == "@becket_state done");
    scene.pusher.update(scene.row("b", Display::Attention));
    scene.comes("attention", || scene.options() == "@becket_state waiting");
    assert_eq!(scene.text(), "◆1 ●1 ○1");
    for id in ["gone", "a", "b"] {
        scene.pusher.update(scene.ended(id));
    }
    scene.comes("nothing", || {
        scene.options().is_empty() && scene.text().is_empty()
    });
    assert_eq!(scene.pusher.failed.counts().tmux_failed, 0);
}

#[test]
fn colours_can_be_removed_and_outlive_the_daemon() {
    let Some(mut scene) = scene("colours_can_be_removed_and_outlive_the_daemon") else {
        return;
    };
    let socket = scene.socket();
    let has = |scene: &Scene, display| {
        let options = scene.options();
        let lines = STYLES.map(|option| format!("{option} {}", style(display)));
        lines.iter().all(|line| options.contains(line))
    };
    scene.pusher.update(scene.row("a", Display::Working));
    assert_eq!(scene.pusher.paint(&socket, true), Ok(()));
    scene.comes("working", || has(&scene, Display::Working));
    scene.pusher.update(scene.row("a", Display::Error));
    scene.comes("error", || has(&scene, Display::Error));
    assert_eq!(scene.pusher.paint(&socket, false), Ok(()));
    assert_eq!(scene.options(), "@becket_state failed");

    assert_eq!(scene.pusher.paint(&socket, true), Ok(()));
    scene.comes("paint again", || has(&scene, Display::Error));
    scene.pusher = RunningPusher::start();
    scene.pusher.update(scene.row("b", Display::Attention));
    scene.comes("attention", || has(&scene, Display::Attention));
    scene.pusher.update(SessionRow {
        tmux_pane: Some("%7".to_owned()),
        ..scene.row("b", Display::Error)
    });
    scene.comes("the session has left", || scene.options().is_empty());
    assert_eq!(scene.pusher.failed.counts().tmux_failed, 0);
}

#[test]
fn a_server_that_hangs_or_is_gone_blocks_no_other() {
    let name = "a_server_that_hangs_or_is_gone_blocks_no_other";
    let (Some(stopped), Some(scene)) = (scene(name), scene(name)) else {
        return;
    };
    let server = stopped
        .terminal
        .tmux_says(&["display-message", "-p", "#{pid}"]);
    let server = server
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a server");
    let (hangs, row) = (stopped.socket(), stopped.row("h", Display::Done));
    kill_process(server, Signal::STOP).expect("stop the server");
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone").to_string_lossy().into_owned();
    scene.pusher.update(row);
    scene.pusher.update(SessionRow {
        tmux_socket: Some(gone.clone()),
        ..scene.row("g", Display::Done)
    });
    scene.pusher.update(scene.row("a", Display::Working));
    scene.comes("working", || scene.options() == "@becket_state working");
    let asked = std::time::Instant::now();
    let refused = scene.pusher.paint(&hangs, true);
    let waited = asked.elapsed();
    kill_process(server, Signal::CONT).expect("let the server go on");
    assert_eq!(refused, Err(TmuxError::Hangs(hangs)));
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    assert!(
        scene.pusher.failed.counts().tmux_failed >= 2,
        "{:?}",
        scene.pusher.failed
    );
    assert!(!Path::new(&gone).exists(), "a server was started");
}

#[test]
fn only_options_that_differ_are_set() {
    let wanted = ServerDisplay {
        text: "!1".to_owned(),
        panes: [("%1", Display::Working), ("%2", Display::Attention)]
            .map(|(pane, display)| (pane.to_owned(), display))
            .into(),
        efforts: [("%1".to_owned(), "fix/plan ♥2 45%".to_owned())].into(),
    };
    let told = |shown: &str, paint| -> Vec<String> {
        let commands = commands(shown, &wanted, paint);
        commands.iter().map(|words| words.join(" ")).collect()
    };
    let plain = "%1\t\tworking\tfix/plan ♥1\tdefault\n%2\t\t\t\tbg=red\n%3\t\tdone\tprd ♥0\tbg=red\nnonsense\n";
    let states = [
        "set-option -g @becket !1",
        "set-option -p -t %1 @becket_effort fix/plan ♥2 45%",
        "set-option -p -t %2 @becket_state waiting",
        "set-option -pu -t %3 @becket_state",
        "set-option -pu -t %3 @becket_effort",
    ];
    assert_eq!(told(plain, None), states);
    let painted = "%1\ton\tworking\tfix/plan ♥2 45%\tbg=colour17\n%2\ton\twaiting\t\tbg=colour58\n";
    assert_eq!(told(painted, None).len(), 1);
    let left = format!("{painted}%3\ton\t\t\tbg=colour22\n");
    let unset = STYLES.map(|option| format!("set-option -pu -t %3 {option}"));
    assert_eq!(told(&left, None)[1..], unset);
    assert_eq!(told(painted, Some(false)).len(), 6);
    assert_eq!(told(plain, Some(true)).len(), 10);
}

#[test]
fn the_tally_counts_live_sessions_and_the_longest_wait() {
    let row = |display, since| SessionRow {
        display,
        display_since: since,
        hooked: true,
        ..SessionRow::default()
    };
    let mut rows: Vec<SessionRow> = Display::ALL.map(|display| row(display, 0)).into();
    rows.push(row(Display::Attention, -240_000));
    rows.push(SessionRow {
        ended_at: Some(1),
        ..row(Display::Error, 0)
    });
    rows.push(SessionRow {
        hooked: false,
        ..row(Display::Done, 0)
    });
    assert_eq!(Tally::from_rows(&rows).text(1000), "✗1 ◆2 4m ◇1 ●1 ○1");
    assert_eq!(Tally::from_rows(&[]).text(0), "");
    let spans = [-5, 59, 60, 3599, 3600, 86_399, 9 * 86_400].map(|s| span(s * 1000));
    let expected = [
        None,
        None,
        Some("1m"),
        Some("59m"),
        Some("1h"),
        Some("23h"),
        Some("9d"),
    ];
    assert_eq!(
        spans.map(Option::unwrap_or_default),
        expected.map(Option::unwrap_or_default)
    );
}
