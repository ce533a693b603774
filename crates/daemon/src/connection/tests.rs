use becket_wire::PROTOCOL;
use becket_wire::frame::{Kind, encode};
use tokio::io::AsyncWriteExt;

use super::*;

fn frame(len: usize) -> Frame {
    Frame {
        protocol: PROTOCOL,
        kind: Kind::EVENT,
        body: (0..len).map(|at| at as u8).collect(),
    }
}

#[tokio::test]
async fn frames_are_read_whole_however_they_come() {
    let frames = [1, 0, 2048, READ - HEAD, READ - HEAD + 1, 9, 300_000, 5].map(frame);
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|frame| encode(Kind::EVENT, &[&frame.body]).unwrap())
        .collect();
    for piece in [1_000_000, 4096, 777] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(ours);
        let budget = Budget::default();
        let sent = async {
            for piece in bytes.chunks(piece) {
                theirs.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let read = async {
            for frame in &frames {
                assert_eq!(connection.read(&budget).await.as_ref(), Ok(frame));
            }
        };
        tokio::join!(sent, read);
        drop(theirs);
        assert_eq!(connection.read(&budget).await, Err(ReadError::Closed));
    }
}

#[tokio::test]
async fn a_body_is_no_longer_than_its_event() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs
        .write_all(&encode(Kind::EVENT, &[&[7; 2048]]).unwrap())
        .await
        .unwrap();
    let read = Connection::new(ours).read(&Budget::default()).await;
    assert_eq!(read.unwrap().body.capacity(), 2048);
}
