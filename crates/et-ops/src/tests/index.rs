//! Operators by index, joins and parts.

use et_kernel::{Bool8, ScalarType};

use crate::testing::Op;

const F: ScalarType = ScalarType::Float;
const L: ScalarType = ScalarType::Long;

fn count(n: usize) -> Vec<f32> {
    (0..n).map(|x| x as f32).collect()
}

#[test]
fn index_replaces_neighbours_in_their_place_and_others_in_front() {
    let op = |items: &[Option<(&[i64], &[usize])>], rank| {
        Op::new("aten::index.Tensor_out")
            .tensor(&count(24), &[2, 3, 4])
            .optional_tensors(items)
            .out(F, rank)
    };
    op(&[None, Some((&[2, -3], &[2]))], 3).gives(
        &[
            8f32, 9., 10., 11., 0., 1., 2., 3., 20., 21., 22., 23., 12., 13., 14., 15.,
        ],
        &[2, 2, 4],
    );
    op(&[Some((&[1, 0], &[2])), None, Some((&[3], &[1]))], 2)
        .gives(&[15f32, 19., 23., 3., 7., 11.], &[2, 3]);
    op(&[Some((&[1, 0], &[2, 1])), Some((&[0, 2], &[2]))], 3).gives(
        &[
            12f32, 13., 14., 15., 20., 21., 22., 23., 0., 1., 2., 3., 8., 9., 10., 11.,
        ],
        &[2, 2, 4],
    );
    op(&[Some((&[2], &[1]))], 3).fails("kernel.invalid-argument");
    op(&[Some((&[i64::MIN], &[1]))], 3).fails("kernel.invalid-argument");
    op(&[None, None, None, None], 3).fails("kernel.invalid-argument");
}

#[test]
fn a_mask_selects_where_it_is_true() {
    let mask = [true, false, false, true, true, false].map(Bool8::from);
    Op::new("aten::index.Tensor_out")
        .tensor(&count(6), &[2, 3])
        .optional_tensors(&[Some((&mask[..], &[2, 3][..]))])
        .out(F, 1)
        .gives(&[0f32, 3., 4.], &[3]);
    Op::new("aten::nonzero.out")
        .tensor(&mask, &[2, 3])
        .out(L, 2)
        .gives(&[0i64, 0, 1, 0, 1, 1], &[3, 2]);
}

#[test]
fn index_put_broadcasts_values_and_may_add() {
    let op = |values: &[f32], sizes: &[usize], add| {
        Op::new("aten::index_put.out")
            .tensor(&count(6), &[2, 3])
            .optional_tensors(&[None, Some((&[2i64, 2][..], &[2][..]))])
            .tensor(values, sizes)
            .boolean(add)
            .out(F, 2)
    };
    op(&[9.], &[], false).gives(&[0f32, 1., 9., 3., 4., 9.], &[2, 3]);
    op(&[1., 2.], &[2], true).gives(&[0f32, 1., 5., 3., 4., 8.], &[2, 3]);
    op(&[1., 2., 3.], &[3], false).fails("kernel.invalid-argument");
}

#[test]
fn index_put_in_place_takes_rows_without_the_index_dimension() {
    Op::new("aten::index_put_")
        .tensor(&count(6), &[3, 2])
        .output(0)
        .optional_tensors(&[Some((&[1i64][..], &[1][..]))])
        .tensor(&[7f32, 8.], &[2])
        .boolean(false)
        .again(0)
        .gives(&[0f32, 1., 7., 8., 4., 5.], &[3, 2]);
}

#[test]
fn a_lookup_may_be_in_place_of_its_input_in_the_same_shape() {
    let op = |index: &[i64]| {
        Op::new("aten::index_select.out")
            .tensor(&count(6), &[3, 2])
            .int(0)
            .tensor(index, &[index.len()])
            .again(0)
            .output(0)
    };
    op(&[2, 0, 1]).gives(&[4f32, 5., 0., 1., 2., 3.], &[3, 2]);
    op(&[2, 0]).fails("kernel.invalid-argument");
}

