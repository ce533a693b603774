//! One guard: what it asks about a call, and what it answers. Pure.

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use super::act::{Access, Act, Call, Fed, Touch};
use super::check::Check;
use super::glob::{Bases, Ends, Paths, Words, word_matches};
use super::zone::{Zone, is_temporary};
use crate::config::Origin;
use crate::matcher::Matcher;

/// What a guard answers, the mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Say {
    /// The model is told.
    Warn,
    /// The first try is denied, a second one passes.
    Once,
    /// The user is asked.
    Ask,
    Deny,
}

impl Say {
    pub const NAMES: [(&str, Self); 4] = [
        ("deny", Self::Deny),
        ("ask", Self::Ask),
        ("once", Self::Once),
        ("warn", Self::Warn),
    ];

    pub fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        names
            .find(|(_, say)| *say == self)
            .map_or("", |(name, _)| name)
    }
}

/// A guard. Every key that is set has to hold; those about acts hold together for one act.
#[derive(Debug, Clone)]
pub struct Rule {
    pub id: String,
    pub say: Say,
    pub reason: Option<String>,
    /// The safer way, for the model.
    pub instead: Option<String>,
    /// Where it cannot be judged, it denies.
    pub closed: bool,
    pub tools: Matcher,
    pub modes: Vec<String>,
    /// Types of agents; `main` is the main agent.
    pub agents: Vec<String>,
    /// Texts of the command.
    pub patterns: Vec<String>,
    /// Texts of a prompt: such a rule judges prompts and no calls.
    pub prompt: Vec<String>,
    pub acts: Acts,
    pub touches: Touches,
    pub check: Option<Check>,
    /// Why it could not be read: it denies then.
    pub broken: Option<String>,
    pub declared: Origin,
    /// What switched it off.
    pub off: Option<Origin>,
}

/// What a rule asks about an act.
#[derive(Debug, Clone, Default)]
pub struct Acts {
    pub commands: Vec<Command>,
    /// A bit for each program of the commands.
    pub programs: u128,
    pub unwanted_commands: Vec<Command>,
    pub args: Words,
    pub env: Words,
    pub flags: Vec<Flag>,
    pub fed: Vec<Fed>,
    pub elevated: Option<bool>,
    pub opaque: Option<bool>,
}

/// What a rule asks about a path.
#[derive(Debug, Clone, Default)]
pub struct Touches {
    pub paths: Paths,
    pub access: Vec<Access>,
    pub zones: Vec<Zone>,
    pub recursive: Option<bool>,
}

/// A program, and the operands that it begins with: `git push`. Each is a glob.
#[derive(Debug, Clone)]
pub struct Command {
    program: String,
    is_glob: bool,
    operands: Vec<String>,
}

/// One flag by its names, `-r|-R|--recursive`; with `!` one that must be absent.
#[derive(Debug, Clone)]
pub struct Flag {
    names: Vec<String>,
    absent: bool,
}

/// A tool call as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub tool: &'a str,
    pub input: &'a Value,
    pub call: &'a Call,
    pub project: &'a Path,
    pub home: &'a Path,
    /// becket's own home.
    pub becket: &'a Path,
    pub mode: Option<&'a str>,
    pub agent: Option<&'a str>,
    /// What the settings file holds now that the call would write.
    pub settings: Option<&'a str>,
    pub seen: &'a Seen,
}

/// What many rules ask of a call, found once.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// A bit for the program of each act; all if it may be any.
    programs: Vec<u128>,
    /// The bits of all acts, and one that only rules for any program have.
    any_program: u128,
    /// Where each touch lies, by its words and by its real path.
    places: Vec<[Option<(Zone, Ends)>; 2]>,
    /// The touches of each act, in order.
    by_act: Vec<(Option<usize>, usize)>,
}

impl Seen {
    pub fn of(call: &Call, project: &Path, home: &Path) -> Self {
        let zone = |touch: &Touch, path: &str| {
            let act = touch.act.and_then(|nth| call.acts.get(nth));
            let remote = act.is_some_and(|act| act.remote);
            let zone = match path.starts_with('/') {
                true if remote => Zone::of(path, Path::new("/"), Path::new("/")),
                true => Zone::of(path, project, home),
                false if is_temporary(path) => Zone::Temp,
                false => Zone::Unknown,
            };
            match zone {
                Zone::Elsewhere | Zone::Unknown if remote => Zone::Remote,
                zone => zone,
            }
        };
        let places = call.touches.iter().map(|touch| {
            let place = |path: &str| (zone(touch, path), Ends::of_path(path));
            [Some(place(&touch.path)), touch.real.as_deref().map(place)]
        });
        let by_act = call.touches.iter().enumerate();
        let mut by_act: Vec<_> = by_act.map(|(nth, touch)| (touch.act, nth)).collect();
        by_act.sort_unstable();
        let programs: Vec<u128> = call.acts.iter().map(bit_of).collect();
        Self {
            any_program: programs.iter().fold(1 << 127, |all, bits| all | bits),
            programs,
            places: places.collect(),
            by_act,
        }
    }

