use super::*;

fn options(text: &str) -> toml::Table {
    toml::from_str(text).unwrap()
}

fn check(format: Format, kind: Kind) -> Check {
    Check {
        by: "tool".to_owned(),
        program: "/bin/sh".into(),
        args: Vec::new(),
        folder: "/p".into(),
        format,
        kind,
        files: Vec::new(),
    }
}

fn said(code: i32, stdout: &str) -> Captured {
    Captured {
        stdout: stdout.to_owned(),
        code: Some(code),
        ..Captured::default()
    }
}

#[test]
fn a_command_is_a_text_or_a_list() {
    assert_eq!(own_command(&options("")), Ok(None));
    let shell = Program::Shell("make check".to_owned());
    assert_eq!(
        own_command(&options("command = 'make check'")),
        Ok(Some(shell))
    );
    let list = Program::List(vec!["make".to_owned(), "check".to_owned()]);
    assert_eq!(
        own_command(&options("command = ['make', 'check']")),
        Ok(Some(list))
    );
    for wrong in ["command = 1", "command = []", "command = ['a', 1]"] {
        assert!(own_command(&options(wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn a_files_name_is_never_run() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("$(touch p);  touch q");
    fs::write(&name, "").unwrap();
    for line in [
        "echo {file}",
        "echo \"{file}\"",
        "echo '{files}'",
        "echo {files}",
    ] {
        let (program, args) = filled(
            &Program::Shell(line.to_owned()),
            std::slice::from_ref(&name),
        );
        let said = capture(&program, &args, folder.path()).unwrap();
        assert_eq!(said.stdout, format!("{}\n", name.display()), "{line}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let words = ["echo", "{files}", "{file}x"].map(str::to_owned);
    let (program, args) = filled(&Program::List(words.into()), &["/a b".into()]);
    assert_eq!(program, Path::new("echo"));
    assert_eq!(args, ["/a b", "{file}x"].map(OsString::from));
}

#[test]
fn what_a_tool_does_when_it_cannot_work_is_no_problem_of_the_code() {
    let judge = |format, kind, said: &Captured| check(format, kind).judge(said, Path::new("/p"));
    let crash = said(2, "Oops! no configuration\n");
    let why = judge(Format::EslintJson, Kind::Lint, &crash).unwrap_err();
    assert_eq!(why, "tool ended with 2: Oops! no configuration");
    let killed = Captured {
        code: None,
        ..said(0, "")
    };
    assert_eq!(
        judge(Format::Lines, Kind::Lint, &killed).unwrap_err(),
        "tool was killed: "
    );
    // pytest without tests.
    assert_eq!(
        judge(Format::Pytest, Kind::Test, &said(5, "no tests ran\n")),
        Ok(Vec::new())
    );
    assert!(judge(Format::Pytest, Kind::Test, &said(4, "usage\n")).is_err());
    // The shell's words for a program that is not there.
    assert!(judge(Format::Any, Kind::Lint, &said(127, "sh: x: not found\n")).is_err());
}

#[test]
fn a_command_that_nobody_can_read_is_told_by_its_end() {
    let check = check(Format::Any, Kind::Test);
    let problems = check
        .judge(&said(1, "it is wrong\n"), Path::new("/p"))
        .unwrap();
    assert_eq!(problems.len(), 1);
    assert_eq!(
        (&problems[0].file, &*problems[0].text),
        (&None, "it is wrong")
    );
    assert_eq!(
        check.judge(&said(0, "it is right\n"), Path::new("/p")),
        Ok(Vec::new())
    );
}

#[test]
fn a_compilers_warnings_are_the_linters() {
    let text = "a.rs:1:1: warning: w\na.rs:2:1: error: e\na.rs:2:1: note: n\n";
    let count = |kind| {
        check(Format::Lines, kind)
            .judge(&said(1, text), Path::new("/p"))
            .unwrap()
            .len()
    };
    assert_eq!(
        [Kind::Typecheck, Kind::Lint, Kind::Test].map(count),
        [1, 2, 1]
    );
    // It fails for what is not told: that is no crash.
    let notes = said(1, "a.rs:1:1: warning: w\n");
    assert_eq!(
        check(Format::Lines, Kind::Typecheck).judge(&notes, Path::new("/p")),
        Ok(Vec::new())
    );
}

#[test]
fn rustc_names_files_as_seen_from_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let krate = folder.path().join("crates/a");
    fs::create_dir_all(&krate).unwrap();
    fs::write(krate.join("Cargo.toml"), "[package]\nworkspace = '../..'\n").unwrap();
    assert_eq!(workspace(&krate, folder.path()), krate);
    fs::write(
        folder.path().join("Cargo.toml"),
        "[workspace]\nmembers = ['crates/*']\n",
    )
    .unwrap();
    assert_eq!(workspace(&krate, folder.path()), folder.path());
    // Not beyond the project.
    assert_eq!(workspace(&krate, &krate), krate);
}
