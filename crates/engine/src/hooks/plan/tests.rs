//! Plans of little programs, carried out.

use std::cell::RefCell;
use std::fs;

use becket_wire::Place;
use becket_wire::answer::Opinion;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::{Level, Origin};
use crate::hooks::builtin::BuiltIn;
use crate::matcher::{Matcher, Paths};
use crate::trust::{Approved, pins_of};

const PROJECT: &str = "CLAUDE_PROJECT_DIR";

impl Hook {
    /// Makes a hook of the user's that runs this line of shell on the events that tests use.
    pub(crate) fn of_test(name: &str, run: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            on: vec![EventName::PreToolUse, EventName::SessionEnd],
            tools: Matcher::default(),
            paths: Paths::default(),
            skip_agents: Vec::new(),
            action: Action::Run(Program::Shell(run.to_owned())),
            timeout: Duration::from_secs(60),
            rewrites: false,
            is_async: false,
            fails_closed: false,
            declared: Origin {
                level: Level::User,
                file: Some("/home/user/.becket/config.toml".into()),
                line: Some(3),
                variable: None,
                last_good: false,
            },
            off: None,
            untrusted: false,
            changed: false,
            managed: false,
            approved: None,
            untrusted_project: None,
        }
    }
}

/// A project to run hooks in.
struct Yard(TempDir);

impl Yard {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn setup(&self) -> HookSetup {
        let path = std::env::var_os("PATH").unwrap_or_default();
        HookSetup {
            becket: "/bin/becket".into(),
            home: "/home/becket".into(),
            environment: Arc::new([("PATH".into(), path)]),
        }
    }

    /// Of hooks on an event of this project.
    fn plan(&self, event: &EventName, hooks: Vec<Hook>) -> HookPlan {
        let cwd = self.0.path().to_string_lossy();
        let payload = json!({
            "hook_event_name": event.as_str(), "cwd": &*cwd, "tool_name": "Bash",
            "tool_input": {"command": "ls"},
        });
        let payload = payload.to_string();
        let head = Head::read(payload.as_bytes()).unwrap();
        let asked = HookEvent {
            id: EventId::new(5, [7; 2]),
            event,
            head: &head,
            payload: payload.as_bytes(),
            project: self.0.path(),
            attended: true,
        };
        let hooks: Vec<_> = hooks.into_iter().map(Arc::new).collect();
        HookPlan::of(&asked, &hooks, &Switches::default()).expect("a plan")
    }

    /// The verdict, the runs that it waited for, and those that came later.
    fn run(&self, plan: &HookPlan, cancel: &Cancel) -> (Verdict, Vec<RunRow>, Vec<RunRow>) {
        let own = Verdict::silent(plan.event.clone());
        self.run_judged(plan, cancel, own.clone(), |_| own)
    }

    fn run_judged(
        &self,
        plan: &HookPlan,
        cancel: &Cancel,
        own: Verdict,
        judge: impl FnOnce(&[u8]) -> Verdict,
    ) -> (Verdict, Vec<RunRow>, Vec<RunRow>) {
        let setup = self.setup();
        let mut hooks = plan.runs(&setup, cancel);
        let results = hooks.run_awaited();
        fs::write(self.path("answered"), "").unwrap();
        let (verdict, runs) = results.merge(own, judge, |answer| answer);
        let late = std::iter::from_fn(|| hooks.next_ended()).collect();
        (verdict, runs, late)
    }
}

fn rewriting(name: &str, run: &str) -> Hook {
    Hook {
        rewrites: true,
        ..Hook::of_test(name, run)
    }
}

fn ends(rows: &[RunRow]) -> Vec<(&str, &str)> {
    let ends = rows.iter().map(|row| (&*row.hook, row.outcome.as_str()));
    ends.collect()
}

