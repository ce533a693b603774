//! What a person sees, at the sizes that people have.

use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::super::keys::Action;
use super::super::look::Look;
use super::super::model::Model;
use super::made_up::{NOW, eight, events, look, many, model, one};
use super::{Drawn, draw};

fn shown(model: &Model, look: &Look, width: u16, height: u16) -> (Terminal<TestBackend>, Drawn) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut drawn = Drawn::default();
    terminal
        .draw(|frame| drawn = draw(model, look, NOW, frame.area(), frame.buffer_mut()))
        .unwrap();
    (terminal, drawn)
}

fn picture(model: &Model, look: &Look, width: u16, height: u16) -> String {
    shown(model, look, width, height).0.backend().to_string()
}

fn buffer(model: &Model, look: &Look) -> Buffer {
    shown(model, look, 120, 32).0.backend().buffer().clone()
}

#[test]
fn empty() {
    assert_snapshot!(picture(&model(vec![]), &look(), 80, 10));
}

#[test]
fn before_the_daemon_has_spoken_and_when_it_cannot_be_reached() {
    let mut model = Model::new();
    model.settle();
    assert!(picture(&model, &look(), 80, 10).contains("Asking the daemon"));
    model.lost =
        Some("could not reach the daemon on /run/socket (refused); try becket doctor".into());
    assert_snapshot!(picture(&model, &look(), 80, 10));
}

#[test]
fn sessions_stay_in_sight_while_the_daemon_is_away() {
    let mut model = model(one());
    model.lost = Some(crate::client::STOPPED.into());
    assert_snapshot!(picture(&model, &look(), 80, 16));
}

#[test]
fn one_session() {
    let mut model = model(one());
    events(&mut model, 5);
    assert_snapshot!(picture(&model, &look(), 100, 20));
}

#[test]
fn eight_with_subagents() {
    let mut model = model(eight());
    events(&mut model, 30);
    assert_snapshot!(picture(&model, &look(), 120, 32));
}

#[test]
fn eight_in_one_list() {
    let mut model = model(eight());
    model.act(Action::Group);
    assert_snapshot!(picture(&model, &look(), 120, 32));
}

#[test]
fn narrow() {
    let mut model = model(eight());
    events(&mut model, 30);
    assert_snapshot!(picture(&model, &look(), 60, 15));
}

#[test]
fn wide() {
    let mut model = model(eight());
    events(&mut model, 80);
    assert_snapshot!(picture(&model, &look(), 200, 60));
}

#[test]
fn without_colour_and_unicode() {
    let mut model = model(eight());
    events(&mut model, 30);
    let look = Look {
        colour: false,
        unicode: false,
        ..look()
    };
    let (terminal, _) = shown(&model, &look, 100, 32);
    let buffer = terminal.backend().buffer();
    for cell in buffer.content() {
        assert!(cell.symbol().is_ascii(), "{cell:?}");
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
    }
    assert_snapshot!(terminal.backend());
}

#[test]
fn a_thousand() {
    let mut model = model(many(1_000));
    model.act(Action::Last);
    assert_snapshot!(picture(&model, &look(), 100, 30));
}

#[test]
fn filtered() {
    let mut model = model(eight());
    model.act(Action::Filter);
    for c in "shop wait".chars() {
        model.act(Action::Edit(super::super::field::Edit::Insert(c)));
    }
    assert!(picture(&model, &look(), 80, 20).contains("No session fits."));
    for _ in 0..5 {
        model.act(Action::Edit(super::super::field::Edit::Back));
    }
    assert_snapshot!("typing", picture(&model, &look(), 80, 20));
    model.act(Action::Accept);
    assert_snapshot!("accepted", picture(&model, &look(), 80, 20));
}

#[test]
fn help() {
    let mut model = model(eight());
    model.act(Action::Help);
    assert_snapshot!(picture(&model, &look(), 80, 24));
}

#[test]
fn a_wide_character_does_not_reach_under_the_help() {
    for title in ["日本語日本語日本語", "x日本語日本語日本語"] {
        let mut rows = many(20);
        for row in &mut rows {
            row.title = Some(title.into());
        }
        let mut model = model(rows);
        model.act(Action::Help);
        let area = Rect::new(0, 0, 80, 24);
        let mut buffer = Buffer::empty(area);
        draw(&model, &look(), NOW, area, &mut buffer);
        for place in buffer.area.positions() {
            let wide = ratatui::text::Span::raw(buffer[place].symbol()).width() > 1;
            let next = wide.then(|| buffer[(place.x + 1, place.y)].symbol());
            assert!(
                next.is_none_or(|next| next == " "),
                "{place} hides {next:?}"
            );
        }
    }
}

#[test]
fn the_question_before_the_end() {
    let mut model = model(eight());
    model.act(Action::Step(1));
    model.act(Action::End);
    assert_snapshot!(picture(&model, &look(), 80, 20));
}

#[test]
fn what_is_typed_and_what_came_of_it() {
    let mut model = model(eight());
    model.act(Action::Line);
    for c in "use the staging database, and say when it is migrated 日本".chars() {
        model.act(Action::Edit(super::super::field::Edit::Insert(c)));
    }
    let last = |model: &Model, width| {
        let picture = picture(model, &look(), width, 20);
        picture.lines().last().unwrap().to_owned()
    };
    assert_snapshot!("typed_line", last(&model, 60));
    model.act(Action::Cancel);
    model.say("the pane %1 shows another program; nothing was sent", true);
    assert_snapshot!("said", last(&model, 80));
}

#[test]
fn the_events_can_have_the_focus() {
    let mut model = model(eight());
    events(&mut model, 40);
    model.act(Action::Focus);
    model.act(Action::Scroll(5));
    assert_snapshot!(picture(&model, &look(), 80, 24));
}

#[test]
fn urgency_has_colour_and_the_selection_stands_out() {
    let mut model = model(eight());
    model.act(Action::Step(1));
    let buffer = buffer(&model, &look());
    let find = |symbol: &str, skip: u16| {
        let rows = (skip..buffer.area.height).flat_map(|y| (0..4).map(move |x| (x, y)));
        let mut cells = rows.map(|place| &buffer[place]);
        cells.find(|cell| cell.symbol() == symbol).unwrap().clone()
    };
    assert_eq!(find("✗", 2).fg, Color::Red);
    assert_eq!(find("◆", 2).fg, Color::Yellow);
    assert!(find("○", 2).modifier.contains(Modifier::DIM));
    let reversed = |y: u16| buffer[(10, y)].modifier.contains(Modifier::REVERSED);
    let rows: Vec<u16> = (0..buffer.area.height).filter(|&y| reversed(y)).collect();
    assert_eq!(rows.len(), 1);
}

#[test]
fn motion_only_where_something_moves() {
    let (_, still) = shown(&model(vec![]), &look(), 80, 20);
    assert_eq!((still.moves, still.next_in), (false, None));
    let mut rows = one();
    rows[0].display = becket_wire::session::Display::Done;
    rows[0].display_since = NOW - 7_200_000;
    rows[0].started_at = NOW - 7_200_000;
    let (_, quiet) = shown(&model(rows), &look(), 120, 20);
    assert_eq!((quiet.moves, quiet.next_in), (false, Some(60_000)));
    let (_, busy) = shown(&model(one()), &look(), 120, 20);
    assert!(busy.moves && busy.next_in <= Some(1_000));
    // A thousand, of which those in sight are done.
    let mut model = model(many(1_000));
    model.wish.grouped = false;
    model.regrow();
    model.act(Action::Last);
    assert!(!shown(&model, &look(), 120, 32).1.moves);
}
