//! Products of matrices and batches of them.

use et_kernel::{
    Arguments, Dynamism, Kernel, KernelContext, KernelError, MAX_RANK, PrepareContext, Prepared,
    Scalar, ScalarTypeSet, TensorId, TensorMeta,
};

use crate::arguments::output;
use crate::convert::{as_compute, write_compute};
use crate::dims::{self, Strides, Walk, broadcast_strides, broadcast_strides_of};
use crate::dispatch::compute;
use crate::number::{Compute, Number};
use crate::product::{Bias, Ending, Extent, Line, Matrix, MatrixMut, Product, Room, Series, scale};
use crate::simd;
use crate::view::expect_same_dtype;

const ALL: ScalarTypeSet = ScalarTypeSet::REAL_AND_BOOL;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::mm.out", ALL, |c| two_operands(c, Some([2, 2]))),
    Kernel::new("aten::bmm.out", ALL, |c| two_operands(c, Some([3, 3]))),
    Kernel::new("aten::mv.out", ALL, |c| two_operands(c, Some([2, 1]))),
    Kernel::new("aten::dot.out", ALL, |c| two_operands(c, Some([1, 1]))),
    Kernel::new("aten::matmul.out", ALL, |c| two_operands(c, None)),
    Kernel::new("aten::linear.out", ALL, linear),
    Kernel::new("aten::addmm.out", ALL, |c| add_product(c, 2)),
    Kernel::new("aten::baddbmm.out", ALL, |c| add_product(c, 3)),
];

/// A product to compute: `alpha * (a b) + beta * bias`.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    out: TensorId,
    a: TensorId,
    b: TensorId,
    /// Whether it is the transposed `b` that is meant.
    transposed: bool,
    alpha: Scalar,
    bias: Option<(TensorId, Scalar)>,
}

impl Job {
    fn new(out: TensorId, [a, b]: [TensorId; 2]) -> Self {
        Self {
            out,
            a,
            b,
            transposed: false,
            alpha: Scalar::Int(1),
            bias: None,
        }
    }
}

/// Bytes from which on a matrix is rather read against its order than copied to another one.
const LARGE_NBYTES: usize = 64 * 1024;

/// Of a transposition whose result is but the right operand of a product behind it: the product is made of the source then, which is
/// read as it lies. Large weights are exported that way.
pub(crate) fn prepare_transposed(context: &PrepareContext<'_>) -> Result<Prepared, KernelError> {
    Ok(match transposed(context) {
        Some(job) => Prepared::with_state(job).absorbing(1),
        None => Prepared::nothing(),
    })
}

/// The product behind a transposition. Whatever is unusual is left to the run, errors too.
fn transposed(context: &PrepareContext<'_>) -> Option<Job> {
    let source = context.tensor(0).ok()?;
    let (kernel, next) = context.follower(0)?;
    if context.meta(source).nbytes() < LARGE_NBYTES {
        return None;
    }
    let (first, has_bias) = match crate::own(&kernel)?.name() {
        "aten::mm.out" => (0, false),
        "aten::addmm.out" => (1, true),
        _ => return None,
    };
    let between = context.tensor(2).ok()?;
    let (a, b) = (next.tensor(first).ok()?, next.tensor(first + 1).ok()?);
    let out = next.tensor(if has_bias { 5 } else { 2 }).ok()?;
    let (mut bias, mut alpha) = (None, Scalar::Int(1));
    if has_bias {
        (next.is_constant(3) && next.is_constant(4)).then_some(())?;
        bias = Some((next.tensor(0).ok()?, next.scalar(3).ok()?));
        alpha = next.scalar(4).ok()?;
    }
    let order = context
        .int_list(1)
        .ok()
        .filter(|_| context.is_constant(1))?;
    let swaps = order.len() == 2
        && [1, 0]
            .iter()
            .zip(&*order)
            .all(|(to, dim)| dim.rem_euclid(2) == *to);
    let [of, to, left] = [source, between, a].map(|id| context.meta(id));
    let usual = swaps
        && of.dtype() == to.dtype()
        && left.rank() == 2
        && matches!((of.sizes(), to.sizes()), (&[n, k], &[rows, columns]) if [rows, columns] == [k, n])
        && [of, to]
            .iter()
            .all(|meta| meta.dynamism() == Dynamism::Static);
    // Nothing else may be the transposed matrix.
    let alone = b == between && ![Some(a), bias.map(|(id, _)| id)].contains(&Some(between));
    (usual && alone).then_some(Job {
        transposed: true,
        alpha,
        bias,
        ..Job::new(out, [a, source])
    })
}

