//! Operators on numbers, and the two that work on tensors without computing.

use et_kernel::{
    Arguments, Bool8, EValue, Kernel, KernelContext, KernelError, Scalar, ScalarType, ScalarTypeSet,
};

use crate::dims::{self, Sizes, dim_index};
use crate::dispatch::{NUMBERS, element};
use crate::number::Number;
use crate::shape::inferred_shape;

const NONE: ScalarTypeSet = ScalarTypeSet::NONE;

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::new("aten::sym_size.int", NONE, sym_size),
    Kernel::new("aten::sym_numel", NONE, sym_numel),
    Kernel::new("aten::_local_scalar_dense", NUMBERS, local_scalar),
    Kernel::new("executorch_prim::add.Scalar", NONE, |c| {
        arithmetic(c, i64::checked_add, |a, b| a + b)
    }),
    Kernel::new("executorch_prim::sub.Scalar", NONE, |c| {
        arithmetic(c, i64::checked_sub, |a, b| a - b)
    }),
    Kernel::new("executorch_prim::mul.Scalar", NONE, |c| {
        arithmetic(c, i64::checked_mul, |a, b| a * b)
    }),
    Kernel::new("executorch_prim::floordiv.Scalar", NONE, |c| {
        arithmetic(c, floor_quotient, floor_quotient_f64)
    }),
    Kernel::new("executorch_prim::floordiv.int", NONE, |c| {
        whole(c, i64::checked_div)
    }),
    Kernel::new("executorch_prim::truediv.Scalar", NONE, true_quotient),
    Kernel::new("executorch_prim::mod.Scalar", NONE, |c| {
        whole(c, i64::checked_rem)
    }),
    Kernel::new("executorch_prim::mod.int", NONE, |c| {
        whole(c, i64::checked_rem)
    }),
    Kernel::new("executorch_prim::sym_max.Scalar", NONE, |c| {
        whole(c, |a, b| Some(a.max(b)))
    }),
    Kernel::new("executorch_prim::sym_min.Scalar", NONE, |c| {
        whole(c, |a, b| Some(a.min(b)))
    }),
    Kernel::new("executorch_prim::eq.Scalar", NONE, |c| {
        compare(c, |a, b| a == b, |a, b| a == b)
    }),
    Kernel::new("executorch_prim::gt.Scalar", NONE, |c| {
        compare(c, |a, b| a > b, |a, b| a > b)
    }),
    Kernel::new("executorch_prim::lt.Scalar", NONE, |c| {
        compare(c, |a, b| a < b, |a, b| a < b)
    }),
    Kernel::new("executorch_prim::ge.Scalar", NONE, |c| {
        compare(c, |a, b| a >= b, |a, b| a >= b)
    }),
    Kernel::new("executorch_prim::le.Scalar", NONE, |c| {
        compare(c, |a, b| a <= b, |a, b| a <= b)
    }),
    Kernel::new("executorch_prim::neg.Scalar", NONE, negate),
    Kernel::new("executorch_prim::sym_not.Scalar", NONE, |c| {
        expect(c, 2)?;
        let value = c.boolean(0)?;
        c.set(1, EValue::Bool(!value))
    }),
    Kernel::new("executorch_prim::sym_float.Scalar", NONE, |c| {
        expect(c, 2)?;
        let value = c.scalar(0)?.to_f64();
        c.set(1, EValue::Double(value))
    }),
    Kernel::new("executorch_prim::sym_int.Scalar", NONE, |c| {
        expect(c, 2)?;
        let value = match c.scalar(0)? {
            Scalar::Double(value) => rounded(value)?,
            value => value.to_i64(),
        };
        c.set(1, EValue::Int(value))
    }),
    Kernel::new("executorch_prim::sym_ite.Scalar", NONE, |c| {
        expect(c, 4)?;
        let (yes, no) = (c.scalar(1)?, c.scalar(2)?);
        let chosen = if c.boolean(0)? { yes } else { no };
        c.set(3, EValue::from(chosen))
    }),
    Kernel::new("executorch_prim::ceil.Scalar", NONE, |c| {
        to_whole(c, f64::ceil)
    }),
    Kernel::new("executorch_prim::round.Scalar", NONE, |c| {
        to_whole(c, f64::round_ties_even)
    }),
    Kernel::new("executorch_prim::trunc.Scalar", NONE, |c| {
        to_whole(c, f64::trunc)
    }),
];

