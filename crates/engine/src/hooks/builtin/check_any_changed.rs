//! `check-any-changed`: a new `any` in TypeScript is told, with what to write instead.

use std::collections::HashMap;
use std::time::Duration;

use becket_wire::Output;
use becket_wire::event::EventName;

use super::edit::{Edited, feedback, quoted};
use super::source::code;
use super::{BuiltIn, Call};

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-any-changed",
    description: "Tells Claude of each new `any` type in TypeScript files",
    on: &[EventName::PostToolUse],
    tools: "Write|Edit|MultiEdit",
    timeout: Duration::from_secs(10),
    starts_project_tools: false,
    keys: &[],
    run,
};

const ANY: &str = "any";
/// So many are told; the rest is counted.
const TOLD: usize = 10;

fn run(call: &Call<'_>) -> Output {
    let Some(edited) = Edited::read(call.payload).filter(|edited| is_typescript(&edited.path))
    else {
        return Output::silence();
    };
    let (before, after) = edited.ends();
    let new = new_ones(&before, &after, &edited);
    if new.is_empty() {
        return Output::silence();
    }
    let places = new.iter().take(TOLD).map(|at| {
        let line = after[..*at].rfind('\n').map_or(0, |end| end + 1);
        let line = after[line..].lines().next().unwrap_or_default();
        format!("- {}: {}\n", edited.place(&after, *at), quoted(line))
    });
    let places: String = places.collect();
    let more = match new.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!("- and {more} more\n"),
    };
    feedback(format!(
        "This edit brings a new `any`, which switches type checking off:\n{places}{more}\
         Give it the type that it has. If that is not known, take `unknown` and narrow it where it \
         is used; if it depends on the caller, take a type parameter; for an object of any shape, \
         `Record<string, unknown>`."
    ))
}

fn is_typescript(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    [".ts", ".tsx", ".mts", ".cts"]
        .iter()
        .any(|ending| path.ends_with(ending))
}

/// Where each `any` stands that was not there before.
fn new_ones(before: &str, after: &str, edited: &Edited) -> Vec<usize> {
    let (before, after) = (code(before, edited.language), code(after, edited.language));
    let old = found(&before);
    let now = found(&after);
    // Whoever only renames or moves one brings none.
    let brought = now.len().saturating_sub(old.len());
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (_, with) in &old {
        *known.entry(with).or_default() += 1;
    }
    let mut is_new = |with: &str| match known.get_mut(with) {
        Some(left) if *left > 0 => {
            *left -= 1;
            false
        }
        _ => true,
    };
    let new = now.iter().filter(|(_, with)| is_new(with));
    new.map(|(at, _)| *at).take(brought).collect()
}

