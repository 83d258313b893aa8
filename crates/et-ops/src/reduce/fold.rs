//! The loops of reductions.

use crate::dims::Walk;
use crate::number::Compute;
use crate::simd;

/// Results that are computed side by side where neighbours in memory belong to different results.
const BLOCK: usize = 128;

/// Independent partial results of a run, so that the machine need not wait for one before it starts the next.
const LANES: usize = 16;

/// What is kept of the elements so far.
pub(super) trait Fold<C: Compute> {
    type State: Copy;

    /// Of no elements.
    fn start(&self) -> Self::State;

    /// Of one element more.
    fn step(&self, state: Self::State, x: C) -> Self::State;

    /// Of a run more.
    fn run(&self, state: Self::State, xs: &[C]) -> Self::State {
        xs.iter().fold(state, |state, x| self.step(state, *x))
    }
}

/// Folds the elements that `reduced` leads to, for each position of `kept`, whose results go to `put`.
pub(super) fn run<C: Compute, F: Fold<C>>(
    elements: &[C],
    kept: &Walk<2>,
    reduced: &Walk<1>,
    fold: &F,
    mut put: impl FnMut(usize, F::State),
) {
    let (_, [out_step, step]) = kept.inner();
    let (_, [reduced_step]) = reduced.inner();
    let done: Result<(), std::convert::Infallible> = if step == 1 && reduced_step != 1 {
        kept.runs(|[at, from], len| {
            for start in (0..len).step_by(BLOCK) {
                let len = BLOCK.min(len - start);
                let from = from as usize + start;
                let mut states = [fold.start(); BLOCK];
                let states = &mut states[..len];
                let Ok(()) = reduced.each(|[offset]| {
                    let from = from.wrapping_add_signed(offset);
                    fold_across(fold, states, &elements[from..from + len]);
                    Ok::<_, std::convert::Infallible>(())
                });
                for (i, state) in states.iter().enumerate() {
                    put(
                        at.wrapping_add(out_step * (start + i) as isize) as usize,
                        *state,
                    );
                }
            }
            Ok(())
        })
    } else {
        kept.each(|[at, from]| {
            put(
                at as usize,
                fold_one(elements, from as usize, reduced, fold),
            );
            Ok(())
        })
    };
    let Ok(()) = done;
}

fn fold_one<C: Compute, F: Fold<C>>(
    elements: &[C],
    from: usize,
    reduced: &Walk<1>,
    fold: &F,
) -> F::State {
    let (_, [step]) = reduced.inner();
    let mut state = fold.start();
    let Ok(()) = reduced.runs(|[offset], len| {
        let from = from.wrapping_add_signed(offset);
        if step == 1 || len == 1 {
            state = fold.run(state, &elements[from..from + len]);
        } else {
            for i in 0..len as isize {
                state = fold.step(state, elements[from.wrapping_add_signed(step * i)]);
            }
        }
        Ok::<_, std::convert::Infallible>(())
    });
    state
}

/// Each element to the state at its place.
fn fold_across<C: Compute, F: Fold<C>>(fold: &F, states: &mut [F::State], xs: &[C]) {
    for (state, x) in states.iter_mut().zip(xs) {
        *state = fold.step(*state, *x);
    }
}

/// `f` over all elements, in several lanes that are put together in the end. `f` must not mind the order.
pub(crate) fn lanes<C: Copy>(start: C, xs: &[C], f: impl Fn(C, C) -> C + Copy) -> C {
    struct Work<'a, C, F>(C, &'a [C], F);
    impl<C: Copy, F: Fn(C, C) -> C + Copy> pulp::NullaryFnOnce for Work<'_, C, F> {
        type Output = C;
        #[inline(always)]
        fn call(self) -> C {
            let Work(start, xs, f) = self;
            let mut lanes = [start; LANES];
            let (chunks, rest) = xs.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    *lane = f(*lane, *x);
                }
            }
            for (lane, x) in lanes.iter_mut().zip(rest) {
                *lane = f(*lane, *x);
            }
            lanes.into_iter().fold(start, f)
        }
    }
    if xs.len() < LANES {
        return xs.iter().copied().fold(start, f);
    }
    simd::run(Work(start, xs, f))
}

/// The sum of floating point numbers: short runs in their own width, those together in full width.
pub(crate) fn sum<C: Compute>(xs: &[C]) -> f64 {
    xs.chunks(1024)
        .map(|xs| lanes(C::zero(), xs, C::plus).cast::<f64>())
        .sum()
}

