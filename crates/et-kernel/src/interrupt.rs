//! Asking for the end of a run from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A wish that a run should end, shared by those who have it, the method that runs, and the programs nested in it. Clones are the same
/// wish.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Asks for the end.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked for. Nothing else is told with it, so there is nothing to order.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether it was asked for, which is fulfilled with this.
    pub fn take(&self) -> bool {
        self.is_raised() && self.0.swap(false, Ordering::Relaxed)
    }
}
