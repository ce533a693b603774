//! The built-in hooks with the tools of TypeScript, JavaScript, Python, Go and Rust.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use becket_tests::skip::{Unavailable, skip};
use becket_tests::tools::{go, node_modules, python};

use super::Project;

const TYPESCRIPT: &str =
    "export function price(cents: number): string {\n  return `${cents}`;\n}\n";
const TSCONFIG: &str = r#"{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022",
"module": "nodenext", "skipLibCheck": true, "types": []}, "include": ["src"]}"#;

/// Creates a project with these files and the installed tools.
fn javascript_project(name: &str, files: &[(&str, &str)]) -> Option<Project> {
    let modules = match node_modules() {
        Ok(modules) => modules,
        Err(why) => {
            skip(&format!("builtin::languages::{name}"), &why);
            return None;
        }
    };
    let project = Project::new(files);
    symlink(modules, project.folder.join("node_modules")).expect("a link");
    project.write(".gitignore", "node_modules\n");
    Some(project)
}

#[test]
fn typescript_errors_are_reported() {
    let files = [
        ("package.json", r#"{"type": "module"}"#),
        ("tsconfig.json", TSCONFIG),
        ("src/price.ts", TYPESCRIPT),
        (
            "src/use.ts",
            "import { price } from \"./price.js\";\nprice(3);\n",
        ),
    ];
    let Some(project) = javascript_project("typescript_errors_are_reported", &files) else {
        return;
    };
    assert_eq!(project.edit("typecheck-changed", "src/price.ts"), "");
    assert_eq!(project.stop("typecheck-project"), "");
    // The change breaks another file, which is reported at the end, not now.
    project.write(
        "src/price.ts",
        "export function price(cents: string): number {\n  return cents;\n}\n",
    );
    assert_eq!(
        project.edit("typecheck-changed", "src/price.ts"),
        "1 new problem in src/price.ts (tsc, from node_modules/.bin/tsc)\n\
         src/price.ts:2:3: error TS2322: Type 'string' is not assignable to type 'number'."
    );
    assert_eq!(
        project.edit("typecheck-changed", "src/price.ts"),
        "1 problem told before is still there in src/price.ts (tsc, from node_modules/.bin/tsc): src/price.ts:2"
    );
    assert_eq!(
        project.stop("typecheck-project"),
        "2 problems (tsc, from node_modules/.bin/tsc)\n\
         src/price.ts:2:3: error TS2322: Type 'string' is not assignable to type 'number'.\n\
         src/use.ts:2:7: error TS2345: Argument of type 'number' is not assignable to parameter of type 'string'."
    );
    assert_eq!(
        project.stop("typecheck-project"),
        "",
        "nothing changed since"
    );
    project.write("src/price.ts", TYPESCRIPT);
    assert_eq!(project.stop("typecheck-project"), "");
    // becket leaves no files.
    assert!(!project.folder.join("tsconfig.tsbuildinfo").exists());
}

#[test]
#[ignore = "needs a download: ./test --all"]
fn eslint_errors_are_reported() {
    let files = [
        ("package.json", r#"{"type": "module"}"#),
        (
            "eslint.config.js",
            "export default [{rules: {\"no-unused-vars\": \"error\", eqeqeq: \"warn\"}}];\n",
        ),
        (
            "src/old.js",
            "const a = 1;\nif (a == 2) { throw a; }\nlet b = 3;\n",
        ),
    ];
    let Some(project) = javascript_project("eslint_errors_are_reported", &files) else {
        return;
    };
    assert_eq!(
        project.edit("lint-changed", "src/old.js"),
        "2 new problems in src/old.js (eslint, from node_modules/.bin/eslint)\n\
         src/old.js:3:5: error: 'b' is assigned a value but never used. (no-unused-vars)\n\
         src/old.js:2:7: warning: Expected '===' and instead saw '=='. (eqeqeq)"
    );
    assert_eq!(
        project.stop("lint-project"),
        "1 problem (eslint, from node_modules/.bin/eslint)\n\
         src/old.js:3:5: error: 'b' is assigned a value but never used. (no-unused-vars)"
    );
}

#[test]
#[ignore = "needs a download: ./test --all"]
fn vitest_failures_are_reported() {
    let files = [
        (
            "package.json",
            r#"{"type": "module", "devDependencies": {"vitest": "*"}}"#,
        ),
        ("src/price.ts", TYPESCRIPT),
        ("src/alone.ts", "export const x = 1;\n"),
        (
            "src/price.test.ts",
            "import { test, expect } from \"vitest\";\nimport { price } from \"./price.js\";\n\
             test(\"three\", () => {\n  console.log(\"noise\");\n  expect(price(3)).toBe(\"3\");\n});\n",
        ),
    ];
    let Some(project) = javascript_project("vitest_failures_are_reported", &files) else {
        return;
    };
    assert_eq!(project.edit("test-changed", "src/price.ts"), "");
    project.write("src/price.ts", &TYPESCRIPT.replace("${cents}", "${cents}!"));
    let told = project.edit("test-changed", "src/price.ts");
    let told: Vec<_> = told.lines().collect();
    assert_eq!(
        told[0],
        "1 new failure in the tests of src/price.ts (vitest, from node_modules/.bin/vitest)"
    );
    assert!(
        told[1]
            .starts_with("src/price.test.ts:5:20: three: AssertionError: expected '3!' to be '3'"),
        "{told:?}"
    );
    let test = project.edit("test-changed", "src/price.test.ts");
    assert_eq!(
        test,
        "1 failure told before is still there in the tests of src/price.test.ts \
         (vitest, from node_modules/.bin/vitest): src/price.test.ts:5"
    );
    assert_eq!(
        project.edit("test-changed", "src/alone.ts"),
        "",
        "no test has to do with it"
    );
    assert!(
        project
            .stop("test-project")
            .contains("three: AssertionError")
    );
}

#[test]
fn a_failing_package_script_is_reported() {
    let Some(project) = javascript_project(
        "a_failing_package_script_is_reported",
        &[
            (
                "package.json",
                r#"{"scripts": {"test": "echo it fails; exit 3"}}"#,
            ),
            ("a.js", ""),
        ],
    ) else {
        return;
    };
    assert_eq!(
        project.edit("test-changed", "a.js"),
        "",
        "a script knows whole projects only"
    );
    let told = project.stop("test-project");
    assert!(
        told.starts_with("1 problem (the script test, by npm)\n") && told.contains("it fails"),
        "{told}"
    );
}

const PYTHON: &[(&str, &str)] = &[
    (
        "pyproject.toml",
        "[project]\nname = \"shop\"\nversion = \"0.1.0\"\n",
    ),
    ("conftest.py", ""),
    ("shop/__init__.py", ""),
    (
        "shop/price.py",
        "import os\n\n\ndef price(cents: int) -> str:\n    return cents\n",
    ),
    ("shop/other.py", "x: int = \"1\"\n"),
    (
        "tests/test_price.py",
        "from shop.price import price\n\n\ndef test_three():\n    assert price(3) == \"3\"\n",
    ),
];

/// Creates a project with a virtual environment.
fn python_project(name: &str) -> Option<Project> {
    let programs = match python() {
        Ok(programs) => programs,
        Err(why) => {
            skip(&format!("builtin::languages::{name}"), &why);
            return None;
        }
    };
    let project = Project::new(PYTHON);
    let environment = programs.parent().expect("an environment");
    symlink(environment, project.folder.join(".venv")).expect("a link");
    project.write(".gitignore", ".venv\n__pycache__\n");
    Some(project)
}

#[test]
#[ignore = "needs a download: ./test --all"]
fn mypy_errors_are_reported() {
    let Some(project) = python_project("mypy_errors_are_reported") else {
        return;
    };
    assert_eq!(
        project.edit("typecheck-changed", "shop/price.py"),
        "1 new problem in shop/price.py (mypy, from .venv/bin/mypy)\n\
         shop/price.py:5:12: error: Incompatible return value type (got \"int\", expected \"str\")  [return-value]"
    );
    let told = project.stop("typecheck-project");
    assert!(
        told.starts_with("2 problems (mypy, from .venv/bin/mypy)\n"),
        "{told}"
    );
    assert!(
        told.contains("shop/other.py:1:10: error: Incompatible types in assignment"),
        "{told}"
    );
}

#[test]
#[ignore = "needs a download: ./test --all"]
fn ruff_errors_are_reported() {
    let Some(project) = python_project("ruff_errors_are_reported") else {
        return;
    };
    let told = "shop/price.py:1:8: F401 [*] `os` imported but unused";
    assert_eq!(
        project.edit("lint-changed", "shop/price.py"),
        format!("1 new problem in shop/price.py (ruff, from .venv/bin/ruff)\n{told}")
    );
    assert_eq!(
        project.stop("lint-project"),
        format!("1 problem (ruff, from .venv/bin/ruff)\n{told}")
    );
}

#[test]
#[ignore = "needs a download: ./test --all"]
fn pytest_failures_are_reported() {
    let Some(project) = python_project("pytest_failures_are_reported") else {
        return;
    };
    let told = "tests/test_price.py:5: test_three: AssertionError: assert 3 == '3'\n  +  where 3 = price(3)";
    assert_eq!(
        project.edit("test-changed", "shop/price.py"),
        format!(
            "1 new failure in the tests of shop/price.py (pytest, from .venv/bin/pytest)\n{told}"
        )
    );
    assert_eq!(
        project.edit("test-changed", "shop/other.py"),
        "",
        "it has no tests"
    );
    assert_eq!(
        project.stop("test-project"),
        format!("1 problem (pytest, from .venv/bin/pytest)\n{told}")
    );
    std::fs::remove_file(project.folder.join("tests/test_price.py")).expect("a file");
    assert_eq!(project.stop("test-project"), "", "no tests are no failure");
}

const GO: &str = "package price\n\nimport \"strconv\"\n\nfunc Price(cents int) string {\n\treturn strconv.Itoa(cents)\n}\n";
const GO_TEST: &str = "package price\n\nimport \"testing\"\n\nfunc TestThree(t *testing.T) {\n\tif Price(3) != \"3\" {\n\t\tt.Errorf(\"got %q\", Price(3))\n\t}\n}\n";

fn go_files() -> [(&'static str, &'static str); 4] {
    [
        ("go.mod", "module example.com/shop\n\ngo 1.21\n"),
        ("price/price.go", GO),
        ("price/price_test.go", GO_TEST),
        ("other/other.go", "package other\n"),
    ]
}

#[test]
#[ignore = "needs a download: ./test --all"]
fn go_vet_and_test_failures_are_reported() {
    let programs = match go() {
        Ok(programs) => programs,
        Err(why) => {
            return skip(
                "builtin::languages::go_vet_and_test_failures_are_reported",
                &why,
            );
        }
    };
    // The build cache serves the next run too.
    let cache = programs.join("../../build-cache");
    let root = programs.join("..");
    let project = Project::new(&go_files())
        .with_path(&programs)
        .with("GOCACHE", cache)
        .with("GOROOT", root);
    let project = project
        .with("GOTOOLCHAIN", "local".into())
        .with("GOPROXY", "off".into());
    assert_eq!(project.edit("typecheck-changed", "price/price.go"), "");
    assert_eq!(project.edit("test-changed", "price/price.go"), "");
    project.write(
        "price/price.go",
        &GO.replace("return strconv.Itoa(cents)", "return strconv.Itoa(\"3\")"),
    );
    let told = project.edit("typecheck-changed", "price/price.go");
    assert!(told.starts_with("1 new problem in price/price.go (go vet, from PATH)\nprice/price.go:6:22: cannot use \"3\""), "{told}");
    assert_eq!(project.edit("typecheck-changed", "other/other.go"), "");
    assert!(
        project
            .stop("typecheck-project")
            .contains("price/price.go:6:22: cannot use")
    );

    project.write(
        "price/price.go",
        &GO.replace("Itoa(cents)", "Itoa(cents + 1)"),
    );
    assert_eq!(
        project.edit("test-changed", "price/price.go"),
        "1 new failure in the tests of price/price.go (go test, from PATH)\nTestThree: price_test.go:7: got \"4\""
    );
    assert_eq!(
        project.stop("test-project"),
        "1 problem (go test, from PATH)\nTestThree: price_test.go:7: got \"4\""
    );
}

const RUST: &str = "pub fn price(cents: u32) -> String {
    cents.to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn of_three() {
        assert_eq!(super::price(3), \"3\");
    }
}
";

fn rust_project() -> Option<Project> {
    // The toolchain that builds this test.
    let cargo = std::env::var_os("CARGO").map(PathBuf::from);
    let folder = cargo.as_deref().and_then(Path::parent);
    let Some(folder) = folder.filter(|folder| folder.join("cargo-clippy").is_file()) else {
        skip(
            "builtin::rust",
            &Unavailable::new("no cargo with clippy runs this test"),
        );
        return None;
    };
    let project = Project::new(&[
        (
            "Cargo.toml",
            "[workspace]\nmembers = ['crates/*']\nresolver = '3'\n",
        ),
        (
            "crates/shop/Cargo.toml",
            "[package]\nname = 'shop'\nversion = '0.1.0'\nedition = '2024'\n",
        ),
        ("crates/shop/src/lib.rs", "pub mod price;\npub mod other;\n"),
        ("crates/shop/src/price.rs", RUST),
        ("crates/shop/src/other.rs", ""),
    ]);
    let target = project.world.root().join("target");
    Some(project.with_path(folder).with("CARGO_TARGET_DIR", target))
}

const PRICE: &str = "crates/shop/src/price.rs";

#[test]
fn rust_errors_in_a_changed_file_are_reported() {
    let Some(project) = rust_project() else {
        return;
    };
    let edit = |hook| project.edit(hook, PRICE);
    assert_eq!(edit("typecheck-changed"), "");
    project.write(PRICE, &RUST.replace("-> String", "-> u8"));
    let told = edit("typecheck-changed");
    let told: Vec<_> = told.lines().collect();
    assert_eq!(
        told[0],
        "2 new problems in crates/shop/src/price.rs (cargo check, from PATH)"
    );
    assert!(
        told[1].starts_with(
            "crates/shop/src/price.rs:2:5: error[E0308]: mismatched types: expected `u8`"
        ),
        "{told:?}"
    );
    let told = edit("typecheck-changed");
    assert!(
        told.starts_with(
            "2 problems told before are still there in crates/shop/src/price.rs (cargo check"
        ),
        "{told}"
    );
    // clippy and the tests find the compiler's errors too; they are reported once.
    let at_one_call = |hook| project.edit_at(hook, PRICE, Some("toolu_1"));
    assert!(at_one_call("lint-changed").contains("error[E0308]: mismatched types"));
    assert_eq!(at_one_call("typecheck-changed"), "");
    assert_eq!(at_one_call("test-changed"), "");
    // An edit of another file does not report them.
    assert_eq!(
        project.edit("typecheck-changed", "crates/shop/src/other.rs"),
        ""
    );

    project.write(
        PRICE,
        &RUST.replace(
            "cents.to_string()",
            "let unused = 1;\n    return cents.to_string();",
        ),
    );
    assert_eq!(edit("typecheck-changed"), "", "a warning is no wrong type");
    let told = edit("lint-changed");
    assert!(
        told.starts_with("2 new problems in crates/shop/src/price.rs (cargo clippy, from PATH)\n"),
        "{told}"
    );
    assert!(
        told.contains(":3:5: warning: unneeded `return` statement"),
        "{told}"
    );

    project.write(
        PRICE,
        &RUST.replace("cents.to_string()", "format!(\"{cents}!\")"),
    );
    let told = edit("test-changed");
    assert!(told.starts_with("1 new failure in the tests of crates/shop/src/price.rs (cargo test, from PATH)\ncrates/shop/src/price.rs:9:9: price::tests::of_three: assertion"), "{told}");
    assert!(told.contains("left: \"3!\""), "{told}");
    // Tests of another module do not run.
    assert_eq!(project.edit("test-changed", "crates/shop/src/other.rs"), "");
}

#[test]
fn rust_errors_in_the_project_are_reported() {
    let Some(project) = rust_project() else {
        return;
    };
    let hooks = ["typecheck-project", "lint-project", "test-project"];
    for hook in hooks {
        assert_eq!(project.stop(hook), "", "{hook}");
    }
    project.write(
        PRICE,
        &RUST.replace("cents.to_string()", "return cents.to_string() + \"!\";"),
    );
    assert_eq!(project.stop("typecheck-project"), "");
    let told = project.stop("lint-project");
    assert!(told.starts_with("1 problem (cargo clippy, from PATH)\ncrates/shop/src/price.rs:2:5: error: unneeded `return`"), "{told}");
    let told = project.stop("test-project");
    assert!(told.contains("price::tests::of_three: assertion"), "{told}");
    assert_eq!(project.stop("test-project"), "", "nothing changed since");
    project.write(PRICE, "pub fn price() -> u8 { \"\" }\n");
    let told = project.stop("typecheck-project");
    assert!(
        told.contains("crates/shop/src/price.rs:1:24: error[E0308]"),
        "{told}"
    );
}
