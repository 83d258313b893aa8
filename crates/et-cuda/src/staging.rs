//! A ring of pinned chunks through which pageable memory is copied while the host goes on.

use crate::context::{Context, Current};
use crate::event::{CudaEvent, Event};
use crate::pinned::{PinnedBuffer, PinnedKind};
use crate::stream::StreamId;
use et_device::DeviceError;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ring of a device, made at its first use.
pub(crate) struct Staging {
    ring: Mutex<Option<Ring>>,
    chunk: NonZeroUsize,
}

/// While the device empties the one chunk, the host fills the other.
struct Ring {
    chunks: [Chunk; 2],
    /// The one that is being filled.
    filling: usize,
}

struct Chunk {
    buffer: PinnedBuffer,
    /// Bytes that may be in use.
    filled: usize,
    /// Copies that use them.
    uses: Vec<Arc<Event>>,
}

/// Bytes of a chunk that were set aside for one copy.
#[derive(Clone, Copy)]
struct Piece {
    chunk: usize,
    start: usize,
    nbytes: usize,
}

/// A piece to which the device copies.
struct Copied {
    piece: Piece,
    /// Behind that copy.
    done: Arc<Event>,
}

impl Staging {
    pub(crate) fn new(chunk: NonZeroUsize) -> Self {
        Staging {
            ring: Mutex::new(None),
            chunk,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Ring>> {
        // A ring is fit for use after every statement: what is in use was noted before anything else could fail.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues copies of all of `src`, which may change as soon as this returns; the event is behind the last. After an
    /// error no copy is under way.
    ///
    /// # Safety
    /// `dst` starts `src.len()` bytes of live device memory that nothing else uses until the stream was waited for.
    pub(crate) unsafe fn upload(
        &self,
        context: &Arc<Context>,
        current: &Current<'_>,
        dst: u64,
        src: &[u8],
        stream: StreamId,
    ) -> Result<Option<Arc<Event>>, DeviceError> {
        let mut ring = self.lock();
        let ring = open(&mut ring, context, self.chunk)?;
        let (mut at, mut last) = (dst, None);
        let mut parts = src.chunks(self.chunk.get());
        let outcome = parts.try_for_each(|part| {
            let piece = ring.set_aside(current, part.len())?;
            let place = ring.write(piece, part);
            // SAFETY: the target by this function's contract; the piece is not used again before its event says so.
            unsafe { stream.copy_in(current, at, place, part.len())? };
            at += part.len() as u64;
            last = Some(ring.use_until(piece, context, current, stream)?);
            Ok(())
        });
        settled(outcome, current, stream)?;
        Ok(last)
    }

    /// Copies all of `dst` from the device, by way of the ring, and waits for it.
    ///
    /// # Safety
    /// `src` starts `dst.len()` bytes of live device memory that nothing writes meanwhile.
    pub(crate) unsafe fn download(
        &self,
        context: &Arc<Context>,
        current: &Current<'_>,
        dst: &mut [u8],
        src: u64,
        stream: StreamId,
    ) -> Result<(), DeviceError> {
        let mut ring = self.lock();
        let ring = open(&mut ring, context, self.chunk)?;
        let mut at = src;
        let mut behind: Option<(Copied, &mut [u8])> = None;
        let mut parts = dst.chunks_mut(self.chunk.get());
        let outcome = parts
            .try_for_each(|part| {
                let piece = ring.set_aside(current, part.len())?;
                // SAFETY: the source by this function's contract; the piece is not used before its event says so.
                unsafe { stream.copy_out(current, ring.place(piece), at, part.len())? };
                at += part.len() as u64;
                let done = ring.use_until(piece, context, current, stream)?;
                // The device works on this part while the host takes the one before.
                match behind.replace((Copied { piece, done }, part)) {
                    Some((copied, part)) => ring.take(current, &copied, part),
                    None => Ok(()),
                }
            })
            .and_then(|()| match behind.take() {
                Some((copied, part)) => ring.take(current, &copied, part),
                None => Ok(()),
            });
        settled(outcome, current, stream)
    }
}

/// The outcome; a failure only once no queued copy is left.
fn settled(
    outcome: Result<(), DeviceError>,
    current: &Current<'_>,
    stream: StreamId,
) -> Result<(), DeviceError> {
    outcome.inspect_err(|_| {
        // The error that brought us here is the one to report.
        let _ = stream.settle(current);
    })
}

/// The ring, made now if there is none.
fn open<'a>(
    slot: &'a mut Option<Ring>,
    context: &Arc<Context>,
    chunk: NonZeroUsize,
) -> Result<&'a mut Ring, DeviceError> {
    if slot.is_none() {
        let chunk = || -> Result<Chunk, DeviceError> {
            Ok(Chunk {
                buffer: PinnedBuffer::allocate(context, chunk.get(), PinnedKind::Cached)?,
                filled: 0,
                uses: Vec::new(),
            })
        };
        *slot = Some(Ring {
            chunks: [chunk()?, chunk()?],
            filling: 0,
        });
    }
    Ok(slot
        .as_mut()
        .expect("invariant: the ring was made just now"))
}

impl Ring {
    /// `nbytes` of the ring, at most a chunk, that no copy uses. Waits for copies if there are none.
    fn set_aside(&mut self, current: &Current<'_>, nbytes: usize) -> Result<Piece, DeviceError> {
        let chunk = &self.chunks[self.filling];
        if nbytes > chunk.buffer.len() - chunk.filled {
            let next = (self.filling + 1) % self.chunks.len();
            self.chunks[next].empty(current)?;
            self.filling = next;
        }
        let chunk = &mut self.chunks[self.filling];
        let start = chunk.filled;
        chunk.filled += nbytes;
        Ok(Piece {
            chunk: self.filling,
            start,
            nbytes,
        })
    }

