//! Loops compiled for the machine's widest vectors, chosen at run time.

use pulp::{Arch, NullaryFnOnce};

use crate::number::Compute;

/// Runs `work`, compiled several times over: for plain machines and for those with wider vectors. Only what is inlined into
/// it gains, so `work` is a struct whose `call` is `#[inline(always)]`, or one of the loops below.
#[inline(always)]
pub(crate) fn run<W: NullaryFnOnce>(work: W) -> W::Output {
    Arch::new().dispatch(work)
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
