//! `becket trust`: shows the effect of a project's `.becket/`, and approves it.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::Style;
use anyhow::{Context, Result};
use becket_engine::config::{Level, Loader, Origin, Problem, Setting, Snapshot};
use becket_engine::hooks::{Action, Hook};
use becket_engine::trust::{
    self, Approval, PinChange, PinChangeKind, Pins, Trust, TrustStore, TrustStoreError,
    names_project_file,
};
use becket_wire::event::EventName;
use serde_json::{Value as Json, json};

use crate::failure::{Code, Failure};
use crate::ui::style::{BAD, BOLD, DIM, GOOD, WARN};
use crate::ui::text::visible;
use crate::ui::time::timestamp;
use crate::world::{World, project_of};

const NOT_FOLLOWED: &str =
    "becket does not check what these programs start: if that changes, it does not ask you again.";

/// The most lines of a changed file that are shown.
const SHOWN_LINES: usize = 100;

/// Show what a project's `.becket/` would run, and allow it
///
/// Until then everything in it is ignored. Trust covers every file in `.becket/` (except
/// `.becket/prd/`) and every file of the project that the command of a hook names: if one of them
/// changes, nothing in `.becket/` runs until you approve it again. Programs that such a file starts
/// are not checked. Trust also lets built-in hooks start the project's own tools. Worktrees of one
/// repository share it.
#[derive(Debug, clap::Args)]
pub struct TrustArgs {
    /// Approve without a question
    #[arg(long)]
    yes: bool,
    /// Approve if the project's hash is this one (exit 1 if it is another)
    #[arg(long, value_name = "HASH", conflicts_with = "yes")]
    hash: Option<String>,
    /// List the projects that are trusted
    #[arg(long, conflicts_with_all = ["yes", "hash", "revoke"])]
    list: bool,
    /// Take the approval back
    #[arg(long, conflicts_with_all = ["yes", "hash"])]
    revoke: bool,
    /// Print JSON; without --yes or --hash nothing is asked and nothing approved
    #[arg(long)]
    json: bool,
}

impl TrustArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if self.list {
            return list(world, self.json);
        }
        world.refuse_inside_claude("trust")?;
        let folder = project_of(&world.cwd);
        if self.revoke {
            return revoke(world, folder, self.json);
        }
        let project = ProjectHere::find(world, folder)?;
        let report = project.report(world)?;
        let is_trusted = report.before == Trust::Yes;
        let is_approved = match &self.hash {
            Some(hash) => {
                project.check_hash(hash)?;
                true
            }
            None => self.yes,
        };
        if self.json {
            if is_approved {
                project.approve(world)?;
            }
            anstream::println!("{:#}", report.json(is_approved || is_trusted));
            return Ok(ExitCode::SUCCESS);
        }
        anstream::print!("{}", report.text());
        if is_trusted {
            anstream::println!("\nThis project is trusted as it is.");
            return Ok(ExitCode::SUCCESS);
        }
        if !is_approved && !ask()? {
            anstream::println!("Nothing was approved.");
            return Ok(ExitCode::from(Code::Failed as u8));
        }
        project.approve(world)?;
        anstream::println!("\nTrusted.");
        Ok(ExitCode::SUCCESS)
    }
}

/// The project of the working folder.
struct ProjectHere {
    folder: PathBuf,
    key: String,
    pins: Pins,
}

impl ProjectHere {
    fn find(world: &World, folder: &Path) -> Result<Self> {
        let folder = folder.to_path_buf();
        let key = key_of(&folder)?;
        let pins = trust::pins_of(&folder, &world.place).map_err(|refusal| {
            let what = format!("{} cannot be trusted: {refusal}", folder.display());
            let hint = "take that out of `.becket/`, then try again";
            Failure::new(Code::Failed, what).hint(hint)
        })?;
        if pins.is_empty() && !folder.join(".git").exists() {
            let what = format!(
                "{} is not a project: it has no `.becket/` and no `.git`",
                folder.display()
            );
            let hint = "run it in a project's folder";
            return Err(Failure::new(Code::Missing, what).hint(hint).into());
        }
        Ok(Self { folder, key, pins })
    }

    /// Makes the report from the config files alone: an approval holds in every session, `--set` and variables do not.
    fn report(&self, world: &World) -> Result<TrustReport> {
        let now = Loader::for_project(&world.place, &self.folder).current();
        let loader = Loader::for_project(&world.place, &self.folder);
        let then = loader.as_if_approved(self.pins.clone()).current();
        let book = TrustStore::read(&world.place).unwrap_or_default();
        let before = book.projects.get(&self.key);
        Ok(TrustReport {
            before: now.project.as_ref().map_or(Trust::No, |it| it.trust),
            changes: before.map(|before| self.pins.changes_since(&before.pins)),
            folder: self.folder.clone(),
            key: self.key.clone(),
            pins: self.pins.clone(),
            then,
        })
    }

