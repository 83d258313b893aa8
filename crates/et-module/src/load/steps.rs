//! Delegates and instructions, resolved so that a run looks nothing up.

use std::ops::Range;

use et_kernel::{
    Backend, CompileSpec, Dynamism, Event, Follower, InitContext, Kernel, Limits, Prepared,
    TensorMeta, ValueIndex,
};
use et_schema::{DelegateView, InstructionView};

use super::Loader;
use super::flow::Flow;
use crate::Error;
use crate::error::{ErrorKind, Place};
use crate::meta::unsupported;
use crate::step::{LoadedDelegate, Step, Steps};

impl Loader<'_> {
    pub(super) fn delegates(
        &self,
        backends: &[&dyn Backend],
        limits: &Limits,
    ) -> Result<Vec<LoadedDelegate>, Error> {
        self.plan
            .delegates()
            .zip(backends)
            .map(|(view, backend)| self.delegate(&view, *backend, limits))
            .collect()
    }

    fn delegate(
        &self,
        view: &DelegateView<'_>,
        backend: &dyn Backend,
        limits: &Limits,
    ) -> Result<LoadedDelegate, Error> {
        let id = view.id();
        let failed = |error| {
            ErrorKind::Backend(error).at(Place {
                name: Some(id.to_owned()),
                ..Place::default()
            })
        };
        backend.is_available().map_err(failed)?;
        let blob = self.program.blob(view.processed())?;
        let specs: Vec<_> = view
            .compile_specs()
            .map(|spec| CompileSpec {
                key: spec.key,
                value: spec.value,
            })
            .collect();
        let target = view
            .compile_spec("target_device")
            .map(|value| String::from_utf8_lossy(value).into_owned());
        let context = InitContext::new(
            self.plan.name(),
            &specs,
            self.environment,
            self.data,
            limits,
        );
        let nbytes = blob.len() as u64;
        self.environment.emit(&Event::DelegateInitBegin {
            backend: id,
            target: target.as_deref(),
            nbytes,
        });
        let delegate = backend.init(&context, blob);
        self.environment.emit(&Event::DelegateInitEnd);
        Ok(LoadedDelegate {
            backend: id.to_owned(),
            target,
            delegate: delegate.map_err(failed)?,
        })
    }

    pub(super) fn steps(
        &mut self,
        kernels: &[(Kernel, String)],
        delegates: Vec<LoadedDelegate>,
    ) -> Result<Steps, Error> {
        let mut steps = Steps {
            delegates,
            ..Steps::default()
        };
        let writes_last = |op: u32| {
            let kernel = kernels.get(op as usize);
            kernel.is_some_and(|(kernel, _)| kernel.writes_last())
        };
        let code = self.code;
        let flow = Flow::new(&self.plan, code, writes_last);
        let mut scratch = 0;
        for instructions in code {
            let start = steps.steps.len();
            steps.steps.reserve(instructions.len());
            let mut at = 0;
            while at < instructions.len() {
                let absorbed =
                    self.step(&flow, instructions, at, kernels, &mut steps, &mut scratch)?;
                at = at.saturating_add(absorbed).saturating_add(1);
            }
            steps.chains.push(start..steps.steps.len());
        }
        steps.names = kernels.iter().map(|(_, name)| name.clone()).collect();
        self.table.temp_mut().reserve(scratch)?;
        Ok(steps)
    }

    /// Adds the step of an instruction, and those of instructions behind it that it does too: how many those are.
    fn step(
        &mut self,
        flow: &Flow,
        instructions: &[InstructionView<'_>],
        at: usize,
        kernels: &[(Kernel, String)],
        steps: &mut Steps,
        scratch: &mut u64,
    ) -> Result<usize, Error> {
        let pool = &mut steps.arguments;
        let step = match instructions[at] {
            InstructionView::Kernel { op, args } => {
                let arguments = push_arguments(pool, args.iter());
                let name = op as usize;
                let (kernel, full_name) = kernels
                    .get(name)
                    .ok_or_else(|| unsupported("an operator that is missing"))?;
                let followers = match kernel.prepare() {
                    Some(_) => followers(flow, instructions, at),
                    None => Vec::new(),
                };
                let kept = self.table.kept_nbytes();
                let prepared = self
                    .prepare(kernel, &pool[arguments.clone()], kernels, &followers)
                    .map_err(|error| {
                        error.at(Place {
                            instruction: Some(at),
                            name: Some(full_name.clone()),
                            ..Place::default()
                        })
                    })?;
                let kept = self.table.kept_nbytes().saturating_sub(kept);
                // A result that is a step of something else need not be stored at all.
                if kernel.is_pure()
                    && prepared.absorbed == 0
                    && self.done_once(flow.result(at), kernel, &pool[arguments.clone()])
                {
                    // What was kept for running it is not needed.
                    self.table.keep_less(kept);
                    steps.steps.push(Step::Done { arguments, name });
                    return Ok(0);
                }
                *scratch = (*scratch).max(prepared.scratch_nbytes);
                steps.steps.push(Step::Kernel {
                    run: kernel.run(),
                    arguments,
                    state: prepared.state,
                    name,
                });
                for (op, arguments) in followers.iter().take(prepared.absorbed) {
                    let arguments = push_arguments(pool, arguments.iter().map(|value| value.0));
                    let name = *op as usize;
                    steps.steps.push(Step::Done { arguments, name });
                }
                return Ok(prepared.absorbed.min(followers.len()));
            }
            InstructionView::Delegate { index, args } => Step::Delegate {
                index: index as usize,
                arguments: push_arguments(pool, args.iter()),
            },
            InstructionView::Move { from, to } => Step::Move {
                from: ValueIndex(from),
                to: ValueIndex(to),
            },
            InstructionView::JumpFalse { cond, target } => Step::JumpFalse {
                condition: ValueIndex(cond),
                target: target as usize,
            },
            InstructionView::Free { value } => Step::Free {
                value: ValueIndex(value),
            },
            _ => return Err(unsupported("this kind of instruction").into()),
        };
        steps.steps.push(step);
        Ok(0)
    }

    fn prepare(
        &self,
        kernel: &Kernel,
        arguments: &[ValueIndex],
        kernels: &[(Kernel, String)],
        followers: &[(u32, Vec<ValueIndex>)],
    ) -> Result<Prepared, ErrorKind> {
        let Some(prepare) = kernel.prepare() else {
            return Ok(Prepared::nothing());
        };
        let named = followers.iter().map_while(|(op, arguments)| {
            let (kernel, _) = kernels.get(*op as usize)?;
            Some(Follower::new(*kernel, arguments))
        });
        let followers: Vec<_> = named.collect();
        let context = self.table.prepare(arguments, self.environment)?;
        prepare(&context.with_followers(&followers)).map_err(ErrorKind::Kernel)
    }

    /// Runs an instruction whose arguments never change, if it gives `result` and that is small enough to be kept. If it
    /// fails it will do so again when it is run, which is the time to say so.
    fn done_once(
        &mut self,
        result: Option<u32>,
        kernel: &Kernel,
        arguments: &[ValueIndex],
    ) -> bool {
        let Some(result) = result.map(ValueIndex) else {
            return false;
        };
        let on_host =
            |meta: &TensorMeta| meta.device().is_cpu() && meta.dynamism() == Dynamism::Static;
        let Some(nbytes) = self
            .table
            .meta(result)
            .filter(|meta| on_host(meta))
            .map(TensorMeta::nbytes)
        else {
            return false;
        };
        let Ok(context) = self.table.prepare(arguments, self.environment) else {
            return false;
        };
        let constant =
            (0..arguments.len()).all(|at| arguments[at] == result || context.is_constant(at));
        let read = arguments.iter().filter_map(|&value| self.table.meta(value));
        let sum = |sum: u64, meta: &TensorMeta| sum.saturating_add(meta.nbytes() as u64);
        let read = read.fold(0, sum);
        if !constant || read > self.reading || !context.may_keep(nbytes) {
            return false;
        }
        self.reading = self.reading.saturating_sub(read);
        let environment = self.environment;
        let done = self.table.fix(result, |table| {
            Ok(kernel.run()(&mut table.call(
                arguments,
                None,
                environment,
            )?)?)
        });
        if done.is_err() {
            self.table.keep_less(nbytes as u64);
        }
        done.is_ok()
    }
}

/// The instructions behind one, each of which alone sees the result of the one before it: as many as a kernel may want.
fn followers(
    flow: &Flow,
    instructions: &[InstructionView<'_>],
    at: usize,
) -> Vec<(u32, Vec<ValueIndex>)> {
    const MOST: usize = 3;
    let mut followers = Vec::new();
    let mut last = at;
    while followers.len() < MOST
        && let Some(next) = flow.follower(last)
        && let Some(InstructionView::Kernel { op, args }) = instructions.get(next)
    {
        followers.push((*op, args.iter().map(ValueIndex).collect()));
        last = next;
    }
    followers
}

fn push_arguments(
    pool: &mut Vec<ValueIndex>,
    arguments: impl Iterator<Item = u32>,
) -> Range<usize> {
    let start = pool.len();
    pool.extend(arguments.map(ValueIndex));
    start..pool.len()
}
