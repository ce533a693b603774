//! The tables of docs/reference, compared with becket's own output.

use std::collections::{BTreeMap, BTreeSet};

use becket_engine::hooks::builtin::language::{CheckKind, LANGUAGES, Language};
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn};
use becket_engine::hooks::slash::SlashVerb;
use becket_tests::world::{World, call};
use becket_wire::answer::{Answer, Opinion};
use becket_wire::event::EventName;
use serde_json::{Value, json};

use super::page::{Page, page, root, rows};

/// Verbs that work, and that the first help page leaves out.
const NOT_ON_THE_FIRST_HELP_PAGE: [&str; 5] = ["completions", "daemon", "gc", "name", "wait"];

/// Returns options and arguments with their descriptions, from the output of `-h`.
fn options(help: &str) -> BTreeMap<String, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        if !line.starts_with(' ') {
            inside = matches!(line, "Options:" | "Arguments:") || (inside && line.is_empty());
            continue;
        }
        let text = line.trim();
        match (inside, found.last_mut()) {
            (true, _)
                if line.starts_with("  -")
                    || line.starts_with("      --")
                    || line.starts_with("  [") =>
            {
                let (option, what) = text.split_once("  ").unwrap_or((text, ""));
                found.push((option.replace(['<', '>'], ""), what.trim().to_owned()));
            }
            // The rest of a description that did not fit the line.
            (true, Some((_, what))) => *what = format!("{what} {text}").trim().to_owned(),
            _ => {}
        }
    }
    found.into_iter().collect()
}

/// Returns the verbs below a command, from its help.
fn verbs(world: &World, command: &[String]) -> Vec<Vec<String>> {
    let help = help(world, command);
    // Names of arguments and options begin with `[`, `<` or `-`.
    let is_verb = |line: &&str| {
        let name = line.strip_prefix("  ").and_then(|line| line.chars().next());
        name.is_some_and(char::is_lowercase)
    };
    let mut all = Vec::new();
    for line in help.lines().filter(is_verb) {
        let name = line.split_whitespace().next().expect("a verb").to_owned();
        let verb: Vec<String> = command.iter().cloned().chain([name]).collect();
        let below = verbs(world, &verb);
        // A verb that is only a prefix of others has no section.
        if below.is_empty() || !usage_wants_more(&self::help(world, &verb)) {
            all.push(verb);
        }
        all.extend(below);
    }
    all
}

fn usage_wants_more(help: &str) -> bool {
    let usage = help.lines().find(|line| line.starts_with("Usage:"));
    usage.is_some_and(|usage| usage.ends_with("<COMMAND>"))
}

fn help(world: &World, verb: &[String]) -> String {
    let args: Vec<&str> = verb.iter().map(String::as_str).chain(["-h"]).collect();
    world.run(&args).replace(" (see more with '--help')", "")
}

fn documented(lines: &[&str]) -> BTreeMap<String, String> {
    let options = rows(lines).into_iter();
    let options = options.filter(|row| row[0].starts_with("`-") || row[0].starts_with("`["));
    options
        .map(|row| (row[0].replace('`', ""), row[1].clone()))
        .collect()
}

#[test]
fn the_command_line_is_documented() {
    let world = World::new();
    let page = page("docs/reference/cli.md");
    let everywhere = documented(&page.text.lines().collect::<Vec<_>>()[..20]);
    let mut verbs = verbs(&world, &[]);
    for name in NOT_ON_THE_FIRST_HELP_PAGE {
        let verb = vec![name.to_owned()];
        let below = self::verbs(&world, &verb);
        verbs.extend(if below.is_empty() { vec![verb] } else { below });
    }
    assert!(verbs.len() > 12, "{verbs:?}");
    for verb in &verbs {
        let name = verb.join(" ");
        let section = page.section(&format!("## becket {name}"));
        let help = help(&world, verb);
        let about = help.split("\n\n").next().unwrap_or_default();
        let about = about.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(section.contains(&&*format!("{about}.")), "{name}: {about}");
        let mut said = options(&help);
        for (option, what) in &everywhere {
            assert_eq!(said.remove(option).as_ref(), Some(what), "{name}: {option}");
        }
        assert_eq!(documented(&section), said, "becket {name}");
        assert!(
            section.iter().any(|line| line.starts_with("Exit: ")),
            "{name} has no exit codes"
        );
    }
    let sections = page
        .text
        .lines()
        .filter(|line| line.starts_with("## becket "));
    assert_eq!(
        sections.count(),
        verbs.len(),
        "a section for a verb that is none"
    );
}

