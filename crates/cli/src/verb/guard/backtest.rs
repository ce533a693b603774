//! `becket guard backtest`: judges the recorded calls again.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use becket_daemon::store;
use becket_engine::config::{ConfigFiles, Loader, Snapshot};
use becket_engine::guard::rule::Say;
use becket_wire::Head;
use becket_wire::rpc::{AnswerWord, EventQuery, EventRow};
use serde_json::{Value, json};

use super::{GuardContext, judge, user_home};
use crate::client::Client;
use crate::event_line;
use crate::log;
use crate::session::source::id_of_title;
use crate::ui::style::{BAD, BOLD, DIM, GOOD};
use crate::ui::text::{count, one_line};
use crate::ui::time::timestamp;
use crate::world::{World, project_of};

/// The most examples that are shown for each guard.
const EXAMPLES: usize = 3;

/// Judge the recorded calls again, and show what would come out differently
///
/// Files are looked at as they are now, not as they were. Calls whose input was masked are left out.
#[derive(Debug, clap::Args)]
pub struct GuardBacktest {
    /// Only since then: 10m, 2h, 30d, or a moment like 2026-11-15T08:00:00Z
    #[arg(long, value_name = "WHEN", default_value = "30d", value_parser = crate::ui::time::since)]
    since: i64,
    /// Judge by this file in place of your config.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Only this session (the first characters of its id, or its title)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The changed answers, by guard.
#[derive(Debug, Default)]
struct BacktestReport {
    calls: usize,
    masked: usize,
    dropped: usize,
    rules: BTreeMap<String, RuleChanges>,
}

#[derive(Debug, Default)]
struct RuleChanges {
    /// The calls that passed and would be stopped.
    stopped: Vec<Example>,
    /// The calls that were stopped and would pass.
    freed: Vec<Example>,
}

#[derive(Debug, Clone)]
struct Example {
    event_id: String,
    at: i64,
    about: String,
}

impl GuardBacktest {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if let Some(file) = &self.config {
            std::fs::metadata(file)
                .with_context(|| format!("could not read {}", file.display()))?;
        }
        Client::take_in_or_warn(world);
        let mut report = BacktestReport::default();
        if let Some(database) = store::open_to_read(&world.place.database())? {
            let session = self.session.as_deref();
            let session = session
                .map(|meant| log::complete(&id_of_title(world, meant)?, Some(&database), &[]))
                .transpose()?;
            let query = EventQuery {
                session,
                event: Some("PreToolUse".to_owned()),
                since: Some(self.since),
                ..EventQuery::default()
            };
            let mut configs = Configs {
                world,
                file: self.config.as_deref(),
                known: HashMap::new(),
            };
            store::find_events(&database, &query, &mut |row| {
                report.add(&row, &mut configs);
                true
            })
            .context("could not read the log")?;
        }
        if self.json {
            println!("{}", report.json());
        } else {
            anstream::print!("{}", report.text());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The configs of the projects that were judged so far.
struct Configs<'a> {
    world: &'a World,
    file: Option<&'a Path>,
    known: HashMap<PathBuf, Arc<Snapshot>>,
}

impl Configs<'_> {
    fn of(&mut self, project: &Path) -> Arc<Snapshot> {
        if let Some(known) = self.known.get(project) {
            return Arc::clone(known);
        }
        let place = &self.world.place;
        let config = match self.file {
            None => self.world.loader(Some(project)).current(),
            Some(file) => {
                let files = ConfigFiles {
                    user: self.world.cwd.join(file),
                    project: Some(project.to_path_buf()),
                    ..ConfigFiles::of(place)
                };
                Loader::with_files(&files, place, false).current()
            }
        };
        self.known
            .insert(project.to_path_buf(), Arc::clone(&config));
        config
    }
}

impl BacktestReport {
    /// Judges one recorded call, and counts it.
    fn add(&mut self, row: &EventRow, configs: &mut Configs<'_>) {
        let Some(payload) = &row.payload else {
            self.dropped += 1;
            return;
        };
        if row.masked > 0 {
            self.masked += 1;
            return;
        }
        let Ok(head) = Head::read(payload) else {
            return;
        };
        self.calls += 1;
        let project = project_of(Path::new(head.cwd.as_deref().unwrap_or("/"))).to_path_buf();
        let context = GuardContext {
            config: configs.of(&project),
            home: user_home(),
            project,
        };
        let found = judge(&head, payload, &context.around(configs.world)).found;
        let after = found.first().filter(|found| found.say != Say::Warn);
        let after = after.map(|found| &*found.rule.id);
        let before = row
            .decision
            .as_ref()
            .filter(|it| it.answer != AnswerWord::Context);
        let before = before.and_then(|it| it.by.as_ref()?.guard());
        if after == before {
            return;
        }
        let example = Example {
            event_id: row.id.to_string(),
            at: row.at,
            about: event_line::about(row),
        };
        if let Some(rule) = before {
            let changes = self.rules.entry(rule.to_owned()).or_default();
            changes.freed.push(example.clone());
        }
        if let Some(rule) = after {
            let changes = self.rules.entry(rule.to_owned()).or_default();
            changes.stopped.push(example);
        }
    }

    fn left_out(&self) -> String {
        let mut left: Vec<String> = Vec::new();
        for (many, why) in [
            (self.masked, "masked"),
            (self.dropped, "without their payload"),
        ] {
            if many > 0 {
                left.push(format!("{many} {why}"));
            }
        }
        if left.is_empty() {
            return String::new();
        }
        format!(" {DIM}(left out: {}){DIM:#}", left.join(", "))
    }

    fn text(&self) -> String {
        let mut out = format!(
            "{} judged{}\n",
            count(self.calls, "call", "calls"),
            self.left_out()
        );
        if self.rules.is_empty() {
            return out + "Nothing would come out differently.\n";
        }
        for (rule, changes) in &self.rules {
            out += &format!("\n{BOLD}{}{BOLD:#}\n", one_line(rule));
            let kinds = [
                (&changes.stopped, BAD, "would be stopped"),
                (&changes.freed, GOOD, "would no longer be stopped by it"),
            ];
            for (examples, style, what) in kinds {
                if examples.is_empty() {
                    continue;
                }
                out += &format!(
                    "  {style}{} {what}{style:#}\n",
                    count(examples.len(), "call", "calls")
                );
                for one in examples.iter().rev().take(EXAMPLES) {
                    out += &format!(
                        "    {}  {DIM}{}{DIM:#}\n",
                        one_line(&one.about),
                        one.event_id
                    );
                }
            }
        }
        out
    }

    fn json(&self) -> Value {
        let rules: Vec<Value> = (self.rules.iter())
            .map(|(rule, changes)| {
                json!({
                    "rule": rule,
                    "stopped": examples_json(&changes.stopped),
                    "freed": examples_json(&changes.freed),
                })
            })
            .collect();
        json!({"calls": self.calls, "masked": self.masked, "dropped": self.dropped, "rules": rules})
    }
}

fn examples_json(examples: &[Example]) -> Value {
    let examples = examples.iter();
    examples
        .map(|one| json!({"event_id": one.event_id, "at": timestamp(one.at), "about": one.about}))
        .collect()
}
