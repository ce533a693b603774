//! What becket must never do to a settings file.

pub mod any;
pub mod files;

use std::collections::BTreeSet;

use jsonc_parser::common::Ranged;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::settings::document::{Document, is_comment, named, plain_object, range_of, split_mark};
use crate::settings::entries::{OriginalParts, make_synchronous, register, unregister, value};
use crate::settings::inspection::{EntryState, inspect};
use crate::settings::registration::{REGISTERED, Registration, Strict, is_becket};
use crate::settings::status_line::{StatusLineState, is_becket_line};
use crate::settings::tests::any::{foreign as any_foreign, mixed, plain};
use crate::settings::{FileChange, ForeignEntry, foreign, put_back, take_out};

fn registration() -> Registration {
    Registration {
        program: "/opt/becket/becket-hook".into(),
        home: "/home/user/.becket".into(),
        strict: Strict::Keep,
        status_line: true,
        refresh: Some(2),
        refresh_written: None,
        claude: None,
        synchronous: BTreeSet::new(),
    }
}

#[test]
fn an_older_claude_code_gets_no_event_that_it_would_warn_of() {
    let newest = registration();
    let older = Registration {
        claude: Some([2, 1, 197]),
        ..registration()
    };
    let text = register("", &older).unwrap();
    assert!(text.contains("PostToolBatch") && !text.contains("PreModelSwitch"));
    let missing = inspect(&text, &newest).unwrap().count(EntryState::Missing);
    assert_eq!(missing, 3, "and they are found missing by a newer one");
    let upgraded = register(&text, &newest).unwrap();
    let found = inspect(&upgraded, &newest)
        .unwrap()
        .count(EntryState::Found);
    assert_eq!(found, REGISTERED.len());
    assert!(
        !register(&upgraded, &older)
            .unwrap()
            .contains("PreModelSwitch")
    );
}

