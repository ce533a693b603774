//! `init` and `uninit` on files: lock, read, edit, back up, replace, and start over if another program
//! was faster. The backups stand beside the files, for people: becket itself reads its records.

use std::fmt::Write;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use becket_engine::replace::{self, Attempt, Snapshot};
use becket_wire::Place;
use becket_wire::process::FOR_DAEMON;
use becket_wire::rpc::environment_block;
use similar::TextDiff;

use crate::claude::{self, Numbers};
use crate::client;
use crate::failure::{Code, Failure};
use crate::settings::document::SettingsError;
use crate::settings::entries::{
    Inspection, Kept, Record, inspect, register, undo, unregister_line,
};
use crate::settings::registration::{self, Registration, Scope, StatusLine, Strict};
use crate::settings::status_line::refresh_of;
use crate::world::{World, is_inside_claude};

const MAX_SETTINGS: u64 = 16 << 20;
const MAX_ATTEMPTS: usize = 20;
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// What was done to a settings file, or would be.
#[derive(Debug)]
pub struct Outcome {
    pub scope: Scope,
    /// The file itself, links followed.
    pub file: PathBuf,
    pub before: Option<String>,
    /// None: the file is gone.
    pub after: Option<String>,
    pub backup: Option<PathBuf>,
    /// What the file says about us now; before, if we are gone from it.
    pub inspection: Inspection,
}

impl Outcome {
    pub fn changed(&self) -> bool {
        self.before != self.after
    }
}

/// Registers becket in a settings file. With `dry_run` nothing is written.
pub fn init(
    world: &World,
    scope: Scope,
    strict: Strict,
    status_line: StatusLine,
    dry_run: bool,
) -> Result<Outcome> {
    let registration = registration(world, strict)?;
    let plan = |now: &Now<'_>| {
        let registration = Registration {
            status_line: now.wants_line(scope, status_line),
            refresh_written: now.record.and_then(|record| refresh_of(&record.written)),
            ..registration.clone()
        };
        let text = now.text.unwrap_or_default();
        let after = if registration.status_line {
            register(text, &registration)?
        } else {
            register(&unregister_line(text, &now.kept())?, &registration)?
        };
        let original = match now.text {
            Some(text) => undo(text, now.record)?,
            None => None,
        };
        Ok(Plan {
            inspection: inspect(&after, &registration)?,
            record: Some(Record {
                file: now.file.to_string_lossy().into_owned(),
                original,
                written: after.clone(),
                made_folder: now.record.is_some_and(|record| record.made_folder),
                no_status_line: !registration.status_line,
            }),
            after: Some(after),
            back_up: !now.is_ours_alone(),
        })
    };
    let outcome = edit(world, scope, dry_run, plan)?;
    if !dry_run && client::is_unregistered(&world.place) {
        drop(fs::remove_file(world.place.stopped_mark()));
    }
    if !dry_run && !is_inside_claude() {
        keep_environment(&world.place).context("could not keep the environment for the daemon")?;
    }
    Ok(outcome)
}

/// What the daemon starts, it finds by the PATH of this call, not by that of the shim that starts it.
fn keep_environment(place: &Place) -> io::Result<()> {
    let kept = FOR_DAEMON
        .iter()
        .filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
    let block = environment_block(kept);
    replace::make_folder(place.home(), 0o700)?;
    let before = Snapshot::read(&place.environment(), 1 << 20)?;
    if before.bytes() != Some(&*block) {
        before.replace(&block, 0o600)?;
    }
    Ok(())
}

/// Takes becket out of a settings file again. With `dry_run` nothing is written.
pub fn uninit(world: &World, scope: Scope, dry_run: bool) -> Result<Outcome> {
    let registration = registration_of(world, Strict::Keep)?;
    let plan = |now: &Now<'_>| {
        let text = now.text.unwrap_or_default();
        Ok(Plan {
            inspection: inspect(text, &registration)?,
            record: None,
            after: match now.text {
                Some(text) => undo(text, now.record)?,
                None => None,
            },
            back_up: !now.is_ours_alone(),
        })
    };
    edit(world, scope, dry_run, plan)
}

/// What `uninit` would make of this text of a settings file, links followed.
pub fn without_us(world: &World, file: &Path, text: &str) -> Result<Option<String>, SettingsError> {
    undo(text, Record::load(&world.place, file).as_ref())
}

