//! What we aim at beside what was reached in a run.

use super::{Row, chains, ratio, times};

/// A goal that a run of the bench measures.
struct Goal {
    aim: &'static str,
    reached: String,
    is_met: bool,
}

/// Columns of the table that goals are about.
const LOAD: usize = 2;
const EXECUTE: usize = 3;

/// What other commands measure, and where they say it.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "A copy is one call of the allocator, and the CUDA allocator adds under 100 ns to a call of the driver",
        "`cargo xtask device` tells the nanoseconds on a GPU; `cargo xtask overhead` holds the instructions to a limit",
    ),
    (
        "Decoding with tensors that stay on the device: per step 1 copy to the host, none to the device, none on it",
        "`tests/tests/examples.rs` counts the copies of the example `decode_loop`",
    ),
    (
        "Plans of model instances at the lower bound, proved, within 10 ms; hard public instances faster than minimalloc",
        "`docs/planning-results.md`",
    ),
    (
        "Millions of damaged files: no panic, no signal, memory within what the file declares",
        "`tests/mutator/results.tsv`",
    ),
    (
        "What we write loads and computes the same on the C++ runtime",
        "`cargo xtask interop`",
    ),
];

/// The section of the page.
pub(super) fn section(rows: &[Row], chains: &[Row]) -> String {
    let mut text = "
## What we aim at

| aim | reached in this run | met |
| --- | --- | --- |
"
    .to_owned();
    for goal in goals(rows, chains) {
        let met = if goal.is_met { "yes" } else { "no" };
        text += &format!("| {} | {} | {met} |\n", goal.aim, goal.reached);
    }
    text += "
Measured by other commands:

| aim | where |
| --- | --- |
";
    for (aim, place) in ELSEWHERE {
        text += &format!("| {aim} | {place} |\n");
    }
    text
}

fn goals(rows: &[Row], chains: &[Row]) -> Vec<Goal> {
    let named = |part: &'static str| rows.iter().filter(move |row| row.name.contains(part));
    let alike = || rows.iter().filter(|row| !row.name.contains("XNNPACK"));
    let of = |column| move |row| -> (&str, Option<f64>) { name_and_ratio(row, column) };
    let costs = chains::costs(chains);
    let goals = [
        worst(
            "Loading, verification included, takes no longer than there",
            1.0,
            alike().map(of(LOAD)),
        ),
        worst(
            "One instruction costs at most half",
            2.0,
            costs.iter().map(|cost| (cost.name, cost.ratio())),
        ),
        no_heap(rows),
        worst(
            "A convolution net of portable operators takes at most twice as long as with XNNPACK there",
            0.5,
            named("XNNPACK").map(of(EXECUTE)),
        ),
        worst(
            "Language models run 3 times as fast as with the operators there",
            3.0,
            named("tiny_lm").map(of(EXECUTE)),
        ),
        worst(
            "Nothing runs slower than with the operators there",
            1.0,
            alike().map(of(EXECUTE)),
        ),
    ];
    goals.into_iter().flatten().collect()
}

fn name_and_ratio(row: &Row, column: usize) -> (&str, Option<f64>) {
    (&row.name, ratio(row, column))
}

/// A goal that all ratios are at least `least`; none where nothing was measured.
fn worst<'a>(
    aim: &'static str,
    least: f64,
    ratios: impl Iterator<Item = (&'a str, Option<f64>)>,
) -> Option<Goal> {
    let known: Vec<(&str, f64)> = ratios
        .filter_map(|(name, ratio)| Some((name, ratio?)))
        .collect();
    let (name, worst) = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let good = known.iter().filter(|(_, ratio)| *ratio >= least).count();
    let reached = format!(
        "{good} of {}; the worst is {name}, {}",
        known.len(),
        times(Some(*worst))
    );
    Some(Goal {
        aim,
        reached,
        is_met: good == known.len(),
    })
}

fn no_heap(rows: &[Row]) -> Option<Goal> {
    let known: Vec<u64> = rows.iter().filter_map(|row| row.ours.heap).collect();
    let most = *known.iter().max()?;
    let none = known.iter().filter(|blocks| **blocks == 0).count();
    Some(Goal {
        aim: "A run takes nothing from the heap",
        reached: format!("{none} of {}; the most is {most} blocks", known.len()),
        is_met: most == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    fn row(name: &str, ours: f64, theirs: f64) -> Row {
        let side = |time| Side {
            times: [vec![time], vec![time], vec![time]],
            heap: Some(0),
            ..Side::default()
        };
        Row {
            name: name.to_owned(),
            instructions: 1,
            ours: side(ours),
            theirs: side(theirs),
        }
    }

    #[test]
    fn a_goal_that_one_program_misses_is_not_met() {
        let rows = [row("add", 1.0, 2.0), row("map", 3.0, 2.0)];
        let text = section(&rows, &[]);
        let line = text.lines().find(|line| line.contains("Nothing runs"));
        let line = line.unwrap();
        let expected = "| 1 of 2; the worst is map, 0.67× | no |";
        assert!(line.ends_with(expected), "{line}");
        assert!(text.contains("| 2 of 2; the most is 0 blocks | yes |"));
        // What was not measured is not claimed.
        assert!(!text.contains("Language models") && !text.contains("One instruction"));
    }

    #[test]
    fn a_delegate_on_the_other_side_is_a_goal_of_its_own() {
        let rows = [row("mv2, XNNPACK there", 3.0, 2.0)];
        let text = section(&rows, &[]);
        let line = text.lines().find(|line| line.contains("A convolution net"));
        assert!(line.unwrap().ends_with("| yes |"), "{text}");
        assert!(!text.contains("Nothing runs slower"));
    }
}
