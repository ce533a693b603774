//! A few files as people have them, to be read by people.

use super::registration;
use crate::settings::diff::unified;
use crate::settings::inspect::{State, inspect};
use crate::settings::register::register;
use crate::settings::unregister::{Kept, unregister};

/// The diff of `register`, with all but a few events left out.
fn change(text: &str) -> String {
    let registered = register(text, &registration()).unwrap();
    let back = unregister(&registered, &Kept::of(text)).unwrap();
    assert_eq!(back, text);
    let diff = unified("settings.json", Some(text), Some(&registered));
    let shown = [
        "SessionStart",
        "PreToolUse",
        "Stop",
        "DirectoryAdded",
        "statusLine",
    ];
    let is_shown = |line: &&str| {
        !line.contains("becket-hook")
            || shown
                .iter()
                .any(|event| line.contains(&format!("\"{event}\"")))
    };
    let short = |line: &str| line.replace("/opt/becket/", "").replace("/home/user/", "");
    diff.lines()
        .filter(is_shown)
        .map(short)
        .collect::<Vec<_>>()
        .join("\n")
        .replace('\t', "→")
}

const COMMENTED: &str = r#"// my settings
{
    "model": "opus", // the good one
    "statusLine": {"type": "command", "command": "~/bin/line"},
    "hooks": {
        // runs on every edit
        "PostToolUse": [
            {
                "matcher": "Edit|Write",
                "hooks": [
                    { "type": "command", "command": "npx prettier --write" } /* slow */
                ]
            } // prettier
        ],
        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ], // speaks
    },
    /* the end */
}
"#;

#[test]
fn with_comments_and_other_hooks() {
    insta::assert_snapshot!(change(COMMENTED), @r#"
    --- settings.json
    +++ settings.json
    @@ -1,7 +1,7 @@
     // my settings
     {
         "model": "opus", // the good one
    -    "statusLine": {"type": "command", "command": "~/bin/line"},
    +    "statusLine": {"type": "command", "command": "becket-hook --statusline --beside --home .becket"},
         "hooks": {
             // runs on every edit
             "PostToolUse": [
    @@ -10,9 +10,38 @@
                     "hooks": [
                         { "type": "command", "command": "npx prettier --write" } /* slow */
                     ]
    -            } // prettier
    +            }, // prettier
             ],
    -        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ], // speaks
    +        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]}, {"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "Stop", "--from", "settings", "--home", ".becket"], "timeout": 600}]} ], // speaks
    +        "SessionStart": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "SessionStart", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +        "PreToolUse": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "PreToolUse", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +        "DirectoryAdded": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "DirectoryAdded", "--from", "settings", "--home", ".becket"], "timeout": 10, "async": true}]}],
         },
         /* the end */
     }
    "#);
}

#[test]
fn with_tabs_and_a_trailing_member_on_the_closing_line() {
    insta::assert_snapshot!(change("{\n\t\t\"model\": \"opus\",\n\t\t\"env\": {} }"), @r#"
    --- settings.json
    +++ settings.json
    @@ -1,3 +1,36 @@
     {
     →→"model": "opus",
    -→→"env": {} }
    \ No newline at end of file
    +→→"env": {},
    +→→"hooks": {
    +→→→→"SessionStart": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "SessionStart", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +→→→→"PreToolUse": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "PreToolUse", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +→→→→"Stop": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "Stop", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +→→→→"DirectoryAdded": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "DirectoryAdded", "--from", "settings", "--home", ".becket"], "timeout": 10, "async": true}]}]
    +→→},
    +→→"statusLine": {"type": "command", "command": "becket-hook --statusline --home .becket"} }
    \ No newline at end of file
    "#);
}

