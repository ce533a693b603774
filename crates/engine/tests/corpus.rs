//! The default pack against every call of `tests/corpus`.

use std::collections::BTreeMap;
use std::path::Path;

use becket_engine::config::ConfigCache;
use becket_engine::guard::rule::Say;
use becket_engine::guard::sight::{Around, judge_call};
use becket_tests::corpus::{Call, calls};
use becket_wire::{Head, Place};

const HOME: &str = "/home/dev";

/// The guard that stops this call.
fn stopped(call: &Call, around: &Around<'_>) -> Option<String> {
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
    let mut wrong: BTreeMap<(bool, &str), Vec<String>> = BTreeMap::new();
    for call in &calls {
        let rule = stopped(call, &around);
        if rule.is_some() != call.stop {
            let by = rule.map_or_else(String::new, |rule| format!("  [{rule}]"));
            let line = format!("  {}{by}", call.text());
            let group = wrong.entry((call.stop, call.group.as_str()));
            group.or_default().push(line);
        }
    }
    let rate = |stop: bool| {
        let all = calls.iter().filter(|call| call.stop == stop).count();
        let missed = wrong.iter().filter(|((it, _), _)| *it == stop);
        let missed: usize = missed.map(|(_, lines)| lines.len()).sum();
        assert!(all > 200, "only {all} calls");
        format!(
            "{missed} of {all} ({:.1} %)",
            missed as f64 * 100.0 / all as f64
        )
    };
    let (harmless, dangerous) = (rate(false), rate(true));
    let groups = wrong.iter().map(|((stop, group), lines)| {
        let what = if *stop { "passes" } else { "stopped" };
        format!("{what}, {group}:\n{}", lines.join("\n"))
    });
    let groups: Vec<String> = groups.collect();
    assert!(
        wrong.is_empty(),
        "dangerous calls that pass: {dangerous}; harmless ones that are stopped: {harmless}\n{}",
        groups.join("\n")
    );
}
