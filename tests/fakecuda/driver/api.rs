//! The exported `cu*` functions, by subject.

mod context;
mod copy;
mod device;
mod event;
mod memory;
mod module;
mod pool;
mod stream;

/// Exports functions of the API: name, arguments, then `|world| body`.
macro_rules! api {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),* $(,)?) |$world:ident| $body:expr)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $ty),*) -> u32 {
            $crate::world::enter(stringify!($name), true, |$world| $body)
        }
    )*};
}
use api;
