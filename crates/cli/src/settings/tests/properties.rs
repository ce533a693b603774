//! What holds for any settings file.

use jsonc_parser::common::Ranged;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::any::{foreign, mixed, plain};
use super::registration;
use crate::settings::document::{Document, named, split_mark};
use crate::settings::inspect::{State, inspect};
use crate::settings::register::{register, value};
use crate::settings::registration::{REGISTERED, Strict, is_ours};
use crate::settings::status_line::{Standing, is_ours as is_our_line};
use crate::settings::unregister::{Kept, unregister};

proptest! {
    #[test]
    fn what_is_put_in_comes_out_again(text in foreign()) {
        let registered = register(&text, &registration()).unwrap();
        let back = unregister(&registered, &Kept::of(&text)).unwrap();
        if has_hollow(&text) {
            prop_assert_eq!(tokens(&back), tokens(&text));
        } else {
            prop_assert_eq!(back, text);
        }
    }

    #[test]
    fn a_file_without_us_is_left_alone(text in foreign()) {
        prop_assert_eq!(unregister(&text, &Kept::default()).unwrap(), text);
    }

    #[test]
    fn twice_is_once(text in mixed()) {
        let once = register(&text, &registration()).unwrap();
        prop_assert_eq!(register(&once, &registration()).unwrap(), once);
    }

    #[test]
    fn everything_is_registered_and_nothing_else_is_lost(text in mixed()) {
        let registered = register(&text, &registration()).unwrap();
        let inspection = inspect(&registered, &registration()).unwrap();
        prop_assert_eq!(inspection.count(State::Found), REGISTERED.len());
        prop_assert!(matches!(inspection.status_line, Standing::Found(_)));
        prop_assert_eq!(theirs(&registered), theirs(&text));
        prop_assert_eq!(comments(&registered), comments(&text));
    }

    #[test]
    fn only_ours_goes(text in mixed()) {
        let rest = unregister(&text, &Kept::default()).unwrap();
        prop_assert_eq!(theirs(&rest), theirs(&text));
        prop_assert_eq!(comments(&rest), comments(&text));
        let rest = Document::parse(split_mark(&rest).1).unwrap();
        prop_assert!(rest.ours().is_empty());
        let root = rest.root().unwrap().unwrap();
        prop_assert!(!named(root, "statusLine").any(|line| is_our_line(&line.value)));
    }

    #[test]
    fn plain_json_stays_plain_json(text in plain()) {
        prop_assume!(serde_json::from_str::<Value>(&text).is_ok());
        let registered = register(&text, &registration()).unwrap();
        prop_assert!(serde_json::from_str::<Value>(&registered).is_ok(), "{}", registered);
        let rest = unregister(&registered, &Kept::default()).unwrap();
        prop_assert!(serde_json::from_str::<Value>(&rest).is_ok(), "{}", rest);
    }

    #[test]
    fn strictness_can_be_set_kept_and_taken_back(text in mixed()) {
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
        || REGISTERED.iter().any(|registered| hollow(registered.event))
}

fn tokens(text: &str) -> Vec<String> {
    let document = Document::parse(split_mark(text).1).unwrap();
    let tokens = document.tokens.iter();
    tokens
        .map(|token| document.text[token.start..token.end].to_owned())
        .collect()
}

/// All comments that do not stand inside an entry of ours, or inside a status line: that one is
/// remembered as a whole.
fn comments(text: &str) -> Vec<String> {
    let document = Document::parse(split_mark(text).1).unwrap();
    let ours = document.ours();
    let entries = ours.iter().map(|ours| ours.entry.range);
    let root = document.root().unwrap().unwrap();
    let lines = named(root, "statusLine").map(Ranged::range);
    let places: Vec<_> = entries.chain(lines).collect();
    let is_theirs = |at: usize| {
        !places
            .iter()
            .any(|place| place.start < at && at < place.end)
    };
    let tokens = document.tokens.iter().filter(|token| token.is_comment());
    let theirs = tokens.filter(|token| is_theirs(token.start));
    theirs
        .map(|token| document.text[token.start..token.end].to_owned())
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
    command.is_some_and(|command| is_ours(command, args.as_deref()))
}
