//! Which hooks of a list a person means.

use std::collections::BTreeSet;

/// `1 3-5`, `all` or `none`.
pub fn numbers(answer: &str, most: usize) -> Option<BTreeSet<usize>> {
    match &*answer.to_lowercase() {
        "" | "none" | "no" | "n" => return Some(BTreeSet::new()),
        "all" | "a" => return Some((1..=most).collect()),
        _ => {}
    }
    let mut numbers = BTreeSet::new();
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first == 0 || first > last || last > most {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let read = |answer: &str| numbers(answer, 5).map(|all| all.into_iter().collect::<Vec<_>>());
        assert_eq!(read(""), Some(vec![]));
        assert_eq!(read("none"), Some(vec![]));
        assert_eq!(read("All"), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(read("1, 3-5 3"), Some(vec![1, 3, 4, 5]));
        for wrong in [
            "0",
            "6",
            "2-1",
            "1-6",
            "x",
            "1-",
            "-1",
            "99999999999999999999",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
