//! Budgets, device maps, shared arenas, planned memory of the caller, and state.

use super::*;

#[test]
fn i_01_a_budget_of_exactly_what_is_needed_is_enough_and_a_byte_less_is_not() {
    for name in ["mlp", "dev_single_all", "dev_two_cross", "dev_lm_resident"] {
        let case = Case::fixture(name);
        let simulation = Simulation::new();
        let run = &case.runs()[0];
        let module = || case.module(&simulation.environment).unwrap();
        let needed = module()
            .method_meta(&run.method)
            .unwrap()
            .memory_needed(&DeviceMap::new())
            .unwrap();
        assert!(!needed.is_empty(), "{name}");
        for (device, nbytes) in needed {
            if device.is_cpu() && name.starts_with("dev_") {
                // The delegates of these need memory of the host besides.
                continue;
            }
            let mut enough = module();
            enough.set_options(options(|o| {
                o.budget = Budget::unlimited().limit(device, nbytes)
            }));
            check(&mut enough, run);
            let peak = simulation.counters().live_bytes;
            drop(enough);

            let before = simulation.counters().allocations;
            let mut short = module();
            short.set_options(options(|o| {
                o.budget = Budget::unlimited().limit(device, nbytes - 1)
            }));
            let error = short.method(&run.method).unwrap_err();
            assert_eq!(
                error.id(),
                "memory.over-budget",
                "{name}: {}",
                with_causes(&error)
            );
            assert_eq!(simulation.counters().allocations, before);
            if name.starts_with("dev_lm") {
                // Nothing is planned there, and yet all of it was foreseen.
                assert_eq!(peak, nbytes);
            }
        }
    }
}

#[test]
fn a_device_map_moves_every_buffer_and_tensor() {
    let case = Case::fixture("dev_two_cross");
    let mut simulation = Simulation::new();
    let map = device_map(&[(cuda(1), cuda(0))]);
    simulation.environment = simulation.environment.with_device_map(map);
    let mut module = case.module(&simulation.environment).unwrap();
    check(&mut module, &case.runs()[0]);
    let method = module.method("forward").unwrap();
    let devices: Vec<_> = method
        .planned_memory()
        .buffers()
        .iter()
        .map(|b| b.device())
        .collect();
    assert!(
        devices.contains(&cuda(0)) && !devices.contains(&cuda(1)),
        "{devices:?}"
    );
}

#[test]
fn a_device_map_to_the_host_runs_without_any_device() {
    let case = Case::fixture("dev_two_cross");
    let mut simulation = Simulation::new();
    let map = device_map(&[(cuda(0), Device::CPU), (cuda(1), Device::CPU)]);
    simulation.environment = simulation.environment.with_device_map(map);
    let mut module = case.module(&simulation.environment).unwrap();
    check(&mut module, &case.runs()[0]);
    assert_eq!(simulation.counters().allocations, 0);
}

#[test]
fn r_mod_09_methods_with_shared_arenas_share_state_in_any_order_of_loading() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    for first in ["get", "put"] {
        let mut module = case.module(&simulation.environment).unwrap();
        module.method(first).unwrap();
        for run in case.runs() {
            check(&mut module, &run);
        }
    }
}

#[test]
fn r_mod_09_a_method_that_is_loaded_again_finds_the_state_that_the_others_left() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    for run in case.runs() {
        check(&mut module, &run);
        assert!(module.unload_method(&run.method).unwrap());
        assert!(!module.unload_method(&run.method).unwrap());
    }
}

fn bytes(value: &Value) -> &[u8] {
    value.as_tensor().unwrap().bytes().unwrap()
}

#[test]
fn without_shared_arenas_each_method_has_state_of_its_own() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module.set_options(ModuleOptions::default());
    let put = case
        .runs()
        .into_iter()
        .find(|run| run.method == "put")
        .unwrap();
    let get = case
        .runs()
        .into_iter()
        .find(|run| run.method == "get")
        .unwrap();
    let before = module.execute("get", &get.inputs).unwrap();
    module.execute("put", &put.inputs).unwrap();
    let after = module.execute("get", &get.inputs).unwrap();
    assert_eq!(bytes(&before[0]), bytes(&after[0]));
}

