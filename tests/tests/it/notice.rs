//! Notices: in the answer if the terminal shows it, else by a command that the daemon runs.

use std::fs;

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call, is_alive, write_program};
use serde_json::{Value, json};

pub const SESSION: &str = "4f9d1c02-6a3e-4b58-9c1d-2e7f80a1b3c4";

/// Creates a world with this `[notice]` config.
fn world(notice: &str) -> World {
    let world = World::new();
    fs::create_dir_all(&world.becket_home).expect("a home");
    wish(&world, notice);
    world
}

fn wish(world: &World, notice: &str) {
    fs::write(world.path("config.toml"), format!("[notice]\n{notice}\n")).expect("a config");
}

/// Sends an event of a session in the project `shop`.
fn send(world: &World, session: &str, event: &str, fields: &Value) -> Called {
    let mut payload = json!({
        "hook_event_name": event,
        "session_id": session,
        "cwd": world.home.join("shop"),
        "prompt_id": "p",
    });
    for (name, value) in fields.as_object().expect("fields") {
        payload[name] = value.clone();
    }
    world.send(event, payload.to_string())
}

fn send_prompt(world: &World, session: &str) {
    let sent = send(world, session, "UserPromptSubmit", &json!({"prompt": "go"}));
    assert!(sent.is_silent(), "{sent:?}");
}

pub fn send_permission_request(world: &World, session: &str) -> Called {
    let fields = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}});
    send(world, session, "PermissionRequest", &fields)
}

/// Waits for the output of the command.
fn wait_written(world: &World, name: &str) -> String {
    let file = world.home.join(name);
    let found = wait::until(PATIENCE, || {
        fs::read_to_string(&file)
            .ok()
            .filter(|text| text.ends_with('\n'))
    });
    found.unwrap_or_else(|| panic!("no command wrote {name}"))
}

/// A command that records its environment and stdin, and then creates a marker file.
const WRITES: &str = r#"command = 'cd; { env | grep ^BECKET_NOTICE | sort; cat; } > notice.new; mv notice.new notice; echo told'"#;

#[test]
fn no_notice_is_sent_without_a_setting() {
    let world = World::new();
    send_prompt(&world, SESSION);
    assert!(send_permission_request(&world, SESSION).is_silent());
    assert!(send(&world, SESSION, "Stop", &json!({})).is_silent());
}

#[test]
fn the_answer_carries_a_bell_when_a_session_starts_to_wait_for_its_user() {
    let world = world("on = \"attention\"");
    let bell = "{\"terminalSequence\":\"\\u0007\"}";
    send_prompt(&world, SESSION);
    assert_eq!(send_permission_request(&world, SESSION).stdout, bell);
    // The same dialog has begun already.
    assert!(send_permission_request(&world, SESSION).is_silent());
    assert!(send(&world, SESSION, "Stop", &json!({})).is_silent());
    send_prompt(&world, SESSION);
    let asked = send(
        &world,
        SESSION,
        "Elicitation",
        &json!({"mcp_server_name": "m"}),
    );
    assert_eq!(asked.stdout, bell);
    let events = world.events();
    let rung = events.iter().filter(|row| !row["decision"].is_null());
    let rung: Vec<_> = rung
        .map(|row| (&row["event"], &row["decision"]["by"]))
        .collect();
    assert_eq!(
        rung,
        [
            (&json!("PermissionRequest"), &json!("becket:notice")),
            (&json!("Elicitation"), &json!("becket:notice"))
        ]
    );
}

