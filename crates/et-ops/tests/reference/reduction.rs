//! One number of many: sums, products, extremes and where they are, truth, spread.

use et_kernel::ScalarType;

use crate::array::{Array, indices};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

/// The dimensions that are reduced, and whether they stay.
struct Along {
    shape: Vec<usize>,
    reduced: Vec<bool>,
    keep: bool,
}

impl Along {
    /// Some dimensions, by names from either end; no name means all of them.
    fn some(choices: &mut Choices) -> (Self, Vec<i64>) {
        let shape = choices.shape();
        let rank = shape.len();
        let mut reduced = vec![false; rank];
        let mut names = Vec::new();
        for (dim, reduced) in reduced.iter_mut().enumerate() {
            *reduced = choices.truth();
            if *reduced {
                names.push(choices.named(dim, rank));
            }
        }
        if names.is_empty() {
            reduced.fill(true);
        }
        let keep = choices.truth();
        (
            Self {
                shape,
                reduced,
                keep,
            },
            names,
        )
    }

    /// One dimension, which a tensor without any has for this purpose too.
    fn one(choices: &mut Choices) -> (Self, i64) {
        let shape = choices.shape();
        let dim = choices.below(shape.len().max(1));
        let mut reduced = vec![false; shape.len()];
        if let Some(reduced) = reduced.get_mut(dim) {
            *reduced = true;
        }
        let name = choices.named(dim, shape.len().max(1));
        let keep = choices.truth();
        (
            Self {
                shape,
                reduced,
                keep,
            },
            name,
        )
    }

    fn everything(choices: &mut Choices) -> Self {
        let shape = choices.shape();
        Self {
            reduced: vec![true; shape.len()],
            shape,
            keep: false,
        }
    }

    /// The result's shape.
    fn sizes(&self) -> Vec<usize> {
        let dims = self.shape.iter().zip(&self.reduced);
        dims.filter_map(|(&size, &reduced)| match (reduced, self.keep) {
            (false, _) => Some(size),
            (true, true) => Some(1),
            (true, false) => None,
        })
        .collect()
    }

    /// The elements that go into an element of the result, in order.
    fn elements(&self, x: &Array, result: &[usize]) -> Vec<Number> {
        let sizes = self.shape.iter().zip(&self.reduced);
        let inner: Vec<usize> = sizes.map(|(&size, &r)| if r { size } else { 1 }).collect();
        let mut own = result.iter();
        let outer: Vec<usize> = self
            .reduced
            .iter()
            .map(|&reduced| match (reduced, self.keep) {
                (false, _) => *own.next().unwrap(),
                (true, true) => own.next().map(|_| 0).unwrap(),
                (true, false) => 0,
            })
            .collect();
        let index =
            |i: Vec<usize>| -> Vec<usize> { i.iter().zip(&outer).map(|(a, b)| a + b).collect() };
        indices(&inner).map(|i| x.at(&index(i))).collect()
    }

    fn reduce(&self, out: ScalarType, x: &Array, f: impl Fn(&[Number]) -> Number) -> Array {
        Array::new(out, &self.sizes(), |i| f(&self.elements(x, i)))
    }
}

/// The type that sums of `dtype` are usually made in.
fn wide(choices: &mut Choices, dtype: ScalarType) -> ScalarType {
    match (FLOATS.contains(&dtype), choices.truth()) {
        (true, true) => dtype,
        (true, false) => choices.pick(&FLOATS[..2]),
        (false, true) => ScalarType::Long,
        (false, false) => choices.pick(&[ScalarType::Float, ScalarType::Double, ScalarType::Int]),
    }
}

fn sum(xs: &[Number], out: ScalarType) -> Number {
    match FLOATS.contains(&out) {
        true => Float(xs.iter().map(|x| x.cast(out).float()).sum()),
        false => Whole(xs.iter().map(|x| x.whole()).sum()),
    }
}

fn product(xs: &[Number], out: ScalarType) -> Number {
    match FLOATS.contains(&out) {
        true => Float(xs.iter().map(|x| x.cast(out).float()).product()),
        false => xs.iter().fold(Whole(1), |product, x| {
            Whole(product.whole().wrapping_mul(x.whole())).cast(ScalarType::Long)
        }),
    }
}

/// Finite numbers: in which order parts of a sum overflow is nobody's business.
fn tame(mut x: Array) -> Array {
    for x in &mut x.elements {
        if x.float().is_finite() && x.float().abs() > 1e3 && matches!(x, Float(_)) {
            *x = Float(2.0).cast(ScalarType::Half);
        }
    }
    x
}

