//! A driver's answers beside the fake driver's.

use crate::console;
use comfy_table::Table;
use std::fmt;

/// Questions to which a driver may answer something else than the fake one, each with the reason.
const MAY_DIFFER: [(&str, &str); 3] = [
    ("driver's CUDA version", "each driver has its own"),
    ("devices", "each machine has its own"),
    ("name of the first", "each device has its own"),
];
/// A question that both drivers were asked, or one of them.
struct Row<'a> {
    question: &'a str,
    answer: &'a str,
    imitated: &'a str,
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    Same,
    /// Different, for this reason.
    MayDiffer(&'static str),
    Different,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => Ok(()),
            Self::MayDiffer(reason) => f.write_str(reason),
            Self::Different => f.write_str("differs"),
        }
    }
}

/// The driver's answers beside the fake one's.
fn side_by_side<'a>(driver: &'a [(String, String)], fake: &'a [(String, String)]) -> Vec<Row<'a>> {
    const NOT_ASKED: &str = "not asked";
    fn to<'a>(answers: &'a [(String, String)], question: &str) -> Option<&'a str> {
        let mut found = answers.iter().filter(|(asked, _)| asked == question);
        found.next().map(|(_, answer)| answer.as_str())
    }
    let only_fake = fake
        .iter()
        .filter(|(question, _)| to(driver, question).is_none());
    let questions = driver.iter().chain(only_fake).map(|(question, _)| question);
    questions
        .map(|question| {
            let (answer, imitated) = (to(driver, question), to(fake, question));
            Row {
                question,
                answer: answer.unwrap_or(NOT_ASKED),
                imitated: imitated.unwrap_or(NOT_ASKED),
                verdict: verdict(question, answer, imitated),
            }
        })
        .collect()
}

fn verdict(question: &str, answer: Option<&str>, imitated: Option<&str>) -> Verdict {
    let listed = MAY_DIFFER.iter().find(|(allowed, _)| *allowed == question);
    match listed {
        _ if answer == imitated => Verdict::Same,
        Some((_, reason)) if answer.is_some() && imitated.is_some() => Verdict::MayDiffer(reason),
        _ => Verdict::Different,
    }
}

/// Prints both drivers' answers; what is wrong with the fake one, if anything is.
pub(super) fn compare(driver: &[(String, String)], fake: &[(String, String)]) -> Option<String> {
    let rows = side_by_side(driver, fake);
    let mut table = Table::new();
    table.set_header(["question", "driver", "fake driver", ""]);
    for row in &rows {
        let verdict = row.verdict.to_string();
        table.add_row([row.question, row.answer, row.imitated, &verdict]);
    }
    console::line(format_args!("\n{}", console::plain(&mut table)));
    let different = rows.iter().filter(|row| row.verdict == Verdict::Different);
    let different: Vec<&str> = different.map(|row| row.question).collect();
    console::line(format_args!(
        "{} questions, {} answered otherwise by the fake driver\n",
        rows.len(),
        different.len()
    ));
    match different[..] {
        _ if rows.is_empty() => Some("the drivers answer nothing".into()),
        [] => None,
        _ => Some(format!(
            "the fake driver answers otherwise, and MAY_DIFFER gives no reason: {}",
            different.join(", ")
        )),
    }
}

/// Without a GPU there is nothing to compare with; the fake driver answers all the same.
pub(super) fn not_compared(fake: &[(String, String)]) -> Option<String> {
    console::line(format_args!(
        "{} questions answered by the fake driver, and compared with nothing: that takes a GPU",
        fake.len()
    ));
    fake.is_empty()
        .then(|| "the fake driver answers nothing".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_without_a_reason_is_a_problem() {
        let own = |answers: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = answers.iter();
            pairs.map(|(q, a)| ((*q).into(), (*a).into())).collect()
        };
        let verdicts = |driver: &[(&str, &str)], fake: &[(&str, &str)]| {
            let (driver, fake) = (own(driver), own(fake));
            let rows = side_by_side(&driver, &fake);
            let verdicts: Vec<_> = rows.iter().map(|row| row.verdict).collect();
            (verdicts, compare(&driver, &fake).is_some())
        };
        let (may, reason) = MAY_DIFFER[1];
        assert_eq!(verdicts(&[], &[]), (vec![], true));
        assert_eq!(
            verdicts(&[(may, "1"), ("q", "a")], &[(may, "3"), ("q", "a")]),
            (vec![Verdict::MayDiffer(reason), Verdict::Same], false)
        );
        assert_eq!(
            verdicts(&[("q", "a")], &[("q", "b")]),
            (vec![Verdict::Different], true)
        );
        let different = (vec![Verdict::Same, Verdict::Different], true);
        assert_eq!(
            verdicts(&[("q", "a")], &[("q", "a"), (may, "1")]),
            different
        );
        assert_eq!(
            verdicts(&[("q", "a"), ("r", "b")], &[("q", "a")]),
            different
        );
    }
}
