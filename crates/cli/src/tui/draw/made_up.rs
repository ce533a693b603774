//! Sessions that never were, for tests.

use becket_wire::session::{AgentRow, Display, Figures, MAIN, SessionRow, Status};
use jiff::tz::TimeZone;

use super::super::events::EventLine;
use super::super::look::{Look, Tone};
use super::super::model::Model;

/// 2026-11-15T09:00:00Z.
pub const NOW: i64 = 1_794_733_200_000;
const MINUTE: i64 = 60_000;

pub fn look() -> Look {
    Look {
        colour: true,
        unicode: true,
        home: Some("/home/user".into()),
        zone: TimeZone::UTC,
    }
}

pub fn model(rows: Vec<SessionRow>) -> Model {
    let mut model = Model::new();
    model.put_all(rows);
    model.settle();
    let session = model.current().map(|row| row.session_id.clone());
    model.events.turn_to(session);
    model
}

pub fn row(number: u32, project: &str, title: &str, display: Display, minutes: i64) -> SessionRow {
    let since = NOW - minutes * MINUTE - i64::from(number) * 1_000;
    SessionRow {
        session_id: format!("{number:08x}-1111-4222-8333-444444444444"),
        line: format!("line-{number}"),
        title: (!title.is_empty()).then(|| title.to_owned()),
        status: match display {
            Display::Working => Status::Working {
                detail: Some("Thinking".into()),
            },
            Display::Attention | Display::Checked => Status::Attention {
                reason: "Permission for Bash".into(),
            },
            Display::Error | Display::Done => Status::Idle,
        },
        status_since: since,
        display,
        display_since: since,
        project: Some(format!("/home/user/{project}")),
        cwd: Some(format!("/home/user/{project}")),
        model: Some("claude-opus-5-5".into()),
        attended: true,
        hooked: true,
        alive: true,
        pid: Some(4_000 + number),
        tmux_pane: Some(format!("%{number}")),
        started_at: NOW - (minutes + 37) * MINUTE,
        last_activity: since,
        figures: Figures {
            context_pct: Some(f64::from(number * 13 % 100)),
            context_tokens: Some(u64::from(number) * 26_000),
            context_size: Some(200_000),
            cost_usd: Some(f64::from(number) * 0.37),
            model_name: Some("Opus 5.5".into()),
            ..Figures::default()
        },
        ..SessionRow::default()
    }
}

fn agent(id: &str, kind: &str, status: Status, seconds: i64) -> AgentRow {
    AgentRow {
        agent_id: id.into(),
        agent_type: Some(kind.into()),
        status,
        status_since: NOW - seconds * 1_000,
        started_at: NOW - 2 * seconds * 1_000,
        ..AgentRow::default()
    }
}

fn working(detail: &str) -> Status {
    Status::Working {
        detail: Some(detail.into()),
    }
}

pub fn one() -> Vec<SessionRow> {
    let mut row = row(1, "shop/api", "", Display::Working, 2);
    row.last_prompt = Some("Make the checkout idempotent: a retry must not charge twice".into());
    row.status = working("Bash");
    vec![row]
}

pub fn eight() -> Vec<SessionRow> {
    let mut waiting = row(1, "shop/api", "Idempotent checkout", Display::Attention, 4);
    waiting.waiting_for = Some(MAIN.into());
    waiting.waiting_reason = Some("Permission for Bash".into());
    waiting.last_prompt = Some(
        "Make the checkout idempotent: a retry with the same key must not charge twice, and the second answer must be the first one's"
            .into(),
    );
    let mut busy = row(
        2,
        "shop/api",
        "Find the slow query in the order list",
        Display::Working,
        11,
    );
    busy.agents = vec![
        agent("a1", "Explore", working("Grep"), 41),
        agent("a2", "Explore", working("Read"), 30),
        AgentRow {
            parent: Some("a2".into()),
            ..agent("a3", "test-runner", working("Bash"), 5)
        },
    ];
    let mut blocked = row(3, "shop/web", "日本語の見出しを直す", Display::Attention, 1);
    blocked.waiting_for = Some("b1".into());
    blocked.waiting_reason = Some("Permission for WebFetch".into());
    blocked.agents = vec![agent(
        "b1",
        "researcher",
        Status::Attention {
            reason: "Permission for WebFetch".into(),
        },
        61,
    )];
    let mut failed = row(4, "infra", "Move the runners to arm64", Display::Error, 7);
    failed.error = Some("overloaded: API Error: 529".into());
    failed.figures.context_pct = Some(93.0);
    let mut seen = row(5, "infra", "Rotate the signing keys", Display::Checked, 15);
    seen.waiting_reason = Some("ExitPlanMode".into());
    let mut done = row(6, "notes", "", Display::Done, 25);
    done.last_prompt = Some("\u{1b}[31mred\u{1b}[0m\nSummarise the week\u{7}".into());
    done.background_tasks = 2;
    let quiet = row(7, "shop/web", "Dark mode", Display::Done, 190);
    let mut mute = row(8, "notes", "", Display::Working, 0);
    mute.figures = Figures::default();
    vec![waiting, busy, blocked, failed, seen, done, quiet, mute]
}

pub fn many(count: u32) -> Vec<SessionRow> {
    (0..count)
        .map(|number| {
            let display = Display::ALL[number as usize * 7 % 5];
            let project = format!("project-{:02}", number % 40);
            row(
                number,
                &project,
                &format!("Session number {number}"),
                display,
                i64::from(number % 300),
            )
        })
        .collect()
}

pub fn events(model: &mut Model, count: i64) {
    let told = [
        (
            "UserPromptSubmit",
            "",
            "Make the checkout idempotent",
            Tone::Strong,
        ),
        ("PreToolUse", "Grep", "idempotency_key", Tone::Working),
        ("PostToolUse", "Grep", "idempotency_key", Tone::Dim),
        (
            "PreToolUse",
            "Bash",
            "cargo test -p checkout -- retry",
            Tone::Working,
        ),
        ("PostToolUseFailure", "Bash", "exit code 101", Tone::Error),
        (
            "PermissionRequest",
            "Bash",
            "psql shop_dev -f migrations/0042_keys.sql",
            Tone::Attention,
        ),
    ];
    for seq in 0..count {
        let (event, tool, about, tone) = told[seq as usize % told.len()];
        model.events.put(EventLine {
            seq,
            at: NOW - (count - seq) * 17_000,
            event: event.into(),
            tool: tool.into(),
            about: about.into(),
            by_agent: seq % 4 == 2,
            tone,
        });
    }
}
