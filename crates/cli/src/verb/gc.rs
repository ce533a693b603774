//! `becket gc`: what nobody needs any more, listed, and deleted on yes.

mod find;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::ui::style::DIM;
use crate::ui::text::count;
use crate::ui::time::{moment, span};
use crate::world::World;
use find::{Left, leftovers};

/// List what nobody needs any more, and delete it if you say so
///
/// Nothing is ever deleted by itself. What is listed: the switches and the memory of hooks of
/// sessions that have long ended, damaged switch files that were set aside, long texts of hooks, and
/// files that were left half written.
#[derive(Debug, clap::Args)]
pub struct Gc {
    /// Only what nobody has touched for so many days
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
    /// Delete without asking
    #[arg(long, short)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Gc {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let left = leftovers(world, self.days)?;
        if self.json {
            let delete = self.yes;
            let list: Vec<Value> = left.iter().map(|left| left.json(delete)).collect();
            if delete {
                remove(&left)?;
            }
            println!("{}", serde_json::to_string(&list)?);
            return Ok(ExitCode::SUCCESS);
        }
        if left.is_empty() {
            println!("Nothing to delete.");
            return Ok(ExitCode::SUCCESS);
        }
        for left in &left {
            anstream::println!(
                "{}  {DIM}{}, {}{DIM:#}",
                left.path.display(),
                left.what.words(),
                age(left)
            );
        }
        let things = count(left.len(), "thing", "things");
        if self.yes || (is_attended() && agrees(&things)?) {
            remove(&left)?;
            println!("Deleted {things}.");
        } else if !is_attended() {
            println!("Nothing was deleted: --yes deletes {things}.");
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Left {
    fn json(&self, deleted: bool) -> Value {
        json!({
            "path": self.path,
            "what": self.what.word(),
            "session_id": self.session,
            "last_touched": moment(self.touched),
            "deleted": deleted,
        })
    }
}

fn age(left: &Left) -> String {
    let now = jiff::Timestamp::now().as_millisecond();
    format!("untouched for {}", span(now.saturating_sub(left.touched)))
}

fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

fn agrees(things: &str) -> Result<bool> {
    let mut out = io::stdout();
    write!(out, "Delete {things}? [y/N] ")?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let answer = line.trim().to_lowercase();
    Ok(matches!(&*answer, "y" | "yes"))
}

fn remove(left: &[Left]) -> Result<()> {
    for left in left {
        let path = &left.path;
        let removed = if left.is_folder {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        match removed {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.with_context(|| format!("could not remove {}", path.display()))?,
        }
    }
    Ok(())
}
