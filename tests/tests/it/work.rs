//! `becket effort task`, `effort` and `log` as a person and a script call them: what they print, and what bad
//! input leads to.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use becket_tests::world::World;
use serde_json::{Value, json};

const SESSION: &str = "0190c2f0-0000-7000-8000-00000000000a";

struct Scene {
    world: World,
    project: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let world = World::new();
        let project = world.root().join("project");
        fs::create_dir_all(project.join(".git")).expect("a project");
        fs::create_dir_all(project.join("src")).expect("a folder");
        Self { world, project }
    }

    /// becket in a subfolder of the project.
    fn output(&self, args: &[&str]) -> Output {
        let mut becket = self.world.becket(args);
        becket.current_dir(self.project.join("src"));
        becket.output().expect("becket runs")
    }

    #[track_caller]
    fn runs(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "becket {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.runs(args)).expect("JSON")
    }

    /// It fails with this exit code, and says these words: what, and a hint.
    #[track_caller]
    fn fails(&self, args: &[&str], code: i32, words: &[&str]) {
        let output = self.output(args);
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(output.status.code(), Some(code), "becket {args:?}: {said}");
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
    }

    fn write(&self, name: &str, text: &str) -> String {
        let file = self.project.join(name);
        fs::write(&file, text).expect("a file");
        file.display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.project.join(name)).expect("an artifact")
    }
}

#[test]
fn a_person_goes_through_an_effort() {
    let scene = Scene::new();
    let task = scene.json(&[
        "effort",
        "task",
        "new",
        "../shop",
        "--title",
        "Shop",
        "--keywords",
        "pay, cart",
        "--json",
    ]);
    assert_eq!(task["keywords"], json!(["pay", "cart"]));
    assert_eq!(task["active"], false);
    let id = task["id"].to_string();
    let started = scene.json(&[
        "effort",
        "start",
        "implement",
        "--task",
        &id,
        "--mode",
        "quick",
        "--json",
    ]);
    assert_eq!(
        (&started["ordinal"], &started["mode"]),
        (&json!(1), &json!("quick"))
    );
    scene.runs(&["effort", "log", "read", "the", "code"]);
    scene.runs(&["effort", "log", "--", "- planned"]);
    let plan = scene.write("plan.md", "1. build\n");
    scene.runs(&["effort", "plan", &plan]);
    scene.runs(&["effort", "phase", "build"]);
    assert_eq!(scene.read("shop/1_IMPLEMENT_PLAN.md"), "1. build\n");
    let log = scene.read("shop/1_IMPLEMENT_LOG.md");
    assert!(
        log.contains("Z read the code\n") && log.ends_with("Z - planned\n"),
        "{log}"
    );
    let shown = scene.json(&["effort", "show", "--dialogue", "--json"]);
    let kinds: Vec<&Value> = shown["dialogue"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|it| &it["kind"])
        .collect();
    assert_eq!(kinds, ["log", "log", "phase"]);
    assert!(
        scene
            .runs(&["effort", "show", "--dialogue"])
            .contains("plan → build")
    );
    scene.runs(&["effort", "finish"]);
    let listed = scene.json(&["effort", "list", "--json"]);
    assert_eq!(listed[0]["active"], false);
    assert!(listed[0]["finished_at"].is_string());
    assert!(scene.runs(&["effort", "task", "list"]).contains("dormant"));
}

