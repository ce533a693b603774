//! `check-unused-parameters`: a parameter that was renamed to `_x` instead of being removed is told.

mod signature;

use std::collections::HashMap;
use std::time::Duration;

use becket_wire::Output;
use becket_wire::event::EventName;

use super::edit::{Edited, feedback};
use super::source::{Language, code};
use super::{BuiltIn, Call};
use signature::{Signature, signatures};

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-unused-parameters",
    description: "Tells Claude when it renames an unused parameter to _name instead of removing it",
    on: &[EventName::PostToolUse],
    tools: "Write|Edit|MultiEdit",
    timeout: Duration::from_secs(10),
    starts_project_tools: false,
    keys: &[],
    run,
};

const TOLD: usize = 10;

fn run(call: &Call<'_>) -> Output {
    let Some(edited) = Edited::read(call.payload) else {
        return Output::silence();
    };
    if !matches!(
        edited.language,
        Language::Script | Language::Rust | Language::Python
    ) {
        return Output::silence();
    }
    let (before, after) = edited.ends();
    let code = |text: &str| code(text, edited.language);
    let found = renamed(&code(&before), &code(&after), edited.language);
    if found.is_empty() {
        return Output::silence();
    }
    let told = found.iter().take(TOLD).map(|(signature, name)| {
        let of = match &*signature.name {
            "" => "a function".to_owned(),
            name => format!("`{name}`"),
        };
        let place = edited.place(&after, signature.at);
        format!("- {place}: `{name}` of {of} became `_{name}`\n")
    });
    let told: String = told.collect();
    feedback(format!(
        "This edit renames parameters that are not used any more:\n{told}\
         An underscore only hides them. Remove the parameter, here and where it is called. If \
         somebody else prescribes the signature (an interface, a callback whose place counts), go on."
    ))
}

/// Parameters that were `x` and are `_x`, with the function that has them now.
fn renamed(before: &str, after: &str, language: Language) -> Vec<(Signature, String)> {
    let mut old: HashMap<String, Vec<Signature>> = HashMap::new();
    for signature in signatures(before, language) {
        old.entry(signature.name.clone())
            .or_default()
            .push(signature);
    }
    let mut found = Vec::new();
    for signature in signatures(after, language) {
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
            // A callback gets its arguments by their places.
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

/// Whether two functions of one name are one: underscores aside they share their parameters.
fn is_same(was: &Signature, is: &Signature) -> bool {
    let bare = |name: &String| name.trim_start_matches('_').to_owned();
    let was: Vec<String> = was.parameters.iter().map(bare).collect();
    let is: Vec<String> = is.parameters.iter().map(bare).collect();
    was.iter().all(|name| is.contains(name)) || is.iter().all(|name| was.contains(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::edit::tests::{edit, posted, write};
    use super::super::tests::{reason, silent};
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
            said.contains("- /p/a.js:2: `force` of `save` became `_force`\n"),
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

    proptest! {
        #[test]
        fn any_text_is_taken(
            before in "(function f|fn f|def f|=>|->|impl A for B|[(){}<>,:=|a-c_ \n]|é){0,40}",
            after in "(function f|fn f|def f|=>|->|impl A for B|[(){}<>,:=|a-c_ \n]|é){0,40}",
            path in "a\\.(ts|rs|py)",
        ) {
            reason(&HOOK, &write(&path, Some(&before), &after));
            prop_assert!(silent(&HOOK, &write(&path, Some(&after), &after)));
        }
    }
}
