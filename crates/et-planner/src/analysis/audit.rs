//! What is wrong with a plan.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::DeviceTag;
use et_schema::owned::{BufferDevices, ExecutionPlan, Instruction, KernelCall, Tensor, Value};
use thiserror::Error;

use super::Analysis;
use super::error::AnalysisError;
use super::names::ValueIndex;
use super::set::Set;
use super::step::Step;
use super::storage::Place;
use super::work::Work;

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
    #[error("value {value} is on {tag}, its buffer on {buffer}")]
    DeviceMismatch {
        /// The value.
        value: ValueIndex,
        /// The device of the value.
        tag: DeviceTag,
        /// The device of the buffer.
        buffer: DeviceTag,
    },
    /// A device index below 0.
    #[error("value {value} is on {tag}, whose index is negative")]
    NegativeDeviceIndex {
        /// The value.
        value: ValueIndex,
        /// The device of the value.
        tag: DeviceTag,
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

/// The most pairs of values that clobber each other which an audit lists.
const MOST_CLOBBERS: usize = 1000;

/// What is wrong with the memory plan of a method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// What was found, in order.
    pub findings: Vec<Finding>,
    /// Whether more values clobber each other than `findings` has pairs of. The others may be in any buffer.
    pub has_more_clobbers: bool,
}

impl Audit {
    /// The values that clobber each other.
    pub fn clobbers(&self) -> impl Iterator<Item = &Finding> {
        let all = self.findings.iter();
        all.filter(|finding| matches!(finding, Finding::Clobber { .. }))
    }
}

pub(super) fn audit(analysis: &Analysis<'_>) -> Result<Audit, AnalysisError> {
    let work = Work::new();
    let clobbers = clobbers(analysis, &work)?;
    let has_more_clobbers = clobbers.has_more;
    let mut found = clobbers.into_findings();
    let devices = Devices(analysis.plan.buffer_devices());
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
    Ok(Audit {
        findings: found,
        has_more_clobbers,
    })
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

/// Pairs of values that are needed together and share bytes.
#[derive(Default)]
struct Clobbers {
    /// With the first instruction where that is so.
    pairs: BTreeMap<(usize, usize), usize>,
    /// Whether there are more than the list holds.
    has_more: bool,
}

impl Clobbers {
    fn add(&mut self, pair: (usize, usize), instruction: usize) {
        if self.pairs.len() < MOST_CLOBBERS {
            self.pairs.entry(pair).or_insert(instruction);
        } else {
            self.has_more |= !self.pairs.contains_key(&pair);
        }
    }

    fn into_findings(self) -> Vec<Finding> {
        let clobber = |((first, second), instruction)| Finding::Clobber {
            first: ValueIndex::new(first),
            second: ValueIndex::new(second),
            instruction,
        };
        self.pairs.into_iter().map(clobber).collect()
    }
}

fn clobbers(analysis: &Analysis<'_>, work: &Work) -> Result<Clobbers, AnalysisError> {
    let mut clobbers = Clobbers::default();
    let end = analysis.steps.len();
    for node in 0..=end {
        let mut together = Together::new(analysis, node);
        together.add_live(&analysis.liveness.live[node], work)?;
        if let Some(step) = analysis.steps.get(node) {
            together.add_all(step.mentions(), work)?;
            together.dying_inputs(step);
        }
        together.collect(&mut clobbers, work)?;
        if let Some(step) = analysis.steps.get(node) {
            // What is written although nobody needs it still destroys what it is written over.
            let mut after = Together {
                instruction: node,
                ..Together::new(analysis, node + 1)
            };
            after.add_live(&analysis.liveness.live[node + 1], work)?;
            after.add_all(step.changes(), work)?;
            after.collect(&mut clobbers, work)?;
        }
        if clobbers.has_more {
            break;
        }
    }
    Ok(clobbers)
}

/// Looks at a value that cost as much as one entry of a sorted list.
const ENTRY_STEPS: usize = 16;

/// Values that are needed at one moment, by the storage that they may show.
struct Together<'a> {
    analysis: &'a Analysis<'a>,
    /// Where pointers are looked up.
    node: usize,
    /// Where it is reported.
    instruction: usize,
    /// (place, storage, value)
    shown: Vec<(Place, usize, usize)>,
    /// What the instruction reads and nobody needs afterwards.
    dying: BTreeSet<usize>,
    /// What it overwrites whole.
    written: BTreeSet<usize>,
}

impl<'a> Together<'a> {
    fn new(analysis: &'a Analysis<'a>, node: usize) -> Self {
        Self {
            analysis,
            node,
            instruction: node,
            shown: Vec::new(),
            dying: BTreeSet::new(),
            written: BTreeSet::new(),
        }
    }

    fn add(&mut self, value: usize, work: &Work) -> Result<(), AnalysisError> {
        for &value in self.analysis.aliases.canon(value) {
            let storages = self.analysis.points.at(self.node, value);
            work.spend(storages.len() + 1)?;
            for &storage in storages {
                if let Some(place) = self.analysis.storages.places[storage] {
                    work.spend(ENTRY_STEPS)?;
                    self.shown.push((place, storage, value));
                }
            }
        }
        Ok(())
    }

    fn add_live(&mut self, live: &Set, work: &Work) -> Result<(), AnalysisError> {
        work.spend(live.words())?;
        live.iter().try_for_each(|value| self.add(value, work))
    }

