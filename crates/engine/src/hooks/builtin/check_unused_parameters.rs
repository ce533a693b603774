//! `check-unused-parameters`: tells Claude when it renames a parameter to `_x` instead of removing it.

use std::collections::HashMap;

use becket_wire::Output;

use super::edit::{Edited, feedback};
use super::source::{Syntax, code};
use super::{BuiltIn, BuiltinCall, ON_EDIT};

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-unused-parameters",
    description: "Tells Claude when it renames an unused parameter to _name instead of removing it",
    run,
    ..ON_EDIT
};

/// The number of parameters that are listed.
const MOST_LISTED: usize = 10;

fn run(call: &BuiltinCall<'_>) -> Output {
    let Some(edited) = Edited::read(call.payload, call.cwd) else {
        return Output::silence();
    };
    if !matches!(
        edited.syntax,
        Syntax::Script | Syntax::Rust | Syntax::Python
    ) {
        return Output::silence();
    }
    let (before, after) = edited.ends();
    let (before, after) = (code(&before, edited.syntax), code(&after, edited.syntax));
    let found = renamed(&before, &after, edited.syntax);
    if found.is_empty() {
        return Output::silence();
    }
    let listed = found.iter().take(MOST_LISTED).map(|(signature, name)| {
        let of = match &*signature.name {
            "" => "a function".to_owned(),
            name => format!("`{name}`"),
        };
        let place = edited.place(&after, signature.at);
        format!("- {place}: `{name}` of {of} became `_{name}`\n")
    });
    let listed: String = listed.collect();
    feedback(format!(
        "This edit renames parameters that are not used any more:\n{listed}\
         An underscore only hides them. Remove the parameter, here and where it is called. If \
         the signature is prescribed (by an interface, a callback whose place counts), go on."
    ))
}

/// Returns the parameters that were `x` and are `_x`, with the function that has them now.
fn renamed(before: &str, after: &str, syntax: Syntax) -> Vec<(Signature, String)> {
    let mut old: HashMap<String, Vec<Signature>> = HashMap::new();
    for signature in signatures(before, syntax) {
        old.entry(signature.name.clone())
            .or_default()
            .push(signature);
    }
    let mut found = Vec::new();
    for signature in signatures(after, syntax) {
        let Some(was) = old.get_mut(&signature.name) else {
            continue;
        };
        let same = was.iter().position(|was| is_same(was, &signature));
        let Some(was) = same.map(|at| was.remove(at)) else {
            continue;
        };
        for (nth, parameter) in signature.parameters.iter().enumerate() {
            let bare = parameter.strip_prefix('_').unwrap_or_default();
            let is_renamed = !bare.is_empty()
                && was.parameters.iter().any(|was| was == bare)
                && !was.parameters.contains(parameter);
            // A callback gets its arguments by their position.
            let holds_a_place = signature.name.is_empty()
                && signature.parameters[nth + 1..]
                    .iter()
                    .any(|later| !later.starts_with('_'));
            if is_renamed && !holds_a_place && !signature.prescribed {
                found.push((signature.clone(), bare.to_owned()));
            }
        }
    }
    found
}

/// Returns true if two signatures of one name are of the same function: without underscores, one has all parameters
/// of the other.
fn is_same(was: &Signature, is: &Signature) -> bool {
    let (was, is) = (was.bare_parameters(), is.bare_parameters());
    was.iter().all(|name| is.contains(name)) || is.iter().all(|name| was.contains(name))
}

/// A function's name and parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Empty for a function without a name.
    pub name: String,
    pub parameters: Vec<String>,
    /// The place of its parameters in the code.
    pub at: usize,
    /// True if a trait prescribes the parameters.
    pub prescribed: bool,
}

impl Signature {
    fn bare_parameters(&self) -> Vec<&str> {
        let names = self.parameters.iter();
        names.map(|name| name.trim_start_matches('_')).collect()
    }
}

/// The length up to which a signature is read.
const LONGEST: usize = 4000;

/// Words before a parenthesis with a block behind it that are no function names.
const NO_NAMES: [&str; 12] = [
    "if", "for", "while", "switch", "catch", "with", "match", "return", "await", "function", "new",
    "typeof",
];

