//! What every target here has in common. `cargo xtask fuzz` builds and runs them.

use std::time::Duration;

use et_mutator::{Kind, Target};

#[doc(hidden)]
pub use libfuzzer_sys;

/// The longest a case may take, with sanitizers and on a busy machine. libFuzzer ends what takes longer still.
const TIME: Duration = Duration::from_secs(8);

/// What cases are checked by, and made by.
pub struct Fuzz {
    kind: Kind,
    target: Target,
}

impl Fuzz {
    /// One of the kinds.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        let target = Target::new(kind, TIME);
        Self { kind, target }
    }

    /// Sees that nothing but an error comes of it.
    ///
    /// # Panics
    ///
    /// If more does: that is the fault that libFuzzer looks for.
    pub fn check(&self, bytes: &[u8]) {
        if let Err(fault) = self.target.check(bytes.to_vec()) {
            panic!("{fault}");
        }
    }

    /// Changes the first `len` bytes of `data` as the blind engine does; `None` where that does not fit.
    pub fn mutate(&self, data: &mut [u8], len: usize, seed: u32) -> Option<usize> {
        let mutant = et_mutator::mutate(self.kind, data.get(..len)?, seed.into());
        data.get_mut(..mutant.len())?.copy_from_slice(&mutant);
        Some(mutant.len())
    }
}

/// The `main` of a target: half of the mutants are libFuzzer's own, the others know the format.
#[macro_export]
macro_rules! target {
    ($kind:ident) => {
        thread_local! {
            static FUZZ: $crate::Fuzz = $crate::Fuzz::new(et_mutator::Kind::$kind);
        }

        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| FUZZ.with(|fuzz| fuzz.check(bytes)));

        $crate::libfuzzer_sys::fuzz_mutator!(
            |data: &mut [u8], size: usize, max_size: usize, seed: u32| {
                let place = max_size.min(data.len());
                let ours = (seed % 2 == 0)
                    .then(|| FUZZ.with(|fuzz| fuzz.mutate(&mut data[..place], size, seed)));
                ours.flatten().unwrap_or_else(|| {
                    $crate::libfuzzer_sys::fuzzer_mutate(data, size, max_size)
                })
            }
        );
    };
}
