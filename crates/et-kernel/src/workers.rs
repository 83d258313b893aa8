//! Threads that share the work of large instructions.
#![expect(
    unsafe_code,
    reason = "work is lent to threads for as long as the caller waits"
)]

use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};

/// Turns that a worker waits for more work, and a caller for the last worker, before it goes to sleep: some ten microseconds.
const TURNS: u32 = 1000;

/// Threads that help whoever calls [`each`](Self::each). Sharing work takes no block from the heap.
///
/// ```
/// use std::num::NonZeroUsize;
/// use et_kernel::Workers;
///
/// let workers = Workers::new(NonZeroUsize::new(2).unwrap())?;
/// let mut squares = [0; 10];
/// workers.each(squares.chunks_mut(3).enumerate(), |(i, part)| {
///     for (j, square) in part.iter_mut().enumerate() {
///         *square = (3 * i + j).pow(2);
///     }
/// });
/// assert_eq!(squares, [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Workers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held by the caller that is helped; others do their work alone meanwhile.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    idle: Condvar,
    /// The number of the latest job, to look at without the lock.
    latest: AtomicU64,
    /// How many workers are at it, to look at without the lock.
    busy: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// What to do, while there is more to do.
    job: Option<Job>,
    number: u64,
    /// Workers that are at it.
    active: usize,
    /// Workers that sleep until there is more to do.
    asleep: usize,
    /// Whether the caller sleeps until all is done.
    is_awaited: bool,
    failed: bool,
    stop: bool,
}

/// Something to call, for as long as the caller of [`Workers::each`] waits.
#[derive(Clone, Copy)]
struct Job(*const (dyn Fn() + Sync));

// SAFETY: what is pointed to may be used by several threads at once; `Workers::each` keeps it alive while anybody does.
unsafe impl Send for Job {}

impl Workers {
    /// Enough workers that `threads` threads, the caller's own among them, share the work.
    ///
    /// # Errors
    /// If the system refuses to start a thread; those started end.
    pub fn new(threads: NonZeroUsize) -> std::io::Result<Self> {
        let mut workers = Self {
            shared: Arc::default(),
            threads: Vec::new(),
            turn: Mutex::default(),
        };
        for _ in 1..threads.get() {
            let shared = Arc::clone(&workers.shared);
            let builder = thread::Builder::new().name("et-worker".into());
            workers.threads.push(builder.spawn(move || shared.work())?);
        }
        Ok(workers)
    }

    /// How many threads share the work, the caller's among them.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `work` with each item, on this thread and on the workers; returns when all is done. While the workers help
    /// somebody else, and inside of `work`, everything is done on this thread.
    ///
    /// # Panics
    /// If `work` does.
    pub fn each<I: Iterator + Send>(&self, items: I, work: impl Fn(I::Item) + Sync) {
        let items = Mutex::new(items);
        let next = || lock(&items).next();
        let all = || {
            while let Some(item) = next() {
                work(item);
            }
        };
        let _turn = match self.turn.try_lock() {
            _ if self.threads.is_empty() => return all(),
            Ok(turn) => turn,
            // The last caller's work panicked, which is over.
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return all(),
        };
        let job: *const (dyn Fn() + Sync + '_) = &all;
        // SAFETY: the two types differ in a lifetime only. `Waiting`, made right below, ends the job and waits for all who
        // do it before `all` is gone, if `all` panics too.
        let job: *const (dyn Fn() + Sync) = unsafe { std::mem::transmute(job) };
        let waiting = Waiting::new(&self.shared, Job(job));
        all();
        drop(waiting);
        let failed = lock(&self.shared.state).failed;
        assert!(!failed, "a part of the work panicked on another thread");
    }
}

/// A job that workers do as long as this exists.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared, job: Job) -> Self {
        let mut state = lock(&shared.state);
        state.job = Some(job);
        state.failed = false;
        state.number += 1;
        shared.latest.store(state.number, Ordering::Release);
        let asleep = state.asleep;
        drop(state);
        // Those that are awake see the number.
        if asleep > 0 {
            shared.wake.notify_all();
        }
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.job = None;
        if state.active > 0 {
            drop(state);
            spin_until(|| self.0.busy.load(Ordering::Acquire) == 0);
            state = lock(&self.0.state);
        }
        while state.active > 0 {
            state.is_awaited = true;
            state = wait(&self.0.idle, state);
        }
        state.is_awaited = false;
    }
}

impl Shared {
    /// What a worker does.
    fn work(&self) {
        let mut seen = 0;
        loop {
            spin_until(|| self.latest.load(Ordering::Acquire) != seen);
            let mut state = lock(&self.state);
            while !state.stop && (state.job.is_none() || state.number == seen) {
                seen = state.number;
                state.asleep += 1;
                state = wait(&self.wake, state);
                state.asleep -= 1;
            }
            if state.stop {
                return;
            }
            let Some(Job(job)) = state.job else {
                continue;
            };
            seen = state.number;
            state.active += 1;
            self.busy.store(state.active, Ordering::Release);
            drop(state);
            // SAFETY: the job was there under the lock, where this worker was counted; whoever gave it waits until no
            // worker is counted any more.
            let job = unsafe { &*job };
            let done = catch_unwind(AssertUnwindSafe(job));
            let mut state = lock(&self.state);
            state.failed |= done.is_err();
            state.active -= 1;
            self.busy.store(state.active, Ordering::Release);
            if state.active == 0 && state.is_awaited {
                self.idle.notify_all();
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.stop = true;
        self.shared.latest.store(u64::MAX, Ordering::Release);
        drop(state);
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // Workers catch what the work throws.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workers({})", self.threads())
    }
}

/// Waits for a while.
fn spin_until(done: impl Fn() -> bool) {
    for _ in 0..TURNS {
        if done() {
            return;
        }
        std::hint::spin_loop();
    }
}

/// A lock whose data is whole even if a thread panicked with it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

    use super::*;

    fn workers(threads: usize) -> Workers {
        Workers::new(NonZeroUsize::new(threads).unwrap()).unwrap()
    }

    #[test]
    fn every_item_is_done_once() {
        for threads in [1, 2, 5] {
            let workers = workers(threads);
            assert_eq!(workers.threads(), threads);
            for len in [0, 1, 2, 100] {
                let mut counts = vec![0; len];
                workers.each(counts.iter_mut(), |count| *count += 1);
                assert!(counts.iter().all(|&count| count == 1));
            }
        }
    }

    #[test]
    fn work_may_share_its_own_work() {
        let (workers, count) = (workers(3), AtomicUsize::new(0));
        workers.each(0..7, |_| {
            workers.each(0..5, |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(count.into_inner(), 35);
    }

    #[test]
    fn several_callers_are_served_at_once() {
        let (workers, count) = (workers(3), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        workers.each(0..10, |_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 2000);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_workers_go_on() {
        let workers = workers(3);
        for _ in 0..20 {
            let work = |i: usize| assert_ne!(i, 3);
            assert!(catch_unwind(AssertUnwindSafe(|| workers.each(0..8, work))).is_err());
            let count = AtomicUsize::new(0);
            workers.each(0..8, |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.into_inner(), 8);
        }
    }
}
