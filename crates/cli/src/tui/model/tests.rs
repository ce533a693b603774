//! Selection and totals while rows come, move and go.

use super::*;

fn row(id: &str, display: Display, since: i64) -> SessionRow {
    SessionRow {
        session_id: id.into(),
        line: format!("line-{id}"),
        project: Some("p".into()),
        display,
        display_since: since,
        ..SessionRow::default()
    }
}

fn model(rows: Vec<SessionRow>) -> Model {
    let mut model = Model::new();
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
        row("a", Display::Working, 1),
        row("b", Display::Working, 2),
        row("c", Display::Working, 3),
    ]);
    assert_eq!(selected(&model), "a");
    model.step(1);
    model.put(row("c", Display::Attention, 9));
    model.put(row("b", Display::Done, 9));
    model.settle();
    assert_eq!(selected(&model), "b");
    assert_eq!(model.at(), 3);
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
    // The end of the former session comes late: the line stays.
    model.put(ended);
    model.settle();
    assert_eq!(model.rows().len(), 2);
}

#[test]
fn a_neighbour_follows_on_a_session_that_ended() {
    let mut model = model(vec![
        row("a", Display::Working, 1),
        row("b", Display::Working, 2),
        row("c", Display::Working, 3),
    ]);
    model.step(1);
    model.put(SessionRow {
        ended_at: Some(5),
        ..row("b", Display::Done, 5)
    });
    model.settle();
    assert_eq!(selected(&model), "c");
    // From now on it is that one, wherever it goes.
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
fn who_needs_me_comes_next_and_around() {
    let mut model = model(vec![
        row("e", Display::Error, 1),
        row("w", Display::Attention, 1),
        row("x", Display::Working, 1),
    ]);
    assert!(model.next_waiting());
    assert_eq!(selected(&model), "w");
    assert!(model.next_waiting());
    assert_eq!(selected(&model), "e");
}

#[test]
fn totals_count_all_and_know_the_longest_wait() {
    let mut first = row("a", Display::Attention, 7);
    first.figures.cost_usd = Some(1.5);
    first.figures.context_tokens = Some(10);
    let mut second = row("b", Display::Attention, 3);
    second.figures.cost_usd = Some(f64::NAN);
    let mut model = model(vec![first, second, row("c", Display::Done, 1)]);
    model.wish.filter = "nothing fits".into();
    model.regrow();
    model.settle();
    assert_eq!(model.totals.counts, [0, 2, 0, 0, 1]);
    assert_eq!(model.totals.waits_since, Some(3));
    assert_eq!((model.totals.cost, model.totals.tokens), (1.5, 10));
}
