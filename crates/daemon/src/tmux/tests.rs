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

/// A tmux server with one pane, `%0`, and a pusher. None where there is no tmux.
struct Scene {
    terminal: Terminal,
    pusher: Pushing,
}

struct Pushing {
    orders: mpsc::Sender<Order>,
    failed: Arc<Counters>,
}

impl Pushing {
    fn start() -> Self {
        let (orders, taking) = mpsc::channel(64);
        let failed = Arc::new(Counters::default());
        let counter = Arc::clone(&failed);
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(push(taking, counter));
        });
        Self { orders, failed }
    }

    fn tell(&self, row: SessionRow) {
        let order = Order::Session(Arc::new(row));
        self.orders.blocking_send(order).expect("a pusher");
    }

    fn paint(&self, socket: &str, on: bool) -> Result<(), TmuxError> {
        let (done, came) = oneshot::channel();
        let order = Order::Paint {
            tmux_socket: socket.to_owned(),
            on,
            done,
        };
        self.orders.blocking_send(order).expect("a pusher");
        came.blocking_recv().expect("an answer")
    }
}

fn scene(name: &str) -> Option<Scene> {
    let command = ["/bin/sh", "-c", "sleep 600"].map(OsString::from);
    match Terminal::start(&command, &[], Path::new("/"), (80, 24)) {
        Ok(terminal) => Some(Scene {
            terminal,
            pusher: Pushing::start(),
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

    /// Everything that the pane has of its own.
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
fn what_sessions_do_is_pushed() {
    let Some(scene) = scene("what_sessions_do_is_pushed") else {
        return;
    };
    scene.pusher.tell(scene.row("a", Display::Done));
    scene.comes("done", || scene.options() == "@becket_state done");
    scene.pusher.tell(scene.row("b", Display::Attention));
    scene.comes("attention", || scene.options() == "@becket_state attention");
    assert_eq!(scene.text(), "!1 ✓1");
    scene.pusher.tell(scene.ended("b"));
    scene.pusher.tell(scene.ended("a"));
    scene.comes("nothing", || {
        scene.options().is_empty() && scene.text().is_empty()
    });
    assert_eq!(scene.pusher.failed.tmux_failed.get(), 0);
}

#[test]
fn paint_is_taken_back_to_the_last_option() {
    let Some(scene) = scene("paint_is_taken_back_to_the_last_option") else {
        return;
    };
    let own = "set-option -p -t %0 window-style fg=red,bg=default";
    scene
        .terminal
        .tmux_says(&own.split(' ').collect::<Vec<_>>());
    let before = scene.options();
    let socket = scene.socket();
    let has = |style: &str| {
        let options = scene.options();
        let lines = ["window-style", "window-active-style"];
        lines
            .iter()
            .all(|line| options.contains(&format!("{line} {style}")))
    };
    scene.pusher.tell(scene.row("a", Display::Working));
    assert_eq!(scene.pusher.paint(&socket, true), Ok(()));
    scene.comes("working", || has(plan::style(Display::Working)));
    scene.pusher.tell(scene.row("a", Display::Error));
    scene.comes("error", || has(plan::style(Display::Error)));
    assert_eq!(scene.pusher.paint(&socket, false), Ok(()));
    assert_eq!(scene.options(), format!("@becket_state error\n{before}"));

    assert_eq!(scene.pusher.paint(&socket, true), Ok(()));
    scene.comes("paint again", || has(plan::style(Display::Error)));
    let elsewhere = SessionRow {
        tmux_pane: Some("%7".to_owned()),
        ..scene.row("a", Display::Error)
    };
    scene.pusher.tell(elsewhere);
    scene.comes("the session has left", || scene.options() == before);
    assert_eq!(scene.pusher.failed.tmux_failed.get(), 0);
}

#[test]
fn another_daemon_goes_on_with_the_paint_of_the_first() {
    let Some(mut scene) = scene("another_daemon_goes_on_with_the_paint_of_the_first") else {
        return;
    };
    let socket = scene.socket();
    let before = scene.options();
    scene.pusher.tell(scene.row("a", Display::Working));
    assert_eq!(scene.pusher.paint(&socket, true), Ok(()));
    scene.pusher = Pushing::start();
    scene.pusher.tell(scene.row("b", Display::Attention));
    let attention = plan::style(Display::Attention);
    scene.comes("attention", || scene.options().contains(attention));
    scene.pusher.tell(scene.ended("b"));
    scene.comes("nothing", || scene.options() == before);
}

#[test]
fn a_pane_that_is_gone_hides_no_other() {
    let Some(scene) = scene("a_pane_that_is_gone_hides_no_other") else {
        return;
    };
    let gone = SessionRow {
        tmux_pane: Some("%9".to_owned()),
        ..scene.row("gone", Display::Error)
    };
    scene.pusher.tell(gone);
    scene.pusher.tell(scene.row("a", Display::Working));
    scene.comes("working", || scene.options() == "@becket_state working");
    assert_eq!(scene.text(), "✗1 ▸1");
}

#[test]
fn a_server_that_hangs_or_is_gone_holds_up_no_other() {
    let name = "a_server_that_hangs_or_is_gone_holds_up_no_other";
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
    scene.pusher.tell(row);
    scene.pusher.tell(SessionRow {
        tmux_socket: Some(gone.clone()),
        ..scene.row("g", Display::Done)
    });
    scene.pusher.tell(scene.row("a", Display::Working));
    scene.comes("working", || scene.options() == "@becket_state working");
    let asked = std::time::Instant::now();
    let refused = scene.pusher.paint(&hangs, true);
    let waited = asked.elapsed();
    kill_process(server, Signal::CONT).expect("let the server go on");
    assert_eq!(refused, Err(TmuxError::Hangs(hangs)));
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    assert!(
        scene.pusher.failed.tmux_failed.get() >= 2,
        "{:?}",
        scene.pusher.failed
    );
    assert!(!Path::new(&gone).exists(), "a server was started");
}

#[test]
fn a_session_that_ended_unheard_is_not_counted_for_ever() {
    let row = |id: &str| SessionRow {
        session_id: id.to_owned(),
        hooked: true,
        tmux_pane: Some("%0".to_owned()),
        tmux_socket: Some("/tmp/tmux/default".to_owned()),
        ..SessionRow::default()
    };
    let mut pusher = Pusher::default();
    for id in ["a", "b"] {
        pusher.take(Order::Session(Arc::new(row(id))));
    }
    pusher.take(Order::All(vec![row("b")]));
    let known: Vec<&String> = pusher.sessions.keys().collect();
    assert_eq!(known, ["b"]);
}
