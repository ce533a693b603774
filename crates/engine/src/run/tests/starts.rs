//! How programs start, with what, and side by side.

use super::*;

#[test]
fn ten_programs_run_at_the_same_time() {
    let yard = Yard::new();
    // Each ends only when all others have begun.
    let line = |n: u8| {
        format!(
            "touch begun-{n}; while [ $(ls | grep -c begun) -lt 10 ]; do sleep 0.01; done; echo {n}"
        )
    };
    let jobs = (0..10).map(|n| yard.sh(&line(n))).collect();
    let (ran, _) = run_all(jobs);
    let said: Vec<&str> = ran.iter().map(|ran| text(&ran.stdout).trim()).collect();
    assert_eq!(said, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn results_stand_in_the_order_of_the_jobs() {
    let yard = Yard::new();
    let jobs = vec![
        yard.job(
            "slow",
            Program::Shell("while ! [ -e second ]; do sleep 0.01; done".into()),
        ),
        yard.job("absent", Program::List(vec!["no-such-program".into()])),
        Job {
            is_async: true,
            ..yard.job("background", Program::Shell("exit 1".into()))
        },
        yard.job("quick", Program::Shell("touch second".into())),
    ];
    let (ran, rest) = run_all(jobs);
    let hooks: Vec<&str> = ran.iter().map(|ran| ran.hook.as_str()).collect();
    assert_eq!(hooks, ["slow", "absent", "quick"]);
    assert_eq!(rest.len(), 1);
    assert_eq!(
        (rest[0].hook.as_str(), &rest[0].outcome),
        ("background", &Outcome::Exited(1))
    );
}

#[test]
fn nobody_waits_for_the_background() {
    let yard = Yard::new();
    let job = Job {
        is_async: true,
        ..yard.sh("while ! [ -e answered ]; do sleep 0.01; done")
    };
    let mut later = Vec::new();
    let answered = |ran: Vec<Ran>| {
        assert!(ran.is_empty());
        fs::write(yard.path("answered"), "").unwrap();
    };
    run(vec![job], &Cancel::new(), answered, |ran| later.push(ran));
    assert_eq!(later[0].outcome, Outcome::Exited(0));

    let mut called = false;
    run(
        Vec::new(),
        &Cancel::new(),
        |ran| called = ran.is_empty(),
        drop,
    );
    assert!(called);
}

#[test]
fn a_program_may_say_itself_that_it_goes_on_in_the_background() {
    let yard = Yard::new();
    let line = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done; echo more";
    let mut later = Vec::new();
    let answered = |ran: Vec<Ran>| {
        assert_eq!(ran[0].outcome, Outcome::WentAsync);
        assert_eq!(text(&ran[0].stdout), "{\"async\": true}\n");
        fs::write(yard.path("answered"), "").unwrap();
    };
    run(vec![yard.sh(line)], &Cancel::new(), answered, |ran| {
        later.push(ran);
    });
    assert_eq!(later[0].outcome, Outcome::Exited(0));
    assert_eq!(text(&later[0].stdout), "{\"async\": true}\nmore\n");
}

#[test]
fn the_next_one_does_not_wait_for_what_goes_on_in_the_background() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let mut behind = Behind::default();
    let mut later = Vec::new();
    let line = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done";
    let early = yard.job("early", Program::Shell(line.to_owned()));
    let ran = run_before(&mut behind, early, &cancel, |ran| later.push(ran));
    assert_eq!(ran.unwrap().outcome, Outcome::WentAsync);
    let ran = run_before(&mut behind, yard.sh("exit 3"), &cancel, |ran| {
        later.push(ran);
    });
    assert_eq!(ran.unwrap().outcome, Outcome::Exited(3));
    assert!(later.is_empty());
    let answered = |ran: Vec<Ran>| {
        assert_eq!(ran[0].outcome, Outcome::Exited(4));
        fs::write(yard.path("answered"), "").unwrap();
    };
    let jobs = vec![yard.sh("exit 4")];
    run_beside(behind, jobs, &cancel, answered, |ran| later.push(ran));
    assert_eq!(
        (&*later[0].hook, &later[0].outcome),
        ("early", &Outcome::Exited(0))
    );
}

#[test]
fn in_the_background_it_has_the_time_that_it_asks_for() {
    let yard = Yard::new();
    let line = "printf '{\"async\":true,\"asyncTimeout\":50}'; exec sleep 1000";
    let (ran, rest) = run_all(vec![yard.sh(line)]);
    assert_eq!(ran[0].outcome, Outcome::WentAsync);
    assert_eq!(rest[0].outcome, Outcome::TimedOut);
    assert!(rest[0].took < WATCHDOG / 2);
}

#[test]
fn it_gets_the_event_the_folder_and_the_environment_and_nothing_else() {
    let yard = Yard::new();
    let stdin: Arc<[u8]> = Arc::from(&b"{\"a\": \"\xc3\xa4\"}\n "[..]);
    let mut job = yard.sh("cat; echo; pwd -P; tr '\\0' '\\n' < /proc/$$/environ");
    let path = job.environment[0].clone();
    job.environment = Arc::new([path.clone(), ("CI".into(), "no".into())]);
    job.stdin = Arc::clone(&stdin);
    let ran = run_one(job);
    let folder = yard.0.path().canonicalize().unwrap();
    let (folder, path) = (folder.display(), path.1.display());
    let expected = format!("{}\n{folder}\n", text(&stdin));
    let environment = text(&ran.stdout)
        .strip_prefix(&expected)
        .expect("event and folder");
    let mut environment: Vec<&str> = environment.lines().collect();
    environment.sort_unstable();
    assert_eq!(
        environment,
        ["BECKET_HOOK=h", "CI=true", &format!("PATH={path}")]
    );
}

#[test]
fn an_event_of_any_size_arrives_whole() {
    let yard = Yard::new();
    let stdin: Arc<[u8]> = (0..10_u32 << 20).map(|n| n.to_le_bytes()[1]).collect();
    let job = Job {
        stdin: Arc::clone(&stdin),
        ..yard.sh("sleep 0.1; cat > event")
    };
    assert_eq!(run_one(job).outcome, Outcome::Exited(0));
    assert!(fs::read(yard.path("event")).unwrap() == *stdin);
}

/// Process group, session and terminal of a program: fields 5, 6 and 7 of its line in /proc.
const KIN: &str = "read pid name state parent group session tty rest < /proc/$$/stat; echo $$ $group $session $tty";

#[test]
fn each_leads_a_group_of_its_own() {
    let yard = Yard::new();
    let ran = run_one(yard.sh(KIN));
    let kin: Vec<&str> = text(&ran.stdout).split_whitespace().collect();
    assert_eq!(kin[0], kin[1]);
}

#[test]
fn in_a_terminal_each_leads_a_session_of_its_own_and_has_no_terminal() {
    let setsid = PathBuf::from("/usr/bin/setsid");
    if !setsid.exists() {
        eprintln!("SKIPPED: there is no setsid here");
        return;
    }
    let yard = Yard::new();
    let jobs = vec![
        yard.sh(KIN),
        yard.sh("(: < /dev/tty) 2> /dev/null || echo none"),
        yard.job(
            "h",
            Program::List(vec!["printf".into(), "%s".into(), "--help".into()]),
        ),
    ];
    let apart = Apart::Session(setsid);
    let (ran, _) = run_in(&apart, jobs, &Cancel::new());
    let kin: Vec<&str> = text(&ran[0].stdout).split_whitespace().collect();
    assert_eq!([kin[0], kin[0], kin[0], "0"], kin[..]);
    assert_eq!(text(&ran[1].stdout), "none\n");
    assert_eq!(text(&ran[2].stdout), "--help");
    let line = "sleep 1000 & echo $! > child; echo > begun; wait";
    times_out_in(&apart, &yard, line);
    wait_until_gone(yard.pid("child"));
}

fn not_started(job: Job) -> String {
    match run_one(job).outcome {
        Outcome::NotStarted(why) => why,
        other => panic!("{other:?}"),
    }
}

fn write_script(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_cannot_be_started_says_why() {
    let yard = Yard::new();
    fs::create_dir(yard.path("bin")).unwrap();
    write_script(&yard.path("bin/plain"), "#!/bin/sh\n", 0o644);
    write_script(&yard.path("bin/odd"), "#!/no/such/shell\n", 0o755);
    write_script(&yard.path("bin/bare"), "echo x\n", 0o755);
    let list = |word: &str| yard.job("h", Program::List(vec![word.to_owned()]));
    let mut why: Vec<String> = [
        "bin/absent",
        "bin/plain",
        "bin",
        "./bin",
        "bin/odd",
        "bin/bare",
        "",
    ]
    .map(|word| not_started(list(word)))
    .to_vec();
    let mut in_path = list("plain");
    in_path.environment = Arc::new([("PATH".into(), yard.path("bin").into())]);
    why.push(not_started(in_path));
    let cwd = yard.path("gone");
    why.push(not_started(Job {
        cwd,
        ..yard.sh("true")
    }));
    let long = "x".repeat(8 << 20);
    why.push(not_started(yard.sh(&long)));
    let why = why
        .join("\n")
        .replace(&yard.0.path().display().to_string(), "PROJECT");
    insta::assert_snapshot!(why, @r#"
    PROJECT/bin/absent does not exist
    PROJECT/bin/plain is not executable (try `chmod +x PROJECT/bin/plain`)
    no program "bin" is in the PATH
    PROJECT/./bin is a folder
    PROJECT/bin/odd needs an interpreter that does not exist (see its first line, `#!…`)
    PROJECT/bin/bare is no program (does it lack a first line like `#!/bin/sh`?)
    no program is named (run = ["program", …])
    PROJECT/bin/plain is not executable (try `chmod +x PROJECT/bin/plain`)
    the session's folder PROJECT/gone is gone
    its arguments and environment are too long
    "#);
}

#[test]
fn a_path_is_relative_to_the_project_and_a_word_is_looked_up() {
    let yard = Yard::new();
    for folder in ["project", "project/bin", "cwd"] {
        fs::create_dir(yard.path(folder)).unwrap();
    }
    write_script(
        &yard.path("project/bin/tool"),
        "#!/bin/sh\necho tool \"$@\"; pwd\n",
        0o755,
    );
    let job = |words: &[&str]| {
        let words = words.iter().map(ToString::to_string).collect();
        let mut job = yard.job("h", Program::List(words));
        (job.base, job.cwd) = (yard.path("project"), yard.path("cwd"));
        job
    };
    let said = format!("tool a b; $(touch x)\n{}\n", yard.path("cwd").display());
    let ran = run_one(job(&["bin/tool", "a", "b; $(touch x)"]));
    assert_eq!(text(&ran.stdout), said);
    let mut looked_up = job(&["tool", "a", "b; $(touch x)"]);
    let path = "/nowhere:../project/bin:/bin".into();
    looked_up.environment = Arc::new([("PATH".into(), path)]);
    assert_eq!(text(&run_one(looked_up).stdout), said);
    let mut bare = job(&["echo", "x"]);
    bare.environment = Arc::new([]);
    assert_eq!(text(&run_one(bare).stdout), "x\n");
}
