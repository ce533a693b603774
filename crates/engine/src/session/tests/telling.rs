//! What a session tells besides its status: facts, display, inferences, the row.

use std::path::Path;

use super::*;

const HOUR: i64 = 60 * 60 * 1000;

#[test]
fn facts_come_from_the_newest_event_of_the_main_agent() {
    let mut play = Play::after(&[
        "SessionStart cwd=/a model=m1 session_title=T transcript_path=/t.jsonl permission_mode=default",
        "PostModelSwitch cwd=/a to_model=m2",
        "CwdChanged cwd=/a new_cwd=/b",
    ]);
    play.then("PreToolUse agent_id=a tool_name=Bash cwd=/worktree permission_mode=plan");
    assert!(!play.at_time("SessionStart cwd=/old model=m0 session_title=Old", 5));
    let session = &play.session;
    assert_eq!(session.model.as_deref(), Some("m2"));
    assert_eq!(session.cwd.as_deref(), Some("/b"));
    assert_eq!(session.title.as_deref(), Some("T"));
    assert_eq!(session.permission_mode.as_deref(), Some("default"));
    assert_eq!(session.transcript_path.as_deref(), Some("/t.jsonl"));
    assert_eq!((session.started_at, session.last_activity), (0, 40));
}

#[test]
fn what_is_unknown_is_taken_from_an_older_event_too() {
    let mut play = Play::after(&["InstructionsLoaded cwd=/a"]);
    play.at_time("UserPromptSubmit prompt=first", 8);
    assert!(play.at_time("SessionStart cwd=/old model=m session_title=T", 5));
    let session = &play.session;
    assert_eq!(
        (session.model.as_deref(), session.cwd.as_deref()),
        (Some("m"), Some("/a"))
    );
    assert_eq!(
        (session.title.as_deref(), session.last_prompt.as_deref()),
        (Some("T"), Some("first"))
    );
}

#[test]
fn the_persons_title_stays() {
    let mut play = Play::after(&["SessionStart session_title=Theirs"]);
    assert!(play.session.name(Some("Mine".into())));
    assert!(!play.session.name(Some("Mine".into())));
    play.then("UserPromptSubmit prompt=a session_title=Theirs2");
    assert_eq!(play.session.title.as_deref(), Some("Mine"));
    play.session.name(None);
    play.then("UserPromptSubmit prompt=b session_title=Theirs2");
    assert_eq!(play.session.title.as_deref(), Some("Theirs2"));
}

#[test]
fn a_process_has_its_pane_and_a_guessed_one_counts_for_nothing() {
    let mut play = Play::new();
    let mut line = Line::new("SessionStart", 10);
    line.set("TMUX", "/tmp/tmux-1/default,55,0");
    line.set("TMUX_PANE", "%3");
    line.set("CLAUDE_CODE_ENTRYPOINT", "cli");
    line.set("CLAUDE_CODE_SESSION_ATTENDED", "1");
    line.play(|moment| play.session.apply(moment));
    let mut guessed = Line::new("PreToolUse tool_name=Bash", 20);
    (guessed.envelope.pid, guessed.envelope.pid_is_claude) = (99, false);
    guessed.set("TMUX_PANE", "%9");
    guessed.play(|moment| play.session.apply(moment));
    let session = &play.session;
    assert_eq!((session.pid, session.pid_start), (Some(7), Some(70)));
    assert_eq!(session.pane.as_deref(), Some("%3"));
    assert_eq!(session.tmux_socket.as_deref(), Some("/tmp/tmux-1/default"));
    assert_eq!(
        (session.entrypoint.as_deref(), session.attended),
        (Some("cli"), true)
    );
    let mut elsewhere = Line::new("SessionStart source=resume unattended", 30);
    elsewhere.envelope.pid = 8;
    assert!(elsewhere.play(|moment| play.session.apply(moment)));
    let session = &play.session;
    assert_eq!(
        (session.pid, session.pane.as_deref(), session.attended),
        (Some(8), None, false)
    );
}

