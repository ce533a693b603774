//! One guard: what it asks about a call, and what it answers. Pure.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use becket_wire::tool::is_shell;
use memchr::memmem::Finder;
use serde::Serialize;
use serde_json::Value;

use super::act::{Access, Act, Call, Fed, Touch};
use super::check::Check;
use super::edit::Edit;
use super::glob::{Bases, Ends, Located, Paths, Words, word_matches};
use super::path::command_line;
use super::zone::{Zone, is_temporary, whole_folder};
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
    pub patterns: Vec<Finder<'static>>,
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
    pub unwanted_commands: Vec<Command>,
    pub args: Words,
    pub env: Words,
    pub flags: Vec<Flag>,
    pub fed: Vec<Fed>,
    pub elevated: Option<bool>,
    pub opaque: Option<bool>,
}

/// What a rule asks about a path.
#[derive(Debug, Clone)]
pub struct Touches {
    paths: Paths,
    recursive: Option<bool>,
    /// What a touch has to have.
    wanted: Traits,
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
    pub home: &'a Path,
    /// becket's own home.
    pub becket: &'a Path,
    pub mode: Option<&'a str>,
    pub agent: Option<&'a str>,
    /// The settings or command file that the call writes.
    pub edits: &'a [Edit],
    /// The command file that the call makes of others which run something, or may.
    pub brings_command: Option<&'a str>,
    /// The settings that a command gives to Claude Code; none for those that cannot be known.
    pub given_settings: &'a [Option<String>],
    pub seen: &'a Seen,
}

/// What many rules ask of a call, found once.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The program of each act, by its number among all that the call starts.
    programs: Vec<u32>,
    /// Where each touch lies, by its words and by its real path.
    places: Vec<[Option<(Zone, Located)>; 2]>,
    /// The touches of each act, in order.
    by_act: Vec<(Option<usize>, usize)>,
    any_touch: Traits,
}

/// What touches have in common, or what a rule wants of one: a bit for each access and zone, and the ends
/// of names.
#[derive(Debug, Clone, Copy)]
struct Traits {
    access: u16,
    zones: u16,
    ends: Ends,
}

impl Traits {
    fn meet(&self, other: &Self) -> bool {
        self.access & other.access != 0
            && self.zones & other.zones != 0
            && self.ends.meet(other.ends)
    }
}

impl Seen {
    pub fn of<'a>(call: &'a Call, project: &Path, home: &Path, bases: Bases<'_>) -> Self {
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
        let mut any_touch = Traits {
            access: 0,
            zones: 0,
            ends: Ends::NONE,
        };
        let places = call.touches.iter().map(|touch| {
            let place = |path: &str| (zone(touch, path), bases.locate(folder_of(touch, path)));
            let places = [Some(place(&touch.path)), touch.real.as_deref().map(place)];
            any_touch.access |= 1 << touch.access as u16;
            for (zone, located) in places.iter().flatten() {
                any_touch.zones |= 1 << *zone as u16;
                // What is below may have any name.
                let ends = if touch.recursive {
                    Ends::ANY
                } else {
                    located.ends
                };
                any_touch.ends = any_touch.ends.with(ends);
            }
            places
        });
        let places = places.collect();
        let by_act = call.touches.iter().enumerate();
        let mut by_act: Vec<_> = by_act.map(|(nth, touch)| (touch.act, nth)).collect();
        by_act.sort_unstable();
        let mut names: HashMap<&str, u32> = HashMap::new();
        let mut number = |act: &'a Act| {
            let next = names.len() as u32;
            *names.entry(&*act.program).or_insert(next)
        };
        Self {
            programs: call.acts.iter().map(&mut number).collect(),
            places,
            by_act,
            any_touch,
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

/// `rm -r x/*` is `rm -r x` to a rule about something in `x`.
fn folder_of<'p>(touch: &Touch, path: &'p str) -> &'p str {
    match touch.recursive {
        true => whole_folder(path),
        false => path,
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

/// The rules of a config, and which of them a program may concern.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    all: Vec<Arc<Rule>>,
    by_program: HashMap<String, Vec<u32>>,
    /// Those for programs that a glob names.
    by_glob: Vec<(String, u32)>,
    /// Those for any program, and those that may judge what could not be read.
    general: Vec<u32>,
}

impl Rules {
    pub fn new(all: Vec<Arc<Rule>>) -> Self {
        let mut rules = Self::default();
        let judge_calls = |rule: &Rule| rule.off.is_none() && rule.prompt.is_empty();
        for (nth, rule) in (0..).zip(&all).filter(|(_, rule)| judge_calls(rule)) {
            let commands = &rule.acts.commands;
            if rule.closed || rule.broken.is_some() || commands.is_empty() {
                rules.general.push(nth);
                continue;
            }
            for Command {
                program, is_glob, ..
            } in commands
            {
                match is_glob {
                    true => rules.by_glob.push((program.clone(), nth)),
                    false => {
                        let same = rules.by_program.entry(program.clone());
                        same.or_default().push(nth);
                    }
                }
            }
        }
        Self { all, ..rules }
    }

