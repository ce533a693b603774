//! Switches: typed by the user, as command files without hooks, and as a plugin, alone and beside `becket
//! init`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use becket_tests::claude::{Claude, Home, SettingsScope};
use becket_tests::model::{bash, say, write};
use becket_tests::skip::Unavailable;
use becket_tests::story::{
    Becket, Event, Events, Given, Person, Recorder, Registration, Story, story,
};
use becket_tests::wait::{self, PATIENCE};
use becket_tests::world::World;
use serde_json::json;

const DISABLED: &str = "🔒 Disabled typecheck-changed for this session";
const ENABLED: &str = "✅ Re-enabled typecheck-changed for this session";

/// The built-in, with a checker that only creates a file.
const TYPECHECK: &str = r#"
[hooks.typecheck-changed]
command = "echo checked >> checked"
"#;

fn given(given: Given, becket: impl Registration + 'static) -> Given {
    given
        .registered(becket)
        .registered(Recorder::witness())
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file("tsconfig.json", "{}\n")
        .file("package.json", "{}\n")
        .rule(
            becket_tests::model::Rule::on("write it")
                .turns([write("it.ts", "export const it = 1;\n"), say("written")]),
        )
}

fn checks(story: &Story) -> usize {
    let marks = fs::read_to_string(story.home.project().join("checked"));
    marks.unwrap_or_default().lines().count()
}

/// Asks the model to write a file, and waits until it did.
#[track_caller]
fn write_file(story: &Story, person: &Person<'_>) {
    // Not every version overwrites a file that this session has not read.
    let _ = fs::remove_file(story.home.project().join("it.ts"));
    let stops = || story.events().of("Stop").len();
    let before = stops();
    person.submits("write it");
    let stopped = wait::until(PATIENCE, || (stops() > before).then_some(()));
    assert!(
        stopped.is_some(),
        "the turn never ended:\n{}",
        person.screen().0
    );
    person.ready();
}

/// Types a slash command, and reads its line. No model is asked.
#[track_caller]
fn run_slash_command(story: &Story, person: &Person<'_>, command: &str, line: &str) {
    let before = story.model.requests().len();
    person.type_text(command);
    person.wait_text(command);
    person.press("Enter");
    person.wait_text(line);
    person.ready();
    assert_eq!(
        story.model.requests().len(),
        before,
        "a request for {command}"
    );
    let sessions = story.sessions();
    let all_rest = sessions.iter().all(|session| session.status() == "idle");
    assert!(all_rest, "work after {command}: {sessions:?}");
}

/// Switches a hook off in one session, on in another, checks it after `/clear`, and switches it on again.
fn switch_off_and_on(story: &Story, args: &[&str], hook: &str) -> Result<(), Unavailable> {
    let args = [&["--permission-mode", "acceptEdits"], args].concat();
    let person = story.person_with(&args)?;
    write_file(story, &person);
    assert_eq!(checks(story), 1, "on at first");

    run_slash_command(
        story,
        &person,
        &format!("{hook}disable typecheck"),
        DISABLED,
    );
    write_file(story, &person);
    assert_eq!(checks(story), 1, "off");

    let other = story.person_with(&args)?;
    write_file(story, &other);
    assert_eq!(checks(story), 2, "on in another session");
    other.leaves();

    person.submits("/clear");
    person.ready();
    write_file(story, &person);
    assert_eq!(checks(story), 2, "off after /clear");

    run_slash_command(story, &person, &format!("{hook}enable typecheck"), ENABLED);
    write_file(story, &person);
    assert_eq!(checks(story), 3, "on again");
    person.leaves();
    Ok(())
}

#[test]
fn a_hook_is_off_in_this_session_alone_and_stays_so_after_clear() {
    story(|story| {
        let story = given(story, Becket::default().config(TYPECHECK))
            .needs(&["CLAUDE_PID"])
            .begin()?;
        switch_off_and_on(&story, &[], "/hook:")
    });
}

/// Also for versions that do not report which session continues another.
#[test]
fn the_user_switches_a_hook_off_and_on() {
    story(|story| {
        let story = given(story, Becket::default().config(TYPECHECK)).begin()?;
        let person = story.person_with(&["--permission-mode", "acceptEdits"])?;
        run_slash_command(&story, &person, "/hook:disable typecheck", DISABLED);
        write_file(&story, &person);
        assert_eq!(checks(&story), 0, "off");
        run_slash_command(&story, &person, "/hook:enable typecheck", ENABLED);
        write_file(&story, &person);
        assert_eq!(checks(&story), 1, "on again");
        person.leaves();
        Ok(())
    });
}

#[test]
fn the_user_switches_a_hook_off_and_on_with_the_plugin_alone() {
    story(|story| {
        let story = given(story, Plugin::default())
            .since(SINCE.0, SINCE.1)
            .begin()?;
        let becket = story.becket();
        fs::create_dir_all(&becket.becket_home).expect("a home");
        fs::write(becket.path("config.toml"), TYPECHECK).expect("a config");
        let mut trust = becket.becket(["trust", "--yes"]);
        let trusted = trust.current_dir(story.home.project()).output();
        assert!(trusted.expect("becket").status.success());
        let folder = plugin();
        let folder = folder.to_str().expect("a path");
        switch_off_and_on(&story, &["--plugin-dir", folder], "/becket:hook:")
    });
}

