//! The languages that the built-ins know: the files that mark a project of a language, and the tools that check
//! types, lint and test it. **A new language or tool is a row in [`LANGUAGES`].**

use std::path::Path;

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckKind {
    Typecheck,
    Lint,
    Test,
}

/// A programming language with its tools.
#[derive(Debug)]
pub struct Language {
    pub name: &'static str,
    /// The extensions of its files.
    pub extensions: &'static [&'static str],
    /// The files of which one marks the folder of a project.
    pub markers: &'static [&'static str],
    /// The lock files, each with its package manager. Without a lock file, the last manager is used.
    pub managers: &'static [(&'static str, &'static str)],
    /// The tools, the preferred one first.
    pub tools: &'static [Tool],
}

/// A tool that checks files or a whole project.
#[derive(Debug)]
pub struct Tool {
    /// The name for messages.
    pub name: &'static str,
    pub kind: CheckKind,
    pub program: ToolProgram,
    /// The signs that a project uses it.
    pub signs: &'static [Sign],
    /// True if it does nothing but complain in a project without a sign of it.
    pub needs_sign: bool,
    /// The files of which one marks the folder to run it in: the nearest above a checked file.
    pub roots: &'static [&'static str],
    /// The extensions of the files that it can check; empty means all of the language.
    pub extensions: &'static [&'static str],
    /// The arguments for changed files, separated by spaces; `arguments.rs` lists the placeholders. None if it only
    /// checks whole projects.
    pub changed: Option<&'static str>,
    pub project: &'static str,
    pub format: Format,
}

/// The program of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolProgram {
    /// The program of this name.
    Own(&'static str),
    /// The package manager, which runs a script of the project.
    Manager,
}

/// A sign that a project uses a tool.
#[derive(Debug)]
pub enum Sign {
    /// This file exists, in the tool's folder or above it.
    File(&'static str),
    /// This file contains this text, in the tool's folder or above it.
    Text(&'static str, &'static str),
    /// This file of the tool's folder itself contains this text.
    Here(&'static str, &'static str),
    /// The package.json of the tool's folder has a script of this name.
    Script(&'static str),
}

/// The format in which a tool prints problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `file:line:column: text`
    Lines,
    /// Like `Lines`, but files are relative to the root of the cargo workspace.
    Cargo,
    /// `file(line,column): text`
    Parens,
    /// The workflow commands of GitHub: `::error file=…,line=…::text`
    GitHub,
    EslintJson,
    PyrightJson,
    /// The format of both jest and vitest.
    JestJson,
    CargoTest,
    Pytest,
    GoTest,
    /// An unknown format: lines of any form above, or else the end of the output.
    Any,
}

impl Language {
    /// Returns the language of a file, by its extension.
    pub fn of(file: &Path) -> Option<&'static Self> {
        let end = file.extension()?.to_str()?;
        LANGUAGES
            .iter()
            .find(|language| language.extensions.contains(&end))
    }

    /// Returns the languages that a file concerns: its own, and those whose projects it marks.
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

    /// Returns the tools for a purpose, the preferred one first.
    pub fn tools_for(&self, kind: CheckKind) -> impl Iterator<Item = &Tool> {
        self.tools.iter().filter(move |tool| tool.kind == kind)
    }
}

impl Tool {
    /// Returns the files of which one marks the folder to run it in.
    pub fn roots(&self, language: &Language) -> &'static [&'static str] {
        if self.roots.is_empty() {
            language.markers
        } else {
            self.roots
        }
    }

    /// Returns true if it can check this file.
    pub fn takes(&self, file: &Path) -> bool {
        let end = file
            .extension()
            .and_then(|end| end.to_str())
            .unwrap_or_default();
        self.extensions.is_empty() || self.extensions.contains(&end)
    }
}

const TYPESCRIPT: &[&str] = &["ts", "tsx", "mts", "cts"];

