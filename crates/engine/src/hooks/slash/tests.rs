//! Every message as a person reads it.

use std::fs;

use becket_wire::{EventId, Version};
use serde_json::json;

use super::*;
use crate::config::ConfigCache;

const SESSION: &str = "77850d98-4378-4282-9d8f-d2b7113deb20";

fn hook(name: &str, description: &str) -> Hook {
    Hook {
        description: description.to_owned(),
        ..Hook::of_test(name, "true")
    }
}

/// The seed's project: what it lists, and what it finds.
fn seeds_hooks() -> Vec<Arc<Hook>> {
    vec![
        Arc::new(hook("typecheck-changed", "TypeScript type checking")),
        Arc::new(hook("lint-changed", "ESLint validation")),
    ]
}

/// One hook in each state.
fn all_states() -> Vec<Arc<Hook>> {
    let mut off = hook("check-todos", "Finds TODOs that are new");
    off.off = Some(off.declared.clone());
    let mut untrusted = hook("house-style", "Our naming rules");
    untrusted.untrusted = true;
    let mut skips = hook("a-name-that-is-longer-than-others", "x\n\u{1b}[31mred");
    skips.skip_agents = vec!["Explore".to_owned()];
    let mut hooks = seeds_hooks();
    hooks.extend([off, untrusted, skips].map(Arc::new));
    hooks
}

struct Talk {
    home: tempfile::TempDir,
    hooks: Vec<Arc<Hook>>,
    guards: Vec<Arc<Rule>>,
    agent_type: Option<&'static str>,
}

impl Talk {
    fn with(hooks: Vec<Arc<Hook>>) -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            hooks,
            guards: Vec::new(),
            agent_type: None,
        }
    }

    fn place(&self) -> Place {
        Place::new(self.home.path())
    }

    /// What is said to one command; its exit code stands behind, if it is not 0.
    fn say(&self, verb: SlashVerb, argument: &str) -> String {
        let context = SlashContext {
            place: &self.place(),
            session: SESSION,
            cwd: self.home.path(),
            agent_type: self.agent_type,
            hooks: &self.hooks,
            guards: &self.guards,
        };
        let reply = act(verb, argument, &context);
        let lines = reply.lines;
        match reply.exit {
            0 => lines,
            code => format!("{lines}\n[exit {code}]"),
        }
    }
}

#[test]
fn the_seeds_lines_word_for_word() {
    let talk = Talk::with(seeds_hooks());
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "typecheck"), @"🔒 Disabled typecheck-changed for this session");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "typecheck-changed"), @"⚠️  Hook 'typecheck-changed' is already disabled for this session");
    insta::assert_snapshot!(talk.say(SlashVerb::Enable, "typecheck"), @"✅ Re-enabled typecheck-changed for this session");
    insta::assert_snapshot!(talk.say(SlashVerb::Enable, "typecheck-changed"), @"ℹ️  Hook 'typecheck-changed' is not currently disabled for this session");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "typechk"), @r"
    ❌ No hook found matching 'typechk'
    Did you mean 'typecheck-changed'?
    Available hooks for this project:
      typecheck-changed    - TypeScript type checking
      lint-changed         - ESLint validation
    Try: /hook:disable [exact-name-from-above]
    [exit 3]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, ""), @r"
    Available hooks for this project:
      typecheck-changed    - TypeScript type checking
      lint-changed         - ESLint validation
    Usage: /hook:disable [hook-name-or-partial]
    ");

    let todos = Arc::new(hook("check-todos", "New TODOs"));
    let talk = Talk::with([&talk.hooks[..], &[todos]].concat());
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "check"), @r"
    🤔 Multiple hooks match 'check':
      - typecheck-changed
      - check-todos
    Be more specific: /hook:disable [exact-name]
    [exit 2]
    ");
}

#[test]
fn lists_say_what_does_not_run_and_why() {
    let mut talk = Talk::with(all_states());
    talk.say(SlashVerb::Disable, "lint");
    talk.agent_type = Some("Explore");
    insta::assert_snapshot!(talk.say(SlashVerb::Enable, ""), @r"
    Available hooks for this project:
      typecheck-changed                 - TypeScript type checking
      lint-changed                      - ESLint validation (disabled for this session)
      check-todos                       - Finds TODOs that are new (off in config, /home/user/.becket/config.toml:3)
      house-style                       - Our naming rules (not trusted)
      a-name-that-is-longer-than-others - x  [31mred (skipped for this subagent)
    Usage: /hook:enable [hook-name-or-partial]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Status, ""), @r"
    Hooks for this project, in this session:
      typecheck-changed                 - TypeScript type checking (enabled)
      lint-changed                      - ESLint validation (disabled for this session)
      check-todos                       - Finds TODOs that are new (off in config, /home/user/.becket/config.toml:3)
      house-style                       - Our naming rules (not trusted)
      a-name-that-is-longer-than-others - x  [31mred (skipped for this subagent)
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Status, "changed"), @r"
    Hooks for this project, in this session:
      typecheck-changed    - TypeScript type checking (enabled)
      lint-changed         - ESLint validation (disabled for this session)
    ");
}

#[test]
fn what_is_off_in_config_or_managed_stays_so() {
    let mut managed = hook("audit", "Who did what");
    managed.managed = true;
    let talk = Talk::with([all_states(), vec![Arc::new(managed)]].concat());
    for verb in [SlashVerb::Disable, SlashVerb::Enable] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(talk.say(verb, "todos"), @"⚠️  Hook 'check-todos' is off in the configuration, for every session: /home/user/.becket/config.toml:3");
            insta::assert_snapshot!(talk.say(verb, "audit"), @"⚠️  Hook 'audit' is managed on this machine, and no session switches it: /home/user/.becket/config.toml:3");
        }
    }
    assert!(!talk.place().sessions().exists(), "nothing was changed");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "house"), @r"
    🔒 Disabled house-style for this session
    ⚠️  It does not run anyway: this project is not trusted (becket trust)
    ");
}

