//! Running resolved steps.

use et_device::Alignment;
use et_kernel::{
    Arguments, EValue, Environment, Event, KernelContext, KernelError, ValueIndex, ValueTable,
};

use crate::error::ErrorKind;
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

/// An error with the instruction it happened at, and that instruction's name.
type Failure = (ErrorKind, usize, String);

/// Runs the step at `position`, and says which comes next; `None` at the end.
#[inline]
pub(crate) fn step(
    steps: &mut Steps,
    table: &mut ValueTable,
    environment: &Environment,
    position: Position,
) -> Result<Option<Position>, Failure> {
    let Position { chain, instruction } = position;
    let Some(range) = steps.chains.get(chain).cloned() else {
        return Ok(None);
    };
    if instruction >= range.len() {
        return Ok(next_chain(steps, chain));
    }
    let at = range.start.saturating_add(instruction);
    if environment.hook.is_some() {
        environment.emit(&Event::StepBegin {
            instruction,
            name: steps.name(&steps.steps[at]),
        });
    }
    let jump = run(steps, at, table, environment);
    if environment.hook.is_some() {
        environment.emit(&Event::StepEnd {
            instruction,
            args: &table.argument_places(&steps.values(&steps.steps[at])),
        });
    }
    let jump = jump.map_err(|kind| (kind, instruction, steps.name(&steps.steps[at]).to_owned()))?;
    let next = jump.unwrap_or(instruction.saturating_add(1));
    if next >= range.len() {
        return Ok(next_chain(steps, chain));
    }
    Ok(Some(Position {
        chain,
        instruction: next,
    }))
}

fn next_chain(steps: &Steps, chain: usize) -> Option<Position> {
    let chain = chain.saturating_add(1);
    (chain < steps.chains.len()).then_some(Position {
        chain,
        instruction: 0,
    })
}

/// Runs step `at`. A jump says to which instruction of its chain.
#[inline]
fn run(
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
        Step::Kernel {
            run,
            arguments,
            state,
            ..
        } => {
            let mut context = table.call(&pool[arguments.clone()], state.as_mut(), environment)?;
            run(&mut context).map_err(failed)?;
        }
        Step::Done { .. } => {}
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
