//! The copies around delegates, and the method with them.

mod skips;

use std::collections::{BTreeMap, BTreeSet};

use et_device::Device;
use et_schema::Dynamism;
use et_schema::owned::{DelegateCall, ExecutionPlan, ExtraTensorInfo, Instruction, Tensor, Value};

use super::available::{Since, available};
use super::uploads::{Hoisted, Loop, Upload};
use super::writer::{Writer, Written};
use super::{MethodOptions, MethodReport, set_device};
use crate::analysis::{Analysis, AnalysisError, Set, Step, ValueIndex};

/// A device value that a delegate gave, and where the host's copy of it is sure to be the same.
struct Given {
    device: Device,
    host: ValueIndex,
    twin: ValueIndex,
    available: Set,
}

/// A call of a device delegate, with what stands for its operands.
struct Call {
    node: usize,
    device: Device,
    /// Host value → device value.
    operands: BTreeMap<ValueIndex, ValueIndex>,
    /// Values to copy before the call: host → device.
    h2d: Vec<(ValueIndex, ValueIndex)>,
    /// Values to copy after it: device → host.
    d2h: Vec<(ValueIndex, ValueIndex)>,
}

/// A method in the making.
pub(super) struct Rewrite<'a> {
    method: &'a ExecutionPlan,
    analysis: &'a Analysis<'a>,
    targets: &'a BTreeMap<u32, Device>,
    options: &'a MethodOptions,
    report: MethodReport,
    values: Vec<Value>,
    outputs: Vec<i32>,
    /// Device values that show the bytes of another: alias → the one that has memory.
    aliases: BTreeMap<ValueIndex, ValueIndex>,
    /// Host values that name the bytes which an argument may show: new value → argument.
    views: BTreeMap<ValueIndex, ValueIndex>,
    given: Vec<Given>,
    calls: Vec<Call>,
    uploads: Vec<Upload>,
    hoisted: Vec<Hoisted>,
    loops: Vec<Loop>,
    /// Returned device values whose memory the caller gives.
    by_caller: BTreeSet<ValueIndex>,
    /// Inputs that the caller gives on a device.
    device_inputs: BTreeMap<ValueIndex, Device>,
}

impl<'a> Rewrite<'a> {
    pub(super) fn new(
        method: &'a ExecutionPlan,
        analysis: &'a Analysis<'a>,
        targets: &'a BTreeMap<u32, Device>,
        options: &'a MethodOptions,
        report: MethodReport,
    ) -> Self {
        Self {
            method,
            analysis,
            targets,
            options,
            report,
            values: method.values.clone(),
            outputs: method.outputs.clone(),
            aliases: BTreeMap::new(),
            views: BTreeMap::new(),
            given: Vec::new(),
            calls: Vec::new(),
            uploads: Vec::new(),
            hoisted: Vec::new(),
            loops: Loop::all(analysis.flow()),
            by_caller: BTreeSet::new(),
            device_inputs: BTreeMap::new(),
        }
    }

    /// Decides about every operand of every device delegate.
    pub(super) fn run(&mut self) -> Result<(), AnalysisError> {
        let calls: Vec<(usize, Device)> = self.device_calls().collect();
        if self.options.skip_h2d {
            self.find_device_inputs(&calls)?;
        }
        // Outputs first: a loop may bring them back to an earlier call.
        for &(node, device) in &calls {
            let call = self.outputs_of(node, device)?;
            self.calls.push(call);
        }
        for number in 0..self.calls.len() {
            self.inputs_of(number)?;
        }
        if self.options.skip_d2h {
            self.return_device_values()?;
        }
        self.drop_unneeded_copies();
        Ok(())
    }

    fn device_calls(&self) -> impl Iterator<Item = (usize, Device)> {
        let instructions = self.method.instructions();
        instructions.enumerate().filter_map(|(node, instruction)| {
            let Instruction::DelegateCall(DelegateCall { delegate_index, .. }) = instruction else {
                return None;
            };
            let delegate = u32::try_from(*delegate_index).ok()?;
            Some((node, *self.targets.get(&delegate)?))
        })
    }

