//! Memory of the table's tensors that changes hands, and views that instructions make.

use et_device::DeviceAllocatorRegistry;

use super::{TableError, ValueTable};
use crate::{EValue, Environment, Tensor, ValueIndex};

impl ValueTable {
    /// Exchanges a tensor's own memory with that of `other`: the two must be of one element type, dimension order and device,
    /// each with room for the other's bound. The tensor takes the present shape of `other`. All views end; the contents of
    /// a tensor that was a view are lost unless [`settle`](Self::settle) was called.
    ///
    /// # Errors
    /// [`TableError::Tensor`]; [`TableError::Planned`] if the tensor lives in planned memory, which is never given away.
    pub fn exchange_memory(
        &mut self,
        index: ValueIndex,
        other: &mut Tensor,
    ) -> Result<(), TableError> {
        self.end_views();
        self.expect_unplanned(index)?;
        Ok(self.tensor_mut(index)?.exchange_memory(other)?)
    }

    /// Exchanges the memory of tensor `index` with that of tensor `other_index` of another table, under the same conditions.
    ///
    /// # Errors
    /// As [`exchange_memory`](Self::exchange_memory).
    pub fn exchange_between(
        &mut self,
        index: ValueIndex,
        other: &mut Self,
        other_index: ValueIndex,
    ) -> Result<(), TableError> {
        other.end_views();
        other.expect_unplanned(other_index)?;
        self.exchange_memory(index, other.tensor_mut(other_index)?)
    }

    /// Exchanges the memory of two tensors of this table, under the same conditions; `index` takes the shape of `other`.
    ///
    /// # Errors
    /// As [`exchange_memory`](Self::exchange_memory).
    pub fn exchange_within(
        &mut self,
        index: ValueIndex,
        other: ValueIndex,
    ) -> Result<(), TableError> {
        if index == other {
            return Ok(());
        }
        self.end_views();
        self.expect_unplanned(index)?;
        self.expect_unplanned(other)?;
        let pair = self
            .values
            .get_disjoint_mut([index.position(), other.position()]);
        match pair {
            Ok([EValue::Tensor(one), EValue::Tensor(two)]) => Ok(one.exchange_memory(two)?),
            // Both were found to be tensors just now.
            _ => Err(TableError::NotATensor { index }),
        }
    }

    /// Gives a tensor that is a view of other bytes a copy of these in its own memory.
    ///
    /// # Errors
    /// [`TableError::Tensor`]; nothing changes.
    pub fn settle(
        &mut self,
        index: ValueIndex,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<(), TableError> {
        Ok(self.tensor_mut(index)?.settle(registry)?)
    }

    /// Whether a tensor lives in planned memory.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn is_planned(&self, index: ValueIndex) -> Result<bool, TableError> {
        Ok(self.tensor(index)?.is_planned())
    }

    fn expect_unplanned(&self, index: ValueIndex) -> Result<(), TableError> {
        if self.tensor(index)?.is_planned() {
            return Err(TableError::Planned { index });
        }
        Ok(())
    }

    /// Gives tensor `to` the shape of tensor `from` and copies the bytes, wherever the two are.
    ///
    /// # Errors
    /// [`TableError::Kernel`]; `to` has its old shape then.
    pub fn copy_within(
        &mut self,
        to: ValueIndex,
        from: ValueIndex,
        environment: &Environment,
    ) -> Result<(), TableError> {
        let arguments = [to, from];
        let mut context = self.call(&arguments, None, environment)?;
        Ok(context.copy_argument()?)
    }

    /// Gives memory of its own to a tensor that has none: zeroed, on its device, with room for the bound.
    ///
    /// # Errors
    /// [`TableError::Tensor`].
    pub fn allocate_missing(
        &mut self,
        index: ValueIndex,
        registry: &DeviceAllocatorRegistry,
    ) -> Result<(), TableError> {
        let tensor = self.tensor_mut(index)?;
        if tensor.place().is_some() || tensor.is_planned() {
            return Ok(());
        }
        let mut fresh = Tensor::allocate(tensor.meta().clone(), registry)?;
        Ok(tensor.exchange_memory(&mut fresh)?)
    }

    /// `table[to] = table[from]`, as an instruction: a tensor becomes another name for the same bytes, anything else is copied.
    ///
    /// # Errors
    /// [`TableError::Kernel`] if `to` cannot be a view of `from`.
    pub fn assign(
        &mut self,
        to: ValueIndex,
        from: ValueIndex,
        environment: &Environment,
    ) -> Result<(), TableError> {
        if to == from {
            return Ok(());
        }
        match self.get(from)?.share() {
            Some(copy) => self.set(to, copy),
            None => {
                let arguments = [to, from];
                let mut context = self.call(&arguments, None, environment)?;
                Ok(context.assign_tensor()?)
            }
        }
    }

    /// Takes a tensor's memory away until the views end, as an instruction may ask.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn hide_memory(&mut self, index: ValueIndex) -> Result<(), TableError> {
        let tensor = self.tensor_mut(index)?;
        // What is hidden already, or a view, is known.
        let is_known = tensor.is_view();
        tensor.hide_memory();
        if !is_known {
            self.views.get_mut().push(index);
        }
        Ok(())
    }

    /// Ends the view that an instruction may have made of a tensor: it has its own memory again.
    ///
    /// # Errors
    /// As [`tensor`](Self::tensor).
    pub fn end_view_of(&mut self, index: ValueIndex) -> Result<(), TableError> {
        self.tensor_mut(index)?.end_view();
        Ok(())
    }

    /// Ends every view that instructions made: each tensor has its own memory again.
    pub fn end_views(&mut self) {
        for index in self.views.get_mut().drain(..) {
            if let Some(tensor) = self
                .values
                .get_mut(index.position())
                .and_then(EValue::as_tensor_mut)
            {
                tensor.end_view();
            }
        }
    }
}
