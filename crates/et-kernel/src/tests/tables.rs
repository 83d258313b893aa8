//! A method's values and the memory they live in.

use et_device::{Alignment, Device};
use et_memory::{Budget, BufferSpec, MemoryError, MemoryPlan, PlannedMemory, PlannedSlot};

use super::{
    Bench, bounded, cuda, elements, fill, floats, host_table, last, own, place, push, slot,
};
use crate::{
    EValue, Environment, ScalarType, SharedBytes, TableError, Tensor, TensorError, TensorMeta,
    ValueIndex, ValueTable,
};

#[test]
fn b_04_a_tensor_lives_in_a_buffer_of_its_own_device() {
    let bench = Bench::new();
    let mut table = host_table(64);
    let meta = floats(&[2]).on(cuda(0));
    let planned = slot(&meta, 0);
    assert!(matches!(
        table.push_planned(meta.clone(), &planned),
        Err(MemoryError::WrongDevice { memory_id: 1, .. })
    ));
    let lying = PlannedSlot {
        device: Device::CPU,
        ..planned
    };
    assert!(table.push_planned(meta, &lying).is_err());
    let plan = MemoryPlan::new([BufferSpec::new(64, cuda(1))]);
    let there = PlannedMemory::allocate(&plan, bench.registry(), &Budget::unlimited()).unwrap();
    let mut table = ValueTable::new(there);
    assert!(
        table
            .push_planned(floats(&[2]), &slot(&floats(&[2]), 0))
            .is_err()
    );
    let meta = floats(&[2]).on(cuda(1));
    assert!(table.push_planned(meta.clone(), &slot(&meta, 8)).is_ok());
}

#[test]
fn r_tp_18_slots_outside_of_their_buffer_or_unaligned_are_refused() {
    let mut table = host_table(16);
    let meta = bounded(&[4]);
    for offset in [1, 2, 4, 16, u64::MAX - 15, u64::MAX] {
        assert!(
            table
                .push_planned(meta.clone(), &slot(&meta, offset))
                .is_err(),
            "{offset}"
        );
    }
    for memory_id in [0, 2, u32::MAX] {
        let slot = PlannedSlot {
            memory_id,
            ..slot(&meta, 0)
        };
        assert!(matches!(
            table.push_planned(meta.clone(), &slot),
            Err(MemoryError::UnknownBuffer { count: 1, .. })
        ));
    }
    let short = PlannedSlot {
        nbytes: 4,
        ..slot(&meta, 0)
    };
    assert!(table.push_planned(meta.clone(), &short).is_err());
    let loose = PlannedSlot {
        alignment: Alignment::ONE,
        ..slot(&meta, 0)
    };
    assert!(table.push_planned(meta.clone(), &loose).is_err());
    assert!(table.is_empty());
    table.push_planned(meta.clone(), &slot(&meta, 0)).unwrap();
}

#[test]
fn while_memory_is_detached_no_tensor_can_be_used() {
    let mut table = host_table(16);
    let x = place(&mut table, floats(&[2]), 0);
    let number = push(&mut table, EValue::Int(3));
    fill(&mut table, x, &[1.0, 2.0]);
    let environment = Environment::default();

    let planned = table.detach_memory().unwrap();
    assert!(!table.is_attached());
    assert!(matches!(table.tensor(x), Err(TableError::Detached)));
    assert!(matches!(table.bytes_mut(x), Err(TableError::Detached)));
    assert!(matches!(
        table.call(&[x], None, &environment),
        Err(TableError::Detached)
    ));
    assert!(matches!(
        table.prepare(&[x], &environment),
        Err(TableError::Detached)
    ));
    assert!(matches!(table.detach_memory(), Err(TableError::Detached)));
    assert!(matches!(table.zero_planned(), Err(TableError::Detached)));
    assert_eq!(table.meta(x).unwrap().sizes(), [2]);
    assert!(table.get(number).is_ok());

    table.attach_memory(planned).unwrap();
    assert_eq!(elements(&table, x), [1.0, 2.0]);
}

#[test]
fn a_table_takes_back_only_the_memory_it_was_made_for() {
    let mut table = host_table(16);
    let mut stranger = host_table(16);
    let foreign = stranger.detach_memory().unwrap();
    let own = table.detach_memory().unwrap();
    assert!(matches!(
        table.attach_memory(foreign),
        Err(TableError::WrongMemory)
    ));
    table.attach_memory(own).unwrap();
    let mut third = host_table(16);
    let more = third.detach_memory().unwrap();
    assert!(matches!(
        table.attach_memory(more),
        Err(TableError::WrongMemory)
    ));
}

