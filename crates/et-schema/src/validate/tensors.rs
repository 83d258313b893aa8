//! Tensors: shapes, places in planned memory, data, devices.

use super::Check;
use super::plan::Plan;
use super::sink::{Path, Sink};
use crate::device_tag::DeviceTag;
use crate::generated::pte;
use crate::list::List;
use crate::problem::Rule;
use crate::scalar_type::ScalarType;
use crate::view::{Allocation, Dynamism, TensorLocation, TensorView};

/// The most dimensions that a runtime's fixed arrays hold.
const MAX_RANK: usize = 16;

impl<S: Sink> Check<'_, S> {
    pub(super) fn tensor(
        &mut self,
        plan: &Plan<'_>,
        index: usize,
        tensor: TensorView<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let facts = Facts::new(tensor.table());
        let storage_offset = tensor.storage_offset();
        if storage_offset != 0 {
            let path = path.dot("storage_offset");
            self.error(Rule::Unsupported, &path, storage_offset, "0")?;
        }
        self.dynamism(&facts, &path.dot("shape_dynamism"))?;
        // The size of a dynamic input is known when it is set; its bound may be without meaning,
        // unless memory was planned for it.
        let unplanned = facts.allocation.is_none();
        let dynamic = facts.dynamism() != Dynamism::Static;
        let lenient = dynamic && unplanned && plan.inputs.contains(index);
        let nbytes = self.shape(&facts.shape, lenient, path)?;
        if let Some(extra) = facts.extra {
            self.extra(&facts, extra, &path.dot("extra_tensor_info"))?;
        }
        self.tensor_data(plan, &facts, nbytes, path)
    }

    fn dynamism(&mut self, facts: &Facts<'_>, path: &Path<'_>) -> Result<(), S::Stop> {
        match facts.dynamism_code {
            0 | 1 => Ok(()),
            2 => {
                let expected = "a bound, as runtimes plan memory for one";
                self.warn(Rule::Unsupported, path, "unbound", expected)
            }
            code => self.error(Rule::UnknownCode, path, code, "0, 1 or 2"),
        }
    }

    /// Element type, sizes and dimension order. Returns the size in bytes where all is well.
    pub(super) fn shape(
        &mut self,
        shape: &Shape<'_>,
        lenient: bool,
        path: &Path<'_>,
    ) -> Result<Option<u64>, S::Stop> {
        let scalar_type = ScalarType::from_code(shape.scalar_type_code);
        if scalar_type.is_none() {
            let path = path.dot("scalar_type");
            self.error(Rule::UnknownCode, &path, shape.scalar_type_code, "0 to 29")?;
        }
        let sizes_path = path.dot("sizes");
        let Some(sizes) = shape.sizes else {
            self.missing(&sizes_path, "the tensor's sizes")?;
            return Ok(None);
        };
        if sizes.len() > MAX_RANK {
            let found = format_args!("rank {}", sizes.len());
            self.error(
                Rule::Rank,
                &sizes_path,
                found,
                format_args!("at most {MAX_RANK}"),
            )?;
            return Ok(None);
        }
        let mut negative = false;
        for (index, size) in sizes.iter().enumerate() {
            if size < 0 {
                negative = true;
                self.error(Rule::Negative, &sizes_path.at(index), size, "a length")?;
            }
        }
        self.dim_order(shape.dim_order, sizes.len(), &path.dot("dim_order"))?;
        let (Some(scalar_type), false) = (scalar_type, negative) else {
            return Ok(None);
        };
        let nbytes = crate::view::checked_nbytes(sizes, scalar_type);
        if nbytes.is_none() {
            let found = format_args!("{sizes:?} of {}", scalar_type.name());
            let expected = "a number of bytes that fits 63 bits";
            if lenient {
                self.warn(Rule::Overflow, &sizes_path, found, expected)?;
            } else {
                self.error(Rule::Overflow, &sizes_path, found, expected)?;
            }
        }
        Ok(nbytes)
    }

    fn dim_order(
        &mut self,
        dim_order: Option<&[u8]>,
        rank: usize,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let Some(dim_order) = dim_order else {
            return self.missing(path, "the order of dimensions");
        };
        if dim_order.len() != rank {
            let found = format_args!("{} dimensions", dim_order.len());
            return self.error(
                Rule::DimOrder,
                path,
                found,
                format_args!("{rank}, as in sizes"),
            );
        }
        let mut seen = 0u32;
        for dim in dim_order {
            // At most 16 dimensions, so that the shift is small; larger numbers shift to 0.
            seen |= 1u32.checked_shl(u32::from(*dim)).unwrap_or(0);
        }
        let all = 1u32
            .checked_shl(u32::try_from(rank).unwrap_or(0))
            .map_or(0, |bit| bit.wrapping_sub(1));
        if seen != all {
            let found = format_args!("{dim_order:?}");
            let expected = format_args!("each of 0 to {} once", rank.saturating_sub(1));
            return self.error(Rule::DimOrder, path, found, expected);
        }
        Ok(())
    }

    fn extra(
        &mut self,
        facts: &Facts<'_>,
        extra: pte::ExtraTensorInfo<'_>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        self.newer(&extra._tab, 5, path)?;
        match TensorLocation::from_code(facts.location_code) {
            Some(TensorLocation::Segment) => {}
            Some(TensorLocation::External) => {
                let path = path.dot("fully_qualified_name");
                self.name(
                    extra.fully_qualified_name(),
                    &path,
                    "the name of the external data",
                )?;
            }
            None => {
                let path = path.dot("location");
                let expected = "0 (segment) or 1 (external)";
                self.error(Rule::UnknownCode, &path, facts.location_code, expected)?;
            }
        }
        self.device(path, facts.device)
    }

    /// Where the bytes are: planned memory, the file, another file, or nowhere yet.
    fn tensor_data(
        &mut self,
        plan: &Plan<'_>,
        facts: &Facts<'_>,
        nbytes: Option<u64>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        if let Some(allocation) = facts.allocation {
            self.allocation(
                plan,
                facts,
                allocation,
                nbytes,
                &path.dot("allocation_info"),
            )?;
        }
        let index = facts.data_buffer_idx;
        if index == 0 || facts.location_code == TensorLocation::External.code() {
            return Ok(());
        }
        let index_path = path.dot("data_buffer_idx");
        let (data, of) = match facts.allocation {
            None => (plan.program.constant(index), "the program's constants"),
            Some(_) => {
                let list = facts
                    .extra
                    .map_or(0, |extra| extra.mutable_data_segments_idx());
                (
                    plan.program.initial_data(list, index),
                    "the program's initial data",
                )
            }
        };
        let Some(data) = data else {
            let expected = format_args!("an index into {of}, which has no such entry");
            return self.error(Rule::Index, &index_path, index, expected);
        };
        let available = data.available();
        if let Some(nbytes) = nbytes.filter(|nbytes| *nbytes > available) {
            let found = format_args!("{index}, where {available} bytes are left");
            let expected = format_args!("{nbytes} bytes of data");
            return self.error(Rule::OutOfBounds, &index_path, found, expected);
        }
        Ok(())
    }

    fn allocation(
        &mut self,
        plan: &Plan<'_>,
        facts: &Facts<'_>,
        table: pte::AllocationDetails<'_>,
        nbytes: Option<u64>,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        self.newer(&table._tab, 3, path)?;
        let Allocation { memory_id, offset } = Allocation::new(table);
        let id_path = path.dot("memory_id");
        if memory_id == 0 {
            let expected = "at least 1, as entry 0 is reserved";
            return self.error(Rule::Index, &id_path, 0, expected);
        }
        let num_buffers = plan.buffer_sizes.len();
        if !self.index(&id_path, memory_id, num_buffers, "non_const_buffer_sizes")? {
            return Ok(());
        }
        let slot = crate::number::mem_index(memory_id);
        // A negative size was reported with the list of sizes.
        let buffer = plan
            .buffer_sizes
            .get(slot)
            .and_then(|size| u64::try_from(size).ok());
        let unbound = facts.dynamism() == Dynamism::DynamicUnbound;
        let need = if unbound { Some(0) } else { nbytes };
        if let (Some(buffer), Some(need)) = (buffer, need) {
            let end = offset.checked_add(need);
            if end.is_none_or(|end| end > buffer) {
                let found = format_args!("{need} bytes at {offset}");
                let expected = format_args!("bytes inside of buffer {memory_id} of {buffer} bytes");
                self.error(Rule::OutOfBounds, path, found, expected)?;
            }
        }
        if need != Some(0) {
            self.alignment(facts, offset, &path.dot("memory_offset_low"))?;
        }
        self.placement(plan, facts, slot, path)
    }

    fn alignment(
        &mut self,
        facts: &Facts<'_>,
        offset: u64,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let Some(scalar_type) = ScalarType::from_code(facts.shape.scalar_type_code) else {
            return Ok(());
        };
        let element = scalar_type.element_size();
        if offset.is_multiple_of(element) {
            return Ok(());
        }
        let expected = format_args!(
            "a multiple of {element}, the bytes of {}",
            scalar_type.name()
        );
        self.error(Rule::Alignment, path, offset, expected)
    }

    /// The tensor's device is the buffer's. Programs without a device table are planned for the CPU,
    /// whatever their tensors say.
    fn placement(
        &mut self,
        plan: &Plan<'_>,
        facts: &Facts<'_>,
        slot: usize,
        path: &Path<'_>,
    ) -> Result<(), S::Stop> {
        let wanted = facts.device.normal();
        let buffer = plan.devices.get(slot).copied().unwrap_or_default().normal();
        if wanted == buffer {
            return Ok(());
        }
        let found = format_args!("{wanted} in a buffer on {buffer}");
        let expected = "a buffer on the tensor's device";
        if plan.view.has_buffer_devices() {
            self.error(Rule::DeviceMismatch, path, found, expected)
        } else {
            self.warn(Rule::DeviceMismatch, path, found, expected)
        }
    }
}