    /// Fails if the project has another hash.
    fn check_hash(&self, hash: &str) -> Result<()> {
        let found = self.pins.hash();
        if found.eq_ignore_ascii_case(hash.trim()) {
            return Ok(());
        }
        let what = format!("this project's hash is {found}, not {}", visible(hash));
        let hint = "look at it with `becket trust`; if it is right, use that hash";
        Err(Failure::new(Code::Failed, what).hint(hint).into())
    }

    fn approve(&self, world: &World) -> Result<()> {
        let approval = Approval {
            project: self.folder.display().to_string(),
            at: jiff::Timestamp::now().as_millisecond(),
            hash: self.pins.hash(),
            pins: self.pins.clone(),
        };
        change(world, |store| {
            store.projects.insert(self.key.clone(), approval.clone());
        })
    }
}

/// Returns the key of a project's approval.
fn key_of(folder: &Path) -> Result<String> {
    let key = trust::key_of(folder);
    key.ok_or_else(|| {
        let what = format!("{} cannot be trusted", folder.display());
        let hint = "it must exist, and its name must be UTF-8";
        Failure::new(Code::Failed, what).hint(hint).into()
    })
}

fn revoke(world: &World, folder: &Path, json: bool) -> Result<ExitCode> {
    let key = key_of(folder)?;
    let store = TrustStore::read(&world.place).unwrap_or_default();
    if !store.projects.contains_key(&key) {
        let what = format!("{} is not trusted", folder.display());
        let hint = "becket trust --list shows what is";
        return Err(Failure::new(Code::Missing, what).hint(hint).into());
    }
    change(world, |book| drop(book.projects.remove(&key)))?;
    if json {
        anstream::println!("{:#}", json!({ "project": folder, "trusted": false }));
    } else {
        anstream::println!(
            "{} is not trusted any more.",
            visible(&folder.to_string_lossy())
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes the stored approvals. Reports a damaged file, which is set aside.
fn change(world: &World, edit: impl Fn(&mut TrustStore)) -> Result<()> {
    let aside = trust::change(&world.place, edit).map_err(|error| {
        let (code, hint) = match &error {
            TrustStoreError::Held { .. } => {
                (Code::TimedOut, "wait for the other becket, or end it")
            }
            _ => (
                Code::Failed,
                "becket's home must be writable; --home names another",
            ),
        };
        Failure::new(code, error.to_string()).hint(hint)
    })?;
    if let Some(aside) = aside {
        let file = world.place.trust();
        anstream::eprintln!(
            "{} was damaged: it was set aside as {}, and a new one was begun",
            file.display(),
            aside.display()
        );
    }
    Ok(())
}

/// Asks the user, and returns true on yes. Fails without a terminal.
fn ask() -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let what = "this is not a terminal, so becket cannot ask";
        let hint = "pass --yes, or in CI --hash with the hash above";
        return Err(Failure::new(Code::Usage, what).hint(hint).into());
    }
    let mut out = anstream::stdout();
    write!(out, "\nTrust this project and let these hooks run? [y/N] ")?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(&*line.trim().to_lowercase(), "y" | "yes"))
}

fn list(world: &World, json: bool) -> Result<ExitCode> {
    let store = TrustStore::read(&world.place).context("could not list what is trusted")?;
    let rows = store.projects.iter().map(|(key, approval)| {
        let folder = Path::new(&approval.project);
        let state = match trust::pins_of(folder, &world.place) {
            _ if !folder.exists() => "gone",
            Ok(pins) if pins == approval.pins => "trusted",
            _ => "changed",
        };
        (key, approval, state)
    });
    if json {
        let rows: Vec<Json> = rows
            .map(|(key, approval, state)| {
                json!({
                    "project": approval.project,
                    "key": key,
                    "state": state,
                    "at": timestamp(approval.at),
                    "hash": approval.hash,
                    "files": approval.pins.paths().collect::<Vec<_>>(),
                })
            })
            .collect();
        anstream::println!("{:#}", Json::from(rows));
        return Ok(ExitCode::SUCCESS);
    }
    if store.projects.is_empty() {
        anstream::println!("No project is trusted.");
    }
    for (_, approval, state) in rows {
        let project = visible(&approval.project);
        let at = timestamp(approval.at);
        anstream::println!("{state:<7}  {project}  {DIM}{} {at}{DIM:#}", approval.hash);
    }
    Ok(ExitCode::SUCCESS)
}