/// Returns the signatures of all functions in a text.
pub fn signatures(code: &str, syntax: Syntax) -> Vec<Signature> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices('(') {
        let Some(inside) = inside(&code[at..]) else {
            continue;
        };
        let before = code[..at].trim_end();
        let after = code[at + inside.len() + 2..].trim_start();
        if let Some(name) = name(before, inside, after, syntax) {
            found.push(Signature {
                name: name.to_owned(),
                parameters: parameters(inside, syntax),
                at,
                prescribed: syntax == Syntax::Rust && is_in_a_trait(&code[..at]),
            });
        }
    }
    if syntax == Syntax::Script {
        found.extend(bare_arrows(code));
    }
    found
}

/// Returns the text between a parenthesis and the one that closes it.
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

/// Returns the name of the function whose parameters these are; none if they are not parameters.
fn name<'a>(before: &'a str, inside: &str, after: &str, syntax: Syntax) -> Option<&'a str> {
    // The type parameters of a generic function come between its name and its parameters.
    let bare = without_generics(before);
    let (rest, word) = last_word(bare);
    let keyword = last_word(rest.trim_end()).1;
    match syntax {
        Syntax::Rust => (keyword == "fn").then_some(word),
        Syntax::Python => (keyword == "def").then_some(word),
        _ if keyword == "function" => Some(word),
        _ if after.starts_with("=>") => Some(assigned(before)),
        _ if word == "function" => Some(assigned(rest.trim_end())),
        _ if word.is_empty() || NO_NAMES.contains(&word) => None,
        _ if rest.trim_end().ends_with('.') || keyword == "new" => None,
        _ if after.starts_with('{') => Some(word),
        // Otherwise it is a call in `a ? f(b) : c`.
        _ if after.starts_with(':') && inside.contains(':') => Some(word),
        _ => None,
    }
}

/// Returns the name that `const f = async` gives to the function that follows; empty for a callback.
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
            // The `>` of `Fn(A) -> B` closes nothing.
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

/// Splits off the last word of a text.
fn last_word(text: &str) -> (&str, &str) {
    text.split_at(text.trim_end_matches(is_word).len())
}

/// Returns the names of the parameters. A parameter that is a pattern has none.
fn parameters(inside: &str, syntax: Syntax) -> Vec<String> {
    let names = apart(inside)
        .into_iter()
        .filter_map(|parameter| parameter_name(parameter, syntax));
    names.map(str::to_owned).collect()
}

fn parameter_name(parameter: &str, syntax: Syntax) -> Option<&str> {
    let name = parameter.split([':', '=', '?']).next().unwrap_or_default();
    let name = name.trim().trim_start_matches(['.', '*', '&']);
    // In `mut x` and `private readonly x` the name comes last.
    let (before, word) = last_word(name.trim_end());
    let is_plain = before
        .chars()
        .all(|c| is_word(c) || c.is_whitespace() || matches!(c, '&' | '\'' | '@' | '(' | ')'));
    let is_receiver = word == "self" && syntax != Syntax::Script;
    (is_plain && !word.is_empty() && !is_receiver).then_some(word)
}

/// Splits the parameters at the commas that are not in brackets.
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

/// Returns the functions `x => …`.
fn bare_arrows(code: &str) -> Vec<Signature> {
    let arrows = code.match_indices("=>").filter_map(|(at, _)| {
        let (before, word) = last_word(code[..at].trim_end());
        (!word.is_empty()).then(|| Signature {
            name: assigned(before.trim_end()).to_owned(),
            parameters: vec![word.to_owned()],
            at: before.len(),
            prescribed: false,
        })
    });
    arrows.collect()
}

