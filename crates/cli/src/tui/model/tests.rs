//! Selection and totals while rows appear, move and disappear.

use becket_wire::question::PersonAnswer;
use becket_wire::session::{AgentRow, Status};

use crate::tui::answer_box::tests::permission;
use crate::tui::answer_box::{AnswerKey, BoxState};
use crate::tui::effect::Effect;
use crate::tui::input::Action;

use super::*;

fn row(id: &str, display: Display, since: i64) -> SessionRow {
    SessionRow {
        session_id: id.into(),
        line: format!("line-{id}"),
        project: Some("p".into()),
        hooked: true,
        attended: true,
        display,
        display_since: since,
        ..SessionRow::default()
    }
}

fn model(rows: Vec<SessionRow>) -> Model {
    let mut model = Model::default();
    model.put_all(rows);
    model.settle();
    model
}

fn selected(model: &Model) -> &str {
    &model.current().unwrap().session_id
}

#[test]
fn the_selection_stays_on_its_session_when_rows_move() {
    let mut model = model(vec![
        row("a", Display::Working, 3),
        row("b", Display::Working, 2),
        row("c", Display::Working, 1),
    ]);
    assert_eq!(selected(&model), "a");
    model.step(1);
    model.put(row("c", Display::Attention, 9));
    model.put(row("b", Display::Done, 9));
    model.settle();
    assert_eq!(selected(&model), "b");
    assert_eq!(model.selected_row(), 2);
}

#[test]
fn clear_keeps_the_line_and_the_selection() {
    let mut model = model(vec![
        row("a", Display::Working, 1),
        row("b", Display::Done, 2),
    ]);
    let ended = SessionRow {
        ended_at: Some(5),
        end_reason: Some("clear".into()),
        ..row("a", Display::Done, 5)
    };
    model.put(ended.clone());
    model.settle();
    assert_eq!(selected(&model), "b");
    let next = SessionRow {
        session_id: "a2".into(),
        ..row("a", Display::Done, 6)
    };
    model.put(next);
    model.settle();
    assert_eq!(selected(&model), "a2");
    // The end of the former session arrives late: its key is in use by the next one.
    model.put(ended);
    model.settle();
    assert_eq!(model.rows().len(), 2);
}

#[test]
fn a_neighbour_follows_on_a_session_that_ended() {
    let mut model = model(vec![
        row("a", Display::Working, 3),
        row("b", Display::Working, 2),
        row("c", Display::Working, 1),
    ]);
    model.step(1);
    model.put(SessionRow {
        ended_at: Some(5),
        ..row("b", Display::Done, 5)
    });
    model.settle();
    assert_eq!(selected(&model), "c");
    // The selection follows this session from now on.
    model.put(row("c", Display::Error, 3));
    model.settle();
    assert_eq!(selected(&model), "c");
    for id in ["a", "c"] {
        model.put(SessionRow {
            ended_at: Some(5),
            ..row(id, Display::Done, 5)
        });
    }
    model.settle();
    assert!(model.current().is_none());
    model.step(1);
    assert!(!model.next_waiting());
}

#[test]
fn next_waiting_goes_round_and_takes_seen_sessions_last() {
    let mut model = model(vec![
        row("e", Display::Error, 1),
        row("w", Display::Attention, 1),
        row("x", Display::Working, 1),
        row("s", Display::Checked, 1),
        row("t", Display::Checked, 2),
    ]);
    let mut visited = String::new();
    for _ in 0..5 {
        assert!(model.next_waiting());
        visited += selected(&model);
    }
    assert_eq!(visited, "wstew");
}

#[test]
fn a_killed_session_and_a_finished_print_stay_for_ten_minutes() {
    let ended = |id: &str, reason: &str| SessionRow {
        ended_at: Some(1_000),
        end_reason: Some(reason.into()),
        ..row(id, Display::Done, 1_000)
    };
    let mut model = model(vec![
        row("a", Display::Working, 1),
        row("b", Display::Working, 2),
    ]);
    model.put(ended("a", "other"));
    model.put(ended("b", "prompt_input_exit"));
    model.put(ended("c", PROCESS_GONE));
    model.put(SessionRow {
        attended: false,
        ..ended("p", "other")
    });
    model.settle();
    assert_eq!(ids(model.rows(), &model.options), "a c p");
    assert_eq!(model.totals.counts, [0; 5]);
    model.put_all(vec![row("d", Display::Done, 0), row("c", Display::Done, 0)]);
    model.expire(1_000 + ENDED_SESSION_MS - 1);
    assert_eq!(ids(model.rows(), &model.options), "c d a p");
    model.expire(1_000 + ENDED_SESSION_MS);
    assert_eq!(ids(model.rows(), &model.options), "c d");
}

