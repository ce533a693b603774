//! `becket checkpoint`: lists, shows and restores the snapshots of the work tree that the hook create-checkpoint makes.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_daemon::lifecycle::now_ms;
use becket_engine::checkpoint as engine;
use becket_engine::checkpoint::{
    CheckpointMatch, CheckpointOutcome, CheckpointRequest, FileStatus, Git, LARGEST_MB, RestorePlan,
};
use becket_engine::trust::Trust;
use serde_json::{Value, json};

use crate::failure::{Code, Failure};
use crate::ui;
use crate::ui::style::{BAD, DIM, Look, Tell, WARN};
use crate::ui::table::{Cell, Column, bare};
use crate::ui::text::{count, is_inert, one_line};
use crate::ui::time;
use crate::world::{World, project_of};

/// Look at the snapshots of the work tree, and go back to one
#[derive(Debug, clap::Args)]
pub struct CheckpointArgs {
    #[command(subcommand)]
    verb: CheckpointVerb,
}

#[derive(Debug, clap::Subcommand)]
enum CheckpointVerb {
    List(CheckpointList),
    Show(CheckpointShow),
    Restore(CheckpointRestore),
}

/// List the checkpoints of this repository, the newest first
#[derive(Debug, clap::Args)]
struct CheckpointList {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show what a checkpoint holds: how its files differ from the commit that was checked out
#[derive(Debug, clap::Args)]
struct CheckpointShow {
    /// The checkpoint: its id, its time, or the beginning of one of them
    #[arg(value_name = "ID")]
    id: String,
    /// Print the difference itself, as a patch
    #[arg(long, short)]
    patch: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "patch")]
    json: bool,
}

impl CheckpointArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        match self.verb {
            CheckpointVerb::List(verb) => verb.run(world)?,
            CheckpointVerb::Show(verb) => verb.run(world)?,
            CheckpointVerb::Restore(verb) => return verb.run(world),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The number of characters of a hash that are shown. They suffice to name a checkpoint.
const ID: usize = 10;

fn id(one: &engine::Checkpoint) -> &str {
    one.commit.get(..ID).unwrap_or(&one.commit)
}

/// Returns the repository of this folder.
fn repository(folder: &Path) -> Result<Git> {
    Git::find(folder)?.ok_or_else(|| {
        let what = format!("{} is not in a git work tree", folder.display());
        Failure::new(Code::Failed, what)
            .hint("checkpoints are kept in git: run this in the project")
            .into()
    })
}

/// Refuses a restore in a project that is not trusted and has filters: git would run their programs.
fn refuse_filters(world: &World, git: &Git) -> Result<()> {
    let filters = git.own_filters()?;
    let snapshot = world.loader(Some(project_of(&world.cwd))).current();
    let project = snapshot.project.as_ref();
    if filters.is_empty() || project.is_some_and(|project| project.trust == Trust::Yes) {
        return Ok(());
    }
    let filters = filters.join(", ");
    let what = format!("this project is not trusted, and its git config runs programs: {filters}");
    let hint = "look at them in .git/config, then `becket trust`";
    Err(Failure::new(Code::Failed, what).hint(hint).into())
}

/// Finds the checkpoint that a word names.
fn find(git: &Git, word: &str) -> Result<engine::Checkpoint> {
    let failure = match engine::find(&engine::list(git)?, word) {
        CheckpointMatch::One(one) => return Ok(*one),
        CheckpointMatch::Several(names) => {
            let what = format!(
                "several checkpoints begin with `{word}`: {}",
                names.join(", ")
            );
            Failure::new(Code::Usage, what).hint("type more of its name")
        }
        CheckpointMatch::None => {
            let what = format!("there is no checkpoint `{word}` in this repository");
            Failure::new(Code::Missing, what).hint("becket checkpoint list")
        }
    };
    Err(failure.into())
}

impl CheckpointList {
    fn run(self, world: &World) -> Result<()> {
        let all = engine::list(&repository(&world.cwd)?)?;
        if self.json {
            let rows: Vec<Value> = all.iter().map(checkpoint_json).collect();
            anstream::println!("{}", Value::from(rows));
            return Ok(());
        }
        if all.is_empty() {
            anstream::println!(
                "no checkpoints yet: with [hooks.create-checkpoint] in the config, becket makes one at the end of every turn"
            );
        }
        let look = Look::of_stdout();
        let rows: Vec<_> = all.iter().map(|one| cells(one, &look.now)).collect();
        anstream::print!("{}", bare(COLUMNS, &rows, &look));
        Ok(())
    }
}

const COLUMNS: [Column; 5] = [
    Column::left("", 0),
    Column::left("", 1),
    Column::left("", 2),
    Column::right("", 0),
    Column::left("", 0).cut_to(20),
];

fn cells(one: &engine::Checkpoint, now: &jiff::Zoned) -> [Cell; COLUMNS.len()] {
    let session = one.name.split('/').next().unwrap_or_default();
    let at = one.at.map(|at| time::clock(at, now));
    let files = one.files.map(|files| {
        let files = usize::try_from(files).unwrap_or(usize::MAX);
        count(files, "file", "files")
    });
    [
        Cell::plain(id(one)),
        Cell::new(at.unwrap_or_default(), DIM),
        Cell::new(session, DIM),
        Cell::plain(files.unwrap_or_default()),
        Cell::plain(&one.title),
    ]
}

/// Renders a checkpoint for scripts.
fn checkpoint_json(one: &engine::Checkpoint) -> Value {
    json!({
        "id": id(one),
        "name": one.name,
        "commit": one.commit,
        "base": one.base,
        "at": one.at.map(time::timestamp),
        "session_id": one.session,
        "event": one.event,
        "files": one.files,
        "title": one.title,
        "skipped": one.skipped,
    })
}

impl CheckpointShow {
    fn run(self, world: &World) -> Result<()> {
        let git = repository(&world.cwd)?;
        let one = find(&git, &self.id)?;
        let base = match &one.base {
            Some(base) => format!("{base}^{{tree}}"),
            None => git.empty_tree()?,
        };
        if self.json {
            let mut shown = checkpoint_json(&one);
            let changes = engine::changes(&git, &base, &one.tree)?;
            shown["changes"] = changes
                .iter()
                .map(|(status, path)| change_json(*status, path))
                .collect();
            anstream::println!("{shown}");
            return Ok(());
        }
        if self.patch {
            return print_foreign(&diff(&git, &["-p", "--binary"], &base, &one.tree)?);
        }
        fields(&one).print();
        let stat = diff(&git, &["--stat", "--summary"], &base, &one.tree)?;
        if !stat.is_empty() {
            anstream::println!();
        }
        print_foreign(&stat)
    }
}

/// Returns git's difference between two trees in this format.
fn diff(git: &Git, format: &[&str], from: &str, to: &str) -> Result<Vec<u8>> {
    const COMMAND: [&str; 6] = [
        "diff-tree",
        "-r",
        "--no-color",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
    ];
    Ok(git.run(&[&COMMAND[..], format, &[from, to, "--"]].concat())?)
}

fn change_json(status: FileStatus, path: &OsStr) -> Value {
    json!({"path": path.to_string_lossy(), "status": word(status)})
}

fn word(status: FileStatus) -> &'static str {
    match status {
        FileStatus::Added => "added",
        FileStatus::Changed => "changed",
        FileStatus::Deleted => "deleted",
    }
}

