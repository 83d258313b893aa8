//! The memory of one simulated device.

use std::collections::BTreeMap;

use crate::Leak;
use et_device::{Alignment, Device, DeviceError, DevicePtr, DeviceSpan};

/// The first address of device 0.
///
/// Bits 48 to 63 are not all alike, so no address of the host looks so on a machine with 48-bit addresses or with 57-bit
/// ones. Where the hardware ignores the top byte, bit 55 says that it belongs to the system.
const BASE: u64 = 0x5180_0000_0000_0000;
/// Addresses per device. They are never used twice; this is enough for centuries of use.
const WINDOW: u64 = 1 << 48;
/// Bytes between two blocks that belong to neither, so that an overrun hits nothing.
const GAP: u64 = 4096;
/// What fresh memory holds.
pub(crate) const POISON: u8 = 0xA5;

/// The live blocks of one device. Addresses are never used twice, so a stale one hits nothing.
#[derive(Debug)]
pub(crate) struct Memory {
    device: Device,
    next: u64,
    end: u64,
    capacity: u64,
    used: u64,
    blocks: BTreeMap<u64, Block>,
}

#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    serial: u64,
}

impl Memory {
    pub(crate) fn new(device: Device, capacity: u64) -> Self {
        let first = BASE + u64::from(device.index().get()) * WINDOW;
        Self {
            device,
            next: first,
            end: first + WINDOW,
            capacity,
            used: 0,
            blocks: BTreeMap::new(),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn free(&self) -> u64 {
        self.capacity - self.used
    }

    pub(crate) fn allocate(
        &mut self,
        nbytes: u64,
        alignment: Alignment,
        serial: u64,
    ) -> Result<DeviceSpan, DeviceError> {
        let full = self.out_of_memory(nbytes);
        if nbytes > self.free() {
            return Err(full);
        }
        let base = alignment.round_up(self.next).ok_or(full)?;
        let next = base
            .checked_add(nbytes)
            .and_then(|end| end.checked_add(GAP))
            .filter(|&end| end <= self.end);
        let next = next.ok_or(full)?;
        let len = usize::try_from(nbytes).map_err(|_| full)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len).map_err(|_| full)?;
        bytes.resize(len, POISON);
        let span = DeviceSpan::new(DevicePtr::new(base).ok_or(full)?, nbytes)?;
        self.blocks.insert(base, Block { bytes, serial });
        self.next = next;
        self.used += nbytes;
        Ok(span)
    }

    /// Removes the block that is exactly `span`.
    pub(crate) fn deallocate(&mut self, span: DeviceSpan) -> Result<(), DeviceError> {
        let base = span.base().get();
        let known = self.blocks.get(&base);
        if known.is_none_or(|block| block.bytes.len() as u64 != span.len()) {
            return Err(DeviceError::UnknownBlock {
                device: self.device,
                address: span.base(),
            });
        }
        self.blocks.remove(&base);
        self.used -= span.len();
        Ok(())
    }

    /// The bytes of `span`, which must all be in one live block.
    pub(crate) fn bytes(&self, span: DeviceSpan) -> Result<&[u8], DeviceError> {
        let outside = self.outside(span);
        let (base, block) = self
            .blocks
            .range(..=span.base().get())
            .next_back()
            .ok_or(outside)?;
        let start = usize::try_from(span.base().get() - base).map_err(|_| outside)?;
        let len = usize::try_from(span.len()).map_err(|_| outside)?;
        start
            .checked_add(len)
            .and_then(|end| block.bytes.get(start..end))
            .ok_or(outside)
    }

    pub(crate) fn bytes_mut(&mut self, span: DeviceSpan) -> Result<&mut [u8], DeviceError> {
        let outside = self.outside(span);
        let (base, block) = self
            .blocks
            .range_mut(..=span.base().get())
            .next_back()
            .ok_or(outside)?;
        let start = usize::try_from(span.base().get() - base).map_err(|_| outside)?;
        let len = usize::try_from(span.len()).map_err(|_| outside)?;
        start
            .checked_add(len)
            .and_then(|end| block.bytes.get_mut(start..end))
            .ok_or(outside)
    }

    pub(crate) fn leaks(&self) -> impl Iterator<Item = Leak> {
        self.blocks
            .iter()
            .filter_map(|(&base, Block { bytes, serial })| {
                let block = DeviceSpan::new(DevicePtr::new(base)?, bytes.len() as u64).ok()?;
                Some(Leak {
                    device: self.device,
                    block,
                    serial: *serial,
                })
            })
    }

    pub(crate) fn out_of_memory(&self, requested: u64) -> DeviceError {
        DeviceError::OutOfMemory {
            device: self.device,
            requested,
            free: self.free(),
            total: self.capacity,
        }
    }

    fn outside(&self, span: DeviceSpan) -> DeviceError {
        DeviceError::OutOfBounds {
            device: self.device,
            address: span.base(),
            nbytes: span.len(),
        }
    }
}
