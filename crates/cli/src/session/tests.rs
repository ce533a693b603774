//! Invented sessions: their tables, details and JSON.

mod asked;

use std::collections::BTreeSet;

use becket_engine::session::json;
use becket_wire::effort::EffortBrief;
use becket_wire::rpc::{AnswerWord, DecisionRow, EventRow, Source};
use becket_wire::session::{AgentRow, Display, Figures, SessionRow, Status};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use crate::session::details::{self, details};
use crate::session::history::{RecordedDecision, Timeline, ToolCalls, TouchedFile, Turn};
use crate::session::table::table;
use crate::session::{sort, stats};
use crate::ui::style::{Glyphs, Look};

pub const NOW: i64 = 1_794_733_200_000;
const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

pub fn look(width: usize) -> Look {
    let now = jiff::Timestamp::from_millisecond(NOW).unwrap();
    Look {
        now: now.to_zoned(TimeZone::UTC),
        width,
        glyphs: Glyphs::Unicode,
    }
}

fn working(detail: &str) -> Status {
    Status::Working {
        detail: Some(detail.to_owned()),
    }
}

fn attention(reason: &str) -> Status {
    Status::Attention {
        reason: reason.to_owned(),
    }
}

/// A session that is done, from which the others are made.
fn done(id: &str, project: &str, prompt: &str, since: i64) -> SessionRow {
    SessionRow {
        session_id: format!("{id}-0000-4000-8000-000000000001"),
        line: format!("{id}-0000-4000-8000-000000000001"),
        status_since: NOW - since,
        display_since: NOW - since,
        project: Some(project.to_owned()),
        cwd: Some(project.to_owned()),
        model: Some("claude-opus-4-5-20251101".to_owned()),
        permission_mode: Some("default".to_owned()),
        attended: true,
        pid: Some(4242),
        alive: true,
        hooked: true,
        started_at: NOW - 3 * HOUR,
        last_activity: NOW - since,
        figures: Figures {
            context_pct: Some(23.4),
            cost_usd: Some(0.352),
            ..Figures::default()
        },
        last_prompt: Some(prompt.to_owned()),
        ..SessionRow::default()
    }
}

/// Returns the activity that the daemon derives from a status.
fn in_words(status: &Status) -> Option<String> {
    Some(match status.detail().or(status.reason())? {
        "Permission for Bash" => "wants to run: cargo test login -- --ignored".to_owned(),
        "Permission for WebFetch" => "wants to fetch: https://docs.rs/tower".to_owned(),
        "ExitPlanMode" => "has a plan to approve".to_owned(),
        other => other.to_owned(),
    })
}

fn with(row: SessionRow, status: Status, display: Display) -> SessionRow {
    let waits = status.reason().map(str::to_owned);
    SessionRow {
        doing: in_words(&status),
        waiting_for: waits.as_ref().map(|_| "main".to_owned()),
        waiting_reason: waits,
        status,
        display,
        ..row
    }
}

fn agent(id: &str, kind: &str, status: Status, since: i64) -> AgentRow {
    AgentRow {
        agent_id: id.to_owned(),
        agent_type: Some(kind.to_owned()),
        doing: in_words(&status),
        status,
        status_since: NOW - since,
        started_at: NOW - since - MINUTE,
        ..AgentRow::default()
    }
}

/// A session whose permission request waits for the user.
pub fn asks() -> SessionRow {
    let row = done(
        "a1b2c3d4",
        "/home/you/work/api",
        "The login test fails one time in ten, but only on the small machines, and only since we moved the clock into its own crate.\n\nFind out why, and stop it.",
        4 * MINUTE,
    );
    SessionRow {
        title: Some("Find the flaky login test".to_owned()),
        tmux_pane: Some("%3".to_owned()),
        tmux_socket: Some("/tmp/tmux-1000/default".to_owned()),
        figures: Figures {
            context_pct: Some(78.2),
            context_tokens: Some(156_400),
            context_size: Some(200_000),
            cost_usd: Some(3.2),
            lines_added: Some(120),
            lines_removed: Some(14),
            duration_ms: Some(72 * 60_000),
            api_duration_ms: Some(12 * 60_000),
            model_id: Some("claude-opus-4-5-20251101".to_owned()),
            model_name: Some("Opus 4.5".to_owned()),
            from_transcript: false,
        },
        ..with(row, attention("Permission for Bash"), Display::Attention)
    }
}

