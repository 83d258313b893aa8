//! The stream on which a thread wants copies to happen.

use crate::own_stream::CudaStream;
use et_device::{DeviceIndex, StreamHandle};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

thread_local! {
    /// The streams of this thread's guards, in the order in which those were made.
    static SELECTED: RefCell<Vec<Selected>> = const { RefCell::new(Vec::new()) };
    static LAST_NUMBER: Cell<u64> = const { Cell::new(0) };
}

#[derive(Clone, Copy)]
struct Selected {
    number: u64,
    index: DeviceIndex,
    stream: StreamHandle,
}

/// While this lives, synchronous copies and fills that this thread makes on a device happen on a stream of the
/// caller's: behind what is queued there. They are complete when they return, as always. A copy between two devices comes
/// behind the streams that are selected for either.
///
/// Made by [`select_stream`](crate::CudaAllocator::select_stream) or [`CudaStream::select`], for one device; guards for other devices are independent of it. A
/// later guard for the same device counts until it is dropped, and then the earlier one again. Other threads are not
/// concerned, and a guard cannot go to one:
///
/// ```compile_fail,E0277
/// fn elsewhere(guard: et_cuda::CallerStream) {
///     std::thread::spawn(move || drop(guard));
/// }
/// ```
#[derive(Debug)]
#[must_use = "the stream is selected as long as the guard lives"]
pub struct CallerStream {
    number: u64,
    /// Lives as long as the guard. A stream of somebody else does so by that one's word.
    own: Option<CudaStream>,
    /// Belongs to the thread whose copies it concerns.
    thread_bound: PhantomData<*const ()>,
}

impl CallerStream {
    /// Selects a stream that is known to belong to the device.
    pub(crate) fn select(index: DeviceIndex, stream: StreamHandle) -> Self {
        let number = LAST_NUMBER.get() + 1;
        LAST_NUMBER.set(number);
        SELECTED.with_borrow_mut(|all| {
            all.push(Selected {
                number,
                index,
                stream,
            });
        });
        CallerStream {
            number,
            own: None,
            thread_bound: PhantomData,
        }
    }

    /// Selects a stream that the guard keeps.
    pub(crate) fn select_own(stream: CudaStream) -> Self {
        let mut guard = Self::select(stream.device().index(), stream.handle());
        guard.own = Some(stream);
        guard
    }
}

impl Drop for CallerStream {
    fn drop(&mut self) {
        // At the end of the thread the list may be gone, and then nobody asks it any more.
        let _ = SELECTED.try_with(|all| all.borrow_mut().retain(|s| s.number != self.number));
    }
}

/// The stream that a [`CallerStream`] guard of the calling thread selected for a device, if there is one. Handle 0 is
/// the NULL stream, which can be selected like any other.
///
/// Delegates ask this to queue their work where the caller wants it.
pub fn caller_stream(index: DeviceIndex) -> Option<StreamHandle> {
    let last = |all: &RefCell<Vec<Selected>>| {
        let all = all.borrow();
        let found = all.iter().rev().find(|s| s.index == index);
        found.map(|s| s.stream)
    };
    SELECTED.try_with(last).ok().flatten()
}
