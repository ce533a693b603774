//! cargo check, clippy and test. Nothing is downloaded: the crate has no dependencies.

use std::path::{Path, PathBuf};

use becket_tests::skip::{Unavailable, skip};

use super::Project;

const GOOD: &str = "pub fn price(cents: u32) -> String {
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

fn project() -> Option<Project> {
    // Of the toolchain that builds this test.
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
        ("crates/shop/src/price.rs", GOOD),
        ("crates/shop/src/other.rs", ""),
    ]);
    let target = project.world.root().join("target");
    Some(project.with_path(folder).with("CARGO_TARGET_DIR", target))
}

const PRICE: &str = "crates/shop/src/price.rs";

#[test]
fn what_changed() {
    let Some(project) = project() else {
        return;
    };
    let edit = |hook| project.edit(hook, PRICE);
    assert_eq!(edit("typecheck-changed"), "");
    project.write(PRICE, &GOOD.replace("-> String", "-> u8"));
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
    assert_eq!(edit("typecheck-changed"), "", "told already");
    // Another file is not to blame.
    assert_eq!(
        project.edit("typecheck-changed", "crates/shop/src/other.rs"),
        ""
    );

    project.write(
        PRICE,
        &GOOD.replace(
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
        &GOOD.replace("cents.to_string()", "format!(\"{cents}!\")"),
    );
    let told = edit("test-changed");
    assert!(told.starts_with("1 new failure in the tests of crates/shop/src/price.rs (cargo test, from PATH)\ncrates/shop/src/price.rs:9:9: price::tests::of_three: assertion"), "{told}");
    assert!(told.contains("left: \"3!\""), "{told}");
    // Its tests are not those of another module.
    assert_eq!(project.edit("test-changed", "crates/shop/src/other.rs"), "");
}

#[test]
fn the_whole_project() {
    let Some(project) = project() else {
        return;
    };
    let hooks = ["typecheck-project", "lint-project", "test-project"];
    for hook in hooks {
        assert_eq!(project.stop(hook), "", "{hook}");
    }
    project.write(
        PRICE,
        &GOOD.replace("cents.to_string()", "return cents.to_string() + \"!\";"),
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
