//! What happened on the devices while methods loaded and ran, as recorded traces have it.
//!
//! Two sources are joined in the order in which things happened: the events of the runtime, and what the
//! devices did in between. Who caused an event follows from where it stands, as [`OriginTracker`] has it.

use et_device::{DeviceIndex, DeviceType};
use et_kernel::{ArgumentPlace, Event, EventHook, Origin, OriginTracker};
use et_memory::Place;
use et_sim::{TraceEvent, TraceLog};
use serde_json::{Map, Value as Json, json};
use std::sync::{Arc, Mutex, MutexGuard};

/// How host memory is numbered in a trace.
const HOST: i64 = -1;

/// Watches a program and keeps what happened.
#[derive(Debug)]
pub(crate) struct Recorder {
    log: Arc<TraceLog>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tracker: OriginTracker,
    /// The method that is loaded now.
    loading: Option<String>,
    load: Map<String, Json>,
    runs: Vec<Vec<Json>>,
}

impl Recorder {
    /// A recorder of the memory and the copies that `log` tells of.
    pub(crate) fn new(log: Arc<TraceLog>) -> Self {
        Self {
            log,
            state: Mutex::default(),
        }
    }

    /// The next call starts: what follows belongs to it.
    pub(crate) fn begin_run(&self) {
        let mut state = self.state();
        self.collect(&mut state);
        state.runs.push(Vec::new());
    }

    /// The document so far.
    pub(crate) fn document(&self) -> Json {
        let mut state = self.state();
        self.collect(&mut state);
        json!({
            "format": "et-trace",
            "version": 1,
            "load": state.load,
            "runs": state.runs,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("invariant: recording does not panic")
    }

    /// Takes what the devices did since the last time.
    fn collect(&self, state: &mut State) {
        for event in self.log.take() {
            if let Some(event) = device_event(&event) {
                state.push(event, state.tracker.origin());
            }
        }
    }
}

impl EventHook for Recorder {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.state();
        self.collect(&mut state);
        state.apply(event);
    }
}

impl State {
    fn apply(&mut self, event: &Event<'_>) {
        // What a program nested in a delegate loads and runs is the delegate's business.
        if self.tracker.origin() != Origin::Delegate {
            self.tell(event);
        }
        self.tracker.follow(event);
    }