/// The effect that an approval of the project would have, for people and for scripts.
struct TrustReport {
    before: Trust,
    folder: PathBuf,
    key: String,
    pins: Pins,
    /// The changes since the last approval. None if there was no approval.
    changes: Option<Vec<PinChange>>,
    /// The config after an approval.
    then: Arc<Snapshot>,
}

/// Returns true if the level is one of the project's own files.
fn is_projects(level: Level) -> bool {
    matches!(level, Level::Project | Level::Local)
}

/// Returns true if the project's own files name the hook, or give it another program.
fn is_projects_hook(hook: &Hook) -> bool {
    is_projects(hook.declared.level) || hook.approved.is_some()
}

impl TrustReport {
    /// Returns the project's hooks that would run.
    fn hooks(&self) -> impl Iterator<Item = &Arc<Hook>> {
        let hooks = self.then.hooks.iter();
        hooks.filter(|hook| is_projects_hook(hook) && !hook.untrusted)
    }

    /// Returns the project's values for keys and for hooks of other files.
    fn values(&self) -> BTreeMap<&String, &Setting> {
        let of_hooks: Vec<String> = self
            .hooks()
            .map(|hook| format!("hooks.{}.", hook.name))
            .collect();
        let settings = self.then.settings.iter();
        settings
            .filter(|(_, setting)| is_projects(setting.origin.level))
            .filter(|(key, _)| of_hooks.iter().all(|prefix| !key.starts_with(prefix)))
            .collect()
    }

    fn guards(&self) -> Vec<String> {
        let guards = self.then.config.guards.iter();
        let projects = guards.filter(|guard| is_projects(guard.level));
        projects.map(|guard| guard.name.clone()).collect()
    }

    /// Returns the user's own hooks that could start the project's tools and files.
    fn tools(&self) -> Vec<&str> {
        let hooks = self.then.hooks.iter();
        hooks
            .filter(|hook| !is_projects_hook(hook) && hook.off.is_none())
            .filter(|hook| match &hook.action {
                Action::BuiltIn(built_in, _) => built_in.starts_project_tools,
                Action::Run(program) => names_project_file(program, &self.folder),
            })
            .map(|hook| &*hook.name)
            .collect()
    }

    fn problems(&self) -> impl Iterator<Item = &Problem> {
        let folder = self.folder.join(".becket");
        let problems = self.then.problems.iter();
        problems.filter(move |it| it.file.as_ref().is_some_and(|it| it.starts_with(&folder)))
    }

    /// Returns the program of a hook, with paths relative to the project.
    fn program(&self, hook: &Hook) -> String {
        let text = match &hook.action {
            Action::Run(program) => program.to_string(),
            Action::BuiltIn(built_in, own) if own.is_empty() => {
                format!("built-in {}", built_in.name)
            }
            Action::BuiltIn(built_in, own) => format!("built-in {}: {own}", built_in.name),
        };
        let text = text.replace(&format!("{}/", self.folder.display()), "");
        text.trim().to_owned()
    }

    fn origin(&self, origin: &Origin) -> String {
        let text = origin.to_string();
        let folder = format!("{}/", self.folder.display());
        visible(text.strip_prefix(&folder).unwrap_or(&text))
    }

    fn text(&self) -> String {
        let project = visible(&self.folder.display().to_string());
        let hash = self.pins.hash();
        let mut out = format!("project  {BOLD}{project}{BOLD:#}\nhash     {hash}\n");
        if self.pins.is_empty() {
            out += "\nThere is no .becket/ here: trust lets built-in hooks start this project's tools.\n";
        }
        out += &section("hooks that it runs", self.hook_lines());
        let values = self.values().into_iter().map(|(key, setting)| {
            let (key, value) = (visible(key), visible(&setting.text()));
            let origin = self.origin(&setting.origin);
            format!("{key} = {value}  {DIM}{origin}{DIM:#}")
        });
        out += &section("values that it sets", values);
        let guards = self.guards().into_iter();
        out += &section("guards that it adds", guards.map(|it| visible(&it)));
        let tools = self.tools().into_iter().map(str::to_owned);
        let title = "your hooks that start this project's tools or files";
        out += &section(title, tools);
        match &self.changes {
            None => {
                let files = self.pins.paths().map(visible);
                out += &section("files that your approval covers", files);
            }
            Some(changes) => {
                let lines = changes.iter().map(|PinChange { path, kind }| {
                    let (style, path) = (style(*kind), visible(path));
                    format!("{style}{:<7}{style:#}  {path}", word(*kind))
                });
                out += &section("since you trusted it", lines);
                for PinChange { path, .. } in
                    changes.iter().filter(|it| it.kind != PinChangeKind::Gone)
                {
                    let title = format!("{}, as it is now", visible(path));
                    out += &section(&title, self.content(path));
                }
            }
        }
        if self.hooks().next().is_some() || !self.tools().is_empty() {
            out += &format!("\n{NOT_FOLLOWED}\n");
        }
        for problem in self.problems() {
            let problem = visible(&problem.to_string());
            out += &format!("{WARN}note:{WARN:#} {problem}\n");
        }
        out
    }

