//! `becket builtin`: runs one built-in hook on the event on stdin. The daemon starts it as a process of its own, which
//! can be ended like any other hook.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use becket_engine::hooks::builtin::{BuiltIn, BuiltinCall, options_from_json};
use becket_wire::Head;
use becket_wire::id::parse_uuid;
use tempfile::TempDir;

use crate::client::{print_answer, read_payload};
use crate::failure::{Code, Failure};
use crate::ui::text::one_line;
use crate::world::{World, project_of};

/// Run a built-in hook on the event on stdin, as the daemon does
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct BuiltinArgs {
    /// Its name
    name: String,
    /// Its own keys of the config
    #[arg(long, value_name = "JSON", default_value = "{}")]
    options: String,
    /// The project that the user approved [default: the git root above the event's folder]
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
}

impl BuiltinArgs {
    pub fn run(self, world: &World) -> Result<ExitCode> {
        let hook = BuiltIn::find(&self.name).ok_or_else(|| {
            let what = format!("there is no built-in hook `{}`", one_line(&self.name));
            Failure::new(Code::Missing, what).hint("becket hooks --all lists them")
        })?;
        let options = options_from_json(&self.options).context("read --options")?;
        let mut payload = Vec::new();
        let _ = read_payload(&mut payload);
        let head = Head::read(&payload).ok();
        let cwd = head.as_ref().and_then(|head| head.cwd.as_deref());
        let cwd = real(cwd.map_or(&world.cwd, Path::new));
        let Some(project) = self.project(hook, &cwd) else {
            return Ok(ExitCode::SUCCESS);
        };
        // Only a valid id may become a part of a path. Without one the hook's memory is not kept.
        let session = head.as_ref().and_then(|head| head.session_id.as_deref());
        let session = session.filter(|id| parse_uuid(id).is_some());
        let temporary: TempDir;
        let memory = if let Some(session) = session {
            world.place.memory(session, hook.name)
        } else {
            temporary = tempfile::tempdir().context("make a temp folder")?;
            temporary.path().join(hook.name)
        };
        let output = (hook.run)(&BuiltinCall {
            hook,
            payload: &payload,
            cwd: &cwd,
            project: &project,
            options: &options,
            memory: &memory,
        });
        Ok(print_answer(&output))
    }

    /// Returns the project that the hook works in. Returns none if the hook would start the tools of a project that was
    /// not approved: the session may have moved to another folder, for example through a link.
    fn project(&self, hook: &BuiltIn, cwd: &Path) -> Option<PathBuf> {
        let named = self.project.as_deref().map(real);
        match named {
            // The root means an unknown project.
            Some(named) if cwd.starts_with(&named) && named.parent().is_some() => Some(named),
            Some(_) if hook.starts_project_tools => None,
            _ => Some(project_of(cwd).to_path_buf()),
        }
    }
}

/// Resolves the links of a folder, so that paths below it can be compared with it.
fn real(folder: &Path) -> PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf())
}
