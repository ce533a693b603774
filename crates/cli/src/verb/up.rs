//! `becket up`: registers becket after one question, shows a first event, and names the built-in hooks that fit the
//! project.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn, fitting};
use becket_engine::hooks::name::{self, Match};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::doctor::settings_checks::send_canary;
use crate::event_line::{EventPrinter, LineFormat};
use crate::failure::{Code, Failure};
use crate::settings::{self, SettingsOutcome, SettingsScope};
use crate::tmux::{CurrentTmux, conf};
use crate::ui::style::{BOLD, DIM, GOOD, Look, WARN};
use crate::ui::text::{count, wrap};
use crate::verb::hooks::untrusted_warning;
use crate::verb::init::{InitArgs, RegisterOptions, install, warn_if_hooks_are_off};
use crate::world::{World, project_of};
use crate::{adopt, claude, client, commands, tui, ui, verb};

/// Set becket up, and prove that an event arrives
///
/// Adds one entry for each hook event to Claude Code's settings and leaves the rest of the file as it
/// is, writes the slash commands /hook:disable, /hook:enable, /hook:status, /brainstorm, /fix,
/// /implement and /prd beside it, starts the daemon, and sends an event. In a terminal it first says
/// what it will change, and asks once. It names every file that it writes. Run it again at any time: it
/// fixes what is wrong and otherwise changes nothing.
#[derive(Debug, clap::Args)]
#[command(mut_group("ScopeArgs", |group| group.requires("only_register")))]
#[command(mut_group("RegisterPreview", |group| group.requires("only_register")))]
pub struct UpArgs {
    /// Register with Claude Code, without a question, and start nothing
    #[arg(long)]
    only_register: bool,
    #[command(flatten)]
    init: InitArgs,
    /// Do not ask whether to go ahead
    #[arg(long, short)]
    yes: bool,
    /// Do not open the live view at the end
    #[arg(long)]
    no_view: bool,
    /// Notify you in this way when a session needs you or is done after long work
    #[arg(long, value_name = "HOW", conflicts_with_all = ["only_register", "tmux"])]
    notice: Option<NoticeChoice>,
    /// Switch these built-in hooks on, in your config
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["only_register", "tmux"])]
    hooks: Vec<String>,
}

