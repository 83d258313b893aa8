//! The device-generic copy operators on CUDA devices.

use crate::{Calls, Machine, calls, calls_since, device};
use et_device::{
    Device, DeviceAllocator, DeviceAllocatorRegistry, DeviceError, DeviceToDevice, StreamHandle,
};
use et_kernel::{
    COPY_KERNELS, Dynamism, Environment, KernelError, ScalarType, Tensor, TensorMeta, ValueIndex,
    ValueTable,
};
use et_memory::{Place, PlannedMemory};

const H2D: &str = "et_copy::_h2d_copy.out";
const D2H: &str = "et_copy::_d2h_copy.out";

fn floats(sizes: &[usize]) -> TensorMeta {
    TensorMeta::contiguous(ScalarType::Float, sizes).unwrap()
}

fn bounded(sizes: &[usize]) -> TensorMeta {
    floats(sizes).with_dynamism(Dynamism::Bound)
}

fn numbers(sizes: &[usize]) -> Tensor {
    let count = sizes.iter().product::<usize>();
    let elements: Vec<f32> = (0..count).map(|i| i as f32 + 0.5).collect();
    Tensor::from_slice(&elements, sizes).unwrap()
}

/// What a copy operator did: its result, the target afterwards, and the driver calls that it made.
struct Outcome {
    result: Result<(), KernelError>,
    target: Tensor,
    calls: Calls,
}

/// Runs an operator with a registry that may be another than that of the tensors.
fn run_in(environment: &Environment, name: &str, from: Tensor, to: Tensor) -> Outcome {
    let kernel = COPY_KERNELS.iter().find(|k| k.name() == name).unwrap();
    let mut table = ValueTable::new(PlannedMemory::default());
    table.push_owned(from);
    table.push_owned(to);
    let (from, to) = (ValueIndex(0), ValueIndex(1));
    let before = fakecuda::all_calls();
    let result = {
        let arguments = [from, to, to];
        let mut context = table.call(&arguments, None, environment).unwrap();
        kernel.run()(&mut context)
    };
    let calls = calls_since(&before);
    let target = table.tensor(to).unwrap().to_host().unwrap();
    Outcome {
        result,
        target,
        calls,
    }
}

impl Machine {
    fn run(&self, name: &str, from: Tensor, to: Tensor) -> Outcome {
        run_in(&self.environment, name, from, to)
    }

    fn target(&self, meta: TensorMeta, on: Device) -> Tensor {
        Tensor::allocate(meta.on(on), &self.environment.devices).unwrap()
    }

    fn up(&self, tensor: &Tensor, index: u8) -> Tensor {
        let registry = &self.environment.devices;
        tensor.to_device(device(index), registry).unwrap()
    }
}

