//! `check-any-changed`: tells Claude of a new `any` in TypeScript, and what to write instead.

use std::path::Path;

use becket_wire::Output;
use becket_wire::event::Event;

use super::edit::{Edited, feedback, line_of, quoted};
use super::memory::{KnownProblems, claim};
use super::on_edit::still_there;
use super::report::{self, Problem};
use super::source::{Syntax, code};
use super::{BuiltIn, BuiltinCall, ON_EDIT};

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-any-changed",
    description: "Tells Claude of each new `any` type in TypeScript files",
    run,
    ..ON_EDIT
};

const ANY: &str = "any";
/// The number of lines that are listed; the rest is counted.
const MOST_LISTED: usize = 10;

fn run(call: &BuiltinCall<'_>) -> Output {
    let edited = Edited::read(call.payload, call.cwd);
    let edited = edited.filter(|edited| is_typescript(&edited.path));
    let (Some(edited), Ok(event)) = (edited, Event::parse(call.payload)) else {
        return Output::silence();
    };
    let (before, after) = edited.ends();
    let file = call.cwd.join(&edited.path);
    let (before, now) = (
        problems(&before, edited.syntax, &file),
        problems(&after, edited.syntax, &file),
    );
    // One that was only renamed or moved is not new.
    let (same, mut new) = KnownProblems::of(&before).split(&now);
    let added = now.len().saturating_sub(before.len());
    let renamed = new.split_off(added.min(new.len()));
    if !edited.whole {
        return tell(&new, &[], &edited, &after, call);
    }
    let agent = event.common().agent_id.as_deref();
    let known = KnownProblems::read(call.memory, agent, &edited.path);
    let (_, gone) = KnownProblems::of(&same).split(&before);
    let (mut still_there, _) = known.split(&same);
    // A reported `any` that now has another name before it is not fixed.
    let (reported_before, _) = known.split(&[&*same, &gone].concat());
    let still_renamed = reported_before.len() - still_there.len();
    still_there.extend(renamed.into_iter().take(still_renamed));
    let reported = [&*new, &still_there].concat();
    // Without a stored list the same is reported again.
    let _ = KnownProblems::write(call.memory, agent, &edited.path, &reported);
    let (new, still_there) = (claim(call, &event, new), claim(call, &event, still_there));
    tell(&new, &still_there, &edited, &after, call)
}

/// Makes one problem for each `any` that is a type, in the words that linters use.
fn problems(text: &str, syntax: Syntax, file: &Path) -> Vec<Problem> {
    let code = code(text, syntax);
    let problems = found(&code).into_iter().map(|at| {
        let snippet = &code[word_before(&code, at)..at + ANY.len()];
        Problem {
            file: Some(file.to_path_buf()),
            line: u32::try_from(line_of(text, at)).unwrap_or(u32::MAX),
            ..Problem::error(format!("no-explicit-any: {snippet}"))
        }
    });
    problems.collect()
}