#[test]
fn a_fork_begins_with_a_copy_and_a_resumed_session_keeps_its_own() {
    story(|story| {
        let story = given(story, Becket::default().config(TYPECHECK))
            .on("first thing", [say("one")])
            .since("2.1.260", "a fork that is told of")
            .begin()?;
        let first = story.print("first thing").run().succeeded().session();
        let print = |prompt: &str| story.print(prompt).mode("acceptEdits").resume(&first);
        print("/hook:disable typecheck").run();
        assert!(
            !story
                .model
                .turns()
                .iter()
                .any(|turn| turn.contains("/hook:disable"))
        );

        let resumed = print("write it").run().succeeded().session();
        assert_eq!(resumed, first);
        assert_eq!(checks(&story), 0, "off in the session that is resumed");
        let forked = print("write it").fork().run().succeeded().session();
        assert_ne!(forked, first);
        assert_eq!(checks(&story), 0, "off in the fork");
        story
            .print("write it")
            .mode("acceptEdits")
            .run()
            .succeeded();
        assert_eq!(checks(&story), 1, "on in a new one");
        Ok(())
    });
}

const MINE_DISABLED: &str = "🔒 Disabled typecheck-mine for this session";
const MINE_ENABLED: &str = "✅ Re-enabled typecheck-mine for this session";

/// The first version with command files that have arguments in a language of their own, and plugins with
/// hooks in exec form.
pub(super) const SINCE: (&str, &str) = ("2.1.260", "slash commands as becket writes them");

/// Adds a hook on every Write and Bash that writes a line for each run. Another hook beside it makes its
/// name necessary.
fn hook_that_counts(world: &World) {
    let runs = world.root().join("runs");
    let config = format!(
        "[hooks.lint-mine]\non = \"PreCompact\"\nrun = \"true\"\n\
        [hooks.typecheck-mine]\ndescription = \"Counts\"\non = \"PostToolUse\"\ntools = \"Write|Bash\"\nrun = \"cat > /dev/null; echo ran >> {}\"\n",
        runs.display()
    );
    fs::create_dir_all(&world.becket_home).expect("a home");
    fs::write(world.path("config.toml"), config).expect("a config");
}

fn runs(world: &World) -> usize {
    let text = fs::read_to_string(world.root().join("runs")).unwrap_or_default();
    text.lines().count()
}

fn off_in(world: &World, session: &str) -> bool {
    let file = world.path("sessions").join(format!("{session}.json"));
    fs::read_to_string(file).is_ok_and(|text| text.contains("\"typecheck-mine\""))
}

pub(super) fn plugin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugin")
}

/// A registration of the command files of `becket up` alone.
#[derive(Debug, Default)]
struct CommandsAlone(Becket);

impl Registration for CommandsAlone {
    fn name(&self) -> &'static str {
        "commands"
    }

    fn register(&mut self, claude: &Claude, home: &mut Home) -> Result<(), Unavailable> {
        self.0.register(claude, home)?;
        home.set_settings(SettingsScope::User, &json!({}));
        Ok(())
    }

    fn events(&self, home: &Home) -> Events {
        self.0.events(home)
    }

    fn world(&self) -> Option<&World> {
        self.0.world()
    }
}

/// A registration of the plugin alone, for programs started with `--plugin-dir`.
#[derive(Debug, Default)]
pub(super) struct Plugin {
    pub(super) world: World,
}

impl Registration for Plugin {
    fn name(&self) -> &'static str {
        "plugin"
    }

    fn register(&mut self, _: &Claude, home: &mut Home) -> Result<(), Unavailable> {
        let programs = self.world.programs.display();
        home.set_env("PATH", format!("{programs}:/usr/local/bin:/usr/bin:/bin"));
        home.set_env("BECKET_HOME", self.world.becket_home.to_string_lossy());
        Ok(())
    }

    fn events(&self, _: &Home) -> Events {
        let log = self.world.run(&["events", "--raw", "--duplicates"]);
        let lines = log.lines().filter(|line| !line.is_empty());
        Events(lines.map(|raw| Event::new(raw.to_owned())).collect())
    }

    fn world(&self) -> Option<&World> {
        Some(&self.world)
    }
}

