//! The terminal around the view: raw mode, the other screen, the loop. It draws when something
//! changed, and by itself only while something in sight moves.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use becket_daemon::life::now_ms;
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
use crate::tui::draw::{self, Drawn};
use crate::tui::feed::{self, Follower, Message, QUEUE};
use crate::tui::input::{self, Action, Clicks, Edit};
use crate::tui::look::{Look, PULSE};
use crate::tui::model::{EventLine, Mode, Model, title};
use crate::tui::paste::KeyRun;
use crate::tui::update::Deed;
use crate::world::World;
use crate::{signals, tmux};

/// What the daemon says is drawn at most so often; a key is drawn at once.
const FRAME: Duration = Duration::from_millis(40);
/// Of what waits, so many are taken before the next look at the clock.
const AT_ONCE: usize = 512;

/// Whether this is a terminal that the view can be drawn on.
pub fn suits_terminal() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb" || term.is_empty());
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb
}

/// Shows the view until the person leaves it. What each draw takes is appended to `frame_times`.
pub fn open(world: &World, frame_times: Option<&Path>) -> Result<()> {
    let frame_times = frame_times.map(FrameTimes::open).transpose()?;
    let (to, from) = sync_channel(QUEUE);
    let look = Look::read(|name| std::env::var(name).ok());
    let mut screen = Screen::enter().context("could not take over the terminal")?;
    let (watching, sender) = (world.clone(), to.clone());
    std::thread::spawn(move || feed::watch(&watching, &sender));
    let (place, sender) = (world.place.clone(), to.clone());
    std::thread::spawn(move || feed::launches(&place, &sender));
    let (asking, sender) = (world.clone(), to.clone());
    std::thread::spawn(move || feed::killed(&asking, &sender));
    let (watching, sender) = (world.clone(), to.clone());
    std::thread::spawn(move || feed::coverage(&watching, &sender));
    let none = Arc::new(AtomicBool::new(true));
    let (looking, is_empty, sender) = (world.clone(), Arc::clone(&none), to.clone());
    std::thread::spawn(move || feed::why_none(&looking, &is_empty, &sender));
    let sender = to.clone();
    std::thread::spawn(move || feed::listen(&sender));
    let sender = to.clone();
    signals::on_termination(move || drop(sender.send(Message::Leave)));
    let doing = world.clone();
    let perform = Arc::new(move |deed: &Deed| perform(&doing, deed));
    let follower = Follower::new(world.clone(), to.clone());
    let mut view = View::new(look, perform, to, Some(follower));
    view.frame_times = frame_times;
    view.none = none;
    view.run(&mut screen.terminal, &from)
}

/// The terminal while the view has it. It is given back whatever happens.
struct Screen {
    /// It would panic at its end where the terminal is gone by then, and nothing after it be done.
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

/// Where the bench reads how long each draw took: a line each, microseconds of the clock and of the
/// processor.
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

    /// The processor time of this thread so far.
    fn busy() -> Duration {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }
}

/// What does a deed, and says what came of it.
type Perform = Arc<dyn Fn(&Deed) -> Result<String> + Send + Sync>;

struct View {
    model: Model,
    look: Look,
    perform: Perform,
    to: SyncSender<Message>,
    follower: Option<Follower>,
    clicks: Clicks,
    /// Keys that may turn out to be a paste.
    keys: KeyRun,
    drawn: Drawn,
    frame_times: Option<FrameTimes>,
    /// True while no session is listed, for the thread that looks for the reason.
    none: Arc<AtomicBool>,
}

/// Said of text that came as keys.
const PASTED: &str = "this looked pasted, so no key of it acted; press r before you paste a line";

/// What comes after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// Drawn with the next frame.
    Soon,
    /// The user waits for it.
    Now,
    /// Everything is drawn anew.
    Anew,
    Leave,
}

impl View {
    fn new(
        look: Look,
        perform: Perform,
        to: SyncSender<Message>,
        follower: Option<Follower>,
    ) -> Self {
        Self {
            model: Model::new(),
            look,
            perform,
            to,
            follower,
            clicks: Clicks::default(),
            keys: KeyRun::default(),
            drawn: Drawn::default(),
            frame_times: None,
            none: Arc::default(),
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
            let next = match self.quiet() {
                None => from.recv().ok().map(|message| self.take(message)),
                Some(quiet) => match from.recv_timeout(quiet) {
                    Ok(message) => Some(self.take(message)),
                    Err(RecvTimeoutError::Timeout) => Some(self.keys_due(Instant::now())),
                    Err(RecvTimeoutError::Disconnected) => None,
                },
            };
            match next.map(|next| self.take_more(next, from, at + FRAME)) {
                None | Some(Next::Leave) => return Ok(()),
                Some(Next::Anew) => terminal.clear()?,
                Some(_) => {}
            }
        }
    }

