//! Whether a host value and its copy on a device are sure to be the same.

use crate::analysis::{Analysis, ValueIndex};

/// When the bytes of both become the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// After the call, which writes both: the device value itself, the host value by a copy behind it.
    Written,
    /// Before the call, which may write over the host value.
    Read,
}

/// Before which instructions the bytes of the host value `value` are sure to be those that the call `call` gave or
/// took, on every path.
pub(super) fn available(
    analysis: &Analysis<'_>,
    call: usize,
    value: ValueIndex,
    since: Since,
) -> Vec<bool> {
    let flow = analysis.flow();
    // Everything is assumed until a path shows otherwise; nothing is before the first instruction.
    let mut before = vec![true; flow.exit() + 1];
    before[0] = false;
    loop {
        let mut changed = false;
        for node in 0..flow.exit() {
            let kept =
                || !analysis.may_change(node, value) && !analysis.points_elsewhere(node, value);
            let after = match (node == call, since) {
                (true, Since::Written) => true,
                (true, Since::Read) => kept(),
                (false, _) => before[node] && kept(),
            };
            for next in flow.successors(node) {
                if before[next] && !after {
                    before[next] = false;
                    changed = true;
                }
            }
        }
        if !changed {
            return before;
        }
    }
}