/// The command of the status line that the person had in their own settings before ours.
pub fn status_line_before(world: &World) -> Option<String> {
    let asked = Scope::User.file(world).ok()?;
    let file = replace::resolve(&asked).ok()?;
    Record::load(&world.place, &file)?.status_command()
}

/// Whether the person wants no status line of ours in these settings.
pub fn line_is_unwanted(world: &World, file: &Path) -> bool {
    let record = replace::resolve(file).ok();
    let record = record.and_then(|file| Record::load(&world.place, &file));
    record.is_some_and(|record| record.no_status_line)
}

/// A settings file's text, or nothing if there is no file. For those who only look.
pub fn read(file: &Path) -> Result<Option<String>> {
    text_of(&snapshot(file)?)
}

/// What a registration here says, if the shim is there to be registered.
fn registration(world: &World, strict: Strict) -> Result<Registration> {
    let shim = world.shim();
    if !shim.is_file() {
        let what = format!("{} is missing, so it cannot be registered", shim.display());
        let hint = "install becket again: both programs belong in one folder";
        return Err(Failure::new(Code::Failed, what).hint(hint).into());
    }
    registration_of(world, strict)
}

/// What a registration here would say.
pub fn registration_of(world: &World, strict: Strict) -> Result<Registration> {
    registration_for(world, strict, claude::version())
}

/// The same for a Claude Code of this version.
pub fn registration_for(
    world: &World,
    strict: Strict,
    claude: Option<Numbers>,
) -> Result<Registration> {
    Ok(Registration {
        program: utf8(&world.shim())?,
        home: utf8(world.place.home())?,
        strict,
        status_line: true,
        refresh: registration::refresh(world),
        refresh_written: None,
        claude,
        synchronous: registration::synchronous_events(world),
    })
}

fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let what = format!(
            "{} is not UTF-8, which settings.json must be",
            path.display()
        );
        let hint = "install becket in a folder with a UTF-8 name, and keep its home in one";
        Failure::new(Code::Failed, what).hint(hint).into()
    })
}

/// A settings file as it is.
#[derive(Debug)]
pub struct Now<'a> {
    pub file: &'a Path,
    pub text: Option<&'a str>,
    pub record: Option<&'a Record>,
}

impl Now<'_> {
    /// A project's status line would hide the one of the person's own settings, so only those get
    /// ours.
    fn wants_line(&self, scope: Scope, said: StatusLine) -> bool {
        let earlier = || !self.record.is_some_and(|record| record.no_status_line);
        match said {
            _ if scope != Scope::User => false,
            StatusLine::On => true,
            StatusLine::Off => false,
            StatusLine::Keep => earlier(),
        }
    }

    /// What stood there before we came.
    fn kept(&self) -> Kept {
        let original = self.record.and_then(|record| record.original.as_deref());
        original.map(Kept::of).unwrap_or_default()
    }

    /// It is what we wrote, to the last byte: no backup is needed.
    fn is_ours_alone(&self) -> bool {
        let written = self.record.map(|record| record.written.as_str());
        written.is_some() && written == self.text
    }
}

/// A settings file as it should be.
#[derive(Debug)]
pub struct Plan {
    pub after: Option<String>,
    /// None: forget what was remembered.
    pub record: Option<Record>,
    pub back_up: bool,
    pub inspection: Inspection,
}