#[test]
fn memory_that_is_gone_is_not_replaced_by_what_came_to_its_place() {
    let mut table = host_table(16);
    let x = place(&mut table, floats(&[2]), 0);
    let gone = table.detach_memory().unwrap();
    let was_at = gone.buffers()[0].place();
    drop(gone);
    // As likely as not the next block is where the last one was.
    for _ in 0..8 {
        let mut other = host_table(16);
        let next = other.detach_memory().unwrap();
        let same_place = next.buffers()[0].place() == was_at;
        assert!(
            matches!(table.attach_memory(next), Err(TableError::WrongMemory)),
            "at the same place: {same_place}"
        );
        assert!(matches!(table.tensor(x), Err(TableError::Detached)));
    }
    let empty = PlannedMemory::default();
    assert!(matches!(
        table.attach_memory(empty),
        Err(TableError::WrongMemory)
    ));
}

#[test]
fn planned_memory_is_never_exchanged() {
    let mut table = host_table(32);
    let planned = place(&mut table, floats(&[2]), 0);
    let loose = own(&mut table, Tensor::zeros(floats(&[2])).unwrap());
    let mut given = Tensor::zeros(floats(&[2])).unwrap();
    let is_planned = |result| matches!(result, Err(TableError::Planned { .. }));
    assert!(is_planned(table.exchange_memory(planned, &mut given)));
    assert!(is_planned(table.exchange_within(loose, planned)));
    assert!(is_planned(table.exchange_within(planned, loose)));
    let mut other = host_table(0);
    let elsewhere = own(&mut other, Tensor::zeros(floats(&[2])).unwrap());
    assert!(is_planned(
        other.exchange_between(elsewhere, &mut table, planned)
    ));
    assert!(is_planned(
        table.exchange_between(planned, &mut other, elsewhere)
    ));
}

#[test]
fn memory_moves_between_values_and_tables_without_a_copy() {
    let bench = Bench::new();
    let there = |value: f32| {
        let host = Tensor::from_slice(&[value], &[1]).unwrap();
        host.to_device(cuda(0), bench.registry()).unwrap()
    };
    let (mut one, mut two) = (host_table(0), host_table(0));
    let (a, b) = (own(&mut one, there(1.0)), own(&mut one, there(2.0)));
    let c = own(&mut two, there(3.0));
    let before = bench.copies();
    one.exchange_within(a, b).unwrap();
    two.exchange_between(c, &mut one, a).unwrap();
    one.exchange_within(a, a).unwrap();
    assert_eq!(bench.copies(), before);
    let read = |table: &ValueTable, index| {
        let host = table.tensor(index).unwrap().to_host().unwrap();
        host.as_slice::<f32>().unwrap()[0]
    };
    assert_eq!(
        (read(&one, a), read(&one, b), read(&two, c)),
        (3.0, 1.0, 2.0)
    );
}

#[test]
fn missing_memory_is_made_once_and_zeroed() {
    let bench = Bench::new();
    let mut table = host_table(0);
    table.push_without_memory(floats(&[4]).on(cuda(1)));
    let x = last(&table);
    table.allocate_missing(x, bench.registry()).unwrap();
    let first = table.tensor(x).unwrap().place();
    assert!(first.is_some());
    table.allocate_missing(x, bench.registry()).unwrap();
    assert_eq!(table.tensor(x).unwrap().place(), first);
    let host = table.tensor(x).unwrap().to_host().unwrap();
    assert_eq!(host.as_slice::<f32>().unwrap(), [0.0; 4]);
}

#[test]
fn one_device_constant_serves_many_values() {
    let bench = Bench::new();
    let mut table = host_table(0);
    let bytes = [1.0f32, 2.0].map(f32::to_ne_bytes).concat();
    let constant = Tensor::device_constant(floats(&[2]).on(cuda(0)), &bytes, bench.registry());
    let first = own(&mut table, constant.unwrap());
    let column = floats(&[2, 1]).on(cuda(0));
    table.push_alias(column, first).unwrap();
    let alias = last(&table);
    assert_eq!(
        table.tensor(alias).unwrap().place(),
        table.tensor(first).unwrap().place()
    );
    assert_eq!(bench.sim.counters().live_blocks, 1);
    assert!(table.push_alias(floats(&[3]).on(cuda(0)), first).is_err());
    assert!(table.push_alias(floats(&[2]), first).is_err());
    let writable = own(&mut table, Tensor::zeros(floats(&[2])).unwrap());
    assert!(table.push_alias(floats(&[2]), writable).is_err());
}

