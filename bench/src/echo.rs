//! The floor of `ingest`: a server that reads every frame, answers it at once, and stores nothing. Its cost
//! is that of two processes that communicate through a socket.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use becket_wire::frame::Decoder;
use becket_wire::rpc::Response;
use becket_wire::{Output, Version};
use rustix::event::{PollFd, PollFlags, poll};

/// A running echo server. Dropping it ends the server.
#[derive(Debug)]
pub struct Echo(Child);

impl Echo {
    pub fn start(socket: &Path) -> Result<Self> {
        let child = Command::new(std::env::current_exe()?)
            .arg("echo")
            .arg(socket)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("could not start the echo")?;
        let mut echo = Self(child);
        let mut ready = [0];
        let stdout = echo.0.stdout.as_mut().context("no stdout")?;
        stdout
            .read_exact(&mut ready)
            .context("the echo did not start")?;
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Serves until stdin ends, which happens when the parent process has ended.
pub fn serve(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    let answer = Response::Answer {
        version: Version::current(),
        output: Output::default(),
    }
    .to_frame()?;
    std::io::stdout().write_all(b".")?;
    std::io::stdout().flush()?;
    let stdin = std::io::stdin();
    let mut peers: Vec<(UnixStream, Decoder)> = Vec::new();
    loop {
        let mut waiting = vec![
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(&listener, PollFlags::IN),
        ];
        waiting.extend(
            peers
                .iter()
                .map(|(stream, _)| PollFd::new(stream, PollFlags::IN)),
        );
        poll(&mut waiting, None)?;
        let ready: Vec<bool> = waiting.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] {
            return Ok(());
        }
        for at in (0..peers.len()).rev() {
            if ready[at + 2] && !answer_frames(&mut peers[at], &answer) {
                peers.swap_remove(at);
            }
        }
        if ready[1] {
            peers.push((listener.accept()?.0, Decoder::new()));
        }
    }
}

/// Answers the frames that have arrived. Returns false if the peer has hung up.
fn answer_frames((stream, decoder): &mut (UnixStream, Decoder), answer: &[u8]) -> bool {
    let mut buffer = [0; 8192];
    match stream.read(&mut buffer) {
        Ok(0) | Err(_) => return false,
        Ok(len) => decoder.push(&buffer[..len]),
    }
    loop {
        match decoder.next_frame() {
            Ok(None) => return true,
            Ok(Some(_)) if stream.write_all(answer).is_ok() => {}
            _ => return false,
        }
    }
}