/// `a b`. `ranks` are those the operator takes, if it minds.
fn two_operands(
    context: &mut KernelContext<'_>,
    ranks: Option<[usize; 2]>,
) -> Result<(), KernelError> {
    let operands = [context.tensor(0)?, context.tensor(1)?];
    let out = output(context, 2)?;
    if let Some(ranks) = ranks {
        expect_ranks(context, operands, ranks)?;
    }
    multiply(context, &Job::new(out, operands))
}

/// `beta * bias + alpha * (a b)`, of matrices or of batches of them.
fn add_product(context: &mut KernelContext<'_>, rank: usize) -> Result<(), KernelError> {
    let [bias, a, b] = [context.tensor(0)?, context.tensor(1)?, context.tensor(2)?];
    let out = output(context, 5)?;
    let [beta, alpha] = [context.scalar(3)?, context.scalar(4)?];
    expect_ranks(context, [a, b], [rank, rank])?;
    let job = Job {
        alpha,
        bias: Some((bias, beta)),
        ..Job::new(out, [a, b])
    };
    multiply(context, &job)
}

/// `input weight^T + bias`, where the bias may be missing.
fn linear(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    let [input, weight] = [context.tensor(0)?, context.tensor(1)?];
    let (bias, out) = (context.optional_tensor(2)?, output(context, 3)?);
    let job = Job {
        transposed: true,
        bias: bias.map(|bias| (bias, Scalar::Int(1))),
        ..Job::new(out, [input, weight])
    };
    multiply(context, &job)
}

fn expect_ranks(
    context: &KernelContext<'_>,
    operands: [TensorId; 2],
    ranks: [usize; 2],
) -> Result<(), KernelError> {
    let found = operands.map(|id| context.meta(id).rank());
    if found == ranks {
        return expect_batches(operands.map(|id| context.meta(id)));
    }
    Err(KernelError::invalid(format!(
        "a product of {found:?} dimensions; this operator takes {ranks:?}"
    )))
}

/// These operators do not broadcast batches.
fn expect_batches([a, b]: [&TensorMeta; 2]) -> Result<(), KernelError> {
    if a.rank() < 3 || a.sizes()[0] == b.sizes()[0] {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "a batch of {} matrices and one of {}",
        a.sizes()[0],
        b.sizes()[0]
    )))
}

/// One operand of a batched product: where its matrices are.
#[derive(Clone, Copy)]
struct Factor {
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl Factor {
    /// The last two dimensions; a vector is a row on the left and a column on the right.
    fn new(meta: &TensorMeta, left: bool) -> Self {
        let (sizes, strides) = (meta.sizes(), meta.strides());
        match (sizes, strides) {
            (&[.., rows, columns], &[.., row_stride, column_stride]) => Self {
                rows,
                columns,
                row_stride,
                column_stride,
            },
            (&[len], &[stride]) if left => Self {
                rows: 1,
                columns: len,
                row_stride: 0,
                column_stride: stride,
            },
            (&[len], &[stride]) => Self {
                rows: len,
                columns: 1,
                row_stride: stride,
                column_stride: 0,
            },
            // Refused before.
            _ => Self {
                rows: 0,
                columns: 0,
                row_stride: 0,
                column_stride: 0,
            },
        }
    }

    fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }

    fn of<'a, T>(&self, elements: &'a [T]) -> Matrix<'a, T> {
        Matrix {
            elements,
            row_stride: self.row_stride,
            column_stride: self.column_stride,
        }
    }
}

/// The dimensions of a batch: all but the last two.
fn batch_dims(meta: &TensorMeta) -> usize {
    meta.rank().saturating_sub(2)
}