#[test]
fn the_answer_carries_a_notice_when_long_work_is_done() {
    let world = world("on = \"done\"\nhow = \"osc9\"\nafter = \"0s\"");
    send_prompt(&world, SESSION);
    assert!(send_permission_request(&world, SESSION).is_silent());
    send(
        &world,
        SESSION,
        "PostToolUse",
        &json!({"tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    let stopped = send(&world, SESSION, "Stop", &json!({}));
    let answer: Value = serde_json::from_str(&stopped.stdout).expect("JSON");
    let said = answer["terminalSequence"].as_str().expect("a sequence");
    assert!(
        said.starts_with("\u{1b}]9;Claude Code in shop is done after "),
        "{said:?}"
    );
    assert_eq!(
        answer.as_object().map(serde_json::Map::len),
        Some(1),
        "{answer}"
    );
    wish(&world, "on = \"done\"");
    send_prompt(&world, SESSION);
    assert!(
        send(&world, SESSION, "Stop", &json!({})).is_silent(),
        "it took no minute"
    );
}

#[test]
fn without_a_daemon_only_questions_carry_a_bell() {
    let world = world("on = \"all\"\nafter = \"0s\"");
    let alone = |event: &str| {
        let payload = json!({"hook_event_name": event, "session_id": SESSION, "tool_name": "Bash", "tool_input": {}});
        let shim = world.standalone_shim(event);
        call(shim, payload.to_string().as_bytes()).stdout
    };
    for event in ["PermissionRequest", "Elicitation"] {
        assert_eq!(
            alone(event),
            "{\"terminalSequence\":\"\\u0007\"}",
            "{event}"
        );
    }
    for event in ["UserPromptSubmit", "PreToolUse", "Stop", "StopFailure"] {
        assert_eq!(alone(event), "", "{event}");
    }
}

#[test]
fn a_command_notifies_when_the_terminal_is_not_reachable() {
    let world = world(&format!("on = \"all\"\nafter = \"0s\"\n{WRITES}"));
    send_prompt(&world, SESSION);
    let failed = send(
        &world,
        SESSION,
        "StopFailure",
        &json!({"error": "rate_limit\u{1b}]0;x\u{7}"}),
    );
    assert!(failed.is_silent(), "{failed:?}");
    let told = wait_written(&world, "notice");
    let (variables, row) = told.trim_end().rsplit_once('\n').expect("a row");
    // The duration is not compared, since the machine may be busy.
    let took = variables.split("failed after ").nth(1).expect("a time");
    let took = took.split(':').next().expect("a time");
    assert!(took.ends_with(" s"), "{took}");
    let text = format!("BECKET_NOTICE_TEXT=failed after {took}: API error: rate limit]0;x");
    let shop = world.home.join("shop");
    let expected = format!(
        "BECKET_NOTICE_KIND=error\nBECKET_NOTICE_PROJECT={}\nBECKET_NOTICE_SESSION={SESSION}\n{text}\nBECKET_NOTICE_TITLE=Claude Code in shop",
        shop.display()
    );
    assert_eq!(variables, expected);
    let row: Value = serde_json::from_str(row).expect("JSON");
    let mut shown = world.sessions().remove(0);
    assert_eq!(row["display"], "error");
    shown["last_activity"].clone_from(&row["last_activity"]);
    assert_eq!(row, shown);
    let log = world.path("log/daemon.log");
    let logged = wait::until(PATIENCE, || {
        fs::read_to_string(&log)
            .ok()
            .filter(|log| log.contains("told"))
    });
    assert!(logged.is_some(), "what it printed is not in the log");
}

#[test]
fn an_error_found_in_the_transcript_sends_a_notice() {
    let world = world(&format!("on = \"all\"\nafter = \"0s\"\n{WRITES}"));
    let transcript = world.home.join("transcript.jsonl");
    fs::write(&transcript, "").expect("a transcript");
    let fields = json!({"prompt": "go", "transcript_path": transcript});
    send(&world, SESSION, "UserPromptSubmit", &fields);
    let died = json!({
        "type": "assistant", "isApiErrorMessage": true, "error": "overloaded",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "API Error"}]},
    });
    fs::write(&transcript, format!("{died}\n")).expect("a transcript");
    let told = wait_written(&world, "notice");
    assert!(told.contains("BECKET_NOTICE_KIND=error\n"), "{told}");
}

#[test]
fn the_next_daemon_sends_the_notice_of_an_event_judged_standalone() {
    let world = world(&format!("on = \"attention\"\nhow = \"command\"\n{WRITES}"));
    let payload = json!({
        "hook_event_name": "PermissionRequest", "session_id": SESSION,
        "tool_name": "Bash", "tool_input": {"command": "make push"},
    });
    let shim = world.standalone_shim("PermissionRequest");
    assert!(call(shim, payload.to_string().as_bytes()).is_silent());
    world.start_daemon();
    let told = wait_written(&world, "notice");
    assert!(
        told.contains("is waiting for you: wants to run: make push\n"),
        "{told}"
    );
}

