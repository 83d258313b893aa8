//! Whether a host value still holds what a device delegate gave.

use crate::analysis::{Analysis, ValueIndex};

/// For the output `value` of the delegate call `call`: before which instructions its bytes are sure to be those that
/// the call gave, on every path.
pub(super) fn available(analysis: &Analysis<'_>, call: usize, value: ValueIndex) -> Vec<bool> {
    let flow = analysis.flow();
    let steps = analysis.steps();
    // Everything is assumed until a path shows otherwise; nothing is before the first instruction.
    let mut before = vec![true; flow.exit() + 1];
    before[0] = false;
    loop {
        let mut changed = false;
        for node in 0..flow.exit() {
            let overwritten = || {
                steps[node]
                    .changes()
                    .any(|other| analysis.shares_bytes(other, value))
            };
            let pointed = || steps[node].moves.iter().any(|&(target, _)| target == value);
            let after = node == call || (before[node] && !overwritten() && !pointed());
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
