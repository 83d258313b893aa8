//! `cargo xtask bench`: times of loading and running, ours and (with `--peer`) the C++ runtime's, in one table; `--all` compares
//! every program there is.

mod chains;
mod document;
mod goals;

use crate::peer::Peer;
use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// How much.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure the C++ runtime too, in turns with ours, and write benches/RESULTS.md
    #[arg(long)]
    peer: bool,
    /// How often both sides are measured; the medians of these count
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Seconds that the other side takes for each thing at most; ours takes as many runs as fit
    #[arg(long, default_value_t = 0.3, value_name = "SECONDS")]
    seconds: f64,
    /// Compare every program of the collection in one short table, sorted by how many times as long the C++ runtime takes, and
    /// write nothing
    #[arg(long, requires = "peer")]
    all: bool,
    /// Only programs whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    filter: String,
}

const RESULTS: &str = "benches/RESULTS.md";

/// Programs of the collection beside the repository, or of tests/fixtures: small and large, with control flow, on devices.
const PROGRAMS: [&str; 15] = [
    "add",
    "mlp",
    "mul_add_chain",
    "map",
    "softmax",
    "layer_norm",
    "sdpa",
    "multihead_attention",
    "conv_bn_relu",
    "quant_linear",
    "tiny_lm_decode",
    "resnet18_lite",
    "mv2_lite",
    "mv3_small_lite",
    "dev_single_add",
];

/// Whole models, where the collection beside the repository has them: a name, ours, and the other side's.
const MODELS: [(&str, &str, &str); 3] = [
    ("mv2 224×224, portable on both sides", "mv2", "mv2"),
    (
        "mv3_small 224×224, portable on both sides",
        "mv3_small",
        "mv3_small",
    ),
    (
        "mv2 224×224, portable here, XNNPACK there",
        "mv2",
        "mv2_xnnpack",
    ),
];

/// What is timed, as `et bench` and the other side name it: loading a program, loading a method, running it.
const TIMES: [(&str, &str); 3] = [
    ("load_program", "load_program_file"),
    ("load_method", "load_method_file"),
    ("execute", "execute"),
];

/// What is run, where nothing says another.
const METHOD: &str = "forward";

/// How many threads whole models are run with. Small programs gain nothing from a second one.
const THREADS: [u16; 2] = [1, 2];

/// The columns of the table. The two sides do the work of loading at different times, so the two times together are what compares.
const COLUMNS: [&str; 4] = ["load program", "load method", "both", "execute"];

/// One program, where both sides have it, and how many threads they run it with.
struct Subject {
    name: String,
    threads: u16,
    ours: PathBuf,
    theirs: PathBuf,
    /// Files of external data that go with it.
    data: Vec<PathBuf>,
    method: String,
}

/// What one side said in each round.
#[derive(Default)]
struct Side {
    /// Microseconds, by [`TIMES`].
    times: [Vec<f64>; TIMES.len()],
    planned: Option<u64>,
    memory: Option<u64>,
    /// Heap blocks that one run takes.
    heap: Option<u64>,
    /// Why there are no numbers.
    problem: Option<String>,
}

/// A program's numbers.
struct Row {
    name: String,
    instructions: u64,
    ours: Side,
    theirs: Side,
}

