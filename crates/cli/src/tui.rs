//! The live view: a model of the sessions, the keys that change it, a pure function that draws it, and
//! here the event loop that owns the terminal. It draws when something changed, and by itself only while
//! something visible moves.

mod answer_box;
mod answer_timing;
mod draw;
mod effect;
pub mod feed;
mod input;
mod model;
mod paste_detection;
mod theme;

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becket_daemon::lifecycle::now_ms;
use becket_wire::question::AnsweredIn;
use becket_wire::rpc::{Ask, EventRow, SeenAt};
use becket_wire::session::SessionRow;
use jiff::tz::TimeZone;
use ratatui::backend::Backend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event,
    KeyEvent, KeyEventKind,
};
use ratatui::crossterm::execute;
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, Terminal};
use rustix::time::{ClockId, clock_gettime};

use crate::client::Client;
use crate::tui::answer_box::answer_words;
use crate::tui::answer_timing::{AnswerTiming, PressedKey};
use crate::tui::draw::DrawnFrame;
use crate::tui::effect::Effect;
use crate::tui::feed::{Follower, Message, QUEUE};
use crate::tui::input::{Action, ClickTracker, Edit};
use crate::tui::model::{EventLine, Mode, Model, title};
use crate::tui::paste_detection::KeyBurst;
use crate::tui::theme::{PULSE, Theme};
use crate::ui::style::Glyphs;
use crate::world::World;
use crate::{signals, tmux};

/// The time between two frames for changes of the daemon. A key is drawn at once.
const FRAME: Duration = Duration::from_millis(40);
/// The number of waiting messages that are handled before the next frame is checked.
const MAX_MESSAGES: usize = 512;

/// Returns true if the view can be drawn on this terminal.
pub fn suits_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb" || term.is_empty());
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb
}

/// Shows the view until the user leaves it. Appends the time of each draw to `frame_times`.
pub fn open(world: &World, frame_times: Option<&Path>) -> Result<()> {
    let frame_times = frame_times.map(FrameTimes::open).transpose()?;
    let (to, from) = sync_channel(QUEUE);
    let theme = Theme::read(|name| std::env::var(name).ok());
    let mut screen = Screen::enter().context("could not take over the terminal")?;
    let (watching, sender) = (world.clone(), to.clone());
    std::thread::spawn(move || feed::follow_sessions(&watching, &sender));
    let (place, sender) = (world.place.clone(), to.clone());
    std::thread::spawn(move || feed::poll_launches(&place, &sender));
    let (asking, sender) = (world.clone(), to.clone());
    std::thread::spawn(move || feed::load_killed_sessions(&asking, &sender));
    let (watching, sender) = (world.clone(), to.clone());
    std::thread::spawn(move || feed::poll_coverage(&watching, &sender));
    let list_is_empty = Arc::new(AtomicBool::new(true));
    let (looking, is_empty, sender) = (world.clone(), Arc::clone(&list_is_empty), to.clone());
    std::thread::spawn(move || feed::poll_empty_reason(&looking, &is_empty, &sender));
    let sender = to.clone();
    std::thread::spawn(move || feed::read_input(&sender));
    let sender = to.clone();
    signals::on_termination(move || drop(sender.send(Message::Leave)));
    let doing = world.clone();
    let perform = Arc::new(move |effect: &Effect| perform(&doing, effect));
    let follower = Follower::new(world.clone(), to.clone());
    let mut view = View::new(theme, perform, to, Some(follower));
    view.frame_times = frame_times;
    view.list_is_empty = list_is_empty;
    view.run(&mut screen.terminal, &from)
}

/// The terminal while the view uses it. Its state is restored on every exit.
struct Screen {
    /// Never dropped: its destructor panics if the terminal is gone, and nothing after it would run.
    terminal: ManuallyDrop<DefaultTerminal>,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        let terminal = ManuallyDrop::new(ratatui::try_init()?);
        let screen = Self { terminal };
        execute!(io::stdout(), EnableMouseCapture, EnableBracketedPaste)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(execute!(
            io::stdout(),
            DisableMouseCapture,
            DisableBracketedPaste,
            Show
        ));
        drop(ratatui::try_restore());
    }
}