impl UpArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        if self.only_register || self.init.tmux.is_wanted() {
            return self.init.run(world);
        }
        world.refuse_inside_claude("up")?;
        // Checked before anything is changed: a typing error should leave no traces.
        let hooks = named_hooks(&self.hooks)?;
        let options = &self.init.options;
        check_version(claude::printed_version(), options.strict)?;
        let existing = ExistingSetup::find(world);
        if ui::is_attended() && !self.yes && !go_ahead(world, options, &existing)? {
            anstream::println!("Nothing was changed.");
            return Ok(ExitCode::from(Code::Failed as u8));
        }
        let outcome = register(world, options, false)?;
        world.close_home();
        warn_if_hooks_are_off(&outcome);
        let mut changed = outcome.change.changed();
        let events = outcome.inspection.entries.len();
        let how = if changed {
            "registered"
        } else {
            "already registered"
        };
        step(
            &format!("{how} with Claude Code for {events} events"),
            &outcome.change.file.display().to_string(),
        );
        if let Some(backup) = &outcome.change.backup {
            step(
                "kept the file as it was before",
                &backup.display().to_string(),
            );
        }
        let record = settings::record_path(&world.place, &outcome.change.file);
        step(
            "saved PATH, HOME and TZ for the daemon, and your old settings for `becket down`",
            &format!(
                "{}, {}",
                world.place.environment().display(),
                record.display()
            ),
        );
        if outcome.change.changed() && outcome.inspection.status_line.is_beside() {
            step("kept your own status line", "becket's is shown beneath it");
        }
        let commands = install(world, SettingsScope::User, false);
        if let Some((names, folder)) = commands::changed(&commands) {
            step(&format!("wrote {names}"), &folder.display().to_string());
            changed = true;
        }
        let started = client::start(world)?;
        let how = if started {
            "started the daemon"
        } else {
            "the daemon runs already"
        };
        step(how, &world.socket().display().to_string());
        let entry = outcome
            .inspection
            .entries
            .iter()
            .find_map(|entry| entry.command.as_ref());
        let entry = entry.context("nothing is registered")?;
        let canary = send_canary(world, Path::new(&entry.program), &entry.args, true)
            .context("no event arrives")?;
        let took = format!(
            "{:.1} ms, kept as event {}",
            canary.took.as_secs_f64() * 1e3,
            canary.row.seq
        );
        step("sent an event through, and found it in the database", &took);
        let mut lines = EventPrinter::new(LineFormat::Person);
        lines.print(&canary.row)?;
        lines.flush()?;
        if let Some(set) = notices(world, self.notice)? {
            step(&set, &world.place.config().display().to_string());
            changed = true;
        }
        if let Some(set) = switch_on(world, &hooks)? {
            step(&set, &world.place.config().display().to_string());
            changed = true;
        }
        tell_what_next(world, &existing);
        // The view would hide what this run changed.
        if !self.no_view && !changed && tui::suits_terminal() {
            return verb::view::run(world, None);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The parts of the user's setup that becket could work with.
struct ExistingSetup {
    /// The number of hooks in Claude Code's settings that are not becket's.
    own_hooks: usize,
    /// True inside of tmux, if becket's lines are not in its configuration.
    in_tmux: bool,
}

impl ExistingSetup {
    fn find(world: &World) -> Self {
        // An unreadable settings file is reported by the registration.
        let found = adopt::find_hooks(world).unwrap_or_default();
        Self {
            own_hooks: found.hooks.len(),
            in_tmux: CurrentTmux::read().socket.is_some() && !conf::is_added(&world.place),
        }
    }
}

fn register(world: &World, options: &RegisterOptions, dry_run: bool) -> Result<SettingsOutcome> {
    let (strict, status_line) = (options.strict(), options.status_line());
    settings::init(world, SettingsScope::User, strict, status_line, dry_run)
        .context("could not register with Claude Code")
}

/// Lists the changes, and asks the user. Returns true without a question if there are none.
fn go_ahead(world: &World, options: &RegisterOptions, existing: &ExistingSetup) -> Result<bool> {
    let outcome = register(world, options, true)?;
    let commands = install(world, SettingsScope::User, true);
    let commands = commands::changed(&commands);
    if !outcome.change.changed() && commands.is_none() {
        return Ok(true);
    }
    anstream::print!(
        "{}",
        planned_changes(world, &outcome, commands, existing, &Look::of_stdout())
    );
    let answer = ui::ask("Go ahead? [Y/n] ")?;
    // An end of input without a line (Ctrl-D) means no.
    let is_line = answer.ends_with('\n');
    Ok(is_line && matches!(&*answer.trim().to_lowercase(), "" | "y" | "yes"))
}

/// Lists the planned changes for the user.
fn planned_changes(
    world: &World,
    outcome: &SettingsOutcome,
    commands: Option<(String, &Path)>,
    existing: &ExistingSetup,
    look: &Look,
) -> String {
    let events = outcome.inspection.entries.len();
    let file = outcome.change.file.display();
    let copy = match outcome.change.before {
        Some(_) => ", and keep a copy of it",
        None => "",
    };
    let mut steps = vec![format!("register for {events} hook events in {file}{copy}")];
    if outcome.inspection.status_line.is_becket() {
        let place = if outcome.inspection.status_line.is_beside() {
            "beneath yours"
        } else {
            "in Claude Code"
        };
        steps.push(format!("show its status line {place}"));
    }
    if let Some((names, folder)) = commands {
        steps.push(format!("write {names} to {}", folder.display()));
    }
    steps.push(
        "deny dangerous tool calls, or have Claude Code ask you (`becket guard list`)".to_owned(),
    );
    let home = world.place.home().display();
    steps.push(format!("start its daemon, and record events in {home}"));
    let mut text = format!("{BOLD}becket will{BOLD:#}\n");
    for step in &steps {
        for (nth, line) in wrap(step, look.width.saturating_sub(4)).iter().enumerate() {
            let mark = if nth == 0 { "-" } else { " " };
            text += &format!("  {mark} {line}\n");
        }
    }
    text.push('\n');
    if existing.own_hooks > 0 {
        let hooks = count(existing.own_hooks, "hook", "hooks");
        text += &format!(
            "Left as it is: {hooks} in Claude Code's settings (`becket hooks adopt` takes them over)\n"
        );
    }
    if existing.in_tmux {
        text += "Left as it is: tmux (`becket up --tmux` shows in it which session waits)\n";
    }
    text + "`becket down` takes all of it back.\n\n"
}

/// Fails for a Claude Code that would run no hook any more, and warns of one that lacks something.
fn check_version(version: Option<String>, strict: bool) -> Result<()> {
    let Some(old) = version.and_then(|version| claude::too_old(&version, strict)) else {
        return Ok(());
    };
    if old.is_useless {
        let hint = "`claude update`, then `becket up`. Nothing was changed";
        return Err(Failure::new(Code::Failed, old.why).hint(hint).into());
    }
    anstream::println!("{WARN}!{WARN:#} {} (claude update)", old.why);
    Ok(())
}

/// Names the built-in hooks that fit the project and are in no config, and the command that switches them on.
fn print_fitting(world: &World) {
    let project = project_of(&world.cwd);
    let configured = &world.loader(Some(project)).current().hooks;
    let fitting = fitting(project).into_iter();
    let mut names: Vec<&str> = fitting.map(|it| it.name).collect();
    names.retain(|name| !configured.iter().any(|hook| hook.name == *name));
    if names.is_empty() {
        return;
    }
    anstream::println!(
        "Built-in hooks that fit {}, all off: {}. To switch them on: {BOLD}becket hooks on {}{BOLD:#}",
        project.display(),
        names.join(", "),
        names.join(" ")
    );
}

fn tell_what_next(world: &World, existing: &ExistingSetup) {
    if let Some(warning) = untrusted_warning(world, project_of(&world.cwd)) {
        anstream::println!("{WARN}!{WARN:#} {warning}");
    }
    print_fitting(world);
    anstream::println!();
    anstream::println!("Start Claude Code as always. Then:");
    let adopt = (
        "becket hooks adopt",
        "give the hooks that you had names and switches",
    );
    let tmux = ("becket up --tmux", "see in tmux which session waits");
    let always = [
        ("becket", "see all sessions, live"),
        ("becket events --follow", "see everything that happens"),
        (
            "becket hooks --all",
            "see the hooks, yours and becket's own",
        ),
        ("becket guard list", "see what is denied or asked about"),
        ("becket doctor", "check every part"),
        ("becket down", "take it all back"),
    ];
    let adopt = Some(adopt).filter(|_| existing.own_hooks > 0);
    let tmux = Some(tmux).filter(|_| existing.in_tmux);
    for (command, what) in always.into_iter().chain(adopt).chain(tmux) {
        anstream::println!("  {BOLD}{command:24}{BOLD:#}{what}");
    }
    anstream::println!();
    let kept = format!(
        "Events are kept in {}. Prompts and tool data are deleted after 90 days or 4 GiB ([store] in the config); the list of events stays.",
        world.place.database().display()
    );
    for line in wrap(&kept, Look::of_stdout().width) {
        anstream::println!("{DIM}{line}{DIM:#}");
    }
}

fn step(what: &str, detail: &str) {
    anstream::println!("{GOOD}✓{GOOD:#} {what}  {DIM}{detail}{DIM:#}");
}

/// The ways to notify the user. A program of the user's own can be set in the config file only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum NoticeChoice {
    Bell,
    Osc9,
    Osc777,
    Off,
}