    /// What the rules find in a call.
    pub fn matches(&self, scene: &Scene<'_>) -> Vec<(&Arc<Rule>, Match)> {
        let mut candidates: Vec<(u32, u32)> = Vec::new();
        let mut known = 0;
        for (act, number) in scene.call.acts.iter().zip(&scene.seen.programs) {
            let module = is_module(act)
                .then(|| operands(act, false).next())
                .flatten();
            if *number < known && module.is_none() {
                continue;
            }
            known = known.max(number + 1);
            for name in [Some(&*act.program), module].into_iter().flatten() {
                let rules = self.by_program.get(name).into_iter().flatten();
                let globs = self
                    .by_glob
                    .iter()
                    .filter(|it| it.0 == name || word_matches(&it.0, name));
                let rules = rules.chain(globs.map(|(_, rule)| rule));
                candidates.extend(rules.map(|rule| (*rule, *number)));
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        let by_program = candidates.chunk_by(|one, other| one.0 == other.0);
        let by_program = by_program.map(|programs| (programs[0].0, programs));
        let general = self.general.iter().map(|rule| (*rule, &[][..]));
        let found = by_program.chain(general).filter_map(|(nth, programs)| {
            let rule = &self.all[nth as usize];
            Some((nth, rule.matches(scene, programs)?))
        });
        let mut found: Vec<(u32, Match)> = found.collect();
        found.sort_by_key(|(nth, _)| *nth);
        let with_rule = |(nth, found)| (&self.all[nth as usize], found);
        found.into_iter().map(with_rule).collect()
    }
}

impl std::ops::Deref for Rules {
    type Target = [Arc<Rule>];

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Rule {
    /// Whether the rule wants to say something about this call. `programs`: the numbers of those that its
    /// commands may mean, or none for all.
    fn matches(&self, scene: &Scene<'_>, programs: &[(u32, u32)]) -> Option<Match> {
        // Most rules are about paths that the call does not touch.
        let touches = &self.touches;
        let may_hold = touches.is_empty() || touches.wanted.meet(&scene.seen.any_touch);
        let judges = may_hold || self.closed || self.broken.is_some();
        if !judges || !self.concerns(scene) {
            return None;
        }
        if let Some(why) = &self.broken {
            return Some(Match::Unsure(why.clone()));
        }
        self.found(scene, programs)
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
        // A rule about Bash is one about every tool that runs shell commands.
        let is_meant =
            self.tools.matches(scene.tool) || is_shell(scene.tool) && self.tools.matches("Bash");
        is_meant
            && is_one(&self.modes, scene.mode.unwrap_or("default"))
            && is_one(&self.agents, scene.agent.unwrap_or("main"))
    }

    fn found(&self, scene: &Scene<'_>, programs: &[(u32, u32)]) -> Option<Match> {
        let mut found = None;
        if !self.patterns.is_empty() {
            let command = command_line(scene.tool, scene.input)?;
            let is_in = |text: &&Finder<'_>| text.find(command.as_bytes()).is_some();
            let pattern = self.patterns.iter().find(is_in)?.needle();
            let pattern = String::from_utf8_lossy(pattern).into_owned();
            found = Some(Match::Pattern(pattern));
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
        let is_meant = |program: &u32| {
            programs.is_empty() || programs.iter().any(|(_, number)| number == program)
        };
        let acts = scene.call.acts.iter().zip(&scene.seen.programs);
        for (nth, (act, _)) in acts.enumerate().filter(|(_, (_, it))| is_meant(it)) {
            if self.touches.is_empty() {
                if self.acts.take(act) {
                    return found.or(Some(Match::Program(act.program.clone())));
                }
                continue;
            }
            let path = self.touched(scene.seen.of_act(Some(nth)), scene);
            if path.is_some() && self.acts.take(act) {
                return found.or(path);
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
    /// Each list allows everything if it is empty.
    pub fn new(paths: Paths, access: &[Access], zones: &[Zone], recursive: Option<bool>) -> Self {
        let bits = |bits: u16| if bits == 0 { u16::MAX } else { bits };
        let wanted = Traits {
            access: bits(access.iter().fold(0, |all, it| all | 1 << *it as u16)),
            zones: bits(zones.iter().fold(0, |all, it| all | 1 << *it as u16)),
            ends: paths.ends(),
        };
        Self {
            paths,
            recursive,
            wanted,
        }
    }

    fn is_empty(&self) -> bool {
        let (access, zones) = (self.wanted.access, self.wanted.zones);
        self.paths.is_empty() && access == u16::MAX && zones == u16::MAX
    }

    fn takes_access(&self, touch: &Touch) -> bool {
        self.wanted.access & 1 << touch.access as u16 != 0
    }

    /// Whether this touch of the call is meant.
    fn take(&self, nth: usize, scene: &Scene<'_>) -> bool {
        let (touch, places) = (&scene.call.touches[nth], &scene.seen.places[nth]);
        if !self.takes_access(touch) || self.recursive.is_some_and(|it| it != touch.recursive) {
            return false;
        }
        // A search through the whole home or project is no reading of each key in it, and unpacking
        // there no writing.
        let is_vital = places[0].is_some_and(|(zone, _)| zone == Zone::Vital);
        let with_below = touch.recursive && (touch.access == Access::Delete || !is_vital);
        let paths = [Some(&touch.path), touch.real.as_ref()];
        let mut both = paths.into_iter().flatten().zip(places.iter().flatten());
        both.any(|(path, (zone, located))| {
            self.wanted.zones & 1 << *zone as u16 != 0
                && (self.paths.is_empty()
                    || self
                        .paths
                        .matches(folder_of(touch, path), located, with_below))
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
