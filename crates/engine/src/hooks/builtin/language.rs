//! The one table of what the built-ins know of languages: how a project of each is recognised, and
//! which tools check types, lint and test it. **A new language or tool is a row in
//! `language/table.rs`.**

mod table;

use std::path::Path;

pub use table::LANGUAGES;

/// What a tool is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Typecheck,
    Lint,
    Test,
}

#[derive(Debug)]
pub struct Language {
    pub name: &'static str,
    /// How its files end.
    pub extensions: &'static [&'static str],
    /// A folder with one of these is a project of it.
    pub markers: &'static [&'static str],
    /// The lock file, and who installs what a project needs by it; the last one if there is none.
    pub managers: &'static [(&'static str, &'static str)],
    /// In the order in which they are preferred.
    pub tools: &'static [Tool],
}

#[derive(Debug)]
pub struct Tool {
    /// As it is told.
    pub name: &'static str,
    pub kind: Kind,
    pub program: Which,
    /// What shows that a project uses it.
    pub signs: &'static [Sign],
    /// Without a sign it would do nothing but complain.
    pub needs_sign: bool,
    /// It runs in the nearest folder above a file with one of these.
    pub roots: &'static [&'static str],
    /// The files that it can do something with; all of the language's, if empty.
    pub extensions: &'static [&'static str],
    /// Its arguments for changed files, between spaces; placeholders stand in `target.rs`. None: it only knows whole
    /// projects.
    pub changed: Option<&'static str>,
    pub project: &'static str,
    pub format: Format,
}

/// The program of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Of this name.
    Own(&'static str),
    /// The package manager, which runs a script of the project's.
    Manager,
}

#[derive(Debug)]
pub enum Sign {
    /// This file, in the tool's folder or above it.
    File(&'static str),
    /// This text in this file, in the tool's folder or above it.
    Text(&'static str, &'static str),
    /// This text in this file of the tool's folder itself.
    Here(&'static str, &'static str),
    /// A script of this name in the package.json of the tool's folder.
    Script(&'static str),
}

/// How a tool tells problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `file:line:column: text`
    Lines,
    /// The same, files as seen from the root of the cargo workspace.
    Cargo,
    /// `file(line,column): text`
    Parens,
    /// The workflow commands of GitHub: `::error file=…,line=…::text`
    GitHub,
    EslintJson,
    PyrightJson,
    /// What jest and vitest both write.
    JestJson,
    CargoTest,
    Pytest,
    GoTest,
    /// Nobody knows: lines of any form above, else the end of what it printed.
    Any,
}

impl Language {
    /// The language of a file, by how it ends.
    pub fn of(file: &Path) -> Option<&'static Self> {
        let end = file.extension()?.to_str()?;
        LANGUAGES
            .iter()
            .find(|language| language.extensions.contains(&end))
    }

    /// The languages that a file has to do with: its own, and those whose projects it describes.
    pub fn concerned(file: &Path) -> impl Iterator<Item = &'static Self> {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
            .to_owned();
        let own = Self::of(file).map(|language| language.name);
        LANGUAGES.iter().filter(move |language| {
            own == Some(language.name) || language.markers.contains(&&*name)
        })
    }

    /// Its tools for this, the preferred one first.
    pub fn tools_for(&self, kind: Kind) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(move |tool| tool.kind == kind)
    }
}

impl Tool {
    /// Where it runs: a folder with one of these.
    pub fn roots(&self, language: &Language) -> &'static [&'static str] {
        if self.roots.is_empty() {
            language.markers
        } else {
            self.roots
        }
    }

    /// Whether it can do something with this file.
    pub fn takes(&self, file: &Path) -> bool {
        let end = file
            .extension()
            .and_then(|end| end.to_str())
            .unwrap_or_default();
        self.extensions.is_empty() || self.extensions.contains(&end)
    }
}

#[cfg(test)]
mod tests;
