//! `becket trust`: shows what a project's `.becket/` would do, and lets it count.

mod report;

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_engine::config::Loader;
use becket_engine::trust::{self, Approval, Book, BookError, Pins, Trust as State};
use serde_json::{Value as Json, json};

use crate::failure::{Code, Failure};
use crate::ui::style::DIM;
use crate::ui::time::moment;
use crate::world::{World, project_of};
use report::{Report, inert};

/// Let this project's `.becket/` count, after showing what it would run
///
/// Until then everything in it is ignored. The approval pins every file in `.becket/` (documents
/// under `.becket/prd/` aside) and every file of the project that a hook of it starts, as far as
/// its command tells: if one of them changes, comes or goes, nothing of it counts until it is
/// approved again. Under each hook stands what it pins, and what cannot be pinned. It also lets
/// built-in hooks start the project's own tools. Worktrees of one repository share it.
#[derive(Debug, clap::Args)]
pub struct Trust {
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

impl Trust {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if self.list {
            return list(world, self.json);
        }
        world.refuse_inside_claude("trust")?;
        let folder = project_of(&world.cwd);
        if self.revoke {
            return revoke(world, folder, self.json);
        }
        let project = Here::find(world, folder)?;
        let report = project.report(world)?;
        let same = report.before == State::Yes;
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
struct Here {
    folder: PathBuf,
    key: String,
    pins: Pins,
}

impl Here {
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
                "{} is no project: no `.becket/`, no `.git`",
                folder.display()
            );
            let hint = "call it in a project's folder";
            return Err(Failure::new(Code::Missing, what).hint(hint).into());
        }
        Ok(Self { folder, key, pins })
    }

    /// By the files alone: an approval holds in every session, and what this call is told besides in
    /// none.
    fn report(&self, world: &World) -> Result<Report> {
        let now = Loader::for_project(&world.place, &self.folder).current();
        let loader = Loader::for_project(&world.place, &self.folder);
        let then = loader.as_if_approved(self.pins.clone()).current();
        let book = Book::read(&world.place).unwrap_or_default();
        let before = book.projects.get(&self.key);
        Ok(Report {
            before: now.project.as_ref().map_or(State::No, |it| it.trust),
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
        let what = format!("this project's hash is {found}, not {}", inert(hash));
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
        change(world, |book| {
            book.projects.insert(self.key.clone(), approval.clone());
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
    let book = Book::read(&world.place).unwrap_or_default();
    if !book.projects.contains_key(&key) {
        let what = format!("{} is not trusted", folder.display());
        let hint = "becket trust --list shows what is";
        return Err(Failure::new(Code::Missing, what).hint(hint).into());
    }
    change(world, |book| drop(book.projects.remove(&key)))?;
    match json {
        true => anstream::println!("{:#}", json!({ "project": folder, "trusted": false })),
        false => anstream::println!("{} is not trusted any more.", folder.display()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Changes the book; what was damaged is set aside, and told.
fn change(world: &World, edit: impl Fn(&mut Book)) -> Result<()> {
    let aside = trust::change(&world.place, edit).map_err(|error| {
        let (code, hint) = match &error {
            BookError::Held { .. } => (Code::TimedOut, "wait for the other becket, or end it"),
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

/// Asks the person. Where there is none, nothing is assumed.
fn ask() -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let what = "nobody is here to be asked";
        let hint = "say --yes, or in CI --hash with the hash that stands above";
        return Err(Failure::new(Code::Usage, what).hint(hint).into());
    }
    let mut out = anstream::stdout();
    write!(out, "\nLet all of this count? [y/N] ")?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(&*line.trim().to_lowercase(), "y" | "yes"))
}

fn list(world: &World, json: bool) -> Result<ExitCode> {
    let book = Book::read(&world.place).context("could not list what is trusted")?;
    let rows = book.projects.iter().map(|(key, approval)| {
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
    if book.projects.is_empty() {
        anstream::println!("No project is trusted.");
    }
    for (_, approval, state) in rows {
        let project = inert(&approval.project);
        let at = moment(approval.at);
        anstream::println!("{state:<7}  {project}  {DIM}{} {at}{DIM:#}", approval.hash);
    }
    Ok(ExitCode::SUCCESS)
}
