//! What the real tools printed (`recorded/`), and what is told of it. Only golangci-lint's is no
//! recording: it was written by hand, in the format that golangci-lint prints.

use super::*;

fn recorded(format: Format, stdout: &str, stderr: &str) -> String {
    let said = Captured {
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
        code: Some(1),
        cut: false,
    };
    list(&read(format, &said, Path::new("/p")), Path::new("/p"))
}

macro_rules! on_stdout {
    ($format:ident, $name:literal) => {
        recorded(
            Format::$format,
            include_str!(concat!("recorded/", $name)),
            "",
        )
    };
}

macro_rules! on_stderr {
    ($format:ident, $name:literal) => {
        recorded(
            Format::$format,
            "",
            include_str!(concat!("recorded/", $name)),
        )
    };
}

#[test]
fn javascript() {
    insta::assert_snapshot!("tsc", on_stdout!(Parens, "tsc.txt"));
    insta::assert_snapshot!("eslint", on_stdout!(EslintJson, "eslint.json"));
    insta::assert_snapshot!("biome", on_stdout!(GitHub, "biome.txt"));
    insta::assert_snapshot!("vitest", on_stdout!(JestJson, "vitest.json"));
    insta::assert_snapshot!("jest", on_stdout!(JestJson, "jest.json"));
}

#[test]
fn rust() {
    insta::assert_snapshot!("cargo-check", on_stderr!(Cargo, "cargo-check.txt"));
    insta::assert_snapshot!("clippy", on_stderr!(Cargo, "clippy.txt"));
    insta::assert_snapshot!("cargo-test", on_stdout!(CargoTest, "cargo-test.txt"));
    // What does not compile has no tests.
    let broken = on_stderr!(CargoTest, "cargo-check.txt");
    assert!(broken.contains("expected `u8`, found `String`"), "{broken}");
}

#[test]
fn python() {
    insta::assert_snapshot!("pyright", on_stdout!(PyrightJson, "pyright.json"));
    insta::assert_snapshot!("mypy", on_stdout!(Lines, "mypy.txt"));
    insta::assert_snapshot!("ruff", on_stdout!(Lines, "ruff.txt"));
    insta::assert_snapshot!("pytest", on_stdout!(Pytest, "pytest.txt"));
    insta::assert_snapshot!("pytest-collect", on_stdout!(Pytest, "pytest-collect.txt"));
}

#[test]
fn go() {
    insta::assert_snapshot!("go-vet", on_stderr!(Lines, "go-vet.txt"));
    insta::assert_snapshot!("go-vet-broken", on_stderr!(Lines, "go-vet-broken.txt"));
    insta::assert_snapshot!("golangci-lint", on_stdout!(Lines, "golangci-lint.txt"));
    insta::assert_snapshot!("go-test", on_stdout!(GoTest, "go-test.txt"));
    let broken = on_stderr!(GoTest, "go-vet-broken.txt");
    assert!(
        broken.starts_with("price/price.go:9:25: cannot use"),
        "{broken}"
    );
}

#[test]
fn any_command_is_read_as_far_as_it_can_be() {
    let text = "\
make: Entering directory '/p'
src/a.c:3:5: warning: unused variable 'x'
src/b.ts(1,2): error TS1: no
::error file=c.js,line=4::wrong
12:30:01 INFO done
see https://example.com:443/a.b: there
";
    assert_eq!(
        recorded(Format::Any, text, ""),
        "src/b.ts:1:2: error TS1: no\nc.js:4: wrong\nsrc/a.c:3:5: warning: unused variable 'x'\n"
    );
}

#[test]
fn json_is_found_among_what_tests_print() {
    let report = r#"{"testResults":[{"name":"/p/a.test.js","status":"failed","message":"no","assertionResults":[]}]}"#;
    let printed = format!("hello\n{{not json}}\n{{\"a\":1}}\n{report}\nbye\n");
    let told = recorded(Format::JestJson, &printed, "");
    assert_eq!(told, "a.test.js: the file could not be run: no\n");
    for garbage in ["", "[", "{}", "null", "\"x\"", "[1]"] {
        for format in [Format::EslintJson, Format::PyrightJson, Format::JestJson] {
            assert_eq!(recorded(format, garbage, ""), "", "{garbage}");
        }
    }
}

fn problem(line: u32, text: &str) -> Problem {
    Problem {
        file: Some("/p/src/a.ts".into()),
        line,
        column: 0,
        severity: Severity::Error,
        text: text.to_owned(),
    }
}

#[test]
fn a_long_list_is_cut() {
    let many: Vec<_> = (1..=25).map(|line| problem(line, "wrong")).collect();
    let told = list(&many, Path::new("/p"));
    assert_eq!(told.lines().count(), 11, "{told}");
    assert!(
        told.ends_with("src/a.ts:10: wrong\nand 15 more\n"),
        "{told}"
    );

    let long = "é".repeat(5_000);
    let long: Vec<_> = (1..=25).map(|line| problem(line, &long)).collect();
    let told = list(&long, Path::new("/p"));
    assert!(told.len() < ALL + 100, "{}", told.len());
    assert!(
        told.ends_with("and 20 more\n"),
        "{}",
        &told[told.len() - 30..]
    );
}

#[test]
fn the_worst_comes_first_and_nothing_twice() {
    let text = "a.py:1:1: warning: w\na.py:2:1: error: e\na.py:2:1: error: e\na.py:3:1: error: e\n";
    assert_eq!(
        recorded(Format::Lines, text, ""),
        "a.py:2:1: error: e\na.py:3:1: error: e\na.py:1:1: warning: w\n"
    );
}

#[test]
fn what_nobody_can_read_is_told_by_its_end() {
    let stdout: String = (0..100).map(|line| format!("line {line}\n\n")).collect();
    let said = Captured {
        stdout,
        stderr: "the end\n".to_owned(),
        ..Captured::default()
    };
    let told = last_words(&said).unwrap().text;
    assert!(told.starts_with("line 61\n"), "{told}");
    assert!(told.ends_with("line 99\nthe end"), "{told}");
    assert_eq!(last_words(&Captured::default()), None);
}
