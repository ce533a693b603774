//! The programs of one event. The thread that owns [`RunningJobs`] starts them, waits for all of them with
//! one `poll`, and ends those whose time is up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

use super::child::ChildProcess;
use super::clock::{Cancel, CancelScope};
use super::{Job, JobResult, Outcome};

pub(super) const BUFFER: usize = 64 << 10;
/// The time between two looks where the system has no event to wait for.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// The running programs of one event, those in the background included.
#[derive(Debug)]
pub struct RunningJobs<'a> {
    running: Vec<RunningJob>,
    /// The results of the jobs that [`run`](Self::run) waits for, in their order.
    results: Vec<Option<JobResult>>,
    /// Background jobs that start once the caller has its results.
    queued: Vec<Job>,
    /// Background jobs that have ended.
    ended: VecDeque<JobResult>,
    cancel: &'a Cancel,
    scope: CancelScope,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct RunningJob {
    process: ChildProcess,
    /// The place of its result; none in the background.
    place: Option<usize>,
}

impl<'a> RunningJobs<'a> {
    pub fn new(cancel: &'a Cancel) -> Self {
        Self {
            running: Vec::new(),
            results: Vec::new(),
            queued: Vec::new(),
            ended: VecDeque::new(),
            cancel,
            scope: CancelScope::Nothing,
            buffer: vec![0; BUFFER],
        }
    }

    /// Runs jobs side by side. Returns the results of the awaited ones, in their order, as soon as the last
    /// of them has ended or has said `{"async": true}`. The others go on in the background.
    pub fn run(&mut self, jobs: Vec<Job>) -> Vec<JobResult> {
        let (background, awaited): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| job.is_async);
        self.results = vec![None; awaited.len()];
        self.queued.extend(background);
        for (place, job) in awaited.into_iter().enumerate() {
            self.start(job, Some(place));
        }
        if !self.has_all_results() {
            self.start_queued();
        }
        while !self.has_all_results() {
            self.wait_and_handle();
        }
        self.results.drain(..).flatten().collect()
    }

    /// Waits for the next background job to end. Returns none when nothing runs any more.
    pub fn next_ended(&mut self) -> Option<JobResult> {
        self.start_queued();
        while self.ended.is_empty() && !self.running.is_empty() {
            self.wait_and_handle();
        }
        self.ended.pop_front()
    }

    fn has_all_results(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    fn start_queued(&mut self) {
        for job in std::mem::take(&mut self.queued) {
            self.start(job, None);
        }
    }

    fn start(&mut self, job: Job, place: Option<usize>) {
        // A job that would be ended at once is not started.
        let scope = self.cancel.scope();
        if scope.ends(place.is_some()) {
            return self.record(place, JobResult::unstarted(job.hook, scope.reason().into()));
        }
        let hook = job.hook.clone();
        match ChildProcess::start(job) {
            Ok(process) => self.running.push(RunningJob { process, place }),
            Err(why) => {
                let result = JobResult::unstarted(hook, Outcome::NotStarted(why));
                self.record(place, result);
            }
        }
    }

    fn wait_and_handle(&mut self) {
        self.apply_cancel();
        self.wait();
        let now = Instant::now();
        for job in &mut self.running {
            job.process.advance(&mut self.buffer, now);
        }
        self.collect(now);
    }

    /// Ends the jobs that the caller has cancelled since the last look.
    fn apply_cancel(&mut self) {
        let scope = self.cancel.scope();
        if scope == self.scope {
            return;
        }
        self.scope = scope;
        let now = Instant::now();
        for job in &mut self.running {
            if scope.ends(job.place.is_some()) {
                job.process.cancel(now, scope.reason());
            }
        }
    }

    /// Waits until a pipe is ready, a program has ended, a clock has run out or the jobs are cancelled.
    fn wait(&self) {
        let jobs = self.running.iter();
        let mut polled: Vec<PollFd<'_>> = jobs.flat_map(|job| job.process.polled()).collect();
        polled.extend(self.cancel.wake_rx(self.scope));
        let left = self.next_deadline();
        let left = left.saturating_duration_since(Instant::now());
        // After an interruption the jobs are looked at all the same.
        let _ = poll(&mut polled, Timespec::try_from(left).ok().as_ref());
    }

    fn next_deadline(&self) -> Instant {
        let clocks = self.running.iter().map(|job| job.process.next_deadline());
        let next = clocks.min().unwrap_or_else(Instant::now);
        if self.running.iter().any(|job| job.process.is_unwatched()) {
            return next.min(Instant::now() + LOOK);
        }
        next
    }

    /// Takes out the jobs that have ended, and records those that went on in the background.
    fn collect(&mut self, now: Instant) {
        let mut index = 0;
        while let Some(job) = self.running.get_mut(index) {
            if let Some(place) = job.place
                && let Some(result) = job.process.result_if_async(now)
            {
                job.place = None;
                self.record(Some(place), result);
                continue;
            }
            if job.process.is_over() {
                let RunningJob { process, place } = self.running.remove(index);
                let result = process.finish(&mut self.buffer);
                self.record(place, result);
                continue;
            }
            index += 1;
        }
    }

    fn record(&mut self, place: Option<usize>, result: JobResult) {
        match place {
            Some(place) => self.results[place] = Some(result),
            None => self.ended.push_back(result),
        }
    }
}
