//! `et inspect`: what is in a program.

mod data;
mod method;
mod nested;

use super::verify::{problem_table, problems_json};
use crate::args::InspectArgs;
use crate::failure::Failure;
use crate::render::{self, Section};
use crate::replacement;
use crate::report::{Report, pretty};
use crate::source::{self, Source};
use crate::survey::{self, Survey};
use data::{DataFile, External};
use et_device::DeviceMap;
use et_module::Program;
use et_schema::{
    FileKind, ParsedProgram, Problems, Processed, ProgramView, VerifiedProgram, owned,
    summary::ProgramSummary,
};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Shows a program; a failure if it is not valid, with all that could be read.
pub(crate) fn run(args: &InspectArgs) -> Result<Report, Failure> {
    if let Some(svg) = &args.svg {
        replacement::check_target(svg)?;
        replacement::expect_apart([svg.as_path()], files(args))?;
    }
    source::expect_one_stdin(files(args))?;
    let source = Source::open(&args.file)?;
    if args.program {
        return dump(&source);
    }
    if source.kind() == Some(FileKind::FlatTensor) {
        if args.svg.is_some() {
            return Err(Failure::usage("tensor data has no memory plan to draw"));
        }
        if !args.data.is_empty() {
            let message = "--data is for a program; tensor data is shown by itself";
            return Err(Failure::usage(message));
        }
        return inspect_data(&source);
    }
    let files: Vec<DataFile> = args
        .data
        .iter()
        .map(|path| DataFile::open(path))
        .collect::<Result<_, _>>()?;
    let mut report = inspect(&source, &files)?;
    if let Some(svg) = &args.svg {
        let program = VerifiedProgram::read(&source).map_err(|error| source.refused(&error))?;
        let program = owned::Program::without_newer_fields(&program);
        super::plan::draw(&source.name(), &program, svg, &mut report)?;
    }
    Ok(report)
}

/// The files that the command reads.
fn files(args: &InspectArgs) -> impl Iterator<Item = &Path> {
    let files = [&args.file].into_iter().chain(&args.data);
    files.map(PathBuf::as_path)
}

/// The FlatBuffer as JSON; only of a valid program, since nothing else has all fields.
fn dump(source: &Source) -> Result<Report, Failure> {
    let program = VerifiedProgram::read(source).map_err(|error| source.refused(&error))?;
    let mut document = json!({"format": "et-program"});
    let fields = serde_json::to_value(owned::Program::without_newer_fields(&program))
        .expect("invariant: the program's keys are field names");
    if let (Some(document), Json::Object(fields)) = (document.as_object_mut(), fields) {
        // The version here is the schema's own field.
        document.extend(fields);
    }
    Ok(Report::text(pretty(&document)))
}

fn inspect(source: &Source, files: &[DataFile]) -> Result<Report, Failure> {
    let program = ParsedProgram::read(source).map_err(|error| source.refused(&error))?;
    let problems = program.problems();
    let mut report = report(source, &program, &problems);
    let external = External::find(&program.root(), files);
    external.section().write_to(&mut report.text);
    report.set("external_data", external.to_json());
    report.set(
        "data_files",
        files.iter().map(DataFile::to_json).collect::<Vec<_>>(),
    );
    judge(source, &problems, report)
}

fn inspect_data(source: &Source) -> Result<Report, Failure> {
    let file = DataFile::read(source)?;
    let mut report = Report::text(file.headline() + "\n");
    file.section().write_to(&mut report.text);
    add_problems(&mut report, file.problems());
    if let Json::Object(fields) = file.to_json() {
        report.fields.extend(fields);
    }
    judge(source, file.problems(), report)
}

/// A failure if there is an error among the problems, with all that could be read.
fn judge(source: &Source, problems: &Problems, report: Report) -> Result<Report, Failure> {
    let Some(first) = problems.errors().next() else {
        return Ok(report);
    };
    let count = render::count(problems.num_errors(), "error");
    let message = format!("{}: {first} ({count} in this file)", source.name());
    let failure = Failure::file(first.rule.id(), message)
        .with("path", first.path.as_str())
        .with("code", first.code());
    Err(failure.after(report))
}

fn add_problems(report: &mut Report, problems: &Problems) {
    if !problems.list().is_empty() {
        report.text.push_str("problems");
        problem_table(problems).write_to(&mut report.text);
    }
    report.set("problems", problems_json(problems));
}

fn report(source: &Source, program: &ParsedProgram, problems: &Problems) -> Report {
    let root = program.root();
    let mut report = Report::text(header(&source.name(), &root));
    segments(&root).write_to(&mut report.text);
    named_data(&root).write_to(&mut report.text);
    let unplanned = unplanned(source, problems);
    for plan in root.plans() {
        let unplanned = unplanned.get(plan.name());
        method::write(&mut report.text, &root, &plan, unplanned);
    }
    let nested = nested::find(source, &root);
    nested::section(&nested).write_to(&mut report.text);
    report.fields = fields(program, &unplanned);
    report.set("nested_programs", nested::to_json(&nested));
    add_problems(&mut report, problems);
    report
}

/// What each method of a valid program takes on each device besides its planned buffers. What the runtime would refuse takes none.
fn unplanned(source: &Source, problems: &Problems) -> BTreeMap<String, BTreeMap<String, u64>> {
    let program = match problems.num_errors() {
        0 => Program::load(source.clone()).ok(),
        _ => None,
    };
    let memory = |program: &Program, name: &str| {
        let meta = program.method_meta(name).ok()?;
        let plan = meta.unplanned_memory(&DeviceMap::new()).ok()?;
        Some((name.to_owned(), survey::per_device(&plan)))
    };
    let programs = program.iter();
    programs
        .flat_map(|program| {
            program
                .method_names()
                .filter_map(|name| memory(program, name))
        })
        .collect()
}