/// A working session whose subagent waits for the user.
pub fn subagent_asks() -> SessionRow {
    let row = done(
        "b2c3d4e5",
        "/home/you/play/api",
        "port the rate limiter to the new middleware, keep its tests",
        40 * SECOND,
    );
    let child = AgentRow {
        parent: Some("agent-1".to_owned()),
        ..agent("agent-3", "Explore", working("Grep"), 3 * SECOND)
    };
    let row = with(row, working("Task"), Display::Attention);
    SessionRow {
        waiting_for: Some("agent-2".to_owned()),
        waiting_reason: Some("Permission for WebFetch".to_owned()),
        doing: in_words(&attention("Permission for WebFetch")),
        agents: vec![
            agent("agent-1", "general-purpose", working("Read"), 12 * SECOND),
            agent(
                "agent-2",
                "docs-researcher",
                attention("Permission for WebFetch"),
                40 * SECOND,
            ),
            child,
            AgentRow {
                ended_at: Some(NOW - MINUTE),
                ..agent("agent-0", "Plan", Status::Idle, MINUTE)
            },
        ],
        ..row
    }
}

pub fn eight() -> Vec<SessionRow> {
    let failed = SessionRow {
        error: Some("rate_limit: 429 too many requests, try again in 32 s".to_owned()),
        doing: Some("API error: 429 too many requests, try again in 32 s".to_owned()),
        ..done(
            "c3d4e5f6",
            "/home/you/work/billing",
            "add VAT for CH and NO",
            11 * MINUTE,
        )
    };
    let works = done(
        "d4e5f607",
        "/home/you/work/web",
        "Rewrite the settings page with the new components, one commit a section",
        12 * SECOND,
    );
    let works = SessionRow {
        title: Some("Settings page".to_owned()),
        ..works
    };
    let japanese = done(
        "e5f60718",
        "/home/you/work/docs",
        "ドキュメントを日本語に翻訳してください。全部。",
        9 * MINUTE,
    );
    let checked = done(
        "f6071829",
        "/home/you/work/infra",
        "plan the move to the new cluster",
        65 * MINUTE,
    );
    let interrupted = SessionRow {
        interrupted: true,
        ..done(
            "07182930",
            "/home/you/work/web",
            "why is the bundle so large?",
            30 * MINUTE,
        )
    };
    let background = SessionRow {
        background_tasks: 2,
        stale: true,
        figures: Figures::default(),
        ..done(
            "18293041",
            "/home/you/dotfiles",
            "watch the nightly build",
            26 * HOUR,
        )
    };
    let mut rows = vec![
        background,
        interrupted,
        with(works, working("running: npm test"), Display::Working),
        asks(),
        with(japanese, working("Thinking"), Display::Working),
        with(checked, attention("ExitPlanMode"), Display::Checked),
        SessionRow {
            display: Display::Error,
            ..failed
        },
        subagent_asks(),
    ];
    sort(&mut rows);
    rows
}

/// Removes the colours.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn drawn(rows: &[SessionRow], look: &Look) -> String {
    plain(&table(rows, look))
}

