//! Scenarios with the real Claude Code, told as stories: *given* these hooks and settings, *when* the model
//! calls these tools and the user types this, *then* these events, this request, this screen.

mod events;
mod hook;
mod registration;
mod session;

use std::any::type_name;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use serde_json::Value;

pub use events::{Event, Events};
pub use hook::Hook;
pub use registration::{Becket, EXEC_FORM, TOLERANT};
pub use registration::{EVENTS, Recorder, Registration, program};
pub use session::Person;
pub use session::{Session, Waiting, now_ms};

use crate::claude::{Claude, Home, Print, SettingsScope};
use crate::model::{Model, Rule, Script, Turn};
use crate::skip::{Unavailable, skip};
use crate::wait::{self, PATIENCE};

/// The longest time from the start of one hook to the event in becket's log.
const AGREEMENT: Duration = Duration::from_secs(20);

/// Runs a story under the name of the calling test. A missing part of the environment skips the test.
pub fn story<F>(tell: F)
where
    F: FnOnce(Given) -> Result<(), Unavailable>,
{
    let name = type_name::<F>().trim_end_matches("::{{closure}}");
    let name = name.split_once("::").map_or(name, |(_, inner)| inner);
    if let Err(why) = tell(Given::default()) {
        skip(name, &why);
    }
}

/// The setup of a story.
#[derive(Debug, Default)]
#[must_use = "a story begins with `begin`"]
pub struct Given {
    script: Script,
    registered: Vec<Box<dyn Registration>>,
    hooks: Vec<Hook>,
    settings: Vec<(SettingsScope, Value)>,
    files: Vec<(String, String)>,
    env: Vec<(String, String)>,
    needs: Vec<String>,
    since: Vec<(String, String)>,
    agreement: Option<Duration>,
}

impl Given {
    /// Adds the model's turns for a prompt that contains `prompt`.
    pub fn on(self, prompt: &str, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.rule(Rule::on(prompt).turns(turns))
    }

    pub fn rule(mut self, rule: Rule) -> Self {
        self.script = self.script.rule(rule);
        self
    }

    /// Changes the script as a whole: usage, side answers, the summary of a compaction.
    pub fn script(mut self, change: impl FnOnce(Script) -> Script) -> Self {
        self.script = change(self.script);
        self
    }

    /// Registers something in place of becket with a recorder as its witness. The story reads the events of
    /// the first registration.
    pub fn registered(mut self, what: impl Registration + 'static) -> Self {
        self.registered.push(Box::new(what));
        self
    }

    /// Adds a hook with an answer to the project's settings.
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    pub fn settings(mut self, scope: SettingsScope, settings: Value) -> Self {
        self.settings.push((scope, settings));
        self
    }

    /// Adds a file to the project.
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Skips the story unless Claude Code knows these events (or anything else by name).
    pub fn needs(mut self, names: &[&str]) -> Self {
        self.needs
            .extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Skips the story before this version, for features without a name.
    pub fn since(mut self, version: &str, what: &str) -> Self {
        self.since.push((version.to_owned(), what.to_owned()));
        self
    }

    /// Sets the time that late events may take until all registrations agree.
    pub fn agreement(mut self, bound: Duration) -> Self {
        self.agreement = Some(bound);
        self
    }

    /// Starts the model and makes the home.
    pub fn begin(self) -> Result<Story, Unavailable> {
        let claude = Claude::get(&Claude::wanted())?;
        for name in &self.needs {
            claude.must_know(name)?;
        }
        for (version, what) in &self.since {
            claude.must_be(version, what)?;
        }
        let model = self.script.start();
        let mut home = Home::new(&model.url());
        for (name, value) in self.env {
            home.set_env(&name, value);
        }
        for (scope, settings) in &self.settings {
            home.set_settings(*scope, settings);
        }
        for (path, content) in &self.files {
            home.file(path, content);
        }
        let mut registered = self.registered;
        if registered.is_empty() {
            registered.push(Box::new(Becket::default()));
            registered.push(Box::new(Recorder::witness()));
        }
        for one in &mut registered {
            one.register(&claude, &mut home)?;
        }
        for hook in &self.hooks {
            hook.add_to(&home);
        }
        Ok(Story {
            claude,
            registered,
            home,
            model,
            agreement: self.agreement.unwrap_or(AGREEMENT),
        })
    }
}

/// A running story.
#[derive(Debug)]
pub struct Story {
    pub claude: Claude,
    registered: Vec<Box<dyn Registration>>,
    pub home: Home,
    pub model: Model,
    agreement: Duration,
}

impl Story {
    /// Returns Claude Code in print mode with this prompt.
    pub fn print(&self, prompt: &str) -> Print<'_> {
        Print::new(&self.claude, &self.home, prompt)
    }

