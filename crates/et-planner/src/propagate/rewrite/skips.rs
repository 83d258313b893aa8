//! Inputs that callers give on a device, and outputs that stay there.

use std::collections::{BTreeMap, BTreeSet};

use et_device::Device;

use super::super::set_device;
use super::Rewrite;
use crate::analysis::{AnalysisError, ValueIndex};

impl Rewrite<'_> {
    /// Inputs that nothing but delegates of one device needs are taken on that device.
    pub(super) fn find_device_inputs(
        &mut self,
        calls: &[(usize, Device)],
    ) -> Result<(), AnalysisError> {
        let mut users_of = self.users(calls)?;
        for &input in &self.method.inputs {
            let Ok(input) = usize::try_from(input).map(ValueIndex::new) else {
                continue;
            };
            if self.values[input.get()].as_tensor().is_none() {
                continue;
            }
            let users: Vec<_> = users_of.remove(&input).into_iter().flatten().collect();
            match users.as_slice() {
                [Some(device)] => self.take_on_device(input, *device),
                [] | [None] => {}
                _ => self.report.kept_inputs.push(input),
            }
        }
        Ok(())
    }

    /// For each input who needs its bytes: the device of a delegate that reads it, or the host.
    fn users(
        &self,
        calls: &[(usize, Device)],
    ) -> Result<BTreeMap<ValueIndex, BTreeSet<Option<Device>>>, AnalysisError> {
        let device_of: BTreeMap<usize, Device> = calls.iter().copied().collect();
        let inputs = self.method.inputs.iter();
        let inputs = inputs.filter_map(|&input| usize::try_from(input).ok());
        let mut users: BTreeMap<ValueIndex, BTreeSet<Option<Device>>> = inputs
            .map(|input| (ValueIndex::new(input), BTreeSet::new()))
            .collect();
        let mut add = |value: ValueIndex, device: Option<Device>| {
            let bases = self.analysis.bases(value);
            self.analysis.work().spend(bases.len() + 1)?;
            for base in bases {
                let device = device.filter(|_| base == value);
                users.entry(base).and_modify(|users| {
                    users.insert(device);
                });
            }
            Ok(())
        };
        for (node, step) in self.analysis.steps().iter().enumerate() {
            let reads: BTreeSet<ValueIndex> = step.reads.iter().copied().collect();
            let device = device_of.get(&node).copied();
            for value in step.mentions() {
                add(value, device.filter(|_| reads.contains(&value)))?;
            }
        }
        let outputs = self.method.outputs.iter();
        for output in outputs.filter_map(|&output| usize::try_from(output).ok()) {
            add(ValueIndex::new(output), None)?;
        }
        Ok(users)
    }

    fn take_on_device(&mut self, input: ValueIndex, device: Device) {
        if let Some(tensor) = self.values[input.get()].as_tensor_mut() {
            // Callers cannot put anything into planned device memory.
            tensor.allocation_info = None;
            set_device(tensor, device);
        }
        self.device_inputs.insert(input, device);
    }

    /// Returns what a delegate gave from its device, where that is sure to be what is returned.
    pub(super) fn return_device_values(&mut self) -> Result<(), AnalysisError> {
        let work = self.analysis.work();
        work.spend_on(self.outputs.len(), self.given.len())?;
        let exit = self.analysis.steps().len();
        for output in &mut self.outputs {
            let Ok(host) = usize::try_from(*output).map(ValueIndex::new) else {
                continue;
            };
            let mut given = self.given.iter();
            let Some(given) =
                given.find(|given| given.host == host && given.available.contains(exit))
            else {
                continue;
            };
            *output = given.twin.field();
            let planned = self.method.values[host.get()].as_tensor();
            if planned.is_some_and(|tensor| tensor.allocation_info.is_none()) {
                self.by_caller.insert(given.twin);
            }
        }
        Ok(())
    }
}
