//! The `et` command: inspects, verifies, runs and plans ExecuTorch programs.
//!
//! The command is a program; nobody else is meant to build on this library. It is one so that tests reach what reads files of
//! others, in [`untrusted`].
#![forbid(unsafe_code)]

mod args;
mod calls;
mod command;
mod compare;
mod expect;
mod failure;
mod inputs;
mod layout;
mod literal;
mod npy;
mod options;
mod picture;
mod profile;
mod progress;
mod random;
mod render;
mod replacement;
mod report;
mod results;
mod room;
mod session;
mod source;
mod stream;
mod survey;
mod trace;
#[doc(hidden)]
pub mod untrusted;
mod value;

use args::{Cli, Command};
use clap::Parser;
// Linking these offers their allocators, operators and backends.
use et_cuda as _;
use et_module as _;
use et_ops as _;
use failure::Failure;
use report::Report;
use std::io::Write as _;
use std::process::ExitCode;

/// Counts heap blocks, for `et bench`; the program makes it its allocator.
#[doc(hidden)]
#[cfg_attr(test, global_allocator)]
pub static HEAP: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

/// The status of a wrong command line.
const USAGE: u8 = 2;

/// Does what the command line of the process says, and gives its exit status.
pub fn main() -> ExitCode {
    outlive_full_files();
    let cli = match Cli::try_parse_from(options::complete(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(usage(&error)),
    };
    let (format, json, outcome) = run(&cli);
    ExitCode::from(finish(format, json, outcome))
}

/// Lets a write past the limit of a file's size fail, where the system would end the process with half a file written.
fn outlive_full_files() {
    #[cfg(unix)]
    {
        let seen = std::sync::Arc::default();
        // Without a handler the limit ends the process, as it does for others.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
    }
}

/// Runs a command: the format of its document, whether one is wanted, and the result.
fn run(cli: &Cli) -> (&'static str, bool, Result<Report, Failure>) {
    let quiet = cli.quiet;
    match &cli.command {
        Command::Inspect(args) => {
            // What `--program` prints is a document already; a failure of it is one too.
            let outcome = command::inspect::run(args);
            let json = args.json.json || args.program && outcome.is_err();
            (
                "et-inspect",
                json && !(args.program && outcome.is_ok()),
                outcome,
            )
        }
        Command::Verify(args) => ("et-verify", args.json.json, command::verify::run(args)),
        Command::Bench(args) => ("et-bench", args.json.json, command::bench::run(args, quiet)),
        Command::Run(args) => ("et-run", args.json.json, command::run::run(args)),
        Command::Plan(args) => ("et-plan", args.json.json, command::plan::run(args, quiet)),
        Command::Solve(args) => ("et-solve", args.json.json, command::solve::run(args, quiet)),
        Command::Devices(args) => ("et-devices", args.json, command::devices::run()),
        Command::Ops(args) => ("et-ops", args.json, command::ops::run()),
        Command::Completions { shell } => (
            "et-completions",
            false,
            Ok(command::completions::run(*shell)),
        ),
    }
}

/// Prints the result of a command and returns the exit status.
fn finish(format: &str, json: bool, outcome: Result<Report, Failure>) -> u8 {
    let (report, failure) = match outcome {
        Ok(report) => (report, None),
        Err(mut failure) => (std::mem::take(&mut *failure.report), Some(failure)),
    };
    let text = match json {
        true => report.document(format, failure.as_ref().map(Failure::to_json)),
        false => report.text,
    };
    let printed = stream::print(&text);
    if let Some(failure) = failure {
        if !json {
            stream::note(format_args!("error: {}", render::line(&failure.message)));
        }
        return failure.blame.exit_status();
    }
    match printed {
        Ok(()) => 0,
        Err(failure) => {
            stream::note(format_args!("error: {}", failure.message));
            failure.blame.exit_status()
        }
    }
}

/// Prints what clap has to say: help and version on stdout, mistakes on stderr.
fn usage(error: &clap::Error) -> u8 {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if error.use_stderr() && wants_json {
        let failure = Failure::usage(error.to_string().trim_end());
        return finish("et", true, Err(failure));
    }
    if error.use_stderr() {
        // There is nowhere left to tell that stderr is gone.
        let _ = error.print();
        return USAGE;
    }
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    match stream::printed(printed) {
        Ok(()) => 0,
        Err(failure) => {
            stream::note(format_args!("error: {}", failure.message));
            failure.blame.exit_status()
        }
    }
}