pub(crate) const NAME_KERNELS: &[Kernel] = &[
    Kernel::new(
        "executorch_prim::et_copy_index.tensor",
        ScalarTypeSet::ALL,
        copy_index,
    ),
    Kernel::new("executorch_prim::et_view.default", ScalarTypeSet::ALL, view),
];

fn expect(context: &KernelContext<'_>, count: usize) -> Result<(), KernelError> {
    context.expect_arguments(count..=count)
}

/// A size as a program's number. Sizes are below `isize::MAX`.
fn as_int(size: usize) -> EValue {
    EValue::Int(size as i64)
}

fn sym_size(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    expect(context, 3)?;
    let meta = context.meta(context.tensor(0)?);
    let dim = dim_index("dimension", context.int(1)?, meta.rank())?;
    let size = meta
        .sizes()
        .get(dim)
        .copied()
        .ok_or_else(|| KernelError::invalid("the size of a tensor that has no dimensions"))?;
    context.set(2, as_int(size))
}

fn sym_numel(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    expect(context, 2)?;
    let numel = context.meta(context.tensor(0)?).numel();
    context.set(1, as_int(numel))
}

/// The first element, wherever the tensor is.
fn local_scalar(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    fn scalar<T: Number>(element: T) -> Scalar {
        match T::DTYPE {
            ScalarType::Bool => Scalar::Bool(element.cast::<Bool8>().get()),
            dtype if dtype.is_floating() => Scalar::Double(element.cast()),
            _ => Scalar::Int(element.cast()),
        }
    }
    expect(context, 2)?;
    let tensor = context.tensor(0)?;
    let meta = context.meta(tensor);
    if meta.numel() != 1 {
        return Err(KernelError::invalid(format!(
            "a number is taken from a tensor of {} elements",
            meta.numel()
        )));
    }
    let value = element!("the tensor", meta.dtype(), T => {
        let mut element = [T::default()];
        context.read_bytes(tensor, et_kernel::as_bytes_mut(&mut element))?;
        Ok(scalar(element[0]))
    })?;
    context.set(1, EValue::from(value))
}

fn out_of_range() -> KernelError {
    KernelError::invalid(
        "the result is outside of the whole numbers of 64 bits, or a division by 0",
    )
}

/// Whole operands give a whole number, others a fraction.
fn arithmetic(
    context: &mut KernelContext<'_>,
    whole: impl Fn(i64, i64) -> Option<i64>,
    fraction: impl Fn(f64, f64) -> f64,
) -> Result<(), KernelError> {
    expect(context, 3)?;
    if let (EValue::Int(a), EValue::Int(b)) = (context.value(0)?, context.value(1)?) {
        let result = whole(*a, *b).ok_or_else(out_of_range)?;
        return context.set(2, EValue::Int(result));
    }
    let (a, b) = number_pair(context)?;
    context.set(2, EValue::Double(fraction(a.to_f64(), b.to_f64())))
}

/// Two numbers, of which none is a truth value.
fn number_pair(context: &KernelContext<'_>) -> Result<(Scalar, Scalar), KernelError> {
    let number = |at: usize| match context.scalar(at)? {
        Scalar::Bool(_) => Err(KernelError::ArgumentKind {
            argument: at,
            expected: "a number",
            found: et_kernel::ValueKind::Bool,
        }),
        number => Ok(number),
    };
    Ok((number(0)?, number(1)?))
}

fn whole(
    context: &mut KernelContext<'_>,
    f: impl Fn(i64, i64) -> Option<i64>,
) -> Result<(), KernelError> {
    expect(context, 3)?;
    let result = f(context.int(0)?, context.int(1)?).ok_or_else(out_of_range)?;
    context.set(2, EValue::Int(result))
}

fn floor_quotient(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let below = a % b != 0 && (a < 0) != (b < 0);
    Some(quotient - i64::from(below))
}

