//! What is wrong with a plan.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::owned::{ExecutionPlan, Instruction, Tensor, Value};
use thiserror::Error;

use super::Analysis;
use super::names::ValueIndex;
use super::set::Set;
use super::step::Step;
use super::storage::Place;

/// Something that is wrong with the memory plan of a method.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Finding {
    /// Two values are needed at one time and share bytes, so that one overwrites the other.
    #[error(
        "values {first} and {second} share bytes, and instruction {instruction} has need of both"
    )]
    Clobber {
        /// One value.
        first: ValueIndex,
        /// The other.
        second: ValueIndex,
        /// The first instruction at which both are needed; the number of instructions for the end.
        instruction: usize,
    },
    /// A value lies in no planned buffer, or not inside of it.
    #[error("value {value} ends at {end} in buffer {memory_id} of {nbytes} bytes")]
    OutsideBuffer {
        /// The value.
        value: ValueIndex,
        /// Its buffer, as in the file; 0 is reserved.
        memory_id: u32,
        /// Where it ends.
        end: u64,
        /// The size of the buffer; 0 if there is no such buffer.
        nbytes: u64,
    },
    /// A planned value is tagged with another device than its buffer is on.
    #[error("value {value} is on device {tag:?}, its buffer on {buffer:?}")]
    DeviceMismatch {
        /// The value.
        value: ValueIndex,
        /// The device type and index of the value.
        tag: (i8, i8),
        /// The device type and index of the buffer.
        buffer: (i8, i8),
    },
    /// A device index below 0.
    #[error("value {value} is on device {tag:?}, whose index is negative")]
    NegativeDeviceIndex {
        /// The value.
        value: ValueIndex,
        /// The device type and index of the value.
        tag: (i8, i8),
    },
    /// An instruction that runs on the host touches device memory.
    #[error("instruction {instruction} runs on the host and touches device value {value}")]
    HostTouchesDevice {
        /// The instruction.
        instruction: usize,
        /// The value.
        value: ValueIndex,
    },
    /// A jump depends on bytes in device memory.
    #[error("instruction {instruction} jumps by device value {value}")]
    ConditionOnDevice {
        /// The instruction.
        instruction: usize,
        /// The value.
        value: ValueIndex,
    },
    /// A planned input is in device memory, where callers cannot put it on the C++ runtime.
    #[error("input {value} is planned in device memory")]
    PlannedDeviceInput {
        /// The value.
        value: ValueIndex,
    },
    /// A device value that a delegate writes, but that has no memory and that no caller can give any.
    #[error("instruction {instruction} writes device value {value}, which has no memory")]
    NoDeviceMemory {
        /// The instruction.
        instruction: usize,
        /// The value.
        value: ValueIndex,
    },
    /// A value is tagged with a device, but its bytes come from the file and are on the host.
    #[error("value {value} is on a device, but its bytes come from the file")]
    DataOnDevice {
        /// The value.
        value: ValueIndex,
    },
    /// A device buffer of no bytes.
    #[error("planned buffer {memory_id} is on a device and has no bytes")]
    EmptyDeviceBuffer {
        /// The buffer, as in the file.
        memory_id: u32,
    },
    /// A list of tensors that comes before one of its items; the C++ runtime would read an item that is not there.
    #[error("list {list} comes before its item {item}")]
    ListBeforeItem {
        /// The list.
        list: ValueIndex,
        /// The item.
        item: ValueIndex,
    },
}

pub(super) fn findings(analysis: &Analysis<'_>) -> Vec<Finding> {
    let mut found = clobbers(analysis);
    let devices = Devices::new(analysis.plan);
    for (number, value) in analysis.plan.values.iter().enumerate() {
        match value {
            Value::Tensor(tensor) => devices.check_tensor(analysis, number, tensor, &mut found),
            Value::TensorList(items) | Value::OptionalTensorList(items) => {
                found.extend(late_items(number, items));
            }
            _ => {}
        }
    }
    devices.check_instructions(analysis, &mut found);
    found.extend(devices.empty_buffers(analysis.plan));
    found.sort_unstable();
    found
}

fn late_items(list: usize, items: &[i32]) -> impl Iterator<Item = Finding> {
    let late = items
        .iter()
        .filter_map(move |&item| usize::try_from(item).ok().filter(|&item| item > list));
    let list = ValueIndex::new(list);
    late.map(move |item| Finding::ListBeforeItem {
        list,
        item: ValueIndex::new(item),
    })
}

