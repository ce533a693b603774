//! Functions and their parameters, as far as a scan of the code finds them.

use super::Language;

/// A function's name and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Empty for one without a name.
    pub name: String,
    pub parameters: Vec<String>,
    /// Where its parameters begin.
    pub at: usize,
    /// A trait says what they are.
    pub prescribed: bool,
}

/// Nobody writes a longer one.
const LONGEST: usize = 4000;

/// What stands before a parenthesis with a block behind it, and is no function.
const NO_NAMES: [&str; 12] = [
    "if", "for", "while", "switch", "catch", "with", "match", "return", "await", "function", "new",
    "typeof",
];

pub fn signatures(code: &str, language: Language) -> Vec<Signature> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let Some(inside) = inside(&code[at..]) else {
            continue;
        };
        let before = code[..at].trim_end();
        let after = code[at + inside.len() + 2..].trim_start();
        if let Some(name) = name(before, inside, after, language) {
            found.push(Signature {
                name: name.to_owned(),
                parameters: parameters(inside, language),
                at,
                prescribed: language == Language::Rust && is_in_a_trait(&code[..at]),
            });
        }
    }
    if language == Language::Script {
        found.extend(bare_arrows(code));
    }
    found
}

/// What stands between a parenthesis and the one that closes it.
fn inside(code: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices().take(LONGEST) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&code[1..at]);
        }
    }
    None
}

/// The name of the function whose parameters these are; none if they are not.
fn name<'a>(before: &'a str, inside: &str, after: &str, language: Language) -> Option<&'a str> {
    // What a generic function is generic over stands between.
    let bare = without_generics(before);
    let (rest, word) = last_word(bare);
    let keyword = last_word(rest.trim_end()).1;
    match language {
        Language::Rust => (keyword == "fn").then_some(word),
        Language::Python => (keyword == "def").then_some(word),
        _ if keyword == "function" => Some(word),
        _ if after.starts_with("=>") => Some(assigned(before)),
        _ if word == "function" => Some(assigned(rest.trim_end())),
        _ if word.is_empty() || NO_NAMES.contains(&word) => None,
        _ if rest.trim_end().ends_with('.') || keyword == "new" => None,
        _ if after.starts_with('{') => Some(word),
        // Else it is a call in `a ? f(b) : c`.
        _ if after.starts_with(':') && inside.contains(':') => Some(word),
        _ => None,
    }
}

/// The name that `const f = async` gives to what follows; of a callback there is none.
fn assigned(before: &str) -> &str {
    let before = before.strip_suffix("async").unwrap_or(before).trim_end();
    match before.strip_suffix(['=', ':']) {
        Some(before) if !before.ends_with(['=', '!', '<', '>']) => last_word(before.trim_end()).1,
        _ => "",
    }
}

fn without_generics(before: &str) -> &str {
    if !before.ends_with('>') {
        return before;
    }
    let mut depth = 0_usize;
    let mut arrow = false;
    for (at, c) in before.char_indices().rev().take(LONGEST) {
        match c {
            '>' => depth += 1,
            '<' => depth = depth.saturating_sub(1),
            // That of `Fn(A) -> B` closes nothing.
            '-' | '=' if arrow => depth = depth.saturating_sub(1),
            _ => {}
        }
        arrow = c == '>';
        if depth == 0 {
            return before[..at].trim_end();
        }
    }
    before
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#')
}

/// A text, and the word that it ends with.
fn last_word(text: &str) -> (&str, &str) {
    text.split_at(text.trim_end_matches(is_word).len())
}

/// The names of the parameters. What is taken apart has none.
fn parameters(inside: &str, language: Language) -> Vec<String> {
    let named = |parameter: &str| {
        let name = parameter.split([':', '=', '?']).next().unwrap_or_default();
        let name = name.trim().trim_start_matches(['.', '*', '&']);
        // `mut`, `private readonly`: the name comes last.
        let (before, word) = last_word(name.trim_end());
        let plain = before
            .chars()
            .all(|c| is_word(c) || c.is_whitespace() || matches!(c, '&' | '\'' | '@' | '(' | ')'));
        let is_receiver = word == "self" && language != Language::Script;
        (plain && !word.is_empty() && !is_receiver).then(|| word.to_owned())
    };
    apart(inside).into_iter().filter_map(named).collect()
}

/// The parameters, split at the commas that are in no brackets.
fn apart(inside: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let mut last = ' ';
    for (at, c) in inside.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if matches!(last, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        last = c;
    }
    parts.push(&inside[start..]);
    parts
}

/// `x => …`
fn bare_arrows(code: &str) -> Vec<Signature> {
    let arrow = |(at, _): (usize, &str)| {
        let (before, word) = last_word(code[..at].trim_end());
        (!word.is_empty()).then(|| Signature {
            name: assigned(before.trim_end()).to_owned(),
            parameters: vec![word.to_owned()],
            at: before.len(),
            prescribed: false,
        })
    };
    code.match_indices("=>").filter_map(arrow).collect()
}

/// Whether the nearest `impl` above is one of a trait.
fn is_in_a_trait(above: &str) -> bool {
    let heads = above.match_indices("impl").filter(|(at, word)| {
        let alone = |c: Option<char>| c.is_none_or(|c| !is_word(c));
        let line = above[..*at].rfind('\n').map_or(0, |end| end + 1);
        let begins = matches!(above[line..*at].trim(), "" | "unsafe");
        begins && alone(above[at + word.len()..].chars().next())
    });
    let Some((at, _)) = heads.last() else {
        return false;
    };
    let head = above[at..].split('{').next().unwrap_or_default();
    head.contains(" for ") && !head.contains("for<")
}
