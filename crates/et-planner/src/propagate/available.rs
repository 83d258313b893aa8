//! Whether a host value and its copy on a device are sure to be the same.

use crate::analysis::{Analysis, AnalysisError, Set, ValueIndex};

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
) -> Result<Set, AnalysisError> {
    let flow = analysis.flow();
    let keep = analysis.that_keep(value)?;
    // Everything is assumed until a path shows otherwise; nothing is before the first instruction.
    let mut before = Set::full(flow.exit() + 1);
    before.remove(0);
    loop {
        analysis.work().spend(flow.exit())?;
        let mut changed = false;
        for node in 0..flow.exit() {
            let after = match (node == call, since) {
                (true, Since::Written) => true,
                (true, Since::Read) => keep.contains(node),
                (false, _) => before.contains(node) && keep.contains(node),
            };
            for next in flow.successors(node) {
                if before.contains(next) && !after {
                    before.remove(next);
                    changed = true;
                }
            }
        }
        if !changed {
            return Ok(before);
        }
    }
}
