//! What holds for whatever hooks say.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

fn any_event() -> impl Strategy<Value = EventName> {
    prop::sample::select([&EventName::ALL[..], &["CoffeeReady".into()]].concat())
}

fn any_opinion() -> impl Strategy<Value = Opinion> {
    "[a-z ]{0,6}".prop_flat_map(|reason| {
        let because = reason.clone();
        let with = |opinion: Opinion| opinion.with_reason(reason.clone());
        let empty = String::new;
        prop::sample::select(vec![
            with(Opinion::Deny { reason: empty() }),
            with(Opinion::Ask { reason: empty() }),
            with(Opinion::Defer { reason: empty() }),
            Opinion::Allow { because },
            with(Opinion::Block { reason: empty() }),
            Opinion::Accept,
            with(Opinion::Decline { reason: empty() }),
            Opinion::Cancel,
        ])
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    ("[a-z]{0,6}", any::<bool>()).prop_flat_map(|(text, flag)| {
        let object = Map::from_iter([("command".to_owned(), json!(text))]);
        prop::sample::select(vec![
            Change::Input(object.clone()),
            Change::ToolOutput(json!(text)),
            Change::SessionTitle(text.clone()),
            Change::SuppressPrompt(flag),
            Change::WatchPaths(vec![text.clone()]),
            Change::Display(text),
            Change::Retry(flag),
            Change::Content(object),
            Change::Interrupt(flag),
        ])
    })
}

/// Any answer to the event: what it does not take is refused on the way.
fn any_answer(event: EventName) -> impl Strategy<Value = Answer> {
    let texts = || prop::collection::vec("[a-z{}\"ö]{1,6}(\n[a-z]{1,3})?", 0..3);
    (
        prop::collection::vec(any_opinion(), 0..6),
        prop::collection::vec(any_change(), 0..4),
        texts(),
        texts(),
        prop::option::weighted(0.2, "[a-z]{0,6}"),
    )
        .prop_map(move |(opinions, changes, contexts, messages, stop)| {
            let mut answer = Answer::silent(event.clone());
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
            answer
        })
}

fn any_case() -> impl Strategy<Value = (EventName, Answer, Vec<Said>)> {
    any_event().prop_flat_map(|event| {
        let answers = prop::collection::vec(any_answer(event.clone()), 0..5);
        (Just(event.clone()), any_answer(event), answers).prop_map(|(event, own, answers)| {
            let said = |(n, answer)| Said {
                hook: format!("hook-{n}"),
                answer,
            };
            (
                event,
                own,
                answers.into_iter().enumerate().map(said).collect(),
            )
        })
    })
}

/// As a caller does who hears the answers in the order in which programs end.
fn in_declared_order(mut heard: Vec<(usize, Said)>) -> Vec<Said> {
    heard.sort_by_key(|(place, _)| *place);
    heard.into_iter().map(|(_, said)| said).collect()
}

fn opinions(own: &Answer, said: &[Said]) -> Vec<Opinion> {
    let all = std::iter::once(own).chain(said.iter().map(|said| &said.answer));
    all.filter_map(|answer| answer.opinion().cloned()).collect()
}

proptest! {
    #[test]
    fn the_order_in_which_hooks_end_changes_nothing(
        ((event, own, said), heard) in any_case().prop_flat_map(|case| {
            let heard: Vec<(usize, Said)> = case.2.iter().cloned().enumerate().collect();
            (Just(case), Just(heard).prop_shuffle())
        }),
    ) {
        let again = merge(&event, own.clone(), &in_declared_order(heard));
        prop_assert_eq!(merge(&event, own, &said), again);
    }

    #[test]
    fn a_no_always_wins((event, own, said) in any_case()) {
        let refuses = |opinion: &Opinion| matches!(opinion.name(), "deny" | "block" | "decline");
        let refused = opinions(&own, &said).iter().any(refuses);
        let merged = merge(&event, own, &said);
        prop_assert_eq!(merged.answer.opinion().is_some_and(refuses), refused);
    }

    #[test]
    fn nothing_is_allowed_that_nobody_allowed((event, own, said) in any_case()) {
        let all = opinions(&own, &said);
        let merged = merge(&event, own, &said);
        match merged.answer.opinion() {
            None => prop_assert!(all.is_empty()),
            Some(opinion) => {
                prop_assert!(all.iter().any(|one| one.name() == opinion.name()));
                if matches!(opinion, Opinion::Allow { .. } | Opinion::Accept) {
                    prop_assert!(all.iter().all(|one| one.name() == opinion.name()));
                }
            }
        }
    }

    #[test]
    fn silence_stays_silence(event in any_event(), hooks in 0_usize..4) {
        let silent = Answer::silent(event.clone());
        let said = Said { hook: "h".into(), answer: silent.clone() };
        let merged = merge(&event, silent, &vec![said; hooks]);
        prop_assert!(merged.answer.render().is_silent());
        prop_assert_eq!(merged.by, None);
    }

    #[test]
    fn an_end_of_the_turn_always_wins((event, own, said) in any_case()) {
        let ends = own.stopped().is_some() || said.iter().any(|said| said.answer.stopped().is_some());
        let merged = merge(&event, own, &said);
        prop_assert_eq!(merged.answer.stopped().is_some(), ends);
    }

    #[test]
    fn one_voice_alone_is_as_it_was((event, own, _) in any_case()) {
        let silent = Said { hook: "h".into(), answer: Answer::silent(event.clone()) };
        let merged = merge(&event, own.clone(), &[silent]);
        prop_assert_eq!(merged.answer.render(), own.render());
        prop_assert_eq!(merged.by, None);
        let again = merge(&event, merged.answer.clone(), &[]);
        prop_assert_eq!(again.answer, merged.answer);
    }

    #[test]
    fn what_was_merged_is_an_answer_that_claude_code_takes((event, own, said) in any_case()) {
        let merged = merge(&event, own, &said).answer;
        let output = merged.render();
        let again = Answer::read(event, 0, &output.stdout, b"").unwrap();
        prop_assert_eq!(again.render(), output.clone());
        let name = |answer: &Answer| answer.decision().map(|said| said.0);
        prop_assert_eq!(name(&again), name(&merged));
        let is_object = |json: &Value| json.is_object();
        let json = serde_json::from_slice(&output.stdout).ok();
        let plain = merged.event() == &EventName::PreCompact || output.is_silent();
        prop_assert!(plain || json.as_ref().is_some_and(is_object));
    }

    #[test]
    fn every_hook_whose_word_counts_is_named((event, own, said) in any_case()) {
        let merged = merge(&event, own, &said);
        let told = merged.answer.contexts().join("\n") + &merged.answer.messages().join("\n");
        for Said { hook, answer } in &said {
            let speaks = !answer.contexts().is_empty() || !answer.messages().is_empty();
            let named = format!("{hook}: ");
            prop_assert!(!speaks || told.contains(&named));
            let wins = answer.opinion().map(Opinion::name) == merged.answer.opinion().map(Opinion::name);
            let reason = merged.answer.opinion().and_then(Opinion::reason);
            if let (true, Some(reason)) = (wins && answer.opinion().is_some(), reason) {
                prop_assert!(reason.contains(hook.as_str()));
            }
        }
    }

    #[test]
    fn what_was_cut_fits_and_decides_the_same((event, own, said) in any_case(), limit in 40_usize..90) {
        let merged = merge(&event, own, &said).answer;
        let (short, file) = fit(merged.clone(), limit, || PathBuf::from("/f"));
        let chars = |texts: &[String]| texts.join("\n").chars().count();
        prop_assert_eq!(short.opinion().map(Opinion::name), merged.opinion().map(Opinion::name));
        prop_assert_eq!(short.changes(), merged.changes());
        prop_assert_eq!(short.stopped().is_some(), merged.stopped().is_some());
        prop_assert_eq!(short.contexts().len(), merged.contexts().len());
        if file.is_none() {
            prop_assert_eq!(&short, &merged);
        }
        // Each that is cut still has to name the file.
        let names = 31 * (1 + merged.contexts().len().max(merged.messages().len()));
        prop_assert!(chars(short.contexts()) <= limit.max(names));
        prop_assert!(chars(short.messages()) <= limit.max(names));
        if let Some((_, whole)) = file {
            let long = [merged.contexts().join("\n"), merged.messages().join("\n")];
            for text in long.iter().filter(|text| text.chars().count() > limit) {
                prop_assert!(whole.contains(text));
            }
        }
    }
}
