//! `create-checkpoint`: keeps a snapshot of the work tree in git, apart from the user's own commits and index.

use std::time::Duration;

use becket_wire::Output;
use becket_wire::head::Head;
use jiff::Timestamp;

use super::{BuiltIn, BuiltinCall, ON_STOP};
use crate::checkpoint::{
    CheckpointRequest, Git, GitError, KEEP, LARGEST_MB, WorkTreeSnapshot, make,
};

pub const HOOK: BuiltIn = BuiltIn {
    name: "create-checkpoint",
    description: "Keeps a snapshot of the work tree in git, for `becket checkpoint restore`",
    timeout: Duration::from_secs(60),
    // git runs filters that the repository can name.
    starts_project_tools: true,
    keys: &["keep", "largest_mb"],
    run,
    ..ON_STOP
};

fn run(call: &BuiltinCall<'_>) -> Output {
    match create(call) {
        Ok(()) => Output::silence(),
        // A failure never blocks Claude: becket reports it as a failure of this hook.
        Err(error) => Output {
            stderr: format!("no checkpoint was made: {error}\n").into_bytes(),
            exit: 1,
            ..Output::silence()
        },
    }
}

fn create(call: &BuiltinCall<'_>) -> Result<(), GitError> {
    let Some(git) = Git::find(call.cwd)? else {
        return Ok(());
    };
    let head = Head::read(call.payload).unwrap_or_default();
    let event = head.event.as_deref().unwrap_or("hook");
    let event = match head.tool.as_deref() {
        Some(tool) => format!("{event} {tool}"),
        None => event.to_owned(),
    };
    let largest = whole_number(call.options, "largest_mb")
        .unwrap_or(LARGEST_MB)
        .saturating_mul(1 << 20);
    let keep = whole_number(call.options, "keep")
        .map_or(KEEP, |keep| usize::try_from(keep).unwrap_or(usize::MAX));
    let snapshot = WorkTreeSnapshot::take(&git, largest)?;
    let request = CheckpointRequest {
        session: head.session_id.as_deref(),
        event: &event,
        at: Timestamp::now().as_millisecond(),
        keep,
        always: false,
    };
    make(&git, &snapshot, &request).map(drop)
}

fn whole_number(options: &toml::Table, key: &str) -> Option<u64> {
    let number = options.get(key)?.as_integer()?;
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::super::tests::{ran_in, stop};
    use super::*;
    use crate::checkpoint::list;

    fn git_in(folder: &Path, args: &[&str]) {
        let done = Command::new("git")
            .args(args)
            .current_dir(folder)
            .env("HOME", folder)
            .status();
        assert!(done.unwrap().success(), "{args:?}");
    }

    fn ran(folder: &Path, options: &str) -> Output {
        let options = options.parse().unwrap();
        ran_in(
            &HOOK,
            &stop(&serde_json::json!({})),
            folder,
            folder,
            &options,
        )
    }

    #[test]
    fn it_says_nothing_and_keeps_as_many_as_it_shall() {
        let folder = tempfile::tempdir().unwrap();
        assert!(ran(folder.path(), "").is_silent(), "no repository");
        git_in(folder.path(), &["init", "-q"]);
        for text in ["1", "2", "3"] {
            fs::write(folder.path().join("a"), text).unwrap();
            assert!(ran(folder.path(), "keep = 2\nlargest_mb = -1").is_silent());
        }
        let git = Git::find(folder.path()).unwrap().unwrap();
        let kept = list(&git).unwrap();
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0].title, "Stop: a");
        assert_eq!(
            kept[0].session.as_deref(),
            Some("85d6d150-187f-464e-b9d0-1f5d4639bdac")
        );
    }

    #[test]
    fn a_failure_keeps_claude_from_nothing() {
        let output = ran(Path::new("/nonexistent"), "");
        assert_eq!(output.exit, 1);
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("no checkpoint was made: could not run git"),
            "{said}"
        );
    }

    #[test]
    fn what_cannot_be_kept_is_told() {
        let folder = tempfile::tempdir().unwrap();
        git_in(folder.path(), &["init", "-q"]);
        git_in(folder.path(), &["config", "filter.gone.clean", "exit 1"]);
        git_in(folder.path(), &["config", "filter.gone.required", "true"]);
        fs::write(folder.path().join(".gitattributes"), "a filter=gone\n").unwrap();
        fs::write(folder.path().join("a"), "1").unwrap();
        let output = ran(folder.path(), "");
        assert_eq!(output.exit, 1);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.starts_with("no checkpoint was made: git add failed: "),
            "{said}"
        );
        let git = Git::find(folder.path()).unwrap().unwrap();
        assert_eq!(list(&git).unwrap(), []);
    }
}