/// Every pair of values that are needed together and share bytes, with the first instruction where that is so.
fn clobbers(analysis: &Analysis<'_>) -> Vec<Finding> {
    let mut pairs = BTreeMap::new();
    let end = analysis.steps.len();
    for node in 0..=end {
        let mut together = Together::new(analysis, node);
        together.add_live(&analysis.liveness.live[node]);
        if let Some(step) = analysis.steps.get(node) {
            together.add_named(step);
            together.dying_inputs(step);
        }
        together.collect(&mut pairs);
        if let Some(step) = analysis.steps.get(node) {
            // What is written although nobody needs it still destroys what it is written over.
            let mut after = Together {
                instruction: node,
                ..Together::new(analysis, node + 1)
            };
            after.add_live(&analysis.liveness.live[node + 1]);
            for value in step.changes() {
                after.add(value.get());
            }
            after.collect(&mut pairs);
        }
    }
    let clobber = |((first, second), instruction)| Finding::Clobber {
        first: ValueIndex::new(first),
        second: ValueIndex::new(second),
        instruction,
    };
    pairs.into_iter().map(clobber).collect()
}

/// Values that are needed at one moment, by the storage that they may show.
struct Together<'a> {
    analysis: &'a Analysis<'a>,
    /// Where pointers are looked up.
    node: usize,
    /// Where it is reported.
    instruction: usize,
    /// (place, storage, value)
    shown: BTreeSet<(Place, usize, usize)>,
    /// Pairs that may share their place: an output over an input that nobody needs afterwards.
    allowed: BTreeSet<(usize, usize)>,
}

impl<'a> Together<'a> {
    fn new(analysis: &'a Analysis<'a>, node: usize) -> Self {
        Self {
            analysis,
            node,
            instruction: node,
            shown: BTreeSet::new(),
            allowed: BTreeSet::new(),
        }
    }

    fn add(&mut self, value: usize) {
        for &value in self.analysis.aliases.canon(value) {
            for &storage in self.analysis.points.at(self.node, value) {
                if let Some(place) = self.analysis.storages.places[storage] {
                    self.shown.insert((place, storage, value));
                }
            }
        }
    }

    fn add_live(&mut self, live: &Set) {
        for value in live.iter() {
            self.add(value);
        }
    }

    fn add_named(&mut self, step: &Step) {
        for value in step.mentions() {
            self.add(value.get());
        }
    }

    /// Allows outputs that lie exactly on an input which is not needed any more: in-place sharing that the file no
    /// longer names as such.
    fn dying_inputs(&mut self, step: &Step) {
        let analysis = self.analysis;
        let live = &analysis.liveness.live[self.node + 1];
        for read in step
            .reads
            .iter()
            .flat_map(|value| analysis.aliases.canon(value.get()))
        {
            if live.contains(*read) {
                continue;
            }
            for written in step.writes.iter().map(|value| value.get()) {
                let start = |value: usize| {
                    analysis.storages.places[value].map(|place| (place.memory_id, place.offset))
                };
                if start(*read) == start(written) {
                    self.allowed
                        .insert((written.min(*read), written.max(*read)));
                }
            }
        }
    }

    fn collect(&self, pairs: &mut BTreeMap<(usize, usize), usize>) {
        // In order of place, so that only neighbours can overlap.
        let mut open: Vec<&(Place, usize, usize)> = Vec::new();
        for entry in &self.shown {
            let (place, storage, value) = entry;
            open.retain(|(other, ..)| {
                other.memory_id == place.memory_id && other.end > place.offset
            });
            for (other, other_storage, other_value) in &open {
                let pair = (*storage.min(other_storage), *storage.max(other_storage));
                let apart = value != other_value
                    && self.analysis.aliases.group(*storage)
                        != self.analysis.aliases.group(*other_storage);
                if apart && place.overlaps(other) && !self.allowed.contains(&pair) {
                    pairs.entry(pair).or_insert(self.instruction);
                }
            }
            open.push(entry);
        }
    }
}

const CPU: (i8, i8) = (0, 0);

/// The devices of planned buffers.
struct Devices(BTreeMap<u32, (i8, i8)>);

impl Devices {
    fn new(plan: &ExecutionPlan) -> Self {
        let mut devices = BTreeMap::new();
        for entry in plan.non_const_buffer_device.iter().flatten() {
            if let Ok(memory_id) = u32::try_from(entry.buffer_idx) {
                // Of two entries for one buffer the first counts.
                devices
                    .entry(memory_id)
                    .or_insert((entry.device_type, entry.device_index));
            }
        }
        Self(devices)
    }

