//! On which device each delegate runs.

use std::collections::BTreeMap;

use et_device::{Device, DeviceType};
use et_schema::owned::{BackendDelegate, CompileSpec, ExecutionPlan};

use super::error::PropagateError;

/// The key of the compile spec that names a delegate's device.
const KEY: &str = "target_device";

/// The delegates that run on a device other than the host, by number.
pub(super) fn targets(
    method: &ExecutionPlan,
    given: &BTreeMap<u32, Device>,
) -> Result<BTreeMap<u32, Device>, PropagateError> {
    let mut targets = BTreeMap::new();
    for (number, delegate) in (0..).zip(&method.delegates) {
        let device = match given.get(&number) {
            Some(device) => Some(*device),
            None => from_specs(method, number, delegate)?,
        };
        if let Some(device) = device.filter(|device| device.device_type() != DeviceType::CPU) {
            targets.insert(number, device);
        }
    }
    match given
        .keys()
        .find(|&&number| number as usize >= method.delegates.len())
    {
        Some(&delegate) => Err(PropagateError::NoSuchDelegate {
            method: method.name.clone(),
            delegate,
        }),
        None => Ok(targets),
    }
}

/// Writes the devices that were given into the compile specs, where backends and later tools look for them.
pub(super) fn write(method: &mut ExecutionPlan, given: &BTreeMap<u32, Device>) {
    for (number, delegate) in (0..).zip(&mut method.delegates) {
        let Some(device) = given.get(&number) else {
            continue;
        };
        let value = device.to_string().into_bytes();
        let mut named = delegate.compile_specs.iter_mut();
        match named.find(|spec| spec.key == KEY) {
            Some(spec) => spec.value = value,
            // Without a target the host is the default.
            None if device.is_cpu() => {}
            None => delegate.compile_specs.push(CompileSpec {
                key: KEY.into(),
                value,
            }),
        }
        let mut is_first = true;
        delegate
            .compile_specs
            .retain(|spec| spec.key != KEY || std::mem::take(&mut is_first));
    }
}

fn from_specs(
    method: &ExecutionPlan,
    number: u32,
    delegate: &BackendDelegate,
) -> Result<Option<Device>, PropagateError> {
    let (method, number) = (&method.name, number as usize);
    let mut found: Option<Device> = None;
    for spec in delegate.compile_specs.iter().filter(|spec| spec.key == KEY) {
        let text = String::from_utf8_lossy(&spec.value);
        let device: Device =
            text.trim()
                .to_ascii_lowercase()
                .parse()
                .map_err(|source| PropagateError::Target {
                    method: method.clone(),
                    delegate: number,
                    text: text.clone().into_owned(),
                    source,
                })?;
        if let Some(first) = found.filter(|first| *first != device) {
            return Err(PropagateError::Targets {
                method: method.clone(),
                delegate: number,
                first: first.to_string(),
                second: device.to_string(),
            });
        }
        found = Some(device);
    }
    Ok(found)
}