fn tell(
    new: &[Problem],
    old: &[Problem],
    edited: &Edited,
    text: &str,
    call: &BuiltinCall<'_>,
) -> Output {
    let still_there = match old {
        [] => String::new(),
        old => {
            let places = report::places(old, call.cwd);
            format!("{}: {places}\n", still_there(old, "`any`", ""))
        }
    };
    if new.is_empty() {
        return match &*still_there {
            "" => Output::silence(),
            still_there => feedback(still_there.trim_end().to_owned()),
        };
    }
    let mut lines: Vec<u32> = new.iter().map(|problem| problem.line).collect();
    lines.dedup();
    let places = lines.iter().take(MOST_LISTED).map(|line| {
        let code = text.lines().nth(*line as usize - 1).unwrap_or_default();
        let place = if edited.whole {
            format!("{}:{line}", edited.path)
        } else {
            edited.path.clone()
        };
        format!("- {place}: {}\n", quoted(code))
    });
    let places: String = places.collect();
    let more = match lines.len().saturating_sub(MOST_LISTED) {
        0 => String::new(),
        more => format!("- and {more} more\n"),
    };
    feedback(format!(
        "This edit brings a new `any`, which switches type checking off:\n{places}{more}{still_there}\
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

/// Returns the places of every `any` that is a type.
fn found(code: &str) -> Vec<usize> {
    let places = code.match_indices(ANY).map(|(at, _)| at);
    let words = places.filter(|at| {
        !code[..*at].ends_with(is_word) && !code[at + ANY.len()..].starts_with(is_word)
    });
    let types = words.filter(|at| {
        begins_a_type(code[..*at].trim_end())
            && ends_a_type(&code[at + ANY.len()..])
            && !names_an_import(code, *at)
    });
    types.collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns true if a type follows this code: of a name or a result, in a cast, in a generic, in a union, as the
/// result of a function type, or behind `type X =`.
fn begins_a_type(before: &str) -> bool {
    let word = &before[before.trim_end_matches(is_word).len()..];
    matches!(word, "as" | "is")
        || [':', '<', '|', '&']
            .into_iter()
            .any(|c| ends_with_single(before, c))
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

fn ends_with_single(text: &str, c: char) -> bool {
    text.strip_suffix(c).is_some_and(|rest| !rest.ends_with(c))
}

/// Returns true if a `<` is open, with only text behind it that a list of types may contain.
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

/// Returns true if the code after an `any` may follow a type. In prose, or after a function of that name, other
/// code follows.
fn ends_a_type(rest: &str) -> bool {
    let next = rest.trim_start_matches([' ', '\t']);
    let word = next.split(|c| !is_word(c)).next().unwrap_or_default();
    match word {
        "" => !next.starts_with(['(', '.', '\'', '"', '`', '?']),
        _ => matches!(word, "as" | "is" | "extends" | "satisfies" | "of" | "in"),
    }
}

/// Returns true in `import { x as any }`, and in exports.
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

    use super::super::tests::{blocked, edit, posted, ran_in, reason, silent, write};
    use super::*;

    fn says(payload: &[u8]) -> Option<String> {
        reason(&HOOK, payload)
    }

    fn count(code: &str) -> usize {
        found(&super::code(code, Syntax::Script)).len()
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
        let feedback = says(&edit("/p/a.ts", file, "b = 2", "b: any = 2")).unwrap();
        assert!(
            feedback.contains("- a.ts:2: let b: any = 2;\n"),
            "{feedback}"
        );
        assert!(feedback.contains("`unknown`"), "{feedback}");
        assert!(!feedback.contains("more"), "{feedback}");
        let feedback = says(&write("/p/a.ts", None, "export const a: any = 1;")).unwrap();
        assert!(feedback.contains("- a.ts:1:"), "{feedback}");
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
        let feedback = says(&write("a.tsx", Some(file), &more)).unwrap();
        assert_eq!(feedback.matches("\n- ").count(), 1, "{feedback}");
    }

    #[test]
    fn a_line_is_told_once_and_again_in_short_while_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let memory = folder.path().join(HOOK.name);
        let says = |payload: &[u8]| {
            let output = ran_in(&HOOK, payload, "/p".as_ref(), &memory, &toml::Table::new());
            blocked(&output).unwrap_or_default()
        };
        let one = "const f = (a: any, b: any): any => a as any;\n";
        let feedback = says(&write("/p/a.ts", None, one));
        assert_eq!(feedback.matches("a as any").count(), 1, "{feedback}");
        // The failed fix: nothing new, and nothing better.
        let two = format!("{one}f(1, 2);\n");
        assert_eq!(
            says(&write("/p/a.ts", Some(one), &two)),
            "4 `any`s told before are still there: a.ts:1"
        );
        let three = format!("{two}let c: any;\n");
        let feedback = says(&write("/p/a.ts", Some(&two), &three));
        assert!(
            feedback.contains("\n4 `any`s told before are still there: a.ts:1\n"),
            "{feedback}"
        );
        assert!(feedback.contains("- a.ts:3: let c: any;\n"), "{feedback}");
        assert_eq!(
            says(&write("/p/a.ts", Some(&three), "let c: number;\n")),
            ""
        );
        assert_eq!(
            says(&write("/p/a.ts", Some("let c: number;\n"), "let c: 1;\n")),
            ""
        );
    }

    #[test]
    fn a_told_any_under_another_name_is_still_there() {
        let folder = tempfile::tempdir().unwrap();
        let memory = folder.path().join(HOOK.name);
        let says = |old: &str, new: &str| {
            let payload = write("/p/a.ts", Some(old), new);
            let output = ran_in(&HOOK, &payload, "/p".as_ref(), &memory, &toml::Table::new());
            blocked(&output).unwrap_or_default()
        };
        let own = "let own: any;\n";
        let texts = [
            own.to_owned(),
            format!("{own}f(data: any) {{}}\n"),
            format!("{own}f(payload: any) {{}}\n"),
            format!("{own}f(item as any);\n"),
            format!("{own}f(item: string) {{}}\n"),
            format!("{own}f() {{}}\n"),
        ];
        let reported: Vec<String> = texts.windows(2).map(|it| says(&it[0], &it[1])).collect();
        let still_there = "1 `any` told before is still there: a.ts:2";
        assert!(
            reported[0].contains("- a.ts:2: f(data: any) {}\n"),
            "{reported:?}"
        );
        assert_eq!(reported[1..], [still_there, still_there, "", ""]);
    }

    #[test]
    fn a_linter_that_tells_the_same_any_is_not_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let project = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::write(project.join("a.ts"), "let a: any;\n").unwrap();
        let line = "a.ts:1:8: error: Unexpected any. (@typescript-eslint/no-explicit-any)";
        let options = format!("command = \"echo '{line}'; exit 1\"");
        let mut payload: serde_json::Value =
            serde_json::from_slice(&write("a.ts", None, "let a: any;\n")).unwrap();
        payload["tool_use_id"] = "toolu_1".into();
        let says = |hook: &str| {
            let hook = BuiltIn::find(hook).unwrap();
            let memory = project.join("memory").join(hook.name);
            let options = toml::from_str(&options).unwrap();
            let payload = payload.to_string();
            blocked(&ran_in(
                hook,
                payload.as_bytes(),
                &project,
                &memory,
                &options,
            ))
        };
        assert!(
            says("check-any-changed")
                .unwrap()
                .contains("- a.ts:1: let a: any;\n")
        );
        assert_eq!(says("lint-changed"), None);
    }

    #[test]
    fn a_piece_is_told_without_its_line() {
        let input = json!({"file_path": "a.ts", "old_string": "b", "new_string": "b as any"});
        let feedback = says(&posted("Edit", &input, None)).unwrap();
        assert!(feedback.contains("- a.ts: b as any\n"), "{feedback}");
    }

    #[test]
    fn only_typescript_and_not_too_much() {
        assert!(silent(&HOOK, &write("a.js", None, "let a: any;")));
        let many = "let a: any;\n".repeat(30);
        let feedback = says(&write("a.ts", None, &many)).unwrap();
        assert!(feedback.contains("- and 20 more\n"), "{feedback}");
    }
}
