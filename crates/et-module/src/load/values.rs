//! The values of a method: where each is, what it holds at first, and who may change it.

use et_kernel::{EValue, Kernel, NamedData, SharedBytes, Tensor, TensorMeta, ValueIndex};
use et_schema::{InstructionView, PlanView, TensorView, ValueKind, ValueView};

use super::Loader;
use crate::Error;
use crate::error::ErrorKind;
use crate::meta::{self, unsupported};
use crate::method::{Initial, InitialBytes};

/// What a constant is in its program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConstantKey {
    Buffer(u32),
    Named(String),
}

/// For each value, whether instructions replace it (rather than write through it): targets of moves and what
/// operators and delegates may write. An operator that writes a list last writes the tensors in it.
pub(super) fn written_values(
    plan: &PlanView<'_>,
    code: &[Vec<InstructionView<'_>>],
    kernels: &[(Kernel, String)],
) -> Vec<bool> {
    let writes_last = |op: u32| {
        kernels
            .get(op as usize)
            .is_some_and(|(k, _)| k.writes_last())
    };
    let is_list = |value: &u32| {
        let kind = plan.value_kind(*value);
        matches!(
            kind,
            Some(ValueKind::TensorList | ValueKind::OptionalTensorList)
        )
    };
    let mut written = vec![false; plan.num_values()];
    let mut write = |value: u32| {
        if let Some(written) = written.get_mut(value as usize) {
            *written = true;
        }
    };
    for instruction in code.iter().flatten() {
        match *instruction {
            InstructionView::Kernel { op, args } if writes_last(op) => {
                let last = args.iter().next_back();
                last.filter(|last| !is_list(last))
                    .into_iter()
                    .for_each(&mut write);
            }
            InstructionView::Kernel { args, .. } | InstructionView::Delegate { args, .. } => {
                args.iter().for_each(&mut write);
            }
            InstructionView::Move { to, .. } => write(to),
            _ => {}
        }
    }
    written
}

impl Loader<'_> {
    pub(super) fn values(&mut self) -> Result<(), Error> {
        let mut legacy = 0usize;
        for (index, value) in (0..).zip(self.plan.values()) {
            if let ValueView::Tensor(tensor) = value {
                let is_legacy = meta::is_legacy_placement(&tensor, &self.plan);
                legacy = usize::saturating_add(legacy, is_legacy.into());
                self.tensor(index, &tensor)
                    .map_err(|error| error.at_value(index))?;
                continue;
            }
            let value = plain_value(&value).map_err(|error| Error::from(error).at_value(index))?;
            if self.is_written(index) {
                let first = value.share().unwrap_or(EValue::None);
                self.plain.push((ValueIndex(index), first));
                self.table.push(value);
            } else {
                self.table.push(value);
                self.table.mark_constant();
            }
        }
        self.table.settle_lists();
        if legacy > 0 {
            tracing::warn!(
                method = self.plan.name(),
                tensors = legacy,
                "the program names devices for tensors, but plans all memory on the CPU; they stay there"
            );
        }
        Ok(())
    }

    fn is_written(&self, index: u32) -> bool {
        self.written.get(index as usize).copied().unwrap_or(true)
    }

    fn tensor(&mut self, index: u32, tensor: &TensorView<'_>) -> Result<(), Error> {
        let device = meta::placement(tensor, &self.plan, &self.environment.device_map)?;
        let meta = meta::tensor_meta(tensor)?.on(device);
        let nbytes = meta.bound_nbytes() as u64;
        let Some(slot) = meta::slot(tensor, &meta) else {
            return self.unplanned(index, tensor, meta);
        };
        self.table.push_planned(meta.clone(), &slot)?;
        let Some(bytes) = self.initial_bytes(tensor, &meta, nbytes)? else {
            return Ok(());
        };
        let initial = Initial {
            value: ValueIndex(index),
            slot: (slot.memory_id, slot.offset_bytes),
            bytes,
        };
        initial.load(&mut self.table, self.program, &mut self.initialised)?;
        self.initial.push(initial);
        Ok(())
    }

    /// What a planned tensor holds at first, if the file says.
    fn initial_bytes(
        &self,
        tensor: &TensorView<'_>,
        meta: &TensorMeta,
        nbytes: u64,
    ) -> Result<Option<InitialBytes>, Error> {
        if meta::is_external(tensor) {
            return self
                .external(tensor, meta)
                .map(|bytes| Some(InitialBytes::Owned(bytes)));
        }
        let buffer = tensor.data_buffer_idx();
        let view = self.program.view();
        let Some(initial) = view.initial_data(tensor.mutable_data_list(), buffer) else {
            return if buffer == 0 {
                Ok(None)
            } else {
                Err(unsupported("initial data that is missing").into())
            };
        };
        match initial {
            et_schema::ConstantView::Segment {
                segment,
                offset,
                available,
            } if nbytes <= available => Ok(Some(InitialBytes::Segment {
                segment,
                part: offset..offset.saturating_add(nbytes),
            })),
            _ => Err(unsupported("initial data that is shorter than its tensor").into()),
        }
    }

    /// A tensor without a plan: a constant, or something that gets its memory later.
    fn unplanned(
        &mut self,
        index: u32,
        tensor: &TensorView<'_>,
        meta: TensorMeta,
    ) -> Result<(), Error> {
        let name = tensor.fully_qualified_name().unwrap_or_default();
        let mut key = ConstantKey::Buffer(tensor.data_buffer_idx());
        let bytes = if meta::is_external(tensor) {
            key = ConstantKey::Named(name.to_owned());
            Some(self.external(tensor, &meta)?)
        } else if tensor.data_buffer_idx() > 0 {
            let constant = self.program.view().constant(tensor.data_buffer_idx());
            let constant = constant.ok_or_else(|| unsupported("a constant that is missing"))?;
            Some(
                self.program
                    .constant(constant, meta.bound_nbytes() as u64)?,
            )
        } else {
            None
        };
        match bytes {
            None => self.table.push_without_memory(meta),
            Some(bytes) if meta.device().is_cpu() => {
                let known = self.constants.entry(key).or_default();
                *known = (*known).max(meta.bound_nbytes() as u64);
                self.table.push_shared(meta, &bytes)?;
                if self.is_written(index) {
                    // A move may make it another name; `prepare` must not rely on its bytes.
                    self.table.mark_changing();
                }
            }
            Some(bytes) => self.device_constant(index, key, meta, &bytes)?,
        }
        Ok(())
    }

    /// Uploads a constant once per device, however many values are made of it.
    fn device_constant(
        &mut self,
        index: u32,
        key: ConstantKey,
        meta: TensorMeta,
        bytes: &SharedBytes,
    ) -> Result<(), Error> {
        let key = (key, meta.device());
        if let Some(&known) = self.uploaded.get(&key)
            && self.table.push_alias(meta.clone(), known).is_ok()
        {
            return Ok(());
        }
        self.table.push_owned(Tensor::device_constant(
            meta,
            bytes,
            &self.environment.devices,
        )?);
        self.uploaded.insert(key, ValueIndex(index));
        Ok(())
    }

    /// The bytes of a tensor that is kept outside of the program.
    fn external(&self, tensor: &TensorView<'_>, meta: &TensorMeta) -> Result<SharedBytes, Error> {
        let name = tensor.fully_qualified_name().unwrap_or_default();
        let missing = || ErrorKind::MissingData {
            names: vec![name.to_owned()],
        };
        if let Some(layout) = self.data.layout(name) {
            let alike = layout.dtype() == meta.dtype()
                && layout.sizes() == meta.bound()
                && layout.dim_order() == meta.dim_order();
            if !alike {
                let expected = format!("{:?}", meta.clone().on(layout.device()));
                return Err(ErrorKind::WrongData {
                    name: name.to_owned(),
                    expected,
                    found: format!("{layout:?}"),
                }
                .into());
            }
        }
        let bytes = self.data.bytes(name)?.ok_or_else(missing)?;
        if bytes.len() < meta.bound_nbytes() {
            let (expected, found) = (
                format!("{} bytes", meta.bound_nbytes()),
                format!("{} bytes", bytes.len()),
            );
            return Err(ErrorKind::WrongData {
                name: name.to_owned(),
                expected,
                found,
            }
            .into());
        }
        Ok(bytes)
    }

    /// Gives memory to tensors that have none and that no caller can give any: state, and results between delegates.
    pub(super) fn allocate_internal(&mut self) -> Result<(), Error> {
        let plan = self.plan;
        let mut internal = vec![true; plan.num_values()];
        for value in plan.inputs().iter().chain(plan.outputs().iter()) {
            if let Some(internal) = internal.get_mut(value as usize) {
                *internal = false;
            }
        }
        for (index, _) in (0..).zip(internal).filter(|&(_, internal)| internal) {
            let value = ValueIndex(index);
            if self.table.meta(value).is_some() {
                let allocated = self
                    .table
                    .allocate_missing(value, &self.environment.devices);
                allocated.map_err(|error| Error::from(error).at_value(index))?;
            }
        }
        Ok(())
    }
}

