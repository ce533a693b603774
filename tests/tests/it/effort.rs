//! Efforts end to end: events through the shim, requests over the socket.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use becket_tests::world::{Called, World, call};
use becket_wire::effort::{Artifact, Caller, EffortAsk, EffortDo, EffortRow, EffortTold};
use becket_wire::frame::Decoder;
use becket_wire::rpc::{Ask, AskReply, Request, Response};
use serde_json::{Value, json};

const SESSION: &str = "0190c2f0-0000-7000-8000-00000000000a";
const OTHER: &str = "0190c2f0-0000-7000-8000-00000000000b";

/// A project, and a Claude Code in it.
struct Scene {
    world: World,
    project: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let world = World::new();
        let project = world.root().join("project");
        fs::create_dir_all(project.join(".git")).expect("a project");
        fs::create_dir_all(project.join("src/deep")).expect("a folder");
        world.start_daemon();
        Self { world, project }
    }

    fn shim(&self, event: &str, pid: u32) -> Command {
        let mut shim = self.world.shim(event);
        shim.env("CLAUDE_PID", pid.to_string());
        shim
    }

    /// An event of a session, from a subfolder.
    fn event(&self, session: &str, event: &str, fields: &Value) -> Called {
        call(
            self.shim(event, std::process::id()),
            &self.payload(session, event, fields),
        )
    }

    fn payload(&self, session: &str, event: &str, fields: &Value) -> Vec<u8> {
        let cwd = self.project.join("src/deep");
        let mut payload = json!({"session_id": session, "hook_event_name": event, "cwd": cwd,
            "transcript_path": "/nowhere"});
        for (name, value) in fields.as_object().into_iter().flatten() {
            payload[name] = value.clone();
        }
        payload.to_string().into_bytes()
    }

    fn bash(&self, command: &str) -> Called {
        let fields =
            json!({"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": command}});
        self.event(SESSION, "PreToolUse", &fields)
    }

    fn ask(&self, session: Option<&str>, what: EffortDo) -> AskReply {
        let project = self.project.display().to_string();
        let ask = Ask::Effort(Box::new(EffortAsk {
            caller: Caller {
                session_id: session.map(str::to_owned),
                cwd: project.clone(),
                project,
                ..Caller::default()
            },
            what,
        }));
        told(&self.world, ask)
    }

    fn effort(&self, what: EffortDo) -> EffortRow {
        match self.ask(Some(SESSION), what) {
            AskReply::Effort(told) => match *told {
                EffortTold::Effort(row) | EffortTold::Written { effort: row, .. } => row,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&self, what: EffortDo) -> String {
        match self.ask(Some(SESSION), what) {
            AskReply::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    fn begin(&self) -> EffortRow {
        self.event(SESSION, "SessionStart", &json!({"source": "startup"}));
        self.effort(start("implement"))
    }
}

/// What the daemon of this world says to a request.
pub fn told(world: &World, ask: Ask) -> AskReply {
    let mut stream = UnixStream::connect(world.path("run/socket")).expect("a daemon");
    let frame = Request::Ask(ask).to_frame().expect("a frame");
    stream.write_all(&frame).expect("a request");
    let mut decoder = Decoder::new();
    let mut bytes = [0; 4096];
    loop {
        if let Some(frame) = decoder.next_frame().expect("a frame") {
            match Response::from_frame(frame).expect("a response") {
                Response::Reply(told) => return told,
                other => panic!("{other:?}"),
            }
        }
        let count = stream.read(&mut bytes).expect("an answer");
        assert!(count > 0, "the daemon hung up");
        decoder.push(&bytes[..count]);
    }
}

pub fn start(skill: &str) -> EffortDo {
    EffortDo::Start {
        skill: skill.to_owned(),
        mode: None,
        task: None,
        title: Some("build it".to_owned()),
    }
}

fn log(text: &str) -> EffortDo {
    EffortDo::Log {
        text: text.to_owned(),
    }
}

fn dehydrate(text: &str) -> EffortDo {
    EffortDo::Dehydrate {
        text: text.to_owned(),
    }
}

fn denies(called: &Called) -> bool {
    called.stdout.contains(r#""permissionDecision":"deny""#)
}

#[test]
fn the_heartbeat_reminds_denies_and_goes_on_after_a_log_entry() {
    let scene = Scene::new();
    assert!(scene.bash("make").is_silent(), "no effort, no opinion");
    let row = scene.begin();
    assert_eq!((row.ordinal, row.phase.as_deref()), (1, Some("plan")));
    let called: Vec<Called> = (1..=10).map(|_| scene.bash("make")).collect();
    assert!(
        called[2].stdout.contains("3 calls without a log entry"),
        "{:?}",
        called[2]
    );
    assert!(
        called[8].is_silent() && denies(&called[9]),
        "{:?}",
        called[9]
    );
    assert!(scene.bash("becket effort log 'half done'").is_silent());
    scene.effort(log("half done"));
    assert!(scene.bash("make").is_silent());
    let text = fs::read_to_string(scene.project.join("1_IMPLEMENT_LOG.md")).expect("a log");
    assert!(
        text.starts_with("# Log of effort 1, implement: build it") && text.contains("half done")
    );
    let line = scene.event(SESSION, "UserPromptSubmit", &json!({"prompt": "go on"}));
    assert!(
        line.stdout
            .contains("effort 1 implement, phase plan, heartbeat 1/10"),
        "{line:?}"
    );
    // The decision says by which rule, and what the effort knew.
    let denied = scene
        .world
        .events()
        .into_iter()
        .find(|it| it["decision"]["answer"] == "deny");
    let denied = denied.expect("a denial");
    assert_eq!(denied["decision"]["by"], "effort:heartbeat");
    let id = denied["id"].as_str().expect("an id");
    let why: Value = serde_json::from_str(&scene.world.run(&["why", id, "--json"])).expect("JSON");
    assert_eq!(
        (&why["effort"]["heartbeatCount"], &why["effort"]["allow"]),
        (&json!(10), &json!(false))
    );
    let shown = &scene.world.sessions()[0]["effort"];
    assert_eq!(
        (&shown["skill"], &shown["heartbeat"]),
        (&json!("implement"), &json!(1))
    );
}

#[test]
fn standalone_gives_the_same_opinion_and_a_killed_daemon_loses_nothing() {
    let scene = Scene::new();
    scene.begin();
    for _ in 0..8 {
        scene.bash("make");
    }
    scene.world.kill_daemon();
    let alone = |event: &str, fields: &Value| {
        let mut shim = scene.shim(event, std::process::id());
        shim.env("BECKET_NO_DAEMON", "1");
        call(shim, &scene.payload(SESSION, event, fields))
    };
    let make = json!({"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "make"}});
    assert!(alone("PreToolUse", &make).is_silent(), "the ninth");
    scene.world.start_daemon();
    assert!(
        denies(&scene.bash("make")),
        "the tenth, with the ninth from the spool"
    );
    scene.world.kill_daemon();
    assert!(denies(&alone("PreToolUse", &make)));
    let start = alone("SessionStart", &json!({"source": "compact"}));
    assert!(
        start
            .stdout
            .contains("This session works on effort 1 implement"),
        "{start:?}"
    );
    scene.world.start_daemon();
    assert!(scene.bash("make").is_silent(), "a new window counts from 0");
    let AskReply::Effort(told) = scene.ask(Some(SESSION), EffortDo::Show { dialogue: true }) else {
        panic!("no effort");
    };
    let EffortTold::Shown { windows, .. } = *told else {
        panic!("{told:?}");
    };
    let sources: Vec<&str> = windows.iter().map(|window| &*window.source).collect();
    assert_eq!(sources, ["start", "compact"]);
    assert_eq!(windows[1].prev, Some(windows[0].id));
}

#[test]
fn a_fresh_session_gets_the_recovery_block_and_another_is_left_alone() {
    let scene = Scene::new();
    scene.begin();
    scene.effort(log("the parser is done"));
    fs::write(scene.project.join("src/deep/x.rs"), "").expect("a file");
    let left = json!({"summary": "parser done", "nextSteps": ["write the printer"],
        "requiredFiles": ["src/deep/x.rs"]});
    for (text, why) in [
        ("{", "is not JSON"),
        (
            r#"{"summary":"s","nextSteps":"n","requiredFiles":["gone.rs"]}"#,
            "no file gone.rs",
        ),
        (
            r#"{"summary":"s","nextSteps":"n","requiredFiles":["/etc/hostname"]}"#,
            "outside",
        ),
        (&"x".repeat(10_000), "10000 bytes"),
    ] {
        let said = scene.refusal(dehydrate(text));
        assert!(said.contains(why), "{said}");
    }
    scene.effort(dehydrate(&left.to_string()));
    let mut sleeps = Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("another process");
    let plain = call(
        scene.shim("SessionStart", sleeps.id()),
        &scene.payload(OTHER, "SessionStart", &json!({"source": "startup"})),
    );
    assert!(plain.is_silent(), "{plain:?}");
    scene.event(SESSION, "SessionEnd", &json!({"reason": "other"}));
    let fresh = "0190c2f0-0000-7000-8000-00000000000c";
    let given = scene.event(fresh, "SessionStart", &json!({"source": "startup"}));
    for part in [
        "parser done",
        "write the printer",
        "src/deep/x.rs",
        "Phases: plan, build, verify",
    ] {
        assert!(given.stdout.contains(part), "{part} in {given:?}");
    }
    sleeps.kill().and_then(|()| sleeps.wait()).expect("its end");
}

#[test]
fn a_full_context_in_a_launch_leaves_only_the_way_out() {
    let scene = Scene::new();
    let launch = format!("{}:1:restart", std::os::unix::process::parent_id());
    let event = |session: &str, event: &str, fields: &Value| {
        let mut shim = scene.shim(event, std::process::id());
        shim.env("BECKET_LAUNCH", &launch);
        call(shim, &scene.payload(session, event, fields))
    };
    let line = |used: u32| {
        let mut shim = scene
            .world
            .command(scene.world.programs.join("becket-hook"));
        shim.args(["--statusline", "--home"])
            .arg(&scene.world.becket_home);
        let window = json!({"context_window_size": 200_000, "used_percentage": used});
        let payload = json!({"session_id": SESSION, "context_window": window});
        call(shim, payload.to_string().as_bytes())
    };
    event(SESSION, "SessionStart", &json!({"source": "startup"}));
    scene.effort(start("implement"));
    let read = json!({"tool_name": "Read", "tool_use_id": "t", "tool_input": {"file_path": "/x"}});
    line(85);
    let warned = event(SESSION, "PreToolUse", &read);
    assert!(
        warned.stdout.contains("85 % of the context is used"),
        "{warned:?}"
    );
    line(91);
    let denied = event(SESSION, "PreToolUse", &read);
    assert!(
        denies(&denied) && denied.stdout.contains("becket effort dehydrate"),
        "{denied:?}"
    );
    let command = "becket effort dehydrate <<'EOF'\n{}\nEOF";
    let out = json!({"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": command}});
    assert!(event(SESSION, "PreToolUse", &out).is_silent());
    assert_eq!(scene.world.sessions()[0]["effort"]["handover"], false);
    scene.effort(dehydrate(r#"{"summary": "s", "nextSteps": "go on"}"#));
    assert_eq!(scene.world.sessions()[0]["effort"]["handover"], true);
    let compaction = event(
        SESSION,
        "PreCompact",
        &json!({"trigger": "auto", "custom_instructions": null}),
    );
    assert!(
        compaction.stdout.contains(r#""decision":"block""#),
        "{compaction:?}"
    );
}

#[test]
fn directives_come_with_trust_once_for_each_agent() {
    for trusted in [false, true] {
        let scene = Scene::new();
        let put = |path: &str, text: &str| {
            let path = scene.project.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        put("src/.directives/style.md", "Write short lines.");
        put(".becket/config.toml", "");
        if trusted {
            let mut trust = scene.world.becket(["trust", "--yes"]);
            let trust = trust.current_dir(&scene.project).output();
            assert!(trust.expect("becket").status.success());
        }
        scene.begin();
        let read = |agent: Option<&str>, file: &str| {
            let mut fields = json!({"tool_name": "Read", "tool_use_id": "t", "tool_response": {},
                "tool_input": {"file_path": scene.project.join(file)}});
            if let Some(agent) = agent {
                (fields["agent_id"], fields["agent_type"]) = (json!(agent), json!("Explore"));
            }
            let called = scene.event(SESSION, "PostToolUse", &fields);
            called.stdout.contains("Write short lines.")
        };
        assert_eq!(read(None, "src/deep/a.rs"), trusted);
        assert!(!read(None, "src/b.rs"));
        assert_eq!(read(Some("sub"), "src/deep/b.rs"), trusted);
        let AskReply::Effort(told) = scene.ask(Some(SESSION), EffortDo::Show { dialogue: false })
        else {
            panic!("no effort");
        };
        let EffortTold::Shown { effort, .. } = *told else {
            panic!("{told:?}");
        };
        assert_eq!(effort.directives.len(), usize::from(trusted));
    }
}

#[test]
fn bad_requests_are_refused_in_words_and_two_starts_have_two_ordinals() {
    let scene = Scene::new();
    assert!(scene.refusal(log("x")).contains("no effort is active here"));
    assert!(
        scene
            .refusal(start("dance"))
            .contains("there is no skill dance")
    );
    let rows: Vec<EffortRow> = std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| scene.effort(start("fix"))));
        both.map(|one| one.join().expect("an effort")).into()
    });
    let mut ordinals: Vec<u32> = rows.iter().map(|row| row.ordinal).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, [1, 2]);
    scene.begin();
    let phase = |name: &str| EffortDo::Phase {
        name: name.to_owned(),
    };
    assert!(
        scene
            .refusal(phase("dance"))
            .contains("plan, build, verify")
    );
    assert_eq!(scene.effort(phase("build")).phases.len(), 2);
    let plan = EffortDo::Write {
        kind: Artifact::Plan,
        text: "1. think".to_owned(),
    };
    scene.effort(plan);
    let path = scene.project.join("3_IMPLEMENT_PLAN.md");
    assert_eq!(fs::read_to_string(path).expect("a plan"), "1. think");
    assert!(
        scene
            .refusal(dehydrate("no"))
            .contains("neither JSON nor Markdown")
    );
    fs::rename(&scene.project, scene.world.root().join("moved")).expect("a move");
    assert!(
        scene.refusal(log("x")).contains("is not there"),
        "a deleted folder is told"
    );
    assert_eq!(scene.effort(EffortDo::Finish).ordinal, 3);
    assert!(scene.refusal(log("x")).contains("no effort is active here"));
}

fn plan(text: &str) -> EffortDo {
    EffortDo::Write {
        kind: Artifact::Plan,
        text: text.to_owned(),
    }
}

impl Scene {
    /// What a window gets that goes on without a summary.
    fn compacted(&self) -> String {
        let fields = json!({"source": "compact"});
        self.event(SESSION, "SessionStart", &fields).stdout
    }
}

/// A repository brings links and pipes in the place of artifacts along.
#[test]
fn a_link_in_the_place_of_an_artifact_is_neither_read_nor_written() {
    let scene = Scene::new();
    let secret = scene.world.root().join("secret");
    fs::write(&secret, "the secret").expect("a secret");
    let put = |name: &str, to: &str| {
        std::os::unix::fs::symlink(to, scene.project.join(name)).expect("a link");
    };
    put("1_IMPLEMENT_LOG.md", "../secret");
    let pipe = scene.project.join("1_IMPLEMENT_PLAN.md");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    scene.begin();
    assert!(scene.refusal(log("x")).contains("a link stands in the way"));
    assert!(scene.refusal(plan("x")).contains("not a regular file"));
    let given = scene.compacted();
    assert!(given.contains("It left no summary"), "{given}");
    assert!(!given.contains("the secret"), "{given}");
    assert_eq!(
        fs::read_to_string(&secret).expect("the secret"),
        "the secret"
    );
    let outside = EffortDo::TaskNew {
        folder: scene.world.root().display().to_string(),
        title: None,
        keywords: Vec::new(),
    };
    assert!(scene.refusal(outside).contains("is outside of"));
}

#[test]
fn no_folder_is_made_for_a_task_outside_of_its_project() {
    let scene = Scene::new();
    let outside = scene.world.root().join("outside");
    fs::create_dir(&outside).expect("a folder");
    std::os::unix::fs::symlink("../outside", scene.project.join("notes")).expect("a link");
    for (folder, is_made) in [
        ("notes/x", false),
        ("../outside/x", false),
        ("new/../../outside/x", false),
        ("src/new/x", true),
    ] {
        let mut new = scene.world.becket(["effort", "task", "new", folder]);
        let new = new.current_dir(&scene.project).output().expect("becket");
        assert_eq!(new.status.success(), is_made, "{folder}: {new:?}");
        let told = String::from_utf8_lossy(&new.stderr);
        assert_eq!(told.contains("is outside of"), !is_made, "{told}");
    }
    assert!(scene.project.join("src/new/x").is_dir());
    assert!(!scene.project.join("new").exists());
    let left = fs::read_dir(&outside).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left outside");
}

#[test]
fn an_artifact_that_was_there_before_needs_trust() {
    for trusted in [false, true] {
        let scene = Scene::new();
        fs::create_dir_all(scene.project.join(".becket")).expect("a folder");
        fs::write(scene.project.join(".becket/config.toml"), "").expect("a config");
        if trusted {
            let mut trust = scene.world.becket(["trust", "--yes"]);
            let trust = trust.current_dir(&scene.project).output();
            assert!(trust.expect("becket").status.success());
        }
        let file = scene.project.join("1_IMPLEMENT_LOG.md");
        fs::write(&file, "- planted\n").expect("a log");
        scene.begin();
        scene.effort(log("an entry"));
        scene.effort(plan("the plan"));
        let given = scene.compacted();
        assert!(given.contains("the plan"), "{given}");
        assert_eq!(given.contains("planted"), trusted, "{given}");
    }
}
