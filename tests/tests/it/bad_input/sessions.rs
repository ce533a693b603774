//! Unusual ids, titles and transcripts. Every view stays right, and becket prints no control character.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call};
use becket_wire::text::is_hidden;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

/// Sends an event of a session and asserts that Claude Code is not disturbed.
#[track_caller]
fn tell(world: &World, session: &str, event: &str, fields: &Value) {
    let called = world.tell(session, event, fields);
    assert!(called.is_silent(), "{event}: {called:?}");
}

/// Returns the live session with this id from `becket sessions --json`.
#[track_caller]
fn session(world: &World, id: &str) -> Value {
    let mut all = world.sessions().into_iter();
    let found = all.find(|session| session["session_id"] == id);
    found.unwrap_or_else(|| panic!("there is no session {id}"))
}

/// Waits until `fits` accepts the session.
#[track_caller]
fn wait_for(world: &World, id: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let found = wait::until(PATIENCE, || Some(session(world, id)).filter(&fits));
    found.unwrap_or_else(|| panic!("it never came to that: {:#}", session(world, id)))
}

/// Asserts that no event was lost, nothing panicked, and the daemon is the same.
#[track_caller]
fn assert_unharmed(world: &World, daemon: u32) {
    assert_eq!(world.daemon_pid(), Some(daemon), "another daemon");
    assert_eq!(world.status()["counts"]["lost"], 0);
    for file in fs::read_dir(world.path("log")).expect("a log").flatten() {
        let log = fs::read_to_string(file.path()).unwrap_or_default();
        assert!(!log.contains("panick"), "{log}");
    }
}

/// Asserts that a text has no hidden characters except line ends.
#[track_caller]
fn assert_no_hidden_characters(what: &str, text: &str) {
    let hidden = text.chars().filter(|c| is_hidden(*c) && *c != '\n');
    let found: Vec<char> = hidden.take(5).collect();
    let begin: String = text.chars().take(2000).collect();
    assert!(found.is_empty(), "{what} lets {found:?} out: {begin:?}");
}

#[test]
fn verbs_print_no_hidden_character_of_a_folder_name() {
    let world = World::new();
    let project = world.home.join("sh\u{200b}op");
    let home = project.join(".becket");
    fs::create_dir_all(project.join(".git")).expect("a project");
    fs::create_dir_all(&home).expect("a home");
    let config = "[hooks.lint]\non = \"Stop\"\nrun = \"true\"\nenabled = false\n";
    fs::write(home.join("config.toml"), config).expect("a config");
    let session = "9d1f6a30-0000-4000-8000-000000000003";
    for args in [
        &["up", "--only-register", "--project"][..],
        &["up", "--only-register", "--project"],
        &["disable", "lint", "--session", session],
        &["hooks", "off", "lint"],
        &["down", "--project"],
    ] {
        let mut becket = world.becket(args);
        becket.current_dir(&project).env("BECKET_HOME", &home);
        let said = becket.output().expect("runs");
        assert!(said.status.success(), "{args:?}: {said:?}");
        for said in [said.stdout, said.stderr] {
            assert_no_hidden_characters(&format!("{args:?}"), &String::from_utf8_lossy(&said));
        }
    }
}

/// Opens the view in a terminal. Returns `None` and skips the test without tmux.
fn view(name: &str, world: &World) -> Option<Terminal> {
    match Terminal::of(&world.becket::<&str>([]), (120, 32)) {
        Ok(terminal) => Some(terminal),
        Err(why) => {
            skip(name, &why);
            None
        }
    }
}

/// Text that names a window, clears it, rings, reverses text, breaks lines and is wide.
const NASTY: &str = "\u{1b}]2;HACKED\u{7}\u{1b}[2J\u{9b}31mred\u{202e}\r\n\t日本語\u{0}\u{7f}end";

