//! Products against sums of `f64`, for sizes around the edges of tiles and blocks.

use std::num::NonZeroUsize;

use et_kernel::Workers;
use et_memory::Arena;
use proptest::prelude::*;

use super::{
    Bias, Ending, Extent, Frame, Line, Matrix, MatrixMut, Plane, Product, Room, Series, Slide,
};

/// How the elements of a matrix lie.
#[derive(Clone, Copy, Debug)]
enum Order {
    Rows,
    Columns,
    /// Rows with gaps between them.
    Padded,
    /// Elements with gaps between them.
    Spread,
}

const ORDERS: [Order; 4] = [Order::Rows, Order::Columns, Order::Padded, Order::Spread];

impl Order {
    /// The row and the column stride, and how many elements there are.
    fn strides(self, rows: usize, columns: usize) -> [usize; 3] {
        let [row, column] = match self {
            Self::Rows => [columns, 1],
            Self::Columns => [1, rows],
            Self::Padded => [columns + 3, 1],
            Self::Spread => [2, 2 * rows + 1],
        };
        let last = |n: usize| n.saturating_sub(1);
        let len = if rows * columns == 0 {
            0
        } else {
            last(rows) * row + last(columns) * column + 1
        };
        [row, column, len]
    }
}

trait Real: Product {
    fn new(x: f64) -> Self;
    fn get(self) -> f64;
}

impl Real for f32 {
    fn new(x: f64) -> Self {
        x as Self
    }
    fn get(self) -> f64 {
        f64::from(self)
    }
}

impl Real for f64 {
    fn new(x: f64) -> Self {
        x
    }
    fn get(self) -> f64 {
        self
    }
}

/// Small whole numbers and halves of them, so that any order of additions gives the same sum; what lies between elements is
/// no number and must not be used.
fn filled<T: Real>(rows: usize, columns: usize, order: Order, seed: usize) -> Vec<T> {
    let [row, column, len] = order.strides(rows, columns);
    let mut elements = vec![T::new(f64::NAN); len];
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    for i in 0..rows {
        for j in 0..columns {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let x = (state >> 33) % 17;
            elements[i * row + j * column] = T::new(x as f64 / 2.0 - 4.0);
        }
    }
    elements
}

#[track_caller]
fn check<T: Real>(extent: Extent, orders: [Order; 3], accumulate: bool) {
    check_with::<T>(&mut Room::new(&Arena::new()), extent, orders, accumulate);
}

#[track_caller]
fn check_with<T: Real>(
    room: &mut Room<'_, T>,
    extent: Extent,
    [out_order, a_order, b_order]: [Order; 3],
    accumulate: bool,
) {
    let Extent { m, n, k } = extent;
    let a = filled::<T>(m, k, a_order, 1);
    let b = filled::<T>(k, n, b_order, 2);
    let mut out = filled::<T>(m, n, out_order, 3);
    let before = out.clone();
    let [a_row, a_column, _] = a_order.strides(m, k);
    let [b_row, b_column, _] = b_order.strides(k, n);
    let [out_row, out_column, _] = out_order.strides(m, n);
    let (row_bias, column_bias) = (
        filled::<T>(m, 1, Order::Rows, 4),
        filled::<T>(n, 1, Order::Rows, 5),
    );
    let (row_factors, column_factors) = (
        filled::<T>(m, 1, Order::Rows, 6),
        filled::<T>(n, 1, Order::Rows, 7),
    );
    let (kind, bounds) = ((m + n + k) % 4, [-40.5, 60.0]);
    let ending = Ending {
        bias: match kind {
            0 => Bias::Rows(Line {
                factors: Some(&row_factors),
                terms: &row_bias,
            }),
            1 => Bias::Columns(Line {
                factors: Some(&column_factors),
                terms: &column_bias,
            }),
            _ => Bias::Nothing,
        },
        low: T::new(bounds[0]),
        high: T::new(bounds[1]),
    };
    let ending = if kind == 3 { Ending::NOTHING } else { ending };
    T::multiply(
        room,
        extent,
        MatrixMut {
            elements: &mut out,
            row_stride: out_row,
            column_stride: out_column,
        },
        accumulate,
        Matrix {
            elements: &a,
            row_stride: a_row,
            column_stride: a_column,
        },
        Matrix {
            elements: &b,
            row_stride: b_row,
            column_stride: b_column,
        },
        &ending,
    )
    .unwrap();
    let mut expected = before;
    for i in 0..m {
        for j in 0..n {
            let terms = (0..k)
                .map(|l| a[i * a_row + l * a_column].get() * b[l * b_row + j * b_column].get());
            let to = &mut expected[i * out_row + j * out_column];
            let start = if accumulate { to.get() } else { 0.0 };
            let sum = start + terms.sum::<f64>();
            let found = match kind {
                0 => sum * row_factors[i].get() + row_bias[i].get(),
                1 => sum * column_factors[j].get() + column_bias[j].get(),
                _ => sum,
            };
            *to = T::new(if kind == 3 {
                found
            } else {
                found.clamp(bounds[0], bounds[1])
            });
        }
    }
    for (at, (found, expected)) in out.iter().zip(&expected).enumerate() {
        let (found, expected) = (found.get(), expected.get());
        assert!(
            found == expected || found.is_nan() && expected.is_nan(),
            "{extent:?} {out_order:?} {a_order:?} {b_order:?}: {found} instead of {expected} at {at}"
        );
    }
}

