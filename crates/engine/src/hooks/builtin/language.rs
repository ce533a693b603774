//! The one table of what the built-ins know of languages: how a project of each is recognised, and
//! which tools check types, lint and test it. **A new language or tool is a row in
//! `language/table.rs`.**

use std::path::Path;

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

const TYPESCRIPT: &[&str] = &["ts", "tsx", "mts", "cts"];

/// Files in which JavaScript's tools are configured, in all their spellings.
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

/// What most tools are: of no use in a project that shows no sign of them.
const TOOL: Tool = Tool {
    name: "",
    kind: Kind::Lint,
    program: Which::Manager,
    signs: &[],
    needs_sign: true,
    roots: &[],
    extensions: &[],
    changed: None,
    project: "",
    format: Format::Any,
};

/// A script of the project's own, which the package manager runs.
const fn script(
    name: &'static str,
    kind: Kind,
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
                kind: Kind::Typecheck,
                program: Which::Own("tsc"),
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
                kind: Kind::Typecheck,
                program: Which::Own("tsc"),
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
                Kind::Typecheck,
                &[Sign::Script("typecheck")],
                "run typecheck",
            ),
            Tool {
                name: "eslint",
                kind: Kind::Lint,
                program: Which::Own("eslint"),
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
                kind: Kind::Lint,
                program: Which::Own("biome"),
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
                Kind::Lint,
                &[Sign::Script("lint")],
                "run lint",
            ),
            Tool {
                name: "vitest",
                kind: Kind::Test,
                program: Which::Own("vitest"),
                signs: configs!("vitest.config", "vitest.workspace"; Sign::Text("package.json", "\"vitest\"")),
                roots: &["package.json"],
                changed: Some("related --run --reporter=json --passWithNoTests {files}"),
                project: "run --reporter=json --passWithNoTests",
                format: Format::JestJson,
                ..TOOL
            },
            Tool {
                name: "jest",
                kind: Kind::Test,
                program: Which::Own("jest"),
                signs: configs!("jest.config"; Sign::File("jest.config.json"); Sign::Text("package.json", "\"jest\"")),
                roots: &["package.json"],
                changed: Some("--ci --json --passWithNoTests --findRelatedTests {files}"),
                project: "--ci --json --passWithNoTests",
                format: Format::JestJson,
                ..TOOL
            },
            script(
                "the script test",
                Kind::Test,
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
                kind: Kind::Typecheck,
                program: Which::Own("cargo"),
                signs: &[Sign::File("Cargo.toml")],
                roots: &["Cargo.toml"],
                changed: Some("check -q --message-format=short --all-targets"),
                project: "check -q --message-format=short --all-targets --workspace",
                format: Format::Cargo,
                ..TOOL
            },
            Tool {
                name: "cargo clippy",
                kind: Kind::Lint,
                program: Which::Own("cargo"),
                signs: &[Sign::File("Cargo.toml")],
                roots: &["Cargo.toml"],
                changed: Some("clippy -q --message-format=short --all-targets"),
                project: "clippy -q --message-format=short --all-targets --workspace -- -D warnings",
                format: Format::Cargo,
                ..TOOL
            },
            Tool {
                name: "cargo test",
                kind: Kind::Test,
                program: Which::Own("cargo"),
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
                kind: Kind::Typecheck,
                program: Which::Own("pyright"),
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
                kind: Kind::Typecheck,
                program: Which::Own("mypy"),
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
                kind: Kind::Lint,
                program: Which::Own("ruff"),
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
                kind: Kind::Test,
                program: Which::Own("pytest"),
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
                kind: Kind::Typecheck,
                program: Which::Own("go"),
                signs: &[Sign::File("go.mod")],
                changed: Some("vet {packages}"),
                project: "vet ./...",
                format: Format::Lines,
                ..TOOL
            },
            Tool {
                name: "golangci-lint",
                kind: Kind::Lint,
                program: Which::Own("golangci-lint"),
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
                kind: Kind::Test,
                program: Which::Own("go"),
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
    fn what_stands_in_braces_is_known() {
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
        let types = LANGUAGES[0].tools_for(Kind::Typecheck).nth(1).unwrap();
        assert!(types.takes(Path::new("a.ts")) && !types.takes(Path::new("a.js")));
    }
}
