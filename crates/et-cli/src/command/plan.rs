//! `et plan`: device memory for a program, and new places for its values.

mod account;
mod change;
mod request;

use crate::args::PlanArgs;
use crate::failure::{self, Blame, Failure};
use crate::picture::Scene;
use crate::progress::ProgressLine;
use crate::replacement::{self, Replacement};
use crate::report::Report;
use crate::source::Source;
use change::Changed;
use et_schema::owned::Program;
use et_schema::write::{ByteSink, FileSegments, WriteError, WriteOptions, write_program};
use et_schema::{ByteSource, SourceError, VerifiedProgram};
use request::Request;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Plans a program and writes it; OUT is whole or as it was.
pub(crate) fn run(args: &PlanArgs, quiet: bool) -> Result<Report, Failure> {
    for target in args.output.iter().chain(&args.svg) {
        replacement::check_target(target)?;
    }
    // A program may take its own place, a picture may not.
    let pictures = args.svg.iter().map(PathBuf::as_path);
    let programs = [Some(&args.file), args.output.as_ref()];
    replacement::expect_apart(
        pictures,
        programs.into_iter().flatten().map(PathBuf::as_path),
    )?;
    let source = Source::open(&args.file)?;
    let verified = VerifiedProgram::read(&source).map_err(|error| source.refused(&error))?;
    let before = Program::from_verified(&verified)
        .map_err(|error| refused(&source, "schema.newer-field", &failure::with_causes(&error)))?;
    let request = Request::new(args, &before)?;
    let mut after = before.clone();
    let changed = change_all(&source, &mut after, &request, quiet)?;
    expect_use(args, &request, &changed)?;
    let mut report = account::report(args, &before, &after, &changed);
    // The program comes last: whatever fails before leaves it as it was.
    let mut drawn = Report::default();
    if let Some(svg) = &args.svg {
        draw(&source.name(), &after, svg, &mut drawn)
            .map_err(|failure| failure.after(report.clone()))?;
    }
    let written = write(args, &source, &verified, &after);
    let nbytes = written.map_err(|failure| failure.after(report.clone()))?;
    account::add_file(&mut report, args, ByteSource::len(&source), nbytes);
    report.text.push_str(&drawn.text);
    report.fields.extend(drawn.fields);
    Ok(report)
}

/// Writes the picture of a program's memory plan.
pub(super) fn draw(
    name: &str,
    program: &Program,
    svg: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    let picture = Scene::new(name, program).to_svg();
    replacement::write(svg, picture.as_bytes()).map_err(|failure| failure.after(report.clone()))?;
    report
        .text
        .push_str(&format!("picture written to {}\n", svg.display()));
    report.set("svg", svg.display().to_string());
    Ok(())
}

fn change_all(
    source: &Source,
    program: &mut Program,
    request: &Request,
    quiet: bool,
) -> Result<Vec<Changed>, Failure> {
    let mut line = ProgressLine::new(quiet);
    let shared = et_planner::compact::SharedBuffers::of(program);
    let methods = program.execution_plan.iter_mut();
    methods
        .map(|method| {
            let name = method.name.clone();
            change::change(method, request, &shared, &mut line).map_err(|error| {
                let message = format!("method `{name}`: {}", error.message());
                refused(source, error.id(), &message).with("method", name)
            })
        })
        .collect()
}

/// Refuses options about new places where there are none: they would be passed over in silence.
fn expect_use(args: &PlanArgs, request: &Request, changed: &[Changed]) -> Result<(), Failure> {
    if request.compact_all || changed.iter().any(Changed::has_new_places) {
        return Ok(());
    }
    let unused = [
        ("--alignment", args.alignment.is_some()),
        ("--algorithm", args.search.algorithm.is_some()),
    ];
    match unused.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::usage(format!(
            "{option} is about new places, and no value gets one: add --compact, or drop it"
        ))),
        None => Ok(()),
    }
}

fn refused(source: &Source, id: &'static str, message: &str) -> Failure {
    let name = source.name();
    Failure::file(id, format!("{name}: {message}")).with("file", name)
}

/// Writes the program, but for a dry run, and returns the bytes of the file.
fn write(
    args: &PlanArgs,
    source: &Source,
    verified: &VerifiedProgram,
    program: &Program,
) -> Result<u64, Failure> {
    let segments = FileSegments::new(source, verified.layout(), &program.segments)
        .map_err(|error| refused(source, "segments", &failure::with_causes(&error)))?;
    let options = WriteOptions::like(verified.layout(), &program.segments);
    let target = args.output.as_deref().filter(|_| !args.dry_run);
    let mut file = target.map(Replacement::create).transpose()?;
    let mut sink = Sink {
        file: file.as_mut(),
        nbytes: 0,
    };
    write_program(program, &segments, &options, &mut sink).map_err(|error| {
        let blame = match &error {
            WriteError::OutOfMemory(_)
            | WriteError::Sink { .. }
            | WriteError::Source(SourceError::Failed { .. }) => Blame::Environment,
            _ => Blame::File,
        };
        let name = target.unwrap_or(Path::new("the new program")).display();
        Failure::new(blame, error.id(), format!("cannot write {name}: {error}"))
    })?;
    let nbytes = sink.nbytes;
    if let Some(mut file) = file {
        if let Some(path) = file.written()? {
            let written = Source::open(path)?;
            // A fault of ours, found before it replaces anything.
            VerifiedProgram::read(&written).map_err(|error| written.refused(&error))?;
        }
        file.finish()?;
    }
    Ok(nbytes)
}

/// Counts what is written, and passes it on where there is a file.
struct Sink<'a> {
    file: Option<&'a mut Replacement>,
    nbytes: u64,
}

impl ByteSink for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.nbytes += bytes.len() as u64;
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.write_all(bytes).map_err(|error| WriteError::Sink {
            reason: error.to_string(),
        })
    }
}
