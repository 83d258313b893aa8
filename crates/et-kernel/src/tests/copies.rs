//! Copies between the host and devices: as methods of tensors and as operators.

use std::sync::Arc;

use et_device::{AllocatorHandle, Device, DeviceIndex, DeviceType};
use et_sim::{Operation, RecordingAllocator, TraceLog};

use super::{Bench, OTHER, bounded, call, cuda, floats, host_table, own};
use crate::{
    Arguments, COPY_KERNELS, Environment, KernelError, Located, ScalarType, Tensor, TensorError,
    TensorMeta,
};

fn six() -> Tensor {
    Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).unwrap()
}

#[track_caller]
fn check_round_trip(device: Device, expected_copies: (u64, u64, u64)) {
    let bench = Bench::new();
    let there = six().to_device(device, bench.registry()).unwrap();
    assert_eq!((there.device(), there.sizes()), (device, &[2, 3][..]));
    let back = there.to_host().unwrap();
    assert_eq!((back.device(), back.sizes()), (Device::CPU, &[2, 3][..]));
    assert_eq!(
        back.as_slice::<f32>().unwrap(),
        six().as_slice::<f32>().unwrap()
    );
    assert_eq!(bench.copies(), expected_copies);
}

#[test]
fn r_tptr_06_to_a_device_and_back_is_one_copy_each_way() {
    check_round_trip(cuda(0), (1, 1, 0));
    check_round_trip(cuda(1), (1, 1, 0));
}

#[test]
fn b_53_from_the_host_to_the_host_is_a_copy_too() {
    check_round_trip(Device::CPU, (0, 0, 0));
}

#[test]
fn b_53_between_devices_of_one_type_is_one_copy() {
    let bench = Bench::new();
    let first = six().to_device(cuda(0), bench.registry()).unwrap();
    let second = first.to_device(cuda(1), bench.registry()).unwrap();
    let same = second.to_device(cuda(1), bench.registry()).unwrap();
    assert_ne!(second.place(), same.place());
    assert_eq!(bench.copies(), (1, 0, 2));
    assert_eq!(same.to_host().unwrap().as_slice::<f32>().unwrap()[5], 6.0);
}

#[test]
fn b_53_between_devices_of_different_types_it_goes_through_the_host() {
    let bench = Bench::new();
    let other = Device::new(OTHER, DeviceIndex::ZERO);
    // More than one piece of the staging.
    let elements: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    let tensor = Tensor::from_slice(&elements, &[elements.len()]).unwrap();
    let there = tensor.to_device(cuda(0), bench.registry()).unwrap();
    let beyond = there.to_device(other, bench.registry()).unwrap();
    let back = beyond.to_device(cuda(1), bench.registry()).unwrap();
    let host = back.to_host().unwrap();
    assert_eq!(host.as_slice::<u8>().unwrap(), elements);
}

/// Two registries have allocators of their own for one device, as two modules with simulated devices of their own have.
/// Memory is only ever touched through the allocator that it is from: the simulated ones fail on any other's address.
#[test]
fn memory_is_reached_through_its_own_allocator_whatever_the_registry() {
    let (ours, theirs) = (Bench::new(), Bench::new());
    let there = six().to_device(cuda(0), ours.registry()).unwrap();
    let mut beside = there.to_device(cuda(0), theirs.registry()).unwrap();
    assert_eq!((ours.copies(), theirs.copies()), ((1, 1, 0), (1, 0, 0)));
    assert_eq!(
        beside.to_host().unwrap().as_slice::<f32>().unwrap(),
        six().as_slice::<f32>().unwrap()
    );
    beside.copy_from(&there).unwrap();
    assert_eq!((ours.copies(), theirs.copies()), ((1, 2, 0), (2, 1, 0)));

    // A table works on tensors of another registry than the one its calls are made with.
    let mut table = host_table(16);
    let (one, two) = (own(&mut table, there), own(&mut table, beside));
    table.write_bytes(one, &[0; 24]).unwrap();
    table
        .copy_within(two, one, &Environment::default())
        .unwrap();
    table.zero_owned(one).unwrap();
    let host = table.tensor(two).unwrap().to_host().unwrap();
    assert_eq!(host.as_slice::<f32>().unwrap(), [0.0; 6]);
}

