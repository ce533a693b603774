//! `becket run` with a stand-in for Claude Code: arguments, error messages, and restarts after its end.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use becket_tests::skip::skip;
use becket_tests::terminal::Terminal;
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, is_alive, write_program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A shell function of every stand-in: sends becket an event as Claude Code would.
const FIRE: &str = r#"
case "$1" in --version) echo '2.1.325 (Claude Code)'; exit;; esac
printf '%s\n' "$@" > "$HOME/args"
fire() {
    printf '{"session_id":"%s","hook_event_name":"%s","cwd":"%s","transcript_path":"%s/t.jsonl"%s}' \
        "${SESSION-s1}" "$1" "$PWD" "$HOME" "$2" |
        CLAUDE_PID=$$ becket-hook --event "$1" --from run --home "$BECKET_HOME"
}
"#;

fn stand_in(world: &World, body: &str) {
    write_program(&world.programs.join("claude"), &format!("{FIRE}\n{body}"));
}

fn run(world: &World, args: &[&str]) -> Output {
    let mut run = world.becket(["run"]);
    run.args(args).output().expect("becket runs")
}

fn start(world: &World, args: &[&str]) -> Child {
    let mut run = world.becket(["run"]);
    run.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    run.spawn().expect("becket runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until this file exists.
#[track_caller]
fn appears(path: &Path) -> String {
    let found = wait::until(PATIENCE, || {
        fs::read_to_string(path)
            .ok()
            .filter(|text| !text.is_empty())
    });
    found.unwrap_or_else(|| panic!("{} never came", path.display()))
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn words_variables_and_the_exit_code_are_passed_on() {
    let world = World::new();
    stand_in(
        &world,
        r#"fire SessionStart ',"source":"startup"'; echo "$BECKET_LAUNCH $AGENT_ID $PWD"; exit 7"#,
    );
    fs::create_dir(world.home.join("there")).unwrap();
    let child = start(
        &world,
        &[
            "--as",
            "pane-3",
            "--cwd",
            "there",
            "--prompt",
            "a b",
            "--",
            "-p",
            "--allowedTools",
            "Bash",
        ],
    );
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    let folder = world.home.join("there");
    assert!(said.starts_with(&format!("{pid}:")), "{said}");
    assert!(
        said.ends_with(&format!(" pane-3 {}\n", folder.display())),
        "{said}"
    );

    let args = fs::read_to_string(world.home.join("args")).unwrap();
    let args: Vec<&str> = args.lines().collect();
    assert_eq!(args[0], "--settings");
    assert_eq!(args[2..], ["-p", "--allowedTools", "Bash", "--", "a b"]);
    let settings: Value = serde_json::from_str(args[1]).unwrap();
    let entry = &settings["hooks"]["Stop"][0]["hooks"][0];
    assert_eq!(
        entry["command"],
        world.programs.join("becket-hook").to_str().unwrap()
    );
    assert!(
        !world.home.join(".claude/settings.json").exists(),
        "no file is written"
    );

    // With a registration in a settings file, it prints nothing more.
    world.run(&["up", "--only-register"]);
    run(&world, &["--continue", "--", "claude", "-p", "x"]);
    assert_eq!(
        fs::read_to_string(world.home.join("args")).unwrap(),
        "--continue\n-p\nx\n"
    );
    // A session is named by a prefix of its id; a whole id is passed on unchanged.
    run(&world, &["--resume", "s", "--", "-p", "x"]);
    assert_eq!(
        fs::read_to_string(world.home.join("args")).unwrap(),
        "--resume\ns1\n-p\nx\n"
    );
    let whole = "01234567-89ab-cdef-0123-456789abcdef";
    run(&world, &["--resume", whole, "--", "-p", "x"]);
    assert_eq!(
        fs::read_to_string(world.home.join("args")).unwrap(),
        format!("--resume\n{whole}\n-p\nx\n")
    );
}

#[test]
fn a_signal_to_becket_reaches_claude_code() {
    let world = World::new();
    stand_in(
        &world,
        r#"trap 'echo ended > "$HOME/ended"; exit 9' TERM; echo $$ > "$HOME/up"; while :; do sleep 0.05; done"#,
    );
    let child = start(&world, &["--restart", "--", "-p", "x"]);
    appears(&world.home.join("up"));
    signal(child.id(), Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert_eq!(appears(&world.home.join("ended")), "ended\n");
}

#[test]
fn a_silent_claude_code_is_reported_and_left_running() {
    let world = World::new();
    stand_in(
        &world,
        r#"echo $$ > "$HOME/up"; until [ -e "$HOME/end" ]; do sleep 0.05; done; exit 3"#,
    );
    let child = start(&world, &["--establish-timeout", "1s", "--", "-p", "x"]);
    let claude = appears(&world.home.join("up"));
    let file = world.path(&format!("launches/{}.json", child.id()));
    assert!(appears(&file).contains("no session yet after 1s"));

    let rows = world.sessions();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["session_id"], Value::Null);
    assert_eq!(rows[0]["pid"].to_string(), claude.trim());
    let shown = world.run(&["show", &child.id().to_string()]);
    assert!(shown.contains("no session yet after 1s"), "{shown}");
    let becket = [
        world.programs.join("becket").into_os_string(),
        "--home".into(),
        world.becket_home.clone().into(),
    ];
    let env = [("HOME".to_owned(), world.home.to_string_lossy().into_owned())];
    match Terminal::start(&becket, &env, &world.home, (120, 30)) {
        Ok(view) => drop(view.wait_text("no session yet after 1s")),
        Err(why) => skip("launch: the live view", &why),
    }

    fs::write(world.home.join("end"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("no session yet after 1s"),
        "{}",
        stderr(&output)
    );
    assert!(!file.exists());
    assert!(world.sessions().is_empty());
}

#[test]
fn a_dead_claude_code_is_started_again_on_its_session() {
    let world = World::new();
    // The stand-in dies before its first prompt, then during a turn.
    stand_in(
        &world,
        r#"
        case "$*" in
            *--resume*) fire SessionStart ',"source":"resume"'; echo "went on"; exit 0 ;;
        esac
        fire SessionStart ',"source":"startup"'
        cp "$HOME/args" "$HOME/args-before"
        [ -e "$HOME/died" ] || { touch "$HOME/died"; kill -9 $$; }
        fire UserPromptSubmit ',"prompt":"begin"' > "$HOME/context"
        echo '{}' > "$HOME/t.jsonl"
        kill -9 $$"#,
    );
    let words = [
        "--restart",
        "--prompt",
        "begin",
        "--",
        "-p",
        "--model",
        "opus",
    ];
    let output = run(&world, &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "went on\n");
    let said = stderr(&output);
    assert!(
        said.contains("(signal 9); restarting the session in 1 s (1 of 5)"),
        "{said}"
    );
    assert!(
        said.contains("restarting the session in 2 s (2 of 5)"),
        "{said}"
    );
    let args = |name: &str| fs::read_to_string(world.home.join(name)).unwrap();
    let begun = args("args-before");
    assert!(begun.ends_with("-p\n--model\nopus\n--\nbegin\n"), "{begun}");
    let resumed = args("args");
    assert!(resumed.starts_with("--resume\ns1\n"), "{resumed}");
    assert!(
        resumed.ends_with("-p\n--model\nopus\n--\ncontinue\n"),
        "{resumed}"
    );

    // Without the option it is not restarted, and the shell gets its signal.
    let output = run(&world, &["--", "-p"]);
    assert_eq!(
        output.status.code(),
        Some(137),
        "{:?}",
        output.status.signal()
    );
}

#[test]
fn after_a_rate_limit_the_session_goes_on() {
    let world = World::new();
    let transcript = world.home.join("t.jsonl");
    stand_in(
        &world,
        r#"
        case "$*" in
            *--resume*) fire SessionStart ',"source":"resume"'; exit 0 ;;
        esac
        fire SessionStart ',"source":"startup"'
        fire StopFailure ',"error":"rate_limit","last_assistant_message":"You have hit your limit"'
        printf '{"type":"assistant","error":"rate_limit","isApiErrorMessage":true,"quotaLimits":{"resetsAt":%s},"message":{"role":"assistant","content":[{"type":"text","text":"You have hit your limit"}]}}\n' $(($(date +%s) + 2)) > "$HOME/t.jsonl"
        exit 1"#,
    );
    let output = run(&world, &["--restart", "--", "-p", "x"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        stderr(&output).contains("the rate limit ends at "),
        "{}",
        stderr(&output)
    );
    let args = fs::read_to_string(world.home.join("args")).unwrap();
    assert!(
        args.starts_with("--resume\ns1\n") && args.ends_with("--\ncontinue\n"),
        "{args}"
    );
    let row: Value = serde_json::from_str(&world.run(&["show", "s1", "--json"])).unwrap();
    assert_eq!(row["error"], Value::Null);

    fs::remove_file(&transcript).unwrap();
    let output = run(
        &world,
        &["--restart", "--no-limit-restart", "--", "-p", "x"],
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("the rate limit ends at "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_context_line_can_be_switched_off() {
    let world = World::new();
    stand_in(
        &world,
        r#"fire SessionStart ',"source":"startup"'; fire UserPromptSubmit ',"prompt":"x"'"#,
    );
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let shown = said(&run(&world, &["--", "-p"]));
    assert!(shown.contains("Current session: s1 (started 20"), "{shown}");
    fs::write(world.path("config.toml"), "[launch]\ncontext = false\n").unwrap();
    assert_eq!(said(&run(&world, &["--", "-p"])), "");
}

#[test]
fn bad_input_gets_a_clear_error_and_a_hint() {
    let world = World::new();
    let failed = |args: &[&str], code: i32, why: &str| {
        let output = run(&world, args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(
            said.contains(why) && said.contains("hint: "),
            "{args:?}: {said}"
        );
    };
    failed(&["--", "-p", "x"], 3, "could not find claude");
    failed(
        &["--", "./no/claude", "-p", "x"],
        3,
        "could not find ./no/claude",
    );
    fs::write(world.programs.join("claude"), "").unwrap();
    failed(&["--", "-p", "x"], 1, "is not a program that can be run");
    fs::remove_file(world.programs.join("claude")).unwrap();
    stand_in(&world, "exit 0");
    failed(&["--", "-p", "--settings", "{\"a\":"], 2, "--settings: ");
    failed(&["--", "-p", "--settings=nothing.json"], 2, "nothing.json");
    failed(&[], 2, "this is not one");
    failed(&["--resume", "unknown", "--", "-p"], 3, "unknown");
    for wrong in [
        &["--wait-session"][..],
        &["--no-limit-restart"],
        &["--resume", "x", "--continue"],
    ] {
        assert_eq!(run(&world, wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert!(
        !run(&world, &["--cwd", "nowhere", "--", "-p"])
            .status
            .success()
    );

    // An old version starts anyway, without becket.
    write_program(
        &world.programs.join("claude"),
        "case \"$1\" in --version) echo 1.0.60;; *) echo \"$@\";; esac",
    );
    let output = run(&world, &["--", "-p", "x"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "-p x\n");
    assert!(
        stderr(&output).contains("Claude Code 1.0.60 is too old"),
        "{}",
        stderr(&output)
    );
    // A call without a session is not changed.
    let output = run(&world, &["--", "mcp", "list"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "mcp list\n");
}

#[test]
fn a_script_launches_in_a_tmux_window() {
    let world = World::new();
    stand_in(
        &world,
        r#"[ -e "$HOME/silent" ] || { fire SessionStart ',"source":"startup"'; fire UserPromptSubmit ',"prompt":"x"'; }; sleep 600"#,
    );
    let folder = world.root().join("tmux");
    fs::create_dir(&folder).unwrap();
    let tmux = |mut command: Command| {
        command
            .env("TMUX_TMPDIR", &folder)
            .env("TERM", "xterm")
            .output()
            .unwrap()
    };
    let run = |args: &[&str]| {
        let mut run = world.becket(["run", "--tmux"]);
        run.args(args);
        tmux(run)
    };
    let output = run(&[
        "--wait-session",
        "--establish-timeout",
        "20s",
        "--prompt",
        "-do it;",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row["session_id"], "s1");
    assert!(row["tmux_pane"].is_string(), "{row}");
    let args = fs::read_to_string(world.home.join("args")).unwrap();
    assert!(args.ends_with("--\n-do it;\n"), "{args}");
    let claude = u32::try_from(row["pid"].as_i64().unwrap()).unwrap();

    // The second window is in the running server.
    fs::write(world.home.join("silent"), "").unwrap();
    let output = run(&["--wait-session", "--establish-timeout", "1s"]);
    assert_eq!(output.status.code(), Some(5), "{}", stderr(&output));
    let output = run(&[]);
    assert!(
        String::from_utf8_lossy(&output.stdout).starts_with("opened in tmux window becket:2"),
        "{output:?}"
    );
    let mut end = world.command("tmux");
    end.arg("kill-server");
    tmux(end);
    let gone = wait::until(PATIENCE, || (!is_alive(claude)).then_some(()));
    assert!(gone.is_some(), "what tmux hangs up on ends");
}

#[test]
fn a_document_is_started_only_in_a_terminal() {
    let world = World::new();
    let prd = |args: &[&str]| {
        let mut prd = world.becket(["prd"]);
        prd.args(args).output().expect("becket runs")
    };
    for verb in ["init", "continue"] {
        let output = prd(&[verb]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("this is not one"), "{output:?}");
    }
    assert!(String::from_utf8_lossy(&prd(&["list"]).stdout).contains("becket prd init NAME"));
    assert_eq!(prd(&["show"]).status.code(), Some(3));

    let folder = world.home.join(".becket/prd/check-out");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("requirements.md"), "# Check\x1b]0;out\x07\n").unwrap();
    fs::write(folder.join("sessions.json"), r#"{"name": "Check out"}"#).unwrap();
    let shown = prd(&["show", "Check out"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("# Check") && !shown.contains('\x1b'),
        "{shown:?}"
    );
    let list: Value = serde_json::from_slice(&prd(&["list", "--json"]).stdout).unwrap();
    assert_eq!(list[0]["slug"], "check-out");

    // A read-only project is reported.
    let locked = world.home.join("locked");
    fs::create_dir(&locked).unwrap();
    fs::write(locked.join(".becket"), "no folder").unwrap();
    stand_in(&world, "exit 0");
    let line = format!(
        "cd {} && becket prd init x; echo code $?; sleep 600",
        locked.display()
    );
    let command = ["/bin/sh", "-c", &line].map(std::ffi::OsString::from);
    let path = format!("{}:/usr/bin:/bin", world.programs.display());
    let home = world.home.to_string_lossy().into_owned();
    let env = [("HOME".to_owned(), home), ("PATH".to_owned(), path)];
    match Terminal::start(&command, &env, &locked, (120, 30)) {
        Ok(terminal) => {
            let screen = terminal.wait_text("code 1");
            assert!(
                screen.contains("could not write") && screen.contains("hint: "),
                "{screen:?}"
            );
        }
        Err(why) => skip("launch: a project that cannot be written", &why),
    }
}
