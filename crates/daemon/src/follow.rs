//! `becket events`: the log up to now, and then what comes.

use std::collections::HashSet;

use becket_wire::rpc::{AskReply, EventQuery, EventRow, FollowCursor, Response, complete_session};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};

use crate::connection::Connection;
use crate::core::Message;
use crate::life::closes;
use crate::serve::{Door, take_in};
use crate::store::{self, OpenError};

/// How many rows are read ahead of a slow reader.
const AHEAD: usize = 64;

/// Sends what was asked for. False if nobody is there any more.
pub(crate) async fn events(connection: &Connection, mut query: EventQuery, door: &Door) -> bool {
    // Listening begins before reading: nothing falls between.
    let mut feed = door.feed.subscribe();
    let mut running = take_in(door).await;
    if let Some(prefix) = &query.session {
        match complete(door, prefix.clone()).await {
            Ok(id) => query.session = Some(id),
            Err(told) => return connection.respond(&Response::Reply(told)).await,
        }
    }
    let mut shown = FollowCursor::of(&query);
    if send_past(connection, &query, door, &running, &mut shown)
        .await
        .is_err()
    {
        return false;
    }
    if !query.follow {
        return connection.respond(&Response::Reply(AskReply::Done)).await;
    }
    // What comes is news however low its number: its hooks may have run for long.
    (query.limit, query.after) = (None, None);
    let mut closing = door.closing.subscribe();
    loop {
        let next = tokio::select! {
            next = feed.recv() => next,
            () = connection.until_hang_up() => return false,
            () = closes(&mut closing) => return connection.respond(&Response::Reply(AskReply::Done)).await,
        };
        match next {
            Ok(row) => {
                let is_wanted = query.wants(&row) && shown.is_new(row.seq);
                let row = Response::Row(Box::new(EventRow::clone(&row)));
                if is_wanted && !connection.respond(&row).await {
                    return false;
                }
            }
            // We were too slow for the feed; the database has what it dropped.
            Err(RecvError::Lagged(_)) => {
                running = take_in(door).await;
                query.after = Some(shown.after());
                let sent = send_past(connection, &query, door, &running, &mut shown).await;
                query.after = None;
                if sent.is_err() {
                    return false;
                }
            }
            Err(RecvError::Closed) => {
                return connection.respond(&Response::Reply(AskReply::Done)).await;
            }
        }
    }
}

struct Gone;

/// Sends what the log holds. Who follows gets those whose hooks are `running` by the feed, with their
/// decision.
async fn send_past(
    connection: &Connection,
    query: &EventQuery,
    door: &Door,
    running: &HashSet<i64>,
    shown: &mut FollowCursor,
) -> Result<(), Gone> {
    let (rows, mut reading) = mpsc::channel(AHEAD);
    let (path, wanted) = (door.place.database(), query.clone());
    let inode = store::inode(&path);
    // A thread of its own: a paused reader must not take one of those that prepare events.
    std::thread::spawn(move || {
        let found = match store::open_to_read(&path) {
            Ok(Some(connection)) => store::find(&connection, &wanted, &mut |row| {
                rows.blocking_send(Ok(row)).is_ok()
            }),
            Ok(None) => Ok(()),
            Err(OpenError::Sqlite { why, .. }) => Err(why),
            Err(_) => Ok(()),
        };
        if let Err(why) = found {
            drop(rows.blocking_send(Err(why)));
        }
    });
    while let Some(row) = reading.recv().await {
        match row {
            Ok(row) => {
                // Only followers come back for more.
                let is_new = !query.follow || !running.contains(&row.seq) && shown.is_new(row.seq);
                if is_new && !connection.respond(&Response::Row(Box::new(row))).await {
                    return Err(Gone);
                }
            }
            Err(why) => {
                let mut told = format!("could not read the log: {why}");
                if store::is_damage(&why) {
                    let (done, set_aside) = oneshot::channel();
                    let why = why.to_string();
                    drop(door.core.send(Message::Damaged { inode, why, done }).await);
                    drop(set_aside.await);
                    told.push_str("; it was set aside, and a new one begun");
                }
                connection
                    .respond(&Response::Reply(AskReply::No(told)))
                    .await;
                return Err(Gone);
            }
        }
    }
    Ok(())
}

/// Finds the one session whose id begins so.
async fn complete(door: &Door, prefix: String) -> Result<String, AskReply> {
    let path = door.place.database();
    let wanted = prefix.clone();
    let found = tokio::task::spawn_blocking(move || match store::open_to_read(&path) {
        Ok(Some(connection)) => store::sessions_like(&connection, &wanted).unwrap_or_default(),
        _ => Vec::new(),
    });
    let found = found.await.unwrap_or_default();
    complete_session(&prefix, found.iter().map(String::as_str))
}
