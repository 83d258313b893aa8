//! Kernels: the PTX text is read for a kernel's parameters, a registered host function does its work.

use crate::world::World;
use std::ffi::c_void;

/// Gives a kernel's host function the bytes behind a device address, or null if it may not have them.
pub type Translate = unsafe extern "C" fn(*mut c_void, u64, usize) -> *mut u8;

/// A kernel's host function: pointers to its arguments, grid and block sizes, and a translator with its context.
pub type HostKernel = unsafe extern "C" fn(*const *const u8, *const u32, Translate, *mut c_void);

pub struct Function {
    pub name: String,
    /// Bytes of each parameter.
    pub parameters: Vec<usize>,
    pub module: usize,
}

/// One launch, with its arguments as they were when it was submitted.
pub struct Launch {
    pub function: usize,
    pub dims: [u32; 6],
    pub arguments: Vec<Box<[u8]>>,
}

struct Access<'a> {
    world: &'a mut World,
    refused: Option<String>,
}

/// # Safety
/// `access` is the context that [`World::run_kernel`] handed to the kernel, during that call.
unsafe extern "C" fn translate(access: *mut c_void, at: u64, nbytes: usize) -> *mut u8 {
    // SAFETY: by this function's contract; the kernel runs on this thread and has no other reference to it.
    let access = unsafe { &mut *access.cast::<Access<'_>>() };
    match access.world.bytes(at, nbytes) {
        Ok(bytes) => bytes.as_mut_ptr(),
        Err(why) => {
            access.refused = Some(why);
            std::ptr::null_mut()
        }
    }
}

impl World {
    pub fn run_kernel(&mut self, launch: &Launch) -> Result<(), String> {
        let name = self
            .functions
            .get(&launch.function)
            .map(|f| f.name.clone())
            .unwrap_or_default();
        let Some(kernel) = self.kernels.get(&name).copied() else {
            return Err(format!("kernel {name} has no host version registered"));
        };
        let arguments: Vec<*const u8> = launch.arguments.iter().map(|a| a.as_ptr()).collect();
        let mut access = Access {
            world: self,
            refused: None,
        };
        let context = (&raw mut access).cast();
        // SAFETY: the test registered this function for a kernel of this name and so vouches for its
        // parameters; all pointers live until it returns.
        unsafe { kernel(arguments.as_ptr(), launch.dims.as_ptr(), translate, context) };
        access
            .refused
            .map_or(Ok(()), |why| Err(format!("kernel {name}: {why}")))
    }
}

/// Sizes of the parameters of the entry `name` in PTX text.
pub fn parameters(ptx: &str, name: &str) -> Option<Vec<usize>> {
    let mut rest = ptx;
    loop {
        rest = rest.split_once(".entry")?.1;
        let text = rest.trim_start();
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))?;
        if &text[..end] != name {
            continue;
        }
        let (arguments, _) = text[end..].split_once('(')?.1.split_once(')')?;
        return Some(
            arguments
                .split(',')
                .filter(|a| a.contains(".param"))
                .map(parameter_bytes)
                .collect(),
        );
    }
}

/// `.param .u64 name` is 8, `.param .b8 name[12]` is 12.
fn parameter_bytes(declaration: &str) -> usize {
    let width = declaration.split_whitespace().find_map(|word| {
        let word = word.strip_prefix('.')?;
        let bits = word
            .trim_start_matches(char::is_alphabetic)
            .parse::<usize>()
            .ok()?;
        (!word.starts_with("align")).then_some(bits / 8)
    });
    let count = declaration.rfind('[').and_then(|i| {
        declaration[i + 1..]
            .trim_end()
            .trim_end_matches(']')
            .parse()
            .ok()
    });
    width.unwrap_or(8) * count.unwrap_or(1usize)
}
