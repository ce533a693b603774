//! The rows: each language, and the tools that projects in it use.

use super::{Format, Kind, Language, Sign, Tool, Which};

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
