//! The contract's default methods, on an allocator that has only what it must.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use et_device::{
    AllocationRequest, Device, DeviceAllocator, DeviceError, DeviceIndex, DevicePtr, DeviceSpan,
    DeviceToHost, DeviceType, HostToDevice, StreamHandle, conformance,
};

const DEVICES: u8 = 2;
const LIMIT: u64 = 1 << 40;

/// Two devices that are maps from made-up addresses to bytes.
#[derive(Default)]
struct Minimal {
    devices: [Mutex<Blocks>; DEVICES as usize],
    flaw: Option<Flaw>,
}

/// A promise that is broken.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    Unaligned,
    OverlappingBlocks,
    LongBlocks,
    AnyIndex,
    AnySize,
    ShortCopiesIn,
    ShortCopiesOut,
    WideCopiesIn,
    ForgetfulFree,
}

#[derive(Default)]
struct Blocks {
    next: u64,
    live: BTreeMap<u64, Vec<u8>>,
}

impl Blocks {
    /// The byte behind a part, if it is in the same block.
    fn behind(&self, span: DeviceSpan) -> Option<DeviceSpan> {
        let (base, bytes) = self.live.range(..=span.base().get()).next_back()?;
        let inside = span.end() < base + bytes.len() as u64;
        let next = DevicePtr::new(span.end()).filter(|_| inside)?;
        DeviceSpan::new(next, 1).ok()
    }

    fn part(&mut self, span: DeviceSpan) -> &mut [u8] {
        let (base, bytes) = self
            .live
            .range_mut(..=span.base().get())
            .next_back()
            .unwrap();
        let start = usize::try_from(span.base().get() - base).unwrap();
        &mut bytes[start..][..usize::try_from(span.len()).unwrap()]
    }
}

impl Minimal {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn device(&self, index: DeviceIndex) -> Result<&Mutex<Blocks>, DeviceError> {
        if self.has(Flaw::AnyIndex) {
            return Ok(&self.devices[0]);
        }
        let missing = DeviceError::NoSuchDevice {
            device_type: self.device_type(),
            index,
            count: u32::from(DEVICES),
        };
        self.devices.get(usize::from(index.get())).ok_or(missing)
    }
}

// SAFETY: every block is a vector of its own, at an address that is never used again; accesses are checked against it.
unsafe impl DeviceAllocator for Minimal {
    fn device_type(&self) -> DeviceType {
        DeviceType::from_raw(7).unwrap()
    }

    fn device_count(&self) -> Result<u32, DeviceError> {
        Ok(u32::from(DEVICES))
    }

    fn allocate(&self, request: &AllocationRequest) -> Result<DeviceSpan, DeviceError> {
        let mut blocks = self.device(request.index)?.lock().unwrap();
        let nbytes = request.nbytes.get();
        let free = blocks.next + 1;
        let base = if self.has(Flaw::Unaligned) {
            Some(free)
        } else {
            request.alignment.round_up(free)
        };
        let claimed = nbytes.saturating_add(u64::from(self.has(Flaw::LongBlocks)));
        let span = base
            .filter(|_| nbytes < LIMIT)
            .and_then(DevicePtr::new)
            .and_then(|base| DeviceSpan::new(base, claimed).ok());
        let span = span.ok_or(DeviceError::OutOfMemory {
            device: Device::new(self.device_type(), request.index),
            requested: if self.has(Flaw::AnySize) { 0 } else { nbytes },
            free: LIMIT,
            total: LIMIT,
        })?;
        blocks.next = if self.has(Flaw::OverlappingBlocks) {
            span.base().get()
        } else {
            span.end()
        };
        let bytes = vec![0xA5; usize::try_from(claimed).unwrap()];
        blocks.live.insert(span.base().get(), bytes);
        Ok(span)
    }

    unsafe fn deallocate(&self, block: DeviceSpan, index: DeviceIndex) -> Result<(), DeviceError> {
        let mut blocks = self.device(index)?.lock().unwrap();
        let unknown = DeviceError::UnknownBlock {
            device: Device::new(self.device_type(), index),
            address: block.base(),
        };
        blocks.live.remove(&block.base().get()).ok_or(unknown)?;
        if self.has(Flaw::ForgetfulFree) {
            blocks.live.values_mut().for_each(|bytes| bytes.fill(0));
        }
        Ok(())
    }

    unsafe fn copy_host_to_device(&self, copy: HostToDevice<'_>) -> Result<(), DeviceError> {
        let mut blocks = self.device(copy.index)?.lock().unwrap();
        let behind = blocks.behind(copy.dst);
        let kept = copy.src.len() - usize::from(self.has(Flaw::ShortCopiesIn));
        blocks.part(copy.dst)[..kept].copy_from_slice(&copy.src[..kept]);
        if let Some(next) = behind.filter(|_| self.has(Flaw::WideCopiesIn)) {
            blocks.part(next).fill(0);
        }
        Ok(())
    }

    unsafe fn copy_device_to_host(&self, copy: DeviceToHost<'_>) -> Result<(), DeviceError> {
        let mut blocks = self.device(copy.index)?.lock().unwrap();
        let kept = copy.dst.len() - usize::from(self.has(Flaw::ShortCopiesOut));
        copy.dst[..kept].copy_from_slice(&blocks.part(copy.src)[..kept]);
        Ok(())
    }
}

/// The defaults wait for the whole device, so they take any handle.
fn any_stream(_: &Minimal, _: DeviceIndex) -> StreamHandle {
    StreamHandle::from_raw(u64::MAX)
}

conformance::tests!(Minimal::default, any_stream);

#[test]
fn every_check_is_in_the_table_once() {
    let names: Vec<_> = conformance::CHECKS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), 22);
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    assert_eq!(conformance::STREAM_CHECKS.len(), 3);
    for (_, check) in conformance::CHECKS {
        check(&Minimal::default());
    }
}

/// Checks that an allocator with the flaw fails the check of that name.
#[track_caller]
fn check_noticed(flaw: Flaw, name: &str) {
    let (_, check) = conformance::CHECKS
        .iter()
        .find(|(known, _)| *known == name)
        .unwrap();
    let flawed = Minimal {
        flaw: Some(flaw),
        ..Minimal::default()
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| check(&flawed)));
    assert!(outcome.is_err(), "{name} passes a flawed allocator");
}

#[test]
fn every_flaw_is_noticed() {
    check_noticed(Flaw::Unaligned, "b_59_blocks_are_aligned_as_asked_for");
    check_noticed(Flaw::OverlappingBlocks, "live_blocks_do_not_overlap");
    check_noticed(Flaw::LongBlocks, "blocks_of_every_size_have_that_size");
    check_noticed(
        Flaw::AnyIndex,
        "b_44_a_device_that_is_not_there_is_an_error",
    );
    check_noticed(
        Flaw::AnySize,
        "too_much_memory_is_an_error_and_harms_nothing",
    );
    check_noticed(Flaw::ShortCopiesIn, "the_bytes_make_the_round_trip");
    check_noticed(Flaw::ShortCopiesOut, "the_bytes_make_the_round_trip");
    check_noticed(Flaw::WideCopiesIn, "copies_touch_the_named_part_only");
    check_noticed(
        Flaw::ForgetfulFree,
        "blocks_keep_their_bytes_while_others_come_and_go",
    );
}
