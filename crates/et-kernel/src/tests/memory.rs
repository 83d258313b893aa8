//! What tensors own, and how it changes hands.
#![expect(unsafe_code, reason = "memory is lent, as callers do")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use et_device::Device;
use et_memory::{HostBuffer, HostSpan};

use super::{Bench, bounded, cuda, floats};
use crate::{Located, ScalarType, SharedBytes, Tensor, TensorError, TensorMeta};

#[test]
fn a_vector_becomes_a_tensor_where_it_is() {
    let mut elements = Vec::with_capacity(10);
    elements.extend([1i32, 2, 3, 4]);
    let address = elements.as_ptr();
    let mut tensor = Tensor::from_vec(elements, &[2, 2]).unwrap();
    tensor.as_mut_slice::<i32>().unwrap()[3] = 9;
    let moved = Box::new(tensor);
    assert_eq!(moved.as_slice::<i32>().unwrap(), [1, 2, 3, 9]);
    assert_eq!(moved.as_slice::<i32>().unwrap().as_ptr(), address);
    assert_eq!(
        Tensor::from_vec(vec![1.0f32], &[2]).unwrap_err(),
        TensorError::Length {
            expected: 8,
            found: 4
        }
    );
    assert_eq!(
        Tensor::from_vec(Vec::<f32>::new(), &[0])
            .unwrap()
            .bytes()
            .unwrap(),
        []
    );
}

fn lent(meta: TensorMeta, buffer: HostBuffer, released: &Arc<AtomicU32>) -> Tensor {
    let (memory, count) = (Located::Host(buffer.span()), Arc::clone(released));
    let release = move || {
        drop(buffer);
        count.fetch_add(1, Ordering::Relaxed);
    };
    // SAFETY: the buffer is zeroed, lives until the release, and is used by nobody else.
    unsafe { Tensor::from_lent(meta, memory, release) }
}

#[test]
fn r_tptr_03_lent_memory_is_released_once_by_the_last_tensor_that_has_it() {
    let released = Arc::new(AtomicU32::new(0));
    let count = || released.load(Ordering::Relaxed);
    let buffer = HostBuffer::zeroed(16, et_device::Alignment::HOST).unwrap();
    let mut tensor = lent(floats(&[4]), buffer, &released);
    tensor.as_mut_slice::<f32>().unwrap().fill(2.0);
    let mut own = Tensor::zeros(floats(&[4])).unwrap();
    own.exchange_memory(&mut tensor).unwrap();
    drop(tensor);
    assert_eq!(count(), 0);
    assert_eq!(own.as_slice::<f32>().unwrap(), [2.0; 4]);
    drop(own);
    assert_eq!(count(), 1);
}

#[test]
fn b_10_memory_is_exchanged_only_with_room_for_the_bound() {
    let mut dynamic = Tensor::zeros(bounded(&[4])).unwrap();
    dynamic.resize(&[2]).unwrap();
    let mut small = Tensor::zeros(floats(&[2])).unwrap();
    assert!(matches!(
        dynamic.exchange_memory(&mut small),
        Err(TensorError::Unlike { .. })
    ));
    let mut large = Tensor::zeros(bounded(&[9])).unwrap();
    // It would not have room in the memory it gets.
    assert!(dynamic.exchange_memory(&mut large).is_err());
    let mut alike = Tensor::zeros(bounded(&[4])).unwrap();
    alike.as_mut_slice::<f32>().unwrap().fill(1.0);
    dynamic.exchange_memory(&mut alike).unwrap();
    assert_eq!(dynamic.as_slice::<f32>().unwrap(), [1.0; 4]);
    assert_eq!(alike.sizes(), [4]);
}

#[test]
fn memory_is_exchanged_only_between_tensors_of_one_kind() {
    let bench = Bench::new();
    let mut tensor = Tensor::zeros(floats(&[2])).unwrap();
    let ints = TensorMeta::contiguous(ScalarType::Int, &[2]).unwrap();
    let constant = Tensor::constant(floats(&[2]), &SharedBytes::new(vec![0; 8])).unwrap();
    let there = Tensor::on_device(floats(&[2]).on(cuda(0)), bench.registry()).unwrap();
    for mut other in [Tensor::zeros(ints).unwrap(), constant, there] {
        let before = tensor.place();
        assert!(matches!(
            tensor.exchange_memory(&mut other),
            Err(TensorError::Unlike { .. })
        ));
        assert_eq!(tensor.place(), before);
    }
}

