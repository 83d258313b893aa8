//! What every allocator must pass: the contract of [`DeviceAllocator`] as tests. Feature `conformance`.
//!
//! [`tests!`] makes a test of each check. Its argument is something to call that gives a fresh allocator; a second one,
//! if there is one, gives a stream of a device, and adds the checks of the stream-ordered methods. The checks are
//! [functions](CHECKS), for runners of other kinds. They use every device there is, write at most a few MiB at a time, and
//! keep to the contract themselves, so they are as safe as the allocator is.
//!
//! Each check panics if the allocator fails it. An allocator without a device fails all of them: whether to run the suite
//! at all on a machine is the caller's decision.
//!
//! ```ignore
//! mod suite {
//!     fn allocator() -> MyAllocator {
//!         MyAllocator::new()
//!     }
//!     et_device::conformance::tests!(allocator);
//! }
//! ```

mod block;
mod copies;
mod memory;
mod streams;
mod threads;

use crate::{DeviceAllocator, DeviceIndex, StreamHandle};

pub use crate::conformance_tests as tests;
pub use copies::{
    copies_between_devices_reach_the_named_device, copies_touch_the_named_part_only,
    device_to_device_copies_stay_in_their_parts, fills_touch_the_named_part_only,
    r_da_02_an_index_names_the_device_side, the_bytes_make_the_round_trip,
    the_source_may_change_once_a_copy_returns,
};
pub use memory::{
    a_name_may_be_cut_short, b_44_a_device_that_is_not_there_is_an_error,
    b_59_blocks_are_aligned_as_asked_for, blocks_keep_their_bytes_while_others_come_and_go,
    blocks_of_every_size_have_that_size, freed_memory_is_used_again,
    impossible_alignments_are_refused, live_blocks_do_not_overlap,
    memory_info_is_possible_or_refused, the_devices_are_no_host_memory, there_is_a_device,
    too_much_memory_is_an_error_and_harms_nothing, waiting_for_an_idle_device_returns,
};
pub use streams::{
    b_21_work_on_a_stream_is_done_in_order, stream_ordered_copies_are_done_after_waiting,
    stream_ordered_frees_let_earlier_work_finish,
};
pub use threads::{blocks_may_be_freed_on_other_threads, threads_do_not_disturb_each_other};

/// A check of one promise.
pub type Check = fn(&dyn DeviceAllocator);

/// A check of one promise about streams. The second argument gives a live stream of a device.
pub type StreamCheck = fn(&dyn DeviceAllocator, &dyn Fn(DeviceIndex) -> StreamHandle);

/// Every check with its name.
pub const CHECKS: &[(&str, Check)] = tests!(@with table []);

/// Every check of the stream-ordered methods with its name.
pub const STREAM_CHECKS: &[(&str, StreamCheck)] = tests!(@with_streams table []);

/// Makes a test of each check: `tests!(make)` or `tests!(make, stream)`; `tests!(streams only: make, stream)` for the
/// stream-ordered methods with one more kind of stream.
///
/// `make()` gives an allocator that nobody else uses. `stream(&allocator, index)` gives a [`StreamHandle`] of device `index`
/// that lives at least until the test ends.
#[macro_export]
macro_rules! conformance_tests {
    (streams only: $make:expr, $stream:expr) => {
        $crate::conformance_tests!(@with_streams tests [$make, $stream]);
    };
    ($make:expr) => {
        $crate::conformance_tests!(@with tests [$make]);
    };
    ($make:expr, $stream:expr) => {
        $crate::conformance_tests!(@with tests [$make]);
        $crate::conformance_tests!(@with_streams tests [$make, $stream]);
    };
    (@with $what:ident $with:tt) => {
        $crate::conformance_tests! { @$what $with
            a_name_may_be_cut_short
            b_44_a_device_that_is_not_there_is_an_error
            b_59_blocks_are_aligned_as_asked_for
            blocks_keep_their_bytes_while_others_come_and_go
            blocks_may_be_freed_on_other_threads
            blocks_of_every_size_have_that_size
            copies_between_devices_reach_the_named_device
            copies_touch_the_named_part_only
            device_to_device_copies_stay_in_their_parts
            fills_touch_the_named_part_only
            freed_memory_is_used_again
            impossible_alignments_are_refused
            live_blocks_do_not_overlap
            memory_info_is_possible_or_refused
            r_da_02_an_index_names_the_device_side
            the_bytes_make_the_round_trip
            the_devices_are_no_host_memory
            the_source_may_change_once_a_copy_returns
            there_is_a_device
            threads_do_not_disturb_each_other
            too_much_memory_is_an_error_and_harms_nothing
            waiting_for_an_idle_device_returns
        }
    };
    (@with_streams $what:ident $with:tt) => {
        $crate::conformance_tests! { @$what $with
            b_21_work_on_a_stream_is_done_in_order
            stream_ordered_copies_are_done_after_waiting
            stream_ordered_frees_let_earlier_work_finish
        }
    };
    (@table [] $($name:ident)*) => {
        &[$((stringify!($name), $name)),*]
    };
    (@tests [$make:expr] $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let allocator = ($make)();
                $crate::conformance::$name(&allocator);
            }
        )*
    };
    (@tests [$make:expr, $stream:expr] $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let allocator = ($make)();
                $crate::conformance::$name(&allocator, &|index| ($stream)(&allocator, index));
            }
        )*
    };
}
