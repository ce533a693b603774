//! Any work: a checkpoint touches nothing, and brings everything back.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Work {
    Write(u8, u8),
    Remove(u8),
    Stage(u8),
    Unstage,
    Commit,
    Stash,
    Ignore(u8),
    Link(u8, u8),
    Move(u8, u8),
}

fn any_work() -> impl Strategy<Value = Work> {
    prop_oneof![
        4 => (0_u8..6, any::<u8>()).prop_map(|(file, text)| Work::Write(file, text)),
        1 => (0_u8..6).prop_map(Work::Remove),
        2 => (0_u8..6).prop_map(Work::Stage),
        1 => Just(Work::Unstage),
        1 => Just(Work::Commit),
        1 => Just(Work::Stash),
        1 => (0_u8..6).prop_map(Work::Ignore),
        1 => (0_u8..6, 0_u8..6).prop_map(|(from, to)| Work::Link(from, to)),
        1 => (0_u8..6, 0_u8..6).prop_map(|(from, to)| Work::Move(from, to)),
    ]
}

fn file(nth: u8) -> String {
    ["a", "b", "deep/c", "deep/er/d", "o d\td", "é"][usize::from(nth)].to_owned()
}

fn work(repo: &Repo, work: &Work) {
    match work {
        Work::Write(nth, text) => {
            let path = repo.path(&file(*nth));
            let _ = fs::create_dir_all(path.parent().unwrap());
            let _ = fs::write(path, text.to_string());
        }
        Work::Remove(nth) => drop(fs::remove_file(repo.path(&file(*nth)))),
        Work::Stage(nth) => drop(repo.try_git(&["add", "--", &file(*nth)])),
        Work::Unstage => drop(repo.try_git(&["reset", "-q"])),
        Work::Commit => drop(repo.try_git(&["commit", "-qm", "x"])),
        Work::Stash => drop(repo.try_git(&["stash", "-q"])),
        Work::Ignore(nth) => repo.write(".gitignore", &format!("{}\n", file(*nth))),
        Work::Link(from, to) => drop(symlink(file(*from), repo.path(&file(*to)))),
        Work::Move(from, to) => drop(repo.try_git(&["mv", "-f", &file(*from), &file(*to)])),
    }
}

/// The files that git does not ignore.
fn files(repo: &Repo) -> Vec<(String, Option<Vec<u8>>)> {
    let listed = repo.git(&[
        "-c",
        "core.quotePath=false",
        "ls-files",
        "-co",
        "--exclude-standard",
        "-z",
    ]);
    let mut found: Vec<_> = listed
        .split('\0')
        .filter(|name| !name.is_empty() && fs::symlink_metadata(repo.path(name)).is_ok())
        .map(|name| {
            let path = repo.path(name);
            let bytes = match fs::read_link(&path) {
                Ok(target) => Some(target.into_os_string().into_encoded_bytes()),
                Err(_) => fs::read(path).ok(),
            };
            (name.to_owned(), bytes)
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_touched_and_everything_comes_back(
        before in prop::collection::vec(any_work(), 0..10),
        after in prop::collection::vec(any_work(), 0..6),
    ) {
        let repo = Repo::new();
        for step in &before {
            work(&repo, step);
        }
        let then = files(&repo);
        if kept(&repo) == Made::Same {
            return Ok(());
        }
        let one = list(&repo.there()).unwrap().remove(0);
        for step in after.iter().filter(|step| !matches!(step, Work::Ignore(_))) {
            work(&repo, step);
        }
        let git = repo.there();
        let plan = plan(&git, &one, repo.root(), &[], 1 << 20).unwrap();
        plan.write(&git).unwrap();
        plan.delete_later(&git).unwrap();
        if plan.blocked.is_empty() {
            prop_assert_eq!(files(&repo), then);
        }
    }
}
