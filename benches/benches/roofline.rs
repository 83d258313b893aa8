//! How far the convolutions of a program are from what the machine can do.
//!
//! ```text
//! cargo bench -p et-benches --bench roofline -- PROGRAM.pte...
//! ```
//!
//! Convolutions that are products are compared with the `gemm` crate's f32 products of the same sizes, which copy no windows; those of
//! one channel per group with copying as many bytes as they read and write. Instructions that were done along with a convolution
//! are in its time. One thread.
#![allow(clippy::print_stdout, reason = "a bench prints its table")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use et_benches::{name, steps, us};
use et_kernel::Environment;
use et_ops as _;
use et_schema::{InstructionView, PlanView, ValueView, VerifiedProgram};
use gemm_common::Parallelism;

/// What a convolution does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    /// So many products of a matrix of m by k and one of k by n.
    Products { count: usize, mnk: [usize; 3] },
    /// Reads and writes so many bytes.
    Bytes(usize),
}

/// The work of a program's convolutions, by instruction.
fn convolutions(path: &Path) -> BTreeMap<usize, Work> {
    let bytes = std::fs::read(path).expect("the program is there");
    let program = VerifiedProgram::from_file_bytes(&bytes).expect("the program is valid");
    let plan = program.root().plan("forward").expect("it has this method");
    let chain = plan.chains().next().expect("it has a chain");
    let work = |(at, instruction)| match instruction {
        InstructionView::Kernel { op, args } => {
            let operator = plan.operator(op)?;
            let args: Vec<u32> = args.iter().collect();
            (operator.name == "aten::convolution")
                .then(|| Some((at, convolution(&plan, &args)?)))?
        }
        _ => None,
    };
    chain.instructions().enumerate().filter_map(work).collect()
}

fn convolution(plan: &PlanView<'_>, args: &[u32]) -> Option<Work> {
    let sizes = |at: usize| {
        let tensor = plan.value(args[at])?.as_tensor()?;
        let sizes = tensor.sizes().iter().map(usize::try_from);
        sizes.collect::<Result<Vec<_>, _>>().ok()
    };
    let ValueView::Int(groups) = plan.value(args[8])? else {
        return None;
    };
    let (input, weight, out, groups) = (
        sizes(0)?,
        sizes(1)?,
        sizes(9)?,
        usize::try_from(groups).ok()?,
    );
    if weight[1] == 1 && groups > 1 {
        let elements = [input, weight, out].map(|sizes| sizes.iter().product::<usize>());
        return Some(Work::Bytes(4 * elements.iter().sum::<usize>()));
    }
    let k = weight[1..].iter().product();
    let n = out[2..].iter().product();
    Some(Work::Products {
        count: out[0] * groups,
        mnk: [weight[0] / groups, n, k],
    })
}

/// The shortest of many times.
fn shortest(mut work: impl FnMut()) -> Duration {
    let (end, mut least) = (Instant::now() + Duration::from_millis(60), Duration::MAX);
    while Instant::now() < end {
        let begin = Instant::now();
        work();
        least = least.min(begin.elapsed());
    }
    least
}

/// How long the machine takes otherwise.
fn otherwise(work: Work) -> Duration {
    match work {
        Work::Bytes(nbytes) => {
            let (from, mut to) = (vec![1u8; nbytes / 2], vec![0u8; nbytes / 2]);
            shortest(|| std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from)))
        }
        Work::Products { count, mnk } => shortest_product(mnk) * u32::try_from(count).unwrap_or(1),
    }
}

fn shortest_product([m, n, k]: [usize; 3]) -> Duration {
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let mut c = vec![0f32; m * n];
    let multiply = gemm_f32::gemm::f32::get_gemm_fn();
    shortest(|| {
        let (c, a, b) = (c.as_mut_ptr(), a.as_ptr(), b.as_ptr());
        let [row_n, row_k] = [n, k].map(|len| len.cast_signed());
        // SAFETY: the three are dense matrices of m x n, m x k and k x n elements, row after row, as the vectors are long.
        unsafe {
            multiply(
                m,
                n,
                k,
                c,
                1,
                row_n,
                false,
                a,
                1,
                row_k,
                b,
                1,
                row_n,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            )
        };
    })
}

fn main() {
    let environment = Environment::linked().expect("no operator is linked twice");
    println!(
        "{:24} {:9} {:>5} {:>12} {:>12} {:>12} {:>7}",
        "program", "kind", "count", "GFLOP, MB", "ours us", "machine us", "percent"
    );
    for path in std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
    {
        let path = Path::new(&path);
        let (steps, mut known) = (steps(path, &environment, 2.0), BTreeMap::new());
        // Per kind: how many, the work, our time, the machine's.
        let mut kinds = [(0, 0.0, Duration::ZERO, Duration::ZERO); 2];
        for (at, work) in convolutions(path) {
            let (kind, amount) = match work {
                Work::Products { count, mnk } => {
                    (0, (2 * count * mnk.iter().product::<usize>()) as f64 / 1e9)
                }
                Work::Bytes(nbytes) => (1, nbytes as f64 / 1e6),
            };
            let machine = *known.entry(work).or_insert_with(|| otherwise(work));
            let sum = &mut kinds[kind];
            *sum = (
                sum.0 + 1,
                sum.1 + amount,
                sum.2 + steps[&at].1,
                sum.3 + machine,
            );
        }
        for (kind, (count, amount, ours, machine)) in ["products", "planes"].iter().zip(kinds) {
            println!(
                "{:24} {kind:9} {count:5} {amount:12.3} {:12.1} {:12.1} {:7.1}",
                name(path),
                us(ours),
                us(machine),
                100.0 * machine.as_secs_f64() / ours.as_secs_f64()
            );
        }
    }
}
