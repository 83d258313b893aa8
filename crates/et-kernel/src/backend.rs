//! Backends, and the delegates that they make from blobs in a program.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use et_memory::{Budget, MemoryPlan};

use crate::{Environment, KernelContext, KernelError, SharedBytes, TensorMeta};

/// Makes delegates: parts of a program that were compiled ahead of time for something else than the operators.
///
/// A backend is shared by all methods and threads of a process.
pub trait Backend: Send + Sync {
    /// The id under which programs name it.
    fn id(&self) -> &str;

    /// Whether it can work on this machine.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`], saying what is missing.
    fn is_available(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Makes a delegate from `blob`. The blob is freed as soon as nobody holds it: the delegate may keep it or drop it.
    ///
    /// # Errors
    /// Whatever keeps the blob from being used.
    fn init(
        &self,
        context: &InitContext<'_>,
        blob: SharedBytes,
    ) -> Result<Box<dyn Delegate>, BackendError>;
}

/// A part of one loaded method that a backend runs. Used by one thread at a time, and dropped with the method.
pub trait Delegate: Send {
    /// Runs it once. The arguments are its inputs and then its outputs, on the devices their tensors say. A delegate that works in
    /// device memory gets it from [`KernelContext::located`], with the allocator it is from: the environment's registry may have
    /// another one for the same device.
    ///
    /// # Errors
    /// Whatever kept it from finishing. The method stays usable, so the delegate must too.
    fn execute(&mut self, context: &mut KernelContext<'_>) -> Result<(), KernelError>;

    /// Puts state kept between runs back to what it was after `init`. The default has none.
    ///
    /// # Errors
    /// Whatever kept it from that.
    fn reset_state(&mut self) -> Result<(), KernelError> {
        Ok(())
    }
}

/// What a backend is told when it makes a delegate.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct InitContext<'a> {
    /// The method that is loaded.
    pub method: &'a str,
    /// The compile specs of the delegate, in file order.
    pub compile_specs: &'a [CompileSpec<'a>],
    /// What the method is loaded with.
    pub environment: &'a Environment,
    /// The program's named data and that of data files beside it.
    pub named_data: &'a dyn NamedData,
    /// What the method has left for its delegates.
    pub limits: &'a Limits,
}

/// What a delegate may take. A backend whose delegates load programs passes this on to them. Clones draw on one account: what one
/// delegate takes is gone for those behind it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    account: Arc<Mutex<Account>>,
    /// How many instructions one run may take.
    pub instructions: u64,
    /// How many programs this one is nested in.
    pub depth: u32,
    /// How large each program may be.
    pub size: SizeLimits,
}

/// Upper limits on what a method consists of, checked before anything is made for it. The default has none: a method is never larger
/// than its file, and loading takes time and memory in proportion to that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SizeLimits {
    /// Values.
    pub values: u64,
    /// Instructions in all chains, however often they run.
    pub instructions: u64,
    /// Bytes of constants, those from data files with them. One that several values name counts for each.
    pub constant_bytes: u64,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self::unlimited()
    }
}

impl SizeLimits {
    /// None.
    pub const fn unlimited() -> Self {
        Self {
            values: u64::MAX,
            instructions: u64::MAX,
            constant_bytes: u64::MAX,
        }
    }

    /// The same with at most so many values.
    #[must_use]
    pub const fn with_values(mut self, values: u64) -> Self {
        self.values = values;
        self
    }

    /// The same with at most so many instructions.
    #[must_use]
    pub const fn with_instructions(mut self, instructions: u64) -> Self {
        self.instructions = instructions;
        self
    }

    /// The same with at most so many bytes of constants.
    #[must_use]
    pub const fn with_constant_bytes(mut self, nbytes: u64) -> Self {
        self.constant_bytes = nbytes;
        self
    }
}

/// What is left for a method's delegates, and for those of the programs nested in it.
#[derive(Debug)]
struct Account {
    budget: Budget,
    program_bytes: u64,
}

/// What a program takes at the least, however short its file is.
const LEAST_PROGRAM: u64 = 4096;

