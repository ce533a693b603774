//! Programs that start what stands in files which no word names: `npm run x`, `make x`.

use After::{Any, Not, Only};

use super::super::line::called;

/// A row of the table.
#[derive(Debug)]
pub(super) struct Runner {
    /// What its programs are called.
    names: &'static [&'static str],
    after: After,
    /// Where it looks what to start: `*` stands for each word of the program, `%` for it as a
    /// module.
    pub(super) files: &'static [&'static str],
    /// Other files may say so too, and nobody can tell which.
    pub(super) is_open: bool,
}

/// What has to follow, so that a row counts.
#[derive(Debug)]
enum After {
    Any,
    Only(&'static [&'static str]),
    Not(&'static [&'static str]),
}

const fn row(
    names: &'static [&'static str],
    after: After,
    files: &'static [&'static str],
) -> Runner {
    Runner {
        names,
        after,
        files,
        is_open: true,
    }
}

const NODE: &[&str] = &[
    "package.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "pnpm-workspace.yaml",
    "bunfig.toml",
];
const CARGO: &[&str] = &[
    ".cargo/config.toml",
    ".cargo/config",
    "rust-toolchain.toml",
    "rust-toolchain",
];
const PYTHON: &[&str] = &[
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    "mypy.ini",
];

const RUNNERS: &[Runner] = &[
    row(
        &["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx"],
        Any,
        NODE,
    ),
    row(&["node"], Only(&["--run"]), NODE),
    row(
        &[
            "turbo",
            "nx",
            "lerna",
            "gulp",
            "grunt",
            "lint-staged",
            "husky",
        ],
        Any,
        &[
            "package.json",
            "turbo.json",
            "nx.json",
            "lerna.json",
            "gulpfile.js",
            "Gruntfile.js",
            ".lintstagedrc",
            ".lintstagedrc.json",
        ],
    ),
    Runner {
        is_open: false,
        ..row(
            &["node", "bun", "tsx", "deno"],
            Any,
            &[
                "*.js",
                "*.mjs",
                "*.cjs",
                "*.ts",
                "*/index.js",
                "*/package.json",
            ],
        )
    },
    row(
        &["deno"],
        Only(&["task", "test", "run"]),
        &["deno.json", "deno.jsonc", "package.json"],
    ),
    row(
        &[
            "eslint",
            "prettier",
            "stylelint",
            "vitest",
            "vite",
            "jest",
            "tsup",
            "webpack",
        ],
        Any,
        &[
            "package.json",
            "eslint.config.js",
            "eslint.config.mjs",
            "eslint.config.cjs",
            "eslint.config.ts",
            ".eslintrc.js",
            ".eslintrc.cjs",
            ".eslintrc.json",
            ".eslintrc",
            "prettier.config.js",
            ".prettierrc.js",
            ".prettierrc",
            "vitest.config.ts",
            "vite.config.ts",
            "vite.config.js",
            "jest.config.js",
            "jest.config.ts",
        ],
    ),
    row(
        &["make", "gmake"],
        Any,
        &["GNUmakefile", "makefile", "Makefile"],
    ),
    row(&["just"], Any, &["justfile", "Justfile", ".justfile"]),
    row(
        &["task", "go-task"],
        Any,
        &["Taskfile.yml", "Taskfile.yaml", "taskfile.yml"],
    ),
    row(&["cargo"], Not(&["fmt"]), &["Cargo.toml", "build.rs"]),
    Runner {
        is_open: false,
        ..row(&["cargo", "rustc", "rustfmt"], Any, CARGO)
    },
    Runner {
        is_open: false,
        ..row(
            &["python", "pypy"],
            Any,
            &["%.py", "%/__main__.py", "%/__init__.py", "*/__main__.py"],
        )
    },
    row(
        &[
            "pytest", "py.test", "tox", "nox", "uv", "poetry", "hatch", "pdm", "pip", "mypy",
            "pylint",
        ],
        Any,
        PYTHON,
    ),
    row(
        &["go"],
        Not(&["fmt", "vet", "version", "env"]),
        &["go.mod", "go.work"],
    ),
    row(
        &["golangci-lint"],
        Any,
        &[".golangci.yml", ".golangci.yaml", ".golangci.toml"],
    ),
    row(
        &["rake", "bundle", "rails", "rspec", "rubocop"],
        Any,
        &["Rakefile", "Gemfile", ".rspec", ".rubocop.yml"],
    ),
    row(
        &["gradle", "gradlew"],
        Any,
        &[
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle/wrapper/gradle-wrapper.properties",
        ],
    ),
    row(
        &["mvn", "mvnw"],
        Any,
        &["pom.xml", ".mvn/wrapper/maven-wrapper.properties"],
    ),
    row(
        &["composer", "phpunit"],
        Any,
        &["composer.json", "phpunit.xml"],
    ),
    row(&["mix"], Any, &["mix.exs"]),
    row(&["swift"], Any, &["Package.swift"]),
    row(&["sbt"], Any, &["build.sbt", "project/plugins.sbt"]),
    row(
        &["dotnet", "msbuild"],
        Any,
        &["Directory.Build.props", "Directory.Build.targets"],
    ),
    row(&["invoke", "inv"], Any, &["tasks.py"]),
    row(&["ninja", "meson"], Any, &["build.ninja", "meson.build"]),
    row(&["cmake", "ctest"], Any, &["CMakeLists.txt"]),
    row(&["pre-commit"], Any, &[".pre-commit-config.yaml"]),
    row(&["lefthook"], Any, &["lefthook.yml"]),
    row(&["xargs", "parallel", "run-parts"], Any, &[]),
];