#[test]
fn the_keys_of_the_configuration_are_documented() {
    let world = World::new();
    let schema: Value = serde_json::from_str(&world.run(&["config", "schema"])).expect("JSON");
    let mut keys = BTreeMap::new();
    collect(&schema, "", &mut keys);
    let page = page("docs/reference/config.md");
    let documented = rows(&page.section("## Keys")).into_iter();
    let documented: BTreeMap<String, (String, String)> = documented
        .filter(|row| row.len() == 3)
        .map(|row| {
            (
                row[0].replace('`', ""),
                (row[1].replace('`', ""), row[2].clone()),
            )
        })
        .collect();
    assert_eq!(documented, keys);
}

/// Collects every key below a part of the schema: default and description.
fn collect(schema: &Value, path: &str, keys: &mut BTreeMap<String, (String, String)>) {
    let named = schema["properties"].as_object().into_iter().flatten();
    let others = schema
        .get("additionalProperties")
        .filter(|any| any.is_object());
    let others = others.map(|any| ("*".to_owned(), any));
    for (name, part) in named.map(|(name, part)| (name.clone(), part)).chain(others) {
        let path = [path, &name].join(".").trim_start_matches('.').to_owned();
        if let Some(about) = part["description"].as_str() {
            let default = match &part["default"] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            keys.insert(path, (default, about.to_owned()));
        } else {
            collect(part, &path, keys);
        }
    }
}

/// Collects the names of all fields in a value: `checks[].name`.
fn fields(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        // The content comes from elsewhere.
        _ if matches!(path, "payload" | "values[].value" | "tables[].value") => {}
        Value::Object(object) => {
            for (name, inner) in object {
                let path = [path, name].join(".").trim_start_matches('.').to_owned();
                names.insert(path.clone());
                fields(inner, &path, names);
            }
        }
        Value::Array(list) => {
            for inner in list {
                fields(inner, &format!("{path}[]"), names);
            }
        }
        _ => {}
    }
}

/// Asserts that the page's table for a command names exactly the fields of its output.
fn agree(page: &Page, command: &str, printed: &[Value]) {
    let mut said = BTreeSet::new();
    for value in printed {
        fields(value, "", &mut said);
    }
    let table = rows(&page.section(&format!("## `{command}`"))).into_iter();
    let table: BTreeSet<String> = table.map(|row| row[0].replace('`', "")).collect();
    assert_eq!(table, said, "{command}");
}

fn parsed(text: &str) -> Vec<Value> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    values.collect::<Result<_, _>>().expect("JSON")
}

