//! Who gives the memory of a method's inputs and outputs: the plan, or the caller.

use std::collections::BTreeSet;

use et_schema::Dynamism;
use et_schema::owned::{AllocationDetails, ExecutionPlan, NonConstBufferDevice, Tensor};
use thiserror::Error;

use crate::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};

/// Places of values that get new ones are multiples of this.
const ALIGNMENT: u64 = 16;

/// What is wanted; nothing changes where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndsOptions {
    /// Whether inputs have planned memory. Without it callers give theirs, and nothing is copied.
    pub inputs: Option<bool>,
    /// Whether outputs have planned memory. Without it callers may give theirs.
    pub outputs: Option<bool>,
    /// What is known about delegates.
    pub hints: Hints,
}

/// What was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndsReport {
    /// Values that have planned memory now, and had none.
    pub planned: Vec<ValueIndex>,
    /// Values that have none now.
    pub freed: Vec<ValueIndex>,
    /// Values that stay as they are although something else was asked for: others show their bytes, or they are
    /// another's; they are state; or they are inputs on a device, which only callers can fill.
    pub kept: Vec<ValueIndex>,
}

/// Why inputs and outputs stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndsError {
    /// The method cannot be analysed.
    #[error("the method cannot be analysed")]
    Analysis(#[from] AnalysisError),
    /// A buffer larger than the format holds.
    #[error("buffer {memory_id} would be larger than the format holds")]
    TooLarge {
        /// The buffer.
        memory_id: usize,
    },
    /// The method's own plan lets a great many live values clobber each other.
    #[error("the plan of the method is corrupt: {0}")]
    Corrupt(Finding),
    /// The changed method is wrong: a fault of this crate.
    #[error("the new method is wrong: {0}")]
    Wrong(Finding),
}

/// Gives inputs and outputs memory in the plan, behind everything that is there, or takes it from them.
///
/// What becomes free is used only if the method is planned anew.
///
/// # Errors
///
/// [`EndsError`]; the method is then as it was.
pub fn plan_ends(
    method: &mut ExecutionPlan,
    options: &EndsOptions,
) -> Result<EndsReport, EndsError> {
    let mut changed = method.clone();
    let mut report = EndsReport::default();
    {
        let analysis = Analysis::new(method, &options.hints)?;
        let before = analysis.audit()?;
        // A list that is cut may lack what is found later.
        if let Some(clobber) = before
            .clobbers()
            .next()
            .filter(|_| before.has_more_clobbers)
        {
            return Err(EndsError::Corrupt(clobber.clone()));
        }
        let before: BTreeSet<Finding> = before.findings.into_iter().collect();
        let inputs = tensors(method, &method.inputs);
        let outputs = tensors(method, &method.outputs);
        let only_outputs = outputs.difference(&inputs).copied().collect();
        for (values, wanted) in [(&inputs, options.inputs), (&only_outputs, options.outputs)] {
            for &value in values {
                match wanted {
                    Some(true) => give(&mut changed, &analysis, value, &mut report)?,
                    Some(false) => take(&mut changed, &analysis, value, &mut report),
                    None => {}
                }
            }
        }
        let after = Analysis::new(&changed, &options.hints)?.audit()?.findings;
        if let Some(finding) = after.into_iter().find(|finding| !before.contains(finding)) {
            return Err(EndsError::Wrong(finding));
        }
    }
    *method = changed;
    Ok(report)
}

fn tensors(method: &ExecutionPlan, ends: &[i32]) -> BTreeSet<ValueIndex> {
    let ends = ends.iter().filter_map(|&end| usize::try_from(end).ok());
    ends.filter(|&end| method.values[end].as_tensor().is_some())
        .map(ValueIndex::new)
        .collect()
}

fn tensor_mut(method: &mut ExecutionPlan, value: ValueIndex) -> &mut Tensor {
    method.values[value.get()]
        .as_tensor_mut()
        .expect("only tensors are asked for")
}

/// Whether the bytes of a value are its own and nobody else's, for as long as the method runs.
fn stands_alone(analysis: &Analysis<'_>, value: ValueIndex) -> bool {
    let values = (0..analysis.method().values.len()).map(ValueIndex::new);
    let mut others = values.filter(|&other| other != value);
    let alone = others.all(|other| analysis.group(other) != analysis.group(value));
    let moved = (0..analysis.steps().len()).any(|node| analysis.points_elsewhere(node, value));
    alone && !moved && !analysis.is_persistent(value)
}