/// What is reduced, and the call that does it but for its output.
type Total = (Along, Box<dyn Fn(&Array) -> Call>);

#[test]
fn sums_and_products() {
    check(500, |choices| {
        let dtype = choices.pick(&TYPES);
        let fill = choices.fill();
        let out = wide(choices, dtype);
        let which = choices.below(6);
        let (along, call): Total = match which {
            0 => {
                let (along, names) = Along::some(choices);
                let keep = along.keep;
                (
                    along,
                    Box::new(move |x| {
                        Call::new("aten::sum.IntList_out")
                            .tensor(x)
                            .ints(&names)
                            .truth(keep)
                            .none()
                    }),
                )
            }
            1 => (
                Along::everything(choices),
                Box::new(|x| Call::new("aten::sum.out").tensor(x).none()),
            ),
            2 => {
                let (along, name) = Along::one(choices);
                let keep = along.keep;
                (
                    along,
                    Box::new(move |x| {
                        Call::new("aten::prod.int_out")
                            .tensor(x)
                            .int(name)
                            .truth(keep)
                            .none()
                    }),
                )
            }
            3 => (
                Along::everything(choices),
                Box::new(|x| Call::new("aten::prod.out").tensor(x).none()),
            ),
            4 => {
                let (along, names) = Along::some(choices);
                let keep = along.keep;
                (
                    along,
                    Box::new(move |x| {
                        Call::new("aten::mean.out")
                            .tensor(x)
                            .ints(&names)
                            .truth(keep)
                            .none()
                    }),
                )
            }
            _ => (
                Along::everything(choices),
                Box::new(|x| Call::new("aten::mean.dtype_out").tensor(x).none()),
            ),
        };
        let mean = which > 3;
        if mean && !FLOATS.contains(&out)
            || which > 1 && which < 4 && dtype.is_floating() && !out.is_floating()
        {
            return;
        }
        let mut x = tame(choices.array(dtype, &along.shape, fill));
        if which > 1 && which < 4 {
            // Products stay where single width can follow.
            for x in x.elements.iter_mut().filter(|x| x.float().abs() > 2.0) {
                *x = Whole(if x.less(Whole(0)) { -1 } else { 1 }).cast(dtype);
            }
        }
        let expected = along.reduce(out, &x, |xs| match which {
            0 | 1 => sum(xs, out),
            2 | 3 => product(xs, out),
            _ => Float(sum(xs, out).float() / xs.len() as f64),
        });
        let size = x
            .elements
            .iter()
            .map(|x| x.float().abs())
            .filter(|x| x.is_finite())
            .sum::<f64>();
        call(&x).out(choices, out, expected.rank()).gives(
            choices,
            &[&expected],
            2.0 + if which < 2 { size } else { 8.0 },
        );
    });
}

fn extreme(xs: &[Number], largest: bool) -> Option<(usize, Number)> {
    let mut best: Option<(usize, Number)> = None;
    for (i, &x) in xs.iter().enumerate() {
        let better = best.is_none_or(|(_, best)| {
            !best.is_nan() && (x.is_nan() || if largest { best.less(x) } else { x.less(best) })
        });
        if better {
            best = Some((i, x));
        }
    }
    best
}

