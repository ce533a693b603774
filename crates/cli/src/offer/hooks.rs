//! The built-in hooks, offered by `becket up`: `[hooks.NAME]` in the user's config for each that was
//! chosen.

use std::io::{self, BufRead, Write};
use std::path::Path;

use anyhow::Result;
use becket_engine::hooks::builtin::{BUILT_INS, BuiltIn};
use becket_engine::hooks::name::{self, Match};
use toml_edit::{DocumentMut, Item, Table};

use super::{broken, change};
use crate::failure::{Code, Failure};
use crate::tui;
use crate::ui::style::{BOLD, DIM, Look};
use crate::ui::table::{Cell, Column, bare};
use crate::world::World;

/// Writes what was chosen, or asks where a person can answer and the config names no hook yet.
/// Gives what runs then, in words.
pub fn offer(world: &World, said: Vec<&'static BuiltIn>) -> Result<Option<String>> {
    let chosen = match &said[..] {
        [] if tui::suits_terminal() && is_open(world) => ask(world)?,
        _ => said,
    };
    if chosen.is_empty() {
        return Ok(None);
    }
    change(world, "[hooks]", |text| edited(text, &chosen))?;
    let names: Vec<&str> = chosen.iter().map(|hook| hook.name).collect();
    let trust = match chosen.iter().any(|hook| hook.starts_project_tools) {
        true => " (those that start a project's own tools: after `becket trust` there)",
        false => "",
    };
    Ok(Some(format!("on from now: {}{trust}", names.join(", "))))
}

/// The built-ins of these names, or of these numbers in the list.
pub fn named(said: &[String]) -> Result<Vec<&'static BuiltIn>> {
    said.iter().map(|word| find(word)).collect()
}

/// Whether nobody has named a hook.
fn is_open(world: &World) -> bool {
    world.loader(None).current().hooks.is_empty()
}

/// What a person reads before they choose.
fn list(config: &Path, look: &Look) -> String {
    let row = |(hook, number): (&BuiltIn, usize)| {
        let mark = if hook.starts_project_tools { "*" } else { "" };
        [
            Cell::plain(number.to_string()),
            Cell::new(format!("{}{mark}", hook.name), BOLD),
            Cell::new(hook.description, DIM),
        ]
    };
    let rows: Vec<_> = BUILT_INS.iter().zip(1..).map(row).collect();
    format!(
        "\nChecks that becket can run while Claude works, in every project. They speak to\n\
         Claude, not to you, and have nothing to do with git's hooks. All are off until\n\
         you choose them:\n\n{}\n\
         * starts the project's own tools: only in projects that you `becket trust`\n\
         `becket hooks --all` shows them again; which are on stands in\n{}\n\n",
        bare(COLUMNS, &rows, look),
        config.display()
    )
}

const COLUMNS: [Column; 3] = [
    Column::right("", 0),
    Column::left("", 0),
    Column::left("", 1).wrapped(24),
];

fn ask(world: &World) -> Result<Vec<&'static BuiltIn>> {
    let mut out = anstream::stdout();
    write!(out, "{}", list(&world.place.config(), &Look::of_stdout()))?;
    loop {
        write!(
            out,
            "Which ones? Numbers or names, Enter for none (you can choose later) "
        )?;
        out.flush()?;
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(Vec::new());
        }
        let words = line.split([',', ' ', '\n', '\t']);
        let words = words.filter(|word| !word.is_empty());
        match words.map(find).collect::<Result<Vec<_>>>() {
            Ok(chosen) => return Ok(chosen),
            Err(error) => writeln!(out, "{error}")?,
        }
    }
}

/// The built-in of that name, or of that number in the list.
fn find(word: &str) -> Result<&'static BuiltIn> {
    let number = word.parse::<usize>().ok();
    let numbered = number.and_then(|number| BUILT_INS.get(number.checked_sub(1)?));
    let named = || BUILT_INS.iter().find(|hook| hook.name == word);
    numbered.or_else(named).ok_or_else(|| {
        Failure::new(Code::Missing, format!("becket brings no hook `{word}`"))
            .hint(meant(word))
            .into()
    })
}

/// Whom a wrong name may mean.
fn meant(word: &str) -> String {
    let names: Vec<&str> = BUILT_INS.iter().map(|hook| hook.name).collect();
    match name::find(word, names.iter().copied()) {
        Match::One(near)
        | Match::None {
            nearest: Some(near),
        } => format!("did you mean {near}?"),
        Match::Several(near) => format!("did you mean one of {}?", near.join(", ")),
        Match::None { nearest: None } => format!("there are {}", names.join(", ")),
    }
}

/// The config with these hooks on, and everything else as it was.
fn edited(text: &str, chosen: &[&BuiltIn]) -> Result<String> {
    let mut document: DocumentMut = text.parse().map_err(|_| broken())?;
    let hooks = document.entry("hooks").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let hooks = hooks.as_table_like_mut().ok_or_else(broken)?;
    for hook in chosen {
        let one = hooks.entry(hook.name).or_insert_with(toml_edit::table);
        let one = one.as_table_like_mut().ok_or_else(broken)?;
        one.insert("enabled", toml_edit::value(true));
    }
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::tests::look;

    #[test]
    fn what_was_chosen_is_on_and_the_rest_stays() {
        let chosen = [find("check-todos").unwrap(), find("1").unwrap()];
        let first = BUILT_INS[0].name;
        let both =
            format!("[hooks.check-todos]\nenabled = true\n\n[hooks.{first}]\nenabled = true\n");
        assert_eq!(edited("", &chosen).unwrap(), both);
        assert_eq!(edited(&both, &chosen).unwrap(), both, "twice");
        let before = "# mine\n[hooks.check-todos]\nenabled = false\ntimeout = \"3s\" # short\n";
        let after = edited(before, &chosen[..1]).unwrap();
        assert_eq!(after, before.replace("false", "true"));
        for text in ["[hooks", "hooks = 3\n", "hooks.check-todos = 1\n"] {
            assert!(edited(text, &chosen).is_err(), "{text}");
        }
    }

    #[test]
    fn a_person_reads_what_there_is() {
        let shown = |width| {
            let text = list(Path::new("/home/user/.becket/config.toml"), &look(width));
            anstream::adapter::strip_str(&text).to_string()
        };
        insta::assert_snapshot!("offer", shown(100));
        insta::assert_snapshot!("offer_narrow", shown(60));
    }

    #[test]
    fn who_is_not_there_is_named() {
        for word in ["0", "999", "check-todo"] {
            let error = find(word).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let hints = ["check-todo", "chek-todos", "lint"].map(meant);
        insta::assert_snapshot!(hints.join("\n"), @r"
        did you mean check-todos?
        did you mean check-todos?
        did you mean one of lint-changed, lint-project?
        ");
        assert!(meant("0").starts_with("there are typecheck-changed, "));
    }
}