/// Measures, prints, and with `--peer` writes the results.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut subjects = match options.all {
        true => every_program(&options.filter)?,
        false => subjects(&options.filter),
    };
    let programs = subjects.len();
    if !options.all && options.filter.is_empty() {
        subjects.extend(chains::subjects()?);
    }
    if subjects.is_empty() {
        bail!("no program to measure matches `{}`", options.filter);
    }
    let peer = match options.peer {
        true => Peer::find("bench --peer"),
        false => None,
    };
    let et = process::executable(&["--release", "-p", "et-cli", "--bin", "et"])?;
    let mut rows: Vec<Row> = subjects.iter().map(Row::new).collect();
    for round in 0..options.rounds {
        for (subject, row) in subjects.iter().zip(&mut rows) {
            console::progress(format_args!("round {} {}", round + 1, subject.name));
            ours(&et, subject, options, row);
            if let Some(peer) = &peer {
                theirs(peer, subject, options, row);
            }
        }
    }
    console::progress(format_args!(""));
    if options.all {
        console::line(format_args!("{}", comparison(&rows)));
        return Ok(());
    }
    let chains = rows.split_off(programs);
    let mut table = plain_table(&rows, peer.is_some());
    console::line(format_args!("{}", console::plain(&mut table)));
    for cost in chains::costs(&chains) {
        console::line(format_args!("{cost}"));
    }
    if peer.is_some() && options.filter.is_empty() {
        let path = workspace::root().join(RESULTS);
        std::fs::write(&path, document::document(&rows, &chains, options))
            .with_context(|| format!("cannot write {}", path.display()))?;
        console::line(format_args!("wrote {RESULTS}"));
    }
    Ok(())
}

fn subjects(filter: &str) -> Vec<Subject> {
    let beside = workspace::root().join("../shared/corpus");
    let fixtures = workspace::root().join("tests/fixtures");
    let full = workspace::root().join("../shared/corpus-full");
    let small = PROGRAMS.iter().filter_map(|name| {
        let file =
            |dir: &Path| Some(dir.join(name).join("model.pte")).filter(|file| file.is_file());
        let file = file(&beside).or_else(|| file(&fixtures))?;
        Some(Subject {
            name: (*name).to_owned(),
            threads: 1,
            ours: file.clone(),
            theirs: file,
            data: Vec::new(),
            method: METHOD.to_owned(),
        })
    });
    let model = |threads| {
        let full = &full;
        MODELS.iter().map(move |(name, ours, theirs)| Subject {
            name: match threads {
                1 => (*name).to_owned(),
                _ => format!("{name}, {threads} threads"),
            },
            threads,
            ours: full.join(ours).join("model.pte"),
            theirs: full.join(theirs).join("model.pte"),
            data: Vec::new(),
            method: METHOD.to_owned(),
        })
    };
    let models = THREADS.into_iter().flat_map(model);
    let models = models.filter(|subject| subject.ours.is_file() && subject.theirs.is_file());
    let wanted = |subject: &Subject| subject.name.contains(filter);
    small.chain(models).filter(wanted).collect()
}

/// Every program of the collection beside the repository, with the method that its first recorded call is of.
fn every_program(filter: &str) -> Result<Vec<Subject>> {
    let collection = workspace::root().join("../shared/corpus");
    let mut subjects = Vec::new();
    for folder in entries(&collection)? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let program = folder.join("model.pte");
        if !program.is_file() || !name.contains(filter) {
            continue;
        }
        let mut data = entries(&folder)?;
        data.retain(|file| file.extension().is_some_and(|extension| extension == "ptd"));
        subjects.push(Subject {
            name: name.into_owned(),
            threads: 1,
            ours: program.clone(),
            theirs: program,
            data,
            method: recorded_method(&folder).unwrap_or_else(|| METHOD.to_owned()),
        });
    }
    Ok(subjects)
}

/// What is in a folder, by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read =
        std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths = read
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn recorded_method(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("meta.json")).ok()?;
    let meta: Value = serde_json::from_str(&text).ok()?;
    Some(meta["runs"][0]["method"].as_str()?.to_owned())
}

/// As many runs of ours as fit the time, but not so few that a median says nothing.
fn iterations(execute_us: Option<f64>, seconds: f64) -> u64 {
    match execute_us {
        Some(one) if one > 0.0 => (seconds * 1e6 / one).clamp(10.0, 2000.0) as u64,
        _ => 20,
    }
}