impl NoticeChoice {
    fn word(self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Osc9 => "osc9",
            Self::Osc777 => "osc777",
            Self::Off => "off",
        }
    }
}

/// Writes the choice into the user's config. Returns the new setting in words.
fn notices(world: &World, choice: Option<NoticeChoice>) -> Result<Option<String>> {
    let Some(choice) = choice else {
        return Ok(None);
    };
    change(world, "[notice]", |text| with_notice(text, choice))?;
    Ok(Some(match choice {
        NoticeChoice::Off => "notices are off".to_owned(),
        _ => format!("notices are on: {}", choice.word()),
    }))
}

/// Changes a section of the user's config.
pub(super) fn change(
    world: &World,
    section: &str,
    edit: impl Fn(&str) -> Result<String>,
) -> Result<()> {
    let file = world.place.config();
    settings::edit_text(&file, 0o600, |text| edit(text).map(Some))
        .map(drop)
        .with_context(|| format!("could not write {section} to {}", file.display()))
}

fn broken() -> Failure {
    Failure::new(Code::Failed, "it does not parse")
        .hint("`becket config check` says where; fix it first")
}

/// Returns the config with this choice, and everything else unchanged.
fn with_notice(text: &str, choice: NoticeChoice) -> Result<String> {
    let mut document: DocumentMut = text.parse().map_err(|_| broken())?;
    let section = document
        .entry("notice")
        .or_insert_with(toml_edit::table)
        .as_table_like_mut()
        .ok_or_else(broken)?;
    let on = section.get("on").and_then(Item::as_str);
    match (choice, on) {
        (NoticeChoice::Off, _) => put(section, "on", "off".into()),
        (_, None | Some("off")) => put(section, "on", "all".into()),
        _ => {}
    }
    if choice != NoticeChoice::Off {
        put(section, "how", choice.word().into());
    }
    Ok(document.to_string())
}

