//! The tables and the JSON of invented runs.

use becket_daemon::store::LoggedRun;
use becket_wire::hook_run::{RunOutcome, RunRow};
use becket_wire::rpc::{AnswerWord, DecisionRow, EventRow, Source};
use becket_wire::{Account, Actor};

use super::explanation::{Skipped, Why, explain};
use crate::hook_runs::{self, Times, stats};
use crate::session::tests::{MINUTE, NOW, look};

const EVENT: &str = "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b";

fn run(hook: &str, ago: i64, took_us: i64) -> LoggedRun {
    LoggedRun {
        run: RunRow {
            hook: hook.to_owned(),
            event_id: EVENT.parse().unwrap(),
            event: "PostToolUse".to_owned(),
            session_id: Some("5e5510a1-0000-4000-8000-000000000001".to_owned()),
            agent_id: None,
            at: NOW - ago,
            took_us,
            exit: Some(0),
            outcome: RunOutcome::Ok,
            decision: None,
            said: 0,
            note: None,
        },
        tool: Some("Write".to_owned()),
        until: None,
    }
}

fn failed(mut found: LoggedRun, outcome: &str, exit: Option<i32>, note: &str) -> LoggedRun {
    found.run.outcome = outcome.into();
    found.run.exit = exit;
    found.run.note = Some(note.to_owned());
    found
}

fn morning() -> Vec<LoggedRun> {
    let mut refused = run("house-style", 2 * MINUTE, 48_000);
    refused.run.decision = Some("block".to_owned());
    refused.run.said = 412;
    let mut begun = run("notify-team", 3 * MINUTE, 2100);
    begun.run.outcome = RunOutcome::Async;
    begun.run.exit = None;
    begun.run.event = "Stop".to_owned();
    begun.tool = None;
    vec![
        failed(
            run("typecheck-changed", MINUTE, 30_000_000),
            "timed out",
            None,
            "no end after 30s",
        ),
        refused,
        begun,
        failed(
            run("house-style", 4 * MINUTE, 51_000),
            "failed",
            Some(127),
            "sh: 1: scripts/house-style: not found",
        ),
        run("house-style", 5 * MINUTE, 47_000),
        run("typecheck-changed", 1600 * MINUTE, 6_200_000),
    ]
}

