//! Plans of little programs, carried out.

mod again;

use std::cell::RefCell;
use std::fs;

use becket_wire::Place;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::config::{Level, Origin};
use crate::hooks::builtin::BuiltIn;
use crate::matcher::{Matcher, Paths};
use crate::trust::{Approved, pins_of};

/// No program here takes that long unless something is broken.
const WATCHDOG: Duration = Duration::from_secs(60);

const PROJECT: &str = "CLAUDE_PROJECT_DIR";

/// A project to run hooks in.
struct Yard(TempDir);

impl Yard {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn kit(&self) -> Kit {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Kit {
            becket: "/bin/becket".into(),
            home: "/home/becket".into(),
            environment: Arc::new([("PATH".into(), path)]),
        }
    }

    /// Of hooks on an event of this project.
    fn plan(&self, event: &EventName, hooks: Vec<Hook>) -> Plan {
        let cwd = self.0.path().to_string_lossy();
        let payload = json!({
            "hook_event_name": event.as_str(), "cwd": &*cwd, "tool_name": "Bash",
            "tool_input": {"command": "ls"},
        });
        let payload = payload.to_string();
        let head = Head::read(payload.as_bytes()).unwrap();
        let asked = Asked {
            id: EventId::new(5, [7; 2]),
            event,
            head: &head,
            payload: payload.as_bytes(),
            project: self.0.path(),
            attended: true,
        };
        let hooks: Vec<_> = hooks.into_iter().map(Arc::new).collect();
        Plan::of(&asked, &hooks, Arc::default).expect("a plan")
    }

    /// What was answered, and the rows of what came later.
    fn carry_out(&self, plan: Plan, cancel: &Cancel) -> (Done, Vec<RunRow>) {
        let (done, late) = (RefCell::new(None), RefCell::new(Vec::new()));
        let answered = |all| {
            fs::write(self.path("answered"), "").unwrap();
            done.replace(Some(all));
        };
        let own = Verdict::silent(plan.event.clone());
        let again = own.clone();
        let later = |row| late.borrow_mut().push(row);
        plan.carry_out(&self.kit(), cancel, own, |_| again, answered, later);
        (done.into_inner().expect("an answer"), late.into_inner())
    }
}

fn hook(name: &str, run: &str) -> Hook {
    Hook {
        name: name.to_owned(),
        description: String::new(),
        on: vec![EventName::PreToolUse, EventName::SessionEnd],
        tools: Matcher::default(),
        paths: Paths::default(),
        skip_agents: Vec::new(),
        action: Action::Run(Program::Shell(run.to_owned())),
        timeout: WATCHDOG,
        rewrites: false,
        is_async: false,
        declared: Origin {
            level: Level::User,
            file: None,
            line: None,
            variable: None,
            last_good: false,
        },
        off: None,
        untrusted: false,
        managed: false,
        approved: None,
        untrusted_project: None,
    }
}

fn rewriting(name: &str, run: &str) -> Hook {
    Hook {
        rewrites: true,
        ..hook(name, run)
    }
}

fn ends(rows: &[RunRow]) -> Vec<(&str, &str)> {
    let ends = rows.iter().map(|row| (&*row.hook, &*row.outcome));
    ends.collect()
}

#[test]
fn a_rewriting_hook_that_goes_on_in_the_background_holds_nobody() {
    let yard = Yard::new();
    let line = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done; exit 3";
    let second = r#"echo '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"command": "pwd"}}}'"#;
    let third = "grep -q pwd || exit 1";
    let hooks = vec![
        rewriting("behind", line),
        rewriting("second", second),
        hook("third", third),
    ];
    let plan = yard.plan(&EventName::PreToolUse, hooks);
    let (done, late) = yard.carry_out(plan, &Cancel::new());
    assert_eq!(ends(&done.runs), [("second", "ok"), ("third", "ok")]);
    assert!(changed_input(&done.merged.answer).is_some());
    assert_eq!(ends(&late), [("behind", "failed")]);
}

