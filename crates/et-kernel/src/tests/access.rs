//! Bytes of several tensors at a time, which may lie over each other.

use super::{bounded, call, cuda, elements, fill, floats, host_table, own, place};
use crate::{Arguments, Environment, KernelError, SharedBytes, Tensor, TensorError, ValueTable};

/// `out[i] = in[0] + … + in[i]`, which goes wrong if the input is overwritten on the way.
fn running_sum(table: &mut ValueTable, out: crate::ValueIndex, input: crate::ValueIndex) {
    call(table, &[input, out], &Environment::default(), |context| {
        let (x, out) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let ([mut out], [x]) = context.disjoint([out], [x]).unwrap();
        let x = x.elements::<f32>().unwrap();
        for (i, to) in out.elements_mut::<f32>().unwrap().iter_mut().enumerate() {
            *to = x[..=i].iter().sum();
        }
    });
}

#[test]
fn disjoint_copies_an_input_that_is_the_output() {
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[4]), 0);
    fill(&mut table, x, &[1.0, 2.0, 3.0, 4.0]);
    running_sum(&mut table, x, x);
    assert_eq!(elements(&table, x), [1.0, 3.0, 6.0, 10.0]);
}

#[test]
fn disjoint_copies_an_input_that_overlaps_the_output_in_part() {
    for (from, to) in [(0, 8), (8, 0), (0, 4), (12, 0)] {
        let mut table = host_table(64);
        let x = place(&mut table, floats(&[4]), from);
        let out = place(&mut table, floats(&[4]), to);
        fill(&mut table, x, &[1.0, 2.0, 3.0, 4.0]);
        running_sum(&mut table, out, x);
        assert_eq!(
            elements(&table, out),
            [1.0, 3.0, 6.0, 10.0],
            "{from} to {to}"
        );
    }
}

#[test]
fn disjoint_lends_inputs_that_are_apart_without_a_copy() {
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[4]), 0);
    let out = place(&mut table, floats(&[4]), 16);
    let address = table.tensor(x).unwrap().bytes().unwrap().as_ptr();
    let environment = Environment::default();
    call(&mut table, &[x, out], &environment, |context| {
        let (x, out) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let ([out], [x, again]) = context.disjoint([out], [x, x]).unwrap();
        assert_eq!((x.bytes.as_ptr(), again.bytes.as_ptr()), (address, address));
        assert_eq!(out.bytes.len(), 16);
        assert_eq!(context.temp().used(), 0);
    });
}

#[test]
fn disjoint_refuses_outputs_that_share_bytes() {
    let mut table = host_table(64);
    let one = place(&mut table, floats(&[4]), 0);
    let two = place(&mut table, floats(&[4]), 12);
    let environment = Environment::default();
    call(&mut table, &[one, two], &environment, |context| {
        let outputs = [context.tensor(0).unwrap(), context.tensor(1).unwrap()];
        assert!(matches!(
            context.disjoint(outputs, []).unwrap_err(),
            KernelError::OverlappingOutputs {
                first: 0,
                second: 1
            }
        ));
    });
}

#[test]
fn lockstep_knows_when_it_works_in_place() {
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[2, 2]), 0);
    let y = place(&mut table, floats(&[2, 2]), 16);
    fill(&mut table, x, &[1.0, 2.0, 3.0, 4.0]);
    fill(&mut table, y, &[10.0, 20.0, 30.0, 40.0]);
    let environment = Environment::default();
    call(&mut table, &[x, y], &environment, |context| {
        let (x, y) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let (mut out, [a, b]) = context.lockstep(x, [x, y]).unwrap();
        assert!(out.elements_mut::<f32>().unwrap().is_none());
        assert!(a.elements::<f32>().unwrap().is_none());
        let b = b.elements::<f32>().unwrap().unwrap();
        for (i, b) in b.iter().enumerate() {
            let mut block = [0.0f32];
            a.load(i, &mut block).unwrap();
            out.store(i, &[block[0] + b]).unwrap();
        }
        assert!(a.load::<f32>(3, &mut [0.0; 2]).is_err());
        assert!(a.load::<f32>(usize::MAX, &mut [0.0]).is_err());
        assert!(a.load::<i32>(0, &mut [0]).is_err());
    });
    assert_eq!(elements(&table, x), [11.0, 22.0, 33.0, 44.0]);
}

