//! `becket guard`: lists the guards, and tests them on commands and recorded calls.

mod backtest;
mod coverage;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use becket_engine::config::Snapshot;
use becket_engine::guard::act::{Access, Call};
use becket_engine::guard::rule::{Rule, Say};
use becket_engine::guard::sight::{Around, Found, Judged, Sight, judge_text};
use becket_engine::trust::Project;
use becket_wire::{EventId, Head};
use serde_json::{Value, json};

use crate::failure::{Code, Failure};
use crate::switch::project_config;
use crate::ui::style::{BAD, BOLD, DIM, GOOD, Look, WARN};
use crate::ui::table::{Cell, Column, grid};
use crate::ui::text::one_line;
use crate::world::{World, project_of};

/// List guards, and try them on a command or on past calls
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[command(subcommand)]
    verb: GuardVerb,
}

#[derive(Debug, clap::Subcommand)]
enum GuardVerb {
    List(GuardList),
    Test(GuardTest),
    Backtest(backtest::GuardBacktest),
    Coverage(coverage::GuardCoverage),
}

/// List the guards of this project: yours, the project's, and those that becket brings along
#[derive(Debug, clap::Args)]
struct GuardList {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show what the guards answer to a command, without running it
#[derive(Debug, clap::Args)]
struct GuardTest {
    /// The Bash command
    #[arg(value_name = "COMMAND", required_unless_present = "event")]
    command: Option<String>,
    /// Judge the event in this file instead (- is stdin)
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    event: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl GuardArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            GuardVerb::List(list) => list.run(world),
            GuardVerb::Test(test) => test.run(world),
            GuardVerb::Backtest(backtest) => backtest.run(world),
            GuardVerb::Coverage(coverage) => coverage.run(world),
        }
    }
}

/// The project in which guards judge a call.
struct GuardContext {
    config: Arc<Snapshot>,
    project: PathBuf,
    home: PathBuf,
}

impl GuardContext {
    fn around<'a>(&'a self, world: &'a World) -> Around<'a> {
        Around {
            rules: &self.config.guards,
            place: &world.place,
            home: &self.home,
            project: &self.project,
            registered_by_settings: true,
            stalled: false,
        }
    }
}

fn user_home() -> PathBuf {
    std::env::home_dir().unwrap_or_else(|| PathBuf::from("/"))
}

const LIST: [Column; 5] = [
    Column::left("GUARD", 0).cut_to(12),
    Column::left("ANSWER", 0),
    Column::left("STATE", 0),
    Column::left("FROM", 2),
    Column::left("REASON", 1).wrapped(24),
];