#[test]
fn the_command_files_work_alone() {
    story(|given| {
        let alone = CommandsAlone::default();
        hook_that_counts(&alone.0.world);
        let story = given
            .since(SINCE.0, SINCE.1)
            .registered(alone)
            .on(MINE_DISABLED, [say("so it is")])
            .on(MINE_ENABLED, [say("so it is")])
            .on("typecheck-mine       - Counts", [say("so it is")])
            .begin()?;
        let print = |prompt: &str| story.print(prompt).mode("default");
        let session = print("/hook:disable typecheck").run();
        assert_eq!(session.succeeded().text(), "so it is");
        let session = session.session();
        assert!(off_in(story.becket(), &session));
        for prompt in ["/hook:status", "/hook:enable typecheck"] {
            let told = print(prompt).resume(&session).run();
            assert_eq!(told.succeeded().text(), "so it is", "{prompt}");
        }
        assert!(!off_in(story.becket(), &session));
        Ok(())
    });
}

/// Typed text that would run commands if it reached a shell.
const HOSTILE: [&str; 9] = [
    "x\"; touch p; \"",
    "$(touch p)",
    "`touch p`",
    "!`touch p`",
    "x` !`touch p`",
    "'; touch p; '",
    "x && touch p #",
    "x\n```\n\n```!\ntouch p\n```",
    "x\nEND_OF_ARGUMENTS\ntouch p\n",
];

#[test]
fn text_after_a_slash_command_is_never_executed() {
    story(|given| {
        let story = given
            .since(SINCE.0, SINCE.1)
            .registered(CommandsAlone::default())
            .begin()?;
        for mode in ["default", "bypassPermissions"] {
            for argument in HOSTILE {
                let prompt = format!("/hook:disable {argument}");
                story.print(&prompt).mode(mode).run();
                assert!(
                    !story.home.project().join("p").exists(),
                    "{mode}: {argument}"
                );
            }
        }
        // This path is open: text that is not an argument does run.
        let told = story.print("/hook:disable nothing").mode("default").run();
        told.succeeded();
        let asked = |request: &becket_tests::model::Request| {
            request.contains("No hook found matching 'nothing'")
        };
        assert!(story.model.requests().iter().any(asked));
        Ok(())
    });
}

fn with_plugin(story: &Story, prompt: &str) -> becket_tests::claude::Finished {
    let print = story.print(prompt).arg("--plugin-dir").arg(plugin());
    print.mode("bypassPermissions").run()
}

#[test]
fn the_plugin_alone_delivers_events_and_switches() {
    story(|given| {
        let plugin = Plugin::default();
        hook_that_counts(&plugin.world);
        let story = given
            .since(SINCE.0, SINCE.1)
            .registered(plugin)
            .registered(Recorder::witness())
            .on("run it", [bash("echo one"), say("it ran")])
            .begin()?;
        let first = with_plugin(&story, "run it");
        let session = first.succeeded().session();
        story
            .events()
            .in_order(&["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"]);
        assert_eq!(runs(story.becket()), 1);

        let asked = story.model.turns().len();
        let print = story.print("/becket:hook:disable typecheck");
        let print = print.arg("--plugin-dir").arg(self::plugin());
        let told = print.resume(&session).run();
        assert!(told.text().contains(MINE_DISABLED), "{}", told.text());
        assert_eq!(story.model.turns().len(), asked, "no model was asked");
        assert!(off_in(story.becket(), &session));
        Ok(())
    });
}

#[test]
fn the_plugin_beside_init_duplicates_nothing() {
    story(register_beside_init);
}

/// Registers both.
fn register_beside_init(given: Given) -> Result<(), Unavailable> {
    let becket = Becket::default();
    hook_that_counts(&becket.world);
    let programs = becket.world.programs.display().to_string();
    let home = becket.world.becket_home.display().to_string();
    let story = given
        .since(SINCE.0, SINCE.1)
        .env("PATH", &format!("{programs}:/usr/local/bin:/usr/bin:/bin"))
        .env("BECKET_HOME", &home)
        .registered(becket)
        .on("run it", [bash("echo one"), say("it ran")])
        .begin()?;
    let session = with_plugin(&story, "run it").succeeded().session();
    let all = wait::until(PATIENCE, || {
        let all = story.events();
        (all.of("SessionEnd").len() == 2).then_some(all)
    });
    let all = all.expect("both registrations bring the end");
    let once = story
        .becket()
        .run(&["events", "--json", "--session", &session]);
    for event in ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"] {
        assert_eq!(all.of(event).len(), 2, "{event} comes from both");
        let named = format!("\"event\":\"{event}\"");
        assert_eq!(once.matches(&named).count(), 1, "{event} counts once");
    }
    assert_eq!(runs(story.becket()), 1, "the hook ran once");
    Ok(())
}

#[test]
fn the_plugin_passes_claude_codes_own_validation() {
    story(|given| {
        let story = given
            .since(SINCE.0, SINCE.1)
            .registered(Recorder::default())
            .begin()?;
        let (program, first) = story.claude.command().split_first().expect("a program");
        let output = Command::new(program)
            .args(first)
            .args(["plugin", "validate", "--strict"])
            .arg(plugin())
            .env_clear()
            .envs(story.home.env().iter().map(|(name, value)| (name, value)))
            .output()
            .expect("run Claude Code");
        assert!(output.status.success(), "{output:?}");
        Ok(())
    });
}
