//! Tells a thread that waits for a file system from one that waits for a processor.

use std::fs;
use std::path::PathBuf;

use becket_wire::process::process_state;

thread_local! {
    static CURRENT: ThreadFile = ThreadFile::open();
}

/// The file in which the system shows the state of a thread of this process; none if it shows none.
#[derive(Debug, Clone)]
pub struct ThreadFile(Option<PathBuf>);

impl ThreadFile {
    fn open() -> Self {
        let link = fs::read_link("/proc/thread-self").ok();
        Self(link.map(|thread| PathBuf::from("/proc").join(thread).join("stat")))
    }

    /// Returns the file of the calling thread.
    pub fn current() -> Self {
        CURRENT.with(Clone::clone)
    }

    /// Returns true if the thread waits for something other than a processor.
    pub fn sleeps(&self) -> bool {
        let stat = self.0.as_ref().and_then(|file| fs::read(file).ok());
        let state = stat.and_then(|stat| process_state(&String::from_utf8_lossy(&stat)));
        state != Some('R')
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_waits_is_told_from_one_that_computes() {
        let (tell, told) = channel();
        let (stop, wait) = channel::<()>();
        let waiting = tell.clone();
        let waits = std::thread::spawn(move || {
            waiting.send(ThreadFile::current()).unwrap();
            let _ = wait.recv();
        });
        let waiting = told.recv().unwrap();
        while !waiting.sleeps() {
            std::thread::yield_now();
        }
        assert!(!ThreadFile::current().sleeps(), "this one runs");
        drop(stop);
        waits.join().unwrap();
        assert!(waiting.sleeps(), "a thread that has ended");
    }
}
