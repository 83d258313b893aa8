//! The loops of reductions.

use crate::dims::Walk;
use crate::number::{Compute, Number};
use crate::simd;

/// Results that are computed side by side where neighbours in memory belong to different results.
const BLOCK: usize = 128;

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
    } else if let Some(([start], len)) = reduced.only_run(1).filter(|(_, len)| *len > 0) {
        kept.each(|[at, from]| {
            let from = from.wrapping_add(start) as usize;
            put(
                at as usize,
                fold.run(fold.start(), &elements[from..from + len]),
            );
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
    struct Work<'a, C, S, F>(&'a F, &'a mut [S], &'a [C]);
    impl<C: Compute, F: Fold<C>> pulp::NullaryFnOnce for Work<'_, C, F::State, F> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            for (state, x) in self.1.iter_mut().zip(self.2) {
                *state = self.0.step(*state, *x);
            }
        }
    }
    simd::run(Work(fold, states, xs));
}

/// `f` over all elements, in several lanes that are put together in the end. `f` must not mind the order.
pub(crate) fn lanes<C: Copy>(start: C, xs: &[C], f: impl Fn(C, C) -> C + Copy) -> C {
    struct Work<'a, C, F>(C, &'a [C], F);
    impl<C: Copy, F: Fn(C, C) -> C + Copy> pulp::NullaryFnOnce for Work<'_, C, F> {
        type Output = C;
        #[inline(always)]
        fn call(self) -> C {
            simd::fold(self.0, self.1, |x| x, self.2)
        }
    }
    simd::run(Work(start, xs, f))
}

/// The sum of floating point numbers: short runs in their own width, those together in full width.
pub(crate) fn sum<C: Compute>(xs: &[C]) -> f64 {
    struct Work<'a, C>(&'a [C]);
    impl<C: Compute> pulp::NullaryFnOnce for Work<'_, C> {
        type Output = f64;
        #[inline(always)]
        fn call(self) -> f64 {
            simd::sum(self.0, |x| x)
        }
    }
    simd::run(Work(xs))
}

pub(super) struct Sum;

impl<C: Compute> Fold<C> for Sum {
    type State = C::Total;

    #[inline(always)]
    fn start(&self) -> C::Total {
        C::Total::zero()
    }

    #[inline(always)]
    fn step(&self, state: C::Total, x: C) -> C::Total {
        state.plus(x.cast())
    }

    fn run(&self, state: C::Total, xs: &[C]) -> C::Total {
        state.plus(if C::FLOATING {
            sum(xs).cast()
        } else {
            lanes(C::zero(), xs, C::plus).cast()
        })
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
