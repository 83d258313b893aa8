//! Copies between places, on whatever devices these are.

use et_device::{
    Device, DeviceAllocatorRegistry, DeviceError, DeviceSpan, DeviceToDevice, DeviceToHost,
    HostToDevice, LengthMismatch,
};
use et_memory::{HostSpan, Place};

use crate::{Arguments, Kernel, KernelContext, KernelError, ScalarTypeSet, TensorMeta};

/// Bytes that go through the host at a time when two devices have no allocator in common.
const STAGING: u64 = 64 * 1024;

/// Copies all bytes of `from` to `to`, which are equally long: one call of one allocator, if the devices have one in common.
/// 0 bytes are no call.
///
/// # Errors
/// [`DeviceError::Length`] if they are not equally long, [`DeviceError::NoAllocator`], or the allocator's.
///
/// # Safety
/// Both places are live memory; nobody writes `from` or uses `to` meanwhile. On the host they may overlap, on a device not.
pub unsafe fn copy_place(
    to: Place,
    from: Place,
    registry: &DeviceAllocatorRegistry,
) -> Result<(), DeviceError> {
    let (dst, src) = (to.nbytes(), from.nbytes());
    if dst != src {
        return Err(LengthMismatch { dst, src }.into());
    }
    if dst == 0 {
        return Ok(());
    }
    match (to, from) {
        (Place::Host(to), Place::Host(from)) => {
            // SAFETY: both are live and equally long by the caller's word and the check above.
            unsafe { std::ptr::copy(from.base().as_ptr(), to.base().as_ptr(), from.len()) };
            Ok(())
        }
        (Place::Device(device, span), Place::Host(from)) => {
            // SAFETY: passed on to the caller.
            unsafe { upload(device, span, from, registry) }
        }
        (Place::Host(to), Place::Device(device, span)) => {
            // SAFETY: passed on to the caller.
            unsafe { download(to, device, span, registry) }
        }
        (Place::Device(to_device, to), Place::Device(from_device, from)) => {
            if to_device.device_type() != from_device.device_type() {
                // SAFETY: passed on to the caller.
                return unsafe { through_host((to_device, to), (from_device, from), registry) };
            }
            let copy = DeviceToDevice::new((to_device.index(), to), (from_device.index(), from))?;
            let allocator = registry.require(to_device)?;
            // SAFETY: passed on to the caller.
            unsafe { allocator.copy_device_to_device(copy) }
        }
    }
}

/// # Safety
/// As [`copy_place`].
unsafe fn upload(
    device: Device,
    to: DeviceSpan,
    from: HostSpan,
    registry: &DeviceAllocatorRegistry,
) -> Result<(), DeviceError> {
    // SAFETY: live, initialised and not written meanwhile, by the caller's word.
    let bytes = unsafe { std::slice::from_raw_parts(from.base().as_ptr(), from.len()) };
    let copy = HostToDevice::new(device.index(), to, bytes)?;
    // SAFETY: the caller vouches for `to`.
    unsafe { registry.require(device)?.copy_host_to_device(copy) }
}

/// # Safety
/// As [`copy_place`].
unsafe fn download(
    to: HostSpan,
    device: Device,
    from: DeviceSpan,
    registry: &DeviceAllocatorRegistry,
) -> Result<(), DeviceError> {
    // SAFETY: live, initialised and used by nobody else meanwhile, by the caller's word.
    let bytes = unsafe { std::slice::from_raw_parts_mut(to.base().as_ptr(), to.len()) };
    let copy = DeviceToHost::new(device.index(), bytes, from)?;
    // SAFETY: the caller vouches for `from`.
    unsafe { registry.require(device)?.copy_device_to_host(copy) }
}

/// # Safety
/// As [`copy_place`].
unsafe fn through_host(
    (to_device, to): (Device, DeviceSpan),
    (from_device, from): (Device, DeviceSpan),
    registry: &DeviceAllocatorRegistry,
) -> Result<(), DeviceError> {
    let mut staging = vec![0u8; to.len().min(STAGING) as usize];
    let mut offset = 0;
    while offset < to.len() {
        let len = (to.len() - offset).min(STAGING);
        let part = HostSpan::of_mut(&mut staging[..len as usize]);
        // SAFETY: `part` is ours; the rest is passed on to the caller.
        unsafe { download(part, from_device, from.subspan(offset, len)?, registry)? };
        // SAFETY: as above.
        unsafe { upload(to_device, to.subspan(offset, len)?, part, registry)? };
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
