//! Delegates: how they are made, given up, and refused.

use super::*;

/// Records how delegates are made, and adds 1 when they run.
#[derive(Default)]
struct Recording {
    seen: Mutex<Vec<String>>,
    live: Arc<AtomicU32>,
    blobs: Mutex<Vec<SharedBytes>>,
    fails_at: Option<usize>,
    missing: bool,
}

struct AddOne(Arc<AtomicU32>);

impl Drop for AddOne {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Delegate for AddOne {
    fn execute(&mut self, context: &mut KernelContext<'_>) -> Result<(), KernelError> {
        add_one(context)
    }
}

impl Backend for Recording {
    fn id(&self) -> &str {
        "Recording"
    }

    fn is_available(&self) -> Result<(), BackendError> {
        if self.missing {
            return Err(BackendError::Unavailable(
                "there is no such machine".to_owned(),
            ));
        }
        Ok(())
    }

    fn init(
        &self,
        context: &InitContext<'_>,
        blob: SharedBytes,
    ) -> Result<Box<dyn Delegate>, BackendError> {
        let mut seen = self.seen.lock().unwrap();
        if self.fails_at == Some(seen.len()) {
            return Err(BackendError::InvalidBlob(
                "the blob is not to be had".to_owned(),
            ));
        }
        let level = context
            .environment
            .backend_options
            .get("Recording", "level");
        let level = level.and_then(|level| level.as_int());
        let named = context
            .named_data
            .bytes("extra")
            .unwrap()
            .map(|bytes| bytes.to_vec());
        seen.push(format!(
            "{} {:?} {:?} {level:?} {named:?} {}",
            context.method,
            context.compile_spec("mode"),
            &blob[..],
            context.limits.depth
        ));
        self.blobs.lock().unwrap().push(blob);
        self.live.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(AddOne(Arc::clone(&self.live))))
    }
}

/// Two delegates, one with its blob in a segment and one inline, called one after the other.
fn delegates() -> (MethodBuilder, ProgramBuilder) {
    let mut program = ProgramBuilder::new();
    program.named_data("extra", &[4, 2]);
    let blobs = [
        program.delegate_data(&[1, 2, 3]),
        program.inline_delegate_data(&[9]),
    ];
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(32);
    let x = forward.input(floats(&[2]).planned(memory, 0));
    let out = forward.output(floats(&[2]).planned(memory, 16));
    let mut from = x;
    for blob in blobs {
        let delegate = forward.delegate("Recording", blob, &[("mode", b"fast")]);
        forward.delegate_call(delegate, &[from, out]);
        from = out;
    }
    (forward, program)
}

fn with_backend(bench: &mut Bench, backend: Recording) -> Arc<Recording> {
    let backend = Arc::new(backend);
    let mut backends = BackendRegistry::new();
    backends.register(backend.clone(), "test").unwrap();
    bench.environment = bench.environment.clone().with_backends(backends);
    backend
}

#[test]
fn r_del_08_a_backend_learns_what_it_needs_and_delegates_go_with_their_method() {
    let mut bench = Bench::new();
    let backend = with_backend(&mut bench, Recording::default());
    let options = BackendOptions::new()
        .with("Recording", "level", 3)
        .with("Other", "level", 9);
    bench.environment = bench.environment.clone().with_backend_options(options);
    let (forward, program) = delegates();
    let mut method = bench.load(forward, program);
    let expected =
        |blob: &str| format!("forward Some([102, 97, 115, 116]) {blob} Some(3) Some([4, 2]) 0");
    assert_eq!(
        *backend.seen.lock().unwrap(),
        [expected("[1, 2, 3]"), expected("[9]")]
    );
    assert_eq!(backend.live.load(Ordering::Relaxed), 2);
    assert_eq!(run(&mut method, &[pair(1.0, 2.0)]), [3.0, 4.0]);
    drop(method);
    assert_eq!(backend.live.load(Ordering::Relaxed), 0);
    // Whoever still holds a blob keeps it alive, without the program.
    assert_eq!(*backend.blobs.lock().unwrap()[0], [1, 2, 3]);
}

#[test]
fn r_del_04_a_delegate_that_fails_to_initialise_takes_the_earlier_ones_with_it() {
    let mut bench = Bench::new();
    let backend = with_backend(
        &mut bench,
        Recording {
            fails_at: Some(1),
            ..Recording::default()
        },
    );
    let (forward, program) = delegates();
    let error = bench.try_load(forward, program).unwrap_err();
    assert_eq!(
        with_causes(&error),
        "method `forward`: the delegate could not be initialised: the blob is not to be had"
    );
    assert_eq!(
        (error.code(), error.place().name.as_deref()),
        (0x30, Some("Recording"))
    );
    assert_eq!(backend.seen.lock().unwrap().len(), 1);
    assert_eq!(backend.live.load(Ordering::Relaxed), 0);
}

#[test]
fn r_del_01_a_backend_that_is_missing_or_not_available_is_told_apart() {
    let mut bench = Bench::new();
    let (forward, program) = delegates();
    let error = bench.try_load(forward, program).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::MissingBackend { id, .. } if id == "Recording"));
    assert_eq!(error.code(), 0x20);
    with_backend(
        &mut bench,
        Recording {
            missing: true,
            ..Recording::default()
        },
    );
    let (forward, program) = delegates();
    let error = bench.try_load(forward, program).unwrap_err();
    assert_eq!(
        with_causes(&error),
        "method `forward`: the delegate could not be initialised: the backend is not available: there is no such machine"
    );
}
