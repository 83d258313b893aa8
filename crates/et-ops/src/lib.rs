//! Portable CPU operators for ExecuTorch programs.
//!
//! Every operator is a [`Kernel`] for [`et_kernel`]. Linking this crate (feature `auto-register`) offers them to
//! [`KernelRegistry::linked`]; [`registry`] makes a registry of them alone. A crate that nothing mentions may be dropped by
//! the linker: `use et_ops as _;`.
//!
//! The semantics are PyTorch's: promotion, broadcasting, any dimension order, empty tensors, wrapping whole numbers.
//! Arguments that do not fit are a [`KernelError`](et_kernel::KernelError).
//!
//! ```
//! assert!(et_ops::registry().get("aten::add.out").is_some());
//! ```
#![deny(unsafe_code)]

mod arguments;
mod conv;
mod convert;
mod copies;
mod create;
mod dims;
mod dispatch;
mod elementwise;
mod index;
mod join;
mod math;
mod matmul;
mod norm;
mod number;
mod pool;
mod prim;
mod product;
mod promote;
mod quant;
mod reduce;
mod remap;
mod scan;
mod select;
mod shape;
mod simd;
mod upsample;
mod view;
mod window;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use et_kernel::{Kernel, KernelRegistry};

/// The operators' tables, by family. Those of all but one family do nothing but write what they compute.
const FAMILIES: &[&[Kernel]] = &[
    prim::KERNELS,
    elementwise::arithmetic::KERNELS,
    elementwise::compare::KERNELS,
    elementwise::unary::KERNELS,
    copies::KERNELS,
    create::KERNELS,
    index::KERNELS,
    index::ADVANCED_KERNELS,
    join::KERNELS,
    matmul::KERNELS,
    norm::KERNELS,
    pool::KERNELS,
    quant::KERNELS,
    scan::KERNELS,
    upsample::KERNELS,
    conv::KERNELS,
    reduce::KERNELS,
    reduce::EXTREME_KERNELS,
    remap::KERNELS,
    select::KERNELS,
    shape::KERNELS,
];

const COUNT: usize = count(FAMILIES);

static KERNELS: [Kernel; COUNT] = flatten(FAMILIES);

#[cfg(feature = "auto-register")]
et_kernel::link_kernels!("et-ops", &KERNELS);

/// All operators of this crate.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter()
}

/// A registry of this crate's operators.
///
/// # Panics
/// Never: a test sees to it that no operator is there twice.
pub fn registry() -> KernelRegistry {
    let mut registry = KernelRegistry::new();
    registry
        .register_all(&KERNELS, "et-ops")
        .expect("no operator is there twice");
    registry
}

const fn count(families: &[&[Kernel]]) -> usize {
    let (mut count, mut family) = (0, 0);
    while family < families.len() {
        count += families[family].len();
        family += 1;
    }
    count
}

const fn flatten(families: &[&[Kernel]]) -> [Kernel; COUNT] {
    let mut all = [families[0][0]; COUNT];
    let (mut at, mut family) = (0, 0);
    while family < families.len() {
        let mut i = 0;
        while i < families[family].len() {
            // Operators on numbers write no tensor, and some of them make names for others.
            let is_prim = family == 0;
            all[at] = if is_prim {
                families[family][i]
            } else {
                families[family][i].pure()
            };
            at += 1;
            i += 1;
        }
        family += 1;
    }
    all
}