#[test]
fn the_fields_of_the_json_are_documented() {
    let world = World::new();
    let page = page("docs/reference/events-json.md");
    let agrees = |command: &str, more: &[&str]| {
        let args = command.split(' ').skip(1).chain(more.iter().copied());
        agree(
            &page,
            command,
            &parsed(&world.run(&args.collect::<Vec<_>>())),
        );
    };
    agrees("becket up --only-register --json", &["--dry-run"]);
    agrees("becket down --json", &["--dry-run"]);
    world.run(&["up", "--only-register"]);
    std::fs::write(
        world.path("config.toml"),
        "[store]\nkeep_days = 1\nkeep_day = 1\n[hooks.mine]\non = \"Stop\"\nrun = \"true\"\n",
    )
    .expect("a config");
    agrees("becket config --json", &[]);
    agrees("becket doctor --json", &[]);
    // A payload of each kind: not JSON, not text, answered, duplicate.
    std::fs::write(world.path("config.toml"), "[store\n").expect("a config");
    world.send("Stop", "{no json");
    world.send("Stop", b"\xff\xfe");
    let prompt = json!({"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "p"});
    world.send("UserPromptSubmit", prompt.to_string());
    let mut again = world.command(world.programs.join("becket-hook"));
    again.args(["--event", "UserPromptSubmit", "--from", "plugin"]);
    call(again, prompt.to_string().as_bytes());
    agrees("becket events --json", &["--duplicates"]);
    agrees("becket daemon status --json", &[]);
}

#[test]
fn the_fields_of_the_runs_are_documented() {
    let world = World::new();
    world.run(&["up", "--only-register"]);
    let hooks = r#"
        [hooks.refuses]
        on = "PostToolUse"
        run = "echo no >&2; exit 2"
        [hooks.rests]
        on = "PostToolUse"
        run = "true"
        enabled = false
    "#;
    std::fs::write(world.path("config.toml"), hooks).expect("a config");
    let event = json!({
        "hook_event_name": "PostToolUse",
        "session_id": "77850d98-4378-4282-9d8f-d2b7113deb20",
        "cwd": world.home,
        "tool_name": "Write",
        "tool_input": {"file_path": "a"},
    });
    world.send("PostToolUse", event.to_string());
    let page = page("docs/reference/runs-json.md");
    for (command, more) in [
        ("becket hooks stats --json", &[][..]),
        ("becket hooks recent --json", &[]),
        ("becket why --json", &[]),
        ("becket hooks profile --json", &["-n", "1"]),
        ("becket hooks try --json", &["refuses"]),
        ("becket replay --json", &["77850d98", "--hook", "refuses"]),
    ] {
        let args = command.split(' ').skip(1).chain(more.iter().copied());
        let printed = parsed(&world.run(&args.collect::<Vec<_>>()));
        agree(&page, command, &printed);
    }
}

#[test]
fn every_quoted_line_of_doctor_exists() {
    let sources = sources();
    let page = page("docs/troubleshooting.md");
    let table = rows(&page.section("## From the symptom"));
    let quotes: Vec<&str> = table.iter().flat_map(|row| row[1].split('`')).collect();
    let lines = quotes.iter().filter(|quote| quote.starts_with(['✗', '!']));
    let mut looked = 0;
    for line in lines {
        let (_, said) = line.split_once("  ").expect("a part and what it says");
        // Variable parts are a `…` or a word in capitals on the page, and a `{}` in the source.
        let is_fixed =
            |word: &str| !word.contains('…') && word.bytes().any(|c| c.is_ascii_lowercase());
        let words: Vec<&str> = said.split(' ').collect();
        for part in words.split(|word| !is_fixed(word)) {
            let part = part.join(" ");
            let part = part.trim_end_matches([':', ',']);
            assert!(
                sources.contains(part),
                "becket never prints `{part}` ({line})"
            );
            looked += usize::from(part.len() > 8);
        }
    }
    assert!(looked > 15, "only {looked} lines");
}

/// Returns all source text of becket.
fn sources() -> String {
    let mut folders = vec![
        root().join("crates/cli/src"),
        root().join("crates/daemon/src"),
        root().join("crates/engine/src"),
    ];
    let mut text = String::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                text += &std::fs::read_to_string(path).expect("a source");
            }
        }
    }
    text
}

#[test]
fn the_languages_and_their_tools_are_documented() {
    let page = page("docs/reference/hooks.md");
    let tools = |language: &Language, kind| {
        let names: Vec<_> = language.tools_for(kind).map(|tool| &*tool.name).collect();
        names.join(", ")
    };
    let row = |language: &Language| {
        let markers: Vec<_> = language
            .markers
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        vec![
            language.name.clone(),
            markers.join(", "),
            tools(language, CheckKind::Typecheck),
            tools(language, CheckKind::Lint),
            tools(language, CheckKind::Test),
        ]
    };
    let wanted: Vec<_> = LANGUAGES.iter().map(row).collect();
    assert_eq!(rows(&page.section("### Which tool")), wanted);
}

#[test]
fn the_hooks_are_documented() {
    let page = page("docs/reference/hooks.md");
    for (heading, starts_tools) in [
        ("## Built-ins that run tools", true),
        ("## Built-ins that look at Claude's work", false),
    ] {
        let section = page.section(heading);
        let end = section.iter().position(|line| line.starts_with("###"));
        let wanted: Vec<_> = BUILT_INS
            .iter()
            .filter(|hook| hook.starts_project_tools == starts_tools)
            .map(row)
            .collect();
        let table = section[..end.expect("a part")]
            .iter()
            .filter(|line| line.starts_with("| `"));
        assert_eq!(table.copied().collect::<Vec<_>>(), wanted);
        for hook in BUILT_INS
            .iter()
            .filter(|hook| hook.starts_project_tools == starts_tools)
        {
            for key in hook.keys {
                let cell = format!("| `{key}` |");
                let is_there = section.iter().any(|line| line.starts_with(&cell));
                assert!(is_there, "{}.{key}", hook.name);
            }
        }
    }
}

fn row(hook: &BuiltIn) -> String {
    let on: Vec<_> = hook.on.iter().map(ToString::to_string).collect();
    let tools = match hook.tools {
        "" => String::new(),
        tools => format!(" of `{}`", tools.replace('|', "\\|")),
    };
    format!(
        "| `{}` | {}{tools} | {} |",
        hook.name,
        on.join(", "),
        hook.description
    )
}

