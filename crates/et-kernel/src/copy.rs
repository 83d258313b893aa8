//! Copies between places, on whatever devices these are.
#![expect(
    unsafe_code,
    reason = "bytes move between raw places; the functions say what their callers vouch for"
)]

use std::slice;

use et_device::{
    AllocatorHandle, Device, DeviceError, DeviceIndex, DeviceSpan, DeviceToDevice, DeviceToHost,
    HostToDevice, LengthMismatch,
};
use et_memory::{HostSpan, Place};

use crate::{Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorMeta};

/// Bytes that go through the host at a time when two devices have no allocator in common.
const STAGING: u64 = 64 * 1024;

/// Where bytes are, together with the allocator that they are from if that is a device: nobody else can reach them.
#[derive(Clone, Copy, Debug)]
pub enum Located<'a> {
    /// In host memory.
    Host(HostSpan),
    /// On a device.
    Device(&'a AllocatorHandle, DeviceIndex, DeviceSpan),
}

impl<'a> Located<'a> {
    /// `place`, which is a device's memory only if there is an `allocator`.
    pub(crate) fn new(place: Place, allocator: Option<&'a AllocatorHandle>) -> Option<Self> {
        match (place, allocator) {
            (Place::Host(span), _) => Some(Self::Host(span)),
            (Place::Device(device, span), Some(allocator)) => {
                Some(Self::Device(allocator, device.index(), span))
            }
            (Place::Device(..), None) => None,
        }
    }

    /// The device and the bytes.
    pub fn place(self) -> Place {
        match self {
            Self::Host(span) => Place::Host(span),
            Self::Device(allocator, index, span) => {
                Place::Device(Device::new(allocator.device_type(), index), span)
            }
        }
    }

    /// The allocator, of memory on a device.
    pub fn allocator(self) -> Option<&'a AllocatorHandle> {
        match self {
            Self::Host(_) => None,
            Self::Device(allocator, ..) => Some(allocator),
        }
    }

    /// In bytes.
    pub fn nbytes(self) -> u64 {
        self.place().nbytes()
    }

    /// Whether the two are certainly the same bytes.
    pub fn is_same(self, other: Self) -> bool {
        self.is_of_same(other) && self.place() == other.place()
    }

    /// Whether the two may have a byte in common. Equal addresses of different allocators are different bytes.
    pub fn overlaps(self, other: Self) -> bool {
        self.is_of_same(other) && self.place().overlaps(&other.place())
    }

    /// Whether both are on the host, or blocks of one allocator.
    fn is_of_same(self, other: Self) -> bool {
        match (self.allocator(), other.allocator()) {
            (Some(one), Some(two)) => one.is_same(two),
            (one, two) => one.is_none() && two.is_none(),
        }
    }

    /// The first `nbytes` bytes, if there are so many.
    pub(crate) fn first(self, nbytes: u64) -> Option<Self> {
        Self::new(self.place().subplace(0, nbytes)?, self.allocator())
    }
}

/// Copies all bytes of `from` to `to`, which are equally long: one call of one allocator, if one of them reaches both.
/// 0 bytes are no call.
///
/// # Errors
/// [`DeviceError::Length`] if they are not equally long, or an allocator's.
///
/// # Safety
/// Both are live memory, on a device of the allocator that is named; nobody writes `from` or uses `to` meanwhile. On the host
/// they may overlap, on a device not.
pub unsafe fn copy_located(to: Located<'_>, from: Located<'_>) -> Result<(), DeviceError> {
    let (dst, src) = (to.nbytes(), from.nbytes());
    if dst != src {
        return Err(LengthMismatch { dst, src }.into());
    }
    if dst == 0 {
        return Ok(());
    }
    match (to, from) {
        (Located::Host(to), Located::Host(from)) => {
            // SAFETY: both are live and equally long by the caller's word and the check above.
            unsafe { std::ptr::copy(from.base().as_ptr(), to.base().as_ptr(), from.len()) };
            Ok(())
        }
        (Located::Device(allocator, index, to), Located::Host(from)) => {
            // SAFETY: live, initialised and not written meanwhile, by the caller's word.
            let bytes = unsafe { slice::from_raw_parts(from.base().as_ptr(), from.len()) };
            let copy = HostToDevice::new(index, to, bytes)?;
            // SAFETY: the caller vouches for `to` and for whose it is.
            unsafe { allocator.copy_host_to_device(copy) }
        }
        (Located::Host(to), Located::Device(allocator, index, from)) => {
            // SAFETY: live, initialised and used by nobody else meanwhile, by the caller's word.
            let bytes = unsafe { slice::from_raw_parts_mut(to.base().as_ptr(), to.len()) };
            let copy = DeviceToHost::new(index, bytes, from)?;
            // SAFETY: the caller vouches for `from` and for whose it is.
            unsafe { allocator.copy_device_to_host(copy) }
        }
        (Located::Device(one, to_index, to), Located::Device(two, from_index, from)) => {
            if !one.is_same(two) {
                // SAFETY: passed on to the caller.
                return unsafe { through_host((one, to_index, to), (two, from_index, from)) };
            }
            let copy = DeviceToDevice::new((to_index, to), (from_index, from))?;
            // SAFETY: the caller vouches for both, and that they are apart.
            unsafe { one.copy_device_to_device(copy) }
        }
    }
}

