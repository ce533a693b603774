//! What is done with a program whose runner is gone. Pure: what is seen of it, and the time, come from
//! outside.

use std::time::{Duration, Instant};

use super::super::clock::{Act, Clock};
use super::super::group::Seen;

#[derive(Debug)]
pub(super) struct Orphan {
    clock: Clock,
    /// Its leader has ended.
    ended: bool,
    over: bool,
}

impl Orphan {
    /// One that may go on for so long.
    pub(super) fn new(now: Instant, left: Duration) -> Self {
        Self {
            clock: Clock::start(now, left),
            ended: false,
            over: false,
        }
    }

    /// What is to be done with its group. Where a leader ended by itself, whomever it left behind is
    /// nobody's: only what was asked to end is killed.
    #[must_use]
    pub(super) fn see(&mut self, seen: Seen, now: Instant) -> Option<Act> {
        if seen != Seen::Runs && !self.ended {
            self.ended = true;
            self.clock.exited(now);
        }
        let nobody_is_left = seen == Seen::Gone || !self.was_asked();
        self.over |= self.clock.is_over(self.ended, nobody_is_left);
        if self.over {
            return None;
        }
        let act = self.clock.act(now);
        self.over = act == Some(Act::Leave);
        act.filter(|act| *act != Act::Leave)
    }

    /// The moment at which there is something to do, whatever is seen.
    pub(super) fn next(&self) -> Instant {
        self.clock.next()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether its time was up, and it was asked to end.
    pub(super) fn was_asked(&self) -> bool {
        self.clock.reason().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(30);
    const GRACE: Duration = Duration::from_secs(2);

    #[test]
    fn whoever_ends_by_itself_is_left_alone_with_whomever_it_started() {
        let now = Instant::now();
        for last in [Seen::Leaderless, Seen::Gone] {
            let mut orphan = Orphan::new(now, LEFT);
            assert_eq!(orphan.see(Seen::Runs, now + LEFT / 2), None);
            assert!(!orphan.is_over());
            assert_eq!(orphan.see(last, now + LEFT / 2), None);
            assert!(orphan.is_over() && !orphan.was_asked());
        }
    }

    #[test]
    fn whoever_does_not_end_is_asked_then_killed_then_left() {
        let now = Instant::now();
        let mut orphan = Orphan::new(now, LEFT);
        let up = now + LEFT;
        assert_eq!(orphan.next(), up);
        assert_eq!(orphan.see(Seen::Runs, up), Some(Act::Terminate));
        assert_eq!(orphan.see(Seen::Runs, up + GRACE / 2), None);
        assert_eq!(orphan.see(Seen::Runs, up + GRACE), Some(Act::Kill));
        assert!(!orphan.is_over());
        // In a dead file system, say.
        assert_eq!(orphan.see(Seen::Runs, up + GRACE * 2), None);
        assert!(orphan.is_over() && orphan.was_asked());
    }

    #[test]
    fn those_who_stay_when_their_leader_obeyed_are_killed() {
        let now = Instant::now();
        let mut orphan = Orphan::new(now, LEFT);
        let up = now + LEFT;
        assert_eq!(orphan.see(Seen::Runs, up), Some(Act::Terminate));
        assert_eq!(orphan.see(Seen::Leaderless, up + GRACE / 2), None);
        assert!(!orphan.is_over());
        assert_eq!(orphan.see(Seen::Leaderless, up + GRACE), Some(Act::Kill));
        assert_eq!(orphan.see(Seen::Leaderless, up + GRACE), None);
        assert!(orphan.is_over());
    }

    #[test]
    fn a_number_that_may_be_anothers_is_never_signalled() {
        let now = Instant::now();
        let late = now + LEFT * 10;
        let mut gone_before = Orphan::new(now, LEFT);
        assert_eq!(gone_before.see(Seen::Gone, late), None);
        assert!(gone_before.is_over() && !gone_before.was_asked());

        let mut obeyed = Orphan::new(now, LEFT);
        assert_eq!(obeyed.see(Seen::Runs, now + LEFT), Some(Act::Terminate));
        assert_eq!(obeyed.see(Seen::Gone, late), None);
        assert!(obeyed.is_over() && obeyed.was_asked());
    }
}
