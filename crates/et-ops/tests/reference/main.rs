//! Every family of operators against plain code that follows their definition, in `f64` and `i128`, over shapes of up to 6
//! dimensions, dimension orders, element types, values that are no numbers, and memory that inputs and outputs share.
//!
//! Nothing here uses the crate's own loops: elements are computed one by one from their index.

#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

mod array;
mod binary;
mod call;
mod choice;
mod convolution;
mod creation;
mod image;
mod index;
mod join;
mod line;
mod logic;
mod matrix;
mod movement;
mod norm;
mod number;
mod operand;
mod pad;
mod pool;
mod prim;
mod quantised;
mod reduction;
mod steady;
mod ternary;
mod unary;
