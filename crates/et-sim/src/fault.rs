//! Calls that fail because they were told to.

/// The kinds of calls that can be told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Calls of any of the other kinds.
    Any,
    /// Allocations.
    Allocate,
    /// Frees. A free that fails keeps the block.
    Deallocate,
    /// Copies in any direction, and fills.
    Copy,
    /// Copies from the host.
    HostToDevice,
    /// Copies to the host.
    DeviceToHost,
    /// Copies within and between devices.
    DeviceToDevice,
    /// Fills.
    Fill,
    /// Questions about free memory.
    MemoryInfo,
    /// Waits for a device or a stream.
    Synchronize,
}

impl Operation {
    /// Every kind that a call can be of: all but the two that stand for several.
    pub const KINDS: [Self; 8] = [
        Self::Allocate,
        Self::Deallocate,
        Self::HostToDevice,
        Self::DeviceToHost,
        Self::DeviceToDevice,
        Self::Fill,
        Self::MemoryInfo,
        Self::Synchronize,
    ];

    /// The allocator's method that such a call is of, in the words of errors.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Any => "any call",
            Self::Allocate => "allocate",
            Self::Deallocate => "deallocate",
            Self::Copy => "copy",
            Self::HostToDevice => "copy_host_to_device",
            Self::DeviceToHost => "copy_device_to_host",
            Self::DeviceToDevice => "copy_device_to_device",
            Self::Fill => "fill",
            Self::MemoryInfo => "memory_info",
            Self::Synchronize => "synchronize",
        }
    }

    /// Whether a call of kind `call` is one of these.
    fn includes(self, call: Self) -> bool {
        let copies = matches!(
            call,
            Self::HostToDevice | Self::DeviceToHost | Self::DeviceToDevice | Self::Fill
        );
        self == call || self == Self::Any || (self == Self::Copy && copies)
    }
}

/// Counts down to the calls that fail.
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

    /// How many failures are still to come.
    pub(crate) fn left(&self) -> usize {
        self.armed.len()
    }

    /// Whether this call of kind `call` is to fail.
    pub(crate) fn hit(&mut self, call: Operation) -> bool {
        let mut hit = false;
        self.armed.retain_mut(|(armed, left)| {
            if !armed.includes(call) {
                return true;
            }
            let now = *left == 0;
            hit |= now;
            *left = left.saturating_sub(1);
            !now
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
        faults.arm(Operation::Fill, 2);
        let hits: Vec<bool> = (0..4).map(|_| faults.hit(Operation::Fill)).collect();
        assert_eq!(hits, [false, false, true, false]);
        assert!(!faults.hit(Operation::Allocate));
    }

    #[test]
    fn each_kind_can_be_named_alone() {
        for named in Operation::KINDS {
            let mut faults = Faults::default();
            faults.arm(named, 0);
            let hits: Vec<Operation> = Operation::KINDS
                .into_iter()
                .filter(|&call| faults.hit(call))
                .collect();
            assert_eq!(hits, [named]);
            assert_eq!(faults.left(), 0);
        }
    }

    #[test]
    fn a_word_for_several_kinds_counts_all_of_them() {
        use Operation::*;
        let mut faults = Faults::default();
        faults.arm(Copy, 3);
        let calls = [Allocate, HostToDevice, Fill, DeviceToHost, Deallocate];
        assert!(calls.into_iter().all(|call| !faults.hit(call)));
        assert!(faults.hit(DeviceToDevice));
        faults.arm(Any, 1);
        assert!(!faults.hit(MemoryInfo) && faults.hit(Synchronize));
    }

    #[test]
    fn failures_do_not_wait_for_each_other() {
        let mut faults = Faults::default();
        faults.arm(Operation::Fill, 0);
        faults.arm(Operation::Fill, 0);
        faults.arm(Operation::Fill, 2);
        let hits: Vec<bool> = (0..4).map(|_| faults.hit(Operation::Fill)).collect();
        assert_eq!(hits, [true, false, true, false]);
    }
}
