//! The status line through the real programs: its content, and that faults of the daemon, the JSON or the
//! user's own command never remove it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::{Called, World, call, finish, is_alive, start};
use rusqlite::{Connection, OpenFlags, Row};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The longest time of a call, on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

const SESSION: &str = "7541ef66-cab1-4f90-8d34-c3e60bef32b0";

fn payload() -> String {
    json!({
        "session_id": SESSION,
        "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
        "workspace": {"current_dir": "/w/shop/src", "project_dir": "/w/shop"},
        "cost": {"total_cost_usd": 1.5, "total_lines_added": 3, "total_lines_removed": 1},
        "context_window": {"context_window_size": 200_000, "used_percentage": 42},
    })
    .to_string()
}

/// The printed line for that payload.
const LINE: &str = "shop · Opus 5.5 · ████░░░░░░ 42% · $1.50";

/// Returns the shim as `becket up` registers it without an earlier status line.
fn shim(world: &World) -> Command {
    let mut command = world.command(world.programs.join("becket-hook"));
    command
        .args(["--statusline", "--home"])
        .arg(&world.becket_home)
        .env("COLUMNS", "120")
        .env("NO_COLOR", "1");
    command
}

fn print(world: &World, payload: impl AsRef<[u8]>) -> Called {
    call(shim(world), payload.as_ref())
}

/// Returns the output of the shim, which must have succeeded.
fn line(world: &World, payload: impl AsRef<[u8]>) -> String {
    let called = print(world, payload);
    assert_eq!(called.code, Some(0), "{called:?}");
    called.stdout
}

fn settings(world: &World) -> PathBuf {
    world.home.join(".claude/settings.json")
}

/// Creates a world with this status line from before becket.
fn world_with_line(command: &str) -> World {
    let world = World::new();
    let settings_now = json!({"statusLine": {"type": "command", "command": command}});
    fs::write(settings(&world), settings_now.to_string()).expect("settings");
    let told = world.run(&["up", "--only-register"]);
    assert!(told.contains("your own status line is kept"), "{told}");
    world.start_daemon();
    world
}

/// Runs the registered command as Claude Code does: by the shell.
fn registered(world: &World) -> Called {
    registered_with(world, &payload())
}

fn registered_with(world: &World, payload: &str) -> Called {
    let text = fs::read_to_string(settings(world)).expect("settings");
    let settings: Value = serde_json::from_str(&text).expect("JSON");
    let command = settings["statusLine"]["command"]
        .as_str()
        .expect("a command");
    let mut shell = world.command("/bin/sh");
    shell
        .args(["-c", command])
        .env("COLUMNS", "120")
        .env("NO_COLOR", "1");
    let began = Instant::now();
    let mut child = start(shell);
    let mut stdin = child.stdin.take().expect("a stdin");
    std::io::Write::write_all(&mut stdin, payload.as_bytes()).expect("write");
    drop(stdin);
    let called = finish(child, began, BOUND);
    assert_eq!(called.code, Some(0), "{called:?}");
    called
}

#[test]
fn a_status_line_is_printed_and_nothing_is_stored() {
    let world = World::new();
    world.start_daemon();
    assert_eq!(line(&world, payload()), format!("{LINE}\n"));
    let coloured = call(
        {
            let mut shim = shim(&world);
            shim.env_remove("NO_COLOR").env("COLUMNS", "25");
            shim
        },
        payload().as_bytes(),
    );
    assert_eq!(
        coloured.stdout,
        "\u{1b}[1mshop\u{1b}[0m · Opus 5.5 · \u{1b}[32m42%\u{1b}[0m\n"
    );
    assert_eq!(world.events(), Vec::<Value>::new());
    assert_eq!(world.status()["counts"]["garbage"], 0);
}

#[test]
fn the_line_reports_input_that_is_not_json() {
    let world = World::new();
    world.start_daemon();
    for (odd, told) in [
        (b"".to_vec(), "⚠ status line: nothing came\n"),
        (b"nope".to_vec(), "⚠ status line: the input is not JSON\n"),
        (
            vec![0, 0xff, 0xfe],
            "⚠ status line: the input is not JSON\n",
        ),
        (
            vec![b'['; 100_000],
            "⚠ status line: the input is not JSON\n",
        ),
        (
            vec![b' '; 3 << 20],
            "⚠ status line: 3145728 bytes came, too many\n",
        ),
    ] {
        assert_eq!(line(&world, odd), told);
    }
    assert_eq!(line(&world, payload()), format!("{LINE}\n"));
}