/// The product of two tensors of any rank, with batches broadcast.
pub(crate) fn multiply(context: &mut KernelContext<'_>, job: &Job) -> Result<(), KernelError> {
    let Job { out, a, b, .. } = *job;
    let bias = job.bias.filter(|(_, beta)| beta.to_bool());
    for id in [a, b].into_iter().chain(bias.map(|(id, _)| id)) {
        expect_same_dtype(context, id, out)?;
    }
    let metas = [a, b].map(|id| context.meta(id));
    expect_dims(metas, job.transposed)?;
    let plan = Plan::new(metas, job.transposed);
    plan.expect_chain()?;
    let mut sizes = [0; MAX_RANK];
    let rank = plan.shape(metas, &mut sizes)?;
    context.resize(out, &sizes[..rank])?;
    let temp = context.temp();
    let workers = context.environment().workers.as_deref();
    let ([out], [a, b, bias_in]) = context.disjoint([out], [a, b, bias.map_or(a, |(id, _)| id)])?;
    let (out_meta, metas) = (out.meta, [a.meta, b.meta]);
    compute!(real_and_bool, "the operands", out_meta.dtype(), C => {
        let (a, b) = (as_compute::<C>(temp, a)?, as_compute::<C>(temp, b)?);
        let alpha = C::from_scalar(job.alpha);
        let beta = bias.map(|(_, beta)| C::from_scalar(beta));
        let bias_elements = match beta {
            Some(_) => as_compute::<C>(temp, bias_in)?,
            None => &[],
        };
        // A bias for each column is added where the sums are stored.
        let plain = [Some(alpha), beta].iter().flatten().all(|factor| factor.equal(C::one()));
        let is_line = plain && beta.is_some() && plan.is_line(bias_in.meta, out_meta.rank());
        let ending = Ending {
            bias: if is_line { Bias::Columns(Line::new(bias_elements)) } else { Bias::Nothing },
            ..Ending::NOTHING
        };
        write_compute::<C>(temp, out, |out| {
            let mut room = Room::new(temp).shared_by(workers);
            plan.run(&mut room, (out_meta, metas), out, [a, b], &ending)?;
            scale(out, alpha);
            match beta.filter(|_| !is_line) {
                Some(beta) => add_bias(out_meta, out, bias_in.meta, bias_elements, beta),
                None => Ok(()),
            }
        })
    })
}

/// How a product is cut into products of matrices.
struct Plan {
    left: Factor,
    right: Factor,
    extent: Extent,
    has_rows: bool,
    has_columns: bool,
}

/// Fails unless there is a product of the two, whatever their sizes.
fn expect_dims([a, b]: [&TensorMeta; 2], transposed: bool) -> Result<(), KernelError> {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(KernelError::invalid(
            "a product of a tensor without dimensions",
        ));
    }
    if transposed && b.rank() > 2 {
        return Err(KernelError::invalid(
            "linear takes a weight of 1 or 2 dimensions",
        ));
    }
    Ok(())
}

impl Plan {
    fn new([a, b]: [&TensorMeta; 2], transposed: bool) -> Self {
        let (left, mut right) = (Factor::new(a, true), Factor::new(b, false));
        let has_columns = b.rank() > 1;
        if transposed && has_columns {
            right = right.transposed();
        }
        Self {
            left,
            right,
            extent: Extent {
                m: left.rows,
                n: right.columns,
                k: left.columns,
            },
            has_rows: a.rank() > 1,
            has_columns,
        }
    }

    fn expect_chain(&self) -> Result<(), KernelError> {
        let (a, b) = (self.left, self.right);
        if a.columns == b.rows {
            return Ok(());
        }
        Err(KernelError::invalid(format!(
            "a {}x{} matrix cannot be multiplied by a {}x{} one",
            a.rows, a.columns, b.rows, b.columns
        )))
    }

    /// Puts the output's shape into `sizes`; how many dimensions that are.
    fn shape(
        &self,
        operands: [&TensorMeta; 2],
        sizes: &mut [usize; MAX_RANK],
    ) -> Result<usize, KernelError> {
        let [a, b] = operands.map(|meta| &meta.sizes()[..batch_dims(meta)]);
        let mut rank = a.len().max(b.len());
        if b.is_empty() || a == b {
            sizes[..rank].copy_from_slice(a);
        } else {
            sizes[..rank].copy_from_slice(&dims::broadcast([a, b])?);
        }
        for (has, size) in [
            (self.has_rows, self.extent.m),
            (self.has_columns, self.extent.n),
        ] {
            if has {
                sizes[rank] = size;
                rank += 1;
            }
        }
        Ok(rank)
    }

    /// Whether a bias for an output of `rank` dimensions has an element for each column, and there are sums to add it to.
    fn is_line(&self, bias: &TensorMeta, rank: usize) -> bool {
        let Extent { n, k, .. } = self.extent;
        let line = bias.numel() == n && bias.sizes().last() == Some(&n);
        line && self.has_columns && k > 0 && bias.rank() <= rank
    }

