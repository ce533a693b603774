//! `becket sessions` and the live view: the sessions as they are, and then every change.

use std::sync::Arc;

use becket_engine::session::Session;
use becket_wire::rpc::{AskReply, Response, complete_session};
use becket_wire::session::{SessionQuery, SessionRow};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tracing::warn;

use crate::connection::Connection;
use crate::core::Message;
use crate::life::{closes, now_ms};
use crate::registry::Asked;
use crate::serve::{Door, take_in};
use crate::store::{self, Which};
use crate::tmux::Order;

/// So many ended sessions are told, unless more are asked for.
const ENDED: u32 = 200;

/// Tells the pusher of every session, and of every change.
pub(crate) async fn tell_tmux(door: Arc<Door>) {
    loop {
        let Some((rows, mut changes)) = watch(&door).await else {
            return;
        };
        drop(door.tmux.send(Order::All(rows)).await);
        loop {
            match changes.recv().await {
                Ok(row) => drop(door.tmux.send(Order::Session(row)).await),
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

type Watched = (Vec<SessionRow>, broadcast::Receiver<Arc<SessionRow>>);

/// The live sessions, and every change from then on.
async fn watch(door: &Door) -> Option<Watched> {
    let (reply, watched) = oneshot::channel();
    let asked = Message::Asked(Asked::Watch(reply));
    door.core.send(asked).await.ok()?;
    watched.await.ok()
}

/// Has the panes of a tmux server coloured, or not any more.
pub(crate) async fn paint(door: &Door, tmux_socket: String, on: bool) -> AskReply {
    let (done, painted) = oneshot::channel();
    let order = Order::Paint {
        tmux_socket,
        on,
        done,
    };
    drop(door.tmux.send(order).await);
    match painted.await {
        Ok(Ok(())) => AskReply::Done,
        Ok(Err(why)) => AskReply::No(why.to_string()),
        Err(_) => AskReply::No("the daemon ends".to_owned()),
    }
}

/// Asks the registry something. It answers everything, unless the daemon ends.
pub(crate) async fn ask(
    door: &Door,
    asked: impl FnOnce(oneshot::Sender<AskReply>) -> Asked,
) -> AskReply {
    let (reply, answer) = oneshot::channel();
    drop(door.core.send(Message::Asked(asked(reply))).await);
    let ending = AskReply::No("the daemon ends".to_owned());
    answer.await.unwrap_or(ending)
}

/// Sends the sessions that were asked for. False if nobody is there any more.
pub(crate) async fn sessions(connection: &Connection, query: SessionQuery, door: &Door) -> bool {
    // What the spool holds may change a status.
    take_in(door).await;
    let (reply, live) = oneshot::channel();
    drop(door.core.send(Message::Asked(Asked::Live(reply))).await);
    let live = live.await.unwrap_or_default();
    let told = match &query.session {
        Some(prefix) => one(door, prefix.clone(), live).await,
        None if query.all => {
            let limit = query.limit.unwrap_or(ENDED);
            let ended = stored(door, move |reader| {
                store::sessions(reader, Which::Ended(limit))
            });
            AskReply::Sessions(with_ended(live, &ended.await))
        }
        None => AskReply::Sessions(live),
    };
    match told {
        AskReply::Sessions(rows) => say(connection, rows).await,
        told => connection.respond(&Response::Reply(told)).await,
    }
}

/// Sends sessions, the first of them if all are more than a frame holds.
async fn say(connection: &Connection, rows: Vec<SessionRow>) -> bool {
    match packed(rows) {
        Some(frame) => connection.send(&frame).await,
        None => false,
    }
}

fn packed(mut rows: Vec<SessionRow>) -> Option<Vec<u8>> {
    loop {
        let count = rows.len();
        let told = Response::Reply(AskReply::Sessions(rows));
        if let Ok(frame) = told.to_frame() {
            return Some(frame);
        }
        let Response::Reply(AskReply::Sessions(all)) = told else {
            return None;
        };
        warn!(count, "more sessions than one frame holds");
        rows = all;
        rows.truncate(count / 2);
        if rows.is_empty() {
            return None;
        }
    }
}

/// The one session whose id begins so, live or ended.
async fn one(door: &Door, prefix: String, live: Vec<SessionRow>) -> AskReply {
    let begins = prefix.clone();
    let known = stored(door, move |reader| {
        store::sessions(reader, Which::Like(&begins))
    })
    .await;
    let mut found = with_ended(live, &known);
    match complete_session(&prefix, found.iter().map(|row| &*row.session_id)) {
        Ok(id) => {
            found.retain(|row| row.session_id == id);
            AskReply::Sessions(found)
        }
        Err(told) => told,
    }
}

/// The live ones, and after them those that are not among them.
fn with_ended(mut live: Vec<SessionRow>, others: &[Session]) -> Vec<SessionRow> {
    let now = now_ms();
    for session in others {
        if live.iter().all(|row| row.session_id != session.session_id) {
            live.push(session.row(now));
        }
    }
    live
}

async fn stored<F>(door: &Door, read: F) -> Vec<Session>
where
    F: FnOnce(&rusqlite::Connection) -> rusqlite::Result<Vec<Session>> + Send + 'static,
{
    let database = door.place.database();
    let found = tokio::task::spawn_blocking(move || {
        let reader = store::open_to_read(&database).ok().flatten()?;
        read(&reader).ok()
    });
    found.await.ok().flatten().unwrap_or_default()
}

/// Sends the live sessions, and then every change until one side ends.
pub(crate) async fn changes(connection: &Connection, door: &Door) -> bool {
    take_in(door).await;
    let mut closing = door.closing.subscribe();
    loop {
        let Some((rows, mut changes)) = watch(door).await else {
            return false;
        };
        if !say(connection, rows).await {
            return false;
        }
        loop {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = connection.until_hang_up() => return false,
                () = closes(&mut closing) => return false,
            };
            match change {
                Ok(row) => {
                    let row = Box::new((*row).clone());
                    if !connection
                        .respond(&Response::Reply(AskReply::Changed(row)))
                        .await
                    {
                        return false;
                    }
                }
                // Too slow for every change: all of them anew.
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_frame_holds_is_cut_not_refused() {
        let row = SessionRow {
            title: Some("x".repeat(10 << 20)),
            ..SessionRow::default()
        };
        let count = |rows| {
            let mut decoder = becket_wire::frame::Decoder::new();
            decoder.push(&packed(rows)?);
            let frame = decoder.next_frame().ok()??;
            match Response::from_frame(frame).ok()? {
                Response::Reply(AskReply::Sessions(rows)) => Some(rows.len()),
                _ => None,
            }
        };
        assert_eq!(count(vec![row.clone(); 3]), Some(3));
        assert_eq!(count(vec![row.clone(); 4]), Some(2));
        assert_eq!(count(Vec::new()), Some(0));
    }
}