/// The file from which the bench reads the time of each draw. A line has the microseconds of the
/// clock and of the processor.
struct FrameTimes(File);

impl FrameTimes {
    fn open(path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(|| format!("could not write {}", path.display()))?;
        Ok(Self(file))
    }

    fn add(&mut self, took: Duration, busy: Duration) {
        let line = format!("{} {}\n", took.as_micros(), busy.as_micros());
        drop(self.0.write_all(line.as_bytes()));
    }

    /// Returns the processor time that this thread has used.
    fn busy() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }
}

/// Carries out an effect and returns a message about its result.
type Perform = Arc<dyn Fn(&Effect) -> Result<String> + Send + Sync>;

struct View {
    model: Model,
    theme: Theme,
    perform: Perform,
    to: SyncSender<Message>,
    follower: Option<Follower>,
    clicks: ClickTracker,
    /// Keys that may be part of a paste.
    keys: KeyBurst,
    /// The keys of the answer box.
    answer_timing: AnswerTiming,
    drawn: DrawnFrame,
    frame_times: Option<FrameTimes>,
    /// True while no session is listed, for the thread that looks for the reason.
    list_is_empty: Arc<AtomicBool>,
}

/// The message about text that arrived as keys.
const PASTED: &str = "this looked pasted, so no key of it acted; press r before you paste a line";
/// The message about keys of the answer box that came too soon, or as a part of a text.
const TOO_SOON: &str =
    "nothing was answered: press the key alone, half a second after the last one";

/// The time at which a message has the screen drawn again. Of several messages the most urgent one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Redraw {
    NextFrame,
    /// At once: the user waits for it.
    Now,
    /// At once, after the screen was cleared.
    Everything,
    Quit,
}

impl View {
    fn new(
        theme: Theme,
        perform: Perform,
        to: SyncSender<Message>,
        follower: Option<Follower>,
    ) -> Self {
        Self {
            model: Model::default(),
            theme,
            perform,
            to,
            follower,
            clicks: ClickTracker::default(),
            keys: KeyBurst::default(),
            answer_timing: AnswerTiming::default(),
            drawn: DrawnFrame::default(),
            frame_times: None,
            list_is_empty: Arc::default(),
        }
    }

    fn run<B: Backend>(
        &mut self,
        terminal: &mut Terminal<B>,
        from: &Receiver<Message>,
    ) -> Result<()>
    where
        B::Error: Send + Sync + 'static,
    {
        loop {
            let at = Instant::now();
            let busy = self.frame_times.is_some().then(FrameTimes::busy);
            self.draw(terminal)?;
            if let (Some(times), Some(busy)) = (&mut self.frame_times, busy) {
                times.add(at.elapsed(), FrameTimes::busy() - busy);
            }
            let next = match self.time_until_change() {
                None => from.recv().ok().map(|message| self.handle(message)),
                Some(quiet) => match from.recv_timeout(quiet) {
                    Ok(message) => Some(self.handle(message)),
                    Err(RecvTimeoutError::Timeout) => Some(self.keys_due(Instant::now())),
                    Err(RecvTimeoutError::Disconnected) => None,
                },
            };
            match next.map(|next| self.handle_more(next, from, at + FRAME)) {
                None | Some(Redraw::Quit) => return Ok(()),
                Some(Redraw::Everything) => terminal.clear()?,
                Some(_) => {}
            }
        }
    }

