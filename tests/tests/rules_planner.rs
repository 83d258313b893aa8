//! The table of rules in `docs/rules-planner.md` names tests that exist, and leaves out no rule.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use et_schema::PteHeader;

/// The rules of each kind, by number.
const RULES: [(&str, &[u32]); 6] = [
    (
        "A-PROP",
        &[
            1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 30, 31, 32, 40,
            41,
        ],
    ),
    ("A-CFG", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("A-DEV", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
    (
        "A-INS",
        &[
            1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 30, 31, 32, 40, 41, 42, 50,
            51, 52, 53, 54, 55, 56,
        ],
    ),
    ("A-OPT", &[1, 2, 3, 4, 5]),
    (
        "A-LIM",
        &[
            1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
            25, 26, 27, 28,
        ],
    ),
];
/// Plans of the reference that were executed.
const VECTORS: [&str; 21] = [
    "G01", "G02", "G03", "G03b", "G04", "G05", "G06", "G07", "G08", "G09", "G09b", "G10", "G11",
    "G15", "N12", "N12b", "N13", "GA1", "GI1", "7.10", "eh00",
];
/// How many programs of the reference were executed.
const PROGRAMS: u32 = 15;
/// Where the tests are.
const SOURCES: [&str; 3] = ["crates/et-planner", "crates/et-cli/tests", "tests/tests"];

/// One row: the rule, and what is said of its tests.
struct Row {
    rule: String,
    here: String,
}

impl Row {
    /// The names between backticks.
    fn tests(&self) -> impl Iterator<Item = &str> {
        self.here.split('`').skip(1).step_by(2)
    }

    /// How the rule's own tests begin.
    fn prefix(&self) -> String {
        let rule = self.rule.to_lowercase().replace('-', "_");
        if let Some(number) = rule.strip_prefix("a_lim_") {
            format!("limit_{number}_")
        } else if VECTORS.contains(&self.rule.as_str()) {
            format!("golden_{rule}_")
        } else if let Ok(number) = rule.parse::<u32>() {
            format!("program_{number:02}_")
        } else {
            format!("{rule}_")
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(root().join("docs/rules-planner.md")).unwrap();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let rows = lines.map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, rule, _, here, _] = columns[..] else {
            panic!("not three columns: {line}")
        };
        Row {
            rule: rule.to_owned(),
            here: here.to_owned(),
        }
    });
    rows.filter(|row| row.here != "here").collect()
}

/// The names of all functions in the sources.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = SOURCES.map(|folder| root().join(folder)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let after = text.split("fn ").skip(1);
                names.extend(after.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
            }
        }
    }
    names
}

#[test]
fn every_rule_is_in_the_table_once() {
    let numbered = RULES
        .iter()
        .flat_map(|(kind, numbers)| numbers.iter().map(move |n| format!("{kind}-{n:02}")));
    let vectors = VECTORS.iter().map(|&name| name.to_owned());
    let programs = (1..=PROGRAMS).map(|number| number.to_string());
    let mut expected: Vec<String> = numbered.chain(vectors).chain(programs).collect();
    let mut found: Vec<String> = rows().into_iter().map(|row| row.rule).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn every_rule_has_tests_or_a_reason() {
    for row in rows() {
        let without = ["no meaning: ", "not offered: "]
            .iter()
            .any(|reason| row.here.starts_with(reason));
        let elsewhere = row.here.starts_with("superseded by ") || row.here.starts_with("see ");
        let named = row.tests().any(|test| test.starts_with(&row.prefix()));
        let tested = named || (elsewhere && row.tests().count() > 0);
        assert!(without != tested, "{}: {}", row.rule, row.here);
    }
}

#[test]
fn every_named_test_exists() {
    let functions = functions();
    for row in rows() {
        let tests = row
            .tests()
            .filter(|name| name.contains('_') && *name != "target_device");
        for test in tests {
            assert!(functions.contains(test), "{}: there is no {test}", row.rule);
        }
    }
}

/// The example of the header that writers and readers of the format agree on.
#[test]
fn golden_eh00_the_bytes_of_a_header() {
    let mut head = vec![0; 8];
    head[4..8].copy_from_slice(b"ET12");
    head.extend([0x65, 0x68, 0x30, 0x30, 0x20, 0x00, 0x00, 0x00]);
    head.extend([0x44, 0x33, 0x44, 0x33, 0x22, 0x11, 0x22, 0x11]);
    head.extend([0x88, 0x77, 0x88, 0x77, 0x66, 0x55, 0x66, 0x55]);
    head.extend([0x22, 0x33, 0x22, 0x33, 0x44, 0x55, 0x44, 0x55]);
    head.resize(64, 0);
    let header = PteHeader::parse(&head).unwrap().unwrap();
    assert_eq!(header.header_len, 32);
    assert_eq!(header.program_size, 0x1122_1122_3344_3344);
    assert_eq!(header.segment_base_offset, 0x5566_5566_7788_7788);
    assert_eq!(header.segment_data_size, Some(0x5544_5544_3322_3322));
}
