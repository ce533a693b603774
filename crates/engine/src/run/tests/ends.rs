//! How programs end, or do not.

use super::*;

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
fn whoever_ignores_the_first_signal_gets_the_second() {
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
fn whoever_ends_after_it_was_left_is_no_zombie() {
    let yard = Yard::new();
    let line = "echo $$ > pid; while ! [ -e go ]; do sleep 0.01; done";
    let running = Running::start(yard.sh(line), &Apart::Group).unwrap();
    let pid = yard.pid("pid");
    // As where it hangs in a dead file system, and no signal reaches it.
    running.finish(&mut [0; 16]);
    assert_eq!(test_kill_process(pid), Ok(()));
    fs::write(yard.path("go"), "").unwrap();
    let until = Instant::now() + WATCHDOG;
    while test_kill_process(pid) != Err(Errno::SRCH) {
        assert!(Instant::now() < until, "nobody waits for {pid:?}");
        thread::park_timeout(Duration::from_millis(5));
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
fn a_program_may_close_its_pipes_and_go_on() {
    let yard = Yard::new();
    let line = "echo said; exec >&- 2>&- <&-; while ! [ -e go ]; do sleep 0.01; done; exit 5";
    let (job, cancel) = (yard.sh(line), Cancel::new());
    let go = yard.sh("while ! [ -e waits ]; do sleep 0.01; done; touch go");
    let waits = yard.sh("touch waits");
    let (ran, _) = run_until(vec![job, go, waits], &cancel);
    assert_eq!(ran[0].outcome, Outcome::Exited(5));
    assert_eq!(text(&ran[0].stdout), "said\n");
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
fn whoever_is_left_behind_with_the_pipes_does_not_hold_the_answer() {
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
fn whoever_floods_the_pipes_from_behind_does_not_hold_the_answer() {
    let yard = Yard::new();
    let ran = run_one(yard.sh("yes & echo $! > child"));
    assert_eq!(ran.outcome, Outcome::Exited(0));
    wait_until_gone(yard.pid("child"));
}

#[test]
fn an_event_that_nobody_reads_is_no_failure() {
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
fn a_batch_is_ended_from_another_thread() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let line = "echo $$ > awaited; exec sleep 1000";
    let awaited = yard.job("awaited", Program::Shell(line.into()));
    let background = Job {
        is_async: true,
        ..yard.sh("echo $$ > background; exec sleep 1000")
    };
    let (ran, rest) = thread::scope(|scope| {
        let other = cancel.clone();
        let yard = &yard;
        scope.spawn(move || {
            yard.pid("awaited");
            yard.pid("background");
            other.cancel();
        });
        run_until(vec![background, awaited], &cancel)
    });
    assert_eq!(ran[0].outcome, Outcome::Cancelled);
    assert_eq!(rest[0].outcome, Outcome::Cancelled);
    assert!(is_gone(yard.pid("awaited")) && is_gone(yard.pid("background")));
}

#[test]
fn who_was_ended_says_because_of_whom() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let awaited = yard.sh("echo $$ > awaited; exec sleep 1000");
    let background = Job {
        is_async: true,
        ..yard.sh("echo $$ > background; exec sleep 1000")
    };
    let (ran, rest) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    thread::scope(|scope| {
        let (other, yard) = (cancel.clone(), &yard);
        scope.spawn(move || {
            yard.pid("awaited");
            yard.pid("background");
            other.abandon();
        });
        // First nobody waits any more, then we end: each says what ended it.
        let answered = |all| {
            ran.replace(all);
            cancel.cut_off();
        };
        run(vec![awaited, background], &cancel, answered, |one| {
            rest.borrow_mut().push(one);
        });
    });
    assert_eq!(ran.borrow()[0].outcome, Outcome::Cancelled);
    assert_eq!(rest.borrow()[0].outcome, Outcome::CutOff);

    let (ran, _) = run_until(vec![yard.sh("touch begun")], &cancel);
    assert_eq!(ran[0].outcome, Outcome::CutOff);
    assert!(!yard.path("begun").exists());
}

#[test]
fn what_was_cancelled_before_is_not_started() {
    let yard = Yard::new();
    let jobs = || {
        let job = |name: &str| yard.job(name, Program::Shell(format!("touch {name}")));
        // Whoever so much as tried to start this would say that it does not exist.
        let absent = yard.job("absent", Program::List(vec!["./absent".to_owned()]));
        let background = Job {
            is_async: true,
            ..job("background")
        };
        vec![background, job("awaited"), absent]
    };
    let outcomes = |ran: &[Ran]| -> Vec<Outcome> {
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
fn what_runs_in_the_background_outlives_whoever_asked() {
    let yard = Yard::new();
    let cancel = Cancel::new();
    let awaited = yard.sh("echo $$ > awaited; exec sleep 1000");
    let line = "while ! [ -e go ]; do sleep 0.01; done; echo done";
    let background = Job {
        is_async: true,
        ..yard.sh(line)
    };
    let (ran, rest) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    thread::scope(|scope| {
        let (other, yard) = (cancel.clone(), &yard);
        scope.spawn(move || {
            yard.pid("awaited");
            other.abandon();
        });
        let answered = |all| {
            ran.replace(all);
            fs::write(yard.path("go"), "").unwrap();
        };
        run(vec![awaited, background], &cancel, answered, |one| {
            rest.borrow_mut().push(one);
        });
    });
    assert_eq!(ran.borrow()[0].outcome, Outcome::Cancelled);
    assert_eq!(rest.borrow()[0].outcome, Outcome::Exited(0));
    assert_eq!(text(&rest.borrow()[0].stdout), "done\n");
}
