//! The memory of one method.

use crate::{Arena, PlannedMemory};

/// What a method runs in: its planned buffers, and scratch memory that is reset after every instruction.
///
/// What the C++ runtime calls the method allocator (tables built at load) is the ordinary heap here.
#[derive(Debug, Default)]
pub struct MemoryManager {
    /// Where planned values live.
    pub planned: PlannedMemory,
    /// Where kernels get scratch memory.
    pub temp: Arena,
}

impl MemoryManager {
    /// A method's memory, with an empty arena that grows at need.
    pub fn new(planned: PlannedMemory) -> Self {
        Self {
            planned,
            temp: Arena::new(),
        }
    }

    /// Whether some planned buffer is not in host memory.
    pub fn has_device_memory(&self) -> bool {
        self.planned.has_device_memory()
    }
}
