use proptest::prelude::*;

use super::*;

fn takes(matcher: &str, value: &str) -> bool {
    Matcher::parse(matcher).unwrap().matches(value)
}

#[test]
fn plain_words_are_an_exact_list() {
    for matcher in [
        "Bash",
        "Bash|Read",
        "Bash, Read",
        "Read,Bash",
        " Read | Bash ",
        "a-b|Bash",
    ] {
        assert!(takes(matcher, "Bash"), "{matcher}");
    }
    for matcher in ["Ba", "bash", "Bash2", "Bash Read", "start"] {
        assert!(!takes(matcher, "Bash"), "{matcher}");
    }
    assert!(takes("mcp__my-server__tool", "mcp__my-server__tool"));
    assert!(!takes("mcp__my-server", "mcp__my-server__tool"));
}

#[test]
fn anything_else_is_a_regular_expression_that_may_match_anywhere() {
    for matcher in [
        "B.*h",
        "^Bash$",
        ".",
        "as.",
        "^(Read|Bash)$",
        "\\w+",
        "[A-C]ash",
        "Bash|R.d",
        "(?:B)ash",
    ] {
        assert!(takes(matcher, "Bash"), "{matcher}");
    }
    for matcher in ["b.*h", "^ash", "\\d", "Bash.+", "é"] {
        assert!(!takes(matcher, "Bash"), "{matcher}");
    }
    assert!(takes("mcp__.*__write", "mcp__files__write_file"));
    assert!(takes("caf[é]", "café") && takes("caf.+$", "café"));
}

#[test]
fn empty_and_star_are_everything() {
    for matcher in ["", "*"] {
        assert!(Matcher::parse(matcher).unwrap().is_all());
        assert!(takes(matcher, "Bash") && takes(matcher, ""));
    }
    assert!(Matcher::default().is_all());
    assert!(!Matcher::parse(".*").unwrap().is_all());
}

#[test]
fn the_old_name_of_a_tool_still_matches() {
    assert!(takes("Task", "Agent") && takes("Task", "Task") && takes("^Task$", "Agent"));
    assert!(!takes("Agent", "Task") && !takes("Task", "TaskStop"));
}

