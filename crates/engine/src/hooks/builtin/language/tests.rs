use super::*;

const KINDS: [Kind; 3] = [Kind::Typecheck, Kind::Lint, Kind::Test];

#[test]
fn every_language_has_tools_for_everything() {
    for language in LANGUAGES {
        for kind in KINDS {
            let mut changed = language
                .tools_for(kind)
                .filter(|tool| tool.changed.is_some());
            assert!(changed.next().is_some(), "{}: {kind:?}", language.name);
        }
    }
}

#[test]
fn no_file_belongs_to_two_languages() {
    let mut ends: Vec<_> = LANGUAGES
        .iter()
        .flat_map(|language| language.extensions)
        .collect();
    let all = ends.len();
    ends.sort();
    ends.dedup();
    assert_eq!(ends.len(), all);
}

#[test]
fn what_stands_in_braces_is_known() {
    let known = ["{files}", "{packages}", "{module}", "{tests}", "{scratch}"];
    for tool in LANGUAGES.iter().flat_map(|language| language.tools) {
        for arg in tool.changed.unwrap_or_default().split_whitespace() {
            assert!(
                !arg.contains('{') || known.contains(&arg),
                "{}: {arg}",
                tool.name
            );
        }
        // A whole project is no list of files.
        let of_project = |arg: &str| !arg.contains('{') || arg == "{scratch}";
        let mut args = tool.project.split_whitespace();
        assert!(args.all(of_project), "{}", tool.name);
        assert!(
            !tool.needs_sign || !tool.signs.is_empty(),
            "{} is never found",
            tool.name
        );
    }
}

#[test]
fn files_have_their_language() {
    let of = |name: &str| Language::of(Path::new(name)).map(|language| language.name);
    assert_eq!(of("/p/a.tsx"), Some("TypeScript and JavaScript"));
    assert_eq!(of("/p/a.cjs"), Some("TypeScript and JavaScript"));
    assert_eq!(of("/p/a.rs"), Some("Rust"));
    assert_eq!(of("/p/a.pyi"), Some("Python"));
    assert_eq!(of("/p/a.go"), Some("Go"));
    assert_eq!([of("/p/a.md"), of("/p/go"), of("/p/.rs")], [None; 3]);
    let concerned = |name: &str| -> Vec<_> {
        let languages = Language::concerned(Path::new(name));
        languages.map(|language| language.name).collect()
    };
    assert_eq!(concerned("/p/Cargo.toml"), ["Rust"]);
    assert_eq!(concerned("/p/setup.py"), ["Python"]);
    assert_eq!(concerned("/p/README.md"), Vec::<&str>::new());
    // JavaScript has no types.
    let types = LANGUAGES[0].tools_for(Kind::Typecheck).nth(1).unwrap();
    assert!(types.takes(Path::new("a.ts")) && !types.takes(Path::new("a.js")));
}
