//! The real files that mutants are made from.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::target::Kind;

/// A file.
pub struct Seed {
    /// Where it is.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// All files below `folder` of this kind whose size is in the class, in order of their paths.
///
/// # Errors
///
/// If there are none, or if one cannot be read.
pub fn find(folder: &Path, kind: Kind, large: bool) -> Result<Vec<Seed>> {
    let mut seeds = Vec::new();
    let extension = kind.extension();
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
        } else if path.extension().is_none_or(|found| found == extension) {
            // Minimised seeds have no extension; nothing else beside real files has none.
            let bytes =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            seeds.push(Seed { path, bytes });
        }
    }
    Ok(())
}