fn floor_quotient_f64(a: f64, b: f64) -> f64 {
    if b == 0.0 {
        return f64::INFINITY.copysign(a);
    }
    crate::number::Compute::quotient_floor(a, b)
}

fn true_quotient(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    expect(context, 3)?;
    let (a, b) = number_pair(context)?;
    context.set(2, EValue::Double(a.to_f64() / b.to_f64()))
}

fn compare(
    context: &mut KernelContext<'_>,
    whole: impl Fn(i64, i64) -> bool,
    fraction: impl Fn(f64, f64) -> bool,
) -> Result<(), KernelError> {
    expect(context, 3)?;
    let result = match (context.scalar(0)?, context.scalar(1)?) {
        (Scalar::Int(a), Scalar::Int(b)) => whole(a, b),
        (Scalar::Bool(a), Scalar::Bool(b)) => whole(a.into(), b.into()),
        _ => {
            let (a, b) = number_pair(context)?;
            fraction(a.to_f64(), b.to_f64())
        }
    };
    context.set(2, EValue::Bool(result))
}

fn negate(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    expect(context, 2)?;
    let result = match context.value(0)? {
        EValue::Int(value) => EValue::Int(value.checked_neg().ok_or_else(out_of_range)?),
        _ => EValue::Double(-context.double(0)?),
    };
    context.set(1, result)
}

/// A fraction as the whole number it is nearest to on the side of zero.
fn rounded(value: f64) -> Result<i64, KernelError> {
    // 2^63 is a floating point number, the largest whole number of 64 bits is not.
    let end = -(i64::MIN as f64);
    if value >= i64::MIN as f64 && value < end {
        Ok(value as i64)
    } else {
        Err(out_of_range())
    }
}

fn to_whole(context: &mut KernelContext<'_>, f: impl Fn(f64) -> f64) -> Result<(), KernelError> {
    expect(context, 2)?;
    let value = match context.value(0)? {
        EValue::Double(value) => *value,
        other => {
            return Err(KernelError::ArgumentKind {
                argument: 0,
                expected: "a floating point number",
                found: other.kind(),
            });
        }
    };
    context.set(1, EValue::Int(rounded(f(value))?))
}

/// `copy_to[index] = copy_from`, growing `copy_to` to `index + 1`.
fn copy_index(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    expect(context, 3)?;
    let (to, from) = (context.tensor(0)?, context.tensor(1)?);
    let index = dims::size("index", context.int(2)?)?;
    let (to_meta, from_meta) = (context.meta(to), context.meta(from));
    let fits = to_meta.dtype() == from_meta.dtype()
        && to_meta.rank() == from_meta.rank() + 1
        && to_meta.sizes()[1..] == *from_meta.sizes()
        && to_meta.is_contiguous()
        && from_meta.is_contiguous();
    if !fits {
        return Err(KernelError::invalid(format!(
            "{from_meta:?} cannot be a row of {to_meta:?}"
        )));
    }
    let row = from_meta.nbytes();
    let mut sizes: Sizes = to_meta.sizes().into();
    sizes[0] = index
        .checked_add(1)
        .ok_or_else(|| KernelError::invalid("the index is too large"))?;
    context.resize(to, &sizes)?;
    // The last row of what `copy_to` now is.
    let ([to], [from]) = context.disjoint([to], [from])?;
    let start = to.bytes.len() - row;
    to.bytes[start..].copy_from_slice(from.bytes);
    Ok(())
}

/// `out` becomes another name for the bytes of `self`, in another shape.
fn view(context: &mut KernelContext<'_>) -> Result<(), KernelError> {
    expect(context, 3)?;
    let (input, wanted, out) = (context.tensor(0)?, context.int_list(1)?, context.tensor(2)?);
    let meta = context.meta(input);
    let sizes = inferred_shape(&wanted, meta.numel())?;
    if !meta.is_contiguous() || !context.meta(out).is_contiguous() {
        return Err(KernelError::invalid(
            "a view of a tensor whose dimensions are not in index order",
        ));
    }
    context.resize(out, &sizes)?;
    context.alias(out, input)
}
