//! Methods: names, planned buffers and their devices, operators, delegates, inputs and outputs.

use alloc::vec;
use alloc::vec::Vec;

use super::Check;
use super::data::Quoted;
use super::sink::{Path, Sink};
use crate::device_tag::DeviceTag;
use crate::generated::pte;
use crate::list::List;
use crate::number::{file_len, mem_index};
use crate::problem::Rule;
use crate::view::{PlanView, ProgramView, ValueKind, ValueView, tables};

/// What the checks of one method know.
pub(super) struct Plan<'a> {
    pub(super) program: ProgramView<'a>,
    pub(super) view: PlanView<'a>,
    pub(super) num_values: usize,
    pub(super) num_operators: usize,
    pub(super) num_delegates: usize,
    pub(super) buffer_sizes: List<'a, i64>,
    /// Device of each planned buffer. Shorter than the list of sizes where the
    /// device table was wrong, never longer.
    pub(super) devices: Vec<DeviceTag>,
    /// One bit per value: is it an input?
    pub(super) inputs: Bits,
}

pub(super) fn plans<S: Sink>(
    program: &ProgramView<'_>,
    check: &mut Check<'_, S>,
) -> Result<(), S::Stop> {
    let list = Path::field("execution_plan");
    let table = program.table();
    if tables(table.execution_plan()).len() == 0 {
        let found = if table.execution_plan().is_some() {
            "empty"
        } else {
            "absent"
        };
        return check.error(Rule::Missing, &list, found, "at least one method");
    }
    let mut names = Vec::with_capacity(program.plans().len());
    for (index, view) in program.plans().enumerate() {
        names.push((view.name(), index));
        check.plan(*program, view, &list.at(index))?;
    }
    names.sort_unstable();
    for pair in names.windows(2) {
        let &[(name, first), (next, second)] = pair else {
            continue;
        };
        if name == next {
            let expected = format_args!("another name than execution_plan[{first}]");
            check.warn(
                Rule::Duplicate,
                &list.at(second).dot("name"),
                Quoted(name),
                expected,
            )?;
        }
    }
    Ok(())
}