#[test]
fn a_tensor_is_never_replaced_by_another_value() {
    let mut table = host_table(0);
    let x = own(&mut table, Tensor::zeros(floats(&[2])).unwrap());
    let number = push(&mut table, EValue::Int(1));
    assert!(matches!(
        table.set(x, EValue::None),
        Err(TableError::IsATensor { .. })
    ));
    let tensor = EValue::Tensor(Box::new(Tensor::zeros(floats(&[2])).unwrap()));
    assert!(matches!(
        table.set(number, tensor),
        Err(TableError::IsATensor { .. })
    ));
    assert!(matches!(
        table.set(ValueIndex(9), EValue::None),
        Err(TableError::NoSuchValue { .. })
    ));
    table.set(number, EValue::Double(2.0)).unwrap();
    assert!(matches!(
        table.tensor(number),
        Err(TableError::NotATensor { .. })
    ));
}

#[test]
fn bytes_can_be_written_wherever_a_tensor_is() {
    let bench = Bench::new();
    let mut table = host_table(0);
    let bytes = [1.0f32, 2.0].map(f32::to_ne_bytes).concat();
    for device in [Device::CPU, cuda(0)] {
        let tensor = Tensor::allocate(floats(&[2]).on(device), bench.registry()).unwrap();
        let x = own(&mut table, tensor);
        table.write_bytes(x, &bytes).unwrap();
        let host = table.tensor(x).unwrap().to_host().unwrap();
        assert_eq!(host.as_slice::<f32>().unwrap(), [1.0, 2.0]);
        assert!(table.write_bytes(x, &[0; 9]).is_err());
    }
    table
        .push_shared(floats(&[2]), &SharedBytes::new(bytes))
        .unwrap();
    let constant = last(&table);
    assert!(table.write_bytes(constant, &[]).is_err());
}

#[test]
fn r_tp_22_the_items_of_a_list_are_looked_up_at_each_use() {
    use crate::Arguments;
    let mut table = host_table(0);
    let number = push(&mut table, EValue::Int(1));
    let list = push(&mut table, EValue::IntList([number, number].into()));
    let environment = Environment::default();
    let read = |table: &mut ValueTable| {
        super::call(table, &[list], &environment, |context| {
            context.int_list(0).unwrap().to_vec()
        })
    };
    assert_eq!(read(&mut table), [1, 1]);
    table.set(number, EValue::Int(5)).unwrap();
    assert_eq!(read(&mut table), [5, 5]);
    table.set(number, EValue::Bool(true)).unwrap();
    super::call(&mut table, &[list], &environment, |context| {
        let error = context.int_list(0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "argument 0 is Bool, and the operator takes a list of whole numbers there"
        );
    });
}

#[test]
fn prepare_sees_constants_and_overlaps() {
    use crate::{Arguments, Overlap};
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[4]), 0);
    let shifted = place(&mut table, floats(&[4]), 8);
    let same = place(&mut table, floats(&[2, 2]), 0);
    table
        .push_shared(floats(&[1]), &SharedBytes::new(vec![0, 0, 128, 63]))
        .unwrap();
    let constant = last(&table);
    let environment = Environment::default();
    let arguments = [x, shifted, same, constant];
    let context = table.prepare(&arguments, &environment).unwrap();
    let id = |i| context.tensor(i).unwrap();
    assert_eq!(context.overlap(id(0), id(1)), Overlap::Partial);
    assert_eq!(context.overlap(id(0), id(2)), Overlap::Exact);
    assert_eq!(context.overlap(id(0), id(3)), Overlap::Disjoint);
    assert_eq!(context.constant_bytes(id(3)), Some(&[0, 0, 128, 63][..]));
    assert_eq!(context.constant_bytes(id(0)), None);
    assert!(context.is_constant(3) && !context.is_constant(0));
    table.push(EValue::TensorList(vec![constant, x].into()));
    let tensors = last(&table);
    table.mark_constant();
    table.push(EValue::OptionalTensorList(vec![None, Some(x)].into()));
    let some = last(&table);
    table.mark_constant();
    table.push(EValue::OptionalTensorList(
        vec![None, Some(constant)].into(),
    ));
    let others = last(&table);
    table.mark_constant();
    let lists = [tensors, some, others];
    let context = table.prepare(&lists, &environment).unwrap();
    assert_eq!(
        [0, 1, 2].map(|i| context.is_constant(i)),
        [false, false, true]
    );
    let context = table.prepare(&arguments, &environment).unwrap();
    let id = |i| context.tensor(i).unwrap();
    let _: &TensorMeta = context.meta(id(0));
    assert_eq!(context.meta(id(0)).dtype(), ScalarType::Float);
}