#[test]
fn the_line_follows_the_config() {
    let world = World::new();
    world.start_daemon();
    let config = world.path("config.toml");
    fs::write(
        &config,
        "[statusline]\ntemplate = '{bar}|{lines}'\nbar_width = 4\n",
    )
    .expect("config");
    assert_eq!(line(&world, payload()), "██░░|+3 -1\n");
    fs::write(&config, "[statusline]\ntemplate = '{contxt} {wrong}'\n").expect("config");
    let check = world.output(&["config", "check"]);
    let told = String::from_utf8_lossy(&check.stderr).into_owned()
        + &String::from_utf8_lossy(&check.stdout);
    assert!(told.contains("did you mean {context}?"), "{told}");
    // The last good copy is used; the line has no place to report it.
    assert_eq!(line(&world, payload()), "██░░|+3 -1\n");
    fs::write(
        &config,
        "[statusline]\ntemplate = '{wrong}'\n[store]\nkeep_days = 'x'\n",
    )
    .expect("config");
    assert_eq!(line(&world, payload()), "██░░|+3 -1\n");
}

#[test]
fn the_line_reports_a_wrong_config() {
    let world = World::new();
    world.start_daemon();
    fs::write(world.path("config.toml"), "[store]\nkeep_days = 'x'\n").expect("config");
    assert_eq!(
        line(&world, payload()),
        format!("{LINE} · ⚠ config: 1 error\n")
    );
}

#[test]
fn the_line_reports_a_hung_daemon_and_does_not_mark_it_slow() {
    let world = World::new();
    world.start_daemon();
    world.signal_daemon(Signal::STOP);
    let called = print(&world, payload());
    world.signal_daemon(Signal::CONT);
    let told = format!("{LINE} · ⚠ becket: the daemon does not answer\n");
    assert_eq!((called.code, called.stdout), (Some(0), told));
    assert!(
        !world.path("run/slow").exists(),
        "its patience says nothing of the daemon"
    );
    let spool = fs::read_dir(world.path("spool")).map_or(0, Iterator::count);
    assert_eq!(spool, 0, "a status line is no event");
}

#[test]
fn without_a_daemon_the_json_itself_is_shown() {
    let world = World::new();
    let mut shim = shim(&world);
    shim.env("BECKET_NO_DAEMON", "1");
    let called = call(shim, payload().as_bytes());
    assert_eq!(
        called.stdout,
        format!("{LINE} · ⚠ becket: BECKET_NO_DAEMON is set\n")
    );
    assert_eq!(called.code, Some(0));
    assert!(world.daemons().is_empty());
}

#[test]
fn a_status_line_starts_the_daemon() {
    let world = World::new();
    line(&world, payload());
    let shown = wait::until(PATIENCE, || {
        (line(&world, payload()) == format!("{LINE}\n")).then_some(())
    });
    assert!(shown.is_some());
    assert_eq!(world.daemons().len(), 1);
}

#[test]
fn a_shim_without_becket_reports_it() {
    let world = World::new();
    fs::remove_file(world.programs.join("becket")).expect("remove");
    for args in [&[][..], &["--beside"]] {
        let mut shim = shim(&world);
        shim.args(args);
        let called = call(shim, payload().as_bytes());
        assert_eq!(called.code, Some(1));
        assert!(called.stderr.contains("no becket beside"), "{called:?}");
    }
    assert!(!world.path("spool").exists());
}

#[test]
fn the_users_own_status_line_is_shown_above_beckets() {
    let world = world_with_line("printf '\\033[2Jyours %s %s' \"$COLUMNS\" \"$PWD\"; cut -c1-13");
    let shown = registered(&world);
    let above = format!("yours 120 {}{{\"context_win\n", world.home.display());
    assert_eq!(shown.stdout, format!("{above}{LINE}\n"));
    world.kill_daemon();
    world.run(&["down"]);
    assert!(
        !fs::read_to_string(settings(&world))
            .expect("settings")
            .contains("becket")
    );
}

