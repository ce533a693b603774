//! Which settings files there are, and where.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::failure::{Code, Failure};
use crate::world::{World, project_of};

const MANAGED: &str = if cfg!(target_os = "macos") {
    "/Library/Application Support/ClaudeCode/managed-settings.json"
} else {
    "/etc/claude-code/managed-settings.json"
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All of the user's sessions.
    User,
    /// Everybody's sessions in this project.
    Project,
    /// The user's own sessions in this project.
    Local,
    /// What the machine's owner says; we only look at it.
    Managed,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Managed => "managed",
        })
    }
}

impl Scope {
    pub fn file(self, world: &World) -> Result<PathBuf> {
        let in_project = |name: &str| project_of(&world.cwd).join(".claude").join(name);
        match self {
            Self::User => match &world.claude_home {
                Some(folder) => Ok(world.cwd.join(folder).join("settings.json")),
                None => {
                    let what = "no user settings: neither CLAUDE_CONFIG_DIR nor HOME is set";
                    Err(Failure::new(Code::Usage, what).hint("set HOME").into())
                }
            },
            Self::Project => Ok(in_project("settings.json")),
            Self::Local => Ok(in_project("settings.local.json")),
            Self::Managed => Ok(PathBuf::from(MANAGED)),
        }
    }

    /// The mode of a folder and of a file that we make, before the umask.
    pub fn modes(self) -> (u32, u32) {
        match self {
            Self::User => (0o700, 0o600),
            Self::Local => (0o755, 0o600),
            Self::Project | Self::Managed => (0o755, 0o644),
        }
    }
}

/// One settings file that Claude Code reads; it need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    pub scope: Scope,
    pub path: PathBuf,
}

/// Every settings file that concerns a session started here.
pub fn files(world: &World) -> Vec<SettingsFile> {
    let scopes = [Scope::User, Scope::Project, Scope::Local, Scope::Managed];
    let file = |scope: Scope| {
        let path = scope.file(world).ok()?;
        Some(SettingsFile { scope, path })
    };
    let mut files: Vec<SettingsFile> = scopes.into_iter().filter_map(file).collect();
    // In the home itself the project's file is the user's.
    files.dedup_by(|later, earlier| later.path == earlier.path);
    files
}
