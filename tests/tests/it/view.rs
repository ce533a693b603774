//! The live view in a real terminal: made-up events go through the real shim, and snapshots show the
//! screen.

use std::io::Write;
use std::process::Child;
use std::time::{Duration, Instant};

use becket_tests::skip::{Unavailable, skip};
use becket_tests::terminal::{Screen, Size, Terminal};
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{World, call, finish, start};
use serde_json::{Value, json};

const WIDE: Size = (120, 32);

/// Starts a working session.
fn begin(world: &World, session: &str, project: &str, prompt: &str) {
    let cwd = format!("/home/you/{project}");
    let start = json!({"source": "startup", "model": "claude-opus-5-5", "cwd": cwd});
    tell(world, session, "SessionStart", start);
    tell(
        world,
        session,
        "UserPromptSubmit",
        json!({"prompt": prompt, "cwd": cwd}),
    );
}

/// A Claude Code that shows its dialog while the hook waits.
const CLAUDE_CODE: &str = "claude-code_2-1-325_harness";

/// Has a session ask for a permission. Returns the hook, which waits for a person, once becket knows the question.
fn ask(world: &World, session: &str, mut fields: Value) -> Child {
    fields["session_id"] = json!(session);
    fields["hook_event_name"] = json!("PermissionRequest");
    let mut shim = world.shim("PermissionRequest");
    shim.env("AI_AGENT", CLAUDE_CODE);
    let mut child = start(shim);
    let mut stdin = child.stdin.take().expect("stdin");
    let sent = stdin.write_all(fields.to_string().as_bytes());
    sent.expect("an event");
    drop(stdin);
    let is_known = || {
        let questions = world.run(&["answer", "--json"]);
        let questions: Vec<Value> = serde_json::from_str(&questions).expect("JSON");
        let mut inputs = questions.iter().map(|row| &row["input"]);
        inputs
            .any(|input| *input == fields["tool_input"])
            .then_some(())
    };
    assert!(wait::until(PATIENCE, is_known).is_some(), "{fields}");
    child
}

#[expect(clippy::needless_pass_by_value, reason = "made where it is told")]
fn tell(world: &World, session: &str, event: &str, fields: Value) {
    let called = world.tell(session, event, &fields);
    assert_eq!(called.code, Some(0), "{called:?}");
}

fn bash(command: &str) -> Value {
    json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "t"})
}

/// Sends the figures of a session by the status line.
fn figures(world: &World, session: &str, percent: u32, cost: f64) {
    let mut line = world.command(world.programs.join("becket-hook"));
    line.args(["--statusline", "--home"])
        .arg(&world.becket_home);
    let payload = json!({
        "session_id": session,
        "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
        "cost": {"total_cost_usd": cost},
        "context_window": {"context_window_size": 200_000, "used_percentage": percent},
    });
    let called = call(line, payload.to_string().as_bytes());
    assert_eq!(called.code, Some(0), "{called:?}");
}

/// Creates eight sessions in three projects, in every state, two of them with subagents.
fn start_eight_sessions(world: &World) {
    begin(world, "aaaa0001", "shop", "Make the checkout idempotent");
    tell(world, "aaaa0001", "PreToolUse", bash("psql shop_dev"));
    tell(
        world,
        "aaaa0001",
        "PermissionRequest",
        bash("psql shop_dev"),
    );
    figures(world, "aaaa0001", 13, 0.37);
    begin(world, "aaaa0002", "shop", "Find the slow query");
    for (agent, kind) in [("x1", "Explore"), ("x2", "Plan")] {
        let start = json!({"agent_id": agent, "agent_type": kind});
        tell(world, "aaaa0002", "SubagentStart", start);
    }
    let mut call = bash("rg orders");
    (call["agent_id"], call["agent_type"]) = (json!("x1"), json!("Explore"));
    tell(world, "aaaa0002", "PreToolUse", call);
    begin(world, "aaaa0003", "shop", "Dark mode");
    tell(world, "aaaa0003", "Stop", json!({}));
    figures(world, "aaaa0003", 91, 2.59);
    begin(world, "aaaa0004", "infra", "Move the runners to arm64");
    tell(
        world,
        "aaaa0004",
        "StopFailure",
        json!({"error": "overloaded"}),
    );
    begin(world, "aaaa0005", "infra", "Rotate the signing keys");
    let ask = json!({"tool_name": "ExitPlanMode", "tool_input": {"plan": "1. rotate"}});
    tell(world, "aaaa0005", "PermissionRequest", ask);
    begin(world, "aaaa0006", "notes", "日本語の見出しを直す");
    let start = json!({"agent_id": "r1", "agent_type": "researcher"});
    tell(world, "aaaa0006", "SubagentStart", start);
    let fetch = json!({
        "tool_name": "WebFetch", "tool_input": {"url": "https://example.org"}, "agent_id": "r1",
        "agent_type": "researcher",
    });
    tell(world, "aaaa0006", "PermissionRequest", fetch);
    tell(world, "aaaa0006", "Stop", json!({}));
    begin(world, "aaaa0007", "notes", "Summarise the week");
    begin(world, "aaaa0008", "notes", "Sort the bookmarks");
    tell(world, "aaaa0008", "PreCompact", json!({"trigger": "auto"}));
}