    fn step(&self, node: usize) -> &'a Step {
        &self.analysis.steps()[node]
    }

    fn tensor(&self, value: ValueIndex) -> &Tensor {
        self.values[value.get()]
            .as_tensor()
            .expect("steps name tensors only")
    }

    fn nbytes(&self, value: ValueIndex) -> u64 {
        self.tensor(value).nbytes().unwrap_or(0)
    }

    /// A new value on a device, of the same kind as a host value, without memory as yet.
    fn twin(&mut self, host: ValueIndex, device: Device) -> ValueIndex {
        let mut twin = self.tensor(host).clone();
        twin.data_buffer_idx = 0;
        twin.allocation_info = None;
        twin.extra_tensor_info = Some(ExtraTensorInfo::default());
        set_device(&mut twin, device);
        self.values.push(Value::Tensor(twin));
        ValueIndex::new(self.values.len() - 1)
    }

    fn outputs_of(&mut self, node: usize, device: Device) -> Result<Call, AnalysisError> {
        let mut call = Call {
            node,
            device,
            operands: BTreeMap::new(),
            h2d: Vec::new(),
            d2h: Vec::new(),
        };
        for host in self.step(node).changes().collect::<Vec<_>>() {
            if call.operands.contains_key(&host) {
                continue;
            }
            let twin = self.twin(host, device);
            call.operands.insert(host, twin);
            call.d2h.push((twin, host));
            let available = available(self.analysis, node, host, Since::Written)?;
            self.given.push(Given {
                device,
                host,
                twin,
                available,
            });
        }
        Ok(call)
    }

    fn inputs_of(&mut self, number: usize) -> Result<(), AnalysisError> {
        let (node, device) = (self.calls[number].node, self.calls[number].device);
        let step = self.step(node);
        // What is also written has a twin already, which needs the bytes from before.
        for &host in &step.updates {
            let twin = self.calls[number].operands[&host];
            self.calls[number].h2d.push((host, twin));
            self.report.both_ways.push(host);
        }
        for &(host, _) in &step.either {
            let twin = self.calls[number].operands[&host];
            // Under its own name it would seem to be state, since it is read before it is written.
            let view = self.tensor(host).clone();
            self.values.push(Value::Tensor(view));
            let view = ValueIndex::new(self.values.len() - 1);
            self.views.insert(view, host);
            self.calls[number].h2d.push((view, twin));
            self.report.both_ways.push(host);
        }
        for &host in &step.reads {
            if self.calls[number].operands.contains_key(&host) {
                continue;
            }
            let operand = if self.device_inputs.get(&host) == Some(&device) {
                host
            } else if let Some(twin) = self.on_device_already(node, host, device)? {
                self.report.elided += 1;
                twin
            } else {
                self.upload(number, host)?
            };
            self.calls[number].operands.insert(host, operand);
        }
        self.order_copies(number);
        Ok(())
    }

    /// The device value for a host value that must be copied: one that was copied before, if that is allowed, or a new
    /// one with a copy before the call or the loop around it.
    fn upload(&mut self, number: usize, host: ValueIndex) -> Result<ValueIndex, AnalysisError> {
        let (node, device) = (self.calls[number].node, self.calls[number].device);
        let is_empty = is_static_and_empty(&self.values, host);
        let reuse = self.options.reuse_uploads && !is_empty;
        let known = self
            .uploads
            .iter()
            .find(|known| reuse && known.serves(node, host, device));
        if let Some(known) = known {
            self.report.reused += 1;
            return Ok(known.twin);
        }
        let twin = self.twin(host, device);
        if !reuse {
            self.calls[number].h2d.push((host, twin));
            return Ok(twin);
        }
        let keep = self.analysis.that_keep(host)?;
        let around = self.loops.iter().copied();
        self.analysis
            .work()
            .spend_on(self.loops.len(), self.analysis.flow().exit())?;
        let around = around
            .filter(|around| around.holds(node))
            .find(|around| around.is_within(&keep));
        let available = match around {
            Some(around) => {
                self.hoisted.push(Hoisted { around, host, twin });
                around.nodes(self.analysis.flow())
            }
            None => {
                self.calls[number].h2d.push((host, twin));
                available(self.analysis, node, host, Since::Read)?
            }
        };
        self.uploads.push(Upload {
            device,
            host,
            twin,
            available,
        });
        Ok(twin)
    }

    /// Copies in the order of the call's arguments.
    fn order_copies(&mut self, number: usize) {
        let call = &mut self.calls[number];
        let positions = positions(self.method, call.node);
        call.h2d.sort_by_key(|&(host, _)| {
            let argument = self.views.get(&host).copied().unwrap_or(host);
            positions.get(&argument.get()).copied()
        });
        call.h2d
            .retain(|&(host, _)| !is_static_and_empty(&self.values, host));
        call.d2h
            .retain(|&(_, host)| !is_static_and_empty(&self.values, host));
    }

    /// The device value that has the bytes of `host` before `node`, if there is one on every path.
    fn on_device_already(
        &mut self,
        node: usize,
        host: ValueIndex,
        device: Device,
    ) -> Result<Option<ValueIndex>, AnalysisError> {
        let work = self.analysis.work();
        work.spend(self.given.len())?;
        let bases = self.analysis.bases(host);
        work.spend(bases.len())?;
        let [base] = bases.as_slice() else {
            return Ok(None);
        };
        let fits = |given: &&Given| {
            given.device == device && given.host == *base && given.available.contains(node)
        };
        let Some(given) = self.given.iter().find(fits) else {
            return Ok(None);
        };
        let (base, twin) = (given.host, given.twin);
        if base == host {
            return Ok(Some(twin));
        }
        if !self.shows_all(host, base) {
            return Ok(None);
        }
        // The same bytes in another shape: a second value at the same place.
        let alias = self.twin(host, device);
        self.aliases.insert(alias, twin);
        Ok(Some(alias))
    }

    /// Whether two values have the same bytes in the same order, whatever their shapes.
    fn shows_all(&self, view: ValueIndex, base: ValueIndex) -> bool {
        let plain = |value| {
            let tensor = self.tensor(value);
            let in_order = tensor
                .dim_order
                .iter()
                .enumerate()
                .all(|(at, &dim)| at == dim as usize);
            in_order && tensor.shape_dynamism == Dynamism::Static
        };
        let same = |f: fn(&Tensor) -> Option<u64>| f(self.tensor(view)) == f(self.tensor(base));
        let offset = |tensor: &Tensor| tensor.allocation_info.map(|place| place.memory_offset);
        plain(view) && plain(base) && same(Tensor::nbytes) && same(offset)
    }

    /// Drops copies to host values that nobody on the host needs.
    fn drop_unneeded_copies(&mut self) {
        let mut needed = BTreeSet::new();
        let mut need = |value: ValueIndex| needed.extend(self.analysis.bases(value));
        let device_calls: BTreeSet<usize> = self.calls.iter().map(|call| call.node).collect();
        for (node, step) in self.analysis.steps().iter().enumerate() {
            if !device_calls.contains(&node) {
                let sources = step.moves.iter().map(|&(_, source)| source);
                let read = step
                    .reads
                    .iter()
                    .chain(&step.updates)
                    .copied()
                    .chain(sources);
                let owners = step.either.iter().map(|&(_, owner)| owner);
                read.chain(owners).for_each(&mut need);
            }
        }
        for call in &self.calls {
            let known = call
                .h2d
                .iter()
                .filter(|(host, _)| !self.views.contains_key(host));
            known.for_each(|&(host, _)| need(host));
            self.step(call.node)
                .either
                .iter()
                .for_each(|&(_, owner)| need(owner));
        }
        for hoisted in &self.hoisted {
            need(hoisted.host);
        }
        let outputs = self
            .outputs
            .iter()
            .filter_map(|&output| usize::try_from(output).ok());
        for output in outputs.filter(|&output| output < self.method.values.len()) {
            need(ValueIndex::new(output));
        }
        for call in &mut self.calls {
            call.d2h
                .retain(|(_, host)| needed.contains(host) || self.analysis.is_persistent(*host));
        }
    }

    /// Writes the method, and says what its steps are; device values have no memory as yet.
    pub(super) fn finish(mut self, method: &mut ExecutionPlan) -> (Rewritten, MethodReport) {
        let mut writer = Writer::new(&self.method.operators);
        let chain = self.method.chains.first().cloned().unwrap_or_default();
        let mut calls = std::mem::take(&mut self.calls).into_iter().peekable();
        for (node, instruction) in chain.instructions.iter().enumerate() {
            writer.approach(node);
            self.write_hoisted(node, &mut writer);
            writer.begin();
            let step = self.analysis.steps()[node].clone();
            match calls.next_if(|call| call.node == node) {
                Some(call) => self.write_call(&call, instruction, step, &mut writer),
                None => writer.push(instruction.clone(), step),
            }
        }
        writer.approach(chain.instructions.len());
        writer.begin();
        let Written {
            chain,
            operators,
            steps,
            origins,
        } = writer.finish(chain);
        self.report.origins = origins;
        method.values = self.values;
        method.outputs = self.outputs;
        method.operators = operators;
        method.chains = vec![chain];
        (
            Rewritten {
                steps,
                aliases: self.aliases,
                by_caller: self.by_caller,
            },
            self.report,
        )
    }

    /// Writes the copies that run once before a loop.
    fn write_hoisted(&mut self, node: usize, writer: &mut Writer) {
        let here = |hoisted: &&Hoisted| hoisted.around.head == node;
        for hoisted in self.hoisted.iter().filter(here) {
            self.report.h2d.add(self.nbytes(hoisted.host));
            self.report.hoisted += 1;
            writer.copy("et_copy::_h2d_copy", hoisted.host, hoisted.twin);
            writer.enter_loop(hoisted.around.tail);
        }
    }

    fn write_call(
        &mut self,
        call: &Call,
        instruction: &Instruction,
        mut step: Step,
        writer: &mut Writer,
    ) {
        for &(host, twin) in &call.h2d {
            self.report.h2d.add(self.nbytes(host));
            writer.copy("et_copy::_h2d_copy", host, twin);
        }
        let Instruction::DelegateCall(original) = instruction else {
            return;
        };
        let args = original
            .args
            .iter()
            .map(|&argument| self.operand(call, argument))
            .collect();
        let delegate_index = original.delegate_index;
        let on_device = |value: &mut ValueIndex| {
            let operand = call.operands.get(value).copied().unwrap_or(*value);
            *value = self.aliases.get(&operand).copied().unwrap_or(operand);
        };
        step.reads.iter_mut().for_each(on_device);
        step.writes.iter_mut().for_each(on_device);
        step.updates.iter_mut().for_each(on_device);
        // Its twin got the bytes that it may show.
        let mut either: Vec<ValueIndex> = step
            .either
            .drain(..)
            .map(|(argument, _)| argument)
            .collect();
        either.iter_mut().for_each(on_device);
        step.updates.extend(either);
        writer.push(
            Instruction::DelegateCall(DelegateCall {
                delegate_index,
                args,
            }),
            step,
        );
        for &(twin, host) in &call.d2h {
            self.report.d2h.add(self.nbytes(host));
            writer.copy("et_copy::_d2h_copy", twin, host);
        }
    }

    /// What stands for an argument of a call: the device value, or a new list of them.
    fn operand(&mut self, call: &Call, argument: i32) -> i32 {
        let operand = |value: i32| {
            let host = usize::try_from(value).ok().map(ValueIndex::new)?;
            Some(call.operands.get(&host)?.field())
        };
        let on_device = |items: &[i32]| -> Vec<i32> {
            items
                .iter()
                .map(|&item| operand(item).unwrap_or(item))
                .collect()
        };
        let list = usize::try_from(argument)
            .ok()
            .and_then(|argument| self.values.get(argument));
        let list = match list {
            Some(Value::TensorList(items)) => Value::TensorList(on_device(items)),
            Some(Value::OptionalTensorList(items)) => Value::OptionalTensorList(on_device(items)),
            _ => return operand(argument).unwrap_or(argument),
        };
        // A list must come after its items, so the old one cannot be pointed at them.
        self.values.push(list);
        ValueIndex::new(self.values.len() - 1).field()
    }
}

