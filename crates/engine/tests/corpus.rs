//! Judges every call of `tests/corpus` with the default guards.

use std::collections::BTreeMap;
use std::path::Path;

use becket_engine::config::ConfigCache;
use becket_engine::guard::rule::Say;
use becket_engine::guard::sight::{Around, judge_call};
use becket_tests::corpus::{CorpusCall, calls};
use becket_wire::{Head, Place};

const HOME: &str = "/home/dev";

/// Returns the guard that stops this call.
fn stopped_by(call: &CorpusCall, around: &Around<'_>) -> Option<String> {
    let event = call.event("s", around.home, 0).to_string();
    let head = Head::read(event.as_bytes()).expect("an event");
    let judged = judge_call(&call.tool, &call.input, &head, around);
    let strictest = judged.found.first()?;
    (strictest.say > Say::Warn).then(|| strictest.rule.id.clone())
}

#[test]
fn every_call_of_the_corpus_is_judged_as_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = ConfigCache::new(&Place::new(folder.path()), [7; 32], false);
    let (config, _) = cache.current(None);
    let home = Path::new(HOME);
    let around = Around {
        rules: &config.guards,
        place: &Place::new(home.join(".becket")),
        home,
        project: &home.join("app"),
        registered_by_settings: true,
        stalled: false,
    };
    let calls = calls(home);
    // Failure lines by expectation and topic.
    let mut wrong: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    for call in &calls {
        let guard = stopped_by(call, &around);
        if guard.is_some() != call.stop {
            let by = guard.map_or_else(String::new, |guard| format!("  [{guard}]"));
            let lines = wrong.entry((call.stop, call.topic.as_str())).or_default();
            lines.push(format!("  {}{by}", call.text()));
        }
    }
    for stop in [true, false] {
        let count = calls.iter().filter(|call| call.stop == stop).count();
        assert!(count > 200, "only {count} calls");
    }
    let topics = wrong.iter().map(|((stop, topic), lines)| {
        let result = if *stop { "passed" } else { "stopped" };
        format!("wrongly {result}, {topic}:\n{}", lines.join("\n"))
    });
    let topics: Vec<String> = topics.collect();
    assert!(
        wrong.is_empty(),
        "{} of {} calls judged wrong\n{}",
        wrong.values().map(Vec::len).sum::<usize>(),
        calls.len(),
        topics.join("\n")
    );
}
