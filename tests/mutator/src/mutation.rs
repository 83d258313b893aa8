//! Case numbers and the mutants they stand for.
//!
//! The first cases are systematic: for each file each word of 2, 4 and 8 bytes at each position that is a multiple of its size
//! is set to each edge value, and the file is cut at each length. The cases behind those are random: several words at once,
//! words exchanged, bits flipped, and edits through the schema, or of the text.

use crate::random::Random;
use crate::seeds::Seed;
use crate::target::Kind;
use crate::{edit, text};

/// What a word is set to, cut to its size.
const EDGES: [u64; 10] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
const WIDTHS: [usize; 3] = [2, 4, 8];

/// A mutant, and words for what was done.
pub struct Mutant {
    /// Which file it was made from.
    pub seed: usize,
    /// What it is.
    pub bytes: Vec<u8>,
    /// What was done.
    pub what: String,
}

/// All cases over some seeds.
pub struct Cases<'a> {
    kind: Kind,
    seeds: &'a [Seed],
    /// For each seed, the number of its first systematic case.
    starts: Vec<u64>,
    systematic: u64,
    random_seed: u64,
}

impl<'a> Cases<'a> {
    /// `systematic` leaves the systematic cases out if it is false.
    #[must_use]
    pub fn new(kind: Kind, seeds: &'a [Seed], random_seed: u64, systematic: bool) -> Self {
        let mut starts = Vec::with_capacity(seeds.len());
        let mut total = 0;
        for seed in seeds {
            starts.push(total);
            total += if systematic {
                count(seed.bytes.len())
            } else {
                0
            };
        }
        Self {
            kind,
            seeds,
            starts,
            systematic: total,
            random_seed,
        }
    }

    /// How many cases are systematic.
    #[must_use]
    pub fn systematic(&self) -> u64 {
        self.systematic
    }

    /// The mutant that a number stands for.
    #[must_use]
    pub fn mutant(&self, case: u64) -> Mutant {
        if case < self.systematic {
            let seed = self.starts.partition_point(|&start| start <= case) - 1;
            return self.systematic_mutant(seed, case - self.starts[seed]);
        }
        let mut random = Random::new(self.random_seed, case);
        let seed = random.below(self.seeds.len());
        let (bytes, what) = change(self.kind, &self.seeds[seed].bytes, &mut random);
        Mutant { seed, bytes, what }
    }

    fn systematic_mutant(&self, seed: usize, mut at: u64) -> Mutant {
        let mut bytes = self.seeds[seed].bytes.clone();
        for width in WIDTHS {
            let cases = (bytes.len() / width * EDGES.len()) as u64;
            if at < cases {
                let at = at as usize;
                let (position, edge) = (at / EDGES.len() * width, EDGES[at % EDGES.len()]);
                set(&mut bytes, position, width, edge);
                return Mutant {
                    seed,
                    bytes,
                    what: format!("{width} bytes at {position} set to {edge:#x}"),
                };
            }
            at -= cases;
        }
        let len = at as usize;
        bytes.truncate(len);
        Mutant {
            seed,
            bytes,
            what: format!("cut to {len} bytes"),
        }
    }
}

/// A change of one file, chosen by a number.
#[must_use]
pub fn mutate(kind: Kind, original: &[u8], random_seed: u64) -> Vec<u8> {
    change(kind, original, &mut Random::new(random_seed, 0)).0
}

fn change(kind: Kind, original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    match random.below(8) {
        0 => exchange(original, random),
        1 => flip(original, random),
        2 => cut(original, random),
        3 | 4 => set_words(original, random),
        _ if kind.is_text() => text::edit(original, random),
        _ => edit::through_schema(original, random).unwrap_or_else(|| set_words(original, random)),
    }
}

/// How many systematic mutants a file of `len` bytes has.
fn count(len: usize) -> u64 {
    let words: usize = WIDTHS.iter().map(|width| len / width * EDGES.len()).sum();
    (words + len) as u64
}

fn set(bytes: &mut [u8], position: usize, width: usize, value: u64) {
    let value = value.to_le_bytes();
    for (byte, new) in bytes.iter_mut().skip(position).take(width).zip(value) {
        *byte = new;
    }
}

fn set_words(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = original.to_vec();
    let mut what = Vec::new();
    for _ in 0..=random.below(3) {
        let width = random.pick(&WIDTHS).unwrap_or(4);
        let position = random.below(bytes.len() / width) * width;
        let value = match random.below(3) {
            0 => random.next(),
            1 => random.below(original.len()) as u64,
            _ => random.pick(&EDGES).unwrap_or(0),
        };
        set(&mut bytes, position, width, value);
        what.push(format!("{width} bytes at {position} set to {value:#x}"));
    }
    (bytes, what.join(", "))
}

fn exchange(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = original.to_vec();
    let width = random.pick(&WIDTHS).unwrap_or(4);
    let mut place = || random.below(original.len() / width) * width;
    let (a, b) = (place(), place());
    // A file may be shorter than a word.
    for i in 0..width.min(bytes.len()) {
        bytes.swap(a + i, b + i);
    }
    (bytes, format!("{width} bytes at {a} and {b} exchanged"))
}

fn flip(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let mut bytes = original.to_vec();
    let mut what = Vec::new();
    for _ in 0..=random.below(4) {
        let (position, bit) = (random.below(bytes.len()), random.below(8));
        if let Some(byte) = bytes.get_mut(position) {
            *byte ^= 1 << bit;
        }
        what.push(format!("bit {bit} of byte {position} flipped"));
    }
    (bytes, what.join(", "))
}

fn cut(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let start = random.below(original.len());
    let len = random.below(original.len() - start);
    let mut bytes = original.to_vec();
    bytes.drain(start..start + len);
    (bytes, format!("{len} bytes at {start} taken out"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn files_of_any_length_can_be_changed() {
        for len in 0..20 {
            let original: Vec<u8> = (0..len).collect();
            for kind in Kind::value_variants() {
                for seed in 0..100 {
                    assert!(mutate(*kind, &original, seed).len() < 4096);
                }
            }
        }
    }
}
