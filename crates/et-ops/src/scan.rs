//! Running sums, sorting and the largest few.

use std::cmp::Ordering;

use et_kernel::{
    Arguments, Kernel, KernelContext, KernelError, ScalarType, ScalarTypeSet, TensorId,
};

use crate::arguments::{output, two_outputs};
use crate::convert::{as_compute, write_compute};
use crate::dims::{self, Sizes, dim_index};
use crate::dispatch::{NUMBERS, compute, element, expect_dtype};
use crate::elementwise::scratch;
use crate::number::{Compute, Number};
use crate::view::{Lines, expect_same_dtype};

const ALL: ScalarTypeSet = NUMBERS;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::cumsum.out", ALL, |c| running(c, false)),
    Kernel::new("aten::cumprod.out", ALL, |c| running(c, true)),
    Kernel::new("aten::topk.values", ALL, top_k),
    Kernel::new("aten::sort.values", ALL, |c| {
        let outputs = two_outputs(c, 3)?;
        sort(c, outputs, 1, 2)
    }),
    Kernel::new("aten::sort.values_stable", ALL, |c| {
        let outputs = two_outputs(c, 4)?;
        sort(c, outputs, 2, 3)
    }),
];

/// `cumsum(self, dim, dtype, out)`, computed in the output's type.
fn running(context: &mut KernelContext<'_>, product: bool) -> Result<(), KernelError> {
    let (input, out) = (context.tensor(0)?, output(context, 3)?);
    let rank = context.meta(input).rank();
    let dim = dim_index("dimension", context.int(1)?, rank)?;
    context.resize_like(out, input)?;
    let temp = context.temp();
    let ([out], [input]) = context.disjoint([out], [input])?;
    let lines = Lines::of([out.meta, input.meta], dim);
    compute!(real, "the output", out.meta.dtype(), C => {
        let from = as_compute::<C>(temp, input)?;
        let len = lines.line_len();
        let line = |from: &[C], to: &mut [C]| {
            for (from, to) in from.chunks(len).zip(to.chunks_mut(len)) {
                running_line(from, to, product);
            }
        };
        write_compute::<C>(temp, out, |to| lines.make(temp, to, from, line))
    })
}

/// The sums or products of the elements up to each.
fn running_line<C: Compute>(from: &[C], to: &mut [C], product: bool) {
    let (mut sum, mut factor) = (C::Total::zero(), C::Total::one());
    for (to, x) in to.iter_mut().zip(from) {
        let x: C::Total = x.cast();
        (sum, factor) = (sum.plus(x), factor.times(x));
        *to = if product { factor } else { sum }.cast();
    }
}

/// How two elements are ordered; what is no number is above all numbers.
fn order<T: Number>(a: T, b: T) -> Ordering {
    if T::DTYPE.is_floating() {
        let (a, b) = (a.cast::<f64>(), b.cast::<f64>());
        a.partial_cmp(&b)
            .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    } else {
        a.cast::<i64>().cmp(&b.cast::<i64>())
    }
}

/// `topk(self, k, dim, largest, sorted, values, indices)`.
fn top_k(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let (input, outputs) = (context.tensor(0)?, two_outputs(context, 5)?);
    let k = dims::size("k", context.int(1)?)?;
    let (dim, largest) = (context.int(2)?, context.boolean(3)?);
    context.boolean(4)?;
    sorted(context, input, outputs, dim, largest, Some(k))
}

/// `sort(self, dim, descending, values, indices)`.
fn sort(
    context: &mut KernelContext<'_>,
    outputs: [TensorId; 2],
    dim_at: usize,
    descending_at: usize,
) -> Result<(), KernelError> {
    let (dim, descending) = (context.int(dim_at)?, context.boolean(descending_at)?);
    let input = context.tensor(0)?;
    sorted(context, input, outputs, dim, descending, None)
}

/// As many are kept in order while all others pass by.
const FEW: usize = 8;

/// Fills `ranking` with the first of `len` indices in the order of `compare`.
fn rank_few(ranking: &mut [i64], len: usize, compare: impl Fn(&i64, &i64) -> Ordering) {
    let mut count = 0;
    for i in 0..len as i64 {
        let better = |other: &i64| compare(&i, other).is_lt();
        let kept = &ranking[..count];
        let at = count - kept.iter().rev().take_while(|other| better(other)).count();
        if at == ranking.len() {
            continue;
        }
        count = ranking.len().min(count + 1);
        ranking[at..count].rotate_right(1);
        ranking[at] = i;
    }
}

/// Sorts along `dim`, the first `k` only if given. Equals stay in their order.
fn sorted(
    context: &mut KernelContext<'_>,
    input: TensorId,
    [values, indices]: [TensorId; 2],
    dim: i64,
    descending: bool,
    k: Option<usize>,
) -> Result<(), KernelError> {
    expect_same_dtype(context, values, input)?;
    expect_dtype(
        "the indices",
        context.meta(indices).dtype(),
        ScalarTypeSet::of(&[ScalarType::Long]),
    )?;
    let mut sizes: Sizes = context.meta(input).sizes().into();
    let dim = dim_index("dimension", dim, sizes.len())?;
    let len = sizes.get(dim).copied().unwrap_or(1);
    let k = k.unwrap_or(len);
    if k > len {
        return Err(KernelError::invalid(format!(
            "the {k} largest of {len} elements"
        )));
    }
    if let Some(size) = sizes.get_mut(dim) {
        *size = k;
    }
    context.resize(values, &sizes)?;
    context.resize(indices, &sizes)?;
    if context.meta(values).numel() == 0 {
        return Ok(());
    }
    let temp = context.temp();
    let ([mut values, mut indices], [input]) = context.disjoint([values, indices], [input])?;
    let lines = Lines::of([values.meta, indices.meta, input.meta], dim);
    let ranking = scratch::<i64>(temp, len)?;
    let index_out = indices.elements_mut::<i64>()?;
    element!("the input", input.meta.dtype(), T => {
        let from = input.elements::<T>()?;
        let to = values.elements_mut::<T>()?;
        lines.each(|[at, index_at, source], [to_step, index_step, from_step], _| {
            let x = |i: i64| from[(source + from_step * i as isize) as usize];
            let compare = |a: &i64, b: &i64| {
                let by_value = if descending { order(x(*b), x(*a)) } else { order(x(*a), x(*b)) };
                by_value.then(a.cmp(b))
            };
            if k <= FEW {
                rank_few(&mut ranking[..k], len, compare);
            } else {
                for (i, rank) in ranking.iter_mut().enumerate() {
                    *rank = i as i64;
                }
                if k < len {
                    ranking.select_nth_unstable_by(k - 1, compare);
                }
                ranking[..k].sort_unstable_by(compare);
            }
            for (i, index) in ranking[..k].iter().enumerate() {
                let i = i as isize;
                to[(at + to_step * i) as usize] = x(*index);
                index_out[(index_at + index_step * i) as usize] = *index;
            }
            Ok(())
        })
    })
}