/// The summary of the program, and what we count for each method besides.
fn fields(
    program: &ParsedProgram,
    unplanned: &BTreeMap<String, BTreeMap<String, u64>>,
) -> Map<String, Json> {
    let summary = serde_json::to_value(ProgramSummary::new(program));
    let mut summary = summary.expect("invariant: a summary's keys are field names");
    let methods = summary["methods"].as_array_mut().into_iter().flatten();
    for (method, plan) in methods.zip(program.root().plans()) {
        if let (Some(method), Json::Object(counts)) =
            (method.as_object_mut(), Survey::of(&plan).to_json())
        {
            method.extend(counts);
            if let Some(unplanned) = unplanned.get(plan.name()) {
                method.insert("unplanned_memory_per_device".into(), json!(unplanned));
            }
        }
    }
    match summary {
        Json::Object(fields) => fields,
        other => Map::from_iter([("summary".to_owned(), other)]),
    }
}

fn header(name: &str, program: &ProgramView<'_>) -> String {
    let layout = program.layout();
    let methods = render::count(program.plans().len() as u64, "method");
    let size = render::bytes_exact(layout.file_len());
    let mut text = format!("{name}: program, {size}, {methods}\n");
    let flatbuffer = render::bytes(layout.flatbuffer_range().end);
    match layout.pte_header() {
        None => text.push_str("header: none; the file is one FlatBuffer\n"),
        Some(header) => text.push_str(&format!(
            "header: {} bytes; FlatBuffer {flatbuffer}; segments from byte {}, {}\n",
            header.header_len,
            header.segment_base_offset,
            header
                .segment_data_size
                .map_or_else(|| "size not said".into(), render::bytes),
        )),
    }
    text.push('\n');
    text
}

fn segments(program: &ProgramView<'_>) -> Section {
    let uses = segment_uses(program);
    let mut section = Section::new("segments", &[">#", ">offset", ">bytes", "holds"]);
    for (index, segment) in program.segments().enumerate() {
        let index = index as u32;
        section.row([
            index.to_string(),
            segment.offset.to_string(),
            segment.size.to_string(),
            uses.get(&index)
                .map_or_else(|| "nothing".into(), |uses| uses.join(", ")),
        ]);
    }
    section
}

/// What each segment is used for.
fn segment_uses(program: &ProgramView<'_>) -> BTreeMap<u32, Vec<String>> {
    let mut uses: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut add = |segment: u32, what: String| uses.entry(segment).or_default().push(what);
    if let Some(list) = program.constant_segment()
        && let count @ 1.. = list.offsets().len().saturating_sub(1) as u64
    {
        add(list.segment_index(), render::count(count, "constant"));
    }
    for list in program.mutable_data() {
        let count = list.offsets().len().saturating_sub(1) as u64;
        add(
            list.segment_index(),
            format!("initial state of {}", render::count(count, "buffer")),
        );
    }
    for plan in program.plans() {
        for (index, delegate) in plan.delegates().enumerate() {
            if let Processed::Segment(segment) = delegate.processed() {
                add(
                    segment,
                    format!("delegate {index} of {}", render::name(plan.name())),
                );
            }
        }
    }
    for entry in program.named_data() {
        add(
            entry.segment_index,
            format!("named data {}", render::name(entry.key)),
        );
    }
    uses
}

fn named_data(program: &ProgramView<'_>) -> Section {
    let mut section = Section::new("named data", &["name", ">segment", ">bytes"]);
    for entry in program.named_data() {
        let size = program
            .segment(entry.segment_index)
            .map(|segment| segment.size.to_string());
        section.row([
            render::name(entry.key),
            entry.segment_index.to_string(),
            size.unwrap_or_else(|| "?".into()),
        ]);
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::verify;
    use std::path::Path;

    fn fixture(case: &str) -> Vec<u8> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        std::fs::read(dir.join(case).join("model.pte")).unwrap()
    }

    /// Every other command is at least as strict: what must hold here is that there is an answer.
    fn answer(file: Vec<u8>) {
        let source = Source::of(file);
        let report = match inspect(&source, &[]) {
            Ok(report) => report,
            Err(failure) => *failure.report,
        };
        let _ = report.document("et-inspect", None);
        let _ = verify::check_source(&source);
    }

    #[test]
    fn a_program_cut_at_any_length_has_an_answer() {
        let file = fixture("dev_single_add");
        for length in 0..file.len() {
            answer(file[..length].to_vec());
        }
    }

    /// Sets each word of a program to each of the values, one word at a time.
    fn change_words(case: &str, values: &[u32]) {
        let file = fixture(case);
        for at in (0..file.len() - 3).step_by(4) {
            for value in values {
                let mut changed = file.clone();
                changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
                answer(changed);
            }
        }
    }

    #[test]
    fn a_program_with_any_word_changed_has_an_answer() {
        change_words("add", &[0, 1, 0x7f, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]);
        change_words("dev_single_add", &[2, 0xffff_ffff]);
    }

    #[test]
    fn devices_copies_and_state_are_shown() {
        let report = inspect(&Source::of(fixture("dev_single_add")), &[]).unwrap();
        for text in [
            "2  cuda:0     96",
            "2 copies from cpu to cuda:0, 48 B",
            "NestedProgramBackend",
        ] {
            assert!(report.text.contains(text), "{}", report.text);
        }
        let state = inspect(&Source::of(fixture("mut_counter_init")), &[]).unwrap();
        assert!(state.text.contains("data in the file"), "{}", state.text);
    }
}