/// PyTorch and the C++ runtime have it so. `index` and `index_put` count from the end, as both do.
#[test]
fn single_index_tensors_take_no_negative_index() {
    let op = |name: &str| {
        Op::new(name)
            .tensor(&count(6), &[2, 3])
            .int(1)
            .tensor(&[-1i64], &[1, 1])
    };
    op("aten::gather.out")
        .boolean(false)
        .out(F, 2)
        .fails("kernel.invalid-argument");
    op("aten::scatter.value_out")
        .double(9.0)
        .out(F, 2)
        .fails("kernel.invalid-argument");
    for name in ["aten::scatter.src_out", "aten::scatter_add.out"] {
        op(name)
            .tensor(&[1f32], &[1, 1])
            .out(F, 2)
            .fails("kernel.invalid-argument");
    }
    for order in [&[0u8, 1], &[1, 0]] {
        Op::new("aten::index_select.out")
            .ordered(&count(6), &[2, 3], order)
            .int(0)
            .tensor(&[-1i64], &[1])
            .out(F, 2)
            .fails("kernel.invalid-argument");
    }
    Op::new("aten::embedding.out")
        .tensor(&count(6), &[2, 3])
        .tensor(&[-1i64], &[1])
        .int(-1)
        .boolean(false)
        .boolean(false)
        .out(F, 2)
        .fails("kernel.invalid-argument");
    Op::new("aten::index.Tensor_out")
        .tensor(&count(6), &[2, 3])
        .tensors(&[(&[-1i64][..], &[1][..])])
        .out(F, 2)
        .gives(&[3f32, 4., 5.], &[1, 3]);
}

#[test]
fn gather_and_scatter() {
    let index = [2i64, 0, 1, 2];
    let op = |name: &str| {
        Op::new(name)
            .tensor(&count(6), &[2, 3])
            .int(1)
            .tensor(&index, &[2, 2])
    };
    op("aten::gather.out")
        .boolean(false)
        .out(F, 2)
        .gives(&[2f32, 0., 4., 5.], &[2, 2]);
    op("aten::scatter.src_out")
        .tensor(&[10f32, 11., 12., 13.], &[2, 2])
        .out(F, 2)
        .gives(&[11f32, 1., 10., 3., 12., 13.], &[2, 3]);
    op("aten::scatter.value_out")
        .double(9.0)
        .out(F, 2)
        .gives(&[9f32, 1., 9., 3., 9., 9.], &[2, 3]);
    op("aten::scatter_add.out")
        .tensor(&[10f32, 11., 12., 13.], &[2, 2])
        .out(F, 2)
        .gives(&[11f32, 1., 12., 3., 16., 18.], &[2, 3]);
    op("aten::scatter.src_out")
        .tensor(&[10f32], &[1, 1])
        .out(F, 2)
        .fails("kernel.invalid-argument");
}

#[test]
fn index_select_and_embedding() {
    Op::new("aten::index_select.out")
        .tensor(&count(6), &[2, 3])
        .int(-1)
        .tensor(&[2i32, 0], &[2])
        .out(F, 2)
        .gives(&[2f32, 0., 5., 3.], &[2, 2]);
    let embed = |i| {
        Op::new("aten::embedding.out")
            .tensor(&count(6), &[3, 2])
            .tensor(&[i, 0], &[1, 2])
            .int(-1)
            .boolean(false)
            .boolean(false)
            .out(F, 3)
    };
    embed(2i64).gives(&[4f32, 5., 0., 1.], &[1, 2, 2]);
    embed(3).fails("kernel.invalid-argument");
}

#[test]
fn cat_joins_and_ignores_nothing() {
    let cat = |items: &[(&[f32], &[usize])], dim, rank| {
        Op::new("aten::cat.out")
            .tensors(items)
            .int(dim)
            .out(F, rank)
    };
    cat(
        &[
            (&[1., 2.], &[2, 1]),
            (&[], &[0]),
            (&[3., 4., 5., 6.], &[2, 2]),
        ],
        -1,
        2,
    )
    .gives(&[1f32, 3., 4., 2., 5., 6.], &[2, 3]);
    cat(&[(&[1.], &[1]), (&[2., 3.], &[2])], 0, 1).gives(&[1f32, 2., 3.], &[3]);
    cat(&[(&[1., 2.], &[2, 1]), (&[1.], &[1, 1])], 1, 2).fails("kernel.invalid-argument");
    cat(&[], 0, 1).fails("kernel.invalid-argument");
    cat(&[(&[], &[0]), (&[], &[0])], 0, 1).gives::<f32>(&[], &[0]);
    Op::new("aten::cat.out")
        .tensors(&[(&[1i64, 2][..], &[2][..])])
        .int(0)
        .out(F, 1)
        .gives(&[1f32, 2.], &[2]);
}

