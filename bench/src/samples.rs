//! The times of one contender, and their median, p99 and maximum.

use std::time::Duration;

#[derive(Debug, Clone, Default)]
pub struct Samples {
    nanos: Vec<u64>,
}

/// The figures of one contender, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub count: usize,
    pub median: f64,
    pub p99: f64,
    pub max: f64,
}

impl Samples {
    pub const fn new() -> Self {
        Self { nanos: Vec::new() }
    }

    pub fn push(&mut self, took: Duration) {
        self.nanos
            .push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub fn extend(&mut self, other: &Self) {
        self.nanos.extend_from_slice(&other.nanos);
    }

    pub fn len(&self) -> usize {
        self.nanos.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// Returns the figures, or `None` without a sample.
    pub fn figures(&self) -> Option<Figures> {
        let mut nanos = self.nanos.clone();
        nanos.sort_unstable();
        let micros: Vec<f64> = nanos.iter().map(|&nanos| nanos as f64 / 1000.0).collect();
        Some(Figures {
            count: micros.len(),
            median: median(&micros)?,
            p99: *micros.get((micros.len() * 99).div_ceil(100).checked_sub(1)?)?,
            max: *micros.last()?,
        })
    }
}

/// Returns the median of sorted values.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 {
        upper
    } else {
        f64::midpoint(sorted[middle - 1], upper)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_p99_are_those_of_the_sorted_times() {
        let mut samples = Samples::default();
        assert_eq!(samples.figures(), None);
        for micros in (1..=200).rev() {
            samples.push(Duration::from_micros(micros));
        }
        let figures = samples.figures().unwrap();
        assert_eq!(
            (figures.count, figures.median, figures.p99, figures.max),
            (200, 100.5, 198.0, 200.0)
        );
    }
}
