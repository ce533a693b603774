//! The loop with a screen in memory and hands that only write down what they were told.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use anyhow::bail;
use becket_wire::session::{Display, SessionRow};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::draw::made_up::{eight, look};
use super::*;

struct Notes(Mutex<Sender<String>>);

impl Notes {
    fn note(&self, what: String) -> Result<()> {
        Ok(self.0.lock().unwrap().send(what)?)
    }
}

impl Hands for Notes {
    fn jump(&self, row: &SessionRow) -> Result<()> {
        self.note(format!("jump {}", row.session_id))
    }

    fn interrupt(&self, row: &SessionRow) -> Result<()> {
        self.note(format!("interrupt {}", row.session_id))
    }

    fn send_line(&self, row: &SessionRow, text: &str) -> Result<()> {
        self.note(format!("line {} {text}", row.session_id))
    }

    fn end(&self, row: &SessionRow) -> Result<()> {
        self.note(format!("end {}", row.session_id))?;
        bail!("the pane shows another program")
    }

    fn name(&self, session: &str, title: Option<&str>) -> Result<()> {
        self.note(format!("name {session} {title:?}"))
    }
}

/// Runs the view on these messages, to its end.
fn run(messages: Vec<Message>) -> (View, Terminal<TestBackend>, Receiver<String>) {
    let (to, from) = sync_channel(QUEUE);
    let (notes, noted) = channel();
    let hands = Arc::new(Notes(Mutex::new(notes)));
    let mut view = View::new(look(), hands, to.clone(), None);
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
fn keys_reach_the_hands() {
    let mut messages = vec![Message::All(eight())];
    messages.extend(keys("a\nirgo on\nxyxnn!\nq"));
    let (_, _, noted) = run(messages);
    let id = |number: u32| format!("{number:08x}-1111-4222-8333-444444444444");
    let mut told: Vec<String> = (0..5).map(|_| noted.recv().unwrap()).collect();
    told.sort();
    let wanted = [
        format!("end {}", id(1)),
        format!("interrupt {}", id(1)),
        format!("jump {}", id(1)),
        format!("line {} go on", id(1)),
        format!("name {} Some(\"Idempotent checkout!\")", id(1)),
    ];
    assert_eq!(told, wanted);
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
    let (notes, _noted) = channel();
    let view = View::new(look(), Arc::new(Notes(Mutex::new(notes))), to, None);
    view.perform(Deed::End(Box::default()));
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
    let line = super::super::events::EventLine {
        seq: 1,
        at: 1,
        event: "Stop".into(),
        tool: String::new(),
        about: String::new(),
        by_agent: false,
        tone: super::super::look::Tone::Plain,
    };
    let (to, _from) = sync_channel(QUEUE);
    let (notes, _noted) = channel();
    let mut view = View::new(look(), Arc::new(Notes(Mutex::new(notes))), to, None);
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
