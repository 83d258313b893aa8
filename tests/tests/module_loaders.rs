//! Where programs and data come from, what is known of them before they are loaded, and who keeps whom alive.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;

use et_device::{Device, DeviceMap};
use et_kernel::{Dynamism, ScalarType, ValueKind};
use et_module::{
    DataFile, DataFiles, DataSource, ErrorKind, FileSource, LoadOptions, MappedSource,
    MemorySource, Module, PageLock, Program, Value,
};
use et_schema::SourceError;
use et_schema::builder::{FlatTensorBuilder, MethodBuilder, ProgramBuilder};
use et_schema::owned::Tensor as FileTensor;
use et_tests::{Case, Simulation};

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// A program by each loader there is.
fn programs(path: &Path) -> Vec<Program> {
    let map = |lock| {
        // SAFETY: nobody changes the repository's files while its tests run.
        unsafe { Program::open_mapped(path, lock) }.unwrap()
    };
    // SAFETY: the safe loader accepted these bytes just before.
    let unverified = unsafe { Program::load_unverified(MemorySource::new(read(path))) };
    vec![
        Program::open(path).unwrap(),
        Program::from_bytes(read(path)).unwrap(),
        Program::load(FileSource::open(path).unwrap()).unwrap(),
        map(PageLock::None),
        map(PageLock::IfAllowed),
        unverified.unwrap(),
    ]
}

#[test]
fn g_02_every_loader_places_a_program_on_its_devices_and_gives_the_same_results() {
    for name in [
        "mlp",
        "old_inline_constants",
        "mut_counter_init",
        "dev_two_cross",
        "dev_multi_output",
    ] {
        let case = Case::fixture(name);
        let mut blocks = Vec::new();
        for program in programs(&case.path()) {
            let simulation = Simulation::new();
            let mut module = Module::new(program, simulation.environment.clone());
            for run in case.runs() {
                let outputs = module.execute(&run.method, &run.inputs).unwrap();
                assert_eq!(run.difference(&outputs), None, "{name}");
            }
            blocks.push(simulation.counters().allocations);
            drop(module);
            simulation.expect_empty();
        }
        assert!(
            blocks.iter().all(|count| *count == blocks[0]),
            "{name}: {blocks:?}"
        );
    }
}

#[test]
fn r_ldr_02_reads_outside_of_a_file_are_errors_of_every_loader() {
    let path = Case::fixture("add").path();
    // SAFETY: nobody changes the repository's files while its tests run.
    let mapped = unsafe { MappedSource::open(&path, PageLock::None) }.unwrap();
    let sources: [Box<dyn DataSource>; 3] = [
        Box::new(FileSource::open(&path).unwrap()),
        Box::new(MemorySource::new(read(&path))),
        Box::new(mapped),
    ];
    for source in sources {
        let len = source.len();
        assert_eq!(len, read(&path).len() as u64);
        assert_eq!(source.load(4..8).unwrap()[..], *b"ET12");
        assert!(source.load(len..len).unwrap().is_empty());
        assert_eq!(source.load(0..len).unwrap()[..], read(&path));
        for range in [
            len - 1..len + 1,
            len..len + 1,
            len + 1..len + 1,
            u64::MAX - 1..u64::MAX,
        ] {
            let error = source.load(range.clone()).unwrap_err();
            assert!(
                matches!(error, SourceError::OutOfRange { .. }),
                "{range:?}: {error:?}"
            );
        }
        assert!(source.read_at(len - 3, &mut [0; 4]).is_err());
        assert!(source.read_at(u64::MAX, &mut [0; 4]).is_err());
    }
}

#[test]
fn r_mod_02_what_cannot_be_opened_is_named() {
    let folder = Case::fixture("add").path().parent().unwrap().to_owned();
    let missing = folder.join("no such file.pte");
    for path in [missing.as_path(), folder.as_path(), Path::new("")] {
        for error in [
            Program::open(path).unwrap_err(),
            DataFile::open(path).unwrap_err(),
        ] {
            assert!(matches!(error.kind(), ErrorKind::Open(_)), "{error:?}");
            assert_eq!(
                (error.place().file.as_deref(), error.code()),
                (Some(path), 0x22)
            );
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{}: cannot open", path.display()))
            );
        }
        // SAFETY: there is no such file.
        assert!(unsafe { Program::open_mapped(path, PageLock::None) }.is_err());
    }
    let meta = folder.join("meta.json");
    assert!(matches!(
        Program::open(&meta).unwrap_err().kind(),
        ErrorKind::Read(_)
    ));
    assert!(matches!(
        DataFile::open(&meta).unwrap_err().kind(),
        ErrorKind::Read(_)
    ));
    assert!(Program::from_bytes(Vec::new()).is_err());
}

