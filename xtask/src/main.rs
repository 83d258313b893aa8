//! Developer commands: `cargo xtask help`.

mod bench;
mod ci;
mod console;
mod consumers;
mod device;
mod features;
mod fixtures;
mod fuzz;
mod inspect;
mod interop;
mod layers;
mod nostd;
mod operators;
mod overhead;
mod peer;
mod process;
mod reference;
mod release;
mod schema;
mod soak;
mod supply;
mod targets;
mod unsafe_code;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The developer commands of this workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must be green before a merge
    Ci(ci::Options),
    /// Regenerate the FlatBuffers code, or check that it is current
    Schema {
        /// Fail on drift and write nothing
        #[arg(long)]
        check: bool,
    },
    /// Check that crates depend only downwards and inherit lints and versions
    Layers,
    /// Check every crate with each combination of its features
    Features,
    /// Build the lower crates against a sysroot that has no `std`
    NoStd,
    /// Build and run one small outside crate per package
    Consumers(consumers::Options),
    /// Check the licences and versions of what we depend on, and pack every crate
    Supply,
    /// Compile everything that is published for other systems and processors
    Targets(targets::Options),
    /// Go through the checklist of a release and say of each line whether it holds
    Release(release::Options),
    /// List all unsafe code with its reasons, or compare its amount with the committed counts
    Unsafe(unsafe_code::Options),
    /// Run every recorded case and compare outputs and device traces
    Fixtures(fixtures::Options),
    /// Compare what `et inspect` says of every recorded program with what was recorded
    Inspect(inspect::Options),
    /// Run et-cuda on this machine's GPU: conformance, the driver beside the fake one, speeds (status 3 without a GPU)
    Device(device::Options),
    /// Measure what et-cuda costs above the driver's functions, in instructions (needs valgrind)
    Overhead(overhead::Options),
    /// Load and run every file that we write on the C++ runtime, and compare (skipped where that cannot be had)
    Interop(interop::Options),
    /// Time loading and running, beside the C++ runtime if wanted
    Bench(bench::Options),
    /// Damage real files and see that nothing but an error comes of it
    Fuzz(fuzz::Options),
    /// Write the page on the command line and the picture of a plan from what `et` prints, or check that they are current
    Reference {
        /// Fail on drift and write nothing
        #[arg(long)]
        check: bool,
    },
    /// Load, run and drop programs ten thousand times, and weigh memory before and after
    Soak,
    /// Run recorded cases under valgrind's memcheck
    Valgrind(fixtures::memcheck::Options),
    /// Write the table of operators and element types in the documents, or check that it is current
    Operators {
        /// Fail on drift and write nothing
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            console::problem(format_args!("error: {error:#}"));
            match error.downcast_ref::<device::NoDevice>() {
                Some(_) => ExitCode::from(device::NO_DEVICE),
                None => ExitCode::FAILURE,
            }
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Ci(options) => ci::run(&options),
        Command::Schema { check } => schema::run(check),
        Command::Layers => layers::run(),
        Command::Features => features::run(),
        Command::NoStd => nostd::run(),
        Command::Consumers(options) => consumers::run(&options),
        Command::Supply => supply::run(),
        Command::Targets(options) => targets::run(&options),
        Command::Release(options) => release::run(&options),
        Command::Unsafe(options) => unsafe_code::run(&options),
        Command::Fixtures(options) => fixtures::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Device(options) => device::run(&options),
        Command::Overhead(options) => overhead::run(&options),
        Command::Interop(options) => interop::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Reference { check } => reference::run(check),
        Command::Soak => soak::run(),
        Command::Valgrind(options) => fixtures::memcheck::run(&options),
        Command::Operators { check } => operators::run(check),
    }
}