/// Returns true if the nearest `impl` above is one of a trait.
fn is_in_a_trait(above: &str) -> bool {
    let heads = above.match_indices("impl").filter(|(at, word)| {
        let line = above[..*at].rfind('\n').map_or(0, |end| end + 1);
        let begins = matches!(above[line..*at].trim(), "" | "unsafe");
        begins && !above[at + word.len()..].starts_with(is_word)
    });
    let Some((at, _)) = heads.last() else {
        return false;
    };
    let head = above[at..].split('{').next().unwrap_or_default();
    head.contains(" for ") && !head.contains("for<")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{edit, posted, reason, silent, write};
    use super::*;

    fn says(path: &str, before: &str, after: &str) -> Option<String> {
        reason(&HOOK, &edit(path, before, before, after))
    }

    #[test]
    fn a_hidden_parameter_is_told() {
        for (path, before, after) in [
            (
                "a.ts",
                "function f(a: A, b: B) {}",
                "function f(a: A, _b: B) {}",
            ),
            (
                "a.ts",
                "function f(a: A): T { }",
                "function f(_a: A): T { }",
            ),
            ("a.js", "const f = (a, b) => a;", "const f = (a, _b) => a;"),
            ("a.js", "const f = async a => 1", "const f = async _a => 1"),
            (
                "a.ts",
                "class C { m(a: A): B { } }",
                "class C { m(_a: A): B { } }",
            ),
            ("a.ts", "class C { m(a) { } }", "class C { m(_a) { } }"),
            (
                "a.ts",
                "constructor(private a: A) {}",
                "constructor(private _a: A) {}",
            ),
            ("a.js", "x.map((a, i) => a)", "x.map((a, _i) => a)"),
            (
                "a.ts",
                "function f(a = 1, ...b) {}",
                "function f(a = 1, ..._b) {}",
            ),
            ("a.ts", "function f(a?: A) {}", "function f(_a?: A) {}"),
            ("a.rs", "fn f(a: A, mut b: B) {}", "fn f(a: A, _b: B) {}"),
            (
                "a.rs",
                "fn f<T: Fn(A) -> B>(a: T) {}",
                "fn f<T: Fn(A) -> B>(_a: T) {}",
            ),
            ("a.py", "def f(a, b=1):\n  pass", "def f(a, _b=1):\n  pass"),
            (
                "a.py",
                "def f(self, a: A) -> B:\n  pass",
                "def f(self, _a: A) -> B:\n  pass",
            ),
        ] {
            assert!(says(path, before, after).is_some(), "{after}");
        }
    }

    #[test]
    fn these_are_fine() {
        for (path, before, after) in [
            ("a.ts", "function f(a, b) {}", "function f(a) {}"),
            ("a.ts", "function f(a, _b) {}", "function f(a, _b, c) {}"),
            ("a.ts", "function g() {}", "function f(a, _b) {}"),
            ("a.js", "x.map((a, i) => a)", "x.map((_a, i) => i)"),
            ("a.js", "call(a, b);", "call(a, _b);"),
            ("a.js", "if (a) { }", "if (_a) { }"),
            ("a.js", "const a = 1;", "const _a = 1;"),
            ("a.js", "ok ? f(a) : b", "ok ? f(_a) : b"),
            (
                "a.js",
                "function f(a) {} // (a)",
                "function f(a) {} // (_a)",
            ),
            ("a.js", "function f(a) {}", "function f(_) {}"),
            ("a.js", "function f(a) {}", "function g(_a) {}"),
            ("a.rs", "f(a, b);", "f(a, _b);"),
            (
                "a.rs",
                "impl T for U {\n  fn f(a: A) {}\n}",
                "impl T for U {\n  fn f(_a: A) {}\n}",
            ),
            ("a.py", "f(a)", "f(_a)"),
            ("a.go", "func f(a int) {}", "func f(_a int) {}"),
            ("a.md", "function f(a) {}", "function f(_a) {}"),
        ] {
            assert_eq!(says(path, before, after), None, "{after}");
        }
    }

    #[test]
    fn the_function_and_its_line_are_told() {
        let before = "let x = 1;\nfunction save(user, force) {\n}\n";
        let after = before.replace("force", "_force");
        let said = reason(&HOOK, &write("/p/a.js", Some(before), &after)).unwrap();
        assert!(
            said.contains("- a.js:2: `force` of `save` became `_force`\n"),
            "{said}"
        );
        assert!(silent(&HOOK, &write("/p/a.js", None, &after)));
    }

    #[test]
    fn a_piece_within_a_signature_says_nothing() {
        let input = json!({"file_path": "a.ts", "old_string": "force", "new_string": "_force"});
        assert!(silent(&HOOK, &posted("Edit", &input, None)));
        assert!(reason(&HOOK, &posted("Edit", &input, Some("function f(force) {}"))).is_some());
    }
}