/// A sum: of floating point numbers in full width, of whole ones wrapping.
#[derive(Clone, Copy)]
pub(super) enum Summed<C> {
    Float(f64),
    Whole(C),
}

impl<C: Compute> Summed<C> {
    #[inline(always)]
    pub(super) fn get(self) -> C {
        match self {
            Self::Float(sum) => C::from_f64(sum),
            Self::Whole(sum) => sum,
        }
    }

    #[inline(always)]
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Self::Float(sum) => sum,
            Self::Whole(sum) => sum.cast(),
        }
    }
}

pub(super) struct Sum;

impl<C: Compute> Fold<C> for Sum {
    type State = Summed<C>;

    #[inline(always)]
    fn start(&self) -> Summed<C> {
        if C::FLOATING {
            Summed::Float(0.0)
        } else {
            Summed::Whole(C::zero())
        }
    }

    #[inline(always)]
    fn step(&self, state: Summed<C>, x: C) -> Summed<C> {
        match state {
            Summed::Float(sum) => Summed::Float(sum + x.cast::<f64>()),
            Summed::Whole(sum) => Summed::Whole(sum.plus(x)),
        }
    }

    fn run(&self, state: Summed<C>, xs: &[C]) -> Summed<C> {
        match state {
            Summed::Float(so_far) => Summed::Float(so_far + sum(xs)),
            Summed::Whole(so_far) => Summed::Whole(lanes(C::zero(), xs, C::plus).plus(so_far)),
        }
    }
}

pub(super) struct Product;

impl<C: Compute> Fold<C> for Product {
    type State = C;

    #[inline(always)]
    fn start(&self) -> C {
        C::one()
    }

    #[inline(always)]
    fn step(&self, state: C, x: C) -> C {
        state.times(x)
    }
}

pub(super) struct Most;

impl<C: Compute> Fold<C> for Most {
    type State = C;

    #[inline(always)]
    fn start(&self) -> C {
        C::LOWEST
    }

    #[inline(always)]
    fn step(&self, state: C, x: C) -> C {
        state.max_nan(x)
    }

    fn run(&self, state: C, xs: &[C]) -> C {
        lanes(state, xs, C::max_nan)
    }
}

pub(super) struct Least;

impl<C: Compute> Fold<C> for Least {
    type State = C;

    #[inline(always)]
    fn start(&self) -> C {
        C::HIGHEST
    }

    #[inline(always)]
    fn step(&self, state: C, x: C) -> C {
        state.min_nan(x)
    }

    fn run(&self, state: C, xs: &[C]) -> C {
        lanes(state, xs, C::min_nan)
    }
}

pub(super) struct Any;

impl<C: Compute> Fold<C> for Any {
    type State = bool;

    #[inline(always)]
    fn start(&self) -> bool {
        false
    }

    #[inline(always)]
    fn step(&self, state: bool, x: C) -> bool {
        state | x.truth()
    }
}

pub(super) struct All;

impl<C: Compute> Fold<C> for All {
    type State = bool;

    #[inline(always)]
    fn start(&self) -> bool {
        true
    }

    #[inline(always)]
    fn step(&self, state: bool, x: C) -> bool {
        state & x.truth()
    }
}

/// How far elements lie from their mean.
#[derive(Clone, Copy)]
pub(super) struct Deviations {
    count: f64,
    mean: f64,
    /// The sum of the squared distances from the mean.
    pub(super) squares: f64,
}

pub(super) struct Deviation;

impl<C: Compute> Fold<C> for Deviation {
    type State = Deviations;

    #[inline(always)]
    fn start(&self) -> Deviations {
        Deviations {
            count: 0.0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    /// The mean moves by the element's share of the distance.
    #[inline(always)]
    fn step(&self, state: Deviations, x: C) -> Deviations {
        let x: f64 = x.cast();
        let count = state.count + 1.0;
        let distance = x - state.mean;
        let mean = state.mean + distance / count;
        Deviations {
            count,
            mean,
            squares: state.squares + distance * (x - mean),
        }
    }

    /// A run's own mean first, and then the distances, without a division for each element.
    fn run(&self, state: Deviations, xs: &[C]) -> Deviations {
        if xs.is_empty() {
            return state;
        }
        let count = xs.len() as f64;
        let mean = sum(xs) / count;
        let squares: f64 = xs.iter().map(|x| (x.cast::<f64>() - mean).powi(2)).sum();
        let (total, distance) = (state.count + count, mean - state.mean);
        Deviations {
            count: total,
            mean: state.mean + distance * count / total,
            squares: state.squares + squares + distance * distance * state.count * count / total,
        }
    }
}
