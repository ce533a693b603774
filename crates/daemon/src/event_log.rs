//! Sends events to `becket events`: first those in the log, then new ones.

use std::collections::HashSet;

use becket_wire::rpc::{AskReply, EventQuery, EventRow, FollowCursor, Response, complete_session};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use crate::connection::Connection;
use crate::core::Message;
use crate::lifecycle::until_closing;
use crate::serve::{Server, take_in};
use crate::store::{self, OpenError};

/// The number of rows that are read ahead of a slow client.
const AHEAD: usize = 64;

/// Sends the events that match a query. Returns false if the connection is to be closed.
pub(crate) async fn send_events(
    connection: &Connection,
    mut query: EventQuery,
    server: &Server,
) -> bool {
    // Subscribe before reading, so that no event is missed in between.
    let mut feed = server.feed.subscribe();
    let mut running = take_in(server).await;
    if let Some(prefix) = &query.session {
        match complete_id(server, prefix.clone()).await {
            Ok(id) => query.session = Some(id),
            Err(told) => return connection.reply(told).await,
        }
    }
    let mut shown = FollowCursor::of(&query);
    if !send_past(connection, &query, server, &running, &mut shown).await {
        return false;
    }
    if !query.follow {
        return connection.reply(AskReply::Done).await;
    }
    // An event from the feed is new even if its number is low: its hooks may have run for long.
    (query.limit, query.after) = (None, None);
    let mut closing = server.closing.subscribe();
    loop {
        let next = tokio::select! {
            next = feed.recv() => next,
            () = connection.until_hang_up() => return false,
            () = until_closing(&mut closing) => return connection.reply(AskReply::Done).await,
        };
        match next {
            Ok(row) => {
                let is_wanted = query.wants(&row) && shown.is_new(row.seq);
                let row = Response::Row(Box::new(EventRow::clone(&row)));
                if is_wanted && !connection.respond(&row).await {
                    return false;
                }
            }
            // We were too slow for the feed: read the missed events from the database.
            Err(RecvError::Lagged(_)) => {
                running = take_in(server).await;
                query.after = Some(shown.after());
                if !send_past(connection, &query, server, &running, &mut shown).await {
                    return false;
                }
                query.after = None;
            }
            Err(RecvError::Closed) => {
                return connection.reply(AskReply::Done).await;
            }
        }
    }
}

/// Sends the events in the log. Leaves out, for followers, those whose hooks are `running`: they come by the feed,
/// with their decision. Returns false if the connection is to be closed.
async fn send_past(
    connection: &Connection,
    query: &EventQuery,
    server: &Server,
    running: &HashSet<i64>,
    shown: &mut FollowCursor,
) -> bool {
    let (rows, mut reading) = mpsc::channel(AHEAD);
    let (path, wanted) = (server.place.database(), query.clone());
    let inode = store::inode(&path);
    // A separate thread: a paused client must not block one of the threads that prepare events.
    std::thread::spawn(move || {
        let result = match store::open_to_read(&path) {
            Ok(Some(connection)) => store::find_events(&connection, &wanted, &mut |row| {
                rows.blocking_send(Ok(row)).is_ok()
            }),
            Err(OpenError::Sqlite { why, .. }) => Err(why),
            Ok(None) | Err(_) => Ok(()),
        };
        if let Err(why) = result {
            drop(rows.blocking_send(Err(why)));
        }
    });
    while let Some(row) = reading.recv().await {
        match row {
            Ok(row) => {
                // Only followers read several times, so only they may get a row twice.
                let is_new = !query.follow || !running.contains(&row.seq) && shown.is_new(row.seq);
                if is_new && !connection.respond(&Response::Row(Box::new(row))).await {
                    return false;
                }
            }
            Err(why) => {
                let mut text = format!("could not read the log: {why}");
                if store::is_damage(&why) {
                    let why = why.to_string();
                    let replaced = server.ask(|done| Message::DatabaseDamaged { inode, why, done });
                    replaced.await;
                    text.push_str("; it was set aside, and a new one begun");
                }
                connection.reply(AskReply::Refused(text)).await;
                return false;
            }
        }
    }
    true
}

/// Completes the beginning of an id to the id of a session.
async fn complete_id(server: &Server, prefix: String) -> Result<String, AskReply> {
    let wanted = prefix.clone();
    let found = server
        .read(move |reader| store::sessions_like(reader, &wanted))
        .await;
    complete_session(&prefix, found.iter().map(String::as_str))
}