/// A value that is not a tensor. Lists of whole numbers hold the places of their items.
fn plain_value(value: &ValueView<'_>) -> Result<EValue, ErrorKind> {
    let index = |raw: i64| {
        u32::try_from(raw)
            .map(ValueIndex)
            .map_err(|_| unsupported("a list of missing values"))
    };
    Ok(match value {
        ValueView::None => EValue::None,
        ValueView::Int(value) => EValue::Int(*value),
        ValueView::Bool(value) => EValue::Bool(*value),
        ValueView::Double(value) => EValue::Double(*value),
        ValueView::Str(text) => EValue::Str((*text).into()),
        ValueView::IntList(items) => {
            EValue::IntList(items.iter().map(index).collect::<Result<_, _>>()?)
        }
        ValueView::DoubleList(items) => EValue::DoubleList(items.iter().collect()),
        ValueView::BoolList(items) => EValue::BoolList(items.iter().collect()),
        ValueView::TensorList(items) => EValue::TensorList(
            items
                .iter()
                .map(i64::from)
                .map(index)
                .collect::<Result<_, _>>()?,
        ),
        ValueView::OptionalTensorList(items) => {
            let entry = |raw: i32| {
                if raw == -1 {
                    Ok(None)
                } else {
                    index(raw.into()).map(Some)
                }
            };
            EValue::OptionalTensorList(items.iter().map(entry).collect::<Result<_, _>>()?)
        }
        _ => return Err(unsupported("this kind of value")),
    })
}
