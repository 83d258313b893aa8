//! Images made larger or smaller.

use crate::array::Array;
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::Float;

/// Input and output sizes of an image, by a size or by factors.
struct Case {
    from: [usize; 2],
    to: [usize; 2],
    factors: Option<[f64; 2]>,
}

impl Case {
    fn draw(choices: &mut Choices) -> Self {
        let from = [0; 2].map(|_| choices.within(1, 6) as usize);
        if choices.truth() {
            let to = [0; 2].map(|_| choices.within(1, 9) as usize);
            return Self {
                from,
                to,
                factors: None,
            };
        }
        let factors = [0; 2].map(|_| choices.pick(&[2.0, 1.5, 1.0, 3.0, 0.5]));
        let mut to = [0; 2];
        for i in 0..2 {
            to[i] = (from[i] as f64 * factors[i]).floor() as usize;
        }
        Self {
            from,
            to,
            factors: Some(factors),
        }
    }

    /// Input pixels per output pixel.
    fn step(&self, d: usize) -> f64 {
        match self.factors {
            Some(factors) => 1.0 / factors[d],
            None => self.from[d] as f64 / self.to[d] as f64,
        }
    }

    /// The size and the factors as a program gives them, in one of two ways.
    fn add(&self, call: Call, by_lists: bool, corners: Option<bool>) -> Call {
        let flag = |call: Call| match corners {
            Some(corners) => call.truth(corners),
            None => call,
        };
        match (by_lists, self.factors) {
            (true, Some(factors)) => flag(call.none()).doubles(&factors),
            (true, None) => flag(call.ints(&self.to)).none(),
            (false, Some([y, x])) => flag(call.ints(&self.to)).double(y).double(x),
            (false, None) => flag(call.ints(&self.to)).none().none(),
        }
    }
}

#[test]
fn the_nearest_pixel() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let case = Case::draw(choices);
        let outer = [choices.below(3), choices.below(4)];
        let fill = choices.fill();
        let x = choices.array(dtype, &[outer, case.from].concat(), fill);
        let by_lists = choices.truth();
        let call = Call::new(match by_lists {
            true => "aten::upsample_nearest2d.vec_out",
            false => "aten::upsample_nearest2d.out",
        });
        let call = case
            .add(call.tensor(&x), by_lists, None)
            .out(choices, dtype, 4);
        if case.to.contains(&0) {
            return call.fails(choices);
        }
        let expected = Array::new(dtype, &[outer, case.to].concat(), |i| {
            let place = |d: usize| {
                let at = (i[2 + d] as f32 * case.step(d) as f32).floor() as usize;
                at.min(case.from[d] - 1)
            };
            x.at(&[i[0], i[1], place(0), place(1)])
        });
        call.gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn between_four_pixels() {
    check(200, |choices| {
        let dtype = choices.pick(&FLOATS);
        let case = Case::draw(choices);
        let corners = choices.truth();
        let outer = [choices.below(3), choices.below(4)];
        let x = choices.array(dtype, &[outer, case.from].concat(), Fill::Small);
        let by_lists = choices.truth();
        let call = Call::new(match by_lists {
            true => "aten::upsample_bilinear2d.vec_out",
            false => "aten::upsample_bilinear2d.out",
        });
        let call = case
            .add(call.tensor(&x), by_lists, Some(corners))
            .out(choices, dtype, 4);
        if case.to.contains(&0) {
            return call.fails(choices);
        }
        let place = |d: usize, at: usize| -> f64 {
            match corners {
                true if case.to[d] > 1 => {
                    at as f64 * (case.from[d] - 1) as f64 / (case.to[d] - 1) as f64
                }
                true => 0.0,
                false => ((at as f64 + 0.5) * case.step(d) - 0.5).max(0.0),
            }
        };
        let expected = Array::new(dtype, &[outer, case.to].concat(), |i| {
            let [y, x_place] = [0, 1].map(|d| place(d, i[2 + d]));
            // Weights of the pixels around: a tent of width 1 over each, with the edge going on.
            let mut sum = 0.0;
            for row in 0..=case.from[0] {
                for column in 0..=case.from[1] {
                    let weight = |at: f64, pixel: usize| (1.0 - (at - pixel as f64).abs()).max(0.0);
                    let pixel = [row.min(case.from[0] - 1), column.min(case.from[1] - 1)];
                    let weight = weight(y, row) * weight(x_place, column);
                    sum += weight * x.at(&[i[0], i[1], pixel[0], pixel[1]]).float();
                }
            }
            Float(sum)
        });
        call.gives(choices, &[&expected], 8.0);
    });
}