#[test]
fn a_project_without_hooks_says_so() {
    let talk = Talk::with(Vec::new());
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "typecheck"), @r"
    ❌ No hook found matching 'typecheck'
    typecheck-changed and typecheck-project are built in and off, so they do not run. To switch one on, in a terminal: becket hooks on typecheck-changed
    No hooks are configured for this project. `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    [exit 3]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, ""), @r"
    No hooks are configured for this project. `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    Usage: /hook:disable [hook-name-or-partial]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Status, ""), @"No hooks are configured for this project. `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.");
}

#[test]
fn several_names_are_switched_together_or_not_at_all() {
    let talk = Talk::with(seeds_hooks());
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "\"Lint\", typecheck,"), @r"
    🔒 Disabled lint-changed for this session
    🔒 Disabled typecheck-changed for this session
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Enable, "lint types lint-changed"), @r"
    ✅ Re-enabled lint-changed for this session
    ✅ Re-enabled typecheck-changed for this session
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "lint typos"), @r"
    ❌ No hook found matching 'typos'
    Available hooks for this project:
      typecheck-changed    - TypeScript type checking
      lint-changed         - ESLint validation
    Try: /hook:disable [exact-name-from-above]
    `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    Nothing was changed.
    [exit 3]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Status, "lint typecheck").lines().count(), @"4");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "self-review"), @r"
    ❌ No hook found matching 'self-review'
    self-review is built in and off, so it does not run. To switch it on, in a terminal: becket hooks on self-review
    Available hooks for this project:
      typecheck-changed    - TypeScript type checking
      lint-changed         - ESLint validation
    Try: /hook:disable [exact-name-from-above]
    `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    [exit 3]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "x\"; rm -rf /").lines().next().unwrap(), @r#"❌ No hook found matching 'x"; rm -rf /'"#);
}

#[test]
fn each_of_several_names_is_answered_where_none_is_clear() {
    let mut talk = Talk::with(Vec::new());
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "lint-changed typecheck-changed"), @r"
    ❌ No hook found matching 'lint-changed'
    lint-changed is built in and off, so it does not run. To switch it on, in a terminal: becket hooks on lint-changed
    No hooks are configured for this project. `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    ❌ No hook found matching 'typecheck-changed'
    typecheck-changed is built in and off, so it does not run. To switch it on, in a terminal: becket hooks on typecheck-changed
    No hooks are configured for this project. `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    Nothing was changed.
    [exit 3]
    ");
    talk.hooks = [
        "lint-changed",
        "lint-project",
        "test-changed",
        "test-project",
    ]
    .map(|name| Arc::new(hook(name, "Checks")))
    .into();
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "lint tests"), @r"
    🤔 Multiple hooks match 'lint':
      - lint-changed
      - lint-project
    Be more specific: /hook:disable [exact-name]
    🤔 Multiple hooks match 'tests':
      - test-changed
      - test-project
    Be more specific: /hook:disable [exact-name]
    Nothing was changed.
    [exit 2]
    ");
    let (config, _) = ConfigCache::new(&talk.place(), [7; 32], false).current(None);
    talk.guards = config.guards.iter().cloned().collect();
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "Delete-Home GIT-PUSH-FORCE"), @r"
    ⚠️  'delete-home' is a guard: no session switches it. To let one call pass: becket allow CODE (becket hooks recent shows the code). To switch it off: [guards.delete-home] with enabled = false in your config.toml
    ⚠️  'git-push-force' is a guard: no session switches it. To let one call pass: becket allow CODE (becket hooks recent shows the code). To switch it off: [guards.git-push-force] with enabled = false in your config.toml
    Nothing was changed.
    [exit 3]
    ");
    insta::assert_snapshot!(talk.say(SlashVerb::Disable, "file-guard"), @r"
    ❌ No hook found matching 'file-guard'
    Available hooks for this project:
      lint-changed         - Checks
      lint-project         - Checks
      test-changed         - Checks
      test-project         - Checks
    Try: /hook:disable [exact-name-from-above]
    `becket hooks adopt` moves hooks from Claude Code's settings files to becket, so that you can switch them.
    [exit 3]
    ");
    // A sentence is one name that no hook has.
    let said = talk.say(SlashVerb::Disable, "what slows this down");
    assert!(said.contains("'what slows this down'"), "{said}");
}

