//! What was asked for, method by method.

use super::super::solve::limits;
use crate::args::{self, OnOff, PlanArgs};
use crate::failure::Failure;
use crate::options::Methods;
use et_planner::compact::CompactOptions;
use et_planner::io::IoOptions;
use et_planner::placement::Algorithm;
use et_planner::propagate::MethodOptions;
use et_schema::owned::{ExecutionPlan, Program};
use std::collections::{BTreeMap, BTreeSet};

/// The options of the command line, checked against the program.
pub(super) struct Request {
    /// For the copies and the device memory, by method.
    methods: BTreeMap<String, MethodOptions>,
    /// The methods that an option about devices names.
    named: BTreeSet<String>,
    /// Whether such an option is about all methods.
    all: bool,
    /// For new places.
    pub(super) compact: CompactOptions,
    /// Find new places for all values.
    pub(super) compact_all: bool,
    /// Who gives the memory of inputs and outputs.
    pub(super) io: IoOptions,
}

impl Request {
    /// Reads the options; a failure for names and numbers that the program does not have.
    pub(super) fn new(args: &PlanArgs, program: &Program) -> Result<Self, Failure> {
        check_names(args, program)?;
        let options = program.execution_plan.iter().map(|method| {
            let options = method_options(args, method)?;
            Ok((method.name.clone(), options))
        });
        let skips = || args.skip_h2d.iter().chain(&args.skip_d2h);
        let named = skips().filter_map(Methods::name);
        let targets = args.target.iter().map(|target| target.method.as_str());
        Ok(Self {
            methods: options.collect::<Result<_, Failure>>()?,
            named: named.chain(targets).map(str::to_owned).collect(),
            all: skips().any(|skip| *skip == Methods::All)
                || args.reuse_uploads
                || args.device_memory == OnOff::Off,
            compact: compact_options(args),
            compact_all: args.compact || args.reorder || args.inplace,
            io: io_options(args),
        })
    }

    /// How a method gets its device memory.
    pub(super) fn of(&self, method: &str) -> MethodOptions {
        self.methods.get(method).cloned().unwrap_or_default()
    }

    /// Whether an option asks for devices or copies of this method that are not its own.
    pub(super) fn changes_devices(&self, method: &str) -> bool {
        self.all || self.named.contains(method)
    }
}

fn check_names(args: &PlanArgs, program: &Program) -> Result<(), Failure> {
    let skips = args.skip_h2d.iter().chain(&args.skip_d2h);
    if args.device_memory == OnOff::Off && skips.clone().next().is_some() {
        let message =
            "--device-memory off inserts no copies that --skip-h2d or --skip-d2h could skip";
        return Err(Failure::usage(message));
    }
    let targets = args.target.iter().map(|target| target.method.as_str());
    let names = skips.filter_map(Methods::name).chain(targets);
    for name in names {
        if !program
            .execution_plan
            .iter()
            .any(|method| method.name == name)
        {
            return Err(Failure::usage(format!(
                "the program has no method `{name}`"
            )));
        }
    }
    Ok(())
}

fn method_options(args: &PlanArgs, method: &ExecutionPlan) -> Result<MethodOptions, Failure> {
    let is_in = |skips: &[Methods]| {
        let mut names = skips.iter().map(Methods::name);
        names.any(|name| name.is_none_or(|name| name == method.name))
    };
    let mut options = MethodOptions::default();
    options.device_memory = args.device_memory == OnOff::On;
    options.skip_h2d = is_in(&args.skip_h2d);
    options.skip_d2h = is_in(&args.skip_d2h);
    options.reuse_uploads = args.reuse_uploads;
    options.algorithm = algorithm(args.search.algorithm());
    options.limits = limits(&args.search);
    if let Some(alignment) = args.alignment {
        options.alignment = alignment;
    }
    for target in args
        .target
        .iter()
        .filter(|target| target.method == method.name)
    {
        let name = format!("delegate {} of method `{}`", target.delegate, method.name);
        if target.delegate as usize >= method.delegates.len() {
            return Err(Failure::usage(format!("the program has no {name}")));
        }
        if options
            .targets
            .insert(target.delegate, target.device)
            .is_some()
        {
            return Err(Failure::usage(format!("{name} has two targets")));
        }
    }
    Ok(options)
}

fn compact_options(args: &PlanArgs) -> CompactOptions {
    let mut options = CompactOptions::default();
    options.algorithm = algorithm(args.search.algorithm());
    options.limits = limits(&args.search);
    options.alignment = args.alignment;
    options.repair = args.repair;
    options.reorder = args.reorder;
    options.in_place = args.inplace;
    options
}

fn io_options(args: &PlanArgs) -> IoOptions {
    let is_on = |switch: OnOff| switch == OnOff::On;
    let mut options = IoOptions::default();
    options.inputs = args.alloc_inputs.map(is_on);
    options.outputs = args.alloc_outputs.map(is_on);
    options
}

fn algorithm(algorithm: args::Algorithm) -> Algorithm {
    match algorithm {
        args::Algorithm::Naive => Algorithm::Naive,
        args::Algorithm::Greedy => Algorithm::Greedy,
        args::Algorithm::Optimal => Algorithm::Optimal,
    }
}
