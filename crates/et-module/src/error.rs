//! The one error of this crate: what went wrong, and where.

mod out_of_memory;

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

use et_device::DeviceError;
use et_kernel::{
    BackendError, DuplicateName, KernelError, NamedDataError, TableError, TensorError,
};
use et_memory::MemoryError;
use et_schema::{ContainerError, OutOfMemory, ReadError, SourceError};

/// A program could not be loaded or run.
///
/// The text names the place (file, method, instruction) and the problem; [`source`](StdError::source) is the cause behind
/// that, if there is one. [`id`](Error::id) is stable; [`code`](Error::code) is the C++ runtime's number.
///
/// Its `Debug` form is the text with all causes, since that is what `fn main() -> Result<(), _>` prints; what it is made of is in
/// [`kind`](Error::kind) and [`place`](Error::place).
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    place: Place,
}

/// Where something went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file, if it is known.
    pub file: Option<PathBuf>,
    /// The method.
    pub method: Option<String>,
    /// The instruction, counted from 0 in its chain.
    pub instruction: Option<usize>,
    /// The operator or backend.
    pub name: Option<String>,
    /// The value's place in the method's table.
    pub value: Option<u32>,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is damaged, or not a program.
    #[error("the file is refused")]
    Read(#[source] ReadError),
    /// Bytes could not be read.
    #[error("cannot read the file's data")]
    Source(#[source] SourceError),
    /// The file could not be opened.
    #[error("cannot open the file")]
    Open(#[source] std::io::Error),
    /// The program has no such method.
    #[error("there is no method `{name}`; the program has {}", list(available))]
    NoSuchMethod {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },
    /// Operators have no kernel here.
    #[error("{} not available: {}", count(names.len(), "operator is", "operators are"), list(names))]
    MissingOperators {
        /// The operators, each once.
        names: Vec<String>,
    },
    /// A delegate's backend is not here.
    #[error(
        "the backend `{id}` is not available; this build has {}",
        list(available)
    )]
    MissingBackend {
        /// The id asked for.
        id: String,
        /// The ids there are.
        available: Vec<String>,
    },
    /// A delegate could not be initialised.
    #[error("the delegate could not be initialised")]
    Backend(#[source] BackendError),
    /// Tensors that are kept outside of the program are not in any data file given.
    #[error("{} not in any data file given: {}", count(names.len(), "tensor is", "tensors are"), list(names))]
    MissingData {
        /// The names, each once.
        names: Vec<String>,
    },
    /// A tensor in a data file is not what the program expects.
    #[error("the data named `{name}` is {found}, and the program expects {expected}")]
    WrongData {
        /// The name.
        name: String,
        /// What the program says.
        expected: String,
        /// What the data file says.
        found: String,
    },
    /// Two data files have the same name, or a data file and the program.
    #[error("`{name}` is in more than one of the program and its data files")]
    DuplicateData {
        /// The name.
        name: String,
    },
    /// Named data could not be read.
    #[error(transparent)]
    NamedData(NamedDataError),
    /// Two linked crates offer the same.
    #[error(transparent)]
    Duplicate(#[from] DuplicateName),
    /// Planned memory could not be had.
    #[error(transparent)]
    Memory(MemoryError),
    /// A value of the program cannot be.
    #[error("a value cannot be made")]
    Value(#[source] TensorError),
    /// A device failed.
    #[error("a device failed")]
    Device(#[source] DeviceError),
    /// The program does something that this runtime does not do.
    #[error("{what} is not supported")]
    NotSupported {
        /// What.
        what: String,
    },
    /// An instruction failed.
    #[error("the instruction failed")]
    Kernel(#[source] KernelError),
    /// The value table refused an operation.
    #[error("the values cannot be used so")]
    Table(#[source] TableError),
    /// There is no such input.
    #[error("there is no input {index}: the method has {count}")]
    NoSuchInput {
        /// The index asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no such output.
    #[error("there is no output {index}: the method has {count}")]
    NoSuchOutput {
        /// The index asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// An input is not what the method takes.
    #[error("input {index} is {found}, and the method takes {expected}")]
    WrongInput {
        /// Which input.
        index: usize,
        /// What the method takes.
        expected: String,
        /// What was given.
        found: String,
    },
    /// The tensor given as an input could not be taken.
    #[error("input {index} cannot be set")]
    Input {
        /// Which input.
        index: usize,
        /// Why.
        source: TensorError,
    },
    /// An output could not be copied.
    #[error("output {index} cannot be copied")]
    Output {
        /// Which output.
        index: usize,
        /// Why.
        source: TensorError,
    },
    /// Inputs were never set.
    #[error("{} not set: {missing:?}", count(missing.len(), "input was", "inputs were"))]
    InputsMissing {
        /// Which.
        missing: Vec<usize>,
    },
    /// The method is in the middle of a run.
    #[error("the method is in the middle of a run; finish or reset it first")]
    InProgress,
    /// The state is neither what it was nor what it was at first.
    #[error("the state was reset only in part, as the reset failed; reset it again")]
    HalfReset,
    /// More instructions than allowed.
    #[error("the run was stopped after {limit} instructions")]
    InstructionLimit {
        /// The limit.
        limit: u64,
    },
    /// The method is larger than allowed.
    #[error("the method has {found} {what}, and {limit} are allowed")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A branch depends on something that is no condition.
    #[error("the condition is {found}, and must be a Bool or a tensor of Bool")]
    Condition {
        /// What it is.
        found: String,
    },
    /// Somebody asked for the end of the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// There is no tensor of this name.
    #[error(
        "there is no tensor named `{name}`; the method has {}",
        list(available)
    )]
    NoSuchAttribute {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },
    /// More inputs were given than the method takes.
    #[error("{found} inputs were given, and the method takes {expected}")]
    TooManyInputs {
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// The method is loaded already, so that options for loading it come too late.
    #[error("the method is loaded already; unload it first")]
    AlreadyLoaded,
    /// Programs are nested too deeply.
    #[error("programs are nested more than {limit} deep")]
    Nesting {
        /// The limit.
        limit: u32,
    },
    /// The programs nested in one are many times as large as its file, as they can be if they are named several times.
    #[error("another nested program of {nbytes} bytes is more than a file of this size may have")]
    NestedTooLarge {
        /// Bytes of the one that is too much.
        nbytes: u64,
    },
}

impl ErrorKind {
    pub(crate) fn at(self, place: Place) -> Error {
        Error(Box::new(Inner { kind: self, place }))
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        kind.at(Place::default())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let (mut last, mut next) = (self.to_string(), self.source());
        while let Some(cause) = next {
            let text = cause.to_string();
            // Some errors have their cause in their text already.
            if !last.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            (last, next) = (text, cause.source());
        }
        Ok(())
    }
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Where.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The error of this kind that is the cause: in a program that is nested in this one, or in a data file.
    pub fn nested(&self) -> Option<&Self> {
        match &self.0.kind {
            ErrorKind::Backend(BackendError::Other(cause))
            | ErrorKind::Kernel(KernelError::Other(cause))
            | ErrorKind::Backend(BackendError::NamedData(NamedDataError {
                source: cause, ..
            }))
            | ErrorKind::NamedData(NamedDataError { source: cause, .. }) => cause.downcast_ref(),
            _ => None,
        }
    }

    /// A stable identifier for programs to match on: that of the innermost error.
    pub fn id(&self) -> &'static str {
        if let Some(nested) = self.nested() {
            return nested.id();
        }
        match &self.0.kind {
            ErrorKind::Read(error) => error.id(),
            ErrorKind::Source(_) => "module.read-failed",
            ErrorKind::Open(_) => "module.open-failed",
            ErrorKind::NoSuchMethod { .. } => "module.no-such-method",
            ErrorKind::MissingOperators { .. } => "module.missing-operators",
            ErrorKind::MissingBackend { .. } => "module.missing-backend",
            ErrorKind::Backend(_) => "module.backend",
            ErrorKind::MissingData { .. } => "module.missing-data",
            ErrorKind::WrongData { .. } => "module.wrong-data",
            ErrorKind::DuplicateData { .. } => "module.duplicate-data",
            ErrorKind::NamedData(_) => "module.named-data",
            ErrorKind::Duplicate(_) => "module.duplicate-name",
            ErrorKind::Memory(error) => error.id(),
            ErrorKind::Value(error) => error.id(),
            ErrorKind::Device(error) => error.id(),
            ErrorKind::NotSupported { .. } => "module.not-supported",
            ErrorKind::Kernel(error) => error.id(),
            ErrorKind::Table(error) => error.id(),
            ErrorKind::NoSuchInput { .. } => "module.no-such-input",
            ErrorKind::NoSuchOutput { .. } => "module.no-such-output",
            ErrorKind::WrongInput { .. } => "module.wrong-input",
            ErrorKind::Input { source, .. } | ErrorKind::Output { source, .. } => source.id(),
            ErrorKind::InputsMissing { .. } => "module.inputs-missing",
            ErrorKind::InProgress => "module.in-progress",
            ErrorKind::HalfReset => "module.half-reset",
            ErrorKind::InstructionLimit { .. } => "module.instruction-limit",
            ErrorKind::TooLarge { .. } => "module.too-large",
            ErrorKind::Condition { .. } => "module.condition",
            ErrorKind::Nesting { .. } => "module.nesting",
            ErrorKind::NestedTooLarge { .. } => "module.nested-too-large",
            ErrorKind::Cancelled => "module.cancelled",
            ErrorKind::NoSuchAttribute { .. } => "module.no-such-attribute",
            ErrorKind::TooManyInputs { .. } => "module.too-many-inputs",
            ErrorKind::AlreadyLoaded => "module.already-loaded",
        }
    }

    /// The numeric code that the C++ runtime uses for this kind of failure.
    pub fn code(&self) -> u32 {
        if let Some(nested) = self.nested() {
            return nested.code();
        }
        match &self.0.kind {
            ErrorKind::Read(error) => error.code(),
            ErrorKind::Source(_) | ErrorKind::Open(_) => 0x22,
            ErrorKind::MissingOperators { .. } => 0x14,
            ErrorKind::MissingBackend { .. } => 0x20,
            ErrorKind::Backend(_) => 0x30,
            ErrorKind::MissingData { .. }
            | ErrorKind::WrongData { .. }
            | ErrorKind::NamedData(_) => 0x24,
            ErrorKind::Duplicate(_) => 0x16,
            ErrorKind::Memory(error) => error.code(),
            ErrorKind::Device(error) => error.code(),
            ErrorKind::Kernel(error) => error.code(),
            ErrorKind::NotSupported { .. } => 0x10,
            ErrorKind::Value(error)
            | ErrorKind::Input { source: error, .. }
            | ErrorKind::Output { source: error, .. } => error.code(),
            ErrorKind::Table(error) => error.code(),
            ErrorKind::InProgress | ErrorKind::HalfReset => 0x02,
            ErrorKind::AlreadyLoaded => 0x04,
            ErrorKind::NoSuchAttribute { .. } => 0x20,
            ErrorKind::Cancelled => 0x01,
            ErrorKind::TooLarge { .. }
            | ErrorKind::InstructionLimit { .. }
            | ErrorKind::Condition { .. }
            | ErrorKind::Nesting { .. }
            | ErrorKind::NestedTooLarge { .. } => 0x23,
            ErrorKind::NoSuchMethod { .. }
            | ErrorKind::DuplicateData { .. }
            | ErrorKind::NoSuchInput { .. }
            | ErrorKind::NoSuchOutput { .. }
            | ErrorKind::WrongInput { .. }
            | ErrorKind::TooManyInputs { .. }
            | ErrorKind::InputsMissing { .. } => 0x12,
        }
    }

    /// The device error behind this, if one is.
    pub fn device_error(&self) -> Option<&DeviceError> {
        match &self.0.kind {
            ErrorKind::Device(error) => Some(error),
            ErrorKind::Memory(error) => of_memory(error),
            ErrorKind::Value(error)
            | ErrorKind::Input { source: error, .. }
            | ErrorKind::Output { source: error, .. } => of_tensor(error),
            ErrorKind::Kernel(error) => of_kernel(error),
            ErrorKind::Table(error) => of_table(error),
            ErrorKind::Backend(BackendError::Other(cause)) => of_any(&**cause),
            _ => None,
        }
    }

    /// Whether the host had not enough memory, rather than a budget or a limit being reached.
    pub fn is_host_out_of_memory(&self) -> bool {
        use out_of_memory::{any, kernel, memory, read, table, tensor};
        match &self.0.kind {
            ErrorKind::Memory(error) => memory(error),
            ErrorKind::Value(error)
            | ErrorKind::Input { source: error, .. }
            | ErrorKind::Output { source: error, .. } => tensor(error),
            ErrorKind::Kernel(error) => kernel(error),
            ErrorKind::Table(error) => table(error),
            ErrorKind::Backend(BackendError::Other(cause)) => any(&**cause),
            ErrorKind::Read(error) => read(error),
            _ => false,
        }
    }

    /// The tensor operation that failed, if that is what went wrong.
    pub(crate) fn into_tensor_error(self) -> Result<TensorError, Self> {
        let Inner { kind, place } = *self.0;
        match kind {
            ErrorKind::Value(error) | ErrorKind::Table(TableError::Tensor(error)) => Ok(error),
            kind => Err(kind.at(place)),
        }
    }

    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        self.0.place.file.get_or_insert_with(|| file.to_owned());
        self
    }

    pub(crate) fn in_method(mut self, method: &str) -> Self {
        self.0.place.method.get_or_insert_with(|| method.to_owned());
        self
    }

    pub(crate) fn at_value(mut self, value: u32) -> Self {
        self.0.place.value.get_or_insert(value);
        self
    }
}

fn of_memory(error: &MemoryError) -> Option<&DeviceError> {
    match error {
        MemoryError::Device(error) | MemoryError::Buffer { source: error, .. } => Some(error),
        _ => None,
    }
}

fn of_tensor(error: &TensorError) -> Option<&DeviceError> {
    match error {
        TensorError::Device(error) => Some(error),
        TensorError::Memory(error) => of_memory(error),
        _ => None,
    }
}

fn of_kernel(error: &KernelError) -> Option<&DeviceError> {
    match error {
        KernelError::Device(error) => Some(error),
        KernelError::Tensor(error) => of_tensor(error),
        KernelError::Memory(error) => of_memory(error),
        KernelError::Other(cause) => of_any(&**cause),
        _ => None,
    }
}

fn of_table(error: &TableError) -> Option<&DeviceError> {
    match error {
        TableError::Tensor(error) => of_tensor(error),
        TableError::Kernel(error) => of_kernel(error),
        _ => None,
    }
}

/// A backend's or operator's own error: a nested program's, or one that a device error is somewhere behind.
fn of_any<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e DeviceError> {
    if let Some(nested) = error.downcast_ref::<Error>() {
        return nested.device_error();
    }
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(device) = error.downcast_ref() {
            return Some(device);
        }
        cause = error.source();
    }
    None
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            file,
            method,
            instruction,
            name,
            value,
        } = &self.0.place;
        if let Some(file) = file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(method) = method {
            write!(f, "method `{method}`: ")?;
        }
        if let Some(instruction) = instruction {
            write!(f, "instruction {instruction}")?;
            if let Some(name) = name {
                write!(f, " ({name})")?;
            }
            write!(f, ": ")?;
        }
        if let Some(value) = value {
            write!(f, "value {value}: ")?;
        }
        self.0.kind.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.kind.source()
    }
}

macro_rules! kinds {
    ($($from:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$from> for ErrorKind {
            fn from(error: $from) -> Self {
                Self::$variant(error)
            }
        }

        impl From<$from> for Error {
            fn from(error: $from) -> Self {
                ErrorKind::from(error).into()
            }
        }
    )+};
}

kinds! {
    SourceError => Source, MemoryError => Memory, TensorError => Value, DeviceError => Device,
    TableError => Table, NamedDataError => NamedData, ReadError => Read,
}

impl From<ContainerError> for Error {
    fn from(error: ContainerError) -> Self {
        ReadError::from(error).into()
    }
}

impl From<OutOfMemory> for Error {
    fn from(error: OutOfMemory) -> Self {
        ReadError::from(error).into()
    }
}

impl From<DuplicateName> for Error {
    fn from(error: DuplicateName) -> Self {
        ErrorKind::from(error).into()
    }
}

/// Names as a message lists them; many are cut short.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    if names.is_empty() {
        return "none".to_owned();
    }
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(more) = names.len().checked_sub(SHOWN).filter(|&more| more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