    /// Handles the messages that arrive until the next frame is due. Waiting keys act in time.
    fn handle_more(&mut self, mut next: Redraw, from: &Receiver<Message>, due: Instant) -> Redraw {
        for _ in 0..MAX_MESSAGES {
            let until = match next {
                Redraw::NextFrame => self.keys_until().map_or(due, |until| until.min(due)),
                _ => Instant::now(),
            };
            match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => next = next.max(self.handle(message)),
                Err(_) => {
                    let acted = self.keys_due(Instant::now());
                    next = next.max(acted);
                    if acted == Redraw::NextFrame {
                        break;
                    }
                }
            }
        }
        next
    }

    fn draw<B: Backend>(&mut self, terminal: &mut Terminal<B>) -> Result<()>
    where
        B::Error: Send + Sync + 'static,
    {
        let now = now_ms();
        self.model.expire(now);
        self.model.settle();
        let session = self.model.current().map(|row| row.session_id.clone());
        // A launch may have none yet.
        let session = session.filter(|session| !session.is_empty());
        if let Some(follower) = &mut self.follower {
            follower.show_session(session.as_deref());
        }
        self.model.events.show_session(session);
        terminal
            .draw(|frame| {
                let area = frame.area();
                self.drawn = draw::draw(&self.model, &self.theme, now, area, frame.buffer_mut());
            })
            .context("could not draw")?;
        self.list_is_empty
            .store(self.model.rows().is_empty(), Ordering::Relaxed);
        self.model.top = self.drawn.top;
        self.model.page = usize::from(self.drawn.list.height);
        if let Mode::Answer(open) = &mut self.model.mode {
            open.drawn = self.drawn.answer_box;
            open.scroll = open.scroll.min(open.drawn.max_scroll);
        }
        self.answer_timing
            .draw(self.drawn.answer_box.state, Instant::now());
        Ok(())
    }

    /// Returns the moment at which a waiting key acts.
    fn keys_until(&self) -> Option<Instant> {
        let waiting = [self.keys.until(), self.answer_timing.until()];
        waiting.into_iter().flatten().min()
    }

    /// Returns the time until something changes by itself, or None if nothing will.
    fn time_until_change(&self) -> Option<Duration> {
        let pulse = self.drawn.moves.then(|| PULSE - now_ms().rem_euclid(PULSE));
        let next = [pulse, self.drawn.next_in].into_iter().flatten().min();
        let next = next.map(|next| Duration::from_millis(next.max(1) as u64));
        let keys = self.keys_until();
        let keys = keys.map(|until| until.saturating_duration_since(Instant::now()));
        [next, keys].into_iter().flatten().min()
    }

    fn handle(&mut self, message: Message) -> Redraw {
        let model = &mut self.model;
        match message {
            Message::Sessions(rows) => {
                model.connection_error = None;
                model.put_all(rows);
            }
            Message::SessionChanged(row) => model.put(*row),
            Message::Troubles(troubles) => model.troubles = troubles,
            Message::CoverageWarning(what) => model.coverage_warning = what,
            Message::Disconnected(why) => model.connection_error = Some(why),
            Message::Event { session, line } => {
                if model.events.session.as_deref() == Some(&session) {
                    model.events.put(line);
                }
            }
            Message::EffectDone(Ok(text)) => model.show_message(text, false),
            Message::EffectDone(Err(text)) => model.show_message(text, true),
            Message::Question { session, id, found } => model.load_question(&session, id, found),
            Message::EmptyReason(why) => model.empty_reason = Some(why),
            Message::Input(events, at) => {
                let inputs = events.into_iter().map(|event| self.input(event, at));
                return inputs.fold(Redraw::NextFrame, Redraw::max);
            }
            Message::Leave => return Redraw::Quit,
        }
        Redraw::NextFrame
    }

    fn input(&mut self, input: Event, at: Instant) -> Redraw {
        let mut next = self.keys_due(at);
        match input {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) if matches!(self.model.mode, Mode::Normal | Mode::Help) => {
                let taken = self.keys.add(key, at);
                next = next.max(self.apply_keys(taken.act, at));
                if taken.pasted {
                    self.model.show_message(PASTED, true);
                    next = next.max(Redraw::Now);
                }
            }
            Event::Key(key) => next = next.max(self.apply_keys(vec![key], at)),
            Event::Mouse(mouse) => {
                let waiting = self.keys.flush();
                next = next.max(self.apply_keys(waiting, at));
                let (drawn, model) = (&self.drawn, &mut self.model);
                let action = self.clicks.take(mouse, drawn, model, now_ms());
                next = next.max(self.act(action));
            }
            Event::Paste(_) if self.model.mode == Mode::Normal => {
                self.model.show_message(PASTED, true);
            }
            Event::Paste(_) if matches!(self.model.mode, Mode::Answer(_)) => {
                self.answer_timing.refuse(at);
                self.model.show_message(TOO_SOON, true);
            }
            Event::Paste(text) => {
                next = next.max(self.act(Some(Action::Edit(Edit::Paste(text)))));
            }
            _ => next = next.max(Redraw::Now),
        }
        next
    }

    /// Applies the keys that no other key followed in time.
    fn keys_due(&mut self, now: Instant) -> Redraw {
        let answer = self.answer_timing.due(now);
        let answer = answer.filter(|_| matches!(self.model.mode, Mode::Answer(_)));
        let answered = answer.map_or(Redraw::NextFrame, |key| self.apply_key(key));
        let due = self.keys.due(now);
        answered.max(self.apply_keys(due, now))
    }

    fn apply_keys(&mut self, keys: Vec<KeyEvent>, at: Instant) -> Redraw {
        keys.into_iter().fold(Redraw::NextFrame, |next, key| {
            next.max(match self.model.mode {
                Mode::Answer(_) => self.time_answer_key(key, at),
                _ => self.apply_key(key),
            })
        })
    }

    /// Applies a key of the answer box if it acts at once.
    fn time_answer_key(&mut self, key: KeyEvent, at: Instant) -> Redraw {
        match self.answer_timing.add(key, at) {
            PressedKey::ActsNow => self.apply_key(key),
            PressedKey::Waits => Redraw::NextFrame,
            PressedKey::Refused => {
                self.model.show_message(TOO_SOON, true);
                Redraw::Now
            }
        }
    }

    fn apply_key(&mut self, key: KeyEvent) -> Redraw {
        let action = input::action(&self.model.mode, self.model.focus, key);
        self.act(action)
    }

    fn act(&mut self, action: Option<Action>) -> Redraw {
        match action.and_then(|action| self.model.act(action)) {
            None => {}
            Some(Effect::Quit) => return Redraw::Quit,
            Some(Effect::Redraw) => return Redraw::Everything,
            Some(Effect::LoadQuestion { session, id }) => {
                if let Some(follower) = &self.follower {
                    follower.load_question(session, id);
                }
            }
            Some(effect) => self.perform(effect),
        }
        Redraw::Now
    }

    /// Carries out an effect on a thread, because tmux and the daemon may be slow.
    fn perform(&self, effect: Effect) {
        let (perform, to) = (Arc::clone(&self.perform), self.to.clone());
        std::thread::spawn(move || {
            let done = perform(&effect).map_err(|error| format!("{error:#}"));
            drop(to.send(Message::EffectDone(done)));
        });
    }
}

