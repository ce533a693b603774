//! On real repositories, in every state that one finds them in.

mod any;
mod repo;
mod restoring;
mod strange;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use repo::{Repo, SESSION};

/// Makes a checkpoint, and looks that nothing else has changed.
fn kept(repo: &Repo) -> Made {
    let before = repo.state();
    let made = repo.keep(SESSION);
    assert_eq!(repo.state(), before);
    made
}

fn name(made: Made) -> String {
    match made {
        Made::New(name) => name,
        Made::Same => panic!("no checkpoint was made"),
    }
}

/// What the newest checkpoint holds of a file.
fn held(repo: &Repo, file: &str) -> Option<String> {
    let newest = list(&repo.there()).unwrap().remove(0);
    repo.try_git(&["show", &format!("{}:{file}", newest.commit)])
}

#[test]
fn it_holds_what_is_there_and_touches_nothing() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    repo.write("staged", "index");
    repo.git(&["add", "staged"]);
    repo.write("staged", "work tree");
    repo.write("new/one", "untracked");
    repo.write(".gitignore", "ignored\n");
    repo.write("ignored", "secret");
    fs::remove_file(repo.path("b")).unwrap();
    symlink("a", repo.path("link")).unwrap();

    let made = name(kept(&repo));
    assert!(made.starts_with("85d6d150/20"), "{made}");
    for (file, text) in [
        ("a", Some("changed")),
        ("staged", Some("work tree")),
        ("new/one", Some("untracked")),
        ("ignored", None),
        ("b", None),
        ("link", Some("a")),
    ] {
        assert_eq!(held(&repo, file).as_deref(), text, "{file}");
    }
    let one = list(&repo.there()).unwrap().remove(0);
    assert_eq!(one.session.as_deref(), Some(SESSION));
    assert_eq!(one.event.as_deref(), Some("Stop"));
    assert_eq!(one.files, Some(6));
    assert_eq!(one.title, "Stop: .gitignore, a, b and 3 more");
    assert_eq!(
        one.base.as_deref(),
        Some(&*repo.git(&["rev-parse", "HEAD"]))
    );
    assert!(
        one.at
            .is_some_and(|at| (0..60_000).contains(&(repo::now() - at))),
        "{one:?}"
    );
}

#[test]
fn nothing_new_makes_none() {
    let repo = Repo::with_commit();
    assert_eq!(kept(&repo), Made::Same, "as committed");
    repo.write("a", "changed");
    name(kept(&repo));
    assert_eq!(kept(&repo), Made::Same);
    repo.write("a", "again");
    name(kept(&repo));
    repo.git(&["checkout", "-q", "a"]);
    name(kept(&repo));
    assert_eq!(list(&repo.there()).unwrap().len(), 3);
}

#[test]
fn a_repository_without_commits() {
    let repo = Repo::new();
    assert_eq!(kept(&repo), Made::Same);
    repo.write("a", "1");
    name(kept(&repo));
    assert_eq!(held(&repo, "a").as_deref(), Some("1"));
    assert_eq!(list(&repo.there()).unwrap()[0].base, None);
}

#[test]
fn in_a_worktree_of_its_own() {
    let repo = Repo::with_commit();
    repo.git(&["worktree", "add", "-q", "../other", "-b", "side"]);
    let other = repo.beside("other");
    other.write("a", "here");
    repo.write("a", "there");
    name(kept(&other));
    assert_eq!(held(&repo, "a").as_deref(), Some("here"));
}

#[test]
fn in_the_middle_of_a_conflict() {
    let repo = Repo::with_commit();
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.commit("a", "side");
    repo.git(&["checkout", "-q", "main"]);
    repo.commit("a", "main");
    assert_eq!(repo.try_git(&["merge", "-q", "side"]), None);
    name(kept(&repo));
    assert!(held(&repo, "a").unwrap().contains("<<<<<<<"));
}

#[test]
fn while_somebody_holds_the_lock() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    repo.write(".git/index.lock", "");
    name(kept(&repo));
    assert_eq!(held(&repo, "a").as_deref(), Some("changed"));
}