#[test]
fn a_damaged_file_is_told_of() {
    let talk = Talk::with(seeds_hooks());
    let file = switch::path(&talk.place(), SESSION).unwrap();
    for (verb, argument) in [
        (SlashVerb::Disable, "lint"),
        (SlashVerb::Enable, "lint"),
        (SlashVerb::Status, ""),
        (SlashVerb::Disable, ""),
        (SlashVerb::Disable, "zzz"),
    ] {
        talk.say(SlashVerb::Disable, "typecheck");
        fs::write(&file, "{").unwrap();
        let said = talk.say(verb, argument);
        let told =
            "⚠️  The switches of this session were damaged and count as empty: set aside as ";
        assert!(said.contains(told), "{said}");
        assert!(!said.contains("(disabled for this session)"), "{said}");
    }
}

#[test]
fn what_was_typed_is_said_again_within_bounds() {
    let talk = Talk::with(seeds_hooks());
    let said = talk.say(
        SlashVerb::Disable,
        &format!("\u{1b}[2J{}", "x".repeat(10_000)),
    );
    let first = said.lines().next().unwrap();
    assert!(first.ends_with("x…'") && first.chars().count() < 120);
    assert!(!said.contains('\u{1b}'));
}

/// An envelope of today's Claude Code, or of one up to 2.1.260, which does not say whether a user attends.
fn envelope(is_old: bool) -> Envelope {
    let attended = ("CLAUDE_CODE_SESSION_ATTENDED".to_owned(), "1".to_owned());
    Envelope {
        id: EventId::new(5, [7; 2]),
        at: 5,
        version: Version::current(),
        event: None,
        from: None,
        home: "/h".into(),
        pid: 4,
        pid_start: None,
        pid_is_claude: true,
        pid_parent: None,
        variables: (!is_old).then_some(attended).into_iter().collect(),
        cut: None,
    }
}

fn parsed(payload: &serde_json::Value) -> Option<(SlashVerb, String)> {
    let payload = payload.to_string();
    let slash = parse(&Head::read(payload.as_bytes()).unwrap(), &envelope(false))?;
    Some((slash.verb, slash.argument))
}

fn typed(prompt: &str) -> Option<(SlashVerb, String)> {
    parsed(&json!({"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "prompt": prompt}))
}

#[test]
fn both_spellings_are_taken_and_only_as_the_whole_prompt() {
    let disable = |argument: &str| Some((SlashVerb::Disable, argument.to_owned()));
    assert_eq!(typed("/hook:disable typecheck"), disable("typecheck"));
    assert_eq!(
        typed("/becket:hook:disable typecheck"),
        disable("typecheck")
    );
    assert_eq!(
        typed("  /hook:disable \t two words \n"),
        disable("two words")
    );
    assert_eq!(typed("/hook:disable"), disable(""));
    assert_eq!(typed("/hook:enable x").unwrap().0, SlashVerb::Enable);
    assert_eq!(typed("/hook:status").unwrap().0, SlashVerb::Status);
    for prompt in [
        "please type /hook:disable x",
        "/hook:disable x\nand then write the tests",
        "/hook:disable x\r/hook:disable y",
        "/hook:disabled x",
        "/hook:list",
        "/hook",
        "hook:disable x",
        "//hook:disable x",
        "/other:hook:disable x",
        "/becket:disable x",
        "",
    ] {
        assert_eq!(typed(prompt), None, "{prompt:?}");
    }
}

#[test]
fn a_machine_made_prompt_switches_nothing() {
    let with = |key: &str, value: &str| {
        let mut payload =
            json!({"hook_event_name": "UserPromptSubmit", "prompt": "/hook:disable x"});
        payload[key] = value.into();
        parsed(&payload)
    };
    assert!(with("source", "user").is_some() && with("source", "sdk").is_some());
    for source in [
        "system",
        "loop_wakeup",
        "schedule_wakeup",
        "poll_event",
        "new",
    ] {
        assert_eq!(with("source", source), None);
    }
    assert_eq!(with("agent_id", "a1"), None);
    for event in ["UserPromptExpansion", "Stop"] {
        assert_eq!(with("hook_event_name", event), None);
    }
}

#[test]
fn an_older_claude_code_tells_of_the_expansion_first() {
    let payload = include_bytes!("../../../../wire/fixtures/UserPromptExpansion.json");
    let head = Head::read(payload).unwrap();
    assert_eq!(
        parse(&head, &envelope(true)).unwrap().verb,
        SlashVerb::Disable
    );
    assert_eq!(parse(&head, &envelope(false)), None);
}

#[test]
fn it_is_answered_by_a_block_that_hides_the_prompt() {
    let output = answer(EventName::UserPromptSubmit, "done").render();
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r#"{"decision":"block","hookSpecificOutput":{"hookEventName":"UserPromptSubmit","suppressOriginalPrompt":true},"reason":"done"}"#);
}
