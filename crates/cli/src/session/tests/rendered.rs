//! The table.

use becket_wire::session::{AgentRow, Display, SessionRow, Status};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::made::{NOW, asks, eight, ended, look, subagent_asks, unhooked};
use crate::session::full::full;
use crate::session::sort;
use crate::session::table::table;
use crate::ui::style::{Glyphs, Look};

/// Without colours.
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
    ✗  billing  add VAT f…  rate_limit: 429 to…    11m  c3d4e5f6
    ◆  work/a…  Mend the…   Permission for Bash     4m  a1b2c3d4
    ◆  play/a…  port the…   Permission for Web…    40s  b2c3d4e5
    ◆  ├ docs-researcher    Permission for Web…    40s
    ●  └ general-purpose    Read                   12s
    ●    └ Explore          Grep                    3s
    ●  web      Settings…   Bash: npm test         12s  d4e5f607
    ●  docs     ドキュメ…   Thinking                9m  e5f60718
    ◇  infra    plan the…   ExitPlanMode         1h05m  f6071829
    ○  web      why is th…  interrupted            30m  07182930
    ○  dotfil…  watch the…  2 background tasks…    26h  18293041
    8 sessions: 1 error, 2 attention, 2 working, 1 checked, 2 d…
    ");
}

#[test]
fn eight_sessions_in_80_columns() {
    insta::assert_snapshot!(drawn(&eight(), &look(80)), @"
       PROJECT   SESSION               DOING                      FOR  CTX  ID
    ✗  billing   add VAT for CH and…   rate_limit: 429 too ma…    11m  23%  c3d4e5f6
    ◆  work/api  Mend the flaky logi…  Permission for Bash         4m  78%  a1b2c3d4
    ◆  play/api  port the rate limit…  Permission for WebFetch    40s  23%  b2c3d4e5
    ◆  ├ docs-researcher               Permission for WebFetch    40s
    ●  └ general-purpose               Read                       12s
    ●    └ Explore                     Grep                        3s
    ●  web       Settings page         Bash: npm test             12s  23%  d4e5f607
    ●  docs      ドキュメントを日本…   Thinking                    9m  23%  e5f60718
    ◇  infra     plan the move to th…  ExitPlanMode             1h05m  23%  f6071829
    ○  web       why is the bundle s…  interrupted                30m  23%  07182930
    ○  dotfiles  watch the nightly b…  2 background tasks (st…    26h       18293041
    8 sessions: 1 error, 2 attention, 2 working, 1 checked, 2 done, $5.31
    ");
}

#[test]
fn eight_sessions_in_120_columns() {
    insta::assert_snapshot!(drawn(&eight(), &look(120)), @"
    STATE        PROJECT   SESSION                       DOING                           FOR  CTX   COST  MODEL     ID
    ✗ error      billing   add VAT for CH and NO         rate_limit: 429 too many re…    11m  23%  $0.35  opus-4-5  c3d4e5f6
    ◆ attention  work/api  Mend the flaky login test     Permission for Bash              4m  78%  $3.20  Opus 4.5  a1b2c3d4
    ◆ attention  play/api  port the rate limiter to th…  Permission for WebFetch         40s  23%  $0.35  opus-4-5  b2c3d4e5
      ◆          ├ docs-researcher                       Permission for WebFetch         40s
      ●          └ general-purpose                       Read                            12s
      ●            └ Explore                             Grep                             3s
    ● working    web       Settings page                 Bash: npm test                  12s  23%  $0.35  opus-4-5  d4e5f607
    ● working    docs      ドキュメントを日本語に翻訳…   Thinking                         9m  23%  $0.35  opus-4-5  e5f60718
    ◇ checked    infra     plan the move to the new cl…  ExitPlanMode                  1h05m  23%  $0.35  opus-4-5  f6071829
    ○ done       web       why is the bundle so large?   interrupted                     30m  23%  $0.35  opus-4-5  07182930
    ○ done       dotfiles  watch the nightly build       2 background tasks (stale)      26h              opus-4-5  18293041
    8 sessions: 1 error, 2 attention, 2 working, 1 checked, 2 done, $5.31
    ");
}

#[test]
fn eight_sessions_in_200_columns() {
    insta::assert_snapshot!(drawn(&eight(), &look(200)), @"
    STATE        PROJECT   SESSION                                                      DOING                                               FOR  CTX   COST  MODEL     ID
    ✗ error      billing   add VAT for CH and NO                                        rate_limit: 429 too many requests, try again in…    11m  23%  $0.35  opus-4-5  c3d4e5f6
    ◆ attention  work/api  Mend the flaky login test                                    Permission for Bash                                  4m  78%  $3.20  Opus 4.5  a1b2c3d4
    ◆ attention  play/api  port the rate limiter to the new middleware, keep its tests  Permission for WebFetch                             40s  23%  $0.35  opus-4-5  b2c3d4e5
      ◆          ├ docs-researcher                                                      Permission for WebFetch                             40s
      ●          └ general-purpose                                                      Read                                                12s
      ●            └ Explore                                                            Grep                                                 3s
    ● working    web       Settings page                                                Bash: npm test                                      12s  23%  $0.35  opus-4-5  d4e5f607
    ● working    docs      ドキュメントを日本語に翻訳してください。全部。               Thinking                                             9m  23%  $0.35  opus-4-5  e5f60718
    ◇ checked    infra     plan the move to the new cluster                             ExitPlanMode                                      1h05m  23%  $0.35  opus-4-5  f6071829
    ○ done       web       why is the bundle so large?                                  interrupted                                         30m  23%  $0.35  opus-4-5  07182930
    ○ done       dotfiles  watch the nightly build                                      2 background tasks (stale)                          26h              opus-4-5  18293041
    8 sessions: 1 error, 2 attention, 2 working, 1 checked, 2 done, $5.31
    ");
}

#[test]
fn without_unicode() {
    let look = Look {
        glyphs: Glyphs::Ascii,
        ..look(100)
    };
    insta::assert_snapshot!(drawn(&[subagent_asks(), asks()], &look), @"
    STATE        PROJECT   SESSION                    DOING                    FOR  CTX   COST  ID
    ! attention  play/api  port the rate limiter to~  Permission for WebFetch  40s  23%  $0.35  b2c3d4e5
      !          |- docs-researcher                   Permission for WebFetch  40s
      *          `- general-purpose                   Read                     12s
      *            `- Explore                         Grep                      3s
    ! attention  work/api  Mend the flaky login test  Permission for Bash       4m  78%  $3.20  a1b2c3d4
    2 sessions: 2 attention, $3.55
    ");
}

#[test]
fn everything() {
    let mut rows = eight();
    rows.truncate(2);
    rows.extend([ended(), unhooked()]);
    sort(&mut rows);
    insta::assert_snapshot!(drawn(&rows, &look(usize::MAX)), @"
    STATE        PROJECT  SESSION                    DOING                                               FOR  CTX   COST  MODEL     ID
    ✗ error      billing  add VAT for CH and NO      rate_limit: 429 too many requests, try again in…    11m  23%  $0.35  opus-4-5  c3d4e5f6
    ◆ attention  api      Mend the flaky login test  Permission for Bash                                  4m  78%  $3.20  Opus 4.5  a1b2c3d4
    ◌ unhooked   old                                 nothing is heard of it                               2d                        pid 31337
    · ended      api      what changed last week?    prompt_input_exit                                 2h00m  23%  $0.35  opus-4-5  29304152
    4 sessions: 1 error, 1 attention, 1 unhooked, 1 ended, $3.90
    ");
}

#[test]
fn one_session_has_no_total() {
    insta::assert_snapshot!(drawn(&[asks()], &look(100)), @"
    STATE        PROJECT  SESSION               DOING                FOR  CTX   COST  MODEL     ID
    ◆ attention  api      Mend the flaky logi…  Permission for Bash   4m  78%  $3.20  Opus 4.5  a1b2c3d4
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
    STATE        PROJECT  SESSION            DOING                FOR  CTX  ID
    ◆ attention  api      Mend the flaky l…  Permission for Bash   4m  78%  a1b2c3d4
      ◆          ├ worker 20                 Permission for Bash  20s
      ●          ├ worker 1                  Edit                  1s
      ●          ├ worker 2                  Edit                  2s
      ●          ├ worker 3                  Edit                  3s
      ●          ├ worker 4                  Edit                  4s
      ●          ├ worker 5                  Edit                  5s
                 … 14 more
    ");
}

#[test]
fn whoever_needs_somebody_stands_first() {
    let ids: Vec<String> = eight()
        .iter()
        .map(|row| format!("{} {}", row.display.word(), &row.session_id[..8]))
        .collect();
    insta::assert_snapshot!(ids.join("\n"), @"
    error c3d4e5f6
    attention a1b2c3d4
    attention b2c3d4e5
    working d4e5f607
    working e5f60718
    checked f6071829
    done 07182930
    done 18293041
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
        prop_assert!(!plain(&full(&rows[0], "", &[], &look(width))).chars().any(|c| c.is_control() && c != '\n'));
    }
}
