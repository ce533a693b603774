//! What Claude Code writes down itself is odd, missing or somebody else's.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use becket_tests::skip::{Unavailable, skip};
use becket_tests::world::{World, call};
use becket_wire::process::parent_and_start;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{session, tell, unharmed, wait_for};

/// A line that tells of an interrupt now: later than every event so far.
fn interrupted() -> String {
    let at = jiff::Timestamp::now();
    let content = json!([{"type": "text", "text": "[Request interrupted by user]"}]);
    json!({
        "type": "user", "timestamp": at.to_string(), "isSidechain": false,
        "message": {"role": "user", "content": content},
    })
    .to_string()
}

/// A session at work with its transcript there.
fn at_work(world: &World, id: &str) -> PathBuf {
    let folder = world.home.join(".claude/projects/p");
    fs::create_dir_all(&folder).expect("a folder");
    let transcript = folder.join(format!("{id}.jsonl"));
    let prompt = json!({"prompt": "go", "transcript_path": transcript, "cwd": "/w/p"});
    tell(world, id, "UserPromptSubmit", &prompt);
    transcript
}

fn troubled(told: &Value, by: &str) -> bool {
    told["troubles"].to_string().contains(by)
}

/// It says this trouble, and works on.
#[track_caller]
fn says(world: &World, id: &str, trouble: &str) {
    let told = wait_for(world, id, |told| troubled(told, trouble));
    assert_eq!(told["status"], "working", "{told:#}");
    let shown = world.run(&["show", id]);
    assert!(shown.contains(trouble), "{shown}");
}

#[test]
fn a_line_that_is_cut_is_waited_for_or_told() {
    let world = World::new();
    let daemon = world.start_daemon();
    let path = at_work(&world, "cut");
    let mut file = File::create(&path).expect("a file");
    // The first half only, for good: another line follows.
    file.write_all(b"{\"type\":\"user\",\"timest\n")
        .expect("written");
    says(&world, "cut", "1 line is broken");
    let line = interrupted();
    let (begin, end) = line.split_at(60);
    file.write_all(begin.as_bytes()).expect("written");
    says(&world, "cut", "1 line is broken");
    writeln!(file, "{end}").expect("written");
    let told = wait_for(&world, "cut", |told| told["status"] == "idle");
    assert_eq!(
        (&told["inferred"], &told["interrupted"]),
        (&json!(true), &json!(true))
    );
    unharmed(&world, daemon);
}

#[test]
fn two_hundred_megabytes_are_not_read_at_once() {
    let world = World::new();
    let daemon = world.start_daemon();
    let path = at_work(&world, "huge");
    let mut file = File::create(&path).expect("a file");
    // A hole takes no disk, and is no text either.
    file.set_len(200 << 20).expect("a large file");
    file.seek(SeekFrom::End(0)).expect("its end");
    write!(file, "\n{}\n", interrupted()).expect("written");
    let told = wait_for(&world, "huge", |told| told["status"] == "idle");
    assert_eq!(told["inferred"], true, "{told:#}");
    // Where nobody attends, all of it is read, a part at a time.
    let mut shim = world.shim("UserPromptSubmit");
    shim.env("CLAUDE_CODE_SESSION_ATTENDED", "0");
    let prompt = json!({
        "session_id": "print", "hook_event_name": "UserPromptSubmit", "prompt": "go",
        "transcript_path": path,
    });
    assert!(call(shim, prompt.to_string().as_bytes()).is_silent());
    says(&world, "print", "too long");
    let status = fs::read_to_string(format!("/proc/{daemon}/status")).expect("a process");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.split_whitespace().next());
    let kib: u64 = peak.and_then(|kib| kib.parse().ok()).expect("its memory");
    assert!(kib < 100 << 10, "the daemon took {kib} KiB");
    unharmed(&world, daemon);
}

