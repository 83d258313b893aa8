//! Checks of allocation, and of what is said about devices.

use core::fmt;
use std::string::String;
use std::vec::Vec;

use super::block::{Block, devices, index, pattern, request};
use crate::{Alignment, Device, DeviceAllocator, DeviceError};

/// Sizes around the powers of two that allocators round to.
const SIZES: &[u64] = &[
    1,
    2,
    3,
    7,
    255,
    256,
    257,
    511,
    512,
    513,
    4095,
    4096,
    4097,
    65_535,
    65_537,
    1 << 20,
];

/// The device type is not the CPU's, and does not change.
pub fn the_devices_are_no_host_memory(allocator: &dyn DeviceAllocator) {
    let device_type = allocator.device_type();
    assert!(!device_type.is_cpu());
    assert_eq!(allocator.device_type(), device_type);
}

/// At least one device can be counted, and each has a name without line ends or NULs.
pub fn there_is_a_device(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let mut name = String::new();
        allocator.describe(index, &mut name).expect("a name");
        assert!(!name.is_empty() && !name.contains(['\0', '\n']), "{name:?}");
    }
}

/// A writer that is full is no failure of the device.
pub fn a_name_may_be_cut_short(allocator: &dyn DeviceAllocator) {
    struct Full;
    impl fmt::Write for Full {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            Err(fmt::Error)
        }
    }
    for index in devices(allocator) {
        assert_eq!(allocator.describe(index, &mut Full), Ok(()));
    }
}

/// A span is exactly as long as asked for.
pub fn blocks_of_every_size_have_that_size(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        for &nbytes in SIZES {
            let block = Block::new(allocator, index, nbytes);
            assert_eq!(block.span().len(), nbytes);
        }
    }
}

/// Every alignment up to [`Alignment::DEVICE`] is honoured; a stricter one is honoured or refused.
pub fn b_59_blocks_are_aligned_as_asked_for(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        for shift in 0..=16 {
            let alignment = Alignment::new(1 << shift).expect("a power of two");
            // Several at once, so that the first is not aligned by luck alone.
            let blocks: Vec<_> = [100, 1, 333]
                .into_iter()
                .map(|nbytes| Block::aligned(allocator, index, nbytes, alignment))
                .collect();
            for block in blocks {
                match block {
                    Ok(block) => assert!(block.span().base().is_aligned(alignment)),
                    Err(error) => {
                        assert!(alignment > Alignment::DEVICE, "{error}");
                        assert_eq!(error, refusal(allocator, alignment));
                    }
                }
            }
        }
    }
}

fn refusal(allocator: &dyn DeviceAllocator, requested: Alignment) -> DeviceError {
    DeviceError::UnsupportedAlignment {
        device_type: allocator.device_type(),
        requested,
    }
}

/// An alignment that no device has room for is an error.
pub fn impossible_alignments_are_refused(allocator: &dyn DeviceAllocator) {
    let alignment = Alignment::new(1 << 63).expect("a power of two");
    for index in devices(allocator) {
        for nbytes in [u64::MAX, 1 << 63] {
            let request = request(index, nbytes).aligned_to(alignment);
            assert!(allocator.allocate(&request).is_err());
        }
        Block::new(allocator, index, 64);
    }
}

/// Blocks that live at the same time share no byte, also when others were freed between them.
pub fn live_blocks_do_not_overlap(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let mut blocks: Vec<Block<'_>> = Vec::new();
        for round in 0..200_u64 {
            blocks.push(Block::new(allocator, index, 1 + round * 37 % 1000));
            if round % 3 == 2 {
                blocks.swap_remove((round * 7) as usize % blocks.len());
            }
        }
        for (position, block) in blocks.iter().enumerate() {
            let others = blocks.iter().skip(position + 1);
            for other in others {
                assert!(!block.span().overlaps(other.span()), "{:?}", block.span());
            }
        }
    }
}

/// What was written stays until the block is freed, whatever happens to other blocks.
pub fn blocks_keep_their_bytes_while_others_come_and_go(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let mut kept = Block::new(allocator, index, 5000);
        kept.write(0, &pattern(5000, 1));
        for round in 0..32 {
            let mut other = Block::new(allocator, index, 100 + 333 * u64::from(round));
            let all = other.span().len();
            other.fill(0, all, round);
        }
        assert_eq!(kept.read(), pattern(5000, 1));
    }
}

/// Twice the memory that is free can be had in the course of time. Only where the allocator tells how much is free.
pub fn freed_memory_is_used_again(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let Ok(info) = allocator.memory_info(index) else {
            continue;
        };
        let nbytes = (info.free / 8).max(1);
        for _ in 0..16 {
            Block::new(allocator, index, nbytes);
        }
    }
}

/// A request beyond any memory says so with the numbers, and the device works on.
pub fn too_much_memory_is_an_error_and_harms_nothing(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let before = Block::new(allocator, index, 64);
        for nbytes in [1 << 50, 1 << 62, u64::MAX - 4095, u64::MAX] {
            let error = allocator
                .allocate(&request(index, nbytes))
                .expect_err("more than there is");
            let DeviceError::OutOfMemory {
                device, requested, ..
            } = error
            else {
                panic!("{nbytes} bytes: {error}")
            };
            assert_eq!(device, Device::new(allocator.device_type(), index));
            assert_eq!(requested, nbytes);
        }
        let after = Block::new(allocator, index, 64);
        assert!(!before.span().overlaps(after.span()));
    }
}

/// An index beyond the devices is an error, and not the memory of another device.
pub fn b_44_a_device_that_is_not_there_is_an_error(allocator: &dyn DeviceAllocator) {
    let count = allocator
        .device_count()
        .expect("the devices can be counted");
    let Some(beyond) = u8::try_from(count).ok().filter(|&number| number <= 127) else {
        return;
    };
    let expected = |index| DeviceError::NoSuchDevice {
        device_type: allocator.device_type(),
        index,
        count,
    };
    for index in [index(beyond), index(127)] {
        let error = allocator
            .allocate(&request(index, 64))
            .expect_err("no such device");
        assert_eq!(error, expected(index));
        if let Err(error) = allocator.memory_info(index) {
            let unsupported = matches!(error, DeviceError::Unsupported { .. });
            assert!(unsupported || error == expected(index), "{error}");
        } else {
            panic!("device {index} has memory");
        }
    }
}

/// There is no more free memory than memory; an allocator that cannot tell says so.
pub fn memory_info_is_possible_or_refused(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        match allocator.memory_info(index) {
            Ok(info) => assert!(0 < info.total && info.free <= info.total, "{info:?}"),
            Err(error) => assert!(matches!(error, DeviceError::Unsupported { .. }), "{error}"),
        }
    }
}

/// With nothing to wait for, waiting ends.
pub fn waiting_for_an_idle_device_returns(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let mut block = Block::new(allocator, index, 64);
        block.fill(0, 64, 1);
        assert_eq!(allocator.synchronize(index), Ok(()));
    }
}
