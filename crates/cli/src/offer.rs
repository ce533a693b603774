//! What `becket up` offers, notices here and built-in hooks in `offer/hooks.rs`: one question each,
//! and a few lines in the user's config. The rest of that file stays as it is.

pub mod hooks;

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result};
use becket_engine::config::Level;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::failure::{Code, Failure};
use crate::tui;
use crate::world::World;
use becket_engine::replace::{Attempt, Snapshot};

/// No config file is larger than this.
const LARGEST: u64 = 1 << 20;
/// How often an edit is begun anew when somebody else writes the file meanwhile.
const ATTEMPTS: usize = 5;

/// How a person may be told; a program of one's own is for the config file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Choice {
    Bell,
    Osc9,
    Osc777,
    Off,
}

impl Choice {
    fn word(self) -> &'static str {
        match self {
            Self::Bell => "bell",
            Self::Osc9 => "osc9",
            Self::Osc777 => "osc777",
            Self::Off => "off",
        }
    }
}

/// Writes what was chosen, or asks where a person can answer and nothing was said yet. Gives what
/// is set then, in words.
pub fn notices(world: &World, said: Option<Choice>) -> Result<Option<String>> {
    let choice = match said {
        Some(choice) => choice,
        None if tui::suits_terminal() && is_open(world) && agrees()? => Choice::Bell,
        None => return Ok(None),
    };
    write(world, choice)?;
    Ok(Some(match choice {
        Choice::Off => "notices are off".to_owned(),
        _ => format!("notices are on: {}", choice.word()),
    }))
}

/// Whether nobody has said anything about notices.
fn is_open(world: &World) -> bool {
    let snapshot = world.loader(None).current();
    let on = snapshot.settings.get("notice.on");
    on.is_none_or(|on| on.origin.level == Level::BuiltIn)
}

fn agrees() -> Result<bool> {
    let mut out = anstream::stdout();
    write!(
        out,
        "Ring the terminal's bell when a session needs you, or is done after more than a minute? [y/N] "
    )?;
    out.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let answer = line.trim().to_lowercase();
    Ok(matches!(&*answer, "y" | "yes"))
}

fn write(world: &World, choice: Choice) -> Result<()> {
    change(world, "[notice]", |text| edited(text, choice))
}

/// Changes the user's config; begins anew if somebody else writes it meanwhile.
fn change(world: &World, what: &str, edited: impl Fn(&str) -> Result<String>) -> Result<()> {
    let file = world.place.config();
    let failed = || format!("could not write {what} to {}", file.display());
    for _ in 0..ATTEMPTS {
        let before = Snapshot::read(&file, LARGEST).with_context(failed)?;
        let text = str::from_utf8(before.bytes().unwrap_or_default()).with_context(failed)?;
        let after = edited(text).with_context(failed)?;
        if after == text {
            return Ok(());
        }
        if before.is_read_only() {
            let why = Failure::new(Code::Failed, "nobody may write it");
            let hint = format!("chmod u+w {}", file.display());
            return Err(anyhow::Error::new(why.hint(hint)).context(failed()));
        }
        let attempt = before.replace(after.as_bytes(), 0o600);
        if attempt.with_context(failed)? == Attempt::Done {
            return Ok(());
        }
    }
    Err(Failure::new(Code::Failed, "somebody else keeps writing it").into())
}

fn broken() -> Failure {
    Failure::new(Code::Failed, "it does not parse")
        .hint("`becket config check` says where; mend it first")
}

/// The config with this choice in it, and everything else as it was.
fn edited(text: &str, choice: Choice) -> Result<String> {
    let mut document: DocumentMut = text.parse().map_err(|_| broken())?;
    let section = document
        .entry("notice")
        .or_insert_with(toml_edit::table)
        .as_table_like_mut()
        .ok_or_else(broken)?;
    let on = section.get("on").and_then(Item::as_str);
    match (choice, on) {
        (Choice::Off, _) => put(section, "on", "off"),
        (_, None | Some("off")) => put(section, "on", "all"),
        _ => {}
    }
    if choice != Choice::Off {
        put(section, "how", choice.word());
    }
    Ok(document.to_string())
}

/// Sets a value, and keeps what stands around it.
fn put(section: &mut dyn TableLike, key: &str, word: &str) {
    let mut value = Value::from(word);
    match section.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if old.as_str() == Some(word) => {}
        Some(old) => {
            value.decor_mut().clone_from(old.decor());
            *old = value;
        }
        None => drop(section.insert(key, Item::Value(value))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_choice_is_written_and_the_rest_stays() {
        for (before, choice, after) in [
            ("", Choice::Bell, "[notice]\non = \"all\"\nhow = \"bell\"\n"),
            ("", Choice::Off, "[notice]\non = \"off\"\n"),
            (
                "# mine\n[store]\nkeep_days = 7   # a week\n",
                Choice::Osc9,
                "# mine\n[store]\nkeep_days = 7   # a week\n\n[notice]\non = \"all\"\nhow = \"osc9\"\n",
            ),
            (
                "[notice]\non = 'attention' # not more\nquiet = \"22:00-07:00\"\n[mask]\nenabled = true\n",
                Choice::Osc777,
                "[notice]\non = 'attention' # not more\nquiet = \"22:00-07:00\"\nhow = \"osc777\"\n[mask]\nenabled = true\n",
            ),
            (
                "[notice]\non = \"all\"   # everything\nhow = \"bell\"\n",
                Choice::Off,
                "[notice]\non = \"off\"   # everything\nhow = \"bell\"\n",
            ),
            (
                "notice.on = \"off\"\n",
                Choice::Bell,
                "notice.on = \"all\"\nnotice.how = \"bell\"\n",
            ),
            (
                "notice = { on = \"off\" }\n",
                Choice::Bell,
                "notice = { on = \"all\" , how = \"bell\" }\n",
            ),
        ] {
            assert_eq!(edited(before, choice).unwrap(), after, "{before}");
            assert_eq!(edited(after, choice).unwrap(), after, "twice: {before}");
        }
    }

    #[test]
    fn what_does_not_parse_is_left_alone() {
        for text in ["[notice", "notice = 3\n"] {
            let error = edited(text, Choice::Bell).unwrap_err();
            assert!(error.to_string().contains("does not parse"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_was_there_still_says_the_same(
            days in 0_u32..1000,
            on in proptest::option::of("off|attention|done|all"),
            comment in "[ -~]{0,20}",
        ) {
            let on = on.map_or(String::new(), |on| format!("on = \"{on}\" # {comment}\n"));
            let text = format!("# {comment}\n[notice] # {comment}\n{on}[store]\nkeep_days = {days} # {comment}\n");
            let after = edited(&text, Choice::Osc9).unwrap();
            let table: DocumentMut = after.parse().unwrap();
            let expected = i64::from(days);
            prop_assert_eq!(table["store"]["keep_days"].as_integer(), Some(expected));
            prop_assert_eq!(table["notice"]["how"].as_str(), Some("osc9"));
            prop_assert_eq!(after.matches(&format!("# {comment}\n")).count(), text.matches(&format!("# {comment}\n")).count());
        }
    }
}
