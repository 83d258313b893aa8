//! Writes programs that are chains of one cheap instruction, for `cargo xtask bench`: what a longer chain takes more, per
//! instruction, is what executing one costs.

use std::error::Error;
use std::path::Path;

use et_schema::ScalarType;
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor;

/// How many instructions the chains have.
const LENGTHS: [usize; 2] = [100, 1100];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.ok_or("usage: chains FOLDER")?;
    for length in LENGTHS {
        for (name, method) in [("numbers", numbers(length)), ("tensors", tensors(length))] {
            let mut program = ProgramBuilder::new();
            program.method(method);
            let file = Path::new(&folder).join(format!("{name}_{length}.pte"));
            std::fs::write(file, program.to_bytes()?)?;
        }
    }
    Ok(())
}

/// Each adds the input, a number, to what the one before gave.
fn numbers(length: usize) -> MethodBuilder {
    let mut method = MethodBuilder::new("forward");
    let input = method.int(1);
    method.mark_input(input);
    let mut sum = input;
    for _ in 0..length {
        let next = method.int(0);
        method.kernel("executorch_prim::add.Scalar", &[sum, input, next]);
        sum = next;
    }
    method.mark_output(sum);
    method
}

/// Each takes the negative of one element, to and fro between two places.
fn tensors(length: usize) -> MethodBuilder {
    let mut method = MethodBuilder::new("forward");
    let buffer = method.buffer(48);
    let mut place = 0;
    let mut one = || {
        place += 16;
        Tensor::new(ScalarType::Float, &[1]).planned(buffer, place - 16)
    };
    let input = method.input(one());
    let places = [one(), one()];
    let places = places.map(|tensor| method.tensor(tensor));
    let mut from = input;
    for step in 0..length {
        let to = places[step % 2];
        method.kernel("aten::neg.out", &[from, to, to]);
        from = to;
    }
    method.mark_output(from);
    method
}