#[test]
fn an_event_on_which_a_hook_answers_is_synchronous() {
    let late = registration();
    let waits = Registration {
        synchronous: BTreeSet::from(["Notification".to_owned(), "Stop".to_owned()]),
        ..registration()
    };
    let text = register("", &late).unwrap();
    let different = inspect(&text, &waits).unwrap();
    assert_eq!(different.count(EntryState::Different), 1, "doctor finds it");
    let repaired = register(&text, &waits).unwrap();
    assert_eq!(repaired, make_synchronous(&text, &waits).unwrap());
    let asynchronous = |text: &str| text.matches(r#""async": true"#).count();
    assert_eq!(asynchronous(&repaired), asynchronous(&text) - 1);
    assert!(repaired.contains(
        r#""Notification", "--from", "settings", "--home", "/home/user/.becket"], "timeout": 600}"#
    ));
    assert_eq!(
        inspect(&repaired, &waits)
            .unwrap()
            .count(EntryState::Different),
        0
    );
    assert_eq!(
        register(&repaired, &late).unwrap(),
        repaired,
        "and it may stay so"
    );
}

/// The diff of `register`, with all but a few events left out.
fn change(text: &str) -> String {
    let registered = register(text, &registration()).unwrap();
    let back = unregister(&registered, &OriginalParts::of(text)).unwrap();
    assert_eq!(back, text);
    let change = FileChange {
        file: "settings.json".into(),
        before: Some(text.to_owned()),
        after: Some(registered),
        backup: None,
    };
    let diff = change.diff();
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
fn registration_keeps_comments_and_other_hooks() {
    insta::assert_snapshot!(change(COMMENTED), @r#"
    --- settings.json
    +++ settings.json
    @@ -1,7 +1,7 @@
     // my settings
     {
         "model": "opus", // the good one
    -    "statusLine": {"type": "command", "command": "~/bin/line"},
    +    "statusLine": {"type": "command", "command": "becket-hook --statusline --beside --home .becket", "refreshInterval": 2},
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
fn an_old_installation_is_updated_in_place() {
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
        (
            before.count(EntryState::Different),
            before.count(EntryState::Found)
        ),
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
fn foreign_entries_in_beckets_groups_stay() {
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
    let rest = unregister(&edited, &OriginalParts::default()).unwrap();
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
fn a_wrong_file_is_refused_with_line_and_column() {
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

proptest! {
    #[test]
    fn unregister_reverses_register(text in any_foreign()) {
        let registered = register(&text, &registration()).unwrap();
        let back = unregister(&registered, &OriginalParts::of(&text)).unwrap();
        if has_hollow(&text) {
            prop_assert_eq!(tokens(&back), tokens(&text));
        } else {
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn unregister_leaves_a_file_without_becket_alone(text in any_foreign()) {
        prop_assert_eq!(unregister(&text, &OriginalParts::default()).unwrap(), text);
    }

    #[test]
    fn a_second_register_changes_nothing(text in mixed()) {
        let once = register(&text, &registration()).unwrap();
        prop_assert_eq!(register(&once, &registration()).unwrap(), once);
    }

    #[test]
    fn register_adds_every_event_and_loses_nothing(text in mixed()) {
        let registered = register(&text, &registration()).unwrap();
        let inspection = inspect(&registered, &registration()).unwrap();
        prop_assert_eq!(inspection.count(EntryState::Found), REGISTERED.len());
        prop_assert!(matches!(inspection.status_line, StatusLineState::Found(_)));
        prop_assert_eq!(theirs(&registered), theirs(&text));
        prop_assert_eq!(comments(&registered), comments(&text));
    }

    #[test]
    fn unregister_removes_only_becket(text in mixed()) {
        let rest = unregister(&text, &OriginalParts::default()).unwrap();
        prop_assert_eq!(theirs(&rest), theirs(&text));
        prop_assert_eq!(comments(&rest), comments(&text));
        let rest = Document::parse(split_mark(&rest).1).unwrap();
        prop_assert!(rest.becket_entries().is_empty());
        let root = rest.root().unwrap().unwrap();
        prop_assert!(!named(root, "statusLine").any(|line| is_becket_line(&line.value)));
    }

    #[test]
    fn plain_json_stays_plain_json(text in plain()) {
        prop_assume!(serde_json::from_str::<Value>(&text).is_ok());
        let registered = register(&text, &registration()).unwrap();
        prop_assert!(serde_json::from_str::<Value>(&registered).is_ok(), "{}", registered);
        let rest = unregister(&registered, &OriginalParts::default()).unwrap();
        prop_assert!(serde_json::from_str::<Value>(&rest).is_ok(), "{}", rest);
    }

    #[test]
    fn strictness_is_set_kept_and_reset(text in mixed()) {
        let with = |strict: Strict, text: &str| {
            let mut registration = registration();
            registration.strict = strict;
            let text = register(text, &registration).unwrap();
            let strict = inspect(&text, &registration).unwrap().strict;
            (text, strict)
        };
        let (text, strict) = with(Strict::On, &text);
        prop_assert!(strict);
        let (text, strict) = with(Strict::Keep, &text);
        prop_assert!(strict);
        let (_, strict) = with(Strict::Off, &text);
        prop_assert!(!strict);
    }
}

/// Whether we would have to fill a container that was empty: then its white space is not ours to
/// know (the command's record does).
fn has_hollow(text: &str) -> bool {
    let document = Document::parse(split_mark(text).1).unwrap();
    let root = document.root().unwrap().unwrap();
    let hooks = document.hooks().unwrap();
    let hollow = |event: &str| {
        let groups = document.groups(event).unwrap();
        groups.is_some_and(|groups| groups.elements.is_empty())
    };
    root.properties.is_empty()
        || hooks.is_some_and(|hooks| hooks.properties.is_empty())
        || REGISTERED.iter().any(|registered| hollow(registered))
}

fn tokens(text: &str) -> Vec<String> {
    let document = Document::parse(split_mark(text).1).unwrap();
    let tokens = document.tokens.iter();
    tokens
        .map(|token| document.text[range_of(token)].to_owned())
        .collect()
}

/// All comments that do not stand inside an entry of ours, or inside a status line: that one is
/// remembered as a whole.
fn comments(text: &str) -> Vec<String> {
    let document = Document::parse(split_mark(text).1).unwrap();
    let ours = document.becket_entries();
    let entries = ours.iter().map(|ours| ours.entry.range);
    let root = document.root().unwrap().unwrap();
    let lines = named(root, "statusLine").map(Ranged::range);
    let places: Vec<_> = entries.chain(lines).collect();
    let is_theirs = |at: usize| {
        !places
            .iter()
            .any(|place| place.start < at && at < place.end)
    };
    let tokens = document.tokens.iter().filter(|token| is_comment(token));
    let theirs = tokens.filter(|token| is_theirs(token.start()));
    theirs
        .map(|token| document.text[range_of(token)].to_owned())
        .collect()
}

/// The settings without the status line, our entries and empty containers of hooks.
fn theirs(text: &str) -> Value {
    let mut root = value(text).unwrap().unwrap();
    root.as_object_mut().unwrap().remove("statusLine");
    let Some(hooks) = root.get_mut("hooks").and_then(Value::as_object_mut) else {
        return root;
    };
    for groups in hooks.values_mut().filter_map(Value::as_array_mut) {
        for list in groups.iter_mut().filter_map(|group| group.get_mut("hooks")) {
            if let Some(list) = list.as_array_mut() {
                list.retain(|entry| !calls_becket(entry));
            }
        }
        groups.retain(|group| *group != json!({"hooks": []}));
    }
    hooks.retain(|_, groups| *groups != json!([]));
    if hooks.is_empty() {
        root.as_object_mut().unwrap().remove("hooks");
    }
    root
}

fn calls_becket(entry: &Value) -> bool {
    let args = entry["args"].as_array();
    let args: Option<Vec<&str>> = args.map(|args| args.iter().filter_map(Value::as_str).collect());
    let command = entry["command"].as_str();
    command.is_some_and(|command| is_becket(command, args.as_deref()))
}

/// The comments outside the entries.
fn outside_comments(text: &str, entries: &[ForeignEntry]) -> Vec<String> {
    let document = Document::parse(split_mark(text).1).unwrap();
    let theirs = document.foreign_entries();
    let gone = |at: usize| {
        let mut gone = theirs.iter().filter(|one| {
            let value = plain_object(one.entry);
            entries.iter().any(|entry| entry.value == value)
        });
        gone.any(|one| one.entry.range.start < at && at < one.entry.range.end)
    };
    let comments = document.tokens.iter().filter(|token| is_comment(token));
    let outside = comments.filter(|token| !gone(token.start()));
    outside
        .map(|token| document.text[range_of(token)].trim_end().to_owned())
        .collect()
}

fn sorted(mut entries: Vec<ForeignEntry>) -> Vec<String> {
    entries.sort_by_key(|entry| format!("{entry:?}"));
    entries.dedup_by_key(|entry| {
        (
            entry.event.clone(),
            entry.matcher.clone(),
            entry.value.clone(),
        )
    });
    let mut all: Vec<_> = entries
        .iter()
        .map(|entry| format!("{} {:?} {}", entry.event, entry.matcher, entry.value))
        .collect();
    all.sort();
    all.dedup();
    all
}

proptest! {
    #[test]
    fn take_out_removes_only_these_entries(text in mixed(), odd in any::<bool>()) {
        let all = foreign(&text).unwrap();
        let nth = |(nth, _): &(usize, &ForeignEntry)| (nth % 2 == 1) == odd;
        let some: Vec<ForeignEntry> = all.iter().enumerate().filter(nth).map(|(_, it)| it.clone()).collect();
        let rest = take_out(&text, &some).unwrap();
        let is_meant = |entry: &ForeignEntry| some.iter().any(|it| {
            (&it.event, &it.matcher, &it.value) == (&entry.event, &entry.matcher, &entry.value)
        });
        let kept: Vec<ForeignEntry> = all.into_iter().filter(|entry| !is_meant(entry)).collect();
        prop_assert_eq!(foreign(&rest).unwrap(), kept);
        prop_assert_eq!(outside_comments(&rest, &some), outside_comments(&text, &some));
        let ours = |text: &str| {
            let document = Document::parse(split_mark(text).1).unwrap();
            let entries: Vec<_> = document.becket_entries().iter().map(|one| one.entry.range.end - one.entry.range.start).collect();
            entries
        };
        prop_assert_eq!(ours(&rest), ours(&text));
    }

    #[test]
    fn put_back_reverses_take_out(text in any_foreign()) {
        let all = foreign(&text).unwrap();
        let back = put_back(&take_out(&text, &all).unwrap(), &all).unwrap();
        prop_assert_eq!(sorted(foreign(&back).unwrap()), sorted(all));
        value(&back).unwrap();
    }
}

#[test]
fn take_out_removes_empty_containers_too() {
    let text = r#"{
  "model": "opus",
  "hooks": {
    "PostToolUse": [
      {
        "matcher": "Edit",
        "hooks": [
          { "type": "command", "command": "a" },
          { "type": "command", "command": "b" } // stays
        ]
      },
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "a" }] }
    ],
    "Stop": [{ "hooks": [{ "type": "command", "command": "a" }] }],
    // about setup
    "Setup": [{ "hooks": [ /* here */ { "type": "command", "command": "a" }] }]
  }
}
"#;
    let mut entries = foreign(text).unwrap();
    entries.retain(|entry| entry.value["command"] == "a");
    let rest = take_out(text, &entries).unwrap();
    insta::assert_snapshot!(rest, @r#"
    {
      "model": "opus",
      "hooks": {
        "PostToolUse": [
          {
            "matcher": "Edit",
            "hooks": [
              { "type": "command", "command": "b" } // stays
            ]
          }
        ],
        // about setup
        "Setup": [{ "hooks": [ /* here */] }]
      }
    }
    "#);
    let back = put_back(&rest, &entries).unwrap();
    insta::assert_snapshot!(back, @r#"
    {
      "model": "opus",
      "hooks": {
        "PostToolUse": [
          {
            "matcher": "Edit",
            "hooks": [
              { "type": "command", "command": "b" }, // stays
              { "type": "command", "command": "a" }
            ]
          },
          {"matcher": "Bash", "hooks": [{ "type": "command", "command": "a" }]}
        ],
        // about setup
        "Setup": [{ "hooks": [ /* here */ { "type": "command", "command": "a" }] }],
        "Stop": [{"hooks": [{ "type": "command", "command": "a" }]}]
      }
    }
    "#);
    let none = take_out(
        r#"{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "a"}]}]}}"#,
        &entries,
    );
    assert_eq!(none.unwrap(), "{}");
}