/// Three products of a series, with gaps between the matrices, by definition and as they are made.
#[track_caller]
fn check_each<T: Real>(extent: Extent, [out_order, a_order, b_order]: [Order; 3], is_one: bool) {
    let Extent { m, n, k } = extent;
    let (out_strides, a_strides, b_strides) = (
        out_order.strides(m, n),
        a_order.strides(m, k),
        b_order.strides(k, n),
    );
    // One of the operands may be the same for all.
    let steps = [
        out_strides[2] + 1,
        a_strides[2],
        if is_one { 0 } else { b_strides[2] + 2 },
    ];
    let three = |rows, columns, order: Order, step: usize, seed| {
        let mut all = vec![T::new(f64::NAN); 2 * step];
        for i in 0..3 {
            let one = filled::<T>(rows, columns, order, seed + if step == 0 { 0 } else { i });
            let end = i * step + one.len();
            all.resize(all.len().max(end), T::new(f64::NAN));
            all[i * step..end].copy_from_slice(&one);
        }
        all
    };
    let a = three(m, k, a_order, steps[1], 1);
    let b = three(k, n, b_order, steps[2], 2);
    let mut out = three(m, n, out_order, steps[0], 3);
    let mut expected = out.clone();
    let bias = filled::<T>(n, 1, Order::Rows, 5);
    for p in 0..3 {
        for i in 0..m {
            for j in 0..n {
                let terms = (0..k).map(|l| {
                    let a = a[p * steps[1] + i * a_strides[0] + l * a_strides[1]];
                    a.get() * b[p * steps[2] + l * b_strides[0] + j * b_strides[1]].get()
                });
                let at = p * steps[0] + i * out_strides[0] + j * out_strides[1];
                expected[at] = T::new(bias[j].get() + terms.sum::<f64>());
            }
        }
    }
    let [a, b] = [(&a, a_strides), (&b, b_strides)].map(|(elements, [row, column, _])| Matrix {
        elements,
        row_stride: row,
        column_stride: column,
    });
    let to = MatrixMut {
        elements: &mut out,
        row_stride: out_strides[0],
        column_stride: out_strides[1],
    };
    let ending = Ending {
        bias: Bias::Columns(Line::new(&bias)),
        ..Ending::NOTHING
    };
    let series = Series { len: 3, steps };
    T::multiply_each(
        &mut Room::new(&Arena::new()),
        series,
        extent,
        to,
        a,
        b,
        &ending,
    )
    .unwrap();
    for (at, (found, expected)) in out.iter().zip(&expected).enumerate() {
        let (found, expected) = (found.get(), expected.get());
        assert!(
            found == expected || found.is_nan() && expected.is_nan(),
            "{extent:?} {out_order:?} {a_order:?} {b_order:?}: {found} instead of {expected} at {at}"
        );
    }
}

#[test]
fn products_of_a_series() {
    for m in 1..=9 {
        for n in 1..=20 {
            for k in [1, 2, 3, 5, 8, 13, 16, 17, 130] {
                let order = |i: usize| ORDERS[i % 4];
                let orders = [order(m + k), order(n), order(m + n / 4)];
                check_each::<f32>(extent(m, n, k), orders, k % 2 == 0);
                check_each::<f64>(extent(m, n, k), orders, k % 3 == 0);
            }
        }
    }
    for orders in ORDERS.map(|order| [order; 3]) {
        for size in [
            extent(0, 3, 2),
            extent(3, 0, 2),
            extent(3, 2, 0),
            extent(40, 41, 42),
        ] {
            check_each::<f32>(size, orders, false);
        }
    }
}

fn extent(m: usize, n: usize, k: usize) -> Extent {
    Extent { m, n, k }
}

#[test]
fn every_size_up_to_beyond_two_tiles() {
    for m in 1..=33 {
        for n in 1..=33 {
            let k = 1 + (m * 7 + n * 3) % 40;
            let a = ORDERS[m % 4];
            let b = ORDERS[(m + n) % 4];
            check::<f32>(extent(m, n, k), [ORDERS[n % 3], a, b], m % 2 == 0);
            check::<f64>(extent(m, n, k), [ORDERS[m % 4], b, a], n % 2 == 0);
        }
    }
}

