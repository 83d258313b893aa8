//! What et-cuda costs above the driver's functions, in instructions, by callgrind.

use crate::{console, process};
use anyhow::{Context, Result, bail};
use comfy_table::Table;
use std::collections::BTreeMap;
use std::path::Path;

/// How often the example does each operation.
const ROUNDS: u64 = 1000;
/// The example's names of the operations, and how they are called here.
const OPERATIONS: [(&str, &str); 8] = [
    ("allocate_free", "allocate and free"),
    ("copy_in", "copy in"),
    ("copy_out", "copy out"),
    ("copy_within", "copy within"),
    ("queued_block", "allocate and free on a stream"),
    ("queued_copy", "copy within on a stream"),
    ("upload", "upload from pinned memory"),
    ("staged", "upload by staging"),
];

/// The limit.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Fail if an operation costs more instructions above the bare calls
    #[arg(long, default_value_t = 1500, value_name = "INSTRUCTIONS")]
    limit: u64,
}

/// Instructions of one operation.
struct Cost {
    name: &'static str,
    bare: u64,
    /// On a thread that has the device's context, and on one that has none.
    ours: [u64; 2],
    /// Nanoseconds above the bare calls, on a thread that has none, on this machine at this moment.
    nanoseconds: Option<u64>,
}

/// Runs the example under valgrind and prints its costs; an error if one is above the limit.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !process::works(process::tool("valgrind").arg("--version")) {
        bail!("valgrind is missing: install it with `apt-get install valgrind`");
    }
    let example = process::executable(&["--release", "-p", "et-cuda", "--example", "overhead"])?;
    let scratch = tempfile::tempdir().context("no scratch folder")?;
    let [current, none] = [&["current"][..], &[]].map(|arguments| {
        let file = scratch.path().join("callgrind.out");
        measure(&example, arguments, &file)
    });
    let (current, none) = (current?, none?);
    let plain = process::output(&mut process::tool(&example.to_string_lossy()))?;
    let times = times(&plain);
    let cost = |(function, name): (&str, &'static str)| -> Result<Cost> {
        let of = |costs: &BTreeMap<String, u64>, prefix: &str| {
            let function = format!("{prefix}_{function}");
            let found = costs.get(&function).map(|all| all / ROUNDS);
            found.with_context(|| format!("valgrind saw no call of {function}"))
        };
        Ok(Cost {
            name,
            bare: of(&none, "bare")?,
            ours: [of(&current, "ours")?, of(&none, "ours")?],
            nanoseconds: times.get(name).copied(),
        })
    };
    let costs: Result<Vec<Cost>> = OPERATIONS.into_iter().map(cost).collect();
    report(&costs?, options.limit)
}

/// The instructions of each function that the example names, all rounds together.
fn measure(example: &Path, arguments: &[&str], file: &Path) -> Result<BTreeMap<String, u64>> {
    let mut command = process::tool("valgrind");
    command
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(example)
        .args(arguments);
    process::output(&mut command)?;
    let profile = std::fs::read_to_string(file).context("valgrind wrote no profile")?;
    Ok(inclusive(&profile))
}

/// The inclusive cost of the cheapest call of each `bare_` and `ours_` function. The first call of each also makes what
/// is made once.
fn inclusive(profile: &str) -> BTreeMap<String, u64> {
    let mut names = BTreeMap::new();
    let mut costs = BTreeMap::new();
    let mut called = None;
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        let function = line
            .strip_prefix("cfn=")
            .or_else(|| line.strip_prefix("fn="));
        if let Some((id, name)) = function.map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) {
            if !name.is_empty() {
                names.insert(id.to_owned(), short(name).to_owned());
            }
            called = names.get(id).filter(|_| line.starts_with("cfn=")).cloned();
        } else if line.starts_with("calls=") {
            let cost: Option<u64> = lines.next().and_then(|l| l.split(' ').nth(1)?.parse().ok());
            let measured = called.take().filter(|name| is_measured(name));
            if let Some((name, cost)) = measured.zip(cost) {
                costs
                    .entry(name)
                    .and_modify(|least: &mut u64| *least = cost.min(*least))
                    .or_insert(cost);
            }
        }
    }
    costs
}

/// How much longer ours takes than the bare calls, by the operation's name, in lines `name | bare ours`.
fn times(text: &str) -> BTreeMap<&str, u64> {
    let mut added = BTreeMap::new();
    for (name, figures) in text.lines().filter_map(|line| line.split_once('|')) {
        let figures: Vec<u64> = figures
            .split_whitespace()
            .filter_map(|figure| figure.parse().ok())
            .collect();
        if let [bare, ours] = figures[..] {
            added.insert(name.trim_end(), ours.saturating_sub(bare));
        }
    }
    added
}

fn is_measured(name: &str) -> bool {
    name.starts_with("bare_") || name.starts_with("ours_")
}

/// The function's name without its path.
fn short(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

fn report(costs: &[Cost], limit: u64) -> Result<()> {
    let mut table = Table::new();
    table.set_header([
        "operation",
        "bare",
        "ours",
        "added",
        "added, no context",
        "ns",
    ]);
    for cost in costs {
        let added = cost.ours.map(|ours| ours.saturating_sub(cost.bare));
        let cells = [cost.bare, cost.ours[0], added[0], added[1]];
        let mut row = vec![cost.name.to_owned()];
        row.extend(cells.map(|cell| cell.to_string()));
        row.push(
            cost.nanoseconds
                .map_or_else(String::new, |ns| ns.to_string()),
        );
        table.add_row(row);
    }
    console::line(format_args!("{}", console::plain(&mut table)));
    console::line(format_args!(
        "instructions per operation; the bare calls of a driver that does nothing, and the allocator on it; the last column \
         is nanoseconds added, on this machine"
    ));
    let most = costs
        .iter()
        .map(|cost| cost.ours[1].saturating_sub(cost.bare))
        .max();
    match most {
        Some(most) if most > limit => {
            bail!("an operation costs {most} instructions above the bare calls")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_line_by_line() {
        let read = times("operation   | bare ns ours ns\ncopy in     |       4      23\n");
        assert_eq!(read, BTreeMap::from([("copy in", 19)]));
    }

    #[test]
    fn the_cheapest_call_of_each_function_counts() {
        let profile = "fn=(1) overhead::main\n3 5\ncfn=(2) overhead::ours_copy_in\ncalls=1 10\n* 900\n\
                       cfn=(3) overhead::other\ncalls=1 20\n* 7\ncfn=(2)\ncalls=1 10\n+3 300\n\
                       cfn=(4) overhead::bare_copy_in\ncalls=1 30\n* 20\n";
        let costs = inclusive(profile);
        let expected = [
            ("bare_copy_in".to_owned(), 20),
            ("ours_copy_in".to_owned(), 300),
        ];
        assert_eq!(costs, BTreeMap::from(expected));
    }
}
