//! Programs and tensor data files as plain values that can be changed and written again.
//!
//! The structs carry the names of the schema's tables and fields. A list that a file may leave out
//! with a meaning of its own is an `Option`; all others read as empty where they are absent. The
//! bytes of segments are not in here: they stay in the file they came from, or with the caller, and
//! are handed to [`write`](crate::write) beside the program.
//!
//! With the feature `serde` these serialise to the JSON form of `et inspect --program`: names for
//! enumerations, `{"Tensor": {…}}` for unions, and the length instead of the bytes of blobs. That
//! form is for reading, so there is no way back from it.

mod flat_tensor;
mod plan;
mod program;
mod read;
mod value;

pub use flat_tensor::{FlatTensor, NamedTensor, TensorLayout};
pub use plan::{
    BackendDelegate, BackendDelegateDataReference, BufferDevices, Chain, CompileSpec,
    ContainerMetadata, DataLocation, DelegateCall, ExecutionPlan, Frame, FrameList, FreeCall,
    Instruction, JumpFalseCall, KernelCall, MoveCall, NonConstBufferDevice, Operator,
};
pub use program::{
    BackendDelegateInlineData, Buffer, DataSegment, NamedData, Program, SubsegmentOffsets,
};
pub use read::UnreadableField;
pub use value::{AllocationDetails, ExtraTensorInfo, Tensor, Value};
