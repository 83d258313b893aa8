//! The real files that mutants are made from.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A file and how many systematic mutants it has.
pub(crate) struct Seed {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// All files below `folder` with this extension whose size is in the class, in order of their paths.
pub(crate) fn find(folder: &Path, extension: &str, large: bool) -> Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    visit(folder, extension, &mut seeds)?;
    seeds.retain(|seed: &Seed| (seed.bytes.len() > SMALL) == large);
    seeds.sort_by(|a, b| a.path.cmp(&b.path));
    if seeds.is_empty() {
        bail!(
            "there is no .{extension} file of this class below {}",
            folder.display()
        );
    }
    Ok(seeds)
}

/// The largest file of the small class, in bytes.
const SMALL: usize = 4096;

fn visit(folder: &Path, extension: &str, seeds: &mut Vec<Seed>) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, extension, seeds)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            let bytes =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            seeds.push(Seed { path, bytes });
        }
    }
    Ok(())
}
