//! Who gives the memory of a method's inputs and outputs: the plan, or the caller.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::owned::{AllocationDetails, ExecutionPlan, Tensor, Value};
use et_schema::{DeviceTag, Dynamism};
use thiserror::Error;

use crate::Alignment;
use crate::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};

/// What is wanted; nothing changes where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoOptions {
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
pub struct IoReport {
    /// Values that have planned memory now, and had none.
    pub planned: Vec<ValueIndex>,
    /// Values that have none now.
    pub freed: Vec<ValueIndex>,
    /// Values that stay as they are although something else was asked for: others show their bytes, or they are
    /// another's; they are state; or they are inputs on a device, which only callers can fill.
    pub declined: Vec<ValueIndex>,
}

/// Why inputs and outputs stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IoError {
    /// The method cannot be analysed.
    #[error("the method cannot be analysed")]
    Analysis(#[from] AnalysisError),
    /// A buffer larger than the format holds.
    #[error("buffer {memory_id} would be larger than the format holds")]
    TooLarge {
        /// The buffer.
        memory_id: u32,
    },
    /// More buffers than the format holds.
    #[error("the method has as many buffers as the format holds")]
    TooManyBuffers,
    /// The method's own plan lets a great many live values clobber each other.
    #[error("the plan of the method is corrupt: {0}")]
    Corrupt(Finding),
    /// The changed method is wrong: a fault of this crate.
    #[error("the new method is wrong: {0}")]
    Wrong(Finding),
}

impl IoError {
    /// Whether it tells of a fault of this crate rather than of the method.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::Wrong(_))
    }
}

/// Gives inputs and outputs memory in the plan, behind everything that is there, or takes it from them.
///
/// What becomes free is used only if the method is planned anew. In a method that does not say where its buffers are, all memory is on
/// the CPU, whatever values are tagged with.
///
/// # Errors
///
/// [`IoError`]; the method is then as it was.
pub fn plan_io(method: &mut ExecutionPlan, options: &IoOptions) -> Result<IoReport, IoError> {
    let mut changed = method.clone();
    let report = {
        let analysis = Analysis::new(method, &options.hints)?;
        let before = analysis.audit()?;
        // A list that is cut may lack what is found later.
        if let Some(clobber) = before
            .clobbers()
            .next()
            .filter(|_| before.has_more_clobbers)
        {
            return Err(IoError::Corrupt(clobber.clone()));
        }
        let report = change(&mut changed, &analysis, options)?;
        let before: BTreeSet<Finding> = before.findings.into_iter().collect();
        let after = Analysis::new(&changed, &options.hints)?.audit()?.findings;
        let mut new = after
            .into_iter()
            .filter(|finding| !before.contains(finding));
        if let Some(finding) = new.find(|finding| !is_by_intent(method, finding)) {
            return Err(IoError::Wrong(finding));
        }
        report
    };
    *method = changed;
    Ok(report)
}

fn change(
    method: &mut ExecutionPlan,
    analysis: &Analysis<'_>,
    options: &IoOptions,
) -> Result<IoReport, IoError> {
    let mut report = IoReport::default();
    let bound = Bound::new(analysis);
    let inputs = tensors(method, &method.inputs);
    let outputs = tensors(method, &method.outputs);
    let only_outputs = outputs.difference(&inputs).copied().collect();
    for (values, wanted, are_inputs) in [
        (&inputs, options.inputs, true),
        (&only_outputs, options.outputs, false),
    ] {
        match wanted {
            Some(true) => give(method, &bound, values, are_inputs, &mut report)?,
            Some(false) => take(method, &bound, values, &mut report),
            None => {}
        }
    }
    Ok(report)
}

/// Whether a finding tells of what was asked for: in a method that knows no devices, tags say nothing.
fn is_by_intent(method: &ExecutionPlan, finding: &Finding) -> bool {
    let of_tags = matches!(
        finding,
        Finding::DeviceMismatch { .. } | Finding::PlannedDeviceInput { .. }
    );
    of_tags && !method.knows_devices()
}

fn tensors(method: &ExecutionPlan, list: &[i32]) -> BTreeSet<ValueIndex> {
    let values = list.iter().filter_map(|&value| usize::try_from(value).ok());
    values
        .filter(|&value| method.values[value].as_tensor().is_some())
        .map(ValueIndex::new)
        .collect()
}

fn tensor_mut(method: &mut ExecutionPlan, value: ValueIndex) -> &mut Tensor {
    method.values[value.get()]
        .as_tensor_mut()
        .expect("only tensors are asked for")
}