/// Makes the signs of JavaScript config files, in all their spellings.
macro_rules! configs {
    ($($name:literal),* $(; $more:expr)*) => {
        &[
            $(
                Sign::File(concat!($name, ".js")),
                Sign::File(concat!($name, ".mjs")),
                Sign::File(concat!($name, ".cjs")),
                Sign::File(concat!($name, ".ts")),
                Sign::File(concat!($name, ".mts")),
                Sign::File(concat!($name, ".cts")),
            )*
            $($more,)*
        ]
    };
}

/// The defaults of a tool: it needs a sign in the project.
const TOOL: Tool = Tool {
    name: "",
    kind: CheckKind::Lint,
    program: ToolProgram::Manager,
    signs: &[],
    needs_sign: true,
    roots: &[],
    extensions: &[],
    changed: None,
    project: "",
    format: Format::Any,
};

/// Makes a tool that is a script of the project, which the package manager runs.
const fn script(
    name: &'static str,
    kind: CheckKind,
    signs: &'static [Sign],
    project: &'static str,
) -> Tool {
    Tool {
        name,
        kind,
        signs,
        roots: &["package.json"],
        project,
        ..TOOL
    }
}

/// All languages.
pub const LANGUAGES: &[Language] = &[
    Language {
        name: "TypeScript and JavaScript",
        extensions: &["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"],
        markers: &["tsconfig.json", "package.json"],
        managers: &[
            ("pnpm-lock.yaml", "pnpm"),
            ("yarn.lock", "yarn"),
            ("bun.lock", "bun"),
            ("bun.lockb", "bun"),
            ("package-lock.json", "npm"),
        ],
        tools: &[
            Tool {
                name: "tsc -b",
                kind: CheckKind::Typecheck,
                program: ToolProgram::Own("tsc"),
                signs: &[Sign::Here("tsconfig.json", "\"references\"")],
                roots: &["tsconfig.json"],
                extensions: TYPESCRIPT,
                changed: Some("-b --noEmit --pretty false"),
                project: "-b --noEmit --pretty false",
                format: Format::Parens,
                ..TOOL
            },
            Tool {
                name: "tsc",
                kind: CheckKind::Typecheck,
                program: ToolProgram::Own("tsc"),
                signs: &[Sign::File("tsconfig.json")],
                roots: &["tsconfig.json"],
                extensions: TYPESCRIPT,
                changed: Some("--noEmit --pretty false --incremental --tsBuildInfoFile {scratch}"),
                project: "--noEmit --pretty false --incremental --tsBuildInfoFile {scratch}",
                format: Format::Parens,
                ..TOOL
            },
            script(
                "the script typecheck",
                CheckKind::Typecheck,
                &[Sign::Script("typecheck")],
                "run typecheck",
            ),
            Tool {
                name: "eslint",
                kind: CheckKind::Lint,
                program: ToolProgram::Own("eslint"),
                signs: configs!("eslint.config", ".eslintrc"; Sign::File(".eslintrc"); Sign::File(".eslintrc.json");
                    Sign::File(".eslintrc.yml"); Sign::File(".eslintrc.yaml"); Sign::Text("package.json", "\"eslintConfig\"")),
                roots: &["package.json"],
                changed: Some("--format json {files}"),
                project: "--format json .",
                format: Format::EslintJson,
                ..TOOL
            },
            Tool {
                name: "biome",
                kind: CheckKind::Lint,
                program: ToolProgram::Own("biome"),
                signs: &[
                    Sign::File("biome.json"),
                    Sign::File("biome.jsonc"),
                    Sign::Text("package.json", "\"@biomejs/biome\""),
                ],
                roots: &["package.json"],
                changed: Some(
                    "lint --reporter=github --colors=off --no-errors-on-unmatched {files}",
                ),
                project: "lint --reporter=github --colors=off --no-errors-on-unmatched .",
                format: Format::GitHub,
                ..TOOL
            },
            script(
                "the script lint",
                CheckKind::Lint,
                &[Sign::Script("lint")],
                "run lint",
            ),
            Tool {
                name: "vitest",
                kind: CheckKind::Test,
                program: ToolProgram::Own("vitest"),
                signs: configs!("vitest.config", "vitest.workspace"; Sign::Text("package.json", "\"vitest\"")),
                roots: &["package.json"],
                changed: Some("related --run --reporter=json --passWithNoTests {files}"),
                project: "run --reporter=json --passWithNoTests",
                format: Format::JestJson,
                ..TOOL
            },
            Tool {
                name: "jest",
                kind: CheckKind::Test,
                program: ToolProgram::Own("jest"),
                signs: configs!("jest.config"; Sign::File("jest.config.json"); Sign::Text("package.json", "\"jest\"")),
                roots: &["package.json"],
                changed: Some("--ci --json --passWithNoTests --findRelatedTests {files}"),
                project: "--ci --json --passWithNoTests",
                format: Format::JestJson,
                ..TOOL
            },
            script(
                "the script test",
                CheckKind::Test,
                &[Sign::Script("test")],
                "run test",
            ),
        ],
    },
    Language {
        name: "Rust",
        extensions: &["rs"],
        markers: &["Cargo.toml"],
        managers: &[],
        tools: &[
            Tool {
                name: "cargo check",
                kind: CheckKind::Typecheck,
                program: ToolProgram::Own("cargo"),
                signs: &[Sign::File("Cargo.toml")],
                roots: &["Cargo.toml"],
                changed: Some("check -q --message-format=short --all-targets"),
                project: "check -q --message-format=short --all-targets --workspace",
                format: Format::Cargo,
                ..TOOL
            },
            Tool {
                name: "cargo clippy",
                kind: CheckKind::Lint,
                program: ToolProgram::Own("cargo"),
                signs: &[Sign::File("Cargo.toml")],
                roots: &["Cargo.toml"],
                changed: Some("clippy -q --message-format=short --all-targets"),
                project: "clippy -q --message-format=short --all-targets --workspace -- -D warnings",
                format: Format::Cargo,
                ..TOOL
            },
            Tool {
                name: "cargo test",
                kind: CheckKind::Test,
                program: ToolProgram::Own("cargo"),
                signs: &[Sign::File("Cargo.toml")],
                roots: &["Cargo.toml"],
                changed: Some("test -q --message-format=short {module}"),
                project: "test -q --message-format=short --workspace --no-fail-fast",
                format: Format::CargoTest,
                ..TOOL
            },
        ],
    },
    Language {
        name: "Python",
        extensions: &["py", "pyi"],
        markers: &[
            "pyproject.toml",
            "setup.cfg",
            "setup.py",
            "requirements.txt",
        ],
        managers: &[],
        tools: &[
            Tool {
                name: "pyright",
                kind: CheckKind::Typecheck,
                program: ToolProgram::Own("pyright"),
                signs: &[
                    Sign::File("pyrightconfig.json"),
                    Sign::Text("pyproject.toml", "[tool.pyright"),
                ],
                needs_sign: false,
                changed: Some("--outputjson {files}"),
                project: "--outputjson",
                format: Format::PyrightJson,
                ..TOOL
            },
            Tool {
                name: "mypy",
                kind: CheckKind::Typecheck,
                program: ToolProgram::Own("mypy"),
                signs: &[
                    Sign::File("mypy.ini"),
                    Sign::File(".mypy.ini"),
                    Sign::Text("pyproject.toml", "[tool.mypy"),
                    Sign::Text("setup.cfg", "[mypy"),
                ],
                needs_sign: false,
                changed: Some(
                    "--show-column-numbers --no-error-summary --no-color-output --no-pretty {files}",
                ),
                project: "--show-column-numbers --no-error-summary --no-color-output --no-pretty .",
                format: Format::Lines,
                ..TOOL
            },
            Tool {
                name: "ruff",
                kind: CheckKind::Lint,
                program: ToolProgram::Own("ruff"),
                signs: &[
                    Sign::File("ruff.toml"),
                    Sign::File(".ruff.toml"),
                    Sign::Text("pyproject.toml", "[tool.ruff"),
                ],
                needs_sign: false,
                changed: Some(
                    "check --quiet --no-fix --force-exclude --output-format concise {files}",
                ),
                project: "check --quiet --no-fix --output-format concise .",
                format: Format::Lines,
                ..TOOL
            },
            Tool {
                name: "pytest",
                kind: CheckKind::Test,
                program: ToolProgram::Own("pytest"),
                signs: &[
                    Sign::File("pytest.ini"),
                    Sign::File("conftest.py"),
                    Sign::Text("pyproject.toml", "[tool.pytest"),
                    Sign::Text("setup.cfg", "[tool:pytest"),
                ],
                needs_sign: false,
                extensions: &["py"],
                changed: Some("-q --tb=short --no-header --color=no {tests}"),
                project: "-q --tb=short --no-header --color=no",
                format: Format::Pytest,
                ..TOOL
            },
        ],
    },
    Language {
        name: "Go",
        extensions: &["go"],
        markers: &["go.mod"],
        managers: &[],
        tools: &[
            Tool {
                name: "go vet",
                kind: CheckKind::Typecheck,
                program: ToolProgram::Own("go"),
                signs: &[Sign::File("go.mod")],
                changed: Some("vet {packages}"),
                project: "vet ./...",
                format: Format::Lines,
                ..TOOL
            },
            Tool {
                name: "golangci-lint",
                kind: CheckKind::Lint,
                program: ToolProgram::Own("golangci-lint"),
                signs: &[
                    Sign::File(".golangci.yml"),
                    Sign::File(".golangci.yaml"),
                    Sign::File(".golangci.toml"),
                    Sign::File(".golangci.json"),
                ],
                needs_sign: false,
                changed: Some("run --color never {packages}"),
                project: "run --color never ./...",
                format: Format::Lines,
                ..TOOL
            },
            Tool {
                name: "go test",
                kind: CheckKind::Test,
                program: ToolProgram::Own("go"),
                signs: &[Sign::File("go.mod")],
                changed: Some("test -vet=off {packages}"),
                project: "test -vet=off ./...",
                format: Format::GoTest,
                ..TOOL
            },
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_known() {
        let known = ["{files}", "{packages}", "{module}", "{tests}", "{scratch}"];
        for tool in LANGUAGES.iter().flat_map(|language| language.tools) {
            for arg in tool.changed.unwrap_or_default().split_whitespace() {
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
                !tool.needs_sign || !tool.signs.is_empty(),
                "{} is never found",
                tool.name
            );
        }
    }

    #[test]
    fn files_have_their_language() {
        let of = |name: &str| Language::of(Path::new(name)).map(|language| language.name);
        assert_eq!(of("/p/a.tsx"), Some("TypeScript and JavaScript"));
        assert_eq!(of("/p/a.cjs"), Some("TypeScript and JavaScript"));
        assert_eq!(of("/p/a.rs"), Some("Rust"));
        assert_eq!(of("/p/a.pyi"), Some("Python"));
        assert_eq!(of("/p/a.go"), Some("Go"));
        assert_eq!([of("/p/a.md"), of("/p/go"), of("/p/.rs")], [None; 3]);
        let concerned = |name: &str| -> Vec<_> {
            let languages = Language::concerned(Path::new(name));
            languages.map(|language| language.name).collect()
        };
        assert_eq!(concerned("/p/Cargo.toml"), ["Rust"]);
        assert_eq!(concerned("/p/setup.py"), ["Python"]);
        assert_eq!(concerned("/p/README.md"), Vec::<&str>::new());
        // JavaScript has no types.
        let types = LANGUAGES[0].tools_for(CheckKind::Typecheck).nth(1).unwrap();
        assert!(types.takes(Path::new("a.ts")) && !types.takes(Path::new("a.js")));
    }
}
