//! One session, as a person reads it.

use becket_wire::rpc::{EventRow, Source};
use becket_wire::session::SessionRow;

use super::made::{NOW, asks, ended, look, subagent_asks};
use super::rendered::plain;
use crate::session::full::full;

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
    insta::assert_snapshot!(plain(&full(&asks(), "", &[event], &look(100))), @"
    ◆ attention  Mend the flaky login test

    What it does
      state       attention: Permission for Bash
      since       08:56:00, 4m ago

    Where
      session     a1b2c3d4-0000-4000-8000-000000000001
      project     /home/you/work/api
      process     4242
      tmux        %3 (/tmp/tmux-1000/default)
      begun       06:00:00, 3h00m ago
      last heard  08:56:00, 4m ago
      mode        default

    Context and cost
      model       Opus 4.5 (claude-opus-4-5-20251101)
      context     78%, 156k of 200k tokens
      cost        $3.20
      lines       +120 -14
      time        1h12m, 12m of it the model's

    Last prompt
      The login test fails one time in ten, but only on the small machines, and only since we moved the
      clock into its own crate.

      Find out why, and mend it.

    Last events
      08:56:00.000  a1b2c3d4  PermissionRequest  Bash       cargo test --workspace
    ");
}

#[test]
fn one_with_agents_in_full() {
    let row = SessionRow {
        troubles: vec!["the transcript cannot be read".to_owned()],
        failed_tools: 3,
        ..subagent_asks()
    };
    insta::assert_snapshot!(plain(&full(&row, "", &[], &look(100))), @"
    ◆ attention  b2c3d4e5-0000-4000-8000-000000000001

    What it does
      state         attention: Permission for WebFetch (docs-researcher)
      since         08:59:20, 40s ago
      main agent    working: Task
      failed tools  3
      trouble       the transcript cannot be read

    Where
      session       b2c3d4e5-0000-4000-8000-000000000001
      project       /home/you/play/api
      process       4242
      begun         06:00:00, 3h00m ago
      last heard    08:59:20, 40s ago
      mode          default

    Context and cost
      model         opus-4-5 (claude-opus-4-5-20251101)
      context       23%
      cost          $0.35

    Agents
      ◆ ├ docs-researcher  Permission for WebFetch, 40s  agent-2
      ● └ general-purpose  Read, 12s  agent-1
      ●   └ Explore        Grep, 3s  agent-3
      1 ended

    Last prompt
      port the rate limiter to the new middleware, keep its tests
    ");
}

#[test]
fn one_that_has_ended_in_full() {
    insta::assert_snapshot!(plain(&full(&ended(), "", &[], &look(100))), @"
    · ended  29304152-0000-4000-8000-000000000001

    Where
      session     29304152-0000-4000-8000-000000000001
      project     /home/you/work/api
      process     4242, gone
      begun       06:00:00, 3h00m ago
      last heard  07:00:00, 2h00m ago
      ended       07:00:00, 2h00m ago: prompt_input_exit
      mode        default

    Context and cost
      model       opus-4-5 (claude-opus-4-5-20251101)
      context     23%
      cost        $0.35

    Last prompt
      what changed last week?
    ");
}