#[test]
fn extremes() {
    check(400, |choices| {
        let dtype = choices.pick(&TYPES);
        let fill = choices.fill();
        let largest = choices.truth();
        let listed = choices.truth();
        let (along, names) = match listed {
            true => Along::some(choices),
            false => (Along::everything(choices), Vec::new()),
        };
        let x = choices.array(dtype, &along.shape, fill);
        let call = Call::new(match (listed, largest) {
            (true, true) => "aten::amax.out",
            (true, false) => "aten::amin.out",
            (false, true) => "aten::max.unary_out",
            (false, false) => "aten::min.unary_out",
        });
        let call = call.tensor(&x);
        let call = match listed {
            true => call.ints(&names).truth(along.keep),
            false => call,
        };
        let rank = along.sizes().len();
        let call = call.out(choices, dtype, rank);
        if x.numel() == 0 && along.sizes().iter().product::<usize>() > 0 {
            return call.fails(choices);
        }
        let expected = along.reduce(dtype, &x, |xs| extreme(xs, largest).unwrap().1);
        call.gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn places_of_extremes() {
    check(400, |choices| {
        let dtype = choices.pick(&TYPES);
        let fill = choices.fill();
        let largest = choices.truth();
        let which = choices.below(3);
        let (mut along, name) = Along::one(choices);
        if which == 2 {
            along.reduced.fill(true);
        }
        let x = choices.array(dtype, &along.shape, fill);
        let call = Call::new(match (which, largest) {
            (0, true) => "aten::max.dim_max",
            (0, false) => "aten::min.dim_min",
            (_, true) => "aten::argmax.out",
            (_, false) => "aten::argmin.out",
        });
        let call = call.tensor(&x);
        let call = match which {
            2 => call.none(),
            _ => call.int(name),
        };
        let call = call.truth(along.keep);
        let rank = along.sizes().len();
        let call = match which {
            0 => call.out(choices, dtype, rank),
            _ => call,
        };
        let call = call.out(choices, ScalarType::Long, rank);
        let nothing = along.elements_each() == 0
            && (which == 2 || along.sizes().iter().product::<usize>() > 0);
        if nothing {
            return call.fails(choices);
        }
        if which == 2 && x.numel() == 0 {
            return call.fails(choices);
        }
        let of = |xs: &[Number]| extreme(xs, largest).unwrap();
        let places = along.reduce(ScalarType::Long, &x, |xs| Whole(of(xs).0 as i128));
        let values = along.reduce(dtype, &x, |xs| of(xs).1);
        match which {
            0 => call.gives(choices, &[&values, &places], 0.0),
            _ => call.gives(choices, &[&places], 0.0),
        }
    });
}

impl Along {
    /// How many elements go into one of the result.
    fn elements_each(&self) -> usize {
        let sizes = self.shape.iter().zip(&self.reduced);
        sizes
            .filter(|(_, reduced)| **reduced)
            .map(|(size, _)| size)
            .product()
    }
}

#[test]
fn truth() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES);
        let any = choices.truth();
        let which = choices.below(3);
        let (along, names) = match which {
            0 => Along::some(choices),
            1 => {
                let (along, name) = Along::one(choices);
                (along, vec![name])
            }
            _ => (Along::everything(choices), Vec::new()),
        };
        let x = choices.array(dtype, &along.shape, Fill::Small);
        let call = Call::new(match (which, any) {
            (0, true) => "aten::any.dims_out",
            (0, false) => "aten::all.dims_out",
            (1, true) => "aten::any.out",
            (1, false) => "aten::all.out",
            (_, true) => "aten::any.all_out",
            (_, false) => "aten::all.all_out",
        });
        let call = call.tensor(&x);
        let call = match which {
            0 => call.ints(&names).truth(along.keep),
            1 => call.int(names[0]).truth(along.keep),
            _ => call,
        };
        let expected = along.reduce(ScalarType::Bool, &x, |xs| match any {
            true => xs.iter().any(|x| x.truth()).into(),
            false => xs.iter().all(|x| x.truth()).into(),
        });
        call.out(choices, ScalarType::Bool, expected.rank())
            .gives(choices, &[&expected], 0.0);
    });
}

fn variance(xs: &[Number], correction: f64) -> f64 {
    let n = xs.len() as f64;
    let mean = xs.iter().map(|x| x.float()).sum::<f64>() / n;
    let squares: f64 = xs.iter().map(|x| (x.float() - mean).powi(2)).sum();
    squares / (n - correction).max(0.0)
}

#[test]
fn spread() {
    check(300, |choices| {
        let dtype = choices.pick(&FLOATS);
        let (along, names) = Along::some(choices);
        let x = choices.array(dtype, &along.shape, Fill::Small);
        let which = choices.below(5);
        let correction = choices.within(0, 2);
        let call = Call::new(
            [
                "aten::var.out",
                "aten::std.out",
                "aten::var.correction_out",
                "aten::std.correction_out",
                "aten::var_mean.correction_out",
            ][which],
        );
        let call = call.tensor(&x).ints(&names);
        let call = match which {
            0 | 1 => call.truth(correction > 0),
            _ => call.int(correction),
        };
        let correction = if which < 2 {
            correction.min(1)
        } else {
            correction
        } as f64;
        let root = which == 1 || which == 3;
        let spread = along.reduce(dtype, &x, |xs| {
            let variance = variance(xs, correction);
            Float(if root { variance.sqrt() } else { variance })
        });
        let call = call.truth(along.keep).out(choices, dtype, spread.rank());
        if which < 4 {
            return call.gives(choices, &[&spread], 8.0);
        }
        let mean = along.reduce(dtype, &x, |xs| {
            Float(sum(xs, dtype).float() / xs.len() as f64)
        });
        call.out(choices, dtype, spread.rank())
            .gives(choices, &[&spread, &mean], 8.0);
    });
}
