//! A stranger's file is read before anybody trusts it: it must not cost more than its length.

use super::*;
use crate::config::hook;

fn layer_of(text: &str) -> Layer {
    layer(Level::Project, text)
}

#[test]
fn the_first_256_hooks_of_a_file_are_listed_and_the_rest_is_told() {
    // Names that sort the other way round than they stand there.
    let table = |n: usize| format!("[hooks.h{:05}]\non = \"Stop\"\nrun = \"x\"\n", 20_000 - n);
    let text: String = (0..20_000).map(table).collect();
    let layer = layer_of(&text);
    let listed = hook::read(&[], &layer.tables, &hook::Around::default());
    assert_eq!(listed.hooks.len(), 256);
    assert_eq!(listed.hooks[0].name, "h20000");
    assert_eq!(listed.hooks[255].name, "h19745");
    let told: Vec<String> = layer.warnings.iter().map(ToString::to_string).collect();
    let expected = "/project.toml:769:8: hooks: a file may have 256; this one and all that follow are left out";
    assert_eq!(told, [expected]);
    let fits: String = (0..256).map(table).collect();
    assert_eq!(layer_of(&fits).tables.len(), 256);
}

#[test]
fn no_line_and_no_number_of_mistakes_makes_it_long() {
    let inline: String = (0..20_000)
        .map(|n| format!("h{n} = {{ x = 1 }}, "))
        .collect();
    let layer = layer_of(&format!("hooks = {{ {inline} y = {{}} }}"));
    assert_eq!(layer.tables.len(), 256);
    let problems = layer.warnings;
    assert_eq!(problems.len(), 100);
    assert!(problems[0].message.contains("left out"), "{}", problems[0]);
    let text = |problem: &Problem| problem.at.as_ref().unwrap().text.len();
    assert!(problems.iter().all(|problem| text(problem) <= 1000));

    let unknown: String = (0..20_000).map(|n| format!("k{n} = 1\n")).collect();
    assert_eq!(layer_of(&unknown).warnings.len(), 100);
    let wrong: String = (0..20_000).map(|n| format!("p{n} = 1\n")).collect();
    let wrong = format!("[mask.patterns]\n{wrong}");
    assert_eq!(told(&wrong).len(), 100);
    let events = "\"Stop\", ".repeat(101);
    let text = format!("[hooks.x]\nrun = \"x\"\non = [{events}]\n");
    assert_eq!(
        told(&text),
        ["/user.toml:3:6: hooks.x.on: expected at most 100 texts"]
    );
}
