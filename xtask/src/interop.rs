//! `cargo xtask interop`: what we write, loaded and run by the C++ runtime beside the file that it was made from.

use crate::fixtures::case::{self, Case};
use crate::peer::Peer;
use crate::{console, fixtures, process, workspace};
use anyhow::{Context, Result, bail};
use comfy_table::Table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which cases.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder of case folders [default: ../shared/corpus beside the repository, else tests/fixtures]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only cases whose name contains this text
    #[arg(long, default_value = "", value_name = "TEXT")]
    filter: String,
}

/// What is made of each program: a name, and the options of `et plan`; without any the program is only written anew.
const KINDS: [(&str, Option<&[&str]>); 4] = [
    ("rewritten", None),
    ("planned", Some(&[])),
    ("compact", Some(&["--compact"])),
    ("smallest", Some(&["--reorder", "--inplace"])),
];

/// Writes all files, has them run, and prints counts; an error if a file is refused or gives something else.
pub(crate) fn run(options: &Options) -> Result<()> {
    let Some(peer) = Peer::find("interop") else {
        return Ok(());
    };
    let dir = options.dir.clone().unwrap_or_else(fixtures::default_dir);
    let cases = case::find(&dir, &options.filter)?;
    if cases.is_empty() {
        bail!("no case in {} matches `{}`", dir.display(), options.filter);
    }
    let writer = Writer::build()?;
    let mut unwritten = Vec::new();
    let mut jobs = Vec::new();
    for case in &cases {
        jobs.push(writer.write(case, &mut unwritten)?);
    }
    let list = workspace::target_dir().join("interop/jobs.json");
    std::fs::write(&list, serde_json::to_string(&jobs)?)
        .with_context(|| format!("cannot write {}", list.display()))?;
    let text = peer.output("peer_interop.py", |command| {
        command.arg(&list);
    })?;
    let rows = parse(&text)?;
    report(cases.len(), &rows, &unwritten)
}

/// The programs that write.
struct Writer {
    et: PathBuf,
    rewrite: PathBuf,
}

impl Writer {
    fn build() -> Result<Self> {
        Ok(Self {
            et: process::executable(&["-p", "et-cli", "--bin", "et"])?,
            rewrite: process::executable(&["-p", "et-schema", "--example", "rewrite"])?,
        })
    }

    /// Writes the files of a case, and returns the job for the other side.
    fn write(&self, case: &Case, unwritten: &mut Vec<String>) -> Result<Value> {
        let folder = workspace::target_dir().join("interop").join(&case.name);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let original = case.dir.join("model.pte");
        let mut files = serde_json::Map::new();
        files.insert(
            "original".into(),
            json!({ "model": original, "data": case.data }),
        );
        for (name, options) in KINDS {
            let model = folder.join(format!("{name}.pte"));
            let mut data = case.data.clone();
            let written = match options {
                Some(options) => self.plan(&original, &model, options)?,
                None => {
                    data = self.rewrite_data(case, &folder)?;
                    self.rewrite(&original, &model)?;
                    Ok(())
                }
            };
            match written {
                Ok(()) => drop(files.insert(name.into(), json!({ "model": model, "data": data }))),
                Err(reason) => unwritten.push(format!("{} {name}: {reason}", case.name)),
            }
        }
        Ok(json!({
            "name": case.name,
            "calls": case.dir.join("meta.json"),
            "share_arenas": case.shares_state(),
            "files": files,
        }))
    }

    /// `et plan`; the inner error is its reason not to write.
    fn plan(&self, from: &Path, to: &Path, options: &[&str]) -> Result<Result<(), String>> {
        let mut command = process::tool(&self.et.to_string_lossy());
        command.arg("plan").arg(from).arg("-o").arg(to);
        let output = command.args(options).args(["--quiet", "--json"]).output()?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("`et plan` on {} printed no JSON", from.display()))?;
        let message = report["error"]["message"].as_str();
        Ok(Err(message.unwrap_or("no message").to_owned()))
    }

    fn rewrite(&self, from: &Path, to: &Path) -> Result<()> {
        let mut command = process::tool(&self.rewrite.to_string_lossy());
        process::output(command.arg(from).arg(to)).map(drop)
    }

    fn rewrite_data(&self, case: &Case, folder: &Path) -> Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for file in &case.data {
            let to = folder.join(file.file_name().unwrap_or_default());
            self.rewrite(file, &to)?;
            written.push(to);
        }
        Ok(written)
    }
}

/// What became of one file.
#[derive(Debug, PartialEq)]
struct Row {
    case: String,
    file: String,
    status: String,
    outputs: u64,
    message: String,
}

fn parse(text: &str) -> Result<Vec<Row>> {
    let row = |line: &str| -> Result<Row> {
        let value: Value = serde_json::from_str(line).context("a line is not JSON")?;
        let field = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Ok(Row {
            case: field("name"),
            file: field("file"),
            status: field("status"),
            outputs: value["outputs"].as_u64().unwrap_or_default(),
            message: field("message"),
        })
    };
    text.lines().map(row).collect()
}

/// Files and outputs by what became of them.
fn counts(rows: &[Row]) -> BTreeMap<(&str, &str), (usize, u64)> {
    let mut counts = BTreeMap::new();
    for row in rows {
        let count: &mut (usize, u64) = counts
            .entry((row.file.as_str(), row.status.as_str()))
            .or_default();
        count.0 += 1;
        count.1 += row.outputs;
    }
    counts
}

fn report(cases: usize, rows: &[Row], unwritten: &[String]) -> Result<()> {
    let mut table = Table::new();
    table.set_header(["files", "on the C++ runtime", "count", "outputs compared"]);
    for ((file, status), (count, outputs)) in counts(rows) {
        table.add_row([file, status, &count.to_string(), &outputs.to_string()]);
    }
    console::line(format_args!("{}", console::plain(&mut table)));
    let mut bad = 0;
    for row in rows.iter().filter(|row| row.status != "same") {
        let is_without_original = row.status == "no original";
        // Once per program: there is nothing to compare any of its files with.
        if is_without_original && row.file != KINDS[0].0 {
            continue;
        }
        let file = match is_without_original {
            true => String::new(),
            false => format!(" {}", row.file),
        };
        bad += usize::from(!is_without_original);
        console::line(format_args!(
            "{}{file}: {}: {}",
            row.case, row.status, row.message
        ));
    }
    for line in unwritten {
        console::line(format_args!("not written: {line}"));
    }
    let same = rows.iter().filter(|row| row.status == "same").count();
    console::line(format_args!(
        "{cases} programs; {} files written, {same} of them load and give the same, bit for bit, on the C++ runtime",
        rows.len()
    ));
    if bad > 0 {
        bail!("{bad} files that we wrote do not do on the C++ runtime what the originals do");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"name": "add", "file": "compact", "status": "same", "outputs": 2, "message": null}
{"name": "mlp", "file": "compact", "status": "refused", "outputs": 0, "message": "error 0x23"}"#;

    #[test]
    fn files_are_counted_by_what_became_of_them() {
        let rows = parse(LINES).unwrap();
        let expected = [
            (("compact", "refused"), (1, 0)),
            (("compact", "same"), (1, 2)),
        ];
        assert_eq!(counts(&rows), BTreeMap::from(expected));
    }

    #[test]
    fn a_file_that_is_refused_is_an_error() {
        let rows = parse(LINES).unwrap();
        let error = report(2, &rows, &[]).unwrap_err();
        assert!(error.to_string().starts_with("1 files"), "{error}");
        assert!(report(1, &rows[..1], &[]).is_ok());
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        assert!(parse("Traceback").is_err());
    }
}
