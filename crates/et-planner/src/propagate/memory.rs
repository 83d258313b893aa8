//! Memory for device values, one buffer per device.

use std::collections::{BTreeMap, BTreeSet};

use et_device::{Device, DeviceIndex, DeviceType};
use et_schema::owned::{AllocationDetails, ExecutionPlan, NonConstBufferDevice};

use super::error::PropagateError;
use super::rewrite::Rewritten;
use super::{MethodOptions, MethodReport};
use crate::analysis::{Analysis, ValueIndex};
use crate::compact::Algorithm;
use crate::placement::{
    Buffer, Instance, Lifetime, greedy, max_live_load, minimise, naive, validate,
};

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

/// No device value is aligned to less than this.
const LEAST_ALIGNMENT: u64 = 16;

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
    let mut devices: BTreeMap<(i8, i8), Vec<ValueIndex>> = BTreeMap::new();
    for (number, value) in method.values.iter().enumerate() {
        let Some(tensor) = value.as_tensor() else {
            continue;
        };
        let value = ValueIndex::new(number);
        let is_input = method
            .inputs
            .iter()
            .any(|&input| usize::try_from(input) == Ok(number));
        let needs_memory = tensor.device().0 != 0
            && tensor.allocation_info.is_none()
            && tensor.nbytes().is_some_and(|nbytes| nbytes > 0)
            && !is_input
            && !by_caller.contains(&value)
            && !aliases.contains_key(&value);
        if needs_memory {
            devices.entry(tensor.device()).or_default().push(value);
        }
    }
    let device = |((device_type, index), values): ((i8, i8), Vec<ValueIndex>)| {
        let device_type = DeviceType::from_raw(device_type).ok()?;
        let index = DeviceIndex::new(u8::try_from(index).ok()?).ok()?;
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
    let (plan, lower_bound) = match options.algorithm {
        Algorithm::Naive => (naive(&instance)?, max_live_load(&instance)),
        Algorithm::Greedy => (greedy(&instance)?, max_live_load(&instance)),
        Algorithm::Optimal => {
            let solution = minimise(&instance, &options.limits);
            (solution.plan, solution.lower_bound)
        }
    };
    validate(&instance, &plan)?;
    let nbytes = plan.height();
    if nbytes == 0 {
        return Ok(None);
    }
    let sizes = &mut method.non_const_buffer_sizes;
    if sizes.is_empty() {
        // The reserved entry.
        sizes.push(0);
    }
    let too_large = |what| PropagateError::TooLarge { what };
    let buffer_idx = i32::try_from(sizes.len()).map_err(|_| too_large("the number of buffers"))?;
    sizes.push(i64::try_from(nbytes).map_err(|_| too_large("a device buffer"))?);
    let (device_type, index) = (device.device_type().as_raw(), device.index().get());
    let device_index = i8::try_from(index).map_err(|_| too_large("a device index"))?;
    method
        .non_const_buffer_device
        .get_or_insert_default()
        .push(NonConstBufferDevice {
            buffer_idx,
            device_type,
            device_index,
        });
    let memory_id = buffer_idx.cast_unsigned();
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
    let alignment = options.alignment.max(LEAST_ALIGNMENT);
    let buffers = values.iter().map(|value| {
        let nbytes = method.values[value.get()]
            .as_tensor()
            .and_then(|tensor| tensor.nbytes());
        let nbytes = nbytes.and_then(|nbytes| nbytes.checked_next_multiple_of(alignment));
        let nbytes = nbytes.ok_or(PropagateError::TooLarge {
            what: "a device value",
        })?;
        Ok(Buffer::new(lifetimes[value.get()], nbytes).aligned(alignment))
    });
    Ok(Instance::new(
        buffers.collect::<Result<_, PropagateError>>()?,
    )?)
}
