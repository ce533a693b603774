//! Which process a terminal listens to, from `/proc/PID/stat`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use becket_wire::session::SessionRow;
use rustix::process::{Pid, Signal};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::failure::{Code, Failure};

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    ended: bool,
    group: i64,
    /// Its controlling terminal, as the kernel packs device numbers.
    terminal: u64,
    /// The group that this terminal listens to.
    in_front: i64,
    start: u64,
}

impl Stat {
    /// The name in the line may hold anything, so fields are counted from its end.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let mut number = |skip: usize| fields.nth(skip)?.parse::<i64>().ok();
        Some(Self {
            ended: matches!(state, "Z" | "X"),
            group: number(1)?,
            terminal: number(1)?.cast_unsigned(),
            in_front: number(0)?,
            start: number(13)?.cast_unsigned(),
        })
    }

    /// Whether what is typed into this terminal reaches the process.
    pub fn is_in_front_of(&self, terminal: &Path) -> bool {
        let device = fs::metadata(terminal).map(|found| found.rdev());
        let same = device.is_ok_and(|device| {
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            unpacked(self.terminal) == (major, minor)
        });
        same && self.group == self.in_front
    }
}

/// Major and minor number of a device in `stat`'s form.
fn unpacked(device: u64) -> (u32, u32) {
    let major = (device >> 8) & 0xfff;
    let minor = (device & 0xff) | ((device >> 12) & 0xf_ff00);
    (major as u32, minor as u32)
}

/// The session's process, if it lives and is the one that was meant: pids are used again.
pub fn process(row: &SessionRow) -> Result<(u32, Stat)> {
    let (Some(pid), Some(start)) = (row.pid, row.pid_start) else {
        let what = "the process of this session is not known";
        return Err(Failure::new(Code::Missing, what).into());
    };
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    match Stat::parse(&line) {
        Some(stat) if stat.start == start && !stat.ended => Ok((pid, stat)),
        _ => Err(gone(row)),
    }
}

/// Sends the session's process SIGTERM.
pub fn ask_to_end(row: &SessionRow) -> Result<()> {
    let (pid, _) = process(row)?;
    let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(|| gone(row))?;
    #[cfg(target_os = "linux")]
    {
        // Once it is open, the handle means this process and no later one with its number.
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| gone(row))?;
        process(row)?;
        pidfd_send_signal(handle, Signal::TERM).map_err(|_| gone(row))
    }
    #[cfg(not(target_os = "linux"))]
    rustix::process::kill_process(pid, Signal::TERM).map_err(|_| gone(row))
}

fn gone(row: &SessionRow) -> anyhow::Error {
    let pid = row.pid.unwrap_or_default();
    Failure::new(
        Code::Missing,
        format!("the Claude Code of this session (process {pid}) has ended"),
    )
    .hint("becket sessions --all")
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_line() {
        let line = "77 (a) b (c) S 42 70 60 34816 71 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        let stat = Stat::parse(line).unwrap();
        let expected = Stat {
            ended: false,
            group: 70,
            terminal: 34816,
            in_front: 71,
            start: 987_654,
        };
        assert_eq!(stat, expected);
        assert!(Stat::parse(&line.replace(" S ", " Z ")).unwrap().ended);
        for cut in ["", "77 (x", "77 (x) S 42 70 60 34816 71 4194560"] {
            assert_eq!(Stat::parse(cut), None, "{cut}");
        }
    }

    #[test]
    fn devices_are_unpacked_as_the_kernel_packs_them() {
        assert_eq!(unpacked(34816), (136, 0));
        assert_eq!(unpacked(0x1000_88ab), (136, 0x1_00ab));
    }
}
