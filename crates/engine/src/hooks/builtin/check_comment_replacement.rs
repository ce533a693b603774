//! `check-comment-replacement`: tells Claude when it replaces code by a comment about the code.

use becket_wire::Output;

use super::edit::{EditStep, Edited, feedback, quoted};
use super::source::{LineKind, Syntax, lines};
use super::{BuiltIn, BuiltinCall, ON_EDIT};

pub const HOOK: BuiltIn = BuiltIn {
    name: "check-comment-replacement",
    description: "Tells Claude when it replaces code by a comment",
    tools: "Edit|MultiEdit",
    run,
    ..ON_EDIT
};

/// The number of comments that are listed.
const MOST_LISTED: usize = 5;

/// Words of comments that stand for code, in small letters and with dots as three characters.
const ELISIONS: &[&str] = &[
    "existing code",
    "existing implementation",
    "rest unchanged",
    "rest is unchanged",
    "rest of the",
    "rest of code",
    "rest of implementation",
    "rest of file",
    "rest stays",
    "rest remains",
    "remaining code",
    "remaining implementation",
    "remains unchanged",
    "remains the same",
    "stays the same",
    "same as before",
    "code unchanged",
    "unchanged code",
    "no changes",
    "implementation omitted",
    "omitted for brevity",
    "omitted here",
    "code omitted",
    "code removed",
    "implementation removed",
    "implementation goes here",
    "implementation here",
    "your code here",
    "code goes here",
    "other code",
    "previous code",
    "original code",
    "code here",
];

fn run(call: &BuiltinCall<'_>) -> Output {
    let Some(edited) = Edited::read(call.payload, call.cwd) else {
        return Output::silence();
    };
    let found = edited
        .steps
        .iter()
        .flat_map(|step| replaced(step, edited.syntax));
    let found: Vec<ReplacedCode> = found.collect();
    if found.is_empty() {
        return Output::silence();
    }
    let listed = found.iter().take(MOST_LISTED).map(|found| {
        let lines = match found.lost {
            1 => "a line".to_owned(),
            lost => format!("{lost} lines"),
        };
        format!(
            "- `{}` stands for {lines} of code\n",
            quoted(&found.comment)
        )
    });
    let listed: String = listed.collect();
    feedback(format!(
        "This edit of {} puts a comment where code was:\n{listed}\
         If the code is still needed, bring it back whole: a comment does not stand for it. If it is \
         not, delete it and say nothing: what was there is in the history. If the comment says \
         something that the reader of the code needs, go on.",
        edited.path
    ))
}

/// Code that a comment replaced.
#[derive(Debug, PartialEq, Eq)]
struct ReplacedCode {
    comment: String,
    /// The number of lines of code that are gone.
    lost: usize,
}

/// Returns the comment that replaced code in one step of an edit.
fn replaced(step: &EditStep, syntax: Syntax) -> Option<ReplacedCode> {
    let (before, after) = (lines(&step.before, syntax), lines(&step.after, syntax));
    let (old, new) = differing(&before, &after);
    let code_left = count(new, LineKind::Code);
    let lost = count(old, LineKind::Code).saturating_sub(code_left);
    if lost == 0 {
        return None;
    }
    let mut added = new
        .iter()
        .filter(|(kind, text)| {
            let was_there = old.iter().any(|(_, old)| old == text);
            *kind == LineKind::Comment && !was_there && !is_documentation(text)
        })
        .map(|(_, text)| *text);
    let has_more_comments = count(new, LineKind::Comment) > count(old, LineKind::Comment);
    let comment = if code_left == 0 && has_more_comments {
        added.next()
    } else {
        added.find(|text| stands_for_code(text))
    };
    comment.map(|comment| ReplacedCode {
        comment: comment.to_owned(),
        lost,
    })
}

