use proptest::prelude::*;

use super::*;

/// The text with comments as `c` and texts as `t`.
fn marked(text: &str, language: Language) -> String {
    let parts = parts(text, language);
    let mark = |(at, c): (usize, char)| match parts[at] {
        _ if c == '\n' => c,
        Part::Code => c,
        Part::Comment => 'c',
        Part::Text => 't',
    };
    text.char_indices().map(mark).collect()
}

#[test]
fn script() {
    for (text, expected) in [
        ("a // b\nc", "a cccc\nc"),
        ("a /* b\n */ c", "a cccc\nccc c"),
        ("'a' + \"//\" + `b`", "ttt + tttt + ttt"),
        ("'it\nb // c", "ttt\nb cccc"),
        (r#"'\'' + a"#, "tttt + a"),
        ("`a${b + `c${d}`}e` + f", "ttttb + ttttdttttt + f"),
        ("`${ {a: {}} }` + b", "ttt {a: {}} tt + b"),
        ("x = /[/\"]'/.test(y) // n", "x = ttttttt.test(y) cccc"),
        ("a / b / 'c'", "a / b / ttt"),
        ("return /'/", "return ttt"),
        ("(a) / b; c / d", "(a) / b; c / d"),
        ("<p></p>", "<p></p>"),
    ] {
        assert_eq!(marked(text, Language::Script), expected, "{text}");
    }
}

#[test]
fn rust() {
    for (text, expected) in [
        ("&'a str // x", "&'a str cccc"),
        ("'a' '\\'' '\\u{1f600}' 'é'", "ttt tttt ttttttttttt ttt"),
        ("/* a /* b */ c */ d", "ccccccccccccccccc d"),
        ("r#\"a\" // \"# + b", "ttttttttttt + b"),
        ("br\"\\\" + var\"x\"", "btttt + varttt"),
        ("\"a\n// b\" c", "tt\nttttt c"),
    ] {
        assert_eq!(marked(text, Language::Rust), expected, "{text}");
    }
}

#[test]
fn other_languages() {
    for (language, text, expected) in [
        (
            Language::Python,
            "a # b\n\"\"\"c\n# d\"\"\" e",
            "a ccc\ntttt\ntttttt e",
        ),
        (Language::Hashes, "echo $# ${a#b} # c", "echo $# ${a#b} ccc"),
        (Language::Dashes, "select 1 -- a\n2", "select 1 cccc\n2"),
        (Language::Slashes, "`a\n\"` + b // c", "tt\ntt + b cccc"),
    ] {
        assert_eq!(marked(text, language), expected, "{text}");
    }
}

#[test]
fn code_stays_where_it_was() {
    let text = "a = 'é // x' // é\n`b${c}d`";
    let code = code(text, Language::Script);
    assert_eq!(code, "a = '       '      \n`   c  `");
    assert_eq!(code.len(), text.len());
}

#[test]
fn lines_are_what_they_are_mostly() {
    let text = "a // b\n\n  // c\n/* d\n e */\n{/* f */}\n}\n'//'";
    let kinds: Vec<Kind> = lines(text, Language::Script)
        .iter()
        .map(|line| line.0)
        .collect();
    use Kind::{Blank, Code, Comment};
    assert_eq!(
        kinds,
        [Code, Blank, Comment, Comment, Comment, Comment, Code, Code]
    );
}

#[test]
fn a_language_is_known_by_its_ending() {
    assert_eq!(Language::of("/a/b.TSX"), Some(Language::Script));
    assert_eq!(Language::of("a.d.ts"), Some(Language::Script));
    assert_eq!(Language::of("a.md"), None);
    assert_eq!(Language::of(".ts"), None);
    assert_eq!(Language::of("ts"), None);
}

pub(crate) fn any_language() -> impl Strategy<Value = Language> {
    prop::sample::select(vec![
        Language::Script,
        Language::Rust,
        Language::Python,
        Language::Slashes,
        Language::Hashes,
        Language::Dashes,
    ])
}

proptest! {
    #[test]
    fn any_text_has_a_part_for_each_byte(
        text in "([a-z ]|[/*'\"`#${}r\\\\\n-]|é|\\PC){0,60}",
        language in any_language(),
    ) {
        prop_assert_eq!(parts(&text, language).len(), text.len());
        let code = code(&text, language);
        prop_assert_eq!(code.len(), text.len());
        prop_assert_eq!(code.matches('\n').count(), text.matches('\n').count());
        prop_assert_eq!(lines(&text, language).len(), text.split_inclusive('\n').count());
    }
}
