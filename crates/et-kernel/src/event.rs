//! What happens while programs load and run, for those who watch.

use et_device::Device;
use et_memory::Place;

/// Is told what happens, on the thread where it happens, in order.
pub trait EventHook: Send + Sync {
    /// `event` happens now.
    fn event(&self, event: &Event<'_>);
}

/// Something that happens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A method starts to load. Allocations until its `LoadEnd` are for it.
    LoadBegin {
        /// The method.
        method: &'a str,
    },
    /// A delegate is about to be initialised.
    DelegateInitBegin {
        /// The backend's id.
        backend: &'a str,
        /// The device it was compiled for, as its compile spec `target_device` says.
        target: Option<&'a str>,
        /// Bytes of its blob.
        nbytes: u64,
    },
    /// The delegate is initialised, or failed to.
    DelegateInitEnd,
    /// The method is loaded, or failed to.
    LoadEnd {
        /// The method.
        method: &'a str,
    },
    /// A run starts: inputs are set.
    ExecuteBegin {
        /// The method.
        method: &'a str,
    },
    /// An instruction starts.
    StepBegin {
        /// Its place in the chain.
        instruction: usize,
        /// The operator, the backend's id, or `move`, `jump_false`, `free`.
        name: &'a str,
    },
    /// A delegate is about to run.
    DelegateBegin {
        /// The backend's id.
        backend: &'a str,
        /// The device it was compiled for.
        target: Option<&'a str>,
        /// Its tensor arguments.
        args: &'a [ArgumentPlace],
    },
    /// The delegate is done, or failed.
    DelegateEnd,
    /// The instruction is done, or failed.
    StepEnd {
        /// Its place in the chain.
        instruction: usize,
        /// Its tensor arguments in their shapes of now, each once; what it writes comes last.
        args: &'a [ArgumentPlace],
    },
    /// A run ended. `outputs` are where the outputs are.
    ExecuteEnd {
        /// The method.
        method: &'a str,
        /// One per tensor output, in order; empty if the run failed.
        outputs: &'a [ArgumentPlace],
    },
}

/// Where a tensor argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentPlace {
    /// The device it says it is on.
    pub device: Device,
    /// Where its memory is; `None` if it has none.
    pub place: Option<Place>,
    /// Bytes of its present shape.
    pub nbytes: u64,
}

impl ArgumentPlace {
    /// A tensor of `nbytes` bytes that says it is on `device`, and whose memory is at `place`.
    pub const fn new(device: Device, place: Option<Place>, nbytes: u64) -> Self {
        Self {
            device,
            place,
            nbytes,
        }
    }
}