    /// Starts the interactive Claude Code, used by a person.
    pub fn person(&self) -> Result<Person<'_>, Unavailable> {
        self.person_with(&[])
    }

    /// Starts the interactive Claude Code with further arguments.
    pub fn person_with(&self, args: &[&str]) -> Result<Person<'_>, Unavailable> {
        Person::start(self, args)
    }

    /// Starts the interactive Claude Code by `becket run` with these options and arguments.
    pub fn launched(&self, options: &[&str], args: &[&str]) -> Result<Person<'_>, Unavailable> {
        Person::start_command(self, &self.launch_command(options, args))
    }

    /// Returns the command of `launched`: becket with these options, then Claude Code with these arguments.
    pub fn launch_command(&self, options: &[&str], args: &[&str]) -> Vec<OsString> {
        let world = self.becket();
        let mut command = vec![
            world.programs.join("becket").into_os_string(),
            "--home".into(),
        ];
        command.extend([world.becket_home.clone().into_os_string(), "run".into()]);
        command.extend(options.iter().map(OsString::from));
        command.push("--".into());
        command.extend(self.claude.command().iter().cloned());
        command.extend(["--permission-mode", "default"].map(OsString::from));
        command.extend(args.iter().map(OsString::from));
        command
    }

    /// Returns every event so far of the first registration, in order of arrival.
    pub fn events(&self) -> Events {
        self.registered[0].events(&self.home)
    }

    /// Returns those of `events` that this version knows.
    pub fn known<'n>(&self, events: &[&'n str]) -> Vec<&'n str> {
        self.claude.known(events)
    }

    /// Returns the calls of the hook with this label.
    pub fn calls(&self, label: &str) -> Events {
        events::recorded(&self.home, label)
    }

    /// Waits until `probe` accepts the events.
    #[track_caller]
    pub fn wait_events<T>(&self, what: &str, probe: impl Fn(&Events) -> Option<T>) -> T {
        match wait::until(PATIENCE, || probe(&self.events())) {
            Some(found) => found,
            None => panic!("the events never showed {what}\n{}", self.summary()),
        }
    }

    /// Waits for the first event of this name.
    #[track_caller]
    pub fn wait_event(&self, name: &str) -> Event {
        self.wait_events(name, |events| events.of(name).first().map(|e| (*e).clone()))
    }

    /// Fails unless all registrations have the same events, byte for byte. Events that Claude Code does not
    /// wait for may arrive late.
    #[track_caller]
    pub fn all_agree(&self) {
        let Some((first, others)) = self.registered.split_first() else {
            return;
        };
        for other in others {
            let all = || (first.events(&self.home), other.events(&self.home));
            let agree = || Some(all()).filter(|(ours, theirs)| ours.agrees(theirs));
            if wait::until(self.agreement, agree).is_none() {
                let (ours, theirs) = all();
                ours.same_as(&theirs);
            }
        }
    }

    /// Lets a held hook go on.
    pub fn release(&self, hold: &str) {
        fs::write(hook::hold_file(&self.home, hold), "").expect("let a hook go");
    }

    /// Summarizes the story so far for a failure message.
    pub fn summary(&self) -> String {
        format!(
            "{}\nevents: {:?}",
            self.model.summary(),
            self.events().names()
        )
    }
}

/// Compares becket's log with the records of its witness at the end of each story.
impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.summary());
        } else {
            self.all_agree();
        }
    }
}
