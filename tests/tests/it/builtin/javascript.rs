//! tsc, eslint, biome, vitest, jest, and the scripts of a package.

use std::os::unix::fs::symlink;

use becket_tests::skip::skip;
use becket_tests::tools::node_modules;

use super::Project;

const GOOD: &str = "export function price(cents: number): string {\n  return `${cents}`;\n}\n";
const CONFIG: &str = r#"{"compilerOptions": {"strict": true, "noEmit": true, "target": "es2022",
"module": "nodenext", "skipLibCheck": true, "types": []}, "include": ["src"]}"#;

/// A project with these files and the installed tools.
fn project(name: &str, files: &[(&str, &str)]) -> Option<Project> {
    let modules = match node_modules() {
        Ok(modules) => modules,
        Err(why) => {
            skip(&format!("builtin::javascript::{name}"), &why);
            return None;
        }
    };
    let project = Project::new(files);
    symlink(modules, project.folder.join("node_modules")).expect("a link");
    project.write(".gitignore", "node_modules\n");
    Some(project)
}

#[test]
fn types() {
    let files = [
        ("package.json", r#"{"type": "module"}"#),
        ("tsconfig.json", CONFIG),
        ("src/price.ts", GOOD),
        (
            "src/use.ts",
            "import { price } from \"./price.js\";\nprice(3);\n",
        ),
    ];
    let Some(project) = project("types", &files) else {
        return;
    };
    assert_eq!(project.edit("typecheck-changed", "src/price.ts"), "");
    assert_eq!(project.stop("typecheck-project"), "");
    // It breaks the one who uses it, which is told before the end, not now.
    project.write(
        "src/price.ts",
        "export function price(cents: string): number {\n  return cents;\n}\n",
    );
    assert_eq!(
        project.edit("typecheck-changed", "src/price.ts"),
        "1 new problem in src/price.ts (tsc, from node_modules/.bin/tsc)\n\
         src/price.ts:2:3: error TS2322: Type 'string' is not assignable to type 'number'."
    );
    assert_eq!(project.edit("typecheck-changed", "src/price.ts"), "");
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
    project.write("src/price.ts", GOOD);
    assert_eq!(project.stop("typecheck-project"), "");
    // Nothing of ours lies about.
    assert!(!project.folder.join("tsconfig.tsbuildinfo").exists());
}

#[test]
fn eslint() {
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
    let Some(project) = project("eslint", &files) else {
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
fn biome() {
    let files = [
        ("package.json", "{}"),
        ("biome.json", "{}"),
        ("src/old.js", "const a = 1;\nif (a == 2) { throw a; }\n"),
    ];
    let Some(project) = project("biome", &files) else {
        return;
    };
    let told = project.edit("lint-changed", "src/old.js");
    assert_eq!(
        told,
        "1 new problem in src/old.js (biome, from node_modules/.bin/biome)\n\
         src/old.js:2:7: lint/suspicious/noDoubleEquals: Using == may be unsafe if you are relying on type coercion."
    );
    assert!(
        project
            .stop("lint-project")
            .contains("src/old.js:2:7: lint/suspicious"),
        "{told}"
    );
}

#[test]
fn vitest() {
    let files = [
        (
            "package.json",
            r#"{"type": "module", "devDependencies": {"vitest": "*"}}"#,
        ),
        ("src/price.ts", GOOD),
        ("src/alone.ts", "export const x = 1;\n"),
        (
            "src/price.test.ts",
            "import { test, expect } from \"vitest\";\nimport { price } from \"./price.js\";\n\
             test(\"three\", () => {\n  console.log(\"noise\");\n  expect(price(3)).toBe(\"3\");\n});\n",
        ),
    ];
    let Some(project) = project("vitest", &files) else {
        return;
    };
    assert_eq!(project.edit("test-changed", "src/price.ts"), "");
    project.write("src/price.ts", &GOOD.replace("${cents}", "${cents}!"));
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
    assert!(test.contains("three: AssertionError"), "{test}");
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
fn jest() {
    let files = [
        ("package.json", r#"{"devDependencies": {"jest": "*"}}"#),
        (
            "price.js",
            "module.exports = { price: (cents) => `${cents}!` };\n",
        ),
        (
            "price.test.js",
            "const { price } = require(\"./price\");\ntest(\"three\", () => { expect(price(3)).toBe(\"3\"); });\n",
        ),
    ];
    let Some(project) = project("jest", &files) else {
        return;
    };
    let told = project.edit("test-changed", "price.js");
    assert!(told.starts_with("1 new failure in the tests of price.js (jest, from node_modules/.bin/jest)\nprice.test.js:2:"), "{told}");
    assert!(
        told.contains("three: Error: expect(received).toBe(expected)")
            && told.contains("Received: \"3!\""),
        "{told}"
    );
    project.write(
        "price.js",
        "module.exports = { price: (cents) => `${cents}` };\n",
    );
    assert_eq!(project.stop("test-project"), "");
}

#[test]
fn a_script_of_the_package() {
    let Some(project) = project(
        "a_script_of_the_package",
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
