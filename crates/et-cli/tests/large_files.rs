//! A program of 5 GiB, nearly all of it a hole: what lies past 4 GiB is found, and little memory is needed for it.
#![expect(clippy::unwrap_used, reason = "nothing but a test is in here")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use et_kernel::{Environment, Tensor};
use et_module::Program;
use et_ops as _;
use et_schema::builder::{MethodBuilder, ProgramBuilder};
use et_schema::owned::{self, DataSegment};
use et_schema::write::{ByteSink, SegmentBytes, WriteError, write_program};
use et_schema::{ScalarType, SourceError};

const SEGMENT_LEN: u64 = 5 << 30;
/// Where the constant is in the segment.
const FAR: u64 = (4 << 30) + 4096;
const CONSTANT: [f32; 4] = [1.5, -2.0, 1e9, 0.25];
/// What looking, loading and running may take.
const LIMIT: usize = 64 << 20;

/// Counts the bytes that the process holds, and the most it held.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: our caller keeps the same promises to us.
        unsafe { System.dealloc(block, layout) }
    }
}

/// A segment of zeros with the constant far inside.
struct Huge;

impl SegmentBytes for Huge {
    fn count(&self) -> usize {
        1
    }

    fn nbytes(&self, _index: usize) -> u64 {
        SEGMENT_LEN
    }

    fn read(&self, _index: usize, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        into.fill(0);
        let bytes = CONSTANT.map(f32::to_le_bytes);
        if let Some(start) = FAR.checked_sub(offset)
            && let Ok(start) = usize::try_from(start)
            && let Some(place) = into.get_mut(start..start + 16)
        {
            place.copy_from_slice(bytes.as_flattened());
        }
        Ok(())
    }
}

/// A file in which zeros are holes.
struct Sparse {
    file: File,
    len: u64,
}

impl ByteSink for Sparse {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
        if ZEROS.get(..bytes.len()) != Some(bytes) {
            let written = self
                .file
                .seek(SeekFrom::Start(self.len))
                .and_then(|_| self.file.write_all(bytes));
            written.map_err(|error| WriteError::Sink {
                reason: error.to_string(),
            })?;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }
}

/// Writes a program that adds its constant to its input.
fn write(path: &Path) -> Result<(), WriteError> {
    let vector = || owned::Tensor::new(ScalarType::Float, &[4]);
    let mut forward = MethodBuilder::new("forward");
    let memory = forward.buffer(64);
    let input = forward.input(vector().planned(memory, 0));
    let constant = forward.tensor(vector().with_data(1));
    let output = forward.output(vector().planned(memory, 32));
    let alpha = forward.int(1);
    forward.kernel("aten::add.out", &[input, constant, alpha, output, output]);

    let mut builder = ProgramBuilder::new();
    builder.method(forward);
    let mut built = builder.build()?;
    built.program.segments = vec![DataSegment {
        offset: 0,
        size: SEGMENT_LEN,
    }];
    let offsets = &mut built.program.constant_segment.as_mut().unwrap().offsets;
    offsets.push(FAR);

    let file = File::create(path).unwrap();
    let mut sparse = Sparse { file, len: 0 };
    write_program(&built.program, &Huge, &built.options, &mut sparse)?;
    let sized = sparse.file.set_len(sparse.len);
    sized.map_err(|error| WriteError::Sink {
        reason: error.to_string(),
    })
}

/// Whether the file system has room for the file at all; if not, that is said.
fn has_room(path: &Path) -> bool {
    let sized = File::create(path).and_then(|file| file.set_len(SEGMENT_LEN + (1 << 20)));
    let Err(error) = sized else { return true };
    let full = [
        ErrorKind::StorageFull,
        ErrorKind::FileTooLarge,
        ErrorKind::QuotaExceeded,
    ];
    assert!(full.contains(&error.kind()), "{error}");
    #[expect(clippy::print_stderr, reason = "a test that is left out says so")]
    {
        eprintln!("skipped: no file of 5 GiB in {}: {error}", path.display());
    }
    false
}

/// Runs `et` with so little memory that nothing of the hole can be in it.
fn et(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_et");
    let mut command = if cfg!(target_os = "linux") {
        let mut shell = Command::new("sh");
        let limit = format!("ulimit -d {} && exec \"$@\"", LIMIT >> 10);
        shell.args(["-c", &limit, "sh", program]);
        shell
    } else {
        Command::new(program)
    };
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output
}

/// A `.npy` file of numbers.
fn npy(values: &[f32]) -> Vec<u8> {
    let header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}",
        values.len()
    );
    let header = format!("{header:<117}\n");
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(header.as_bytes());
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    file
}

fn sum(input: &[f32; 4]) -> Vec<f32> {
    let pairs = input.iter().zip(CONSTANT);
    pairs.map(|(input, constant)| input + constant).collect()
}

#[test]
fn a_constant_past_4_gib_is_found_in_little_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("model.pte");
    if !has_room(&path) {
        return;
    }
    write(&path).unwrap();
    let file = path.to_str().unwrap();

    let document = et(&["inspect", "--json", file]).stdout;
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    assert_eq!(document["segments"][0]["size"], SEGMENT_LEN);
    assert_eq!(document["constant_segment"]["offsets"][1], FAR);
    assert_eq!(document["problems"], serde_json::json!([]));
    et(&["inspect", file]);
    et(&["verify", file]);
    run_by_command(folder.path(), file);
    run_in_process(&path);
}

fn run_by_command(folder: &Path, file: &str) {
    let values = [1.0, 2.0, 3.0, 4.0];
    let input = folder.join("x.npy");
    std::fs::write(&input, npy(&values)).unwrap();
    let out = folder.join("out");
    let [input, out] = [&input, &out].map(|path| path.to_str().unwrap());
    et(&["run", file, "--input", input, "--output-dir", out]);
    let output = std::fs::read(Path::new(out).join("run0_out0.npy")).unwrap();
    let values = sum(&values).into_iter().flat_map(f32::to_le_bytes);
    assert_eq!(output[output.len() - 16..], values.collect::<Vec<u8>>());
}

fn run_in_process(path: &Path) {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let values = [-1.0, 0.5, 7.0, 8.0];
    let program = Program::open(path).unwrap();
    let environment = Environment::linked().unwrap();
    let mut method = program.load_method("forward", &environment).unwrap();
    let input = Tensor::from_slice(&values, &[4]).unwrap();
    method.set_input(0, &input.into()).unwrap();
    method.execute().unwrap();
    let output = method.output(0).unwrap();
    let output = output.as_tensor().unwrap().as_slice::<f32>().unwrap();
    assert_eq!(output, sum(&values));
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(peak < LIMIT, "{peak} bytes");
}
