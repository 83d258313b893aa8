//! The command line.

use crate::literal::{self, Input};
use crate::options::{self, ALL_METHODS, Methods, Simulate, Target};
use clap::{Args, Parser, Subcommand};
use et_device::Device;
use et_schema::ScalarType;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Inspects, verifies, runs and plans ExecuTorch programs.
#[derive(Debug, Parser)]
#[command(name = "et", version, arg_required_else_help = true)]
#[command(
    after_help = "Exit status: 0 done, 1 the file or the run is at fault, 2 the command line is, \
    3 the machine is (no driver, no such device, disk or memory full)."
)]
pub(crate) struct Cli {
    /// Show no progress; it is shown only where stderr is a terminal
    #[arg(long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what is in a program
    Inspect(InspectArgs),
    /// Check files and list all problems
    Verify(VerifyArgs),
    /// Load a program, run it, and check or keep its outputs
    Run(Box<RunArgs>),
    /// Time loading and running, and count memory and copies
    Bench(BenchArgs),
    /// Make a program device-aware, and plan its memory
    Plan(Box<PlanArgs>),
    /// Place the buffers of one allocation instance
    Solve(SolveArgs),
    /// List the device types, the devices and why one is not available
    ///
    /// The environment variable `ET_CUDA_DRIVER` names a CUDA driver library, by path, to load instead of the system's;
    /// `et run` heeds it as well.
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
    /// The program (.pte) or tensor data (.ptd), or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// External tensor data (.ptd) of the program; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Vec<PathBuf>,
    /// Print the whole FlatBuffer as JSON, with the field names of the schema
    #[arg(long, conflicts_with = "data")]
    pub(crate) program: bool,
    /// Draw the memory plan
    #[arg(long, value_name = "OUT.svg", conflicts_with = "program")]
    pub(crate) svg: Option<PathBuf>,
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

/// Where outputs are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Outputs {
    /// Copied to the host
    Host,
    /// Left where they are; their elements are not shown
    Device,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  et run model.pte --simulate
  et run model.pte --input a.npy --input int:3 --output-dir out
  et run model.pte --calls case/meta.json --expect case --simulate cuda:2

Without --input and --calls the inputs are made up, the same ones every time.")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// The method [default: forward, or the only one]
    #[arg(long, value_name = "NAME", conflicts_with = "calls")]
    pub(crate) method: Option<String>,
    /// The next input: a .npy file, or int:4, double:2.5, bool:true, string:one, none; repeatable
    #[arg(long, value_name = "VALUE", value_parser = literal::parse, conflicts_with = "calls",
        allow_hyphen_values = true)]
    pub(crate) input: Vec<Input>,
    /// A JSON document that lists calls, made one after the other on the same loaded program; docs/cli.md tells its form, and
    /// the meta.json and outputs.json of --expect have it
    #[arg(long, value_name = "FILE")]
    pub(crate) calls: Option<PathBuf>,
    /// Where the outputs go: runI_outJ.npy and outputs.json
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// A folder of recorded outputs to compare with: what its meta.json or outputs.json lists, or else its out_J.npy, and
    /// rI_out_J.npy of later calls
    #[arg(long, value_name = "DIR")]
    pub(crate) expect: Option<PathBuf>,
    /// How far elements of a type may be off, relative to the largest expected one or to 1 if that is more; repeatable
    /// [default: FLOAT=1e-4, DOUBLE=1e-6, HALF=5e-3, BFLOAT16=2e-2, complex types as their parts, all else 0]
    #[arg(long, value_name = "TYPE=NUMBER", value_parser = options::parse_tolerance,
        requires = "expect")]
    pub(crate) tol: Vec<(ScalarType, f64)>,
    /// Where outputs that are on a device are wanted
    #[arg(long, value_enum, default_value = "host")]
    pub(crate) outputs: Outputs,
    /// Write what happened on the devices
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write how long each instruction took, for a browser's trace viewer
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Make every call this many times; the outputs of the last one count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) json: JsonArg,
}

/// A program that is run, and with what.
#[derive(Debug, Args)]
pub(crate) struct ProgramArgs {
    /// The program (.pte), or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// External tensor data (.ptd); repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Vec<PathBuf>,
    /// Let a simulated device take the place of the real one
    #[arg(long, value_name = "cuda[:COUNT]", value_parser = options::parse_simulate)]
    pub(crate) simulate: Option<Simulate>,
    /// Use one device in place of another; repeatable
    #[arg(long, value_name = "FROM=TO", value_parser = options::parse_mapping)]
    pub(crate) device_map: Vec<(Device, Device)>,
    /// Let all methods use one set of planned buffers: less memory, and state in common
    #[arg(long)]
    pub(crate) share_arenas: bool,
    /// How many threads share the work of large instructions; results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
    /// The most bytes that made-up inputs may have together
    #[arg(long, value_name = "BYTES", value_parser = options::parse_nbytes, default_value = "1G")]
    pub(crate) max_input_bytes: u64,
}

impl ProgramArgs {
    /// The files to read.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let files = [&self.file].into_iter().chain(&self.data);
        files.map(PathBuf::as_path)
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  et bench model.pte
  et bench model.pte --simulate --iterations 1000 --json

Without --input the inputs are made up, the same ones every time. `execute` runs with inputs that are set already; `call` sets them, runs, \
and copies the outputs to the host. Unplanned memory is that of inputs, outputs and state without a plan, where callers do not give theirs.")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// The method [default: forward, or the only one]
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<String>,
    /// The next input: a .npy file, or int:4, double:2.5, bool:true, string:one, none; repeatable
    #[arg(long, value_name = "VALUE", value_parser = literal::parse, allow_hyphen_values = true)]
    pub(crate) input: Vec<Input>,
    /// How often each thing is timed
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// How often each thing is done before, without being timed
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) warmup: u32,
    #[command(flatten)]
    pub(crate) json: JsonArg,
}