/// Sets a value, and keeps the spaces and comments around it.
fn put(section: &mut dyn TableLike, key: &str, mut value: Value) {
    match section.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if old.as_str().is_some() && old.as_str() == value.as_str() => {}
        Some(old) if undecorated(old) == undecorated(&value) => {}
        Some(old) => {
            value.decor_mut().clone_from(old.decor());
            *old = value;
        }
        None => drop(section.insert(key, Item::Value(value))),
    }
}

/// Returns the text of a value without the spaces and comments around it.
fn undecorated(value: &Value) -> String {
    value.clone().decorated("", "").to_string()
}

/// Switches hooks on in the user's config. Returns the names in words.
fn switch_on(world: &World, chosen: &[&BuiltIn]) -> Result<Option<String>> {
    if chosen.is_empty() {
        return Ok(None);
    }
    let names: Vec<&str> = chosen.iter().map(|hook| hook.name).collect();
    change(world, "[hooks]", |text| switched(text, &names, true))?;
    let trust = if chosen.iter().any(|hook| hook.starts_project_tools) {
        " (those that start a project's own tools: after `becket trust` there)"
    } else {
        ""
    };
    Ok(Some(format!("on from now: {}{trust}", names.join(", "))))
}

/// Finds the built-in hooks of these names.
fn named_hooks(names: &[String]) -> Result<Vec<&'static BuiltIn>> {
    let names = names.join(" ");
    name::words(&names).into_iter().map(find).collect()
}

/// Finds a built-in hook by its name, or by a part of it that no other name has.
fn find(word: &str) -> Result<&'static BuiltIn> {
    let names: Vec<&str> = BUILT_INS.iter().map(|hook| hook.name).collect();
    let found = name::find(word, names.iter().copied());
    if let Match::One(name) = found
        && let Some(hook) = BuiltIn::find(name)
    {
        return Ok(hook);
    }
    let hint = match found {
        Match::One(near)
        | Match::None {
            nearest: Some(near),
        } => format!("did you mean {near}?"),
        Match::Several(near) => format!("did you mean one of {}?", near.join(", ")),
        Match::None { nearest: None } => format!("there are {}", names.join(", ")),
    };
    let what = format!("there is no built-in hook `{word}`");
    Err(Failure::new(Code::Missing, what).hint(hint).into())
}