#[test]
fn eight_sessions_in_60_columns() {
    insta::assert_snapshot!(drawn(&eight(), &look(60)), @"
       PROJECT  SESSION     DOING                  FOR  ID
    ✗  billing  add VAT f…  API error: 429 too…    11m  c3d4e5f6
    ◆  work/a…  Find the…   wants to run: carg…     4m  a1b2c3d4
    ◆  play/a…  port the…   wants to fetch: ht…    40s  b2c3d4e5
    ◆  ├ docs-researcher    wants to fetch: ht…    40s
    ●  └ general-purpose    Read                   12s
    ●    └ Explore          Grep                    3s
    ◇  infra    plan the…   has a plan to appr…  1h05m  f6071829
    ●  web      Settings…   running: npm test      12s  d4e5f607
    ●  docs     ドキュメ…   Thinking                9m  e5f60718
    ○  web      why is th…  interrupted            30m  07182930
    ○  dotfil…  watch the…  2 background tasks…    26h  18293041
    8 sessions: 1 failed, 2 waiting, 1 seen, 2 working, 2 done,…
    ");
}

#[test]
fn eight_sessions_in_80_columns() {
    insta::assert_snapshot!(drawn(&eight(), &look(80)), @"
       PROJECT   SESSION               DOING                      FOR  CTX  ID
    ✗  billing   add VAT for CH and…   API error: 429 too man…    11m  23%  c3d4e5f6
    ◆  work/api  Find the flaky logi…  wants to run: cargo te…     4m  78%  a1b2c3d4
    ◆  play/api  port the rate limit…  wants to fetch: https:…    40s  23%  b2c3d4e5
    ◆  ├ docs-researcher               wants to fetch: https:…    40s
    ●  └ general-purpose               Read                       12s
    ●    └ Explore                     Grep                        3s
    ◇  infra     plan the move to th…  has a plan to approve    1h05m  23%  f6071829
    ●  web       Settings page         running: npm test          12s  23%  d4e5f607
    ●  docs      ドキュメントを日本…   Thinking                    9m  23%  e5f60718
    ○  web       why is the bundle s…  interrupted                30m  23%  07182930
    ○  dotfiles  watch the nightly b…  2 background tasks (st…    26h       18293041
    8 sessions: 1 failed, 2 waiting, 1 seen, 2 working, 2 done, $5.31
    ");
}

#[test]
fn eight_sessions_in_120_columns() {
    insta::assert_snapshot!(drawn(&eight(), &look(120)), @"
    STATE      PROJECT   SESSION                        DOING                            FOR  CTX   COST  MODEL     ID
    ✗ failed   billing   add VAT for CH and NO          API error: 429 too many requ…    11m  23%  $0.35  opus-4-5  c3d4e5f6
    ◆ waiting  work/api  Find the flaky login test      wants to run: cargo test log…     4m  78%  $3.20  Opus 4.5  a1b2c3d4
    ◆ waiting  play/api  port the rate limiter to the…  wants to fetch: https://docs…    40s  23%  $0.35  opus-4-5  b2c3d4e5
      ◆        ├ docs-researcher                        wants to fetch: https://docs…    40s
      ●        └ general-purpose                        Read                             12s
      ●          └ Explore                              Grep                              3s
    ◇ seen     infra     plan the move to the new clu…  has a plan to approve          1h05m  23%  $0.35  opus-4-5  f6071829
    ● working  web       Settings page                  running: npm test                12s  23%  $0.35  opus-4-5  d4e5f607
    ● working  docs      ドキュメントを日本語に翻訳し…  Thinking                          9m  23%  $0.35  opus-4-5  e5f60718
    ○ done     web       why is the bundle so large?    interrupted                      30m  23%  $0.35  opus-4-5  07182930
    ○ done     dotfiles  watch the nightly build        2 background tasks (stale)       26h              opus-4-5  18293041
    8 sessions: 1 failed, 2 waiting, 1 seen, 2 working, 2 done, $5.31
    ");
}

#[test]
fn a_swarm_of_agents_is_cut_but_never_whoever_waits() {
    let agent = |nth: i64| AgentRow {
        agent_id: format!("agent-{nth:02}"),
        agent_type: Some(format!("worker {nth}")),
        status: Status::Working {
            detail: Some("Edit".to_owned()),
        },
        status_since: NOW - nth * 1000,
        started_at: NOW - 60_000 + nth,
        ..AgentRow::default()
    };
    let mut agents: Vec<AgentRow> = (1..=20).map(agent).collect();
    agents[19].status = Status::Attention {
        reason: "Permission for Bash".to_owned(),
    };
    let row = SessionRow { agents, ..asks() };
    insta::assert_snapshot!(drawn(&[row], &look(80)), @"
       PROJECT  SESSION                  DOING                    FOR  CTX  ID
    ◆  api      Find the flaky login t…  wants to run: cargo te…   4m  78%  a1b2c3d4
    ◆  ├ worker 20                       waiting                  20s
    ●  ├ worker 1                        working                   1s
    ●  ├ worker 2                        working                   2s
    ●  ├ worker 3                        working                   3s
    ●  ├ worker 4                        working                   4s
    ●  ├ worker 5                        working                   5s
       … 14 more
    ");
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,80}",
        "[a-z ]{0,60}",
        "[\u{1b}\u{7}\n日本é\u{202e}]{0,30}"
    ]
}

prop_compose! {
    fn any_row()(
        texts in proptest::array::uniform6(any_text()),
        display in proptest::sample::select(&Display::ALL[..]),
        ended_at in proptest::option::of(0..NOW),
        hooked in any::<bool>(),
        since in any::<i64>(),
        context_pct in proptest::option::of(any::<f64>()),
        cost_usd in proptest::option::of(0.0..1e6),
        agents in proptest::collection::vec((any_text(), any_text()), 0..9),
    ) -> SessionRow {
        let [session_id, project, title, prompt, reason, model] = texts;
        let agents = agents.into_iter().map(|(agent_type, reason)| AgentRow {
            agent_id: reason.clone(),
            parent: Some(agent_type.clone()),
            agent_type: Some(agent_type),
            status: Status::Attention { reason },
            ..AgentRow::default()
        });
        let mut row = SessionRow {
            session_id,
            project: Some(project),
            title: Some(title),
            last_prompt: Some(prompt),
            waiting_reason: Some(reason),
            model: Some(model),
            display,
            display_since: since,
            ended_at,
            hooked,
            agents: agents.collect(),
            ..SessionRow::default()
        };
        row.figures.context_pct = context_pct;
        row.figures.cost_usd = cost_usd;
        row
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_is_in_it_the_table_fits_and_is_inert(
        mut rows in proptest::collection::vec(any_row(), 1..6),
        width in 40..160_usize,
    ) {
        sort(&mut rows);
        let text = drawn(&rows, &look(width));
        for line in text.lines() {
            prop_assert!(line.width() <= width, "{} > {width}: {line:?}", line.width());
        }
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        prop_assert!(!plain(&details(&rows[0], "", &[], &look(width))).chars().any(|c| c.is_control() && c != '\n'));
    }
}

#[test]
fn one_in_full() {
    let event = EventRow {
        seq: 7,
        id: "0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b".parse().unwrap(),
        at: NOW - 240_000,
        session_id: Some(asks().session_id),
        agent_id: None,
        event: Some("PermissionRequest".to_owned()),
        tool: Some("Bash".to_owned()),
        decision: None,
        took_us: Some(300),
        source: Source::Daemon,
        masked: 0,
        fault: None,
        duplicate_of: None,
        payload: Some(br#"{"tool_input": {"command": "cargo test --workspace"}}"#.to_vec()),
    };
    insta::assert_snapshot!(plain(&details(&asks(), "", &[event], &look(100))), @"
    ◆ waiting  Find the flaky login test

    What it does
      state       waiting: wants to run: cargo test login -- --ignored
      since       08:56:00, 4m ago

    Where
      session     a1b2c3d4-0000-4000-8000-000000000001
      project     /home/you/work/api
      process     4242
      tmux        %3 (/tmp/tmux-1000/default)
      started     06:00:00, 3h00m ago
      last event  08:56:00, 4m ago
      mode        default

    Context and cost
      model       Opus 4.5 (claude-opus-4-5-20251101)
      context     78%, 156k of 200k tokens
      cost        $3.20
      lines       +120 -14
      time        1h12m, 12m of it for the model

    Last prompt
      The login test fails one time in ten, but only on the small machines, and only since we moved the
      clock into its own crate.

      Find out why, and stop it.

    Last events
      08:56:00  0199a1b2-c3d4  a1b2c3d4  PermissionRequest Bash cargo test --workspace
    ");
}

/// The names of all fields: `agents[].status`.
fn fields(value: &Value, path: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let path = format!("{path}{name}");
                names.insert(path.clone());
                fields(inner, &format!("{path}."), names);
            }
        }
        Value::Array(list) => {
            let path = format!("{}[].", path.trim_end_matches('.'));
            for inner in list {
                fields(inner, &path, names);
            }
        }
        _ => {}
    }
}

#[test]
fn the_page_names_every_field_and_no_other() {
    let page = include_str!("../../../../docs/reference/sessions-json.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> = rows
        .filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
        .collect();
    let mut said = BTreeSet::new();
    let past = Timeline {
        turns: vec![Turn {
            tools: vec![ToolCalls {
                tool: "Bash".to_owned(),
                calls: 1,
            }],
            decisions: vec![RecordedDecision {
                at: NOW,
                event: "PreToolUse".to_owned(),
                tool: None,
                decision: DecisionRow {
                    answer: AnswerWord::Deny,
                    by: None,
                    reason: None,
                    effort: None,
                },
            }],
            ..Turn::default()
        }],
        files: vec![TouchedFile::default()],
    };
    let (_folder, history) = stats::tests::database();
    let stats = stats::add_up(&history, stats::GroupBy::Day, 0, &TimeZone::UTC, &|_| true).unwrap();
    let row = SessionRow {
        effort: Some(EffortBrief::default()),
        ..subagent_asks()
    };
    for value in [
        serde_json::to_value(json(&row)).unwrap(),
        serde_json::to_value(details::json_timeline(&past, &[], 1)).unwrap(),
        serde_json::to_value(&stats.json()[0]).unwrap(),
    ] {
        fields(&value, "", &mut said);
    }
    assert_eq!(documented, said);
}
