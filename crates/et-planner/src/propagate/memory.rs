//! Memory for device values, one buffer per device.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use et_device::{Device, DeviceIndex, DeviceType};
use et_schema::DeviceTag;
use et_schema::owned::{AllocationDetails, ExecutionPlan};

use super::error::PropagateError;
use super::rewrite::Rewritten;
use super::{MethodOptions, MethodReport, tag_of};
use crate::analysis::{Analysis, ValueIndex};
use crate::placement::{Buffer, Instance, Lifetime, plan_with, validate};

/// A planned buffer on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceBuffer {
    /// The buffer, as numbered in the file.
    pub memory_id: u32,
    /// Where it is.
    pub device: Device,
    /// Its size in bytes.
    pub nbytes: u64,
    /// No plan of the same values has fewer bytes.
    pub lower_bound: u64,
}

/// Gives every device value of a rewritten method a place, but for inputs, which callers give, and for empty ones.
pub(super) fn plan(
    method: &mut ExecutionPlan,
    rewritten: Rewritten,
    options: &MethodOptions,
    report: &mut MethodReport,
) -> Result<(), PropagateError> {
    let Rewritten {
        steps,
        aliases,
        by_caller,
    } = rewritten;
    let lifetimes = Analysis::with_steps(method, steps)?.lifetimes().to_vec();
    for (device, values) in values_by_device(method, &aliases, &by_caller) {
        let buffer = place(method, device, &values, &lifetimes, options)?;
        report.buffers.extend(buffer);
    }
    for (alias, owner) in aliases {
        let owner = method.values[owner.get()]
            .as_tensor()
            .and_then(|tensor| tensor.allocation_info);
        if let Some(tensor) = method.values[alias.get()].as_tensor_mut() {
            tensor.allocation_info = owner;
        }
    }
    Ok(())
}

/// The device values that need memory, by device type and index.
fn values_by_device(
    method: &ExecutionPlan,
    aliases: &BTreeMap<ValueIndex, ValueIndex>,
    by_caller: &BTreeSet<ValueIndex>,
) -> Vec<(Device, Vec<ValueIndex>)> {
    let mut devices: BTreeMap<DeviceTag, Vec<ValueIndex>> = BTreeMap::new();
    let inputs: BTreeSet<usize> = method
        .inputs
        .iter()
        .filter_map(|&input| usize::try_from(input).ok())
        .collect();
    for (number, value) in method.values.iter().enumerate() {
        let Some(tensor) = value.as_tensor() else {
            continue;
        };
        let value = ValueIndex::new(number);
        let needs_memory = !tensor.device().is_cpu()
            && tensor.allocation_info.is_none()
            && tensor.nbytes().is_some_and(|nbytes| nbytes > 0)
            && !inputs.contains(&number)
            && !by_caller.contains(&value)
            && !aliases.contains_key(&value);
        if needs_memory {
            devices.entry(tensor.device()).or_default().push(value);
        }
    }
    let device = |(tag, values): (DeviceTag, Vec<ValueIndex>)| {
        let device_type = DeviceType::from_raw(tag.device_type).ok()?;
        let index = DeviceIndex::new(u8::try_from(tag.device_index).ok()?).ok()?;
        Some((Device::new(device_type, index), values))
    };
    devices.into_iter().filter_map(device).collect()
}

fn place(
    method: &mut ExecutionPlan,
    device: Device,
    values: &[ValueIndex],
    lifetimes: &[Lifetime],
    options: &MethodOptions,
) -> Result<Option<DeviceBuffer>, PropagateError> {
    let instance = instance(method, values, lifetimes, options)?;
    let mut listener = |_| ControlFlow::Continue(());
    let solution = plan_with(&instance, options.algorithm, &options.limits, &mut listener)?;
    let (plan, lower_bound) = (solution.plan, solution.lower_bound);
    validate(&instance, &plan)?;
    let nbytes = plan.height();
    if nbytes == 0 {
        return Ok(None);
    }
    let too_large = |what| PropagateError::TooLarge { what };
    let size = i64::try_from(nbytes).map_err(|_| too_large("a device buffer"))?;
    let memory_id = method
        .add_buffer(size, tag_of(device))
        .ok_or_else(|| too_large("the number of buffers"))?;
    for (value, &memory_offset) in values.iter().zip(plan.offsets()) {
        if let Some(tensor) = method.values[value.get()].as_tensor_mut() {
            tensor.allocation_info = Some(AllocationDetails {
                memory_id,
                memory_offset,
            });
        }
    }
    Ok(Some(DeviceBuffer {
        memory_id,
        device,
        nbytes,
        lower_bound,
    }))
}

fn instance(
    method: &ExecutionPlan,
    values: &[ValueIndex],
    lifetimes: &[Lifetime],
    options: &MethodOptions,
) -> Result<Instance, PropagateError> {
    let alignment = options.alignment;
    let buffers = values.iter().map(|value| {
        let nbytes = method.values[value.get()]
            .as_tensor()
            .and_then(|tensor| tensor.nbytes());
        let nbytes = nbytes.and_then(|nbytes| alignment.round_up(nbytes));
        let nbytes = nbytes.ok_or(PropagateError::TooLarge {
            what: "a device value",
        })?;
        Ok(Buffer::new(lifetimes[value.get()], nbytes).aligned(alignment.get()))
    });
    Ok(Instance::new(
        buffers.collect::<Result<_, PropagateError>>()?,
    )?)
}
