//! How large a method is.

use et_kernel::SizeLimits;
use et_schema::{PlanView, TensorLocation};

use crate::error::ErrorKind;

/// Whether a method is no larger than it may be.
pub(super) fn check(limits: &SizeLimits, plan: &PlanView<'_>) -> Result<(), ErrorKind> {
    let instructions = plan.chains().map(|chain| chain.instructions().len() as u64);
    let constants = plan.values().filter_map(|value| {
        let tensor = value.as_tensor()?;
        let external = tensor.location() == TensorLocation::External;
        (external || tensor.is_constant()).then(|| tensor.nbytes().unwrap_or(u64::MAX))
    });
    let sizes = [
        ("values", plan.num_values() as u64, limits.values),
        (
            "instructions",
            instructions.fold(0, u64::saturating_add),
            limits.instructions,
        ),
        (
            "bytes of constants",
            match limits.constant_bytes {
                // Looking at every tensor takes time.
                u64::MAX => 0,
                _ => constants.fold(0, u64::saturating_add),
            },
            limits.constant_bytes,
        ),
    ];
    for (what, found, limit) in sizes {
        if found > limit {
            return Err(ErrorKind::TooLarge { what, found, limit });
        }
    }
    Ok(())
}