fn take(
    method: &mut ExecutionPlan,
    analysis: &Analysis<'_>,
    value: ValueIndex,
    report: &mut EndsReport,
) {
    if tensor_mut(method, value).allocation_info.is_none() {
        return;
    }
    if !stands_alone(analysis, value) {
        report.kept.push(value);
        return;
    }
    tensor_mut(method, value).allocation_info = None;
    report.freed.push(value);
}

fn give(
    method: &mut ExecutionPlan,
    analysis: &Analysis<'_>,
    value: ValueIndex,
    report: &mut EndsReport,
) -> Result<(), EndsError> {
    let tensor = tensor_mut(method, value);
    if tensor.allocation_info.is_some() {
        return Ok(());
    }
    let is_input = tensors(analysis.method(), &analysis.method().inputs).contains(&value);
    let device = tensor.device();
    let has_bytes = tensor.data_buffer_idx > 0 || is_external(tensor);
    let unbound = tensor.shape_dynamism == Dynamism::DynamicUnbound;
    let (Some(nbytes), false) = (tensor.nbytes(), has_bytes || unbound) else {
        report.kept.push(value);
        return Ok(());
    };
    if (is_input && device.0 != 0) || !stands_alone(analysis, value) {
        report.kept.push(value);
        return Ok(());
    }
    let place = append(method, device, nbytes)?;
    tensor_mut(method, value).allocation_info = Some(place);
    report.planned.push(value);
    Ok(())
}

fn is_external(tensor: &Tensor) -> bool {
    let extra = tensor.extra_tensor_info.as_ref();
    extra.is_some_and(|extra| extra.location == et_schema::TensorLocation::External)
}

/// A place behind all others in the first buffer of a device. What a buffer has behind its last value it keeps.
fn append(
    method: &mut ExecutionPlan,
    device: (i8, i8),
    nbytes: u64,
) -> Result<AllocationDetails, EndsError> {
    let memory_id = match buffer_on(method, device) {
        Some(memory_id) => memory_id,
        None => add_buffer(method, device)?,
    };
    let too_large = EndsError::TooLarge { memory_id };
    let places = method.values.iter().filter_map(|value| {
        let tensor = value.as_tensor()?;
        let place = tensor.allocation_info?;
        let is_here = usize::try_from(place.memory_id) == Ok(memory_id);
        is_here.then(|| {
            place
                .memory_offset
                .saturating_add(tensor.nbytes().unwrap_or(0))
        })
    });
    let end = places
        .max()
        .unwrap_or(0)
        .checked_next_multiple_of(ALIGNMENT);
    let more = nbytes.checked_next_multiple_of(ALIGNMENT);
    let (Some(end), Some(more)) = (end, more) else {
        return Err(too_large);
    };
    let size = u64::try_from(method.non_const_buffer_sizes[memory_id]).unwrap_or(0);
    let size = size
        .max(end)
        .checked_add(more)
        .and_then(|size| i64::try_from(size).ok());
    let (Some(size), Ok(number)) = (size, u32::try_from(memory_id)) else {
        return Err(too_large);
    };
    method.non_const_buffer_sizes[memory_id] = size;
    Ok(AllocationDetails {
        memory_id: number,
        memory_offset: end,
    })
}

fn buffer_on(method: &ExecutionPlan, device: (i8, i8)) -> Option<usize> {
    let device_of = |memory_id: usize| {
        let mut entries = method.non_const_buffer_device.iter().flatten();
        let entry = entries.find(|entry| usize::try_from(entry.buffer_idx) == Ok(memory_id));
        entry.map_or((0, 0), |entry| (entry.device_type, entry.device_index))
    };
    (1..method.non_const_buffer_sizes.len()).find(|&memory_id| device_of(memory_id) == device)
}

