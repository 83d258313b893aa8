//! What is to be seen: buffers, what lies in them and when, and what happens between devices.

use crate::render;
use et_device::Device;
use et_planner::analysis::{Analysis, Hints, ValueIndex};
use et_planner::placement::Lifetime;
use et_schema::owned::{ExecutionPlan, Instruction, Program, Tensor};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The memory of a program.
pub(crate) struct Scene {
    pub(super) name: String,
    pub(super) methods: Vec<MethodScene>,
}

/// The memory of a method.
pub(super) struct MethodScene {
    pub(super) name: String,
    /// Why its panels are empty.
    pub(super) problem: Option<String>,
    pub(super) instructions: usize,
    pub(super) panels: Vec<Panel>,
    pub(super) marks: Vec<(usize, Mark, String)>,
}

/// A planned buffer.
pub(super) struct Panel {
    pub(super) memory_id: usize,
    pub(super) device: String,
    pub(super) nbytes: u64,
    /// The most bytes that are needed at one time.
    pub(super) peak: u64,
    pub(super) boxes: Vec<Box>,
}

/// A value for as long as it is needed.
pub(super) struct Box {
    pub(super) role: Role,
    pub(super) first: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) nbytes: u64,
    /// Written inside where there is room: a name, or else the number.
    pub(super) label: String,
    pub(super) number: String,
    /// Shown when pointed at.
    pub(super) about: String,
}

/// What a value is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Input,
    Output,
    State,
    /// The copy of a value of another device.
    Copy,
    /// What a delegate gives.
    Delegate,
    Other,
}

impl Role {
    pub(super) const ALL: [Self; 6] = [
        Self::Input,
        Self::Output,
        Self::State,
        Self::Copy,
        Self::Delegate,
        Self::Other,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::State => "state",
            Self::Copy => "copy of another device",
            Self::Delegate => "made by a delegate",
            Self::Other => "made by an operator",
        }
    }

    /// Colours that stay apart for colour-blind eyes (Okabe and Ito), on light and on dark ground.
    pub(super) fn fill(self) -> &'static str {
        match self {
            Self::Input => "#56b4e9",
            Self::Output => "#e69f00",
            Self::State => "#cc79a7",
            Self::Copy => "#f0e442",
            Self::Delegate => "#2fb48c",
            Self::Other => "#a9b4c6",
        }
    }
}

/// An instruction that concerns a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    ToDevice,
    ToHost,
    Delegate,
}

impl Mark {
    pub(super) const ALL: [Self; 3] = [Self::ToDevice, Self::ToHost, Self::Delegate];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::ToDevice => "host to device",
            Self::ToHost => "device to host",
            Self::Delegate => "delegate",
        }
    }

    pub(super) fn fill(self) -> &'static str {
        match self {
            Self::ToDevice => "#0072b2",
            Self::ToHost => "#d55e00",
            Self::Delegate => "#117755",
        }
    }
}

impl Scene {
    /// The memory of a verified program, under a name.
    pub(crate) fn new(name: &str, program: &Program) -> Self {
        Self {
            name: render::name(name),
            methods: program
                .execution_plan
                .iter()
                .map(MethodScene::new)
                .collect(),
        }
    }
}

impl MethodScene {
    fn new(method: &ExecutionPlan) -> Self {
        let instructions = method.chains.iter().flat_map(|chain| &chain.instructions);
        let marks = instructions.clone().enumerate();
        let marks = marks.filter_map(|(node, instruction)| mark(method, node, instruction));
        let analysis = Analysis::new(method, &Hints::default());
        let problem = analysis
            .as_ref()
            .err()
            .map(|error| format!("not drawn: {error}"));
        Self {
            name: render::name(&method.name),
            problem,
            instructions: instructions.count(),
            marks: marks.collect(),
            panels: analysis.map_or_else(|_| Vec::new(), |analysis| panels(method, &analysis)),
        }
    }
}

fn mark(
    method: &ExecutionPlan,
    node: usize,
    instruction: &Instruction,
) -> Option<(usize, Mark, String)> {
    let name = called(method, instruction)?;
    let mark = match (instruction, name.as_str()) {
        (Instruction::DelegateCall(_), _) => Mark::Delegate,
        (_, "et_copy::_h2d_copy.out") => Mark::ToDevice,
        (_, "et_copy::_d2h_copy.out") => Mark::ToHost,
        _ => return None,
    };
    let copied = match instruction {
        Instruction::KernelCall(call) => call.args.first().and_then(|&value| tensor(method, value)),
        _ => None,
    };
    let bytes = copied.and_then(Tensor::nbytes).map(render::bytes);
    let bytes = bytes.map_or_else(String::new, |bytes| format!(", {bytes}"));
    Some((node, mark, format!("instruction {node}: {name}{bytes}")))
}

/// The operator or the delegate that an instruction calls.
fn called(method: &ExecutionPlan, instruction: &Instruction) -> Option<String> {
    match instruction {
        Instruction::KernelCall(call) => {
            let operator = method.operators.get(usize::try_from(call.op_index).ok()?)?;
            Some(match operator.overload.as_str() {
                "" => operator.name.clone(),
                overload => format!("{}.{overload}", operator.name),
            })
        }
        Instruction::DelegateCall(call) => {
            let index = usize::try_from(call.delegate_index).ok()?;
            Some(format!(
                "delegate {index} ({})",
                method.delegates.get(index)?.id
            ))
        }
        _ => None,
    }
}

fn tensor(method: &ExecutionPlan, value: i32) -> Option<&Tensor> {
    method.values.get(usize::try_from(value).ok()?)?.as_tensor()
}