#[test]
fn only_a_persons_prompt_is_the_last_prompt_and_it_is_cut() {
    let mut play = Play::after(&["UserPromptSubmit prompt=first"]);
    for machine in [
        "prompt=<task-notification>x",
        "prompt=wake source=schedule_wakeup",
    ] {
        play.then(&format!("UserPromptSubmit {machine}"));
        assert_eq!(play.main(), "working");
        assert_eq!(play.session.last_prompt.as_deref(), Some("first"));
    }
    play.then(&format!("UserPromptSubmit prompt={}", "ü".repeat(700)));
    assert_eq!(play.session.last_prompt, Some("ü".repeat(500)));
}

#[test]
fn what_becket_answers_itself_names_no_session() {
    let mut play = Play::new();
    let switch = |prompt: &str| {
        let said = serde_json::json!({"hook_event_name": "UserPromptSubmit", "prompt": prompt,
            "session_title": prompt});
        said.to_string().into_bytes()
    };
    let named = |play: &Play| (play.session.title.clone(), play.session.last_prompt.clone());
    for prompt in ["/hook:disable all", "/becket:hook:status"] {
        Line::of_payload(switch(prompt), 10).play(|moment| play.session.apply(moment));
        assert_eq!(named(&play), (None, None), "{prompt}");
        assert_eq!(play.main(), "working", "as with every prompt");
    }
    play.at_time("UserPromptSubmit prompt=mend session_title=Mending", 20);
    Line::of_payload(switch("/hook:enable lint"), 30).play(|moment| play.session.apply(moment));
    let mending = (Some("Mending".to_owned()), Some("mend".to_owned()));
    assert_eq!(named(&play), mending);
    // Only becket's own commands are: whatever else begins with a slash reaches the model.
    Line::of_payload(switch("/hook:other"), 40).play(|moment| play.session.apply(moment));
    assert_eq!(play.session.last_prompt.as_deref(), Some("/hook:other"));
}

#[test]
fn the_most_urgent_is_displayed() {
    let asks = "PreToolUse tool_name=AskUserQuestion tool_use_id=q";
    let mut play = Play::after(&[PROMPT]);
    assert_eq!(play.display(), (Display::Working, None, None));
    play.then(START);
    play.then(asks);
    assert_eq!(
        play.display(),
        (Display::Attention, Some("main"), Some("AskUserQuestion"))
    );
    assert!(play.session.seen(35));
    assert!(!play.session.seen(36));
    assert_eq!(
        play.display(),
        (Display::Working, Some("main"), Some("AskUserQuestion"))
    );
    play.then(STOP);
    assert_eq!(
        play.display(),
        (Display::Checked, Some("main"), Some("AskUserQuestion"))
    );
    play.then("StopFailure error=overloaded");
    assert_eq!(
        play.display(),
        (Display::Error, Some("main"), Some("overloaded"))
    );
    play.then(CHILD_ASKS);
    assert_eq!(
        play.display(),
        (Display::Error, Some("a"), Some("Permission for Bash"))
    );
    play.then(PROMPT);
    assert_eq!(play.display().0, Display::Attention);
    play.then(STOP);
    play.then("Stop");
    assert_eq!(play.display(), (Display::Done, None, None));
}

#[test]
fn the_display_tells_since_when() {
    let mut play = Play::after(&[
        PROMPT,
        "PreToolUse tool_name=Read",
        "PreToolUse tool_name=Grep",
    ]);
    assert_eq!(play.session.row(0).display_since, 10);
    play.at_time(CHILD_ASKS, 50);
    play.at_time("PermissionRequest tool_name=Bash", 60);
    assert_eq!(play.session.row(0).display_since, 50);
    assert_eq!(play.session.row(0).waiting_for.as_deref(), Some("a"));
    play.at_time(STOP, 70);
    assert_eq!(play.session.row(0).display_since, 60);
    play.at_time("Stop", 80);
    assert_eq!(
        (
            play.session.row(0).display_since,
            play.session.row(0).display
        ),
        (80, Display::Done)
    );
}

