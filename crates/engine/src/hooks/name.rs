//! Finds the hook that a typed name means: an exact name, then a part of a name, then the nearest by typing errors.

/// The names that a typed name fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match<'a> {
    One(&'a str),
    /// Several names contain the typed one.
    Several(Vec<&'a str>),
    /// No name contains the typed one. `nearest` is for a "Did you mean" only; nothing is done with it.
    None {
        nearest: Option<&'a str>,
    },
}

/// Splits typed text into names. Spaces and commas separate them; quotes around a name are dropped.
pub fn words(typed: &str) -> Vec<&str> {
    let words = typed.split(|c: char| c.is_whitespace() || c == ',');
    let words = words.map(|word| word.trim_matches(['\'', '"', '`', '“', '”', '‘', '’']));
    words.filter(|word| !word.is_empty()).collect()
}

/// The length from which a typed word may be a plural.
const PLURAL: usize = 4;

/// Finds the hook that is meant, in any case, by its name or a part of it. The part may be in the plural (`types`
/// of `typecheck-changed`). An empty name means no hook.
pub fn find<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Match<'a> {
    let names: Vec<&str> = names.into_iter().collect();
    let typed = typed.to_lowercase();
    if let Some(exact) = names.iter().find(|name| name.to_lowercase() == typed) {
        return Match::One(exact);
    }
    let mut parts = having(&typed, &names);
    if parts.is_empty()
        && typed.len() >= PLURAL
        && let Some(singular) = typed.strip_suffix('s')
    {
        parts = having(singular, &names);
    }
    match parts[..] {
        [] => Match::None {
            nearest: nearest(&typed, &names),
        },
        [one] => Match::One(one),
        _ => Match::Several(parts),
    }
}

/// Returns the names that contain a part, which is in lower case.
fn having<'a>(part: &str, names: &[&'a str]) -> Vec<&'a str> {
    if part.is_empty() {
        return Vec::new();
    }
    let names = names.iter().copied();
    names
        .filter(|name| name.to_lowercase().contains(part))
        .collect()
}

/// Returns the name that takes the fewest typing errors, if they are few. A user may also mistype a part of a name,
/// so each run of its words counts too.
fn nearest<'a>(typed: &str, names: &[&'a str]) -> Option<&'a str> {
    let few = typed.chars().count().div_ceil(3);
    let counted = names.iter().map(|name| (typing_errors(typed, name), *name));
    let ((part, _), name) = counted.min_by_key(|(errors, _)| *errors)?;
    (part <= few && part < typed.chars().count()).then_some(name)
}

/// Counts the errors to the nearest run of words in a name, and to the whole name.
fn typing_errors(typed: &str, name: &str) -> (usize, usize) {
    let name = name.to_lowercase();
    let whole = strsim::damerau_levenshtein(typed, &name);
    let parts = runs_of_words(&name).map(|part| strsim::damerau_levenshtein(typed, part));
    (parts.min().unwrap_or(whole).min(whole), whole)
}

/// Splits `a-b-c` into `a`, `a-b`, `a-b-c`, `b`, `b-c`, `c`.
fn runs_of_words(name: &str) -> impl Iterator<Item = &str> {
    let gaps = name.match_indices(['-', '_', '.']).map(|(at, _)| at);
    let ends: Vec<usize> = gaps.chain([name.len()]).collect();
    let begins: Vec<usize> = [0]
        .into_iter()
        .chain(ends.iter().map(|end| end + 1))
        .collect();
    begins.into_iter().flat_map(move |begin| {
        let ends = ends.clone().into_iter().filter(move |end| *end >= begin);
        ends.map(move |end| &name[begin..end])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The names in the seed's examples.
    const HOOKS: [&str; 3] = ["typecheck-changed", "lint-changed", "check-todos"];

    #[test]
    fn exact_matches_are_preferred_over_partial_matches() {
        assert_eq!(
            find("typecheck-changed", HOOKS),
            Match::One("typecheck-changed")
        );
        assert_eq!(find("test", ["test-changed", "test"]), Match::One("test"));
    }

    #[test]
    fn a_single_partial_match_is_found() {
        assert_eq!(find("typecheck", HOOKS), Match::One("typecheck-changed"));
        assert_eq!(find("todos", HOOKS), Match::One("check-todos"));
        assert_eq!(find("types", HOOKS), Match::One("typecheck-changed"));
        let both = vec!["typecheck-changed", "check-todos"];
        assert_eq!(find("Checks", HOOKS), Match::Several(both));
        assert_eq!(find("lis", HOOKS), Match::None { nearest: None });
    }

    #[test]
    fn capital_letters_quotes_and_commas_make_no_difference() {
        assert_eq!(find("TypeCheck", HOOKS), Match::One("typecheck-changed"));
        assert_eq!(find("LINT-changed", HOOKS), Match::One("lint-changed"));
        for typed in [
            "lint types",
            "lint, types,",
            "\"lint\" 'types'",
            "“lint types”",
        ] {
            assert_eq!(words(typed), ["lint", "types"], "{typed}");
        }
        assert_eq!(words(" , \"\" "), Vec::<&str>::new());
    }

    #[test]
    fn multiple_matches_are_all_told() {
        let both = vec!["typecheck-changed", "check-todos"];
        assert_eq!(find("check", HOOKS), Match::Several(both));
    }

    #[test]
    fn typing_errors_lead_to_the_nearest_and_never_to_an_act() {
        let nearest = |typed| match find(typed, HOOKS) {
            Match::None { nearest } => nearest,
            other => panic!("{typed}: {other:?}"),
        };
        assert_eq!(nearest("typechk"), Some("typecheck-changed"));
        assert_eq!(nearest("TypeChek"), Some("typecheck-changed"));
        assert_eq!(nearest("lnit-changed"), Some("lint-changed"));
        assert_eq!(nearest("tdos"), Some("check-todos"));
        assert_eq!(nearest("house-style"), None);
        assert_eq!(nearest("x"), None);
        assert_eq!(nearest(""), None);
        assert_eq!(find("lint", []), Match::None { nearest: None });
    }

    #[test]
    fn a_name_has_runs_of_words() {
        let runs: Vec<&str> = runs_of_words("a-b_c").collect();
        assert_eq!(runs, ["a", "a-b", "a-b_c", "b", "b_c", "c"]);
    }

    proptest! {
        #[test]
        fn a_found_name_contains_the_typed_one(names in prop::collection::vec("[a-c-]{0,6}", 0..6), typed in "\\PC{0,3}|[a-c-]{0,4}") {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let typed = typed.to_lowercase();
            let with_it = names.iter().filter(|name| name.contains(&typed)).count();
            match find(&typed, names.clone()) {
                Match::One(name) => prop_assert!(name == typed || with_it == 1 && name.contains(&typed)),
                Match::Several(found) => {
                    prop_assert!(!names.contains(&&*typed) && found.len() > 1);
                    prop_assert_eq!(found.len(), with_it);
                }
                Match::None { nearest } => {
                    prop_assert!(with_it == 0 || typed.is_empty());
                    prop_assert!(nearest.is_none_or(|name| names.contains(&name)));
                }
            }
        }

        #[test]
        fn a_whole_name_is_never_ambiguous(names in prop::collection::vec("[ab-]{1,4}", 1..6), which: prop::sample::Index) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let name = names[which.index(names.len())];
            prop_assert_eq!(find(name, names), Match::One(name));
        }
    }
}
