//! Loops compiled for the machine's widest vectors, chosen at run time.

use pulp::{Arch, NullaryFnOnce};

use crate::number::Compute;

/// Runs `work`, compiled several times over: for plain machines and for those with wider vectors. Only what is inlined into
/// it gains, so `work` is a struct whose `call` is `#[inline(always)]`, or one of the loops below.
#[inline(always)]
pub(crate) fn run<W: NullaryFnOnce>(work: W) -> W::Output {
    Arch::new().dispatch(work)
}

/// Independent partial results of a fold, so that the machine need not wait for one before it starts the next.
const LANES: usize = 16;

/// `f` over what `g` makes of all elements, in several lanes that are put together in the end, so `f` must not mind the order and
/// `start` must change nothing. For what is inlined into work.
#[inline(always)]
pub(crate) fn fold<A: Copy, C: Copy>(
    start: C,
    xs: &[A],
    g: impl Fn(A) -> C,
    f: impl Fn(C, C) -> C,
) -> C {
    let (chunks, rest) = xs.as_chunks::<LANES>();
    let mut four = [start; 4];
    if !chunks.is_empty() {
        let mut lanes = [start; LANES];
        for chunk in chunks {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane = f(*lane, g(*x));
            }
        }
        four = std::array::from_fn(|i| {
            let pairs = [f(lanes[i], lanes[i + 4]), f(lanes[i + 8], lanes[i + 12])];
            f(pairs[0], pairs[1])
        });
    }
    let (quads, rest) = rest.as_chunks::<4>();
    for quad in quads {
        for (lane, x) in four.iter_mut().zip(quad) {
            *lane = f(*lane, g(*x));
        }
    }
    let result = f(f(four[0], four[1]), f(four[2], four[3]));
    rest.iter().fold(result, |result, x| f(result, g(*x)))
}

/// The sum of what `g` makes of floating point numbers: short runs in their own width, those together in full width. For what is
/// inlined into work.
#[inline(always)]
pub(crate) fn sum<C: Compute>(xs: &[C], g: impl Fn(C) -> C) -> f64 {
    let mut total = 0.0;
    for run in xs.chunks(1024) {
        total += fold(C::zero(), run, &g, C::plus).cast::<f64>();
    }
    total
}

/// `to[i] = f(from[i])`, as far as both slices go.
pub(crate) fn map<A: Copy, O>(from: &[A], to: &mut [O], f: impl Fn(A) -> O) {
    struct Work<'a, A, O, F>(&'a [A], &'a mut [O], F);
    impl<A: Copy, O, F: Fn(A) -> O> NullaryFnOnce for Work<'_, A, O, F> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            for (to, from) in self.1.iter_mut().zip(self.0) {
                *to = (self.2)(*from);
            }
        }
    }
    run(Work(from, to, f));
}

/// `to[i] = f(a[i], b[i])`, as far as all slices go.
pub(crate) fn map2<A: Copy, B: Copy, O>(a: &[A], b: &[B], to: &mut [O], f: impl Fn(A, B) -> O) {
    struct Work<'a, A, B, O, F>(&'a [A], &'a [B], &'a mut [O], F);
    impl<A: Copy, B: Copy, O, F: Fn(A, B) -> O> NullaryFnOnce for Work<'_, A, B, O, F> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            for ((to, a), b) in self.2.iter_mut().zip(self.0).zip(self.1) {
                *to = (self.3)(*a, *b);
            }
        }
    }
    run(Work(a, b, to, f));
}

/// `to[i] = f(to[i], from[i])`, as far as both slices go.
pub(crate) fn update<A: Copy>(to: &mut [A], from: &[A], f: impl Fn(A, A) -> A) {
    struct Work<'a, A, F>(&'a mut [A], &'a [A], F);
    impl<A: Copy, F: Fn(A, A) -> A> NullaryFnOnce for Work<'_, A, F> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            for (to, from) in self.0.iter_mut().zip(self.1) {
                *to = (self.2)(*to, *from);
            }
        }
    }
    run(Work(to, from, f));
}

/// `to[i] += a[i] * b[i]`, as far as all slices go.
pub(crate) fn add_products<A: Compute>(to: &mut [A], a: &[A], b: &[A]) {
    struct Work<'a, A>(&'a mut [A], &'a [A], &'a [A]);
    impl<A: Compute> NullaryFnOnce for Work<'_, A> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            for ((to, a), b) in self.0.iter_mut().zip(self.1).zip(self.2) {
                *to = to.plus(a.times(*b));
            }
        }
    }
    run(Work(to, a, b));
}

/// `to[i] = from[step * i]`, as far as `from` goes.
pub(crate) fn take_every<A: Copy>(from: &[A], step: usize, to: &mut [A]) {
    struct Work<'a, A>(&'a [A], &'a mut [A]);
    impl<A: Copy> NullaryFnOnce for Work<'_, A> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            let (pairs, last) = self.0.as_chunks::<2>();
            for (to, pair) in self.1.iter_mut().zip(pairs) {
                *to = pair[0];
            }
            if let ([last], Some(to)) = (last, self.1.get_mut(pairs.len())) {
                *to = *last;
            }
        }
    }
    match step {
        1 => to[..from.len()].copy_from_slice(from),
        2 => run(Work(from, to)),
        _ => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(step)) {
                *to = *from;
            }
        }
    }
}

/// `to[i] = f(to[i])`.
pub(crate) fn change<A: Copy>(to: &mut [A], f: impl Fn(A) -> A) {
    struct Work<'a, A, F>(&'a mut [A], F);
    impl<A: Copy, F: Fn(A) -> A> NullaryFnOnce for Work<'_, A, F> {
        type Output = ();
        #[inline(always)]
        fn call(self) {
            for to in self.0 {
                *to = (self.1)(*to);
            }
        }
    }
    run(Work(to, f));
}
