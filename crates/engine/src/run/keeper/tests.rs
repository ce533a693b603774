//! What a keeper is told, by one that only writes it down.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use becket_wire::EventId;
use tempfile::TempDir;

use super::*;
use crate::run::{Cancel, Job, Program, run};

const WATCHDOG: Duration = Duration::from_secs(60);
/// Writes down what it hears until nobody says anything any more. Its home is the third word.
const WRITES: &str = r#"/bin/cat > "$3/now"; /bin/mv "$3/now" "$3/told""#;

/// A keeper that is a little program, in a home of its own.
fn keeper(home: &TempDir, body: &str) -> Keeper {
    let becket = home.path().join("becket");
    // Not by ourselves: whatever another thread starts meanwhile would hold it open for writing, and
    // such a file is not run.
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
    let mut sh = Command::new("/bin/sh");
    let written = sh.args(["-c", write, "sh", body]).arg(&becket).status();
    assert!(written.unwrap().success());
    Keeper::of(becket, home.path().to_path_buf())
}

fn wait_for<T>(mut probe: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + WATCHDOG;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < until, "it never came");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// What it was told until its end.
fn told(home: &Path) -> Vec<Line> {
    let text = wait_for(|| fs::read_to_string(home.join("told")).ok());
    let read = |line| serde_json::from_str(line).unwrap();
    text.lines().map(read).collect()
}

fn row() -> RunRow {
    RunRow {
        hook: "house-style".to_owned(),
        event_id: EventId::new(5, [7; 2]),
        event: "PreToolUse".to_owned(),
        session_id: Some("s".to_owned()),
        agent_id: None,
        at: 0,
        took_us: 0,
        exit: None,
        outcome: "async".to_owned(),
        decision: None,
        said: 0,
        note: None,
    }
}

fn ward(pid: i32) -> Ward {
    Ward {
        nth: u64::MAX,
        pid,
        start: 77,
        left_ms: 5000,
        run: Some(row()),
    }
}

fn job(home: &TempDir, kept: Kept, line: &str) -> Job {
    Job {
        hook: "house-style".to_owned(),
        program: Program::Shell(line.to_owned()),
        cwd: home.path().to_path_buf(),
        base: home.path().to_path_buf(),
        environment: Arc::default(),
        stdin: Arc::from(&b"{}"[..]),
        timeout: WATCHDOG,
        is_async: false,
        kept,
    }
}

