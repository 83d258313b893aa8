//! Delegates and instructions, resolved so that a run looks nothing up.

use std::ops::Range;

use et_kernel::{Backend, CompileSpec, Event, InitContext, Kernel, Limits, ValueIndex};
use et_schema::{DelegateView, InstructionView};

use super::Loader;
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
        let mut scratch = 0;
        for chain in self.plan.chains() {
            let start = steps.steps.len();
            for (instruction, view) in chain.instructions().enumerate() {
                let step = self.step(
                    instruction,
                    &view,
                    kernels,
                    &mut steps.arguments,
                    &mut scratch,
                )?;
                steps.steps.push(step);
            }
            steps.chains.push(start..steps.steps.len());
        }
        steps.names = kernels.iter().map(|(_, name)| name.clone()).collect();
        self.table.temp_mut().reserve(scratch)?;
        Ok(steps)
    }

    fn step(
        &self,
        instruction: usize,
        view: &InstructionView<'_>,
        kernels: &[(Kernel, String)],
        pool: &mut Vec<ValueIndex>,
        scratch: &mut u64,
    ) -> Result<Step, Error> {
        match *view {
            InstructionView::Kernel { op, args } => {
                let arguments = push_arguments(pool, args.iter());
                let name = op as usize;
                let (kernel, full_name) = kernels
                    .get(name)
                    .ok_or_else(|| unsupported("an operator that is missing"))?;
                let mut state = None;
                if let Some(prepare) = kernel.prepare() {
                    let context = self
                        .table
                        .prepare(&pool[arguments.clone()], self.environment)?;
                    let prepared = prepare(&context).map_err(|error| {
                        let (instruction, name) = (Some(instruction), Some(full_name.clone()));
                        ErrorKind::Kernel(error).at(Place {
                            instruction,
                            name,
                            ..Place::default()
                        })
                    })?;
                    *scratch = (*scratch).max(prepared.scratch_nbytes);
                    state = prepared.state;
                }
                Ok(Step::Kernel {
                    run: kernel.run(),
                    arguments,
                    state,
                    name,
                })
            }
            InstructionView::Delegate { index, args } => Ok(Step::Delegate {
                index: index as usize,
                arguments: push_arguments(pool, args.iter()),
            }),
            InstructionView::Move { from, to } => Ok(Step::Move {
                from: ValueIndex(from),
                to: ValueIndex(to),
            }),
            InstructionView::JumpFalse { cond, target } => Ok(Step::JumpFalse {
                condition: ValueIndex(cond),
                target: target as usize,
            }),
            InstructionView::Free { value } => Ok(Step::Free {
                value: ValueIndex(value),
            }),
            _ => Err(unsupported("this kind of instruction").into()),
        }
    }
}

fn push_arguments(
    pool: &mut Vec<ValueIndex>,
    arguments: impl Iterator<Item = u32>,
) -> Range<usize> {
    let start = pool.len();
    pool.extend(arguments.map(ValueIndex));
    start..pool.len()
}