#[test]
fn a_method_in_the_middle_of_a_run_keeps_its_shared_arenas() {
    let case = Case::fixture("mut_shared_methods");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    let put = case
        .runs()
        .into_iter()
        .find(|run| run.method == "put")
        .unwrap();
    let method = module.method("put").unwrap();
    set_inputs(method, &put);
    assert!(method.step().unwrap());
    let error = module.method("get").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InProgress), "{error:?}");
    assert_eq!(error.place().method.as_deref(), Some("put"));
    module.method("put").unwrap().reset_execution();
    module.method("get").unwrap();
}

#[test]
fn g_11_arenas_are_shared_on_devices_too() {
    let case = Case::fixture("dev_two_same");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module.set_options(options(|o| o.share_arenas = true));
    check(&mut module, &case.runs()[0]);
    let live = simulation.counters().live_blocks;
    assert!(live > 0);
    assert!(module.unload_method("forward").unwrap());
    // The arenas stay for the next one.
    assert_eq!(simulation.counters().live_blocks, live);
    check(&mut module, &case.runs()[0]);
    assert_eq!(simulation.counters().live_blocks, live);
    module.unload();
    simulation.expect_empty();
    check(&mut module, &case.runs()[0]);
}

#[test]
fn b_42_unloading_gives_everything_back_and_reloading_works_any_number_of_times() {
    let case = Case::fixture("dev_same_and_cross");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    for _ in 0..20 {
        assert!(!module.is_loaded("forward"));
        check(&mut module, &case.runs()[0]);
        assert!(module.is_loaded("forward"));
        assert!(module.unload_method("forward").unwrap());
        simulation.expect_empty();
    }
}

#[test]
fn r_mod_04_options_for_a_method_that_is_loaded_are_an_error() {
    let case = Case::fixture("mlp");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module
        .load_method("forward", LoadOptions::default())
        .unwrap();
    let again = module
        .load_method("forward", LoadOptions::default())
        .unwrap_err();
    assert!(matches!(again.kind(), ErrorKind::AlreadyLoaded));
    assert_eq!(again.code(), 0x04);
    check(&mut module, &case.runs()[0]);
}

#[test]
fn b_58_planned_memory_of_the_caller_is_checked_against_the_plan() {
    let case = Case::fixture("dev_single_add");
    let simulation = Simulation::new();
    let registry = &simulation.environment.devices;
    let mut module = case.module(&simulation.environment).unwrap();
    let plan = module
        .method_meta("forward")
        .unwrap()
        .memory_plan(&DeviceMap::new())
        .unwrap();
    let allocate = |buffers: Vec<BufferSpec>| {
        PlannedMemory::allocate(&MemoryPlan::new(buffers), registry, &Budget::unlimited()).unwrap()
    };
    let mut short = plan.buffers().to_vec();
    short[0].nbytes -= 1;
    let mut elsewhere = plan.buffers().to_vec();
    for buffer in &mut elsewhere {
        if !buffer.device.is_cpu() {
            buffer.device = cuda(1);
        }
    }
    let missing = plan.buffers()[1..].to_vec();
    for wrong in [short, elsewhere, missing] {
        let options = LoadOptions::default().with_planned_memory(allocate(wrong));
        let error = module.load_method("forward", options).unwrap_err();
        assert!(error.id().starts_with("memory.wrong-buffer"), "{error:?}");
    }
    simulation.expect_empty();
    let given = allocate(plan.buffers().to_vec());
    let blocks = simulation.counters().allocations;
    module
        .load_method("forward", LoadOptions::default().with_planned_memory(given))
        .unwrap();
    assert_eq!(simulation.counters().allocations, blocks);
    check(&mut module, &case.runs()[0]);
}

#[test]
fn reset_state_starts_over() {
    let case = Case::fixture("mut_counter_init");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    for _ in 0..3 {
        for run in case.runs() {
            check(&mut module, &run);
        }
        module.method("forward").unwrap().reset_state().unwrap();
    }
    let method = module.method("forward").unwrap();
    let error = method.execute().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InputsMissing { .. }),
        "{error:?}"
    );
}

#[test]
fn b_39_a_method_loaded_later_does_not_reset_shared_state_and_a_reset_restores_all_of_it() {
    let case = Case::fixture("mut_counter_init");
    let simulation = Simulation::new();
    let mut module = case.module(&simulation.environment).unwrap();
    module.set_options(options(|o| o.share_arenas = true));
    for _ in 0..2 {
        for run in case.runs() {
            check(&mut module, &run);
            // The arenas keep the count while the method goes and comes.
            assert!(module.unload_method("forward").unwrap());
        }
        module.method("forward").unwrap().reset_state().unwrap();
    }
}
