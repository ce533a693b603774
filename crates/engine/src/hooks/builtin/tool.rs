//! Finds the tool that a project uses: the project's own first, then the one on PATH.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::language::{CheckKind, Language, Sign, Tool};
use super::memory::read_text;
use crate::program;

/// The folders in which a project keeps programs of its own.
const FOLDERS: &[&str] = &["node_modules/.bin", ".venv/bin", "venv/bin"];
/// The extensions of JavaScript config files.
const CONFIG_ENDINGS: [&str; 6] = ["js", "mjs", "cjs", "ts", "mts", "cts"];
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

/// The folders in which tools are searched.
#[derive(Debug)]
pub struct ToolSearch<'a> {
    /// The topmost folder of the search.
    pub project: &'a Path,
    /// The folders of PATH.
    pub path: Vec<PathBuf>,
}

impl<'a> ToolSearch<'a> {
    /// Makes a search in a project and on PATH.
    pub fn new(project: &'a Path) -> Self {
        let path = program::folders();
        Self { project, path }
    }

    /// Finds the tool for a purpose, for the folder `from`. Only tools that `suits` accepts are used. Returns none if
    /// no tool applies, and an error if the project uses a tool that is not installed.
    pub fn find(
        &self,
        language: &'static Language,
        kind: CheckKind,
        from: &Path,
        suits: impl Fn(&Tool) -> bool,
    ) -> Option<Result<FoundTool, String>> {
        let (signed, mut others): (Vec<_>, Vec<_>) = language
            .tools_for(kind)
            .filter(|tool| suits(tool))
            .filter_map(|tool| Some((tool, self.nearest(from, tool.roots(language))?)))
            .partition(|(tool, folder)| tool.signs.iter().any(|sign| self.shows(sign, folder)));
        let locate = |(tool, folder): &(&'static Tool, &Path)| self.locate(language, tool, folder);
        if let Some((tool, folder)) = signed.first() {
            let found = signed.iter().find_map(locate);
            return Some(found.ok_or_else(|| self.missing(language, tool, folder)));
        }
        // Without a sign, the project's own tools come first, then all others.
        others.retain(|(tool, _)| tool.works_without_sign);
        let own = others
            .iter()
            .find_map(|(tool, folder)| self.own(tool, folder));
        own.or_else(|| others.iter().find_map(locate)).map(Ok)
    }

    /// Returns the nearest folder, from `from` up to the project, that has one of these files.
    pub fn nearest<'p>(&self, from: &'p Path, names: &[impl AsRef<Path>]) -> Option<&'p Path> {
        self.upwards(from)
            .find(|folder| names.iter().any(|name| folder.join(name).is_file()))
    }

    fn upwards<'p>(&self, from: &'p Path) -> impl Iterator<Item = &'p Path> {
        from.ancestors()
            .take_while(|folder| folder.starts_with(self.project))
    }

    fn shows(&self, sign: &Sign, folder: &Path) -> bool {
        match sign {
            Sign::File(name) => self.nearest(folder, &[name]).is_some(),
            Sign::Config(name) => {
                let names = CONFIG_ENDINGS.map(|ending| format!("{name}.{ending}"));
                self.nearest(folder, &names).is_some()
            }
            Sign::Text(name, text) => self
                .upwards(folder)
                .any(|folder| contains(folder, name, text)),
            Sign::Here(name, text) => contains(folder, name, text),
            Sign::Script(name) => has_script(folder, name),
        }
    }

    fn locate(
        &self,
        language: &'static Language,
        tool: &'static Tool,
        folder: &Path,
    ) -> Option<FoundTool> {
        if let Some(own) = self.own(tool, folder) {
            return Some(own);
        }
        let has_plug_and_play = || self.nearest(folder, &[PLUG_AND_PLAY]).is_some();
        let (program, before, by) = match &tool.program {
            None => {
                let manager = self.manager(language, folder)?;
                (manager, Vec::new(), format!("by {manager}"))
            }
            Some(name) if !language.managers.is_empty() && has_plug_and_play() => {
                ("yarn", vec!["run", name], "by yarn".to_owned())
            }
            Some(name) => (&**name, Vec::new(), "from PATH".to_owned()),
        };
        Some(FoundTool {
            tool,
            folder: folder.to_path_buf(),
            program: program::find(program, &self.path)?,
            before,
            by: format!("{}, {by}", tool.name),
        })
    }

    /// Finds a tool that the project itself has installed.
    fn own(&self, tool: &'static Tool, folder: &Path) -> Option<FoundTool> {
        let name = tool.program.as_ref()?;
        let mut places = self
            .upwards(folder)
            .flat_map(|above| FOLDERS.iter().map(move |it| above.join(it).join(name)));
        let program = places.find(|program| program::is_executable(program))?;
        let shown = program.strip_prefix(self.project).unwrap_or(&program);
        Some(FoundTool {
            tool,
            folder: folder.to_path_buf(),
            by: format!("{}, from {}", tool.name, shown.display()),
            before: Vec::new(),
            program,
        })
    }

    /// Returns the package manager of a folder: the nearest lock file tells it.
    fn manager<'l>(&self, language: &'l Language, folder: &Path) -> Option<&'l str> {
        let locked = self.upwards(folder).find_map(|folder| {
            let mut managers = language.managers.iter();
            managers.find(|(lock, _)| folder.join(lock).is_file())
        });
        let (_, program) = locked.or(language.managers.last())?;
        Some(program)
    }

    fn missing(&self, language: &Language, tool: &Tool, folder: &Path) -> String {
        let manager = self.manager(language, folder);
        let (name, folder) = (&tool.name, folder.display());
        match manager {
            Some(manager) if tool.program.is_none() => {
                format!("{manager} is not on PATH; {folder} uses it")
            }
            Some(manager) => format!(
                "{name} is not installed; {folder} uses it, so run `{manager} install` there"
            ),
            None => format!("{name} is neither in {folder} nor on PATH"),
        }
    }
}

fn contains(folder: &Path, name: &str, text: &str) -> bool {
    read_text(folder, name).is_some_and(|content| content.contains(text))
}

fn has_script(folder: &Path, name: &str) -> bool {
    let package = read_text(folder, "package.json");
    let package = package.and_then(|text| serde_json::from_str(&text).ok());
    let package: Value = package.unwrap_or_default();
    let script = package["scripts"][name].as_str();
    // `npm init` writes such a script.
    script.is_some_and(|script| !script.contains("no test specified"))
}

#[cfg(test)]
mod tests {
    use std::fs;
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
            let search = ToolSearch {
                project: &project,
                path: vec![self.folder.path().join("bin")],
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
                    (missing.replace(&root, ""), "missing".to_owned())
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
