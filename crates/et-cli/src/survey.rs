//! What a method needs and does, counted from its plan: calls, memory per device, copies.

use et_memory::MemoryPlan;
use et_schema::{InstructionView, PlanView, TensorView, ValueView};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// The counts of one method.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Instructions by kind, in the order of the format.
    pub(crate) instructions: BTreeMap<&'static str, u64>,
    /// Calls per operator, by the operator's index.
    pub(crate) operator_calls: Vec<u64>,
    /// Calls per delegate, by the delegate's index.
    pub(crate) delegate_calls: Vec<u64>,
    /// Planned bytes per device.
    pub(crate) memory: BTreeMap<String, u64>,
    /// Copies between host and devices, in the order of the instructions.
    pub(crate) copies: Vec<Copy>,
}

/// One copy between the host and a device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// Why it happens.
    pub(crate) cause: Cause,
    /// The device that is copied from.
    pub(crate) from: String,
    /// The device that is copied to.
    pub(crate) to: String,
    /// Bytes; the most there can be where the shape is dynamic.
    pub(crate) nbytes: Option<u64>,
    /// Whether the bytes depend on the shapes of the inputs.
    pub(crate) upper_bound: bool,
}

/// Why a copy happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An instruction of the program.
    Instruction { chain: usize, index: usize },
    /// The method's input lives on the device: copied when the caller's tensor is on the host.
    Input(usize),
    /// The method's output lives on the device: copied when the caller wants it on the host.
    Output(usize),
}

impl Cause {
    /// What to show.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Instruction { chain: 0, index } => format!("instruction {index}"),
            Self::Instruction { chain, index } => format!("instruction {chain}:{index}"),
            Self::Input(index) => format!("input {index}, if given on the host"),
            Self::Output(index) => format!("output {index}, if wanted on the host"),
        }
    }
}

impl Survey {
    /// Counts a method.
    pub(crate) fn of(plan: &PlanView<'_>) -> Self {
        let mut survey = Self {
            operator_calls: vec![0; plan.operators().len()],
            delegate_calls: vec![0; plan.delegates().len()],
            memory: memory(plan),
            ..Self::default()
        };
        survey.add_ends(plan, plan.inputs().iter(), Cause::Input);
        for (chain, instructions) in plan.chains().enumerate() {
            for (index, instruction) in instructions.instructions().enumerate() {
                survey.add(plan, Cause::Instruction { chain, index }, &instruction);
            }
        }
        survey.add_ends(plan, plan.outputs().iter(), Cause::Output);
        survey
    }

    /// Whether instructions may be skipped or repeated.
    pub(crate) fn has_jumps(&self) -> bool {
        self.instructions.contains_key("JumpFalseCall")
    }

    fn add(&mut self, plan: &PlanView<'_>, cause: Cause, instruction: &InstructionView<'_>) {
        *self.instructions.entry(kind(instruction)).or_default() += 1;
        match instruction {
            InstructionView::Kernel { op, args } => {
                if let Some(calls) = self.operator_calls.get_mut(*op as usize) {
                    *calls += 1;
                }
                let operator = plan.operator(*op);
                if operator.is_some_and(|operator| operator.name.starts_with("et_copy::")) {
                    let tensor = |index| tensor_at(plan, args.get(index)?);
                    self.copies.extend(
                        tensor(0)
                            .zip(tensor(1))
                            .and_then(|(from, to)| copy(cause, &from, &to)),
                    );
                }
            }
            InstructionView::Delegate { index, .. } => {
                if let Some(calls) = self.delegate_calls.get_mut(*index as usize) {
                    *calls += 1;
                }
            }
            _ => {}
        }
    }

    /// Inputs or outputs that live on a device.
    fn add_ends(
        &mut self,
        plan: &PlanView<'_>,
        values: impl Iterator<Item = u32>,
        cause: fn(usize) -> Cause,
    ) {
        for (index, value) in values.enumerate() {
            let Some(tensor) = tensor_at(plan, value) else {
                continue;
            };
            let device = tensor_device(&tensor);
            let cause = cause(index);
            let (from, to) = match cause {
                Cause::Output(_) => (device.clone(), HOST.into()),
                _ => (HOST.into(), device.clone()),
            };
            if device != HOST {
                let upper_bound = is_dynamic(&tensor);
                let nbytes = tensor.nbytes();
                self.copies.push(Copy {
                    cause,
                    from,
                    to,
                    nbytes,
                    upper_bound,
                });
            }
        }
    }

    /// The counts that summaries of et-schema lack, as fields of a method in a document.
    pub(crate) fn to_json(&self) -> Json {
        let copies: Vec<Json> = self.copies.iter().map(Copy::to_json).collect();
        json!({
            "delegate_calls": self.delegate_calls,
            "memory_per_device": self.memory,
            "copies": copies,
            "copies_depend_on_control_flow": self.has_jumps(),
        })
    }
}

impl Copy {
    fn to_json(&self) -> Json {
        let (cause, index) = match self.cause {
            Cause::Instruction { index, .. } => ("instruction", index),
            Cause::Input(index) => ("input", index),
            Cause::Output(index) => ("output", index),
        };
        json!({
            "cause": cause,
            "index": index,
            "from": self.from,
            "to": self.to,
            "nbytes": self.nbytes,
            "upper_bound": self.upper_bound,
        })
    }
}