type Lines<'a> = &'a [(LineKind, &'a str)];

fn count(lines: Lines<'_>, kind: LineKind) -> usize {
    lines.iter().filter(|line| line.0 == kind).count()
}

/// Returns the lines between those that both texts begin and end with.
fn differing<'a>(before: Lines<'a>, after: Lines<'a>) -> (Lines<'a>, Lines<'a>) {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (before, after) = (&before[same..], &after[same..]);
    let ends = before.iter().rev().zip(after.iter().rev());
    let same = ends.take_while(|(a, b)| a == b).count();
    (&before[..before.len() - same], &after[..after.len() - same])
}

/// Returns true for a comment that describes the code after it.
fn is_documentation(text: &str) -> bool {
    ["///", "//!", "/**", "* @", "#!", "# type:", "# noqa"]
        .iter()
        .any(|mark| text.starts_with(mark))
}

fn stands_for_code(comment: &str) -> bool {
    let text = comment.to_lowercase().replace('…', "...");
    let words = text.trim_matches(|c: char| {
        matches!(c, '/' | '*' | '#' | '-' | '{' | '}') || c.is_whitespace()
    });
    let is_ellipsis = words.starts_with("...") || words.ends_with("...");
    let is_farewell = words.starts_with("removed")
        || words.starts_with("deleted")
        || words.ends_with(" removed")
        || words.ends_with(" deleted");
    is_ellipsis || is_farewell || ELISIONS.iter().any(|elision| text.contains(elision))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{edit, posted, reason, silent};
    use super::*;

    const FILE: &str = "function f() {\n  a();\n  b();\n  c();\n}\n";

    #[test]
    fn code_that_became_a_comment_is_told() {
        for (old, new) in [
            ("  a();\n  b();\n  c();", "  // ... rest unchanged"),
            ("  b();\n  c();", "  // … existing code …"),
            ("  b();\n", "  // removed\n"),
            ("  b();", "  // b() was removed"),
            ("  b();", "  /* implementation omitted */"),
            ("  b();", "  // b happens elsewhere now"),
            ("  a();\n  b();\n  c();", "  a();\n  // b();\n  c();"),
            ("  a();\n  b();\n  c();", "  x();\n  // Rest of the code"),
            ("  b();", "  {/* ... */}"),
        ] {
            assert!(
                reason(&HOOK, &edit("a.ts", FILE, old, new)).is_some(),
                "{new}"
            );
        }
        let python = "def f():\n    a()\n    b()\n";
        let said = reason(
            &HOOK,
            &edit("a.py", python, "    a()\n    b()", "    # removed"),
        );
        let said = said.unwrap();
        assert!(
            said.contains("- `# removed` stands for 2 lines of code\n"),
            "{said}"
        );
    }

    #[test]
    fn other_edits_are_not() {
        let with_comment = "// old words\na();\nb();\n";
        for payload in [
            edit("a.ts", FILE, "  b();\n", ""),
            edit("a.ts", FILE, "  b();", "  // why\n  b();"),
            edit("a.ts", FILE, "  b();", "  // why\n  d();"),
            edit("a.ts", FILE, "  b();", "  d(); // removed b"),
            edit("a.ts", with_comment, "// old words", "// new words"),
            edit("a.ts", with_comment, "// old words\na();", "// old words"),
            edit("a.ts", with_comment, "// old words\na();", "// new words"),
            edit(
                "a.ts",
                with_comment,
                "// old words\n",
                "// ... rest unchanged\n",
            ),
            edit(
                "a.rs",
                "fn a() {}\nfn b() {}\n",
                "fn a() {}",
                "/// About b.",
            ),
            edit("a.md", "Text\n", "Text", "<!-- removed -->"),
            edit("a.txt", "Text\n", "Text", "# removed"),
            edit("a.ts", "a('x');\n", "a('x');", "a('// removed');"),
        ] {
            assert!(
                silent(&HOOK, &payload),
                "{}",
                String::from_utf8_lossy(&payload)
            );
        }
    }

    #[test]
    fn prose_within_a_comment_is_no_code() {
        let file = "/*\nfirst words\nlast words\n*/\nf();\n";
        assert!(silent(
            &HOOK,
            &edit("a.c", file, "first words\nlast words", "// removed")
        ));
        let file = "/*\nwords\n*/\nf();\ng();\n";
        assert!(reason(&HOOK, &edit("a.c", file, "f();", "// removed")).is_some());
    }

    #[test]
    fn pieces_and_several_edits_are_looked_at_too() {
        let edits = json!([
            {"old_string": "a();", "new_string": "b();"},
            {"old_string": "c();", "new_string": "// ... existing code"},
        ]);
        let input = json!({"file_path": "a.go", "edits": edits});
        for original in [None, Some("a();\nc();\n")] {
            let said = reason(&HOOK, &posted("MultiEdit", &input, original)).unwrap();
            assert!(said.contains("a line of code"), "{said}");
        }
    }
}