    /// Returns the first lines of a pinned file.
    fn content(&self, path: &str) -> Vec<String> {
        let Some(text) = trust::pinned_text(&self.folder, path, &self.pins) else {
            return Vec::new();
        };
        let shown = text.lines().take(SHOWN_LINES);
        let mut lines: Vec<String> = shown
            .map(|it| format!("{DIM}│{DIM:#} {}", visible(it)))
            .collect();
        let more = text.lines().count().saturating_sub(SHOWN_LINES);
        if more > 0 {
            lines.push(format!("{WARN}… {more} more lines: read the file{WARN:#}"));
        }
        lines
    }

    fn hook_lines(&self) -> Vec<String> {
        let rows = self
            .hooks()
            .map(|hook| (hook, visible(&hook.name), events(hook)));
        let rows: Vec<_> = rows.collect();
        let names = rows.iter().map(|(_, name, _)| name.chars().count()).max();
        let events = rows.iter().map(|(.., on)| on.chars().count()).max();
        let (first, second) = (names.unwrap_or(0), events.unwrap_or(0));
        let mut lines = Vec::new();
        for (hook, name, on) in rows {
            let (run, origin) = (visible(&self.program(hook)), self.origin(&hook.declared));
            let note = if hook.off.is_some() {
                " (off)"
            } else if is_projects(hook.declared.level) {
                ""
            } else {
                " (in place of yours)"
            };
            lines.push(format!(
                "{name:first$}  {on:second$}  {run}{note}  {DIM}{origin}{DIM:#}"
            ));
        }
        lines
    }

    fn json(&self, trusted: bool) -> Json {
        let hooks: Vec<Json> = self
            .hooks()
            .map(|hook| {
                json!({
                    "name": hook.name,
                    "on": hook.on.iter().map(EventName::as_str).collect::<Vec<_>>(),
                    "run": self.program(hook),
                    "file": hook.declared.file,
                    "line": hook.declared.line,
                    "enabled": hook.off.is_none(),
                })
            })
            .collect();
        let values: Vec<Json> = self
            .values()
            .into_iter()
            .map(|(key, setting)| json!({ "key": key, "value": setting.text() }))
            .collect();
        let changes = self.changes.as_ref().map(|changes| {
            let changes = changes.iter();
            changes
                .map(|it| json!({ "path": it.path, "how": word(it.kind) }))
                .collect::<Vec<_>>()
        });
        json!({
            "project": self.folder,
            "key": self.key,
            "hash": self.pins.hash(),
            "trusted": trusted,
            "before": match self.before {
                Trust::Yes => "trusted",
                Trust::Changed => "changed",
                Trust::No => "not trusted",
            },
            "hooks": hooks,
            "values": values,
            "guards": self.guards(),
            "tools": self.tools(),
            "files": self.pins.paths().collect::<Vec<_>>(),
            "changes": changes,
        })
    }
}

/// Renders a section of the report. Without lines it is empty.
fn section(title: &str, lines: impl IntoIterator<Item = String>) -> String {
    let lines: Vec<String> = lines.into_iter().collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{title}\n  {}\n", lines.join("\n  "))
}

fn events(hook: &Hook) -> String {
    let on: Vec<&str> = hook.on.iter().map(EventName::as_str).collect();
    visible(&on.join(", "))
}

fn word(how: PinChangeKind) -> &'static str {
    match how {
        PinChangeKind::New => "new",
        PinChangeKind::Changed => "changed",
        PinChangeKind::Gone => "gone",
    }
}

fn style(how: PinChangeKind) -> Style {
    match how {
        PinChangeKind::New => GOOD,
        PinChangeKind::Changed => WARN,
        PinChangeKind::Gone => BAD,
    }
}
