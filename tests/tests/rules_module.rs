//! The table of rules in `docs/rules-module.md` names tests that exist, and leaves out no rule.

use et_tests::Rules;

const RULES: Rules = Rules {
    file: "rules-module.md",
    kinds: &[
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
    ],
    better: &[
        1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 28, 29, 30, 31, 32, 33, 34,
        35, 36, 37, 38, 40, 41, 42, 43, 47, 48, 49, 50, 51, 52, 53, 54, 56, 57, 60,
    ],
    sources: &["crates", "tests/tests"],
    tests_are_named_after_rules: false,
};

#[test]
fn every_rule_is_in_the_table_once_and_in_order() {
    RULES.expect_all_in_order();
}

#[test]
fn every_rule_has_tests_or_a_reason() {
    RULES.expect_tests_or_reasons();
}

#[test]
fn every_named_test_exists() {
    RULES.expect_named_tests_exist();
}