#[test]
fn what_is_inferred_is_marked_and_gives_way_to_newer_events() {
    let mut play = Play::after(&[PROMPT, "PreToolUse tool_name=Bash"]);
    assert!(
        !play.session.infer(&Inference::Interrupted, 15),
        "an event was newer"
    );
    assert!(play.session.infer(&Inference::Interrupted, 25));
    let row = play.session.row(0);
    assert_eq!(
        (row.status.word(), row.interrupted, row.inferred),
        ("idle", true, true)
    );
    assert!(
        !play.session.infer(&Inference::Interrupted, 26),
        "it is known"
    );
    play.then(PROMPT);
    let row = play.session.row(0);
    assert_eq!(
        (row.status.word(), row.interrupted, row.inferred),
        ("working", false, false)
    );
    let died = Inference::TurnDied {
        error: Some("no answer".into()),
    };
    assert!(play.session.infer(&died, 90));
    assert_eq!(
        play.display(),
        (Display::Error, Some("main"), Some("no answer"))
    );
}

#[test]
fn an_answer_is_inferred_for_the_agent_that_asked() {
    let call = "PreToolUse agent_id=a tool_name=Bash tool_use_id=t";
    let mut play = Play::after(&[PROMPT, START, call, CHILD_ASKS]);
    let answered = |agent_id: Option<&str>| Inference::PermissionAnswered {
        agent_id: agent_id.map(str::to_owned),
        tool_use_id: "t".to_owned(),
    };
    assert!(!play.session.infer(&answered(None), 90));
    assert!(
        !play.session.infer(&answered(Some("a")), 25),
        "it was not asked yet"
    );
    assert!(play.session.infer(&answered(Some("a")), 90));
    assert_eq!(
        (play.child("a").as_str(), play.display().0),
        ("working(Bash)", Display::Working)
    );
}

#[test]
fn who_is_busy_has_all_answers_to_what_was_asked_by_then() {
    let mut play = Play::after(&[
        PROMPT,
        START,
        CHILD_ASKS,
        "PermissionRequest tool_name=Edit",
    ]);
    assert!(!play.session.infer(&Inference::Busy, 25), "too early");
    assert!(play.session.infer(&Inference::Busy, 35));
    assert_eq!(
        (play.child("a").as_str(), play.main().as_str()),
        ("working", "attention(Permission for Edit)")
    );
    play.then("PreToolUse tool_name=Read");
    assert!(play.session.infer(&Inference::Busy, 45));
    assert_eq!(
        (play.main().as_str(), play.display().0),
        ("working(Read)", Display::Working)
    );
    assert!(!play.session.infer(&Inference::Busy, 45), "known");
}

#[test]
fn a_turn_that_no_event_began_is_inferred() {
    let mut play = Play::after(&[PROMPT, PROMPT, "Stop"]);
    let busy = Inference::Busy;
    assert!(!play.session.infer(&busy, 30), "the turn that has stopped");
    assert!(play.session.infer(&busy, 31));
    assert_eq!(
        (play.main().as_str(), play.display().0),
        ("working", Display::Working)
    );
    assert!(play.session.row(0).inferred);
    assert!(!play.session.infer(&busy, 31), "known");
    play.then("Stop");
    assert!(is_idle(&play));

    play.then(PROMPT);
    play.then(START);
    play.then("Stop background_tasks=[{\"id\":\"a\"}]");
    assert!(!play.session.infer(&busy, 90), "its subagent is");
    play.then(STOP);
    assert!(play.session.infer(&busy, 90));
}

fn is_idle(play: &Play) -> bool {
    play.main() == "idle" && play.display().0 == Display::Done && !play.session.row(0).inferred
}

#[test]
fn an_inferred_interrupt_ends_the_children_of_the_turn() {
    let mut play = Play::after(&[PROMPT, "PreToolUse tool_name=Agent tool_use_id=t", START]);
    assert!(play.session.infer(&Inference::Interrupted, 90));
    assert_eq!(
        (play.child("a").as_str(), play.display().0),
        ("idle ended", Display::Done)
    );
}

