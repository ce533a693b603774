//! What hooks cost: when it is too much, and the figures of many runs.

use std::collections::BTreeMap;

use becket_wire::run::RunRow;

/// A hook that takes longer holds up whoever works: microseconds.
pub const TOO_SLOW: i64 = 5_000_000;
/// More characters than this Claude Code puts into a file, and shows the model a piece of it.
pub const TOO_LONG: u64 = 10_000;
/// Characters that make a token, roughly.
const PER_TOKEN: u64 = 4;

/// What text of so many characters costs in the model's window, roughly.
pub fn tokens(characters: u64) -> u64 {
    characters.div_ceil(PER_TOKEN)
}

/// What one hook did and cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    pub hook: String,
    pub runs: usize,
    pub failed: usize,
    /// They were ended because nobody waited any more: neither done nor failed.
    pub cancelled: usize,
    pub mean_us: i64,
    pub p95_us: i64,
    pub max_us: i64,
    pub last_at: i64,
    pub last_outcome: String,
}

impl Stats {
    /// How many of a hundred runs did what they were for, of those that were let; none if none was.
    pub fn success_pct(&self) -> Option<f64> {
        let let_be = self.runs - self.cancelled;
        let fine = let_be - self.failed;
        (let_be > 0).then(|| (fine as f64 / let_be as f64 * 1000.0).round() / 10.0)
    }
}

/// The figures of each hook, by name.
pub fn stats<'r>(runs: impl Iterator<Item = &'r RunRow>) -> Vec<Stats> {
    let mut hooks: BTreeMap<&str, Vec<&RunRow>> = BTreeMap::new();
    for run in runs {
        hooks.entry(&run.hook).or_default().push(run);
    }
    hooks.into_iter().filter_map(of_one).collect()
}

fn of_one((hook, runs): (&str, Vec<&RunRow>)) -> Option<Stats> {
    let last = runs.iter().max_by_key(|run| run.at)?;
    let times = Times::new(runs.iter().map(|run| run.took_us).collect());
    Some(Stats {
        hook: hook.to_owned(),
        runs: runs.len(),
        failed: runs.iter().filter(|run| run.has_failed()).count(),
        cancelled: runs.iter().filter(|run| run.was_cancelled()).count(),
        mean_us: times.mean(),
        p95_us: times.at(95),
        max_us: times.at(100),
        last_at: last.at,
        last_outcome: last.outcome.clone(),
    })
}

/// How long several runs took: sorted, in microseconds.
#[derive(Debug, Clone)]
pub struct Times(Vec<i64>);

impl Times {
    pub fn new(mut times: Vec<i64>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    pub fn mean(&self) -> i64 {
        let sum: i128 = self.0.iter().copied().map(i128::from).sum();
        let count = self.0.len().max(1) as i128;
        i64::try_from(sum / count).unwrap_or(i64::MAX)
    }

    /// So many of a hundred took at most this long: the nearest one that really was.
    pub fn at(&self, percent: usize) -> i64 {
        let rank = (self.0.len() * percent).div_ceil(100);
        let nth = rank.saturating_sub(1);
        self.0.get(nth).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_are_those_of_runs_that_were() {
        let times = Times::new(vec![50, 10, 40, 20, 30]);
        assert_eq!((times.mean(), times.at(50), times.at(95)), (30, 30, 50));
        let hundred = Times::new((1..=100).collect());
        assert_eq!(
            (hundred.at(50), hundred.at(95), hundred.at(100)),
            (50, 95, 100)
        );
        let one = Times::new(vec![7]);
        assert_eq!((one.mean(), one.at(50), one.at(95)), (7, 7, 7));
        assert_eq!(Times::new(Vec::new()).at(95), 0);
    }

    #[test]
    fn a_token_is_about_four_characters() {
        assert_eq!(
            [tokens(0), tokens(1), tokens(4), tokens(10_000)],
            [0, 1, 1, 2500]
        );
    }

    proptest! {
        #[test]
        fn the_figures_lie_in_order(times in prop::collection::vec(0_i64..=i64::MAX, 1..50)) {
            let times = Times::new(times);
            let (least, most) = (times.0[0], times.at(100));
            prop_assert_eq!(most, *times.0.last().unwrap());
            prop_assert!(times.at(50) <= times.at(95) && times.at(95) <= most);
            prop_assert!((least..=most).contains(&times.mean()));
        }
    }
}