/// Creates a world with a session, and a user's status line that counts its runs.
fn world_with_counting_line(settings_now: &Value) -> World {
    let world = World::new();
    let text = json!({"statusLine": settings_now}).to_string();
    fs::write(settings(&world), text).expect("settings");
    world.run(&["up", "--only-register"]);
    world.start_daemon();
    let called = world.tell(SESSION, "SessionStart", &json!({"source": "startup"}));
    assert_eq!(called.code, Some(0), "{called:?}");
    world
}

const COUNTS: &str = "echo x >> ran; wc -l < ran";

#[test]
fn a_refresh_prints_the_last_output_of_the_users_own_line() {
    let world = world_with_counting_line(&json!({"type": "command", "command": COUNTS}));
    let text = fs::read_to_string(settings(&world)).expect("settings");
    assert!(text.contains("\"refreshInterval\": 2"), "{text}");
    let activity = || world.sessions()[0]["last_activity"].clone();
    let before = activity();
    let shown = |payload: Value| registered_with(&world, &payload.to_string()).stdout;
    let mut now: Value = serde_json::from_str(&payload()).expect("JSON");
    assert_eq!(shown(now.clone()), format!("1\n{LINE}\n"));
    for seconds in 1..4 {
        now["cost"]["total_duration_ms"] = json!(seconds * 2_000);
        assert_eq!(shown(now.clone()), format!("1\n{LINE}\n"));
    }
    now["cost"]["total_cost_usd"] = json!(2.5);
    let costs_more = LINE.replace("$1.50", "$2.50");
    assert_eq!(shown(now.clone()), format!("2\n{costs_more}\n"));
    assert_eq!(shown(now), format!("2\n{costs_more}\n"));
    assert_eq!(activity(), before, "a refresh is no activity");
}

/// Returns the stored rows of the sessions and of their turns' figures.
fn stored(world: &World) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(world.path("becket.db"), flags).expect("a database");
    let rows = [
        "SELECT session_id, last_activity, CAST(state AS TEXT) FROM sessions ORDER BY 1",
        "SELECT session_id, began, at || ' ' || cost_usd FROM figures ORDER BY 1, 2",
    ];
    let read = |query| {
        let mut select = database.prepare(query).expect("a query");
        let row = |row: &Row<'_>| -> rusqlite::Result<String> {
            let (id, at, rest): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(format!("{id} {at} {rest}"))
        };
        let rows: Result<Vec<_>, _> = select.query_map([], row).expect("rows").collect();
        rows.expect("rows")
    };
    rows.into_iter().flat_map(read).collect()
}

#[test]
fn a_refresh_stores_nothing() {
    let world = world_with_counting_line(&json!({"type": "command", "command": COUNTS}));
    world.tell(SESSION, "UserPromptSubmit", &json!({"prompt": "go"}));
    let mut now: Value = serde_json::from_str(&payload()).expect("JSON");
    registered_with(&world, &now.to_string());
    let is_priced = || {
        let rows = stored(&world);
        let known = rows.len() == 2 && rows.iter().all(|row| row.contains("1.5"));
        known.then_some(rows)
    };
    let before = wait::until(PATIENCE, is_priced).unwrap_or_else(|| panic!("{:?}", stored(&world)));
    for seconds in 1..4 {
        now["cost"]["total_duration_ms"] = json!(seconds * 2_000);
        registered_with(&world, &now.to_string());
    }
    // The daemon writes everything before it ends.
    world.run(&["daemon", "stop"]);
    assert_eq!(stored(&world), before);
}

#[test]
fn a_refresh_runs_the_users_own_line_where_they_had_an_interval() {
    let own = json!({"type": "command", "command": COUNTS, "refreshInterval": 30});
    let world = world_with_counting_line(&own);
    for run in 1..4 {
        let shown = registered(&world).stdout;
        assert_eq!(shown, format!("{run}\n{LINE}\n"));
    }
    let text = fs::read_to_string(settings(&world)).expect("settings");
    assert!(text.contains("\"refreshInterval\": 30"), "{text}");
    // Again, with another interval in the config: the user's is kept.
    let config = "[statusline]\nrefresh = '5s'\n";
    fs::write(world.path("config.toml"), config).expect("a config");
    world.run(&["up", "--only-register"]);
    assert_eq!(
        fs::read_to_string(settings(&world)).expect("settings"),
        text
    );
}

