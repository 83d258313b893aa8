//! Makes a method device-aware: copies around its device delegates, and memory on the devices.
//!
//! Host values keep their numbers and places; device values are added. What a delegate takes is copied to its device
//! just before the call, and what it gives is copied back just after, unless the bytes are there already or nobody on
//! the host needs them.

mod available;
mod error;
mod memory;
mod rewrite;
mod target;
mod uploads;
mod writer;

use std::collections::{BTreeMap, BTreeSet};

use et_device::Device;
use et_schema::DeviceTag;
use et_schema::owned::{ExecutionPlan, Instruction, Program, Tensor, Value};

pub use self::error::PropagateError;
pub use self::memory::DeviceBuffer;
use self::rewrite::Rewrite;
use crate::Alignment;
use crate::analysis::{Analysis, AnalysisError, Finding, Hints, ValueIndex};
use crate::placement::{Algorithm, Limits};

/// How to treat one method.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodOptions {
    /// Plan memory on devices and insert copies. Without it values are only tagged, the form of older exporters.
    pub device_memory: bool,
    /// Take inputs that only one device needs on that device, from the caller.
    pub skip_h2d: bool,
    /// Give outputs that a delegate makes on its device, to the caller.
    pub skip_d2h: bool,
    /// Copy a host value once for all delegates of a device that need it, and before a loop rather than in it, as long
    /// as the value stays the same. Right only for delegates that never write what they are given to read; it keeps
    /// device memory for longer.
    pub reuse_uploads: bool,
    /// Devices of delegates (by number in the method), instead of what their compile specs say; the specs are changed
    /// to say the same.
    pub targets: BTreeMap<u32, Device>,
    /// What is known about delegates.
    pub hints: Hints,
    /// How device memory is planned.
    pub algorithm: Algorithm,
    /// How long planning one device's memory may take.
    pub limits: Limits,
    /// Alignment of device values.
    pub alignment: Alignment,
}

impl Default for MethodOptions {
    fn default() -> Self {
        Self {
            device_memory: true,
            skip_h2d: false,
            skip_d2h: false,
            reuse_uploads: false,
            targets: BTreeMap::new(),
            hints: Hints::default(),
            algorithm: Algorithm::Optimal,
            limits: Limits::default(),
            alignment: Alignment::LEAST,
        }
    }
}

/// How to treat a program: some options for all methods, others for some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramOptions {
    /// For methods that are not in `methods`.
    pub default: MethodOptions,
    /// By name; a name that the program does not have is an error.
    pub methods: BTreeMap<String, MethodOptions>,
}

/// What was done to a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MethodReport {
    /// The method.
    pub name: String,
    /// It has copies or device memory already, so it was left as it is.
    pub was_propagated: bool,
    /// Copies to a device that were inserted.
    pub h2d: Copies,
    /// Copies to the host that were inserted.
    pub d2h: Copies,
    /// Operands that were on the device already, since a delegate gave them there.
    pub elided: usize,
    /// Operands that were on the device already, since they were copied for another call.
    pub reused: usize,
    /// Copies to a device that run once before a loop instead of in each round.
    pub hoisted: usize,
    /// For each instruction of the new method the old one that it belongs to, for what is keyed by the number of an
    /// instruction outside of the file; empty for a method that was left as it is or only tagged.
    pub origins: Vec<usize>,
    /// Inputs that must still be copied although `skip_h2d` asks for none, since the host or another device needs
    /// them too.
    pub kept_inputs: Vec<ValueIndex>,
    /// Operands that are copied to the device and back, since the file does not say whether they are inputs or
    /// outputs; a hint on the delegate settles it.
    pub both_ways: Vec<ValueIndex>,
    /// Memory on devices.
    pub buffers: Vec<DeviceBuffer>,
}

/// A number of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copies {
    /// How many copy instructions.
    pub count: usize,
    /// How many bytes they copy, for the largest shapes.
    pub nbytes: u64,
}

impl Copies {
    fn add(&mut self, nbytes: u64) {
        self.count += 1;
        self.nbytes = self.nbytes.saturating_add(nbytes);
    }
}

/// Propagates the devices of all methods of a program.
///
/// # Errors
///
/// [`PropagateError`]; the program is then as it was.
pub fn propagate(
    program: &mut Program,
    options: &ProgramOptions,
) -> Result<Vec<MethodReport>, PropagateError> {
    let known: BTreeSet<&str> = program
        .execution_plan
        .iter()
        .map(|method| method.name.as_str())
        .collect();
    if let Some(name) = options
        .methods
        .keys()
        .find(|name| !known.contains(name.as_str()))
    {
        return Err(PropagateError::NoSuchMethod { name: name.clone() });
    }
    let mut methods = program.execution_plan.clone();
    let mut reports = Vec::with_capacity(methods.len());
    for method in &mut methods {
        let options = options
            .methods
            .get(&method.name)
            .unwrap_or(&options.default);
        reports.push(propagate_method(method, options)?);
    }
    program.execution_plan = methods;
    Ok(reports)
}