/// The rows that count for these commands, each with the name by which it is called.
pub(super) fn runners(commands: &[Vec<String>]) -> Vec<(&'static Runner, &'static str)> {
    let mut found = Vec::new();
    for words in commands {
        for (at, word) in words.iter().enumerate() {
            let called = called(word);
            for runner in RUNNERS {
                let name = runner.names.iter().find(|name| **name == called);
                if let Some(name) = name
                    && runner.after.fits(&words[at + 1..])
                {
                    found.push((runner, *name));
                }
            }
        }
    }
    found
}

impl After {
    fn fits(&self, rest: &[String]) -> bool {
        let is_one = |words: &[&str], word: &String| words.contains(&&**word);
        match self {
            Any => true,
            // Whatever stands between them may be an option's value.
            Only(words) => rest.iter().any(|word| is_one(words, word)),
            Not(words) => {
                let next = rest.iter().find(|word| !word.starts_with('+'));
                !next.is_some_and(|word| is_one(words, word))
            }
        }
    }
}

impl Runner {
    /// The files that may say what it starts, if those are the names in the program.
    pub(super) fn files_for(&self, names: &[String]) -> Vec<String> {
        let relative = names.iter().filter(|name| !name.starts_with('/'));
        let mut files = Vec::new();
        for file in self.files {
            match file.contains(['*', '%']) {
                false => files.push((*file).to_owned()),
                true => files.extend(relative.clone().map(|name| {
                    let module = name.replace('.', "/");
                    file.replace('*', name).replace('%', &module)
                })),
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(line: &str) -> Vec<(&'static str, bool)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = runners(&[words]).into_iter();
        found.map(|(runner, name)| (name, runner.is_open)).collect()
    }

    #[test]
    fn a_runner_is_known_by_its_name_and_by_what_follows() {
        let open = |line| called(line).iter().any(|(_, open)| *open);
        for line in [
            "npm run x",
            "timeout 9 /usr/bin/make x",
            "cargo +nightly clippy",
            "cargo",
            "go generate",
            "python3.12 -m pytest",
            "node --run lint",
            "node --no-warnings --run lint",
            "go -C vet test ./...",
            "./gradlew check",
        ] {
            assert!(open(line), "{line}");
        }
        for line in [
            "cargo fmt",
            "cargo +nightly fmt --check",
            "go vet ./...",
            "node x.js",
            "python3 x.py",
            "jq .",
            "makefile",
            "true",
        ] {
            assert!(!open(line), "{line}");
        }
        assert_eq!(called("cargo fmt"), [("cargo", false)], "its aliases count");
    }

    #[test]
    fn words_become_the_files_that_a_runner_makes_of_them() {
        let words = ["python3".to_owned(), "tools.lint".to_owned()];
        let found = runners(&[words.to_vec()]);
        let files = found[0].0.files_for(&words[1..]);
        let expected = [
            "tools/lint.py",
            "tools/lint/__main__.py",
            "tools/lint/__init__.py",
            "tools.lint/__main__.py",
        ];
        assert_eq!(files, expected);
        assert_eq!(found[0].0.files_for(&["/abs".to_owned()]), [""; 0]);
    }
}