fn asking(id: i64) -> SessionRow {
    SessionRow {
        question: Some(id),
        ..row("a", Display::Attention, 1)
    }
}

/// Opens the box for question 41 of session `a`, and draws it.
fn open_box() -> Model {
    let mut model = model(vec![asking(41)]);
    let loads = Effect::LoadQuestion {
        session: "a".into(),
        id: Some(41),
    };
    assert_eq!(model.act(Action::OpenQuestion), Some(loads));
    model.load_question("a", Some(41), Ok(Some(Box::new(permission()))));
    draw_box(&mut model);
    model
}

fn the_box(model: &mut Model) -> &mut AnswerBox {
    match &mut model.mode {
        Mode::Answer(open) => open,
        mode => panic!("{mode:?}"),
    }
}

fn draw_box(model: &mut Model) {
    let open = the_box(model);
    open.drawn.state = open.step().map_or(BoxState::Passive, BoxState::Asks);
}

#[test]
fn an_answer_goes_to_the_question_that_was_drawn() {
    let mut model = open_box();
    let answer = Effect::Answer {
        id: 41,
        answer: PersonAnswer::Yes,
        title: "a".into(),
    };
    assert_eq!(model.act(Action::Answer(AnswerKey::Yes)), Some(answer));
    assert_eq!(model.mode, Mode::Normal);
}

#[test]
fn the_box_does_not_pass_to_the_next_question() {
    let over: [fn(&mut Model); 4] = [
        |model| model.put(asking(42)),
        |model| model.put(row("a", Display::Working, 1)),
        |model| model.put_all(Vec::new()),
        |model| {
            model.put(SessionRow {
                session_id: "after clear".into(),
                ..asking(41)
            });
        },
    ];
    for change in over {
        let mut model = open_box();
        change(&mut model);
        assert_eq!(model.act(Action::Answer(AnswerKey::Yes)), None);
        assert_eq!(the_box(&mut model).over.as_deref(), Some(OVER));
        // The question that came later is not put into this box either.
        model.load_question("a", Some(41), Ok(Some(Box::new(permission()))));
        draw_box(&mut model);
        assert_eq!(model.act(Action::Answer(AnswerKey::Yes)), None);
        model.act(Action::Cancel);
        assert_eq!(model.mode, Mode::Normal);
    }
}

#[test]
fn only_the_question_that_the_box_waits_for_is_loaded() {
    let mut model = model(vec![asking(41)]);
    model.act(Action::OpenQuestion);
    for (session, id) in [("b", Some(41)), ("a", Some(40)), ("a", None)] {
        model.load_question(session, id, Ok(Some(Box::new(permission()))));
        assert_eq!(the_box(&mut model).question, None);
    }
    model.load_question("a", Some(41), Ok(None));
    assert_eq!(the_box(&mut model).over.as_deref(), Some(OVER));
}

#[test]
fn a_session_without_a_question_opens_no_box() {
    let mut model = model(vec![row("a", Display::Working, 1)]);
    assert_eq!(model.act(Action::OpenQuestion), None);
    assert_eq!(model.mode, Mode::Normal);
    assert!(model.status_message.is_some());
    // The question of a plan, which only the terminal can answer, is shown.
    let mut plan = row("a", Display::Attention, 1);
    plan.status = Status::Attention {
        reason: "Permission for ExitPlanMode".into(),
    };
    model.put(plan);
    assert!(model.act(Action::OpenQuestion).is_some());
    model.load_question("a", None, Ok(None));
    assert_eq!(model.act(Action::Answer(AnswerKey::Yes)), None);
    assert!(the_box(&mut model).over.is_some());
}

#[test]
fn a_message_gives_the_keys_their_place_back() {
    let mut model = model(Vec::new());
    model.show_message("jumped", false);
    model.expire(50);
    model.expire(49 + STATUS_MESSAGE_MS);
    assert!(model.status_message.is_some());
    model.expire(50 + STATUS_MESSAGE_MS);
    assert_eq!(model.status_message, None);
}

#[test]
fn totals_count_all_and_know_the_longest_wait() {
    let mut first = row("a", Display::Attention, 7);
    first.figures.cost_usd = Some(1.5);
    first.figures.context_tokens = Some(10);
    let mut second = row("b", Display::Attention, 3);
    second.figures.cost_usd = Some(f64::NAN);
    let mut model = model(vec![first, second, row("c", Display::Done, 1)]);
    model.options.filter = "nothing fits".into();
    model.invalidate_tree();
    model.settle();
    assert_eq!(model.totals.counts, [0, 2, 0, 0, 1]);
    assert_eq!(model.totals.waits_since, Some(3));
    assert_eq!((model.totals.cost, model.totals.tokens), (1.5, 10));
}