fn ours(et: &Path, subject: &Subject, options: &Options, row: &mut Row) {
    let last = row.ours.times[2].last().copied();
    let count = iterations(last, options.seconds).to_string();
    let mut command = process::tool(&et.to_string_lossy());
    command.arg("bench").arg(&subject.ours);
    command.args([
        "--json",
        "--quiet",
        "--simulate",
        "--warmup",
        "3",
        "--iterations",
        &count,
    ]);
    command.args(["--threads", &subject.threads.to_string()]);
    command.args(["--method", &subject.method]);
    for data in &subject.data {
        command.arg("--data").arg(data);
    }
    match process::output(&mut command).and_then(|text| Ok(serde_json::from_str::<Value>(&text)?)) {
        Ok(report) => {
            row.instructions = report["instructions"].as_u64().unwrap_or_default();
            let nanoseconds = |name: &str| report["times"][name]["median_ns"].as_f64();
            row.ours.take(|(name, _)| Some(nanoseconds(name)? / 1e3));
            let planned = report["planned_bytes"].as_object();
            row.ours.planned = planned.map(|all| all.values().filter_map(Value::as_u64).sum());
            row.ours.memory = report["peak_resident_bytes"].as_u64();
            row.ours.heap = report["heap_per_execute"]["blocks"].as_u64();
        }
        Err(error) => row.ours.problem = Some(problem(subject, &error)),
    }
}

fn theirs(peer: &Peer, subject: &Subject, options: &Options, row: &mut Row) {
    let text = peer.output("peer_bench.py", |command| {
        command.arg(&subject.theirs);
        command.args(["--method", &subject.method]);
        for data in &subject.data {
            command.arg("--data").arg(data);
        }
        command.args(["--threads", &subject.threads.to_string()]);
        command.args([
            "--seconds",
            &options.seconds.to_string(),
            "--iterations",
            "2000",
        ]);
    });
    let report = text.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?));
    let side = &mut row.theirs;
    match report {
        Ok(report) => {
            let measured = &report["rows"][0];
            side.problem = measured["message"].as_str().map(str::to_owned);
            side.take(|(_, name)| measured[name]["median_us"].as_f64());
            let buffers = measured["planned_buffers"].as_array();
            side.planned =
                buffers.map(|all| all.iter().filter_map(|one| one["nbytes"].as_u64()).sum());
            let kib = |when: &str| measured["rss_kib"][when].as_u64();
            let grown = kib("after_first_call").zip(kib("before_load"));
            side.memory = grown.map(|(after, before)| after.saturating_sub(before) * 1024);
        }
        Err(error) => side.problem = Some(problem(subject, &error)),
    }
}

/// Says on the terminal what went wrong; the results are told only that, since the message has paths of this machine.
fn problem(subject: &Subject, error: &anyhow::Error) -> String {
    console::problem(format_args!("{}: {error:#}", subject.name));
    "the run failed".to_owned()
}

impl Row {
    fn new(subject: &Subject) -> Self {
        Self {
            name: subject.name.clone(),
            instructions: 0,
            ours: Side::default(),
            theirs: Side::default(),
        }
    }
}

impl Side {
    fn take(&mut self, time: impl Fn((&str, &str)) -> Option<f64>) {
        for (times, names) in self.times.iter_mut().zip(TIMES) {
            times.extend(time(names));
        }
    }

    /// The median time of a column.
    fn time(&self, column: usize) -> Option<f64> {
        let [program, method, execute] = [0, 1, 2].map(|what| median(&self.times[what]));
        match COLUMNS[column] {
            "load program" => program,
            "load method" => method,
            "both" => Some(program? + method?),
            _ => execute,
        }
    }
}

/// The middle one; of an even number the lower of the two.
fn median(times: &[f64]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// How many times as long the other side takes; under 1 where we lose.
fn ratio(row: &Row, what: usize) -> Option<f64> {
    let (ours, theirs) = (row.ours.time(what)?, row.theirs.time(what)?);
    (ours > 0.0).then(|| theirs / ours)
}

/// Three digits of a number of microseconds.
fn microseconds(time: Option<f64>) -> String {
    match time {
        None => "-".to_owned(),
        Some(time) if time >= 100.0 => format!("{time:.0}"),
        Some(time) if time >= 10.0 => format!("{time:.1}"),
        Some(time) => format!("{time:.2}"),
    }
}

fn times(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(ratio) if ratio >= 10.0 => format!("{ratio:.0}×"),
        Some(ratio) => format!("{ratio:.2}×"),
    }
}