#[test]
fn b_40_a_method_keeps_everything_alive_that_it_needs() {
    let case = Case::fixture("dev_two_cross");
    let simulation = Simulation::new();
    let mut method = {
        let bytes = read(&case.path());
        let program = Program::from_bytes(bytes).unwrap();
        let first = Module::new(program.clone(), simulation.environment.clone());
        drop(first);
        program
            .load_method("forward", &simulation.environment)
            .unwrap()
    };
    let Simulation {
        devices,
        environment,
    } = simulation;
    drop(environment);
    let run = &case.runs()[0];
    for (index, input) in run.inputs.iter().enumerate() {
        method.set_input(index, input).unwrap();
    }
    method.execute().unwrap();
    assert_eq!(run.difference(&[method.output_to_host(0).unwrap()]), None);
    drop(method);
    assert_eq!(devices.leaks(), []);
}

#[test]
fn r_mod_14_modules_over_one_program_have_methods_and_state_of_their_own() {
    let case = Case::fixture("mut_counter_init");
    let simulation = Simulation::new();
    let program = Program::open(case.path()).unwrap();
    let module = || Module::new(program.clone(), simulation.environment.clone());
    let (mut one, mut two) = (module(), module());
    for run in case.runs() {
        for module in [&mut one, &mut two] {
            let outputs = module.execute(&run.method, &run.inputs).unwrap();
            assert_eq!(run.difference(&outputs), None);
        }
    }
}

fn data_file(entries: &[(&str, &[f32])]) -> DataFile {
    let mut file = FlatTensorBuilder::new();
    for (name, elements) in entries {
        let bytes: Vec<u8> = elements
            .iter()
            .flat_map(|element| element.to_le_bytes())
            .collect();
        file.tensor(
            name,
            et_schema::ScalarType::Float,
            &[elements.len() as i32],
            &bytes,
        );
    }
    DataFile::from_bytes(file.to_bytes().unwrap()).unwrap()
}

/// A program that gives the external tensor `weight` of two floats.
fn external(program: &mut ProgramBuilder) -> Program {
    let mut forward = MethodBuilder::new("forward");
    forward.output(FileTensor::new(et_schema::ScalarType::Float, &[2]).external("weight"));
    program.method(forward);
    Program::from_bytes(program.to_bytes().unwrap()).unwrap()
}

#[track_caller]
fn weight(program: &Program, files: &DataFiles) -> Result<Vec<f32>, String> {
    let simulation = Simulation::new();
    let loaded = program.load_method_with(
        "forward",
        &simulation.environment,
        files,
        LoadOptions::default(),
    );
    let mut method = loaded.map_err(|error| error.to_string())?;
    method.execute().unwrap();
    let Value::Tensor(tensor) = method.output_to_host(0).unwrap() else {
        panic!("a tensor")
    };
    Ok(tensor.as_slice::<f32>().unwrap().to_vec())
}

#[test]
fn r_ndm_04_tensors_are_found_in_whichever_file_has_them() {
    let mut files = DataFiles::new();
    files.add(data_file(&[("bias", &[0.0])])).unwrap();
    files
        .add(data_file(&[("weight", &[1.0, 2.0]), ("other", &[])]))
        .unwrap();
    let program = external(&mut ProgramBuilder::new());
    assert_eq!(weight(&program, &files), Ok(vec![1.0, 2.0]));
    let missing = weight(&program, &DataFiles::new()).unwrap_err();
    assert_eq!(
        missing,
        "method `forward`: 1 tensor is not in any data file given: weight"
    );
}

#[test]
fn b_19_a_name_in_two_places_is_told() {
    let mut files = DataFiles::new();
    files.add(data_file(&[("weight", &[1.0, 2.0])])).unwrap();
    let error = files
        .add(data_file(&[("bias", &[0.0]), ("weight", &[9.0])]))
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::DuplicateData { name } if name == "weight"));
    // Nothing of the second file was taken.
    files.add(data_file(&[("bias", &[0.0])])).unwrap();

    let mut builder = ProgramBuilder::new();
    builder.named_data("weight", &[0; 8]);
    let program = external(&mut builder);
    let error = weight(&program, &files).unwrap_err();
    assert!(error.contains("`weight` is in more than one"), "{error}");
    // The program's own data serve as well.
    assert_eq!(weight(&program, &DataFiles::new()), Ok(vec![0.0, 0.0]));
}

