//! The files that guided runs chose reach more than any others; each has an answer here too.

use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use et_mutator::{Kind, Target, find_seeds};

#[test]
fn every_chosen_file_has_an_answer() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds");
    for kind in Kind::value_variants() {
        let name = format!("{kind:?}").to_lowercase();
        let target = Target::new(*kind, Duration::from_secs(10));
        let seeds = find_seeds(&base.join(name), *kind, false).expect("each kind has files");
        for seed in seeds {
            if let Err(fault) = target.check(seed.bytes) {
                panic!("{}: {fault}", seed.path.display());
            }
        }
    }
}
