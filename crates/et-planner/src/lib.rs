//! Memory planning: where every buffer of a program goes, and a proof of how good that is.
//!
//! [`placement`] solves one arena at a time: buffers with lifetimes and sizes in, offsets out. It knows no
//! program and no file; [`Instance::from_csv`](placement::Instance::from_csv) takes the text of an instance in
//! the format of the public allocator benchmarks.
//!
//! [`analysis`] finds out what a serialized method does with its memory: what each instruction reads and writes,
//! which values are views of others, how long each is needed, and whether the plan in the file keeps it that long.
//!
//! [`compact`](mod@compact) puts both together: new places for the values of a method, in no more memory than before.
//!
//! [`propagate`](mod@propagate) makes a method device-aware: copies around the delegates that name a device, and memory
//! on those devices.
//!
//! [`io`] says who gives the memory of inputs and outputs: the plan, or the caller.
//!
//! ```
//! use et_planner::placement::{Instance, Limits, greedy, minimise, validate};
//!
//! let instance = Instance::from_csv("id,lower,upper,size\na,0,2,64\nb,1,3,32\nc,2,4,64\n")?;
//! let greedy = greedy(&instance)?;
//! let best = minimise(&instance, &Limits::default());
//! validate(&instance, &best.plan)?;
//! assert!(best.is_proved());
//! assert_eq!(best.plan.height(), 96);
//! assert!(greedy.height() >= best.plan.height());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alignment;
pub mod analysis;
pub mod compact;
pub mod io;
pub mod placement;
pub mod propagate;

pub use alignment::{Alignment, AlignmentError};
