//! Copies to a device that serve more than one call, for delegates that leave what they are given as it is.

use et_device::Device;

use crate::analysis::{Analysis, Flow, ValueIndex};

/// A device value that holds a copy of a host value.
pub(super) struct Upload {
    pub(super) device: Device,
    pub(super) host: ValueIndex,
    pub(super) twin: ValueIndex,
    /// Before which instructions both are sure to have the same bytes.
    pub(super) available: Vec<bool>,
}

impl Upload {
    /// Whether a call needs no copy of its own.
    pub(super) fn serves(&self, node: usize, host: ValueIndex, device: Device) -> bool {
        (self.host, self.device) == (host, device) && self.available[node]
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

    /// Whether nothing in the loop changes the bytes of `host` or makes it show others.
    pub(super) fn leaves_alone(&self, analysis: &Analysis<'_>, host: ValueIndex) -> bool {
        (self.head..=self.tail)
            .all(|node| !analysis.may_change(node, host) && !analysis.points_elsewhere(node, host))
    }

    /// The instructions of the loop, as a set.
    pub(super) fn nodes(&self, flow: &Flow) -> Vec<bool> {
        (0..=flow.exit()).map(|node| self.holds(node)).collect()
    }
}
