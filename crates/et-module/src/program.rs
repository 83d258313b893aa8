//! A loaded file: verified, shared, and ready to give methods.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use et_kernel::{Environment, SharedBytes};
use et_schema::{ConstantView, PlanView, Processed, ProgramView, VerifiedProgram};

use crate::constants::Constants;
use crate::data::{DataFiles, NoData};
use crate::error::ErrorKind;
use crate::load::{self, LoadOptions};
use crate::source::{DataSource, FileSource, MemorySource};
use crate::{Error, Method, MethodMeta};

/// A verified program. Cheap to clone: methods, threads and modules share one.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/add/model.pte");
/// let program = et_module::Program::open(path)?;
/// assert_eq!(program.method_names().collect::<Vec<_>>(), ["forward"]);
/// assert_eq!(program.method_meta("forward")?.num_inputs(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program(Arc<Inner>);

struct Inner {
    verified: VerifiedProgram,
    source: Box<dyn DataSource>,
    /// Decided when a method first asks for a constant.
    constants: OnceLock<Constants>,
    /// Held while they are read, which only one thread does.
    reading: Mutex<()>,
}

impl Program {
    /// Loads a program from a file. The FlatBuffer part is read and verified now, segments when a method needs them.
    ///
    /// # Errors
    /// [`ErrorKind::Open`], [`ErrorKind::Read`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::load(FileSource::open(path)?).map_err(|error| error.in_file(path))
    }

    /// Loads a program that is in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Read`].
    pub fn from_bytes(bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Result<Self, Error> {
        Self::load(MemorySource::new(bytes))
    }

    /// Loads a program from any source.
    ///
    /// # Errors
    /// [`ErrorKind::Read`].
    pub fn load(source: impl DataSource + 'static) -> Result<Self, Error> {
        Ok(Self::assemble(VerifiedProgram::read(&source)?, source))
    }

    pub(crate) fn assemble(verified: VerifiedProgram, source: impl DataSource + 'static) -> Self {
        let source = Box::new(source);
        Self(Arc::new(Inner {
            verified,
            source,
            constants: OnceLock::new(),
            reading: Mutex::new(()),
        }))
    }

    /// The names of the methods, in file order.
    pub fn method_names(&self) -> impl Iterator<Item = &str> {
        self.view().plans().map(|plan| plan.name())
    }

    /// What is known of a method without loading it.
    ///
    /// # Errors
    /// [`ErrorKind::NoSuchMethod`].
    pub fn method_meta(&self, name: &str) -> Result<MethodMeta, Error> {
        let index = self.view().plans().position(|plan| plan.name() == name);
        match index {
            Some(index) => Ok(MethodMeta::new(self.clone(), index)),
            None => {
                let available = self.method_names().map(str::to_owned).collect();
                Err(ErrorKind::NoSuchMethod {
                    name: name.to_owned(),
                    available,
                }
                .into())
            }
        }
    }

    /// Loads a method, with memory of its own.
    ///
    /// # Errors
    /// Whatever keeps it from running: operators or backends that are missing (all of them are named), memory, data.
    pub fn load_method(&self, name: &str, environment: &Environment) -> Result<Method, Error> {
        self.load_method_with(
            name,
            environment,
            &DataFiles::default(),
            LoadOptions::default(),
        )
    }

    /// Loads a method, with tensors from data files and with options.
    ///
    /// # Errors
    /// As [`load_method`](Self::load_method).
    pub fn load_method_with(
        &self,
        name: &str,
        environment: &Environment,
        data: &DataFiles,
        options: LoadOptions,
    ) -> Result<Method, Error> {
        load::method(
            &self.method_meta(name)?,
            environment,
            data,
            &NoData,
            options,
            &mut None,
        )
    }

    /// Bytes of the whole file.
    pub(crate) fn len(&self) -> u64 {
        self.0.source.len()
    }

    pub(crate) fn view(&self) -> ProgramView<'_> {
        self.0.verified.root()
    }

    pub(crate) fn plan_at(&self, index: usize) -> PlanView<'_> {
        self.view()
            .plan_at(index)
            .expect("a method's index was found in this program")
    }

    /// The bytes of a segment.
    pub(crate) fn segment(&self, index: u32) -> Result<SharedBytes, Error> {
        let missing = || ErrorKind::NotSupported {
            what: format!("a reference to segment {index}, which is missing,"),
        };
        let range = self.view().segment_range(index).ok_or_else(missing)??;
        Ok(self.0.source.load(range)?)
    }

    /// A part of a segment, which is not kept.
    pub(crate) fn segment_part(&self, index: u32, part: Range<u64>) -> Result<SharedBytes, Error> {
        let missing = || ErrorKind::NotSupported {
            what: format!("a reference outside of segment {index}"),
        };
        let range = self.view().segment_range(index).ok_or_else(missing)??;
        let inside = range
            .start
            .checked_add(part.start)
            .zip(range.start.checked_add(part.end));
        let (start, end) = inside
            .filter(|&(start, end)| start <= end && end <= range.end)
            .ok_or_else(missing)?;
        Ok(self.0.source.load(start..end)?)
    }

    /// The bytes of a constant, shared by all that ask for them.
    pub(crate) fn constant(
        &self,
        constant: ConstantView<'_>,
        nbytes: u64,
    ) -> Result<SharedBytes, Error> {
        let short = || ErrorKind::NotSupported {
            what: "a constant that is shorter than its tensor".to_owned(),
        };
        match constant {
            ConstantView::Segment {
                segment, offset, ..
            } => {
                let part = self.constants(segment)?.get(self, segment, offset, nbytes);
                Ok(part?.ok_or_else(short)?)
            }
            ConstantView::Inline(bytes) => Ok(self.inline(bytes).ok_or_else(short)?),
            _ => Err(ErrorKind::NotSupported {
                what: "this place for a constant".to_owned(),
            }
            .into()),
        }
    }

    fn constants(&self, segment: u32) -> Result<&Constants, Error> {
        if let Some(constants) = self.0.constants.get() {
            return Ok(constants);
        }
        // It guards nothing but the reading, so a panic there leaves nothing behind.
        let reading = self.0.reading.lock();
        let _reading = reading.unwrap_or_else(PoisonError::into_inner);
        // Whoever waited finds what the first one read. There is one constant segment.
        if let Some(constants) = self.0.constants.get() {
            return Ok(constants);
        }
        let constants = Constants::of(self, segment)?;
        Ok(self.0.constants.get_or_init(|| constants))
    }

    /// A delegate's blob.
    pub(crate) fn blob(&self, processed: Processed) -> Result<SharedBytes, Error> {
        let missing = || ErrorKind::NotSupported {
            what: "a delegate without data".to_owned(),
        };
        match processed {
            Processed::Segment(index) => self.segment(index),
            Processed::Inline(index) => {
                let bytes = self
                    .view()
                    .inline_delegate_data(index)
                    .ok_or_else(missing)?;
                Ok(self.inline(bytes).ok_or_else(missing)?)
            }
            _ => Err(missing().into()),
        }
    }

    /// Bytes inside of the FlatBuffer, kept alive by the program.
    fn inline(&self, bytes: &[u8]) -> Option<SharedBytes> {
        let whole = SharedBytes::new(FlatBuffer(self.clone()));
        let start = bytes.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
        whole.slice(start..start.checked_add(bytes.len())?)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program")
            .field(&self.method_names().collect::<Vec<_>>())
            .finish()
    }
}

/// The FlatBuffer part of a program.
struct FlatBuffer(Program);

impl AsRef<[u8]> for FlatBuffer {
    fn as_ref(&self) -> &[u8] {
        self.0.0.verified.flatbuffer()
    }
}