#[test]
fn with_a_damaged_index() {
    let repo = Repo::with_commit();
    repo.write("a", "changed");
    repo.write(".git/index", "garbage");
    let before = fs::read(repo.path(".git/index")).unwrap();
    name(repo.keep(SESSION));
    assert_eq!(fs::read(repo.path(".git/index")).unwrap(), before);
    assert_eq!(held(&repo, "a").as_deref(), Some("changed"));
    assert_eq!(held(&repo, "b").as_deref(), Some("b"));
}

#[test]
fn other_repositories_within_are_left_alone() {
    let inner = Repo::with_commit();
    let repo = Repo::with_commit();
    let from = inner.root().display().to_string();
    repo.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &from,
        "sub",
    ]);
    repo.git(&["commit", "-qm", "sub"]);
    fs::write(repo.path("sub/a"), "dirty").unwrap();
    repo.git(&["init", "-q", "empty"]);
    repo.write("empty/x", "1");
    repo.git(&["init", "-q", "full"]);
    repo.beside("repo/full").commit("x", "1");
    assert_eq!(kept(&repo), Made::Same);
    repo.write("a", "changed");
    name(kept(&repo));
    let one = list(&repo.there()).unwrap().remove(0);
    assert_eq!((one.files, &*one.skipped), (Some(1), &[][..]));
}

#[test]
fn what_is_too_large_is_left_out_and_said() {
    let repo = Repo::with_commit();
    repo.write("small", "1");
    for file in ["huge", "hu[g]e*", "-rf"] {
        repo.write(file, &"x".repeat(3 << 20));
    }
    let git = repo.there();
    let present = Present::take(&git, 2 << 20).unwrap();
    name(make(&git, &present, &repo.wish(SESSION)).unwrap());
    assert_eq!(held(&repo, "small").as_deref(), Some("1"));
    assert_eq!(held(&repo, "huge"), None);
    let said = list(&git).unwrap().remove(0).skipped;
    assert_eq!(said, ["-rf (3 MB)", "hu[g]e* (3 MB)", "huge (3 MB)"]);
}

#[test]
fn what_is_not_ours_to_read_is_left_out_and_said_unless_git_has_it() {
    let repo = Repo::with_commit();
    let lock = |file: &str| {
        let nobody = fs::Permissions::from_mode(0o000);
        fs::set_permissions(repo.path(file), nobody).unwrap();
    };
    repo.write("new", "1");
    repo.write("secret", "1");
    lock("secret");
    if fs::read(repo.path("secret")).is_ok() {
        // Whoever runs this may read everything.
        return;
    }
    name(repo.keep(SESSION));
    assert_eq!(held(&repo, "new").as_deref(), Some("1"));
    let git = repo.there();
    let said = list(&git).unwrap().remove(0).skipped;
    assert_eq!(said, ["secret (not ours to read)"]);
    repo.write("a", "now");
    lock("a");
    let failed = Present::take(&git, 1 << 20).unwrap_err().to_string();
    assert!(failed.contains("Permission denied"), "{failed}");
}

#[test]
fn in_a_sparse_checkout() {
    let repo = Repo::with_commit();
    repo.commit("in/x", "1");
    repo.commit("out/y", "1");
    repo.commit("out/z", "1");
    repo.git(&["sparse-checkout", "set", "--cone", "in"]);
    repo.write("in/x", "changed");
    repo.write("out/y", "changed");
    repo.write("out/new", "new");
    name(repo.keep(SESSION));
    for (file, text) in [
        ("in/x", "changed"),
        ("out/y", "changed"),
        ("out/new", "new"),
        ("out/z", "1"),
    ] {
        assert_eq!(held(&repo, file).as_deref(), Some(text), "{file}");
    }
}

