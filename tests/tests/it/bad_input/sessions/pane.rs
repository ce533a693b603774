//! A session whose pane or tmux is not there.

use std::path::Path;

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use serde_json::json;

use super::{NASTY, is_inert, session, tell, unharmed, view};

/// Tells of a session in a pane.
fn tell_in_pane(world: &World, session: &str, tmux: &str, pane: &str) {
    let mut shim = world.shim("UserPromptSubmit");
    shim.env("TMUX", tmux).env("TMUX_PANE", pane);
    let prompt = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": "in a pane",
    });
    let called = call(shim, prompt.to_string().as_bytes());
    assert!(called.is_silent(), "{called:?}");
}

#[test]
fn without_tmux_everything_else_goes_on() {
    let world = World::new();
    let path = world.programs.to_string_lossy().into_owned();
    let started = world
        .becket(["daemon", "start"])
        .env("PATH", &path)
        .output();
    assert!(started.expect("becket runs").status.success());
    let daemon = world.daemon_pid().expect("a daemon");
    // A socket that somebody listens on, and panes that are not there or are no panes.
    let socket = world.root().join("tmux");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let socket = format!("{},1,0", socket.display());
    for (id, tmux, pane) in [
        ("s1", &*socket, "%0"),
        ("s2", "/nowhere/tmux,1,0", "%99"),
        ("s3", "", ""),
        ("s4", NASTY, NASTY),
        ("s5", &*socket, "kill-server"),
    ] {
        let tmux = tmux.replace('\0', "");
        tell_in_pane(&world, id, &tmux, &pane.replace('\0', ""));
        tell(
            &world,
            id,
            "PermissionRequest",
            &json!({"tool_name": "Bash"}),
        );
        assert_eq!(session(&world, id)["display"], "attention", "{id}");
    }
    let becket = |args: &[&str]| {
        let output = world.becket(args).env("PATH", &path).output();
        let output = output.expect("becket runs");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        is_inert(&format!("becket {args:?}"), &said);
        (output.status.code(), said)
    };
    let (code, said) = becket(&["tmux", "status"]);
    assert!(code == Some(0) && said.starts_with("!5"), "{said}");
    let (code, said) = becket(&["tmux", "jump", "s1"]);
    assert!(
        code == Some(1) && said.contains("there is no tmux"),
        "{said}"
    );
    for id in ["s2", "s3", "s4", "s5"] {
        let (code, said) = becket(&["tmux", "jump", id]);
        assert!(
            code != Some(0) && said.starts_with("error: "),
            "{id}: {said}"
        );
    }
    // The daemon wants to push into those servers, and counts that it cannot.
    let failed = || {
        let failed = world.status()["counts"]["tmux_failed"].as_u64();
        failed.filter(|count| *count > 0)
    };
    assert!(
        wait::until(PATIENCE, failed).is_some(),
        "{}",
        world.status()
    );
    let mut paint = world.becket(["tmux", "paint"]);
    paint.env("PATH", &path).env("TMUX", &socket);
    let painted = paint.output().expect("becket runs");
    assert!(!painted.status.success(), "{painted:?}");
    unharmed(&world, daemon);
    let name = "without_tmux_everything_else_goes_on";
    if let Some(view) = view(name, &world, Some(&path)) {
        view.wait_text("5 waiting");
        view.press("Enter");
        view.wait_text("there is no tmux");
        view.wait_text("5 waiting");
    }
}

#[test]
fn a_pane_that_is_gone_is_said() {
    let name = "a_pane_that_is_gone_is_said";
    let world = World::new();
    let daemon = world.start_daemon();
    let cat = ["cat".into()];
    let pane = match Terminal::start(&cat, &[], Path::new("/"), (80, 24)) {
        Ok(pane) => pane,
        Err(why) => return skip(name, &why),
    };
    let socket = format!("{},1,0", pane.socket().display());
    tell_in_pane(&world, "s1", &socket, "%77");
    tell(
        &world,
        "s1",
        "PermissionRequest",
        &json!({"tool_name": "Bash"}),
    );
    let jumped = world.output(&["tmux", "jump", "s1"]);
    let said = String::from_utf8_lossy(&jumped.stderr).into_owned();
    assert!(
        jumped.status.code() == Some(3) && said.contains("%77"),
        "{said}"
    );
    let Some(view) = view(name, &world, None) else {
        return;
    };
    view.wait_text("1 waiting");
    view.press("Enter");
    view.wait_text("the pane %77 is gone");
    drop(pane);
    tell(&world, "s1", "Stop", &json!({}));
    view.wait_text("1 done");
    unharmed(&world, daemon);
}
