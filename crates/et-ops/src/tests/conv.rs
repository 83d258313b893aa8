//! Convolution against its definition.

use et_kernel::ScalarType;
use proptest::prelude::*;

use crate::testing::{Op, assert_close};

const F: ScalarType = ScalarType::Float;

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    groups: usize,
    /// Per group.
    channels: [usize; 2],
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    transposed: bool,
    channels_last: bool,
    bias: bool,
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7 + seed * 13) % 23) as f32 * 0.25 - 2.5)
        .collect()
}

/// The output's size and elements, by definition.
fn naive(case: &Case, x: &[f32], w: &[f32], bias: &[f32]) -> Option<(Vec<usize>, Vec<f32>)> {
    let [inc, outc] = case.channels;
    let mut size = [0; 2];
    for (d, size) in size.iter_mut().enumerate() {
        let reach = (case.kernel[d] - 1) * case.dilation[d] + 1;
        *size = if case.transposed {
            ((case.size[d] - 1) * case.stride[d] + reach).checked_sub(2 * case.padding[d])?
        } else {
            (case.size[d] + 2 * case.padding[d]).checked_sub(reach)? / case.stride[d] + 1
        };
    }
    let (ins, outs) = (inc * case.groups, outc * case.groups);
    let mut out = vec![0f64; case.batch * outs * size[0] * size[1]];
    for n in 0..case.batch {
        for (o, bias) in bias.iter().enumerate() {
            let g = o / outc;
            let plane = (n * outs + o) * size[0] * size[1];
            if case.bias {
                out[plane..plane + size[0] * size[1]].fill(f64::from(*bias));
            }
            for i in 0..inc {
                let channel = g * inc + i;
                for ky in 0..case.kernel[0] {
                    for kx in 0..case.kernel[1] {
                        let (first, second) = if case.transposed {
                            (channel, o % outc)
                        } else {
                            (o, i)
                        };
                        let seconds = if case.transposed { outc } else { inc };
                        let weight = w[((first * seconds + second) * case.kernel[0] + ky)
                            * case.kernel[1]
                            + kx];
                        let steps = if case.transposed { case.size } else { size };
                        for y in 0..steps[0] {
                            for x_at in 0..steps[1] {
                                let far = |at: usize, k: usize, d: usize| {
                                    (at * case.stride[d] + k * case.dilation[d])
                                        .checked_sub(case.padding[d])
                                };
                                let (Some(fy), Some(fx)) = (far(y, ky, 0), far(x_at, kx, 1)) else {
                                    continue;
                                };
                                let limit = if case.transposed { size } else { case.size };
                                if fy >= limit[0] || fx >= limit[1] {
                                    continue;
                                }
                                let (from, to) = if case.transposed {
                                    ([y, x_at], [fy, fx])
                                } else {
                                    ([fy, fx], [y, x_at])
                                };
                                let source = ((n * ins + channel) * case.size[0] + from[0])
                                    * case.size[1]
                                    + from[1];
                                out[plane + to[0] * size[1] + to[1]] +=
                                    f64::from(x[source] * weight);
                            }
                        }
                    }
                }
            }
        }
    }
    Some((
        vec![case.batch, outs, size[0], size[1]],
        out.into_iter().map(|x| x as f32).collect(),
    ))
}

/// The operator with room for an output of `numel` elements.
fn op(case: &Case, x: &[f32], w: &[f32], bias: &[f32], numel: usize) -> Op {
    let [inc, outc] = case.channels;
    let ints = |list: [usize; 2]| list.map(|x| x as i64);
    let order: &[u8] = if case.channels_last {
        &[0, 2, 3, 1]
    } else {
        &[0, 1, 2, 3]
    };
    let [k0, k1] = case.kernel;
    let weight_sizes = if case.transposed {
        [inc * case.groups, outc, k0, k1]
    } else {
        [outc * case.groups, inc, k0, k1]
    };
    let op = Op::new("aten::convolution.out")
        .ordered(
            x,
            &[case.batch, inc * case.groups, case.size[0], case.size[1]],
            order,
        )
        .ordered(w, &weight_sizes, order);
    let op = if case.bias {
        op.tensor(bias, &[outc * case.groups])
    } else {
        op.none()
    };
    op.ints(&ints(case.stride))
        .ints(&ints(case.padding))
        .ints(&ints(case.dilation))
        .boolean(case.transposed)
        .ints(&[0, 0])
        .int(case.groups as i64)
        .out_of(F, order, numel)
}

