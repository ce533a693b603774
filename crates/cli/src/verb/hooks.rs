//! `becket hooks`: lists the named hooks of this project with their states, and switches hooks in the user's config.

mod adopt;
mod hook_stats;
mod profile;
mod recent;
mod try_hook;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use becket_engine::config::Origin;
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn};
use becket_engine::hooks::name::{self, Match};
use becket_engine::hooks::slash::{SlashContext, SlashVerb, act, nothing_configured, states};
use becket_engine::hooks::switch::{self, HookState, Switches};
use becket_engine::hooks::{Action, Hook};
use becket_wire::event::EventName;
use serde_json::{Value, json};

use super::up;
use crate::failure::{Code, Failure};
use crate::switch::{SwitchArgs, SwitchTarget, project_config, read_names};
use crate::ui::style::{BOLD, DIM, GOOD, Look, WARN};
use crate::ui::table::{Cell, Column, bare};
use crate::ui::text::{count, one_line, visible};
use crate::world::{World, project_of};

/// List this project's hooks, and whether each runs in this session
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HooksArgs {
    #[command(subcommand)]
    verb: Option<HooksVerb>,
    /// Only those with this in their name; - reads it from stdin
    #[arg(value_name = "NAME")]
    hook: Vec<String>,
    /// Also the built-in hooks that no config names
    #[arg(long, short)]
    all: bool,
    /// The session: the first characters of its id, or its title (inside Claude Code: its own)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// For slash commands: print their wording, and always exit with 0
    #[arg(long, conflicts_with_all = ["all", "json"])]
    slash: bool,
    /// Print the names alone, a line each
    #[arg(long, conflicts_with_all = ["slash", "json"])]
    names: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum HooksVerb {
    /// Switch hooks on in your config, for every session
    On(HookNames),
    /// Switch hooks off: in your config for every session, with --session for one
    Off(HooksOff),
    Recent(recent::HooksRecent),
    Stats(hook_stats::HooksStats),
    Profile(profile::HooksProfile),
    Try(try_hook::HooksTry),
    Adopt(adopt::HooksAdopt),
}

#[derive(Debug, clap::Args)]
struct HookNames {
    /// The hooks: their names, or parts that only one has
    #[arg(value_name = "NAME", required = true)]
    hook: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct HooksOff {
    #[command(flatten)]
    names: HookNames,
    /// Only in one session, as `becket disable` does: the first characters of its id, or its title
    /// (default: the session that you are in, or the one of this project)
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "")]
    session: Option<String>,
}

impl HooksVerb {
    fn run(self, world: &World) -> Result<ExitCode> {
        match self {
            Self::On(names) => names.switch("hooks on", true, world),
            Self::Off(HooksOff { names, session }) if session.is_some() => {
                SwitchArgs::new(names.hook, session).run(SlashVerb::Disable, world)
            }
            Self::Off(HooksOff { names, .. }) => names.switch("hooks off", false, world),
            Self::Recent(verb) => verb.run(world),
            Self::Stats(verb) => verb.run(world),
            Self::Profile(verb) => verb.run(world),
            Self::Try(verb) => verb.run(world),
            Self::Adopt(verb) => {
                world.refuse_set("hooks adopt")?;
                verb.run(world)
            }
        }
    }
}