/// What several checks of a tensor look at, read from the file once.
struct Facts<'a> {
    shape: Shape<'a>,
    dynamism_code: i8,
    allocation: Option<pte::AllocationDetails<'a>>,
    data_buffer_idx: u32,
    extra: Option<pte::ExtraTensorInfo<'a>>,
    location_code: i8,
    device: DeviceTag,
}

impl<'a> Facts<'a> {
    fn new(table: pte::Tensor<'a>) -> Self {
        let extra = table.extra_tensor_info();
        Self {
            shape: Shape {
                scalar_type_code: table.scalar_type().0,
                sizes: table.sizes().map(|sizes| List::new(sizes.bytes())),
                dim_order: table.dim_order().map(|order| order.bytes()),
            },
            dynamism_code: table.shape_dynamism().0,
            allocation: table.allocation_info(),
            data_buffer_idx: table.data_buffer_idx(),
            extra,
            location_code: extra.map_or(0, |extra| extra.location().0),
            device: extra.map_or(DeviceTag::CPU, |extra| {
                DeviceTag::new(extra.device_type().0, extra.device_index())
            }),
        }
    }

    fn dynamism(&self) -> Dynamism {
        Dynamism::from_code(self.dynamism_code).unwrap_or_default()
    }
}

/// What the checks of a shape look at; the same for programs and tensor data files.
pub(super) struct Shape<'a> {
    pub(super) scalar_type_code: i8,
    pub(super) sizes: Option<List<'a, i32>>,
    pub(super) dim_order: Option<&'a [u8]>,
}
