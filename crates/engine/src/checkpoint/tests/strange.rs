//! Repositories whose settings name programs.

use super::*;

#[test]
fn no_program_of_the_repository_runs() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    let mark = repo.beside("mark").root().to_owned();
    let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for hook in [
        "pre-commit",
        "post-commit",
        "post-index-change",
        "reference-transaction",
        "fsmonitor",
    ] {
        let file = repo.path(".git/hooks").join(hook);
        fs::create_dir_all(repo.path(".git/hooks")).unwrap();
        fs::write(&file, &script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let hooks = repo.path(".git/hooks").display().to_string();
    repo.write(
        ".git/config",
        &format!(
            "[core]\n\tbare = false\n\thooksPath = {hooks}\n\tfsmonitor = {hooks}/fsmonitor\n\
         [commit]\n\tgpgSign = true\n[gpg]\n\tprogram = false\n"
        ),
    );
    name(repo.keep(SESSION));
    assert!(!mark.exists());
    // The trap would have caught a git that is not held back.
    repo.try_git(&["add", "a"]);
    assert!(mark.exists());
}

/// A repository can bring folders along that git takes for repositories, with settings of theirs.
#[test]
fn a_folder_that_looks_like_a_bare_repository_is_none() {
    let repo = Repo::with_commit();
    let mark = repo.beside("mark").root().to_owned();
    let inner = repo.path("vendor/x");
    repo.write("vendor/x/HEAD", "ref: refs/heads/main\n");
    repo.write("vendor/x/.gitattributes", "* filter=x\n");
    fs::create_dir_all(inner.join("objects")).unwrap();
    fs::create_dir_all(inner.join("refs")).unwrap();
    repo.write(
        "vendor/x/config",
        &format!(
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {}\n\
             [filter \"x\"]\n\tclean = touch {}; cat\n",
            inner.display(),
            mark.display()
        ),
    );
    assert!(Git::find(&inner).unwrap().is_none());
    name(repo.keep(SESSION));
    assert!(!mark.exists());
    repo.beside("repo/vendor/x").try_git(&["add", "-A"]);
    assert!(mark.exists());
}

/// A partial clone says by which program git gets what is missing.
#[test]
fn nothing_is_fetched() {
    let repo = Repo::with_commit();
    let mark = repo.beside("mark").root().to_owned();
    repo.write("far", "x");
    repo.git(&["config", "core.repositoryFormatVersion", "1"]);
    repo.git(&["config", "extensions.partialClone", "origin"]);
    repo.git(&["config", "remote.origin.promisor", "true"]);
    repo.git(&["config", "remote.origin.url", "."]);
    let program = format!("touch {}; false", mark.display());
    repo.git(&["config", "remote.origin.uploadpack", &program]);
    let missing = "0123456789012345678901234567890123456789";
    assert!(repo.there().run(&["cat-file", "-e", missing]).is_err());
    assert!(!mark.exists());
    repo.try_git(&["cat-file", "-e", missing]);
    assert!(mark.exists());
}
