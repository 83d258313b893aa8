//! State, constants, and what is handed on between runs.

use super::*;

/// Adds 1 to a state of two floats that lives where it is told to.
fn counter(program: &mut ProgramBuilder, device: i8, first: Option<[f32; 2]>) -> MethodBuilder {
    let mut forward = MethodBuilder::new("forward");
    let host = forward.buffer(16);
    let data = first.map_or(0, |first| program.initial_data(&raw(&first)));
    let state = floats(&[2]).with_data(data).named("count");
    if device == 0 {
        let state = forward.tensor(state.planned(host, 0));
        forward.kernel("test::add_one", &[state, state]);
        forward.mark_output(state);
    } else {
        let there = forward.device_buffer(16, device, 1);
        let state = forward.tensor(state.planned(there, 0).on_device(device, 1));
        let here = forward.tensor(floats(&[2]).planned(host, 0));
        forward.kernel("et_copy::_d2h_copy.out", &[state, here, here]);
        forward.kernel("test::add_one", &[here, here]);
        forward.kernel("et_copy::_h2d_copy.out", &[here, state, state]);
        forward.mark_output(state);
    }
    forward
}

#[test]
fn b_02_state_starts_as_the_file_says_on_the_device_where_it_lives() {
    for device in [0, CUDA] {
        for first in [None, Some([5.0, 7.0])] {
            let bench = Bench::new();
            let mut program = ProgramBuilder::new();
            let forward = counter(&mut program, device, first);
            let mut method = bench.load(forward, program);
            let [a, b] = first.unwrap_or_default();
            for _ in 0..2 {
                for turn in 1..4u8 {
                    let count = f32::from(turn);
                    assert_eq!(
                        run(&mut method, &[]),
                        [a + count, b + count],
                        "{device} {first:?}"
                    );
                }
                method.reset_state().unwrap();
            }
        }
    }
}

#[test]
fn r_att_01_state_is_read_and_written_by_name_wherever_it_is() {
    for device in [0, CUDA] {
        let bench = Bench::new();
        let mut program = ProgramBuilder::new();
        let forward = counter(&mut program, device, None);
        let mut method = bench.load(forward, program);
        let nine = Tensor::from_slice(&[9.0f32, 90.0], &[2]).unwrap();
        method.set_attribute("count", &nine).unwrap();
        assert_eq!(run(&mut method, &[]), [10.0, 91.0]);
        let saved = method.attribute("count").unwrap().to_host().unwrap();
        assert_eq!(saved.as_slice::<f32>().unwrap(), [10.0, 91.0]);
        assert_eq!(run(&mut method, &[]), [11.0, 92.0]);
        // State of one session goes to another.
        let mut program = ProgramBuilder::new();
        let forward = counter(&mut program, device, None);
        let mut second = bench.load(forward, program);
        second
            .set_attribute("count", method.attribute("count").unwrap())
            .unwrap();
        assert_eq!(run(&mut second, &[]), [12.0, 93.0]);

        let wrong = Tensor::from_slice(&[1.0f32], &[1]).unwrap();
        assert!(method.set_attribute("count", &wrong).is_err());
        let mut own = nine.to_host().unwrap();
        assert!(
            matches!(method.exchange_attribute("count", &mut own), Err(e) if with_causes(&e).contains("planned"))
        );
        let error = method.attribute("coun").unwrap_err();
        assert_eq!(
            error.to_string(),
            "method `forward`: there is no tensor named `coun`; the method has count"
        );
        assert_eq!(error.code(), 0x20);
    }
}

#[test]
fn state_without_a_plan_is_made_zeroed_and_can_be_the_callers() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let state = forward.tensor(floats(&[2]).named("count"));
    forward.kernel("test::add_one", &[state, state]);
    forward.mark_output(state);
    // An output is made at the first run; this one is state, and is there before.
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert_eq!(run(&mut method, &[]), [1.0; 2]);
    let mut own = Tensor::from_slice(&[10.0f32, 20.0], &[2]).unwrap();
    method.exchange_attribute("count", &mut own).unwrap();
    assert_eq!(own.as_slice::<f32>().unwrap(), [1.0; 2]);
    assert_eq!(run(&mut method, &[]), [11.0, 21.0]);
    method.reset_state().unwrap();
    assert_eq!(run(&mut method, &[]), [1.0; 2]);
}

#[test]
fn b_03_one_constant_on_a_device_is_uploaded_once_however_often_it_is_named() {
    let bench = Bench::new();
    let mut program = ProgramBuilder::new();
    let data = program.constant(&raw(&[1.0, 2.0]));
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(16);
    let out = forward.output(floats(&[2]).planned(memory, 0));
    let weight = |forward: &mut MethodBuilder, index| {
        forward.tensor(floats(&[2]).with_data(data).on_device(CUDA, index))
    };
    let (first, _second) = (weight(&mut forward, 0), weight(&mut forward, 0));
    let _elsewhere = weight(&mut forward, 1);
    forward.kernel("et_copy::_d2h_copy.out", &[first, out, out]);
    let mut method = bench.load(forward, program);
    let counters = bench.simulation.counters();
    assert_eq!((counters.allocations, counters.host_to_device), (2, 2));
    assert_eq!(run(&mut method, &[]), [1.0, 2.0]);
    let needed = method.meta().memory_needed(&DeviceMap::new()).unwrap();
    let bytes: Vec<_> = needed
        .iter()
        .map(|(device, nbytes)| (device.to_string(), *nbytes))
        .collect();
    assert_eq!(
        bytes,
        [
            ("cpu".to_owned(), 16),
            ("cuda:0".to_owned(), 8),
            ("cuda:1".to_owned(), 8)
        ]
    );
}