#[test]
fn with_hooks_on_one_line() {
    let text = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}"#;
    insta::assert_snapshot!(change(text), @r#"
    --- settings.json
    +++ settings.json
    @@ -1 +1,31 @@
    -{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}
    \ No newline at end of file
    +{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}, {"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "Stop", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +  "SessionStart": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "SessionStart", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +  "PreToolUse": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "PreToolUse", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +  "DirectoryAdded": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "DirectoryAdded", "--from", "settings", "--home", ".becket"], "timeout": 10, "async": true}]}]},
    +  "statusLine": {"type": "command", "command": "becket-hook --statusline --home .becket"}}
    \ No newline at end of file
    "#);
}

#[test]
fn an_empty_object() {
    insta::assert_snapshot!(change("{}\n"), @r#"
    --- settings.json
    +++ settings.json
    @@ -1 +1,35 @@
    -{}
    +{
    +  "hooks": {
    +    "SessionStart": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "SessionStart", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +    "PreToolUse": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "PreToolUse", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +    "Stop": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "Stop", "--from", "settings", "--home", ".becket"], "timeout": 600}]}],
    +    "DirectoryAdded": [{"hooks": [{"type": "command", "command": "becket-hook", "args": ["--event", "DirectoryAdded", "--from", "settings", "--home", ".becket"], "timeout": 10, "async": true}]}]
    +  },
    +  "statusLine": {"type": "command", "command": "becket-hook --statusline --home .becket"}
    +}
    "#);
}

#[test]
fn crlf_is_kept() {
    let text = "{\r\n  \"model\": \"opus\"\r\n}\r\n";
    let registered = register(text, &registration()).unwrap();
    assert_eq!(
        registered.matches('\n').count(),
        registered.matches("\r\n").count()
    );
    assert!(registered.lines().count() > 30);
}

