//! A CUDA driver that runs on the host: as much of libcuda as a memory allocator calls.
//!
//! It is stricter than a GPU wherever a GPU is merely undefined: device memory cannot be touched by
//! the host, every misuse of an address is told apart and remembered by name, and work that was
//! only queued has not happened. See the package's README for what it leaves out.
//!
//! Standard library only: the build script hands this file to rustc directly and gives the result
//! the SONAME under which programs look for the real driver.
#![allow(
    non_snake_case,
    reason = "the exported names are NVIDIA's, and they are the interface"
)]
#![allow(
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the exported signatures and their obligations are those of the CUDA driver API"
)]

mod api;
mod arguments;
mod blocks;
mod contexts;
mod control;
mod copies;
mod host;
mod kernels;
mod settings;
mod status;
mod streams;
mod world;