    /// Keeps what the runtime says of itself.
    fn tell(&mut self, event: &Event<'_>) {
        let mut push = |event| self.push(event, Origin::Runtime);
        match *event {
            Event::DelegateInitBegin { target, nbytes, .. } => {
                let target = target.unwrap_or_default();
                push(json!({"ev": "delegate_init", "target": target, "nbytes": nbytes}));
            }
            Event::DelegateBegin { target, args, .. } => {
                let args: Vec<Json> = args.iter().map(argument).collect();
                let target = target.unwrap_or_default();
                push(json!({"ev": "delegate", "target": target, "args": args}));
            }
            Event::LoadBegin { method } => {
                self.load.entry(method).or_insert_with(|| json!([]));
                self.loading = Some(method.to_owned());
            }
            Event::LoadEnd { .. } => self.loading = None,
            Event::ExecuteBegin { .. } => push(json!({"ev": "execute_begin"})),
            Event::ExecuteEnd { outputs, .. } => {
                for output in outputs {
                    push(json!({"ev": "output", "memory": memory(output)}));
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, mut event: Json, origin: Origin) {
        event["origin"] = origin.name().into();
        let loading = self.loading.as_ref();
        let loading = loading
            .and_then(|method| self.load.get_mut(method))
            .and_then(Json::as_array_mut);
        if let Some(list) = loading.or_else(|| self.runs.last_mut()) {
            list.push(event);
        }
    }
}

fn argument(argument: &ArgumentPlace) -> Json {
    let device = argument.device;
    json!({
        // With the index for the host too, as recorded traces have it.
        "tag": format!("{}:{}", device.device_type(), device.index()),
        "memory": memory(argument),
        "nbytes": argument.nbytes,
    })
}

/// The device whose memory a tensor lies in.
fn memory(argument: &ArgumentPlace) -> i64 {
    match argument.place {
        Some(Place::Device(device, _)) => device.index().get().into(),
        _ => HOST,
    }
}

fn device_event(event: &TraceEvent) -> Option<Json> {
    let number = |index: DeviceIndex| i64::from(index.get());
    let copy = |ev, index, nbytes, src, dst| json!({"ev": ev, "index": number(index), "nbytes": nbytes, "src": src, "dst": dst});
    Some(match *event {
        TraceEvent::Alloc { index, nbytes } => {
            json!({"ev": "alloc", "index": number(index), "nbytes": nbytes})
        }
        TraceEvent::Free { index, nbytes } => {
            json!({"ev": "free", "index": number(index), "nbytes": nbytes})
        }
        TraceEvent::Fill { index, nbytes } => {
            json!({"ev": "fill", "index": number(index), "nbytes": nbytes})
        }
        TraceEvent::HostToDevice { index, nbytes } => {
            copy("h2d", index, nbytes, HOST, number(index))
        }
        TraceEvent::DeviceToHost { index, nbytes } => {
            copy("d2h", index, nbytes, number(index), HOST)
        }
        TraceEvent::DeviceToDevice { src, dst, nbytes } => {
            copy("d2d", dst, nbytes, number(src), number(dst))
        }
        _ => return None,
    })
}

/// Copies of one kind that one side made in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copies {
    /// `h2d`, `d2h` or `d2d`.
    pub(crate) kind: &'static str,
    /// `runtime`, `delegate` or `caller`.
    pub(crate) origin: &'static str,
    /// How many.
    pub(crate) count: u64,
    /// Their bytes together.
    pub(crate) nbytes: u64,
}

impl Copies {
    /// From where to where.
    pub(crate) fn direction(&self, device_type: DeviceType) -> String {
        match self.kind {
            "h2d" => format!("host to {device_type}"),
            "d2h" => format!("{device_type} to host"),
            _ => format!("{device_type} to {device_type}"),
        }
    }
}

/// The copies in the events of a run, by who made them; kinds that did not happen are left out.
pub(crate) fn copies(events: &Json) -> Vec<Copies> {
    let events = events.as_array().map_or(&[][..], Vec::as_slice);
    let mut all = Vec::new();
    for origin in Origin::ALL.map(Origin::name) {
        for kind in ["h2d", "d2h", "d2d"] {
            let of_kind = events
                .iter()
                .filter(|event| event["ev"] == kind && event["origin"] == origin);
            let mut copies = Copies {
                kind,
                origin,
                count: 0,
                nbytes: 0,
            };
            for event in of_kind {
                copies.count += 1;
                copies.nbytes += event["nbytes"].as_u64().unwrap_or(0);
            }
            if copies.count > 0 {
                all.push(copies);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use et_device::{AllocatorHandle, Device, DeviceAllocatorRegistry};
    use et_memory::DeviceMemoryBuffer;
    use et_sim::{RecordingAllocator, SimAllocator, SimOptions};

    struct Bench {
        recorder: Recorder,
        registry: DeviceAllocatorRegistry,
    }

    impl Bench {
        fn new() -> Self {
            let simulated = SimAllocator::new(SimOptions::new(DeviceType::CUDA).devices(2));
            let simulated = AllocatorHandle::from(Arc::new(simulated));
            let log = Arc::new(TraceLog::default());
            let watched = RecordingAllocator::new(simulated, Arc::clone(&log));
            let registry = DeviceAllocatorRegistry::new();
            registry
                .register(AllocatorHandle::from(Arc::new(watched)))
                .unwrap();
            Self {
                recorder: Recorder::new(log),
                registry,
            }
        }

        /// A block with something in it.
        fn block(&self, nbytes: u64) -> DeviceMemoryBuffer {
            let device = Device::cuda(1).unwrap();
            let alignment = et_device::Alignment::DEVICE;
            let mut block =
                DeviceMemoryBuffer::create_in(&self.registry, nbytes, device, alignment).unwrap();
            block.write(0, &vec![1; nbytes as usize]).unwrap();
            block
        }

        /// The events of a list as `kind/origin` words.
        fn words(&self, place: &str) -> Vec<String> {
            let document = self.recorder.document();
            let events = document.pointer(place).unwrap().as_array().unwrap();
            let text = |event: &Json, key: &str| event[key].as_str().unwrap().to_owned();
            events
                .iter()
                .map(|e| text(e, "ev") + "/" + &text(e, "origin"))
                .collect()
        }
    }

    #[test]
    fn memory_of_a_load_is_the_runtimes_and_of_its_delegates_the_delegates() {
        let bench = Bench::new();
        let event = |event| bench.recorder.event(&event);
        event(Event::LoadBegin { method: "forward" });
        let _planned = bench.block(8);
        event(Event::DelegateInitBegin {
            backend: "b",
            target: Some("cuda:1"),
            nbytes: 5,
        });
        let _own = bench.block(16);
        event(Event::LoadBegin { method: "nested" });
        event(Event::LoadEnd { method: "nested" });
        event(Event::DelegateInitEnd);
        event(Event::LoadEnd { method: "forward" });
        let expected = [
            "alloc/runtime",
            "h2d/runtime",
            "delegate_init/runtime",
            "alloc/delegate",
            "h2d/delegate",
        ];
        assert_eq!(bench.words("/load/forward"), expected);
        let document = bench.recorder.document();
        assert!(document["load"].get("nested").is_none());
        let init = json!({
            "ev": "delegate_init", "target": "cuda:1", "nbytes": 5, "origin": "runtime",
        });
        assert_eq!(document["load"]["forward"][2], init);
    }

    #[test]
    fn what_stands_around_a_run_is_the_callers() {
        let bench = Bench::new();
        let event = |event| bench.recorder.event(&event);
        bench.recorder.begin_run();
        let input = bench.block(8);
        event(Event::ExecuteBegin { method: "forward" });
        drop(input);
        let args = [ArgumentPlace::new(Device::cuda(1).unwrap(), None, 0)];
        event(Event::DelegateBegin {
            backend: "b",
            target: None,
            args: &args,
        });
        let staging = bench.block(4);
        event(Event::DelegateEnd);
        event(Event::ExecuteEnd {
            method: "forward",
            outputs: &args,
        });
        drop(staging);
        let expected = [
            "alloc/caller",
            "h2d/caller",
            "execute_begin/runtime",
            "free/runtime",
            "delegate/runtime",
            "alloc/delegate",
            "h2d/delegate",
            "output/runtime",
            "free/caller",
        ];
        assert_eq!(bench.words("/runs/0"), expected);
        let copy = json!({
            "ev": "h2d", "index": 1, "nbytes": 8, "src": -1, "dst": 1, "origin": "caller",
        });
        assert_eq!(bench.recorder.document()["runs"][0][1], copy);
    }

    #[test]
    fn arguments_say_tag_and_memory() {
        let bench = Bench::new();
        let block = bench.block(8);
        let device = Device::cuda(1).unwrap();
        let place = block.span().map(|span| Place::Device(device, span));
        assert_eq!(
            argument(&ArgumentPlace::new(device, place, 8)),
            json!({"tag": "cuda:1", "memory": 1, "nbytes": 8})
        );
        assert_eq!(
            argument(&ArgumentPlace::new(Device::CPU, None, 8)),
            json!({"tag": "cpu:0", "memory": -1, "nbytes": 8})
        );
    }

    #[test]
    fn each_run_has_its_own_list() {
        let bench = Bench::new();
        for _ in 0..2 {
            bench.recorder.begin_run();
            bench
                .recorder
                .event(&Event::ExecuteBegin { method: "forward" });
            bench.recorder.event(&Event::ExecuteEnd {
                method: "forward",
                outputs: &[],
            });
        }
        assert_eq!(bench.words("/runs/0"), ["execute_begin/runtime"]);
        assert_eq!(bench.words("/runs/1"), ["execute_begin/runtime"]);
    }
}