    fn run<C: Product>(
        &self,
        room: &mut Room<'_, C>,
        (out_meta, [a_meta, b_meta]): (&TensorMeta, [&TensorMeta; 2]),
        out: &mut [C],
        [a, b]: [&[C]; 2],
        ending: &Ending<'_, C>,
    ) -> Result<(), KernelError> {
        if self.extent.k == 0 || out.is_empty() {
            out.fill(C::zero());
            return Ok(());
        }
        let strides = out_meta.strides();
        let batch = strides.len() - usize::from(self.has_rows) - usize::from(self.has_columns);
        let mut extent = self.extent;
        let row_stride = if self.has_rows { strides[batch] } else { 0 };
        let column_stride = match self.has_columns {
            true => strides[strides.len() - 1],
            false => 0,
        };
        let (mut left, right) = (self.left.of(a), self.right.of(b));
        let mut each =
            |series: Series, extent, left: Matrix<'_, C>, [at, a_at, b_at]: [usize; 3]| {
                let out = MatrixMut {
                    elements: &mut out[at..],
                    row_stride,
                    column_stride,
                };
                let left = Matrix {
                    elements: &left.elements[a_at..],
                    ..left
                };
                let right = Matrix {
                    elements: &b[b_at..],
                    ..right
                };
                C::multiply_each(room, series, extent, out, left, right, ending)
            };
        let one_right = batch_dims(b_meta) == 0;
        if batch == 0 || out_meta.sizes()[..batch].iter().all(|&size| size == 1) {
            return each(Series::ONE, extent, left, [0; 3]);
        }
        if one_right && a_meta.is_contiguous() && out_meta.is_contiguous() {
            // One matrix on the right: the batch on the left is more rows of one matrix.
            extent.m = out_meta.sizes()[..=batch].iter().product();
            left.row_stride = extent.k;
            return each(Series::ONE, extent, left, [0; 3]);
        }
        let walk = batch_walk(out_meta, batch, [a_meta, b_meta])?;
        let (_, steps) = walk.inner();
        let steps = steps.map(|step| step as usize);
        walk.runs(|at, len| {
            let at = at.map(|at| at as usize);
            each(Series { len, steps }, extent, left, at)
        })
    }
}

/// `out += beta * bias`, broadcast.
fn add_bias<C: Compute>(
    meta: &TensorMeta,
    out: &mut [C],
    bias_meta: &TensorMeta,
    bias: &[C],
    beta: C,
) -> Result<(), KernelError> {
    if bias_meta.rank() == 1 && meta.is_contiguous() && meta.sizes().last() == Some(&bias.len()) {
        for row in out.chunks_exact_mut(bias.len().max(1)) {
            simd::update(row, bias, |to: C, bias: C| to.plus(beta.times(bias)));
        }
        return Ok(());
    }
    let strides = broadcast_strides(bias_meta, meta.sizes())?;
    let dims = meta.dim_order().iter().map(|&dim| usize::from(dim));
    let walk = Walk::new(dims.map(|dim| (meta.sizes()[dim], [strides[dim]])));
    walk.check([bias.len()])?;
    let (_, [step]) = walk.inner();
    let mut at = 0;
    walk.runs(|[from], len| {
        let from = from as usize;
        let run = &mut out[at..at + len];
        at += len;
        if step == 1 {
            for (to, bias) in run.iter_mut().zip(&bias[from..from + len]) {
                *to = to.plus(beta.times(*bias));
            }
        } else {
            for (i, to) in run.iter_mut().enumerate() {
                *to = to.plus(beta.times(bias[from.wrapping_add_signed(step * i as isize)]));
            }
        }
        Ok(())
    })
}

/// The walk over a batch: positions of the output's and the operands' matrices.
fn batch_walk(
    out: &TensorMeta,
    batch_rank: usize,
    operands: [&TensorMeta; 2],
) -> Result<Walk<3>, KernelError> {
    let sizes = &out.sizes()[..batch_rank];
    let mut strides = [Strides::new(), Strides::new()];
    for (strides, meta) in strides.iter_mut().zip(operands) {
        let own = batch_dims(meta);
        let batch = (&meta.sizes()[..own], &meta.strides()[..own]);
        *strides = broadcast_strides_of(batch, sizes)?;
    }
    Ok(Walk::new((0..batch_rank).map(|dim| {
        (
            sizes[dim],
            [
                out.strides()[dim] as isize,
                strides[0][dim],
                strides[1][dim],
            ],
        )
    })))
}
