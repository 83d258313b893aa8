//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Inspects, verifies and runs ExecuTorch programs.
#[derive(Debug, Parser)]
#[command(name = "et", version, arg_required_else_help = true)]
#[command(
    after_help = "Exit status: 0 done, 1 the file or the run is at fault, 2 the command line is, \
    3 the machine is (no driver, no such device, disk or memory full)."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is in a program
    Inspect(InspectArgs),
    /// Check files and list all problems
    Verify(VerifyArgs),
    /// List the device types, the devices and why one is not available
    Devices(JsonArg),
    /// List the operators of this build
    Ops(JsonArg),
    /// Print a script that completes commands in a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
}

/// A command whose result can be a JSON document.
#[derive(Debug, Args)]
pub(crate) struct JsonArg {
    /// Print one JSON document and nothing else
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The program (.pte), or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print the whole FlatBuffer as JSON, with the field names of the schema
    #[arg(long)]
    pub(crate) program: bool,
    #[command(flatten)]
    pub(crate) json: JsonArg,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Programs (.pte) and tensor data (.ptd), or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonArg,
}
