//! Running resolved steps.

use et_device::Alignment;
use et_kernel::{
    Arguments, EValue, Environment, Event, KernelContext, KernelError, ValueIndex, ValueTable,
};

use crate::Error;
use crate::error::{ErrorKind, Place};
use crate::step::{LoadedDelegate, Step, Steps};

/// The instruction that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    chain: usize,
    /// Counted in the chain.
    instruction: usize,
}

impl Position {
    pub(crate) const START: Self = Self {
        chain: 0,
        instruction: 0,
    };
}

/// How far [`advance`] came.
pub(crate) struct Advanced {
    /// Instructions that were begun.
    pub(crate) taken: u64,
    /// The instruction that comes next; `None` at the end.
    pub(crate) next: Result<Option<Position>, Error>,
}

/// Runs the steps from `position` on, `most` at most.
pub(crate) fn advance(
    steps: &mut Steps,
    table: &mut ValueTable,
    environment: &Environment,
    position: Position,
    most: u64,
) -> Advanced {
    let Position {
        mut chain,
        mut instruction,
    } = position;
    let mut taken = 0u64;
    while let Some(range) = steps.chains.get(chain).cloned() {
        // To pass a chain without instructions is a step too.
        while instruction < range.len().max(1) {
            if taken == most {
                let next = Position { chain, instruction };
                return Advanced {
                    taken,
                    next: Ok(Some(next)),
                };
            }
            if table.interrupt().is_raised() {
                let next = Err(ErrorKind::Cancelled.into());
                return Advanced { taken, next };
            }
            taken = taken.saturating_add(1);
            if range.is_empty() {
                break;
            }
            let at = range.start.saturating_add(instruction);
            let jump = match environment.hook {
                None => run(steps, at, table, environment),
                Some(_) => run_watched(steps, at, instruction, table, environment),
            };
            match jump {
                Ok(jump) => instruction = jump.unwrap_or(instruction.saturating_add(1)),
                Err(kind) => {
                    let next = Err(failed_at(kind, instruction, steps, at));
                    return Advanced { taken, next };
                }
            }
        }
        (chain, instruction) = (chain.saturating_add(1), 0);
    }
    Advanced {
        taken,
        next: Ok(None),
    }
}

/// As [`run`], telling the hook of it.
#[cold]
fn run_watched(
    steps: &mut Steps,
    at: usize,
    instruction: usize,
    table: &mut ValueTable,
    environment: &Environment,
) -> Result<Option<usize>, ErrorKind> {
    environment.emit(&Event::StepBegin {
        instruction,
        name: steps.name(&steps.steps[at]),
    });
    let jump = run(steps, at, table, environment);
    environment.emit(&Event::StepEnd {
        instruction,
        args: &table.argument_places(&steps.values(&steps.steps[at])),
    });
    jump
}

/// The error of step `at`, which is number `instruction` of its chain.
#[cold]
fn failed_at(kind: ErrorKind, instruction: usize, steps: &Steps, at: usize) -> Error {
    kind.at(Place {
        instruction: Some(instruction),
        name: Some(steps.name(&steps.steps[at]).to_owned()),
        ..Place::default()
    })
}

/// Runs step `at`. A jump says to which instruction of its chain.
#[inline(always)] // Most steps are calls of operators, and these take little more than what is here.
fn run(
    steps: &mut Steps,
    at: usize,
    table: &mut ValueTable,
    environment: &Environment,
) -> Result<Option<usize>, ErrorKind> {
    let Step::Kernel {
        run,
        arguments,
        state,
        ..
    } = &mut steps.steps[at]
    else {
        return run_other(steps, at, table, environment);
    };
    let arguments = &steps.arguments[arguments.clone()];
    let mut context = table.call(arguments, state.as_mut(), environment)?;
    match run(&mut context) {
        Ok(()) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// [`run`] of anything but a call of an operator.
#[inline(never)]
fn run_other(
    steps: &mut Steps,
    at: usize,
    table: &mut ValueTable,
    environment: &Environment,
) -> Result<Option<usize>, ErrorKind> {
    let Steps {
        steps,
        arguments: pool,
        delegates,
        ..
    } = steps;
    match &mut steps[at] {
        // The one is run above, the other is nothing to run.
        Step::Kernel { .. } | Step::Done { .. } => {}
        Step::Delegate { index, arguments } => {
            call_delegate(
                &mut delegates[*index],
                &pool[arguments.clone()],
                table,
                environment,
            )?;
        }
        Step::Move { from, to } => table.assign(*to, *from, environment)?,
        Step::JumpFalse { condition, target } => {
            if !is_true(table, condition, environment)? {
                return Ok(Some(*target));
            }
        }
        Step::Free { value } => table.hide_memory(*value)?,
    }
    Ok(None)
}

fn call_delegate(
    loaded: &mut LoadedDelegate,
    arguments: &[ValueIndex],
    table: &mut ValueTable,
    environment: &Environment,
) -> Result<(), ErrorKind> {
    let mut context = table.call(arguments, None, environment)?;
    if environment.hook.is_some() {
        let (backend, target) = (loaded.backend.as_str(), loaded.target.as_deref());
        environment.emit(&Event::DelegateBegin {
            backend,
            target,
            args: &context.argument_places(),
        });
    }
    let done = loaded.delegate.execute(&mut context);
    environment.emit(&Event::DelegateEnd);
    done.map_err(failed)
}

#[cold]
fn failed(error: KernelError) -> ErrorKind {
    match error {
        KernelError::Interrupted => ErrorKind::Cancelled,
        error => ErrorKind::Kernel(error),
    }
}

/// A condition: a truth value, or a tensor whose elements are all true (one without elements is). On a device it is fetched.
fn is_true(
    table: &mut ValueTable,
    condition: &ValueIndex,
    environment: &Environment,
) -> Result<bool, ErrorKind> {
    match table.get(*condition)? {
        EValue::Bool(value) => return Ok(*value),
        EValue::Tensor(tensor) if tensor.dtype() == et_kernel::ScalarType::Bool => {}
        other => {
            return Err(ErrorKind::Condition {
                found: crate::value::describe(other),
            });
        }
    }
    let context = table.call(std::slice::from_ref(condition), None, environment)?;
    all_true(&context).map_err(ErrorKind::Kernel)
}

/// Whether every element of argument 0 is true, wherever it is.
fn all_true(context: &KernelContext<'_>) -> Result<bool, KernelError> {
    let condition = context.tensor(0)?;
    let nbytes = context.meta(condition).nbytes();
    let bytes = context.temp().allocate(nbytes, Alignment::ONE)?;
    context.read_bytes(condition, bytes)?;
    Ok(bytes.iter().all(|&byte| byte != 0))
}
