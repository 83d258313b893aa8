//! Which driver this process has, and loading the fake one.

use crate::control::Control;
use libloading::Library;
use std::env;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The driver in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driver {
    /// This crate's.
    Fake,
    /// The machine's, with a GPU behind it.
    Real,
}

enum Loaded {
    Fake(Control),
    Real,
}

static LOADED: OnceLock<Loaded> = OnceLock::new();

/// Takes the machine's GPU if one answers, else the fake driver; `FAKECUDA_DRIVER=fake|real` decides otherwise.
///
/// # Panics
/// If the fake driver cannot be loaded.
pub fn auto() -> Driver {
    let wanted = match env::var("FAKECUDA_DRIVER").as_deref() {
        Ok("fake") => Some(Driver::Fake),
        Ok("real") => Some(Driver::Real),
        _ => None,
    };
    match load(wanted) {
        Loaded::Fake(_) => Driver::Fake,
        Loaded::Real => Driver::Real,
    }
}

/// Takes the fake driver, also on a machine with a GPU: for tests of what only the fake can do.
///
/// # Panics
/// If the fake driver cannot be loaded, or this process already took the real one.
pub fn force() {
    control();
}

/// Whether [`auto`] took a real GPU.
pub fn is_real() -> bool {
    auto() == Driver::Real
}

pub(crate) fn control() -> &'static Control {
    match load(Some(Driver::Fake)) {
        Loaded::Fake(control) => control,
        Loaded::Real => panic!("this process already uses the real driver"),
    }
}

fn load(wanted: Option<Driver>) -> &'static Loaded {
    LOADED.get_or_init(|| {
        let driver = wanted.unwrap_or_else(|| match real_devices() {
            Some(1..) => Driver::Real,
            _ => Driver::Fake,
        });
        match driver {
            Driver::Fake => Loaded::Fake(load_fake()),
            Driver::Real => Loaded::Real,
        }
    })
}

/// How many GPUs the machine's own driver sees.
fn real_devices() -> Option<c_int> {
    // SAFETY: loading NVIDIA's driver runs its initialisers, as any CUDA program does.
    let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
    // Unloading libcuda is not safe, so it stays.
    let library = Box::leak(Box::new(library));
    // SAFETY: the signature is the documented one.
    let init = unsafe { library.get::<unsafe extern "C" fn(u32) -> u32>(b"cuInit\0") }.ok()?;
    // SAFETY: as above.
    let get_count =
        unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> u32>(b"cuDeviceGetCount\0") };
    let get_count = get_count.ok()?;
    let mut count = 0;
    // SAFETY: `cuInit` has no precondition.
    let initialised = unsafe { init(0) } == 0;
    // SAFETY: the driver is initialised; `count` is a place for one int.
    (initialised && unsafe { get_count(&mut count) } == 0).then_some(count)
}

/// The fake driver's file: for processes that are told which driver to load.
///
/// # Panics
/// If there is none, which is so on all systems but Linux.
pub fn path() -> PathBuf {
    let built = env!("FAKECUDA_BUILT");
    let path = env::var_os("FAKECUDA_LIB").map_or_else(|| PathBuf::from(built), PathBuf::from);
    assert!(!path.as_os_str().is_empty(), "{UNSUPPORTED}");
    path
}

/// The file of a driver that does nothing and says that all went well: for measuring what a layer above costs.
///
/// # Panics
/// As [`path`].
pub fn null_path() -> PathBuf {
    let built = env!("FAKECUDA_NULL");
    assert!(!built.is_empty(), "{UNSUPPORTED}");
    built.into()
}

const UNSUPPORTED: &str = "the fake CUDA driver needs Linux with glibc";

/// Writes a copy of the fake driver in which these symbols have other names.
///
/// # Panics
/// If it has no such symbol, or the copy cannot be written.
pub fn write_without(symbols: &[&str], to: &Path) {
    let path = path();
    let mut image = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    for symbol in symbols {
        assert!(
            rename(&mut image, symbol),
            "{symbol}: no such symbol to hide"
        );
    }
    std::fs::write(to, image).unwrap_or_else(|e| panic!("{}: {e}", to.display()));
}

fn load_fake() -> Control {
    let library = match env::var("FAKECUDA_HIDE") {
        Ok(names) => open_without(&names),
        Err(_) => open(&path()),
    };
    // It stays loaded: from now on its SONAME answers for `libcuda.so`.
    Control::new(Box::leak(Box::new(library)))
}

fn open(path: &Path) -> Library {
    // SAFETY: this is the object that the build script made; it has no initialisers of its own.
    unsafe { Library::new(path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn open_without(names: &str) -> Library {
    let symbols: Vec<&str> = names.split(',').filter(|n| !n.is_empty()).collect();
    let copy = env::temp_dir().join(format!("fakecuda-{}.so", std::process::id()));
    write_without(&symbols, &copy);
    let library = open(&copy);
    // Mapped already; a copy left behind would only take space.
    let _ = std::fs::remove_file(&copy);
    library
}

/// Overwrites the first letter of a name wherever a string table holds it.
fn rename(image: &mut [u8], name: &str) -> bool {
    let entry = [b"\0", name.as_bytes(), b"\0"].concat();
    let places: Vec<usize> = (0..image.len().saturating_sub(entry.len()))
        .filter(|at| image[*at..].starts_with(&entry))
        .collect();
    for at in &places {
        image[at + 1] = b'-';
    }
    !places.is_empty()
}
