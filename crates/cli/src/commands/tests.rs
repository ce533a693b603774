//! The files as Claude Code reads them, and whose they are.

use proptest::prelude::*;

use super::file::{Call, PLUGINS_END, TEMPLATES, Written, end};

fn call() -> Call {
    Call {
        program: "/home/user/.local/bin/becket".to_owned(),
        home: Some("/home/user/.becket".to_owned()),
    }
}

fn written() -> Written {
    Written {
        end: "END_OF_ARGUMENTS_0123".to_owned(),
        made: 2,
    }
}

#[test]
fn the_three_files() {
    let mut all = String::new();
    for (name, template) in TEMPLATES {
        all += &format!("# {name}\n{}\n", written().render(template, &call()));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_plugins_files_end_their_argument_in_one_line() {
    for (name, template) in TEMPLATES {
        assert_eq!(template.matches(PLUGINS_END).count(), 2, "{name}");
        assert!(
            template.contains(&format!("\n$ARGUMENTS\n{PLUGINS_END}\n")),
            "{name}"
        );
    }
}

#[test]
fn a_file_knows_whether_it_is_still_ours() {
    for (_, template) in TEMPLATES {
        assert_eq!(Written::read(template), None, "the plugin's");
        let text = written().render(template, &call());
        assert_eq!(Written::read(&text), Some(written()));
        assert_eq!(Written::read(&text.replace("current", "this")), None);
        assert_eq!(Written::read(&format!("{text}\n")), None);
        assert_eq!(Written::read(&text.replace(": 2-", ": 3-")), None);
    }
    assert_eq!(Written::read(""), None);
}

#[test]
fn nobody_guesses_the_end() {
    assert_ne!(end(), end());
    assert!(end().len() > 40);
}

proptest! {
    #[test]
    fn whatever_was_rendered_is_read_again(end in "[A-Z_0-9]{1,40}", made in 0_usize..4, which in 0_usize..3) {
        let written = Written { end, made };
        let bare = Call { program: "becket".to_owned(), home: None };
        for call in [&call(), &bare] {
            let text = written.render(TEMPLATES[which].1, call);
            prop_assert_eq!(Written::read(&text), Some(written.clone()));
        }
    }
}
