//! Pointer arguments of driver calls, so that their one unsafe use each stands here.

use crate::status::{INVALID_VALUE, Outcome};
use std::ffi::{CStr, c_char};

/// Where a call puts a result. Null is an invalid value, as in the driver.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn put(self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller of the C function passes a place for one `T`; null was refused above.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// The same place seen as one for another type, for attributes whose type depends on their number.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Writes up to `room` bytes there.
    pub fn put_bytes(self, bytes: &[u8], room: usize) -> Outcome {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller of the C function passes a place for `room` bytes; null was refused above.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.cast(), bytes.len().min(room))
        };
        Ok(())
    }
}

/// A value that a call reads.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub fn get(self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller of the C function passes a readable `T`; null was refused above.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The `index`th of several.
    pub fn at(self, index: usize) -> In<T> {
        In(self.0.wrapping_add(index))
    }
}

impl<T> In<T> {
    /// The same place seen as one of another type.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

/// A NUL-terminated string argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    pub fn get(self) -> Outcome<String> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller of the C function passes a NUL-terminated string; null was refused above.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| INVALID_VALUE)
    }
}
