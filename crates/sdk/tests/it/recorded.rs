//! Plays recorded transcripts of the real program to the SDK, and compares each frame that the recorded
//! client sent with the frame of the SDK.

use std::collections::HashMap;
use std::fs;

use becket_sdk::{Builder, Claude};
use serde_json::Value;

use crate::peer::Peer;

mod interrupts;
mod normal;
mod stories;

/// One frame of a transcript.
struct Recorded {
    from_cli: bool,
    frame: Value,
}

fn transcript(name: &str) -> Vec<Recorded> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let text = fs::read_to_string(format!("{folder}/control.{name}.jsonl")).expect("a fixture");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let frames = lines.map(|mut line: Value| Recorded {
        from_cli: line["dir"] == "from_cli",
        frame: line["frame"].take(),
    });
    frames.collect()
}

/// A transcript that is being played.
struct Player {
    peer: Peer,
    rest: std::vec::IntoIter<Recorded>,
    /// The recorded request ids of the client, and the corresponding ids of the SDK.
    ids: HashMap<String, Value>,
    /// The recorded callback ids, and the corresponding ids of the SDK.
    callbacks: HashMap<String, String>,
}

impl Player {
    /// Plays the first exchange.
    async fn begin(name: &str, builder: Builder) -> (Self, Claude) {
        let (peer, client) = Peer::new(builder);
        let mut player = Self {
            peer,
            rest: transcript(name).into_iter(),
            ids: HashMap::new(),
            callbacks: HashMap::new(),
        };
        let recorded = player.rest.next().expect("a frame").frame;
        let sent = player.peer.receive().await;
        player.map_callbacks(&recorded["request"]["hooks"], &sent["request"]["hooks"]);
        player.map_id(&recorded, &sent);
        player.reply().await;
        (player, client.await.expect("join").expect("start"))
    }

    /// Checks that the events and matchers are the recorded ones, and maps their ids.
    fn map_callbacks(&mut self, recorded: &Value, sent: &Value) {
        for (event, groups) in sent.as_object().expect("hooks") {
            let (ours, theirs) = (&groups[0], &recorded[event][0]);
            assert_eq!(ours["matcher"], theirs["matcher"], "{event}");
            let id = |group: &Value| {
                group["hookCallbackIds"][0]
                    .as_str()
                    .expect("an id")
                    .to_owned()
            };
            self.callbacks.insert(id(theirs), id(ours));
        }
    }

    fn map_id(&mut self, recorded: &Value, sent: &Value) {
        let id = recorded["request_id"].as_str().unwrap_or_default();
        self.ids.insert(id.to_owned(), sent["request_id"].clone());
    }

    /// Sends the program's frames up to the client's next one; `None` at the end.
    async fn reply(&mut self) -> Option<Value> {
        loop {
            let mut next = self.rest.next()?;
            if !next.from_cli {
                return Some(next.frame);
            }
            self.rename(&mut next.frame);
            self.peer.send(&next.frame).await;
        }
    }

    fn rename(&self, frame: &mut Value) {
        if let Some(id) = frame["request"]["callback_id"].as_str() {
            frame["request"]["callback_id"] = self.callbacks[id].as_str().into();
        }
        if let Some(id) = frame["response"]["request_id"].as_str() {
            frame["response"]["request_id"] = self.ids[id].clone();
        }
    }

    /// Plays the rest. Each frame of the client must be the recorded one, unless `differs` accepts it.
    async fn play(
        mut self,
        expected: Option<Value>,
        differs: impl Fn(&Value, &Value) -> bool,
    ) -> Peer {
        let mut expected = expected;
        while let Some(mut recorded) = expected {
            let mut sent = self.peer.receive().await;
            // The recorded client gave its prompts no id.
            sent.as_object_mut().expect("an object").remove("uuid");
            if recorded["type"] == "control_request" {
                self.map_id(&recorded, &sent);
                recorded["request_id"] = sent["request_id"].clone();
            }
            assert!(
                sent == recorded || differs(&recorded, &sent),
                "{recorded}\n{sent}"
            );
            expected = self.reply().await;
        }
        self.peer
    }
}
