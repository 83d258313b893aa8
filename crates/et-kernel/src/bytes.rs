//! Read-only bytes that many may hold: a file's, a segment's, a constant's.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// A part of some bytes that are kept alive by whoever holds a part of them. Cheap to clone and to cut.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedBytes {
    /// All bytes of `owner`. What it gives must stay the same from call to call.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        let range = 0..owner.as_ref().len();
        Self {
            owner: Arc::new(owner),
            range,
        }
    }

    /// The part `range` of these bytes, if it is inside them.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        self.get(range.clone())?;
        // `get` proved both sums to be at most this part's end.
        let start = self.range.start + range.start;
        Some(Self {
            owner: Arc::clone(&self.owner),
            range: start..start + range.len(),
        })
    }

    /// What keeps the bytes alive.
    pub fn owner(&self) -> Arc<dyn AsRef<[u8]> + Send + Sync> {
        Arc::clone(&self.owner)
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // An owner that shrank gives nothing rather than a panic.
        (*self.owner)
            .as_ref()
            .get(self.range.clone())
            .unwrap_or(&[])
    }
}

impl AsRef<[u8]> for SharedBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({} bytes)", self.range.len())
    }
}