impl GuardList {
    fn run(self, world: &World) -> Result<ExitCode> {
        let config = project_config(world, project_of(&world.cwd));
        if self.json {
            let rules: Vec<Value> = config.guards.iter().map(|rule| rule_json(rule)).collect();
            println!("{}", Value::from(rules));
            return Ok(ExitCode::SUCCESS);
        }
        let rows: Vec<_> = config.guards.iter().map(|rule| cells(rule)).collect();
        anstream::print!("{}", grid(LIST, &rows, &Look::of_stdout()));
        if let Some(says) = config.project.as_ref().and_then(Project::message) {
            anstream::println!("\n{says}");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn cells(rule: &Rule) -> [Cell; LIST.len()] {
    let (state, style) = match (&rule.off, &rule.broken) {
        (Some(_), _) => ("off", DIM),
        (None, Some(_)) => ("broken", BAD),
        (None, None) => ("on", GOOD),
    };
    [
        Cell::new(&rule.id, BOLD),
        Cell::new(rule.say.name(), answer_style(rule.say)),
        Cell::new(state, style),
        Cell::new(rule.declared.to_string(), DIM),
        Cell::plain(rule.reason.clone().unwrap_or_default()),
    ]
}

fn rule_json(rule: &Rule) -> Value {
    json!({
        "id": rule.id,
        "answer": rule.say.name(),
        "enabled": rule.off.is_none(),
        "fail": if rule.closed { "closed" } else { "open" },
        "from": rule.declared.to_string(),
        "off_by": rule.off.as_ref().map(ToString::to_string),
        "reason": rule.reason,
        "instead": rule.instead,
        "broken": rule.broken,
    })
}

fn answer_style(say: Say) -> anstyle::Style {
    match say {
        Say::Deny | Say::Once => BAD,
        Say::Ask | Say::Warn => WARN,
    }
}

impl GuardTest {
    fn run(self, world: &World) -> Result<ExitCode> {
        let payload = match (&self.command, &self.event) {
            (Some(command), _) => json!({
                "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": world.cwd,
                "tool_input": { "command": command },
            })
            .to_string()
            .into_bytes(),
            (None, Some(file)) => read_event(file)?,
            (None, None) => Vec::new(),
        };
        let head = Head::read(&payload).map_err(|why| {
            Failure::new(Code::Failed, format!("could not read the event: {why}"))
        })?;
        let cwd = Path::new(head.cwd.as_deref().unwrap_or("/"));
        let project = project_of(cwd).to_path_buf();
        let context = GuardContext {
            config: project_config(world, &project),
            home: user_home(),
            project,
        };
        let began = Instant::now();
        let Judged { call, found } = judge(&head, &payload, &context.around(world));
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let first = found.first();
        if self.json {
            let answer = json!({
                "answer": first.map(|found| found.say.name()),
                "rule": first.map(|found| &found.rule.id),
                "reason": first.map(|found| &found.reason),
                "acts": call.acts,
                "paths": call.touches,
                "took_us": took_us,
            });
            println!("{answer}");
        } else {
            anstream::print!("{}", report(&call, &found, took_us));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn read_event(file: &Path) -> Result<Vec<u8>> {
    let read = if file.as_os_str() == "-" {
        let mut bytes = Vec::new();
        (std::io::stdin().lock().read_to_end(&mut bytes)).map(|_| bytes)
    } else {
        std::fs::read(file)
    };
    read.with_context(|| format!("could not read {}", file.display()))
}

/// Judges an event by the guards, regardless of passes that were given.
fn judge(head: &Head<'_>, payload: &[u8], around: &Around<'_>) -> Judged {
    let event = head.event.as_deref().unwrap_or_default().into();
    if let Some(tool) = head.tool.as_deref() {
        return judge_text(tool, head, around).1;
    }
    let sight = Sight::of(&event, EventId::new(0, [0; 2]), head, payload, around);
    Judged {
        call: Call::default(),
        found: sight.map(|sight| sight.found).unwrap_or_default(),
    }
}

fn report(call: &Call, found: &[Found], took_us: u64) -> String {
    let mut out = match found.first() {
        None => format!("{GOOD}no guard objects{GOOD:#}\n"),
        Some(Found { rule, say, reason }) => {
            let style = answer_style(*say);
            let reason: String = reason
                .lines()
                .map(|line| format!("  {}\n", one_line(line)))
                .collect();
            format!(
                "{style}{}{style:#} {BOLD}{}{BOLD:#}\n{reason}",
                say.name(),
                rule.id
            )
        }
    };
    for other in found.iter().skip(1) {
        out += &format!("{DIM}also {} {}{DIM:#}\n", other.say.name(), other.rule.id);
    }
    for act in &call.acts {
        let program = match &*act.program {
            "" => "?",
            program => program,
        };
        let args = act.args.iter().map(|word| &*word.text);
        let words: Vec<&str> = [program].into_iter().chain(args).collect();
        let via = if act.via.is_empty() {
            String::new()
        } else {
            format!("  {DIM}(in {}){DIM:#}", one_line(&act.via.join(", ")))
        };
        out += &format!("  runs    {}{via}\n", one_line(&words.join(" ")));
    }
    for touch in &call.touches {
        let access = match touch.access {
            Access::Read => "reads",
            Access::Write => "writes",
            Access::Delete => "deletes",
            Access::List => "lists",
        };
        let below = if touch.recursive {
            " and all below"
        } else {
            ""
        };
        out += &format!(
            "  {access:7} {}{DIM}{below}{DIM:#}\n",
            one_line(&touch.path)
        );
    }
    for why in &call.unread {
        out += &format!("  {WARN}unread{WARN:#}  {}\n", one_line(why));
    }
    out + &format!("{DIM}judged in {took_us} µs{DIM:#}\n")
}
