//! The seed's own tests of the switch, and what it leaves open.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use super::*;

const SESSION: &str = "77850d98-4378-4282-9d8f-d2b7113deb20";
const OTHER: &str = "11111111-2222-4333-8444-555555555555";

struct Home {
    folder: tempfile::TempDir,
    place: Place,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path().join("becket"));
        Self { folder, place }
    }

    fn cwd(&self) -> &Path {
        self.folder.path()
    }

    fn disable(&self, hook: &str) -> SwitchOutcome {
        disable(&self.place, SESSION, hook, self.cwd()).unwrap()
    }

    fn enable(&self, hook: &str) -> SwitchOutcome {
        enable(&self.place, SESSION, hook, self.cwd()).unwrap()
    }

    fn disabled(&self, session: &str) -> Vec<String> {
        let read = Switches::read(&self.place, session);
        assert_eq!(read.trouble, None);
        read.switches.disabled().to_vec()
    }

    fn file(&self) -> PathBuf {
        path(&self.place, SESSION).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.place.sessions()).unwrap();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        let mut names: Vec<String> = names.map(|entry| name(entry.unwrap())).collect();
        names.sort();
        names
    }
}

const WAIT: Duration = Duration::from_secs(10);

#[test]
fn hooks_of_one_session_are_switched_apart_and_nothing_is_written_twice() {
    let home = Home::new();
    assert!(!home.enable("hook1").changed);
    assert!(!home.file().exists());
    assert!(home.disable("hook1").changed && home.disable("hook2").changed);
    assert!(home.enable("hook1").changed);
    assert_eq!(home.disabled(SESSION), ["hook2"]);
    assert!(home.disabled(OTHER).is_empty());
    let before = fs::read(home.file()).unwrap();
    assert!(!home.enable("hook1").changed && !home.disable("hook2").changed);
    assert_eq!(fs::read(home.file()).unwrap(), before);
}

