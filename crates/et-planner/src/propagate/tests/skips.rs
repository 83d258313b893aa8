//! Inputs that callers give on a device, and outputs that stay there.

use super::*;

#[test]
fn a_prop_22_skipped_copies_leave_inputs_and_outputs_on_the_device() {
    let mut method = add("cuda:0");
    let report = propagate_method(&mut method, &skipping(true, true)).unwrap();
    assert_eq!((report.h2d.count, report.d2h.count), (0, 0));
    assert_eq!(
        (instructions(&method).as_str(), method.outputs.as_slice()),
        ("D0[0,1,3]", [3].as_slice())
    );
    // Callers give device inputs; the output has memory of its own.
    assert_eq!(method.values[0].as_tensor().unwrap().allocation_info, None);
    assert_eq!(
        method.values[0].as_tensor().unwrap().device(),
        DeviceTag::new(1, 0)
    );
    assert_eq!(method.non_const_buffer_sizes, [0, 1024, 16]);
}

#[test]
fn limit_03_outputs_that_callers_give_stay_without_memory() {
    let mut method = add("cuda:0");
    method.values[2].as_tensor_mut().unwrap().allocation_info = None;
    propagate_method(&mut method, &skipping(true, true)).unwrap();
    assert_eq!(
        (
            method.non_const_buffer_sizes.len(),
            method.non_const_buffer_device.as_ref()
        ),
        (2, None)
    );
    // With the copy it is the host value that the caller gives, and the device value has memory (limit 03).
    let mut method = add("cuda:0");
    method.values[2].as_tensor_mut().unwrap().allocation_info = None;
    propagate_method(&mut method, &MethodOptions::default()).unwrap();
    assert_eq!(method.outputs, [2]);
    assert_eq!(
        method.values[3]
            .as_tensor()
            .unwrap()
            .allocation_info
            .unwrap()
            .memory_id,
        2
    );
}

/// The reference refuses this (limit 09).
#[test]
fn limit_09_inputs_of_several_users_are_skipped_or_reported() {
    let mut method = two_adds(["cuda:0", "cuda:0"]);
    method.chains[0].instructions[1] = Instruction::DelegateCall(et_schema::owned::DelegateCall {
        delegate_index: 1,
        args: vec![3, 0, 4],
    });
    let mut shared = method.clone();
    let report = propagate_method(&mut shared, &skipping(true, false)).unwrap();
    assert_eq!((report.h2d.count, report.kept_inputs.len()), (0, 0));
    method.outputs.push(0);
    let report = propagate_method(&mut method, &skipping(true, false)).unwrap();
    assert_eq!(
        (report.h2d.count, report.kept_inputs),
        (2, vec![ValueIndex::new(0)])
    );
}

/// The reference ignores the flag for such an output (limit 10).
#[test]
fn limit_10_an_output_with_host_users_is_returned_on_the_device() {
    let mut sketch = Sketch::new();
    let [a, t, r] = [sketch.input(), sketch.value(), sketch.value()];
    sketch.call("cuda:0", &[a, t]);
    sketch.relu(t, r);
    sketch.outputs(&[t, r]);
    let mut method = sketch.finish();
    propagate_method(&mut method, &skipping(false, true)).unwrap();
    assert_eq!(instructions(&method), "h0>4 D0[4,3] d3>1 relu[1,2,2]");
    assert_eq!(method.outputs, [3, 2]);
}
