//! A morning with eight sessions.

use becket_wire::session::{AgentRow, Display, Figures, SessionRow, Status};

use crate::ui::style::{Glyphs, Look};

pub const NOW: i64 = 1_794_733_200_000;
const SECOND: i64 = 1000;
pub const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

pub fn look(width: usize) -> Look {
    let now = jiff::Timestamp::from_millisecond(NOW).unwrap();
    Look {
        now: now.to_zoned(jiff::tz::TimeZone::UTC),
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

/// A session that is done; the others differ from it.
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

fn with(row: SessionRow, status: Status, display: Display) -> SessionRow {
    let waits = status.reason().map(str::to_owned);
    SessionRow {
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
        status,
        status_since: NOW - since,
        started_at: NOW - since - MINUTE,
        ..AgentRow::default()
    }
}

/// Whose permission is asked for.
pub fn asks() -> SessionRow {
    let row = done(
        "a1b2c3d4",
        "/home/you/work/api",
        "The login test fails one time in ten, but only on the small machines, and only since we moved the clock into its own crate.\n\nFind out why, and mend it.",
        4 * MINUTE,
    );
    SessionRow {
        title: Some("Mend the flaky login test".to_owned()),
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

/// Whose subagent asks, while it works itself.
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
        with(works, working("Bash: npm test"), Display::Working),
        asks(),
        with(japanese, working("Thinking"), Display::Working),
        with(checked, attention("ExitPlanMode"), Display::Checked),
        SessionRow {
            display: Display::Error,
            ..failed
        },
        subagent_asks(),
    ];
    crate::session::sort(&mut rows);
    rows
}

pub fn ended() -> SessionRow {
    SessionRow {
        ended_at: Some(NOW - 2 * HOUR),
        end_reason: Some("prompt_input_exit".to_owned()),
        alive: false,
        ..done(
            "29304152",
            "/home/you/work/api",
            "what changed last week?",
            2 * HOUR,
        )
    }
}

pub fn unhooked() -> SessionRow {
    SessionRow {
        pid: Some(31_337),
        alive: true,
        project: Some("/home/you/old".to_owned()),
        cwd: Some("/home/you/old/src".to_owned()),
        started_at: NOW - 50 * HOUR,
        ..SessionRow::default()
    }
}
