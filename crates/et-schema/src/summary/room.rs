//! How much of what a file names many times is described.

use alloc::vec::Vec;

use super::value::ValueSummary;
use crate::structure::expansion_limit;
use crate::view::{PlanView, ValueView};

/// What the description of a value takes beside its texts and lists, whatever kind it is.
const VALUE_NBYTES: usize = 512;

/// Bytes that the descriptions of values may yet take.
///
/// Inputs and outputs name values by index, so a small file can name one large value a million times. What is
/// described in all stays in proportion to the file, as the tables that are followed do.
#[derive(Debug)]
pub(super) struct Room {
    left: usize,
    left_out: u64,
}

impl Room {
    /// Room for all that a file of `len` bytes says, several times over.
    pub(super) fn of_file(len: usize) -> Self {
        Self {
            left: expansion_limit(len),
            left_out: 0,
        }
    }

    /// The values that `indices` name, up to the first for which there is no room.
    pub(super) fn describe(
        &mut self,
        plan: PlanView<'_>,
        indices: impl Iterator<Item = u32>,
    ) -> Vec<ValueSummary> {
        let mut described = Vec::new();
        for index in indices {
            let view = plan.value(index);
            if self.take(view) {
                described.push(ValueSummary::new(index, view));
            } else {
                self.left_out = self.left_out.saturating_add(1);
            }
        }
        described
    }

    /// How many values were left out since this was last asked.
    pub(super) fn left_out(&mut self) -> u64 {
        core::mem::take(&mut self.left_out)
    }

    fn take(&mut self, view: Option<ValueView<'_>>) -> bool {
        match self.left.checked_sub(nbytes(view)) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                // Nothing after it either: a list with gaps would seem to be whole.
                self.left = 0;
                false
            }
        }
    }
}

/// About how many bytes the description of a value takes.
fn nbytes(view: Option<ValueView<'_>>) -> usize {
    let variable = match view {
        Some(ValueView::Str(text)) => text.len(),
        Some(ValueView::Tensor(tensor)) => {
            let name = tensor.fully_qualified_name().map_or(0, str::len);
            let dims = tensor.rank().saturating_mul(size_of::<i32>());
            name.saturating_add(dims)
                .saturating_add(tensor.dim_order().len())
        }
        _ => 0,
    };
    variable.saturating_add(VALUE_NBYTES)
}
