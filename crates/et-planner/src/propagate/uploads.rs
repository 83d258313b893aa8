//! Copies to a device that serve more than one call, for delegates that leave what they are given as it is.

use et_device::Device;

use crate::analysis::{Flow, Set, ValueIndex};

/// A device value that holds a copy of a host value.
pub(super) struct Upload {
    pub(super) device: Device,
    pub(super) host: ValueIndex,
    pub(super) twin: ValueIndex,
    /// Before which instructions both are sure to have the same bytes.
    pub(super) available: Set,
}

impl Upload {
    /// Whether a call needs no copy of its own.
    pub(super) fn serves(&self, node: usize, host: ValueIndex, device: Device) -> bool {
        (self.host, self.device) == (host, device) && self.available.contains(node)
    }
}

/// A copy that runs once before a loop.
pub(super) struct Hoisted {
    pub(super) around: Loop,
    pub(super) host: ValueIndex,
    pub(super) twin: ValueIndex,
}

/// Instructions that run again and again, from the one that the loop is entered at to the last that jumps back there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    pub(super) head: usize,
    pub(super) tail: usize,
}

impl Loop {
    /// The loops that are entered at their head alone, outer ones before those inside of them.
    pub(super) fn all(flow: &Flow) -> Vec<Self> {
        let mut loops: Vec<Self> = flow
            .loops()
            .map(|(head, tail)| Self { head, tail })
            .collect();
        // Of several jumps back to one place the last counts.
        loops.sort_unstable_by_key(|around| (around.head, std::cmp::Reverse(around.tail)));
        loops.dedup_by_key(|around| around.head);
        loops.retain(|around| around.is_entered_at_its_head(flow));
        loops
    }

    fn is_entered_at_its_head(&self, flow: &Flow) -> bool {
        let from_outside = (0..flow.exit()).filter(|&node| !self.holds(node));
        let mut targets = from_outside.filter_map(|node| flow.jump(node));
        targets.all(|target| target == self.head || !self.holds(target))
    }

    pub(super) fn holds(&self, node: usize) -> bool {
        (self.head..=self.tail).contains(&node)
    }

    /// Whether every instruction of the loop is one of `keep`, which leave a value as it is.
    pub(super) fn is_within(&self, keep: &Set) -> bool {
        (self.head..=self.tail).all(|node| keep.contains(node))
    }

    /// The instructions of the loop, as a set.
    pub(super) fn nodes(&self, flow: &Flow) -> Set {
        let mut nodes = Set::new(flow.exit() + 1);
        (self.head..=self.tail).for_each(|node| nodes.insert(node));
        nodes
    }
}