#[test]
fn b_04_a_tensor_in_a_buffer_of_another_device_is_refused() {
    let bench = Bench::new();
    for (buffer, tensor) in [((CUDA, 0), (0, 0)), ((CUDA, 0), (CUDA, 1))] {
        let mut forward = MethodBuilder::new("forward");
        let memory = forward.device_buffer(16, buffer.0, buffer.1);
        forward.input(
            floats(&[2])
                .planned(memory, 0)
                .on_device(tensor.0, tensor.1),
        );
        let error = bench.try_load(forward, ProgramBuilder::new()).unwrap_err();
        // Either the file is found wrong, or its loading is; never does it run.
        assert!(!with_causes(&error).is_empty());
        assert!(
            with_causes(&error).contains("cuda:0"),
            "{}",
            with_causes(&error)
        );
    }
}

#[test]
fn a_result_that_is_a_view_can_be_handed_on() {
    let bench = Bench::new();
    let mut method = bench.load(moved_output(), ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [2.0, 3.0]);
    let mut own = Tensor::from_slice(&[0.0f32; 2], &[2]).unwrap();
    method.exchange_output(0, &mut own).unwrap();
    assert_eq!(own.as_slice::<f32>().unwrap(), [2.0, 3.0]);
    let mut next = bench.load(moved_output(), ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(5.0, 6.0)]), [6.0, 7.0]);
    assert_eq!(method.hand_over(0, &mut next, 0).unwrap(), Handover::Copied);
    next.execute().unwrap();
    assert_eq!(output(&next, 0), [7.0, 8.0]);
    assert_eq!(next.feed_back(0, 0).unwrap(), Handover::Copied);
    next.execute().unwrap();
    assert_eq!(output(&next, 0), [8.0, 9.0]);
}

#[test]
fn tensors_are_handed_on_only_to_their_like() {
    let bench = Bench::new();
    let mut method = bench.load(moved_output(), ProgramBuilder::new());
    run(&mut method, &[pair(1.0, 2.0)]);
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    forward.input(floats(&[3]).planned(memory, 0));
    forward.input(FileTensor::new(ScalarType::Int, &[2]));
    let mut other = bench.load(forward, ProgramBuilder::new());
    for input in 0..2 {
        let error = method.hand_over(0, &mut other, input).unwrap_err();
        assert_eq!(error.place().value, Some(input as u32), "{error:?}");
    }
    assert!(matches!(
        method.feed_back(1, 0).unwrap_err().kind(),
        ErrorKind::NoSuchOutput { .. }
    ));
    assert!(matches!(
        method.feed_back(0, 1).unwrap_err().kind(),
        ErrorKind::NoSuchInput { .. }
    ));
    assert_eq!(output(&method, 0), [2.0, 3.0]);
}

#[test]
fn b_10_a_dynamic_output_that_shrank_still_wants_room_for_its_bound() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    let x = forward.input(
        floats(&[8])
            .dynamic(Dynamism::DynamicBound)
            .planned(memory, 0),
    );
    let out = forward.output(floats(&[8]).dynamic(Dynamism::DynamicBound));
    forward.kernel("test::add_one", &[x, out]);
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [2.0, 3.0]);
    let mut small = Tensor::from_slice(&[0.0f32; 2], &[2]).unwrap();
    assert!(method.exchange_output(0, &mut small).is_err());
    assert_eq!(output(&method, 0), [2.0, 3.0]);
    let eight = Tensor::from_slice(&[1.0f32; 8], &[8]).unwrap();
    assert_eq!(run(&mut method, &[eight.into()]), [2.0; 8]);
    let nine = Tensor::from_slice(&[1.0f32; 9], &[9]).unwrap();
    assert!(method.set_input(0, &nine.into()).is_err());
    method.execute().unwrap();
    assert_eq!(output(&method, 0), [2.0; 8]);
}

#[test]
fn b_36_an_input_is_brought_into_the_dimension_order_of_the_program() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    let x = forward.input(floats(&[2, 2]).planned(memory, 0));
    let out = forward.output(floats(&[2, 2]).planned(memory, 16));
    forward.kernel("test::add_one", &[x, out]);
    let mut method = bench.load(forward, ProgramBuilder::new());
    let rows = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let columns = rows.in_dim_order(&[1, 0]).unwrap();
    assert_eq!(run(&mut method, &[columns.into()]), [2.0, 3.0, 4.0, 5.0]);
}

/// The input is another name for a result when the run is over.
#[test]
fn an_input_that_was_a_view_can_be_exchanged() {
    let bench = Bench::new();
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(16);
    let x = forward.input(floats(&[2]));
    let sum = forward.tensor(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]));
    forward.kernel("test::add_one", &[x, sum]);
    forward.kernel("test::add_one", &[sum, out]);
    forward.move_value(sum, x);
    let mut method = bench.load(forward, ProgramBuilder::new());
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [3.0, 4.0]);
    let mut tensor = Tensor::from_slice(&[10.0f32, 20.0], &[2]).unwrap();
    for _ in 0..3 {
        method.exchange_input(0, &mut tensor).unwrap();
        assert!(tensor.place().is_some());
        method.execute().unwrap();
    }
    assert_eq!(tensor.sizes(), [2]);
}