/// Carries out an effect with tmux and the daemon. Returns a message about the result.
fn perform(world: &World, effect: &Effect) -> Result<String> {
    let said = match effect {
        Effect::Jump(row) => {
            tmux::jump(row)?;
            // The jump succeeded, even if the daemon does not learn that the user has seen it.
            let seen = Ask::Seen(SeenAt::Session(row.session_id.clone()));
            if let Ok(Some(mut client)) = Client::connect(world) {
                drop(client.execute(seen));
            }
            "jumped".to_owned()
        }
        Effect::Interrupt(row) => {
            tmux::interrupt(row)?;
            format!("sent Escape to {}", title(row))
        }
        Effect::Line(row, text) => {
            tmux::send_line(row, text)?;
            format!("sent the line to {}", title(row))
        }
        Effect::End(row) => {
            tmux::end(row)?;
            format!("told {} to end", title(row))
        }
        Effect::Name { session, title } => {
            let ask = Ask::Name {
                session: session.clone(),
                title: title.clone(),
            };
            Client::connect_or_start(world)?.execute(ask)?;
            match title {
                Some(title) => format!("named it {title}"),
                None => "removed its name".to_owned(),
            }
        }
        Effect::Answer { id, answer, title } => {
            let ask = Ask::Answer {
                id: *id,
                answer: answer.clone(),
                via: AnsweredIn::View,
            };
            Client::connect_or_start(world)?.execute(ask)?;
            format!("sent: {} to {title}", answer_words(answer))
        }
        Effect::LoadQuestion { .. } | Effect::Redraw | Effect::Quit => String::new(),
    };
    Ok(said)
}

