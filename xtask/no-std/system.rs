//! What a program without `std` brings along: the few functions of the C library that it stands on.

use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;

#[link(name = "c")]
unsafe extern "C" {
    fn abort() -> !;
    fn puts(text: *const c_char) -> c_int;
}

/// Prints a line.
pub fn say(text: &core::ffi::CStr) {
    // SAFETY: the text ends with a NUL.
    unsafe { puts(text.as_ptr()) };
}

#[panic_handler]
fn panicked(_: &PanicInfo<'_>) -> ! {
    say(c"the program without std panicked");
    // SAFETY: always allowed.
    unsafe { abort() }
}

/// Named by the unwind tables of the precompiled libraries. Nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// As above.
#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() -> ! {
    // SAFETY: always allowed.
    unsafe { abort() }
}
