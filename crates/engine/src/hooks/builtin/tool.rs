//! Finds the tool that a project uses: the project's own first, then the one on PATH.

use std::fs;
use std::path::{Path, PathBuf};

use super::language::{CheckKind, Language, Sign, Tool, ToolProgram};
use crate::program;

/// The folders in which a project keeps programs of its own.
const FOLDERS: &[&str] = &["node_modules/.bin", ".venv/bin", "venv/bin"];
/// The size of the largest file that is searched for a sign.
const MOST: u64 = 1 << 20;
/// The file of yarn's Plug'n'Play. A project with it has no `node_modules`: only yarn finds the tools.
const PLUG_AND_PLAY: &str = ".pnp.cjs";

/// A tool that was found.
#[derive(Debug, Clone)]
pub struct FoundTool {
    pub tool: &'static Tool,
    /// The folder in which it runs.
    pub folder: PathBuf,
    pub program: PathBuf,
    /// Arguments that come before its own.
    pub before: Vec<&'static str>,
    /// The tool and its origin, for messages.
    pub by: String,
}

/// A tool that a project uses, but that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    pub why: String,
}

/// The folders in which tools are searched.
#[derive(Debug, Clone, Copy)]
pub struct ToolSearch<'a> {
    /// The topmost folder of the search.
    pub project: &'a Path,
    /// The folders of PATH.
    pub path: &'a [PathBuf],
}