fn check(case: &Case) {
    let [inc, outc] = case.channels;
    let x = numbers(
        case.batch * inc * case.groups * case.size[0] * case.size[1],
        1,
    );
    let w = numbers(
        case.groups * inc * outc * case.kernel[0] * case.kernel[1],
        2,
    );
    let bias = numbers(outc * case.groups, 3);
    match naive(case, &x, &w, &bias) {
        Some((sizes, expected)) => {
            let done = op(case, &x, &w, &bias, expected.len()).run().unwrap();
            assert_eq!(done.sizes(0), sizes);
            // Sums of thousands of terms that cancel each other lose digits.
            let terms = (case.channels[0] * case.kernel[0] * case.kernel[1]) as f32;
            assert_close(&done.elements::<f32>(0), &expected, 1e-5 * terms.max(10.0));
        }
        None => op(case, &x, &w, &bias, 1).fails("kernel.invalid-argument"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn convolution_is_what_it_says(
        batch in 1usize..3, groups in 1usize..4, channels in [1usize..4, 1usize..4],
        size in [1usize..9, 1usize..9], kernel in [1usize..4, 1usize..4], stride in [1usize..4, 1usize..3],
        padding in [0usize..3, 0usize..3], dilation in [1usize..3, 1usize..3],
        transposed: bool, channels_last: bool, bias: bool,
    ) {
        check(&Case { batch, groups, channels, size, kernel, stride, padding, dilation, transposed, channels_last, bias });
    }
}

#[test]
fn groups_must_divide_the_channels() {
    let op = |groups, weight: &[usize]| {
        Op::new("aten::convolution.out")
            .tensor(&[1f32; 3 * 4], &[1, 3, 2, 2])
            .tensor(&vec![1f32; weight.iter().product()], weight)
            .none()
            .ints(&[1, 1])
            .ints(&[0, 0])
            .ints(&[1, 1])
            .boolean(false)
            .ints(&[0, 0])
            .int(groups)
            .out(F, 4)
    };
    op(2, &[2, 1, 1, 1]).fails("kernel.invalid-argument");
    op(0, &[2, 3, 1, 1]).fails("kernel.invalid-argument");
    op(-1, &[2, 3, 1, 1]).fails("kernel.invalid-argument");
    op(1, &[2, 2, 1, 1]).fails("kernel.invalid-argument");
    op(1, &[2, 3, 3, 3]).fails("kernel.invalid-argument");
    op(1, &[2, 3, 1, 1]).gives(&[3f32; 8], &[1, 2, 2, 2]);
}

#[test]
fn one_dimension_without_a_batch() {
    Op::new("aten::convolution.out")
        .tensor(&[1f32, 2., 3., 4.], &[1, 4])
        .tensor(&[1f32, 10.], &[1, 1, 2])
        .none()
        .ints(&[1])
        .ints(&[0])
        .ints(&[2])
        .boolean(false)
        .ints(&[0])
        .int(1)
        .out(F, 2)
        .gives(&[31f32, 42.], &[1, 2]);
}

#[test]
fn wide_images_channel_by_channel() {
    for kernel in [3, 5, 4] {
        for stride in [1, 2, 3] {
            for channels_last in [false, true] {
                check(&Case {
                    batch: 1,
                    groups: 3,
                    channels: [1, 1],
                    size: [11, 70],
                    kernel: [kernel; 2],
                    stride: [1, stride],
                    padding: [1, 2],
                    dilation: [1, 1],
                    transposed: false,
                    channels_last,
                    bias: true,
                });
            }
        }
    }
}

#[test]
fn small_images_channel_by_channel() {
    for edge in 1..=18 {
        for (kernel, stride, padding) in [
            (3, 1, 1),
            (3, 2, 1),
            (5, 1, 2),
            (5, 2, 2),
            (3, 2, 2),
            (3, 4, 1),
        ] {
            check(&Case {
                batch: 1,
                groups: 3,
                channels: [1, 2],
                size: [edge, 19 - edge],
                kernel: [kernel; 2],
                stride: [stride; 2],
                padding: [padding; 2],
                dilation: [1, 1],
                transposed: false,
                channels_last: false,
                bias: true,
            });
        }
    }
}

#[test]
fn more_windows_than_are_made_at_a_time() {
    for (transposed, channels_last) in [(false, false), (false, true), (true, false), (true, true)]
    {
        // So many channels that a block is a part of a row.
        check(&Case {
            batch: 1,
            groups: 1,
            channels: [700, 2],
            size: [3, 40],
            kernel: [3, 3],
            stride: [1, 1],
            padding: [1, 1],
            dilation: [1, 1],
            transposed,
            channels_last,
            bias: false,
        });
    }
    check(&Case {
        batch: 1,
        groups: 1,
        channels: [2, 700],
        size: [1, 40],
        kernel: [3, 3],
        stride: [1, 1],
        padding: [1, 20],
        dilation: [1, 1],
        transposed: true,
        channels_last: false,
        bias: false,
    });
}