/// How host memory is called.
pub(crate) const HOST: &str = "cpu";

/// A device by the format's numbers, as it is written: `cpu`, `cuda:0`, `type7:1`.
pub(crate) fn device_name(device_type: i8, device_index: i8) -> String {
    match (device_type, device_index) {
        (0, 0) => HOST.into(),
        (0, index) => format!("cpu:{index}"),
        (1, index) => format!("cuda:{index}"),
        (other, index) => format!("type{other}:{index}"),
    }
}

/// The device that a tensor is tagged with.
pub(crate) fn tensor_device(tensor: &TensorView<'_>) -> String {
    device_name(tensor.device_type(), tensor.device_index())
}

/// The device of each planned buffer, by memory id; the first entry of a buffer counts.
pub(crate) fn buffer_devices(plan: &PlanView<'_>) -> Vec<String> {
    let mut devices = vec![None; plan.buffer_sizes().len()];
    for entry in plan.buffer_devices() {
        if let Some(slot @ None) = devices.get_mut(entry.buffer as usize) {
            *slot = Some(device_name(entry.device_type, entry.device_index));
        }
    }
    devices
        .into_iter()
        .map(|device| device.unwrap_or_else(|| HOST.into()))
        .collect()
}

/// `name.overload`, or the name alone.
pub(crate) fn operator_name(name: &str, overload: &str) -> String {
    if overload.is_empty() {
        name.into()
    } else {
        format!("{name}.{overload}")
    }
}

/// Whether the shape may change from call to call.
pub(crate) fn is_dynamic(tensor: &TensorView<'_>) -> bool {
    tensor.dynamism() != et_schema::Dynamism::Static
}

/// The bytes of a plan's buffers on each device that has some.
pub(crate) fn per_device(plan: &MemoryPlan) -> BTreeMap<String, u64> {
    let needed = plan.needed_per_device().into_iter();
    needed
        .filter(|(_, nbytes)| *nbytes > 0)
        .map(|(device, nbytes)| (device.to_string(), nbytes))
        .collect()
}

fn memory(plan: &PlanView<'_>) -> BTreeMap<String, u64> {
    let mut memory = BTreeMap::new();
    for (nbytes, device) in plan.buffer_sizes().iter().zip(buffer_devices(plan)) {
        let sum: &mut u64 = memory.entry(device).or_default();
        *sum = sum.saturating_add(u64::try_from(nbytes).unwrap_or(0));
    }
    memory.retain(|_, nbytes| *nbytes > 0);
    memory
}

fn tensor_at<'a>(plan: &PlanView<'a>, index: u32) -> Option<TensorView<'a>> {
    plan.value(index).as_ref().and_then(ValueView::as_tensor)
}

fn copy(cause: Cause, from: &TensorView<'_>, to: &TensorView<'_>) -> Option<Copy> {
    let (from_device, to_device) = (tensor_device(from), tensor_device(to));
    (from_device != to_device).then(|| Copy {
        cause,
        from: from_device,
        to: to_device,
        nbytes: from.nbytes(),
        upper_bound: is_dynamic(from),
    })
}

fn kind(instruction: &InstructionView<'_>) -> &'static str {
    match instruction {
        InstructionView::Kernel { .. } => "KernelCall",
        InstructionView::Delegate { .. } => "DelegateCall",
        InstructionView::Move { .. } => "MoveCall",
        InstructionView::JumpFalse { .. } => "JumpFalseCall",
        InstructionView::Free { .. } => "FreeCall",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_schema::ParsedProgram;

    fn program(case: &str) -> ParsedProgram {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
        let file = std::fs::read(format!("{dir}/{case}/model.pte")).unwrap();
        ParsedProgram::from_file_bytes(&file).unwrap()
    }

    #[test]
    fn copies_calls_and_memory_of_a_device_program_are_counted() {
        let program = program("dev_single_add");
        let plan = program.root().plan("forward").unwrap();
        let survey = Survey::of(&plan);
        assert_eq!(survey.operator_calls, [2, 1, 1]);
        assert_eq!(survey.delegate_calls, [1]);
        assert_eq!(
            survey.memory,
            [("cpu".into(), 64), ("cuda:0".into(), 96)].into()
        );
        let ways: Vec<_> = survey
            .copies
            .iter()
            .map(|c| (c.from.as_str(), c.to.as_str(), c.nbytes))
            .collect();
        let (up, down) = (("cpu", "cuda:0", Some(24)), ("cuda:0", "cpu", Some(24)));
        assert_eq!(ways, [up, up, down]);
        assert_eq!(
            survey.copies[2].cause,
            Cause::Instruction { chain: 0, index: 3 }
        );
    }

    #[test]
    fn a_host_program_copies_nothing() {
        let program = program("linear");
        let survey = Survey::of(&program.root().plan("forward").unwrap());
        assert_eq!(survey.copies, []);
        assert_eq!(survey.memory.keys().collect::<Vec<_>>(), ["cpu"]);
    }
}
