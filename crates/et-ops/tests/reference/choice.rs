//! Cases as lists of choices: a test draws what it needs, and proptest makes a failing list shorter and its numbers smaller.

use et_kernel::ScalarType;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::array::Array;
use crate::number::Number;

/// Whole and floating point types and truth values: what most operators compute with.
pub(crate) const TYPES: [ScalarType; 10] = [
    ScalarType::Float,
    ScalarType::Long,
    ScalarType::Byte,
    ScalarType::Char,
    ScalarType::Short,
    ScalarType::Int,
    ScalarType::Half,
    ScalarType::BFloat16,
    ScalarType::Double,
    ScalarType::Bool,
];

pub(crate) const FLOATS: [ScalarType; 4] = [
    ScalarType::Float,
    ScalarType::Double,
    ScalarType::Half,
    ScalarType::BFloat16,
];

/// Checks a property of `cases` cases, the same ones every time. With `REFERENCE_FACTOR` set it is as many times more, and others
/// each time.
pub(crate) fn check(cases: u32, property: impl Fn(&mut Choices)) {
    let factor = std::env::var("REFERENCE_FACTOR").map(|factor| factor.parse::<u32>().unwrap());
    let config = ProptestConfig {
        cases: cases * factor.as_ref().unwrap_or(&1),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = match factor {
        Ok(_) => TestRunner::new(config),
        Err(_) => {
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        }
    };
    let choices = prop::collection::vec(any::<u32>(), 48);
    let outcome = runner.run(&choices, |list| {
        property(&mut Choices { list, next: 0 });
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// What tensors are filled with.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fill {
    /// Small numbers, many of them equal.
    Small,
    /// Anything: the ends of whole types, infinities, what is no number.
    Any,
}

/// The choices that make up a case. Where they end the simplest is chosen.
#[derive(Debug)]
pub(crate) struct Choices {
    list: Vec<u32>,
    next: usize,
}

impl Choices {
    fn draw(&mut self) -> u32 {
        let drawn = self.list.get(self.next).copied().unwrap_or(0);
        self.next += 1;
        drawn
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u64::from(self.draw()) * end as u64) >> 32) as usize
    }

    /// A number from `low` to `high`.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    pub(crate) fn truth(&mut self) -> bool {
        self.below(2) == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn fill(&mut self) -> Fill {
        self.pick(&[Fill::Small, Fill::Any])
    }

    /// A shape of few elements, now and then of none.
    pub(crate) fn sizes(&mut self, rank: usize) -> Vec<usize> {
        const SIZES: [usize; 8] = [2, 1, 3, 4, 5, 2, 1, 0];
        let mut sizes: Vec<usize> = (0..rank).map(|_| self.pick(&SIZES)).collect();
        let mut dim = 0;
        while sizes.iter().product::<usize>() > 400 {
            sizes[dim] = 1;
            dim += 1;
        }
        sizes
    }

    /// A shape of up to 6 dimensions.
    pub(crate) fn shape(&mut self) -> Vec<usize> {
        let rank = self.below(7);
        self.sizes(rank)
    }

    /// A shape of at least one dimension, and one of these.
    pub(crate) fn shape_and_dim(&mut self) -> (Vec<usize>, usize) {
        let rank = 1 + self.below(6);
        (self.sizes(rank), self.below(rank))
    }

    /// A dimension as programs name it, from either end.
    pub(crate) fn named(&mut self, dim: usize, rank: usize) -> i64 {
        match self.truth() {
            true => dim as i64 - rank as i64,
            false => dim as i64,
        }
    }

    /// An order for dimensions.
    pub(crate) fn order(&mut self, rank: usize) -> Vec<u8> {
        let mut order: Vec<u8> = (0..rank as u8).collect();
        match self.below(4) {
            1 if rank > 2 => order[1..].rotate_left(1),
            2 if rank > 1 => {
                let (a, b) = (self.below(rank), self.below(rank));
                order.swap(a, b);
            }
            3 => order.reverse(),
            _ => {}
        }
        order
    }

    /// A shape that broadcasts to `sizes`: with ones, and with dimensions missing in front.
    pub(crate) fn narrower(&mut self, sizes: &[usize]) -> Vec<usize> {
        let missing = match self.below(4) {
            0 if !sizes.is_empty() => self.below(sizes.len() + 1),
            _ => 0,
        };
        let hidden = self.draw() & self.draw();
        let sizes = sizes[missing..].iter().enumerate();
        sizes
            .map(|(dim, &size)| if hidden >> dim & 1 == 1 { 1 } else { size })
            .collect()
    }

    /// A tensor in some order.
    pub(crate) fn array(&mut self, dtype: ScalarType, sizes: &[usize], fill: Fill) -> Array {
        let mut texture = Texture(u64::from(self.draw()));
        let mut array = Array::new(dtype, sizes, |_| match fill {
            Fill::Small => texture.small(dtype),
            Fill::Any => texture.any(dtype),
        });
        array.order = self.order(sizes.len());
        array
    }

    /// A tensor of whole numbers from `low` up to but without `end`.
    pub(crate) fn wholes(
        &mut self,
        dtype: ScalarType,
        sizes: &[usize],
        low: i64,
        end: i64,
    ) -> Array {
        let mut texture = Texture(u64::from(self.draw()));
        let span = (end - low).max(1) as u64;
        let mut array = Array::new(dtype, sizes, |_| {
            Number::Whole((low + (texture.next() % span) as i64).into())
        });
        array.order = self.order(sizes.len());
        array
    }
}

/// Numbers without a pattern, all of them from one choice.
struct Texture(u64);

impl Texture {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn small(&mut self, dtype: ScalarType) -> Number {
        let steps = (self.next() % 33) as i128 - 16;
        match dtype.is_floating() {
            true => Number::Float(steps as f64 / 4.0),
            false => Number::Whole(steps / 2),
        }
    }

    fn any(&mut self, dtype: ScalarType) -> Number {
        const ODD: [f64; 10] = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -0.0,
            1e-30,
            -6e4,
            3e38,
            1.0,
            -1.0,
        ];
        let bits = self.next();
        if dtype.is_floating() {
            return Number::Float(match bits % 4 {
                0 => ODD[(bits >> 8) as usize % ODD.len()],
                1 => ((bits >> 8) % 2001) as f64 / 100.0 - 10.0,
                _ => ((bits >> 8) % 2001) as f64 / 500.0 - 2.0,
            });
        }
        let whole = i128::from((bits >> 4) as i64);
        Number::Whole(match bits % 4 {
            0 => i128::from(i64::MIN) + (whole & 1),
            1 => whole,
            // The ends of every type, since they wrap.
            2 => (1i128 << (whole & 63)) - (whole >> 8 & 1),
            _ => (whole >> 8 & 15) - 8,
        })
    }
}