#[test]
fn a_rewriting_hook_that_goes_on_in_the_background_delays_no_other() {
    let yard = Yard::new();
    let line = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done; exit 3";
    let second = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "pwd"}}}'"#;
    let third = "grep -q pwd || exit 1";
    let hooks = vec![
        rewriting("behind", line),
        rewriting("second", second),
        Hook::of_test("third", third),
    ];
    let plan = yard.plan(&EventName::PreToolUse, hooks);
    let (verdict, runs, late) = yard.run(&plan, &Cancel::new());
    assert_eq!(ends(&runs), [("second", "ok"), ("third", "ok")]);
    assert!(changed_input(verdict.answer()).is_some());
    assert_eq!(ends(&late), [("behind", "failed")]);
}

#[test]
fn a_hook_in_the_background_denies_nothing() {
    let yard = Yard::new();
    let went = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done; exit 2";
    let hooks = vec![
        rewriting("went-first", went),
        Hook::of_test("went", went),
        Hook {
            is_async: true,
            ..Hook::of_test("never-asked", "echo no >&2; exit 2")
        },
    ];
    let plan = yard.plan(&EventName::PreToolUse, hooks);
    let (verdict, _, mut late) = yard.run(&plan, &Cancel::new());
    assert!(verdict.answer().decision().is_none());
    late.sort_by(|one, other| one.hook.cmp(&other.hook));
    let expected = [("never-asked", "ok"), ("went", "ok"), ("went-first", "ok")];
    assert_eq!(ends(&late), expected);
    for row in &late {
        let (exit, decision, note) = (row.exit, row.decision.as_deref(), row.note.as_deref());
        let said = "it answered deny when Claude Code no longer waited for it";
        assert_eq!((exit, decision, note), (Some(2), None, Some(said)));
    }
}

#[test]
fn no_hook_starts_after_the_shim_hung_up() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    cancel.abandon();
    let absent = Program::List(vec!["./absent".to_owned()]);
    let names = ["a", "b"].map(|name| Hook {
        action: Action::Run(absent.clone()),
        ..rewriting(name, "")
    });
    let plan = yard.plan(&EventName::PreToolUse, names.into());
    let (_, runs, _) = yard.run(&plan, &cancel);
    assert_eq!(ends(&runs), [("a", "cancelled"), ("b", "cancelled")]);
}

#[test]
fn a_hook_is_ended_before_claude_code_gives_up() {
    let yard = Yard::new();
    let most = |name| Hook {
        timeout: Duration::MAX,
        ..rewriting(name, "true")
    };
    for (event, time, all) in [
        (EventName::PreToolUse, 595, 598),
        (EventName::UserPromptSubmit, 55, 58),
        (EventName::SessionEnd, 5, 8),
    ] {
        let hook = Hook {
            on: vec![event.clone()],
            ..most("a")
        };
        assert_eq!(hook.timeout_on(&event), Duration::from_secs(time));
        let hooks = vec![
            hook.clone(),
            Hook {
                rewrites: false,
                ..hook
            },
        ];
        let plan = yard.plan(&event, hooks);
        assert_eq!(plan.longest(), Duration::from_secs(all));
        assert!(plan.longest() + Duration::from_secs(2) <= event.waits());
    }
    let brief = |name| Hook {
        timeout: Duration::from_secs(7),
        ..rewriting(name, "true")
    };
    let plan = yard.plan(
        &EventName::PreToolUse,
        vec![brief("a"), brief("b"), most("c")],
    );
    let (setup, cancel) = (yard.setup(), Cancel::new());
    let in_time = |left: u64| {
        let mut hooks_run = plan.runs(&setup, &cancel);
        hooks_run.until = Instant::now() + Duration::from_secs(left);
        let jobs = plan.hooks.iter().map(|hook| hooks_run.job(hook).ok());
        jobs.map(|job| job.map(|job| job.timeout.as_secs_f64().ceil() as u64))
            .collect::<Vec<_>>()
    };
    assert_eq!(in_time(600), [Some(7), Some(7), Some(595)]);
    assert_eq!(in_time(9), [Some(6); 3]);
    assert_eq!(in_time(3), [None; 3]);
}

