//! Programs and folders.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use becket_wire::Version;

use super::{Check, State};
use crate::claude::{self, version_of};
use crate::world::World;

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
    let Some(said) = claude::says() else {
        let what = "`claude` is not on PATH";
        return Check::warning(name, what, "npm install -g @anthropic-ai/claude-code");
    };
    match claude::numbers(&said) {
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

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).map_or(0, |meta| meta.mode())
}

/// Whether the folder that the file really stands in is closed to others.
fn is_out_of_reach(file: &Path) -> bool {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    real.parent()
        .is_some_and(|folder| mode_of(folder) & 0o077 == 0)
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
        let mode = mode_of(&path);
        // A person's editor makes it as it makes all files; where nobody comes near it, that is well.
        let out_of_reach = path == place.config() && is_out_of_reach(&path);
        if mode & 0o077 != 0 && !out_of_reach {
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
