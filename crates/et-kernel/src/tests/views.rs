//! Tensors that are another name for other bytes, and the end of that.

use super::{Bench, bounded, call, cuda, elements, fill, floats, host_table, own, place};
use crate::{Arguments, Environment, KernelError, SharedBytes, Tensor, TensorError};

#[test]
fn a_view_shows_the_bytes_of_its_source_until_views_end() {
    let mut table = host_table(64);
    let source = place(&mut table, floats(&[2, 2]), 0);
    let view = place(&mut table, floats(&[4]), 32);
    fill(&mut table, source, &[1.0, 2.0, 3.0, 4.0]);
    fill(&mut table, view, &[9.0; 4]);
    let environment = Environment::default();
    call(&mut table, &[source, view], &environment, |context| {
        let (source, view) = (context.tensor(0).unwrap(), context.tensor(1).unwrap());
        context.alias(view, source).unwrap();
        let ([mut view], []) = context.disjoint([view], []).unwrap();
        view.elements_mut::<f32>().unwrap()[0] = 7.0;
    });
    assert_eq!(elements(&table, source), [7.0, 2.0, 3.0, 4.0]);
    assert_eq!(elements(&table, view), [7.0, 2.0, 3.0, 4.0]);
    table.end_views();
    assert_eq!(elements(&table, view), [9.0; 4]);
}

#[test]
fn r_td_01_a_view_is_of_equal_size_type_and_device() {
    let bench = Bench::new();
    let mut table = host_table(64);
    let source = place(&mut table, floats(&[4]), 0);
    let shorter = place(&mut table, floats(&[3]), 16);
    let whole = crate::TensorMeta::contiguous(crate::ScalarType::Int, &[4]).unwrap();
    let typed = place(&mut table, whole, 32);
    call(
        &mut table,
        &[source, shorter, typed],
        &bench.environment,
        |context| {
            let source = context.tensor(0).unwrap();
            for other in 1..3 {
                let view = context.tensor(other).unwrap();
                assert!(matches!(
                    context.alias(view, source),
                    Err(KernelError::Invalid(_))
                ));
            }
        },
    );
}

#[test]
fn b_06_a_view_across_devices_is_refused() {
    let bench = Bench::new();
    let mut table = host_table(64);
    let here = place(&mut table, floats(&[4]), 0);
    let on = |index| Tensor::allocate(floats(&[4]).on(cuda(index)), bench.registry()).unwrap();
    let there = own(&mut table, on(0));
    let beside = own(&mut table, on(1));
    let alike = own(&mut table, on(1));
    call(
        &mut table,
        &[here, there, beside, alike],
        &bench.environment,
        |context| {
            let id = |context: &crate::KernelContext<'_>, i| context.tensor(i).unwrap();
            for (view, source) in [(0, 1), (1, 0), (1, 2)] {
                let (view, source) = (id(context, view), id(context, source));
                let error = context.alias(view, source).unwrap_err().to_string();
                assert!(error.contains("cannot be a view of"), "{error}");
            }
            let (view, source) = (id(context, 2), id(context, 3));
            context.alias(view, source).unwrap();
        },
    );
    assert_eq!(bench.copies(), (0, 0, 0));
    assert_eq!(
        table.tensor(beside).unwrap().place(),
        table.tensor(alike).unwrap().place()
    );
}

#[test]
fn a_view_of_a_constant_is_read_only_and_keeps_it_alive() {
    let mut table = host_table(64);
    let bytes = SharedBytes::new([1.0f32, 2.0].map(f32::to_ne_bytes).concat());
    table.push_shared(floats(&[2]), &bytes).unwrap();
    let (constant, view) = (super::last(&table), place(&mut table, floats(&[2]), 0));
    drop(bytes);
    let environment = Environment::default();
    table.assign(view, constant, &environment).unwrap();
    assert_eq!(elements(&table, view), [1.0, 2.0]);
    assert!(table.bytes_mut(view).is_err());
    table.end_views();
    assert!(table.bytes_mut(view).is_ok());
}

#[test]
fn r_ins_04_assigning_a_tensor_takes_shape_and_bytes() {
    let mut table = host_table(64);
    let from = place(&mut table, bounded(&[4]), 0);
    let to = place(&mut table, bounded(&[4]), 16);
    fill(&mut table, from, &[1.0, 2.0, 3.0, 4.0]);
    table.resize(from, &[2]).unwrap();
    let environment = Environment::default();
    table.assign(to, from, &environment).unwrap();
    assert_eq!(elements(&table, to), [1.0, 2.0]);
    let smaller = place(&mut table, bounded(&[1]), 32);
    let error = table.assign(smaller, from, &environment).unwrap_err();
    assert!(
        error.to_string().contains("more elements than the bound"),
        "{error}"
    );
    assert_eq!(elements(&table, smaller), [0.0]);
}

#[test]
fn r_ins_04_assigning_plain_values_and_lists_makes_no_new_block() {
    use crate::EValue;
    let mut table = host_table(0);
    let list = super::push(&mut table, EValue::BoolList([true, false].into()));
    let target = super::push(&mut table, EValue::None);
    let environment = Environment::default();
    table.assign(target, list, &environment).unwrap();
    let (EValue::BoolList(one), EValue::BoolList(two)) =
        (table.get(list).unwrap(), table.get(target).unwrap())
    else {
        panic!("both are lists");
    };
    assert!(std::sync::Arc::ptr_eq(one, two));
}

#[test]
fn b_49_memory_that_an_instruction_freed_is_back_in_the_next_run() {
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[1]), 0);
    fill(&mut table, x, &[5.0]);
    table.hide_memory(x).unwrap();
    assert!(matches!(
        table.tensor(x).unwrap().as_slice::<f32>(),
        Err(TensorError::NoMemory)
    ));
    table.end_views();
    assert_eq!(elements(&table, x), [5.0]);
}

#[test]
fn settling_a_view_copies_what_it_shows() {
    let bench = Bench::new();
    for device in [et_device::Device::CPU, cuda(1)] {
        let mut table = host_table(0);
        let from = Tensor::from_slice(&[1.0f32, 2.0], &[2]).unwrap();
        let from = own(
            &mut table,
            from.to_device(device, bench.registry()).unwrap(),
        );
        table.push_without_memory(floats(&[2]).on(device));
        let view = super::last(&table);
        table.assign(view, from, &bench.environment).unwrap();
        table.settle(view, bench.registry()).unwrap();
        table.end_views();
        let settled = table.tensor(view).unwrap();
        assert_ne!(settled.place(), table.tensor(from).unwrap().place());
        let host = settled.to_host().unwrap();
        assert_eq!(host.as_slice::<f32>().unwrap(), [1.0, 2.0]);
    }
}

#[test]
fn a_view_that_outgrows_its_source_cannot_be_reached() {
    let mut table = host_table(64);
    let source = place(&mut table, floats(&[2]), 0);
    let view = place(&mut table, bounded(&[4]), 16);
    let environment = Environment::default();
    table.assign(view, source, &environment).unwrap();
    table.resize(view, &[4]).unwrap();
    call(&mut table, &[view], &environment, |context| {
        let view = context.tensor(0).unwrap();
        assert!(matches!(
            context.disjoint([view], []),
            Err(KernelError::Tensor(TensorError::Length {
                expected: 16,
                found: 8
            }))
        ));
    });
    assert!(table.tensor(view).unwrap().bytes().is_err());
}
