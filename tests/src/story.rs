//! A scenario as a story: *given* these hooks and settings, *when* the model asks for these
//! tools and the person types this, *then* these events, this request, this screen.

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

use crate::claude::{Claude, Home, Print, Scope};
use crate::model::{Model, Rule, Script, Turn};
use crate::skip::{Unavailable, skip};
use crate::wait::{self, PATIENCE};

/// How long an event may take from one hook's start to becket's log.
const AGREEMENT: Duration = Duration::from_secs(20);

/// Tells a story under the name of the test that calls it. What this machine cannot give
/// makes it a skipped test.
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

/// What is there before anything happens.
#[derive(Debug, Default)]
#[must_use = "a story begins with `begin`"]
pub struct Given {
    script: Script,
    registered: Vec<Box<dyn Registration>>,
    hooks: Vec<Hook>,
    settings: Vec<(Scope, Value)>,
    files: Vec<(String, String)>,
    env: Vec<(String, String)>,
    needs: Vec<String>,
    since: Vec<(String, String)>,
    agreement: Option<Duration>,
}

impl Given {
    /// The model's turns for a prompt that contains `prompt`.
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

    /// What is registered for the events instead of becket with a recorder as its witness. The
    /// first one tells the story's events.
    pub fn registered(mut self, what: impl Registration + 'static) -> Self {
        self.registered.push(Box::new(what));
        self
    }

    /// One hook with an opinion, in the project's settings.
    pub fn hook(mut self, hook: Hook) -> Self {
        self.hooks.push(hook);
        self
    }

    pub fn settings(mut self, scope: Scope, settings: Value) -> Self {
        self.settings.push((scope, settings));
        self
    }

    /// A file of the project.
    pub fn file(mut self, path: &str, content: &str) -> Self {
        self.files.push((path.to_owned(), content.to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Events (or anything else by name) without which the story cannot be told: a version of
    /// the program that does not know them skips it.
    pub fn needs(mut self, names: &[&str]) -> Self {
        self.needs
            .extend(names.iter().map(|name| (*name).to_owned()));
        self
    }

    /// Something without a name that is there since this version: earlier ones skip the story.
    pub fn since(mut self, version: &str, what: &str) -> Self {
        self.since.push((version.to_owned(), what.to_owned()));
        self
    }

    /// How long late events may take before all that is registered has to agree.
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

/// A story under way: things happen in it, and can be looked at.
#[derive(Debug)]
pub struct Story {
    pub claude: Claude,
    registered: Vec<Box<dyn Registration>>,
    pub home: Home,
    pub model: Model,
    agreement: Duration,
}

impl Story {
    /// The program in print mode with this prompt.
    pub fn print(&self, prompt: &str) -> Print<'_> {
        Print::new(&self.claude, &self.home, prompt)
    }

    /// The interactive program, with a person at it.
    pub fn person(&self) -> Result<Person<'_>, Unavailable> {
        self.person_with(&[])
    }

    /// The interactive program with further arguments.
    pub fn person_with(&self, args: &[&str]) -> Result<Person<'_>, Unavailable> {
        Person::sits_down(self, args)
    }

    /// The interactive program, started by `becket run` with these options and arguments.
    pub fn launched(&self, options: &[&str], args: &[&str]) -> Result<Person<'_>, Unavailable> {
        Person::sits_at(self, &self.launch_command(options, args))
    }

    /// What `launched` runs: becket with these options, then the program with these arguments.
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

    /// Every event so far, as the first registration has it, in order of arrival.
    pub fn events(&self) -> Events {
        self.registered[0].events(&self.home)
    }

    /// Those of these events that this version knows, for an order that holds without the others.
    pub fn known<'n>(&self, events: &[&'n str]) -> Vec<&'n str> {
        self.claude.known(events)
    }

    /// The calls of the hook with this label.
    pub fn calls(&self, label: &str) -> Events {
        events::recorded(&self.home, label)
    }

    /// Waits until the events are as `probe` wants them.
    #[track_caller]
    pub fn wait_events<T>(&self, what: &str, probe: impl Fn(&Events) -> Option<T>) -> T {
        match wait::until(PATIENCE, || probe(&self.events())) {
            Some(found) => found,
            None => panic!("the events never showed {what}\n{}", self.so_far()),
        }
    }

    /// Waits for the first event of this name.
    #[track_caller]
    pub fn wait_event(&self, name: &str) -> Event {
        self.wait_events(name, |events| events.of(name).first().map(|e| (*e).clone()))
    }

    /// Fails unless all that is registered has got the same events, byte for byte. Events that
    /// the program does not wait for may come in late.
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
    pub fn let_go(&self, hold: &str) {
        fs::write(hook::hold_file(&self.home, hold), "").expect("let a hook go");
    }

    /// What happened so far, for a person who wonders why a test failed.
    pub fn so_far(&self) -> String {
        format!(
            "{}\nevents: {:?}",
            self.model.summary(),
            self.events().names()
        )
    }
}

/// Every story closes by holding becket's log against what its witness wrote down.
impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.so_far());
        } else {
            self.all_agree();
        }
    }
}
