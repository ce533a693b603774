//! The server's threads: one that accepts, one for each connection.

use std::io::{self, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Shared;
use super::compose;
use super::http::{Incoming, Outgoing};
use super::request::{Kind, Request};
use super::turn::{Pause, Reply, Turn, Usage};

pub(super) fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.state().over {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // A connection that breaks is the client's business (an interrupt), not the test's.
        std::thread::spawn(move || drop(converse(&stream, &shared)));
    }
}

fn converse(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(incoming) = Incoming::read(&mut reader)? {
        let with_body = incoming.method != "HEAD";
        match answer(incoming, shared) {
            (Some(outgoing), None) => outgoing.write(&mut &*stream, with_body, 0)?,
            (Some(outgoing), Some(gate)) => halfway(&outgoing, &gate, stream, shared)?,
            (None, _) => return stream.shutdown(std::net::Shutdown::Both),
        }
    }
    Ok(())
}

/// Sends all words of a reply, and its end once the gate is open.
fn halfway(
    outgoing: &Outgoing,
    gate: &str,
    mut stream: &TcpStream,
    shared: &Shared,
) -> io::Result<()> {
    let body = &outgoing.body;
    let end = String::from_utf8_lossy(body).rfind("event: content_block_stop");
    let rest = end.map_or(0, |end| body.len() - end);
    outgoing.write(&mut stream, true, rest)?;
    shared.pass(gate);
    stream.write_all(&body[body.len() - rest..])?;
    stream.flush()
}

/// The reply, and the gate that it stops at halfway.
fn answer(incoming: Incoming, shared: &Shared) -> (Option<Outgoing>, Option<String>) {
    let size = incoming.body.len();
    let body: Value = serde_json::from_slice(&incoming.body).unwrap_or_default();
    let path = incoming
        .path
        .split('?')
        .next()
        .unwrap_or_default()
        .to_owned();
    if path.ends_with("/count_tokens") {
        keep(incoming, body, Kind::CountTokens, shared);
        let counted = json!({"input_tokens": (size / 4).max(1)});
        return (Some(json_reply(200, &counted)), None);
    }
    if incoming.method != "POST" || !path.ends_with("/v1/messages") {
        keep(incoming, body, Kind::Other, shared);
        let nothing = json!({"data": [], "has_more": false});
        return (Some(json_reply(200, &nothing)), None);
    }
    let (kind, turn, usage) = {
        let script = &mut shared.state().script;
        let (kind, turn) = script.choose(&body);
        let usage = script.usage_of(&turn);
        (kind, turn, usage)
    };
    let model = body["model"].as_str().unwrap_or("scripted").to_owned();
    let streams = body["stream"] == true;
    keep(incoming, body, kind, shared);
    wait(&turn, shared);
    (reply(&turn, &model, usage, streams), turn.halfway)
}

fn keep(incoming: Incoming, body: Value, kind: Kind, shared: &Shared) {
    let mut headers = incoming.headers;
    headers.retain(|(name, _)| name != "x-api-key" && name != "authorization");
    shared.state().requests.push(Request {
        method: incoming.method,
        path: incoming.path,
        headers,
        body,
        kind,
    });
    shared.changed.notify_all();
}

fn wait(turn: &Turn, shared: &Shared) {
    for pause in &turn.pauses {
        match pause {
            Pause::Gate(name) => shared.pass(name),
            Pause::Millis(millis) => shared.rest(Duration::from_millis(*millis)),
        }
    }
}

fn reply(turn: &Turn, model: &str, usage: Usage, streams: bool) -> Option<Outgoing> {
    let blocks = match &turn.reply {
        Reply::HangUp => return None,
        Reply::Error(failure) => {
            let mut reply = json_reply(failure.status, &compose::failure(failure));
            reply.headers.clone_from(&failure.headers);
            return Some(reply);
        }
        Reply::Blocks(blocks) => blocks,
    };
    let message = compose::message(model, blocks, usage);
    if !streams {
        return Some(json_reply(200, &message));
    }
    Some(Outgoing {
        status: 200,
        content_type: "text/event-stream",
        request_id: compose::id("req"),
        headers: Vec::new(),
        body: compose::stream(&message).into_bytes(),
    })
}

fn json_reply(status: u16, body: &Value) -> Outgoing {
    Outgoing {
        status,
        content_type: "application/json",
        request_id: compose::id("req"),
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
    }
}
