//! Tensors that go from run to run and from method to method where they are, and buffers that are bound once.

use et_kernel::{TableError, Tensor, ValueIndex};

use super::Method;
use crate::Error;
use crate::error::ErrorKind;

/// How a tensor got from an output to an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handover {
    /// Output and input exchanged their memory; no byte moved.
    Exchanged,
    /// The bytes were copied: one of the two lives in planned memory, or has no room for the other's largest shape.
    Copied,
}

impl Method {
    /// Exchanges the memory of input `index` with that of `tensor`, without a copy: the input then is the tensor, and the tensor
    /// holds what the input was. Only for inputs without a plan; on whatever device they are.
    ///
    /// # Errors
    /// As [`set_input`](Self::set_input); [`ErrorKind::Table`] if the input lives in planned memory, or the two do not fit.
    pub fn exchange_input(&mut self, index: usize, tensor: &mut Tensor) -> Result<(), Error> {
        let value = self.free_input(index)?;
        self.exchange(value, tensor)?;
        self.inputs[index].is_set = true;
        Ok(())
    }

    /// Exchanges the memory of output `index` with that of `tensor`, without a copy: the tensor then is the output of the run
    /// before, and the next run writes to what the tensor was. Only for outputs without a plan.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`], and as [`exchange_input`](Self::exchange_input).
    pub fn exchange_output(&mut self, index: usize, tensor: &mut Tensor) -> Result<(), Error> {
        let value = self.free_output(index)?;
        self.exchange(value, tensor)
    }

    pub(super) fn exchange(&mut self, value: ValueIndex, tensor: &mut Tensor) -> Result<(), Error> {
        let name = self.meta.name();
        let failed = |error: TableError| Error::from(error).at_value(value.0).in_method(name);
        let registry = &self.environment.devices;
        // A view of the last run ends with the memory that it was of.
        self.table.end_view_of(value).map_err(failed)?;
        self.table
            .allocate_missing(value, registry)
            .map_err(failed)?;
        self.table.exchange_memory(value, tensor).map_err(failed)
    }

    /// Makes output `output` of the run before the input `input` of the next one, on whatever device it is. If neither has a plan
    /// they exchange their memory, so that two blocks serve any number of runs; else this is one copy from device to device.
    /// After an exchange the output holds what the input was, until the next run: read it before.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`], [`ErrorKind::NoSuchInput`], [`ErrorKind::InProgress`]; [`ErrorKind::Table`] if the two are of
    /// different type or shape; or the device's.
    pub fn feed_back(&mut self, output: usize, input: usize) -> Result<Handover, Error> {
        let (from, to) = (self.free_output(output)?, self.free_input(input)?);
        let fed = self.feed(from, to);
        let how = fed.map_err(|error| {
            Error::from(error)
                .at_value(to.0)
                .in_method(self.meta.name())
        })?;
        self.inputs[input].is_set = true;
        Ok(how)
    }

    fn feed(&mut self, from: ValueIndex, to: ValueIndex) -> Result<Handover, TableError> {
        let registry = &self.environment.devices;
        if from == to {
            return Ok(Handover::Exchanged);
        }
        self.table.end_view_of(to)?;
        if !self.table.is_planned(from)? && !self.table.is_planned(to)? {
            let exchanged = self.table.exchange_within(to, from);
            if exchanged.is_ok() || !does_not_fit(&exchanged) {
                return exchanged.map(|()| Handover::Exchanged);
            }
        }
        self.table.allocate_missing(to, registry)?;
        self.table.copy_within(to, from, &self.environment)?;
        Ok(Handover::Copied)
    }

    /// Makes output `output` of the run before the input `input` of another method; see [`feed_back`](Self::feed_back).
    ///
    /// # Errors
    /// As [`feed_back`](Self::feed_back).
    pub fn hand_over(
        &mut self,
        output: usize,
        to: &mut Self,
        input: usize,
    ) -> Result<Handover, Error> {
        let (from, target) = (self.free_output(output)?, to.free_input(input)?);
        let given = self.give(from, to, target);
        let how = given.map_err(|error| {
            Error::from(error)
                .at_value(target.0)
                .in_method(to.meta.name())
        })?;
        to.inputs[input].is_set = true;
        Ok(how)
    }

    fn give(
        &mut self,
        from: ValueIndex,
        to: &mut Self,
        target: ValueIndex,
    ) -> Result<Handover, TableError> {
        let registry = &to.environment.devices;
        to.table.end_view_of(target)?;
        if !self.table.is_planned(from)? && !to.table.is_planned(target)? {
            let exchanged = to.table.exchange_between(target, &mut self.table, from);
            if exchanged.is_ok() || !does_not_fit(&exchanged) {
                return exchanged.map(|()| Handover::Exchanged);
            }
        }
        to.table.allocate_missing(target, registry)?;
        to.table.copy_from(target, self.table.tensor(from)?)?;
        Ok(Handover::Copied)
    }

    /// Waits until all work is done that runs of this method have queued on its devices. Copies to the host wait by themselves; this
    /// is for reading time, and for others who use the same memory.
    ///
    /// # Errors
    /// A failure of the queued work, or the device's.
    pub fn synchronize(&self) -> Result<(), Error> {
        for device in &self.devices {
            let required = self.environment.devices.require(*device);
            let done = required.and_then(|allocator| allocator.synchronize(device.index()));
            done.map_err(|error| Error::from(error).in_method(self.meta.name()))?;
        }
        Ok(())
    }

    /// The value of an output whose memory may be changed now. Outputs that are views get bytes of their own, since views end when
    /// memory is exchanged.
    fn free_output(&mut self, index: usize) -> Result<ValueIndex, Error> {
        let value = self.output_index(index)?;
        if self.in_progress() {
            return Err(Error::from(ErrorKind::InProgress).in_method(self.meta.name()));
        }
        for &output in &self.outputs {
            if self.table.meta(output).is_some() {
                let settled = self.table.settle(output, &self.environment.devices);
                settled.map_err(|error| {
                    Error::from(error)
                        .at_value(output.0)
                        .in_method(self.meta.name())
                })?;
            }
        }
        Ok(value)
    }
}

/// Whether two tensors could not exchange their memory because of what they are.
fn does_not_fit(exchanged: &Result<(), TableError>) -> bool {
    matches!(
        exchanged,
        Err(TableError::Tensor(et_kernel::TensorError::Unlike { .. }))
    )
}
