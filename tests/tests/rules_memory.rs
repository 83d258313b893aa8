//! The table of rules in `docs/rules-memory.md` names tests that exist, and leaves out no rule.

use et_tests::Rules;

const RULES: Rules = Rules {
    file: "rules-memory.md",
    kinds: &[
        ("R-DEV", 7),
        ("R-DA", 3),
        ("R-REG", 8),
        ("R-DMB", 9),
        ("R-MA", 10),
        ("R-HA", 7),
        ("R-MM", 6),
    ],
    better: &[4, 5, 7, 20, 21, 22, 23, 24, 25, 26, 27, 39, 42, 44, 58, 59],
    sources: &[
        "crates/et-device",
        "crates/et-memory",
        "crates/et-sim",
        "tests/tests",
    ],
    tests_are_named_after_rules: true,
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