#[test]
fn b_25_memory_made_for_a_device_starts_as_zeros() {
    let bench = Bench::new();
    let zeros = Tensor::allocate(floats(&[4]).on(cuda(0)), bench.registry()).unwrap();
    let read = |tensor: &Tensor| tensor.to_host().unwrap().bytes().unwrap().to_vec();
    assert_eq!(read(&zeros), [0; 16]);
    let fresh = Tensor::on_device(floats(&[4]).on(cuda(0)), bench.registry()).unwrap();
    assert_ne!(read(&fresh), [0; 16]);
}

#[test]
fn lent_and_owned_memory_can_be_zeroed_wherever_it_is() {
    let bench = Bench::new();
    let released = Arc::new(AtomicU32::new(0));
    let buffer = HostBuffer::zeroed(8, et_device::Alignment::HOST).unwrap();
    let host = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
    for mut tensor in [
        lent(floats(&[2]), buffer, &released),
        Tensor::zeros(floats(&[2])).unwrap(),
        Tensor::on_device(floats(&[2]).on(cuda(1)), bench.registry()).unwrap(),
    ] {
        tensor.copy_from(&host).unwrap();
        tensor.zero_owned().unwrap();
        let zeroed = tensor.to_host().unwrap();
        assert_eq!(zeroed.as_slice::<f32>().unwrap(), [0.0; 2]);
    }
}

#[test]
fn b_32_a_constant_at_an_odd_address_is_copied_to_an_aligned_one() {
    let bytes =
        SharedBytes::new([&[0xAA][..], &1.5f64.to_ne_bytes(), &2.5f64.to_ne_bytes()].concat());
    let meta = TensorMeta::contiguous(ScalarType::Double, &[2]).unwrap();
    for start in 0..2 {
        let part = bytes.slice(start..start + 16).unwrap();
        let tensor = Tensor::constant(meta.clone(), &part).unwrap();
        let shared = tensor.bytes().unwrap().as_ptr() == part.as_ptr();
        assert_eq!(shared, HostSpan::of(&part).is_aligned(meta.alignment()));
        if start == 1 {
            assert_eq!(tensor.as_slice::<f64>().unwrap(), [1.5, 2.5]);
        }
        assert!(tensor.is_read_only());
    }
    let short = bytes.slice(0..15).unwrap();
    assert!(matches!(
        Tensor::constant(meta, &short),
        Err(TensorError::Length { .. })
    ));
}

#[test]
fn b_03_a_device_constant_is_uploaded_and_read_only() {
    let bench = Bench::new();
    let bytes = [1.0f32, 2.0].map(f32::to_ne_bytes).concat();
    let constant =
        Tensor::device_constant(floats(&[2]).on(cuda(1)), &bytes, bench.registry()).unwrap();
    assert!(constant.is_read_only());
    assert_eq!(constant.device(), cuda(1));
    assert_eq!(
        constant.to_host().unwrap().as_slice::<f32>().unwrap(),
        [1.0, 2.0]
    );
    let on_host = Tensor::constant(floats(&[2]).on(cuda(1)), &SharedBytes::new(bytes));
    assert_eq!(
        on_host.unwrap_err(),
        TensorError::OnDevice { device: cuda(1) }
    );
}

#[test]
fn r_ti_04_a_tensor_without_dimensions_has_one_element() {
    let scalar = Tensor::from_slice(&[7i64], &[]).unwrap();
    assert_eq!(
        (
            scalar.meta().numel(),
            scalar.meta().nbytes(),
            scalar.device()
        ),
        (1, 8, Device::CPU)
    );
    assert!(Tensor::from_slice::<i64>(&[], &[]).is_err());
}

/// Gives all its bytes once and then fewer, as nobody should.
#[test]
fn an_owner_that_gives_fewer_bytes_the_second_time_is_asked_once() {
    struct Shrinking(Vec<u8>, AtomicU32);
    impl AsRef<[u8]> for Shrinking {
        fn as_ref(&self) -> &[u8] {
            match self.1.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => &self.0,
                _ => &[],
            }
        }
    }
    let bytes = SharedBytes::new(Shrinking(vec![7; 64], AtomicU32::new(0)));
    let meta = TensorMeta::contiguous(ScalarType::Byte, &[64]).unwrap();
    let tensor = Tensor::constant(meta, &bytes).unwrap();
    assert_eq!(tensor.as_slice::<u8>().unwrap(), [7; 64]);
}
