//! `becket hooks adopt`: turns hooks of Claude Code's settings into named hooks of becket.

use std::collections::BTreeSet;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::adopt::{
    self, Adoption, ForeignHooks, HookCandidate, Obstacle, UndoneAdoption, numbers,
};
use crate::failure::{Code, Failure};
use crate::settings::{FileChange, SettingsScope};
use crate::ui::style::{Look, WARN};
use crate::ui::text::{count, one_line};
use crate::world::World;
use crate::{tui, ui};

/// Move the hooks of Claude Code's settings into becket's config
///
/// Shows every hook that is not becket's in a settings file (user, project, local), and moves
/// those that you choose. From then on each has a name, a switch for every session, times and a
/// history. `--undo` gives them all back.
#[derive(Debug, clap::Args)]
pub struct HooksAdopt {
    /// Move every hook that can be moved
    #[arg(long, conflicts_with_all = ["only", "undo"])]
    all: bool,
    /// Move these hooks, by the names that the list gives them
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "undo")]
    only: Vec<String>,
    /// Use becket's built-in hook in place of one that names it, such as claudekit's lint-changed
    #[arg(long, conflicts_with = "undo")]
    built_in: bool,
    /// Do not ask: also move a project's hooks, which do not run until `becket trust`
    #[arg(long, conflicts_with = "undo")]
    yes: bool,
    /// Give back everything that was adopted from the settings of this folder
    #[arg(long)]
    undo: bool,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl HooksAdopt {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if self.undo {
            return self.give_back(world);
        }
        let mut found = adopt::find_hooks(world)?;
        let is_chosen = self.all || self.yes || !self.only.is_empty() || self.dry_run;
        if !is_chosen && (self.json || !tui::suits_terminal() || nothing_to_choose(&found)) {
            self.list(world, &found);
            return Ok(ExitCode::SUCCESS);
        }
        let mut names = if is_chosen {
            self.named(&found)?
        } else {
            self.list(world, &found);
            let answer = ui::ask("Which? Numbers, all or none [none] ")?;
            let names = chosen(answer.trim(), &found)?;
            if names.is_empty() {
                return Ok(ExitCode::SUCCESS);
            }
            names
        };
        if !self.dry_run {
            world.refuse_inside_claude("hooks adopt")?;
        }
        must_be_registered(&found, &names)?;
        if self.built_in || (!is_chosen && wants_built_ins(&found, &names)?) {
            found.take_built_ins(world, &mut names);
        }
        let left = self.leave_project_hooks(&found, &mut names)?;
        let hooks: Vec<&HookCandidate> = found
            .hooks
            .iter()
            .filter(|hook| names.contains(&hook.name))
            .collect();
        let moved = if hooks.is_empty() {
            Vec::new()
        } else {
            adopt::adopt(world, &found, &hooks, self.dry_run)?
        };
        if self.json {
            let mut report = adopt::json(world, &found);
            report["moved"] = moved
                .iter()
                .map(|moved| report_of(moved, self.dry_run))
                .collect();
            report["left"] = json!(left);
            report["needs_trust"] = json!(needing_trust(&found, &hooks));
            report["dry_run"] = json!(self.dry_run);
            anstream::println!("{report}");
        } else if self.dry_run {
            moved
                .iter()
                .flat_map(Adoption::changes)
                .for_each(FileChange::print_diff);
            tell_left(&left, &needing_trust(&found, &hooks));
        } else {
            moved.iter().for_each(tell);
            tell_left(&left, &needing_trust(&found, &hooks));
            tell_next(&moved);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self, world: &World, found: &ForeignHooks) {
        if self.json {
            anstream::println!("{}", adopt::json(world, found));
            return;
        }
        if found.is_empty() {
            anstream::println!("the settings of this folder hold no hooks but becket's");
            return;
        }
        anstream::print!("{}", adopt::list_table(found, &Look::of_stdout()));
        let unregistered = found.hooks.iter().find_map(|hook| match &hook.obstacle {
            Some(Obstacle::Unregistered(why)) => Some(why),
            _ => None,
        });
        match unregistered {
            Some(why) => anstream::println!("{WARN}{why}{WARN:#}: run `becket up` first"),
            None if nothing_to_choose(found) || tui::suits_terminal() => {}
            None => anstream::println!(
                "next: `becket hooks adopt --all` moves them, `becket hooks adopt --only NAME` some of them"
            ),
        }
        let built_ins = found.built_ins(found.hooks.iter().filter(|hook| !hook.is_unsupported()));
        if !built_ins.is_empty() {
            anstream::println!(
                "becket has these built in: {built_ins}. `becket hooks adopt --all --built-in` takes its own in their place"
            );
        }
    }

    /// Returns the hooks that the command line names.
    fn named(&self, found: &ForeignHooks) -> Result<BTreeSet<String>> {
        if self.only.is_empty() {
            let can = found.hooks.iter().filter(|hook| !hook.is_unsupported());
            return Ok(can.map(|hook| hook.name.clone()).collect());
        }
        for name in &self.only {
            let Some(hook) = found.hooks.iter().find(|hook| hook.name == *name) else {
                let what = format!("no hook in the list is called `{}`", one_line(name));
                let failure = Failure::new(Code::Missing, what);
                return Err(failure.hint("`becket hooks adopt` lists the names").into());
            };
            if let Some(Obstacle::Unsupported(why)) = &hook.obstacle {
                let what = format!("{name} cannot be adopted: {why}");
                return Err(Failure::new(Code::Failed, what).into());
            }
        }
        Ok(self.only.iter().cloned().collect())
    }

    /// Removes the project's hooks from `names`, unless the user agrees to move them: they do not run until the project
    /// is trusted. Returns the removed names.
    fn leave_project_hooks(
        &self,
        found: &ForeignHooks,
        names: &mut BTreeSet<String>,
    ) -> Result<Vec<String>> {
        let left: Vec<String> = found
            .hooks
            .iter()
            .filter(|hook| hook.scope != SettingsScope::User && names.contains(&hook.name))
            .map(|hook| hook.name.clone())
            .collect();
        if left.is_empty() || (self.yes && !self.dry_run) {
            return Ok(Vec::new());
        }
        let shared = found
            .hooks
            .iter()
            .any(|hook| hook.scope == SettingsScope::Project && names.contains(&hook.name));
        let many = count(left.len(), "hook", "hooks");
        anstream::eprintln!(
            "{WARN}warning:{WARN:#} {many} of this project would not run until `becket trust`: {}",
            left.join(", ")
        );
        if shared {
            anstream::eprintln!(
                "{WARN}warning:{WARN:#} the project's settings are shared: people without becket lose these hooks"
            );
        }
        if self.yes {
            return Ok(Vec::new());
        }
        let may_ask = !self.json && !self.dry_run && tui::suits_terminal();
        if may_ask && ui::agrees("Move them too?")? {
            return Ok(Vec::new());
        }
        for name in &left {
            names.remove(name);
        }
        Ok(left)
    }

    fn give_back(&self, world: &World) -> Result<ExitCode> {
        if !self.dry_run {
            world.refuse_inside_claude("adopt --undo")?;
        }
        let undone = adopt::undo(world, self.dry_run)?;
        if self.json {
            let undone: Vec<Value> = undone
                .iter()
                .map(|one| report_back(one, self.dry_run))
                .collect();
            anstream::println!("{}", json!({"undone": undone, "dry_run": self.dry_run}));
        } else if self.dry_run {
            let changes = undone
                .iter()
                .flat_map(|one| std::iter::once(&one.settings).chain(&one.config));
            changes.for_each(FileChange::print_diff);
        } else if undone.is_empty() {
            anstream::println!("nothing was adopted from the settings of this folder");
        } else {
            undone.iter().for_each(tell_back);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Asks whether to use becket's built-in hooks in place of those with their names.
fn wants_built_ins(found: &ForeignHooks, names: &BTreeSet<String>) -> Result<bool> {
    let chosen = found.hooks.iter().filter(|hook| names.contains(&hook.name));
    let built_ins = found.built_ins(chosen);
    let question = format!("becket has these built in: {built_ins}. Take its own in their place?");
    Ok(!built_ins.is_empty() && ui::agrees(&question)?)
}

fn nothing_to_choose(found: &ForeignHooks) -> bool {
    found.hooks.iter().all(|hook| hook.obstacle.is_some())
}

/// Returns the hooks whose numbers in the list the user typed.
fn chosen(answer: &str, found: &ForeignHooks) -> Result<BTreeSet<String>> {
    let listed: Vec<&HookCandidate> = found
        .hooks
        .iter()
        .filter(|hook| !hook.is_unsupported())
        .collect();
    let Some(numbers) = numbers(answer, listed.len()) else {
        let what = format!("`{}` is not one of the choices", one_line(answer));
        let hint = format!(
            "type `all`, `none`, or numbers from 1 to {}: 1 3-5",
            listed.len()
        );
        return Err(Failure::new(Code::Usage, what).hint(hint).into());
    };
    let names = numbers.into_iter().map(|nth| listed[nth - 1].name.clone());
    Ok(names.collect())
}

/// Fails if the events of a hook do not reach becket: it would silently not run.
fn must_be_registered(found: &ForeignHooks, names: &BTreeSet<String>) -> Result<()> {
    let chosen = found.hooks.iter().filter(|hook| names.contains(&hook.name));
    let unregistered = chosen.into_iter().find_map(|hook| match &hook.obstacle {
        Some(Obstacle::Unregistered(why)) => Some((hook, why)),
        _ => None,
    });
    let Some((hook, why)) = unregistered else {
        return Ok(());
    };
    let what = format!("{} would not run: {why}", hook.name);
    Err(Failure::new(Code::Failed, what)
        .hint("`becket up` registers it")
        .into())
}

/// Returns the user's own hooks that do not run in a project without trust. A hook that names a file is among them if
/// the file is in this project.
fn needing_trust<'a>(found: &ForeignHooks, hooks: &[&'a HookCandidate]) -> Vec<&'a str> {
    hooks
        .iter()
        .filter(|hook| {
            hook.scope == SettingsScope::User && hook.trust_note(&found.project).is_some()
        })
        .map(|hook| &*hook.name)
        .collect()
}