#[test]
fn the_slash_commands_are_documented() {
    let page = page("docs/reference/commands.md");
    for verb in SlashVerb::ALL {
        let row = format!(
            "| `/hook:{0} NAME` | `/becket:hook:{0} NAME` |",
            verb.word()
        );
        let is_there = page.text.lines().any(|line| line.starts_with(&row));
        assert!(is_there, "{row}");
    }
}

/// Returns every field of `hookSpecificOutput`, with a value that its event would take.
fn answer_fields() -> Vec<(&'static str, Value)> {
    vec![
        ("permissionDecision", json!("deny")),
        ("decision", json!({"behavior": "deny"})),
        ("action", json!("accept")),
        ("additionalContext", json!("text")),
        ("updatedInput", json!({})),
        ("updatedToolOutput", json!("text")),
        ("updatedMCPToolOutput", json!("text")),
        ("classifierContext", json!("text")),
        ("sessionTitle", json!("text")),
        ("suppressOriginalPrompt", json!(true)),
        ("initialUserMessage", json!("text")),
        ("watchPaths", json!(["a"])),
        ("reloadSkills", json!(true)),
        ("retry", json!(true)),
        ("content", json!({})),
        ("worktreePath", json!("a")),
        ("displayContent", json!("text")),
    ]
}

fn read(event: &EventName, exit: i32, stdout: &str) -> Option<Answer> {
    Answer::read(event.clone(), exit, stdout.as_bytes(), b"no").ok()
}

/// Returns the fields that change the answer to an event.
fn taken(event: &EventName) -> Vec<&'static str> {
    let silent = Answer::silent(event.clone());
    let is_taken = |name: &str, value: &Value| {
        let said = json!({"hookSpecificOutput": {"hookEventName": event.as_str(), name: value}});
        read(event, 0, &said.to_string()).is_some_and(|answer| answer != silent)
    };
    let mut taken: Vec<_> = (answer_fields().into_iter())
        .filter(|(name, value)| is_taken(name, value))
        .map(|(name, _)| name)
        .collect();
    if taken.contains(&"permissionDecision") {
        taken.push("permissionDecisionReason");
    }
    taken.sort_unstable();
    taken
}

/// Returns the table under a heading: one row per event, in becket's order.
fn table(heading: &str, columns: usize) -> Vec<Vec<String>> {
    let rows = rows(&page("docs/reference/events.md").section(heading));
    let table: Vec<_> = (rows.into_iter())
        .filter(|row| row.len() == columns)
        .map(|row| row.iter().map(|cell| cell.replace('`', "")).collect())
        .collect::<Vec<Vec<String>>>();
    let names: Vec<&str> = table.iter().map(|row| &*row[0]).collect();
    assert_eq!(names, EventName::ALL.each_ref().map(EventName::as_str));
    table
}

#[test]
fn every_event_is_documented_with_its_matcher_and_time_limit() {
    for (event, row) in EventName::ALL.iter().zip(table("## When they fire", 4)) {
        let compared = match event {
            // Claude Code matches nothing there, becket does.
            EventName::PostToolBatch => "the tool_name of each call",
            EventName::FileChanged => "the last part of file_path",
            event => event.matcher_field().unwrap_or_default(),
        };
        let seconds = event.waits().as_secs();
        let waits = match (event.is_registered(), event.comes_late()) {
            (false, _) => "not registered".to_owned(),
            (true, true) => format!("{seconds} s, async"),
            (true, false) => format!("{seconds} s"),
        };
        assert_eq!(row[2..], [compared, &*waits], "{event}");
        assert!(!row[1].is_empty(), "{event}");
    }
}

#[test]
fn every_event_is_documented_with_its_answers() {
    for (event, row) in EventName::ALL
        .iter()
        .zip(table("## What may be answered", 4))
    {
        let refusal = read(event, 2, "");
        let refusal = refusal.as_ref().and_then(Answer::opinion);
        let refusal = match refusal.map(Opinion::name) {
            Some("deny") => "denies",
            Some("block") => "blocks",
            Some("decline") => "declines",
            other => other.unwrap_or_default(),
        };
        let plain = read(event, 0, "text").expect("text is no failure");
        let plain = match (plain.contexts(), plain.messages(), plain.changes()) {
            ([_], [], []) => "context",
            ([], [_], []) => "message",
            ([], [], [_]) => "the folder",
            _ => "",
        };
        assert_eq!(row[1..3], [refusal, plain], "{event}");
        let cell = row[3].split(", ").filter(|name| !name.is_empty());
        let mut named: Vec<&str> = cell.collect();
        named.sort_unstable();
        assert_eq!(named, taken(event), "{event}");
    }
}
