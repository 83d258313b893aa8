//! Moves data through a device in pieces: while one piece is copied back, the next is on its way there.
//!
//! Two pinned buffers take turns; a transfer owns its buffer while the copy runs, and gives it back when it is done. What a
//! program would compute stands between the two streams as a copy on the device.
//!
//! ```text
//! cargo run -p et-cuda --example pipeline
//! ```
#![allow(clippy::print_stdout, reason = "an example prints what it found out")]

use et_cuda::{CudaAllocator, CudaStream, PinnedBuffer, Transfer};
use et_device::{
    AllocationRequest, DeviceAllocator, DeviceError, DeviceIndex, DeviceSpan, DeviceToDevice,
};
use std::num::NonZeroU64;

const INDEX: DeviceIndex = DeviceIndex::ZERO;
const PIECE: usize = 1 << 20;
const PIECES: usize = 16;

fn main() -> Result<(), DeviceError> {
    let cuda = CudaAllocator::new();
    let (load, work) = (cuda.create_stream(INDEX)?, cuda.create_stream(INDEX)?);
    let data: Vec<u8> = (0..PIECE * PIECES).map(|i| (i / 7) as u8).collect();
    let mut spare: Vec<PinnedBuffer> = vec![cuda.pinned(INDEX, PIECE)?, cuda.pinned(INDEX, PIECE)?];
    let mut back = Vec::with_capacity(data.len());
    let mut under_way: Option<Transfer> = None;

    for piece in data.chunks(PIECE) {
        let mut buffer = match spare.pop() {
            Some(buffer) => buffer,
            None => cuda.pinned(INDEX, piece.len())?,
        };
        buffer[..piece.len()].copy_from_slice(piece);
        let down = through(&cuda, &load, &work, buffer)?;
        // The piece before this one has had the time of this one's way up.
        if let Some(before) = under_way.replace(down) {
            spare.push(take(before, &mut back)?);
        }
    }
    if let Some(last) = under_way {
        take(last, &mut back)?;
    }
    let statistics = cuda.statistics(INDEX)?;
    println!(
        "{} bytes there and back, {}; {} copies up, {} on the device, {} down; {} bytes pinned",
        back.len(),
        if back == data {
            "unchanged"
        } else {
            "and not the same"
        },
        statistics.host_to_device.count,
        statistics.device_to_device.count,
        statistics.device_to_host.count,
        statistics.pinned_bytes,
    );
    Ok(())
}

fn block(cuda: &CudaAllocator, stream: &CudaStream) -> Result<DeviceSpan, DeviceError> {
    let nbytes = NonZeroU64::new(PIECE as u64).unwrap_or(NonZeroU64::MIN);
    // SAFETY: the stream is live.
    unsafe { cuda.allocate_on(&AllocationRequest::new(INDEX, nbytes), stream.handle()) }
}

/// Queues a piece's way up, its work and its way down. The blocks are given back before any of that has happened.
fn through(
    cuda: &CudaAllocator,
    load: &CudaStream,
    work: &CudaStream,
    buffer: PinnedBuffer,
) -> Result<Transfer, DeviceError> {
    let (source, result) = (block(cuda, load)?, block(cuda, work)?);
    // SAFETY: the block is live, its only other use comes behind this one, and the stream is live.
    let up = unsafe { cuda.upload(INDEX, source, buffer, 0, load.handle())? };
    work.wait_for(up.event())?;
    let copy = DeviceToDevice::new((INDEX, result), (INDEX, source))?;
    // SAFETY: both blocks are live, and this stream is behind the copy up and before the copy down.
    unsafe { cuda.copy_device_to_device_on(copy, work.handle())? };
    // SAFETY: the stream is live, and all other work on the block is before what is queued on it.
    unsafe { cuda.deallocate_on(source, INDEX, work.handle())? };
    let buffer = up.wait()?;
    // SAFETY: as for the upload.
    let down = unsafe { cuda.download(INDEX, buffer, 0, result, work.handle())? };
    // SAFETY: as for the other block.
    unsafe { cuda.deallocate_on(result, INDEX, work.handle())? };
    Ok(down)
}

/// Waits for a piece and takes its bytes; the buffer is free again.
fn take(down: Transfer, back: &mut Vec<u8>) -> Result<PinnedBuffer, DeviceError> {
    let buffer = down.wait()?;
    back.extend_from_slice(&buffer);
    Ok(buffer)
}