#[test]
fn nobody_is_denied_by_whom_nobody_waits_for() {
    let yard = Yard::new();
    let went = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done; exit 2";
    let hooks = vec![
        rewriting("went-first", went),
        hook("went", went),
        Hook {
            is_async: true,
            ..hook("never-asked", "echo no >&2; exit 2")
        },
    ];
    let plan = yard.plan(&EventName::PreToolUse, hooks);
    let (done, mut late) = yard.carry_out(plan, &Cancel::new());
    assert!(done.merged.answer.decision().is_none());
    late.sort_by(|one, other| one.hook.cmp(&other.hook));
    let expected = [("never-asked", "ok"), ("went", "ok"), ("went-first", "ok")];
    assert_eq!(ends(&late), expected);
    for row in &late {
        let (exit, decision, note) = (row.exit, row.decision.as_deref(), row.note.as_deref());
        let said = "it said deny when Claude Code no longer waited for it";
        assert_eq!((exit, decision, note), (Some(2), None, Some(said)));
    }
}

#[test]
fn nothing_of_a_chain_is_started_for_whoever_hung_up() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    cancel.abandon();
    let absent = Program::List(vec!["./absent".to_owned()]);
    let names = ["a", "b"].map(|name| Hook {
        action: Action::Run(absent.clone()),
        ..rewriting(name, "")
    });
    let plan = yard.plan(&EventName::PreToolUse, names.into());
    let (done, _) = yard.carry_out(plan, &cancel);
    assert_eq!(ends(&done.runs), [("a", "cancelled"), ("b", "cancelled")]);
}

#[test]
fn whoever_has_to_be_ended_is_so_before_claude_code_gives_up() {
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
    let (kit, payload) = (yard.kit(), Arc::clone(&plan.payload));
    let in_time = |left: u64| {
        let stage = Stage {
            plan: &plan,
            kit: &kit,
            payload: Arc::clone(&payload),
            until: Instant::now() + Duration::from_secs(left),
        };
        let jobs = plan.hooks.iter().map(|hook| stage.job(hook).ok());
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
    let hooks = vec![rewriting("a", "touch a"), hook("b", "touch b")];
    let mut plan = yard.plan(&EventName::SessionEnd, hooks);
    plan.made -= Duration::from_secs(6);
    let (done, _) = yard.carry_out(plan, &Cancel::new());
    let none = "not started";
    assert_eq!(ends(&done.runs), [("a", none), ("b", none)]);
    let why = "the hook did not start: there was no time left for it";
    assert_eq!(done.runs[0].note.as_deref(), Some(why));
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
        ..hook("theirs", line)
    };
    let mut kit = yard.kit();
    let foreign = (PROJECT.into(), yard.path("foreign").into());
    kit.environment = kit.environment.iter().cloned().chain([foreign]).collect();
    let run = |hook: Hook| {
        let plan = yard.plan(&EventName::PreToolUse, vec![hook]);
        let own = Verdict::silent(plan.event.clone());
        let again = own.clone();
        plan.carry_out(&kit, &Cancel::new(), own, |_| again, drop, drop);
        let made = ["good", "evil"].map(|word| yard.path(word));
        made.map(|file| fs::remove_file(file).is_ok())
    };
    assert_eq!(run(theirs), [true, false]);
    assert_eq!(run(hook("mine", line)), [false, true]);

    let builtin = BuiltIn::find("lint-changed").unwrap();
    let builtin = Hook {
        action: Action::BuiltIn(builtin, toml::Table::new()),
        ..hook("lint-changed", "")
    };
    let Program::List(words) = program(&builtin, &kit, Path::new("/approved")) else {
        panic!("a built-in is no line for a shell")
    };
    let line =
        "/bin/becket builtin lint-changed --options {} --project /approved --home /home/becket";
    assert_eq!(words.join(" "), line);
    let approved = yard.path("approved");
    let around = admit(&builtin, &kit.environment, &approved, &approved).unwrap();
    let named: Vec<_> = around.iter().filter(|(name, _)| name == PROJECT).collect();
    assert_eq!(named, [&(PROJECT.into(), yard.path("approved").into())]);
    assert!(around.iter().any(|(name, _)| name == "PATH"));
}