#[test]
fn a_process_that_is_gone_ends_its_session() {
    let mut play = Play::after(&[PROMPT, START]);
    assert!(
        !play.session.infer(&Inference::ProcessGone, 15),
        "something was heard later"
    );
    assert!(play.session.infer(&Inference::ProcessGone, 90));
    let row = play.session.row(90);
    assert_eq!(
        (row.ended_at, row.end_reason.as_deref()),
        (Some(90), Some(PROCESS_GONE))
    );
    assert_eq!(
        (row.inferred, row.status.word(), row.alive),
        (true, "idle", false)
    );
    assert_eq!(play.child("a"), "idle ended");
    assert!(!play.session.infer(&Inference::ProcessGone, 95));
    assert!(!play.at_time(PROMPT, 80), "from before the end");
    assert!(play.at_time("SessionStart source=resume", 100));
    assert!(!play.session.row(100).inferred);
}

#[test]
fn nothing_follows_a_prompt_that_is_blocked() {
    let mut play = Play::after(&[PROMPT]);
    assert!(play.session.prompt_blocked(10));
    assert_eq!(
        (play.main().as_str(), play.display().0),
        ("idle", Display::Done)
    );
    assert!(!play.session.row(0).inferred);
    play.then(PROMPT);
    play.then("PreToolUse tool_name=Bash");
    assert!(!play.session.prompt_blocked(20), "something followed");
}

#[test]
fn eight_hours_of_silence_are_stale() {
    let play = Play::after(&[PROMPT]);
    assert!(!play.session.is_stale(10 + 8 * HOUR) && play.session.is_stale(11 + 8 * HOUR));
    assert!(play.session.row(11 + 8 * HOUR).stale);
}

#[test]
fn a_row_shows_the_children_of_the_turn() {
    let second = "SubagentStart agent_id=A agent_type=Plan";
    let mut play = Play::after(&[PROMPT, START, second, STOP]);
    let ids = |play: &Play| -> Vec<String> {
        let rows = play.session.row(0).agents;
        rows.into_iter().map(|row| row.agent_id).collect()
    };
    assert_eq!(ids(&play), ["a", "A"], "in the order in which they began");
    play.then("UserPromptSubmit prompt=<task-notification>");
    assert_eq!(ids(&play), ["a", "A"]);
    play.then(PROMPT);
    assert_eq!(ids(&play), ["A"]);
    let row = play.session.row(0);
    assert_eq!((row.line.as_str(), row.session_id.as_str()), ("s", "s"));
    assert_eq!(row.last_prompt.as_deref(), Some("do"));
}

#[test]
fn a_project_is_a_git_root_else_what_claude_says_else_the_folder() {
    let git = |folder: &Path| folder == Path::new("/home/u/p");
    assert_eq!(
        project_of("/home/u/p/src/deep", Some("/x"), git),
        "/home/u/p"
    );
    assert_eq!(project_of("/home/u/p", None, git), "/home/u/p");
    assert_eq!(project_of("/home/u/other", Some("/x"), git), "/x");
    assert_eq!(project_of("/home/u/other", Some(""), git), "/home/u/other");
    assert_eq!(project_of("/home/u/other", None, git), "/home/u/other");
    assert_eq!(
        project_of("not/absolute", None, |folder| folder == Path::new("not")),
        "not/absolute"
    );
}

#[test]
fn the_project_is_looked_for_only_when_the_folder_changes() {
    let looks = std::cell::Cell::new(0);
    let git = |folder: &Path| {
        looks.set(looks.get() + 1);
        folder == Path::new("/p")
    };
    let mut play = Play::after(&["SessionStart cwd=/p/src"]);
    let envelope = Line::new("Stop", 0).envelope;
    assert!(play.session.find_project(&envelope, git));
    assert_eq!(
        (play.session.project.as_deref(), looks.get()),
        (Some("/p"), 2)
    );
    assert!(!play.session.find_project(&envelope, git));
    assert_eq!(looks.get(), 2);
    play.then("CwdChanged new_cwd=/q");
    assert!(play.session.find_project(&envelope, git));
    assert_eq!(play.session.project.as_deref(), Some("/q"));
}
