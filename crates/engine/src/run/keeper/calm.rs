//! How the keeper listens: in no hurry. Each line that woke it would cost the hooks a piece of their
//! core; so it lets some gather, and is awake at once when nobody can tell it anything any more.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long lines may gather. What a clock loses by it is less than its grace.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Calm<R>(pub R);

impl<R: Read + AsFd> Read for Calm<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.wait(PollFlags::IN, None)? {
            self.wait(PollFlags::empty(), Some(GATHER))?;
        }
        self.0.read(buffer)
    }
}

impl<R: AsFd> Calm<R> {
    /// Waits for that, or for the end of the pipe. False if it is the end.
    fn wait(&self, what: PollFlags, at_most: Option<Duration>) -> io::Result<bool> {
        let at_most = at_most.and_then(|span| Timespec::try_from(span).ok());
        loop {
            let mut polled = [PollFd::new(&self.0, what)];
            match poll(&mut polled, at_most.as_ref()) {
                Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
                Ok(_) => return Ok(!polled[0].revents().contains(PollFlags::HUP)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write, pipe};
    use std::time::Instant;

    use super::*;

    #[test]
    fn lines_gather_while_somebody_may_tell_more() {
        let (listener, mut teller) = pipe().unwrap();
        teller.write_all(b"a line\n").unwrap();
        let began = Instant::now();
        let mut calm = Calm(listener);
        assert_eq!(calm.read(&mut [0; 16]).unwrap(), 7);
        assert!(began.elapsed() >= GATHER, "{:?}", began.elapsed());
    }

    #[test]
    fn nothing_gathers_once_nobody_can_tell_more() {
        let (listener, mut teller) = pipe().unwrap();
        teller.write_all(b"a line\n").unwrap();
        let calm = Calm(listener);
        assert!(calm.wait(PollFlags::IN, None).unwrap());
        drop(teller);
        // Another test's fork may hold it for a moment.
        let until = Instant::now() + Duration::from_secs(60);
        while calm.wait(PollFlags::IN, None).unwrap() {
            assert!(Instant::now() < until, "nobody sees that it was dropped");
        }
        // It would be waited for as long as this test may take.
        assert!(!calm.wait(PollFlags::empty(), None).unwrap());
    }

    #[test]
    fn all_that_is_told_is_heard_to_its_end() {
        let (listener, mut teller) = pipe().unwrap();
        let told = std::thread::spawn(move || {
            let mut reads = Vec::new();
            let mut calm = BufReader::with_capacity(1 << 16, Calm(listener));
            while let Ok(bytes) = calm.fill_buf()
                && !bytes.is_empty()
            {
                let len = bytes.len();
                reads.push(len);
                calm.consume(len);
            }
            reads
        });
        for _ in 0..1000 {
            teller.write_all(b"a line\n").unwrap();
        }
        drop(teller);
        let reads = told.join().unwrap();
        assert_eq!(reads.iter().sum::<usize>(), 7000);
    }
}