#[test]
fn odd_names() {
    let repo = Repo::with_commit();
    for file in [
        "two\nlines",
        "a b",
        "\"q\"",
        ":(top)x",
        "é",
        "[a]",
        "*",
        "-x",
    ] {
        repo.write(file, file);
    }
    name(kept(&repo));
    for file in ["two\nlines", "é", "*", ":(top)x"] {
        assert_eq!(held(&repo, file).as_deref(), Some(file), "{file}");
    }
}

/// Of the same size and time as what is staged: git looks into such a file only because the index is
/// no younger than it.
#[test]
fn a_change_that_git_could_overlook() {
    let repo = Repo::with_commit();
    repo.git(&["config", "core.trustctime", "false"]);
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let date = |file: &str| {
        let file = fs::File::options().append(true).open(repo.path(file));
        file.unwrap().set_modified(then).unwrap();
    };
    repo.write("a", "one");
    date("a");
    repo.git(&["add", "a"]);
    repo.write("a", "two");
    date("a");
    date(".git/index");
    name(kept(&repo));
    assert_eq!(held(&repo, "a").as_deref(), Some("two"));
}

#[test]
fn the_newest_stay() {
    let repo = Repo::with_commit();
    let other = "00000000-0000-4000-8000-000000000000";
    repo.write("a", "other");
    repo.keep(other);
    let mut made = Vec::new();
    for round in 0..5 {
        repo.write("a", &format!("{round}"));
        let git = repo.there();
        let present = Present::take(&git, 1 << 20).unwrap();
        let wish = Wish {
            keep: 3,
            ..repo.wish(SESSION)
        };
        made.push(name(make(&git, &present, &wish).unwrap()));
    }
    let mut left: Vec<String> = list(&repo.there())
        .unwrap()
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(left.len(), 4);
    let others = left.pop().unwrap();
    assert!(others.starts_with("00000000/"), "{others}");
    made.reverse();
    assert_eq!(left, made[..3]);
}

#[test]
fn a_clock_that_was_set_back_loses_nothing_new() {
    let repo = Repo::with_commit();
    let git = repo.there();
    for (round, at) in [5000, 4000, 3000].into_iter().enumerate() {
        repo.write("a", &format!("{round}"));
        let present = Present::take(&git, 1 << 20).unwrap();
        let wish = Wish {
            at,
            keep: 1,
            ..repo.wish(SESSION)
        };
        let made = name(make(&git, &present, &wish).unwrap());
        let left: Vec<String> = list(&git)
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(left, [made]);
    }
}

#[test]
fn a_word_finds_one() {
    let repo = Repo::with_commit();
    let git = repo.there();
    for (text, at) in [("1", 1_000_000_000_000), ("2", 1_000_000_001_000)] {
        repo.write("a", text);
        let present = Present::take(&git, 1 << 20).unwrap();
        make(
            &git,
            &present,
            &Wish {
                at,
                ..repo.wish(SESSION)
            },
        )
        .unwrap();
    }
    let all = list(&git).unwrap();
    let [new, old] = &*all else { panic!("{all:?}") };
    assert_eq!(old.name, "85d6d150/20010909T014640.000");
    assert_eq!(old.at, Some(1_000_000_000_000));
    let found = |word: &str| match find(&all, word) {
        Found::One(one) => Ok(one.name),
        Found::Several(names) => Err(names.len()),
        Found::None => Err(0),
    };
    assert_eq!(found(&old.name), Ok(old.name.clone()));
    assert_eq!(found("20010909T014640"), Ok(old.name.clone()));
    assert_eq!(found(&new.commit[..10]), Ok(new.name.clone()));
    assert_eq!(found("85d6d150"), Err(2));
    assert_eq!(found("2001"), Err(2));
    assert_eq!(found("nothing"), Err(0));
    assert_eq!(found(""), Err(0));
}

#[test]
fn where_no_work_tree_is() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Git::find(folder.path()).unwrap().is_none());
    let repo = Repo::with_commit();
    assert!(Git::find(&repo.path(".git")).unwrap().is_none());
    fs::create_dir(repo.path("below")).unwrap();
    let below = Git::find(&repo.path("below")).unwrap().unwrap();
    assert_eq!(below.root(), repo.root());
}