/// The state of the view at one moment, for a picture without a terminal.
#[derive(Debug)]
pub struct ViewSnapshot<'a> {
    pub rows: Vec<SessionRow>,
    /// All events. Those of the selected session are shown.
    pub events: &'a [EventRow],
    /// The session that is selected.
    pub selected: &'a str,
    pub now: i64,
    pub home: &'a str,
    pub size: (u16, u16),
}

pub fn render_snapshot(snapshot: ViewSnapshot<'_>) -> Buffer {
    let theme = Theme {
        colour: true,
        glyphs: Glyphs::Unicode,
        home: Some(snapshot.home.to_owned()),
        zone: TimeZone::UTC,
    };
    let mut model = Model::default();
    model.put_all(snapshot.rows);
    model.select(snapshot.selected);
    model.settle();
    model
        .events
        .show_session(Some(snapshot.selected.to_owned()));
    for row in snapshot.events {
        if row.session_id.as_deref() == Some(snapshot.selected) {
            model.events.put(EventLine::new(row));
        }
    }
    let area = Rect::new(0, 0, snapshot.size.0, snapshot.size.1);
    let mut buffer = Buffer::empty(area);
    draw::draw(&model, &theme, snapshot.now, area, &mut buffer);
    buffer
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel, sync_channel};

    use anyhow::bail;
    use becket_wire::question::PersonAnswer;
    use becket_wire::session::Display;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

    use crate::tui::answer_box::tests::permission;
    use crate::tui::draw::tests::{eight, theme};

    use super::*;

    /// A view whose effects are only recorded.
    fn view(to: SyncSender<Message>) -> (View, Receiver<Effect>) {
        let (notes, noted) = channel();
        let notes = Mutex::new(notes);
        let perform = Arc::new(move |effect: &Effect| {
            drop(notes.lock().unwrap().send(effect.clone()));
            match effect {
                Effect::End(_) => bail!("the pane shows another program"),
                _ => Ok(String::new()),
            }
        });
        (View::new(theme(), perform, to, None), noted)
    }

    /// Runs the view on these messages, to its end.
    fn run(messages: Vec<Message>) -> (View, Terminal<TestBackend>, Receiver<Effect>) {
        let (to, from) = sync_channel(QUEUE);
        let (mut view, noted) = view(to.clone());
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        for message in messages {
            to.send(message).unwrap();
        }
        view.run(&mut terminal, &from).unwrap();
        (view, terminal, noted)
    }

    fn event(c: char) -> Event {
        let (code, modifiers) = match c {
            '\n' => (KeyCode::Enter, KeyModifiers::NONE),
            '\u{18}' => (KeyCode::Char('x'), KeyModifiers::CONTROL),
            '\u{1b}' => (KeyCode::Esc, KeyModifiers::NONE),
            c => (KeyCode::Char(c), KeyModifiers::NONE),
        };
        Event::Key(KeyEvent::new(code, modifiers))
    }

    /// Keys with a pause before each, as fingers press them.
    fn keys(keys: &str) -> impl Iterator<Item = Message> {
        let began = Instant::now() - Duration::from_secs(60);
        let pressed = keys.chars().zip(1..);
        pressed.map(move |(c, number)| {
            let at = began + Duration::from_millis(100) * number;
            Message::Input(vec![event(c)], at)
        })
    }

    /// The same keys at once: a paste that the terminal does not announce.
    fn pasted(text: &str) -> Message {
        Message::Input(text.chars().map(event).collect(), Instant::now())
    }

    fn name(effect: &Effect) -> &'static str {
        match effect {
            Effect::Jump(_) => "jump",
            Effect::Interrupt(_) => "interrupt",
            Effect::End(_) => "end",
            Effect::Line(..) => "line",
            Effect::Name { .. } => "name",
            Effect::Answer { .. } => "answer",
            Effect::LoadQuestion { .. } | Effect::Redraw | Effect::Quit => "none",
        }
    }

    #[test]
    fn keys_become_effects() {
        let mut messages = vec![Message::Sessions(eight())];
        messages.extend(keys("a\nkirgo on\nx\u{18}nn!\nq"));
        let (_, _, noted) = run(messages);
        let mut effects: Vec<Effect> = (0..5).map(|_| noted.recv().unwrap()).collect();
        effects.sort_by_key(name);
        let names: Vec<_> = effects.iter().map(name).collect();
        assert_eq!(names, ["end", "interrupt", "jump", "line", "name"]);
        assert!(matches!(&effects[3], Effect::Line(_, text) if text == "go on"));
        assert!(
            matches!(&effects[4], Effect::Name { title: Some(title), .. } if title.ends_with("n!"))
        );
    }

    #[test]
    fn pasted_text_is_no_command() {
        for text in ["fix it", "use the proxy\n"] {
            let mut messages = vec![Message::Sessions(eight())];
            messages.extend(keys("a"));
            messages.extend([pasted(text), Message::Leave]);
            let (view, mut terminal, noted) = run(messages);
            let mut view = view;
            let acted = noted
                .try_iter()
                .map(|effect| name(&effect))
                .collect::<Vec<_>>();
            assert_eq!(acted, [""; 0], "{text}");
            assert_eq!(view.model.mode, Mode::Normal, "{text}");
            view.draw(&mut terminal).unwrap();
            assert!(terminal.backend().to_string().contains("looked pasted"));
        }
    }

    #[test]
    fn a_letter_alone_acts_after_its_pause() {
        let (view, ..) = run(vec![
            Message::Sessions(eight()),
            pasted("?"),
            pasted("\u{1b}q"),
        ]);
        assert_eq!(view.model.mode, Mode::Normal);
    }

    #[test]
    fn text_for_a_prompt_that_is_refused_acts_on_nothing() {
        let mut messages = vec![Message::Sessions(eight())];
        messages.extend(keys("aarfix it\nuse the proxy\n"));
        messages.push(Message::Leave);
        let (view, _, noted) = run(messages);
        assert!(
            matches!(view.model.mode, Mode::Refused(_)),
            "{:?}",
            view.model.mode
        );
        assert_eq!(noted.try_iter().count(), 0);
    }

    /// A view with the open box of question 41, which it drew a moment ago.
    fn view_with_a_question() -> (View, Terminal<TestBackend>, Receiver<Effect>) {
        let mut rows = eight();
        rows.truncate(1);
        rows[0].question = Some(41);
        let session = rows[0].session_id.clone();
        let (to, _from) = sync_channel(QUEUE);
        let (mut view, noted) = view(to);
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        view.handle(Message::Sessions(rows));
        view.draw(&mut terminal).unwrap();
        view.act(Some(Action::OpenQuestion));
        view.draw(&mut terminal).unwrap();
        let (found, id) = (Ok(Some(Box::new(permission()))), Some(41));
        view.handle(Message::Question { session, id, found });
        view.draw(&mut terminal).unwrap();
        (view, terminal, noted)
    }

    fn after(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[test]
    fn a_key_answers_after_a_pause() {
        let (mut view, _, noted) = view_with_a_question();
        let pressed = after(1_000);
        view.input(event('y'), pressed);
        assert_eq!(noted.try_iter().count(), 0);
        view.keys_due(pressed + Duration::from_millis(250));
        match noted.recv().unwrap() {
            Effect::Answer { id: 41, answer, .. } => assert_eq!(answer, PersonAnswer::Yes),
            other => panic!("{other:?}"),
        }
        assert_eq!(view.model.mode, Mode::Normal);
    }

    #[test]
    fn a_text_answers_nothing() {
        for (text, pause) in [
            ("fix it", 0),
            ("use the proxy", 30),
            ("yes\n", 120),
            ("no", 200),
        ] {
            let (mut view, _, noted) = view_with_a_question();
            for (c, nth) in text.chars().zip(0..) {
                view.input(event(c), after(1_000 + pause * nth));
            }
            view.keys_due(after(10_000));
            assert_eq!(noted.try_iter().count(), 0, "{text}");
            assert!(matches!(view.model.mode, Mode::Answer(_)), "{text}");
        }
        let (mut view, _, noted) = view_with_a_question();
        view.input(event('y'), after(0));
        view.input(event('y'), after(1_000));
        view.input(Event::Paste("use the proxy".into()), after(1_100));
        view.keys_due(after(10_000));
        assert_eq!(noted.try_iter().count(), 0);
        assert!(view.model.status_message.is_some());
    }

    #[test]
    fn a_key_that_waits_does_not_answer_a_question_that_is_over() {
        let (mut view, mut terminal, noted) = view_with_a_question();
        view.input(event('y'), after(1_000));
        let mut row = eight().remove(0);
        row.question = Some(42);
        view.handle(Message::SessionChanged(Box::new(row)));
        view.keys_due(after(2_000));
        view.draw(&mut terminal).unwrap();
        assert!(
            terminal
                .backend()
                .to_string()
                .contains("this question is over")
        );
        assert_eq!(noted.try_iter().count(), 0);
        view.input(event('\u{1b}'), after(3_000));
        assert_eq!(view.model.mode, Mode::Normal);
    }

    #[test]
    fn a_failed_effect_shows_its_error() {
        let (to, from) = sync_channel(QUEUE);
        view(to).0.perform(Effect::End(Box::default()));
        match from.recv().unwrap() {
            Message::EffectDone(Err(why)) => assert_eq!(why, "the pane shows another program"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lost_daemon_keeps_its_sessions_in_the_list() {
        let lost = || Message::Disconnected("gone".into());
        let (view, ..) = run(vec![Message::Sessions(eight()), lost(), Message::Leave]);
        assert_eq!(view.model.connection_error.as_deref(), Some("gone"));
        assert_eq!(view.model.rows().len(), 8);
        let (view, ..) = run(vec![lost(), Message::Sessions(eight()), Message::Leave]);
        assert_eq!(view.model.connection_error, None);
    }

    #[test]
    fn the_first_sessions_are_drawn_and_nothing_more_until_something_moves() {
        let mut row = eight().remove(6);
        row.display = Display::Done;
        row.started_at = now_ms() - 7_200_000;
        row.display_since = row.started_at;
        let title = row.title.clone().unwrap();
        let (view, mut terminal, _) = run(vec![Message::Sessions(vec![row]), Message::Leave]);
        let mut view = view;
        view.draw(&mut terminal).unwrap();
        assert!(terminal.backend().to_string().contains(&title));
        assert!(view.time_until_change().unwrap() > Duration::from_secs(1));
    }
}
