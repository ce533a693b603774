use std::collections::BTreeMap;

use super::*;
use crate::EventId;
use crate::frame::Decoder;

fn decode(bytes: &[u8]) -> Frame {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    decoder.next_frame().unwrap().unwrap()
}

#[test]
fn an_event_keeps_its_bytes() {
    let envelope = Envelope {
        id: EventId::new(5, [7; 2]),
        at: 5,
        version: Version::current(),
        event: Some("Stop".into()),
        from: None,
        home: "/h".into(),
        pid: 4,
        pid_start: Some(9),
        pid_is_claude: true,
        pid_parent: None,
        variables: BTreeMap::from([("TMUX_PANE".into(), "%3".into())]),
        cut: Some(Cut::TooLong),
    };
    let event = EventRequest {
        envelope,
        sent: 77,
        payload: b"\0\xff{".to_vec(),
    };
    for request in [Request::Event(event.clone()), Request::StatusLine(event)] {
        assert_eq!(
            Request::from_frame(decode(&request.to_frame().unwrap())).unwrap(),
            request
        );
    }
}

#[test]
fn responses_come_back_as_they_were() {
    let row = EventRow {
        seq: 1,
        id: EventId::new(5, [7; 2]),
        at: 5,
        session_id: None,
        agent_id: None,
        event: Some("Stop".into()),
        tool: None,
        decision: Some(DecisionRow {
            answer: "deny".into(),
            by: None,
            reason: Some("no".into()),
            effort: None,
        }),
        took_us: Some(3),
        source: Source::Alone,
        masked: 0,
        fault: None,
        duplicate_of: None,
        payload: Some(vec![0, 255]),
    };
    let version = Version::current();
    for response in [
        Response::Answer {
            version,
            output: Output {
                stdout: b"{}".to_vec(),
                stderr: b"e".to_vec(),
                exit: 2,
            },
        },
        Response::Hold {
            for_ms: 5,
            need_env: true,
        },
        Response::Busy,
        Response::Refused { version },
        Response::Yielding,
        Response::Reply(AskReply::Refused("why".into())),
        Response::Row(Box::new(EventRow {
            payload: None,
            ..row.clone()
        })),
        Response::Row(Box::new(row)),
    ] {
        assert_eq!(
            Response::from_frame(decode(&response.to_frame().unwrap())).unwrap(),
            response
        );
    }
}

#[test]
fn a_short_body_is_an_error() {
    for kind in [0x01, 0x05, 0x81, 0x82, 0x84, 0x85, 0x86, 0x99] {
        for body in [&b""[..], b"\x05\0\0\0", b"\xff\xff\xff\xff\0"] {
            let frame = Frame {
                protocol: 1,
                kind: FrameKind(kind),
                body: body.to_vec(),
            };
            if kind < 0x80 {
                assert!(Request::from_frame(frame).is_err());
            } else if kind != 0x82 || body.len() < 5 {
                assert!(Response::from_frame(frame).is_err(), "{kind:#x} {body:?}");
            }
        }
    }
}
