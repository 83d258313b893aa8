//! What a method needs from others: kernels, backends, and tensors in data files.

use std::collections::BTreeSet;

use et_kernel::{Backend, Environment, Kernel, NamedData};
use et_schema::{DelegateView, PlanView};

use crate::Error;
use crate::data::MethodData;
use crate::error::ErrorKind;
use crate::meta::{self, full_name};

/// The kernel of each operator.
pub(super) fn find_kernels(
    plan: &PlanView<'_>,
    environment: &Environment,
) -> Result<Vec<(Kernel, String)>, Error> {
    let mut found = Vec::new();
    let mut missing = BTreeSet::new();
    for operator in plan.operators() {
        let name = full_name(operator.name, operator.overload);
        match environment.kernels.get(&name) {
            Some(kernel) => found.push((*kernel, name)),
            None => {
                missing.insert(name);
            }
        }
    }
    if missing.is_empty() {
        return Ok(found);
    }
    Err(ErrorKind::MissingOperators {
        names: missing.into_iter().collect(),
    }
    .into())
}

/// The backend of each delegate.
pub(super) fn find_backends<'e>(
    plan: &PlanView<'_>,
    environment: &'e Environment,
) -> Result<Vec<&'e dyn Backend>, Error> {
    let find = |delegate: DelegateView<'_>| {
        let id = delegate.id();
        let missing = || ErrorKind::MissingBackend {
            id: id.to_owned(),
            available: environment
                .backends
                .ids()
                .map(|(id, _)| id.to_owned())
                .collect(),
        };
        Ok(environment.backends.get(id).ok_or_else(missing)?)
    };
    plan.delegates().map(find).collect()
}

/// All tensors that data files must give, so that every missing one is named at once.
pub(super) fn check_external(plan: &PlanView<'_>, data: &MethodData<'_>) -> Result<(), Error> {
    let external = plan
        .values()
        .filter_map(|value| value.as_tensor())
        .filter(meta::is_external);
    let mut wanted: BTreeSet<&str> = external
        .filter_map(|tensor| tensor.fully_qualified_name())
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    for key in data.keys() {
        wanted.remove(key.as_str());
    }
    if wanted.is_empty() {
        return Ok(());
    }
    Err(ErrorKind::MissingData {
        names: wanted.into_iter().map(str::to_owned).collect(),
    }
    .into())
}