fn add_buffer(method: &mut ExecutionPlan, device: (i8, i8)) -> Result<usize, EndsError> {
    if method.non_const_buffer_sizes.is_empty() {
        // The reserved entry.
        method.non_const_buffer_sizes.push(0);
    }
    let memory_id = method.non_const_buffer_sizes.len();
    method.non_const_buffer_sizes.push(0);
    if device.0 != 0 {
        let buffer_idx = i32::try_from(memory_id).map_err(|_| EndsError::TooLarge { memory_id })?;
        let entry = NonConstBufferDevice {
            buffer_idx,
            device_type: device.0,
            device_index: device.1,
        };
        method
            .non_const_buffer_device
            .get_or_insert_default()
            .push(entry);
    }
    Ok(memory_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_schema::ScalarType;
    use et_schema::builder::MethodBuilder;

    fn free() -> Tensor {
        Tensor::new(ScalarType::Float, &[3])
    }

    fn at(offset: u64) -> Tensor {
        free().planned(1, offset)
    }

    fn options(inputs: Option<bool>, outputs: Option<bool>) -> EndsOptions {
        EndsOptions {
            inputs,
            outputs,
            ..EndsOptions::default()
        }
    }

    /// relu from `x` to `y`, in a buffer with 64 bytes behind the last value.
    fn method(x: Tensor, y: Tensor) -> ExecutionPlan {
        let mut method = MethodBuilder::new("forward");
        method.buffer(96);
        let x = method.input(x);
        let y = method.output(y);
        method.kernel("aten::relu.out", &[x, y, y]);
        method.finish()
    }

    fn places(method: &ExecutionPlan) -> Vec<Option<u64>> {
        let tensors = method.values.iter().filter_map(|value| value.as_tensor());
        let place = |tensor: &Tensor| Some(tensor.allocation_info?.memory_offset);
        tensors.map(place).collect()
    }

    #[track_caller]
    fn check(
        mut method: ExecutionPlan,
        options: &EndsOptions,
        expected: &[Option<u64>],
        size: i64,
    ) -> EndsReport {
        let report = plan_ends(&mut method, options).unwrap();
        assert_eq!(places(&method), expected);
        assert_eq!(method.non_const_buffer_sizes[1], size);
        report
    }

    #[test]
    fn memory_is_given_behind_everything_and_taken() {
        let planned = || method(at(0), at(16));
        check(planned(), &options(None, None), &[Some(0), Some(16)], 96);
        check(
            planned(),
            &options(Some(false), None),
            &[None, Some(16)],
            96,
        );
        check(
            planned(),
            &options(Some(false), Some(false)),
            &[None, None],
            96,
        );
        let unplanned = || method(free(), free());
        check(
            unplanned(),
            &options(Some(true), None),
            &[Some(0), None],
            112,
        );
        let both = check(
            unplanned(),
            &options(Some(true), Some(true)),
            &[Some(0), Some(16)],
            128,
        );
        assert_eq!(both.planned.len(), 2);
        // 64 bytes behind the last value stay.
        check(
            method(at(16), free()),
            &options(None, Some(true)),
            &[Some(16), Some(32)],
            112,
        );
    }

    #[test]
    fn values_with_views_keep_their_places() {
        let mut builder = MethodBuilder::new("forward");
        builder.buffer(64);
        let x = builder.input(at(0));
        let flat = builder.tensor(Tensor {
            sizes: vec![1, 3],
            dim_order: vec![0, 1],
            ..at(0)
        });
        let y = builder.output(at(16));
        builder.kernel("aten::relu.out", &[flat, y, y]);
        let report = check(
            builder.finish(),
            &options(Some(false), Some(false)),
            &[Some(0), Some(0), None],
            64,
        );
        assert_eq!(report.kept, [ValueIndex::new(usize::try_from(x).unwrap())]);
    }

    #[test]
    fn state_and_moved_outputs_keep_their_places() {
        let mut builder = MethodBuilder::new("forward");
        builder.buffer(64);
        let state = builder.tensor(at(0));
        let x = builder.input(at(16));
        let [a, r] = [at(32), at(48)].map(|tensor| builder.tensor(tensor));
        builder.kernel("aten::mul.out", &[x, state, a, a]);
        builder.move_value(a, r);
        builder.mark_output(state);
        builder.mark_output(r);
        let report = check(
            builder.finish(),
            &options(None, Some(false)),
            &[Some(0), Some(16), Some(32), Some(48)],
            64,
        );
        assert_eq!(report.kept.len(), 2);
    }

    #[test]
    fn outputs_on_devices_go_to_the_buffer_of_their_device() {
        let mut builder = MethodBuilder::new("forward");
        builder.buffer(16);
        let x = builder.input(free().on_device(1, 0));
        let y = builder.output(free().on_device(1, 0));
        let delegate = builder.delegate("Backend", Default::default(), &[]);
        builder.delegate_call(delegate, &[x, y]);
        let mut method = builder.finish();
        let report = plan_ends(&mut method, &options(Some(true), Some(true))).unwrap();
        // Nobody could fill a planned input there.
        assert_eq!((report.kept.len(), report.planned.len()), (1, 1));
        assert_eq!(method.non_const_buffer_sizes, [0, 16, 16]);
        assert_eq!(buffer_on(&method, (1, 0)), Some(2));
        plan_ends(&mut method, &options(None, Some(false))).unwrap();
        assert_eq!(places(&method), [None, None]);
    }

    #[test]
    fn methods_without_a_buffer_get_one() {
        let mut method = method(free(), free());
        method.non_const_buffer_sizes.clear();
        plan_ends(&mut method, &options(Some(true), None)).unwrap();
        assert_eq!(method.non_const_buffer_sizes, [0, 16]);
    }
}
