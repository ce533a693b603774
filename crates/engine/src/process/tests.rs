//! Real little programs that do what programs should not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;

use super::*;

/// No program here takes that long unless something is broken.
const WATCHDOG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

/// A folder to work in, which outlives its programs.
struct Yard(TempDir);

impl Yard {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn job(&self, hook: &str, program: Program) -> Job {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Job {
            hook: hook.to_owned(),
            program,
            cwd: self.0.path().to_owned(),
            base: self.0.path().to_owned(),
            environment: Arc::new([(OsString::from("PATH"), path)]),
            stdin: Arc::from(&b"{}"[..]),
            timeout: WATCHDOG,
            is_async: false,
            listing: None,
        }
    }

    fn sh(&self, line: &str) -> Job {
        self.job("h", Program::Shell(line.to_owned()))
    }

    /// Waits for a file that a program writes in one go, and reads it.
    fn read(&self, name: &str) -> String {
        let until = Instant::now() + WATCHDOG;
        loop {
            match fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(Instant::now() < until, "no {name}"),
            }
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.read(name).parse().unwrap()).unwrap()
    }
}

fn with_timeout(job: Job, timeout: Duration) -> Job {
    Job { timeout, ..job }
}

/// Runs jobs to their end. Returns the awaited results, then those of the background.
fn run_all(jobs: Vec<Job>) -> (Vec<JobResult>, Vec<JobResult>) {
    run_until(jobs, &Cancel::new())
}

fn run_until(jobs: Vec<Job>, cancel: &Cancel) -> (Vec<JobResult>, Vec<JobResult>) {
    let mut running = RunningJobs::new(cancel);
    let awaited = running.run(jobs);
    (awaited, rest_of(&mut running))
}

fn rest_of(running: &mut RunningJobs<'_>) -> Vec<JobResult> {
    std::iter::from_fn(|| running.next_ended()).collect()
}

fn run_one(job: Job) -> JobResult {
    let began = Instant::now();
    let (mut ran, rest) = run_all(vec![job]);
    assert!(rest.is_empty());
    assert!(began.elapsed() < WATCHDOG / 2, "it hung");
    ran.pop().expect("one run")
}

/// Runs it until its time is up. How long it takes to write `begun` is the machine's business: until it
/// got so far it is run again, with more time.
fn times_out(yard: &Yard, line: &str) -> JobResult {
    let mut limit = SHORT;
    loop {
        let job = with_timeout(yard.sh(line), limit);
        let (mut ran, _) = run_all(vec![job]);
        let ran = ran.pop().expect("one run");
        assert_eq!((&ran.outcome, ran.limit), (&Outcome::TimedOut, limit));
        assert!((limit..WATCHDOG / 2).contains(&ran.took), "{:?}", ran.took);
        if yard.path("begun").exists() {
            return ran;
        }
        limit *= 4;
    }
}

/// Returns true if the process is gone or a zombie.
fn is_gone(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let zombie = stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" Z"));
    zombie || test_kill_process(pid) == Err(Errno::SRCH)
}