#[test]
fn an_old_installation_is_mended_where_it_stands() {
    let text = r#"{
  "hooks": {
    "PreToolUse": [
      {
        "hooks": [
          {"type": "command", "command": "mine"},
          {"type": "command", "command": "/old/becket-hook", "args": ["--event", "PreToolUse"], "timeout": 5}
        ]
      },
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "/old/becket-hook", "args": []}]}
    ],
    "WorktreeCreate": [{"hooks": [{"type": "command", "command": "/old/becket-hook", "args": []}]}]
  }
}
"#;
    let before = inspect(text, &registration()).unwrap();
    assert_eq!(
        (before.count(State::Different), before.count(State::Found)),
        (1, 0)
    );
    let registered = register(text, &registration()).unwrap();
    let shown: Vec<_> = registered.lines().take(12).collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    {
      "hooks": {
        "PreToolUse": [
          {
            "hooks": [
              {"type": "command", "command": "mine"},
              {"type": "command", "command": "/opt/becket/becket-hook", "args": ["--event", "PreToolUse", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 600}
            ]
          },
          {"matcher": "Bash", "hooks": []}
        ],
        "SessionStart": [{"hooks": [{"type": "command", "command": "/opt/becket/becket-hook", "args": ["--event", "SessionStart", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 600}]}],
    "#);
    assert!(!registered.contains("WorktreeCreate"));
}

#[test]
fn comments_stay_when_what_they_stand_beside_goes() {
    let registered = register("{\n  \"a\": 1 // one\n}", &registration()).unwrap();
    let edited = registered
        .replace("\"hooks\": {\n", "\"hooks\": { // hers\n")
        .replace("],\n    \"Stop\"", "], // his\n    \"Stop\"");
    let rest = unregister(&edited, &Kept::default()).unwrap();
    insta::assert_snapshot!(rest, @r#"
    {
      "a": 1, // one
      "hooks": { // hers
        // his
      }
    }
    "#);
}

#[test]
fn what_others_added_to_our_groups_stays() {
    let registered = register("{}", &registration()).unwrap();
    let mine = r#"{"type": "command", "command": "mine"}"#;
    let edited = registered
        .replace(
            "\"Stop\": [{\"hooks\": [",
            &format!("\"Stop\": [{{\"hooks\": [{mine}, "),
        )
        .replace(
            "\"Setup\": [",
            &format!("\"Setup\": [{{\"hooks\": [{mine}]}}, "),
        );
    let rest = unregister(&edited, &Kept::default()).unwrap();
    insta::assert_snapshot!(rest, @r#"
    {
      "hooks": {
        "Setup": [{"hooks": [{"type": "command", "command": "mine"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]
      }
    }
    "#);
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    let refused = |text: &str| register(text, &registration()).unwrap_err().to_string();
    let all = [
        "{\n  \"a\": 1\n  \"b\": 2\n}",
        "{\"a\": 1",
        "[]",
        "{\n\t\"hooks\": []}",
        "{\"hooks\": {\n  \"Stop\": {}}}",
        "\u{feff}{\"é\": 'x'}",
        "{\"hooks\": {}, \"hooks\": null}",
        &"[".repeat(100_000),
    ];
    insta::assert_snapshot!(all.map(refused).join("\n"), @r#"
    2:9: expected comma
    1:1: unterminated object
    1:1: the settings are not an object
    2:11: "hooks" is not an object
    2:11: "hooks.Stop" is not an array
    1:7: single-quoted strings are not allowed
    1:24: "hooks" is not an object
    1:513: maximum nesting depth exceeded
    "#);
}

#[test]
fn of_keys_that_stand_there_twice_the_last_one_counts() {
    let text = r#"{"hooks": {"Stop": []}, "hooks": {"Setup": 1, "Setup": [], "SessionStart": []}}"#;
    let registered = register(text, &registration()).unwrap();
    assert!(registered.starts_with(r#"{"hooks": {"Stop": []}, "hooks": {"Setup": 1, "Setup": [{"#));
    let inspection = inspect(&registered, &registration()).unwrap();
    assert_eq!(inspection.count(State::Found), inspection.entries.len());
}

#[test]
fn a_hidden_entry_does_not_count() {
    let entry = r#"{"type": "command", "command": "becket-hook", "args": []}"#;
    let text = r#"{"hooks": {"Stop": [{"hooks": [OURS]}]}, "hooks": {"Setup": [{"hooks": [OURS]}], "Setup": []}}"#;
    let text = text.replace("OURS", entry);
    assert!(!inspect(&text, &registration()).unwrap().any());
    let registered = register(&text, &registration()).unwrap();
    assert_eq!(
        registered.matches(entry).count(),
        2,
        "hidden ones are left alone"
    );
    let inspection = inspect(&registered, &registration()).unwrap();
    assert_eq!(inspection.count(State::Found), inspection.entries.len());
}

#[test]
fn a_hidden_key_stays_hidden() {
    let ours = r#"[{"hooks": [{"type": "command", "command": "becket-hook"}]}]"#;
    let rest = |text: &str| unregister(&text.replace("OURS", ours), &Kept::default()).unwrap();
    assert_eq!(
        rest(r#"{"hooks": {"Stop": 1, "Stop": OURS}}"#),
        r#"{"hooks": {"Stop": 1, "Stop": []}}"#
    );
    assert_eq!(
        rest(r#"{"hooks": {"Stop": 1}, "hooks": {"Stop": OURS}}"#),
        r#"{"hooks": {"Stop": 1}, "hooks": {}}"#
    );
}

#[test]
fn a_line_comment_takes_nothing_after_it_for_its_own() {
    let ours = r#"{"type": "command", "command": "becket-hook"}"#;
    let list = |list: &str| format!(r#"{{"hooks": {{"Stop": [{{"hooks": [{list}]}}]}}}}"#);
    let rest =
        |text: &str| unregister(&list(text).replace("OURS", ours), &Kept::default()).unwrap();
    assert_eq!(rest("1, // one\n OURS \n"), list("1 // one\n"));
    assert_eq!(rest("1, // one\n OURS, 2"), list("1, // one\n 2"));
    assert_eq!(rest("1, // one\n OURS"), list("1 // one\n "));
}
