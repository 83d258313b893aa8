//! A kernel: what runs an operator.

use std::any::Any;
use std::fmt;

use crate::{KernelContext, KernelError, PrepareContext, ScalarTypeSet};

/// What a kernel keeps for one instruction of one loaded method, made once by its [`PrepareFn`]: packed weights, a chosen
/// algorithm.
pub type StepState = Box<dyn Any + Send>;

/// Runs the operator once.
pub type RunFn = fn(&mut KernelContext<'_>) -> Result<(), KernelError>;

/// Looks at an instruction when its method is loaded.
pub type PrepareFn = fn(&PrepareContext<'_>) -> Result<Prepared, KernelError>;

/// What a kernel wants for an instruction.
#[derive(Default)]
#[non_exhaustive]
pub struct Prepared {
    /// State for [`KernelContext::take_state`].
    pub state: Option<StepState>,
    /// Bytes of scratch memory a run will take from the arena, for the largest shapes.
    pub scratch_nbytes: u64,
    /// How many of [`PrepareContext::follower`]'s instructions a run does too. They are not run then.
    pub absorbed: usize,
}

impl Prepared {
    /// Nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// `state` for each run.
    pub fn with_state(state: impl Any + Send) -> Self {
        Self {
            state: Some(Box::new(state)),
            ..Self::default()
        }
    }

    /// The same, with `nbytes` bytes of scratch memory.
    #[must_use]
    pub fn and_scratch(mut self, nbytes: u64) -> Self {
        self.scratch_nbytes = nbytes;
        self
    }

    /// The same, doing the first `count` followers too.
    #[must_use]
    pub fn absorbing(mut self, count: usize) -> Self {
        self.absorbed = count;
        self
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("state", &self.state.is_some())
            .field("scratch_nbytes", &self.scratch_nbytes)
            .field("absorbed", &self.absorbed)
            .finish()
    }
}

/// An operator's implementation, by the operator's full name.
#[derive(Clone, Copy)]
pub struct Kernel {
    name: &'static str,
    dtypes: ScalarTypeSet,
    run: RunFn,
    prepare: Option<PrepareFn>,
    is_pure: bool,
    writes_last: bool,
}

impl Kernel {
    /// A kernel for operator `name`, written `namespace::operator.overload` (no dot without an overload).
    pub const fn new(name: &'static str, dtypes: ScalarTypeSet, run: RunFn) -> Self {
        Self {
            name,
            dtypes,
            run,
            prepare: None,
            is_pure: false,
            writes_last: false,
        }
    }

    /// The same, with something to do at load.
    #[must_use]
    pub const fn with_prepare(mut self, prepare: PrepareFn) -> Self {
        self.prepare = Some(prepare);
        self
    }

    /// The same, saying that a run does nothing but write its last argument, the same whenever the other arguments are the
    /// same, in a time that grows as their bytes do: where they never change, once is enough, when the method is loaded.
    #[must_use]
    pub const fn pure(mut self) -> Self {
        self.is_pure = true;
        self.writing_last()
    }

    /// The same, saying that a run writes its last argument (or, if that is a list, what is in it) and no other. Of any other kernel it
    /// is taken that it may write all of them.
    #[must_use]
    pub const fn writing_last(mut self) -> Self {
        self.writes_last = true;
        self
    }

    /// Whether it writes its [last argument](Self::writing_last) only.
    pub const fn writes_last(&self) -> bool {
        self.writes_last
    }

    /// Whether it is [`pure`](Self::pure).
    pub const fn is_pure(&self) -> bool {
        self.is_pure
    }

    /// Whether the two are one kernel: the same function for the same operator. A false `false` is possible, a false `true` is not.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && std::ptr::fn_addr_eq(self.run, other.run)
    }

    /// The operator.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The element types it computes with; empty for operators on numbers.
    pub const fn dtypes(&self) -> ScalarTypeSet {
        self.dtypes
    }

    /// What runs it.
    pub const fn run(&self) -> RunFn {
        self.run
    }

    /// What prepares it, if anything.
    pub const fn prepare(&self) -> Option<PrepareFn> {
        self.prepare
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}
