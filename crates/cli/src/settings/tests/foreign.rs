//! Other people's entries, taken out and put back.

use proptest::prelude::*;

use super::any::{foreign as any_foreign, mixed};
use crate::settings::document::{Document, split_mark};
use crate::settings::register::value;
use crate::settings::{Foreign, foreign, put_back, take_out};

/// The comments outside the entries.
fn comments(text: &str, entries: &[Foreign]) -> Vec<String> {
    let document = Document::parse(split_mark(text).1).unwrap();
    let theirs = document.theirs();
    let gone = |at: usize| {
        let mut gone = theirs.iter().filter(|one| {
            let value = crate::settings::document::plain_object(one.entry);
            entries.iter().any(|entry| entry.value == value)
        });
        gone.any(|one| one.entry.range.start < at && at < one.entry.range.end)
    };
    let comments = document.tokens.iter().filter(|token| token.is_comment());
    let outside = comments.filter(|token| !gone(token.start));
    outside
        .map(|token| document.text[token.start..token.end].trim_end().to_owned())
        .collect()
}

fn sorted(mut entries: Vec<Foreign>) -> Vec<String> {
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
    fn what_is_taken_out_is_gone_and_nothing_else(text in mixed(), odd in any::<bool>()) {
        let all = foreign(&text).unwrap();
        let nth = |(nth, _): &(usize, &Foreign)| (nth % 2 == 1) == odd;
        let some: Vec<Foreign> = all.iter().enumerate().filter(nth).map(|(_, it)| it.clone()).collect();
        let rest = take_out(&text, &some).unwrap();
        let is_meant = |entry: &Foreign| some.iter().any(|it| {
            (&it.event, &it.matcher, &it.value) == (&entry.event, &entry.matcher, &entry.value)
        });
        let kept: Vec<Foreign> = all.into_iter().filter(|entry| !is_meant(entry)).collect();
        prop_assert_eq!(foreign(&rest).unwrap(), kept);
        prop_assert_eq!(comments(&rest, &some), comments(&text, &some));
        let ours = |text: &str| {
            let document = Document::parse(split_mark(text).1).unwrap();
            let entries: Vec<_> = document.ours().iter().map(|one| one.entry.range.end - one.entry.range.start).collect();
            entries
        };
        prop_assert_eq!(ours(&rest), ours(&text));
    }

    #[test]
    fn what_is_put_back_is_there_once(text in mixed(), other in any_foreign()) {
        let entries = foreign(&other).unwrap();
        let Ok(back) = put_back(&text, &entries) else {
            // Somebody has made something else of that event.
            return Ok(());
        };
        let mut expected = foreign(&text).unwrap();
        expected.extend(entries.clone());
        prop_assert_eq!(sorted(foreign(&back).unwrap()), sorted(expected));
        prop_assert_eq!(put_back(&back, &entries).unwrap(), back);
    }

    #[test]
    fn taken_out_and_put_back_says_the_same(text in any_foreign()) {
        let all = foreign(&text).unwrap();
        let back = put_back(&take_out(&text, &all).unwrap(), &all).unwrap();
        prop_assert_eq!(sorted(foreign(&back).unwrap()), sorted(all));
        value(&back).unwrap();
    }
}

#[test]
fn what_holds_nothing_else_goes_too() {
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

#[test]
fn a_hidden_entry_is_not_seen() {
    let entry = r#"{"type": "command", "command": "a"}"#;
    let text = format!(
        r#"{{"hooks": {{"Stop": [{{"hooks": [{entry}]}}], "Stop": [{{"hooks": [{entry}], "hooks": []}}]}}}}"#
    );
    assert_eq!(foreign(&text).unwrap(), []);
}