/// Propagates the devices of one method's delegates.
///
/// A method that has copies or device memory already is left as it is, and so is one whose delegates name no device.
///
/// # Errors
///
/// [`PropagateError`]; the method is then as it was.
pub fn propagate_method(
    method: &mut ExecutionPlan,
    options: &MethodOptions,
) -> Result<MethodReport, PropagateError> {
    let mut report = MethodReport {
        name: method.name.clone(),
        ..MethodReport::default()
    };
    if !options.device_memory && (options.skip_h2d || options.skip_d2h) {
        return Err(PropagateError::SkipWithoutDeviceMemory {
            method: method.name.clone(),
        });
    }
    let targets = target::targets(method, &options.targets)?;
    if is_propagated(method, &targets) {
        report.was_propagated = true;
        return Ok(report);
    }
    if targets.is_empty() {
        target::write(method, &options.targets);
        return Ok(report);
    }
    let mut changed = method.clone();
    target::write(&mut changed, &options.targets);
    clear_tags(&mut changed);
    if options.device_memory {
        report = insert(&mut changed, &targets, options, report)?;
    } else {
        tag(&mut changed, &targets);
    }
    *method = changed;
    Ok(report)
}

/// Whether a method has device memory or copies, or delegates whose operands are all on their devices without
/// being planned in host memory.
fn is_propagated(method: &ExecutionPlan, targets: &BTreeMap<u32, Device>) -> bool {
    let mut instructions = method.instructions();
    method.buffer_devices().elsewhere().next().is_some()
        || instructions
            .clone()
            .any(|instruction| copied(method, instruction).is_some())
        || !targets.is_empty()
            && instructions.all(|instruction| match device_of(instruction, targets) {
                Some((args, device)) => args.iter().all(|&value| is_only_on(method, value, device)),
                None => true,
            })
}

/// The arguments and the device of a call of a device delegate.
fn device_of<'a>(
    instruction: &'a Instruction,
    targets: &BTreeMap<u32, Device>,
) -> Option<(&'a [i32], Device)> {
    let Instruction::DelegateCall(call) = instruction else {
        return None;
    };
    let device = targets.get(&u32::try_from(call.delegate_index).ok()?)?;
    Some((&call.args, *device))
}

/// Whether a value is no tensor, or one on that device which the host has no place for.
fn is_only_on(method: &ExecutionPlan, value: i32, device: Device) -> bool {
    let value = usize::try_from(value)
        .ok()
        .and_then(|value| method.values.get(value));
    value.and_then(Value::as_tensor).is_none_or(|tensor| {
        let mut wanted = tensor.clone();
        set_device(&mut wanted, device);
        tensor.device() == wanted.device() && tensor.allocation_info.is_none()
    })
}

/// The name and the arguments of a copy between devices.
fn copied<'a>(
    method: &'a ExecutionPlan,
    instruction: &'a Instruction,
) -> Option<(&'a str, &'a [i32])> {
    let Instruction::KernelCall(call) = instruction else {
        return None;
    };
    let name = method.operator(call)?.name.strip_prefix("et_copy::")?;
    Some((name, &call.args))
}

/// Tags from before say nothing reliable: older exporters tag host values too, and the last delegate wins.
fn clear_tags(method: &mut ExecutionPlan) {
    for tensor in method.values.iter_mut().filter_map(Value::as_tensor_mut) {
        tensor.set_device(DeviceTag::CPU);
    }
}

/// Tags every tensor of device delegates, in place.
fn tag(method: &mut ExecutionPlan, targets: &BTreeMap<u32, Device>) {
    let mut tags = Vec::new();
    for instruction in method.instructions() {
        if let Some((args, device)) = device_of(instruction, targets) {
            tags.extend(args.iter().map(|&value| (value, device)));
        }
    }
    for (value, device) in tags {
        let value = usize::try_from(value)
            .ok()
            .and_then(|value| method.values.get_mut(value));
        if let Some(tensor) = value.and_then(Value::as_tensor_mut) {
            set_device(tensor, device);
        }
    }
}

fn set_device(tensor: &mut Tensor, device: Device) {
    tensor.set_device(tag_of(device));
}

/// A device as the format names it.
fn tag_of(device: Device) -> DeviceTag {
    let index = i8::try_from(device.index().get()).expect("device indices are at most 127");
    DeviceTag::new(device.device_type().as_raw(), index)
}

fn insert(
    method: &mut ExecutionPlan,
    targets: &BTreeMap<u32, Device>,
    options: &MethodOptions,
    report: MethodReport,
) -> Result<MethodReport, PropagateError> {
    let original = method.clone();
    let analysis = Analysis::new(&original, &options.hints)?;
    let before = faults(&analysis)?;
    if let Some(clobber) = before
        .iter()
        .find(|finding| matches!(finding, Finding::Clobber { .. }))
    {
        return Err(PropagateError::Corrupt(clobber.clone()));
    }
    let mut rewrite = Rewrite::new(&original, &analysis, targets, options, report);
    rewrite.run()?;
    let (steps, mut report) = rewrite.finish(method);
    memory::plan(method, steps, options, &mut report)?;
    let after = Analysis::new(method, &options.hints)?;
    match faults(&after)?
        .into_iter()
        .find(|finding| !before.contains(finding))
    {
        Some(finding) => Err(PropagateError::Wrong(finding)),
        None => Ok(report),
    }
}

/// What is wrong with a plan.
fn faults(analysis: &Analysis<'_>) -> Result<BTreeSet<Finding>, AnalysisError> {
    Ok(analysis.audit()?.findings.into_iter().collect())
}

#[cfg(test)]
mod tests;
