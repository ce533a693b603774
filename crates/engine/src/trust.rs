//! Trust in a project's `.becket/`: the user approves once what it would run, pinned by content. Every start of
//! a hook goes through [`admit`].

mod admit;
mod named_files;
mod pin;
mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use becket_wire::Place;

pub use admit::{Environment, admit};
pub use named_files::names_project_file;
pub(crate) use pin::hash_of;
pub use pin::{PinChange, PinChangeKind, Pins, Refusal, pinned_text, pins_of};
pub use store::{Approval, TrustStore, TrustStoreError, change, key_of};

use crate::join_first;
use crate::stamp::{FileStamp, is_settled};
use pin::{CollectedPins, FOLDER, collect};

/// The user's approval of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    Yes,
    /// The project was approved, and has changed since.
    Changed,
    #[default]
    No,
}

/// The project that a config is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Project {
    pub folder: PathBuf,
    pub trust: Trust,
    /// True if its `.becket/` has content that would count.
    pub holds: bool,
    pub has_git: bool,
    /// The paths that differ from what was approved.
    pub changes: Vec<String>,
}

/// The number of changed files that a message names.
const NAMED: usize = 3;

impl Project {
    /// Returns a message for a project whose `.becket/` has no effect, with the reason and what to do.
    pub fn message(&self) -> Option<String> {
        match (self.holds, self.trust) {
            (_, Trust::Yes) | (false, Trust::No) => None,
            (true, Trust::No) => Some(
                "This project's .becket/ is not trusted, so it does nothing. Run `becket trust` to see what it would run.".to_owned(),
            ),
            // Here even if the whole folder is gone.
            (_, Trust::Changed) => Some(format!(
                "This project is not what you trusted{}, so its .becket/ does nothing. Run `becket trust` to see what changed.",
                self.changed_files(),
            )),
        }
    }

    /// Lists the changed files for a message. Names come from the project, so special characters are escaped.
    fn changed_files(&self) -> String {
        if self.changes.is_empty() {
            return String::new();
        }
        let names = self.changes.iter();
        let names = names.map(|path| path.escape_debug().to_string());
        format!(" ({} changed)", join_first(names, NAMED))
    }

    /// Returns true if `becket trust` accepts it: a folder with a `.git`, or with a `.becket/` of its own.
    pub fn can_be_trusted(&self) -> bool {
        self.holds || self.has_git
    }
}

/// A project as it was approved. Its hooks keep it, to check it again before they start.
#[derive(Debug)]
pub struct Approved {
    project: PathBuf,
    /// False if its `.becket/` is becket's home.
    own: bool,
    collected: CollectedPins,
}

impl Approved {
    /// Makes an approved project with these pins.
    pub(crate) fn of(project: &Path, own: bool, pins: Pins) -> Self {
        Self {
            project: project.to_path_buf(),
            own,
            collected: CollectedPins::only(pins),
        }
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    pub fn pins(&self) -> &Pins {
        &self.collected.pins
    }

    /// Returns true if every pinned file is as it was approved.
    fn still_holds(&self) -> bool {
        self.collected.still_holds()
            || collect(&self.project, self.own).is_ok_and(|now| now.pins == self.collected.pins)
    }
}

/// Watches a project's trust from event to event. Without a change, a check costs stats only.
#[derive(Debug)]
pub(crate) struct Watch {
    place: Place,
    /// False if the project's `.becket/` is becket's home.
    own: bool,
    store_seen: Option<FileStamp>,
    store_settled: bool,
    /// The reason for which no approval can be read.
    pub(crate) trouble: Option<String>,
    approval: Option<Approval>,
    folder_seen: Option<FileStamp>,
    /// The project, while it is as it was approved.
    approved: Option<Arc<Approved>>,
    state: Project,
}

impl Watch {
    pub(crate) fn new(place: &Place, project: &Path, own: bool) -> Self {
        Self {
            place: place.clone(),
            own,
            store_seen: None,
            store_settled: false,
            trouble: None,
            approval: None,
            folder_seen: None,
            approved: None,
            state: Project {
                folder: project.to_path_buf(),
                ..Project::default()
            },
        }
    }

    pub(crate) fn project(&self) -> &Project {
        &self.state
    }

    /// Returns its folder, unless becket's own home is in it: then all of it is the user's.
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

    /// Returns the project as if these pins were approved.
    pub(crate) fn assume(&self, pins: Pins) -> Arc<Approved> {
        Arc::new(Approved::of(&self.state.folder, self.own, pins))
    }

    /// Returns true if there is no `.becket/` at all.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.folder_seen, None | Some(FileStamp::Absent))
    }

    /// Checks the project again. Returns true if anything is different now.
    pub(crate) fn refresh(&mut self) -> bool {
        let before = (self.state.clone(), self.trouble.clone());
        let is_new = self.read_store();
        self.look_at_folder();
        let approved = self.approved.as_ref();
        if is_new || !approved.is_some_and(|it| it.collected.still_holds()) {
            self.state.changes.clear();
            self.approved = self.approval.as_ref().and_then(|approval| {
                let collected = collect(&self.state.folder, self.own).ok()?;
                let changes = collected.pins.changes_since(&approval.pins).into_iter();
                self.state.changes = changes.map(|change| change.path).collect();
                self.state.changes.is_empty().then(|| {
                    Arc::new(Approved {
                        project: self.state.folder.clone(),
                        own: self.own,
                        collected,
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

    /// Reads the approval again if the store has changed.
    fn read_store(&mut self) -> bool {
        let metadata = fs::metadata(self.place.trust());
        let seen = FileStamp::of(&metadata);
        if self.store_settled && self.store_seen.as_ref() == Some(&seen) {
            return false;
        }
        self.store_settled = metadata.as_ref().map_or(true, is_settled);
        self.store_seen = Some(seen);
        let (mut store, trouble) = match TrustStore::read(&self.place) {
            Ok(store) => (store, None),
            Err(error) => (TrustStore::default(), Some(error.to_string())),
        };
        self.trouble = trouble;
        let approval = key_of(&self.state.folder).and_then(|key| store.projects.remove(&key));
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
        let seen = FileStamp::of(&metadata);
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
