//! Numbers to positions.

/// From numbers of 0 to `most` to positions from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    most: u64,
    start: f64,
    end: f64,
}

impl Scale {
    /// `most` is at least 1.
    pub(super) fn new(most: u64, start: f64, end: f64) -> Self {
        Self {
            most: most.max(1),
            start,
            end,
        }
    }

    pub(super) fn at(&self, number: u64) -> f64 {
        let part = number.min(self.most) as f64 / self.most as f64;
        self.start + part * (self.end - self.start)
    }

    /// The middle between a number and the next.
    pub(super) fn middle(&self, number: u64) -> f64 {
        (self.at(number) + self.at(number.saturating_add(1))) / 2.0
    }

    /// About `count` round numbers, 0 first.
    pub(super) fn ticks(&self, count: u64) -> impl Iterator<Item = u64> {
        let step = round_step(self.most.div_ceil(count.max(1)));
        let last = self.most;
        (0..=last / step).map(move |tick| tick * step)
    }
}

/// The least of 1, 2, 5, 10, 20, … that is at least `least`; powers of two from 1024 on, where it is about bytes.
fn round_step(least: u64) -> u64 {
    if least >= 1024 {
        return least.checked_next_power_of_two().unwrap_or(least);
    }
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1024];
    steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_where_they_belong() {
        let up = Scale::new(200, 100.0, 0.0);
        assert_eq!([up.at(0), up.at(50), up.at(900)], [100.0, 75.0, 0.0]);
        assert_eq!(up.middle(0), 99.75);
    }

    #[track_caller]
    fn check(most: u64, count: u64, expected: &[u64]) {
        let ticks: Vec<u64> = Scale::new(most, 0.0, 1.0).ticks(count).collect();
        assert_eq!(ticks, expected);
    }

    #[test]
    fn ticks_are_round_and_few() {
        check(1, 10, &[0, 1]);
        check(48, 4, &[0, 20, 40]);
        check(7, 10, &[0, 1, 2, 3, 4, 5, 6, 7]);
        check(6 << 20, 4, &[0, 2 << 20, 4 << 20, 6 << 20]);
        assert!(Scale::new(u64::MAX, 0.0, 1.0).ticks(4).count() <= 5);
    }
}