fn projected(id: &str, project: &str, display: Display, since: i64) -> SessionRow {
    SessionRow {
        line: id.into(),
        project: Some(project.into()),
        ..row(id, display, since)
    }
}

fn agent(id: &str, parent: Option<&str>, started_at: i64) -> AgentRow {
    AgentRow {
        agent_id: id.into(),
        parent: parent.map(str::to_owned),
        started_at,
        ..AgentRow::default()
    }
}

fn ids(rows: &[SessionRow], options: &ListOptions) -> String {
    let name = |tree_row: &TreeRow| match tree_row {
        TreeRow::Group(project) => format!("[{}]", project.as_deref().unwrap_or("-")),
        TreeRow::Session(at) => rows[*at].session_id.clone(),
        TreeRow::Agent {
            session,
            agent: node,
        } => format!(
            "{}{}{}",
            if node.last { '`' } else { '|' },
            "-".repeat(node.depth),
            rows[*session].agents[node.index].agent_id
        ),
    };
    build_tree(rows, options)
        .iter()
        .map(name)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_order_is_that_of_becket_sessions() {
    use Display::*;
    let mut rows = [
        projected("before", "p", Done, 0),
        projected("done", "p", Done, 1),
        projected("checked", "p", Checked, 1),
        projected("working", "q", Working, 1),
        projected("busy", "p", Working, 2),
        projected("new", "p", Attention, 9),
        projected("old", "q", Attention, 2),
        projected("error", "p", Error, 50),
    ];
    let order = "error old new checked busy working done before";
    assert_eq!(ids(&rows, &Model::default().options), order);
    crate::session::sort(&mut rows);
    assert_eq!(rows.map(|row| row.session_id).join(" "), order);
}

#[test]
fn a_project_stands_where_its_most_urgent_session_would() {
    let rows = [
        projected("a", "quiet", Display::Done, 1),
        projected("b", "busy", Display::Done, 2),
        projected("c", "busy", Display::Attention, 3),
    ];
    let options = ListOptions {
        grouped: true,
        ..ListOptions::default()
    };
    assert_eq!(ids(&rows, &options), "[busy] c b [quiet] a");
}

#[test]
fn live_agents_hang_below_their_parents() {
    let mut rows = [projected("s", "p", Display::Working, 1)];
    rows[0].agents = vec![
        agent("b", None, 2),
        agent("a", None, 1),
        agent("a1", Some("a"), 3),
        agent("lost", Some("gone"), 4),
    ];
    rows[0].agents.push(AgentRow {
        ended_at: Some(5),
        ..agent("gone", None, 0)
    });
    let mut options = ListOptions::default();
    assert_eq!(ids(&rows, &options), "s |a `-a1 |b `lost");
    options.folded.insert("s".into());
    assert_eq!(ids(&rows, &options), "s");
}

#[test]
fn all_words_of_the_filter_must_occur_somewhere() {
    let mut rows = [
        projected("a", "/home/u/shop", Display::Working, 1),
        projected("b", "/home/u/blog", Display::Done, 2),
    ];
    rows[0].title = Some("Fix Checkout".into());
    let filtered = |filter: &str| {
        let options = ListOptions {
            filter: filter.into(),
            ..ListOptions::default()
        };
        ids(&rows, &options)
    };
    assert_eq!(filtered("check SHOP"), "a");
    assert_eq!(filtered("done"), "b");
    assert_eq!(filtered("u"), "a b");
    assert_eq!(filtered("shop blog"), "");
}

fn line(seq: i64) -> EventLine {
    EventLine {
        seq,
        at: seq,
        event: "Stop".into(),
        tool: String::new(),
        about: String::new(),
        by_agent: false,
        tone: Tone::Good,
    }
}

#[test]
fn a_scrolled_event_stays_while_new_ones_come() {
    let mut events = EventLog::default();
    (0..10).for_each(|seq| events.put(line(seq)));
    events.scroll(4);
    events.put(line(10));
    assert_eq!(events.scrolled_back, 5);
    events.scroll(-100);
    events.put(line(11));
    assert_eq!(events.scrolled_back, 0);
    events.scroll(100);
    assert_eq!(events.scrolled_back, 11);
    (20..2_000).for_each(|seq| events.put(line(seq)));
    assert_eq!(events.lines.len(), KEPT);
    assert!(events.scrolled_back < KEPT);
}
