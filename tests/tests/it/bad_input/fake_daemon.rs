//! A fake daemon: a listener on the daemon's socket whose answers the test chooses.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use becket_tests::world::{World, write_program};
use becket_wire::frame::{Decoder, Frame};
use becket_wire::rpc::{EventRequest, Request, Response};
use becket_wire::{Output, Version};

/// A fake daemon. Dropping it ends it and removes its socket.
#[derive(Debug)]
pub(crate) struct FakeDaemon {
    socket: PathBuf,
    listener: UnixListener,
    serving: Option<JoinHandle<()>>,
}

impl FakeDaemon {
    /// Listens, and passes every connection to `treat`, one after the other.
    pub(crate) fn new(world: &World, treat: impl FnMut(UnixStream) + Send + 'static) -> Self {
        let socket = socket_in(world);
        let listener = UnixListener::bind(&socket).expect("a socket");
        Self::on(socket, listener, treat)
    }

    pub(crate) fn on(
        socket: PathBuf,
        listener: UnixListener,
        mut treat: impl FnMut(UnixStream) + Send + 'static,
    ) -> Self {
        let accepting = listener.try_clone().expect("a second handle");
        let serving = std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.accept() {
                treat(stream);
            }
        });
        Self {
            socket,
            listener,
            serving: Some(serving),
        }
    }
}

impl Drop for FakeDaemon {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.socket));
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(serving) = self.serving.take() {
            drop(serving.join());
        }
    }
}

/// Returns the path of the daemon's socket, in a folder made as the daemon would.
pub(crate) fn socket_in(world: &World) -> PathBuf {
    let run = world.path("run");
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&run);
    made.expect("a folder for the socket");
    run.join("socket")
}

/// Reads the next frame of a connection; `None` if the other side hung up.
pub(crate) fn frame(stream: &mut UnixStream) -> Option<Frame> {
    let mut decoder = Decoder::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(frame) = decoder.next_frame().expect("frames only") {
            return Some(frame);
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(len) => decoder.push(&buffer[..len]),
        }
    }
}

/// Reads the event that the shim sends.
pub(super) fn event(stream: &mut UnixStream) -> EventRequest {
    let frame = frame(stream).expect("an event");
    match Request::from_frame(frame) {
        Ok(Request::Event(event)) => event,
        other => panic!("no event: {other:?}"),
    }
}

/// Sends a response; a closed connection is not an error.
pub(crate) fn say(stream: &mut UnixStream, response: &Response) {
    drop(stream.write_all(&response.to_frame().expect("a frame")));
}

/// Waits until the other side hangs up.
pub(super) fn until_gone(stream: &mut UnixStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0) {}
}

/// Returns an answer that differs from silence.
pub(super) fn answer() -> Response {
    Response::Answer {
        version: Version::current(),
        output: Output {
            stdout: ANSWER.as_bytes().to_vec(),
            stderr: Vec::new(),
            exit: 0,
        },
    }
}

pub(super) const ANSWER: &str = "{\"systemMessage\":\"from the fake\"}";

/// Puts a program in becket's place that records its arguments and then runs becket. Returns a function
/// that reads the records.
pub(super) fn note_calls(world: &World) -> impl Fn() -> String + use<> {
    let becket = world.programs.join("becket");
    let real = world.programs.join("real-becket");
    let calls = world.root().join("calls");
    fs::rename(&becket, &real).expect("becket moves");
    let quoted = |path: &Path| format!("'{}'", path.display());
    let script = format!(
        "printf '%s\\n' \"$*\" >>{}\nexec {} \"$@\"",
        quoted(&calls),
        quoted(&real)
    );
    write_program(&becket, &script);
    move || fs::read_to_string(&calls).unwrap_or_default()
}
