//! What the operators read from an instruction in the same way.

use et_kernel::{Arguments, KernelContext, KernelError, TensorId};

use crate::promote::Operand;

/// The output of an operator whose output is argument `at`, behind which it may be named once more.
pub(crate) fn output(context: &KernelContext<'_>, at: usize) -> Result<TensorId, KernelError> {
    context.expect_arguments(at + 1..=at + 2)?;
    context.tensor(at)
}

/// The two outputs of an operator, at `at` and behind it.
pub(crate) fn two_outputs(
    context: &KernelContext<'_>,
    at: usize,
) -> Result<[TensorId; 2], KernelError> {
    context.expect_arguments(at + 2..=at + 4)?;
    Ok([context.tensor(at)?, context.tensor(at + 1)?])
}

/// The three outputs of an operator, from `at` on.
pub(crate) fn three_outputs(
    context: &KernelContext<'_>,
    at: usize,
) -> Result<[TensorId; 3], KernelError> {
    context.expect_arguments(at + 3..=at + 6)?;
    Ok([
        context.tensor(at)?,
        context.tensor(at + 1)?,
        context.tensor(at + 2)?,
    ])
}

/// A tensor operand.
pub(crate) fn tensor(context: &KernelContext<'_>, at: usize) -> Result<Operand, KernelError> {
    context.tensor(at).map(Operand::Tensor)
}

/// A number operand.
pub(crate) fn number(context: &KernelContext<'_>, at: usize) -> Result<Operand, KernelError> {
    context.scalar(at).map(Operand::Number)
}
