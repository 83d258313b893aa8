//! Where the bytes of each value are.

use std::ops::Range;

use et_schema::TensorLocation;
use et_schema::owned::{ExecutionPlan, Tensor, Value};

use super::error::{AnalysisError, NamedBy};
use super::names::ValueIndex;
use super::set::Set;

/// A stretch of one planned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) memory_id: u32,
    pub(super) offset: u64,
    pub(super) end: u64,
}

impl Place {
    /// Whether both have bytes in common. Empty ones have none.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.memory_id == other.memory_id && self.offset.max(other.offset) < self.end.min(other.end)
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.memory_id == other.memory_id && self.offset <= other.offset && other.end <= self.end
    }
}

/// What the file says about the memory of a method's values.
#[derive(Debug)]
pub(super) struct Storages {
    /// The planned place of each value, if it is a tensor that has one.
    pub(super) places: Vec<Option<Place>>,
    pub(super) inputs: Set,
    pub(super) outputs: Set,
    /// Tensors whose bytes are in the file or in a data file, and not planned.
    pub(super) constants: Set,
    /// Planned tensors that are loaded from the file or a data file.
    pub(super) initialised: Set,
    /// Values up to this one are inputs, parameters and state; unknown if there are no inputs.
    pub(super) last_placeholder: Option<usize>,
}

impl Storages {
    pub(super) fn new(plan: &ExecutionPlan) -> Result<Self, AnalysisError> {
        let count = plan.values.len();
        let mut storages = Self {
            places: Vec::with_capacity(count),
            inputs: indices(plan, &plan.inputs, NamedBy::Inputs)?,
            outputs: indices(plan, &plan.outputs, NamedBy::Outputs)?,
            constants: Set::new(count),
            initialised: Set::new(count),
            last_placeholder: None,
        };
        storages.last_placeholder = storages.inputs.iter().last();
        for (number, value) in plan.values.iter().enumerate() {
            let place = match value {
                Value::Tensor(tensor) => {
                    storages.classify(number, tensor);
                    place(tensor).ok_or(AnalysisError::BadTensor {
                        value: ValueIndex::new(number),
                    })?
                }
                Value::TensorList(items) | Value::OptionalTensorList(items) => {
                    check_items(number, items, count)?;
                    None
                }
                _ => None,
            };
            storages.places.push(place);
        }
        Ok(storages)
    }

    fn classify(&mut self, number: usize, tensor: &Tensor) {
        let extra = tensor.extra_tensor_info.as_ref();
        let external = extra.is_some_and(|extra| extra.location == TensorLocation::External);
        if tensor.data_buffer_idx > 0 || external {
            let set = match tensor.allocation_info {
                Some(_) => &mut self.initialised,
                None => &mut self.constants,
            };
            set.insert(number);
        }
    }

    pub(super) fn value_count(&self) -> usize {
        self.places.len()
    }

    /// Whether two values are planned to have bytes in common.
    pub(super) fn overlap(&self, a: usize, b: usize) -> bool {
        match (&self.places[a], &self.places[b]) {
            (Some(a), Some(b)) => a.overlaps(b),
            _ => false,
        }
    }

    /// Whether the place of `a` holds all of the place of `b`.
    pub(super) fn covers(&self, a: usize, b: usize) -> bool {
        match (&self.places[a], &self.places[b]) {
            (Some(a), Some(b)) => a.covers(b),
            _ => false,
        }
    }

    /// Whether the value was there before the method's first instruction could make it.
    pub(super) fn is_placeholder(&self, value: usize) -> bool {
        self.last_placeholder.is_some_and(|last| value <= last)
    }
}

/// `None` for a size or end that memory cannot have; `Some(None)` for what is not planned.
#[expect(
    clippy::option_option,
    reason = "the outer one is turned into an error at once"
)]
fn place(tensor: &Tensor) -> Option<Option<Place>> {
    let nbytes = tensor.nbytes()?;
    let Some(allocation) = tensor.allocation_info else {
        return Some(None);
    };
    let (memory_id, offset) = (allocation.memory_id, allocation.memory_offset);
    let end = offset
        .checked_add(nbytes)
        .filter(|end| i64::try_from(*end).is_ok())?;
    Some(Some(Place {
        memory_id,
        offset,
        end,
    }))
}

fn indices(plan: &ExecutionPlan, list: &[i32], by: NamedBy) -> Result<Set, AnalysisError> {
    let count = plan.values.len();
    let mut set = Set::new(count);
    for &index in list {
        set.insert(value(index.into(), count, by)?);
    }
    Ok(set)
}

/// Checks the index of a value.
pub(super) fn value(index: i64, count: usize, place: NamedBy) -> Result<usize, AnalysisError> {
    let checked = usize::try_from(index).ok().filter(|&index| index < count);
    checked.ok_or(AnalysisError::NoSuchValue {
        place,
        found: index,
        count,
    })
}

fn check_items(list: usize, items: &[i32], count: usize) -> Result<(), AnalysisError> {
    for &item in items.iter().filter(|&&item| item != -1) {
        value(item.into(), count, NamedBy::List(ValueIndex::new(list)))?;
    }
    Ok(())
}

/// The tensors that an argument stands for: itself, or the items of a list.
pub(super) fn tensors(plan: &ExecutionPlan, argument: usize) -> Vec<usize> {
    let is_tensor = |&value: &usize| matches!(plan.values.get(value), Some(Value::Tensor(_)));
    match &plan.values[argument] {
        Value::Tensor(_) => vec![argument],
        Value::TensorList(items) | Value::OptionalTensorList(items) => {
            let items = items.iter().filter_map(|&item| usize::try_from(item).ok());
            items.filter(is_tensor).collect()
        }
        _ => Vec::new(),
    }
}

/// Grows a range to hold `node`.
pub(super) fn extend(range: &mut Option<Range<usize>>, node: usize) {
    *range = Some(match range.take() {
        None => node..node + 1,
        Some(range) => range.start.min(node)..range.end.max(node + 1),
    });
}