    /// Takes what else has come, and what comes until the next frame is due. Keys that wait act in
    /// time.
    fn take_more(&mut self, mut next: Next, from: &Receiver<Message>, due: Instant) -> Next {
        for _ in 0..AT_ONCE {
            let until = match next {
                Next::Soon => self.keys.until().map_or(due, |until| until.min(due)),
                _ => Instant::now(),
            };
            match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(message) => next = next.max(self.take(message)),
                Err(_) => {
                    let acted = self.keys_due(Instant::now());
                    next = next.max(acted);
                    if acted == Next::Soon {
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
            follower.turn_to(session.as_deref());
        }
        self.model.events.turn_to(session);
        terminal
            .draw(|frame| {
                let area = frame.area();
                self.drawn = draw::draw(&self.model, &self.look, now, area, frame.buffer_mut());
            })
            .context("could not draw")?;
        self.none
            .store(self.model.rows().is_empty(), Ordering::Relaxed);
        self.model.top = self.drawn.top;
        self.model.page = usize::from(self.drawn.list.height);
        Ok(())
    }

    /// How long nothing changes by itself; none if nothing will.
    fn quiet(&self) -> Option<Duration> {
        let pulse = self.drawn.moves.then(|| PULSE - now_ms().rem_euclid(PULSE));
        let next = [pulse, self.drawn.next_in].into_iter().flatten().min();
        let next = next.map(|next| Duration::from_millis(next.max(1) as u64));
        let keys = self.keys.until();
        let keys = keys.map(|until| until.saturating_duration_since(Instant::now()));
        [next, keys].into_iter().flatten().min()
    }

    fn take(&mut self, message: Message) -> Next {
        let model = &mut self.model;
        match message {
            Message::All(rows) => {
                model.lost = None;
                model.put_all(rows);
            }
            Message::One(row) => model.put(*row),
            Message::Troubles(troubles) => model.troubles = troubles,
            Message::Unseen(what) => model.unseen = what,
            Message::Lost(why) => model.lost = Some(why),
            Message::Event { session, line } => {
                if model.events.session.as_deref() == Some(&session) {
                    model.events.put(line);
                }
            }
            Message::Done(Ok(text)) => model.say(text, false),
            Message::Done(Err(text)) => model.say(text, true),
            Message::WhyNone(why) => model.why_none = Some(why),
            Message::Input(events, at) => {
                let inputs = events.into_iter().map(|event| self.input(event, at));
                return inputs.fold(Next::Soon, Next::max);
            }
            Message::Leave => return Next::Leave,
        }
        Next::Soon
    }

    fn input(&mut self, input: Event, at: Instant) -> Next {
        let mut next = self.keys_due(at);
        match input {
            Event::Key(key) if key.kind == KeyEventKind::Release => {}
            Event::Key(key) if self.model.mode.takes_commands() => {
                let taken = self.keys.add(key, at);
                next = next.max(self.press(taken.act));
                if taken.pasted {
                    self.model.say(PASTED, true);
                    next = next.max(Next::Now);
                }
            }
            Event::Key(key) => next = next.max(self.press(vec![key])),
            Event::Mouse(mouse) => {
                let waiting = self.keys.flush();
                next = next.max(self.press(waiting));
                let (drawn, model) = (&self.drawn, &mut self.model);
                let action = self.clicks.take(mouse, drawn, model, now_ms());
                next = next.max(self.act(action));
            }
            Event::Paste(_) if self.model.mode == Mode::Normal => self.model.say(PASTED, true),
            Event::Paste(text) => {
                next = next.max(self.act(Some(Action::Edit(Edit::Paste(text)))));
            }
            _ => next = next.max(Next::Now),
        }
        next
    }

    /// Lets the keys act that nothing followed in time.
    fn keys_due(&mut self, now: Instant) -> Next {
        let due = self.keys.due(now);
        self.press(due)
    }

    fn press(&mut self, keys: Vec<KeyEvent>) -> Next {
        keys.into_iter().fold(Next::Soon, |next, key| {
            let action = input::action(&self.model.mode, self.model.focus, key);
            next.max(self.act(action))
        })
    }

    fn act(&mut self, action: Option<Action>) -> Next {
        match action.and_then(|action| self.model.act(action)) {
            None => {}
            Some(Deed::Quit) => return Next::Leave,
            Some(Deed::Redraw) => return Next::Anew,
            Some(deed) => self.perform(deed),
        }
        Next::Now
    }

    /// On a thread: tmux and the daemon take their time.
    fn perform(&self, deed: Deed) {
        let (perform, to) = (Arc::clone(&self.perform), self.to.clone());
        std::thread::spawn(move || {
            let done = perform(&deed).map_err(|error| format!("{error:#}"));
            drop(to.send(Message::Done(done)));
        });
    }
}

/// Does it with tmux and the daemon, and says in words what came of it.
fn perform(world: &World, deed: &Deed) -> Result<String> {
    let said = match deed {
        Deed::Jump(row) => {
            tmux::jump(row)?;
            // A daemon that cannot be told that it was seen changes nothing.
            let seen = Ask::Seen(SeenAt::Session(row.session_id.clone()));
            if let Ok(Some(mut client)) = Client::connect(world) {
                drop(client.execute(seen));
            }
            "jumped".to_owned()
        }
        Deed::Interrupt(row) => {
            tmux::interrupt(row)?;
            format!("sent Escape to {}", title(row))
        }
        Deed::Line(row, text) => {
            tmux::send_line(row, text)?;
            format!("sent the line to {}", title(row))
        }
        Deed::End(row) => {
            tmux::end(row)?;
            format!("told {} to end", title(row))
        }
        Deed::Name { session, title } => {
            let ask = Ask::Name {
                session: session.clone(),
                title: title.clone(),
            };
            Client::connect_or_start(world)?.execute(ask)?;
            match title {
                Some(title) => format!("named it {title}"),
                None => "took its name away".to_owned(),
            }
        }
        Deed::Redraw | Deed::Quit => String::new(),
    };
    Ok(said)
}

/// The view at one moment, without a terminal: for a picture of it.
#[derive(Debug)]
pub struct Still<'a> {
    pub rows: Vec<SessionRow>,
    /// All events, of which those of the selected session are shown.
    pub events: &'a [EventRow],
    /// The session that is selected.
    pub selected: &'a str,
    pub now: i64,
    pub home: &'a str,
    pub size: (u16, u16),
}

pub fn still(still: Still<'_>) -> Buffer {
    let look = Look {
        colour: true,
        unicode: true,
        home: Some(still.home.to_owned()),
        zone: TimeZone::UTC,
    };
    let mut model = Model::new();
    model.put_all(still.rows);
    model.settle();
    model.select(still.selected);
    model.events.turn_to(Some(still.selected.to_owned()));
    let of_it = |row: &&EventRow| row.session_id.as_deref() == Some(still.selected);
    for row in still.events.iter().filter(of_it) {
        model.events.put(EventLine::new(row));
    }
    let area = Rect::new(0, 0, still.size.0, still.size.1);
    let mut buffer = Buffer::empty(area);
    draw::draw(&model, &look, still.now, area, &mut buffer);
    buffer
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel, sync_channel};

