use std::collections::{BTreeMap, BTreeSet, HashMap};

use becket_engine::effort::rules::{Says, say};
use becket_engine::effort::skill::{EffortLimits, Skill, built_in};
use becket_engine::effort::{EXHAUSTED, directive};
use becket_engine::session::Inference;
use becket_wire::Version;
use becket_wire::answer::Opinion;
use becket_wire::rpc::LAUNCH;
use becket_wire::session::Figures;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::store;

/// Where a Claude Code runs.
#[derive(Debug, Clone, Copy)]
struct Who {
    session: &'static str,
    pid: u32,
    agent: Option<&'static str>,
    pane: Option<&'static str>,
    restart: bool,
}

const A: Who = Who {
    session: "aaaa",
    pid: 10,
    agent: None,
    pane: None,
    restart: false,
};

const B: Who = Who {
    session: "bbbb",
    pid: 20,
    ..A
};

/// A registry on a database of its own, which does with an event what the core does.
struct Bench {
    registry: Registry,
    database: Connection,
    project: String,
    now: i64,
    /// Files that each window was given, and those of answers that are not committed yet.
    given: HashMap<(EventId, String), u32>,
    answered: Vec<(EventId, String)>,
    confirmed: BTreeSet<(EventId, String)>,
    /// The next answer is refused by a hook.
    refuses: bool,
    _home: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let database = store::open(&home.path().join("becket.db"), 0)
            .unwrap()
            .connection;
        let project = home.path().join("p");
        std::fs::create_dir_all(&project).unwrap();
        Self {
            registry: Registry::open(&database),
            database,
            project: project.canonicalize().unwrap().display().to_string(),
            now: 1_000,
            given: HashMap::new(),
            answered: Vec::new(),
            confirmed: BTreeSet::new(),
            refuses: false,
            _home: home,
        }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.project)
    }

    /// What is not committed is gone with the daemon.
    fn kill(&mut self) {
        self.answered.clear();
        self.registry = Registry::open(&self.database);
    }

    fn commit(&mut self) {
        store::sessions::write(&self.database, &self.registry.take_unwritten()).unwrap();
        for given in std::mem::take(&mut self.answered) {
            *self.given.entry(given).or_default() += 1;
        }
        let changes = self.registry.effort_changes();
        for change in &changes {
            if let Change::Effort(effort) = change {
                let files: BTreeSet<&String> = effort.row.directives.iter().collect();
                assert_eq!(files.len(), effort.row.directives.len());
            }
        }
        stored::write(&self.database, &changes).unwrap();
    }

    fn envelope(&self, who: &Who) -> Envelope {
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: Option<&str>| {
            variables.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        };
        set("AGENT_ID", who.agent);
        set("TMUX_PANE", who.pane);
        set("TMUX", who.pane.map(|_| "/tmp/tmux,1,0"));
        set(LAUNCH, who.restart.then_some("7:70:restart"));
        Envelope {
            id: EventId::new(self.now, [0; 2]),
            at: self.now,
            version: Version::current(),
            event: None,
            from: None,
            home: String::new(),
            pid: who.pid,
            pid_start: Some(1),
            pid_is_claude: true,
            pid_parent: Some(7),
            variables,
            cut: None,
        }
    }

    /// One event, answered and committed.
    fn event(&mut self, who: Who, event: &str, more: &Value) -> Option<Says> {
        self.now += 10;
        let says = self.uncommitted(who, event, more);
        self.commit();
        says
    }

    fn uncommitted(&mut self, who: Who, event: &str, more: &Value) -> Option<Says> {
        let mut payload =
            json!({"session_id": who.session, "hook_event_name": event, "cwd": self.project});
        payload
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let payload = payload.to_string();
        let head = Head::read(payload.as_bytes()).unwrap();
        let envelope = self.envelope(&who);
        let project = Some(self.project.clone());
        let applied =
            self.registry
                .apply(&self.database, &head, &envelope, project.as_deref(), None)?;
        let mut context = applied.effort?;
        let event = EventName::from(event);
        let skill = built_in()
            .get(&context.facts.skill)
            .cloned()
            .unwrap_or_default();
        if directive::is_wanted(&context, &event) {
            context.read = Some(directive::read(&context, &skill, &event, true));
        }
        let says = say(
            &context,
            &skill,
            &EffortLimits::default(),
            &event,
            &head,
            "12:00",
        )?;
        let files = says.said.pending_injections.iter();
        let window = context.window.unwrap();
        self.answered
            .extend(files.map(|file| (window, file.clone())));
        let agent = head.agent_id.as_deref();
        let refused = std::mem::take(&mut self.refuses);
        self.registry
            .record_effort_message(who.session, agent, envelope.id, &says.said, refused);
        Some(says)
    }

    fn start_session(&mut self, who: Who) -> Option<Says> {
        self.event(who, "SessionStart", &json!({"source": "startup"}))
    }

    fn call(&mut self, who: Who, tool: &str, more: &Value) -> String {
        let mut fields = json!({"tool_name": tool, "tool_use_id": "t", "tool_input": {}});
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let says = self.event(who, "PreToolUse", &fields);
        match says
            .as_ref()
            .map(|says| (&says.opinion, says.contexts.is_empty()))
        {
            Some((Some(Opinion::Deny { .. }), _)) => "deny",
            Some((Some(_), _)) => "other",
            Some((None, false)) => "remind",
            _ => "",
        }
        .to_owned()
    }

    fn bash(&mut self, who: Who, command: &str) -> String {
        self.call(who, "Bash", &json!({"tool_input": {"command": command}}))
    }

    fn ask(&mut self, caller: &Caller, what: EffortDo, prepared: Prepared) -> AskReply {
        self.now += 10;
        self.commit();
        let ask = EffortAsk {
            caller: caller.clone(),
            what,
        };
        let told = self
            .registry
            .answer_effort(&self.database, ask, prepared, self.now);
        self.commit();
        told
    }

    fn row(&mut self, caller: &Caller, what: EffortDo) -> EffortRow {
        let first = Prepared {
            phase: Some("plan".to_owned()),
            ..Prepared::default()
        };
        match self.ask(caller, what, first) {
            AskReply::Effort(told) => match *told {
                EffortTold::Effort(row) | EffortTold::Written { effort: row, .. } => row,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn caller(&self, who: Who) -> Caller {
        Caller {
            session_id: Some(who.session.to_owned()),
            agent_id: who.agent.map(str::to_owned),
            pane: who.pane.map(str::to_owned),
            tmux_socket: who.pane.map(|_| "/tmp/tmux".to_owned()),
            launch: who.restart.then(|| "7:70:restart".to_owned()),
            ..self.person()
        }
    }

    /// A person in a shell.
    fn person(&self) -> Caller {
        Caller {
            cwd: self.project.clone(),
            project: self.project.clone(),
            ..Caller::default()
        }
    }

    fn start(&mut self, who: Who) -> i64 {
        let caller = self.caller(who);
        self.row(&caller, start("implement")).id
    }

    fn log(&mut self, who: Who, text: &str) {
        let caller = self.caller(who);
        self.row(&caller, log(text));
    }

    fn effort_of(&self, who: Who) -> Option<i64> {
        self.registry.sessions.get(who.session)?.session.work.effort
    }

    fn windows(&self, effort: i64) -> Vec<WindowRow> {
        stored::windows(&self.database, effort).unwrap()
    }

    fn context(&mut self, who: Who, pct: f64) {
        let figures = Figures {
            context_pct: Some(pct),
            ..Figures::default()
        };
        self.registry.set_figures(who.session, &figures, None);
    }
}

fn start(skill: &str) -> EffortDo {
    EffortDo::Start {
        skill: skill.to_owned(),
        mode: None,
        task: None,
        title: None,
    }
}

fn log(text: &str) -> EffortDo {
    EffortDo::Log {
        text: text.to_owned(),
    }
}

fn of(agent: &str) -> Value {
    json!({"agent_id": agent, "agent_type": "Explore"})
}

#[test]
fn a_reminder_at_three_a_denial_at_ten_and_a_log_entry_begins_anew() {
    let mut bench = Bench::new();
    bench.start_session(A);
    assert_eq!(bench.bash(A, "ls"), "", "no effort, no opinion");
    bench.start(A);
    for round in 0..2 {
        let said: Vec<String> = (1..=12).map(|_| bench.bash(A, "cargo test")).collect();
        let expected = [
            "", "", "remind", "", "", "", "", "", "", "deny", "deny", "deny",
        ];
        assert_eq!(said, expected, "round {round}");
        assert_eq!(
            bench.call(A, "Read", &json!({})),
            "",
            "looking is not counted"
        );
        assert_eq!(bench.bash(A, "becket effort log 'the tests pass'"), "");
        assert_eq!(bench.bash(A, "becket effort log x; rm -rf y"), "deny");
        bench.log(A, "the tests pass");
        bench.kill();
    }
    assert_eq!(bench.bash(A, "cargo test"), "", "after a restart too");
}

#[test]
fn subagents_count_for_themselves_and_log_for_themselves() {
    let mut bench = Bench::new();
    bench.start_session(A);
    let effort = bench.start(A);
    let in_agent = |id: &str, command: &str| {
        let mut fields = of(id);
        fields["tool_input"] = json!({"command": command});
        fields
    };
    for id in ["x", "y"] {
        let given = bench.event(A, "SubagentStart", &of(id)).unwrap();
        assert!(given.contexts[0].contains("becket effort log"), "{given:?}");
        for _ in 0..9 {
            bench.call(A, "Bash", &in_agent(id, "make"));
        }
    }
    assert_eq!(bench.bash(A, "make"), "", "the parent's first call");
    // Both agents write their log at once; each entry is of the agent whose call contains it.
    bench.call(A, "Bash", &in_agent("x", "becket effort log 'of x'"));
    bench.call(A, "Bash", &in_agent("y", "becket effort log 'of y'"));
    bench.log(A, "of y");
    let beats = |bench: &Bench| -> Vec<u32> {
        let work = &bench.registry.sessions["aaaa"].session.work;
        work.agents.values().map(|agent| agent.heartbeat).collect()
    };
    assert_eq!(beats(&bench), [1, 9, 0]);
    bench.log(A, "of the main agent, from elsewhere");
    assert_eq!(
        beats(&bench),
        [1, 0, 0],
        "x has a call open that writes the log"
    );
    let file = bench.path("src/x.rs");
    let mut read = of("x");
    read["tool_name"] = json!("Read");
    read["tool_input"] = json!({"file_path": file});
    read["tool_response"] = json!({});
    bench.event(A, "PostToolUse", &read);
    bench.event(A, "SubagentStop", &of("x"));
    let work = &bench.registry.sessions["aaaa"].session.work;
    assert_eq!(
        work.agents[MAIN].loaded,
        [file],
        "its files are the effort's"
    );
    let windows = bench.windows(effort);
    let ended: Vec<(Option<&str>, bool)> = windows
        .iter()
        .map(|window| (window.agent_id.as_deref(), window.ended_at.is_some()))
        .collect();
    assert_eq!(
        ended,
        [(None, false), (Some("x"), true), (Some("y"), false)]
    );
}

#[test]
fn from_an_event_to_its_effort() {
    let mut bench = Bench::new();
    bench.start_session(A);
    bench.start_session(B);
    let effort = bench.start(A);
    assert_eq!(bench.effort_of(A), Some(effort));
    // A second plain session is left alone: while the first lives, and after it.
    bench.event(B, "UserPromptSubmit", &json!({"prompt": "hello"}));
    assert_eq!(bench.effort_of(B), None);
    let third = Who {
        session: "cccc",
        pid: 30,
        ..A
    };
    bench.start_session(third);
    assert_eq!(bench.effort_of(third), None);
    // `/clear`: the same process.
    bench.event(A, "SessionEnd", &json!({"reason": "clear"}));
    let cleared = Who { session: "a2", ..A };
    bench.event(cleared, "SessionStart", &json!({"source": "clear"}));
    assert_eq!(bench.effort_of(cleared), Some(effort));
    bench.event(cleared, "SessionEnd", &json!({"reason": "other"}));
    bench.event(B, "UserPromptSubmit", &json!({"prompt": "hello"}));
    assert_eq!(bench.effort_of(B), None, "until it resumes");
    let fresh = Who {
        session: "dddd",
        pid: 40,
        ..A
    };
    bench.start_session(fresh);
    assert_eq!(
        bench.effort_of(fresh),
        Some(effort),
        "a fresh session goes on"
    );
    let caller = bench.caller(B);
    assert!(matches!(
        bench.ask(&caller, log("x"), Prepared::default()),
        AskReply::Refused(_)
    ));
    bench.row(&caller, EffortDo::Resume);
    assert_eq!(bench.effort_of(B), Some(effort));
    let chain = bench.windows(effort);
    let links: Vec<_> = chain.iter().skip(1).map(|window| window.prev).collect();
    let ids: Vec<_> = chain.iter().map(|window| Some(window.id)).collect();
    assert_eq!(links, ids[..ids.len() - 1]);
    bench.row(&caller, EffortDo::Finish);
    assert_eq!(bench.effort_of(B), None);
    assert!(
        bench
            .windows(effort)
            .iter()
            .all(|window| window.ended_at.is_some())
    );
    bench.event(fresh, "UserPromptSubmit", &json!({"prompt": "hello"}));
    assert_eq!(bench.effort_of(fresh), None);
}

#[test]
fn launch_and_pane_lead_to_their_effort_and_agents_to_their_own() {
    let mut bench = Bench::new();
    let in_pane = Who {
        pane: Some("%3"),
        ..A
    };
    let launched = Who { restart: true, ..B };
    // Started in the shell of the pane, and by the launch before Claude Code runs.
    let caller = Caller {
        session_id: None,
        ..bench.caller(in_pane)
    };
    let of_pane = bench.row(&caller, start("fix")).id;
    let caller = Caller {
        session_id: None,
        ..bench.caller(launched)
    };
    let of_launch = bench.row(&caller, start("prd")).id;
    bench.start_session(in_pane);
    bench.start_session(launched);
    assert_eq!(bench.effort_of(in_pane), Some(of_pane));
    assert_eq!(bench.effort_of(launched), Some(of_launch));
    // A `claude -p` in the same pane: another process.
    let nested = Who {
        session: "nested",
        pid: 99,
        ..in_pane
    };
    bench.start_session(nested);
    assert_eq!(bench.effort_of(nested), None);
    // A coordinator starts an effort for another agent: its own session keeps its own.
    let caller = Caller {
        agent_id: Some("worker".to_owned()),
        ..bench.caller(in_pane)
    };
    let of_worker = bench.row(&caller, start("implement")).id;
    assert_eq!(bench.effort_of(in_pane), Some(of_pane));
    let worker = Who {
        session: "w",
        pid: 50,
        agent: Some("worker"),
        ..A
    };
    bench.kill();
    bench.start_session(worker);
    assert_eq!(bench.effort_of(worker), Some(of_worker));
    bench.event(worker, "SessionEnd", &json!({"reason": "other"}));
    let told = bench
        .event(in_pane, "UserPromptSubmit", &json!({"prompt": "and?"}))
        .unwrap();
    assert!(
        told.contexts
            .iter()
            .any(|text| text.contains("Agent worker ended")),
        "{told:?}"
    );
    let told = bench
        .event(in_pane, "UserPromptSubmit", &json!({"prompt": "and?"}))
        .unwrap();
    assert_eq!(told.contexts.len(), 1, "once");
}

#[test]
fn two_agents_in_one_project_share_nothing() {
    let mut bench = Bench::new();
    let agents = [
        Who {
            agent: Some("one"),
            ..A
        },
        Who {
            agent: Some("two"),
            ..B
        },
    ];
    let mut efforts = Vec::new();
    for agent in agents {
        bench.start_session(agent);
        efforts.push(bench.start(agent));
    }
    assert_ne!(efforts[0], efforts[1]);
    let mut counted = [0_u32; 2];
    let mut random = 12_345_u32;
    for step in 0..10_000_u32 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let which = (random >> 16) as usize % 2;
        let who = agents[which];
        match (random >> 20) % 20 {
            0 => {
                let caller = bench.caller(who);
                let ask = EffortAsk {
                    caller,
                    what: log("x"),
                };
                bench.registry.answer_effort(
                    &bench.database,
                    ask,
                    Prepared::default(),
                    step.into(),
                );
                counted[which] = 0;
            }
            1 => bench.context(who, 10.0 + which as f64),
            2..8 => drop(bench.uncommitted_call(who, "Read")),
            _ => {
                counted[which] += 1;
                let says = bench.uncommitted_call(who, "Edit");
                let denied = says.is_some_and(|says| says.opinion.is_some());
                assert_eq!(denied, counted[which] >= 10, "step {step}");
            }
        }
        for (nth, agent) in agents.iter().enumerate() {
            let work = &bench.registry.sessions[agent.session].session.work;
            assert_eq!(work.effort, Some(efforts[nth]));
            let beats = work.agents[MAIN].heartbeat;
            assert_eq!(beats, counted[nth], "step {step}");
            let pct = work.context_pct;
            assert!(pct.is_none_or(|pct| pct == 10.0 + nth as f64));
        }
    }
}

impl Bench {
    fn uncommitted_call(&mut self, who: Who, tool: &str) -> Option<Says> {
        self.now += 10;
        self.uncommitted(
            who,
            "PreToolUse",
            &json!({"tool_name": tool, "tool_input": {}}),
        )
    }
}

#[test]
fn at_the_limit_a_launch_hands_over_and_the_next_window_gets_it() {
    let mut bench = Bench::new();
    let launched = Who { restart: true, ..A };
    bench.start_session(launched);
    let effort = bench.start(launched);
    bench.context(launched, 82.0);
    assert_eq!(bench.bash(launched, "make"), "remind", "the warning");
    assert_eq!(bench.bash(launched, "make"), "", "once");
    bench.context(launched, 91.0);
    assert_eq!(bench.call(launched, "Read", &json!({})), "deny");
    assert_eq!(
        bench.call(launched, "Bash", &of("x")),
        "",
        "it binds no subagent"
    );
    assert_eq!(
        bench.bash(launched, "becket effort dehydrate <<'EOF'\n{}\nEOF"),
        ""
    );
    let left = Dehydrated {
        summary: "half done".to_owned(),
        ..Dehydrated::default()
    };
    let prepared = Prepared {
        dehydrated: Some(left),
        ..Prepared::default()
    };
    let caller = bench.caller(launched);
    let text = String::new();
    bench.ask(&caller, EffortDo::Dehydrate { text }, prepared);
    let row = bench.registry.row(launched.session, bench.now).unwrap();
    assert!(row.effort.unwrap().handover, "the launch sees it");
    bench.kill();
    bench.event(launched, "SessionEnd", &json!({"reason": "other"}));
    let fresh = Who {
        session: "fresh",
        pid: 11,
        ..launched
    };
    let given = bench.start_session(fresh).unwrap();
    assert!(given.contexts[0].contains("half done"), "{given:?}");
    assert_eq!(bench.effort_of(fresh), Some(effort));
    let row = bench.registry.row(fresh.session, bench.now).unwrap();
    assert!(!row.effort.unwrap().handover);
    assert_eq!(bench.bash(fresh, "make"), "", "its context is another");
    // Claude Code would compact by itself.
    let blocked = bench
        .event(fresh, "PreCompact", &json!({"trigger": "auto"}))
        .unwrap();
    assert!(matches!(blocked.opinion, Some(Opinion::Block { .. })));
    assert!(
        bench
            .event(fresh, "PreCompact", &json!({"trigger": "manual"}))
            .is_none()
    );
}

#[test]
fn without_a_launch_a_full_context_is_said_twice_and_given_back_after_the_compaction() {
    let mut bench = Bench::new();
    bench.start_session(A);
    bench.start(A);
    bench.context(A, 95.0);
    assert_eq!(bench.bash(A, "make"), "remind");
    assert_eq!(bench.bash(A, "make"), "");
    assert!(
        bench
            .event(A, "PreCompact", &json!({"trigger": "auto"}))
            .is_none()
    );
    let file = bench.path("a.rs");
    let edit = json!({"tool_name": "Edit", "tool_input": {"file_path": file}, "tool_response": {}});
    bench.event(A, "PostToolUse", &edit);
    let given = bench
        .event(A, "SessionStart", &json!({"source": "compact"}))
        .unwrap();
    assert!(given.contexts[0].contains(&file), "{given:?}");
    assert_eq!(
        bench.bash(A, "make"),
        "",
        "the figure was of the window before"
    );
}

#[test]
fn what_is_heard_is_recorded() {
    let mut bench = Bench::new();
    bench.start_session(A);
    let effort = bench.start(A);
    let asked = json!({"tool_name": "AskUserQuestion",
        "tool_input": {"questions": [{"question": "Which colour?"}]},
        "tool_response": {"answers": {"Which colour?": "Blue"}}});
    let says = bench.event(A, "PostToolUse", &asked);
    assert!(says.is_none());
    bench.event(
        A,
        "PostToolUseFailure",
        &json!({"tool_name": "Bash", "error": "exit 1"}),
    );
    bench.event(
        A,
        "TaskCompleted",
        &json!({"task_id": "1", "task_subject": "write it"}),
    );
    bench.event(
        A,
        "TeammateIdle",
        &json!({"teammate_name": "tom", "team_name": "t"}),
    );
    bench.event(
        A,
        "Stop",
        &json!({"last_assistant_message": "Prompt is too long"}),
    );
    let messages = stored::messages(&bench.database, effort).unwrap();
    let told: Vec<(&str, &str)> = messages
        .iter()
        .map(|message| (&*message.kind, &*message.text))
        .collect();
    let expected = [
        ("dialogue", "Q: Which colour?\nA: Blue"),
        ("failure", "Bash: exit 1"),
        ("task_completed", "write it"),
        ("teammate_idle", "Teammate tom is idle."),
        ("exhausted", "The context ran out."),
    ];
    assert_eq!(told, expected);
    bench.kill();
    let row = bench.registry.row(A.session, bench.now).unwrap();
    assert!(row.effort.unwrap().exhausted);
    // No event tells of it in every version: the transcript does.
    bench.event(A, "SessionStart", &json!({"source": "clear"}));
    bench.event(A, "UserPromptSubmit", &json!({"prompt": "on"}));
    let died = Inference::TurnDied {
        error: Some(EXHAUSTED.to_owned()),
    };
    bench.registry.infer(A.session, &died, bench.now + 5);
    bench.commit();
    assert_eq!(stored::messages(&bench.database, effort).unwrap().len(), 6);
    assert_eq!(
        bench.effort_of(A),
        Some(effort),
        "a completed task finishes no effort"
    );
}

#[test]
fn efforts_of_one_task_have_their_own_ordinals_and_are_found_again() {
    let mut bench = Bench::new();
    let person = bench.person();
    let rows: Vec<EffortRow> = (0..2).map(|_| bench.row(&person, start("fix"))).collect();
    assert_eq!((rows[0].ordinal, rows[1].ordinal), (1, 2));
    bench.row(&person, EffortDo::Finish);
    bench.kill();
    let row = bench.row(&person, start("fix"));
    assert_eq!((row.ordinal, row.task), (3, rows[0].task));
    let phase = EffortDo::Phase {
        name: "verify".to_owned(),
    };
    bench.row(&person, phase);
    bench.kill();
    let AskReply::Effort(told) =
        bench.ask(&person, EffortDo::List { all: false }, Prepared::default())
    else {
        panic!("no list");
    };
    let EffortTold::Efforts(rows) = *told else {
        panic!("{told:?}");
    };
    let seen: Vec<(u32, bool, Option<&str>)> = rows
        .iter()
        .map(|row| (row.ordinal, row.finished_at.is_some(), row.phase.as_deref()))
        .collect();
    let plan = Some("plan");
    assert_eq!(
        seen,
        [
            (3, false, Some("verify")),
            (2, true, plan),
            (1, false, plan)
        ]
    );
    assert_eq!(rows[0].phases.len(), 2);
    let named = Caller {
        effort: Some(rows[1].id),
        ..person
    };
    assert!(matches!(
        bench.ask(&named, log("x"), Prepared::default()),
        AskReply::Refused(_)
    ));
    assert!(matches!(
        bench.ask(
            &named,
            EffortDo::Show { dialogue: true },
            Prepared::default()
        ),
        AskReply::Effort(_)
    ));
}

#[test]
fn what_was_refused_is_given_again_and_what_claude_code_loaded_is_not() {
    let mut bench = Bench::new();
    for folder in ["f0", "f1"] {
        let folder = bench.path(&format!("{folder}/.directives"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(format!("{folder}/d.md"), "a directive").unwrap();
    }
    bench.start_session(A);
    let effort = bench.start(A);
    let loaded = json!({"file_path": bench.path("f1/.directives/d.md")});
    bench.event(A, "InstructionsLoaded", &loaded);
    bench.refuses = true;
    let gives = |bench: &mut Bench, folder: u8| {
        let touched = bench.touch_file(folder);
        bench.event(A, "PostToolUse", &touched).is_some()
    };
    assert!(gives(&mut bench, 0), "refused");
    assert!(gives(&mut bench, 0), "given again");
    assert!(!gives(&mut bench, 0));
    assert!(!gives(&mut bench, 1));
    let row = bench.registry.efforts.row(effort).unwrap();
    assert_eq!(row.directives, [bench.path("f0/.directives/d.md")]);
    // The process dies without a word; the files it touched last are known to the next window.
    let process = (A.pid, Some(1));
    bench
        .registry
        .end_gone_processes(&[(A.session.to_owned(), process)], bench.now);
    bench.commit();
    assert!(bench.windows(effort)[0].ended_at.is_some());
    let given = bench.start_session(B).unwrap();
    assert!(given.contexts[0].contains("f1/x.rs"), "{given:?}");
}

/// What may happen.
#[derive(Debug, Clone, Copy)]
enum Move {
    Start(u8, &'static str),
    End(u8),
    Subagent(u8, bool),
    Call(u8, bool),
    Touch(u8, u8),
    /// The daemon is killed after an event was answered and before it was committed: it comes again, by
    /// the spool.
    KillBefore(u8, u8),
    Kill,
    Resume(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let who = 0_u8..3;
    let source = prop::sample::select(vec!["startup", "resume", "clear", "compact"]);
    let one = prop_oneof![
        2 => (who.clone(), source).prop_map(|(who, source)| Move::Start(who, source)),
        1 => who.clone().prop_map(Move::End),
        2 => (who.clone(), any::<bool>()).prop_map(|(who, starts)| Move::Subagent(who, starts)),
        3 => (who.clone(), any::<bool>()).prop_map(|(who, sub)| Move::Call(who, sub)),
        4 => (who.clone(), 0_u8..4).prop_map(|(who, folder)| Move::Touch(who, folder)),
        2 => (who.clone(), 0_u8..4).prop_map(|(who, folder)| Move::KillBefore(who, folder)),
        1 => Just(Move::Kill),
        1 => who.prop_map(Move::Resume),
    ];
    prop::collection::vec(one, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn kills_leave_the_chain_unbroken_and_each_delivery_confirmed_once(moves in moves()) {
        let mut bench = Bench::new();
        let all = [A, B, Who { session: "cccc", pid: 30, ..A }];
        for folder in 0..4 {
            let folder = bench.path(&format!("f{folder}/.directives"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(format!("{folder}/d.md"), "a directive").unwrap();
        }
        bench.start_session(A);
        let effort = bench.start(A);
        for one in moves {
            bench.play(&all, one);
            bench.check(effort);
        }
    }
}

impl Bench {
    fn touch_file(&self, folder: u8) -> Value {
        json!({"tool_name": "Read", "tool_response": {},
            "tool_input": {"file_path": self.path(&format!("f{folder}/x.rs"))}})
    }

    fn play(&mut self, all: &[Who; 3], one: Move) {
        let who = |nth: u8| all[usize::from(nth)];
        match one {
            Move::Start(nth, source) => {
                self.event(who(nth), "SessionStart", &json!({"source": source}));
            }
            Move::End(nth) => drop(self.event(who(nth), "SessionEnd", &json!({"reason": "other"}))),
            Move::Subagent(nth, starts) => {
                let event = if starts {
                    "SubagentStart"
                } else {
                    "SubagentStop"
                };
                self.event(who(nth), event, &of("sub"));
            }
            Move::Call(nth, sub) => {
                let more = if sub { of("sub") } else { json!({}) };
                self.call(who(nth), "Read", &more);
            }
            Move::Touch(nth, folder) => {
                let touched = self.touch_file(folder);
                self.event(who(nth), "PostToolUse", &touched);
            }
            Move::KillBefore(nth, folder) => {
                self.now += 10;
                let touched = self.touch_file(folder);
                self.uncommitted(who(nth), "PostToolUse", &touched.clone());
                self.kill();
                // With the same id and time.
                self.uncommitted(who(nth), "PostToolUse", &touched);
                self.commit();
            }
            Move::Kill => self.kill(),
            Move::Resume(nth) => {
                let caller = self.caller(who(nth));
                self.ask(&caller, EffortDo::Resume, Prepared::default());
            }
        }
    }

    /// Main windows are one chain, each with its own predecessor; what a session says of its windows is in the
    /// table; a file is given once in a window, and confirmed once.
    fn check(&mut self, effort: i64) {
        let windows = self.windows(effort);
        let ids: BTreeSet<EventId> = windows.iter().map(|window| window.id).collect();
        assert_eq!(ids.len(), windows.len());
        let main: Vec<&WindowRow> = windows.iter().filter(|it| it.agent_id.is_none()).collect();
        let firsts = main.iter().filter(|window| window.prev.is_none()).count();
        assert_eq!(firsts, 1, "{windows:?}");
        let prevs: BTreeSet<EventId> = main.iter().filter_map(|window| window.prev).collect();
        assert_eq!(prevs.len(), main.len() - 1, "no two go on from one");
        assert!(prevs.iter().all(|prev| ids.contains(prev)));
        let open = main.iter().filter(|window| !prevs.contains(&window.id));
        assert_eq!(open.count(), 1);
        for live in self.registry.sessions.values() {
            let work = &live.session.work;
            if work.effort.is_none() {
                continue;
            }
            for agent in work.agents.values() {
                let Some(window) = agent.window else {
                    assert!(live.session.ended_at.is_some() && agent.given.is_empty());
                    continue;
                };
                assert!(ids.contains(&window));
                for (file, given) in &agent.given {
                    let key = (window, file.clone());
                    let was_given = self.given.get(&key).copied();
                    assert_eq!(was_given, Some(1), "{file} in one window");
                    let before = self.confirmed.contains(&key);
                    assert!(!before || given.confirmed, "what arrived stays");
                    if given.confirmed {
                        self.confirmed.insert(key);
                    }
                }
            }
        }
    }
}

#[test]
fn a_rule_of_a_skill_holds_by_its_conditions() {
    use becket_engine::effort::skill::{RuleAnswer, SkillRule};
    use becket_engine::effort::{EffortContext, EffortFacts};
    let rule = SkillRule {
        tool: "Edit|Write".to_owned(),
        phase: vec!["plan".to_owned()],
        heartbeat: Some(2),
        context: Some(50.0),
        calls: Some(3),
        answer: RuleAnswer::Once,
        say: "plan first".to_owned(),
    };
    let skill = Skill {
        rules: BTreeMap::from([("plan-first".to_owned(), rule)]),
        ..Skill::default()
    };
    let holds = EffortContext {
        facts: EffortFacts {
            phase: Some("plan".to_owned()),
            ..EffortFacts::default()
        },
        heartbeat: 2,
        calls: 3,
        context_pct: Some(50.0),
        ..EffortContext::default()
    };
    let judge = |context: &EffortContext, tool: &str| {
        let payload = json!({"tool_name": tool, "tool_input": {}}).to_string();
        let head = Head::read(payload.as_bytes()).unwrap();
        let limits = EffortLimits::default();
        say(context, &skill, &limits, &EventName::PreToolUse, &head, "")
    };
    let says = judge(&holds, "Edit").unwrap();
    assert_eq!(says.rule.as_deref(), Some("plan-first"));
    assert!(
        matches!(says.opinion, Some(Opinion::Deny { reason }) if reason.contains("plan first"))
    );
    assert_eq!(says.said.fired_rules, ["plan-first"]);
    assert!(judge(&holds, "Bash").is_none());
    let others = [
        EffortContext {
            heartbeat: 1,
            ..holds.clone()
        },
        EffortContext {
            calls: 2,
            ..holds.clone()
        },
        EffortContext {
            context_pct: None,
            ..holds.clone()
        },
        EffortContext {
            facts: EffortFacts::default(),
            ..holds.clone()
        },
        EffortContext {
            fired: vec!["plan-first".to_owned()],
            ..holds
        },
    ];
    assert!(
        others
            .iter()
            .all(|context| judge(context, "Edit").is_none())
    );
}
