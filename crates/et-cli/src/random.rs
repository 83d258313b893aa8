//! Deterministic made-up inputs, for a look at a program without data.

use crate::room::{self, NoRoom};
use crate::value::{Tensor, Value};
use et_schema::ScalarType;
use half::{bf16, f16};

/// A stream of numbers that is the same in every process and on every machine (SplitMix64).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of one call's inputs.
    pub(crate) fn new() -> Self {
        Self(0)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Evenly from -1 to 1, in steps that all float types but the 8-bit ones hold exactly.
    fn unit(&mut self) -> f32 {
        let steps = i16::try_from(self.next() % 257).expect("invariant: below 257");
        f32::from(steps - 128) / 128.0
    }

    /// A small number: integers are often indices into something, so large ones would be out of range.
    fn small(&mut self) -> u8 {
        self.next().to_le_bytes()[0] % 4
    }

    /// A tensor: floats from -1 to 1, integers from 0 to 3, bools of both kinds.
    pub(crate) fn tensor(
        &mut self,
        scalar_type: ScalarType,
        sizes: Vec<usize>,
    ) -> Result<Value, NoRoom> {
        let count: usize = sizes.iter().product();
        let element = usize::try_from(scalar_type.element_size()).unwrap_or(usize::MAX);
        let mut bytes = room::reserve(count.saturating_mul(element))?;
        for _ in 0..count {
            self.element(scalar_type, &mut bytes);
        }
        Ok(Value::Tensor(Tensor {
            scalar_type,
            sizes,
            bytes,
        }))
    }

    fn element(&mut self, scalar_type: ScalarType, bytes: &mut Vec<u8>) {
        match scalar_type {
            ScalarType::Half => bytes.extend(f16::from_f32(self.unit()).to_le_bytes()),
            ScalarType::BFloat16 => bytes.extend(bf16::from_f32(self.unit()).to_le_bytes()),
            ScalarType::Float => bytes.extend(self.unit().to_le_bytes()),
            ScalarType::Double => bytes.extend(f64::from(self.unit()).to_le_bytes()),
            ScalarType::ComplexFloat => {
                bytes.extend(self.unit().to_le_bytes());
                bytes.extend(self.unit().to_le_bytes());
            }
            ScalarType::ComplexDouble => {
                bytes.extend(f64::from(self.unit()).to_le_bytes());
                bytes.extend(f64::from(self.unit()).to_le_bytes());
            }
            ScalarType::Bool => bytes.push(self.small() % 2),
            _ => {
                bytes.push(self.small());
                // The rest of a little-endian number that fits into one byte.
                bytes.extend((1..scalar_type.element_size()).map(|_| 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Tolerances, compare};

    #[test]
    fn the_numbers_are_the_same_every_time() {
        let mut random = Random::new();
        // The first output of SplitMix64 for seed 0, as published with the algorithm.
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        let tensor = || Random::new().tensor(ScalarType::Float, vec![2, 3]).unwrap();
        assert_eq!(tensor(), tensor());
    }

    #[test]
    fn every_type_fills_its_tensor() {
        for scalar_type in ScalarType::all() {
            let tensor = Random::new().tensor(scalar_type, vec![4, 5]);
            let Value::Tensor(tensor) = tensor.unwrap() else {
                panic!("no tensor");
            };
            assert_eq!(tensor.bytes.len() as u64, 20 * scalar_type.element_size());
        }
    }

    #[test]
    fn all_float_types_get_the_same_numbers() {
        let values = |scalar_type| Random::new().tensor(scalar_type, vec![100]).unwrap();
        let as_f32 = |value: Value, read: fn(&[u8]) -> f32, nbytes| match value {
            Value::Tensor(tensor) => tensor
                .bytes
                .chunks_exact(nbytes)
                .map(read)
                .collect::<Vec<_>>(),
            _ => panic!("no tensor"),
        };
        let half = as_f32(
            values(ScalarType::Half),
            |b| f16::from_le_bytes(b.try_into().unwrap()).to_f32(),
            2,
        );
        let brain = as_f32(
            values(ScalarType::BFloat16),
            |b| bf16::from_le_bytes(b.try_into().unwrap()).to_f32(),
            2,
        );
        assert_eq!(half, brain);
        assert!(half.iter().any(|&value| value < -0.5) && half.iter().any(|&value| value > 0.5));
    }

    #[test]
    fn different_numbers_are_not_equal() {
        let mut random = Random::new();
        let (a, b) = (
            random.tensor(ScalarType::Long, vec![64]).unwrap(),
            random.tensor(ScalarType::Long, vec![64]).unwrap(),
        );
        assert!(compare(&a, &b, &Tolerances::default()).is_err());
    }
}