#[test]
fn b_47_external_data_must_be_what_the_program_expects() {
    let program = external(&mut ProgramBuilder::new());
    for elements in [&[1.0f32][..], &[1.0, 2.0, 3.0]] {
        let mut files = DataFiles::new();
        files.add(data_file(&[("weight", elements)])).unwrap();
        let error = weight(&program, &files).unwrap_err();
        let found = format!(
            "is Float[{}] on cpu, and the program expects Float[2] on cpu",
            elements.len()
        );
        assert!(error.contains(&found), "{error}");
    }
    // Without a layout the number of bytes decides.
    for (nbytes, fits) in [(7, false), (8, true), (9, true)] {
        let mut builder = ProgramBuilder::new();
        builder.named_data("weight", &vec![0; nbytes]);
        let error = weight(&external(&mut builder), &DataFiles::new());
        assert_eq!(error.is_ok(), fits, "{error:?}");
    }
}

#[test]
fn r_meta_01_a_method_is_described_without_being_loaded() {
    let program = Program::open(Case::fixture("add").path()).unwrap();
    let meta = program.method_meta("forward").unwrap();
    assert_eq!(
        (meta.name(), meta.num_inputs(), meta.num_outputs()),
        ("forward", 2, 1)
    );
    let input = meta.input(0).unwrap();
    let tensor = input.tensor.unwrap();
    assert_eq!(input.kind, ValueKind::Tensor);
    assert_eq!(
        (tensor.meta.dtype(), tensor.meta.sizes()),
        (ScalarType::Float, &[2, 3][..])
    );
    assert_eq!(
        (tensor.meta.device(), tensor.is_planned, tensor.name),
        (Device::CPU, true, None)
    );
    assert_eq!(meta.operators(), ["aten::add.out"]);
    assert!(meta.num_instructions() > 0 && !meta.uses_delegates());
    for index in [2, usize::MAX] {
        assert!(matches!(
            meta.input(index).unwrap_err().kind(),
            ErrorKind::NoSuchInput { count: 2, .. }
        ));
        assert!(matches!(
            meta.output(index).unwrap_err().kind(),
            ErrorKind::NoSuchOutput { count: 1, .. }
        ));
    }
    let error = program.method_meta("backward").unwrap_err();
    assert_eq!(error.code(), 0x12);
}

#[test]
fn r_meta_09_planned_buffers_say_where_they_are() {
    let program = Program::open(Case::fixture("dev_single_add").path()).unwrap();
    let meta = program.method_meta("forward").unwrap();
    let plan = meta.memory_plan(&DeviceMap::new()).unwrap();
    let devices: Vec<_> = plan.buffers().iter().map(|buffer| buffer.device).collect();
    assert_eq!(devices, [Device::CPU, Device::cuda(0).unwrap()]);
    assert_eq!(meta.num_planned_buffers(), 2);
    assert_eq!(meta.backends(), ["NestedProgramBackend"]);
    assert!(meta.uses_delegates());
}

#[test]
fn b_34_inputs_and_outputs_say_on_which_device_they_are() {
    let program = Program::open(Case::fixture("dev_lm_resident").path()).unwrap();
    assert_eq!(
        program.method_names().collect::<Vec<_>>(),
        ["decode", "prefill"]
    );
    let meta = program.method_meta("decode").unwrap();
    for index in 0..4 {
        for info in [meta.input(index).unwrap(), meta.output(index).unwrap()] {
            let tensor = info.tensor.unwrap();
            assert_eq!(
                (tensor.meta.device(), tensor.is_planned),
                (Device::cuda(0).unwrap(), false)
            );
        }
    }
}

#[test]
fn r_meta_06_attributes_are_the_tensors_with_a_name() {
    let program = external(&mut ProgramBuilder::new());
    let attributes = program
        .method_meta("forward")
        .unwrap()
        .attributes()
        .unwrap();
    let names: Vec<_> = attributes
        .iter()
        .filter_map(|info| info.tensor.as_ref()?.name.as_deref())
        .collect();
    assert_eq!(names, ["weight"]);
    let dynamic = Program::open(Case::fixture("dyn_batch_mlp").path()).unwrap();
    let input = dynamic
        .method_meta("forward")
        .unwrap()
        .input(0)
        .unwrap()
        .tensor
        .unwrap();
    assert_eq!(input.meta.dynamism(), Dynamism::Bound);
}
