//! `becket trust`: shows what a project's `.becket/` would do, and lets it count.

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
use crate::ui::time::moment;
use crate::world::{World, project_of};

const NOT_FOLLOWED: &str =
    "What these programs start in turn is not followed: you are not asked again when that changes.";

/// So many lines of a file that changed are shown.
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
        let same = report.before == Trust::Yes;
        let agreed = match &self.hash {
            Some(hash) => {
                project.matches(hash)?;
                true
            }
            None => self.yes,
        };
        if self.json {
            if agreed {
                project.approve(world)?;
            }
            anstream::println!("{:#}", report.json(agreed || same));
            return Ok(ExitCode::SUCCESS);
        }
        anstream::print!("{}", report.text());
        if same {
            anstream::println!("\nThis project is trusted as it is.");
            return Ok(ExitCode::SUCCESS);
        }
        if !agreed && !ask()? {
            anstream::println!("Nothing was approved.");
            return Ok(ExitCode::from(Code::Failed as u8));
        }
        project.approve(world)?;
        anstream::println!("\nTrusted.");
        Ok(ExitCode::SUCCESS)
    }
}

/// The project that this was called in.
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

    /// By the files alone: an approval holds in every session, `--set` and variables in none.
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

    fn matches(&self, hash: &str) -> Result<()> {
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

/// What the approval of a project is kept under.
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
    change(world, |store| drop(store.projects.remove(&key)))?;
    match json {
        true => anstream::println!("{:#}", json!({ "project": folder, "trusted": false })),
        false => anstream::println!(
            "{} is not trusted any more.",
            visible(&folder.to_string_lossy())
        ),
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes the store. Prints a note if it was damaged and set aside.
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
            "{} was damaged: set aside as {}, and begun anew",
            file.display(),
            aside.display()
        );
    }
    Ok(())
}

/// Asks the user. Without a terminal, nothing is assumed.
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
                    "at": moment(approval.at),
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
        let at = moment(approval.at);
        anstream::println!("{state:<7}  {project}  {DIM}{} {at}{DIM:#}", approval.hash);
    }
    Ok(ExitCode::SUCCESS)
}

/// What a project would do if it counted, as a user and as scripts read it.
struct TrustReport {
    before: Trust,
    folder: PathBuf,
    key: String,
    pins: Pins,
    /// Since the last approval; none if there was none.
    changes: Option<Vec<PinChange>>,
    /// What would hold.
    then: Arc<Snapshot>,
}

fn is_theirs(level: Level) -> bool {
    matches!(level, Level::Project | Level::Local)
}

impl TrustReport {
    /// Hooks that the project's own files name, or give another program.
    fn hooks(&self) -> impl Iterator<Item = &Arc<Hook>> {
        let theirs = |hook: &Hook| is_theirs(hook.declared.level) || hook.approved.is_some();
        let hooks = self.then.hooks.iter();
        hooks.filter(move |hook| theirs(hook) && !hook.untrusted)
    }

    /// Values of the project's that change something else: of hooks that others name, and of keys.
    fn values(&self) -> BTreeMap<&String, &Setting> {
        let own = |key: &str| {
            self.hooks()
                .any(|hook| key.starts_with(&format!("hooks.{}.", hook.name)))
        };
        let settings = self.then.settings.iter();
        settings
            .filter(|(key, setting)| is_theirs(setting.origin.level) && !own(key))
            .collect()
    }

    fn guards(&self) -> Vec<String> {
        let guards = self.then.config.guards.iter();
        let theirs = guards.filter(|guard| is_theirs(guard.level));
        theirs.map(|guard| guard.name.clone()).collect()
    }

    /// The user's own hooks that may start the project's tools and files then.
    fn tools(&self) -> Vec<&str> {
        let starts = |hook: &&Arc<Hook>| match &hook.action {
            Action::BuiltIn(built_in, _) => built_in.starts_project_tools,
            Action::Run(program) => names_project_file(program, &self.folder),
        };
        let own = |hook: &&Arc<Hook>| !is_theirs(hook.declared.level) && hook.approved.is_none();
        let hooks = self.then.hooks.iter().filter(starts);
        hooks
            .filter(own)
            .filter(|hook| hook.off.is_none())
            .map(|hook| &*hook.name)
            .collect()
    }

    fn problems(&self) -> impl Iterator<Item = &Problem> {
        let folder = self.folder.join(".becket");
        let theirs =
            move |it: &&Problem| it.file.as_ref().is_some_and(|it| it.starts_with(&folder));
        self.then.problems.iter().filter(theirs)
    }

    /// What a hook runs, with paths as they stand in the project.
    fn runs(&self, hook: &Hook) -> String {
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
        let mut section = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                out += &format!("\n{title}\n  {}\n", lines.join("\n  "));
            }
        };
        section("hooks that it runs", self.hook_lines());
        let values = self.values().into_iter().map(|(key, setting)| {
            let (key, value) = (visible(key), visible(&setting.value.to_string()));
            let origin = self.origin(&setting.origin);
            format!("{key} = {value}  {DIM}{origin}{DIM:#}")
        });
        section("values that it sets", values.collect());
        let guards = self.guards().into_iter();
        section(
            "guards that it adds",
            guards.map(|it| visible(&it)).collect(),
        );
        let tools = self.tools().into_iter().map(str::to_owned);
        let title = "your hooks that start this project's tools or files";
        section(title, tools.collect());
        match &self.changes {
            None => {
                let files = self.pins.paths().map(visible);
                section("files that are pinned", files.collect());
            }
            Some(changes) => {
                let lines = changes.iter().map(|PinChange { path, kind }| {
                    let (style, path) = (style(*kind), visible(path));
                    format!("{style}{:<7}{style:#}  {path}", word(*kind))
                });
                section("since you trusted it", lines.collect());
                for PinChange { path, .. } in
                    changes.iter().filter(|it| it.kind != PinChangeKind::Gone)
                {
                    let title = format!("{}, as it is now", visible(path));
                    section(&title, self.content(path));
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

    /// The lines of a file as far as a user would read them.
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
        let line = |(hook, name, on): &(&Arc<Hook>, String, String)| {
            let (run, origin) = (visible(&self.runs(hook)), self.origin(&hook.declared));
            let off = match (&hook.off, is_theirs(hook.declared.level)) {
                (Some(_), _) => " (off)",
                (None, true) => "",
                (None, false) => " (in place of yours)",
            };
            format!("{name:first$}  {on:second$}  {run}{off}  {DIM}{origin}{DIM:#}")
        };
        rows.iter().map(line).collect()
    }

    fn json(&self, trusted: bool) -> Json {
        let hooks: Vec<Json> = self
            .hooks()
            .map(|hook| {
                json!({
                    "name": hook.name,
                    "on": hook.on.iter().map(EventName::as_str).collect::<Vec<_>>(),
                    "run": self.runs(hook),
                    "file": hook.declared.file,
                    "line": hook.declared.line,
                    "enabled": hook.off.is_none(),
                })
            })
            .collect();
        let values: Vec<Json> = self
            .values()
            .into_iter()
            .map(|(key, setting)| json!({ "key": key, "value": setting.value.to_string() }))
            .collect();
        let changes = self.changes.as_ref().map(|changes| {
            let change = |it: &PinChange| json!({ "path": it.path, "how": word(it.kind) });
            changes.iter().map(change).collect::<Vec<_>>()
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
