//! Results that lie on an input which nobody needs any more.
//!
//! Only operators that go element by element, read each element before they write it, and keep the size of
//! elements may do that.

use std::collections::{BTreeMap, BTreeSet};

use et_schema::Dynamism;
use et_schema::owned::{ExecutionPlan, Instruction, Tensor};

use super::CompactOptions;
use super::pool::{Pool, Unit};
use crate::analysis::{Analysis, ValueIndex};

/// Operators of `aten` whose results depend, element by element, on the elements of their inputs.
const BY_ELEMENT: [&str; 59] = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "div",
    "elu",
    "erf",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "fmod",
    "gelu",
    "hardtanh",
    "leaky_relu",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "rsub",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
    "trunc",
    "where",
];

/// A result that may lie on an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    /// The instruction that reads the one and writes the other.
    node: usize,
    input: ValueIndex,
    result: ValueIndex,
}

/// All results that may lie on an input, in the order of instructions.
pub(super) fn candidates(
    method: &ExecutionPlan,
    analysis: &Analysis<'_>,
    options: &CompactOptions,
) -> Vec<Sharing> {
    let instructions = method.instructions();
    let mut found = Vec::new();
    for (node, instruction) in instructions.enumerate() {
        let step = &analysis.steps()[node];
        let [result] = step.writes.as_slice() else {
            continue;
        };
        if !goes_by_element(method, instruction) || !step.updates.is_empty() {
            continue;
        }
        let mut values_of: BTreeMap<ValueIndex, BTreeSet<ValueIndex>> = BTreeMap::new();
        for &input in &step.reads {
            values_of
                .entry(analysis.group(input))
                .or_default()
                .insert(input);
        }
        for &input in &step.reads {
            let alone = values_of[&analysis.group(input)].len() == 1;
            let kept = options.preserve_inputs && is_input(method, input);
            if alone
                && !kept
                && is_alike(method, input, *result)
                && analysis.ends_at(input, node)
                && analysis.has_bytes_of_its_own(input, node)
                && analysis.has_bytes_of_its_own(*result, node)
            {
                found.push(Sharing {
                    node,
                    input,
                    result: *result,
                });
            }
        }
    }
    found
}

fn goes_by_element(method: &ExecutionPlan, instruction: &Instruction) -> bool {
    let Instruction::KernelCall(call) = instruction else {
        return false;
    };
    let operator = method.operator(call);
    let name = operator.and_then(|operator| operator.name.strip_prefix("aten::"));
    name.is_some_and(|name| BY_ELEMENT.binary_search(&name).is_ok())
}

fn is_input(method: &ExecutionPlan, value: ValueIndex) -> bool {
    let mut inputs = method.inputs.iter();
    inputs.any(|&input| usize::try_from(input) == Ok(value.get()))
}

/// Whether both have the same elements in the same order, and are planned in the same buffer.
fn is_alike(method: &ExecutionPlan, input: ValueIndex, result: ValueIndex) -> bool {
    let tensor = |value: ValueIndex| method.values[value.get()].as_tensor();
    let (Some(input), Some(result)) = (tensor(input), tensor(result)) else {
        return false;
    };
    let buffer = |tensor: &Tensor| tensor.allocation_info.map(|place| place.memory_id);
    let is_static = |tensor: &Tensor| tensor.shape_dynamism == Dynamism::Static;
    input.scalar_type == result.scalar_type
        && input.sizes == result.sizes
        && input.dim_order == result.dim_order
        && is_static(input)
        && is_static(result)
        && buffer(input).is_some()
        && buffer(input) == buffer(result)
}

/// Puts results on inputs wherever both units allow it; returns the pairs.
pub(super) fn merge(pool: &mut Pool, sharing: &[Sharing]) -> Vec<(ValueIndex, ValueIndex)> {
    let mut shared = Vec::new();
    for candidate in sharing {
        let Some((below, above)) = places(&pool.units, candidate) else {
            continue;
        };
        let above_unit = pool.units.remove(above);
        let (below, above) = (below - usize::from(above < below), above_unit);
        let below = &mut pool.units[below];
        below.lifetime.upper = above.lifetime.upper;
        below.on_top.push(above);
        shared.push((candidate.input, candidate.result));
    }
    shared
}

/// The units of a pair, if the one ends where the other begins.
fn places(units: &[Unit], candidate: &Sharing) -> Option<(usize, usize)> {
    let below = units
        .iter()
        .position(|unit| unit.holds_at_its_start(candidate.input))?;
    let above = units
        .iter()
        .position(|unit| unit.holds_at_its_start(candidate.result))?;
    let node = candidate.node as u64;
    let (lower, upper) = (&units[below], &units[above]);
    let fits = below != above
        && !lower.pinned
        && !upper.pinned
        && lower.lifetime.upper == node + 1
        && upper.lifetime.lower == node
        && upper.on_top.is_empty()
        && lower.end - lower.start >= upper.end - upper.start;
    fits.then_some((below, above))
}

impl Unit {
    /// Whether a value is at the start of the unit, or of one on top of it.
    fn holds_at_its_start(&self, value: ValueIndex) -> bool {
        let here = self.members.contains(&(value, self.start));
        here || self
            .on_top
            .iter()
            .any(|unit| unit.holds_at_its_start(value))
    }
}
