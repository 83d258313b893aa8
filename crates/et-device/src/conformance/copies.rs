//! Checks of copies and fills.

use std::vec;
use std::vec::Vec;

use super::block::{Block, devices, pattern};
use crate::DeviceAllocator;

/// Around page sizes, and around the chunks in which the defaults of the contract copy.
const SIZES: &[usize] = &[1, 3, 255, 256, 4095, 4096, 4097, 8192, 12_289, 1 << 20];

/// What was written is read back, at every size and on every device.
pub fn the_bytes_make_the_round_trip(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        for (seed, &nbytes) in (1..).zip(SIZES) {
            let mut block = Block::new(allocator, index, nbytes as u64);
            block.write(0, &pattern(nbytes, seed));
            assert_eq!(block.read(), pattern(nbytes, seed), "{nbytes} bytes");
        }
    }
}

/// A copy to or from a part of a block leaves the rest alone, at odd offsets too.
pub fn copies_touch_the_named_part_only(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let mut block = Block::new(allocator, index, 5003);
        let mut expected = pattern(5003, 9);
        block.write(0, &expected);
        for (offset, nbytes) in [(0, 1), (1, 13), (777, 4099), (5002, 1)] {
            let bytes = pattern(nbytes, 200);
            block.write(offset as u64, &bytes);
            expected[offset..offset + nbytes].copy_from_slice(&bytes);
            assert_eq!(block.read(), expected);
            let part = block.read_part(offset as u64, nbytes as u64);
            assert_eq!(part, bytes);
        }
    }
}

/// Once a copy to the device has returned, its source may be overwritten.
pub fn the_source_may_change_once_a_copy_returns(allocator: &dyn DeviceAllocator) {
    const NBYTES: usize = 70_000;
    for index in devices(allocator) {
        let mut block = Block::new(allocator, index, NBYTES as u64);
        let mut source = vec![0; NBYTES];
        for seed in 0..20 {
            source.copy_from_slice(&pattern(NBYTES, seed));
            block.write(0, &source);
            source.fill(0xEE);
            assert_eq!(block.read(), pattern(NBYTES, seed));
        }
    }
}

/// A fill sets every byte of its part, and no other.
pub fn fills_touch_the_named_part_only(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        for &nbytes in SIZES {
            let mut block = Block::new(allocator, index, nbytes as u64);
            block.fill(0, nbytes as u64, 0xC3);
            let mut expected = vec![0xC3; nbytes];
            assert_eq!(block.read(), expected);
            let (from, to) = (nbytes / 3, nbytes - nbytes / 5);
            if from < to {
                block.fill(from as u64, (to - from) as u64, 0);
                expected[from..to].fill(0);
                assert_eq!(block.read(), expected);
            }
        }
    }
}

/// A copy within a device moves the named bytes, at every size, and no other.
pub fn device_to_device_copies_stay_in_their_parts(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        for &nbytes in SIZES {
            let mut src = Block::new(allocator, index, nbytes as u64 + 2);
            src.write(0, &pattern(nbytes + 2, 5));
            let mut dst = Block::new(allocator, index, nbytes as u64 + 4);
            dst.fill(0, nbytes as u64 + 4, 0x11);
            dst.copy_from(3, &src, 1, nbytes as u64);
            let mut expected = vec![0x11; nbytes + 4];
            expected[3..3 + nbytes].copy_from_slice(&pattern(nbytes + 2, 5)[1..=nbytes]);
            assert_eq!(dst.read(), expected);
            assert_eq!(src.read(), pattern(nbytes + 2, 5));
        }
    }
}

/// Copies between every two of the first four devices. A machine with one device has nothing to check here.
pub fn copies_between_devices_reach_the_named_device(allocator: &dyn DeviceAllocator) {
    let indices: Vec<_> = devices(allocator).take(4).collect();
    for &from in &indices {
        for &to in indices.iter().filter(|&&to| to != from) {
            for nbytes in [1, 4097, 100_000] {
                let mut src = Block::new(allocator, from, nbytes as u64);
                let mut dst = Block::new(allocator, to, nbytes as u64);
                src.write(0, &pattern(nbytes, from.get() + 40));
                dst.fill(0, nbytes as u64, 0);
                dst.copy_from(0, &src, 0, nbytes as u64);
                assert_eq!(dst.read(), pattern(nbytes, from.get() + 40));
            }
        }
    }
}

/// Each device keeps bytes of its own: the index says which.
pub fn r_da_02_an_index_names_the_device_side(allocator: &dyn DeviceAllocator) {
    let mut blocks: Vec<_> = devices(allocator)
        .map(|index| Block::new(allocator, index, 300))
        .collect();
    for block in &mut blocks {
        block.write(0, &pattern(300, block.index.get()));
    }
    for block in &blocks {
        assert_eq!(block.read(), pattern(300, block.index.get()));
    }
}
