//! The sums of an invented history.

use becket_daemon::store;

use super::*;
use crate::session::tests::{NOW, look};

const HOUR: i64 = 60 * 60 * 1000;

/// Two days of a session that went on over midnight, and a fork of it.
pub fn database() -> (tempfile::TempDir, History) {
    let folder = tempfile::tempdir().unwrap();
    let connection = store::open(&folder.path().join("becket.db"), 0)
        .unwrap()
        .connection;
    let midnight = NOW / (24 * HOUR) * 24 * HOUR;
    let mut seq = 0;
    let mut event = |session: &str, at: i64, event: &str, duplicate_of: Option<i64>| {
        seq += 1;
        connection
            .execute(
                "INSERT INTO events (seq, id, at, session_id, event, pid, pid_is_claude, attended, source, masked,
                 size, duplicate_of) VALUES (?1, randomblob(16), ?2, ?3, ?4, 1, 1, 1, 'daemon', 0, 0, ?5)",
                rusqlite::params![seq, midnight + at, session, event, duplicate_of],
            )
            .unwrap();
        seq
    };
    event("s", -2 * HOUR, "UserPromptSubmit", None);
    let first = event("s", -HOUR - 5, "PreToolUse", None);
    event("s", -HOUR - 5, "PreToolUse", Some(first));
    event("s", -HOUR, "PermissionRequest", None);
    let ran = event("s", 0, "PostToolUse", None);
    let prompt = event("s", HOUR, "UserPromptSubmit", None);
    event("s", 2 * HOUR, "Stop", None);
    let denied = event("f", 3 * HOUR, "PreToolUse", None);
    connection
        .execute_batch(&format!(
            "INSERT INTO decisions VALUES ({denied}, 'deny', 'hook:no', NULL, 0, x'', x'', NULL);
             INSERT INTO payloads VALUES ({prompt}, 0, CAST('{{\"prompt\":\"go\"}}' AS BLOB));
             INSERT INTO payloads VALUES ({ran}, 0, CAST('{{\"duration_ms\":600000}}' AS BLOB));
             INSERT INTO figures VALUES ('s', {b1}, {b1}, 'opus', 1.0, 1000, 10),
                 ('s', {b2}, {b2}, 'sonnet', 1.5, 500, 5), ('f', {b3}, {b3}, 'opus', 1.75, 0, 0);
             INSERT INTO sessions (session_id, last_activity, state) VALUES
                 ('s', 0, CAST('{{\"session_id\":\"s\",\"line\":\"s\",\"project\":\"/w/api\",\"model\":\"sonnet\"}}' AS BLOB)),
                 ('f', 0, CAST('{{\"session_id\":\"f\",\"line\":\"f\",\"prev_session_id\":\"s\"}}' AS BLOB));",
            b1 = midnight - HOUR,
            b2 = midnight + HOUR,
            b3 = midnight + 3 * HOUR,
        ))
        .unwrap();
    let history = History::of(connection);
    (folder, history)
}

#[test]
fn a_dialog_waits_though_the_bell_rang_or_only_a_notification_told_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let connection = store::open(&folder.path().join("becket.db"), 0)
        .unwrap()
        .connection;
    let events = [
        ("PermissionRequest", 0, None),
        ("Notification", 6, None),
        ("PostToolUse", 90, None),
        ("Notification", 100, None),
        ("PermissionDenied", 580, None),
        (CANARY, 600, None),
        ("Notification", 700, None),
        ("PostToolUse", 730, Some("a")),
        ("Stop", 1000, None),
    ];
    for (seq, (event, at, agent)) in (1..).zip(events) {
        let session = if event == CANARY {
            "becket-canary"
        } else {
            "s"
        };
        connection
            .execute(
                "INSERT INTO events (seq, id, at, session_id, event, pid, pid_is_claude, attended, source, masked,
                 size, agent_id) VALUES (?1, randomblob(16), ?2, ?3, ?4, 1, 1, 1, 'daemon', 0, 0, ?5)",
                rusqlite::params![seq, at * 1000, session, event, agent],
            )
            .unwrap();
    }
    connection
        .execute_batch(
            r#"INSERT INTO decisions VALUES (1, 'terminal', 'becket:notice', NULL, 0, x'', x'', NULL);
            INSERT INTO payloads VALUES
                (2, 0, CAST('{"notification_type":"permission_prompt"}' AS BLOB)),
                (4, 0, CAST('{"notification_type":"agent_needs_input"}' AS BLOB)),
                (7, 0, CAST('{"notification_type":"agent_needs_input"}' AS BLOB));"#,
        )
        .unwrap();
    let history = History::of(connection);
    let stats = add_up(&history, GroupBy::Day, 0, &TimeZone::UTC, &|_| true).unwrap();
    assert_eq!(stats.total.waiting_ms, 90_000 + 480_000 + 30_000);
    assert_eq!(stats.total.sessions.len(), 1, "doctor's own event is none");
}

#[test]
fn sums_are_those_of_their_day_project_and_model() {
    let (_folder, history) = database();
    let shown = |by, zone: &TimeZone, since| {
        let stats = add_up(&history, by, since, zone, &|_| true).unwrap();
        anstream::adapter::strip_str(&stats.table(&look(100))).to_string()
    };
    let utc = TimeZone::UTC;
    let later = TimeZone::fixed(jiff::tz::offset(3));
    let midnight = NOW / (24 * HOUR) * 24 * HOUR;
    let all = [
        shown(GroupBy::Day, &utc, 0),
        shown(GroupBy::Day, &later, 0),
        shown(GroupBy::Project, &utc, 0),
        shown(GroupBy::Model, &utc, 0),
        shown(GroupBy::Day, &utc, midnight),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    DAY         SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
    2026-11-14         1      1      1       0       -  $1.00         1k   10
    2026-11-15         2      1      1       1     50m  $0.75        500    5
    all                2      2      2       1     50m  $1.75         1k   15

    DAY         SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
    2026-11-15         2      2      2       1     50m  $1.75         1k   15

    PROJECT  SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
    api             1      2      1       0     50m  $1.50         1k   15
    unknown         1      0      1       1       -  $0.25          0    0
    all             2      2      2       1     50m  $1.75         1k   15

    MODEL    SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
    opus            2      0      0       0       -  $1.25         1k   10
    sonnet          1      2      1       0     50m  $0.50        500    5
    unknown         1      0      1       1       -      -          0    0
    all             2      2      2       1     50m  $1.75         1k   15

    DAY         SESSIONS  TURNS  TOOLS  DENIED  WAITED   COST  TOKENS IN  OUT
    2026-11-15         2      1      1       1       -  $0.75        500    5
    ");
}