/// How places are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Algorithm {
    /// Nothing shares bytes
    Naive,
    /// As the exporter places
    Greedy,
    /// By search, with a proof or the gap
    Optimal,
}

/// A search for places: how, and how long.
#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// How places are found [default: optimal]
    #[arg(long, value_enum)]
    pub(crate) algorithm: Option<Algorithm>,
    /// End each search after this many seconds instead of after a fixed number of steps, which gives the same result
    /// everywhere
    #[arg(long, value_name = "SECONDS", value_parser = options::parse_seconds)]
    pub(crate) time_limit: Option<Duration>,
}

impl SearchArgs {
    /// How places are found.
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm.unwrap_or(Algorithm::Optimal)
    }
}

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnOff {
    /// Yes
    On,
    /// No
    Off,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  et plan model.pte -o planned.pte
  et plan model.pte -o model.pte --compact
  et plan model.pte --target forward:0=cuda:1 --dry-run

  et plan model.pte -o small.pte --compact --reorder --inplace --svg small.svg

Values on the host keep their places unless --compact, --reorder or --inplace is given.")]
pub(crate) struct PlanArgs {
    /// The program (.pte), or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Where the new program goes; may be FILE
    #[arg(short, long, value_name = "OUT", required_unless_present = "dry_run")]
    pub(crate) output: Option<PathBuf>,
    /// Find new places for all values, in no more memory than before
    #[arg(long)]
    pub(crate) compact: bool,
    /// The alignment of new places, a power of two of at least 16 [default: that of the places before]
    #[arg(long, value_name = "BYTES", value_parser = options::parse_alignment)]
    pub(crate) alignment: Option<et_planner::Alignment>,
    /// Accept a plan in which live values overwrite each other, and write one in which they do not
    #[arg(long)]
    pub(crate) repair: bool,
    /// Find new places, with the instructions in another order if that takes less memory
    #[arg(long)]
    pub(crate) reorder: bool,
    /// Find new places, with results of elementwise operators over inputs that nobody needs any more if that takes
    /// less memory
    #[arg(long, alias = "in-place")]
    pub(crate) inplace: bool,
    /// Plan memory on devices and insert copies; `off` only tags values, the older form
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) device_memory: OnOff,
    /// Take the inputs of a method that only one device needs on that device; of all methods without METHOD
    #[arg(long, value_name = "METHOD", num_args = 0..=1, default_missing_value = ALL_METHODS)]
    pub(crate) skip_h2d: Vec<Methods>,
    /// Leave the outputs of a method that a device makes on that device; of all methods without METHOD
    #[arg(long, value_name = "METHOD", num_args = 0..=1, default_missing_value = ALL_METHODS)]
    pub(crate) skip_d2h: Vec<Methods>,
    /// Copy a value once for all delegates of a device that take it, and before a loop rather than in it; right only if
    /// no delegate writes what it is given to read
    #[arg(long)]
    pub(crate) reuse_uploads: bool,
    /// Whether inputs have planned memory; without it callers give theirs [default: as it is]
    #[arg(long, value_enum)]
    pub(crate) alloc_inputs: Option<OnOff>,
    /// Whether outputs have planned memory; without it callers may give theirs [default: as it is]
    #[arg(long, value_enum)]
    pub(crate) alloc_outputs: Option<OnOff>,
    /// Run a delegate on this device, whatever its compile specs say; repeatable
    #[arg(long, value_name = "METHOD:INDEX=DEVICE", value_parser = options::parse_target)]
    pub(crate) target: Vec<Target>,
    /// Draw the new plan
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Say what would be written, and write nothing but the picture
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    #[command(flatten)]
    pub(crate) json: JsonArg,
}

#[derive(Debug, Args)]
pub(crate) struct SolveArgs {
    /// The instance, a table with the columns id, lower, upper, size, and if wanted alignment and fixed; or `-` for
    /// standard input
    #[arg(value_name = "INSTANCE")]
    pub(crate) file: PathBuf,
    /// Find any plan within so many bytes, instead of the smallest
    #[arg(long, value_name = "BYTES", value_parser = options::parse_nbytes)]
    pub(crate) capacity: Option<u64>,
    /// Where the instance goes with an offset for each buffer
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    #[command(flatten)]
    pub(crate) json: JsonArg,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Tolerances;
    use clap::CommandFactory;

    #[test]
    fn the_help_says_what_the_tolerances_are() {
        let mut command = Cli::command();
        let run = command.find_subcommand_mut("run").unwrap();
        let tol = run
            .get_arguments()
            .find(|argument| argument.get_id() == "tol");
        let help = tol.unwrap().get_help().unwrap().to_string();
        let (_, defaults) = help.split_once("[default: ").unwrap();
        let defaults = defaults
            .split(", ")
            .filter_map(|rule| options::parse_tolerance(rule).ok());
        let told: Vec<_> = defaults.collect();
        let tolerances = Tolerances::default();
        let is_told = |scalar_type: ScalarType| told.iter().any(|(known, _)| *known == scalar_type);
        for (scalar_type, tolerance) in &told {
            assert_eq!(tolerances.get(*scalar_type), *tolerance);
        }
        let mut others = ScalarType::all().filter(|scalar_type| !is_told(*scalar_type));
        let complex = |scalar_type: &ScalarType| scalar_type.name().starts_with("COMPLEX");
        assert!(others.all(|other| complex(&other) || tolerances.get(other) == 0.0));
        assert_eq!(told.len(), 4);
    }
}
