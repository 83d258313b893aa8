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
mod blocks;
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
mod memo;
mod norm;
mod number;
mod pixel;
mod plan;
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

/// The tables of operators that take time as their arguments take bytes, by family.
const PURE: &[&[Kernel]] = &[
    elementwise::arithmetic::KERNELS,
    elementwise::compare::KERNELS,
    elementwise::unary::KERNELS,
    copies::KERNELS,
    create::KERNELS,
    index::KERNELS,
    index::ADVANCED_KERNELS,
    join::KERNELS,
    pixel::KERNELS,
    quant::KERNELS,
    remap::KERNELS,
    select::KERNELS,
    shape::KERNELS,
];

/// Those of operators that may take longer.
const OTHERS: &[&[Kernel]] = &[
    matmul::KERNELS,
    norm::KERNELS,
    pool::KERNELS,
    scan::KERNELS,
    upsample::KERNELS,
    conv::KERNELS,
    reduce::KERNELS,
    reduce::EXTREME_KERNELS,
];

/// Operators on numbers. They are done in no time whatever they are given, so that nothing is won by doing them at load.
const NUMBERS: &[Kernel] = prim::KERNELS;

/// Operators that write other arguments than their last, or make that a name of others.
const NAMES: &[Kernel] = prim::NAME_KERNELS;

const COUNT: usize = NUMBERS.len() + NAMES.len() + count(PURE) + count(OTHERS);

static KERNELS: [Kernel; COUNT] = flatten();

#[cfg(feature = "auto-register")]
et_kernel::link_kernels!("et-ops", &KERNELS);

/// All operators of this crate.
pub fn kernels() -> impl Iterator<Item = &'static Kernel> {
    KERNELS.iter()
}

/// This crate's kernel for the operator, if `kernel` is that: another crate may have one of the same name.
pub(crate) fn own(kernel: &Kernel) -> Option<&'static Kernel> {
    KERNELS.iter().find(|own| own.is_same(kernel))
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

const fn flatten() -> [Kernel; COUNT] {
    let mut all = [NUMBERS[0]; COUNT];
    let mut at = 0;
    while at < NUMBERS.len() {
        all[at] = NUMBERS[at].writing_last();
        at += 1;
    }
    while at < NUMBERS.len() + NAMES.len() {
        all[at] = NAMES[at - NUMBERS.len()];
        at += 1;
    }
    let mut family = 0;
    while family < PURE.len() + OTHERS.len() {
        let is_pure = family < PURE.len();
        let kernels = if is_pure {
            PURE[family]
        } else {
            OTHERS[family - PURE.len()]
        };
        let mut i = 0;
        while i < kernels.len() {
            let kernel = kernels[i];
            all[at] = if is_in_place(kernel.name()) {
                kernel
            } else if is_pure {
                kernel.pure()
            } else {
                kernel.writing_last()
            };
            at += 1;
            i += 1;
        }
        family += 1;
    }
    all
}

/// Whether an operator writes its first argument, as those do whose names end with an underscore.
const fn is_in_place(name: &str) -> bool {
    let name = name.as_bytes();
    let (mut at, mut end) = (0, name.len());
    while at < name.len() {
        if name[at] == b'.' {
            end = at;
        }
        at += 1;
    }
    end > 0 && name[end - 1] == b'_'
}