#[test]
fn it_hears_of_each_program_and_of_its_end() {
    let home = tempfile::tempdir().unwrap();
    let kept = Kept {
        keeper: Arc::new(keeper(&home, WRITES)),
        run: Some(row()),
    };
    let line = r#"echo $$ > pid; echo "$BECKET_RUN" > token; echo a secret >&2; exit 3"#;
    let jobs = vec![job(&home, kept, line)];
    run(jobs, &Cancel::new(), drop, drop);
    let pid = fs::read_to_string(home.path().join("pid")).unwrap();
    let pid: i32 = pid.trim().parse().unwrap();
    let told = told(home.path());
    let [
        Line::Starting(first),
        Line::Begun(ward),
        Line::Over(over, ended),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!((ward.pid, *over), (pid, pid));
    assert_eq!(first.nth, ward.nth);
    let token = fs::read_to_string(home.path().join("token")).unwrap();
    assert_eq!(first.token, token.trim());
    assert!(first.left_ms >= ward.left_ms);
    assert!(ward.start > 0);
    let most = u64::try_from(WATCHDOG.as_millis()).unwrap();
    assert!((most / 2..=most).contains(&ward.left_ms), "{ward:?}");
    let run = ward.run.as_ref().unwrap();
    assert!(run.at > 0);
    let expected = RunRow {
        at: run.at,
        ..row()
    };
    assert_eq!(*run, expected);
    let ended = ended.as_ref().unwrap();
    assert!(ended.took_us > 0);
    let expected = RunRow {
        took_us: ended.took_us,
        exit: Some(3),
        outcome: "failed".to_owned(),
        said: 9,
        ..expected
    };
    assert_eq!(*ended, expected, "and not what it wrote");
}

#[test]
fn it_hears_that_a_program_which_went_on_has_another_time() {
    let home = tempfile::tempdir().unwrap();
    let kept = Kept {
        keeper: Arc::new(keeper(&home, WRITES)),
        run: None,
    };
    let line = r#"echo '{"async": true, "asyncTimeout": 7000}'"#;
    run(vec![job(&home, kept, line)], &Cancel::new(), drop, drop);
    let told = told(home.path());
    let [
        _,
        Line::Begun(first),
        Line::Begun(second),
        Line::Over(_, None),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!((first.pid, first.start), (second.pid, second.start));
    assert!(first.left_ms > 7000 && second.left_ms <= 7000, "{told:?}");
}

#[test]
fn it_hears_of_a_start_before_and_that_there_was_none() {
    let home = tempfile::tempdir().unwrap();
    let kept = Kept {
        keeper: Arc::new(keeper(&home, WRITES)),
        run: Some(row()),
    };
    let job = Job {
        program: Program::List(vec!["/nowhere/hook".to_owned()]),
        ..job(&home, kept, "")
    };
    run(vec![job], &Cancel::new(), drop, drop);
    let told = told(home.path());
    let [Line::Starting(start), Line::NotStarted(nth)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(start.nth, *nth);
    assert!(start.run.as_ref().unwrap().at > 0);
}

#[test]
fn it_hears_of_each_program_before_the_next_is_started() {
    let home = tempfile::tempdir().unwrap();
    let kept = Kept {
        keeper: Arc::new(keeper(&home, WRITES)),
        run: None,
    };
    let jobs = vec![job(&home, kept.clone(), "true"), job(&home, kept, "true")];
    run(jobs, &Cancel::new(), drop, drop);
    let told = told(home.path());
    let [
        Line::Starting(first),
        Line::Begun(runs),
        Line::Starting(second),
        Line::Begun(runs_too),
        ..,
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!((first.nth, second.nth), (runs.nth, runs_too.nth));
    assert_ne!(first.token, second.token);
}

#[test]
fn one_that_is_gone_has_a_successor_who_hears_the_same() {
    let home = tempfile::tempdir().unwrap();
    let body = format!(r#"[ -e "$3/second" ] || exit 0; {WRITES}"#);
    let keeper = keeper(&home, &body);
    keeper.lock().start(keeper.how.as_ref().unwrap());
    wait_for(|| {
        let mut told = keeper.lock();
        told.started.as_mut().unwrap().child.try_wait().unwrap()
    });
    fs::write(home.path().join("second"), "").unwrap();
    keeper.begun(ward(8));
    keeper.leave();
    drop(keeper);
    assert_eq!(told(home.path()), [Line::Begun(ward(8)), Line::Leaving]);
}

fn end(keeper: &Keeper) {
    let mut told = keeper.lock();
    let started = told.started.as_mut().unwrap();
    started.child.kill().unwrap();
    started.child.wait().unwrap();
}

#[test]
fn a_successor_hears_first_of_all_that_is_open() {
    let home = tempfile::tempdir().unwrap();
    let body = format!(r#"[ -e "$3/second" ] || exec /bin/sleep 1000; {WRITES}"#);
    let keeper = keeper(&home, &body);
    let about_to = keeper.starting(false, WATCHDOG, None);
    for pid in [8, 9, 10] {
        keeper.begun(ward(pid));
    }
    let recorded = RunRow {
        event_id: EventId::new(6, [7; 2]),
        ..row()
    };
    keeper.over(9, Some(row()));
    keeper.over(10, Some(recorded.clone()));
    keeper.recorded(recorded.event_id);
    end(&keeper);
    fs::write(home.path().join("second"), "").unwrap();
    let since = Instant::now();
    wait_for(|| (since.elapsed() > Duration::from_millis(1)).then_some(()));
    keeper.begun(ward(11));
    drop(keeper);
    let told = told(home.path());
    let [
        Line::Starting(start),
        Line::Begun(older),
        Line::Over(_, Some(ended)),
        Line::Begun(newer),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert_eq!(start.nth, about_to);
    assert_eq!((older.pid, newer.pid, ended), (8, 11, &row()));
    assert!(older.left_ms < 5000, "its time went on");
    assert_eq!(newer.left_ms, 5000);
}

#[test]
fn one_that_does_not_listen_holds_nobody_up() {
    let home = tempfile::tempdir().unwrap();
    let keeper = keeper(&home, "exec /bin/sleep 1000");
    for pid in 2..2000 {
        keeper.begun(ward(pid));
        keeper.over(pid, Some(row()));
    }
    let mut told = keeper.lock();
    let started = told.started.as_mut().expect("it is still the same");
    started.child.kill().unwrap();
    started.child.wait().unwrap();
}

#[test]
fn where_there_is_none_nothing_is_missed() {
    let nobody = Keeper::default();
    let missing = Keeper::of("/nowhere/becket".into(), "/nowhere".into());
    for keeper in [nobody, missing] {
        keeper.starting(false, WATCHDOG, None);
        keeper.not_started(0);
        keeper.begun(ward(8));
        keeper.over(8, None);
        keeper.recorded(row().event_id);
        keeper.leave();
        assert!(keeper.lock().started.is_none());
    }
}

#[test]
fn what_is_too_long_for_one_write_is_kept_without_a_row() {
    let home = tempfile::tempdir().unwrap();
    let keeper = keeper(&home, WRITES);
    let mut long = ward(8);
    long.run.as_mut().unwrap().session_id = Some("s".repeat(PIPE_BUF));
    keeper.begun(long.clone());
    keeper.over(8, long.run);
    drop(keeper);
    let ward = Ward {
        run: None,
        ..ward(8)
    };
    assert_eq!(told(home.path()), [Line::Begun(ward), Line::Over(8, None)]);
}

#[test]
fn what_is_not_recorded_can_be_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let keeper = keeper(&home, WRITES);
    let began = milliseconds() - 3000;
    let of = |hook: &str| RunRow {
        hook: hook.to_owned(),
        at: began,
        ..row()
    };
    let nth = keeper.starting(true, WATCHDOG * 2, Some(of("starting")));
    keeper.begun(Ward {
        left_ms: whole_ms(WATCHDOG * 4),
        run: Some(of("runs")),
        ..ward(41)
    });
    keeper.begun(ward(42));
    let ended = RunRow {
        outcome: "ok".to_owned(),
        ..of("ended")
    };
    keeper.over(42, Some(ended.clone()));
    // Of what nothing is recorded, nothing is told.
    keeper.begun(Ward {
        run: None,
        ..ward(43)
    });
    let mut current = keeper.current();
    current.sort_by(|one, other| one.run.hook.cmp(&other.run.hook));
    let hooks: Vec<_> = (current.iter())
        .map(|one| (&*one.run.hook, &*one.run.outcome))
        .collect();
    let expected = [
        ("ended", "ok"),
        ("runs", "running"),
        ("starting", "running"),
    ];
    assert_eq!(hooks, expected);
    assert_eq!(current[0].run, ended);
    assert_eq!(current[0].until, None);
    for (one, span) in [(&current[1], WATCHDOG * 4), (&current[2], WATCHDOG * 2)] {
        assert!(one.run.took_us >= 3_000_000, "{one:?}");
        let left = u64::try_from(one.until.unwrap() - milliseconds()).unwrap();
        let (least, most) = (whole_ms(span - WATCHDOG), whole_ms(span));
        assert!((least..=most).contains(&left), "{left}: {one:?}");
    }
    keeper.not_started(nth);
    keeper.over(41, None);
    keeper.recorded(row().event_id);
    assert_eq!(keeper.current(), []);
}
