//! The cost of a session over the processes that it ran in.

use serde::{Deserialize, Serialize};

/// A process of Claude Code: its pid and when it was started.
pub type Process = (Option<u32>, Option<u64>);

/// The difference in dollars below which two figures are equal.
const NOTHING: f64 = 1e-6;

/// The number of processes that are remembered. A session is seldom open in more than two at once.
const MOST: usize = 8;

/// The costs in the status lines of a session's newest processes, oldest process first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ProcessCosts {
    processes: Vec<ProcessCost>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ProcessCost {
    process: Process,
    /// The first figure: zero, or a total that Claude Code had saved.
    first: f64,
    highest: f64,
}

impl ProcessCosts {
    /// Takes the figure of a process; `before` is the cost of the session until then. Returns the cost now,
    /// which is never less.
    ///
    /// Claude Code 2.1.325 saves the total of each session at an orderly end and restores it with `--resume`,
    /// also after a SIGKILL: then without the killed process's part. A session that never ended orderly begins
    /// with zero. The cost before the first status line is an estimate from the transcript, of the same
    /// replies.
    pub(super) fn total(&mut self, process: Process, figure: f64, before: f64) -> f64 {
        let known = self.processes.iter_mut().find(|it| it.process == process);
        if let Some(known) = known {
            let added = (figure - known.highest).max(0.0);
            known.highest = known.highest.max(figure);
            return before + added;
        }
        let is_estimate = self.processes.is_empty();
        let is_restored = self.processes.iter().any(|it| it.had_total(figure));
        if self.processes.len() == MOST {
            self.processes.remove(0);
        }
        self.processes.push(ProcessCost {
            process,
            first: figure,
            highest: figure,
        });
        if is_estimate || figure + NOTHING >= before {
            before.max(figure)
        } else if is_restored {
            before
        } else {
            before + figure
        }
    }
}

impl ProcessCost {
    /// Returns true if a total that Claude Code may have saved from this process equals `figure`.
    fn had_total(&self, figure: f64) -> bool {
        let totals = [self.first, self.highest];
        totals.iter().any(|total| (total - figure).abs() < NOTHING)
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
    fn a_process_that_began_with_zero_is_added() {
        costs(
            &[(1, 0.5), (1, 1.3), (2, 0.0), (2, 0.2), (3, 0.0), (3, 0.1)],
            &[0.5, 1.3, 1.3, 1.5, 1.5, 1.6],
        );
        costs(&[(1, 1.3), (2, 0.4), (2, 0.5)], &[1.3, 1.7, 1.8]);
    }

    #[test]
    fn a_restored_total_is_not_added_again() {
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

    #[test]
    fn two_open_processes_each_add_their_own() {
        costs(
            &[(1, 0.5), (2, 0.5), (1, 0.6), (2, 0.55), (1, 0.6), (2, 0.55)],
            &[0.5, 0.5, 0.6, 0.65, 0.65, 0.65],
        );
    }

    #[test]
    fn the_newest_processes_are_remembered() {
        let mut costs = ProcessCosts::default();
        for pid in 0..20 {
            costs.total((Some(pid), None), 1.0, 1.0);
        }
        let pids: Vec<_> = costs.processes.iter().map(|it| it.process.0).collect();
        assert_eq!(pids, (12..20).map(Some).collect::<Vec<_>>());
    }
}
