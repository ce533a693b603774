//! Whether a project's `.becket/` counts: what it would run, pinned by content, approved once. Every
//! start of a hook goes through [`admit`].

mod book;
mod pin;
mod start;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becket_wire::Place;

pub use book::{Approval, Book, BookError, change, key_of};
pub(crate) use pin::hash_of;
pub use pin::{Change, How, Pins, Refusal, pinned_text, pins_of};
pub use start::{Environment, admit};
pub use words::names_project_file;

use crate::stamp::{Seen, is_settled};
use pin::{FOLDER, Looked, collect};

/// Whether the user has approved a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    Yes,
    /// It was approved, and has changed since.
    Changed,
    #[default]
    No,
}

/// The project that a config is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub folder: PathBuf,
    pub trust: Trust,
    /// There is something in its `.becket/` that would count.
    pub holds: bool,
    pub has_git: bool,
    /// Of one that changed since it was approved: the paths that differ.
    pub changes: Vec<String>,
}

/// So many files that changed are named in a message.
const NAMED: usize = 3;

impl Project {
    /// Why its `.becket/` does nothing, and what to do; nothing if there is none, or it counts.
    pub fn says(&self) -> Option<String> {
        match (self.holds, self.trust) {
            (_, Trust::Yes) | (false, Trust::No) => None,
            (true, Trust::No) => Some(
                "This project's .becket/ is not trusted, so it does nothing. Run `becket trust` to see what it would run.".to_owned(),
            ),
            // Also where the whole folder is gone.
            (_, Trust::Changed) => Some(format!(
                "This project is not what you trusted{}, so its .becket/ does nothing. Run `becket trust` to see what changed.",
                self.changed_files(),
            )),
        }
    }

    /// Names come from the project: what is not plain in them is shown as its code.
    fn changed_files(&self) -> String {
        let named = self.changes.iter().take(NAMED);
        let named: Vec<String> = named.map(|path| path.escape_debug().to_string()).collect();
        let rest = match self.changes.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        match named.is_empty() {
            true => String::new(),
            false => format!(" ({}{rest} changed)", named.join(", ")),
        }
    }

    /// Whether `becket trust` takes it: a folder with a `.git`, or with a `.becket/` of its own.
    pub fn can_be_trusted(&self) -> bool {
        self.holds || self.has_git
    }
}

/// A project as it was approved. The hooks that it names keep it, to look again before they start.
#[derive(Debug)]
pub struct Approved {
    project: PathBuf,
    own: bool,
    looked: Looked,
}

impl Approved {
    /// A project with these pins; `own` says that its `.becket/` is not becket's home.
    pub(crate) fn of(project: &Path, own: bool, pins: Pins) -> Self {
        Self {
            project: project.to_path_buf(),
            own,
            looked: Looked::only(pins),
        }
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    pub fn pins(&self) -> &Pins {
        &self.looked.pins
    }

    /// Whether every pinned file is still what was approved.
    fn still_holds(&self) -> bool {
        let collected = || collect(&self.project, self.own);
        self.looked.still_holds() || collected().is_ok_and(|now| now.pins == self.looked.pins)
    }
}

/// Looks at a project's trust on every event: stats only, as long as nothing has changed.
#[derive(Debug)]
pub(crate) struct Watch {
    place: Place,
    /// The project's `.becket/` is its own, and not becket's home.
    own: bool,
    book_seen: Option<Seen>,
    book_settled: bool,
    /// Why no approval can be read.
    pub(crate) trouble: Option<String>,
    approval: Option<Approval>,
    folder_seen: Option<Seen>,
    /// While it is as it was approved.
    approved: Option<Arc<Approved>>,
    state: Project,
}

impl Watch {
    pub(crate) fn new(place: &Place, project: &Path, own: bool) -> Self {
        Self {
            place: place.clone(),
            own,
            book_seen: None,
            book_settled: false,
            trouble: None,
            approval: None,
            folder_seen: None,
            approved: None,
            state: Project {
                folder: project.to_path_buf(),
                trust: Trust::No,
                holds: false,
                has_git: false,
                changes: Vec::new(),
            },
        }
    }

    pub(crate) fn project(&self) -> &Project {
        &self.state
    }

    /// Its folder, unless becket's own home is in it: then all of it is the user's.
    pub(crate) fn folder(&self) -> Option<&Path> {
        let home = self.place.home().canonicalize();
        let project = self.state.folder.canonicalize();
        let holds = home.is_ok_and(|home| project.is_ok_and(|it| home.starts_with(it)));
        (!holds).then_some(&*self.state.folder)
    }

    pub(crate) fn was_approved(&self) -> bool {
        self.approval.is_some()
    }

    pub(crate) fn approved(&self) -> Option<&Arc<Approved>> {
        self.approved.as_ref()
    }

    /// The project as if these pins were approved.
    pub(crate) fn assume(&self, pins: Pins) -> Arc<Approved> {
        Arc::new(Approved::of(&self.state.folder, self.own, pins))
    }

    /// Whether there is no `.becket/` at all.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.folder_seen, None | Some(Seen::Absent))
    }

    /// Looks again. Returns whether anything is different now.
    pub(crate) fn refresh(&mut self) -> bool {
        let before = (self.state.clone(), self.trouble.clone());
        let anew = self.read_book();
        self.look_at_folder();
        let approved = self.approved.as_ref();
        if anew || !approved.is_some_and(|it| it.looked.still_holds()) {
            self.state.changes.clear();
            self.approved = self.approval.as_ref().and_then(|approval| {
                let looked = collect(&self.state.folder, self.own).ok()?;
                let changes = looked.pins.changes_since(&approval.pins).into_iter();
                self.state.changes = changes.map(|change| change.path).collect();
                self.state.changes.is_empty().then(|| {
                    Arc::new(Approved {
                        project: self.state.folder.clone(),
                        own: self.own,
                        looked,
                    })
                })
            });
        }
        self.state.trust = match (&self.approval, &self.approved) {
            (None, _) => Trust::No,
            (Some(_), Some(_)) => Trust::Yes,
            (Some(_), None) => Trust::Changed,
        };
        before != (self.state.clone(), self.trouble.clone())
    }

    /// Reads the approval again if the book has changed.
    fn read_book(&mut self) -> bool {
        let metadata = fs::metadata(self.place.trust());
        let seen = Seen::of(&metadata);
        if self.book_settled && self.book_seen.as_ref() == Some(&seen) {
            return false;
        }
        self.book_settled = metadata.as_ref().map_or(true, is_settled);
        self.book_seen = Some(seen);
        let (mut book, trouble) = match Book::read(&self.place) {
            Ok(book) => (book, None),
            Err(error) => (Book::default(), Some(error.to_string())),
        };
        self.trouble = trouble;
        let approval = key_of(&self.state.folder).and_then(|key| book.projects.remove(&key));
        let changed = approval != self.approval;
        self.approval = approval;
        changed
    }

    fn look_at_folder(&mut self) {
        self.state.has_git = self.state.folder.join(".git").exists();
        if !self.own {
            return;
        }
        let folder = self.state.folder.join(FOLDER);
        let metadata = fs::metadata(&folder);
        let seen = Seen::of(&metadata);
        if self.folder_seen.as_ref() == Some(&seen) && metadata.as_ref().map_or(true, is_settled) {
            return;
        }
        self.folder_seen = Some(seen);
        let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
        self.state.holds = entries.any(|entry| entry.file_name() != "prd");
    }
}

#[cfg(test)]
mod tests;