#[test]
fn the_file_has_the_four_fields_in_their_order_and_only_the_owner_reads_it() {
    let home = Home::new();
    let link = home.cwd().join("link");
    fs::create_dir(home.cwd().join("real")).unwrap();
    std::os::unix::fs::symlink("real", &link).unwrap();
    disable(&home.place, SESSION, "typecheck-changed", &link).unwrap();
    disable(&home.place, SESSION, "lint-changed", &link).unwrap();

    let text = fs::read_to_string(home.file()).unwrap();
    let real = home.cwd().canonicalize().unwrap().join("real");
    let json = home.json();
    let at = json["timestamp"].as_str().unwrap();
    assert!(at.parse::<Timestamp>().is_ok() && at.len() == "2025-01-01T12:00:00Z".len());
    let shown = text
        .replace(real.to_str().unwrap(), "/home/user/project")
        .replace(at, "2025-01-01T12:00:00Z");
    insta::assert_snapshot!(shown, @r#"
    {
      "transcriptId": "77850d98-4378-4282-9d8f-d2b7113deb20",
      "disabledHooks": ["typecheck-changed", "lint-changed"],
      "timestamp": "2025-01-01T12:00:00Z",
      "workingDirectory": "/home/user/project"
    }
    "#);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.file()), 0o600);
    assert_eq!(mode(&home.place.sessions()), 0o700);
}

#[test]
fn what_a_person_wrote_is_kept() {
    let home = Home::new();
    home.disable("hook1");
    fs::write(
        home.file(),
        r#"{"why": ["a", {"b": 1}], "disabledHooks": ["mine"], "about": "prototype"}"#,
    )
    .unwrap();
    home.disable("hook2");
    let json = home.json();
    assert_eq!(json["disabledHooks"], serde_json::json!(["mine", "hook2"]));
    assert_eq!(json["why"], serde_json::json!(["a", {"b": 1}]));
    assert_eq!(json["about"], "prototype");
    assert_eq!(json["transcriptId"], SESSION);
    fs::write(home.file(), "{}").unwrap();
    assert!(home.disabled(SESSION).is_empty());
}

#[test]
fn a_damaged_file_counts_as_empty_and_is_set_aside_at_the_next_write() {
    let damaged: [&[u8]; 5] = [
        b"{\"disabledHooks\": [\"a\"",
        b"[]",
        b"{\"disabledHooks\": \"a\"}",
        b"{\"disabledHooks\": [7]}",
        &[b' '; (1 << 20) + 1],
    ];
    for bytes in damaged {
        let home = Home::new();
        home.disable("a");
        fs::write(home.file(), bytes).unwrap();
        let read = Switches::read(&home.place, SESSION);
        assert!(read.switches.disabled().is_empty() && read.trouble.is_some());

        let switched = home.disable("b");
        assert!(switched.changed);
        assert_eq!(fs::read(switched.set_aside.unwrap()).unwrap(), bytes);
        assert_eq!(home.disabled(SESSION), ["b"]);
        assert_eq!(home.disable("c").set_aside, None);
    }
}

#[test]
fn an_id_that_is_no_uuid_is_no_path() {
    let home = Home::new();
    for session in [
        "",
        "s1",
        "../../etc/passwd",
        "77850d98-4378-4282-9d8f-d2b7113deb2/",
    ] {
        let error = disable(&home.place, session, "a", home.cwd()).unwrap_err();
        assert!(matches!(error, SwitchError::NoSwitches(_)), "{error}");
        assert_eq!(
            Switches::read(&home.place, session),
            SwitchesRead::default()
        );
        assert_eq!(path(&home.place, session), None);
    }
    assert!(!home.place.sessions().exists());
    let upper = SESSION.to_uppercase();
    disable(&home.place, &upper, "a", home.cwd()).unwrap();
    assert_eq!(home.disabled(SESSION), ["a"]);
    assert_eq!(home.json()["transcriptId"], SESSION);
}

#[test]
fn a_session_inherits_once() {
    let home = Home::new();
    assert!(!copy(&home.place, SESSION, OTHER, WAIT).unwrap());
    assert!(
        !home.place.sessions().exists(),
        "nothing to copy costs nothing"
    );
    home.disable("a");
    let mut json = home.json();
    json["about"] = "prototype".into();
    fs::write(home.file(), json.to_string()).unwrap();

    assert!(copy(&home.place, SESSION, OTHER, WAIT).unwrap());
    let copied = fs::read(path(&home.place, OTHER).unwrap()).unwrap();
    let copied: Value = serde_json::from_slice(&copied).unwrap();
    assert_eq!(copied["transcriptId"], OTHER);
    assert_eq!(copied["about"], "prototype");
    assert_eq!(copied["workingDirectory"], json["workingDirectory"]);

    home.disable("b");
    assert!(!copy(&home.place, SESSION, OTHER, WAIT).unwrap());
    assert_eq!(home.disabled(OTHER), ["a"], "what it has is its own");
    assert!(!copy(&home.place, SESSION, SESSION, WAIT).unwrap());
    assert!(!copy(&home.place, "s1", OTHER, WAIT).unwrap());
}

#[test]
fn threads_that_switch_at_once_lose_nothing() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let home = &home;
            scope.spawn(move || home.disable(&format!("hook{number}")));
        }
    });
    assert_eq!(home.disabled(SESSION).len(), 16);
    assert_eq!(home.names(), [".lock", &format!("{SESSION}.json")]);
}

#[test]
fn config_goes_before_trust_before_session_before_subagent() {
    let off = Switches::new(vec!["house-style".to_owned()]);
    let on = Switches::default();
    let mut hook = Hook::of_test("house-style", "true");
    hook.skip_agents = vec!["Explore".to_owned()];
    assert_eq!(state(&hook, &on, None), HookState::Enabled);
    assert_eq!(state(&hook, &on, Some("Plan")), HookState::Enabled);
    assert_eq!(
        state(&hook, &on, Some("Explore")),
        HookState::SkippedForAgent
    );
    assert_eq!(
        state(&hook, &off, Some("Explore")),
        HookState::DisabledForSession
    );
    hook.managed = true;
    assert_eq!(state(&hook, &off, None), HookState::Enabled);
    hook.managed = false;
    hook.untrusted = true;
    assert_eq!(state(&hook, &off, Some("Explore")), HookState::NotTrusted);
    hook.off = Some(hook.declared.clone());
    let state = state(&hook, &off, Some("Explore"));
    assert_eq!(
        state.to_string(),
        "off in config, /home/user/.becket/config.toml:3"
    );
}
