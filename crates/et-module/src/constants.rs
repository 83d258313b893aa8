//! The constants of a program: their segment as a whole, or only the parts of it that tensors name.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use et_kernel::SharedBytes;
use et_schema::{ConstantView, ProgramView, TensorLocation, ValueView};

use crate::{Error, Program};

/// A segment up to this size is read whole, whatever of it is used.
const SMALL: u64 = 16 << 20;

/// The constants in the constant segment.
pub(crate) enum Constants {
    /// The whole segment, which everything shares.
    Together(SharedBytes),
    /// Each constant by itself, by its offset: most of the segment is used by nothing.
    Apart(BTreeMap<u64, Constant>),
}

/// A constant that is read when something asks for it, and then kept.
pub(crate) struct Constant {
    /// What the largest tensor needs of it.
    nbytes: u64,
    bytes: OnceLock<SharedBytes>,
}

impl Constants {
    /// Reads the segment, or decides that most of it would be read for nothing.
    pub(crate) fn of(program: &Program, segment: u32) -> Result<Self, Error> {
        let view = program.view();
        let size = view.segment(segment).map_or(0, |entry| entry.size);
        if size > SMALL {
            let used = used(&view);
            let total = used
                .values()
                .fold(0u64, |total, part| total.saturating_add(part.nbytes));
            if total < size / 2 {
                return Ok(Self::Apart(used));
            }
        }
        Ok(Self::Together(program.segment(segment)?))
    }

    /// The first `nbytes` of the constant at `offset`; `None` if it is shorter.
    pub(crate) fn get(
        &self,
        program: &Program,
        segment: u32,
        offset: u64,
        nbytes: u64,
    ) -> Result<Option<SharedBytes>, Error> {
        Ok(match self {
            Self::Together(bytes) => part(bytes, offset, nbytes),
            Self::Apart(known) => match known.get(&offset) {
                Some(constant) => part(constant.read(program, segment, offset)?, 0, nbytes),
                None => None,
            },
        })
    }
}

impl Constant {
    fn read(&self, program: &Program, segment: u32, offset: u64) -> Result<&SharedBytes, Error> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(bytes);
        }
        let end = offset.saturating_add(self.nbytes);
        let bytes = program.segment_part(segment, offset..end)?;
        // Whoever is second keeps the first one's bytes.
        Ok(self.bytes.get_or_init(|| bytes))
    }
}

fn part(bytes: &SharedBytes, offset: u64, nbytes: u64) -> Option<SharedBytes> {
    let end = offset.checked_add(nbytes)?;
    bytes.slice(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// The constants of the constant segment that tensors of any method name, none of them read yet.
fn used(view: &ProgramView<'_>) -> BTreeMap<u64, Constant> {
    let mut used = BTreeMap::new();
    for value in view.plans().flat_map(|plan| plan.values()) {
        if let ValueView::Tensor(tensor) = value
            && tensor.is_constant()
            && tensor.location() == TensorLocation::Segment
            && let Some(ConstantView::Segment { offset, .. }) =
                view.constant(tensor.data_buffer_idx())
        {
            let constant = used.entry(offset).or_insert_with(|| Constant {
                nbytes: 0,
                bytes: OnceLock::new(),
            });
            // A tensor whose size has no 64 bits is refused before it gets here.
            constant.nbytes = constant.nbytes.max(tensor.nbytes().unwrap_or(0));
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use et_schema::builder::{MethodBuilder, ProgramBuilder};
    use et_schema::owned::Tensor;
    use et_schema::{ByteSource, ScalarType, SourceError};

    use super::*;
    use crate::DataSource;

    /// A file that counts what is read of it.
    struct Counting {
        file: Vec<u8>,
        read: Arc<AtomicU64>,
    }

    impl ByteSource for Counting {
        fn len(&self) -> u64 {
            ByteSource::len(&self.file)
        }

        fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
            self.read.fetch_add(into.len() as u64, Ordering::Relaxed);
            self.file.read_at(offset, into)
        }
    }

    impl DataSource for Counting {}

    /// Two methods that name the last bytes of a segment by tensors of these sizes.
    fn program(segment_len: usize, sizes: &[i32]) -> (Program, Arc<AtomicU64>) {
        let largest = usize::try_from(*sizes.iter().max().unwrap()).unwrap();
        let mut builder = ProgramBuilder::new();
        builder.constant(&vec![1; segment_len - largest]);
        let data = builder.constant(&vec![2; largest]);
        for name in ["a", "b"] {
            let mut method = MethodBuilder::new(name);
            for &size in sizes {
                method.tensor(Tensor::new(ScalarType::Byte, &[size]).with_data(data));
            }
            builder.method(method);
        }
        let read = Arc::new(AtomicU64::new(0));
        let source = Counting {
            file: builder.to_bytes().unwrap(),
            read: Arc::clone(&read),
        };
        let program = Program::load(source).unwrap();
        read.store(0, Ordering::Relaxed);
        (program, read)
    }

    #[track_caller]
    fn check(segment_len: usize, sizes: &[i32], expected: u64) {
        let (program, read) = program(segment_len, sizes);
        let constant = program.view().constant(2).unwrap();
        for &size in sizes {
            let bytes = program.constant(constant, size as u64).unwrap();
            assert_eq!(*bytes, *vec![2; bytes.len()]);
            assert_eq!(bytes.len(), usize::try_from(size).unwrap());
        }
        assert_eq!(read.load(Ordering::Relaxed), expected);
    }

    #[test]
    fn a_small_segment_is_read_whole_and_once() {
        check(1 << 20, &[64, 16, 32], 1 << 20);
    }

    #[test]
    fn a_large_segment_that_is_used_is_read_whole_and_once() {
        check(20 << 20, &[11 << 20, 7], 20 << 20);
    }

    #[test]
    fn of_a_large_segment_a_constant_is_read_once_whatever_tensors_take_of_it() {
        check(20 << 20, &[64, 5000, 32], 5000);
    }

    #[test]
    fn more_than_any_tensor_takes_is_not_given() {
        let (program, _) = program(20 << 20, &[64]);
        let constant = program.view().constant(2).unwrap();
        assert!(program.constant(constant, 65).is_err());
        let constant = program.view().constant(1).unwrap();
        assert!(program.constant(constant, 1).is_err());
    }
}