#[test]
fn every_order_of_elements() {
    for out in ORDERS {
        for a in ORDERS {
            for b in ORDERS {
                for size in [
                    extent(1, 37, 19),
                    extent(37, 1, 19),
                    extent(3, 70, 9),
                    extent(70, 3, 9),
                    extent(19, 41, 23),
                    extent(14, 17, 1),
                ] {
                    check::<f32>(size, [out, a, b], false);
                    check::<f64>(size, [out, a, b], true);
                }
            }
        }
    }
}

#[test]
fn sizes_around_the_blocks() {
    use super::blocked::{DEPTH, HEIGHT, WIDTH};
    for accumulate in [false, true] {
        for [out, a, b] in [
            [Order::Rows, Order::Rows, Order::Rows],
            [Order::Rows, Order::Rows, Order::Columns],
            [Order::Columns, Order::Columns, Order::Rows],
            [Order::Rows, Order::Spread, Order::Spread],
        ] {
            check::<f32>(extent(20, WIDTH + 1, DEPTH + 1), [out, a, b], accumulate);
            check::<f32>(extent(HEIGHT + 5, 19, DEPTH), [out, a, b], accumulate);
            check::<f32>(
                extent(2, WIDTH * 2 + 9, DEPTH * 2 + 1),
                [out, a, b],
                accumulate,
            );
        }
    }
}

#[test]
fn empty_sums_are_zero_and_empty_matrices_stay() {
    for orders in ORDERS.map(|order| [order; 3]) {
        check::<f32>(extent(5, 9, 0), orders, false);
        check::<f32>(extent(5, 9, 0), orders, true);
        check::<f64>(extent(0, 9, 4), orders, false);
        check::<f64>(extent(5, 0, 4), orders, false);
    }
}

#[test]
fn matrices_that_reach_beyond_their_elements_are_refused() {
    let arena = Arena::new();
    let matrix = |len| Matrix {
        elements: &[1f32; 64][..len],
        row_stride: 4,
        column_stride: 1,
    };
    let run = |out: usize, a: usize, b: usize| {
        let mut elements = [0f32; 64];
        let to = MatrixMut {
            elements: &mut elements[..out],
            row_stride: 4,
            column_stride: 1,
        };
        let mut room = Room::new(&arena);
        f32::multiply(
            &mut room,
            extent(4, 4, 4),
            to,
            false,
            matrix(a),
            matrix(b),
            &Ending::NOTHING,
        )
    };
    assert!(run(16, 16, 16).is_ok());
    assert!(run(15, 16, 16).is_err());
    assert!(run(16, 15, 16).is_err());
    assert!(run(16, 16, 15).is_err());
}

#[test]
fn scratch_memory_without_room_is_an_error() {
    let arena = Arena::bounded(64).unwrap();
    let (a, mut out) = ([1f32; 900], [0f32; 900]);
    let matrix = Matrix {
        elements: &a,
        row_stride: 30,
        column_stride: 1,
    };
    let to = MatrixMut {
        elements: &mut out,
        row_stride: 30,
        column_stride: 1,
    };
    let mut room = Room::new(&arena);
    assert!(
        f32::multiply(
            &mut room,
            extent(30, 30, 30),
            to,
            false,
            matrix,
            matrix,
            &Ending::NOTHING
        )
        .is_err()
    );
}

#[test]
fn scratch_memory_is_shared_and_bounded() {
    let arena = Arena::new();
    let mut room = Room::new(&arena);
    for size in [20, 40, 64, 40, 20] {
        check_with::<f32>(&mut room, extent(size, size, size), [Order::Rows; 3], false);
    }
    let used = arena.used();
    assert!(used > 0 && used <= 4 * 64 * 64 * 4, "{used}");
    check_with::<f32>(&mut room, extent(60, 60, 60), [Order::Rows; 3], false);
    assert_eq!(arena.used(), used);
}

