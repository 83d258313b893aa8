//! Operators on numbers.

use et_kernel::EValue;

use crate::testing::Op;

#[track_caller]
fn check(name: &str, arguments: &[EValue], expected: EValue) {
    let op = arguments
        .iter()
        .fold(Op::new(name), |op, value| op.value(copy(value)));
    let done = op.none().run().unwrap();
    assert_eq!(
        format!("{:?}", done.argument(arguments.len())),
        format!("{expected:?}"),
        "{name}"
    );
}

fn copy(value: &EValue) -> EValue {
    value.as_scalar().map_or(EValue::None, EValue::from)
}

use EValue::{Bool, Double, Int};

#[test]
fn r_prim_algebra() {
    let pair = [Int(3), Int(4)];
    check("executorch_prim::add.Scalar", &pair, Int(7));
    check("executorch_prim::sub.Scalar", &pair, Int(-1));
    check("executorch_prim::mul.Scalar", &pair, Int(12));
    check("executorch_prim::floordiv.Scalar", &pair, Int(0));
    check("executorch_prim::floordiv.int", &pair, Int(0));
    check("executorch_prim::truediv.Scalar", &pair, Double(0.75));
    check("executorch_prim::mod.int", &pair, Int(3));
    check("executorch_prim::mod.Scalar", &pair, Int(3));
    check("executorch_prim::sym_float.Scalar", &[Int(3)], Double(3.0));
    check(
        "executorch_prim::floordiv.Scalar",
        &[Int(-7), Int(2)],
        Int(-4),
    );
    check(
        "executorch_prim::floordiv.Scalar",
        &[Double(-7.0), Int(2)],
        Double(-4.0),
    );
    check(
        "executorch_prim::floordiv.Scalar",
        &[Double(-1.0), Double(0.0)],
        Double(f64::NEG_INFINITY),
    );
}

#[test]
fn r_prim_max_and_min() {
    for (a, b, most, least) in [(5, 3, 5, 3), (3, 5, 5, 3), (5, 5, 5, 5), (-2, -5, -2, -5)] {
        check(
            "executorch_prim::sym_max.Scalar",
            &[Int(a), Int(b)],
            Int(most),
        );
        check(
            "executorch_prim::sym_min.Scalar",
            &[Int(a), Int(b)],
            Int(least),
        );
    }
}

#[test]
fn r_prim_comparisons() {
    let pair = [Double(3.0), Double(4.0)];
    check("executorch_prim::ge.Scalar", &pair, Bool(false));
    check("executorch_prim::gt.Scalar", &pair, Bool(false));
    check("executorch_prim::le.Scalar", &pair, Bool(true));
    check("executorch_prim::lt.Scalar", &pair, Bool(true));
    check("executorch_prim::eq.Scalar", &pair, Bool(false));
    check(
        "executorch_prim::eq.Scalar",
        &[Bool(true), Bool(true)],
        Bool(true),
    );
    check(
        "executorch_prim::eq.Scalar",
        &[Int(i64::MAX), Int(i64::MAX - 1)],
        Bool(false),
    );
}

#[test]
fn r_prim_conversions() {
    check(
        "executorch_prim::sym_not.Scalar",
        &[Bool(true)],
        Bool(false),
    );
    check(
        "executorch_prim::sym_float.Scalar",
        &[Bool(true)],
        Double(1.0),
    );
    check("executorch_prim::sym_int.Scalar", &[Double(-2.9)], Int(-2));
    check("executorch_prim::sym_int.Scalar", &[Double(3.7)], Int(3));
    check("executorch_prim::sym_int.Scalar", &[Bool(true)], Int(1));
    check("executorch_prim::neg.Scalar", &[Double(5.0)], Double(-5.0));
    check("executorch_prim::neg.Scalar", &[Int(5)], Int(-5));
    check(
        "executorch_prim::sym_ite.Scalar",
        &[Bool(true), Int(42), Int(99)],
        Int(42),
    );
    check(
        "executorch_prim::sym_ite.Scalar",
        &[Bool(false), Int(42), Double(3.5)],
        Double(3.5),
    );
}