/// A wrapper that passes calls on hands out the same bytes as what it wraps.
#[test]
fn memory_is_the_same_through_a_wrapper_of_its_allocator() {
    let bench = Bench::new();
    let wrapped = bench.registry().get(DeviceType::CUDA).unwrap();
    let log = Arc::new(TraceLog::default());
    let wrapper = AllocatorHandle::from(Arc::new(RecordingAllocator::new(wrapped.clone(), log)));
    let there = six().to_device(cuda(0), bench.registry()).unwrap();
    let place = there.located().unwrap().place();
    let bare = Located::new(place, Some(wrapped)).unwrap();
    let watched = Located::new(place, Some(&wrapper)).unwrap();
    assert!(bare.is_same(watched) && watched.overlaps(bare));
    assert!(watched.first(8).unwrap().overlaps(bare));

    let elsewhere = Bench::new();
    let other = elsewhere.registry().get(DeviceType::CUDA).unwrap();
    let other = Located::new(place, Some(other)).unwrap();
    assert!(!other.is_same(watched) && !other.overlaps(watched) && !watched.overlaps(other));
}

/// Exchanged memory takes its allocator along.
#[test]
fn exchanged_memory_keeps_its_allocator() {
    let (ours, theirs) = (Bench::new(), Bench::new());
    let mut one = Tensor::allocate(six().meta().clone().on(cuda(0)), ours.registry()).unwrap();
    let mut two = six().to_device(cuda(0), theirs.registry()).unwrap();
    one.exchange_memory(&mut two).unwrap();
    let copies = theirs.copies();
    assert_eq!(one.to_host().unwrap().as_slice::<f32>().unwrap()[5], 6.0);
    assert_eq!(theirs.copies().1, copies.1 + 1);
    two.zero_owned().unwrap();
}

#[test]
fn b_53_without_elements_nothing_is_allocated_or_copied() {
    let bench = Bench::new();
    let empty = Tensor::from_slice::<f32>(&[], &[0, 3]).unwrap();
    let there = empty.to_device(cuda(0), bench.registry()).unwrap();
    assert_eq!((there.place(), there.sizes()), (None, &[0, 3][..]));
    let beside = there.to_device(cuda(1), bench.registry()).unwrap();
    assert_eq!(beside.to_host().unwrap().sizes(), [0, 3]);
    assert_eq!(bench.sim.counters().allocations, 0);
    assert_eq!(bench.copies(), (0, 0, 0));
}

#[test]
fn b_53_a_failure_is_an_error_and_gives_the_block_back() {
    let bench = Bench::new();
    bench.sim.fail_call(Operation::Copy, 0);
    let error = six().to_device(cuda(0), bench.registry()).unwrap_err();
    assert!(matches!(error, TensorError::Device(_)), "{error}");
    assert_eq!(bench.sim.leaks(), []);
    bench.sim.fail_call(Operation::Allocate, 0);
    let error = six()
        .to_device(cuda(0), bench.registry())
        .unwrap_err()
        .to_string();
    assert!(error.contains("24 bytes"), "{error}");
    let nowhere = et_device::DeviceAllocatorRegistry::new();
    let error = six().to_device(cuda(0), &nowhere).unwrap_err().to_string();
    assert!(error.contains("et_cuda as _"), "{error}");
}

#[test]
fn r_tptr_06_element_type_dim_order_and_bound_are_kept() {
    let bench = Bench::new();
    let meta = TensorMeta::new(ScalarType::Double, &[2, 3], &[1, 0]).unwrap();
    let tensor = Tensor::zeros(meta.with_dynamism(crate::Dynamism::Bound)).unwrap();
    let mut there = tensor.to_device(cuda(1), bench.registry()).unwrap();
    assert_eq!(there.meta(), &tensor.meta().clone().on(cuda(1)));
    there.resize(&[1, 2]).unwrap();
    let back = there.to_host().unwrap();
    assert_eq!(
        (back.sizes(), back.meta().bound()),
        (&[1, 2][..], &[2, 3][..])
    );
}

#[test]
fn g_05_device_memory_cannot_be_read_on_the_host() {
    let bench = Bench::new();
    let mut there = six().to_device(cuda(0), bench.registry()).unwrap();
    let on_device = TensorError::OnDevice { device: cuda(0) };
    assert_eq!(there.bytes().unwrap_err(), on_device);
    assert_eq!(there.bytes_mut().unwrap_err(), on_device);
    assert_eq!(there.as_slice::<f32>().unwrap_err(), on_device);
    assert_eq!(there.in_dim_order(&[1, 0]).unwrap_err(), on_device);
    assert_eq!(
        on_device.to_string(),
        "the tensor is on cuda:0; copy it to the host first"
    );
}