/// Reads a settings file and makes it what `plan` says, as often as it takes.
pub fn edit(
    world: &World,
    scope: Scope,
    dry_run: bool,
    plan: impl Fn(&Now<'_>) -> Result<Plan, SettingsError>,
) -> Result<Outcome> {
    let asked = scope.file(world)?;
    let lock = if dry_run {
        None
    } else {
        Some(take_lock(world)?)
    };
    for _ in 0..MAX_ATTEMPTS {
        let snapshot = snapshot(&asked)?;
        let before = text_of(&snapshot)?;
        let record = Record::load(&world.place, snapshot.path());
        let now = Now {
            file: snapshot.path(),
            text: before.as_deref(),
            record: record.as_ref(),
        };
        let plan = plan(&now).map_err(|error| unreadable(&asked, &error))?;
        let mut outcome = Outcome {
            scope,
            file: snapshot.path().to_path_buf(),
            before,
            after: plan.after.clone(),
            backup: None,
            inspection: plan.inspection.clone(),
        };
        if dry_run
            || commit(
                world,
                scope,
                &snapshot,
                &plan,
                record.as_ref(),
                &mut outcome,
            )?
        {
            drop(lock);
            return Ok(outcome);
        }
    }
    Err(keeps_changing(&asked))
}

pub fn keeps_changing(file: &Path) -> anyhow::Error {
    let what = format!("{} keeps changing", file.display());
    let hint = "close the program that writes it, and try again";
    Failure::new(Code::Failed, what).hint(hint).into()
}

/// Changes a text file, and starts over if another program was faster; whether that changed it.
pub fn edit_text(
    file: &Path,
    mode: u32,
    change: impl Fn(&str) -> Result<Option<String>>,
) -> Result<bool> {
    for _ in 0..MAX_ATTEMPTS {
        let now = snapshot(file)?;
        let text = text_of(&now)?.unwrap_or_default();
        let Some(after) = change(&text)?.filter(|after| *after != text) else {
            return Ok(false);
        };
        if now.is_read_only() {
            return Err(unwritable(file, &ErrorKind::PermissionDenied.into()));
        }
        let attempt = now.replace(after.as_bytes(), mode);
        if attempt.map_err(|why| unwritable(file, &why))? == Attempt::Done {
            return Ok(true);
        }
    }
    Err(keeps_changing(file))
}

/// Carries a plan out. False: another program was faster, and the plan is void.
fn commit(
    world: &World,
    scope: Scope,
    snapshot: &Snapshot,
    plan: &Plan,
    old: Option<&Record>,
    outcome: &mut Outcome,
) -> Result<bool> {
    let file = snapshot.path();
    if outcome.changed() {
        let (folder_mode, mode) = scope.modes();
        let failed = |error| unwritable(file, &error);
        if snapshot.is_read_only() {
            return Err(failed(ErrorKind::PermissionDenied.into()));
        }
        let made = replace::make_folder(snapshot.folder(), folder_mode).map_err(failed)?;
        // The record first: a record of what was not done does no harm, the other way round would.
        if let Some(mut record) = plan.record.clone() {
            record.made_folder |= made;
            record.save(&world.place, file)?;
        }
        let backup = match plan.back_up {
            true => Backup::make(snapshot).map_err(failed)?,
            false => None,
        };
        let attempt = match &plan.after {
            Some(after) => snapshot.replace(after.as_bytes(), mode),
            None => snapshot.remove(),
        };
        if !matches!(attempt, Ok(Attempt::Done)) {
            backup.into_iter().for_each(Backup::take_back);
            attempt.map_err(failed)?;
            return Ok(false);
        }
        outcome.backup = backup.map(Backup::keep);
    }
    let choice = |record: &Record| record.no_status_line;
    if let (Some(record), Some(old)) = (&plan.record, old)
        && choice(record) != choice(old)
    {
        record.save(&world.place, file)?;
    }
    if plan.record.is_none() {
        if plan.after.is_none() && old.is_some_and(|record| record.made_folder) {
            // It stays if anything is in it.
            drop(fs::remove_dir(snapshot.folder()));
        }
        Record::forget(&world.place, file)?;
    }
    Ok(true)
}

/// Every writer of settings files holds this lock.
pub fn take_lock(world: &World) -> Result<fs::File> {
    let folder = world.place.run();
    let path = folder.join("settings.lock");
    let taken = replace::make_folder(&folder, 0o700).and_then(|_| replace::lock(&path, LOCK_WAIT));
    taken.map_err(|error| match error.kind() {
        ErrorKind::TimedOut => {
            let what = format!("another becket holds {}", path.display());
            let failure = Failure::new(Code::TimedOut, what);
            failure
                .hint("wait for the other init, uninit or adopt, or end it")
                .into()
        }
        _ => {
            let what = format!("could not lock {}: {error}", path.display());
            let failure = Failure::new(Code::Failed, what);
            failure
                .hint("becket's home must be writable; --home names another")
                .into()
        }
    })
}

pub fn snapshot(file: &Path) -> Result<Snapshot> {
    Snapshot::read(file, MAX_SETTINGS).with_context(|| format!("could not read {}", file.display()))
}

pub fn text_of(snapshot: &Snapshot) -> Result<Option<String>> {
    let Some(bytes) = snapshot.bytes() else {
        return Ok(None);
    };
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(error) => {
            let good = &bytes[..error.valid_up_to()];
            let line = good.split(|&byte| byte == b'\n');
            let column = line.clone().next_back().map_or(0, <[u8]>::len) + 1;
            let error = SettingsError {
                line: line.count(),
                column,
                what: String::from("not UTF-8"),
            };
            Err(unreadable(snapshot.path(), &error))
        }
    }
}

