//! Whatever stands in the rows and however small the terminal: it draws, and inside its area.

use becket_wire::session::{AgentRow, Display, SessionRow, Status};
use proptest::prelude::*;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

use super::super::events::EventLine;
use super::super::field::Field;
use super::super::look::{Look, Tone};
use super::super::model::{Focus, Mode, Model, Target};
use super::draw;
use super::made_up::{NOW, look, model};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z ]{0,40}",
        "(日本|👩‍👩‍👧|é|\u{301}|\u{200d}|\u{1b}\\[[0-9]{1,3}[mHJ]|\u{1b}\\]0;x\u{7}|\t|\n|\u{202e}|🇩🇪){0,12}",
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Idle),
        proptest::option::of(text()).prop_map(|detail| Status::Working { detail }),
        text().prop_map(|reason| Status::Attention { reason }),
    ]
}

fn agent() -> impl Strategy<Value = AgentRow> {
    (
        "[a-c]",
        proptest::option::of("[a-c]"),
        text(),
        status(),
        any::<i64>(),
    )
        .prop_map(|(agent_id, parent, kind, status, at)| AgentRow {
            agent_id,
            parent,
            agent_type: Some(kind),
            status,
            status_since: at,
            started_at: at,
            ..AgentRow::default()
        })
}

fn row() -> impl Strategy<Value = SessionRow> {
    let words = proptest::collection::vec(proptest::option::of(text()), 8);
    let agents = proptest::collection::vec(agent(), 0..4);
    (
        text(),
        words,
        status(),
        0..5usize,
        any::<(i64, f64, f64, bool)>(),
        agents,
    )
        .prop_map(
            |(id, mut words, status, display, (at, pct, cost, flag), agents)| {
                let mut row = SessionRow {
                    line: id.clone(),
                    session_id: id,
                    status,
                    display: Display::ALL[display],
                    display_since: at,
                    started_at: at,
                    background_tasks: u32::from(flag) * 3,
                    stale: flag,
                    attended: flag,
                    agents,
                    troubles: words.iter().flatten().cloned().collect(),
                    ..SessionRow::default()
                };
                row.figures.context_pct = Some(pct);
                row.figures.cost_usd = Some(cost);
                let fields = [
                    &mut row.title,
                    &mut row.project,
                    &mut row.cwd,
                    &mut row.model,
                    &mut row.last_prompt,
                    &mut row.waiting_reason,
                    &mut row.error,
                    &mut row.tmux_pane,
                ];
                for field in fields {
                    *field = words.pop().flatten();
                }
                row
            },
        )
}

fn mode() -> impl Strategy<Value = Mode> {
    let target = text().prop_map(|title| Target {
        key: "k".into(),
        session_id: "s".into(),
        title,
    });
    let field = text().prop_map(|text| Field::new(&text));
    (0..6, target, field).prop_map(|(which, target, field)| match which {
        0 => Mode::Help,
        1 => Mode::Filter(field),
        2 => Mode::Name(target, field),
        3 => Mode::Line(target, field),
        4 => Mode::End(target),
        _ => Mode::Normal,
    })
}

prop_compose! {
    fn view()(
        rows in proptest::collection::vec(row(), 0..12),
        mode in mode(),
        said in proptest::option::of(text()),
        lost in proptest::option::of(text()),
        about in text(),
        (focus, grouped) in any::<(bool, bool)>(),
        (top, back, step) in (0..40usize, 0..40usize, 0..12isize),
    ) -> Model {
        let mut model = model(rows);
        for seq in 0..30 {
            model.events.put(EventLine {
                seq,
                at: NOW + seq,
                event: about.clone(),
                tool: about.clone(),
                about: about.clone(),
                by_agent: seq % 2 == 0,
                tone: Tone::Plain,
            });
        }
        model.wish.grouped = grouped;
        model.regrow();
        model.settle();
        model.step(step);
        model.mode = mode;
        model.focus = if focus { Focus::Events } else { Focus::List };
        model.top = top;
        model.events.scroll(back as isize);
        model.lost = lost;
        if let Some(said) = said {
            model.say(said, focus);
        }
        model
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn it_draws_at_any_size_and_stays_in_its_area(
        model in view(),
        width in 1..250u16,
        height in 1..80u16,
        (colour, unicode) in any::<(bool, bool)>(),
        now in prop_oneof![Just(NOW), any::<i64>()],
    ) {
        let look = Look { colour, unicode, ..look() };
        // The area lies inside a larger buffer whose other cells are marked.
        let whole = Rect::new(0, 0, width + 2, height + 2);
        let area = Rect::new(1, 1, width, height);
        let mut buffer = Buffer::filled(whole, Cell::new("#"));
        for y in area.rows() {
            for place in y.positions() {
                buffer[place].reset();
            }
        }
        draw(&model, &look, now, area, &mut buffer);
        for place in whole.positions() {
            let cell = &buffer[place];
            if area.contains(place) {
                prop_assert!(!cell.symbol().chars().any(char::is_control), "{cell:?}");
                prop_assert!(unicode || cell.symbol().is_ascii(), "{cell:?}");
                let wide = ratatui::text::Span::raw(cell.symbol()).width() as u16;
                prop_assert!(place.x + wide <= area.right(), "{place} {cell:?}");
                for hidden in place.x + 1..place.x + wide {
                    let below = buffer[(hidden, place.y)].symbol();
                    prop_assert!(below.trim().is_empty(), "{place} {cell:?} hides {below}");
                }
            } else {
                prop_assert_eq!(cell.symbol(), "#", "{}", place);
            }
        }
    }
}