fn is_static_and_empty(values: &[Value], value: ValueIndex) -> bool {
    values[value.get()].as_tensor().is_some_and(|tensor| {
        tensor.nbytes() == Some(0) && tensor.shape_dynamism == Dynamism::Static
    })
}

/// Where among a call's arguments each value comes first; items of lists count with their list.
fn positions(method: &ExecutionPlan, node: usize) -> BTreeMap<usize, usize> {
    let mut instructions = method.instructions();
    let Some(Instruction::DelegateCall(call)) = instructions.nth(node) else {
        return BTreeMap::new();
    };
    let mut positions = BTreeMap::new();
    for (at, &argument) in call.args.iter().enumerate() {
        let list = usize::try_from(argument)
            .ok()
            .and_then(|argument| method.values.get(argument));
        let names = match list {
            Some(Value::TensorList(items) | Value::OptionalTensorList(items)) => items.as_slice(),
            _ => &[argument],
        };
        for value in names.iter().filter_map(|&name| usize::try_from(name).ok()) {
            positions.entry(value).or_insert(at);
        }
    }
    positions
}

/// A method whose device values have no memory as yet.
pub(super) struct Rewritten {
    /// What each instruction does.
    pub(super) steps: Vec<Step>,
    /// Device values at the place of another.
    pub(super) aliases: BTreeMap<ValueIndex, ValueIndex>,
    /// Device values whose memory the caller gives.
    pub(super) by_caller: BTreeSet<ValueIndex>,
}