fn tell(moved: &Adoption) {
    let settings = moved.settings.file.display();
    let Some(config) = &moved.config else {
        return anstream::println!(
            "Claude Code now waits for becket's answer on the events of these hooks, {settings}"
        );
    };
    let config = config.file.display();
    match moved.names.len() - moved.already_there.len() {
        0 => {}
        new => {
            let hooks = count(new, "hook", "hooks");
            anstream::println!("moved {hooks} from {settings} to {config}");
        }
    }
    if !moved.already_there.is_empty() {
        anstream::println!(
            "in {config} already, so only taken out of {settings}: {}",
            moved.already_there.join(", ")
        );
    }
    if let Some(backup) = &moved.settings.backup {
        anstream::println!("the file as it was before: {}", backup.display());
    }
}

/// Names the hooks that stay in the settings, and those that need a trusted project.
fn tell_left(left: &[String], needing_trust: &[&str]) {
    if !left.is_empty() {
        anstream::println!(
            "left where they are: {}; --yes moves them too",
            left.join(", ")
        );
    }
    if !needing_trust.is_empty() {
        let many = count(needing_trust.len(), "hook starts", "hooks start");
        anstream::println!(
            "{many} files or tools of the session's project, and run only in projects that you trust (`becket trust`): {}",
            needing_trust.join(", ")
        );
    }
}

