//! What planned tensors hold when a method is loaded.

use std::ops::Range;

use et_kernel::{SharedBytes, ValueIndex, ValueTable};

use crate::load::InitialisedSlots;
use crate::{Error, Program};

/// What a planned tensor holds when the method is loaded.
pub(crate) struct Initial {
    pub(crate) value: ValueIndex,
    /// Its place in planned memory: buffer and offset.
    pub(crate) slot: (u32, u64),
    pub(crate) bytes: InitialBytes,
}

pub(crate) enum InitialBytes {
    /// Read from the program each time.
    Segment { segment: u32, part: Range<u64> },
    /// From a data file.
    Owned(SharedBytes),
}

impl Initial {
    /// Puts the bytes where they belong, unless `initialised` says that they are there already.
    pub(crate) fn load(
        &self,
        table: &mut ValueTable,
        program: &Program,
        initialised: &mut Option<InitialisedSlots>,
    ) -> Result<(), Error> {
        if initialised
            .as_ref()
            .is_some_and(|slots| slots.contains(&self.slot))
        {
            return Ok(());
        }
        let bytes = match &self.bytes {
            InitialBytes::Segment { segment, part } => {
                program.segment_part(*segment, part.clone())?
            }
            InitialBytes::Owned(bytes) => bytes.clone(),
        };
        let nbytes = table.meta(self.value).map_or(0, |meta| meta.bound_nbytes());
        let bytes = bytes.get(..nbytes).unwrap_or(&bytes);
        table.write_bytes(self.value, bytes)?;
        if let Some(slots) = initialised {
            slots.insert(self.slot);
        }
        Ok(())
    }
}