pub fn unreadable(file: &Path, error: &SettingsError) -> anyhow::Error {
    let what = format!("{}:{error}; the file was not touched", file.display());
    let hint = "correct it there, then try again";
    Failure::new(Code::Failed, what).hint(hint).into()
}

pub fn unwritable(file: &Path, error: &io::Error) -> anyhow::Error {
    let what = format!("could not write {}: {error}", file.display());
    let failure = Failure::new(Code::Failed, what);
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => failure
            .hint("make the file and its folder writable, then try again")
            .into(),
        _ => failure.into(),
    }
}

/// So many of the newest stay, and the first one: it is the file as it was before we came.
const NEWEST: usize = 3;
const MARK: &str = ".becket-backup-";

/// A copy of what was read, beside the file: for people. Nothing of becket reads it.
#[derive(Debug)]
#[must_use = "it is kept or taken back"]
pub struct Backup {
    file: PathBuf,
    path: PathBuf,
}

impl Backup {
    /// Keeps what was read; none if there was none.
    pub fn make(snapshot: &Snapshot) -> io::Result<Option<Self>> {
        let now = becket_engine::local_time::now();
        let suffix = format!("{MARK}{}", now.strftime("%Y%m%d-%H%M%S"));
        let path = snapshot.copy_beside(&suffix)?;
        let file = snapshot.path().to_path_buf();
        Ok(path.map(|path| Self { file, path }))
    }

    /// The change is made: others that are old go.
    pub fn keep(self) -> PathBuf {
        let mut all = backups_of(&self.file);
        all.sort_by_key(|path| fs::metadata(path).and_then(|meta| meta.modified()).ok());
        let old = all.len().saturating_sub(NEWEST);
        for path in all.iter().take(old).skip(1) {
            if *path != self.path {
                drop(fs::remove_file(path));
            }
        }
        self.path
    }

    /// The change was not made.
    pub fn take_back(self) {
        drop(fs::remove_file(self.path));
    }
}

/// What a person has named otherwise is theirs.
fn backups_of(file: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Vec::new();
    };
    let prefix = format!("{}{MARK}", name.to_string_lossy());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        rest.is_some_and(|rest| rest.bytes().all(|c| c.is_ascii_digit() || c == b'-'))
    });
    ours.map(|entry| entry.path()).collect()
}

/// A unified diff; a file that is not there is named /dev/null.
pub fn unified(file: &str, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| match text {
        Some(_) => file.to_owned(),
        None => String::from("/dev/null"),
    };
    let texts = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    let mut diff = texts.unified_diff();
    diff.header(&name(before), &name(after)).to_string()
}

/// Prints it.
pub fn print_diff(file: &Path, before: Option<&str>, after: Option<&str>) {
    let diff = unified(&file.to_string_lossy(), before, after);
    anstream::print!("{}", coloured(&diff));
}

/// The same with colours, for anstream to print or strip.
fn coloured(diff: &str) -> String {
    let mut result = String::with_capacity(diff.len());
    for (number, line) in diff.split_inclusive('\n').enumerate() {
        let style = style(line, number < 2);
        // Colours end before the line does, so that they never leak into the next one.
        let (text, end) = match line.find(['\r', '\n']) {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        // Writing to a string cannot fail.
        let _ = write!(result, "{style}{text}{style:#}{end}");
    }
    result
}

fn style(line: &str, is_header: bool) -> Style {
    match line.as_bytes().first() {
        _ if is_header => Style::new().bold(),
        Some(b'+') => AnsiColor::Green.on_default(),
        Some(b'-') => AnsiColor::Red.on_default(),
        Some(b'@') => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}
