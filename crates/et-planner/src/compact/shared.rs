//! Planned buffers that several methods use.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::owned::{AllocationDetails, Program, Value};

/// The planned buffers in which methods of a program share state: moving a value in one method would part it from
/// itself in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedBuffers(BTreeSet<u32>);

impl SharedBuffers {
    /// Those of a program.
    pub fn of(program: &Program) -> Self {
        let (mut names, mut places) = (BTreeMap::new(), BTreeMap::new());
        let mut shared = BTreeSet::new();
        for (number, method) in program.execution_plan.iter().enumerate() {
            let devices = method.buffer_devices();
            for tensor in method.values.iter().filter_map(Value::as_tensor) {
                let Some(AllocationDetails {
                    memory_id,
                    memory_offset,
                }) = tensor.allocation_info
                else {
                    continue;
                };
                let extra = tensor.extra_tensor_info.as_ref();
                if let Some(name) = extra.and_then(|extra| extra.fully_qualified_name.as_ref()) {
                    let (first, other) = *names.entry(name).or_insert((number, memory_id));
                    if first != number {
                        shared.extend([memory_id, other]);
                    }
                }
                // Buffer 1 is every method's own; others are made for sharing.
                if memory_id >= 2 && devices.of(memory_id).is_cpu() {
                    let place = (memory_id, memory_offset, tensor.nbytes());
                    if *places.entry(place).or_insert(number) != number {
                        shared.insert(memory_id);
                    }
                }
            }
        }
        Self(shared)
    }

    /// None: for a method that is alone in its program.
    pub fn none() -> Self {
        Self::default()
    }

    /// Their numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().copied()
    }
}