#[test]
fn a_fixed_tensor_is_a_constant_that_nobody_writes() {
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[1]), 0);
    let over = place(&mut table, floats(&[1]), 0);
    let environment = Environment::default();
    let filled = table.fix(x, |table| {
        table.bytes_mut(x)?.copy_from_slice(&1.0f32.to_ne_bytes());
        Ok(())
    });
    filled.unwrap();
    table.bytes_mut(over).unwrap().fill(0xff);
    assert_eq!(table.tensor(x).unwrap().as_slice::<f32>().unwrap(), [1.0]);
    assert!(table.bytes_mut(x).is_err() && !table.is_planned(x).unwrap());
    let arguments = [x];
    assert!(
        table
            .prepare(&arguments, &environment)
            .unwrap()
            .is_constant(0)
    );
}

#[test]
fn kernels_keep_what_was_allowed_together() {
    let mut table = host_table(64);
    let environment = Environment::default();
    assert!(!table.prepare(&[], &environment).unwrap().may_keep(1));
    table.allow(10);
    let context = table.prepare(&[], &environment).unwrap();
    assert!(context.may_keep(6) && !context.may_keep(5) && context.may_keep(4));
    assert_eq!(table.kept_nbytes(), 10);
}

/// Views that somebody has of the tensor, or that `fill` makes, end: none of them outlives the memory it shows.
#[test]
fn no_view_outlives_the_memory_of_a_tensor_that_is_fixed() {
    let environment = Environment::default();
    let mut table = host_table(64);
    let x = own(&mut table, Tensor::from_slice(&[1.0f32], &[1]).unwrap());
    let view = place(&mut table, floats(&[1]), 0);
    table.assign(view, x, &environment).unwrap();
    let before = table.tensor(view).unwrap().place();
    assert_eq!(before, table.tensor(x).unwrap().place());
    table
        .fix(x, |table| table.assign(view, x, &environment))
        .unwrap();
    let places = [view, x].map(|index| table.tensor(index).unwrap().place());
    assert!(places[0] != before && places[0] != places[1]);
}

/// What fails leaves the tensor with the memory it had, and so does what would show another tensor's bytes for good.
#[test]
fn a_tensor_that_cannot_be_fixed_is_as_it_was() {
    let environment = Environment::default();
    let mut table = host_table(64);
    let x = place(&mut table, floats(&[1]), 0);
    let other = place(&mut table, floats(&[1]), 16);
    let before = table.tensor(x).unwrap().place();
    let failed = table.fix(x, |table| table.bytes_mut(ValueIndex(99)).map(drop));
    assert!(failed.is_err());
    let aliased = table.fix(x, |table| table.assign(x, other, &environment));
    assert!(aliased.is_err());
    assert_eq!(table.tensor(x).unwrap().place(), before);
    assert!(table.is_planned(x).unwrap() && table.bytes_mut(x).is_ok());
}

/// A constant that is another name for something else is no place to keep a copy of that.
#[test]
fn a_view_is_never_settled_into_shared_bytes() {
    let (bench, environment) = (Bench::new(), Environment::default());
    let mut table = host_table(64);
    let bytes = SharedBytes::new(vec![7u8; 4]);
    table.push_shared(floats(&[1]), &bytes).unwrap();
    let constant = last(&table);
    let x = place(&mut table, floats(&[1]), 0);
    fill(&mut table, x, &[1.0]);
    table.assign(constant, x, &environment).unwrap();
    let settled = table.settle(constant, bench.registry());
    assert!(matches!(
        settled,
        Err(TableError::Tensor(TensorError::ReadOnly))
    ));
    table.end_views();
    assert_eq!(table.tensor(constant).unwrap().bytes().unwrap(), [7; 4]);
}