    /// The touches of an act, or of none.
    fn of_act(&self, act: Option<usize>) -> impl Iterator<Item = usize> {
        let from = self.by_act.partition_point(|(of, _)| *of < act);
        let rest = self.by_act[from..].iter();
        rest.take_while(move |(of, _)| *of == act)
            .map(|(_, nth)| *nth)
    }
}

/// A bit for a program, by its length and its ends: most programs differ there.
fn bit(program: &str) -> u128 {
    let bytes = program.as_bytes();
    let [first, last] = [bytes.first(), bytes.last()].map(|byte| byte.map_or(0, |it| *it as usize));
    1 << ((first * 31 + last * 7 + bytes.len()) % 127)
}

/// The bits of the programs that an act may be.
fn bit_of(act: &Act) -> u128 {
    match is_module(act) {
        true => u128::MAX,
        false => bit(&act.program),
    }
}

fn is_module(act: &Act) -> bool {
    act.program.starts_with("python") && act.args.first().is_some_and(|word| word.text == "-m")
}

/// What a rule found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    Pattern(String),
    Path(String),
    Program(String),
    /// It could not be judged.
    Unsure(String),
    Other,
}

impl Rule {
    /// Whether the rule wants to say something about this call.
    pub fn matches(&self, scene: &Scene<'_>) -> Option<Match> {
        // Most rules are about programs that the call does not start.
        let may_hold = self.acts.programs & scene.seen.any_program != 0;
        let judges = may_hold || self.closed || self.broken.is_some();
        if !judges || !self.prompt.is_empty() || !self.concerns(scene) {
            return None;
        }
        if let Some(why) = &self.broken {
            return Some(Match::Unsure(why.clone()));
        }
        self.found(scene)
            .or_else(|| self.closed.then(|| self.unsure(scene)).flatten())
    }

    /// The text of the prompt that it is about.
    pub fn matches_prompt(&self, prompt: &str) -> Option<Match> {
        let found = self.prompt.iter().find(|text| prompt.contains(&***text));
        found.map(|text| Match::Pattern(text.clone()))
    }

    fn concerns(&self, scene: &Scene<'_>) -> bool {
        let is_one = |wanted: &[String], value: &str| {
            wanted.is_empty() || wanted.iter().any(|it| it == value)
        };
        self.tools.matches(scene.tool)
            && is_one(&self.modes, scene.mode.unwrap_or("default"))
            && is_one(&self.agents, scene.agent.unwrap_or("main"))
    }

    fn found(&self, scene: &Scene<'_>) -> Option<Match> {
        let mut found = None;
        if !self.patterns.is_empty() {
            let command = scene.input.get("command").and_then(Value::as_str)?;
            let pattern = self.patterns.iter().find(|it| command.contains(&***it))?;
            found = Some(Match::Pattern(pattern.clone()));
        }
        if let Some(check) = self.check {
            let of_check = check.holds(scene)?;
            found = found.or(Some(of_check));
        }
        if self.acts.is_empty() {
            if self.touches.is_empty() {
                return found.or(Some(Match::Other));
            }
            let path = self.touched(0..scene.call.touches.len(), scene)?;
            return found.or(Some(path));
        }
        for (nth, program) in scene.seen.programs.iter().enumerate() {
            if self.acts.programs & program == 0 {
                continue;
            }
            let act = &scene.call.acts[nth];
            if !self.acts.take(act) {
                continue;
            }
            if self.touches.is_empty() {
                return found.or(Some(Match::Program(act.program.clone())));
            }
            if let Some(path) = self.touched(scene.seen.of_act(Some(nth)), scene) {
                return found.or(Some(path));
            }
        }
        // Other tools have no acts to forbid.
        if self.acts.only_unwanted() {
            let path = self.touched(scene.seen.of_act(None), scene)?;
            return found.or(Some(path));
        }
        None
    }

    fn touched(
        &self,
        mut touches: impl Iterator<Item = usize>,
        scene: &Scene<'_>,
    ) -> Option<Match> {
        let nth = touches.find(|nth| self.touches.take(*nth, scene))?;
        Some(Match::Path(scene.call.touches[nth].path.clone()))
    }

