//! The `et` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Counts heap blocks, for `et bench`.
#[global_allocator]
static HEAP: &stats_alloc::StatsAlloc<std::alloc::System> = et_cli::HEAP;

fn main() -> ExitCode {
    et_cli::main()
}