#[test]
fn what_is_no_transcript_is_told_and_forgotten_once_it_is_one() {
    let world = World::new();
    let daemon = world.start_daemon();
    let binary = at_work(&world, "binary");
    fs::write(&binary, [0xff, 0x00, b'\n'].repeat(1000)).expect("a file");
    let folder = at_work(&world, "folder");
    fs::create_dir(&folder).expect("a folder");
    let pipe = at_work(&world, "pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    at_work(&world, "missing");
    let gone = at_work(&world, "gone");
    fs::write(&gone, "").expect("a file");
    let nowhere = json!({"prompt": "go", "transcript_path": "/nowhere/\u{1b}[2J/x.jsonl"});
    tell(&world, "nowhere", "UserPromptSubmit", &nowhere);
    says(&world, "binary", "1000 lines are broken");
    says(&world, "folder", "it is a folder");
    says(&world, "pipe", "it is no file");
    fs::remove_file(&gone).expect("removed");
    says(&world, "gone", "its transcript is missing");
    for id in ["missing", "nowhere"] {
        assert_eq!(session(&world, id)["status"], "working", "{id}");
    }
    fs::remove_dir(&folder).expect("removed");
    writeln!(File::create(&folder).expect("a file"), "{}", interrupted()).expect("written");
    let told = wait_for(&world, "folder", |told| told["status"] == "idle");
    assert_eq!(told["troubles"], json!([]), "it is mended");
    fs::write(&gone, "").expect("a file");
    wait_for(&world, "gone", |told| told["troubles"] == json!([]));
    unharmed(&world, daemon);
}

#[test]
fn a_transcript_that_may_not_be_read_is_told() {
    if rustix::process::geteuid().is_root() {
        let why = Unavailable::new("root may read everything");
        return skip("a_transcript_that_may_not_be_read_is_told", &why);
    }
    let world = World::new();
    let daemon = world.start_daemon();
    let path = at_work(&world, "secret");
    fs::write(&path, "").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).expect("closed");
    says(
        &world,
        "secret",
        "its transcript cannot be read: Permission denied",
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("opened");
    wait_for(&world, "secret", |told| told["troubles"] == json!([]));
    unharmed(&world, daemon);
}

#[test]
fn a_session_file_that_is_garbage_says_nothing() {
    let world = World::new();
    let daemon = world.start_daemon();
    let pid = std::process::id();
    let stat = fs::read_to_string("/proc/self/stat").expect("a process");
    let (_, start) = parent_and_start(&stat).expect("its start");
    let transcript = world.home.join(".claude/projects/p/mine.jsonl");
    let mut shim = world.shim("UserPromptSubmit");
    shim.env("CLAUDE_PID", pid.to_string());
    let prompt = json!({
        "session_id": "mine", "hook_event_name": "UserPromptSubmit", "prompt": "go",
        "transcript_path": transcript,
    });
    assert!(call(shim, prompt.to_string().as_bytes()).is_silent());
    let folder = world.home.join(".claude/sessions");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join(format!("{pid}.json"));
    let right = json!({
        "pid": pid, "sessionId": "mine", "procStart": start.to_string(), "status": "idle",
    });
    let with = |field: &str, value: Value| {
        let mut odd = right.clone();
        odd["statusUpdatedAt"] = json!(i64::MAX);
        odd[field] = value;
        odd.to_string().into_bytes()
    };
    let contents = [
        b"".to_vec(),
        b"{".to_vec(),
        vec![0xff; 4096],
        vec![b'['; 1 << 20],
        b"null".to_vec(),
        with("status", json!(["idle"])),
        with("status", json!("\u{1b}[2J")),
        with("sessionId", json!("somebody else's")),
        with("procStart", json!("1")),
        with("pid", json!(-1)),
        with("statusUpdatedAt", json!("now")),
    ];
    for content in contents {
        fs::write(&file, &content).expect("a file");
        // Another session that comes to rest shows that it was looked at since.
        let canary = at_work(&world, "canary");
        let mut line = OpenOptions::new();
        let mut line = line.create(true).append(true).open(canary).expect("a file");
        writeln!(line, "{}", interrupted()).expect("written");
        wait_for(&world, "canary", |told| told["status"] == "idle");
        let told = session(&world, "mine");
        let text = String::from_utf8_lossy(&content[..content.len().min(80)]).into_owned();
        assert_eq!(told["status"], "working", "{text}: {told:#}");
        let all = world.run(&["sessions", "--all"]);
        super::is_inert("becket sessions --all", &all);
    }
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a folder");
    fs::remove_dir(&file).expect("removed");
    let now = jiff::Timestamp::now().as_millisecond();
    let mut right = right;
    right["statusUpdatedAt"] = json!(now);
    fs::write(&file, right.to_string()).expect("a file");
    let told = wait_for(&world, "mine", |told| told["status"] == "idle");
    assert_eq!(told["inferred"], true);
    unharmed(&world, daemon);
}
