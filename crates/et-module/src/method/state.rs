//! What a method keeps from run to run: named tensors, initial contents, shared arenas.

use et_kernel::{Tensor, ValueIndex};

use super::Method;
use crate::Error;
use crate::error::ErrorKind;
use crate::load::Arenas;

impl Method {
    /// The tensor named `name`: state that the method keeps, or a constant from outside of the program.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchAttribute`].
    pub fn attribute(&self, name: &str) -> Result<&Tensor, Error> {
        Ok(self.table.tensor(self.attribute_index(name)?)?)
    }

    /// Gives the state named `name` the shape and contents of `tensor`, from wherever that is.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchAttribute`], [`ErrorKind::InProgress`]; [`ErrorKind::Table`] for a constant, or a tensor of another
    /// type or shape.
    pub fn set_attribute(&mut self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        let value = self.free_attribute(name)?;
        let copied = self
            .table
            .end_view_of(value)
            .and_then(|()| self.table.copy_from(value, tensor));
        copied.map_err(|error| self.attribute_error(value, error.into()))
    }

    /// Exchanges the memory of the state named `name` with that of `tensor`, without a copy. Only for state without a plan.
    ///
    /// # Errors
    /// As [`set_attribute`](Self::set_attribute), and if the state lives in planned memory.
    pub fn exchange_attribute(&mut self, name: &str, tensor: &mut Tensor) -> Result<(), Error> {
        let value = self.free_attribute(name)?;
        self.exchange(value, tensor)
    }

    fn free_attribute(&self, name: &str) -> Result<ValueIndex, Error> {
        let value = self.attribute_index(name)?;
        if self.in_progress() {
            return Err(Error::from(ErrorKind::InProgress).in_method(self.meta.name()));
        }
        Ok(value)
    }

    fn attribute_index(&self, name: &str) -> Result<ValueIndex, Error> {
        let missing = || ErrorKind::NoSuchAttribute {
            name: name.to_owned(),
            available: self
                .meta
                .attribute_names()
                .map(|(_, name)| name.to_owned())
                .collect(),
        };
        let found = self
            .meta
            .attribute_names()
            .find(|(_, known)| *known == name);
        match found {
            Some((value, _)) => Ok(value),
            None => Err(Error::from(missing()).in_method(self.meta.name())),
        }
    }

    fn attribute_error(&self, value: ValueIndex, error: Error) -> Error {
        error.at_value(value.0).in_method(self.meta.name())
    }

    /// Puts all state back to what it was when the method was loaded, in shared arenas that of every method. Inputs must be set
    /// again.
    ///
    /// # Errors
    /// If the initial state cannot be read again, or a device fails.
    pub fn reset_state(&mut self) -> Result<(), Error> {
        self.reset_execution();
        self.reset_values()
            .map_err(|error| error.in_method(self.meta.name()))
    }

    fn reset_values(&mut self) -> Result<(), Error> {
        self.is_half_reset = true;
        for input in &mut self.inputs {
            input.is_set = false;
        }
        self.table.end_views();
        self.table.zero_planned()?;
        if let Some(slots) = &mut self.initialised {
            // What other methods keep in shared arenas is loaded again when they get these.
            slots.clear();
        }
        for position in 0..self.table.len() {
            let value = ValueIndex(u32::try_from(position).unwrap_or(u32::MAX));
            if self.table.meta(value).is_some() {
                self.table.zero_owned(value)?;
            }
        }
        self.load_initial()?;
        for loaded in &mut self.steps.delegates {
            loaded.delegate.reset_state().map_err(ErrorKind::Kernel)?;
        }
        self.is_half_reset = false;
        Ok(())
    }

    /// Loads every initial content that is not where it belongs.
    fn load_initial(&mut self) -> Result<(), Error> {
        for initial in &self.initial {
            initial.load(&mut self.table, self.meta.program(), &mut self.initialised)?;
        }
        Ok(())
    }

    /// Gives the arenas away that the method shares with others.
    pub(crate) fn detach(&mut self) -> Result<Arenas, Error> {
        if self.in_progress() {
            return Err(Error::from(ErrorKind::InProgress).in_method(self.meta.name()));
        }
        let initialised = self.initialised.clone().unwrap_or_default();
        Ok(Arenas {
            memory: self.table.detach_memory()?,
            initialised,
        })
    }

    /// Takes shared arenas, if they are elsewhere. State whose initial contents are not there yet gets these. If that fails the arenas
    /// must be taken away again, since the next attempt goes on from there.
    pub(crate) fn attach(&mut self, arenas: Arenas) -> Result<(), Error> {
        self.table.attach_memory(arenas.memory)?;
        self.initialised = Some(arenas.initialised);
        self.load_initial()
    }

    /// Whether the planned memory is shared with other methods.
    pub(crate) fn shares_arenas(&self) -> bool {
        self.initialised.is_some()
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.table.is_attached()
    }
}
