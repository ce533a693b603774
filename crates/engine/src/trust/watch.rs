//! The look at a project's trust on every event: stats only, as long as nothing has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use becket_wire::Place;

use super::book::{Approval, Book};
use super::pin::{Looked, Pins, collect};
use super::{Project, Trust, key_of};
use crate::stamp::{Seen, is_settled};

#[derive(Debug)]
pub(crate) struct Watch {
    place: Place,
    /// As it was asked for, and its `.becket/`, unless that is becket's own home.
    project: PathBuf,
    folder: Option<PathBuf>,
    book_seen: Option<Seen>,
    book_settled: bool,
    /// Why no approval can be read.
    pub(crate) trouble: Option<String>,
    approval: Option<Approval>,
    folder_seen: Option<Seen>,
    looked: Option<Arc<Looked>>,
    /// While it is as it was approved.
    approved: Option<Arc<Approved>>,
    state: Project,
}

/// A project as it was approved, for whoever starts a program of it a while after the look.
#[derive(Debug)]
pub struct Approved {
    project: PathBuf,
    own: bool,
    looked: Mutex<Arc<Looked>>,
}

#[cfg(test)]
thread_local! {
    /// How often somebody asked whether a project is still as it was approved.
    pub(super) static ASKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Approved {
    fn looked(&self) -> MutexGuard<'_, Arc<Looked>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is so still.
    pub(crate) fn still_holds(&self) -> bool {
        #[cfg(test)]
        ASKED.set(ASKED.get() + 1);
        let before = Arc::clone(&self.looked());
        if before.still_holds() {
            return true;
        }
        let now = collect(&self.project, self.own);
        let now = now.ok().filter(|now| now.pins == before.pins);
        let holds = now.is_some();
        if let Some(now) = now {
            *self.looked() = Arc::new(now);
        }
        holds
    }
}

impl Watch {
    /// `own`: the project's `.becket/` is its own, and not becket's home.
    pub(crate) fn new(place: &Place, project: &Path, own: bool) -> Self {
        Self {
            place: place.clone(),
            project: project.to_path_buf(),
            folder: own.then(|| project.join(".becket")),
            book_seen: None,
            book_settled: false,
            trouble: None,
            approval: None,
            folder_seen: None,
            looked: None,
            approved: None,
            state: Project {
                folder: project.to_path_buf(),
                trust: Trust::No,
                holds: false,
            },
        }
    }

    pub(crate) fn project(&self) -> &Project {
        &self.state
    }

    /// Its folder, unless becket's own home is in it: then all of it is the person's.
    pub(crate) fn folder(&self) -> Option<&Path> {
        let home = self.place.home().canonicalize();
        let project = self.project.canonicalize();
        let holds = home.is_ok_and(|home| project.is_ok_and(|it| home.starts_with(it)));
        (!holds).then_some(&*self.project)
    }

    /// What is pinned, if the project is as it was approved.
    pub(crate) fn pins(&self) -> Option<&Pins> {
        let approval = self.approval.as_ref();
        approval
            .filter(|_| self.state.trust == Trust::Yes)
            .map(|approval| &approval.pins)
    }

    pub(crate) fn approved(&self) -> Option<&Arc<Approved>> {
        self.approved.as_ref()
    }

    /// Whether there is a `.becket/` at all: without one, nobody needs to look for files in it.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.folder_seen, None | Some(Seen::Absent))
    }

    /// Looks again. Says whether anything is different now.
    pub(crate) fn refresh(&mut self) -> bool {
        let before = (self.state.clone(), self.trouble.clone());
        let anew = self.read_book();
        self.look_at_folder();
        self.state.trust = match &self.approval {
            None => {
                self.looked = None;
                Trust::No
            }
            Some(approval) => {
                let holds = self.looked.as_ref().is_some_and(|it| it.still_holds());
                if anew || !holds {
                    let looked = collect(&self.project, self.folder.is_some()).ok();
                    self.looked = looked.map(Arc::new);
                }
                let looked = self.looked.as_ref();
                match looked.is_some_and(|looked| looked.pins == approval.pins) {
                    true => Trust::Yes,
                    false => Trust::Changed,
                }
            }
        };
        self.hand_on();
        before != (self.state.clone(), self.trouble.clone())
    }

    /// Lets whoever starts a program know what this look showed.
    fn hand_on(&mut self) {
        let looked = self
            .looked
            .as_ref()
            .filter(|_| self.state.trust == Trust::Yes);
        match (&self.approved, looked) {
            (_, None) => self.approved = None,
            (Some(approved), Some(looked)) => *approved.looked() = Arc::clone(looked),
            (None, Some(looked)) => {
                self.approved = Some(Arc::new(Approved {
                    project: self.project.clone(),
                    own: self.folder.is_some(),
                    looked: Mutex::new(Arc::clone(looked)),
                }));
            }
        }
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
        let approval = key_of(&self.project).and_then(|key| book.projects.remove(&key));
        let changed = approval != self.approval;
        self.approval = approval;
        changed
    }

    fn look_at_folder(&mut self) {
        let Some(folder) = &self.folder else { return };
        let metadata = fs::metadata(folder);
        let seen = Seen::of(&metadata);
        if self.folder_seen.as_ref() == Some(&seen) && metadata.as_ref().map_or(true, is_settled) {
            return;
        }
        self.folder_seen = Some(seen);
        let counts = |entry: &fs::DirEntry| entry.file_name() != "prd";
        let entries = fs::read_dir(folder).into_iter().flatten();
        self.state.holds = entries.flatten().any(|entry| counts(&entry));
    }
}