    fn of(&self, memory_id: u32) -> (i8, i8) {
        self.0.get(&memory_id).copied().unwrap_or(CPU)
    }

    fn check_tensor(
        &self,
        analysis: &Analysis<'_>,
        number: usize,
        tensor: &Tensor,
        found: &mut Vec<Finding>,
    ) {
        let (value, tag) = (ValueIndex::new(number), tensor.device());
        if tag.1 < 0 {
            found.push(Finding::NegativeDeviceIndex { value, tag });
        }
        let storages = &analysis.storages;
        if tag.0 != 0
            && (storages.constants.contains(number) || storages.initialised.contains(number))
        {
            found.push(Finding::DataOnDevice { value });
        }
        let Some(place) = storages.places[number] else {
            return;
        };
        let nbytes = buffer_nbytes(analysis.plan, place.memory_id);
        if nbytes.is_none_or(|nbytes| place.end > nbytes) {
            let (memory_id, end, nbytes) = (place.memory_id, place.end, nbytes.unwrap_or(0));
            found.push(Finding::OutsideBuffer {
                value,
                memory_id,
                end,
                nbytes,
            });
        }
        let buffer = self.of(place.memory_id);
        if buffer != tag {
            found.push(Finding::DeviceMismatch { value, tag, buffer });
        }
        if tag.0 != 0 && storages.inputs.contains(number) {
            found.push(Finding::PlannedDeviceInput { value });
        }
    }

    fn check_instructions(&self, analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
        let plan = analysis.plan;
        let instructions = plan.chains.iter().flat_map(|chain| &chain.instructions);
        for (instruction, (call, step)) in instructions.zip(&analysis.steps).enumerate() {
            let on_device = |value: &ValueIndex| {
                plan.values[value.get()]
                    .as_tensor()
                    .is_some_and(|tensor| tensor.device().0 != 0)
            };
            let mut touched: BTreeSet<ValueIndex> = step.mentions().filter(on_device).collect();
            match call {
                Instruction::KernelCall(call) if !moves_between_devices(plan, call.op_index) => {
                    let host = |value| Finding::HostTouchesDevice { instruction, value };
                    found.extend(touched.into_iter().map(host));
                }
                Instruction::JumpFalseCall(_) => {
                    let jump = |value| Finding::ConditionOnDevice { instruction, value };
                    found.extend(touched.into_iter().map(jump));
                }
                Instruction::DelegateCall(_) => {
                    touched.retain(|value| {
                        step.writes.contains(value) && has_no_memory(analysis, *value)
                    });
                    let bare = |value| Finding::NoDeviceMemory { instruction, value };
                    found.extend(touched.into_iter().map(bare));
                }
                _ => {}
            }
        }
    }

    fn empty_buffers(&self, plan: &ExecutionPlan) -> Vec<Finding> {
        let on_device = self.0.iter().filter(|(_, device)| **device != CPU);
        let empty = on_device.filter(|(memory_id, _)| buffer_nbytes(plan, **memory_id) == Some(0));
        empty
            .map(|(&memory_id, _)| Finding::EmptyDeviceBuffer { memory_id })
            .collect()
    }
}

fn has_no_memory(analysis: &Analysis<'_>, value: ValueIndex) -> bool {
    let tensor = analysis.plan.values[value.get()].as_tensor();
    tensor.is_some_and(|tensor| tensor.allocation_info.is_none() && tensor.nbytes() != Some(0))
        && !analysis.storages.outputs.contains(value.get())
}

/// Whether an operator may name device tensors: it copies between devices, or only shows the same bytes anew.
fn moves_between_devices(plan: &ExecutionPlan, op_index: i32) -> bool {
    let operator = usize::try_from(op_index)
        .ok()
        .and_then(|index| plan.operators.get(index));
    operator.is_some_and(|operator| {
        operator.name.starts_with("et_copy::") || operator.name == "executorch_prim::et_view"
    })
}

/// The size of a planned buffer; `None` for the reserved one and for those that are not there.
fn buffer_nbytes(plan: &ExecutionPlan, memory_id: u32) -> Option<u64> {
    let index = usize::try_from(memory_id).ok().filter(|&index| index > 0)?;
    plan.non_const_buffer_sizes
        .get(index)
        .and_then(|&nbytes| u64::try_from(nbytes).ok())
}
