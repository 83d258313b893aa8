//! What planned memory a method needs, before any of it is allocated.

use alloc::vec::Vec;

use et_device::{Alignment, Device};

use crate::MemoryError;

/// One planned buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferSpec {
    /// Its size.
    pub nbytes: u64,
    /// Where it is.
    pub device: Device,
    /// What its address must be a multiple of.
    pub alignment: Alignment,
}

impl BufferSpec {
    /// `nbytes` bytes on `device`, with the usual alignment there.
    pub const fn new(nbytes: u64, device: Device) -> Self {
        let alignment = if device.is_cpu() {
            Alignment::HOST
        } else {
            Alignment::DEVICE
        };
        Self {
            nbytes,
            device,
            alignment,
        }
    }

    /// The same, aligned to `alignment` at least.
    #[must_use]
    pub fn aligned_to(mut self, alignment: Alignment) -> Self {
        self.alignment = self.alignment.max(alignment);
        self
    }
}

/// A method's planned buffers, in file order: the first is memory id 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    buffers: Vec<BufferSpec>,
}

impl MemoryPlan {
    /// A plan of these buffers.
    pub fn new(buffers: impl IntoIterator<Item = BufferSpec>) -> Self {
        Self {
            buffers: buffers.into_iter().collect(),
        }
    }

    /// The buffers; entry 0 is memory id 1.
    pub fn buffers(&self) -> &[BufferSpec] {
        &self.buffers
    }

    /// A plan that can serve both: as many buffers as the longer, each as large and as aligned as either wants. Where the two
    /// want different devices for a buffer, this one's stays; see [`covers`](Self::covers).
    #[must_use]
    pub fn merge(mut self, other: &Self) -> Self {
        for (ours, theirs) in self.buffers.iter_mut().zip(&other.buffers) {
            if ours.device == theirs.device {
                ours.nbytes = ours.nbytes.max(theirs.nbytes);
                ours.alignment = ours.alignment.max(theirs.alignment);
            }
        }
        self.buffers
            .extend(other.buffers.iter().skip(self.buffers.len()).copied());
        self
    }

    /// Whether buffers made for this plan can be used for `other`.
    pub fn covers(&self, other: &Self) -> bool {
        let fits = |(ours, theirs): (&BufferSpec, &BufferSpec)| {
            ours.device == theirs.device
                && ours.nbytes >= theirs.nbytes
                && ours.alignment >= theirs.alignment
        };
        self.buffers.len() >= other.buffers.len()
            && self.buffers.iter().zip(&other.buffers).all(fits)
    }

    /// The devices used, each once, in order of first use, with the bytes needed there (saturating).
    pub fn needed_per_device(&self) -> Vec<(Device, u64)> {
        let mut needed: Vec<(Device, u64)> = Vec::new();
        for buffer in &self.buffers {
            match needed
                .iter_mut()
                .find(|(device, _)| *device == buffer.device)
            {
                Some((_, sum)) => *sum = sum.saturating_add(buffer.nbytes),
                None => needed.push((buffer.device, buffer.nbytes)),
            }
        }
        needed
    }
}

/// How many bytes of planned memory may be used, per device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget(Vec<(Device, u64)>);

impl Budget {
    /// No limit anywhere.
    pub const fn unlimited() -> Self {
        Self(Vec::new())
    }

    /// Allows `nbytes` bytes on `device`. Devices that are never mentioned have no limit.
    #[must_use]
    pub fn limit(mut self, device: Device, nbytes: u64) -> Self {
        self.0.retain(|(known, _)| *known != device);
        self.0.push((device, nbytes));
        self
    }

    /// Whether `plan` stays inside the limits.
    ///
    /// # Errors
    /// [`MemoryError::OverBudget`] for the first device where it does not.
    pub fn check(&self, plan: &MemoryPlan) -> Result<(), MemoryError> {
        for (device, needed) in plan.needed_per_device() {
            if let Some(&(_, budget)) = self.0.iter().find(|(known, _)| *known == device)
                && needed > budget
            {
                return Err(MemoryError::OverBudget {
                    device,
                    needed,
                    budget,
                });
            }
        }
        Ok(())
    }
}