    /// Where a piece is.
    fn place(&self, piece: Piece) -> *mut u8 {
        self.chunks[piece.chunk].buffer.at(piece.start)
    }

    /// Fills a piece that no copy uses yet.
    fn write(&mut self, piece: Piece, bytes: &[u8]) -> *mut u8 {
        let place = self.place(piece);
        debug_assert_eq!(bytes.len(), piece.nbytes);
        // SAFETY: set aside with this length, and no copy uses it; host memory of others is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        place
    }

    /// Keeps a piece until `stream` has done what is queued.
    fn use_until(
        &mut self,
        piece: Piece,
        context: &Arc<Context>,
        current: &Current<'_>,
        stream: StreamId,
    ) -> Result<Arc<Event>, DeviceError> {
        let event = Arc::new(Event::record(context, current, stream)?);
        let uses = &mut self.chunks[piece.chunk].uses;
        if uses.len() == uses.capacity() {
            uses.retain(|event| !event.is_done(current).unwrap_or(false));
        }
        uses.push(Arc::clone(&event));
        Ok(event)
    }

    /// Waits for the copy to a piece, and for no other, and takes its bytes.
    fn take(
        &self,
        current: &Current<'_>,
        copied: &Copied,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        copied.done.wait(current)?;
        debug_assert_eq!(to.len(), copied.piece.nbytes);
        let place = self.place(copied.piece);
        // SAFETY: set aside with this length; the copy to it is done, as its event was waited for.
        unsafe { std::ptr::copy_nonoverlapping(place, to.as_mut_ptr(), to.len()) };
        Ok(())
    }
}

impl Chunk {
    /// Makes all of it free. Waits for the copies that use it.
    fn empty(&mut self, current: &Current<'_>) -> Result<(), DeviceError> {
        for event in &self.uses {
            event.wait(current)?;
        }
        self.uses.clear();
        self.filled = 0;
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for chunk in &mut self.chunks {
            let uses = std::mem::take(&mut chunk.uses);
            let done = uses.into_iter().all(|event| CudaEvent(event).settle());
            if !done || chunk.buffer.context().is_poisoned() {
                // A copy may still use the memory, so it stays: an empty buffer takes its place and is dropped.
                let nothing = PinnedBuffer::empty(chunk.buffer.context());
                std::mem::forget(std::mem::replace(&mut chunk.buffer, nothing));
            }
        }
    }
}
