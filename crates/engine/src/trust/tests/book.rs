//! Who is who in the book of approvals.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Instant;

use super::*;

const WATCHDOG: Duration = Duration::from_secs(60);

#[test]
fn worktrees_are_one_project_and_impostors_are_not() {
    let world = World::new();
    let git = world.path("project/.git");
    let key = git.display().to_string();
    assert_eq!(key_of(&world.project()), Some(key.clone()));
    world.write("tree/.git", &format!("gitdir: {key}/worktrees/tree\n"));
    world.write("project/.git/worktrees/tree/commondir", "../..\n");
    let back = world.path("tree/.git").display().to_string();
    world.write("project/.git/worktrees/tree/gitdir", &format!("{back}\n"));
    assert_eq!(key_of(&world.path("tree")), Some(key.clone()));
    world.write("tree/.becket/config.toml", CONFIG);
    world.write("tree/scripts/style.sh", "exit 0");
    world.trust();
    assert_eq!(trust(&world.loader("tree").current()), Trust::Yes);
    world.write("tree/scripts/style.sh", "exit 1");
    assert_eq!(trust(&world.loader("tree").current()), Trust::Changed);

    let itself = |name: &str| {
        let path = world.path(name);
        assert_eq!(key_of(&path).as_deref(), path.to_str(), "{name}");
    };
    world.write("copy/.git", &format!("gitdir: {key}/worktrees/tree\n"));
    itself("copy");
    world.write("direct/.git", &format!("gitdir: {key}\n"));
    itself("direct");
    fs::create_dir(world.path("link")).unwrap();
    symlink(&git, world.path("link/.git")).unwrap();
    itself("link");
    let fake = world.path("fake/admin/worktrees/x").display().to_string();
    world.write("fake/.git", &format!("gitdir: {fake}\n"));
    world.write("fake/admin/worktrees/x/commondir", &format!("{key}\n"));
    let back = world.path("fake/.git").display().to_string();
    world.write("fake/admin/worktrees/x/gitdir", &format!("{back}\n"));
    itself("fake");
    fs::create_dir(world.path("plain")).unwrap();
    itself("plain");
    assert_eq!(key_of(&world.path("nothing")), None);
}

#[test]
fn a_damaged_book_counts_as_empty_and_is_set_aside() {
    let world = World::new();
    world.trust();
    let file = world.place().trust();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    fs::write(&file, "{\"projects\": 3}").unwrap();
    let mut loader = world.loader("project");
    let snapshot = loader.current();
    assert_eq!(trust(&snapshot), Trust::No);
    let told: Vec<String> = snapshot.errors().map(ToString::to_string).collect();
    assert!(told[0].contains("is damaged"), "{told:?}");
    let aside = change(&world.place(), |_| {}).unwrap().unwrap();
    assert_eq!(fs::read(&aside).unwrap(), b"{\"projects\": 3}");
    assert_eq!(Book::read(&world.place()).unwrap(), Book::default());
    assert_eq!(loader.current().errors().count(), 0);
}

#[test]
fn what_a_damaged_book_leads_to_is_left_alone() {
    let world = World::new();
    let file = world.place().trust();
    let theirs = world.path("theirs");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&theirs, "root:x:0:0\n").unwrap();
    symlink(&theirs, &file).unwrap();
    let aside = change(&world.place(), |_| {}).unwrap().unwrap();
    assert!(fs::symlink_metadata(&aside).unwrap().is_symlink());
    assert_eq!(fs::read(&theirs).unwrap(), b"root:x:0:0\n");
    assert_eq!(Book::read(&world.place()).unwrap(), Book::default());
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let aside = change(&world.place(), |_| {}).unwrap().unwrap();
    assert!(aside.is_dir(), "a folder goes aside too");
}

#[test]
fn many_who_trust_at_once_lose_nothing() {
    let world = World::new();
    let place = world.place();
    std::thread::scope(|scope| {
        for number in 0..16 {
            let place = &place;
            scope.spawn(move || {
                let approval = Approval {
                    project: String::new(),
                    at: number,
                    hash: String::new(),
                    pins: Pins::default(),
                };
                let key = format!("/{number}");
                let approve = || {
                    change(place, |book| {
                        book.projects.insert(key.clone(), approval.clone());
                    })
                };
                // On a slow machine one may wait for too long: that is told, and can be done again.
                let until = Instant::now() + WATCHDOG;
                let mut done = approve();
                while matches!(done, Err(BookError::Held { .. })) {
                    assert!(Instant::now() < until, "it is held for ever");
                    done = approve();
                }
                done.unwrap();
            });
        }
    });
    assert_eq!(Book::read(&place).unwrap().projects.len(), 16);
}
