//! What holds for every answer that can be built.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::Rest;

fn any_opinion() -> impl Strategy<Value = Opinion> {
    "\\PC{0,9}".prop_flat_map(|reason| {
        let because = reason.clone();
        prop::sample::select(vec![
            Opinion::Deny {
                reason: reason.clone(),
            },
            Opinion::Ask {
                reason: reason.clone(),
            },
            Opinion::Defer {
                reason: reason.clone(),
            },
            Opinion::Allow { because },
            Opinion::Block {
                reason: reason.clone(),
            },
            Opinion::Accept,
            Opinion::Decline { reason },
            Opinion::Cancel,
        ])
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    ("\\PC{0,9}", any::<bool>()).prop_flat_map(|(text, flag)| {
        let object = Rest::from_iter([("permissionDecision".to_owned(), json!(text))]);
        prop::sample::select(vec![
            Change::Input(object.clone()),
            Change::ToolOutput(json!([text, flag])),
            Change::McpToolOutput(Value::Null),
            Change::ClassifierContext(text.clone()),
            Change::SessionTitle(text.clone()),
            Change::SuppressPrompt(flag),
            Change::FirstMessage(text.clone()),
            Change::WatchPaths(vec![text.clone()]),
            Change::ReloadSkills(flag),
            Change::WorktreePath(text.clone()),
            Change::Display(text),
            Change::Retry(flag),
            Change::Content(object),
            Change::Permissions(vec![json!({"behavior": "allow"})]),
            Change::Interrupt(flag),
        ])
    })
}

/// Any answer that can be built: whatever the event does not take is refused on the way.
fn any_answer() -> impl Strategy<Value = Answer> {
    let event = prop::sample::select([&EventName::ALL[..], &["CoffeeReady".into()]].concat());
    let texts = || prop::collection::vec("[a-z{}\"\\\\]([a-z {}\"\n]{0,9}[a-z])?", 0..3);
    (
        event,
        prop::collection::vec(any_opinion(), 0..6),
        prop::collection::vec(any_change(), 0..9),
        texts(),
        texts(),
        prop::option::of("\\PC{0,9}"),
        "\\PC{0,3}",
    )
        .prop_map(
            |(event, opinions, changes, contexts, messages, stop, bell)| {
                let mut answer = Answer::silent(event);
                for opinion in opinions {
                    let _ = answer.give(opinion);
                }
                for change in changes {
                    let _ = answer.change(change);
                }
                for context in contexts {
                    let _ = answer.add_context(context);
                }
                for message in messages {
                    answer.tell(message);
                }
                if let Some(reason) = stop {
                    answer.stop(reason);
                }
                answer.ring(&bell);
                answer
            },
        )
}

proptest! {
    #[test]
    fn no_answer_says_what_was_not_meant(answer in any_answer()) {
        let output = answer.render();
        prop_assert_eq!(output.is_silent(), answer.decision().is_none());
        prop_assert_eq!(output.exit, 0);
        if output.is_silent() {
            return Ok(());
        }
        let Ok(json @ Value::Object(_)) = serde_json::from_slice(&output.stdout) else {
            prop_assert_eq!(answer.event(), &EventName::PreCompact);
            prop_assert!(answer.stopped().is_none() && answer.opinion().is_none());
            return Ok(());
        };
        let own = &json["hookSpecificOutput"];
        prop_assert!(own.is_null() || own["hookEventName"] == answer.event().as_str());
        prop_assert_eq!(json["continue"] == false, answer.stopped().is_some());

        let allows = own["permissionDecision"] == "allow" || own["decision"]["behavior"] == "allow";
        prop_assert_eq!(allows, matches!(answer.opinion(), Some(Opinion::Allow { .. })));
        prop_assert!(json["decision"] != "approve");

        let said = [&own["permissionDecision"], &own["decision"]["behavior"], &own["action"], &json["decision"]];
        let said: Vec<_> = said.into_iter().filter(|value| !value.is_null()).collect();
        let meant: Vec<_> = answer.opinion().map(Opinion::name).into_iter().collect();
        prop_assert_eq!(said, meant);
    }

    #[test]
    fn another_reason_is_the_same_opinion(opinion in any_opinion(), text in "\\PC{1,9}") {
        let (name, reason) = (opinion.name(), opinion.reason().map(str::to_owned));
        let other = opinion.clone().with_reason(text.clone());
        prop_assert_eq!(other.name(), name);
        let takes_none = matches!(opinion, Opinion::Accept | Opinion::Cancel);
        prop_assert_eq!(other.reason(), (!takes_none).then_some(text.as_str()));
        prop_assert_eq!(other.with_reason(reason.unwrap_or_default()), opinion);
    }

    #[test]
    fn what_was_said_is_read_again(answer in any_answer()) {
        let output = answer.render();
        let again = Answer::read(answer.event().clone(), 0, &output.stdout, b"").unwrap();
        prop_assert_eq!(again.render(), output);
        prop_assert_eq!(again.decision().map(|said| said.0), answer.decision().map(|said| said.0));
        prop_assert_eq!(again.changes().len(), answer.changes().len());
    }
}