#[test]
fn no_chain_takes_more_time_than_there_is() {
    let yard = Yard::new();
    let hooks = vec![rewriting("a", "touch a"), Hook::of_test("b", "touch b")];
    let mut plan = yard.plan(&EventName::SessionEnd, hooks);
    plan.made_at -= Duration::from_secs(6);
    let (_, runs, _) = yard.run(&plan, &Cancel::new());
    let none = "not started";
    assert_eq!(ends(&runs), [("a", none), ("b", none)]);
    let why = "the hook did not start: there was no time left for it";
    assert_eq!(runs[0].note.as_deref(), Some(why));
    assert!(!yard.path("a").exists() && !yard.path("b").exists());
}

#[test]
fn the_project_that_was_approved_is_the_one_whose_files_run() {
    let yard = Yard::new();
    for (folder, word) in [("approved", "good"), ("foreign", "evil")] {
        fs::create_dir(yard.path(folder)).unwrap();
        fs::write(
            yard.path(&format!("{folder}/x.sh")),
            format!("touch {word}"),
        )
        .unwrap();
    }
    let line = "sh \"$CLAUDE_PROJECT_DIR\"/x.sh";
    fs::create_dir(yard.path("approved/.becket")).unwrap();
    let config = format!("[hooks.theirs]\non = \"PreToolUse\"\nrun = '{line}'\n");
    fs::write(yard.path("approved/.becket/config.toml"), config).unwrap();
    let pins = pins_of(&yard.path("approved"), &Place::new("/home/becket")).unwrap();
    let theirs = Hook {
        approved: Some(Arc::new(Approved::of(&yard.path("approved"), true, pins))),
        ..Hook::of_test("theirs", line)
    };
    let mut setup = yard.setup();
    let foreign = (PROJECT.into(), yard.path("foreign").into());
    setup.environment = setup.environment.iter().cloned().chain([foreign]).collect();
    let run = |hook: Hook| {
        let plan = yard.plan(&EventName::PreToolUse, vec![hook]);
        plan.runs(&setup, &Cancel::new()).run_awaited();
        let made = ["good", "evil"].map(|word| yard.path(word));
        made.map(|file| fs::remove_file(file).is_ok())
    };
    assert_eq!(run(theirs), [true, false]);
    assert_eq!(run(Hook::of_test("mine", line)), [false, true]);

    let builtin = BuiltIn::find("lint-changed").unwrap();
    let builtin = Hook {
        action: Action::BuiltIn(builtin, toml::Table::new()),
        ..Hook::of_test("lint-changed", "")
    };
    let Program::List(words) = program(&builtin, &setup, Path::new("/approved")) else {
        panic!("a built-in is no line for a shell")
    };
    let line =
        "/bin/becket builtin lint-changed --options {} --project /approved --home /home/becket";
    assert_eq!(words.join(" "), line);
    let approved = yard.path("approved");
    let around = admit(&builtin, &setup.environment, &approved, &approved).unwrap();
    let named: Vec<_> = around.iter().filter(|(name, _)| name == PROJECT).collect();
    assert_eq!(named, [&(PROJECT.into(), yard.path("approved").into())]);
    assert!(around.iter().any(|(name, _)| name == "PATH"));
}

