//! Which tool a project uses, and where it is: the project's own first, then the one on PATH.

use std::fs;
use std::path::{Path, PathBuf};

use super::language::{Kind, Language, Sign, Tool, Which};
use crate::program;

/// Where a project keeps programs of its own.
const FOLDERS: &[&str] = &["node_modules/.bin", ".venv/bin", "venv/bin"];
/// What is read of a file to find a sign in it.
const MOST: u64 = 1 << 20;
/// With this file, yarn has no `node_modules`: only yarn itself finds the tools.
const PLUG_AND_PLAY: &str = ".pnp.cjs";

/// A tool that is there.
#[derive(Debug, Clone)]
pub struct Found {
    pub tool: &'static Tool,
    /// Where it runs.
    pub folder: PathBuf,
    pub program: PathBuf,
    /// Arguments that come before its own.
    pub before: Vec<&'static str>,
    /// The tool and where it came from, as it is told.
    pub by: String,
}

/// A project shows that it uses a tool, and the tool is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub why: String,
}

/// Where to look.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The bound: no folder above it is looked at.
    pub project: &'a Path,
    /// The folders of PATH.
    pub path: &'a [PathBuf],
}

impl Search<'_> {
    /// The tool for this, where the folder `from` is; `suits` says which tools come into question.
    /// None: no tool applies.
    pub fn find(
        &self,
        language: &'static Language,
        kind: Kind,
        from: &Path,
        suits: impl Fn(&Tool) -> bool,
    ) -> Option<Result<Found, Missing>> {
        let candidates: Vec<(&'static Tool, &Path)> = language
            .tools_for(kind)
            .filter(|tool| suits(tool))
            .filter_map(|tool| Some((tool, self.nearest(from, tool.roots(language))?)))
            .collect();
        let (signed, others): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|(tool, folder)| tool.signs.iter().any(|sign| self.shows(sign, folder)));
        for (tool, folder) in &signed {
            let program = self.locate(language, tool, folder);
            if let Some(found) = program {
                return Some(Ok(found));
            }
        }
        if let Some((tool, folder)) = signed.first() {
            let why = self.missing(language, tool, folder);
            return Some(Err(Missing { why }));
        }
        // Nothing shows which one: whatever the project has brought along, else what the person has.
        let free = || others.iter().filter(|(tool, _)| !tool.needs_sign);
        let own = |(tool, folder): &(&'static Tool, &Path)| self.own(tool, folder);
        let anywhere =
            |(tool, folder): &(&'static Tool, &Path)| self.locate(language, tool, folder);
        let found = free().find_map(own).or_else(|| free().find_map(anywhere));
        found.map(Ok)
    }

    /// The nearest folder, from `from` up to the project, that has one of these files.
    pub fn nearest<'p>(&self, from: &'p Path, names: &[&str]) -> Option<&'p Path> {
        let has = |folder: &&Path| names.iter().any(|name| folder.join(name).is_file());
        self.upwards(from).find(has)
    }

    fn upwards<'p>(&self, from: &'p Path) -> impl Iterator<Item = &'p Path> {
        let project = self.project.to_path_buf();
        from.ancestors()
            .take_while(move |folder| folder.starts_with(&project))
    }

    fn shows(&self, sign: &Sign, folder: &Path) -> bool {
        let in_or_above = |holds: &dyn Fn(&Path) -> bool| self.upwards(folder).any(holds);
        match *sign {
            Sign::File(name) => in_or_above(&|folder| folder.join(name).is_file()),
            Sign::Text(name, text) => in_or_above(&|folder| contains(&folder.join(name), text)),
            Sign::Here(name, text) => contains(&folder.join(name), text),
            Sign::Script(name) => has_script(&folder.join("package.json"), name),
        }
    }

    fn locate(&self, language: &Language, tool: &'static Tool, folder: &Path) -> Option<Found> {
        let found = |program: PathBuf, before, by| Found {
            tool,
            folder: folder.to_path_buf(),
            program,
            before,
            by,
        };
        match tool.program {
            Which::Manager => {
                let manager = self.manager(language, folder)?;
                let program = self.on_path(manager)?;
                Some(found(
                    program,
                    Vec::new(),
                    format!("{}, by {manager}", tool.name),
                ))
            }
            Which::Own(name) => self.own(tool, folder).or_else(|| {
                if !language.managers.is_empty() && self.nearest(folder, &[PLUG_AND_PLAY]).is_some()
                {
                    let by = format!("{}, by yarn", tool.name);
                    return Some(found(self.on_path("yarn")?, vec!["run", name], by));
                }
                Some(found(
                    self.on_path(name)?,
                    Vec::new(),
                    format!("{}, from PATH", tool.name),
                ))
            }),
        }
    }

    /// The tool that the project itself has.
    fn own(&self, tool: &'static Tool, folder: &Path) -> Option<Found> {
        let Which::Own(name) = tool.program else {
            return None;
        };
        let mut places = self.upwards(folder).flat_map(|above| {
            FOLDERS
                .iter()
                .map(move |folder| above.join(folder).join(name))
        });
        let program = places.find(|program| program::is_executable(program))?;
        let shown = program
            .strip_prefix(self.project)
            .unwrap_or(&program)
            .display();
        Some(Found {
            tool,
            folder: folder.to_path_buf(),
            by: format!("{}, from {shown}", tool.name),
            before: Vec::new(),
            program,
        })
    }

    fn on_path(&self, name: &str) -> Option<PathBuf> {
        program::find(name, self.path)
    }

    /// Who installs packages here: the nearest lock file says it.
    fn manager(&self, language: &Language, folder: &Path) -> Option<&'static str> {
        let locked = self.upwards(folder).find_map(|folder| {
            let mut managers = language.managers.iter();
            managers.find(|(lock, _)| folder.join(lock).is_file())
        });
        let (_, program) = locked.or(language.managers.last())?;
        Some(program)
    }

    fn missing(&self, language: &Language, tool: &Tool, folder: &Path) -> String {
        let folder = folder.display();
        match (
            tool.program,
            self.manager(language, Path::new(&folder.to_string())),
        ) {
            (Which::Manager, Some(manager)) => format!("{manager} is not on PATH; {folder} is its"),
            (_, Some(manager)) => format!(
                "{} is not installed; {folder} uses it, so run `{manager} install` there",
                tool.name
            ),
            (_, None) => format!("{} is neither in {folder} nor on PATH", tool.name),
        }
    }
}

fn read(path: &Path) -> Option<String> {
    let is_fit = fs::metadata(path).is_ok_and(|data| data.is_file() && data.len() <= MOST);
    is_fit.then(|| fs::read_to_string(path).ok())?
}

fn contains(path: &Path, text: &str) -> bool {
    read(path).is_some_and(|content| content.contains(text))
}

fn has_script(path: &Path, name: &str) -> bool {
    let package = read(path).and_then(|text| serde_json::from_str(&text).ok());
    let package: serde_json::Value = package.unwrap_or_default();
    let script = package["scripts"][name].as_str();
    // What `npm init` writes.
    script.is_some_and(|script| !script.contains("no test specified"))
}

#[cfg(test)]
mod tests;