    fn add_all(
        &mut self,
        values: impl IntoIterator<Item = ValueIndex>,
        work: &Work,
    ) -> Result<(), AnalysisError> {
        let mut values = values.into_iter();
        values.try_for_each(|value| self.add(value.get(), work))
    }

    /// Allows outputs that lie exactly on an input which is not needed any more: in-place sharing that the file no
    /// longer names as such.
    fn dying_inputs(&mut self, step: &Step) {
        let analysis = self.analysis;
        let live = &analysis.liveness.live[self.node + 1];
        let reads = step.reads.iter().map(|value| value.get());
        let bases = reads.flat_map(|value| analysis.aliases.canon(value));
        self.dying = bases
            .copied()
            .filter(|&base| !live.contains(base))
            .collect();
        self.written = step.writes.iter().map(|value| value.get()).collect();
    }

    /// Whether two values may share their place: an output exactly over an input that nobody needs afterwards.
    fn is_in_place(&self, a: usize, b: usize) -> bool {
        let start = |value: usize| {
            let place = self.analysis.storages.places[value];
            place.map(|place| (place.memory_id, place.offset))
        };
        let over = |a, b| self.dying.contains(&a) && self.written.contains(&b);
        (over(a, b) || over(b, a)) && start(a) == start(b)
    }

    fn collect(&mut self, clobbers: &mut Clobbers, work: &Work) -> Result<(), AnalysisError> {
        self.shown.sort_unstable();
        self.shown.dedup();
        // In order of place, so that only neighbours can overlap.
        let mut open: Vec<&(Place, usize, usize)> = Vec::new();
        for entry in &self.shown {
            let (place, storage, value) = entry;
            open.retain(|(other, ..)| {
                other.memory_id == place.memory_id && other.end > place.offset
            });
            work.spend(open.len())?;
            for (other, other_storage, other_value) in &open {
                let pair = (*storage.min(other_storage), *storage.max(other_storage));
                let apart = value != other_value
                    && self.analysis.aliases.group(*storage)
                        != self.analysis.aliases.group(*other_storage);
                if apart && place.overlaps(other) && !self.is_in_place(pair.0, pair.1) {
                    clobbers.add(pair, self.instruction);
                }
            }
            if clobbers.has_more {
                break;
            }
            open.push(entry);
        }
        Ok(())
    }
}

/// The devices of planned buffers, and what is wrong with them.
struct Devices(BufferDevices);

impl Devices {
    fn check_tensor(
        &self,
        analysis: &Analysis<'_>,
        number: usize,
        tensor: &Tensor,
        found: &mut Vec<Finding>,
    ) {
        let (value, tag) = (ValueIndex::new(number), tensor.device());
        if tag.device_index < 0 {
            found.push(Finding::NegativeDeviceIndex { value, tag });
        }
        let storages = &analysis.storages;
        if !tag.is_cpu()
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
        let buffer = self.0.of(place.memory_id);
        if buffer != tag.normal() {
            found.push(Finding::DeviceMismatch { value, tag, buffer });
        }
        if !tag.is_cpu() && storages.inputs.contains(number) {
            found.push(Finding::PlannedDeviceInput { value });
        }
    }

    fn check_instructions(&self, analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
        let plan = analysis.plan;
        for (instruction, (call, step)) in plan.instructions().zip(&analysis.steps).enumerate() {
            let on_device = |value: &ValueIndex| {
                plan.values[value.get()]
                    .as_tensor()
                    .is_some_and(|tensor| !tensor.device().is_cpu())
            };
            let mut touched: BTreeSet<ValueIndex> = step.mentions().filter(on_device).collect();
            match call {
                Instruction::KernelCall(call) if !moves_between_devices(plan, call) => {
                    let host = |value| Finding::HostTouchesDevice { instruction, value };
                    found.extend(touched.into_iter().map(host));
                }
                Instruction::JumpFalseCall(_) => {
                    let jump = |value| Finding::ConditionOnDevice { instruction, value };
                    found.extend(touched.into_iter().map(jump));
                }
                Instruction::DelegateCall(_) => {
                    let written: BTreeSet<&ValueIndex> = step.writes.iter().collect();
                    touched
                        .retain(|value| written.contains(value) && has_no_memory(analysis, *value));
                    let bare = |value| Finding::NoDeviceMemory { instruction, value };
                    found.extend(touched.into_iter().map(bare));
                }
                _ => {}
            }
        }
    }

    fn empty_buffers(&self, plan: &ExecutionPlan) -> Vec<Finding> {
        let on_device = self.0.elsewhere().map(|(memory_id, _)| memory_id);
        let empty = on_device.filter(|&memory_id| buffer_nbytes(plan, memory_id) == Some(0));
        empty
            .map(|memory_id| Finding::EmptyDeviceBuffer { memory_id })
            .collect()
    }
}

fn has_no_memory(analysis: &Analysis<'_>, value: ValueIndex) -> bool {
    let tensor = analysis.plan.values[value.get()].as_tensor();
    tensor.is_some_and(|tensor| tensor.allocation_info.is_none() && tensor.nbytes() != Some(0))
        && !analysis.storages.outputs.contains(value.get())
}

/// Whether an operator may name device tensors: it copies between devices, or only shows the same bytes anew.
fn moves_between_devices(plan: &ExecutionPlan, call: &KernelCall) -> bool {
    plan.operator(call).is_some_and(|operator| {
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