/// Returns the config with these hooks on or off, and everything else unchanged. A hook that is not built in and has no
/// `run` in this file is defined in another one: to switch it on, only its `enabled` is removed.
pub(super) fn switched(text: &str, names: &[&str], on: bool) -> Result<String> {
    let mut document: DocumentMut = text.parse().map_err(|_| broken())?;
    let hooks = document.entry("hooks").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let hooks = hooks.as_table_like_mut().ok_or_else(broken)?;
    for name in names {
        let one = hooks.entry(name).or_insert_with(toml_edit::table);
        let one = one.as_table_like_mut().ok_or_else(broken)?;
        if on && BuiltIn::find(name).is_none() && one.get("run").is_none() {
            one.remove("enabled");
            if one.is_empty() {
                hooks.remove(name);
            }
        } else {
            put(one, "enabled", on.into());
        }
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_choice_is_written_and_the_rest_stays() {
        for (before, choice, after) in [
            (
                "",
                NoticeChoice::Bell,
                "[notice]\non = \"all\"\nhow = \"bell\"\n",
            ),
            ("", NoticeChoice::Off, "[notice]\non = \"off\"\n"),
            (
                "# mine\n[store]\nkeep_days = 7   # a week\n",
                NoticeChoice::Osc9,
                "# mine\n[store]\nkeep_days = 7   # a week\n\n[notice]\non = \"all\"\nhow = \"osc9\"\n",
            ),
            (
                "[notice]\non = 'attention' # not more\nquiet = \"22:00-07:00\"\n[mask]\nenabled = true\n",
                NoticeChoice::Osc777,
                "[notice]\non = 'attention' # not more\nquiet = \"22:00-07:00\"\nhow = \"osc777\"\n[mask]\nenabled = true\n",
            ),
            (
                "[notice]\non = \"all\"   # everything\nhow = \"bell\"\n",
                NoticeChoice::Off,
                "[notice]\non = \"off\"   # everything\nhow = \"bell\"\n",
            ),
            (
                "notice.on = \"off\"\n",
                NoticeChoice::Bell,
                "notice.on = \"all\"\nnotice.how = \"bell\"\n",
            ),
            (
                "notice = { on = \"off\" }\n",
                NoticeChoice::Bell,
                "notice = { on = \"all\" , how = \"bell\" }\n",
            ),
        ] {
            assert_eq!(with_notice(before, choice).unwrap(), after, "{before}");
            assert_eq!(
                with_notice(after, choice).unwrap(),
                after,
                "twice: {before}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_was_there_still_says_the_same(
            days in 0_u32..1000,
            on in proptest::option::of("off|attention|done|all"),
            comment in "[ -~]{0,20}",
        ) {
            let on = on.map_or(String::new(), |on| format!("on = \"{on}\" # {comment}\n"));
            let text = format!("# {comment}\n[notice] # {comment}\n{on}[store]\nkeep_days = {days} # {comment}\n");
            let after = with_notice(&text, NoticeChoice::Osc9).unwrap();
            let table: DocumentMut = after.parse().unwrap();
            let expected = i64::from(days);
            prop_assert_eq!(table["store"]["keep_days"].as_integer(), Some(expected));
            prop_assert_eq!(table["notice"]["how"].as_str(), Some("osc9"));
            prop_assert_eq!(after.matches(&format!("# {comment}\n")).count(), text.matches(&format!("# {comment}\n")).count());
        }
    }

    #[test]
    fn what_was_chosen_is_on_and_the_rest_stays() {
        let first = "typecheck-changed";
        let chosen = ["check-todos", first].map(|word| find(word).unwrap().name);
        let both =
            format!("[hooks.check-todos]\nenabled = true\n\n[hooks.{first}]\nenabled = true\n");
        assert_eq!(switched("", &chosen, true).unwrap(), both);
        assert_eq!(switched(&both, &chosen, true).unwrap(), both, "twice");
        let before = "# mine\n[hooks.check-todos]\nenabled = false\ntimeout = \"3s\" # short\n";
        let after = switched(before, &chosen[..1], true).unwrap();
        assert_eq!(after, before.replace("false", "true"));
        let mine = "[hooks.check-todos]\nenabled = true # why\n";
        let off = mine.replace("true", "false");
        assert_eq!(switched(mine, &chosen[..1], false).unwrap(), off);
        let theirs = switched("", &["theirs"], false).unwrap();
        assert_eq!(theirs, "[hooks.theirs]\nenabled = false\n");
        assert_eq!(switched(&theirs, &["theirs"], true).unwrap(), "");
        for text in ["[hooks", "hooks = 3\n", "hooks.check-todos = 1\n"] {
            assert!(switched(text, &chosen, true).is_err(), "{text}");
        }
    }
}
