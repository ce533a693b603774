//! `becket checkpoint restore`: files as they were.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_daemon::life::now_ms;
use becket_engine::checkpoint::{self as engine, Git, LARGEST_MB, Made, Plan, Status, Wish};
use serde_json::json;

use super::{id, repository, the_one};
use crate::failure::{Code, Failure};
use crate::ui::style::{BAD, DIM, WARN};
use crate::ui::text::{count, one_line};
use crate::world::World;

/// Write the files of a checkpoint into the work tree again
///
/// Keeps the present state as a checkpoint first. Files that came later stay, unless --exact; the
/// index, the stash and the branches are not touched.
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// The checkpoint: its id, its time, or the beginning of one of them
    #[arg(value_name = "ID")]
    id: String,
    /// Only this file or folder (may be said several times)
    #[arg(long = "path", value_name = "PATH")]
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

impl Restore {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let git = repository(&world.cwd)?;
        let one = the_one(&git, &self.id)?;
        let largest = LARGEST_MB << 20;
        let plan = engine::plan(&git, &one, &world.cwd, &self.paths, largest)
            .context("could not read the present state, so nothing was changed")?;
        let untouched = plan.write.is_empty() && (!self.exact || plan.later.is_empty());
        if untouched && !self.is_in(&git, &one, world)? {
            let what = format!("the checkpoint {} has no such path", id(&one));
            let hint = format!("becket checkpoint show {}", id(&one));
            return Err(Failure::new(Code::Missing, what).hint(hint).into());
        }
        let mut kept = None;
        if !(self.dry_run || untouched) {
            if !self.json {
                self.tell(&plan);
            }
            if !self.agreed(&plan, &one)? {
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
        } else if untouched {
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

    fn is_in(&self, git: &Git, one: &engine::Checkpoint, world: &World) -> Result<bool> {
        Ok(self.paths.is_empty() || engine::holds(git, one, &world.cwd, &self.paths)?)
    }

    /// Asks, where somebody can answer.
    fn agreed(&self, plan: &Plan, one: &engine::Checkpoint) -> Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            let what = "nobody can be asked whether to change the work tree";
            return Err(Failure::new(Code::Usage, what)
                .hint("say --yes, or --dry-run to see what would change")
                .into());
        }
        let mut question = format!("Write {}", count(plan.write.len(), "file", "files"));
        if self.exact && !plan.later.is_empty() {
            question += &format!(" and delete {}", count(plan.later.len(), "file", "files"));
        }
        let mut out = anstream::stdout();
        write!(out, "{question}, as in the checkpoint {}? [y/N] ", id(one))?;
        out.flush()?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        Ok(matches!(&*line.trim().to_lowercase(), "y" | "yes"))
    }

    /// Gives the name of the checkpoint that has the state before.
    fn carry_out(&self, git: &Git, plan: &Plan) -> Result<String> {
        let session = std::env::var("CLAUDE_CODE_SESSION_ID").ok();
        let wish = Wish {
            session: session.as_deref().filter(|id| !id.is_empty()),
            event: "before a restore",
            at: now_ms(),
            // Who goes back wants to lose nothing, least of all what they go back to.
            keep: usize::MAX,
            always: true,
        };
        let made = plan.keep_present(git, &wish);
        let made = made.context("could not keep the present state, so nothing was changed")?;
        let kept = match made {
            Made::New(name) => name,
            Made::Same => String::new(),
        };
        let failed = || format!("only a part was restored; what was there is kept as {kept}");
        plan.write(git).with_context(failed)?;
        if self.exact {
            plan.delete_later(git).with_context(failed)?;
        }
        Ok(kept)
    }

    fn tell(&self, plan: &Plan) {
        let line = |what: &str, path: &OsStr| {
            let path = one_line(&path.to_string_lossy());
            anstream::println!("{what}  {path}");
        };
        for (status, path) in &plan.write {
            match status {
                Status::Added => line("bring back", path),
                _ => line("write     ", path),
            }
        }
        for path in &plan.later {
            match self.exact {
                true => line(&format!("{BAD}delete{BAD:#}    "), path),
                false => line(&format!("{DIM}came later, stays{DIM:#}"), path),
            }
        }
        for path in &plan.blocked {
            line(&format!("{WARN}in the way, left alone{WARN:#}"), path);
        }
    }

    fn print_json(&self, one: &engine::Checkpoint, plan: &Plan, kept: Option<&str>) {
        let names = |paths: &[OsString]| -> Vec<String> {
            paths
                .iter()
                .map(|path| path.to_string_lossy().into_owned())
                .collect()
        };
        let written: Vec<OsString> = plan.write.iter().map(|(_, path)| path.clone()).collect();
        let (deleted, stays): (&[OsString], &[OsString]) = match self.exact {
            true => (&plan.later, &[]),
            false => (&[], &plan.later),
        };
        let report = json!({
            "id": id(one),
            "dry_run": self.dry_run,
            "written": names(&written),
            "deleted": names(deleted),
            "came_later": names(stays),
            "blocked": names(&plan.blocked),
            "kept_as": kept,
        });
        anstream::println!("{report}");
    }
}
