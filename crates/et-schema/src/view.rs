//! A program read where it lies: small copyable views that allocate nothing.
//!
//! Every view comes from a well-formed FlatBuffer, so reading is memory safe. Only a
//! [`VerifiedProgram`](crate::VerifiedProgram) promises more: that indices are inside of their
//! lists, that what must be there is there, and so on. Over a merely
//! [`ParsedProgram`](crate::ParsedProgram) the same views may show anything; what is absent reads as
//! the empty text, the empty list or zero.

mod instruction;
mod plan;
mod program;
mod tensor;
mod value;

use flatbuffers::{Follow, ForwardsUOffset, Vector};

pub use instruction::{ChainView, FrameView, InstructionView};
pub use plan::{
    BufferDeviceView, CompileSpecView, DelegateView, OperatorView, PlanView, Processed,
};
pub use program::{ConstantView, NamedDataView, ProgramView, SegmentView, SubsegmentView};
pub use tensor::{
    Allocation, Dynamism, TensorLocation, TensorView, checked_nbytes, checked_numel,
    device_type_name,
};
pub use value::{ValueKind, ValueView};

use crate::list::{Item, List};

/// The tables of a list; none if the list is absent.
pub(crate) fn tables<'a, T>(
    vector: Option<Vector<'a, ForwardsUOffset<T>>>,
) -> impl ExactSizeIterator<Item = T::Inner> + DoubleEndedIterator + use<'a, T>
where
    T: Follow<'a> + 'a,
{
    vector.unwrap_or_default().into_iter()
}

/// The table at `index` of a list, if both are there.
pub(crate) fn table_at<'a, T>(
    vector: Option<Vector<'a, ForwardsUOffset<T>>>,
    index: usize,
) -> Option<T::Inner>
where
    T: Follow<'a> + 'a,
{
    let vector = vector?;
    (index < vector.len()).then(|| vector.get(index))
}

/// The numbers of a list; none if the list is absent. `T` has the width of `W`.
pub(crate) fn numbers<'a, W: Follow<'a>, T: Item>(vector: Option<Vector<'a, W>>) -> List<'a, T> {
    const { assert!(size_of::<W>() == T::SIZE) };
    vector
        .map(|vector| List::new(vector.bytes()))
        .unwrap_or_default()
}