impl Limits {
    /// Limits of all these: bytes of memory per device, instructions of one run, and how many programs this one is nested in.
    pub fn new(budget: Budget, instructions: u64, depth: u32) -> Self {
        Self {
            account: Arc::new(Mutex::new(Account {
                budget,
                program_bytes: u64::MAX,
            })),
            instructions,
            depth,
            size: SizeLimits::unlimited(),
        }
    }

    /// The same with limits on the size of programs.
    #[must_use]
    pub fn with_size(mut self, size: SizeLimits) -> Self {
        self.size = size;
        self
    }

    /// The same, with at most `nbytes` bytes in all files of nested programs together. One that is loaded twice counts twice.
    #[must_use]
    pub fn with_program_bytes(self, nbytes: u64) -> Self {
        self.account().program_bytes = nbytes;
        self
    }

    /// The same one level deeper.
    #[must_use]
    pub fn deeper(mut self) -> Self {
        self.depth = self.depth.saturating_add(1);
        self
    }

    /// The bytes of memory that are left, per device.
    pub fn budget(&self) -> Budget {
        self.account().budget.clone()
    }

    /// Takes memory for `plan`, as far as there is some left: whoever must not have more asks [`budget`](Self::budget) before.
    pub fn take_memory(&self, plan: &MemoryPlan) {
        let mut account = self.account();
        account.budget = account.budget.clone().after(plan);
    }

    /// Takes a nested program of `nbytes` bytes. False, and nothing is taken, if that is more than is left.
    #[must_use]
    pub fn take_program(&self, nbytes: u64) -> bool {
        let mut account = self.account();
        let left = account.program_bytes.checked_sub(nbytes.max(LEAST_PROGRAM));
        account.program_bytes = left.unwrap_or(account.program_bytes);
        left.is_some()
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Both numbers are whole after any panic.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> InitContext<'a> {
    /// A context of all these.
    pub const fn new(
        method: &'a str,
        compile_specs: &'a [CompileSpec<'a>],
        environment: &'a Environment,
        named_data: &'a dyn NamedData,
        limits: &'a Limits,
    ) -> Self {
        Self {
            method,
            compile_specs,
            environment,
            named_data,
            limits,
        }
    }

    /// The value of the first compile spec `key`.
    pub fn compile_spec(&self, key: &str) -> Option<&'a [u8]> {
        self.compile_specs
            .iter()
            .find(|spec| spec.key == key)
            .map(|spec| spec.value)
    }
}

impl fmt::Debug for InitContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitContext")
            .field("method", &self.method)
            .field("compile_specs", &self.compile_specs)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A setting that the exporter made for a delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileSpec<'a> {
    /// Its name.
    pub key: &'a str,
    /// Its value, in the backend's own encoding.
    pub value: &'a [u8],
}

/// Bytes by name: a program's named data, and the tensors of data files.
pub trait NamedData: Send + Sync {
    /// The bytes named `key`; `None` if there are none.
    ///
    /// # Errors
    /// If they are there but cannot be read.
    fn bytes(&self, key: &str) -> Result<Option<SharedBytes>, NamedDataError>;

    /// How the tensor named `key` is laid out; `None` if there is none, or if the bytes are not a tensor's.
    fn layout(&self, key: &str) -> Option<TensorMeta>;

    /// All names.
    fn keys(&self) -> Vec<String>;
}

/// Named bytes could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the data named `{key}`")]
pub struct NamedDataError {
    /// The name.
    pub key: String,
    /// Why.
    pub source: Box<dyn Error + Send + Sync>,
}

/// A delegate could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The backend cannot work on this machine.
    #[error("the backend is not available: {0}")]
    Unavailable(String),
    /// The blob or its compile specs are not what the backend takes.
    #[error("{0}")]
    InvalidBlob(String),
    /// Named data that the delegate needs could not be read.
    #[error(transparent)]
    NamedData(#[from] NamedDataError),
    /// Anything else, with its own cause.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

impl BackendError {
    /// An error of a backend's own.
    pub fn other(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}
