//! Blocks that were not given back.

use std::fmt;

use et_device::{Device, DeviceSpan};

/// A block that was not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leak {
    /// The device.
    pub device: Device,
    /// Where it is.
    pub block: DeviceSpan,
    /// Which allocation made it, counted from 1 over all devices. The same program makes the same ones, so this finds
    /// the place in its trace.
    pub serial: u64,
}

/// Every block in use at some moment. Prints as a text for people: a line of totals, and a line for each block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeakReport(Vec<Leak>);

impl LeakReport {
    pub(crate) fn new(mut leaks: Vec<Leak>) -> Self {
        leaks.sort_by_key(|leak| leak.serial);
        Self(leaks)
    }

    /// The blocks, oldest first.
    pub fn leaks(&self) -> &[Leak] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All their bytes.
    pub fn nbytes(&self) -> u64 {
        self.0.iter().map(|leak| leak.block.len()).sum()
    }
}

impl fmt::Display for LeakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no block is in use");
        }
        let (count, nbytes) = (self.0.len(), self.nbytes());
        let (noun, verb) = if count == 1 {
            ("block", "is")
        } else {
            ("blocks", "are")
        };
        write!(f, "{count} {noun} of {nbytes} bytes {verb} in use:")?;
        for Leak {
            device,
            block,
            serial,
        } in &self.0
        {
            let (base, nbytes) = (block.base().get(), block.len());
            write!(
                f,
                "\n  {device} {base:#x}: {nbytes} bytes from allocation {serial}"
            )?;
        }
        Ok(())
    }
}
