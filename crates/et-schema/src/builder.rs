//! Small programs in a few lines, for tests and examples.
//!
//! ```
//! use et_schema::builder::{MethodBuilder, ProgramBuilder};
//! use et_schema::owned::Tensor;
//! use et_schema::{ScalarType, VerifiedProgram};
//!
//! let mut forward = MethodBuilder::new("forward");
//! let memory = forward.buffer(96);
//! let matrix = || Tensor::new(ScalarType::Float, &[2, 3]);
//! let a = forward.input(matrix().planned(memory, 0));
//! let b = forward.input(matrix().planned(memory, 32));
//! let sum = forward.output(matrix().planned(memory, 64));
//! let alpha = forward.int(1);
//! forward.kernel("aten::add.out", &[a, b, alpha, sum, sum]);
//!
//! let mut program = ProgramBuilder::new();
//! program.method(forward);
//! let file = program.to_bytes()?;
//! let program = VerifiedProgram::from_file_bytes(&file)?;
//! assert_eq!(program.root().plan("forward").map(|plan| plan.num_values()), Some(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing is checked while building, so that a test can also make a program that is wrong on
//! purpose: [`MethodBuilder::plan_mut`] and [`ProgramBuilder::program_mut`] reach everything.

mod flat_tensor;
mod method;
mod program;

pub use flat_tensor::FlatTensorBuilder;
pub use method::MethodBuilder;
pub use program::{ProgramBuilder, ProgramFile};
