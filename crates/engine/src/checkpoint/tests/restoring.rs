//! There and back again.

use super::*;

/// Back to the newest checkpoint.
fn restored(repo: &Repo, paths: &[&str], exact: bool) -> Plan {
    let git = repo.there();
    let one = list(&git).unwrap().remove(0);
    let paths: Vec<_> = paths.iter().map(|path| (*path).into()).collect();
    let index = fs::read(repo.path(".git/index")).ok();
    let plan = plan(&git, &one, repo.root(), &paths, 1 << 20).unwrap();
    plan.keep_present(
        &git,
        &Wish {
            always: true,
            ..repo.wish("x")
        },
    )
    .unwrap();
    plan.write(&git).unwrap();
    if exact {
        plan.delete_later(&git).unwrap();
    }
    assert_eq!(
        fs::read(repo.path(".git/index")).ok(),
        index,
        "the index was touched"
    );
    plan
}

#[test]
fn files_come_back_and_later_ones_stay() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.write("deep/er", "then");
    symlink("a", repo.path("link")).unwrap();
    repo.keep(SESSION);
    repo.write("a", "now");
    repo.write("later/x", "now");
    fs::remove_dir_all(repo.path("deep")).unwrap();
    fs::remove_file(repo.path("link")).unwrap();
    repo.git(&["add", "later"]);

    let plan = restored(&repo, &[], false);
    assert_eq!((plan.write.len(), plan.later.len()), (3, 1));
    assert_eq!(repo.read("a").as_deref(), Some("then"));
    assert_eq!(repo.read("deep/er").as_deref(), Some("then"));
    assert!(repo.path("link").is_symlink());
    assert_eq!(repo.read("later/x").as_deref(), Some("now"));
    // What was there before the restore is kept.
    assert_eq!(held(&repo, "a").as_deref(), Some("now"));
}

#[test]
fn exactly_means_that_later_files_go() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.keep(SESSION);
    repo.write("later/x", "now");
    repo.write(".git/info/exclude", "ignored\n");
    repo.write("ignored", "stays");
    restored(&repo, &[], true);
    assert!(!repo.path("later").exists());
    assert_eq!(repo.read("ignored").as_deref(), Some("stays"));
    assert_eq!(held(&repo, "later/x").as_deref(), Some("now"));
}

#[test]
fn only_the_paths_that_were_named() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.write("b", "then");
    repo.keep(SESSION);
    repo.write("a", "now");
    repo.write("b", "now");
    restored(&repo, &["a"], false);
    assert_eq!(repo.read("a").as_deref(), Some("then"));
    assert_eq!(repo.read("b").as_deref(), Some("now"));
}

#[test]
fn what_is_ignored_now_is_kept_before_it_is_overwritten() {
    let repo = Repo::with_commit();
    repo.write("secret", "then");
    repo.keep(SESSION);
    repo.write(".git/info/exclude", "secret\n");
    repo.write("secret", "now");
    restored(&repo, &[], false);
    assert_eq!(repo.read("secret").as_deref(), Some("then"));
    assert_eq!(held(&repo, "secret").as_deref(), Some("now"));
}

#[test]
fn what_stands_in_the_way_is_left_alone() {
    let repo = Repo::with_commit();
    let outside = tempfile::tempdir().unwrap();
    repo.write("file", "then");
    repo.write("folder/x", "then");
    repo.write("way/x", "then");
    repo.keep(SESSION);
    repo.write(".git/info/exclude", "precious\n");
    fs::remove_file(repo.path("file")).unwrap();
    repo.write("file/precious", "now");
    for folder in ["folder", "way"] {
        fs::remove_dir_all(repo.path(folder)).unwrap();
    }
    repo.write("folder", "now");
    symlink(outside.path(), repo.path("way")).unwrap();
    let plan = restored(&repo, &[], false);
    assert_eq!(plan.blocked, ["file", "folder/x", "way/x"]);
    assert_eq!(repo.read("file/precious").as_deref(), Some("now"));
    assert_eq!(repo.read("folder").as_deref(), Some("now"));
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// As with Git LFS in a repository that needs it, where it is not installed: git takes nothing then.
#[test]
fn what_cannot_be_kept_is_not_overwritten() {
    let repo = Repo::with_commit();
    repo.write("a", "then");
    repo.keep(SESSION);
    repo.write("a", "now");
    repo.write("picture", "now");
    repo.write(".git/info/attributes", "picture filter=gone\n");
    repo.git(&["config", "filter.gone.clean", "exit 1"]);
    repo.git(&["config", "filter.gone.required", "true"]);
    let git = repo.there();
    let one = list(&git).unwrap().remove(0);
    let refused = plan(&git, &one, repo.root(), &[], 1 << 20).unwrap_err();
    assert!(
        refused.to_string().contains("clean filter 'gone' failed"),
        "{refused}"
    );
    assert_eq!(repo.read("a").as_deref(), Some("now"));
}