/// The cells of a row: name, instructions, and per thing that is timed both times and the ratio.
fn cells(row: &Row, with_peer: bool) -> Vec<String> {
    let mut cells = vec![row.name.clone(), row.instructions.to_string()];
    for what in 0..COLUMNS.len() {
        cells.push(microseconds(row.ours.time(what)));
        if with_peer {
            cells.push(microseconds(row.theirs.time(what)));
            cells.push(times(ratio(row, what)));
        }
    }
    cells
}

fn head(with_peer: bool) -> Vec<String> {
    let mut head = vec!["program".to_owned(), "instructions".to_owned()];
    for name in COLUMNS {
        head.push(name.to_owned());
        if with_peer {
            head.extend(["C++".to_owned(), "ratio".to_owned()]);
        }
    }
    head
}

fn plain_table(rows: &[Row], with_peer: bool) -> Table {
    let mut table = Table::new();
    table.set_header(head(with_peer));
    for row in rows {
        table.add_row(cells(row, with_peer));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What running takes, the worst first, and which programs there is nothing to compare of.
fn comparison(rows: &[Row]) -> String {
    let execute = COLUMNS.len() - 1;
    let (mut compared, mut others) = (Vec::new(), Vec::new());
    for row in rows {
        match ratio(row, execute) {
            Some(ratio) => compared.push((ratio, row)),
            None => others.push(row.name.as_str()),
        }
    }
    compared.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut table = Table::new();
    table.set_header(["program", "execute", "C++", "ratio"]);
    for &(ratio, row) in &compared {
        let [ours, theirs] = [&row.ours, &row.theirs].map(|side| microseconds(side.time(execute)));
        table.add_row([row.name.clone(), ours, theirs, times(Some(ratio))]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let slower = compared.iter().filter(|(ratio, _)| *ratio < 1.0).count();
    format!(
        "{}\n{} programs, {slower} slower here; not compared, since one side does not run them: {}",
        console::plain(&mut table),
        compared.len(),
        others.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::document::losses;
    use super::*;

    fn row(ours: f64, theirs: f64) -> Row {
        let side = |time| Side {
            times: [vec![time], vec![time], vec![time]],
            ..Side::default()
        };
        Row {
            name: "add".to_owned(),
            instructions: 1,
            ours: side(ours),
            theirs: side(theirs),
        }
    }

    #[test]
    fn medians_are_times_that_were_measured() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(1.0));
    }

    #[test]
    fn what_takes_longer_here_is_listed_as_lost() {
        assert!(losses(&[row(1.0, 2.0)]).contains("Nowhere"));
        let lost = losses(&[row(3.0, 2.0)]);
        assert!(
            lost.contains("- add: `execute` takes 1.50 times as long"),
            "{lost}"
        );
    }

    #[test]
    fn the_worst_comes_first() {
        let mut rows = [row(1.0, 3.0), row(2.0, 1.0), row(1.0, 1.0)];
        rows[1].name = "mul".to_owned();
        rows[2].name = "sub".to_owned();
        rows[2].theirs = Side::default();
        let text = comparison(&rows);
        let place = |what: &str| text.find(what).unwrap();
        assert!(place("mul") < place("add"), "{text}");
        assert!(text.contains("2 programs, 1 slower here"), "{text}");
        assert!(text.ends_with(": sub"), "{text}");
    }

    #[test]
    fn a_side_without_numbers_has_no_ratio() {
        let mut row = row(1.0, 2.0);
        assert_eq!(cells(&row, true)[2..5], ["1.00", "2.00", "2.00×"]);
        row.theirs = Side::default();
        assert_eq!(cells(&row, true)[2..5], ["1.00", "-", "-"]);
    }

    #[test]
    fn fast_programs_run_more_often() {
        assert_eq!(iterations(None, 0.3), 20);
        assert_eq!(iterations(Some(1000.0), 0.3), 300);
        assert_eq!(iterations(Some(1e9), 0.3), 10);
    }
}
