//! `becket effort`: work that outlives windows and sessions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use becket_wire::effort::{Artifact, EffortDo, EffortRow, EffortTold, MessageRow, WindowRow};
use serde_json::{Value, json};

use crate::failure::{Code, Failure};
use crate::ui::style::{BAD, BOLD, DIM, GOOD, Look, Tell};
use crate::ui::table::{Cell, Column, bare, grid};
use crate::ui::text::{count, is_inert, one_line};
use crate::ui::time::{about, clock};
use crate::work::{Which, ask, effort_json, message_json, read_text, unexpected, window_json};
use crate::world::{World, is_inside_claude};

/// Work through a skill, in as many sessions as it takes
#[derive(Debug, clap::Args)]
pub struct Effort {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Start(Start),
    Phase(Phase),
    Log(Log),
    Plan(Plan),
    Debrief(Debrief),
    Dehydrate(Dehydrate),
    Resume(Resume),
    Finish(Finish),
    List(List),
    Show(Show),
    Task(super::task::Task),
}

/// Begin an effort of a skill: brainstorm, implement, fix, prd, or one of your own
///
/// Without a task it belongs to the project's own. Inside Claude Code, the session works on it from now
/// on; otherwise the next session that starts here does.
#[derive(Debug, clap::Args)]
struct Start {
    /// The skill: `[skills.NAME]` of the configuration
    #[arg(value_name = "SKILL")]
    skill: String,
    /// The task that it belongs to
    #[arg(long, value_name = "ID")]
    task: Option<i64>,
    /// What it is about
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// A word of yours for how it is done
    #[arg(long, value_name = "WORD")]
    mode: Option<String>,
    /// Read the title from stdin: a slash command's arguments
    #[arg(long, hide = true, value_name = "-", conflicts_with = "title")]
    slash: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Go on to a phase of the skill
#[derive(Debug, clap::Args)]
struct Phase {
    /// The phase; `loading` pauses the heartbeat while files are read
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    which: Which,
}

/// Write a line into the effort's log, and set its heartbeat to 0
#[derive(Debug, clap::Args)]
pub struct Log {
    /// What was done and what comes next (- reads stdin)
    #[arg(value_name = "TEXT", required = true, allow_hyphen_values = true)]
    text: Vec<String>,
    #[command(flatten)]
    which: Which,
}

/// Keep a plan with the effort: a file, or - for stdin
#[derive(Debug, clap::Args)]
struct Plan {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// Keep a debrief with the effort: a file, or - for stdin
#[derive(Debug, clap::Args)]
struct Debrief {
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// Hand the work over to the next context window
///
/// The file, or stdin, is JSON: {"summary": "…", "lastAction": "…", "nextSteps": "…",
/// "handoverInstructions": "…", "requiredFiles": ["at most 8 paths"]}, or Markdown with these names as
/// headings. Under `becket run --restart` a fresh Claude Code starts with it.
#[derive(Debug, clap::Args)]
struct Dehydrate {
    /// The file (default: stdin)
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// Go on with an effort: inside Claude Code in this session, otherwise in the next one
#[derive(Debug, clap::Args)]
struct Resume {
    /// The effort (default: the latest active one of this project)
    #[arg(value_name = "ID")]
    id: Option<i64>,
}

/// Finish the effort
#[derive(Debug, clap::Args)]
struct Finish {
    #[command(flatten)]
    which: Which,
}

/// List the efforts of this project, the newest first
#[derive(Debug, clap::Args)]
struct List {
    /// Those of all projects
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show an effort: its phases, files and windows
#[derive(Debug, clap::Args)]
struct Show {
    /// The effort (default: the one that is worked on here)
    #[arg(value_name = "ID")]
    id: Option<i64>,
    /// What was logged, asked and answered in it, too
    #[arg(long)]
    dialogue: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Effort {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            Verb::Start(verb) => verb.run(world)?,
            Verb::Phase(verb) => {
                let phase = EffortDo::Phase { name: verb.name };
                let effort = one(ask(world, &verb.which, phase)?)?;
                println!("{}", label(&effort));
            }
            Verb::Log(verb) => return verb.run(world),
            Verb::Task(verb) => return verb.run(world),
            Verb::Plan(verb) => write(world, &verb.file, &verb.which, Artifact::Plan)?,
            Verb::Debrief(verb) => write(world, &verb.file, &verb.which, Artifact::Debrief)?,
            Verb::Dehydrate(verb) => verb.run(world)?,
            Verb::Resume(verb) => {
                let effort = one(ask(world, &Which::effort(verb.id), EffortDo::Resume)?)?;
                begun(world, &effort)?;
            }
            Verb::Finish(verb) => {
                let effort = one(ask(world, &verb.which, EffortDo::Finish)?)?;
                println!("finished {}", label(&effort));
            }
            Verb::List(verb) => verb.run(world)?,
            Verb::Show(verb) => verb.run(world)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn one(told: EffortTold) -> Result<EffortRow> {
    match told {
        EffortTold::Effort(effort) => Ok(effort),
        told => Err(unexpected(&told)),
    }
}

/// `effort 7 (2 implement, phase plan): Guest checkout`.
fn label(effort: &EffortRow) -> String {
    let phase = effort
        .phase
        .as_ref()
        .map(|phase| format!(", phase {phase}"));
    let title = effort.title.as_ref().map(|title| format!(": {title}"));
    let (id, ordinal, skill) = (effort.id, effort.ordinal, &effort.skill);
    let (phase, title) = (phase.unwrap_or_default(), title.unwrap_or_default());
    one_line(&format!("effort {id} ({ordinal} {skill}{phase}){title}"))
}

impl Start {
    fn run(self, world: &World) -> Result<()> {
        let title = match self.slash {
            Some(_) => Some(read_text(world, Path::new("-"))?.trim().to_owned()),
            None => self.title,
        };
        let start = EffortDo::Start {
            skill: self.skill,
            mode: self.mode,
            task: self.task,
            title,
        };
        let effort = one(ask(world, &Which::default(), start)?)?;
        match self.json {
            true => println!("{}", effort_json(&effort)),
            false => begun(world, &effort)?,
        }
        Ok(())
    }
}

/// Claude gets what a window of the effort begins with; a person, how to go on.
fn begun(world: &World, effort: &EffortRow) -> Result<()> {
    println!("{}", label(effort));
    if is_inside_claude() {
        let which = Which::effort(Some(effort.id));
        if let EffortTold::Text(text) = ask(world, &which, EffortDo::Context)? {
            println!("{text}");
        }
        return Ok(());
    }
    println!("its files lie in {}", one_line(&effort.folder));
    if !effort.held {
        println!("the next session here goes on with it: claude, or becket run --restart");
    }
    Ok(())
}

impl Log {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let text = match &self.text[..] {
            [dash] if dash == "-" => read_text(world, Path::new("-"))?,
            words => words.join(" "),
        };
        written(ask(world, &self.which, EffortDo::Log { text })?)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn write(world: &World, file: &Path, which: &Which, kind: Artifact) -> Result<()> {
    let text = read_text(world, file)?;
    if text.trim().is_empty() {
        let what = format!("{} has no text in it", file.display());
        return Err(Failure::new(Code::Failed, what)
            .hint("nothing was written")
            .into());
    }
    written(ask(world, which, EffortDo::Write { kind, text })?)
}

fn written(told: EffortTold) -> Result<()> {
    match told {
        EffortTold::Written { path, .. } => {
            println!("wrote {}", one_line(&path));
            Ok(())
        }
        told => Err(unexpected(&told)),
    }
}

impl Dehydrate {
    fn run(self, world: &World) -> Result<()> {
        let text = read_text(world, &self.file)?;
        let effort = one(ask(world, &self.which, EffortDo::Dehydrate { text })?)?;
        println!("the context of {} is handed over", label(&effort));
        println!("the next window begins with it; end your turn here");
        Ok(())
    }
}

const LIST: [Column; 7] = [
    Column::right("ID", 0),
    Column::left("EFFORT", 0),
    Column::left("PHASE", 1),
    Column::left("STATE", 0),
    Column::left("STARTED", 3),
    Column::left("SESSION", 4),
    Column::left("TITLE", 0).cut_to(12),
];

pub fn efforts_table(efforts: &[EffortRow], look: &Look) -> String {
    let row = |effort: &EffortRow| {
        let (state, style) = match (effort.finished_at, effort.held) {
            (Some(_), _) => ("finished", DIM),
            (None, true) => ("worked on", GOOD),
            (None, false) => ("active", BOLD),
        };
        let session = effort.session_id.as_deref().unwrap_or("-");
        [
            Cell::new(effort.id.to_string(), BOLD),
            Cell::plain(format!("{} {}", effort.ordinal, effort.skill)),
            Cell::plain(effort.phase.as_deref().unwrap_or("-")),
            Cell::new(state, style),
            Cell::new(ago(effort.started_at, look), DIM),
            Cell::new(&session[..session.floor_char_boundary(8)], DIM),
            Cell::plain(effort.title.as_deref().unwrap_or("-")),
        ]
    };
    let rows: Vec<_> = efforts.iter().map(row).collect();
    grid(LIST, &rows, look)
}

fn ago(at: i64, look: &Look) -> String {
    format!("{} ago", about(look.now_ms() - at))
}

impl List {
    fn run(self, world: &World) -> Result<()> {
        let told = ask(world, &Which::default(), EffortDo::List { all: self.all })?;
        let EffortTold::Efforts(efforts) = told else {
            return Err(unexpected(&told));
        };
        if self.json {
            let all: Vec<Value> = efforts.iter().map(effort_json).collect();
            println!("{}", Value::from(all));
        } else if efforts.is_empty() {
            println!("No efforts. Begin one: becket effort start SKILL --title TEXT");
        } else {
            anstream::print!("{}", efforts_table(&efforts, &Look::of_stdout()));
        }
        Ok(())
    }
}

impl Show {
    fn run(self, world: &World) -> Result<()> {
        let what = EffortDo::Show {
            dialogue: self.dialogue,
        };
        let told = ask(world, &Which::effort(self.id), what)?;
        let (effort, windows, messages) = match told {
            EffortTold::Shown {
                effort,
                windows,
                messages,
            } => (effort, windows, messages),
            EffortTold::None => return Err(crate::work::refusal("no effort is active here")),
            told => return Err(unexpected(&told)),
        };
        if self.json {
            let mut all = effort_json(&effort);
            all["windows"] = json!(windows.iter().map(window_json).collect::<Vec<_>>());
            if self.dialogue {
                all["dialogue"] = json!(messages.iter().map(message_json).collect::<Vec<_>>());
            }
            println!("{all}");
            return Ok(());
        }
        let look = Look::of_stdout();
        anstream::println!("{BOLD}{}{BOLD:#}", label(&effort));
        facts(&effort, &look).print();
        if !windows.is_empty() {
            let windows: Vec<_> = windows.iter().map(|window| cells(window, &look)).collect();
            anstream::print!("\n{}", grid(WINDOWS, &windows, &look));
        }
        if !messages.is_empty() {
            let rows: Vec<_> = messages.iter().map(|it| spoken(it, &look)).collect();
            anstream::print!("\n{}", bare(DIALOGUE, &rows, &look));
        }
        Ok(())
    }
}

fn facts(effort: &EffortRow, look: &Look) -> Tell {
    let mut tell = Tell::new();
    let began = ago(effort.started_at, look);
    match effort.finished_at {
        Some(at) => tell.field("finished", format!("{}, started {began}", ago(at, look))),
        None => tell.field("started", began),
    }
    if let Some(mode) = &effort.mode {
        tell.field("mode", one_line(mode));
    }
    let phases: Vec<&str> = effort.phases.iter().map(|phase| &*phase.name).collect();
    if !phases.is_empty() {
        tell.field("phases", one_line(&phases.join(" → ")));
    }
    if effort.held {
        let context = effort
            .context_pct
            .map(|used| format!(", context {used:.0} %"));
        let context = context.unwrap_or_default();
        let calls = count(effort.heartbeat as usize, "call", "calls");
        tell.field("heartbeat", format!("{calls} without a log entry{context}"));
    }
    if effort.exhausted {
        tell.field("context", format!("{BAD}ran out{BAD:#}"));
    }
    tell.field(
        "task",
        format!("{} in {}", effort.task, one_line(&effort.folder)),
    );
    for artifact in &effort.artifacts {
        tell.field(artifact.kind.word(), one_line(&artifact.path));
    }
    for file in &effort.directives {
        tell.field("directive", one_line(file));
    }
    tell
}

const WINDOWS: [Column; 5] = [
    Column::left("WINDOW", 0),
    Column::left("SESSION", 0),
    Column::left("AGENT", 1),
    Column::left("LASTED", 0),
    Column::left("HANDED OVER", 0).cut_to(12),
];

fn cells(window: &WindowRow, look: &Look) -> [Cell; WINDOWS.len()] {
    let until = window.ended_at.unwrap_or_else(|| look.now_ms());
    let handed = window.dehydrated.as_ref().map(|context| &*context.summary);
    let session = &window.session_id;
    [
        Cell::plain(&window.source),
        Cell::new(&session[..session.floor_char_boundary(8)], DIM),
        Cell::plain(window.agent_id.as_deref().unwrap_or("main")),
        Cell::plain(match window.ended_at {
            Some(_) => about(until - window.started_at),
            None => format!("{} so far", about(until - window.started_at)),
        }),
        Cell::plain(handed.unwrap_or("-")),
    ]
}

const DIALOGUE: [Column; 3] = [
    Column::left("", 1),
    Column::left("", 0),
    Column::left("", 0).wrapped(30),
];

fn spoken(message: &MessageRow, look: &Look) -> [Cell; DIALOGUE.len()] {
    let text: String = message
        .text
        .chars()
        .filter(|c| *c == '\n' || is_inert(*c))
        .collect();
    [
        Cell::new(clock(message.at, &look.now), DIM),
        Cell::new(&message.kind, BOLD),
        Cell::plain(text),
    ]
}
