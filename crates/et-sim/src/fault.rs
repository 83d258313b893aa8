//! Calls that fail because they were told to.

/// The kinds of calls that can be told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Allocations.
    Allocate,
    /// Frees. A free that fails keeps the block.
    Deallocate,
    /// Copies in any direction, and fills.
    Copy,
}

/// Counts down to the call that fails.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    armed: Vec<(Operation, u64)>,
}

impl Faults {
    pub(crate) fn arm(&mut self, operation: Operation, calls_before: u64) {
        self.armed.push((operation, calls_before));
    }

    pub(crate) fn clear(&mut self) {
        self.armed.clear();
    }

    /// Whether this call of `operation` is to fail.
    pub(crate) fn hit(&mut self, operation: Operation) -> bool {
        let mut hit = false;
        self.armed.retain_mut(|(armed, left)| {
            if *armed != operation {
                return true;
            }
            hit |= *left == 0;
            *left = left.wrapping_sub(1);
            *left != u64::MAX
        });
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_call_that_was_named_fails() {
        let mut faults = Faults::default();
        faults.arm(Operation::Copy, 2);
        let hits: Vec<bool> = (0..4).map(|_| faults.hit(Operation::Copy)).collect();
        assert_eq!(hits, [false, false, true, false]);
        assert!(!faults.hit(Operation::Allocate));
    }
}