#[test]
fn lockstep_copies_an_input_that_overlaps_or_is_laid_out_differently() {
    let mut table = host_table(64);
    let out = place(&mut table, floats(&[4]), 0);
    let shifted = place(&mut table, floats(&[4]), 4);
    fill(&mut table, out, &[0.0, 1.0, 2.0, 3.0]);
    table.bytes_mut(shifted).unwrap()[12..].copy_from_slice(&4.0f32.to_ne_bytes());
    let environment = Environment::default();
    call(&mut table, &[shifted, out], &environment, |context| {
        let (x, out) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let (mut out, [x]) = context.lockstep(out, [x]).unwrap();
        let x = x.elements::<f32>().unwrap().unwrap();
        out.elements_mut::<f32>()
            .unwrap()
            .unwrap()
            .copy_from_slice(x);
    });
    assert_eq!(elements(&table, out), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn constants_can_be_read_and_not_written() {
    let mut table = host_table(64);
    let bytes = SharedBytes::new(vec![0u8; 16]);
    table.push_shared(floats(&[4]), &bytes).unwrap();
    let (constant, x) = (super::last(&table), place(&mut table, floats(&[4]), 0));
    let environment = Environment::default();
    call(&mut table, &[constant, x], &environment, |context| {
        let (constant, x) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let read_only = |error| matches!(error, KernelError::Tensor(TensorError::ReadOnly));
        assert!(read_only(context.disjoint([constant], [x]).unwrap_err()));
        assert!(read_only(context.lockstep(constant, [x]).unwrap_err()));
        assert!(read_only(
            context.write_bytes(constant, &[0; 16]).unwrap_err()
        ));
        assert!(read_only(context.copy_resizing(constant, x).unwrap_err()));
        assert!(context.disjoint([x], [constant]).is_ok());
    });
    assert!(matches!(
        table.bytes_mut(constant),
        Err(crate::TableError::Tensor(TensorError::ReadOnly))
    ));
}

#[test]
fn b_12_a_kernel_never_reads_device_memory_as_host_memory() {
    let bench = super::Bench::new();
    let mut table = host_table(64);
    let there = own(
        &mut table,
        Tensor::allocate(floats(&[4]).on(cuda(1)), bench.registry()).unwrap(),
    );
    let here = place(&mut table, floats(&[4]), 0);
    call(&mut table, &[there, here], &bench.environment, |context| {
        let (there, here) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let on_device = |error: KernelError| matches!(error, KernelError::OnDevice { device } if device == cuda(1));
        assert!(on_device(context.disjoint([here], [there]).unwrap_err()));
        assert!(on_device(context.disjoint([there], [here]).unwrap_err()));
        assert!(on_device(context.lockstep(here, [there]).unwrap_err()));
    });
}

#[test]
fn tensors_without_elements_have_empty_slices_anywhere() {
    let mut table = host_table(64);
    let x = place(&mut table, bounded(&[4]), 0);
    table.push_without_memory(floats(&[0, 3]));
    let empty = super::last(&table);
    table.resize(x, &[0]).unwrap();
    let environment = Environment::default();
    call(&mut table, &[x, empty], &environment, |context| {
        let (x, empty) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        let ([mut out, mut other], [input]) = context.disjoint([x, empty], [x]).unwrap();
        assert!(out.elements_mut::<f32>().unwrap().is_empty());
        assert!(other.elements_mut::<f32>().unwrap().is_empty());
        assert!(input.elements::<f32>().unwrap().is_empty());
        context.read_bytes(empty, &mut []).unwrap();
        context.write_bytes(empty, &[]).unwrap();
        assert!(context.read_bytes(empty, &mut [0]).is_err());
    });
}

#[test]
fn r_tp_17_a_tensor_without_memory_is_an_error_that_names_it() {
    let mut table = host_table(0);
    table.push_without_memory(floats(&[2]));
    let x = super::last(&table);
    let environment = Environment::default();
    call(&mut table, &[x], &environment, |context| {
        let x = context.tensor(0).unwrap();
        let error = context.disjoint([], [x]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "value 0 has no memory: an output or state without a plan must be given some first"
        );
    });
}

#[test]
fn r_exe_02_scratch_memory_is_taken_back_before_each_call() {
    let mut table = host_table(0);
    let environment = Environment::default();
    for _ in 0..3 {
        call(&mut table, &[], &environment, |context| {
            assert_eq!(context.temp().used(), 0);
            context
                .temp()
                .allocate(100, et_device::Alignment::ONE)
                .unwrap();
        });
    }
    assert_eq!(table.temp_mut().high_water(), 100);
}
