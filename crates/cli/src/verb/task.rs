//! `becket effort task`: folders in which work is gathered.

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_wire::effort::{EffortDo, EffortTold, TaskRow};
use serde_json::{Value, json};

use crate::ui::style::{BOLD, DIM, GOOD, Look, Tell};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::{count, one_line};
use crate::verb::effort::efforts_table;
use crate::work::{Which, ask, ask_as, caller, effort_json, refusal, task_json, unexpected};
use crate::world::World;

/// Gather work in a folder: its efforts, logs, plans and debriefs
#[derive(Debug, clap::Args)]
pub struct Task {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    New(New),
    List(List),
    Show(Show),
}

/// Turn a folder into a task, or rename its task
#[derive(Debug, clap::Args)]
struct New {
    /// The folder; it is made if it is not there (default: this one)
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Words to find it by, separated by commas
    #[arg(long, value_name = "WORDS", value_delimiter = ',')]
    keywords: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the tasks of this project
#[derive(Debug, clap::Args)]
struct List {
    /// Those of all projects
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show a task and its efforts
#[derive(Debug, clap::Args)]
struct Show {
    /// The task (default: that of the effort that is worked on here, else of the project)
    #[arg(value_name = "ID")]
    id: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Task {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            Verb::New(verb) => verb.run(world)?,
            Verb::List(verb) => verb.run(world)?,
            Verb::Show(verb) => verb.run(world)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl New {
    fn run(self, world: &World) -> Result<()> {
        let caller = caller(world, &Which::default())?;
        let folder = world.cwd.join(self.folder.unwrap_or_default());
        let shown = folder.display();
        // The daemon would refuse it too, but by then the folder would be there.
        if !lies_within(&folder, Path::new(&caller.project)) {
            let project = &caller.project;
            let why = format!("a task lies in its project: {shown} is outside of {project}");
            return Err(refusal(&why));
        }
        let failed = || format!("could not make {shown}");
        std::fs::create_dir_all(&folder).with_context(failed)?;
        let folder = folder.canonicalize().with_context(failed)?;
        let keywords = self.keywords.iter().map(|word| word.trim().to_owned());
        let new = EffortDo::TaskNew {
            folder: folder.to_string_lossy().into_owned(),
            title: self.title,
            keywords: keywords.filter(|word| !word.is_empty()).collect(),
        };
        show(ask_as(world, caller, new)?, self.json)
    }
}

/// Returns true if a folder lies in the project, or would be made there.
fn lies_within(folder: &Path, project: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let found = folder
        .ancestors()
        .find_map(|known| Some((real(known)?, folder.strip_prefix(known).ok()?)));
    let (Some((known, rest)), Some(project)) = (found, real(project)) else {
        return false;
    };
    // From a folder that is not there yet, `..` could lead anywhere.
    known.starts_with(project) && !rest.components().any(|part| part == Component::ParentDir)
}

const LIST: [Column; 5] = [
    Column::right("ID", 0),
    Column::left("STATE", 1),
    Column::right("EFFORTS", 2),
    Column::left("TITLE", 0).cut_to(16),
    Column::left("FOLDER", 3),
];

impl List {
    fn run(self, world: &World) -> Result<()> {
        let told = ask(world, &Which::default(), EffortDo::Tasks { all: self.all })?;
        let EffortTold::Tasks(tasks) = told else {
            return Err(unexpected(&told));
        };
        if self.json {
            let all: Vec<Value> = tasks.iter().map(task_json).collect();
            println!("{}", Value::from(all));
        } else if tasks.is_empty() {
            println!("No tasks. Begin one: becket effort task new FOLDER --title TEXT");
        } else {
            let row = |task: &TaskRow| {
                let (state, style) = match task.active {
                    true => ("active", GOOD),
                    false => ("dormant", DIM),
                };
                [
                    Cell::new(task.id.to_string(), BOLD),
                    Cell::new(state, style),
                    Cell::plain(task.efforts.to_string()),
                    Cell::plain(task.title.as_deref().unwrap_or("-")),
                    Cell::new(&task.folder, DIM),
                ]
            };
            let rows: Vec<_> = tasks.iter().map(row).collect();
            anstream::print!("{}", grid(LIST, &rows, &Look::of_stdout()));
        }
        Ok(())
    }
}

impl Show {
    fn run(self, world: &World) -> Result<()> {
        let what = EffortDo::TaskShow { task: self.id };
        show(ask(world, &Which::default(), what)?, self.json)
    }
}

fn show(told: EffortTold, as_json: bool) -> Result<()> {
    let EffortTold::Task { task, efforts } = told else {
        return Err(unexpected(&told));
    };
    if as_json {
        let mut all = task_json(&task);
        all["efforts"] = json!(efforts.iter().map(effort_json).collect::<Vec<_>>());
        println!("{all}");
        return Ok(());
    }
    let mut tell = Tell::new();
    let id = format!(
        "{} ({})",
        task.id,
        if task.active { "active" } else { "dormant" }
    );
    tell.field("task", id);
    if let Some(title) = &task.title {
        tell.field("title", one_line(title));
    }
    if !task.keywords.is_empty() {
        tell.field("keywords", one_line(&task.keywords.join(", ")));
    }
    tell.field("folder", one_line(&task.folder));
    tell.field("efforts", count(efforts.len(), "effort", "efforts"));
    tell.print();
    if !efforts.is_empty() {
        anstream::print!("\n{}", efforts_table(&efforts, &Look::of_stdout()));
    }
    Ok(())
}