#[test]
fn what_cannot_be_a_matcher_says_why() {
    let why: Vec<String> = ["(?i)bash", "^(?!Bash)", "(?<=x)y", "a(", "[", "|", " , "]
        .map(|matcher| Matcher::parse(matcher).unwrap_err())
        .to_vec();
    insta::assert_snapshot!(why.join("\n"), @r#"
    "(?i)bash" is not a regular expression that becket can read: flags like (?i) are not supported
    "^(?!Bash)" is not a regular expression that becket can read: look-around, including look-ahead and look-behind, is not supported
    "(?<=x)y" is not a regular expression that becket can read: look-around, including look-ahead and look-behind, is not supported
    "a(" is not a regular expression that becket can read: unclosed group
    "[" is not a regular expression that becket can read: unclosed character class
    "|" matches nothing (for everything, write "*")
    " , " matches nothing (for everything, write "*")
    "#);
}

fn paths(globs: &[&str]) -> Paths {
    let globs: Vec<String> = globs.iter().map(ToString::to_string).collect();
    Paths::parse(&globs).unwrap()
}

fn has(globs: &[&str], file: &str) -> bool {
    paths(globs).matches(&Path::new("/p").join(file), Path::new("/p"))
}

#[test]
fn globs_read_as_in_gitignore() {
    for (globs, inside, outside) in [
        (
            &["*.rs"][..],
            &["a.rs", "src/deep/a.rs"][..],
            &["a.rsx", "rs"][..],
        ),
        (
            &["src/**/*.rs"],
            &["src/a.rs", "src/x/y/a.rs"],
            &["a.rs", "x/src/a.rs"],
        ),
        (&["src/*.rs"], &["src/a.rs"], &["src/x/a.rs"]),
        (&["/a.rs"], &["a.rs"], &["src/a.rs"]),
        (&["./a.rs"], &["a.rs"], &["src/a.rs"]),
        (
            &["target"],
            &["target", "target/x/y", "sub/target/x"],
            &["targets"],
        ),
        (&["docs/"], &["docs/a.md", "x/docs/a.md"], &["docs"]),
        (&["*.{ts,tsx}"], &["a.ts", "x/a.tsx"], &["a.tsz"]),
        (
            &["src", "!src/gen", "src/gen/keep.rs"],
            &["src/a", "src/gen/keep.rs"],
            &["src/gen/a"],
        ),
        (&["!vendor"], &["a", "src/a"], &["vendor/a"]),
        (&["**"], &["a", "b/c"], &[]),
    ] {
        for file in inside {
            assert!(has(globs, file), "{globs:?} has {file}");
        }
        for file in outside {
            assert!(!has(globs, file), "{globs:?} has not {file}");
        }
    }
}

#[test]
fn paths_are_read_as_they_are_written() {
    let rust = paths(&["src/*.rs"]);
    for file in [
        "/p/src/a.rs",
        "/p/./src/../src/a.rs",
        "/q/../p/src/a.rs",
        "/../p//src/a.rs",
    ] {
        assert!(rust.matches(Path::new(file), Path::new("/p")), "{file}");
        assert!(
            rust.matches(Path::new(file), Path::new("/x/../p/")),
            "{file}"
        );
    }
    for file in ["/src/a.rs", "/p/../src/a.rs", "/p2/src/a.rs", "src/a.rs"] {
        assert!(!rust.matches(Path::new(file), Path::new("/p")), "{file}");
    }
    assert!(!paths(&["!x"]).matches(Path::new("/elsewhere"), Path::new("/p")));
}

#[test]
fn what_cannot_be_a_glob_says_why() {
    let why: Vec<String> = ["a{b", "", "!", "/", "src/[z-a]"]
        .map(|glob| Paths::parse(&[glob.to_owned()]).unwrap_err())
        .to_vec();
    insta::assert_snapshot!(why.join("\n"), @r#"
    the path "a{b": unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
    the path "" names nothing
    the path "!" names nothing
    the path "/" names nothing
    the path "src/[z-a]": invalid range; 'z' > 'a'
    "#);
}

fn hook(on: &[EventName], tools: &str, globs: &[&str]) -> Hook {
    Hook {
        on: on.to_vec(),
        tools: Matcher::parse(tools).unwrap(),
        paths: paths(globs),
        ..Hook::of_test("h", "true")
    }
}

fn hears(hook: &Hook, payload: &str) -> bool {
    let head = Head::read(payload.as_bytes()).unwrap();
    let event = EventName::from(head.event.as_deref().unwrap());
    concerns(hook, &event, &head, payload.as_bytes(), Path::new("/p"))
}

#[test]
fn a_hook_hears_of_its_events_and_tools() {
    let write = r#"{"hook_event_name": "PreToolUse", "tool_name": "Write", "tool_input": {}}"#;
    let on = &[EventName::PreToolUse, EventName::PostToolUse];
    assert!(hears(&hook(on, "Write|Edit", &[]), write));
    assert!(hears(&hook(on, "", &[]), write));
    assert!(!hears(&hook(on, "Bash", &[]), write));
    assert!(!hears(
        &hook(&[EventName::PostToolUse], "Write", &[]),
        write
    ));
    assert!(!hears(&hook(&[], "", &[]), write));
    let nameless = r#"{"hook_event_name": "PreToolUse"}"#;
    assert!(!hears(&hook(on, "Write", &[]), nameless));
    assert!(hears(&hook(on, "*", &[]), nameless));
}

#[test]
fn each_event_has_its_own_word() {
    for (event, field, value, other) in [
        ("SessionStart", "source", "compact", "startup"),
        ("SessionEnd", "reason", "clear", "other"),
        (
            "Notification",
            "notification_type",
            "idle_prompt",
            "permission_prompt",
        ),
        ("UserPromptExpansion", "command_name", "hook:disable", "x"),
        ("InstructionsLoaded", "load_reason", "include", "compact"),
        ("SubagentStop", "agent_type", "Explore", ""),
        ("StopFailure", "error", "rate_limit", "unknown"),
        ("PreCompact", "trigger", "auto", "manual"),
        ("Elicitation", "mcp_server_name", "files", "web"),
        (
            "PreModelSwitch",
            "to_model",
            "claude-opus-5-5",
            "claude-opus",
        ),
        ("FileChanged", "file_path", "/p/.env", "/p/.env/x"),
    ] {
        let hook = hook(
            &[EventName::from(event)],
            value.trim_start_matches("/p/"),
            &[],
        );
        let payload = |value| format!(r#"{{"hook_event_name": "{event}", "{field}": "{value}"}}"#);
        assert!(hears(&hook, &payload(value)), "{event}");
        assert!(!hears(&hook, &payload(other)), "{event}");
    }
    // These compare nothing, so that no matcher keeps a hook from them.
    for event in ["Stop", "UserPromptSubmit", "CwdChanged"] {
        let hook = hook(&[EventName::from(event)], "Bash", &[]);
        assert!(
            hears(&hook, &format!(r#"{{"hook_event_name": "{event}"}}"#)),
            "{event}"
        );
    }
}

#[test]
fn a_hook_with_paths_hears_of_those_files_only() {
    let on = &[
        EventName::PostToolUse,
        EventName::FileChanged,
        EventName::Stop,
    ];
    let hook = hook(on, "", &["src/**/*.rs"]);
    let call = |input: &str| {
        format!(
            r#"{{"hook_event_name": "PostToolUse", "cwd": "/p/src", "tool_name": "T", "tool_input": {input}}}"#
        )
    };
    assert!(hears(&hook, &call(r#"{"file_path": "/p/src/a.rs"}"#)));
    assert!(hears(&hook, &call(r#"{"notebook_path": "/p/src/x/a.rs"}"#)));
    assert!(hears(&hook, &call(r#"{"path": "a.rs", "file_path": 7}"#)));
    assert!(hears(&hook, &call(r#"{"path": "../src/\u0061.rs"}"#)));
    assert!(hears(&hook, &call(r#"{"\ud83d": 1, "path": "a.rs"}"#)));
    assert!(!hears(&hook, &call(r#"{"file_path": "/p/a.rs"}"#)));
    assert!(!hears(&hook, &call(r#"{"command": "cat src/a.rs"}"#)));
    assert!(!hears(&hook, &call(r#""src/a.rs""#)));
    assert!(!hears(
        &hook,
        r#"{"hook_event_name": "Stop", "cwd": "/p/src"}"#
    ));
    let changed = r#"{"hook_event_name": "FileChanged", "file_path": "/p/src/a.rs"}"#;
    assert!(hears(&hook, changed));
}

#[test]
fn a_batch_concerns_each_hook_that_one_of_its_calls_concerns() {
    let on = &[EventName::PostToolBatch];
    let batch = r#"{"hook_event_name": "PostToolBatch", "cwd": "/p", "tool_calls": [
        {"tool_name": "Read", "tool_input": {"file_path": "/p/a.md"}}, 7,
        {"tool_name": "Edit", "tool_input": {"file_path": "/p/a.rs"}}]}"#;
    assert!(hears(&hook(on, "", &[]), batch));
    assert!(hears(&hook(on, "Edit", &[]), batch));
    assert!(hears(&hook(on, "", &["*.md"]), batch));
    assert!(hears(&hook(on, "Edit", &["*.rs"]), batch));
    assert!(
        !hears(&hook(on, "Edit", &["*.md"]), batch),
        "not by two calls together"
    );
    assert!(!hears(&hook(on, "Bash", &[]), batch));
    let empty = r#"{"hook_event_name": "PostToolBatch"}"#;
    assert!(hears(&hook(on, "", &[]), empty) && !hears(&hook(on, "Edit", &[]), empty));
}

proptest! {
    #[test]
    fn no_text_breaks_a_matcher_or_a_glob(text in "\\PC{0,12}", value in "\\PC{0,12}") {
        if let Ok(matcher) = Matcher::parse(&text) {
            matcher.matches(&value);
        }
        if let Ok(paths) = Paths::parse(std::slice::from_ref(&text)) {
            paths.matches(Path::new(&value), Path::new("/p"));
        }
    }

    #[test]
    fn a_word_matches_itself_in_any_list(words in prop::collection::vec("[A-Za-z0-9_-]{1,6}", 1..5), at in 0_usize..5) {
        let word = &words[at % words.len()];
        prop_assert!(takes(&words.join("|"), word));
        prop_assert!(takes(&words.join(", "), word));
        let foreign = format!("{word}.");
        prop_assert!(!takes(&words.join("|"), &foreign));
    }
}
