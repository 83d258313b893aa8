//! Checks with several threads.

use std::thread;
use std::vec::Vec;

use super::block::{Block, devices, pattern};
use crate::DeviceAllocator;

const THREADS: u8 = 8;
const ROUNDS: u8 = 50;

/// Threads that allocate, copy and free at once each find what they wrote.
pub fn threads_do_not_disturb_each_other(allocator: &dyn DeviceAllocator) {
    let indices: Vec<_> = devices(allocator).collect();
    let work = |number: u8| {
        let index = indices[usize::from(number) % indices.len()];
        for round in 0..ROUNDS {
            let nbytes = 1 + usize::from(number) * 97 + usize::from(round) * 31;
            let mut block = Block::new(allocator, index, nbytes as u64);
            let bytes = pattern(nbytes, number ^ round.rotate_left(4));
            block.write(0, &bytes);
            thread::yield_now();
            assert_eq!(block.read(), bytes);
        }
    };
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || work(number));
        }
    });
}

/// A block may be used and freed on another thread than it came from.
pub fn blocks_may_be_freed_on_other_threads(allocator: &dyn DeviceAllocator) {
    for index in devices(allocator) {
        let mut block = Block::new(allocator, index, 1000);
        block.write(0, &pattern(1000, 3));
        thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(block.read(), pattern(1000, 3));
                drop(block);
            });
        });
        let made_elsewhere = thread::scope(|scope| {
            let made = scope.spawn(|| Block::new(allocator, index, 1000));
            made.join().expect("the other thread ends well")
        });
        assert_eq!(made_elsewhere.span().len(), 1000);
    }
}
