//! `becket hooks`: the named hooks of this project, and whether each runs in this session.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use becket_engine::config::Origin;
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn};
use becket_engine::hooks::name::{self, Match};
use becket_engine::hooks::slash::{Scene, Verb, act, states};
use becket_engine::hooks::switch::{self, State, Switches};
use becket_engine::hooks::{Action, Hook};
use becket_wire::event::EventName;
use serde_json::{Value, json};

use crate::switch as switching;
use crate::switch::Meant;
use crate::ui::style::{BOLD, DIM, GOOD, Look, WARN};
use crate::ui::table::{Cell, Column, bare};
use crate::ui::text::one_line;
use crate::world::{World, project_of};

/// List the named hooks of this project, and whether each runs in this session
#[derive(Debug, clap::Args)]
pub struct Hooks {
    /// Only those with this in their name; - reads it from stdin
    #[arg(value_name = "NAME")]
    hook: Option<String>,
    /// Also the built-in hooks that no config names
    #[arg(long, short)]
    all: bool,
    /// The session: any unique beginning of its id, or its title (inside Claude Code: its own)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// For slash commands: say it in their words, and exit with 0 whatever happens
    #[arg(long, conflicts_with_all = ["all", "json"])]
    slash: bool,
    /// Print the names alone, a line each
    #[arg(long, conflicts_with_all = ["slash", "json"])]
    names: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Hooks {
    pub fn run(self, world: &World) -> Result<ExitCode> {
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
        let name = switching::name(self.hook)?;
        let meant = Meant::if_any(world, self.session.as_deref())?;
        let project = match &meant {
            Some(meant) => meant.project.clone(),
            None => project_of(&world.cwd).to_path_buf(),
        };
        let hooks = switching::configured(world, &project);
        let wanted = match name::find(&name, hooks.iter().map(|hook| &*hook.name)) {
            _ if name.is_empty() => None,
            Match::One(one) => Some(vec![one.to_owned()]),
            Match::Several(several) => Some(several.into_iter().map(str::to_owned).collect()),
            Match::None { .. } => Some(Vec::new()),
        };
        let is_missing = wanted.as_ref().is_some_and(Vec::is_empty);
        if self.slash || is_missing {
            return Ok(say(world, meant.as_ref(), &hooks, &name, self.slash));
        }
        let switches = match &meant {
            Some(meant) => switches(world, meant),
            None => Switches::default(),
        };
        let mut rows: Vec<Row<'_>> = states(&hooks, &switches, None)
            .into_iter()
            .map(|(hook, state)| Row::Named(hook, state))
            .collect();
        let is_named = |built_in: &BuiltIn| hooks.iter().any(|hook| hook.name == built_in.name);
        if self.all {
            let others = BUILT_INS.iter().filter(|it| !is_named(it));
            rows.extend(others.map(Row::Unnamed));
        }
        rows.retain(|row| {
            let wanted = wanted.as_ref();
            wanted.is_none_or(|names| names.iter().any(|name| name == row.name()))
        });
        if self.json {
            let rows: Vec<Value> = rows.iter().map(Row::json).collect();
            println!("{}", serde_json::to_string(&rows)?);
        } else if self.names {
            rows.iter().for_each(|row| println!("{}", row.name()));
        } else if rows.is_empty() {
            println!(
                "No hooks are configured for this project. `becket hooks --all` shows those that becket brings along."
            );
        } else {
            anstream::print!("{}", table(&rows, &Look::of_stdout()));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// In the words of `/hook:status`.
fn say(
    world: &World,
    meant: Option<&Meant>,
    hooks: &[Arc<Hook>],
    name: &str,
    slash: bool,
) -> ExitCode {
    let scene = Scene {
        place: &world.place,
        session: meant.map_or("", |meant| &meant.session),
        cwd: &world.cwd,
        agent_type: None,
        hooks,
    };
    let acted = act(Verb::Status, name, &scene);
    println!("{}", acted.lines);
    ExitCode::from(if slash { 0 } else { acted.exit })
}

/// The session's switches. A damaged file is set aside, and told of.
fn switches(world: &World, meant: &Meant) -> Switches {
    let warn = |what: String| {
        anstream::eprintln!("{WARN}warning:{WARN:#} {what}");
    };
    match switch::set_aside(&world.place, &meant.session) {
        Ok(None) => {}
        Ok(Some(aside)) => warn(format!(
            "the switches of this session were damaged and count as empty: set aside as {}",
            aside.display()
        )),
        Err(error) => warn(error.to_string()),
    }
    Switches::read(&world.place, &meant.session).switches
}

/// One line of the list.
enum Row<'a> {
    Named(&'a Hook, State),
    /// A built-in that no config names.
    Unnamed(&'static BuiltIn),
}

impl Row<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Named(hook, _) => &hook.name,
            Self::Unnamed(built_in) => built_in.name,
        }
    }

    fn state(&self) -> String {
        match self {
            Self::Named(_, state) => one_line(&state.to_string()),
            Self::Unnamed(_) => "not configured".to_owned(),
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
                json["declared"] = place(&hook.declared);
                json["off"] = hook.off.as_ref().map_or(Value::Null, place);
                json["skip_agents"] = json!(hook.skip_agents);
                json["timeout_ms"] = json!(hook.timeout.as_millis() as u64);
                json["async"] = json!(hook.is_async);
            }
        }
        json
    }
}

/// What set a value, for scripts.
fn place(origin: &Origin) -> Value {
    json!({"level": origin.level.name(), "file": origin.file, "line": origin.line})
}

/// Nothing of a line is cut: it is all that there is to know.
const COLUMNS: [Column; 4] = [
    Column::left("", 0),
    Column::left("", 0).wrapped(16),
    Column::left("", 1).wrapped(18),
    Column::left("", 2).wrapped(22),
];

fn table(rows: &[Row<'_>], look: &Look) -> String {
    let cells = |row: &Row<'_>| {
        let style = match row {
            Row::Named(_, State::Enabled) => GOOD,
            Row::Named(..) => WARN,
            Row::Unnamed(_) => DIM,
        };
        [
            Cell::new(row.name(), BOLD),
            Cell::new(row.state(), style),
            Cell::new(row.events().join(", "), DIM),
            Cell::plain(row.description()),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    bare(COLUMNS, &rows, look)
}
