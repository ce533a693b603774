//! Finds Claude Code processes that run without becket's hooks. becket only lists them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use becket_wire::process::parent_and_start;
use becket_wire::session::SessionRow;

use crate::settings::is_registered_here;
use crate::ui::text::count;
use crate::world::{World, project_of};

/// The first arguments with which `claude` starts no session.
pub const NO_SESSIONS: [&str; 12] = [
    "mcp",
    "update",
    "upgrade",
    "doctor",
    "install",
    "plugin",
    "plugins",
    "config",
    "auth",
    "setup-token",
    "--version",
    "--help",
];

/// Finds the Claude Code processes of this user that belong to no session, each as a row of which
/// little is known. Without /proc it finds none.
pub fn find(sessions: &[SessionRow]) -> Vec<SessionRow> {
    Processes {
        proc: PathBuf::from("/proc"),
        uid: rustix::process::getuid().as_raw(),
        ticks: rustix::param::clock_ticks_per_second(),
    }
    .without_session(sessions)
}

/// Formats the reason why no session is listed, with a hint.
pub fn why_no_sessions(world: &World) -> String {
    why(find(&[]).len(), || is_registered_here(world, None))
}

fn why(unhooked: usize, is_registered: impl Fn() -> bool) -> String {
    match unhooked {
        0 if is_registered() => {
            "No sessions. Start `claude` anywhere, and its session appears here.".into()
        }
        0 => {
            "No sessions: becket is not registered with Claude Code. `becket up` does that.".into()
        }
        unhooked => format!(
            "No sessions, but {} without becket's hooks: see `becket sessions --all`, then `becket doctor`.",
            count(unhooked, "Claude Code runs", "Claude Codes run")
        ),
    }
}

/// The source of processes, and the user whose processes are searched.
#[derive(Debug)]
struct Processes {
    proc: PathBuf,
    uid: u32,
    /// Clock ticks a second.
    ticks: u64,
}

/// A Claude Code process.
#[derive(Debug)]
struct Claude {
    parent: u32,
    start: u64,
    is_session: bool,
}

impl Processes {
    fn without_session(&self, sessions: &[SessionRow]) -> Vec<SessionRow> {
        let found = self.claudes();
        let mut known: HashMap<u32, bool> = HashMap::new();
        for (pid, claude) in &found {
            let has_session = sessions.iter().any(|row| is_of(row, *pid, claude.start));
            *known.entry(top(&found, *pid)).or_default() |= has_session;
        }
        let mut rows: Vec<SessionRow> = known
            .iter()
            .filter(|(pid, has_session)| !**has_session && found[pid].is_session)
            .map(|(pid, _)| self.row(*pid, found[pid].start))
            .collect();
        rows.sort_by_key(|row| row.pid);
        rows
    }

    /// Returns all Claude Code processes by pid. A process that ends meanwhile is skipped.
    fn claudes(&self) -> HashMap<u32, Claude> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid| Some((pid, self.claude(pid)?)))
            .collect()
    }

    fn claude(&self, pid: u32) -> Option<Claude> {
        let folder = self.folder(pid);
        if fs::metadata(&folder).ok()?.uid() != self.uid {
            return None;
        }
        let command = fs::read(folder.join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command);
        let words: Vec<&str> = command.split_terminator('\0').collect();
        let rest = arguments(&words)?;
        let stat = fs::read(folder.join("stat")).ok()?;
        let (parent, start) = parent_and_start(&String::from_utf8_lossy(&stat))?;
        let is_session = rest.first().is_none_or(|word| !NO_SESSIONS.contains(word));
        Some(Claude {
            parent,
            start,
            is_session,
        })
    }

    fn folder(&self, pid: u32) -> PathBuf {
        self.proc.join(pid.to_string())
    }

    fn row(&self, pid: u32, start: u64) -> SessionRow {
        let cwd = fs::read_link(self.folder(pid).join("cwd")).ok();
        SessionRow {
            pid: Some(pid),
            pid_start: Some(start),
            alive: true,
            hooked: false,
            project: cwd.as_deref().map(|cwd| lossy(project_of(cwd))),
            cwd: cwd.as_deref().map(lossy),
            started_at: self.start_time(start).unwrap_or(0),
            ..SessionRow::default()
        }
    }

    /// Converts ticks since boot to milliseconds since 1970.
    fn start_time(&self, start: u64) -> Option<i64> {
        let stat = fs::read_to_string(self.proc.join("stat")).ok()?;
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        let boot: i64 = boot.trim().parse().ok()?;
        let since = start.checked_mul(1000)?.checked_div(self.ticks)?;
        Some(boot * 1000 + i64::try_from(since).ok()?)
    }
}