#[test]
fn no_verb_prints_control_characters_of_foreign_text() {
    let world = World::new();
    let daemon = world.start_daemon();
    let start = json!({
        "source": NASTY, "model": NASTY, "session_title": NASTY, "cwd": format!("/w/{NASTY}"),
        "permission_mode": NASTY, "transcript_path": format!("/w/{NASTY}.jsonl"),
    });
    tell(&world, "s1", "SessionStart", &start);
    tell(&world, "s1", "UserPromptSubmit", &json!({"prompt": NASTY}));
    tell(
        &world,
        "s1",
        "SubagentStart",
        &json!({"agent_id": NASTY, "agent_type": NASTY}),
    );
    let ask = json!({"tool_name": NASTY, "tool_input": {"command": NASTY}, "tool_use_id": NASTY});
    tell(&world, "s1", "PermissionRequest", &ask);
    tell(&world, "s2", "UserPromptSubmit", &json!({"prompt": NASTY}));
    tell(&world, "s2", "StopFailure", &json!({"error": NASTY}));
    tell(
        &world,
        NASTY,
        "UserPromptSubmit",
        &json!({"prompt": "odd id"}),
    );
    tell(
        &world,
        "s3",
        "UserPromptSubmit",
        &json!({"prompt": "named"}),
    );
    let named = world.output(&["name", "s3", NASTY.replace('\0', "").as_str()]);
    assert_no_hidden_characters("becket name", &String::from_utf8_lossy(&named.stdout));
    assert_no_hidden_characters("becket name", &String::from_utf8_lossy(&named.stderr));
    for args in [
        &["sessions"][..],
        &["sessions", "--json"],
        &["sessions", "--all"],
        &["show", "s1"],
        &["show", "s1", "--json"],
        &["show", "s2"],
        &["tmux", "status"],
        &["tmux", "status", "--json"],
        &["events"],
        &["events", "--json"],
        &["daemon", "status"],
        &[],
    ] {
        let mut said = world.run(args);
        if args.contains(&"--json") {
            // JSON is data for a program: characters that JSON does not escape are printed unchanged.
            said.retain(|c| c.is_ascii() && c != '\u{7f}');
        }
        assert_no_hidden_characters(&format!("becket {args:?}"), &said);
    }
    let again = format!("{NASTY}2");
    tell(&world, &again, "UserPromptSubmit", &json!({"prompt": "x"}));
    for args in [
        &["show", "\u{1b}[31m"][..],
        &["show", "\u{1b}"],
        &["tmux", "jump", "\u{1b}"],
        &["tmux", "jump", "s1"],
        &["events", "--session", "\u{1b}"],
    ] {
        let output = world.output(args);
        assert!(!output.status.success());
        assert_no_hidden_characters("an error", &String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(session(&world, "s1")["title"], NASTY, "kept as it came");
    assert_unharmed(&world, daemon);
}

#[test]
fn the_status_line_prints_no_control_characters_of_foreign_text() {
    let world = World::new();
    let daemon = world.start_daemon();
    let payload = json!({
        "session_id": NASTY, "model": {"id": NASTY, "display_name": NASTY},
        "workspace": {"current_dir": NASTY, "project_dir": format!("/w/{NASTY}")},
    });
    for args in [&["--statusline"][..], &["--statusline", "--beside"]] {
        let mut line = world.command(world.programs.join("becket-hook"));
        line.args(args).arg("--home").arg(&world.becket_home);
        line.env("COLUMNS", "120").env("NO_COLOR", "1");
        let called = call(line, payload.to_string().as_bytes());
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stdout.contains("red"), "{called:?}");
        assert_no_hidden_characters("the status line", &called.stdout);
    }
    assert_unharmed(&world, daemon);
}

#[test]
fn the_view_prints_no_control_characters_of_foreign_text() {
    let world = World::new();
    let daemon = world.start_daemon();
    let start = json!({"source": "startup", "session_title": NASTY, "cwd": NASTY});
    tell(&world, "s1", "SessionStart", &start);
    tell(&world, "s1", "UserPromptSubmit", &json!({"prompt": NASTY}));
    let Some(view) = view(
        "the_view_prints_no_control_characters_of_foreign_text",
        &world,
    ) else {
        return;
    };
    let screen = view.wait_for("the title and the events", |screen| {
        screen.contains("日本語") && screen.contains("UserPromptSubmit")
    });
    assert!(screen.0.starts_with(" becket "), "{}", screen.0);
    let title = view.tmux_says(&["display-message", "-p", "#{pane_title}"]);
    assert_ne!(title, "HACKED");
    assert_unharmed(&world, daemon);
}

#[test]
fn a_title_of_a_megabyte_is_shortened() {
    let world = World::new();
    let daemon = world.start_daemon();
    for (id, long) in [("s1", "x".repeat(1 << 20)), ("s2", "語".repeat(1 << 19))] {
        let start = json!({"source": "startup", "session_title": long, "cwd": long});
        tell(&world, id, "SessionStart", &start);
        tell(&world, id, "UserPromptSubmit", &json!({"prompt": long}));
        tell(&world, id, "PreToolUse", &json!({"tool_name": long}));
        let told = session(&world, id);
        assert!(told.to_string().len() < 100_000);
        assert_eq!(told["status"], "working");
        assert!(world.run(&["show", id]).len() < 100_000);
    }
    let table = world.run(&["sessions"]);
    assert!(
        table.lines().all(|line| line.chars().count() <= 200),
        "{table}"
    );
    let refused = world.output(&["name", "s1", &"n".repeat(100_000)]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert_unharmed(&world, daemon);
}

#[test]
fn a_folder_of_megabytes_costs_no_memory() {
    let world = World::new();
    let daemon = world.start_daemon();
    for number in 0..10 {
        let cwd = format!("/{number}{}", "/a".repeat(2 << 20));
        tell(
            &world,
            "s",
            "PreToolUse",
            &json!({"tool_name": "Bash", "cwd": cwd}),
        );
    }
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    assert!(peak.expect("a peak") < 200 << 10, "{peak:?} kB");
    assert_unharmed(&world, daemon);
}

/// Returns a transcript line with an interrupt that is later than every event so far.
fn interrupted() -> String {
    let at = jiff::Timestamp::now();
    let content = json!([{"type": "text", "text": "[Request interrupted by user]"}]);
    json!({
        "type": "user", "timestamp": at.to_string(), "isSidechain": false,
        "message": {"role": "user", "content": content},
    })
    .to_string()
}

/// Starts a working session with a transcript, and returns the transcript's path.
fn start_working(world: &World, id: &str) -> PathBuf {
    let folder = world.home.join(".claude/projects/p");
    fs::create_dir_all(&folder).expect("a folder");
    let transcript = folder.join(format!("{id}.jsonl"));
    let prompt = json!({"prompt": "go", "transcript_path": transcript, "cwd": "/w/p"});
    tell(world, id, "UserPromptSubmit", &prompt);
    transcript
}

fn has_trouble(told: &Value, by: &str) -> bool {
    told["troubles"].to_string().contains(by)
}

/// Waits until the session reports this trouble, and asserts that it still works.
#[track_caller]
fn assert_trouble(world: &World, id: &str, trouble: &str) {
    let told = wait_for(world, id, |told| has_trouble(told, trouble));
    assert_eq!(told["status"], "working", "{told:#}");
    let shown = world.run(&["show", id]);
    assert!(shown.contains(trouble), "{shown}");
}

#[test]
fn a_partial_transcript_line_is_awaited_or_reported() {
    let world = World::new();
    let daemon = world.start_daemon();
    let path = start_working(&world, "cut");
    let mut file = File::create(&path).expect("a file");
    // Only the first half of a line; another line follows.
    file.write_all(b"{\"type\":\"user\",\"timest\n")
        .expect("written");
    assert_trouble(&world, "cut", "1 line is broken");
    let line = interrupted();
    let (begin, end) = line.split_at(60);
    file.write_all(begin.as_bytes()).expect("written");
    assert_trouble(&world, "cut", "1 line is broken");
    writeln!(file, "{end}").expect("written");
    let told = wait_for(&world, "cut", |told| told["status"] == "idle");
    assert_eq!(
        (&told["inferred"], &told["interrupted"]),
        (&json!(true), &json!(true))
    );
    assert_unharmed(&world, daemon);
}

#[test]
fn a_transcript_of_200_megabytes_is_read_in_parts() {
    let world = World::new();
    let daemon = world.start_daemon();
    let path = start_working(&world, "huge");
    let mut file = File::create(&path).expect("a file");
    // A sparse file uses no disk, and its content is not text either.
    file.set_len(200 << 20).expect("a large file");
    file.seek(SeekFrom::End(0)).expect("its end");
    write!(file, "\n{}\n", interrupted()).expect("written");
    let told = wait_for(&world, "huge", |told| told["status"] == "idle");
    assert_eq!(told["inferred"], true, "{told:#}");
    // The transcript of an unattended session is read in full, in parts.
    let mut shim = world.shim("UserPromptSubmit");
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "0");
    let prompt = json!({
        "session_id": "print", "hook_event_name": "UserPromptSubmit", "prompt": "go",
        "transcript_path": path,
    });
    assert!(call(shim, prompt.to_string().as_bytes()).is_silent());
    assert_trouble(&world, "print", "too long");
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next());
    let kib: u64 = peak.and_then(|kib| kib.parse().ok()).expect("its memory");
    assert!(kib < 100 << 10, "the daemon took {kib} KiB");
    assert_unharmed(&world, daemon);
}

