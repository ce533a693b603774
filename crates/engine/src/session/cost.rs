//! The cost of a session over the processes that it ran in.

use serde::{Deserialize, Serialize};

/// A process of Claude Code: its pid and when it was started.
pub type Process = (Option<u32>, Option<u64>);

/// Figures closer than this are the same: dollars.
const NOTHING: f64 = 1e-6;

/// The costs in the status lines of a session's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ProcessCosts {
    /// The process that was heard last; none if none ever was.
    process: Option<Process>,
    /// Its first figure: zero, or a total that Claude Code had saved.
    first: f64,
    last: f64,
    /// What the session has cost besides the figures of this process.
    besides: f64,
}

impl ProcessCosts {
    /// Takes the figure of a process; `before` is what the session had cost until then. Gives what it
    /// has cost now, which is never less.
    ///
    /// Claude Code 2.1.325 saves its total at an orderly end and restores it with `--resume`. After a
    /// SIGKILL it restores what was saved before that process, or begins with zero.
    pub(super) fn total(&mut self, process: Process, said: f64, before: f64) -> f64 {
        if self.process != Some(process) {
            self.besides = self.besides_a_new_process(said, before);
            self.process = Some(process);
            self.first = said;
        }
        self.last = said;
        before.max(self.besides + said)
    }

    /// The first figure of a new process decides what is to be added to its figures.
    fn besides_a_new_process(&self, said: f64, before: f64) -> f64 {
        let restored = |saved: f64| self.process.is_some() && (said - saved).abs() < NOTHING;
        if said + NOTHING >= before {
            0.0
        } else if restored(self.last) {
            self.besides
        } else if restored(self.first) {
            before - self.first
        } else {
            before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the session has cost after these figures, each with the pid that said it.
    #[track_caller]
    fn costs(said: &[(u32, f64)], expected: &[f64]) {
        let (mut costs, mut total) = (ProcessCosts::default(), 0.0);
        for ((pid, said), expected) in said.iter().zip(expected) {
            total = costs.total((Some(*pid), Some(7)), *said, total);
            assert!((total - expected).abs() < 1e-9, "{total} is not {expected}");
        }
    }

    #[test]
    fn what_began_with_zero_is_added() {
        costs(
            &[(1, 0.5), (1, 1.3), (2, 0.0), (2, 0.2), (3, 0.0), (3, 0.1)],
            &[0.5, 1.3, 1.3, 1.5, 1.5, 1.6],
        );
        costs(&[(1, 1.3), (2, 0.4), (2, 0.5)], &[1.3, 1.7, 1.8]);
    }

    #[test]
    fn what_was_restored_is_not_added_again() {
        costs(&[(1, 1.3), (2, 1.3), (2, 1.4)], &[1.3, 1.3, 1.4]);
        // After a kill what was saved before that process is restored, as 2.1.325 does it.
        costs(
            &[(1, 0.9), (2, 0.9), (2, 0.9054), (3, 0.9), (3, 0.91)],
            &[0.9, 0.9, 0.9054, 0.9054, 0.9154],
        );
        // The one that began with zero has saved its own total.
        costs(
            &[(1, 1.3), (2, 0.0), (2, 0.5), (3, 0.5), (3, 0.6)],
            &[1.3, 1.3, 1.8, 1.8, 1.9],
        );
    }

    #[test]
    fn a_figure_that_falls_takes_nothing_away() {
        costs(&[(1, 1.3), (1, 0.2), (1, 1.4)], &[1.3, 1.3, 1.4]);
    }
}
