//! `becket name`: gives a session a title.

use std::process::ExitCode;

use anyhow::Result;
use becket_wire::rpc::Ask;

use crate::client::{Client, require_daemon};
use crate::failure::{Code, Failure};
use crate::session::source::find_session;
use crate::ui::text;
use crate::ui::text::is_inert;
use crate::world::{World, is_inside_claude, the_session};

/// The most characters of a title, which is shown on one line.
const MAX_LENGTH: usize = 200;

/// Give a session a title
#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// The session: the first characters of its id, or its title (inside Claude Code it may be left out)
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// The title, at most 200 characters
    #[arg(value_name = "TEXT", conflicts_with = "clear")]
    title: Option<String>,
    /// Take the title away
    #[arg(long)]
    clear: bool,
}

impl NameArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        // Inside of Claude Code, a single argument is the title of its own session.
        let (session, title) = match (self.session, self.title, self.clear) {
            (session, _, true) => (session, None),
            (session, Some(title), _) => (session, Some(title)),
            (title, None, _) if is_inside_claude() => (None, title),
            _ => (None, None),
        };
        if title.is_none() && !self.clear {
            return Err(Failure::new(Code::Usage, "no title was given")
                .hint("becket name ID TEXT, or becket name ID --clear")
                .into());
        }
        let title = title.as_deref().map(checked).transpose()?;
        let meant = the_session(session)?;
        require_daemon(world, "only the daemon can set titles")?;
        let mut client = Client::connect_or_start(world)?;
        let row = find_session(&meant, |query| client.sessions(query))?;
        client.execute(Ask::Name {
            session: row.session_id.clone(),
            title: title.clone(),
        })?;
        let id = text::one_line(&row.session_id);
        match title {
            Some(title) => println!("{id} is called `{title}`."),
            None => println!("{id} has no title."),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Puts the title on one line. Fails if it is empty or too long.
fn checked(text: &str) -> Result<String> {
    // Every character that moves the cursor becomes a space.
    let spaced = text.replace(|c| !is_inert(c), " ");
    let title = spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    let length = title.chars().count();
    if title.is_empty() {
        return Err(Failure::new(Code::Usage, "the title is empty")
            .hint("becket name ID --clear takes it away")
            .into());
    }
    if length > MAX_LENGTH {
        let what = format!("the title has {length} characters; at most {MAX_LENGTH} are allowed");
        return Err(Failure::new(Code::Usage, what)
            .hint("choose a shorter one")
            .into());
    }
    Ok(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(
            checked("  Fix\tthe\nlogin\u{202e} \u{1b}[31m").unwrap(),
            "Fix the login [31m"
        );
        assert_eq!(checked(&"é".repeat(200)).unwrap().chars().count(), 200);
        assert!(checked(&"é".repeat(201)).is_err());
        assert!(checked(" \n\u{7} ").is_err());
    }
}
