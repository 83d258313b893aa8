//! What is known of a method's values before any instruction is looked at, in lists that cost little to make.

use std::ops::Range;

use et_schema::{PlanView, ValueView};

/// Bytes of planned memory: the buffer, and the part of it.
type Bytes = (u32, Range<u64>);

/// Lists of values, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Rows {
    items: Vec<u32>,
    /// Where each list ends.
    ends: Vec<usize>,
}

impl Rows {
    /// Adds values to the list that is not ended yet.
    pub(super) fn extend(&mut self, values: &[u32]) {
        self.items.extend_from_slice(values);
    }

    /// Ends a list.
    pub(super) fn end(&mut self) {
        self.ends.push(self.items.len());
    }

    /// Ends a list, keeping each of its values once.
    pub(super) fn end_set(&mut self) {
        let start = self.ends.last().copied().unwrap_or(0);
        self.items[start..].sort_unstable();
        let mut kept = start;
        for at in start..self.items.len() {
            if at == start || self.items[at] != self.items[at.saturating_sub(1)] {
                self.items[kept] = self.items[at];
                kept = kept.saturating_add(1);
            }
        }
        self.items.truncate(kept);
        self.end();
    }

    /// How many lists were ended.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// List `row`.
    pub(super) fn row(&self, row: usize) -> &[u32] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[start..self.ends[row]]
    }

    /// The lists, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.len()).map(|row| self.row(row))
    }
}

/// A method's values.
pub(super) struct Values {
    /// Where each value is in planned memory. What is empty is nowhere: nobody sees it.
    places: Vec<Option<Bytes>>,
    /// Whether each is a tensor without contents of its own that no caller sees.
    temporary: Vec<bool>,
    /// Each value, or the values of the list that it is.
    items: Rows,
    inputs: Vec<bool>,
    outputs: Vec<u32>,
}

impl Values {
    pub(super) fn new(plan: &PlanView<'_>) -> Self {
        let count = plan.num_values();
        let mut values = Self {
            places: Vec::with_capacity(count),
            temporary: Vec::with_capacity(count),
            items: Rows::default(),
            inputs: vec![false; count],
            outputs: plan.outputs().iter().collect(),
        };
        for (index, value) in (0..).zip(plan.values()) {
            values.push(index, &value, count);
        }
        for input in plan.inputs().iter() {
            values.inputs[input as usize] = true;
            values.temporary[input as usize] = false;
        }
        for &output in &values.outputs {
            values.temporary[output as usize] = false;
        }
        values
    }

    fn push(&mut self, index: u32, value: &ValueView<'_>, count: usize) {
        let known = |item: i32| {
            u32::try_from(item)
                .ok()
                .filter(|&item| (item as usize) < count)
        };
        match value {
            ValueView::TensorList(items) | ValueView::OptionalTensorList(items) => {
                self.items.items.extend(items.iter().filter_map(known));
            }
            _ => self.items.items.push(index),
        }
        self.items.end();
        let tensor = value.as_tensor();
        let place = tensor.and_then(|tensor| {
            let (allocation, nbytes) = (tensor.allocation()?, tensor.nbytes()?);
            let end = allocation.offset.checked_add(nbytes)?;
            (nbytes > 0).then_some((allocation.memory_id, allocation.offset..end))
        });
        let temporary = tensor.is_some_and(|tensor| {
            tensor.data_buffer_idx() == 0 && tensor.fully_qualified_name().is_none()
        });
        self.places.push(place);
        self.temporary.push(temporary);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// A value, or the values of a list. None if there is no such value.
    pub(super) fn items(&self, value: u32) -> &[u32] {
        match (value as usize) < self.len() {
            true => self.items.row(value as usize),
            false => &[],
        }
    }

    /// Whether a value is a tensor that only instructions give contents, and no caller sees.
    pub(super) fn is_temporary(&self, value: u32) -> bool {
        self.temporary[value as usize]
    }

    pub(super) fn is_input(&self, value: u32) -> bool {
        self.inputs[value as usize]
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = u32> {
        self.outputs.iter().copied()
    }

    pub(super) fn place(&self, value: u32) -> Option<&Bytes> {
        self.places[value as usize].as_ref()
    }
}
