//! The tables of rules in `docs` name tests that exist, and leave out no rule.

use et_tests::rules::{Rules, after_the_rule, numbered};

/// The rules of each kind, numbered from 1, and then those where we do better.
fn counted(kinds: &[(&str, u32)], better: &[u32]) -> Vec<String> {
    let rules = kinds
        .iter()
        .flat_map(|&(kind, count)| numbered(kind, 1..=count));
    rules.chain(numbered("B", better.iter().copied())).collect()
}

fn chosen(kinds: &[(&str, &[u32])]) -> Vec<String> {
    kinds
        .iter()
        .flat_map(|&(kind, numbers)| numbered(kind, numbers.iter().copied()))
        .collect()
}

#[test]
fn rules_of_devices_and_memory() {
    let kinds = [
        ("R-DEV", 7),
        ("R-DA", 3),
        ("R-REG", 8),
        ("R-DMB", 9),
        ("R-MA", 10),
        ("R-HA", 7),
        ("R-MM", 6),
    ];
    let better = [4, 5, 7, 20, 21, 22, 23, 24, 25, 26, 27, 39, 42, 44, 58, 59];
    let rules = Rules {
        file: "rules-memory.md",
        rules: counted(&kinds, &better),
        sources: &[
            "crates/et-device",
            "crates/et-memory",
            "crates/et-sim",
            "tests/tests",
        ],
        prefix: Some(after_the_rule),
    };
    rules.check();
}

#[test]
fn rules_of_programs_and_methods() {
    let kinds = [
        ("R-TI", 8),
        ("R-RSZ", 8),
        ("R-TD", 6),
        ("R-TL", 1),
        ("R-PROG", 22),
        ("R-VAL", 5),
        ("R-TP", 23),
        ("R-META", 12),
        ("R-INIT", 14),
        ("R-INP", 11),
        ("R-OUT", 4),
        ("R-ATT", 1),
        ("R-EXE", 6),
        ("R-STEP", 5),
        ("R-INS", 6),
        ("R-BE", 1),
        ("R-DEL", 9),
        ("R-OPT", 4),
        ("R-KRN", 8),
        ("R-COPY", 6),
        ("R-MOD", 14),
        ("R-TPTR", 8),
        ("R-LDR", 5),
        ("R-NDM", 4),
        ("R-PTD", 3),
    ];
    let better = [
        1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 28, 29, 30, 31, 32, 33, 34,
        35, 36, 37, 38, 40, 41, 42, 43, 47, 48, 49, 50, 51, 52, 53, 54, 56, 57, 60,
    ];
    let rules = Rules {
        file: "rules-module.md",
        rules: counted(&kinds, &better),
        sources: &["crates", "tests/tests"],
        prefix: None,
    };
    rules.check();
}

#[test]
fn rules_of_cuda_and_its_copies() {
    let rules = Rules {
        file: "rules-cuda.md",
        rules: counted(
            &[("R-CUDA", 8), ("R-STR", 3), ("R-COPY", 6)],
            &[11, 20, 21, 44, 45],
        ),
        sources: &["crates/et-cuda/tests", "tests/tests/cuda"],
        prefix: Some(after_the_rule),
    };
    rules.check();
}

/// Plans of the reference that were executed.
const VECTORS: [&str; 21] = [
    "G01", "G02", "G03", "G03b", "G04", "G05", "G06", "G07", "G08", "G09", "G09b", "G10", "G11",
    "G15", "N12", "N12b", "N13", "GA1", "GI1", "7.10", "eh00",
];

#[test]
fn rules_of_planning() {
    let kinds: [(&str, &[u32]); 5] = [
        (
            "A-PROP",
            &[
                1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 30, 31, 32,
                40, 41,
            ],
        ),
        ("A-CFG", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ("A-DEV", &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (
            "A-INS",
            &[
                1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 30, 31, 32, 40, 41, 42,
                50, 51, 52, 53, 54, 55, 56,
            ],
        ),
        ("A-OPT", &[1, 2, 3, 4, 5]),
    ];
    let mut rules = chosen(&kinds);
    rules.extend(VECTORS.map(String::from));
    rules.extend((1..=15).map(|program| program.to_string()));
    rules.extend(numbered("A-LIM", 1..=28));
    let rules = Rules {
        file: "rules-planner.md",
        rules,
        sources: &[
            "crates/et-planner",
            "crates/et-cli/tests",
            "crates/et-schema",
            "tests/tests",
        ],
        prefix: Some(of_planning),
    };
    rules.check();
}

fn of_planning(rule: &str) -> String {
    let usual = after_the_rule(rule);
    if let Some(limit) = usual.strip_prefix("a_lim_") {
        format!("limit_{limit}")
    } else if VECTORS.contains(&rule) {
        format!("golden_{usual}")
    } else if let Ok(program) = rule.parse::<u32>() {
        format!("program_{program:02}_")
    } else {
        usual
    }
}

/// What went wrong elsewhere, by group.
const FAULTS: [(&str, &[u32]); 13] = [
    ("A", &[1, 2, 4, 5, 7, 11, 12, 13, 14, 16, 17]),
    ("B", &[1, 2, 3, 4, 7, 9, 10, 12, 14, 15, 16, 18, 19]),
    ("C", &[1, 2, 4, 7, 8, 9, 11, 12, 13, 15]),
    ("D", &[1, 3, 5, 6]),
    ("E", &[1, 3, 4, 5, 8]),
    ("F", &[2, 4, 5, 6, 7, 9, 10, 14, 15, 16, 17]),
    ("G", &[1, 2, 4, 5, 6, 8, 9, 11, 12, 15, 16]),
    ("H", &[1, 2, 5, 6, 7, 9, 10, 11, 14, 15, 17, 18, 20, 24]),
    ("I", &[1, 3, 4, 6, 7]),
    ("J", &[1, 2, 4, 5, 9, 10, 12, 13, 14]),
    ("K", &[1, 2, 4, 6]),
    ("L", &[1, 3, 4, 6]),
    ("M", &[1, 2, 4, 5, 6, 7]),
];

#[test]
fn faults_of_others() {
    let rules = FAULTS
        .iter()
        .flat_map(|(group, numbers)| numbers.iter().map(move |number| format!("{group}{number}")));
    let rules = Rules {
        file: "rules-faults.md",
        rules: rules.collect(),
        sources: &["crates", "tests/tests"],
        prefix: None,
    };
    rules.check();
}