#[test]
fn r_rsz_08_a_failed_copy_leaves_the_old_shape() {
    let bench = Bench::new();
    let mut there = Tensor::on_device(bounded(&[8]).on(cuda(0)), bench.registry()).unwrap();
    let three = Tensor::from_slice(&[1.0f32, 2.0, 3.0], &[3]).unwrap();
    bench.sim.fail_call(Operation::Copy, 0);
    assert!(there.copy_from(&three).is_err());
    assert_eq!(there.sizes(), [8]);
    there.copy_from(&three).unwrap();
    assert_eq!(there.sizes(), [3]);
    assert_eq!(
        there.to_host().unwrap().as_slice::<f32>().unwrap(),
        [1.0, 2.0, 3.0]
    );
}

#[test]
fn another_dim_order_holds_the_same_elements() {
    let rows = six();
    let columns = rows.in_dim_order(&[1, 0]).unwrap();
    assert_eq!(
        columns.as_slice::<f32>().unwrap(),
        [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
    );
    let back = columns.in_dim_order(&[0, 1]).unwrap();
    assert_eq!(
        back.as_slice::<f32>().unwrap(),
        rows.as_slice::<f32>().unwrap()
    );
    assert!(rows.in_dim_order(&[0, 0]).is_err());
    let scalar = Tensor::from_slice(&[3i64], &[]).unwrap();
    assert_eq!(
        scalar.in_dim_order(&[]).unwrap().as_slice::<i64>().unwrap(),
        [3]
    );
    let empty = Tensor::from_slice::<f32>(&[], &[2, 0, 3]).unwrap();
    assert_eq!(empty.in_dim_order(&[2, 1, 0]).unwrap().sizes(), [2, 0, 3]);
}

/// Runs a copy operator on (from, to); the tensor `to` afterwards, on the host.
fn copy_operator(
    bench: &Bench,
    name: &str,
    from: Tensor,
    to: Tensor,
) -> (Result<(), KernelError>, Tensor) {
    let kernel = COPY_KERNELS
        .iter()
        .find(|kernel| kernel.name().contains(name))
        .unwrap();
    let mut table = host_table(0);
    let (from, to) = (own(&mut table, from), own(&mut table, to));
    let done = call(&mut table, &[from, to, to], &bench.environment, |context| {
        kernel.run()(context)
    });
    let result = table.tensor(to).unwrap();
    (done, result.to_host().unwrap())
}

fn there(bench: &Bench, meta: TensorMeta, index: u8) -> Tensor {
    Tensor::allocate(meta.on(cuda(index)), bench.registry()).unwrap()
}

#[test]
fn r_copy_04_each_operator_makes_one_copy_of_the_present_bytes() {
    let bench = Bench::new();
    let target = there(&bench, bounded(&[16]), 1);
    let four = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[4]).unwrap();
    let (done, result) = copy_operator(&bench, "_h2d_copy", four, target);
    done.unwrap();
    assert_eq!(
        (result.sizes(), result.as_slice::<f32>().unwrap()[3]),
        (&[4][..], 4.0)
    );
    let counters = bench.sim.counters();
    assert_eq!(
        (counters.host_to_device, counters.host_to_device_bytes),
        (1, 16)
    );

    let source = six().to_device(cuda(0), bench.registry()).unwrap();
    let before = bench.sim.counters();
    let host = Tensor::zeros(bounded(&[4, 3])).unwrap();
    let (done, result) = copy_operator(&bench, "_d2h_copy", source, host);
    done.unwrap();
    assert_eq!(result.sizes(), [2, 3]);
    let after = bench.sim.counters();
    assert_eq!(after.device_to_host - before.device_to_host, 1);
    assert_eq!(after.device_to_host_bytes - before.device_to_host_bytes, 24);
}

#[test]
fn r_copy_01_the_wrong_side_is_refused_before_anything_changes() {
    let bench = Bench::new();
    let (done, result) = copy_operator(
        &bench,
        "_h2d_copy",
        there(&bench, floats(&[2]), 0),
        there(&bench, bounded(&[4]), 0),
    );
    assert!(matches!(done, Err(KernelError::Invalid(_))));
    assert_eq!(result.sizes(), [4]);
    let (done, _) = copy_operator(
        &bench,
        "_d2h_copy",
        six(),
        there(&bench, floats(&[2, 3]), 0),
    );
    assert_eq!(
        done.unwrap_err().to_string(),
        "a _d2h_copy must write host memory: cpu to cuda:0"
    );
}

