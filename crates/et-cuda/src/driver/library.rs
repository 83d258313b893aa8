//! The driver's library: the one that the environment names, or the one that the system's loader finds.

use super::DriverError;
use libloading::Library;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

/// The environment variable that names another driver library than the system's.
pub(super) const VARIABLE: &str = "ET_CUDA_DRIVER";

/// The library, which is never closed again.
pub(super) fn library() -> Result<&'static Library, DriverError> {
    match env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        Some(name) => named(&name),
        None => system().ok_or(DriverError::NotFound),
    }
}

fn named(name: &OsString) -> Result<&'static Library, DriverError> {
    // SAFETY: whoever sets the variable vouches for the library's initialisers, as with the loader's own variables.
    match unsafe { Library::new(name) } {
        Ok(library) => Ok(Box::leak(Box::new(library))),
        Err(error) => {
            let reason = error
                .source()
                .map_or_else(|| error.to_string(), |e| e.to_string());
            let text = format!("the CUDA driver that {VARIABLE} names cannot be loaded: {reason}");
            Err(DriverError::NotLoaded { text: kept(text) })
        }
    }
}

/// The error of a library that lacks a function.
pub(super) fn without(symbol: &'static str) -> DriverError {
    let text = match env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        Some(name) => format!(
            "the library that {VARIABLE} names, {}, has no function {symbol}; name a newer NVIDIA driver, or unset the \
             variable",
            name.display()
        ),
        None => format!(
            "the CUDA driver that was found has no function {symbol}; install a newer NVIDIA driver"
        ),
    };
    let text = kept(text);
    DriverError::MissingSymbol { symbol, text }
}

/// Shared with every other user of the bindings in this program.
#[cfg(feature = "cuda-13000")]
fn system() -> Option<&'static Library> {
    use cudarc::driver::sys;

    // SAFETY: this opens the driver's library, whose initialisers any CUDA program runs.
    let present = unsafe { sys::is_culib_present() };
    // SAFETY: the library is present, so this does not panic.
    present.then(|| unsafe { sys::culib() })
}

/// Without the bindings, which a program may have of another version or linked.
#[cfg(not(feature = "cuda-13000"))]
fn system() -> Option<&'static Library> {
    let names: &[&str] = if cfg!(windows) {
        &["nvcuda.dll"]
    } else {
        &["libcuda.so", "libcuda.so.1"]
    };
    names.iter().find_map(|name| {
        // SAFETY: this opens the driver's library, whose initialisers any CUDA program runs.
        let library = unsafe { Library::new(*name) }.ok()?;
        Some(&*Box::leak(Box::new(library)))
    })
}

/// The text for as long as the process lives, one of each.
fn kept(text: String) -> &'static str {
    static TEXTS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.iter().find(|known| **known == text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into_boxed_str());
    texts.push(text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_in_one_line() {
        let error = named(&"/no/such/libcuda.so".into()).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("the CUDA driver that ET_CUDA_DRIVER names cannot be loaded: "));
        assert!(
            text.contains("/no/such/libcuda.so") && !text.contains('\n'),
            "{text}"
        );
        assert_eq!(named(&"/no/such/libcuda.so".into()).unwrap_err(), error);
    }

    #[test]
    fn equal_texts_are_kept_once() {
        let (a, b) = (kept("text".into()), kept("text".into()));
        assert!(std::ptr::eq(a, b));
        assert_eq!(kept("other".into()), "other");
    }
}