fn panels(method: &ExecutionPlan, analysis: &Analysis<'_>) -> Vec<Panel> {
    let lifetimes = analysis.lifetimes();
    let makers = makers(method, analysis);
    let panel = |(memory_id, &nbytes): (usize, &i64)| {
        let boxes: Vec<Box> = method
            .values
            .iter()
            .enumerate()
            .filter_map(|(number, value)| {
                let tensor = value.as_tensor()?;
                let place = tensor.allocation_info?;
                let is_here = usize::try_from(place.memory_id) == Ok(memory_id);
                let lifetime = lifetimes[number];
                let is_seen = is_here && !lifetime.is_empty();
                is_seen.then(|| Box::new(method, analysis, number, lifetime, makers[number]))?
            })
            .collect();
        Panel {
            memory_id,
            device: device(method, memory_id),
            nbytes: u64::try_from(nbytes).unwrap_or(0),
            peak: peak(&boxes),
            boxes,
        }
    };
    let sizes = method.non_const_buffer_sizes.iter().enumerate().skip(1);
    sizes.map(panel).collect()
}

/// The first instruction that changes each value.
fn makers(method: &ExecutionPlan, analysis: &Analysis<'_>) -> Vec<Option<usize>> {
    let mut makers = vec![None; method.values.len()];
    for (node, step) in analysis.steps().iter().enumerate() {
        for value in step.changes() {
            makers[value.get()].get_or_insert(node);
        }
    }
    makers
}

fn device(method: &ExecutionPlan, memory_id: usize) -> String {
    let mut entries = method.non_const_buffer_device.iter().flatten();
    let entry = entries.find(|entry| usize::try_from(entry.buffer_idx) == Ok(memory_id));
    match entry.map(|entry| Device::from_raw(entry.device_type, entry.device_index)) {
        None => "cpu".into(),
        Some(Ok(device)) if device.is_cpu() => "cpu".into(),
        Some(Ok(device)) => device.to_string(),
        Some(Err(error)) => error.to_string(),
    }
}

/// The most bytes that boxes at different places hold at one time.
fn peak(boxes: &[Box]) -> u64 {
    let mut events = BTreeSet::new();
    for (number, found) in boxes.iter().enumerate() {
        events.insert((found.first, true, number));
        events.insert((found.end, false, number));
    }
    let (mut load, mut most) = (0_u64, 0);
    for (_, begins, number) in events {
        let nbytes = boxes[number].nbytes;
        load = match begins {
            true => load.saturating_add(nbytes),
            false => load.saturating_sub(nbytes),
        };
        most = most.max(load);
    }
    most
}

impl Box {
    fn new(
        method: &ExecutionPlan,
        analysis: &Analysis<'_>,
        number: usize,
        lifetime: Lifetime,
        maker: Option<usize>,
    ) -> Option<Self> {
        let tensor = method.values[number].as_tensor()?;
        let extra = tensor.extra_tensor_info.as_ref();
        let name = extra.and_then(|extra| extra.fully_qualified_name.as_deref());
        let number_text = number.to_string();
        let mut found = Self {
            role: role(method, analysis, number, maker),
            first: lifetime.lower,
            end: lifetime.upper,
            offset: tensor.allocation_info?.memory_offset,
            nbytes: tensor.nbytes()?,
            label: name.map_or_else(|| number_text.clone(), render::name),
            number: number_text,
            about: String::new(),
        };
        found.about = found.about(method, tensor, name, maker);
        Some(found)
    }

    fn about(
        &self,
        method: &ExecutionPlan,
        tensor: &Tensor,
        name: Option<&str>,
        maker: Option<usize>,
    ) -> String {
        let mut about = format!("value {}", self.number);
        let mut add = |text: std::fmt::Arguments<'_>| {
            about
                .write_fmt(text)
                .expect("invariant: a string takes everything");
        };
        if let Some(name) = name {
            add(format_args!(" {}", render::name(name)));
        }
        add(format_args!(
            ": {:?} {:?}",
            tensor.scalar_type, tensor.sizes
        ));
        let end = self.offset + self.nbytes;
        add(format_args!(
            "\n{} bytes, from {} to {end}",
            self.nbytes, self.offset
        ));
        add(format_args!(
            "\ninstructions {} to {}",
            self.first,
            self.end - 1
        ));
        let instructions = method.chains.first().map(|chain| &chain.instructions);
        let maker = maker.and_then(|maker| instructions?.get(maker));
        if let Some(maker) = maker.and_then(|maker| called(method, maker)) {
            add(format_args!("\nmade by {}", render::name(&maker)));
        }
        about
    }
}

fn role(
    method: &ExecutionPlan,
    analysis: &Analysis<'_>,
    number: usize,
    maker: Option<usize>,
) -> Role {
    let is_among = |ends: &[i32]| ends.iter().any(|&end| usize::try_from(end) == Ok(number));
    let instructions = method.chains.first().map(|chain| &chain.instructions);
    match maker.and_then(|maker| instructions?.get(maker)) {
        _ if is_among(&method.inputs) => Role::Input,
        _ if analysis.is_persistent(ValueIndex::new(number)) => Role::State,
        _ if is_among(&method.outputs) => Role::Output,
        Some(Instruction::DelegateCall(_)) => Role::Delegate,
        Some(instruction) => match called(method, instruction) {
            Some(name) if name.starts_with("et_copy::") => Role::Copy,
            _ => Role::Other,
        },
        None => Role::Other,
    }
}