/// Returns true if this is the process of a session. A pid alone may have been reused.
fn is_of(row: &SessionRow, pid: u32, start: u64) -> bool {
    let is_same = match row.pid_start {
        Some(known) => known == start,
        None => row.ended_at.is_none(),
    };
    row.pid == Some(pid) && is_same
}

/// Returns the topmost ancestor that is Claude Code with only Claude Code between: the processes that
/// a Claude Code starts of itself are part of it.
fn top(found: &HashMap<u32, Claude>, pid: u32) -> u32 {
    let mut top = pid;
    // Bounded: processes are read one after the other, so that reused pids can form a circle.
    for _ in 0..found.len() {
        match found.get(&top) {
            Some(claude) if found.contains_key(&claude.parent) => top = claude.parent,
            _ => break,
        }
    }
    top
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Returns the arguments of a Claude Code command line, or None if it is another program.
fn arguments<'a>(words: &'a [&'a str]) -> Option<&'a [&'a str]> {
    let (program, rest) = words.split_first()?;
    match base_name(program) {
        "claude" | "claude.exe" => Some(rest),
        "node" | "bun" => {
            let nth = rest.iter().position(|word| !word.starts_with('-'))?;
            let script = rest[nth];
            let is_claude = base_name(script) == "claude"
                || script.ends_with("@anthropic-ai/claude-code/cli.js");
            is_claude.then_some(&rest[nth + 1..])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A made-up /proc.
    struct Made {
        folder: tempfile::TempDir,
    }

    impl Made {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("stat"), "cpu 1 2\nbtime 1000\nx 1\n").unwrap();
            Self { folder }
        }

        fn process(&self, pid: u32, parent: u32, start: u64, command: &[&str]) -> &Self {
            let folder = self.folder.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            let stat = format!(
                "{pid} (a) b) S {parent} 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1 2"
            );
            fs::write(folder.join("stat"), stat).unwrap();
            let command: String = command.iter().map(|word| format!("{word}\0")).collect();
            fs::write(folder.join("cmdline"), command).unwrap();
            symlink(self.folder.path().join("w/api/src"), folder.join("cwd")).unwrap();
            self
        }

        fn looked_at(&self) -> Processes {
            Processes {
                proc: self.folder.path().to_owned(),
                uid: rustix::process::getuid().as_raw(),
                ticks: 100,
            }
        }

        fn pids(&self, sessions: &[SessionRow]) -> Vec<u32> {
            let rows = self.looked_at().without_session(sessions);
            rows.into_iter().filter_map(|row| row.pid).collect()
        }
    }

    #[test]
    fn the_reason_why_there_is_no_session_is_the_one_that_helps() {
        assert!(why(0, || true).contains("Start `claude`"));
        assert!(why(0, || false).contains("`becket up`"));
        for registered in [true, false] {
            let said = why(2, || registered);
            assert!(
                said.contains("2 Claude Codes run without becket's hooks"),
                "{said}"
            );
        }
    }

    fn session(pid: u32, pid_start: Option<u64>) -> SessionRow {
        SessionRow {
            pid: Some(pid),
            pid_start,
            hooked: true,
            ..SessionRow::default()
        }
    }

    #[test]
    fn it_is_known_by_its_program() {
        let made = Made::new();
        made.process(10, 1, 5, &["claude"])
            .process(11, 1, 5, &["/opt/bin/claude", "--resume"])
            .process(
                12,
                1,
                5,
                &[
                    "node",
                    "--max-old-space-size=9",
                    "/n/@anthropic-ai/claude-code/cli.js",
                ],
            )
            .process(13, 1, 5, &["/usr/bin/node", "/usr/bin/claude", "-p", "mcp"])
            .process(20, 1, 5, &["vim", "claude"])
            .process(
                21,
                1,
                5,
                &["node", "server.js", "@anthropic-ai/claude-code/cli.js"],
            )
            .process(22, 1, 5, &["claude-desktop"])
            .process(23, 1, 5, &["claude", "mcp", "serve"])
            .process(24, 1, 5, &[]);
        assert_eq!(made.pids(&[]), [10, 11, 12, 13]);
    }

    #[test]
    fn what_it_starts_of_its_own_kind_is_a_part_of_it() {
        let made = Made::new();
        made.process(10, 1, 5, &["node", "/bin/claude"])
            .process(11, 10, 6, &["claude"])
            .process(12, 11, 7, &["claude"])
            .process(13, 12, 8, &["sh", "-c", "claude -p x"])
            .process(14, 13, 9, &["claude", "-p", "x"]);
        assert_eq!(made.pids(&[]), [10, 14]);
        // The wrapper is not without hooks if what it wraps has them.
        assert_eq!(made.pids(&[session(11, Some(6))]), [14]);
    }
}
