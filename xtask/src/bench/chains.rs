//! Chains of one cheap instruction, whose lengths tell what executing one costs.

use super::{METHOD, Row, Subject, median};
use crate::{process, workspace};
use anyhow::{Context, Result};
use std::fmt;

/// The chains, as `benches/examples/chains.rs` names their files, and what one instruction of them does.
const CHAINS: [(&str, &str); 2] = [
    ("numbers", "`executorch_prim::add.Scalar`, numbers"),
    ("tensors", "`aten::neg.out`, tensors of one element"),
];

/// The lengths that the example writes.
const LENGTHS: [&str; 2] = ["100", "1100"];

/// Writes the programs: of each chain the short one, then the long one.
pub(super) fn subjects() -> Result<Vec<Subject>> {
    let example = process::executable(&["-p", "et-benches", "--example", "chains"])?;
    let folder = workspace::target_dir().join("bench-chains");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    process::output(process::tool(&example.to_string_lossy()).arg(&folder))?;
    let subject = |chain: &str, length: &str| {
        let name = format!("{chain}_{length}");
        let file = folder.join(format!("{name}.pte"));
        Subject {
            name,
            threads: 1,
            ours: file.clone(),
            theirs: file,
            data: Vec::new(),
            method: METHOD.to_owned(),
        }
    };
    let of = |(chain, _)| LENGTHS.map(|length| subject(chain, length));
    Ok(CHAINS.into_iter().flat_map(of).collect())
}

/// What one instruction takes on both sides, in microseconds.
pub(super) struct Cost {
    pub(super) name: &'static str,
    pub(super) ours: Option<f64>,
    pub(super) theirs: Option<f64>,
}

impl Cost {
    /// How many times as long the other side takes.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.theirs? / self.ours.filter(|time| *time > 0.0)?)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one {}:", self.name)?;
        for (side, time) in [("here", self.ours), ("C++", self.theirs)] {
            if let Some(us) = time {
                write!(f, " {:.1} ns {side}", us * 1e3)?;
            }
        }
        Ok(())
    }
}

/// The costs, from the rows of [`subjects`] in their order.
pub(super) fn costs(rows: &[Row]) -> Vec<Cost> {
    let pairs = CHAINS.iter().zip(rows.chunks_exact(LENGTHS.len()));
    pairs
        .map(|((_, name), pair)| {
            let [short, long] = [&pair[0], &pair[1]];
            let more = long.instructions.saturating_sub(short.instructions) as f64;
            let slope = |short: &[f64], long: &[f64]| {
                let cost = (median(long)? - median(short)?) / more;
                cost.is_finite().then_some(cost)
            };
            // The third time is that of running.
            Cost {
                name,
                ours: slope(&short.ours.times[2], &long.ours.times[2]),
                theirs: slope(&short.theirs.times[2], &long.theirs.times[2]),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Side;
    use super::*;

    #[test]
    fn the_cost_of_one_is_what_more_of_them_take() {
        let side = |time| Side {
            times: [vec![], vec![], vec![time]],
            ..Side::default()
        };
        let row = |instructions, ours, theirs| Row {
            name: String::new(),
            instructions,
            ours: side(ours),
            theirs: side(theirs),
        };
        let rows = [row(100, 5.0, 9.0), row(1100, 25.0, 89.0)];
        let costs = costs(&rows);
        assert_eq!(costs.len(), 1);
        assert_eq!((costs[0].ours, costs[0].theirs), (Some(0.02), Some(0.08)));
        assert_eq!(costs[0].ratio(), Some(4.0));
        let ours = costs[0].to_string();
        assert!(ours.ends_with("20.0 ns here 80.0 ns C++"), "{ours}");
    }
}
