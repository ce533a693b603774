//! Logs of a few pages.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::open;
use super::*;

const BOUNDS: Bounds = Bounds {
    long: 64,
    little: 16,
    too_long: 256,
};

struct Yard {
    folder: tempfile::TempDir,
    writer: Connection,
    checkpointer: Checkpointer,
}

impl Yard {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("becket.db");
        let mut writer = open(&path, 0).unwrap().connection;
        writer.execute_batch("CREATE TABLE t (x BLOB)").unwrap();
        let checkpointer = Checkpointer::with_bounds(path, BOUNDS).unwrap();
        checkpointer.watch(&mut writer);
        Self {
            folder,
            writer,
            checkpointer,
        }
    }

    fn write(&mut self) {
        self.writer
            .execute("INSERT INTO t VALUES (zeroblob(20000))", [])
            .unwrap();
        self.checkpointer.look_after(&self.writer);
    }

    fn now(&self) -> Now {
        *self.checkpointer.log.now()
    }

    /// Writes until the log begins anew; gives how long it was then.
    fn write_until_anew(&mut self) -> i64 {
        let times = self.now().times;
        loop {
            let before = self.now().length;
            self.write();
            if self.now().times > times {
                return before;
            }
            assert!(before < 16 * BOUNDS.too_long, "it never began anew");
        }
    }

    /// Has it moved while nobody writes; gives what was left at last.
    fn rest(&mut self) -> i64 {
        for _ in 0..1000 {
            self.checkpointer.tick();
            while self.now().under_way {
                self.checkpointer.log.await_end();
            }
            if self.now().left() == 0 {
                break;
            }
        }
        self.now().left()
    }

    fn reader(&self) -> Connection {
        let reader = open::open_to_read(&self.folder.path().join("becket.db"));
        let reader = reader.unwrap().unwrap();
        let begin = "BEGIN; SELECT count(*) FROM t";
        reader.execute_batch(begin).unwrap();
        reader
    }
}

#[test]
fn a_log_that_is_written_all_the_time_begins_anew() {
    let mut yard = Yard::new();
    for _ in 0..10 {
        let was = yard.write_until_anew();
        assert!(was > BOUNDS.long, "{was}");
    }
    let wal = yard.folder.path().join("becket.db-wal");
    let pages = std::fs::metadata(wal).unwrap().len() / 8192;
    assert!(pages < 4 * BOUNDS.too_long as u64, "{pages}");
}

#[test]
fn a_reader_delays_that_and_holds_nobody() {
    static WAITED: AtomicBool = AtomicBool::new(false);
    let mut yard = Yard::new();
    yard.write();
    let reader = yard.reader();
    while yard.now().until < BOUNDS.too_long {
        let waits = |_| {
            WAITED.store(true, Ordering::Relaxed);
            false
        };
        yard.writer.busy_handler(Some(waits)).unwrap();
        yard.write();
        assert!(yard.now().length < 16 * BOUNDS.too_long);
    }
    let waited = WAITED.load(Ordering::Relaxed);
    assert!(!waited, "the writer was ready to wait for a reader");
    drop(reader);
    let was = yard.write_until_anew();
    assert!(was > BOUNDS.too_long, "{was}");
}

#[test]
fn a_reader_of_yesterday_delays_nothing_today() {
    let mut yard = Yard::new();
    let reader = yard.reader();
    while yard.now().until < BOUNDS.too_long {
        yard.write();
        assert!(yard.now().length < 16 * BOUNDS.too_long);
    }
    drop(reader);
    assert_eq!(yard.rest(), 0);
    yard.write();
    let Now { until, length, .. } = yard.now();
    assert!(length < BOUNDS.long, "{length}: it began anew by itself");
    assert_eq!(until, 0);
}

#[test]
fn however_long_it_is_whoever_writes_moves_only_the_last_part() {
    let mut yard = Yard::new();
    yard.write();
    let times = {
        let mut now = yard.checkpointer.log.now();
        now.length = 4 * BOUNDS.too_long;
        now.stuck = true;
        now.times
    };
    yard.checkpointer.look_after(&yard.writer);
    assert_eq!(yard.now().times, times, "the writer moved all of it");
    assert!(yard.now().moved > 0 || yard.now().under_way);
}

#[test]
fn who_writes_little_has_it_moved_at_a_tick() {
    let mut yard = Yard::new();
    yard.write();
    assert!(yard.now().left() > 0);
    assert_eq!(yard.rest(), 0);
}

#[test]
fn an_end_waits_for_no_long_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("becket.db");
    drop(open(&path, 0).unwrap());
    let log = Arc::new(Log::default());
    log.now().under_way = true;
    let shared = Arc::clone(&log);
    let endless =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";
    let thread = std::thread::spawn(move || {
        let connection = shared.connect(&path).unwrap();
        let ended = connection.query_row(endless, [], |_| Ok(()));
        assert!(ended.is_err(), "it was broken off");
        shared.now().under_way = false;
        shared.ended.notify_all();
    });
    let mut checkpointer = Checkpointer {
        orders: None,
        thread: Some(thread),
        log,
        bounds: BOUNDS,
        before: 0,
    };
    checkpointer.end();
    assert!(!checkpointer.log.now().under_way);
}

#[test]
fn an_end_waits_for_no_thread_that_is_gone() {
    let log = Arc::new(Log::default());
    log.now().under_way = true;
    let mut checkpointer = Checkpointer {
        orders: None,
        thread: Some(std::thread::spawn(|| {})),
        log,
        bounds: BOUNDS,
        before: 0,
    };
    let (ended, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        checkpointer.end();
        ended.send(())
    });
    assert!(waits.recv_timeout(Duration::from_secs(20)).is_ok());
}
