//! Finding kernels and backends by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Backend, Kernel};

/// Kernels that a crate offers by being linked. Made by [`link_kernels!`](crate::link_kernels).
#[derive(Debug)]
pub struct LinkedKernels {
    origin: &'static str,
    kernels: &'static [Kernel],
}

impl LinkedKernels {
    /// The offer of crate `origin`.
    pub const fn new(origin: &'static str, kernels: &'static [Kernel]) -> Self {
        Self { origin, kernels }
    }
}

/// A backend that a crate offers by being linked. Made by [`link_backend!`](crate::link_backend).
pub struct LinkedBackend {
    origin: &'static str,
    backend: &'static dyn Backend,
}

impl LinkedBackend {
    /// The offer of crate `origin`.
    pub const fn new(origin: &'static str, backend: &'static dyn Backend) -> Self {
        Self { origin, backend }
    }
}

#[doc(hidden)]
#[linkme::distributed_slice]
pub static LINKED_KERNELS: [LinkedKernels];

#[doc(hidden)]
#[linkme::distributed_slice]
pub static LINKED_BACKENDS: [LinkedBackend];

/// Offers a static table of kernels to every program that links the crate this stands in.
///
/// `link_kernels!("my-crate", KERNELS)`, where `KERNELS` is a `&'static [Kernel]` constant. As with allocators, a crate that
/// nothing mentions may be dropped by the linker: `use my_crate as _;`.
#[macro_export]
macro_rules! link_kernels {
    ($origin:expr, $kernels:expr) => {
        const _: () = {
            #[$crate::private::linkme::distributed_slice($crate::private::LINKED_KERNELS)]
            #[linkme(crate = $crate::private::linkme)]
            static __ET_LINKED_KERNELS: $crate::LinkedKernels =
                $crate::LinkedKernels::new($origin, $kernels);
        };
    };
}

/// Offers a static backend to every program that links the crate this stands in: `link_backend!("my-crate", &BACKEND)`.
#[macro_export]
macro_rules! link_backend {
    ($origin:expr, $backend:expr) => {
        const _: () = {
            #[$crate::private::linkme::distributed_slice($crate::private::LINKED_BACKENDS)]
            #[linkme(crate = $crate::private::linkme)]
            static __ET_LINKED_BACKEND: $crate::LinkedBackend =
                $crate::LinkedBackend::new($origin, $backend);
        };
    };
}

/// A set of kernels, at most one per operator.
#[derive(Clone, Debug, Default)]
pub struct KernelRegistry {
    kernels: BTreeMap<&'static str, (Kernel, &'static str)>,
}

impl KernelRegistry {
    /// No kernels.
    pub fn new() -> Self {
        Self::default()
    }

    /// The kernels of all linked crates.
    ///
    /// # Errors
    /// [`DuplicateName`] if two crates offer the same operator.
    pub fn linked() -> Result<Self, DuplicateName> {
        let mut registry = Self::new();
        for offer in LINKED_KERNELS {
            registry.register_all(offer.kernels, offer.origin)?;
        }
        Ok(registry)
    }

    /// Adds `kernel`, of crate `origin`.
    ///
    /// # Errors
    /// [`DuplicateName`] if the operator has a kernel already; that one stays.
    pub fn register(&mut self, kernel: Kernel, origin: &'static str) -> Result<(), DuplicateName> {
        let name = kernel.name();
        if let Some((_, first)) = self.kernels.get(name) {
            return Err(DuplicateName {
                what: "operator",
                name: name.into(),
                first,
                second: origin,
            });
        }
        self.kernels.insert(name, (kernel, origin));
        Ok(())
    }

    /// Adds all of `kernels`, of crate `origin`.
    ///
    /// # Errors
    /// As [`register`](Self::register), at the first that is there already.
    pub fn register_all(
        &mut self,
        kernels: &[Kernel],
        origin: &'static str,
    ) -> Result<(), DuplicateName> {
        kernels
            .iter()
            .try_for_each(|kernel| self.register(*kernel, origin))
    }

    /// The kernel for operator `name`.
    pub fn get(&self, name: &str) -> Option<&Kernel> {
        self.kernels.get(name).map(|(kernel, _)| kernel)
    }

    /// All kernels by operator name, each with the crate it comes from.
    pub fn iter(&self) -> impl Iterator<Item = (&Kernel, &'static str)> {
        self.kernels
            .values()
            .map(|(kernel, origin)| (kernel, *origin))
    }
}

/// A set of backends, at most one per id.
#[derive(Clone, Default)]
pub struct BackendRegistry {
    backends: BTreeMap<String, (BackendHandle, &'static str)>,
}

#[derive(Clone)]
enum BackendHandle {
    Static(&'static dyn Backend),
    Shared(Arc<dyn Backend>),
}

impl BackendRegistry {
    /// No backends.
    pub fn new() -> Self {
        Self::default()
    }

    /// The backends of all linked crates.
    ///
    /// # Errors
    /// [`DuplicateName`] if two crates offer the same id.
    pub fn linked() -> Result<Self, DuplicateName> {
        let mut registry = Self::new();
        for offer in LINKED_BACKENDS {
            registry.insert(BackendHandle::Static(offer.backend), offer.origin)?;
        }
        Ok(registry)
    }

    /// Adds `backend`, of crate `origin`.
    ///
    /// # Errors
    /// [`DuplicateName`] if there is one with that id; that one stays.
    pub fn register(
        &mut self,
        backend: Arc<dyn Backend>,
        origin: &'static str,
    ) -> Result<(), DuplicateName> {
        self.insert(BackendHandle::Shared(backend), origin)
    }

    /// The backend with this id.
    pub fn get(&self, id: &str) -> Option<&dyn Backend> {
        self.backends.get(id).map(|(handle, _)| handle.get())
    }

    /// The ids, in order, each with the crate it comes from.
    pub fn ids(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.backends
            .iter()
            .map(|(id, (_, origin))| (id.as_str(), *origin))
    }

    fn insert(
        &mut self,
        backend: BackendHandle,
        origin: &'static str,
    ) -> Result<(), DuplicateName> {
        let id = backend.get().id();
        if let Some((_, first)) = self.backends.get(id) {
            return Err(DuplicateName {
                what: "backend",
                name: id.into(),
                first,
                second: origin,
            });
        }
        self.backends.insert(id.to_owned(), (backend, origin));
        Ok(())
    }
}

impl BackendHandle {
    fn get(&self) -> &dyn Backend {
        match self {
            Self::Static(backend) => *backend,
            Self::Shared(backend) => &**backend,
        }
    }
}

impl std::fmt::Debug for BackendRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.backends.keys()).finish()
    }
}

/// A name was registered twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}` is offered by both `{first}` and `{second}`")]
pub struct DuplicateName {
    /// What it names.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The crate that was first.
    pub first: &'static str,
    /// The crate that came second.
    pub second: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScalarTypeSet;

    #[test]
    fn an_operator_offered_twice_names_both_crates() {
        let kernel = Kernel::new("test::op.out", ScalarTypeSet::NONE, |_| Ok(()));
        let mut registry = KernelRegistry::new();
        registry.register(kernel, "one").unwrap();
        let error = registry.register(kernel, "two").unwrap_err();
        assert_eq!(
            error.to_string(),
            "operator `test::op.out` is offered by both `one` and `two`"
        );
    }
}