    /// Why it cannot be known whether the rule holds.
    fn unsure(&self, scene: &Scene<'_>) -> Option<Match> {
        let call = scene.call;
        if self.acts.is_empty() && self.touches.is_empty() {
            return None;
        }
        if let Some(why) = call.unread.first() {
            return Some(Match::Unsure(why.clone()));
        }
        let may_be = |act: &Act| {
            let program = act.program.is_empty() || self.acts.takes_program(act);
            program && (act.program.is_empty() || act.args.iter().any(|word| word.opaque))
        };
        let asks_words = !self.acts.args.is_empty() || !self.acts.flags.is_empty();
        if asks_words && let Some(act) = call.acts.iter().find(|act| may_be(act)) {
            let words: Vec<&str> = act.args.iter().map(|word| &*word.text).collect();
            return Some(Match::Unsure(format!(
                "{} {}",
                act.program,
                words.join(" ")
            )));
        }
        let of_act = |touch: &Touch| match touch.act.and_then(|nth| call.acts.get(nth)) {
            Some(act) => self.acts.takes_program(act),
            None => self.acts.commands.is_empty(),
        };
        let touch = call.touches.iter().find(|touch| {
            !self.touches.is_empty()
                && touch.opaque
                && self.touches.takes_access(touch)
                && of_act(touch)
        })?;
        Some(Match::Unsure(touch.path.clone()))
    }

    /// The whole reason, for the model and the log.
    pub fn says(&self, found: &Match) -> String {
        let mut text = match (found, &self.reason) {
            (Match::Unsure(what), reason) => {
                let reason = reason.as_deref().unwrap_or_default();
                let what = format!(
                    "The guard {} could not be judged ({what}) and is set to deny then. {reason}",
                    self.id
                );
                what.trim_end().to_owned()
            }
            (Match::Path(path), Some(reason)) => reason.replace("{path}", path),
            (_, Some(reason)) => reason.replace("{path}", "it"),
            (Match::Pattern(text), None) if self.prompt.is_empty() => {
                format!("Command contains forbidden pattern: {text}")
            }
            (Match::Pattern(text), None) => format!("Prompt contains forbidden text: {text}"),
            (Match::Path(path), None) => format!("The guard {} protects {path}.", self.id),
            (Match::Program(program), None) => {
                format!(
                    "The guard {} does not allow this use of {program}.",
                    self.id
                )
            }
            (Match::Other, None) => format!("The guard {} does not allow this.", self.id),
        };
        if let Some(instead) = &self.instead {
            text = format!("{text}\nInstead: {instead}");
        }
        if self.say == Say::Once {
            text += "\nIf it has to be, make the same call again: the second time it passes.";
        }
        text
    }

    /// Whether it judges a call by something besides tool, mode and agent.
    pub fn has_condition(&self) -> bool {
        !self.acts.is_empty()
            || !self.touches.is_empty()
            || self.check.is_some()
            || !self.patterns.is_empty()
            || !self.prompt.is_empty()
    }
}

impl Acts {
    fn is_empty(&self) -> bool {
        self.unwanted_commands.is_empty() && self.asks_nothing_else()
    }

    fn asks_nothing_else(&self) -> bool {
        self.commands.is_empty()
            && self.args.is_empty()
            && self.env.is_empty()
            && self.flags.is_empty()
            && self.fed.is_empty()
            && self.elevated.is_none()
            && self.opaque.is_none()
    }

    /// It asks which program it is not, and nothing else.
    fn only_unwanted(&self) -> bool {
        !self.unwanted_commands.is_empty() && self.asks_nothing_else()
    }

    fn takes_program(&self, act: &Act) -> bool {
        let any = |commands: &[Command]| commands.iter().any(|command| command.is(act));
        (self.commands.is_empty() || any(&self.commands)) && !any(&self.unwanted_commands)
    }

    fn take(&self, act: &Act) -> bool {
        self.takes_program(act)
            && (self.fed.is_empty() || self.fed.contains(&act.fed))
            && self.elevated.is_none_or(|it| it == act.elevated)
            && self.opaque.is_none_or(|it| {
                it == (act.program.is_empty() || act.args.iter().any(|word| word.opaque))
            })
            && (self.env.is_empty() || self.env.take(&act.env.iter().map(|it| &**it)))
            && self.args.take(&act.args.iter().map(|word| &*word.text))
            && self.flags.iter().all(|flag| flag.holds(act))
    }
}

