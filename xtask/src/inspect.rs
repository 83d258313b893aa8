//! Compares what `et inspect` says of every recorded program with what was recorded, before and after rewriting the file.

mod difference;

use crate::{console, process, workspace};
use anyhow::{Context, Result, bail};
use comfy_table::Table;
use difference::{Comparison, PLACES};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which cases.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder of case folders [default: ../shared/corpus beside the repository, else tests/fixtures]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only cases whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    filter: String,
    /// List only cases with differences
    #[arg(long)]
    brief: bool,
}

/// The two programs that look at files and rewrite them, and a place for what they write.
struct Tools {
    et: PathBuf,
    rewrite: PathBuf,
    scratch: tempfile::TempDir,
}

/// What became of one case.
struct Outcome {
    name: String,
    nested: usize,
    /// `inspect --json` against what was recorded.
    summary: Comparison,
    /// `inspect --program` against what was recorded, and the other way round.
    program: Comparison,
    /// All documents of the rewritten files against those of the files.
    rewritten: Comparison,
}

/// Compares all cases; an error if one differs, or if there is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    let dir = folder(options.dir.as_deref());
    let cases = find(&dir, &options.filter)?;
    if cases.is_empty() {
        bail!("no case in {} matches `{}`", dir.display(), options.filter);
    }
    let tools = Tools {
        et: process::executable(&["-p", "et-cli", "--bin", "et"])?,
        rewrite: process::executable(&[
            "-p",
            "et-schema",
            "--features",
            "std",
            "--example",
            "rewrite",
        ])?,
        scratch: tempfile::tempdir().context("no scratch folder")?,
    };
    console::line(format_args!("{} cases in {}", cases.len(), dir.display()));
    let mut outcomes = Vec::new();
    for case in &cases {
        console::progress(format_args!(
            "{}/{} {}",
            outcomes.len() + 1,
            cases.len(),
            case.display()
        ));
        outcomes.push(compare(&tools, case).with_context(|| format!("case {}", case.display()))?);
    }
    console::progress(format_args!(""));
    report(&outcomes, options.brief)
}

fn folder(given: Option<&Path>) -> PathBuf {
    let corpus = workspace::root().join("../shared/corpus");
    match given {
        Some(folder) => folder.to_owned(),
        None if corpus.is_dir() => corpus,
        None => {
            console::line(format_args!(
                "{} is missing: using tests/fixtures",
                corpus.display()
            ));
            workspace::root().join("tests/fixtures")
        }
    }
}

/// All case folders in `dir` whose name contains `filter`, by name.
fn find(dir: &Path, filter: &str) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)
        .with_context(|| format!("cannot read the cases in {}", dir.display()))?;
    let mut cases = Vec::new();
    for entry in entries {
        let entry = entry?;
        let named = entry.file_name().to_string_lossy().contains(filter);
        if named && entry.path().join("model.pte").is_file() {
            cases.push(entry.path());
        }
    }
    cases.sort();
    Ok(cases)
}

fn compare(tools: &Tools, case: &Path) -> Result<Outcome> {
    let recorded = json_file(&case.join("meta.json"))?;
    let recorded = &recorded["program"];
    let nested = recorded["nested_programs"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    let model = case.join("model.pte");
    let summary = tools.inspect("--json", &model)?;
    let whole = tools.inspect("--program", &model)?;

    let mut outcome = Outcome {
        name: case
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        nested,
        summary: Comparison::new(&[]),
        program: Comparison::new(&[]),
        rewritten: Comparison::new(PLACES),
    };
    outcome.summary.compare("", recorded, &summary);
    let recorded_whole = json_file(&case.join("program.json"))?;
    outcome.program.compare("", &recorded_whole, &whole);
    // The name of our document is no field of the program; everything else must be on the other side too.
    outcome
        .program
        .without(&["format"])
        .compare("", &whole, &recorded_whole);

    let again = tools.rewrite(&model)?;
    let summary_again = tools.inspect("--json", &again)?;
    outcome.rewritten.compare("", &summary, &summary_again);
    outcome.rewritten.compare("", &summary_again, &summary);
    outcome.rewritten.compare("", recorded, &summary_again);
    let whole_again = tools.inspect("--program", &again)?;
    outcome.rewritten.compare("", &whole, &whole_again);
    outcome.rewritten.compare("", &whole_again, &whole);
    for data in data_files(case)? {
        let before = tools.inspect("--json", &data)?;
        let after = tools.inspect("--json", &tools.rewrite(&data)?)?;
        outcome.rewritten.compare("", &before, &after);
        outcome.rewritten.compare("", &after, &before);
    }
    Ok(outcome)
}

fn data_files(case: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(case)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ptd") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn json_file(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

impl Tools {
    fn inspect(&self, form: &str, file: &Path) -> Result<Value> {
        let output = Command::new(&self.et)
            .args(["inspect", form])
            .arg(file)
            .output()
            .context("cannot start `et`")?;
        if !output.status.success() {
            let (out, err) = (&output.stdout, &output.stderr);
            let said = String::from_utf8_lossy(if err.is_empty() { out } else { err });
            bail!("`et inspect {form} {}`: {said}", file.display());
        }
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`et inspect {form} {}` is no JSON", file.display()))
    }

    /// Reads the file as owned values, writes those, and returns where.
    fn rewrite(&self, file: &Path) -> Result<PathBuf> {
        let to = self
            .scratch
            .path()
            .join(file.file_name().unwrap_or_default());
        let output = Command::new(&self.rewrite)
            .args([file, &to])
            .output()
            .context("cannot start `rewrite`")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`rewrite {}`: {said}", file.display());
        }
        Ok(to)
    }
}

fn report(outcomes: &[Outcome], brief: bool) -> Result<()> {
    let mut table = Table::new();
    table.set_header([
        "case",
        "summary",
        "program",
        "rewritten",
        "nested",
        "first difference",
    ]);
    let mut differing = 0;
    for outcome in outcomes {
        let parts = [&outcome.summary, &outcome.program, &outcome.rewritten];
        let first = parts.iter().find_map(|part| part.differences.first());
        differing += usize::from(first.is_some());
        if brief && first.is_none() {
            continue;
        }
        let mut row = vec![outcome.name.clone()];
        row.extend(parts.iter().map(|part| part.verdict()));
        row.push(outcome.nested.to_string());
        row.push(first.cloned().unwrap_or_default());
        table.add_row(row);
    }
    console::line(format_args!("{}", console::plain(&mut table)));
    let sum = |part: fn(&Outcome) -> u64| outcomes.iter().map(part).sum::<u64>();
    console::line(format_args!(
        "{} cases, {differing} differ; {} fields of summaries, {} fields of programs, {} fields of rewritten files compared; \
         {} nested programs",
        outcomes.len(),
        sum(|outcome| outcome.summary.fields),
        sum(|outcome| outcome.program.fields),
        sum(|outcome| outcome.rewritten.fields),
        sum(|outcome| outcome.nested as u64),
    ));
    if differing > 0 {
        bail!("{differing} of {} cases differ", outcomes.len());
    }
    Ok(())
}