/// Opens a command in a terminal, in the environment of this world and these variables.
fn open(
    world: &World,
    command: &[&str],
    size: Size,
    env: &[(&str, &str)],
) -> Result<Terminal, Unavailable> {
    let mut line = world.command(command[0]);
    line.args(&command[1..]).current_dir("/").env("TZ", "UTC");
    line.envs(env.iter().copied());
    Terminal::of(&line, size)
}

/// Opens the view of a world; skips the test if a part of the environment is missing.
fn open_view(name: &str, world: &World, size: Size, env: &[(&str, &str)]) -> Option<Terminal> {
    match open(world, &["becket"], size, env) {
        Ok(terminal) => Some(terminal),
        Err(why) => {
            skip(name, &why);
            None
        }
    }
}

/// Replaces the parts of a screen that differ from run to run: times become `T`.
fn stable_text(screen: &Screen) -> String {
    let lines = screen.0.trim_end().lines().enumerate().map(|(row, line)| {
        let mut line = without_times(line);
        while row == 0 && line.contains("   ") {
            // The two ends of the head come nearer as a wait grows.
            line = line.replace("   ", "  ");
        }
        line
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces `3s` and `1m02s` by a `T` with the same end, and `08:59:43` by `HH:MM:SS`.
fn without_times(line: &str) -> String {
    let mut out = String::new();
    let mut blanks = 0;
    for word in line.split(' ') {
        if word.is_empty() {
            blanks += 1;
            continue;
        }
        let shown = match word {
            _ if is_clock(word) => "HH:MM:SS",
            _ if is_span(word) => "T",
            _ => word,
        };
        if shown == "T" && blanks > 1 {
            // Right-aligned: the time grows to the left.
            blanks += word.len() - 1;
        }
        out.push_str(&" ".repeat(blanks));
        out.push_str(shown);
        blanks = 1;
    }
    out
}

fn is_span(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd'])
        && word.bytes().all(|byte| b"0123456789smhd".contains(&byte))
}

fn is_clock(word: &str) -> bool {
    word.len() == 8
        && word.bytes().enumerate().all(|(at, byte)| match at {
            2 | 5 => byte == b':',
            _ => byte.is_ascii_digit(),
        })
}

/// Counts the colour changes on the screen, without resets (39 and 49).
fn count_colours(view: &Terminal) -> usize {
    let drawn = view.tmux_says(&["capture-pane", "-p", "-e"]);
    let is_colour = |part: &str| matches!(part.parse().unwrap_or(0), 30..=38 | 40..=48 | 90..=107);
    let codes = drawn.split("\u{1b}[").skip(1);
    let codes = codes.filter_map(|code| Some(code.split_once('m')?.0));
    codes.filter(|code| code.split(';').any(is_colour)).count()
}

#[test]
fn without_a_session_the_view_gives_the_same_reason_as_sessions() {
    let name = "without_a_session_the_view_gives_the_same_reason_as_sessions";
    let world = World::new();
    let Some(view) = open_view(name, &world, WIDE, &[]) else {
        return;
    };
    let says_the_same = || {
        // Other Claude Codes of this machine may come and go.
        let said = world.run(&["sessions"]);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = words(&view.screen().0);
        shown.contains(&words(&said)).then_some(said)
    };
    let said = wait::until(PATIENCE, says_the_same).expect("the same words");
    let is_other = |said: &str| said.contains("without becket's hooks");
    assert!(said.contains("`becket up`") || is_other(&said), "{said}");
    world.run(&["up", "--only-register"]);
    let registered = || says_the_same().filter(|said| !said.contains("`becket up`"));
    let said = wait::until(PATIENCE, registered).expect("the same words");
    assert!(said.contains("Start `claude`") || is_other(&said), "{said}");
}

#[test]
fn without_a_terminal_and_a_session_the_view_gives_a_reason() {
    let world = World::new();
    let is_other = |said: &str| said.contains("without becket's hooks");
    for daemon in [false, true] {
        if daemon {
            world.start_daemon();
        }
        let said = world.run(&[]);
        assert!(said.contains("`becket up`") || is_other(&said), "{said}");
    }
    world.run(&["up", "--only-register"]);
    let said = world.run(&[]);
    assert!(said.contains("Start `claude`") || is_other(&said), "{said}");
    world.kill_daemon();
    let said = world.run(&[]);
    assert!(said.starts_with("No daemon is running"), "{said}");
}

#[test]
fn the_view_follows_a_session_from_start_to_end() {
    let world = World::new();
    world.start_daemon();
    let name = "the_view_follows_a_session_from_start_to_end";
    let Some(view) = open_view(name, &world, WIDE, &[]) else {
        return;
    };
    view.wait_text("No sessions");
    begin(&world, "aaaa0001", "shop", "Make the checkout idempotent");
    tell(
        &world,
        "aaaa0001",
        "PreToolUse",
        bash("cargo test -p checkout"),
    );
    figures(&world, "aaaa0001", 42, 1.5);
    let screen = view.wait_for("its work and its events", |screen| {
        screen.contains("PreToolUse") && screen.contains("42%") && screen.contains("$1.50")
    });
    insta::assert_snapshot!(stable_text(&screen));
    begin(&world, "aaaa0002", "shop", "Find the slow query");
    let exit = json!({"reason": "prompt_input_exit"});
    tell(&world, "aaaa0001", "SessionEnd", exit);
    view.wait_for("its end", |screen| !screen.contains("idempotent"));
    tell(&world, "aaaa0002", "SessionEnd", json!({"reason": "other"}));
    view.wait_text("· Find the slow query");
    drop(view);
    // Also in a view that is opened after that.
    let Some(view) = open_view(name, &world, WIDE, &[]) else {
        return;
    };
    view.wait_text("· Find the slow query");
}

#[test]
fn eight_sessions_with_subagents() {
    let world = World::new();
    start_eight_sessions(&world);
    let Some(view) = open_view("eight_sessions_with_subagents", &world, WIDE, &[]) else {
        return;
    };
    let screen = view.wait_for("them and the events", |screen| {
        screen.contains("Sort the bookmarks") && screen.contains("StopFailure")
    });
    assert!(count_colours(&view) > 5);
    insta::assert_snapshot!(stable_text(&screen));
}

#[test]
fn a_narrow_terminal() {
    let world = World::new();
    start_eight_sessions(&world);
    let Some(view) = open_view("a_narrow_terminal", &world, (60, 15), &[]) else {
        return;
    };
    let screen = view.wait_text("StopFailure");
    for line in screen.0.lines() {
        assert!(line.chars().count() <= 60, "{line:?}");
    }
    insta::assert_snapshot!(stable_text(&screen));
}

#[test]
fn without_colour_and_without_unicode() {
    let world = World::new();
    start_eight_sessions(&world);
    let plain = [("NO_COLOR", "1"), ("LANG", "C")];
    let Some(view) = open_view("without_colour_and_without_unicode", &world, WIDE, &plain) else {
        return;
    };
    let screen = view.wait_for("them", |screen| {
        screen.contains("StopFailure") && screen.contains("! Make the checkout")
    });
    insta::assert_snapshot!(stable_text(&screen));
    assert_eq!(count_colours(&view), 0);
    assert!(screen.0.is_ascii(), "{}", screen.0);
}

#[test]
fn keys_filter_and_help_work_and_quitting_restores_the_terminal() {
    let world = World::new();
    start_eight_sessions(&world);
    let script = "stty -g > before; echo as it was; becket; code=$?; stty -g > after; \
                  cmp before after && echo left with $code; read wait";
    let script = format!("cd {}; {script}", world.root().display());
    let name = "keys_filter_and_help_work_and_quitting_restores_the_terminal";
    let view = match open(&world, &["/bin/sh", "-c", &script], WIDE, &[]) {
        Ok(view) => view,
        Err(why) => return skip(name, &why),
    };
    view.wait_text("StopFailure");
    view.press("/");
    view.wait_for("the prompt", |screen| !screen.contains("a next"));
    view.type_text("notes week");
    view.wait_for("one of them alone", |screen| {
        screen.contains("Summarise the week") && !screen.contains("runners")
    });
    view.press("Enter");
    view.press("Escape");
    // The search result stays selected. The screen behind the help has to be complete, or the picture would
    // differ.
    let all = |screen: &Screen| screen.contains("runners") && screen.contains("UserPromptSubmit");
    let screen = view.wait_for("the list and its events", all);
    assert!(screen.contains("› Summarise the week"), "{}", screen.0);
    view.press("?");
    let help = view.wait_text("this help");
    insta::assert_snapshot!(stable_text(&help));
    view.press("Escape");
    view.wait_for("the list", |screen| !screen.contains("this help"));
    view.press("q");
    let left = view.wait_text("left with 0");
    assert_eq!(left.0.trim_end(), "as it was\nleft with 0");
    let modes = "#{alternate_on}#{mouse_any_flag}#{cursor_flag}#{keypad_flag}";
    assert_eq!(view.tmux_says(&["display-message", "-p", modes]), "0010");
}

/// A stand-in for Claude Code: prints its pid, and repeats its input.
const CLAUDE: &str = r#"sh -c 'echo "I am $$ now"; while read line; do echo "got <$line>"; done'"#;

fn pid(screen: &Screen) -> Option<u32> {
    let mut lines = screen.0.lines();
    lines.find_map(|line| line.strip_prefix("I am ")?.split(' ').next()?.parse().ok())
}

#[test]
fn a_line_reaches_claude_and_is_refused_once_it_has_left_the_pane() {
    let name = "a_line_reaches_claude_and_is_refused_once_it_has_left_the_pane";
    let world = World::new();
    let shell = ["/bin/bash", "--norc", "--noprofile", "-i"];
    let pane = match open(&world, &shell, (100, 24), &[("PS1", "shell$ ")]) {
        Ok(pane) => pane,
        Err(why) => return skip(name, &why),
    };
    pane.wait_text("shell$");
    pane.type_text(CLAUDE);
    pane.press("Enter");
    let said = pane.wait_for("its pid", |screen| pid(screen).is_some());
    let mut shim = world.shim("UserPromptSubmit");
    shim.env("CLAUDE_PID", pid(&said).expect("a pid").to_string())
        .env("TMUX", format!("{},1,0", pane.socket().display()))
        .env("TMUX_PANE", "%0");
    let prompt = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": "aaaa0001", "prompt": "Begin here",
    });
    assert_eq!(call(shim, prompt.to_string().as_bytes()).code, Some(0));
    let Some(view) = open_view(name, &world, WIDE, &[]) else {
        return;
    };
    let send = |line: &str| {
        view.press("r");
        view.wait_text("send to");
        view.type_text(line);
        view.wait_text(line);
        view.press("Enter");
    };
    view.wait_text("Begin here");
    send("hello there");
    pane.wait_text("got <hello there>");
    pane.press("C-z");
    pane.wait_text("Stopped");
    send("echo ran-in-shell");
    view.wait_text("not in front");
    pane.type_text("echo the ''end");
    pane.press("Enter");
    let screen = pane.wait_text("the end");
    assert!(!screen.contains("ran-in-shell"), "{}", screen.0);
}

/// The keys that the box of a permission shows.
const KEYS_OF_THE_BOX: &str = "y yes  n no  A always  Esc close";

/// Has a session ask, and opens the box in a view. Returns the hook and the view.
fn open_box(name: &str, world: &World) -> Option<(Child, Terminal)> {
    begin(world, "aaaa0001", "shop", "Make the checkout idempotent");
    let mut fields = bash("psql shop_dev -f 0042.sql");
    fields["permission_suggestions"] = json!([{"type": "addRules", "behavior": "allow",
        "destination": "localSettings", "rules": [{"toolName": "Bash", "ruleContent": "psql:*"}]}]);
    let view = open_view(name, world, (80, 24), &[])?;
    let hook = ask(world, "aaaa0001", fields);
    let screen = view.wait_text("Space answer");
    assert!(screen.contains("$ psql shop_dev -f"), "{}", screen.0);
    view.press("Space");
    let screen = view.wait_text(KEYS_OF_THE_BOX);
    for part in ["$ psql shop_dev -f 0042.sql", "always allows: Bash(psql:*)"] {
        assert!(screen.contains(part), "{}", screen.0);
    }
    Some((hook, view))
}

/// Presses a key until it acts: one that comes in the first half second is refused.
fn press_until(view: &Terminal, key: &str, what: &str) {
    let acted = wait::until(PATIENCE, || {
        view.press(key);
        let shows = || view.screen().contains(what).then_some(());
        wait::until(Duration::from_secs(1), shows)
    });
    assert!(acted.is_some(), "{}", view.screen().0);
}

fn decision(hook: Child) -> Value {
    let called = finish(hook, Instant::now(), PATIENCE);
    let said: Value = serde_json::from_str(&called.stdout).unwrap_or_default();
    said["hookSpecificOutput"]["decision"].clone()
}

#[test]
fn a_key_in_the_answer_box_answers_the_session() {
    let name = "a_key_in_the_answer_box_answers_the_session";
    let world = World::new();
    let Some((hook, view)) = open_box(name, &world) else {
        return;
    };
    press_until(&view, "y", "sent: yes");
    assert_eq!(decision(hook), json!({"behavior": "allow"}));
    let events = world.events();
    let mut asked = events
        .iter()
        .filter(|row| row["event"] == "PermissionRequest");
    assert_eq!(
        asked.next().expect("an event")["decision"]["by"],
        "person:view"
    );

    let hook = ask(&world, "aaaa0001", bash("make"));
    view.wait_text("$ make");
    view.press("Space");
    view.wait_text("y yes  n no  Esc close");
    press_until(&view, "n", "sent: no");
    assert_eq!(decision(hook)["behavior"], "deny");
}

#[test]
fn the_answer_box_says_that_the_terminal_was_quicker() {
    let name = "the_answer_box_says_that_the_terminal_was_quicker";
    let world = World::new();
    let Some((hook, view)) = open_box(name, &world) else {
        return;
    };
    tell(&world, "aaaa0001", "Stop", json!({}));
    assert_eq!(decision(hook), Value::Null);
    view.wait_text("this question is over");
    // The next question does not take its place.
    let mut hook = ask(&world, "aaaa0001", bash("make"));
    view.type_text("y");
    view.press("Escape");
    let screen = view.wait_text("Space answer");
    assert!(!screen.contains("sent:"), "{}", screen.0);
    assert!(hook.try_wait().expect("a state").is_none());
    hook.kill().expect("a kill");
    hook.wait().expect("an end");
}

#[test]
fn a_text_that_is_typed_into_the_answer_box_answers_nothing() {
    let name = "a_text_that_is_typed_into_the_answer_box_answers_nothing";
    let world = World::new();
    let Some((mut hook, view)) = open_box(name, &world) else {
        return;
    };
    for text in ["fix it", "use the proxy", "yes"] {
        view.type_text(text);
        let refused = view.wait_text("nothing was answered");
        assert!(refused.contains(KEYS_OF_THE_BOX), "{}", refused.0);
    }
    assert!(hook.try_wait().expect("a state").is_none());
    press_until(&view, "n", "sent: no");
    assert_eq!(decision(hook)["behavior"], "deny");
}