impl Touches {
    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.zones.is_empty() && self.access.is_empty()
    }

    fn takes_access(&self, touch: &Touch) -> bool {
        self.access.is_empty() || self.access.contains(&touch.access)
    }

    /// Whether this touch of the call is meant.
    fn take(&self, nth: usize, scene: &Scene<'_>) -> bool {
        let (touch, places) = (&scene.call.touches[nth], &scene.seen.places[nth]);
        if !self.takes_access(touch) || self.recursive.is_some_and(|it| it != touch.recursive) {
            return false;
        }
        let bases = Bases {
            home: scene.home,
            project: scene.project,
        };
        // A search through the whole home or project is no reading of each key in it, and unpacking
        // there no writing.
        let is_vital = places[0].is_some_and(|(zone, _)| zone == Zone::Vital);
        let with_below = touch.recursive && (touch.access == Access::Delete || !is_vital);
        let paths = [Some(&touch.path), touch.real.as_ref()];
        let mut both = paths.into_iter().flatten().zip(places.iter().flatten());
        both.any(|(path, (zone, ends))| {
            (self.zones.is_empty() || self.zones.contains(zone))
                && (self.paths.is_empty() || self.paths.matches(path, *ends, with_below, bases))
        })
    }
}

impl Command {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let program = words
            .next()
            .ok_or("expected the name of a program, found nothing")?;
        if program.contains('/') {
            return Err(format!(
                "expected the name of a program without its folder, found {text:?}"
            ));
        }
        Ok(Self {
            is_glob: program.contains(['*', '?', '[', '\\']),
            program,
            operands: words.collect(),
        })
    }

    /// The bits of all programs that one of them can be; without any, it is every program.
    pub fn programs(commands: &[Self]) -> u128 {
        let bits = |command: &Self| match command.is_glob {
            true => u128::MAX,
            false => bit(&command.program),
        };
        let all = commands.iter().map(bits).reduce(|all, bits| all | bits);
        all.unwrap_or(u128::MAX)
    }

    fn is(&self, act: &Act) -> bool {
        if self.is_program(&act.program) && self.begins(act, 0) {
            return true;
        }
        // `python -m twine upload`
        let module = is_module(act)
            .then(|| operands(act, false).next())
            .flatten();
        module.is_some_and(|module| self.is_program(module)) && self.begins(act, 1)
    }

    fn is_program(&self, name: &str) -> bool {
        self.program == name || self.is_glob && word_matches(&self.program, name)
    }

    /// Whether the operands begin so. A word behind a flag may be its value or an operand.
    fn begins(&self, act: &Act, skip: usize) -> bool {
        self.operands.is_empty() && skip == 0
            || [false, true].into_iter().any(|values| {
                let mut operands = operands(act, values).skip(skip);
                (self.operands.iter())
                    .all(|glob| operands.next().is_some_and(|word| word_matches(glob, word)))
            })
    }
}

/// The arguments that are no flags, nor (with `values`) what stands behind a flag.
fn operands(act: &Act, values: bool) -> impl Iterator<Item = &str> {
    let mut is_value = false;
    act.args.iter().map(|word| &*word.text).filter(move |text| {
        // `cargo +stable`
        let is_toolchain = act.program == "cargo" && text.starts_with('+');
        let is_flag = is_toolchain || text.len() > 1 && text.starts_with('-');
        let is_operand = !is_flag && !is_value;
        is_value = values && is_flag && !is_toolchain && !text.contains('=');
        is_operand
    })
}

impl Flag {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (absent, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let names: Vec<String> = rest.split('|').map(|name| name.trim().to_owned()).collect();
        match names
            .iter()
            .all(|name| name.len() > 1 && name.starts_with('-'))
        {
            true => Ok(Self { names, absent }),
            false => Err(format!(
                "expected flags like \"-f|--force\", found {text:?}"
            )),
        }
    }

    fn holds(&self, act: &Act) -> bool {
        let words = act.args.iter().map(|word| &*word.text);
        let mut flags = words.take_while(|word| *word != "--");
        let is_given = flags.any(|word| self.names.iter().any(|name| self.is(name, word)));
        is_given != self.absent
    }

    fn is(&self, name: &str, word: &str) -> bool {
        let given = word.split('=').next().unwrap_or(word);
        if given == name {
            return true;
        }
        match name.strip_prefix('-') {
            // getopt takes a long name that was cut off.
            Some(long) if long.starts_with('-') => {
                !self.absent && given.len() > 4 && name.starts_with(given)
            }
            Some(short) if short.len() == 1 => {
                let cluster = given
                    .strip_prefix('-')
                    .filter(|rest| !rest.starts_with('-'));
                cluster.is_some_and(|letters| letters.contains(short))
            }
            _ => false,
        }
    }
}
