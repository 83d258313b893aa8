//! A device's primary context, and making it current for the length of a call.

use crate::driver::{Driver, Status};
use crate::event::IdleEvents;
use et_device::{Device, DeviceError};
use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A retained primary context. All of the device's memory, streams and events belong to it, so it goes last.
pub(crate) struct Context {
    pub(crate) driver: &'static Driver,
    pub(crate) device: Device,
    /// The driver's number for the device.
    ordinal: c_int,
    handle: usize,
    /// The status that made the context unusable, or 0.
    poison: AtomicU32,
    /// Events of this context that nobody holds.
    pub(crate) idle_events: IdleEvents,
    /// Bytes of host memory that are pinned in this context.
    pub(crate) pinned_bytes: AtomicU64,
}

impl Context {
    /// Retains the context of `device`.
    pub(crate) fn retain(driver: &'static Driver, device: Device) -> Result<Self, DeviceError> {
        let error = |status: Status| status.error(device, driver.name_of(status));
        let mut ordinal = 0;
        // SAFETY: the driver is initialised; no other precondition.
        let status = unsafe { driver.device_get(&mut ordinal, c_int::from(device.index().get())) };
        if !status.is_ok() {
            return Err(error(status));
        }
        let mut handle = 0;
        // SAFETY: the ordinal is one that the driver just gave.
        let status = unsafe { driver.primary_context_retain(&mut handle, ordinal) };
        if !status.is_ok() {
            return Err(error(status));
        }
        Ok(Context {
            driver,
            device,
            ordinal,
            handle,
            poison: AtomicU32::new(0),
            idle_events: IdleEvents::default(),
            pinned_bytes: AtomicU64::new(0),
        })
    }

    /// The driver's handle, for the two sides of a peer copy.
    pub(crate) fn handle(&self) -> usize {
        self.handle
    }

    /// The driver's number for the device.
    pub(crate) fn ordinal(&self) -> c_int {
        self.ordinal
    }

    /// An integer property of the device.
    pub(crate) fn attribute(&self, number: c_int) -> Result<c_int, DeviceError> {
        let mut value = 0;
        // SAFETY: the ordinal came from the driver.
        let status = unsafe {
            self.driver
                .device_get_attribute(&mut value, number, self.ordinal)
        };
        self.check(status)?;
        Ok(value)
    }

    /// Makes this context current on the calling thread until the result is dropped.
    ///
    /// # Errors
    /// [`DeviceError::Poisoned`] after a fault, or the driver's.
    pub(crate) fn enter(&self) -> Result<Current<'_>, DeviceError> {
        self.usable()?;
        self.make_current()
    }

    /// Like [`Context::enter`], also after a fault: for giving things back as far as that goes.
    pub(crate) fn enter_anyway(&self) -> Result<Current<'_>, DeviceError> {
        // The driver may answer either call with the status of work that somebody queued earlier, which says nothing of
        // the call and is told once. A second refusal is the call's own. What is not given back now never will be.
        self.make_current().or_else(|_| self.make_current())
    }

    fn make_current(&self) -> Result<Current<'_>, DeviceError> {
        let mut previous = 0;
        // SAFETY: no precondition.
        self.check(unsafe { self.driver.context_get_current(&mut previous) })?;
        let pushed = previous != self.handle;
        if pushed {
            // SAFETY: the context is retained, so its handle is live.
            self.check(unsafe { self.driver.context_push(self.handle) })?;
        }
        Ok(Current {
            context: self,
            previous,
            pushed,
            thread_bound: PhantomData,
        })
    }

    /// Turns a failed status into an error, and remembers one that the context does not survive.
    #[inline]
    pub(crate) fn check(&self, status: Status) -> Result<(), DeviceError> {
        if status.is_ok() {
            return Ok(());
        }
        Err(self.failed(status))
    }

    /// As [`Context::check`], for a call in which another device may be at fault: nothing is remembered of it.
    pub(crate) fn without_blame(&self, status: Status) -> Result<(), DeviceError> {
        if status.is_ok() {
            return Ok(());
        }
        Err(status.error(self.device, self.driver.name_of(status)))
    }

    #[cold]
    fn failed(&self, status: Status) -> DeviceError {
        if status.is_fatal() {
            self.poison(status);
        }
        status.error(self.device, self.driver.name_of(status))
    }

    /// Makes every later use of the device an error that tells of `status`.
    pub(crate) fn poison(&self, status: Status) {
        // The first fault is the one that explains the others.
        let _ = self
            .poison
            .compare_exchange(0, status.code, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poison.load(Ordering::Relaxed) != 0
    }

    fn usable(&self) -> Result<(), DeviceError> {
        match self.poison.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => {
                let name = self.driver.name_of(Status {
                    operation: "",
                    code,
                });
                Err(DeviceError::Poisoned {
                    device: self.device,
                    code,
                    name,
                })
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Ok(current) = self.enter_anyway() {
            self.idle_events.destroy(&current);
        }
        // SAFETY: retained once in `retain`; everything made in it holds this and is gone. A failure leaves the
        // context retained, which nobody can notice here.
        let _ = unsafe { self.driver.primary_context_release(self.ordinal) };
    }
}

/// Proof that a context is current on this thread. Dropping it brings back the one that was.
pub(crate) struct Current<'a> {
    context: &'a Context,
    previous: usize,
    pushed: bool,
    /// Must be dropped on the thread where it was made.
    thread_bound: PhantomData<*const ()>,
}