impl<S: Sink> Check<'_, S> {
    fn plan(
        &mut self,
        program: ProgramView<'_>,
        view: PlanView<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let table = view.table();
        self.newer(&table._tab, 10, path)?;
        if let Some(meta) = table.container_meta_type() {
            self.newer(&meta._tab, 2, &path.dot("container_meta_type"))?;
        }
        if table.name().is_none() {
            self.missing(&path.dot("name"), "the method's name")?;
        }
        if table.values().is_none() {
            self.missing(&path.dot("values"), "a list of values")?;
        }
        let devices = self.buffers(view, path)?;
        let num_values = view.num_values();
        let mut plan = Plan {
            program,
            view,
            num_values,
            num_operators: view.operators().len(),
            num_delegates: view.delegates().len(),
            buffer_sizes: view.buffer_sizes(),
            devices,
            inputs: Bits::new(num_values),
        };
        self.inputs_and_outputs(&mut plan, path)?;
        self.values(&plan, path)?;
        self.operators(table, path)?;
        self.delegates(program, table, path)?;
        self.chains(&plan, path)
    }

    /// Planned buffers: sizes, and which device each is on.
    fn buffers(&mut self, view: PlanView<'_>, path: &Path<'_>) -> Result<Vec<DeviceTag>, S::Stop> {
        let list = path.dot("non_const_buffer_sizes");
        let sizes = view.buffer_sizes();
        if view.table().non_const_buffer_sizes().is_none() {
            self.missing(&list, "the sizes of planned buffers")?;
        }
        for (index, size) in sizes.iter().enumerate() {
            if size < 0 {
                self.error(Rule::Negative, &list.at(index), size, "a number of bytes")?;
            }
        }
        if sizes.get(0).is_some_and(|size| size > 0) {
            self.warn(
                Rule::Conflict,
                &list.at(0),
                size_of_reserved(sizes),
                "0, it is reserved",
            )?;
        }
        self.buffer_devices(view, path)
    }

    fn buffer_devices(
        &mut self,
        view: PlanView<'_>,
        path: &Path<'_>,
    ) -> Result<Vec<DeviceTag>, S::Stop> {
        let list = path.dot("non_const_buffer_device");
        let num_buffers = view.buffer_sizes().len();
        let mut devices = Vec::new();
        if view.buffer_devices().len() == 0 {
            return Ok(devices);
        }
        devices.resize(num_buffers, DeviceTag::CPU);
        let mut listed = Bits::new(num_buffers);
        for (index, entry) in tables(view.table().non_const_buffer_device()).enumerate() {
            let path = list.at(index);
            self.newer(&entry._tab, 3, &path)?;
            let device = DeviceTag::new(entry.device_type().0, entry.device_index());
            self.device(&path, device)?;
            let buffer_path = path.dot("buffer_idx");
            let buffer = entry.buffer_idx();
            if !self.index(&buffer_path, buffer, num_buffers, "non_const_buffer_sizes")? {
                continue;
            }
            let slot = usize::try_from(buffer).unwrap_or_default();
            if slot == 0 {
                self.error(
                    Rule::Index,
                    &buffer_path,
                    0,
                    "at least 1, as entry 0 is reserved",
                )?;
            } else if listed.insert(slot) {
                self.error(
                    Rule::Duplicate,
                    &buffer_path,
                    buffer,
                    "one entry per buffer",
                )?;
            } else if let Some(known) = devices.get_mut(slot) {
                *known = device;
            }
        }
        Ok(devices)
    }

    /// A device type and index that can be. The index means nothing on the CPU.
    pub(super) fn device(&mut self, path: &Path<'_>, device: DeviceTag) -> Result<(), S::Stop> {
        let DeviceTag {
            device_type,
            device_index,
        } = device;
        let type_path = path.dot("device_type");
        let index_path = path.dot("device_index");
        match device_type {
            i8::MIN..=-1 => {
                self.error(Rule::UnknownCode, &type_path, device_type, "a device type")?;
            }
            0 => {
                if device_index != 0 {
                    self.warn(
                        Rule::DeviceIndex,
                        &index_path,
                        device_index,
                        "0 for the CPU",
                    )?;
                }
                return Ok(());
            }
            1 => {}
            2.. => self.warn(
                Rule::UnknownCode,
                &type_path,
                device_type,
                "0 (CPU) or 1 (CUDA)",
            )?,
        }
        if device_index < 0 {
            self.error(Rule::DeviceIndex, &index_path, device_index, "0 to 127")?;
        }
        Ok(())
    }

    fn inputs_and_outputs(&mut self, plan: &mut Plan<'_>, path: &Path<'_>) -> Result<(), S::Stop> {
        let table = plan.view.table();
        let inputs = path.dot("inputs");
        if table.inputs().is_none() {
            self.missing(&inputs, "the list of inputs")?;
        }
        for (index, value) in plan.view.inputs().iter().enumerate() {
            let path = inputs.at(index);
            if !self.value_index(&path, value, plan.num_values)? {
                continue;
            }
            if plan.inputs.insert(mem_index(value)) {
                self.error(
                    Rule::Duplicate,
                    &path,
                    value,
                    "a value that is no input yet",
                )?;
            }
            let view = self.flat_value(plan, &path, value)?;
            if view
                .and_then(|view| view.as_tensor())
                .is_some_and(|tensor| tensor.is_constant())
            {
                let expected = "a value without data in the file";
                self.error(
                    Rule::Conflict,
                    &path,
                    format_args!("{value}, a constant"),
                    expected,
                )?;
            }
        }
        let outputs = path.dot("outputs");
        if table.outputs().is_none() {
            self.missing(&outputs, "the list of outputs")?;
        }
        for (index, value) in plan.view.outputs().iter().enumerate() {
            let path = outputs.at(index);
            if self.value_index(&path, value, plan.num_values)? {
                self.flat_value(plan, &path, value)?;
            }
        }
        Ok(())
    }

    /// The value. Lists come in flattened; a runtime has no way to take or give one.
    fn flat_value<'a>(
        &mut self,
        plan: &Plan<'a>,
        path: &Path<'_>,
        value: u32,
    ) -> Result<Option<ValueView<'a>>, S::Stop> {
        let view = plan.view.value(value);
        let kind = view.map(|view| view.kind());
        let flat = !matches!(
            kind,
            Some(
                ValueKind::IntList
                    | ValueKind::DoubleList
                    | ValueKind::BoolList
                    | ValueKind::TensorList
                    | ValueKind::OptionalTensorList
            )
        );
        if let Some(kind) = kind.filter(|_| !flat) {
            let found = format_args!("{value}, a value of kind {}", kind.name());
            self.warn(
                Rule::Unsupported,
                path,
                found,
                "a tensor, number, text or none",
            )?;
        }
        Ok(view)
    }

    pub(super) fn value_index(
        &mut self,
        path: &Path<'_>,
        value: u32,
        num_values: usize,
    ) -> Result<bool, S::Stop> {
        self.index(path, value.cast_signed(), num_values, "values")
    }

    fn operators(&mut self, table: pte::ExecutionPlan<'_>, path: &Path<'_>) -> Result<(), S::Stop> {
        let list = path.dot("operators");
        for (index, operator) in tables(table.operators()).enumerate() {
            self.newer(&operator._tab, 2, &list.at(index))?;
            self.name(
                operator.name(),
                &list.at(index).dot("name"),
                "the operator's name",
            )?;
        }
        Ok(())
    }

    fn delegates(
        &mut self,
        program: ProgramView<'_>,
        table: pte::ExecutionPlan<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let list = path.dot("delegates");
        for (index, delegate) in tables(table.delegates()).enumerate() {
            let path = list.at(index);
            self.newer(&delegate._tab, 3, &path)?;
            self.name(delegate.id(), &path.dot("id"), "the backend's name")?;
            self.processed(program, delegate, &path.dot("processed"))?;
            let specs = path.dot("compile_specs");
            for (index, spec) in tables(delegate.compile_specs()).enumerate() {
                self.newer(&spec._tab, 2, &specs.at(index))?;
                if spec.key().is_none() {
                    self.missing(&specs.at(index).dot("key"), "the option's name")?;
                }
                if spec.value().is_none() {
                    self.missing(&specs.at(index).dot("value"), "the option's bytes")?;
                }
            }
        }
        Ok(())
    }

    fn processed(
        &mut self,
        program: ProgramView<'_>,
        delegate: pte::BackendDelegate<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let Some(reference) = delegate.processed() else {
            return self.missing(path, "where the delegate's data is");
        };
        self.newer(&reference._tab, 2, path)?;
        let (len, of) = match reference.location() {
            pte::DataLocation::INLINE => {
                (program.num_inline_delegate_data(), "backend_delegate_data")
            }
            pte::DataLocation::SEGMENT => (program.segments().len(), "segments"),
            other => {
                let expected = "0 (inline) or 1 (segment)";
                return self.error(Rule::UnknownCode, &path.dot("location"), other.0, expected);
            }
        };
        self.index(&path.dot("index"), reference.index(), len, of)?;
        Ok(())
    }
}

fn size_of_reserved(sizes: List<'_, i64>) -> i64 {
    sizes.get(0).unwrap_or(0)
}

/// A set of small numbers.
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// An empty set of numbers below `len`.
    pub(super) fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    /// Adds a number, and says whether it was there. Numbers past the length are never there.
    pub(super) fn insert(&mut self, number: usize) -> bool {
        let (word, mask) = Self::place(number);
        let Some(word) = self.0.get_mut(word) else {
            return false;
        };
        let was = *word & mask != 0;
        *word |= mask;
        was
    }

    /// True if the number was added.
    pub(super) fn contains(&self, number: usize) -> bool {
        let (word, mask) = Self::place(number);
        self.0.get(word).is_some_and(|word| word & mask != 0)
    }

    fn place(number: usize) -> (usize, u64) {
        let bit = u32::try_from(file_len(number) & 63).unwrap_or(0);
        (number >> 6, 1u64.wrapping_shl(bit))
    }
}