#[test]
fn the_interval_follows_the_config_with_the_next_init() {
    let world = World::new();
    let refresh = |config: &str| {
        fs::create_dir_all(&world.becket_home).expect("a home");
        fs::write(world.path("config.toml"), config).expect("a config");
        world.run(&["up", "--only-register"]);
        let text = fs::read_to_string(settings(&world)).expect("settings");
        let settings: Value = serde_json::from_str(&text).expect("JSON");
        settings["statusLine"]["refreshInterval"].clone()
    };
    assert_eq!(refresh(""), 2);
    assert_eq!(refresh("[statusline]\nrefresh = '1m'\n"), 60);
    assert_eq!(refresh("[statusline]\nrefresh = 'never'\n"), Value::Null);
    assert_eq!(refresh(""), 2);
    // Text that the user adds stays.
    let text = fs::read_to_string(settings(&world)).expect("settings");
    let changed = text.replace("\"refreshInterval\": 2", "\"refreshInterval\": 7");
    fs::write(settings(&world), changed).expect("settings");
    assert_eq!(refresh(""), 7);
    assert_eq!(refresh("[statusline]\nrefresh = '5s'\n"), 7);
}

#[test]
fn a_refresh_starts_no_daemon_that_was_stopped() {
    let world = World::new();
    world.start_daemon();
    world.run(&["daemon", "stop"]);
    let told = format!("{LINE} · ⚠ becket: the daemon does not answer\n");
    for beside in [false, true] {
        let mut shim = shim(&world);
        shim.args(beside.then_some("--beside"));
        let called = call(shim, payload().as_bytes());
        assert_eq!((called.code, &called.stdout), (Some(0), &told));
    }
    assert!(world.daemons().is_empty());
}

#[test]
fn a_hung_status_line_of_the_user_does_not_stop_beckets() {
    let world = world_with_line("sleep 600 & echo $! > pid; echo first; wait");
    let shown = registered(&world);
    assert_eq!(
        shown.stdout,
        format!("first\n{LINE} · ⚠ status line: timed out\n")
    );
    assert!(
        shown.took >= Duration::from_millis(1400),
        "{:?}",
        shown.took
    );
    let pid = fs::read_to_string(world.home.join("pid")).expect("a pid");
    let pid: u32 = pid.trim().parse().expect("a number");
    let gone = wait::until(PATIENCE, || (!is_alive(pid)).then_some(()));
    assert!(gone.is_some(), "{pid} lives on");
}

#[test]
fn doctor_checks_the_status_line() {
    let state = |world: &World| {
        let (_, told) = world.doctor();
        let checks = told["checks"].as_array().expect("checks").clone();
        let lines = checks
            .into_iter()
            .filter(|check| check["name"] == "status line");
        let told = lines.map(|check| {
            let what = check["what"].as_str().unwrap_or_default().to_owned();
            (check["state"].as_str().unwrap_or_default().to_owned(), what)
        });
        told.collect::<Vec<_>>()
    };
    let world = World::new();
    world.run(&["up", "--only-register"]);
    let told = state(&world);
    assert!(told.len() == 1 && told[0].0 == "good", "{told:?}");

    world.run(&["up", "--only-register", "--no-statusline"]);
    assert!(
        !fs::read_to_string(settings(&world))
            .expect("settings")
            .contains("statusLine")
    );
    let told = state(&world);
    assert!(
        told[0].0 == "good" && told[0].1.contains("not registered;"),
        "{told:?}"
    );

    world.run(&["up", "--only-register", "--statusline"]);
    let text = fs::read_to_string(settings(&world)).expect("settings");
    fs::write(
        settings(&world),
        text.replace("becket-hook --statusline", "becket-hook --statusline --x"),
    )
    .expect("settings");
    let told = state(&world);
    assert!(told[0].0 == "broken", "{told:?}");
    world.run(&["up", "--only-register"]);
    assert_eq!(state(&world)[0].0, "good");

    fs::create_dir_all(world.home.join("work/.git")).expect("a project");
    fs::create_dir_all(world.home.join("work/.claude")).expect("a project");
    let theirs = r#"{"statusLine": {"type": "command", "command": "date"}}"#;
    fs::write(world.home.join("work/.claude/settings.json"), theirs).expect("settings");
    let mut doctor = world.becket(["doctor"]);
    doctor.current_dir(world.home.join("work"));
    let told = String::from_utf8(doctor.output().expect("runs").stdout).expect("UTF-8");
    assert!(told.contains("hides becket's here"), "{told}");
}