/// Values that are bound to others, or to their place.
struct Bound<'a> {
    analysis: &'a Analysis<'a>,
    /// How many values are in each group.
    sizes: BTreeMap<ValueIndex, usize>,
    /// Values that some instruction points elsewhere.
    moved: BTreeSet<ValueIndex>,
}

impl<'a> Bound<'a> {
    fn new(analysis: &'a Analysis<'a>) -> Self {
        let mut sizes = BTreeMap::new();
        for value in (0..analysis.method().values.len()).map(ValueIndex::new) {
            *sizes.entry(analysis.group(value)).or_default() += 1;
        }
        let moves = analysis.steps().iter().flat_map(|step| &step.moves);
        Self {
            analysis,
            sizes,
            moved: moves.map(|&(target, _)| target).collect(),
        }
    }

    /// Whether the bytes of a value are not its own, or somebody else's too, or outlive a run.
    fn holds(&self, value: ValueIndex) -> bool {
        self.sizes[&self.analysis.group(value)] > 1
            || self.moved.contains(&value)
            || self.analysis.is_persistent(value)
    }
}

fn take(
    method: &mut ExecutionPlan,
    bound: &Bound<'_>,
    values: &BTreeSet<ValueIndex>,
    report: &mut IoReport,
) {
    for &value in values {
        let tensor = tensor_mut(method, value);
        if tensor.allocation_info.is_none() {
            continue;
        }
        if bound.holds(value) {
            report.declined.push(value);
        } else {
            tensor.allocation_info = None;
            report.freed.push(value);
        }
    }
}

fn give(
    method: &mut ExecutionPlan,
    bound: &Bound<'_>,
    values: &BTreeSet<ValueIndex>,
    are_inputs: bool,
    report: &mut IoReport,
) -> Result<(), IoError> {
    let mut room = Room::behind_all(method);
    for &value in values {
        let device = device_for(method, value);
        let tensor = tensor_mut(method, value);
        if tensor.allocation_info.is_some() {
            continue;
        }
        let has_bytes = tensor.data_buffer_idx > 0 || is_external(tensor);
        let unbound = tensor.shape_dynamism == Dynamism::DynamicUnbound;
        let out_of_reach = are_inputs && !device.is_cpu();
        match tensor.nbytes() {
            Some(nbytes) if !(has_bytes || unbound || out_of_reach || bound.holds(value)) => {
                let place = room.append(method, device, nbytes)?;
                tensor_mut(method, value).allocation_info = Some(place);
                report.planned.push(value);
            }
            _ => report.declined.push(value),
        }
    }
    Ok(())
}

/// The device that the memory of a value must be on.
fn device_for(method: &mut ExecutionPlan, value: ValueIndex) -> DeviceTag {
    match method.knows_devices() {
        true => tensor_mut(method, value).device().normal(),
        false => DeviceTag::CPU,
    }
}

fn is_external(tensor: &Tensor) -> bool {
    let extra = tensor.extra_tensor_info.as_ref();
    extra.is_some_and(|extra| extra.location == et_schema::TensorLocation::External)
}

/// Where planned buffers have room: behind the last value. What a buffer has behind that it keeps.
struct Room {
    /// The first buffer of each device.
    first: BTreeMap<DeviceTag, u32>,
    /// Where the last value of each buffer ends.
    ends: BTreeMap<u32, u64>,
}

impl Room {
    fn behind_all(method: &ExecutionPlan) -> Self {
        let devices = method.buffer_devices();
        let mut first = BTreeMap::new();
        for (memory_id, _) in (0..).zip(&method.non_const_buffer_sizes).skip(1) {
            first.entry(devices.of(memory_id)).or_insert(memory_id);
        }
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        for tensor in method.values.iter().filter_map(Value::as_tensor) {
            if let Some(place) = tensor.allocation_info {
                let nbytes = tensor.nbytes().unwrap_or(0);
                let end = ends.entry(place.memory_id).or_default();
                *end = (*end).max(place.memory_offset.saturating_add(nbytes));
            }
        }
        Self { first, ends }
    }

