//! The CUDA allocator: device memory and copies on the NVIDIA driver that is found at run time.
//!
//! Linking this crate is enough to use CUDA devices by way of [`et_device`]'s registry:
//!
//! ```
//! use et_cuda as _; // one mention, so that the linker keeps it
//! use et_device::{DeviceType, get_device_allocator};
//!
//! assert!(get_device_allocator(DeviceType::CUDA).is_some()); // no driver was opened for this
//! ```
//!
//! The driver is opened at the first use of a device. If there is none, that use gives an error which says what was
//! looked for; nothing here panics for want of a driver, a symbol or a device. [`probe`] asks without using a device.
//!
//! The environment variable `ET_CUDA_DRIVER` names another library to use as the driver, by path or by a name that the
//! loader knows: for systems that keep the driver in an unusual place, and for tests with a stand-in. It concerns this crate
//! alone, so a program that uses CUDA by other ways as well should rather tell the loader where the driver is.
//!
//! Without the feature `cuda-13000` the driver is looked for without `cudarc`'s bindings, and everything works as with it:
//! for programs that use `cudarc` in another version, or link the driver.
//!
//! # What operations cost
//!
//! Calls of the driver, without questions about the thread's current context, a stream's context and an event's state:
//!
//! | operation | calls |
//! | --- | --- |
//! | `allocate` | an allocation from the pool, and a wait that makes it visible to every stream |
//! | `deallocate` | one free, queued; nothing is waited for |
//! | a synchronous copy or fill | the copy, and a wait for it |
//! | `allocate_on` | an allocation, and an event behind it, by which a free on another stream keeps behind it |
//! | `deallocate_on` | a wait of the stream for each event of the block, and a free |
//! | a copy on a stream | the copy |
//! | `upload`, `download` | the copy, and an event behind it; `wait` is one call more |
//! | `upload_staged` | per chunk a copy and an event |
//!
//! Events are used again rather than made and destroyed. In instructions, a copy adds about 200 to the bare call, an allocation
//! or a free about 500 (`cargo xtask overhead` measures it).
//!
//! # Devices and contexts
//!
//! [`CudaAllocator`] keeps, per device, the primary context, three streams of its own and a pool of memory. It leaves
//! every thread's current context as it found it. It knows nothing of tensors, operators or files.

mod allocator;
mod asynchronous;
mod blocks;
mod caller_stream;
mod context;
mod device;
mod driver;
mod event;
mod options;
mod own_stream;
mod pinned;
mod pool;
mod staging;
mod statistics;
mod stream;
mod transfer;

pub use allocator::CudaAllocator;
pub use caller_stream::{CallerStream, caller_stream};
pub use driver::{DriverError, DriverInfo, probe};
pub use event::CudaEvent;
pub use options::{CudaOptions, OutOfMemory};
pub use own_stream::CudaStream;
pub use pinned::PinnedBuffer;
pub use statistics::{CudaStatistics, Transfers};
pub use transfer::{RefusedTransfer, Transfer};

#[cfg(feature = "auto-register")]
static ALLOCATOR: CudaAllocator = CudaAllocator::new();

#[cfg(feature = "auto-register")]
impl CudaAllocator {
    /// The allocator that the process-wide registry has: to do with its blocks what the registry's interface does not
    /// offer, such as copies that run by themselves.
    pub fn global() -> &'static CudaAllocator {
        &ALLOCATOR
    }
}

#[cfg(feature = "auto-register")]
et_device::link_allocator!(et_device::DeviceType::CUDA, "et-cuda", &ALLOCATOR);
