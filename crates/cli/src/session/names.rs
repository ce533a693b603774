//! The shortest names that tell sessions and projects apart.

use std::collections::{BTreeSet, HashMap};

use becket_wire::session::SessionRow;

use crate::ui::text::one_line;

/// Shorter beginnings of an id say nothing to a person.
const SHORTEST: usize = 8;

/// A beginning of each id that no other id has, at least eight characters.
pub fn ids(rows: &[SessionRow]) -> HashMap<&str, String> {
    let all: BTreeSet<&str> = rows.iter().map(|row| &*row.session_id).collect();
    let all: Vec<&str> = all.into_iter().collect();
    let common = |one: &str, other: &str| {
        let same = one.chars().zip(other.chars());
        same.take_while(|(a, b)| a == b).count()
    };
    let short = |(nth, id): (usize, &&str)| {
        // Sorted, so only the neighbours can have more in common.
        let before = nth.checked_sub(1).map_or(0, |nth| common(id, all[nth]));
        let after = all.get(nth + 1).map_or(0, |next| common(id, next));
        let length = (before.max(after) + 1).max(SHORTEST);
        one_line(&id.chars().take(length).collect::<String>())
    };
    let names = all.iter().enumerate();
    names.map(|entry| (*entry.1, short(entry))).collect()
}

/// The last part of each project's path, with as many of those before it as tell it from another.
pub fn projects<'p>(paths: impl Iterator<Item = &'p str>) -> HashMap<&'p str, String> {
    let all: BTreeSet<&str> = paths.collect();
    let all: Vec<&str> = all.into_iter().collect();
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut left = all;
    let mut parts = 1;
    while !left.is_empty() {
        let mut of_name: HashMap<String, Vec<&str>> = HashMap::new();
        for path in left.drain(..) {
            of_name.entry(tail(path, parts)).or_default().push(path);
        }
        for (name, paths) in of_name {
            let told_apart = paths.len() == 1 || paths.iter().all(|path| depth(path) <= parts);
            for path in paths {
                if told_apart {
                    names.insert(path, one_line(&name));
                } else {
                    left.push(path);
                }
            }
        }
        parts += 1;
    }
    names
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

fn depth(path: &str) -> usize {
    components(path).len()
}

fn tail(path: &str, parts: usize) -> String {
    let all = components(path);
    match all.len() {
        0 => "/".to_owned(),
        length => all[length.saturating_sub(parts)..].join("/"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_ids(ids: &[&str]) -> Vec<SessionRow> {
        let row = |id: &&str| SessionRow {
            session_id: (*id).to_owned(),
            ..SessionRow::default()
        };
        ids.iter().map(row).collect()
    }

    #[test]
    fn ids_are_as_short_as_they_can_be() {
        let rows = with_ids(&["aaaaaaaa-1111", "aaaaaaaa-1222", "bbbbbbbb-1", "c"]);
        let ids = ids(&rows);
        assert_eq!(ids["aaaaaaaa-1111"], "aaaaaaaa-11");
        assert_eq!(ids["aaaaaaaa-1222"], "aaaaaaaa-12");
        assert_eq!(ids["bbbbbbbb-1"], "bbbbbbbb");
        assert_eq!(ids["c"], "c");
    }

    #[test]
    fn projects_of_the_same_name_are_told_apart() {
        let paths = ["/w/a/api", "/w/b/api", "/w/web", "/", "/x/api", "/a/api"];
        let names = projects(paths.into_iter());
        assert_eq!(names["/w/web"], "web");
        assert_eq!(names["/"], "/");
        assert_eq!(names["/w/a/api"], "w/a/api");
        assert_eq!(names["/a/api"], "a/api");
        assert_eq!(names["/w/b/api"], "b/api");
        assert_eq!(names["/x/api"], "x/api");
    }

    proptest! {
        #[test]
        fn a_short_id_begins_one_id_only(ids in proptest::collection::btree_set("[ab]{1,12}", 1..12)) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let rows = with_ids(&ids);
            for (id, short) in super::ids(&rows) {
                prop_assert!(id.starts_with(&short));
                let fits = ids.iter().filter(|other| other.starts_with(&short)).count();
                // An id that begins another one is known by being whole.
                prop_assert!(fits == 1 || short == id);
            }
        }

        #[test]
        fn each_project_has_a_name_of_its_own(paths in proptest::collection::btree_set("(/[ab]{1,2}){0,4}", 1..10)) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let names = projects(paths.iter().copied());
            let different: BTreeSet<&String> = names.values().collect();
            prop_assert_eq!(different.len(), paths.len());
            for (path, name) in &names {
                prop_assert!(path.ends_with(name.as_str()) || name == "/");
            }
        }
    }
}
