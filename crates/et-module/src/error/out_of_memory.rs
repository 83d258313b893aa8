//! Which errors say that the host had not enough memory.

use super::Error;
use et_kernel::{KernelError, TableError, TensorError};
use et_memory::MemoryError;
use et_schema::ReadError;
use std::error::Error as StdError;

pub(super) fn memory(error: &MemoryError) -> bool {
    matches!(
        error,
        MemoryError::HostOutOfMemory { .. } | MemoryError::HostBuffer { .. }
    )
}

pub(super) fn tensor(error: &TensorError) -> bool {
    matches!(error, TensorError::Memory(error) if memory(error))
}

pub(super) fn kernel(error: &KernelError) -> bool {
    match error {
        // An arena without a limit ends where the host does.
        KernelError::Scratch(error) => error.limit.is_none(),
        KernelError::Memory(error) => memory(error),
        KernelError::Tensor(error) => tensor(error),
        KernelError::Other(cause) => any(&**cause),
        _ => false,
    }
}

pub(super) fn table(error: &TableError) -> bool {
    match error {
        TableError::Tensor(error) => tensor(error),
        TableError::Kernel(error) => kernel(error),
        _ => false,
    }
}

pub(super) fn read(error: &ReadError) -> bool {
    matches!(error, ReadError::OutOfMemory(_))
}

/// A backend's or operator's own error: a nested program's, or one of these.
pub(super) fn any(error: &(dyn StdError + 'static)) -> bool {
    if let Some(nested) = error.downcast_ref::<Error>() {
        return nested.is_host_out_of_memory();
    }
    error.downcast_ref().is_some_and(memory)
        || error.downcast_ref().is_some_and(tensor)
        || error.downcast_ref().is_some_and(kernel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_device::Alignment;
    use et_kernel::BackendError;
    use et_memory::Arena;

    fn scratch(arena: Arena) -> KernelError {
        let error = arena.allocate(usize::MAX / 2, Alignment::ONE);
        KernelError::from(error.unwrap_err())
    }

    #[test]
    fn the_host_is_told_from_a_limit_wherever_it_happened() {
        let host = || MemoryError::HostOutOfMemory { nbytes: 1 };
        assert!(Error::from(host()).is_host_out_of_memory());
        assert!(Error::from(TensorError::from(host())).is_host_out_of_memory());
        assert!(kernel(&scratch(Arena::new())));
        assert!(!kernel(&scratch(Arena::bounded(8).unwrap())));
        let limit = MemoryError::ArenaLimit {
            nbytes: 2,
            limit: 1,
        };
        assert!(!Error::from(limit).is_host_out_of_memory());
        let nested = BackendError::other(Error::from(host()));
        let error: Error = crate::ErrorKind::Backend(nested).into();
        assert!(error.is_host_out_of_memory());
    }
}
