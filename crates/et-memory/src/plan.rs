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
    /// `nbytes` bytes on `device`, with the usual alignment there. Host memory is [`Device::CPU`], whatever the index.
    pub const fn new(nbytes: u64, device: Device) -> Self {
        let (device, alignment) = if device.is_cpu() {
            (Device::CPU, Alignment::HOST)
        } else {
            (device, Alignment::DEVICE)
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
            if ours.device.shares_memory_with(theirs.device) {
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
            ours.device.shares_memory_with(theirs.device)
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
        let device = one_host(device);
        self.0.retain(|(known, _)| *known != device);
        self.0.push((device, nbytes));
        self
    }

    /// What is left when `plan` has taken its part; no less than nothing.
    #[must_use]
    pub fn after(mut self, plan: &MemoryPlan) -> Self {
        for (device, needed) in plan.needed_per_device() {
            if let Some((_, budget)) = self.0.iter_mut().find(|(known, _)| *known == device) {
                *budget = budget.saturating_sub(needed);
            }
        }
        self
    }

    /// How many bytes may be used on `device`; `None` without a limit.
    pub fn limit_on(&self, device: Device) -> Option<u64> {
        let device = one_host(device);
        let known = self.0.iter().find(|(known, _)| *known == device);
        known.map(|&(_, nbytes)| nbytes)
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

/// Host memory is one, whatever index names it.
const fn one_host(device: Device) -> Device {
    if device.is_cpu() { Device::CPU } else { device }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cuda(index: u8) -> Device {
        Device::cuda(index).unwrap()
    }

    fn plan(buffers: &[(u64, Device)]) -> MemoryPlan {
        MemoryPlan::new(
            buffers
                .iter()
                .map(|&(n, device)| BufferSpec::new(n, device)),
        )
    }

    #[test]
    fn b_59_buffers_are_aligned_for_where_they_are() {
        assert_eq!(BufferSpec::new(1, Device::CPU).alignment.get(), 64);
        let spec = BufferSpec::new(1, cuda(0));
        assert_eq!(spec.alignment.get(), 256);
        assert_eq!(spec.aligned_to(Alignment::ONE).alignment.get(), 256);
        assert_eq!(
            spec.aligned_to(Alignment::new(4096).unwrap())
                .alignment
                .get(),
            4096
        );
    }

    #[test]
    fn host_memory_is_counted_once_whatever_its_index() {
        let far = Device::from_raw(0, 3).unwrap();
        let plan = plan(&[(10, Device::CPU), (20, far)]);
        assert_eq!(plan.needed_per_device(), [(Device::CPU, 30)]);
        let budget = Budget::unlimited().limit(Device::CPU, 29);
        assert!(budget.check(&plan).is_err());
    }

    #[test]
    fn b_39_shared_plans_take_the_larger_size_on_the_same_device() {
        let (a, b) = (
            plan(&[(100, Device::CPU), (48, cuda(0)), (5, cuda(1))]),
            plan(&[
                (10, Device::CPU),
                (96, cuda(0)),
                (5, cuda(1)),
                (7, Device::CPU),
            ]),
        );
        let shared = a.clone().merge(&b);
        let expected = plan(&[
            (100, Device::CPU),
            (96, cuda(0)),
            (5, cuda(1)),
            (7, Device::CPU),
        ]);
        assert_eq!(shared, expected);
        assert!(shared.covers(&a) && shared.covers(&b));
        assert!(!a.covers(&b) && !b.covers(&a));
        // The order of the methods does not matter where they agree on devices.
        assert_eq!(b.merge(&a), shared);
    }

    #[test]
    fn b_39_a_method_that_disagrees_about_a_device_is_not_covered() {
        let (a, b) = (plan(&[(100, cuda(0))]), plan(&[(10, cuda(1))]));
        let shared = a.clone().merge(&b);
        assert_eq!(shared, a);
        assert!(shared.covers(&a) && !shared.covers(&b));
    }

    #[test]
    fn the_stricter_alignment_is_shared() {
        let strict = Alignment::new(4096).unwrap();
        let a = MemoryPlan::new([BufferSpec::new(1, cuda(0))]);
        let b = MemoryPlan::new([BufferSpec::new(1, cuda(0)).aligned_to(strict)]);
        assert!(!a.covers(&b));
        assert_eq!(a.merge(&b), b);
    }

    #[test]
    fn a_budget_is_per_device_and_the_last_word_counts() {
        let budget = Budget::unlimited().limit(cuda(0), 5).limit(cuda(0), 50);
        assert_eq!(
            budget.check(&plan(&[(20, cuda(0)), (30, cuda(0)), (1 << 60, cuda(1))])),
            Ok(())
        );
        let error = MemoryError::OverBudget {
            device: cuda(0),
            needed: 51,
            budget: 50,
        };
        assert_eq!(
            budget.check(&plan(&[(20, cuda(0)), (31, cuda(0))])),
            Err(error)
        );
    }

    #[test]
    fn a_limit_on_the_host_is_one_whatever_its_index() {
        let third = Device::new(
            et_device::DeviceType::CPU,
            et_device::DeviceIndex::new(3).unwrap(),
        );
        let budget = Budget::unlimited().limit(third, 5);
        assert_eq!(
            (budget.limit_on(Device::CPU), budget.limit_on(third)),
            (Some(5), Some(5))
        );
        assert!(budget.check(&plan(&[(6, Device::CPU)])).is_err());
    }

    proptest! {
        #[test]
        fn needs_are_what_u128_says_up_to_the_largest_number(sizes in proptest::collection::vec((any::<u64>(), 0..3u8), 0..12)) {
            let plan = MemoryPlan::new(sizes.iter().map(|&(n, index)| BufferSpec::new(n >> (index * 20), cuda(index))));
            let needed = plan.needed_per_device();
            for (device, nbytes) in &needed {
                let of_device = plan.buffers().iter().filter(|b| b.device == *device);
                let sum: u128 = of_device.map(|b| u128::from(b.nbytes)).sum();
                prop_assert_eq!(u128::from(*nbytes), sum.min(u128::from(u64::MAX)));
            }
            prop_assert!(plan.buffers().iter().all(|b| needed.iter().any(|(device, _)| *device == b.device)));
        }
    }
}
