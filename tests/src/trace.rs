//! Device traces: what happened, in order, in the words of recorded ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use et_kernel::{ArgumentPlace, Event, EventHook};
use et_memory::Place;
use et_sim::{SimAllocator, TraceEvent};
use serde_json::{Value as Json, json};

/// Writes down what the runtime does, without what delegates and callers do.
#[derive(Debug)]
pub struct Recorder {
    devices: Arc<SimAllocator>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    inside: Vec<Scope>,
    events: Vec<Json>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Runtime,
    Delegate,
}

impl Recorder {
    /// A recorder of what happens on `devices`.
    pub fn new(devices: &Arc<SimAllocator>) -> Arc<Self> {
        devices.record();
        Arc::new(Self {
            devices: Arc::clone(devices),
            state: Mutex::default(),
        })
    }

    /// What happened since the last time.
    pub fn take(&self) -> Vec<Json> {
        let mut state = self.state();
        self.collect(&mut state);
        std::mem::take(&mut state.events)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the devices did belongs to whatever was going on until now.
    fn collect(&self, state: &mut State) {
        let events = self.devices.take_trace();
        if state.inside.last() == Some(&Scope::Runtime) {
            state.events.extend(events.iter().filter_map(device_event));
        }
    }
}

impl EventHook for Recorder {
    fn event(&self, event: &Event<'_>) {
        let mut state = self.state();
        self.collect(&mut state);
        let by_runtime = !state.inside.contains(&Scope::Delegate);
        let (begins, written) = match *event {
            Event::LoadBegin { .. } => (Some(Scope::Runtime), None),
            Event::ExecuteBegin { .. } => {
                (Some(Scope::Runtime), Some(json!({"ev": "execute_begin"})))
            }
            Event::DelegateInitBegin { target, nbytes, .. } => {
                let target = target.unwrap_or_default();
                let event = json!({"ev": "delegate_init", "target": target, "nbytes": nbytes});
                (Some(Scope::Delegate), Some(event))
            }
            Event::DelegateBegin { target, args, .. } => {
                let (target, args) = (target.unwrap_or_default(), args.iter().map(argument));
                let args: Vec<Json> = args.collect();
                let event = json!({"ev": "delegate", "target": target, "args": args});
                (Some(Scope::Delegate), Some(event))
            }
            Event::ExecuteEnd { outputs, .. } => {
                state.inside.pop();
                if by_runtime {
                    let places = outputs
                        .iter()
                        .map(|o| json!({"ev": "output", "memory": memory(o)}));
                    state.events.extend(places);
                }
                return;
            }
            Event::LoadEnd { .. } | Event::DelegateInitEnd | Event::DelegateEnd => {
                state.inside.pop();
                return;
            }
            _ => return,
        };
        state.events.extend(written.filter(|_| by_runtime));
        state.inside.extend(begins);
    }
}

fn argument(place: &ArgumentPlace) -> Json {
    let tag = format!("{}:{}", place.device.device_type(), place.device.index());
    if place.nbytes == 0 {
        // Something without bytes lies nowhere.
        return json!({"tag": tag, "nbytes": 0});
    }
    json!({"tag": tag, "memory": memory(place), "nbytes": place.nbytes})
}

fn memory(place: &ArgumentPlace) -> i64 {
    match place.place {
        Some(Place::Device(device, _)) => device.index().get().into(),
        _ => -1,
    }
}

/// Frees may come earlier or later than recorded, so they are left out.
fn device_event(event: &TraceEvent) -> Option<Json> {
    Some(match *event {
        TraceEvent::Alloc { index, nbytes } => {
            json!({"ev": "alloc", "index": index.get(), "nbytes": nbytes})
        }
        TraceEvent::Fill { index, nbytes } => {
            json!({"ev": "fill", "index": index.get(), "nbytes": nbytes})
        }
        TraceEvent::HostToDevice { index, nbytes } => {
            let index = index.get();
            json!({"ev": "h2d", "index": index, "nbytes": nbytes, "src": -1, "dst": index})
        }
        TraceEvent::DeviceToHost { index, nbytes } => {
            let index = index.get();
            json!({"ev": "d2h", "index": index, "nbytes": nbytes, "src": index, "dst": -1})
        }
        TraceEvent::DeviceToDevice { src, dst, nbytes } => {
            json!({"ev": "d2d", "index": dst.get(), "nbytes": nbytes, "src": src.get(), "dst": dst.get()})
        }
        _ => return None,
    })
}

/// The first event that is not as recorded. Of the recording, what comes before a run is the caller's.
pub fn first_difference(recorded: &Json, ours: &[Json], loading: bool) -> Option<String> {
    let expected = comparable(recorded.as_array().map_or(&[][..], Vec::as_slice));
    let begin = |events: &[Json]| {
        events
            .iter()
            .position(|event| event["ev"] == "execute_begin")
    };
    let expected = &expected[begin(&expected).unwrap_or(0)..];
    let mut ours = comparable(ours);
    // State on a device starts as zeros here, and undefined where the recordings were made.
    ours.retain(|event| !loading || event["ev"] != "fill");
    let found = &ours[begin(&ours).unwrap_or(0)..];
    let pairs = expected.len().max(found.len());
    let at = (0..pairs).find(|&at| expected.get(at) != found.get(at))?;
    let show = |event: Option<&Json>| event.map_or("nothing".to_owned(), Json::to_string);
    let (expected, found) = (show(expected.get(at)), show(found.get(at)));
    Some(format!("event {at}: expected {expected}, found {found}"))
}

fn comparable(events: &[Json]) -> Vec<Json> {
    let counts = |event: &&Json| event["nbytes"] != 0 && event["ev"] != "free";
    let mut kept: Vec<Json> = events.iter().filter(counts).cloned().collect();
    for argument in kept
        .iter_mut()
        .filter_map(|event| event["args"].as_array_mut())
        .flatten()
    {
        if argument["nbytes"] == 0
            && let Some(fields) = argument.as_object_mut()
        {
            fields.remove("memory");
        }
    }
    kept
}
