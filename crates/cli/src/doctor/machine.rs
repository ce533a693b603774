//! Programs and folders.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use becket_wire::Version;

use super::{Check, State};
use crate::world::World;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Both programs, side by side and of one version.
pub(super) fn programs(world: &World) -> Vec<Check> {
    let ours = Version::current();
    let shim = world.shim();
    let check = match version_of(&shim) {
        None if !shim.exists() => Check::broken(
            "shim",
            format!("{} is missing", shim.display()),
            "./install (in becket's source)",
        ),
        None => Check::broken(
            "shim",
            format!("{} does not run", shim.display()),
            "./install (in becket's source)",
        ),
        Some(said) if said != format!("becket-hook {ours}") => Check::broken(
            "shim",
            format!(
                "{} says `{said}`, and this is becket {ours}",
                shim.display()
            ),
            "./install (in becket's source)",
        ),
        Some(said) => Check::good("shim", format!("{said}, {}", shim.display())),
    };
    vec![
        Check::good(
            "becket",
            format!("{ours}, {}", world.programs.join("becket").display()),
        ),
        check,
    ]
}

/// The first Claude Code that takes a settings file with events it does not know: an older one
/// drops every hook in it.
const HEARD: [u32; 3] = [2, 1, 101];
/// The first one that gives hooks their arguments.
const WITH_ARGUMENTS: [u32; 3] = [2, 1, 139];

/// Claude Code itself. becket can be set up before it.
pub(super) fn claude() -> Check {
    let name = "Claude Code";
    let Some(said) = version_of(Path::new("claude")) else {
        let what = "`claude` is not on PATH";
        return Check::warning(name, what, "npm install -g @anthropic-ai/claude-code");
    };
    match numbers(&said) {
        Some(version) if version < HEARD => {
            let what = format!("{said} starts no hook of becket's; 2.1.139 or newer does");
            Check::broken(name, what, "claude update")
        }
        Some(version) if version < WITH_ARGUMENTS => {
            let what = format!("{said} works only with becket in ~/.becket; 2.1.139 is better");
            Check::warning(name, what, "claude update")
        }
        _ => Check::good(name, said),
    }
}

/// The three numbers that a version begins with.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version
        .split_whitespace()
        .next()?
        .split('.')
        .map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

/// The first line that a program prints for `--version`.
fn version_of(program: &Path) -> Option<String> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > until {
            drop(child.kill());
            drop(child.wait());
            return None;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let output = child
        .wait_with_output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .map(|line| line.trim().to_owned())
}

/// The home and what is in it: there, ours, closed to others, and writable.
pub(super) fn folders(world: &World) -> Vec<Check> {
    let place = &world.place;
    let home = place.home();
    let name = "home";
    let Ok(meta) = std::fs::metadata(home) else {
        return vec![Check::broken(
            name,
            format!("{} does not exist", home.display()),
            "becket up",
        )];
    };
    let uid = rustix::process::getuid().as_raw();
    if meta.uid() != uid {
        let what = format!(
            "{} belongs to user {}, not to you",
            home.display(),
            meta.uid()
        );
        return vec![Check::broken(
            name,
            what,
            format!("sudo chown -R {uid} {}", home.display()),
        )];
    }
    let mut checks = Vec::new();
    let folders = [
        home.to_owned(),
        place.run(),
        place.spool(),
        place.log(),
        place.sessions(),
    ];
    let files = [place.database(), place.config(), place.mask_key()];
    let folders = folders.into_iter().map(|path| (path, 0o700, State::Broken));
    let files = files.into_iter().map(|path| (path, 0o600, State::Warning));
    for (path, wanted, state) in folders.chain(files) {
        let mode = std::fs::metadata(&path).map_or(0, |meta| meta.mode());
        if mode & 0o077 != 0 {
            let path = path.display();
            let what = format!("{path} is open to others (mode {:o})", mode & 0o777);
            let mend = format!("chmod {wanted:o} {path}");
            checks.push(Check {
                state,
                ..Check::warning(name, what, mend)
            });
        }
    }
    // On a full disk a file can often be made, and nothing put into it.
    let written = tempfile::NamedTempFile::new_in(place.home())
        .and_then(|mut file| file.write_all(&[0; 4096]));
    if let Err(why) = written {
        let what = format!("nothing can be written to {}: {why}", home.display());
        checks.push(Check::broken(
            name,
            what,
            "make room on the disk, or make the folder writable",
        ));
    }
    if checks.is_empty() {
        checks.push(Check::good(
            name,
            format!("{}, yours alone", home.display()),
        ));
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_claude_says() {
        assert_eq!(numbers("2.1.325 (Claude Code)"), Some([2, 1, 325]));
        assert!(numbers("2.1.98 (Claude Code)").unwrap() < HEARD);
        assert_eq!(numbers("something else"), None);
    }
}
