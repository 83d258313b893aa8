//! The page of results.

use super::{COLUMNS, Options, Row, cells, chains, goals, head, microseconds, ratio, times};

/// The whole page.
pub(super) fn document(rows: &[Row], chains: &[Row], options: &Options) -> String {
    let mut text = format!(
        "\
# Beside the C++ runtime

Written by `cargo xtask bench --peer`. Both sides ran on one machine in turns, {} times each; these are medians of the medians,
in microseconds. A ratio says how many times as long the C++ runtime takes: above 1 we are faster, below 1 we lose. {}.

The C++ side is the released wheel of version 1.5.1, with its optimized kernels and XNNPACK, FlatBuffer verification on;
times are taken in C++. Ours is `et bench`, a release build; it verifies and validates always. Loading a program there
opens the file and reads the constants; here the file is open already, and constants are read, and packed for the operators that want
that, when a method is loaded. Programs on devices use a simulated one here and a stand-in there, so their times say
nothing about a GPU. Each side makes up its inputs. One thread, where a row says nothing else.

",
        options.rounds,
        machine()
    );
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let names = head(true);
    text += &line(names.clone());
    text += &line(names.iter().map(|_| "---".to_owned()).collect());
    for row in rows {
        text += &line(cells(row, true));
    }
    text += &dispatch(chains);
    text += &memory(rows);
    text += &losses(rows);
    text += &goals::section(rows, chains);
    for row in rows {
        for (side, problem) in [("here", &row.ours.problem), ("there", &row.theirs.problem)] {
            if let Some(problem) = problem {
                text += &format!("\n{} does not run {side}: {problem}\n", row.name);
            }
        }
    }
    text
}

/// What one more instruction costs.
fn dispatch(chains: &[Row]) -> String {
    let mut text = "
## One instruction

Chains of one cheap instruction on one element, 100 and 1100 of them: what the longer one takes more, per instruction, in nanoseconds. It is
what finding and calling an operator costs, and the little that the operator does.

| instruction | ns | C++ | ratio |
| --- | --- | --- | --- |
"
    .to_owned();
    for one in chains::costs(chains) {
        let cells = [one.ours, one.theirs].map(|time| microseconds(time.map(|us| us * 1e3)));
        let ratio = times(one.ratio());
        text += &format!("| {} | {} | {ratio} |\n", one.name, cells.join(" | "));
    }
    text
}

fn memory(rows: &[Row]) -> String {
    let mut text = "
## Memory

Planned bytes are the program's own. Of memory in use only what each side can tell: ours is the most that the whole process ever had, code
included, after all of the measuring; theirs is what the process grew by from before the load to after the first call, since it has a Python in it.

| program | planned, ours | planned, C++ | peak of our process | growth of theirs |
| --- | --- | --- | --- | --- |
"
    .to_owned();
    let kib = |bytes: Option<u64>| {
        bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} KiB", bytes / 1024))
    };
    let bytes =
        |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    for row in rows {
        let (ours, theirs) = (&row.ours, &row.theirs);
        let planned = [bytes(ours.planned), bytes(theirs.planned)].join(" | ");
        text += &format!(
            "| {} | {planned} | {} | {} |\n",
            row.name,
            kib(ours.memory),
            kib(theirs.memory)
        );
    }
    text
}

/// What the other side does faster: loading in all, and running.
pub(super) fn losses(rows: &[Row]) -> String {
    let mut text = "\n## Where we lose\n\n".to_owned();
    let mut any = false;
    for row in rows {
        // Halves of loading are in the table.
        for (what, name) in COLUMNS.iter().enumerate().skip(2) {
            if let Some(ratio) = ratio(row, what).filter(|ratio| *ratio < 1.0) {
                any = true;
                text += &format!(
                    "- {}: `{name}` takes {:.2} times as long\n",
                    row.name,
                    1.0 / ratio
                );
            }
        }
    }
    if !any {
        text += "Nowhere in this table.\n";
    }
    text
}

/// Processor and cores, as Linux tells them.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    let (name, system) = (name.unwrap_or("unknown processor"), std::env::consts::OS);
    format!(
        "The machine: {name}, {cores} cores, {system}; load average at the end of the run {load}"
    )
}
