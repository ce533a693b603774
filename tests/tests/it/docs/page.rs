//! The pages of the documentation, and checks of their links and words.

use std::fs;
use std::path::{Path, PathBuf};

/// One page.
pub struct Page {
    /// The path in the project.
    pub name: String,
    pub text: String,
}

/// Returns the folder of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn page(name: &str) -> Page {
    let text = fs::read_to_string(root().join(name));
    Page {
        name: name.to_owned(),
        text: text.unwrap_or_else(|why| panic!("read {name}: {why}")),
    }
}

/// Returns README.md, CONTRIBUTING.md and everything in docs/.
pub fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("{folder}/{name}");
            if path.is_dir() {
                folders.push(name);
            } else if name.ends_with(".md") {
                names.push(name);
            }
        }
    }
    names.sort();
    names.iter().map(|name| page(name)).collect()
}

impl Page {
    /// Returns the lines of the section under this heading, until the next heading of the same rank.
    pub fn section(&self, heading: &str) -> Vec<&str> {
        let rank = heading.split(' ').next().unwrap_or_default().to_owned() + " ";
        let mut lines = self.text.lines().skip_while(|line| *line != heading);
        assert!(lines.next().is_some(), "{} has no `{heading}`", self.name);
        lines.take_while(|line| !line.starts_with(&rank)).collect()
    }
}

/// Returns the rows of the tables in these lines, cell by cell, without heads.
pub fn rows(lines: &[&str]) -> Vec<Vec<String>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_start_matches('|').trim_end_matches('|');
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let is_rule = |line: &str| line.starts_with("|---");
    lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with('|') && !is_rule(line))
        .filter(|(nth, _)| !lines.get(nth + 1).is_some_and(|next| is_rule(next)))
        .map(|(_, line)| cells(line))
        .collect()
}

/// Returns every text between two marks.
fn between<'a>(text: &'a str, open: &str, close: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(open) {
        let Some((inside, next)) = after.split_once(close) else {
            break;
        };
        found.push(inside);
        rest = next;
    }
    found
}

#[test]
fn every_link_has_a_target() {
    let mut all = pages();
    all.extend(["ARCHITECTURE.md", "CHANGELOG.md"].map(page));
    let mut dead = Vec::new();
    let mut followed = 0;
    for Page { name, text } in &all {
        let folder = root().join(name);
        let folder = folder.parent().expect("a folder");
        let links = between(text, "](", ")").into_iter();
        for link in links.filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() {
                root().join(name)
            } else {
                folder.join(file)
            };
            let is_there = fs::read_to_string(&file).is_ok_and(|text| has(&text, anchor));
            if !is_there {
                dead.push(format!("{name}: {link}"));
            }
            followed += 1;
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
    assert!(followed > 15, "only {followed} links");
}

#[test]
fn pages_are_in_plain_words_and_the_readme_is_short() {
    for Page { name, text } in pages() {
        let text = text.to_lowercase();
        for word in ["whoever", "whom", "nobody", "somebody"] {
            let mut words = text.split(|c: char| !c.is_alphabetic());
            assert!(words.all(|it| it != word), "{name}: {word}");
        }
    }
    let words = shown(&page("README.md").text).split_whitespace().count();
    assert!(words <= 950, "README.md has {words} words");
}

/// Removes the HTML comments of a page, which hold commands that only test it.
fn shown(text: &str) -> String {
    let mut parts = text.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |page, part| {
        page + part.split_once("-->").map_or("", |(_, rest)| rest)
    })
}

/// Returns true if a page has a heading for this anchor.
fn has(text: &str, anchor: &str) -> bool {
    let anchors = text.lines().filter(|line| line.starts_with('#'));
    let mut anchors = anchors.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
        kept.collect::<String>().replace(' ', "-")
    });
    anchor.is_empty() || anchors.any(|found| found == anchor)
}

#[test]
fn every_named_file_exists() {
    let mut missing = Vec::new();
    let mut looked = 0;
    for Page { name, text } in ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(page) {
        let ends = [".rs", ".sql", ".toml", ".md", "/"];
        let is_path = |word: &&str| {
            word.contains('/')
                && !word.contains(['*', ' ', '<', '~', '…'])
                && ends.iter().any(|end| word.ends_with(end))
        };
        for path in between(&text, "`", "`").into_iter().filter(is_path) {
            let places = [root().join(path), root().join("crates").join(path)];
            if path.starts_with('/') || is_of_the_home(path) {
                continue;
            }
            if !places.iter().any(|place| place.exists()) {
                missing.push(format!("{name}: {path}"));
            }
            looked += 1;
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(looked > 30, "only {looked} paths");
}

/// Returns true for paths in the becket home and in other projects.
fn is_of_the_home(path: &str) -> bool {
    [
        "spool/",
        "run/",
        "log/",
        "sessions/",
        "backup/",
        ".becket/",
        ".claude/",
    ]
    .iter()
    .any(|folder| path.starts_with(folder))
}
