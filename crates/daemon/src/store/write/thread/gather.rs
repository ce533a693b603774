//! How a group comes together. Every commit writes the ends of the log and of its indexes anew, for one
//! event or for fifty: under load it is worth a moment to wait for more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use super::super::Job;
use crate::store::inbox::SMALL_GROUP;

/// So many are enough to share what a commit writes.
const ENOUGH: usize = 48;
/// How long, and how often, more are waited for.
const MOMENT: Duration = Duration::from_micros(60);
const MOMENTS: u32 = 3;

pub(super) struct Gather {
    /// Events that were taken and not yet answered.
    in_flight: Arc<AtomicUsize>,
    moments: u32,
}

impl Gather {
    pub(super) fn new(in_flight: &Arc<AtomicUsize>) -> Self {
        Self {
            in_flight: Arc::clone(in_flight),
            moments: MOMENTS,
        }
    }

    /// What comes next where so many are here and nothing waits: if most of what was taken is still on
    /// its way here, somebody may come in a moment.
    pub(super) fn more(&mut self, here: usize, jobs: &mut mpsc::Receiver<Job>) -> Option<Job> {
        let on_its_way = self.in_flight.load(Ordering::Relaxed).saturating_sub(here);
        while (SMALL_GROUP..ENOUGH).contains(&here) && here < on_its_way && self.moments > 0 {
            self.moments -= 1;
            std::thread::park_timeout(MOMENT);
            if let Ok(job) = jobs.try_recv() {
                return Some(job);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many moments are waited where so many are here, of so many, and nobody comes.
    fn waited(here: usize, in_flight: usize) -> u32 {
        let (_sender, mut jobs) = mpsc::channel(1);
        let mut gather = Gather::new(&Arc::new(AtomicUsize::new(in_flight)));
        assert!(gather.more(here, &mut jobs).is_none());
        MOMENTS - gather.moments
    }

    #[test]
    fn only_under_load_somebody_waits_and_not_for_long() {
        assert_eq!(waited(20, 100), MOMENTS);
        assert_eq!(waited(1, 100), 0, "a few go through the inbox at once");
        assert_eq!(waited(9, 10), 0, "nearly all are here");
        assert_eq!(waited(ENOUGH, 1000), 0, "these are enough");
    }

    #[test]
    fn whoever_comes_in_the_meantime_is_taken_along() {
        let (sender, mut jobs) = mpsc::channel(1);
        sender.try_send(Job::Settle).ok().unwrap();
        let mut gather = Gather::new(&Arc::new(AtomicUsize::new(100)));
        assert!(matches!(gather.more(20, &mut jobs), Some(Job::Settle)));
        assert_eq!(gather.moments, MOMENTS - 1);
    }
}