    use anyhow::bail;
    use becket_wire::session::Display;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyModifiers};

    use crate::tui::draw::tests::{eight, look};

    use super::*;

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

    fn name(deed: &Deed) -> &'static str {
        match deed {
            Deed::Jump(_) => "jump",
            Deed::Interrupt(_) => "interrupt",
            Deed::End(_) => "end",
            Deed::Line(..) => "line",
            Deed::Name { .. } => "name",
            Deed::Redraw | Deed::Quit => "none",
        }
    }

    #[test]
    fn keys_become_deeds() {
        let mut messages = vec![Message::All(eight())];
        messages.extend(keys("a\nkirgo on\nx\u{18}nn!\nq"));
        let (_, _, noted) = run(messages);
        let mut deeds: Vec<Deed> = (0..5).map(|_| noted.recv().unwrap()).collect();
        deeds.sort_by_key(name);
        let names: Vec<_> = deeds.iter().map(name).collect();
        assert_eq!(names, ["end", "interrupt", "jump", "line", "name"]);
        assert!(matches!(&deeds[3], Deed::Line(_, text) if text == "go on"));
        assert!(
            matches!(&deeds[4], Deed::Name { title: Some(title), .. } if title.ends_with("n!"))
        );
    }

    #[test]
    fn pasted_text_is_no_command() {
        for text in ["fix it", "use the proxy\n"] {
            let mut messages = vec![Message::All(eight())];
            messages.extend(keys("a"));
            messages.extend([pasted(text), Message::Leave]);
            let (view, mut terminal, noted) = run(messages);
            let mut view = view;
            let acted = noted.try_iter().map(|deed| name(&deed)).collect::<Vec<_>>();
            assert_eq!(acted, [""; 0], "{text}");
            assert_eq!(view.model.mode, Mode::Normal, "{text}");
            view.draw(&mut terminal).unwrap();
            assert!(terminal.backend().to_string().contains("looked pasted"));
        }
    }

    #[test]
    fn a_letter_alone_acts_after_its_pause() {
        let (view, ..) = run(vec![Message::All(eight()), pasted("?"), pasted("\u{1b}q")]);
        assert_eq!(view.model.mode, Mode::Normal);
    }

    #[test]
    fn text_for_a_prompt_that_is_refused_acts_on_nothing() {
        let mut messages = vec![Message::All(eight())];
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
}