    /// A place in the first buffer of a device.
    fn append(
        &mut self,
        method: &mut ExecutionPlan,
        device: DeviceTag,
        nbytes: u64,
    ) -> Result<AllocationDetails, IoError> {
        let memory_id = match self.first.get(&device) {
            Some(&memory_id) => memory_id,
            None => {
                let added = method.add_buffer(0, device);
                let added = added.ok_or(IoError::TooManyBuffers)?;
                self.first.insert(device, added);
                added
            }
        };
        let too_large = IoError::TooLarge { memory_id };
        let end = self.ends.entry(memory_id).or_default();
        let start = Alignment::LEAST.round_up(*end);
        let more = Alignment::LEAST.round_up(nbytes);
        let (Some(start), Some(more)) = (start, more) else {
            return Err(too_large);
        };
        let size = &mut method.non_const_buffer_sizes[memory_id as usize];
        let grown = u64::try_from(*size)
            .unwrap_or(0)
            .max(start)
            .checked_add(more);
        *size = grown
            .and_then(|grown| i64::try_from(grown).ok())
            .ok_or(too_large)?;
        *end = start.saturating_add(nbytes);
        Ok(AllocationDetails {
            memory_id,
            memory_offset: start,
        })
    }
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

    fn options(inputs: Option<bool>, outputs: Option<bool>) -> IoOptions {
        IoOptions {
            inputs,
            outputs,
            ..IoOptions::default()
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
        options: &IoOptions,
        expected: &[Option<u64>],
        size: i64,
    ) -> IoReport {
        let report = plan_io(&mut method, options).unwrap();
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
        assert_eq!(
            report.declined,
            [ValueIndex::new(usize::try_from(x).unwrap())]
        );
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
        assert_eq!(report.declined.len(), 2);
    }

    /// A delegate from `x` to `y`, both on a device.
    fn device_method(buffer: Option<i64>) -> ExecutionPlan {
        let mut builder = MethodBuilder::new("forward");
        builder.buffer(16);
        if let Some(nbytes) = buffer {
            builder.device_buffer(nbytes, 1, 0);
        }
        let x = builder.input(free().on_device(1, 0));
        let y = builder.output(free().on_device(1, 0));
        let delegate = builder.delegate("Backend", Default::default(), &[]);
        builder.delegate_call(delegate, &[x, y]);
        builder.finish()
    }

    #[test]
    fn outputs_on_devices_go_to_the_buffer_of_their_device() {
        let mut method = device_method(Some(32));
        let report = plan_io(&mut method, &options(Some(true), Some(true))).unwrap();
        // Nobody could fill a planned input there.
        assert_eq!((report.declined.len(), report.planned.len()), (1, 1));
        assert_eq!(method.non_const_buffer_sizes, [0, 16, 48]);
        assert_eq!(places(&method), [None, Some(0)]);
        plan_io(&mut method, &options(None, Some(false))).unwrap();
        assert_eq!(places(&method), [None, None]);
    }

    #[test]
    fn a_device_without_a_buffer_gets_one() {
        let mut method = device_method(None);
        method.non_const_buffer_device = Some(Vec::new());
        let report = plan_io(&mut method, &options(None, Some(true))).unwrap();
        assert_eq!(report.planned.len(), 1);
        assert_eq!(method.non_const_buffer_sizes, [0, 16, 16]);
        assert_eq!(method.buffer_devices().of(2), DeviceTag::new(1, 0));
    }

    /// The older form: tags, and no table of devices. A table would make the tags of all other values errors.
    #[test]
    fn methods_that_know_no_devices_get_memory_on_the_host() {
        let on_device = || free().on_device(1, 0);
        let mut method = method(on_device(), on_device());
        let report = plan_io(&mut method, &options(Some(true), Some(true))).unwrap();
        assert_eq!((report.declined.len(), report.planned.len()), (0, 2));
        assert_eq!(method.non_const_buffer_device, None);
        assert_eq!(method.non_const_buffer_sizes, [0, 128]);
        assert_eq!(places(&method), [Some(0), Some(16)]);
        let mut program = et_schema::builder::ProgramBuilder::new();
        program.program_mut().execution_plan.push(method);
        let file = program.to_bytes().unwrap();
        assert!(et_schema::VerifiedProgram::from_file_bytes(&file).is_ok());
    }

    #[test]
    fn the_index_of_the_host_says_nothing() {
        let mut method = method(at(0), free().on_device(0, 3));
        method.non_const_buffer_device = Some(Vec::new());
        plan_io(&mut method, &options(None, Some(true))).unwrap();
        assert_eq!(method.non_const_buffer_sizes, [0, 112]);
    }

    #[test]
    fn methods_without_a_buffer_get_one() {
        let mut method = method(free(), free());
        method.non_const_buffer_sizes.clear();
        plan_io(&mut method, &options(Some(true), None)).unwrap();
        assert_eq!(method.non_const_buffer_sizes, [0, 16]);
    }
}