impl HookNames {
    /// Switches the hooks in the user's config.
    fn switch(self, verb: &str, on: bool, world: &World) -> Result<ExitCode> {
        world.refuse_set(verb)?;
        world.refuse_inside_claude(verb)?;
        let project = project_of(&world.cwd);
        let hooks = project_config(world, project).hooks.clone();
        let typed = self.hook.join(" ");
        let typed = name::words(&typed).into_iter();
        let names = typed.map(|typed| find_switchable(typed, on, &hooks, world));
        let names: Vec<String> = names.collect::<Result<_>>()?;
        let written: Vec<&str> = names.iter().map(|name| &**name).collect();
        up::change(world, "[hooks]", |text| up::switched(text, &written, on))?;
        let now = world.loader(Some(project)).current();
        for name in &names {
            tell(name, on, &now.hooks, world);
        }
        let mut switched = now.hooks.iter().filter(|hook| names.contains(&hook.name));
        if on
            && switched.any(|hook| hook.untrusted)
            && let Some(warning) = untrusted_warning(world, project)
        {
            anstream::eprintln!("{WARN}warning:{WARN:#} {warning}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Finds the hook that a name means. Fails if the user's config may not switch it.
fn find_switchable(typed: &str, on: bool, hooks: &[Arc<Hook>], world: &World) -> Result<String> {
    let name = find(typed, hooks).map_err(|error| {
        let Some(guard) = guard(world, project_of(&world.cwd), typed) else {
            return error;
        };
        let set = format!("write [guards.{guard}] and enabled = {on}");
        let what = format!("{guard} is a guard, not a hook");
        let hint = format!("{set} into {}", world.place.config().display());
        Failure::new(Code::Missing, what).hint(hint).into()
    })?;
    if let Some(hook) = hooks.iter().find(|hook| hook.name == name && hook.managed) {
        let what = format!("{name} is managed on this machine: {}", hook.declared);
        return Err(Failure::new(Code::Failed, what).into());
    }
    Ok(name)
}

/// Reports that a hook was switched, and warns if the switch has no effect in this project.
fn tell(name: &str, on: bool, hooks: &[Arc<Hook>], world: &World) {
    let word = if on { "on" } else { "off" };
    println!(
        "{name} is {word} from the next event, in every session ({})",
        visible(&world.place.config().to_string_lossy())
    );
    let Some(hook) = hooks.iter().find(|hook| hook.name == name) else {
        return;
    };
    let warning = match (&hook.off, on) {
        (Some(origin), true) => {
            let origin = visible(&origin.to_string());
            format!("not here: {origin} switches it off")
        }
        (None, false) => "not here: a file of this project switches it on".to_owned(),
        _ => return,
    };
    anstream::eprintln!("{WARN}warning:{WARN:#} {warning}");
}

/// Returns the id of the guard with this name, in capital or small letters.
fn guard(world: &World, project: &Path, name: &str) -> Option<String> {
    let config = world.loader(Some(project)).current();
    let mut ids = config.guards.iter().map(|guard| &guard.id);
    ids.find(|id| id.eq_ignore_ascii_case(name)).cloned()
}

/// Finds the hook that a name means, among those of the config and the built-in ones.
fn find(typed: &str, hooks: &[Arc<Hook>]) -> Result<String> {
    let named = hooks.iter().map(|hook| &*hook.name);
    let names: BTreeSet<&str> = named.chain(BUILT_INS.iter().map(|it| it.name)).collect();
    let (code, what, hint) = match name::find(typed, names) {
        Match::One(name) => return Ok(name.to_owned()),
        Match::Several(several) => {
            let what = format!("several hooks match `{}`", one_line(typed));
            (Code::Usage, what, several.join(", "))
        }
        Match::None { nearest } => {
            let what = format!("no hook is called `{}`", one_line(typed));
            let hint = match nearest {
                Some(near) => format!("did you mean {near}?"),
                None => "becket hooks --all lists them; becket hooks adopt takes over hooks of Claude Code's settings files".to_owned(),
            };
            (Code::Missing, what, hint)
        }
    };
    Err(Failure::new(code, what).hint(hint).into())
}

impl HooksArgs {
    pub fn run(mut self, world: &World) -> Result<ExitCode> {
        if let Some(verb) = self.verb.take() {
            return verb.run(world);
        }
        let slash = self.slash;
        match self.list(world) {
            Err(error) if slash => {
                println!("❌ {error:#}");
                Ok(ExitCode::SUCCESS)
            }
            listed => listed,
        }
    }

    fn list(self, world: &World) -> Result<ExitCode> {
        let name = read_names(&self.hook)?;
        let target = SwitchTarget::find_if_named(world, self.session.as_deref())?;
        let project = match &target {
            Some(target) => target.project.clone(),
            None => project_of(&world.cwd).to_path_buf(),
        };
        let hooks = project_config(world, &project).hooks.clone();
        let wanted = match name::words(&name)[..] {
            [] => None,
            ref typed => Some(find_all(typed, &hooks, self.all)),
        };
        let is_missing = wanted.as_ref().is_some_and(Vec::is_empty);
        if self.slash || is_missing {
            return Ok(print_status(
                world,
                target.as_ref(),
                &hooks,
                &name,
                self.slash,
            ));
        }
        let switches = match &target {
            Some(target) => switches(world, target),
            None => Switches::default(),
        };
        let mut rows: Vec<HookRow<'_>> = states(&hooks, &switches, None)
            .into_iter()
            .map(|(hook, state)| HookRow::Named(hook, state))
            .collect();
        if self.all {
            let others = BUILT_INS
                .iter()
                .filter(|it| hooks.iter().all(|hook| hook.name != it.name));
            rows.extend(others.map(HookRow::Unnamed));
        }
        rows.retain(|row| {
            let wanted = wanted.as_ref();
            wanted.is_none_or(|names| names.iter().any(|name| name == row.name()))
        });
        if self.json {
            let rows: Vec<Value> = rows.iter().map(HookRow::json).collect();
            println!("{}", crate::ui::text::json(&rows)?);
        } else if self.names {
            rows.iter().for_each(|row| println!("{}", row.name()));
        } else if rows.is_empty() {
            let none = nothing_configured();
            println!("{none} `becket hooks --all` shows the built-in ones.");
        } else {
            anstream::print!("{}", table(&rows, &Look::of_stdout()));
            if (rows.iter()).any(|row| matches!(row, HookRow::Named(_, HookState::NotTrusted)))
                && let Some(warning) = untrusted_warning(world, &project)
            {
                anstream::println!("\n{WARN}{warning}{WARN:#}");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns all hooks that these words mean. Returns none if a word means no hook.
fn find_all(typed: &[&str], hooks: &[Arc<Hook>], with_built_ins: bool) -> Vec<String> {
    let mut all = Vec::new();
    let built_ins = BUILT_INS.iter().filter(|_| with_built_ins);
    for word in typed {
        let configured = hooks.iter().map(|hook| &*hook.name);
        let names: BTreeSet<&str> = configured
            .chain(built_ins.clone().map(|it| it.name))
            .collect();
        match name::find(word, names) {
            Match::One(one) => all.push(one.to_owned()),
            Match::Several(several) => all.extend(several.into_iter().map(str::to_owned)),
            Match::None { .. } => return Vec::new(),
        }
    }
    all
}

/// Returns a warning with the number of hooks that do not run because the project is not trusted.
pub fn untrusted_warning(world: &World, project: &Path) -> Option<String> {
    let config = world.loader(Some(project)).current();
    let waiting = config.untrusted_hooks().count();
    if waiting == 0 {
        return None;
    }
    let hooks = count(waiting, "hook does", "hooks do");
    let why = if config.project.as_ref()?.can_be_trusted() {
        "nothing here until you run `becket trust`: this project is not trusted."
    } else {
        "nothing here: this folder is no project (it has neither a .git nor a .becket/)."
    };
    Some(format!("{hooks} {why}"))
}

/// Prints the states as `/hook:status` does.
fn print_status(
    world: &World,
    target: Option<&SwitchTarget>,
    hooks: &[Arc<Hook>],
    name: &str,
    slash: bool,
) -> ExitCode {
    let context = SlashContext {
        place: &world.place,
        session: target.map_or("", |target| &target.session),
        cwd: &world.cwd,
        agent_type: None,
        hooks,
        guards: &[],
    };
    let reply = act(SlashVerb::Status, name, &context);
    println!("{}", reply.lines);
    ExitCode::from(if slash { 0 } else { reply.exit })
}

/// Reads the session's switches. A damaged file is set aside, with a warning.
fn switches(world: &World, target: &SwitchTarget) -> Switches {
    let warning = match switch::set_aside(&world.place, &target.session) {
        Ok(None) => None,
        Ok(Some(aside)) => Some(format!(
            "the switches of this session were damaged and count as empty: set aside as {}",
            aside.display()
        )),
        Err(error) => Some(error.to_string()),
    };
    if let Some(warning) = warning {
        anstream::eprintln!("{WARN}warning:{WARN:#} {warning}");
    }
    Switches::read(&world.place, &target.session).switches
}

/// A line of the list.
enum HookRow<'a> {
    Named(&'a Hook, HookState),
    /// A built-in that no config names.
    Unnamed(&'static BuiltIn),
}

impl HookRow<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Named(hook, _) => &hook.name,
            Self::Unnamed(built_in) => built_in.name,
        }
    }

    fn state(&self) -> String {
        match self {
            Self::Named(_, state) => one_line(&state.to_string()),
            Self::Unnamed(_) => "off".to_owned(),
        }
    }

    fn events(&self) -> Vec<&str> {
        match self {
            Self::Named(hook, _) => hook.on.iter().map(EventName::as_str).collect(),
            Self::Unnamed(built_in) => built_in.on.iter().map(EventName::as_str).collect(),
        }
    }

    fn description(&self) -> String {
        match self {
            Self::Named(hook, _) => one_line(&hook.description),
            Self::Unnamed(built_in) => built_in.description.to_owned(),
        }
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "name": self.name(),
            "description": self.description(),
            "on": self.events(),
        });
        match self {
            Self::Unnamed(_) => {
                json["state"] = json!("not_configured");
                json["built_in"] = json!(true);
            }
            Self::Named(hook, state) => {
                json["state"] = json!(state.word());
                json["built_in"] = json!(matches!(hook.action, Action::BuiltIn(..)));
                json["declared"] = origin_json(&hook.declared);
                json["off"] = hook.off.as_ref().map_or(Value::Null, origin_json);
                json["skip_agents"] = json!(hook.skip_agents);
                json["timeout_ms"] = json!(hook.timeout.as_millis() as u64);
                json["async"] = json!(hook.is_async);
            }
        }
        json
    }
}

/// Renders the origin of a value for scripts.
fn origin_json(origin: &Origin) -> Value {
    json!({"level": origin.level.name(), "file": origin.file, "line": origin.line})
}

/// The columns of the list. None of them is cut, since no other verb shows these texts.
const COLUMNS: [Column; 4] = [
    Column::left("", 0),
    Column::left("", 0).wrapped(16),
    Column::left("", 1).wrapped(18),
    Column::left("", 2).wrapped(22),
];

fn table(rows: &[HookRow<'_>], look: &Look) -> String {
    let rows: Vec<_> = rows.iter().map(cells).collect();
    bare(COLUMNS, &rows, look)
}

fn cells(row: &HookRow<'_>) -> [Cell; COLUMNS.len()] {
    let style = match row {
        HookRow::Named(_, HookState::Enabled) => GOOD,
        HookRow::Named(..) => WARN,
        HookRow::Unnamed(_) => DIM,
    };
    [
        Cell::new(row.name(), BOLD),
        Cell::new(row.state(), style),
        Cell::new(row.events().join(", "), DIM),
        Cell::plain(row.description()),
    ]
}
