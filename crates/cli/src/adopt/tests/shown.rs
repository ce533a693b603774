//! What a person reads: the list, and the config.

use super::super::table;
use super::{adopt_all, config, found, registered};
use crate::ui::style::{Glyphs, Look};

#[test]
fn one_command_is_one_hook_where_it_can_be() {
    let (home, _) = registered(
        r#"{"hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "x", "timeout": 5}, {"type": "command", "command": "y"}]},
            {"matcher": "Read", "hooks": [{"type": "command", "command": "x", "timeout": 9}]}
        ],
        "PostToolUse": [{"matcher": "Bash|Read", "hooks": [{"type": "command", "command": "x", "timeout": 9}]}],
        "Stop": [{"matcher": "ignored", "hooks": [{"type": "command", "command": "x"}, {"type": "command", "command": "y"}]}],
        "Setup": [{"hooks": [{"type": "command", "command": "y"}]}]
        }}"#,
    );
    adopt_all(&home);
    let file = home.file().display().to_string();
    insta::assert_snapshot!(config(&home).unwrap().replace(&file, "FILE"), @r#"
    [hooks.x]
    # adopted from FILE
    on = ["PreToolUse", "PostToolUse"]
    tools = "Bash|Read"
    run = "x"
    timeout = "9s"

    [hooks.y]
    # adopted from FILE
    on = "PreToolUse"
    tools = "Bash"
    run = "y"

    [hooks.x-stop]
    # adopted from FILE
    on = "Stop"
    run = "x"

    [hooks.y-stop]
    # adopted from FILE
    on = ["Stop", "Setup"]
    run = "y"
    "#);
}

#[test]
fn the_list_fits() {
    let (home, _) = registered(
        r#"{"hooks": {
        "PostToolUse": [{"matcher": "Edit|Write", "hooks": [
            {"type": "command", "command": "npx prettier --write \"$(jq -r .tool_input.file_path)\""},
            {"type": "http", "url": "http://127.0.0.1:9/hook"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say done", "once": true},
            {"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/check"},
            {"type": "command", "command": "x", "if": "Bash(git *)"}]}],
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": "mk"}]}]
        }}"#,
    );
    let here = found(&home);
    let shown = |width: usize| {
        let look = Look {
            now: jiff::Zoned::now(),
            width,
            glyphs: Glyphs::Unicode,
        };
        anstream::adapter::strip_str(&table(&here, &look)).to_string()
    };
    insta::assert_snapshot!(shown(usize::MAX), @r#"
       NAME      ON           TOOLS       RUNS                                                   FROM
    1  prettier  PostToolUse  Edit|Write  npx prettier --write "$(jq -r .tool_input.file_path)"  user
    2  say-stop  Stop                     say done                                               user
    3  check     Stop                     "$CLAUDE_PROJECT_DIR"/check                            user
    say-stop: `once` means nothing in settings, and is dropped
    check starts a file of whatever project a session works in, and will rest where you have not said `becket trust`

    3 hooks stay where they are:
      PostToolUse http://127.0.0.1:9/hook (user)
        type http: becket runs commands only
      Stop x (user)
        `if` has no counterpart
      WorktreeCreate mk (user)
        a hook on WorktreeCreate replaces git: becket keeps away
    "#);
    let narrow = shown(50);
    let narrow: Vec<_> = narrow.lines().take(3).collect();
    insta::assert_snapshot!(narrow.join("\n"), @"
       NAME      ON           RUNS                FROM
    1  prettier  PostToolUse  npx prettier --wr…  user
    2  say-stop  Stop         say done            user
    ");
}