impl Current<'_> {
    pub(crate) fn context(&self) -> &Context {
        self.context
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.context.driver
    }

    /// See [`Context::check`].
    #[inline]
    pub(crate) fn check(&self, status: Status) -> Result<(), DeviceError> {
        self.context.check(status)
    }

    /// Free and total bytes of the device, by the driver.
    pub(crate) fn memory_info(&self) -> Result<(u64, u64), DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: `Context::enter` made a context current on this thread before `self` could be.
        self.check(unsafe { self.driver().memory_get_info(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Waits for everything queued on the device.
    pub(crate) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: `Context::enter` made a context current on this thread before `self` could be.
        self.check(unsafe { self.driver().context_synchronize() })
    }

    /// Waits for everything queued on the device for the sake of memory that is about to go; whether that worked. If
    /// not, nothing can be known of the device any more, and it is not used again.
    pub(crate) fn settle(&self) -> bool {
        // SAFETY: `Context::enter` made a context current on this thread before `self` could be.
        let status = unsafe { self.driver().context_synchronize() };
        if !status.is_ok() {
            self.context.poison(status);
        }
        status.is_ok()
    }

    /// A block outside of any pool, usable at once.
    pub(crate) fn allocate(&self, nbytes: usize) -> Result<u64, Status> {
        let mut address = 0;
        // SAFETY: `Context::enter` made a context current on this thread before `self` could be.
        let status = unsafe { self.driver().memory_alloc(&mut address, nbytes) };
        if status.is_ok() {
            Ok(address)
        } else {
            Err(status)
        }
    }

    /// Frees a block, from a pool or not, once the device has done all its work.
    ///
    /// # Safety
    /// The address came from an allocation of this context, is freed only here, and queued work alone may use it.
    pub(crate) unsafe fn free(&self, address: u64) -> Result<(), DeviceError> {
        // SAFETY: by this function's contract.
        self.check(unsafe { self.driver().memory_free(address) })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if !self.pushed {
            return;
        }
        let mut popped = 0;
        // SAFETY: `enter` pushed on this thread, and this type cannot leave it.
        let status = unsafe { self.context.driver.context_pop(&mut popped) };
        if !status.is_ok() {
            // SAFETY: the context that was current when the call began; its owner is in this very call. If even
            // this fails, the thread keeps our context: there is no third way.
            let _ = unsafe { self.context.driver.context_set_current(self.previous) };
        }
    }
}