#[test]
fn an_invalid_transcript_is_reported_until_it_is_valid() {
    let world = World::new();
    let daemon = world.start_daemon();
    let binary = start_working(&world, "binary");
    fs::write(&binary, [0xff, 0x00, b'\n'].repeat(1000)).expect("a file");
    let folder = start_working(&world, "folder");
    fs::create_dir(&folder).expect("a folder");
    let pipe = start_working(&world, "pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    start_working(&world, "missing");
    let gone = start_working(&world, "gone");
    fs::write(&gone, "").expect("a file");
    let nowhere = json!({"prompt": "go", "transcript_path": "/nowhere/\u{1b}[2J/x.jsonl"});
    tell(&world, "nowhere", "UserPromptSubmit", &nowhere);
    assert_trouble(&world, "binary", "1000 lines are broken");
    assert_trouble(&world, "folder", "it is a folder");
    assert_trouble(&world, "pipe", "it is not a file");
    fs::remove_file(&gone).expect("removed");
    assert_trouble(&world, "gone", "its transcript is missing");
    for id in ["missing", "nowhere"] {
        assert_eq!(session(&world, id)["status"], "working", "{id}");
    }
    fs::remove_dir(&folder).expect("removed");
    writeln!(File::create(&folder).expect("a file"), "{}", interrupted()).expect("written");
    let told = wait_for(&world, "folder", |told| told["status"] == "idle");
    assert_eq!(told["troubles"], json!([]), "the trouble stays");
    fs::write(&gone, "").expect("a file");
    wait_for(&world, "gone", |told| told["troubles"] == json!([]));
    assert_unharmed(&world, daemon);
}