/// # Safety
/// As [`copy_located`].
unsafe fn through_host(
    (to_allocator, to_index, to): (&AllocatorHandle, DeviceIndex, DeviceSpan),
    (from_allocator, from_index, from): (&AllocatorHandle, DeviceIndex, DeviceSpan),
) -> Result<(), DeviceError> {
    let mut staging = vec![0u8; to.len().min(STAGING) as usize];
    let mut offset = 0;
    while offset < to.len() {
        let len = (to.len() - offset).min(STAGING);
        let part = Located::Host(HostSpan::of_mut(&mut staging[..len as usize]));
        let source = Located::Device(from_allocator, from_index, from.subspan(offset, len)?);
        let target = Located::Device(to_allocator, to_index, to.subspan(offset, len)?);
        // SAFETY: `part` is ours; the rest is passed on to the caller.
        unsafe { copy_located(part, source)? };
        // SAFETY: as above.
        unsafe { copy_located(target, part)? };
        offset += len;
    }
    Ok(())
}

/// The device-generic copy operators. They work on any device that the method's registry has an allocator for.
pub const COPY_KERNELS: &[Kernel] = &[
    Kernel::new(
        "et_copy::_h2d_copy.out",
        ScalarTypeSet::REAL_AND_BOOL,
        host_to_device,
    ),
    Kernel::new(
        "et_copy::_d2h_copy.out",
        ScalarTypeSet::REAL_AND_BOOL,
        device_to_host,
    ),
];

/// `_h2d_copy(self, out)`: from the host to a device. An `out` on the host (a program placed on the CPU) is a plain copy.
fn host_to_device(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    copy_operator(
        context,
        |from, _| from.device().is_cpu(),
        "an _h2d_copy must read host memory",
    )
}

/// `_d2h_copy(self, out)`: from a device to the host.
fn device_to_host(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    copy_operator(
        context,
        |_, to| to.device().is_cpu(),
        "a _d2h_copy must write host memory",
    )
}

/// Checks everything before anything changes; `out` is resized only when the copy is bound to be tried.
fn copy_operator(
    context: &mut KernelContext<'_>,
    devices_fit: fn(&TensorMeta, &TensorMeta) -> bool,
    wrong_devices: &'static str,
) -> Result<(), KernelError> {
    context.expect_arguments(2..=3)?;
    let (from, to) = (context.tensor(0)?, context.tensor(1)?);
    let (from_meta, to_meta) = (context.meta(from), context.meta(to));
    if !devices_fit(from_meta, to_meta) {
        return Err(KernelError::invalid(format!(
            "{wrong_devices}: {} to {}",
            from_meta.device(),
            to_meta.device()
        )));
    }
    if from_meta.dtype() != to_meta.dtype() || from_meta.dim_order() != to_meta.dim_order() {
        return Err(KernelError::invalid(format!(
            "cannot copy {from_meta:?} to {to_meta:?} byte by byte"
        )));
    }
    for device in [from_meta.device(), to_meta.device()] {
        if !device.is_cpu() {
            context.environment().devices.require(device)?;
        }
    }
    context.copy_resizing(to, from)
}
