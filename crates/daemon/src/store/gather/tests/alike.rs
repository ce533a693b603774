//! The same at random through our VFS and through the usual one: nobody sees a difference.

use super::super::name;
use super::{Desk, ROOM, contents};

/// Numbers that are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    /// Something to do in a transaction.
    fn statement(&mut self) -> String {
        let (rows, size, nth) = (1 + self.roll(60), self.roll(9000), 1 + self.roll(9));
        let byte = format!("{:02x}", self.roll(256));
        let data = format!("CAST(replace(hex(zeroblob({size})), '00', x'{byte}') AS BLOB)");
        match self.roll(9) {
            0..4 => format!(
                "INSERT INTO t (data) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL
                 SELECT i + 1 FROM n LIMIT {rows}) SELECT {data} FROM n"
            ),
            4 | 5 => format!("UPDATE t SET data = {data} WHERE id % {nth} = 0"),
            6 => format!("UPDATE t SET mark = -id WHERE id % {nth} = 0"),
            7 => format!("DELETE FROM t WHERE id % 7 < {} AND id > 40", nth.min(5)),
            _ => "SELECT sum(length(data)) FROM t".into(),
        }
    }

    /// Something to do between two.
    fn pause(&mut self) -> String {
        match self.roll(12) {
            0 => "PRAGMA wal_checkpoint(PASSIVE)".into(),
            1 => "PRAGMA wal_checkpoint(RESTART)".into(),
            2 => "PRAGMA wal_checkpoint(TRUNCATE)".into(),
            3 => "PRAGMA synchronous = full".into(),
            4 => "PRAGMA synchronous = normal".into(),
            5 => "PRAGMA journal_size_limit = 50000".into(),
            6..9 => format!("PRAGMA cache_size = {}", 1 + self.roll(40)),
            _ => "PRAGMA cache_size = 1000".into(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Disk {
    /// It may be full now and then.
    Good,
    /// It may spoil what lies beside a write: SQLite fills whole sectors, and splits writes. If such a
    /// disk is full only then, a kill brings back what was taken back, whatever the VFS.
    Spoils,
}

impl Disk {
    fn query(self) -> &'static str {
        match self {
            Self::Good => "",
            Self::Spoils => "?psow=0",
        }
    }
}

struct Pair {
    ours: Desk,
    usual: Desk,
}

impl Pair {
    fn with(disk: Disk, pragmas: &str) -> Self {
        let query = disk.query();
        Self {
            ours: Desk::with(name(), query, pragmas),
            usual: Desk::with(None, query, pragmas),
        }
    }

    fn both(&self, sql: &str) -> rusqlite::Result<()> {
        let ask = |desk: &Desk| {
            let mut asked = desk.writer.prepare(sql)?;
            let mut rows = asked.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        };
        ask(&self.ours)?;
        ask(&self.usual)
    }

    fn transaction(&self, dice: &mut Dice) -> rusqlite::Result<()> {
        self.both("BEGIN IMMEDIATE")?;
        for _ in 0..1 + dice.roll(5) {
            if dice.roll(6) == 0 {
                self.both("SAVEPOINT one")?;
                self.both(&dice.statement())?;
                self.both("ROLLBACK TO one")?;
            }
            self.both(&dice.statement())?;
        }
        match dice.roll(6) {
            0 => self.both("ROLLBACK"),
            _ => self.both("COMMIT"),
        }
    }

    /// What our disk had no room for, none of the two did.
    fn take_back(&self) {
        ROOM.set(u32::MAX);
        for desk in [&self.ours, &self.usual] {
            if !desk.writer.is_autocommit() {
                desk.run("ROLLBACK");
            }
        }
    }

    fn are_alike(&self) {
        self.ours.is_seen();
        let alike = contents(&self.ours.reader) == contents(&self.usual.reader);
        assert!(alike, "ours is not what it usually is");
    }
}

fn do_the_same(seed: u64, disk: Disk, pragmas: &str) {
    let mut dice = Dice(seed);
    let pair = Pair::with(disk, pragmas);
    for _ in 0..25 {
        pair.both(&dice.pause()).unwrap();
        if disk == Disk::Good && dice.roll(5) == 0 {
            ROOM.set(u32::try_from(dice.roll(12)).unwrap());
        }
        if pair.transaction(&mut dice).is_err() {
            assert_eq!(ROOM.get(), 0, "nothing else may fail");
        }
        pair.take_back();
        pair.are_alike();
    }
}

#[test]
fn nobody_sees_a_difference() {
    for seed in 1..6 {
        do_the_same(seed, Disk::Good, "PRAGMA page_size = 8192");
        do_the_same(seed + 100, Disk::Good, "PRAGMA page_size = 1024");
    }
}

#[test]
fn nobody_sees_a_difference_where_sectors_are_filled() {
    for seed in [200, 201] {
        do_the_same(seed, Disk::Spoils, "PRAGMA page_size = 512");
        do_the_same(seed + 100, Disk::Spoils, "PRAGMA page_size = 4096");
    }
}

/// Of every 512 frames of this size one ends 24 bytes behind a sector, which looks like a head.
#[test]
fn what_a_sync_splits_is_not_held_back() {
    let desk = Desk::with(name(), Disk::Spoils.query(), "PRAGMA page_size = 512");
    desk.run("PRAGMA synchronous = full; INSERT INTO t (id) VALUES (1)");
    for byte in 1..=80 {
        let data = vec![byte; 300];
        desk.writer
            .execute("UPDATE t SET data = ?1", [data])
            .unwrap();
        desk.is_seen();
    }
}
