//! Inputs that callers give on a device, and outputs that stay there.

use std::collections::{BTreeMap, BTreeSet};

use et_device::Device;

use super::super::set_device;
use super::Rewrite;
use crate::analysis::ValueIndex;

impl Rewrite<'_> {
    /// Inputs that nothing but delegates of one device needs are taken on that device.
    pub(super) fn find_device_inputs(&mut self, calls: &[(usize, Device)]) {
        let device_of: BTreeMap<usize, Device> = calls.iter().copied().collect();
        for &input in &self.method.inputs {
            let Ok(input) = usize::try_from(input).map(ValueIndex::new) else {
                continue;
            };
            if self.values[input.get()].as_tensor().is_none() {
                continue;
            }
            let mut users: BTreeSet<Option<Device>> = BTreeSet::new();
            for (node, step) in self.analysis.steps().iter().enumerate() {
                let reads_only = step.reads.contains(&input);
                for mentioned in step.mentions().filter(|value| self.shows(*value, input)) {
                    let device = device_of
                        .get(&node)
                        .filter(|_| reads_only && mentioned == input);
                    users.insert(device.copied());
                }
            }
            if self.outputs_show(input) {
                users.insert(None);
            }
            match users.into_iter().collect::<Vec<_>>().as_slice() {
                [Some(device)] => self.take_on_device(input, *device),
                [] | [None] => {}
                _ => self.report.kept_inputs.push(input),
            }
        }
    }

    fn shows(&self, value: ValueIndex, base: ValueIndex) -> bool {
        value == base || self.analysis.bases(value).contains(&base)
    }

    fn outputs_show(&self, value: ValueIndex) -> bool {
        let outputs = self
            .method
            .outputs
            .iter()
            .filter_map(|&output| usize::try_from(output).ok());
        outputs
            .map(ValueIndex::new)
            .any(|output| self.shows(output, value))
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
    pub(super) fn return_device_values(&mut self) {
        let exit = self.analysis.steps().len();
        for output in &mut self.outputs {
            let Ok(host) = usize::try_from(*output).map(ValueIndex::new) else {
                continue;
            };
            let mut given = self.given.iter();
            let Some(given) = given.find(|given| given.host == host && given.available[exit])
            else {
                continue;
            };
            *output = i32::try_from(given.twin.get()).unwrap_or(*output);
            let planned = self.method.values[host.get()].as_tensor();
            if planned.is_some_and(|tensor| tensor.allocation_info.is_none()) {
                self.by_caller.insert(given.twin);
            }
        }
    }
}