fn wait_until_gone(pid: Pid) {
    let until = Instant::now() + WATCHDOG;
    while !is_gone(pid) {
        assert!(Instant::now() < until, "{pid:?} still runs");
        thread::park_timeout(Duration::from_millis(5));
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

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
    assert_eq!(rest[0].hook, "background");
    assert_eq!(&rest[0].outcome, &Outcome::Exited(1));
}

#[test]
fn the_background_is_not_waited_for() {
    let yard = Yard::new();
    let job = Job {
        is_async: true,
        ..yard.sh("while ! [ -e answered ]; do sleep 0.01; done")
    };
    let cancel = Cancel::new();
    let mut running = RunningJobs::new(&cancel);
    assert!(running.run(vec![job]).is_empty());
    fs::write(yard.path("answered"), "").unwrap();
    assert_eq!(rest_of(&mut running)[0].outcome, Outcome::Exited(0));
    assert!(running.run(Vec::new()).is_empty());
}

#[test]
fn a_program_may_say_itself_that_it_goes_on_in_the_background() {
    let yard = Yard::new();
    let line = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done; echo more";
    let cancel = Cancel::new();
    let mut running = RunningJobs::new(&cancel);
    let ran = running.run(vec![yard.sh(line)]);
    assert_eq!(ran[0].outcome, Outcome::WentAsync);
    assert_eq!(text(&ran[0].stdout), "{\"async\": true}\n");
    fs::write(yard.path("answered"), "").unwrap();
    let later = rest_of(&mut running);
    assert_eq!(later[0].outcome, Outcome::Exited(0));
    assert_eq!(text(&later[0].stdout), "{\"async\": true}\nmore\n");
}

#[test]
fn the_next_one_does_not_wait_for_what_goes_on_in_the_background() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let mut running = RunningJobs::new(&cancel);
    let line = "echo '{\"async\": true}'; while ! [ -e answered ]; do sleep 0.01; done";
    let early = yard.job("early", Program::Shell(line.to_owned()));
    assert_eq!(running.run(vec![early])[0].outcome, Outcome::WentAsync);
    for code in [3, 4] {
        let job = yard.sh(&format!("exit {code}"));
        assert_eq!(running.run(vec![job])[0].outcome, Outcome::Exited(code));
    }
    fs::write(yard.path("answered"), "").unwrap();
    let later = rest_of(&mut running);
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
fn each_leads_a_session_of_its_own_and_all_of_it_ends_with_it() {
    let yard = Yard::new();
    let jobs = vec![
        yard.sh(KIN),
        yard.sh("(: < /dev/tty) 2> /dev/null || echo none"),
    ];
    let (ran, _) = run_all(jobs);
    let kin: Vec<&str> = text(&ran[0].stdout).split_whitespace().collect();
    assert_eq!([kin[0], kin[0], kin[0], "0"], kin[..]);
    assert_eq!(text(&ran[1].stdout), "none\n");
    // `timeout` leaves the group of its shell.
    let line = "timeout 300 sh -c 'echo $$ > child; echo > begun; sleep 1000' & wait";
    times_out(&yard, line);
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
    let list = |word: &str| yard.job("h", Program::List(vec![word.to_owned()]));
    let mut why: Vec<String> = ["bin/absent", "bin/plain", "bin", "./bin", "bin/odd", ""]
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

#[test]
fn a_program_that_hangs_is_ended_when_its_time_is_up() {
    let yard = Yard::new();
    let line = "echo $$ > pid; echo begun; echo > begun; exec sleep 1000";
    let ran = times_out(&yard, line);
    assert_eq!(text(&ran.stdout), "begun\n");
    assert_eq!(test_kill_process(yard.pid("pid")), Err(Errno::SRCH));
}

#[test]
fn those_that_it_started_are_ended_with_it() {
    let yard = Yard::new();
    let line = "sleep 1000 & echo $! > child; sleep 1000 > /dev/null 2>&1 & echo $! > quiet; echo > begun; wait";
    times_out(&yard, line);
    wait_until_gone(yard.pid("child"));
    wait_until_gone(yard.pid("quiet"));
}

#[test]
fn a_program_that_ignores_the_first_signal_gets_the_second() {
    let yard = Yard::new();
    let line = "trap '' TERM; echo $$ > pid; sh -c 'echo $$ > child; echo > begun; sleep 1000; sleep 1000'; sleep 1000";
    times_out(&yard, line);
    assert_eq!(test_kill_process(yard.pid("pid")), Err(Errno::SRCH));
    wait_until_gone(yard.pid("child"));
}

#[test]
fn a_child_that_ignores_the_first_signal_is_killed_though_its_parent_obeyed() {
    let yard = Yard::new();
    // One holds the pipes, of the other nothing is heard.
    let stubborn = |name: &str| {
        format!("sh -c 'trap \"\" TERM; echo $$ > {name}; while :; do sleep 1000; done'")
    };
    let both = "while ! [ -s loud ] || ! [ -s quiet ]; do sleep 0.01; done";
    let (loud, quiet) = (stubborn("loud"), stubborn("quiet"));
    for children in [
        format!("{loud} & echo 0 > quiet"),
        format!("{quiet} > /dev/null 2>&1 & echo 0 > loud"),
    ] {
        let line = format!("rm -f loud quiet; {children}; {both}; echo > begun; exec sleep 1000");
        times_out(&yard, &line);
        for name in ["loud", "quiet"] {
            if let Some(pid) = Pid::from_raw(yard.read(name).parse().unwrap()) {
                wait_until_gone(pid);
            }
        }
        fs::remove_file(yard.path("begun")).unwrap();
    }
}

#[test]
fn a_program_that_was_stopped_hears_that_its_time_is_up() {
    let yard = Yard::new();
    let line = "trap 'echo bye; exit' TERM; echo > begun; kill -STOP $$; sleep 1000";
    let ran = times_out(&yard, line);
    assert_eq!(text(&ran.stdout), "bye\n");
}

#[test]
fn a_flood_is_read_to_its_end_and_kept_in_part() {
    let yard = Yard::new();
    let ran =
        run_one(yard.sh("head -c 100000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 3"));
    assert_eq!(ran.outcome, Outcome::Exited(3));
    assert_eq!((ran.stdout.len(), ran.stderr.len()), (1 << 20, 1 << 20));
    assert_eq!(ran.dropped, 103_000_000 - (2 << 20));
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let yard = Yard::new();
    let outcome = |line: &str| run_one(yard.sh(line)).outcome;
    assert_eq!(outcome("exit 0"), Outcome::Exited(0));
    assert_eq!(outcome("exit 2"), Outcome::Exited(2));
    assert_eq!(outcome("exit 137"), Outcome::Exited(137));
    assert_eq!(outcome("kill -9 $$"), Outcome::Signalled(9));
    assert_eq!(outcome("kill -SEGV $$"), Outcome::Signalled(11));
}

#[test]
fn a_process_left_behind_with_the_pipes_does_not_hold_the_answer() {
    let yard = Yard::new();
    let line = "(echo left; echo > left; exec sleep 1000) & echo $! > child; while ! [ -s left ]; do sleep 0.01; done; echo said";
    let ran = run_one(yard.sh(line));
    let child = yard.pid("child");
    assert_eq!(ran.outcome, Outcome::Exited(0));
    let mut lines: Vec<&str> = text(&ran.stdout).lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["left", "said"]);
    assert!(
        !is_gone(child),
        "what a hook leaves behind is its own business"
    );
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_process_that_floods_the_pipes_from_behind_does_not_hold_the_answer() {
    let yard = Yard::new();
    let ran = run_one(yard.sh("yes & echo $! > child"));
    assert_eq!(ran.outcome, Outcome::Exited(0));
    wait_until_gone(yard.pid("child"));
}

#[test]
fn an_event_that_is_not_read_is_no_failure() {
    let yard = Yard::new();
    let large: Arc<[u8]> = vec![b' '; 10 << 20].into();
    for line in [
        "exit 0",
        "exec <&-; sleep 0.1",
        "head -c 100000 > /dev/null",
    ] {
        let stdin = Arc::clone(&large);
        let ran = run_one(Job {
            stdin,
            ..yard.sh(line)
        });
        assert_eq!(ran.outcome, Outcome::Exited(0), "{line}");
    }
    let never = Job {
        stdin: large,
        ..yard.sh("exec sleep 1000")
    };
    assert_eq!(
        run_one(with_timeout(never, SHORT)).outcome,
        Outcome::TimedOut
    );
}

#[test]
fn what_was_ended_says_why() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let awaited = yard.sh("echo $$ > awaited; exec sleep 1000");
    let background = Job {
        is_async: true,
        ..yard.sh("echo $$ > background; exec sleep 1000")
    };
    let mut running = RunningJobs::new(&cancel);
    thread::scope(|scope| {
        let (other, yard) = (cancel.clone(), &yard);
        scope.spawn(move || {
            yard.pid("awaited");
            yard.pid("background");
            other.abandon();
        });
        let ran = running.run(vec![awaited, background]);
        assert_eq!(ran[0].outcome, Outcome::Cancelled);
    });
    cancel.cut_off();
    assert_eq!(rest_of(&mut running)[0].outcome, Outcome::CutOff);

    let (ran, _) = run_until(vec![yard.sh("touch begun")], &cancel);
    assert_eq!(ran[0].outcome, Outcome::CutOff);
    assert!(!yard.path("begun").exists());
}

#[test]
fn what_was_cancelled_before_is_not_started() {
    let yard = Yard::new();
    let jobs = || {
        let job = |name: &str| yard.job(name, Program::Shell(format!("touch {name}")));
        // A try to start this would say that it does not exist.
        let absent = yard.job("absent", Program::List(vec!["./absent".to_owned()]));
        let background = Job {
            is_async: true,
            ..job("background")
        };
        vec![background, job("awaited"), absent]
    };
    let outcomes = |ran: &[JobResult]| -> Vec<Outcome> {
        let outcomes = ran.iter().map(|ran| ran.outcome.clone());
        outcomes.collect()
    };
    let begun = || ["awaited", "background"].map(|name| yard.path(name).exists());

    let cancel = Cancel::new();
    cancel.cancel();
    let (ran, rest) = run_until(jobs(), &cancel);
    assert_eq!(outcomes(&ran), [Outcome::Cancelled, Outcome::Cancelled]);
    assert_eq!(outcomes(&rest), [Outcome::Cancelled]);
    assert_eq!(begun(), [false; 2]);

    let cancel = Cancel::new();
    cancel.abandon();
    let (ran, rest) = run_until(jobs(), &cancel);
    assert_eq!(outcomes(&ran), [Outcome::Cancelled, Outcome::Cancelled]);
    assert_eq!(outcomes(&rest), [Outcome::Exited(0)]);
    assert_eq!(begun(), [false, true]);
}

#[test]
fn what_runs_in_the_background_outlives_the_caller() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let awaited = yard.sh("echo $$ > awaited; exec sleep 1000");
    let line = "while ! [ -e go ]; do sleep 0.01; done; echo done";
    let background = Job {
        is_async: true,
        ..yard.sh(line)
    };
    let mut running = RunningJobs::new(&cancel);
    thread::scope(|scope| {
        let (other, yard) = (cancel.clone(), &yard);
        scope.spawn(move || {
            yard.pid("awaited");
            other.abandon();
        });
        let ran = running.run(vec![awaited, background]);
        assert_eq!(ran[0].outcome, Outcome::Cancelled);
    });
    fs::write(yard.path("go"), "").unwrap();
    let rest = rest_of(&mut running);
    assert_eq!(rest[0].outcome, Outcome::Exited(0));
    assert_eq!(text(&rest[0].stdout), "done\n");
}
