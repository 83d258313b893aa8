//! A greedy decode whose cache, position and token stay on the device, and the same through host memory.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests are tests"
)]

use std::sync::Arc;

use et_device::CopyCounts;
use et_kernel::{CopiesByOrigin, CopyMeter, ScalarType, Tensor, TensorMeta};
use et_module::{Error, Handover, Module, Value};
use et_tests::{Case, Run, Simulation};

/// Inputs and outputs of both methods: token, position, and the two caches.
const VALUES: usize = 4;

struct Bench {
    simulation: Simulation,
    copies: Arc<CopyMeter>,
    case: Case,
    runs: Vec<Run>,
}

impl Bench {
    fn new() -> Self {
        let simulation = Simulation::new();
        let devices = Arc::clone(&simulation.devices);
        let copies = Arc::new(CopyMeter::new(move || devices.counters().copies()));
        let case = Case::fixture("dev_lm_resident");
        let runs = case.runs();
        assert_eq!(runs.len(), 7, "a prompt and six steps");
        Self {
            simulation: simulation.watched_by(copies.clone()),
            copies,
            case,
            runs,
        }
    }

    fn module(&self) -> Module {
        self.case.module(&self.simulation.environment).unwrap()
    }

    fn expected_token(&self, run: usize) -> i64 {
        token(&self.runs[run].outputs[0])
    }
}

fn token(value: &Value) -> i64 {
    value.as_tensor().unwrap().as_slice::<i64>().unwrap()[0]
}

/// The tokens of every step, and the copies of the last one.
fn resident(bench: &Bench) -> Result<(Vec<i64>, CopiesByOrigin), Error> {
    let environment = &bench.simulation.environment;
    let program = bench.module().program().clone();
    let mut prefill = program.load_method("prefill", environment)?;
    let mut decode = program.load_method("decode", environment)?;
    let meta = TensorMeta::contiguous(ScalarType::Long, &[1, 1]).unwrap();
    let mut token = Tensor::zeros(meta).unwrap();

    for (index, input) in bench.runs[0].inputs.iter().enumerate() {
        prefill.set_input(index, input)?;
    }
    prefill.execute()?;
    prefill.output_into(0, &mut token)?;
    let mut tokens = vec![token.as_slice::<i64>().unwrap()[0]];
    for value in 0..VALUES {
        assert_eq!(
            prefill.hand_over(value, &mut decode, value)?,
            Handover::Exchanged
        );
    }
    let mut last = CopiesByOrigin::default();
    bench.copies.take();
    for step in 1..bench.runs.len() {
        decode.execute()?;
        decode.output_into(0, &mut token)?;
        tokens.push(token.as_slice::<i64>().unwrap()[0]);
        for value in 0..VALUES {
            assert_eq!(decode.feed_back(value, value)?, Handover::Exchanged);
        }
        last = bench.copies.take();
        let (outside, inside) = (last.outside_delegates(), last.delegate);
        println!("resident step {step}: {outside:?}; inside of the delegate {inside:?}");
        assert_eq!(outside, ONE_TOKEN);
    }
    Ok((tokens, last))
}

/// The sampled token comes to the host, and nothing else moves.
const ONE_TOKEN: CopyCounts = CopyCounts {
    host_to_device: 0,
    host_to_device_bytes: 0,
    device_to_host: 1,
    device_to_host_bytes: 8,
    device_to_device: 0,
    device_to_device_bytes: 0,
};

#[test]
fn only_the_token_leaves_the_device_in_each_step() {
    let bench = Bench::new();
    let (tokens, last) = resident(&bench).unwrap();
    let expected: Vec<i64> = (0..bench.runs.len())
        .map(|run| bench.expected_token(run))
        .collect();
    assert_eq!(tokens, expected);
    // The delegate of the simulation computes on the host: it fetches its arguments and stores its results.
    let inside = last.delegate;
    assert_eq!((inside.host_to_device, inside.device_to_host), (4, 4));
    bench.simulation.expect_empty();
}

#[test]
fn the_loop_takes_no_device_memory_after_its_first_steps() {
    let bench = Bench::new();
    let environment = &bench.simulation.environment;
    let program = bench.module().program().clone();
    let mut decode = program.load_method("decode", environment).unwrap();
    for (index, input) in bench.runs[1].inputs.iter().enumerate() {
        decode.set_input(index, input).unwrap();
    }
    decode.execute().unwrap();
    let before = bench.simulation.counters();
    let address = |decode: &et_module::Method| decode.input_tensor(2).unwrap().place();
    let mut places = vec![address(&decode)];
    for _ in 0..4 {
        for value in 0..VALUES {
            decode.feed_back(value, value).unwrap();
        }
        decode.execute().unwrap();
        places.push(address(&decode));
    }
    assert_eq!(bench.simulation.counters().allocations, before.allocations);
    // Two blocks take turns.
    assert_ne!(places[0], places[1]);
    assert_eq!((places[0], places[1]), (places[2], places[3]));
    decode.synchronize().unwrap();
}

#[test]
fn through_host_memory_every_value_crosses_twice_per_step() {
    let bench = Bench::new();
    let mut module = bench.module();
    let mut values = module.execute("prefill", &bench.runs[0].inputs).unwrap();
    module.method("decode").unwrap();
    for step in 1..bench.runs.len() {
        // The first step makes the method's memory on the device besides.
        bench.copies.take();
        values = module.execute("decode", &values).unwrap();
        assert_eq!(token(&values[0]), bench.expected_token(step));
        let copies = bench.copies.take();
        let (outside, inside) = (copies.outside_delegates(), copies.delegate);
        println!("naive step {step}: {outside:?}; inside of the delegate {inside:?}");
        let count = VALUES as u64;
        assert_eq!(
            (outside.host_to_device, outside.device_to_host),
            (count, count)
        );
    }
}

#[test]
fn a_bound_buffer_keeps_its_address() {
    let bench = Bench::new();
    let registry = &bench.simulation.environment.devices;
    let mut module = bench.module();
    let decode = module.method("decode").unwrap();
    let cache = bench.runs[1].inputs[2].as_tensor().unwrap();
    let mut bound = cache
        .to_device(decode.input_tensor(2).unwrap().device(), registry)
        .unwrap();
    let place = bound.place();
    decode.exchange_input(2, &mut bound).unwrap();
    for _ in 0..3 {
        for index in [0, 1, 3] {
            decode
                .set_input(index, &bench.runs[1].inputs[index])
                .unwrap();
        }
        decode.execute().unwrap();
        assert_eq!(decode.input_tensor(2).unwrap().place(), place);
        assert_eq!(
            token(&decode.output_to_host(0).unwrap()),
            bench.expected_token(1)
        );
    }
    decode.exchange_input(2, &mut bound).unwrap();
    assert_eq!(bound.place(), place);
    let back = bound.to_host().unwrap();
    assert_eq!(
        back.as_slice::<f32>().unwrap(),
        cache.as_slice::<f32>().unwrap()
    );
}
