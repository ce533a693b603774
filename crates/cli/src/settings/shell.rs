//! A line for the shell from words, and words from a line that is nothing but words.

/// The words as one line, quoted where they have to be.
pub fn line(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The words of a line; none if the shell would do more with it than split it.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.trim().chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '$' | '`' | '\\' => return None,
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(characters.next()?),
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '$' | '`' | '\n' | '*' | '?' | '#' => {
                return None;
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_a_line_of_words_is_understood() {
        let split = |line| words(line).map(|words| words.join("|"));
        assert_eq!(
            split(" a  'b c' \"d e\"f \\' ").as_deref(),
            Some("a|b c|d ef|'")
        );
        for more in [
            "a | b", "a; b", "$HOME/x", "a \"$b\"", "a 'b", "a > b", "~/*", "a\\",
        ] {
            assert_eq!(split(more), None, "{more}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_into_a_line_comes_out(words in proptest::collection::vec(".{0,12}", 0..4)) {
            let given: Vec<&str> = words.iter().map(String::as_str).collect();
            prop_assert_eq!(super::words(&line(&given)), Some(words.clone()));
        }
    }
}