/// Every `any` that is a type: where it stands, and the code from the word before it on.
fn found(code: &str) -> Vec<(usize, &str)> {
    let whole_word = |at: &usize| {
        let (before, after) = (&code[..*at], &code[at + ANY.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    };
    let places = code.match_indices(ANY).map(|(at, _)| at).filter(whole_word);
    let types = places.filter(|at| {
        begins_a_type(code[..*at].trim_end())
            && ends_a_type(&code[at + ANY.len()..])
            && !names_an_import(code, *at)
    });
    types
        .map(|at| (at, &code[word_before(code, at)..at + ANY.len()]))
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Whether a type stands after this: of a name or a result, in a cast, in a generic, in a union, as
/// the result of a function type, or behind `type X =`.
fn begins_a_type(before: &str) -> bool {
    let single = |c: char| before.ends_with(c) && !before[..before.len() - 1].ends_with(c);
    let word = &before[before.trim_end_matches(is_word).len()..];
    matches!(word, "as" | "is")
        || [':', '<', '|', '&'].into_iter().any(single)
        || before.ends_with(',') && is_in_a_generic(before)
        || before
            .strip_suffix("=>")
            .is_some_and(|before| before.trim_end().ends_with(')'))
        || before.strip_suffix('=').is_some_and(|before| {
            let start = before.rfind([';', '{', '}', '\n']).map_or(0, |at| at + 1);
            let statement = before[start..].trim_start();
            let statement = statement.strip_prefix("export ").unwrap_or(statement);
            statement.starts_with("type ")
        })
}

/// Whether a `<` is open, with nothing between that no list of types has.
fn is_in_a_generic(before: &str) -> bool {
    const FAR: usize = 400;
    let mut closed = 0;
    for c in before.chars().rev().take(FAR) {
        match c {
            '>' => closed += 1,
            '<' if closed == 0 => return true,
            '<' => closed -= 1,
            '(' | ')' | '{' | '}' | ';' | '=' => return false,
            _ => {}
        }
    }
    false
}

/// In prose, and where `any` is a function, something else follows than after a type.
fn ends_a_type(rest: &str) -> bool {
    let next = rest.trim_start_matches([' ', '\t']);
    let word = next.split(|c| !is_word(c)).next().unwrap_or_default();
    match word {
        "" => !next.starts_with(['(', '.', '\'', '"', '`', '?']),
        _ => matches!(word, "as" | "is" | "extends" | "satisfies" | "of" | "in"),
    }
}

/// `import { x as any }`
fn names_an_import(code: &str, at: usize) -> bool {
    let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
    let line = code[line..].trim_start();
    line.starts_with("import ") || line.starts_with("export {") || line.starts_with("export *")
}

fn word_before(code: &str, at: usize) -> usize {
    let before = code[..at].trim_end_matches(|c| !is_word(c) && c != '\n');
    before.trim_end_matches(is_word).len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::edit::tests::{edit, posted, write};
    use super::super::tests::{reason, silent};
    use super::*;

    fn says(payload: &[u8]) -> Option<String> {
        reason(&HOOK, payload)
    }

    fn count(code: &str) -> usize {
        found(&super::code(code, super::super::source::Language::Script)).len()
    }

    #[test]
    fn these_are_types() {
        for code in [
            "let a: any;",
            "function f(a: any) {}",
            "function f(): any {",
            "const a = b as any;",
            "(b as any).c",
            "let a: any[] = [];",
            "let a: Array<any>;",
            "let a: Record<string, any>;",
            "const a = <any>b;",
            "type A = any;",
            "type A<T> = any;",
            "let a: string | any;",
            "let f: () => any;",
            "let a: any = 1",
            "x as any as Foo",
            "let a: any\nlet b: string",
            "async (a?: any) => {}",
            "new Map<string, any>()",
            "useState<any>(null)",
            "let a: { [key: string]: any };",
        ] {
            assert_eq!(count(code), 1, "{code}");
        }
        assert_eq!(count("(a: any, b: any): any => a as any"), 4);
        assert_eq!(count("Map<any, any>"), 2);
    }

    #[test]
    fn these_are_none() {
        for code in [
            "// let a: any;",
            "/* as any */",
            "'x: any'",
            "`as any`",
            "expect.any(String)",
            "z.any()",
            "Promise.any(all)",
            "{ any: 1 }",
            "let a: anything;",
            "let many: string;",
            "const any = 1;",
            "ok ? a : any(list)",
            "<p>the same as any other</p>",
            "<p>note: any text</p>",
            "type K = keyof any;",
            "type D<T> = T extends any ? T[] : never;",
            "import { x as any } from 'y'",
            "a || any",
            "a && any",
            "f(any, b)",
        ] {
            assert_eq!(count(code), 0, "{code}");
        }
    }

    #[test]
    fn a_new_any_is_told_with_its_line() {
        let file = "let a = 1;\nlet b = 2;\n";
        let said = says(&edit("/p/a.ts", file, "b = 2", "b: any = 2")).unwrap();
        assert!(said.contains("- /p/a.ts:2: let b: any = 2;\n"), "{said}");
        assert!(said.contains("`unknown`"), "{said}");
        assert!(!said.contains("more"), "{said}");
        let said = says(&write("/p/a.ts", None, "export const a: any = 1;")).unwrap();
        assert!(said.contains("/p/a.ts:1:"), "{said}");
    }

    #[test]
    fn what_was_there_before_is_not() {
        let file = "f(a: any, b: string) {}\n";
        for (old, new) in [
            ("b: string", "b: number"),
            ("f(a: any, b: string) {}", "f(a: any) {}\n"),
            ("a: any", "c: any"),
            ("f(a: any, b: string) {}", "// moved\nf(a: any) {}"),
        ] {
            assert!(silent(&HOOK, &edit("a.ts", file, old, new)), "{new}");
        }
        assert!(says(&edit("a.ts", file, "b: string", "b: any")).is_some());
        assert!(silent(&HOOK, &write("a.ts", Some(file), file)));
        let more = format!("{file}let c: any;\n");
        let said = says(&write("a.tsx", Some(file), &more)).unwrap();
        assert_eq!(said.matches("\n- ").count(), 1, "{said}");
    }

    #[test]
    fn a_piece_is_told_without_its_line() {
        let input = json!({"file_path": "a.ts", "old_string": "b", "new_string": "b as any"});
        let said = says(&posted("Edit", &input, None)).unwrap();
        assert!(said.contains("- a.ts: b as any\n"), "{said}");
    }

    #[test]
    fn only_typescript_and_not_too_much() {
        assert!(silent(&HOOK, &write("a.js", None, "let a: any;")));
        let many = "let a: any;\n".repeat(30);
        let said = says(&write("a.ts", None, &many)).unwrap();
        assert!(said.contains("- and 20 more\n"), "{said}");
    }
}
