//! What the view can do to a session: behind a trait, so that tests need no tmux.

use anyhow::Result;
use becket_wire::rpc::{Ask, SeenAt};
use becket_wire::session::SessionRow;

use super::update::Deed;
use crate::client::Client;
use crate::tmux;
use crate::world::World;

pub trait Hands: Send + Sync {
    fn jump(&self, row: &SessionRow) -> Result<()>;
    fn interrupt(&self, row: &SessionRow) -> Result<()>;
    fn send_line(&self, row: &SessionRow, text: &str) -> Result<()>;
    fn end(&self, row: &SessionRow) -> Result<()>;
    fn name(&self, session: &str, title: Option<&str>) -> Result<()>;
}

/// Does it, and says in words what came of it.
pub fn perform(hands: &dyn Hands, deed: &Deed) -> Result<String> {
    Ok(match deed {
        Deed::Jump(row) => {
            hands.jump(row)?;
            "jumped".to_owned()
        }
        Deed::Interrupt(row) => {
            hands.interrupt(row)?;
            "sent Escape".to_owned()
        }
        Deed::Line(row, text) => {
            hands.send_line(row, text)?;
            "sent the line".to_owned()
        }
        Deed::End(row) => {
            hands.end(row)?;
            "told it to end".to_owned()
        }
        Deed::Name { session, title } => {
            hands.name(session, title.as_deref())?;
            match title {
                Some(title) => format!("named it {title}"),
                None => "took its name away".to_owned(),
            }
        }
        Deed::Redraw | Deed::Quit => String::new(),
    })
}

/// The real ones: tmux for the panes, the daemon for names.
#[derive(Debug)]
pub struct RealHands {
    pub world: World,
}

impl Hands for RealHands {
    fn jump(&self, row: &SessionRow) -> Result<()> {
        tmux::jump(row)?;
        // Whoever has jumped there has seen it; a daemon that cannot be told changes nothing.
        let seen = Ask::Seen(SeenAt::Session(row.session_id.clone()));
        if let Ok(Some(mut client)) = Client::connect(&self.world) {
            drop(client.done(seen));
        }
        Ok(())
    }

    fn interrupt(&self, row: &SessionRow) -> Result<()> {
        tmux::interrupt(row)
    }

    fn send_line(&self, row: &SessionRow, text: &str) -> Result<()> {
        tmux::send_line(row, text)
    }

    fn end(&self, row: &SessionRow) -> Result<()> {
        tmux::end(row)
    }

    fn name(&self, session: &str, title: Option<&str>) -> Result<()> {
        let ask = Ask::Name {
            session: session.to_owned(),
            title: title.map(str::to_owned),
        };
        Client::connect_or_start(&self.world)?.done(ask)
    }
}
