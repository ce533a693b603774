//! Runs a program in a terminal of its own. Its output is read and thrown away.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const SIZE: Winsize = Winsize {
    ws_col: 200,
    ws_row: 60,
    ws_xpixel: 0,
    ws_ypixel: 0,
};

/// The time limit for the first screen of a program.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A program on a terminal of 200 columns and 60 rows. Dropping it ends the program.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    shown: Receiver<()>,
}

impl OnTerminal {
    /// Starts `command`, which is ready once it has printed `sign`.
    pub fn start(command: &Command, sign: &'static str) -> Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        tcsetwinsize(&master, SIZE)?;
        let name = ptsname(&master, Vec::new())?.into_string()?;
        let terminal = File::options().read(true).write(true).open(&name)?;
        // With `--ctty` the terminal becomes the program's controlling one: programs ask it for its size.
        let mut started = Command::new("setsid");
        started.arg("--ctty").arg(command.get_program());
        started.args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            value.map(|value| started.env(name, value));
        }
        if let Some(folder) = command.get_current_dir() {
            started.current_dir(folder);
        }
        let child = started
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(terminal.try_clone()?))
            .stdout(Stdio::from(terminal.try_clone()?))
            .stderr(Stdio::from(terminal))
            .spawn()
            .context("could not start setsid")?;
        let (to, shown) = channel();
        std::thread::spawn(move || read(master, sign, &to));
        Ok(Self { child, shown })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait_until_ready(&self) -> Result<()> {
        match self.shown.recv_timeout(TIMEOUT) {
            Ok(()) => Ok(()),
            Err(RecvTimeoutError::Timeout) => bail!("the program shows nothing"),
            Err(RecvTimeoutError::Disconnected) => bail!("the program ended at once"),
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn read(master: OwnedFd, sign: &str, ready: &Sender<()>) {
    let mut master = File::from(master);
    let mut buffer = vec![0; 64 << 10];
    let mut kept = Vec::new();
    let mut waiting = true;
    // Reading fails once no program has the terminal open.
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        if waiting {
            kept.extend_from_slice(&buffer[..len]);
            if kept.windows(sign.len()).any(|part| part == sign.as_bytes()) {
                let _ = ready.send(());
                waiting = false;
                kept = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_terminal_of_that_size() {
        let mut command = Command::new("sh");
        command.args(["-c", "stty size < /dev/tty; cat"]);
        command.env("PATH", "/usr/bin:/bin");
        let program = OnTerminal::start(&command, "60 200").unwrap();
        program.wait_until_ready().unwrap();
    }
}