fn fields(one: &engine::Checkpoint) -> Tell {
    let mut tell = Tell::new();
    tell.field("checkpoint", id(one));
    tell.field("name", one_line(&one.name));
    if let Some(at) = one.at {
        tell.field("made", time::clock(at, &becket_engine::local_time::now()));
    }
    if let Some(session) = &one.session {
        tell.field("session", one_line(session));
    }
    tell.field("what", one_line(&one.title));
    match &one.base {
        Some(base) => tell.field("on top of", base.get(..ID).unwrap_or(base)),
        None => tell.field("on top of", "no commit"),
    }
    for what in &one.skipped {
        tell.field("not in it", one_line(what));
    }
    tell
}

/// Prints the content of files. A terminal gets it without control characters, a pipe gets it unchanged.
fn print_foreign(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = if out.is_terminal() {
        let text = String::from_utf8_lossy(bytes);
        let shown: String = text
            .chars()
            .filter(|c| matches!(c, '\n' | '\t') || is_inert(*c))
            .collect();
        out.write_all(shown.as_bytes())
    } else {
        out.write_all(bytes)
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Write the files of a checkpoint into the work tree again
///
/// Keeps the present state as a checkpoint first. Files that came later stay, unless --exact; the
/// index, the stash and the branches are not touched.
#[derive(Debug, clap::Args)]
pub struct CheckpointRestore {
    /// The checkpoint: its id, its time, or the beginning of one of them
    #[arg(value_name = "ID")]
    id: String,
    /// Only this file or folder (may be given several times)
    #[arg(long = "path", value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<OsString>,
    /// Also delete the files that came later
    #[arg(long)]
    exact: bool,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CheckpointRestore {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let git = repository(&world.cwd)?;
        refuse_filters(world, &git)?;
        let one = find(&git, &self.id)?;
        let largest = LARGEST_MB << 20;
        let plan = engine::plan_restore(&git, &one, &world.cwd, &self.paths, largest)
            .context("could not read the present state, so nothing was changed")?;
        let is_unchanged = plan.write.is_empty() && (!self.exact || plan.later.is_empty());
        if is_unchanged && !self.has_paths(&git, &one, world)? {
            let what = format!("the checkpoint {} has no such path", id(&one));
            let hint = format!("becket checkpoint show {}", id(&one));
            return Err(Failure::new(Code::Missing, what).hint(hint).into());
        }
        let mut kept = None;
        if !(self.dry_run || is_unchanged) {
            if !self.json {
                self.tell(&plan);
            }
            if !self.ask(&plan, &one)? {
                anstream::println!("nothing was changed");
                return Ok(ExitCode::FAILURE);
            }
            kept = Some(self.carry_out(&git, &plan)?);
        }
        if self.json {
            self.print_json(&one, &plan, kept.as_deref());
        } else if let Some(kept) = kept {
            let done = count(plan.write.len(), "file", "files");
            anstream::println!("wrote {done} of the checkpoint {}", id(&one));
            anstream::println!("what was there before is kept: becket checkpoint restore {kept}");
        } else if is_unchanged {
            self.tell(&plan);
            anstream::println!(
                "nothing to restore: the files are as in the checkpoint {}",
                id(&one)
            );
        } else {
            self.tell(&plan);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns true if the checkpoint holds the paths of the command line.
    fn has_paths(&self, git: &Git, one: &engine::Checkpoint, world: &World) -> Result<bool> {
        Ok(self.paths.is_empty() || engine::contains_any(git, one, &world.cwd, &self.paths)?)
    }

    /// Asks the user, and returns true on yes. Fails without a terminal.
    fn ask(&self, plan: &RestorePlan, one: &engine::Checkpoint) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !ui::is_attended() {
            let what =
                "this is not a terminal, so becket cannot ask before it changes the work tree";
            return Err(Failure::new(Code::Usage, what)
                .hint("pass --yes, or --dry-run to see what would change")
                .into());
        }
        let mut question = format!("Write {}", count(plan.write.len(), "file", "files"));
        if self.exact && !plan.later.is_empty() {
            question += &format!(" and delete {}", count(plan.later.len(), "file", "files"));
        }
        let question = format!("{question}, as in the checkpoint {}?", id(one));
        Ok(ui::agrees(&question)?)
    }

    /// Restores the files. Returns the name of the checkpoint with the state before.
    fn carry_out(&self, git: &Git, plan: &RestorePlan) -> Result<String> {
        let session = std::env::var("CLAUDE_CODE_SESSION_ID").ok();
        let request = CheckpointRequest {
            session: session.as_deref().filter(|id| !id.is_empty()),
            event: "before a restore",
            at: now_ms(),
            // No old checkpoint is deleted now: it might be the one to restore.
            keep: usize::MAX,
            always: true,
        };
        let made = plan.keep_present(git, &request);
        let made = made.context("could not keep the present state, so nothing was changed")?;
        let kept = match made {
            CheckpointOutcome::Created(name) => name,
            CheckpointOutcome::Unchanged => String::new(),
        };
        let written = plan.write(git).and_then(|()| {
            if self.exact {
                plan.delete_later(git)
            } else {
                Ok(())
            }
        });
        written.with_context(|| {
            format!("only a part was restored; what was there is kept as {kept}")
        })?;
        Ok(kept)
    }

    fn tell(&self, plan: &RestorePlan) {
        for (status, path) in &plan.write {
            match status {
                FileStatus::Added => tell_path("bring back", path),
                _ => tell_path("write     ", path),
            }
        }
        for path in &plan.later {
            if self.exact {
                tell_path(&format!("{BAD}delete{BAD:#}    "), path);
            } else {
                tell_path(&format!("{DIM}came later, stays{DIM:#}"), path);
            }
        }
        for path in &plan.blocked {
            tell_path(&format!("{WARN}in the way, left alone{WARN:#}"), path);
        }
    }

    fn print_json(&self, one: &engine::Checkpoint, plan: &RestorePlan, kept: Option<&str>) {
        let (deleted, stays): (&[OsString], &[OsString]) = if self.exact {
            (&plan.later, &[])
        } else {
            (&[], &plan.later)
        };
        let report = json!({
            "id": id(one),
            "dry_run": self.dry_run,
            "written": texts(plan.write.iter().map(|(_, path)| path)),
            "deleted": texts(deleted),
            "came_later": texts(stays),
            "blocked": texts(&plan.blocked),
            "kept_as": kept,
        });
        anstream::println!("{report}");
    }
}

fn tell_path(what: &str, path: &OsStr) {
    let path = one_line(&path.to_string_lossy());
    anstream::println!("{what}  {path}");
}

fn texts<'a>(paths: impl IntoIterator<Item = &'a OsString>) -> Vec<String> {
    let paths = paths.into_iter();
    paths
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}
