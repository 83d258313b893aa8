//! `et devices`: which device types there are, and why one is not available.

use crate::failure::Failure;
use crate::render::{self, Section};
use crate::report::Report;
use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry, DeviceIndex, DeviceType};
use serde_json::{Value as Json, json};

/// Device types that programs name.
const KNOWN: [DeviceType; 2] = [DeviceType::CPU, DeviceType::CUDA];

/// Asks every registered allocator for its devices.
pub(crate) fn run() -> Result<Report, Failure> {
    let registry = DeviceAllocatorRegistry::global();
    let mut types: Vec<DeviceType> = KNOWN.to_vec();
    types.extend(
        registry
            .device_types()
            .filter(|known| !KNOWN.contains(known)),
    );
    let rows: Vec<Row> = types
        .into_iter()
        .flat_map(|device_type| rows(registry, device_type))
        .collect();
    let mut section = Section::new(
        "devices",
        &["device", "name", ">free", ">total", "available"],
    );
    for row in &rows {
        section.row(row.cells());
    }
    let mut report = Report::default();
    section.write_to(&mut report.text);
    report.set("devices", rows.iter().map(Row::to_json).collect::<Vec<_>>());
    Ok(report)
}

/// A device, or a device type without devices.
struct Row {
    device: String,
    name: Option<String>,
    memory: Option<(u64, u64)>,
    problem: Option<String>,
}

impl Row {
    fn problem(device: impl ToString, problem: impl ToString) -> Self {
        let problem = Some(problem.to_string());
        Self {
            device: device.to_string(),
            name: None,
            memory: None,
            problem,
        }
    }

    fn cells(&self) -> [String; 5] {
        let memory = |part: fn((u64, u64)) -> u64| {
            self.memory
                .map_or_else(|| "-".into(), |memory| render::bytes(part(memory)))
        };
        let available = match &self.problem {
            None => "yes".into(),
            Some(problem) => format!("no: {problem}"),
        };
        let name = self
            .name
            .as_deref()
            .map_or_else(|| "-".into(), render::name);
        [
            self.device.clone(),
            name,
            memory(|m| m.0),
            memory(|m| m.1),
            available,
        ]
    }

    fn to_json(&self) -> Json {
        json!({
            "device": self.device,
            "name": self.name,
            "free_nbytes": self.memory.map(|memory| memory.0),
            "total_nbytes": self.memory.map(|memory| memory.1),
            "available": self.problem.is_none(),
            "problem": self.problem,
        })
    }
}

fn rows(registry: &DeviceAllocatorRegistry, device_type: DeviceType) -> Vec<Row> {
    if device_type.is_cpu() {
        let name = Some("host memory".into());
        return vec![Row {
            device: Device::CPU.to_string(),
            name,
            memory: None,
            problem: None,
        }];
    }
    let allocator = match registry.require(device_type.into()) {
        Ok(allocator) => allocator,
        Err(error) => return vec![Row::problem(device_type, error)],
    };
    match allocator.device_count() {
        Err(error) => vec![Row::problem(device_type, error)],
        Ok(0) => vec![Row::problem(device_type, "the driver reports no device")],
        Ok(count) => (0..count)
            .map_while(|index| DeviceIndex::new(u8::try_from(index).ok()?).ok())
            .map(|index| row(allocator, Device::new(device_type, index)))
            .collect(),
    }
}

fn row(allocator: &AllocatorHandle, device: Device) -> Row {
    match allocator.memory_info(device.index()) {
        Err(error) => Row::problem(device, error),
        Ok(info) => Row {
            device: device.to_string(),
            name: describe(allocator, device.index()),
            memory: Some((info.free, info.total)),
            problem: None,
        },
    }
}

/// What the allocator calls the device, where it has a name for it.
fn describe(allocator: &AllocatorHandle, index: DeviceIndex) -> Option<String> {
    let mut name = String::new();
    allocator.describe(index, &mut name).ok()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_without_allocator_is_listed_with_the_reason() {
        let rows = rows(&DeviceAllocatorRegistry::new(), DeviceType::CUDA);
        assert_eq!(rows.len(), 1);
        assert!(rows[0].cells()[4].starts_with("no: no allocator is registered"));
        assert_eq!(rows[0].to_json()["available"], false);
    }

    #[test]
    fn the_host_is_always_there() {
        let report = run().unwrap();
        assert!(report.text.contains("cpu"), "{}", report.text);
    }
}