#[test]
fn stack_adds_a_dimension() {
    Op::new("aten::stack.out")
        .tensors(&[(&[1f32, 2.][..], &[2][..]), (&[3., 4.], &[2])])
        .int(-1)
        .out(F, 2)
        .gives(&[1f32, 3., 2., 4.], &[2, 2]);
}

#[test]
fn splits_into_a_list_of_outputs() {
    let op = |sizes: &[i64], parts| {
        Op::new("aten::split_with_sizes_copy.out")
            .tensor(&count(8), &[2, 4])
            .ints(sizes)
            .int(1)
            .outs(F, 2, parts)
    };
    let done = op(&[1, 3], 2).again(3).run().unwrap();
    assert_eq!(done.elements::<f32>(0), [0.0, 4.0]);
    assert_eq!(done.elements::<f32>(1), [1.0, 2.0, 3.0, 5.0, 6.0, 7.0]);
    op(&[1, 2], 2).fails("kernel.invalid-argument");
    op(&[1, 3], 3).fails("kernel.invalid-argument");
    let done = Op::new("aten::split_copy.Tensor_out")
        .tensor(&count(5), &[5])
        .int(2)
        .int(0)
        .outs(F, 1, 3)
        .run()
        .unwrap();
    assert_eq!(
        (done.elements::<f32>(0), done.elements::<f32>(2)),
        (vec![0.0, 1.0], vec![4.0])
    );
    let done = Op::new("aten::unbind_copy.int_out")
        .tensor(&count(6), &[2, 3])
        .int(1)
        .outs(F, 1, 3)
        .run()
        .unwrap();
    assert_eq!(done.elements::<f32>(1), [1.0, 4.0]);
}

#[test]
fn padding_may_cut() {
    let pad = |pad: &[i64]| {
        Op::new("aten::constant_pad_nd.out")
            .tensor(&count(6), &[2, 3])
            .ints(pad)
            .double(9.0)
            .out(F, 2)
    };
    pad(&[1, -1]).gives(&[9f32, 0., 1., 9., 3., 4.], &[2, 3]);
    pad(&[0, 0, -1, 1]).gives(&[3f32, 4., 5., 9., 9., 9.], &[2, 3]);
    pad(&[-3, 0]).gives::<f32>(&[], &[2, 0]);
    pad(&[-4, 0]).fails("kernel.invalid-argument");
    pad(&[1]).fails("kernel.invalid-argument");
    pad(&[i64::MAX, i64::MAX]).fails("kernel.invalid-argument");
}

#[test]
fn one_tensor_into_a_part_of_another() {
    Op::new("aten::slice_scatter.out")
        .tensor(&count(6), &[3, 2])
        .tensor(&[9f32, 8.], &[1, 2])
        .int(0)
        .int(1)
        .int(2)
        .int(1)
        .out(F, 2)
        .gives(&[0f32, 1., 9., 8., 4., 5.], &[3, 2]);
    Op::new("aten::select_scatter.out")
        .tensor(&count(6), &[3, 2])
        .tensor(&[9f32, 8., 7.], &[3])
        .int(1)
        .int(-1)
        .out_ordered(F, &[1, 0])
        .gives(&[0f32, 9., 2., 8., 4., 7.], &[3, 2]);
}

#[test]
fn points_are_looked_up_in_dimensions_in_front() {
    let op = |index: &[&[i64]], sizes: &[usize]| {
        let list: Vec<_> = index.iter().map(|list| Some((*list, sizes))).collect();
        let rank = 3 - index.len() + sizes.len();
        Op::new("aten::index.Tensor_out")
            .tensor(&count(24), &[2, 3, 4])
            .optional_tensors(&list)
            .out(ScalarType::Float, rank)
    };
    let pair: [&[i64]; 2] = [&[1, 0, -1], &[2, -3, 0]];
    let expected = [20f32, 21., 22., 23., 0., 1., 2., 3., 12., 13., 14., 15.];
    op(&pair, &[3]).gives(&expected, &[3, 4]);
    op(&[pair[0], pair[1], &[3, 1, 2]], &[3]).gives(&[23f32, 1., 14.], &[3]);
    op(&[&[1], &[2]], &[]).gives(&[20f32, 21., 22., 23.], &[4]);
    op(&[pair[0], &[2, 3, 0]], &[3]).fails("kernel.invalid-argument");
}