/// Two planes by definition, and as they are made.
#[track_caller]
fn check_slide([height, width]: [usize; 2], [kernel, stride, padding, dilation]: [usize; 4]) {
    let size = |len: usize| {
        Some((len + 2 * padding).checked_sub((kernel - 1) * dilation + 1)? / stride + 1)
    };
    let (Some(rows), Some(columns)) = (size(height), size(width)) else {
        return;
    };
    let from = filled::<f32>(2 * height, width, Order::Rows, 1);
    let factors = filled::<f32>(2 * kernel, kernel, Order::Rows, 2);
    let (scales, bias) = ([-0.5, 2.0], [0.5, -1.0]);
    let mut frame = Frame::new([height, width], [rows, columns]);
    (frame.kernel, frame.stride) = ([kernel; 2], [stride; 2]);
    (frame.padding, frame.dilation) = ([padding; 2], [dilation; 2]);
    let frame = frame.sized().unwrap();
    let mut to = vec![0f32; 2 * rows * columns];
    f32::slide(Slide {
        frame: &frame,
        planes: (0..2).map(|channel| Plane {
            channel,
            source: channel * height * width,
            target: channel * rows * columns,
        }),
        from: &from,
        to: &mut to,
        factors: &factors,
        ending: Ending {
            bias: Bias::Rows(Line {
                factors: Some(&scales),
                terms: &bias,
            }),
            low: -9.0,
            high: 9.5,
        },
        room: &mut vec![f32::NAN; frame.room()],
        dense: true,
    });
    for (at, found) in to.iter().enumerate() {
        let (channel, y, x) = (at / columns / rows, at / columns % rows, at % columns);
        let mut sum = 0.0;
        for tap in 0..kernel * kernel {
            let place = |at: usize, tap: usize, len: usize| {
                (at * stride + tap * dilation)
                    .checked_sub(padding)
                    .filter(|at| *at < len)
            };
            let (y, x) = (
                place(y, tap / kernel, height),
                place(x, tap % kernel, width),
            );
            if let (Some(y), Some(x)) = (y, x) {
                let factor = factors[channel * kernel * kernel + tap];
                sum += factor * from[(channel * height + y) * width + x];
            }
        }
        let sum = sum * scales[channel] + bias[channel];
        assert_eq!(
            *found,
            sum.clamp(-9.0, 9.5),
            "{height} {width} {frame:?} at {at}"
        );
    }
}

#[test]
fn planes_are_what_their_definition_says() {
    for width in 1..=40 {
        for height in [1, 2, 7, 13] {
            for stride in 1..=3 {
                check_slide([height, width], [3, stride, 1, 1]);
                check_slide([height, width], [5, stride, 2, 1]);
                check_slide([height, width], [2, stride, 0, 2]);
                check_slide([height, width], [3, stride, 2, 1]);
            }
        }
    }
    // Several strips.
    for stride in 1..=4 {
        check_slide([61, 150], [3, stride, 1, 1]);
        check_slide([61, 151], [5, stride, 3, 1]);
        check_slide([61, 150], [3, stride, 4, 3]);
        check_slide([40, 1100], [3, stride, 1, 1]);
    }
}

/// Sums that rounding makes depend on the order of the terms.
#[test]
fn products_do_not_depend_on_threads() {
    let numbers = |n: usize, seed: usize| -> Vec<f32> {
        (0..n)
            .map(|i| ((i * 7919 + seed) % 1013) as f32 / 977.0 - 0.5)
            .collect()
    };
    let run = |extent: Extent, a: [usize; 2], b: [usize; 2], out: [usize; 2], workers| {
        let Extent { m, n, k } = extent;
        let (left, right, arena) = (numbers(m * k, 3), numbers(k * n, 5), Arena::new());
        let mut elements = vec![0f32; m * n];
        let [to, a, b] = [out, a, b];
        let to = MatrixMut {
            elements: &mut elements,
            row_stride: to[0],
            column_stride: to[1],
        };
        let [a, b] =
            [(&left, a), (&right, b)].map(|(elements, [row_stride, column_stride])| Matrix {
                elements,
                row_stride,
                column_stride,
            });
        let mut room = Room::new(&arena).shared_by(workers);
        f32::multiply(&mut room, extent, to, false, a, b, &Ending::NOTHING).unwrap();
        elements
    };
    let workers = [2, 3, 9].map(|n| Workers::new(NonZeroUsize::new(n).unwrap()).unwrap());
    for (m, n, k) in [
        (1, 1500, 900),
        (1, 1030, 1300),
        (40, 200, 400),
        (40, 201, 400),
        (7, 49, 2000),
        (13, 49, 1500),
        (17, 300, 500),
        (700, 3, 800),
        (130, 96, 400),
        (64, 1, 40_000),
    ] {
        for a in [[k, 1], [1, m]] {
            for b in [[n, 1], [1, k]] {
                for out in [[n, 1], [1, m]] {
                    let alone = run(extent(m, n, k), a, b, out, None);
                    for workers in &workers {
                        let shared = run(extent(m, n, k), a, b, out, Some(workers));
                        assert!(
                            alone == shared,
                            "{m} {n} {k} {a:?} {b:?} {out:?} {workers:?}"
                        );
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 200 }))]

    #[test]
    fn products_are_what_f64_says(
        m in prop_oneof![1..=33usize, Just(53), Just(97)],
        n in prop_oneof![1..=33usize, Just(61), Just(131)],
        k in 1..=300usize,
        orders in [0..4usize, 0..4usize, 0..4usize],
        accumulate in any::<bool>(),
    ) {
        let orders = orders.map(|i| ORDERS[i]);
        check::<f32>(extent(m, n, k), orders, accumulate);
        check::<f64>(extent(m, n, k), orders, accumulate);
    }
}