fn shown(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn what_hooks_cost_is_a_table() {
    let runs = morning();
    let hooks = stats(runs.iter().map(|found| &found.run));
    insta::assert_snapshot!("stats", shown(&hook_runs::stats_table(&hooks, &look(100))));
}

#[test]
fn the_last_runs_are_a_table() {
    insta::assert_snapshot!(
        "recent",
        shown(&hook_runs::recent_table(&morning(), &look(140)))
    );
    insta::assert_snapshot!(
        "recent_narrow",
        shown(&hook_runs::recent_table(&morning(), &look(50)))
    );
    insta::assert_snapshot!(
        "recent_coloured",
        hook_runs::recent_table(&morning(), &look(140))
    );
}

fn going_on(mut found: LoggedRun, left: i64) -> LoggedRun {
    found.run.outcome = RunOutcome::Running;
    found.run.exit = None;
    found.until = Some(NOW + left);
    found
}

#[test]
fn what_goes_on_says_since_when_and_until_when() {
    let mut runs = vec![
        going_on(run("typecheck-changed", 12_300, 12_300_000), 17_700),
        going_on(run("house-style", 2 * MINUTE, 120_000_000), -500),
    ];
    runs.extend(morning().drain(1..3));
    insta::assert_snapshot!(
        "running",
        shown(&hook_runs::recent_table(&runs, &look(120)))
    );
    let mut held = why();
    held.event.took_us = None;
    held.event.decision = None;
    held.runs = vec![runs.remove(0), run("house-style", 12_300, 48_000)];
    held.skipped.clear();
    insta::assert_snapshot!("why_running", shown(&explain(&held, &look(100))));
    let one = serde_json::to_value(hook_runs::JsonRun::from(&held.runs[0])).unwrap();
    assert_eq!(one["outcome"], "running");
    assert_eq!(one["until"], crate::ui::time::timestamp(NOW + 17_700));
    assert!(!held.runs[0].run.has_failed());
}

#[test]
fn an_event_that_nobody_answered_says_why() {
    let judged = |source, detour: Option<&str>, ago, outcome: Option<&str>| {
        let mut why = why();
        why.event.took_us = None;
        why.event.decision = None;
        why.event.source = source;
        why.event.at = NOW - ago;
        why.detour = detour.map(str::to_owned);
        why.runs.truncate(1);
        match outcome {
            Some(outcome) => why.runs[0].run.outcome = outcome.into(),
            None => why.runs.clear(),
        }
        let told = shown(&explain(&why, &look(120)));
        let mut lines = told.lines().filter(|line| line.contains("judged"));
        lines.next().unwrap().trim().to_owned()
    };
    let (daemon, alone) = (Source::Daemon, Source::Alone);
    let told = [
        judged(daemon, None, MINUTE, Some("cancelled")),
        judged(alone, Some("absent"), MINUTE, Some("cancelled")),
        judged(daemon, None, MINUTE, Some("cut off")),
        judged(daemon, None, MINUTE, Some("orphaned")),
        judged(daemon, None, MINUTE, Some("ok")),
        judged(daemon, None, MINUTE, None),
        judged(daemon, None, 11 * MINUTE, None),
        judged(alone, Some("absent"), MINUTE, None),
        judged(alone, Some("absent"), 11 * MINUTE, None),
        judged(alone, None, MINUTE, None),
    ];
    insta::assert_snapshot!("unanswered", told.join("\n"));
}

fn why() -> Why {
    Why {
        event: EventRow {
            seq: 7,
            id: EVENT.parse().unwrap(),
            at: NOW - 2 * MINUTE,
            session_id: Some("5e5510a1-0000-4000-8000-000000000001".to_owned()),
            agent_id: Some("a1b2c3".to_owned()),
            event: Some("PostToolUse".to_owned()),
            tool: Some("Write".to_owned()),
            decision: Some(DecisionRow {
                answer: AnswerWord::Block,
                by: Some(Actor::Hooks("house-style".to_owned())),
                reason: Some("Names in src/ are in snake_case.\nRename src/Main.rs to src/main.rs, and everything that says `mod Main`.".to_owned()),
                effort: None,
            }),
            took_us: Some(30_012_000),
            source: Source::Daemon,
            masked: 0,
            fault: None,
            duplicate_of: None,
            payload: Some(br#"{"tool_input":{"file_path":"/home/user/api/src/Main.rs"}}"#.to_vec()),
        },
        detour: None,
        runs: morning().drain(..2).collect(),
        allow_once: None,
        skipped: vec![Skipped {
            hook: "lint-changed".to_owned(),
            reason: "switched off in this session".to_owned(),
        }],
    }
}

#[test]
fn an_event_is_explained() {
    insta::assert_snapshot!("why", shown(&explain(&why(), &look(100))));
    let mut alone = why();
    alone.event.source = Source::Alone;
    alone.event.took_us = Some(3100);
    alone.event.decision = None;
    alone.detour = Some("absent".to_owned());
    alone.runs.clear();
    alone.skipped.clear();
    insta::assert_snapshot!("why_alone", shown(&explain(&alone, &look(100))));
    alone.event.source = Source::Daemon;
    alone.event.took_us = None;
    insta::assert_snapshot!("why_held", shown(&explain(&alone, &look(100))));
    let mut own = why();
    own.event.decision = Some(DecisionRow {
        answer: AnswerWord::Message,
        by: Some(Actor::Becket(Account::Config)),
        reason: None,
        effort: None,
    });
    let told = shown(&explain(&own, &look(100)));
    let first = told.lines().next();
    assert_eq!(first, Some("PostToolUse Write  message by becket (config)"));
}

#[test]
fn scripts_get_every_field() {
    let runs = morning();
    let one = serde_json::to_string_pretty(&hook_runs::JsonRun::from(&runs[0])).unwrap();
    insta::assert_snapshot!("recent_json", one);
    let hooks = stats(runs.iter().map(|found| &found.run));
    let one = serde_json::to_string_pretty(&hooks[0]).unwrap();
    insta::assert_snapshot!("stats_json", one);
    let why = why();
    let whole =
        serde_json::to_string_pretty(&super::explanation::JsonExplanation::from(&why)).unwrap();
    insta::assert_snapshot!("why_json", whole);
}

#[test]
fn what_hooks_wrote_moves_no_cursor() {
    let odd = "\u{1b}[31mx\n\u{9b}y\u{202e}";
    let mut runs = vec![failed(run(odd, 0, 1), odd, None, odd)];
    runs[0].run.event = odd.to_owned();
    runs[0].run.session_id = Some(odd.to_owned());
    runs[0].run.decision = Some(odd.to_owned());
    let hooks = stats(runs.iter().map(|found| &found.run));
    let mut why = why();
    why.detour = Some(odd.to_owned());
    why.event.source = Source::Alone;
    why.event.fault = Some(odd.to_owned());
    why.runs.clone_from(&runs);
    for text in [
        hook_runs::stats_table(&hooks, &look(100)),
        hook_runs::recent_table(&runs, &look(200)),
        explain(&why, &look(200)),
    ] {
        let plain = shown(&text);
        assert!(
            !plain.chars().any(|c| c.is_control() && c != '\n'),
            "{plain:?}"
        );
        assert!(!text.contains("\u{1b}[31mx"), "{text:?}");
    }
}

#[test]
fn figures_are_those_of_runs_that_were() {
    let times = Times::new(vec![50, 10, 40, 20, 30]);
    assert_eq!((times.mean(), times.at(50), times.at(95)), (30, 30, 50));
    let hundred = Times::new((1..=100).collect());
    assert_eq!(
        (hundred.at(50), hundred.at(95), hundred.at(100)),
        (50, 95, 100)
    );
    let one = Times::new(vec![7]);
    assert_eq!((one.mean(), one.at(50), one.at(95)), (7, 7, 7));
    assert_eq!(Times::new(Vec::new()).at(95), 0);
}
