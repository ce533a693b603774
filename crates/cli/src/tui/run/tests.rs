//! The loop with a screen in memory; deeds are only written down.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel, sync_channel};

use anyhow::bail;
use becket_wire::session::Display;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::tui::draw::tests::{eight, look};

/// A view whose deeds are only written down.
fn view(to: SyncSender<Message>) -> (View, Receiver<Deed>) {
    let (notes, noted) = channel();
    let notes = Mutex::new(notes);
    let perform = Arc::new(move |deed: &Deed| {
        drop(notes.lock().unwrap().send(deed.clone()));
        match deed {
            Deed::End(_) => bail!("the pane shows another program"),
            _ => Ok(String::new()),
        }
    });
    (View::new(look(), perform, to, None), noted)
}

/// Runs the view on these messages, to its end.
fn run(messages: Vec<Message>) -> (View, Terminal<TestBackend>, Receiver<Deed>) {
    let (to, from) = sync_channel(QUEUE);
    let (mut view, noted) = view(to.clone());
    let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
    for message in messages {
        to.send(message).unwrap();
    }
    view.run(&mut terminal, &from).unwrap();
    (view, terminal, noted)
}

fn keys(keys: &str) -> impl Iterator<Item = Message> {
    let codes: Vec<KeyCode> = keys
        .chars()
        .map(|c| match c {
            '\n' => KeyCode::Enter,
            c => KeyCode::Char(c),
        })
        .collect();
    let press = |code| Message::Input(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    codes.into_iter().map(press)
}

#[test]
fn keys_become_deeds() {
    let mut messages = vec![Message::All(eight())];
    messages.extend(keys("a\nirgo on\nxyxnn!\nq"));
    let (_, _, noted) = run(messages);
    let mut told: Vec<&str> = Vec::new();
    for _ in 0..5 {
        told.push(match noted.recv().unwrap() {
            Deed::Jump(_) => "jump",
            Deed::Interrupt(_) => "interrupt",
            Deed::End(_) => "end",
            Deed::Line(_, text) if text == "go on" => "line",
            Deed::Name { title, .. } if title.as_deref() == Some("Idempotent checkout!") => "name",
            other => panic!("{other:?}"),
        });
    }
    told.sort_unstable();
    assert_eq!(told, ["end", "interrupt", "jump", "line", "name"]);
}

#[test]
fn what_a_deed_gave_is_told_and_the_next_key_takes_it_away() {
    let mut messages = vec![
        Message::All(eight()),
        Message::Done(Err("no such pane".into())),
    ];
    messages.push(Message::Leave);
    let (view, ..) = run(messages);
    assert_eq!(
        view.model.said.as_ref().map(|said| (&*said.text, said.bad)),
        Some(("no such pane", true))
    );
    let mut messages = vec![Message::All(eight()), Message::Done(Ok("jumped".into()))];
    messages.extend(keys("jq"));
    assert_eq!(run(messages).0.model.said, None);
}

#[test]
fn a_deed_that_fails_says_why() {
    let (to, from) = sync_channel(QUEUE);
    view(to).0.perform(Deed::End(Box::default()));
    match from.recv().unwrap() {
        Message::Done(Err(why)) => assert_eq!(why, "the pane shows another program"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_daemon_comes_and_goes() {
    let lost = || Message::Lost("gone".into());
    let (view, ..) = run(vec![Message::All(eight()), lost(), Message::Leave]);
    assert_eq!(view.model.lost.as_deref(), Some("gone"));
    assert_eq!(view.model.rows().len(), 8);
    let (view, ..) = run(vec![lost(), Message::All(eight()), Message::Leave]);
    assert_eq!(view.model.lost, None);
}

#[test]
fn events_of_another_session_are_not_shown() {
    let line = EventLine {
        seq: 1,
        at: 1,
        event: "Stop".into(),
        tool: String::new(),
        about: String::new(),
        by_agent: false,
        tone: super::super::look::Tone::Plain,
    };
    let (to, _from) = sync_channel(QUEUE);
    let (mut view, _noted) = view(to);
    view.model.events.turn_to(Some("mine".into()));
    for session in ["other", "mine"] {
        view.take(Message::Event {
            session: session.into(),
            line: line.clone(),
        });
        assert_eq!(
            view.model.events.lines.len(),
            usize::from(session == "mine")
        );
    }
}

#[test]
fn it_is_drawn_as_soon_as_something_is_known_and_rests_when_nothing_moves() {
    let mut row = eight().remove(6);
    row.display = Display::Done;
    row.started_at = now_ms() - 7_200_000;
    row.display_since = row.started_at;
    let title = row.title.clone().unwrap();
    let (view, mut terminal, _) = run(vec![Message::All(vec![row]), Message::Leave]);
    let mut view = view;
    view.draw(&mut terminal).unwrap();
    assert!(terminal.backend().to_string().contains(&title));
    assert!(view.quiet().unwrap() > Duration::from_secs(1));
}
