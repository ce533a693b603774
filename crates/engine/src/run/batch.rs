//! The programs of one event, watched together by one thread.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

use super::clock::{Cancel, CancelScope};
use super::process::{Port, Running};
use super::{Behind, Job, Ran};

pub(super) const BUFFER: usize = 64 << 10;
/// How often we look where nothing would wake us.
pub(super) const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Batch<'a, A, L> {
    running: Vec<Member>,
    /// One place for each awaited job, in the order of the jobs.
    places: Vec<Option<Ran>>,
    cancel: &'a Cancel,
    scope: CancelScope,
    answered: Option<A>,
    later: L,
    buffer: Vec<u8>,
}

struct Member {
    running: Running,
    /// Its place in the answer; none for what runs in the background.
    place: Option<usize>,
}

impl<'a, A: FnOnce(Vec<Ran>), L: FnMut(Ran)> Batch<'a, A, L> {
    /// Starts what is waited for first, and takes over what goes on from before.
    pub(super) fn start(
        jobs: Vec<Job>,
        behind: Behind,
        cancel: &'a Cancel,
        answered: A,
        later: L,
    ) -> Self {
        let (background, awaited): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.is_async);
        let behind = behind.0.into_iter();
        let member = |running| Member {
            running,
            place: None,
        };
        let mut batch = Self {
            running: behind.map(member).collect(),
            places: vec![None; awaited.len()],
            cancel,
            scope: CancelScope::Nothing,
            answered: Some(answered),
            later,
            buffer: vec![0; BUFFER],
        };
        for (place, job) in awaited.into_iter().enumerate() {
            batch.add(job, Some(place));
        }
        batch.answer_if_complete();
        for job in background {
            batch.add(job, None);
        }
        batch
    }

    pub(super) fn run(mut self) {
        while !self.running.is_empty() {
            self.turn();
        }
    }

    /// Only until it is answered; gives what goes on.
    pub(super) fn run_until_answered(mut self) -> Behind {
        while self.answered.is_some() && !self.running.is_empty() {
            self.turn();
        }
        let rest = self.running.into_iter();
        Behind(rest.map(|member| member.running).collect())
    }

    fn turn(&mut self) {
        self.obey();
        self.wait();
        let now = Instant::now();
        for member in &mut self.running {
            member.running.look_for_end(now);
            member.running.tick(now);
        }
        self.gather(now);
    }

    fn add(&mut self, job: Job, place: Option<usize>) {
        // What would be ended at once is not even begun.
        let scope = self.cancel.scope();
        if scope.ends(place.is_some()) {
            return self.deliver(place, Ran::unstarted(job.hook, scope.reason().into()));
        }
        match Running::start(job) {
            Ok(running) => {
                self.running.push(Member { running, place });
            }
            Err(ran) => self.deliver(place, *ran),
        }
    }

    /// Waits until something is ready, and takes it.
    fn wait(&mut self) {
        let mut ports = Vec::with_capacity(self.running.len() * 4);
        let mut polled = Vec::with_capacity(self.running.len() * 4 + 1);
        for (index, member) in self.running.iter().enumerate() {
            for (port, pipe, flags) in member.running.ports() {
                ports.push((index, port));
                polled.push(PollFd::from_borrowed_fd(pipe, flags));
            }
        }
        polled.extend(self.cancel.wake_rx(self.scope));
        let left = self.next().saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok();
        if poll(&mut polled, left.as_ref()).is_err() {
            return;
        }
        let ready: Vec<(usize, Port)> = (ports.into_iter().zip(&polled))
            .filter(|(_, polled)| !polled.revents().is_empty())
            .map(|(port, _)| port)
            .collect();
        let now = Instant::now();
        for (index, port) in ready {
            self.running[index]
                .running
                .ready(port, &mut self.buffer, now);
        }
    }

    fn next(&self) -> Instant {
        let unwatched = |member: &Member| member.running.is_unwatched();
        let look = self.cancel.is_mute() || self.running.iter().any(unwatched);
        let look = look.then(|| Instant::now() + LOOK);
        let clocks = self.running.iter().map(|member| member.running.next());
        clocks.chain(look).min().unwrap_or_else(Instant::now)
    }

    fn obey(&mut self) {
        let scope = self.cancel.scope();
        if scope == self.scope {
            return;
        }
        self.scope = scope;
        let now = Instant::now();
        for member in &mut self.running {
            if scope.ends(member.place.is_some()) {
                member.running.cancel(now, scope.reason());
            }
        }
    }

    /// Takes out what is over, and what goes on without us.
    fn gather(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(member) = self.running.get_mut(index) {
            if let Some(place) = member.place
                && let Some(ran) = member.running.went_async(now)
            {
                member.place = None;
                self.deliver(Some(place), ran);
                continue;
            }
            if member.running.is_over() {
                let Member { running, place } = self.running.remove(index);
                let ran = running.finish(&mut self.buffer);
                self.deliver(place, ran);
                continue;
            }
            index += 1;
        }
    }

    fn deliver(&mut self, place: Option<usize>, ran: Ran) {
        match place {
            Some(place) => {
                self.places[place] = Some(ran);
                self.answer_if_complete();
            }
            None => (self.later)(ran),
        }
    }

    fn answer_if_complete(&mut self) {
        if self.places.iter().all(Option::is_some)
            && let Some(answered) = self.answered.take()
        {
            answered(self.places.drain(..).flatten().collect());
        }
    }
}
