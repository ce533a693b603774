//! pyright, mypy, ruff and pytest.

use std::os::unix::fs::symlink;

use becket_tests::skip::skip;
use becket_tests::tools::{node_modules, python};

use super::Project;

const FILES: &[(&str, &str)] = &[
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

/// A project with a virtual environment of its own.
fn project(name: &str) -> Option<Project> {
    let programs = match python() {
        Ok(programs) => programs,
        Err(why) => {
            skip(&format!("builtin::python::{name}"), &why);
            return None;
        }
    };
    let project = Project::new(FILES);
    let environment = programs.parent().expect("an environment");
    symlink(environment, project.folder.join(".venv")).expect("a link");
    project.write(".gitignore", ".venv\n__pycache__\n");
    Some(project)
}

#[test]
fn mypy() {
    let Some(project) = project("mypy") else {
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
fn ruff() {
    let Some(project) = project("ruff") else {
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
fn pytest() {
    let Some(project) = project("pytest") else {
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

#[test]
fn pyright() {
    let modules = match node_modules() {
        Ok(modules) => modules,
        Err(why) => return skip("builtin::python::pyright", &why),
    };
    let project = Project::new(FILES);
    symlink(modules, project.folder.join("node_modules")).expect("a link");
    project.write("pyrightconfig.json", "{}");
    let told = project.edit("typecheck-changed", "shop/price.py");
    assert!(told.starts_with("1 new problem in shop/price.py (pyright, from node_modules/.bin/pyright)\nshop/price.py:5:12: error: Type \"int\" is not assignable to return type \"str\""), "{told}");
}