#[test]
fn what_hooks_make_of_an_input_is_judged_again() {
    let yard = Yard::new();
    let rewrite = |name, command: &str| {
        let say = json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse", "permissionDecision": "allow",
            "updatedInput": {"command": command},
        }});
        rewriting(name, &format!("echo '{say}'"))
    };
    let said = |opinion: Option<Opinion>, by: &str| {
        let verdict = Verdict::silent(EventName::PreToolUse);
        let mut answer = verdict.answer().clone();
        answer.add_message("a word");
        if let Some(opinion) = opinion {
            answer.give(opinion).unwrap();
        }
        verdict.merged(answer, Some(by.to_owned().into()))
    };
    let run = |own: Verdict, hooks: Vec<Hook>| {
        let plan = yard.plan(&EventName::PreToolUse, hooks);
        let asked = RefCell::new(Vec::new());
        let judge = |payload: &[u8]| {
            let head: serde_json::Value = serde_json::from_slice(payload).unwrap();
            let command = head["tool_input"]["command"].as_str().unwrap().to_owned();
            let deny = Opinion::Deny {
                reason: "no".to_owned(),
            };
            let opinion = (command == "rm").then_some(deny);
            asked.borrow_mut().push(command);
            said(opinion, "a guard")
        };
        let (verdict, ..) = yard.run_judged(&plan, &Cancel::new(), own, judge);
        let messages = verdict.answer().messages();
        assert_eq!(messages, ["a word"], "twice, or not at all");
        let decision = verdict.decision().unwrap();
        (decision.answer, decision.by, asked.into_inner())
    };
    let words = |answer: &str, by: &str, asked: &[&str]| {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        (answer.into(), Some(by.to_owned().into()), asked)
    };
    let silent = || said(None, "becket");
    let last = run(silent(), vec![rewrite("a", "ls -l"), rewrite("b", "rm")]);
    assert_eq!(last, words("deny", "a guard", &["rm"]));
    let ask = Opinion::Ask {
        reason: "is that so?".to_owned(),
    };
    let asks = || said(Some(ask.clone()), "a first guard");
    let first = run(asks(), vec![rewrite("a", "pwd")]);
    assert_eq!(first, words("ask", "a first guard", &["pwd"]));
    let both = run(asks(), vec![rewrite("a", "rm")]);
    assert_eq!(both, words("deny", "a guard", &["rm"]));
    let only_between = run(silent(), vec![rewrite("a", "rm"), rewrite("b", "pwd")]);
    assert_eq!(only_between, words("allow", "a, b", &["pwd"]));
    let unchanged = run(
        silent(),
        vec![Hook::of_test(
            "a",
            r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'"#,
        )],
    );
    assert_eq!(unchanged, words("allow", "a", &[]));
}

#[test]
fn only_the_input_is_replaced() {
    let input = Rest::from_iter([("command".to_owned(), json!("ls \"x\""))]);
    let payload =
        b" {\"a\": {\"tool_input\": 1},\n \"tool_input\" : {\"x\": [1, 2]} , \"b\":  1.50}\n";
    let new = with_input(payload, &input).unwrap();
    let expected = " {\"a\": {\"tool_input\": 1},\n \"tool_input\" : {\"command\":\"ls \\\"x\\\"\"} , \"b\":  1.50}\n";
    assert_eq!(std::str::from_utf8(&new), Ok(expected));
    for none in [
        "{}",
        "",
        "[1]",
        "{\"tool_input\": ",
        "{\"x\": {\"tool_input\": {}}}",
    ] {
        assert_eq!(with_input(none.as_bytes(), &input), None, "{none}");
    }
}

#[test]
fn a_hook_that_changed_since_its_approval_is_recorded_and_denies_if_it_fails_closed() {
    let yard = Yard::new();
    for (event, fails_closed, denied) in [
        (EventName::PreToolUse, true, true),
        (EventName::PreToolUse, false, false),
        (EventName::SessionEnd, true, false),
    ] {
        let hook = Hook {
            untrusted: true,
            changed: true,
            fails_closed,
            ..Hook::of_test("no-apply", "touch ran")
        };
        let plan = yard.plan(&event, vec![hook]);
        let (verdict, runs, _) = yard.run(&plan, &Cancel::new());
        assert_eq!(ends(&runs), [("no-apply", "not started")]);
        assert!(!yard.path("ran").exists());
        assert_eq!(verdict.refuses(), denied, "{event}");
        assert_eq!(runs[0].decision.as_deref() == Some("deny"), denied);
    }
}