impl ToolSearch<'_> {
    /// Finds the tool for a purpose, for the folder `from`. Only tools that `suits` accepts are used. Returns none if
    /// no tool applies.
    pub fn find(
        &self,
        language: &'static Language,
        kind: CheckKind,
        from: &Path,
        suits: impl Fn(&Tool) -> bool,
    ) -> Option<Result<FoundTool, MissingTool>> {
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
            return Some(Err(MissingTool { why }));
        }
        // Without a sign, the project's own tools come first, then all others.
        let free = others.iter().filter(|(tool, _)| !tool.needs_sign);
        let own = free
            .clone()
            .find_map(|(tool, folder)| self.own(tool, folder));
        let mut all = free;
        own.or_else(|| all.find_map(|(tool, folder)| self.locate(language, tool, folder)))
            .map(Ok)
    }

    /// Returns the nearest folder, from `from` up to the project, that has one of these files.
    pub fn nearest<'p>(&self, from: &'p Path, names: &[&str]) -> Option<&'p Path> {
        self.upwards(from)
            .find(|folder| names.iter().any(|name| folder.join(name).is_file()))
    }

    fn upwards<'p>(&self, from: &'p Path) -> impl Iterator<Item = &'p Path> {
        let project = self.project.to_path_buf();
        from.ancestors()
            .take_while(move |folder| folder.starts_with(&project))
    }

    fn shows(&self, sign: &Sign, folder: &Path) -> bool {
        let mut upwards = self.upwards(folder);
        match *sign {
            Sign::File(name) => upwards.any(|folder| folder.join(name).is_file()),
            Sign::Text(name, text) => upwards.any(|folder| contains(&folder.join(name), text)),
            Sign::Here(name, text) => contains(&folder.join(name), text),
            Sign::Script(name) => has_script(&folder.join("package.json"), name),
        }
    }

    fn locate(&self, language: &Language, tool: &'static Tool, folder: &Path) -> Option<FoundTool> {
        let (program, before, by) = match tool.program {
            ToolProgram::Manager => {
                let manager = self.manager(language, folder)?;
                let by = format!("{}, by {manager}", tool.name);
                (self.on_path(manager)?, Vec::new(), by)
            }
            ToolProgram::Own(name) => {
                if let Some(own) = self.own(tool, folder) {
                    return Some(own);
                }
                if !language.managers.is_empty() && self.nearest(folder, &[PLUG_AND_PLAY]).is_some()
                {
                    let by = format!("{}, by yarn", tool.name);
                    (self.on_path("yarn")?, vec!["run", name], by)
                } else {
                    let by = format!("{}, from PATH", tool.name);
                    (self.on_path(name)?, Vec::new(), by)
                }
            }
        };
        Some(FoundTool {
            tool,
            folder: folder.to_path_buf(),
            program,
            before,
            by,
        })
    }

    /// Finds a tool that the project itself has installed.
    fn own(&self, tool: &'static Tool, folder: &Path) -> Option<FoundTool> {
        let ToolProgram::Own(name) = tool.program else {
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
        Some(FoundTool {
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

    /// Returns the package manager of a folder: the nearest lock file tells it.
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
            (ToolProgram::Manager, Some(manager)) => {
                format!("{manager} is not on PATH; {folder} uses it")
            }
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
    // `npm init` writes such a script.
    script.is_some_and(|script| !script.contains("no test specified"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::hooks::builtin::language::LANGUAGES;

    /// A project with these files; a name that ends in `!` is a program.
    struct Project {
        folder: tempfile::TempDir,
    }

    impl Project {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (name, text) in files {
                let path = folder.path().join(name.trim_end_matches('!'));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
                if name.ends_with('!') {
                    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
                }
            }
            Self { folder }
        }

        /// Returns the tool that is found for a file, with its origin, and the folder that it runs in.
        fn find(&self, language: &str, kind: CheckKind, file: &str) -> Option<(String, String)> {
            let language = LANGUAGES
                .iter()
                .find(|other| other.name.starts_with(language))
                .unwrap();
            let project = self.folder.path().join("p");
            let path = [self.folder.path().join("bin")];
            let search = ToolSearch {
                project: &project,
                path: &path,
            };
            let from = project.join(file);
            let found = search.find(language, kind, from.parent().unwrap(), |_| true)?;
            let near = |path: &Path| {
                let near = path.strip_prefix(self.folder.path()).unwrap();
                near.display().to_string()
            };
            Some(match found {
                Ok(found) => (found.by.clone(), near(&found.folder)),
                Err(missing) => {
                    let root = self.folder.path().display().to_string();
                    (missing.why.replace(&root, ""), "missing".to_owned())
                }
            })
        }
    }

    fn some(by: &str, folder: &str) -> Option<(String, String)> {
        Some((by.to_owned(), folder.to_owned()))
    }

    #[test]
    fn the_projects_own_tool_comes_first_and_then_the_one_on_path() {
        let files = [
            ("p/package.json", "{}"),
            ("p/tsconfig.json", "{}"),
            ("p/packages/a/package.json", "{}"),
            ("p/packages/a/tsconfig.json", "{}"),
            ("p/node_modules/.bin/tsc!", ""),
            ("bin/tsc!", ""),
        ];
        let project = Project::new(&files);
        let find = |file| project.find("Type", CheckKind::Typecheck, file);
        assert_eq!(
            find("packages/a/src/x.ts"),
            some("tsc, from node_modules/.bin/tsc", "p/packages/a")
        );
        assert_eq!(
            find("src/x.ts"),
            some("tsc, from node_modules/.bin/tsc", "p")
        );
        let project = Project::new(&files[1..2]);
        fs::create_dir(project.folder.path().join("bin")).unwrap();
        let find = |file| project.find("Type", CheckKind::Typecheck, file);
        assert_eq!(
            find("src/x.ts"),
            some(
                "tsc is not installed; /p uses it, so run `npm install` there",
                "missing"
            )
        );
        let tsc = project.folder.path().join("bin/tsc");
        fs::write(&tsc, "").unwrap();
        // A file is no program yet.
        assert_eq!(find("src/x.ts").unwrap().1, "missing");
        fs::set_permissions(&tsc, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find("src/x.ts"), some("tsc, from PATH", "p"));
    }

    #[test]
    fn signs_decide_between_tools() {
        let both = [
            ("p/package.json", r#"{"devDependencies": {"jest": "1"}}"#),
            (
                "p/packages/a/package.json",
                r#"{"devDependencies": {"vitest": "1"}}"#,
            ),
            ("p/packages/a/biome.json", "{}"),
            ("p/eslint.config.mjs", ""),
            ("bin/vitest!", ""),
            ("bin/jest!", ""),
            ("bin/eslint!", ""),
            ("bin/biome!", ""),
        ];
        let project = Project::new(&both);
        let find = |kind, file| project.find("Type", kind, file).map(|(by, _)| by);
        assert_eq!(
            find(CheckKind::Test, "src/x.ts").as_deref(),
            Some("jest, from PATH")
        );
        assert_eq!(
            find(CheckKind::Test, "packages/a/x.ts").as_deref(),
            Some("vitest, from PATH")
        );
        assert_eq!(
            find(CheckKind::Lint, "src/x.ts").as_deref(),
            Some("eslint, from PATH")
        );
        // With signs of both, the one that stands first in the table.
        assert_eq!(
            find(CheckKind::Lint, "packages/a/x.ts").as_deref(),
            Some("eslint, from PATH")
        );
        // A linter without a configuration would only complain.
        let project = Project::new(&[("p/package.json", "{}"), ("bin/eslint!", "")]);
        assert_eq!(project.find("Type", CheckKind::Lint, "x.ts"), None);
    }

    #[test]
    fn the_lock_file_names_the_package_manager() {
        let tests = r#"{"scripts": {"test": "node --test"}}"#;
        for (lock, manager) in [
            ("pnpm-lock.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            ("bun.lock", "bun"),
            ("bun.lockb", "bun"),
            ("package-lock.json", "npm"),
            ("other.lock", "npm"),
        ] {
            let program = format!("bin/{manager}!");
            let lock = format!("p/{lock}");
            let project = Project::new(&[("p/a/package.json", tests), (&lock, ""), (&program, "")]);
            let found = project.find("Type", CheckKind::Test, "a/x.js");
            assert_eq!(
                found,
                some(&format!("the script test, by {manager}"), "p/a"),
                "{lock}"
            );
        }
        let nothing = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        let project = Project::new(&[("p/package.json", nothing), ("bin/npm!", "")]);
        assert_eq!(project.find("Type", CheckKind::Test, "x.js"), None);
    }

    #[test]
    fn nothing_above_the_project_is_looked_at() {
        let project = Project::new(&[
            ("tsconfig.json", "{}"),
            ("node_modules/.bin/tsc!", ""),
            ("p/x.ts", ""),
        ]);
        assert_eq!(project.find("Type", CheckKind::Typecheck, "x.ts"), None);
        let project = Project::new(&[("p/tsconfig.json", "{}"), ("node_modules/.bin/tsc!", "")]);
        assert_eq!(
            project
                .find("Type", CheckKind::Typecheck, "x.ts")
                .unwrap()
                .1,
            "missing"
        );
    }
}