#[test]
fn r_prim_rounding() {
    let numbers = [
        0., 0.25, 0.5, 0.75, 1., 1.5, 1.75, -0.5, -1., -1.5, 9.999999,
    ];
    let ceil = [0, 1, 1, 1, 1, 2, 2, 0, -1, -1, 10];
    let round = [0, 0, 0, 1, 1, 2, 2, 0, -1, -2, 10];
    let trunc = [0, 0, 0, 0, 1, 1, 1, 0, -1, -1, 9];
    for (i, x) in numbers.into_iter().enumerate() {
        check("executorch_prim::ceil.Scalar", &[Double(x)], Int(ceil[i]));
        check("executorch_prim::round.Scalar", &[Double(x)], Int(round[i]));
        check("executorch_prim::trunc.Scalar", &[Double(x)], Int(trunc[i]));
    }
}

#[test]
fn b_57_results_outside_of_64_bits_are_errors() {
    let fails = |name: &str, a: EValue, b: EValue| {
        Op::new(name)
            .value(a)
            .value(b)
            .none()
            .fails("kernel.invalid-argument");
    };
    fails("executorch_prim::add.Scalar", Int(i64::MAX), Int(1));
    fails("executorch_prim::mul.Scalar", Int(i64::MIN), Int(-1));
    fails("executorch_prim::floordiv.Scalar", Int(1), Int(0));
    fails("executorch_prim::floordiv.Scalar", Int(i64::MIN), Int(-1));
    fails("executorch_prim::mod.Scalar", Int(1), Int(0));
    for x in [f64::NAN, f64::INFINITY, 9.3e18, -9.3e18] {
        Op::new("executorch_prim::sym_int.Scalar")
            .double(x)
            .none()
            .fails("kernel.invalid-argument");
        Op::new("executorch_prim::ceil.Scalar")
            .double(x)
            .none()
            .fails("kernel.invalid-argument");
    }
}

#[test]
fn sizes_of_tensors_and_their_elements() {
    let op = |name: &str| Op::new(name).tensor(&[7i64; 15], &[3, 5]);
    let done = op("aten::sym_size.int").int(-1).none().run().unwrap();
    assert!(matches!(done.argument(2), Int(5)));
    op("aten::sym_size.int")
        .int(2)
        .none()
        .fails("kernel.invalid-argument");
    let done = op("aten::sym_numel").none().run().unwrap();
    assert!(matches!(done.argument(1), Int(15)));
    op("aten::_local_scalar_dense")
        .none()
        .fails("kernel.invalid-argument");
    let done = Op::new("aten::_local_scalar_dense")
        .tensor(&[1.5f32], &[1])
        .none()
        .run()
        .unwrap();
    assert!(matches!(done.argument(1), Double(1.5)));
}

#[test]
fn r_prim_01_a_row_is_copied_and_the_tensor_grows() {
    let op = |index, row: &[f32]| {
        Op::new("executorch_prim::et_copy_index.tensor")
            .out(et_kernel::ScalarType::Float, 2)
            .tensor(row, &[row.len()])
            .int(index)
    };
    // The output's last dimension is 1.
    let done = op(1, &[5.0]).run().unwrap();
    assert_eq!(
        (done.sizes(0), done.elements::<f32>(0)[1]),
        (&[2, 1][..], 5.0)
    );
    op(-1, &[5.0]).fails("kernel.invalid-argument");
    op(0, &[5.0, 6.0]).fails("kernel.invalid-argument");
    op(5000, &[5.0]).fails("kernel.shape");
}

#[test]
fn r_prim_02_a_view_shares_the_bytes() {
    let op = |shape: &[i64], rank| {
        Op::new("executorch_prim::et_view.default")
            .tensor(&[1f32, 2., 3., 4., 5., 6.], &[3, 2])
            .ints(shape)
            .out(et_kernel::ScalarType::Float, rank)
    };
    let done = op(&[1, 3, -1], 3).run_once().unwrap();
    assert_eq!(done.sizes(0), [1, 3, 2]);
    assert_eq!(done.elements::<f32>(0), [1., 2., 3., 4., 5., 6.]);
    op(&[1, 3, -1], 2).fails("kernel.shape");
    op(&[-1, 3, -1], 3).fails("kernel.invalid-argument");
    op(&[1, 3, -2], 3).fails("kernel.invalid-argument");
    op(&[0, 3, -1], 3).fails("kernel.invalid-argument");
    op(&[4, 2], 2).fails("kernel.invalid-argument");
}