#[test]
fn a_program_placed_on_the_cpu_copies_from_host_to_host() {
    let bench = Bench::new();
    for name in ["_h2d_copy", "_d2h_copy"] {
        let (done, result) =
            copy_operator(&bench, name, six(), Tensor::zeros(floats(&[2, 3])).unwrap());
        done.unwrap();
        assert_eq!(result.as_slice::<f32>().unwrap()[5], 6.0);
    }
    assert_eq!(bench.copies(), (0, 0, 0));
}

#[test]
fn b_11_element_type_and_dim_order_must_agree() {
    let bench = Bench::new();
    let doubles = TensorMeta::contiguous(ScalarType::Double, &[2, 3]).unwrap();
    let (done, _) = copy_operator(
        &bench,
        "_h2d_copy",
        Tensor::zeros(doubles).unwrap(),
        there(&bench, floats(&[2, 3]), 0),
    );
    assert!(done.unwrap_err().to_string().contains("byte by byte"));
    let columns = TensorMeta::new(ScalarType::Float, &[2, 3], &[1, 0]).unwrap();
    let (done, _) = copy_operator(&bench, "_h2d_copy", six(), there(&bench, columns, 0));
    assert!(done.unwrap_err().to_string().contains("byte by byte"));
    assert_eq!(bench.copies().0, 0);
}

#[test]
fn b_11_a_copy_that_cannot_be_leaves_the_output_as_it_was() {
    let bench = Bench::new();
    let small = there(&bench, bounded(&[2]), 0);
    let (done, result) = copy_operator(
        &bench,
        "_h2d_copy",
        Tensor::zeros(floats(&[4])).unwrap(),
        small,
    );
    assert!(matches!(done, Err(KernelError::Shape(_))));
    assert_eq!(result.sizes(), [2]);
    assert_eq!(bench.copies().0, 0);

    bench.sim.fail_call(Operation::Copy, 1);
    let target = there(&bench, bounded(&[8]), 0);
    let (done, result) = copy_operator(
        &bench,
        "_h2d_copy",
        Tensor::zeros(floats(&[4])).unwrap(),
        target,
    );
    // The allocator's own error, not a general one.
    assert!(
        matches!(
            done,
            Err(KernelError::Device(et_device::DeviceError::Driver {
                code: 999,
                ..
            }))
        ),
        "{done:?}"
    );
    assert_eq!(result.sizes(), [8]);
}

#[test]
fn b_11_no_elements_are_no_copy() {
    let bench = Bench::new();
    let empty = Tensor::zeros(floats(&[0, 3])).unwrap();
    let (done, result) = copy_operator(
        &bench,
        "_h2d_copy",
        empty,
        there(&bench, bounded(&[2, 3]), 0),
    );
    done.unwrap();
    assert_eq!(result.sizes(), [0, 3]);
    assert_eq!(bench.copies().0, 0);
}

#[test]
fn r_copy_03_a_missing_allocator_is_an_error_before_anything_changes() {
    let bench = Bench::new();
    let mut table = host_table(0);
    let from = own(&mut table, six());
    let to = own(&mut table, there(&bench, bounded(&[4, 3]), 0));
    let nothing = Environment::default().with_devices(et_device::DeviceAllocatorRegistry::new());
    let done = call(&mut table, &[from, to], &nothing, |context| {
        COPY_KERNELS[0].run()(context)
    });
    assert!(matches!(
        done,
        Err(KernelError::Device(
            et_device::DeviceError::NoAllocator { .. }
        ))
    ));
    assert_eq!(table.meta(to).unwrap().sizes(), [4, 3]);
}

#[test]
fn copy_operators_check_their_arguments() {
    let bench = Bench::new();
    let mut table = host_table(0);
    let x = own(&mut table, six());
    let number = super::push(&mut table, crate::EValue::Int(3));
    let run = COPY_KERNELS[0].run();
    for (arguments, code) in [(vec![x], 0x23), (vec![x, number], 0x13), (vec![x; 4], 0x23)] {
        let done = call(&mut table, &arguments, &bench.environment, |context| {
            run(context)
        });
        assert_eq!(done.unwrap_err().code(), code);
    }
    call(&mut table, &[x, number], &bench.environment, |context| {
        assert_eq!(context.argument_count(), 2);
        assert_eq!(context.int(1).unwrap(), 3);
    });
}
