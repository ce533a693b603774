//! The languages that the built-ins know: the files that mark a project of a language, and the tools that check
//! types, lint and test it. **A new language or tool is a table in `languages.toml`.**

use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    Typecheck,
    Lint,
    Test,
}

/// A programming language with its tools.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Language {
    pub name: String,
    /// The extensions of its files.
    pub extensions: Vec<String>,
    /// The files of which one marks the folder of a project.
    pub markers: Vec<String>,
    /// The lock files, each with its package manager. Without a lock file, the last manager is used.
    #[serde(default)]
    pub managers: Vec<(String, String)>,
    /// The tools, the preferred one first.
    pub tools: Vec<Tool>,
}

/// A tool that checks files or a whole project.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The name for messages.
    pub name: String,
    pub kind: CheckKind,
    /// None for a script of the project, which the package manager runs.
    pub program: Option<String>,
    /// The signs that a project uses it.
    pub signs: Vec<Sign>,
    /// False if it does nothing but complain in a project without a sign of it.
    #[serde(default)]
    pub works_without_sign: bool,
    /// The files of which one marks the folder to run it in: the nearest above a checked file. Empty means the markers
    /// of the language.
    #[serde(default)]
    roots: Vec<String>,
    /// The extensions of the files that it can check; empty means all of the language.
    #[serde(default)]
    extensions: Vec<String>,
    /// The arguments for changed files, separated by spaces; `arguments.rs` lists the placeholders. None if it only
    /// checks whole projects.
    pub changed: Option<String>,
    pub project: String,
    #[serde(default)]
    pub format: Format,
}

/// A sign that a project uses a tool.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// This file exists, in the tool's folder or above it.
    File(String),
    /// A file of this name with an extension of JavaScript exists, in the tool's folder or above it.
    Config(String),
    /// This file contains this text, in the tool's folder or above it.
    Text(String, String),
    /// This file of the tool's folder itself contains this text.
    Here(String, String),
    /// The package.json of the tool's folder has a script of this name.
    Script(String),
}

/// The format in which a tool prints problems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `file:line:column: text`
    Lines,
    /// Like `Lines`, but files are relative to the root of the cargo workspace.
    Cargo,
    /// `file(line,column): text`
    Parens,
    /// The workflow commands of GitHub: `::error file=…,line=…::text`
    #[serde(rename = "github")]
    GitHub,
    EslintJson,
    PyrightJson,
    /// The format of both jest and vitest.
    JestJson,
    CargoTest,
    Pytest,
    GoTest,
    /// An unknown format: lines of any form above, or else the end of the output.
    #[default]
    Any,
}

#[derive(Deserialize)]
struct LanguageFile {
    language: Vec<Language>,
}

/// All languages.
pub static LANGUAGES: LazyLock<Vec<Language>> = LazyLock::new(|| {
    let file: LanguageFile =
        toml::from_str(include_str!("languages.toml")).expect("a valid table of languages");
    file.language
});

impl Language {
    /// Returns the language of a file, by its extension.
    pub fn of(file: &Path) -> Option<&'static Self> {
        let end = file.extension()?;
        let mut languages = LANGUAGES.iter();
        languages.find(|language| language.extensions.iter().any(|it| end == &**it))
    }

    /// Returns true if a file is of this language, or marks its projects.
    pub fn concerns(&self, file: &Path) -> bool {
        let end = file.extension().unwrap_or_default();
        let name = file.file_name().unwrap_or_default();
        self.extensions.iter().any(|it| end == &**it) || self.markers.iter().any(|it| name == &**it)
    }

    /// Returns the tools for a purpose, the preferred one first.
    pub fn tools_for(&self, kind: CheckKind) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(move |tool| tool.kind == kind)
    }
}

impl Tool {
    /// Returns the files of which one marks the folder to run it in.
    pub fn roots<'a>(&'a self, language: &'a Language) -> &'a [String] {
        if self.roots.is_empty() {
            &language.markers
        } else {
            &self.roots
        }
    }

    /// Returns true if it can check this file.
    pub fn takes(&self, file: &Path) -> bool {
        let end = file.extension().unwrap_or_default();
        self.extensions.is_empty() || self.extensions.iter().any(|it| end == &**it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known() {
        let known = ["{files}", "{packages}", "{module}", "{tests}", "{scratch}"];
        for tool in LANGUAGES.iter().flat_map(|language| &language.tools) {
            for arg in tool
                .changed
                .as_deref()
                .unwrap_or_default()
                .split_whitespace()
            {
                assert!(
                    !arg.contains('{') || known.contains(&arg),
                    "{}: {arg}",
                    tool.name
                );
            }
            // A whole project is no list of files.
            let of_project = |arg: &str| !arg.contains('{') || arg == "{scratch}";
            let mut args = tool.project.split_whitespace();
            assert!(args.all(of_project), "{}", tool.name);
            assert!(
                tool.works_without_sign || !tool.signs.is_empty(),
                "{} is never found",
                tool.name
            );
        }
    }

    #[test]
    fn files_have_their_language() {
        let of = |name: &str| Language::of(Path::new(name)).map(|language| &*language.name);
        assert_eq!(of("/p/a.tsx"), Some("TypeScript and JavaScript"));
        assert_eq!(of("/p/a.cjs"), Some("TypeScript and JavaScript"));
        assert_eq!(of("/p/a.rs"), Some("Rust"));
        assert_eq!(of("/p/a.pyi"), Some("Python"));
        assert_eq!(of("/p/a.go"), Some("Go"));
        assert_eq!([of("/p/a.md"), of("/p/go"), of("/p/.rs")], [None; 3]);
        let concerned = |name: &str| -> Vec<_> {
            let languages = LANGUAGES.iter();
            let concerned = languages.filter(|language| language.concerns(Path::new(name)));
            concerned.map(|language| &*language.name).collect()
        };
        assert_eq!(concerned("/p/Cargo.toml"), ["Rust"]);
        assert_eq!(concerned("/p/setup.py"), ["Python"]);
        assert_eq!(concerned("/p/README.md"), Vec::<&str>::new());
        // JavaScript has no types.
        let types = LANGUAGES[0].tools_for(CheckKind::Typecheck).nth(1).unwrap();
        assert!(types.takes(Path::new("a.ts")) && !types.takes(Path::new("a.js")));
    }
}
