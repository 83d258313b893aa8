//! The table of rules in `docs/rules-cuda.md` names tests that exist, and leaves out no rule.

use et_tests::Rules;

const RULES: Rules = Rules {
    file: "rules-cuda.md",
    kinds: &[("R-CUDA", 8), ("R-STR", 3), ("R-COPY", 6)],
    better: &[11, 20, 21, 44, 45],
    sources: &["crates/et-cuda/tests", "tests/tests/cuda"],
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