fn tell_next(moved: &[Adoption]) {
    if moved
        .iter()
        .any(|moved| moved.scope != SettingsScope::User && moved.config.is_some())
    {
        anstream::println!("next: `becket trust` lets this project's hooks run");
    }
    if !moved.is_empty() {
        anstream::println!("`becket hooks adopt --undo` gives everything back");
    }
}

fn tell_back(undone: &UndoneAdoption) {
    let settings = undone.settings.file.display();
    let hooks = count(undone.entries, "hook", "hooks");
    if undone.exact {
        anstream::println!("gave {hooks} back to {settings}, which is what it was");
    } else {
        anstream::println!("gave {hooks} back to {settings}, which had been changed since");
    }
    if let Some(backup) = &undone.settings.backup {
        anstream::println!("the file as it was before: {}", backup.display());
    }
    let config = undone.config.as_ref().map(|config| config.file.display());
    for (name, config) in undone.left.iter().zip(config.iter().cycle()) {
        anstream::eprintln!(
            "{WARN}warning:{WARN:#} [hooks.{name}] in {config} was changed since, and stays: it runs from both places until you take one out"
        );
    }
}

fn report_of(moved: &Adoption, dry_run: bool) -> Value {
    json!({
        "scope": moved.scope.to_string(),
        "names": moved.names,
        "settings": moved.settings.report(dry_run),
        "config": moved.config.as_ref().map(|config| config.report(dry_run)),
    })
}

fn report_back(undone: &UndoneAdoption, dry_run: bool) -> Value {
    json!({
        "scope": undone.scope.to_string(),
        "hooks": undone.entries,
        "exact": undone.exact,
        "left": undone.left,
        "settings": undone.settings.report(dry_run),
        "config": undone.config.as_ref().map(|config| config.report(dry_run)),
    })
}
