use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::hooks::builtin::language::LANGUAGES;

/// A project with these files; what ends in `!` is a program.
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

    /// Which tool is found for a file, where from, and where it runs.
    fn find(&self, language: &str, kind: Kind, file: &str) -> Option<(String, String)> {
        let language = LANGUAGES
            .iter()
            .find(|other| other.name.starts_with(language))
            .unwrap();
        let project = self.folder.path().join("p");
        let path = [self.folder.path().join("bin")];
        let search = Search {
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
    let find = |file| project.find("Type", Kind::Typecheck, file);
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
    let find = |file| project.find("Type", Kind::Typecheck, file);
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
        find(Kind::Test, "src/x.ts").as_deref(),
        Some("jest, from PATH")
    );
    assert_eq!(
        find(Kind::Test, "packages/a/x.ts").as_deref(),
        Some("vitest, from PATH")
    );
    assert_eq!(
        find(Kind::Lint, "src/x.ts").as_deref(),
        Some("eslint, from PATH")
    );
    // With signs of both, the one that stands first in the table.
    assert_eq!(
        find(Kind::Lint, "packages/a/x.ts").as_deref(),
        Some("eslint, from PATH")
    );
    // A linter without a configuration would only complain.
    let project = Project::new(&[("p/package.json", "{}"), ("bin/eslint!", "")]);
    assert_eq!(project.find("Type", Kind::Lint, "x.ts"), None);
}

#[test]
fn without_signs_what_the_project_brings_along_is_preferred() {
    let project = Project::new(&[
        ("p/pyproject.toml", ""),
        ("p/.venv/bin/mypy!", ""),
        ("bin/pyright!", ""),
        ("bin/ruff!", ""),
    ]);
    let find = |kind| project.find("Python", kind, "shop/x.py");
    assert_eq!(
        find(Kind::Typecheck),
        some("mypy, from .venv/bin/mypy", "p")
    );
    assert_eq!(find(Kind::Lint), some("ruff, from PATH", "p"));
    assert_eq!(find(Kind::Test), None);
}

#[test]
fn a_solution_of_several_projects_is_built() {
    let project = Project::new(&[
        ("p/tsconfig.json", r#"{"files": [], "references": []}"#),
        ("p/a/tsconfig.json", "{}"),
        ("bin/tsc!", ""),
    ]);
    let find = |file| project.find("Type", Kind::Typecheck, file);
    assert_eq!(find("x.ts"), some("tsc -b, from PATH", "p"));
    assert_eq!(find("a/x.ts"), some("tsc, from PATH", "p/a"));
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
        let found = project.find("Type", Kind::Test, "a/x.js");
        assert_eq!(
            found,
            some(&format!("the script test, by {manager}"), "p/a"),
            "{lock}"
        );
    }
    let nothing = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
    let project = Project::new(&[("p/package.json", nothing), ("bin/npm!", "")]);
    assert_eq!(project.find("Type", Kind::Test, "x.js"), None);
}

#[test]
fn yarn_finds_what_stands_in_no_folder() {
    let project = Project::new(&[
        ("p/tsconfig.json", "{}"),
        ("p/.pnp.cjs", ""),
        ("bin/yarn!", ""),
    ]);
    assert_eq!(
        project.find("Type", Kind::Typecheck, "x.ts"),
        some("tsc, by yarn", "p")
    );
}

#[test]
fn nothing_above_the_project_is_looked_at() {
    let project = Project::new(&[
        ("tsconfig.json", "{}"),
        ("node_modules/.bin/tsc!", ""),
        ("p/x.ts", ""),
    ]);
    assert_eq!(project.find("Type", Kind::Typecheck, "x.ts"), None);
    let project = Project::new(&[("p/tsconfig.json", "{}"), ("node_modules/.bin/tsc!", "")]);
    assert_eq!(
        project.find("Type", Kind::Typecheck, "x.ts").unwrap().1,
        "missing"
    );
}
