//! What a run gave.

use et_kernel::{EValue, Tensor, TensorError, ValueIndex};

use super::Method;
use crate::error::ErrorKind;
use crate::{Error, Value};

impl Method {
    /// Output `index`, as the last run left it. It stays until inputs are set or the next run begins.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`].
    pub fn output(&self, index: usize) -> Result<&EValue, Error> {
        Ok(self.table.get(self.output_index(index)?)?)
    }

    /// Output `index`, which is a tensor (on whatever device it is).
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`], [`ErrorKind::Table`] if it is something else.
    pub fn output_tensor(&self, index: usize) -> Result<&Tensor, Error> {
        Ok(self.table.tensor(self.output_index(index)?)?)
    }

    /// A copy of output `index`, on the host. For a tensor on a device this is one copy from there, behind which the run's work
    /// is done.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`]; [`ErrorKind::Output`] if it has no memory, as before the first run, or the device fails.
    pub fn output_to_host(&self, index: usize) -> Result<Value, Error> {
        self.copy_output(index, |tensor| tensor.to_host())
    }

    /// A copy of output `index`, on the device where it is.
    ///
    /// # Errors
    /// As [`output_to_host`](Self::output_to_host).
    pub fn output_where_it_is(&self, index: usize) -> Result<Value, Error> {
        self.copy_output(index, |tensor| {
            tensor.to_device(tensor.device(), &self.environment.devices)
        })
    }

    fn copy_output(
        &self,
        index: usize,
        copy: impl FnOnce(&Tensor) -> Result<Tensor, TensorError>,
    ) -> Result<Value, Error> {
        Ok(match self.output(index)? {
            EValue::Tensor(tensor) => {
                let copied = copy(tensor).map_err(|error| self.output_error(index, error));
                Value::Tensor(copied?)
            }
            EValue::None => Value::None,
            EValue::Int(value) => Value::Int(*value),
            EValue::Double(value) => Value::Double(*value),
            EValue::Bool(value) => Value::Bool(*value),
            EValue::Str(text) => Value::Str(text.as_ref().to_owned()),
            other => {
                return Err(ErrorKind::NotSupported {
                    what: format!("an output that is a {}", other.kind()),
                }
                .into());
            }
        })
    }

    /// Gives `tensor` the shape of output `index` and copies its bytes there, wherever the two are: one copy, and no new block of
    /// memory. For a tensor on the host the run's work is done behind it.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchOutput`]; [`ErrorKind::Output`] if the output has no memory yet, is another type of tensor or larger than `tensor` may
    /// become, which is as before then; or the device's.
    pub fn output_into(&self, index: usize, tensor: &mut Tensor) -> Result<(), Error> {
        let output = self.output_tensor(index)?;
        let copied = tensor.copy_from(output);
        copied.map_err(|error| self.output_error(index, error))
    }

    fn output_error(&self, index: usize, error: TensorError) -> Error {
        let source = error;
        let error = Error::from(ErrorKind::Output { index, source });
        let error = match self.outputs.get(index) {
            Some(value) => error.at_value(value.0),
            None => error,
        };
        error.in_method(self.meta.name())
    }

    pub(super) fn output_index(&self, index: usize) -> Result<ValueIndex, Error> {
        let missing = ErrorKind::NoSuchOutput {
            index,
            count: self.outputs.len(),
        };
        self.outputs
            .get(index)
            .copied()
            .ok_or_else(|| Error::from(missing).in_method(self.meta.name()))
    }
}
