//! What is said when something is refused.

use super::*;

#[test]
fn errors_say_what_was_wanted_and_what_was_given() {
    let simulation = Simulation::new();
    let case = Case::fixture("mlp");
    let mut module = case.module(&simulation.environment).unwrap();
    let floats = |sizes: &[usize]| {
        let elements = vec![0.0f32; sizes.iter().product()];
        Value::from(Tensor::from_slice(&elements, sizes).unwrap())
    };
    let program = |name: &str| Program::open(Case::fixture(name).path()).unwrap();
    let none = et_device::DeviceAllocatorRegistry::new();
    let bare = simulation.environment.clone().with_devices(none);
    let method = module.method("forward").unwrap();
    let messages = [
        with_causes(&method.execute().unwrap_err()),
        with_causes(&method.set_input(0, &floats(&[2, 3])).unwrap_err()),
        with_causes(&method.set_input(0, &Value::Int(3)).unwrap_err()),
        with_causes(&method.set_input(7, &Value::Int(3)).unwrap_err()),
        with_causes(&method.output(5).unwrap_err()),
        with_causes(&method.attribute("k_cache").unwrap_err()),
        with_causes(
            &module
                .execute("forward", &[Value::None, Value::None, Value::None])
                .unwrap_err(),
        ),
        with_causes(&module.method("backward").unwrap_err()),
        with_causes(
            &program("dev_single_add")
                .load_method("forward", &bare)
                .unwrap_err(),
        ),
        with_causes(
            &program("ext_weights")
                .load_method("forward", &bare)
                .unwrap_err(),
        ),
        with_causes(
            &program("mlp")
                .load_method("forward", &et_kernel::Environment::default())
                .unwrap_err(),
        ),
        with_causes(
            &program("dev_single_add")
                .load_method("forward", &et_kernel::Environment::default())
                .unwrap_err(),
        ),
    ];
    for message in &messages {
        println!("{message}");
    }
    let parts = [
        "method `forward`: 1 input was not set: [0]",
        "method `forward`: input 0 cannot be set: a tensor of fixed shape",
        "method `forward`: input 0 is the whole number 3, and the method takes a tensor Float",
        "method `forward`: there is no input 7: the method has 1",
        "method `forward`: there is no output 5: the method has 1",
        "method `forward`: there is no tensor named `k_cache`; the method has",
        "method `forward`: 3 inputs were given, and the method takes 1",
        "there is no method `backward`; the program has forward",
        "use et_cuda as _",
        "not in any data file given:",
        "operators are not available: aten::",
        "not available: ",
    ];
    for (message, part) in messages.iter().zip(parts) {
        assert!(
            message.contains(part),
            "{message:?} does not contain {part:?}"
        );
    }
}

#[test]
fn j_05_refusals_are_for_the_caller_and_leave_the_method_as_it_was() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let run = &case.runs()[0];
    let method = module.method("forward").unwrap();
    set_inputs(method, run);
    let sizes = method.output_tensor(0).unwrap().sizes().to_vec();
    let elements = vec![0.0f32; sizes.iter().product()];
    let mut own = Tensor::from_slice(&elements, &sizes).unwrap();
    for _ in 0..1000 {
        let error = method.exchange_output(0, &mut own).unwrap_err();
        assert!(
            with_causes(&error).contains("lives in planned memory"),
            "{}",
            with_causes(&error)
        );
    }
    assert!(method.set_input(0, &Value::None).is_err());
    method.execute().unwrap();
    assert_eq!(run.difference(&[method.output_to_host(0).unwrap()]), None);
}

#[test]
fn a_device_that_is_not_there_is_missed_when_a_method_is_loaded() {
    let simulation = Simulation::new();
    let none = et_device::DeviceAllocatorRegistry::new();
    let bare = simulation.environment.clone().with_devices(none);
    let third = device_map(&[(cuda(0), cuda(3))]);
    let third = simulation.environment.clone().with_device_map(third);
    for (environment, id) in [
        (&bare, "device.no-allocator"),
        (&third, "device.no-such-device"),
    ] {
        // The one plans memory on the device, the other has only tensors there that it makes later.
        for name in ["dev_single_add", "dev_lm_resident"] {
            let program = Program::open(Case::fixture(name).path()).unwrap();
            let method = program.method_names().next().unwrap().to_owned();
            let error = program.load_method(&method, environment).unwrap_err();
            assert_eq!(error.id(), id, "{name}: {error:?}");
        }
    }
    simulation.expect_empty();
}

#[test]
fn the_debug_form_of_an_error_is_the_text_with_its_causes() {
    let simulation = Simulation::new();
    let program = Program::open(Case::fixture("dev_lm_resident").path()).unwrap();
    let method = program.method_names().next().unwrap().to_owned();
    let method = program
        .load_method(&method, &simulation.environment)
        .unwrap();
    let error = method.output_to_host(0).unwrap_err();
    let shown = format!("{error:?}");
    assert!(shown.contains("output 0 cannot be copied"), "{shown}");
    assert!(shown.ends_with(": the tensor has no memory"), "{shown}");
    assert_eq!(error.code(), 0x02);
}