/// A session of Claude Code that calls becket is bound to what it starts, and told what a window begins with.
#[test]
fn claude_starts_hands_over_and_resumes() {
    let scene = Scene::new();
    let tell = |event: &str, fields: Value| {
        let mut payload = json!({"cwd": scene.project, "source": "startup"});
        payload
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        scene.world.tell(SESSION, event, &payload)
    };
    tell("SessionStart", json!({}));
    let claude = |args: &[&str]| {
        let mut becket = scene.world.becket(args);
        becket
            .current_dir(&scene.project)
            .env("CLAUDE_CODE_SESSION_ID", SESSION);
        let output = becket.output().expect("becket runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = claude(&["effort", "start", "fix", "--title", "A leak"]);
    assert!(
        said.contains("This session works on effort 1 fix, phase reproduce"),
        "{said}"
    );
    let context = scene.write(
        "context.md",
        "## Summary\nFound it.\n## Next steps\nMend it.\n",
    );
    claude(&["effort", "dehydrate", &context]);
    let sessions = scene.world.sessions();
    assert_eq!(sessions[0]["effort"]["skill"], "fix");
    let again = tell("SessionStart", json!({"source": "compact"}));
    assert!(again.stdout.contains("Found it."), "{again:?}");
    let said = claude(&["effort", "resume", "1"]);
    assert!(
        said.contains("effort 1 (1 fix, phase reproduce): A leak"),
        "{said}"
    );
}

#[test]
fn bad_input_gets_a_clear_error_and_loses_nothing() {
    let scene = Scene::new();
    scene.fails(
        &["effort", "log", "x"],
        3,
        &["no effort is active here", "hint: becket effort start"],
    );
    scene.fails(&["effort", "show"], 3, &["no effort is active here"]);
    scene.fails(
        &["effort", "start", "dance"],
        3,
        &["there is no skill dance", "implement"],
    );
    scene.fails(
        &["effort", "start", "fix", "--task", "9"],
        3,
        &["there is no task 9"],
    );
    scene.fails(&["effort", "show", "9"], 3, &["there is no effort 9"]);

    // A skill that does not parse is left out, with its line; the others stay.
    fs::write(
        scene.world.path("config.toml"),
        "[skills.dance]\nphases = 7\n[skills.sing]\nphases = [\"tune\"]\n",
    )
    .expect("a config");
    scene.fails(
        &["effort", "start", "dance"],
        3,
        &["there is no skill dance", "sing", "becket config check"],
    );
    scene.fails(
        &["config", "check"],
        1,
        &["config.toml:2:10: skills.dance.phases"],
    );

    scene.runs(&["effort", "start", "sing"]);
    scene.fails(
        &["effort", "phase", "roar"],
        3,
        &["sing has no phase roar; it has tune"],
    );
    fs::write(scene.world.root().join("outside.md"), "x").expect("a file");
    let large = "x".repeat(7_000);
    let huge = "x".repeat((1 << 20) + 1);
    let of = |files: &str| {
        format!("{{\"summary\": \"s\", \"nextSteps\": \"n\", \"requiredFiles\": [{files}]}}")
    };
    for (text, words) in [
        ("{\"summary\":", "is not JSON"),
        ("neither of both", "neither JSON nor Markdown"),
        (&large, "at most 6000"),
        (&huge, "longer than 1 MiB"),
        (&of("\"gone.md\""), "there is no file gone.md"),
        (&of("\"../outside.md\""), "outside the project"),
    ] {
        let file = scene.write("bad", text);
        scene.fails(
            &["effort", "dehydrate", &file],
            1,
            &[words, "hint: nothing was"],
        );
    }
    scene.fails(
        &["effort", "plan", "gone.md"],
        3,
        &["there is no file gone.md"],
    );
    let empty = scene.write("empty", " \n");
    scene.fails(&["effort", "debrief", &empty], 1, &["has no text"]);

    // A task folder that was deleted.
    scene.runs(&["effort", "task", "new", "../gone"]);
    let second = scene.json(&["effort", "start", "fix", "--task", "2", "--json"]);
    fs::remove_dir_all(scene.project.join("gone")).expect("a folder removed");
    let id = second["id"].to_string();
    scene.fails(
        &["effort", "log", "--effort", &id, "x"],
        3,
        &["gone is not there"],
    );
    scene.fails(
        &["effort", "start", "fix", "--task", "2"],
        3,
        &["gone is not there"],
    );
    fs::create_dir(scene.project.join("gone")).expect("a folder");
    scene.runs(&["effort", "log", "--effort", &id, "x"]);
    assert!(scene.read("gone/1_FIX_LOG.md").ends_with(" x\n"));
    assert_eq!(
        scene
            .json(&["effort", "list", "--json"])
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn efforts_that_start_at_once_in_one_task_get_ordinals_of_their_own() {
    let scene = Scene::new();
    scene.runs(&["effort", "task", "new", ".."]);
    let start = || {
        let mut becket = scene.world.becket(["effort", "start", "fix", "--json"]);
        becket.current_dir(&scene.project);
        becket
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("becket runs")
    };
    let started: Vec<_> = (0..6).map(|_| start()).collect();
    let mut ordinals: Vec<i64> = started
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().expect("becket ends");
            let row: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            row["ordinal"].as_i64().expect("an ordinal")
        })
        .collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, [1, 2, 3, 4, 5, 6]);
}