fn elements(tensor: &Tensor) -> Vec<f32> {
    tensor.as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn r_copy_01_a_copy_on_the_wrong_side_is_refused_without_a_call() {
    let machine = Machine::new();
    let there = machine.up(&numbers(&[4]), 0);
    let wrong = [
        (H2D, there, machine.target(floats(&[4]), device(0))),
        (D2H, numbers(&[4]), machine.target(floats(&[4]), device(0))),
    ];
    for (name, from, to) in wrong {
        let outcome = machine.run(name, from, to);
        assert!(
            matches!(outcome.result, Err(KernelError::Invalid(_))),
            "{name}"
        );
        assert_eq!(outcome.calls, Calls::new(), "{name}");
    }
}

#[test]
fn r_copy_01_a_program_placed_on_the_host_needs_no_driver() {
    let machine = Machine::new();
    for name in [H2D, D2H] {
        let outcome = machine.run(name, numbers(&[4]), Tensor::zeros(floats(&[4])).unwrap());
        outcome.result.unwrap();
        assert_eq!(elements(&outcome.target), elements(&numbers(&[4])));
        assert_eq!(outcome.calls, Calls::new(), "{name}");
    }
}

#[test]
fn r_copy_02_the_output_takes_the_inputs_shape() {
    let machine = Machine::new();
    let outcome = machine.run(H2D, numbers(&[4]), machine.target(bounded(&[8]), device(0)));
    outcome.result.unwrap();
    assert_eq!(outcome.target.sizes(), [4]);
    let there = machine.up(&numbers(&[2, 3]), 0);
    let outcome = machine.run(D2H, there, Tensor::zeros(bounded(&[4, 3])).unwrap());
    outcome.result.unwrap();
    assert_eq!(outcome.target.sizes(), [2, 3]);
}

#[test]
fn r_copy_02_an_output_that_is_too_small_is_left_as_it_was() {
    let machine = Machine::new();
    let there = machine.up(&numbers(&[4]), 0);
    let small = [
        (H2D, numbers(&[4]), machine.target(bounded(&[2]), device(0))),
        (D2H, there, Tensor::zeros(bounded(&[2])).unwrap()),
    ];
    for (name, from, to) in small {
        let outcome = machine.run(name, from, to);
        assert!(
            matches!(outcome.result, Err(KernelError::Shape(_))),
            "{name}"
        );
        assert_eq!(
            (outcome.target.sizes(), outcome.calls),
            (&[2][..], Calls::new()),
            "{name}"
        );
    }
}

#[test]
fn r_copy_03_without_an_allocator_the_devices_type_is_named() {
    let machine = Machine::new();
    // The registry of the process may have an allocator that some other crate was linked for.
    let lonely = Environment::default().with_devices(DeviceAllocatorRegistry::new());
    let there = machine.up(&numbers(&[4]), 0);
    let wanting = [
        (H2D, numbers(&[4]), machine.target(bounded(&[8]), device(0))),
        (D2H, there, Tensor::zeros(bounded(&[8])).unwrap()),
    ];
    for (name, from, to) in wanting {
        let outcome = run_in(&lonely, name, from, to);
        let Err(KernelError::Device(error)) = outcome.result else {
            panic!("{name}: {:?}", outcome.result)
        };
        assert_eq!((error.id(), error.code()), ("device.no-allocator", 0x20));
        assert_eq!(
            (outcome.target.sizes(), outcome.calls),
            (&[8][..], Calls::new()),
            "{name}"
        );
    }
}

#[test]
fn r_copy_04_each_operator_is_one_copy_to_or_from_the_named_device() {
    let machine = Machine::new();
    let count = u8::try_from(machine.devices.len()).unwrap();
    for index in 0..count {
        let warm = machine.up(&numbers(&[1]), index);
        let target = machine.target(floats(&[2, 3]), device(index));
        let outcome = machine.run(H2D, numbers(&[2, 3]), target);
        outcome.result.unwrap();
        assert_eq!(
            outcome.calls,
            calls(&[("cuMemcpyHtoDAsync_v2", 1), ("cuStreamSynchronize", 1)])
        );
        let there = machine.up(&outcome.target, index);
        let outcome = machine.run(D2H, there, Tensor::zeros(floats(&[2, 3])).unwrap());
        outcome.result.unwrap();
        assert_eq!(
            outcome.calls,
            calls(&[("cuMemcpyDtoHAsync_v2", 1), ("cuStreamSynchronize", 1)])
        );
        assert_eq!(elements(&outcome.target), elements(&numbers(&[2, 3])));
        let statistics = machine.cuda.statistics(device(index).index()).unwrap();
        assert!(
            statistics.host_to_device.count >= 2,
            "device {index} was copied to"
        );
        drop(warm);
    }
}

#[test]
fn r_copy_05_the_drivers_own_error_comes_through() {
    let machine = Machine::new();
    let there = machine.up(&numbers(&[4]), 0);
    let symbols = [
        (
            H2D,
            "cuMemcpyHtoDAsync_v2",
            numbers(&[4]),
            machine.target(bounded(&[8]), device(0)),
        ),
        (
            D2H,
            "cuMemcpyDtoHAsync_v2",
            there,
            Tensor::zeros(bounded(&[8])).unwrap(),
        ),
    ];
    for (name, symbol, from, to) in symbols {
        machine.devices[0].fail(symbol, 0, 1, fakecuda::UNKNOWN);
        let outcome = machine.run(name, from, to);
        let Err(KernelError::Device(DeviceError::Driver {
            operation, code, ..
        })) = outcome.result
        else {
            panic!("{name}: {:?}", outcome.result)
        };
        assert_eq!((operation, code), (symbol, fakecuda::UNKNOWN));
        assert_eq!(
            outcome.target.sizes(),
            [8],
            "{name}: resized only on success"
        );
    }
}

#[test]
fn r_copy_06_the_inputs_bytes_are_copied_and_no_more() {
    let machine = Machine::new();
    let bytes = |what: fn(&et_cuda::CudaStatistics) -> et_cuda::Transfers| {
        what(&machine.cuda.statistics(device(0).index()).unwrap()).bytes
    };
    let target = machine.target(bounded(&[1000]), device(0));
    let before = bytes(|s| s.host_to_device);
    let outcome = machine.run(H2D, numbers(&[4]), target);
    outcome.result.unwrap();
    assert_eq!(bytes(|s| s.host_to_device) - before, 16);
    let there = machine.up(&numbers(&[5]), 0);
    let before = bytes(|s| s.device_to_host);
    let outcome = machine.run(D2H, there, Tensor::zeros(bounded(&[1000])).unwrap());
    outcome.result.unwrap();
    assert_eq!(bytes(|s| s.device_to_host) - before, 20);
}

#[test]
fn b_11_element_type_and_dim_order_must_agree_and_nothing_is_no_copy() {
    let machine = Machine::new();
    let doubles = TensorMeta::contiguous(ScalarType::Double, &[2, 3]).unwrap();
    let columns = TensorMeta::new(ScalarType::Float, &[2, 3], &[1, 0]).unwrap();
    for other in [doubles, columns] {
        let target = machine.target(other, device(0));
        let outcome = machine.run(H2D, numbers(&[2, 3]), target);
        assert!(matches!(outcome.result, Err(KernelError::Invalid(_))));
        assert_eq!(outcome.calls, Calls::new());
    }
    let empty = Tensor::zeros(floats(&[0, 3])).unwrap();
    let target = machine.target(bounded(&[2, 3]), device(0));
    let outcome = machine.run(H2D, empty, target);
    outcome.result.unwrap();
    assert_eq!(
        (outcome.target.sizes(), outcome.calls),
        (&[0, 3][..], Calls::new())
    );
}

/// A copy operator on a thread that has selected a stream comes behind what is queued there.
#[test]
fn r_cuda_06_copy_operators_follow_the_selected_stream() {
    let machine = Machine::new();
    let (index, stream) = (device(0).index(), StreamHandle::from_raw(2));
    let (source, target) = (
        machine.up(&numbers(&[64]), 0),
        machine.target(floats(&[64]), device(0)),
    );
    let span = |tensor: &Tensor| match tensor.place() {
        Some(Place::Device(_, span)) => span,
        other => panic!("not on a device: {other:?}"),
    };
    let copy = DeviceToDevice::new((index, span(&target)), (index, span(&source))).unwrap();
    // SAFETY: both tensors live until the copy was waited for by the operator below; the thread's stream always lives.
    unsafe { machine.cuda.copy_device_to_device_on(copy, stream) }.unwrap();
    // SAFETY: as above.
    let selected = unsafe { machine.cuda.select_stream(index, stream) }.unwrap();
    let outcome = machine.run(D2H, target, Tensor::zeros(floats(&[64])).unwrap());
    outcome.result.unwrap();
    assert_eq!(elements(&outcome.target), elements(&numbers(&[64])));
    drop(selected);
}

/// The whole memory of a device comes back through the operators, whatever its size.
#[test]
fn copies_of_many_sizes_make_the_round_trip() {
    let machine = Machine::new();
    for count in [1, 63, 64, 65, 4096, 100_003] {
        let target = machine.target(floats(&[count]), device(1));
        let outcome = machine.run(H2D, numbers(&[count]), target);
        outcome.result.unwrap();
        assert_eq!(
            elements(&outcome.target),
            elements(&numbers(&[count])),
            "{count}"
        );
    }
    machine.cuda.synchronize(device(1).index()).unwrap();
}