#[test]
fn a_notice_command_ends_with_the_daemon() {
    let world =
        world("on = \"all\"\nhow = \"command\"\ncommand = 'cd; sleep 600 & echo $! > pid; wait'");
    send_prompt(&world, SESSION);
    send_permission_request(&world, SESSION);
    let pid: u32 = wait_written(&world, "pid").trim().parse().expect("a pid");
    world.run(&["daemon", "stop"]);
    // The daemon was its only time limit.
    let gone = wait::until(PATIENCE, || (!is_alive(pid)).then_some(()));
    assert!(gone.is_some(), "{pid} lives on");
}

#[test]
fn a_failed_notice_command_is_reported_until_one_succeeds() {
    let world = world("on = \"all\"\nhow = \"command\"\ncommand = [\"/nowhere/to/be/found\"]");
    let troubles = |what: &str| {
        let said = wait::until(PATIENCE, || {
            let troubles = world.status()["troubles"].to_string();
            troubles.contains(what).then_some(())
        });
        assert!(said.is_some(), "{what}: {}", world.status()["troubles"]);
    };
    for (session, command, trouble) in [
        ("a", "[\"/nowhere\"]", "the notice command did not start"),
        (
            "b",
            "'exit 3'",
            "the notice command ended with exit status: 3",
        ),
        (
            "c",
            "'yes | head -c 1000000; exit 4'",
            "the notice command ended with exit status: 4",
        ),
        ("d", "'true'", "[]"),
    ] {
        wish(
            &world,
            &format!("on = \"all\"\nhow = \"command\"\ncommand = {command}"),
        );
        send_prompt(&world, session);
        assert!(send_permission_request(&world, session).is_silent());
        troubles(trouble);
    }
    let log = fs::metadata(world.path("log/daemon.log"))
        .expect("a log")
        .len();
    assert!(log < 64 << 10, "a flood reached the log: {log}");
}

#[test]
fn the_daemon_finds_programs_by_the_path_of_init() {
    let world = world("on = \"all\"\nhow = \"command\"\ncommand = [\"tell\"]");
    let folder = |name: &str, body: &str| {
        let folder = world.root().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        for program in ["tell", "tmux"] {
            write_program(&folder.join(program), &format!("#!/bin/sh\n{body}\n"));
        }
        format!("{}:/usr/bin:/bin", folder.display())
    };
    let file = world.home.join("told");
    let good = folder(
        "good",
        &format!("echo \"$HOME $TZ $PATH\" > '{}'", file.display()),
    );
    let bad = folder("bad", "touch \"$0.ran\"");
    let mut init = world.becket(["up", "--only-register"]);
    init.env("PATH", &good).env("TZ", "Asia/Tokyo");
    assert!(init.output().expect("becket runs").status.success());
    for event in ["UserPromptSubmit", "PermissionRequest"] {
        let mut shim = world.shim(event);
        shim.env("PATH", &bad)
            .env("TZ", "Mars")
            .env("HOME", "/elsewhere");
        let payload = json!({
            "hook_event_name": event, "session_id": SESSION, "cwd": world.home, "prompt": "go",
            "tool_name": "Bash", "tool_input": {"command": "ls"},
        });
        call(shim, payload.to_string().as_bytes());
    }
    let seen = format!("{} Asia/Tokyo {good}\n", world.home.display());
    assert_eq!(wait_written(&world, "told"), seen);
    // Before any `init`, PATH is a fixed one, and HOME that of the password database.
    world.run(&["daemon", "stop"]);
    fs::remove_file(world.path("environment")).expect("a file");
    let mut shim = world.shim("Stop");
    shim.env("HOME", "/elsewhere").env("TZ", ":/dev/zero");
    call(shim, b"{}");
    let pid = world.daemon_pid().expect("a daemon");
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).expect("an environment");
    assert!(
        environment.contains("PATH=/usr/local/bin:/usr/bin:/bin\0"),
        "{environment}"
    );
    let users = fs::read_to_string("/etc/passwd").expect("a password database");
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let home = users
        .filter(|user| user[2] == uid)
        .map(|user| user[5].to_owned())
        .next();
    if let Some(home) = home {
        assert!(
            environment.contains(&format!("HOME={home}\0")),
            "{environment}"
        );
    }
    assert!(!environment.contains("TZ="), "{environment}");
    for program in ["tell.ran", "tmux.ran"] {
        assert!(
            !world.root().join("bad").join(program).exists(),
            "{program}"
        );
    }
}
