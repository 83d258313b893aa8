//! Elements found by index tensors and masks.

use et_kernel::ScalarType;

use crate::array::{Array, broadcast, indices, resized, with};
use crate::call::Call;
use crate::choice::{Choices, FLOATS, Fill, TYPES, check};
use crate::number::Number::{self, Float, Whole};

const INDEX_TYPES: [ScalarType; 2] = [ScalarType::Long, ScalarType::Int];

/// An index counted from the end if negative.
fn wrapped(index: Number, size: usize) -> usize {
    let index = index.whole();
    usize::try_from(if index < 0 {
        index + size as i128
    } else {
        index
    })
    .unwrap()
}

/// Indices into a dimension of `size`, from either end; of a size of 0 there are none.
fn places(choices: &mut Choices, sizes: &[usize], size: usize) -> Array {
    let dtype = choices.pick(&INDEX_TYPES);
    choices.wholes(dtype, sizes, -(size as i64), size as i64)
}

#[test]
fn parts_are_taken() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let (mut shape, dim) = choices.shape_and_dim();
        shape[dim] = shape[dim].max(1);
        let x = choices.array(dtype, &shape, Fill::Any);
        let count = choices.below(5);
        let index_type = choices.pick(&INDEX_TYPES);
        let index = choices.wholes(index_type, &[count], 0, shape[dim] as i64);
        let expected = Array::new(dtype, &resized(&shape, dim, count), |i| {
            x.at(&with(i, dim, index.at(&[i[dim]]).whole() as usize))
        });
        let name = choices.named(dim, shape.len());
        Call::new("aten::index_select.out")
            .tensor(&x)
            .int(name)
            .tensor(&index)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn rows_of_a_table_are_looked_up() {
    check(150, |choices| {
        let dtype = choices.pick(&TYPES);
        let (rows, width) = (1 + choices.below(6), choices.below(5));
        let table = choices.array(dtype, &[rows, width], Fill::Any);
        let rank = choices.below(4);
        let shape = choices.sizes(rank);
        let index_type = choices.pick(&INDEX_TYPES);
        let index = choices.wholes(index_type, &shape, 0, rows as i64);
        let sizes = [&shape[..], &[width]].concat();
        let expected = Array::new(dtype, &sizes, |i| {
            let (place, column) = i.split_at(rank);
            table.at(&[wrapped(index.at(place), rows), column[0]])
        });
        Call::new("aten::embedding.out")
            .tensor(&table)
            .tensor(&index)
            .int(-1)
            .truth(false)
            .truth(false)
            .out(choices, dtype, sizes.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn an_index_outside_is_refused() {
    check(60, |choices| {
        let x = choices.array(ScalarType::Float, &[3, 2], Fill::Small);
        let index = Array::wholes(
            ScalarType::Long,
            &[1],
            &[choices.pick(&[3, -4, i64::MAX, i64::MIN])],
        );
        Call::new("aten::index_select.out")
            .tensor(&x)
            .int(0)
            .tensor(&index)
            .out(choices, ScalarType::Float, 2)
            .fails(choices);
        Call::new("aten::index.Tensor_out")
            .tensor(&x)
            .tensors(&[index])
            .out(choices, ScalarType::Float, 2)
            .fails(choices);
    });
}

/// An index tensor for `gather` and `scatter`: no larger than the tensor but along `dim`.
fn line_index(choices: &mut Choices, shape: &[usize], dim: usize) -> Array {
    let sizes: Vec<usize> = shape
        .iter()
        .enumerate()
        .map(|(d, &size)| {
            if d == dim {
                choices.below(5)
            } else {
                choices.below(size + 1)
            }
        })
        .collect();
    let size = shape.get(dim).copied().unwrap_or(1);
    let sizes = if size == 0 {
        resized(&sizes, dim, 0)
    } else {
        sizes
    };
    let index = choices.wholes(ScalarType::Long, &sizes, 0, size as i64);
    Array {
        dtype: choices.pick(&INDEX_TYPES),
        ..index
    }
}

#[test]
fn elements_are_gathered() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let (shape, dim) = choices.shape_and_dim();
        let x = choices.array(dtype, &shape, Fill::Any);
        let index = line_index(choices, &shape, dim);
        let expected = Array::new(dtype, &index.sizes, |i| {
            x.at(&with(i, dim, wrapped(index.at(i), shape[dim])))
        });
        let name = choices.named(dim, shape.len());
        Call::new("aten::gather.out")
            .tensor(&x)
            .int(name)
            .tensor(&index)
            .truth(false)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

fn sum(a: Number, b: Number, dtype: ScalarType) -> Number {
    match (a, b) {
        (Whole(a), Whole(b)) => Whole(a + b),
        (a, b) => Float(a.float() + b.float()),
    }
    .cast(dtype)
}

#[test]
fn elements_are_scattered() {
    check(300, |choices| {
        let dtype = choices.pick(&TYPES);
        let (shape, dim) = choices.shape_and_dim();
        let x = choices.array(dtype, &shape, Fill::Small);
        let mut index = line_index(choices, &shape, dim);
        let which = choices.below(3);
        if which == 0 {
            // Which of two elements for one place wins is not said: at most one there.
            let len = index.sizes[dim].min(shape[dim]);
            let order = index.order.clone();
            index = Array::new(index.dtype, &resized(&index.sizes, dim, len), |i| {
                Whole(i[dim] as i128)
            });
            index.order = order;
        }
        let source_sizes: Vec<usize> = index
            .sizes
            .iter()
            .map(|size| size + choices.below(2))
            .collect();
        let source = choices.array(dtype, &source_sizes, Fill::Small);
        let number = choices.within(-3, 3);
        let mut expected = x.clone();
        for i in indices(&index.sizes) {
            let place = with(&i, dim, wrapped(index.at(&i), shape[dim]));
            let flat = place
                .iter()
                .zip(&shape)
                .fold(0, |at, (i, size)| at * size + i);
            expected.elements[flat] = match which {
                0 => source.at(&i),
                1 => Whole(number.into()).cast(dtype),
                _ => sum(expected.elements[flat], source.at(&i), dtype),
            };
        }
        let name = choices.named(dim, shape.len());
        let call = Call::new(
            [
                "aten::scatter.src_out",
                "aten::scatter.value_out",
                "aten::scatter_add.out",
            ][which],
        );
        let call = call.tensor(&x).int(name).tensor(&index);
        let call = match which {
            1 => call.int(number),
            _ => call.tensor(&source),
        };
        call.out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 8.0);
    });
}

/// Index tensors for several dimensions, and what they select.
struct Selection {
    given: Vec<Option<Array>>,
    /// The result's shape.
    sizes: Vec<usize>,
    /// The place in the tensor of each of the result's elements, in order.
    places: Vec<Vec<usize>>,
}

impl Selection {
    fn draw(choices: &mut Choices, shape: &[usize]) -> Self {
        let rank = choices.below(3);
        let common: Vec<usize> = (0..rank).map(|_| choices.below(4)).collect();
        let mut given = Vec::new();
        for &size in &shape[..1 + choices.below(shape.len())] {
            let wanted = size > 0 && choices.truth();
            given.push(wanted.then(|| {
                let own = choices.narrower(&common);
                places(choices, &own, size)
            }));
        }
        let named: Vec<usize> = (0..given.len())
            .filter(|&dim| given[dim].is_some())
            .collect();
        let shapes: Vec<&[usize]> = given
            .iter()
            .flatten()
            .map(|array| &array.sizes[..])
            .collect();
        let common = broadcast(&shapes).unwrap();
        // The new dimensions stand where the first index stood if there is nothing between them, else in front.
        let neighbours = named.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let at = if neighbours {
            named.first().copied().unwrap_or(0)
        } else {
            0
        };
        let rest: Vec<usize> = (0..shape.len())
            .filter(|dim| !named.contains(dim))
            .collect();
        let mut sizes: Vec<usize> = rest.iter().map(|&dim| shape[dim]).collect();
        sizes.splice(at..at, common.iter().copied());
        let place = |i: Vec<usize>| -> Vec<usize> {
            let chosen = &i[at..at + common.len()];
            let mut others = i[..at].iter().chain(&i[at + common.len()..]);
            (0..shape.len())
                .map(|dim| match given.get(dim).and_then(Option::as_ref) {
                    Some(array) => wrapped(array.spread(chosen), shape[dim]),
                    None => *others.next().unwrap(),
                })
                .collect()
        };
        let places = indices(&sizes).map(place).collect();
        Self {
            given,
            sizes,
            places,
        }
    }

    /// By a mask for the first dimensions.
    fn masked(choices: &mut Choices, shape: &[usize]) -> Self {
        let width = 1 + choices.below(shape.len());
        let dtype = choices.pick(&[ScalarType::Bool, ScalarType::Byte]);
        let mask = choices.wholes(dtype, &shape[..width], 0, 2);
        let found: Vec<Vec<usize>> = indices(&shape[..width])
            .filter(|i| mask.at(i).truth())
            .collect();
        let sizes = [&[found.len()], &shape[width..]].concat();
        let places = indices(&sizes).map(|i| [&found[i[0]][..], &i[1..]].concat());
        Self {
            places: places.collect(),
            given: vec![Some(mask)],
            sizes,
        }
    }

    fn any(choices: &mut Choices, shape: &[usize]) -> Self {
        match choices.below(3) {
            0 => Self::masked(choices, shape),
            _ => Self::draw(choices, shape),
        }
    }
}

#[test]
fn several_index_tensors_select() {
    check(400, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = 1 + choices.below(4);
        let shape = choices.sizes(rank);
        let x = choices.array(dtype, &shape, Fill::Any);
        let selection = Selection::any(choices, &shape);
        let mut places = selection.places.iter();
        let expected = Array::new(dtype, &selection.sizes, |_| x.at(places.next().unwrap()));
        Call::new("aten::index.Tensor_out")
            .tensor(&x)
            .some_tensors(&selection.given)
            .out(choices, dtype, expected.rank())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn selected_elements_are_put() {
    check(400, |choices| {
        let dtype = choices.pick(&TYPES);
        let rank = 1 + choices.below(4);
        let shape = choices.sizes(rank);
        let x = choices.array(dtype, &shape, Fill::Small);
        let selection = Selection::any(choices, &shape);
        let add = choices.truth();
        let own = choices.narrower(&selection.sizes);
        let mut values = choices.array(dtype, &own, Fill::Small);
        let mut seen = selection.places.clone();
        seen.sort();
        seen.dedup();
        if !add && seen.len() < selection.places.len() {
            // Which of two elements for one place wins is not said.
            values.elements.fill(Whole(1).cast(dtype));
        }
        let mut expected = x.clone();
        for (i, place) in indices(&selection.sizes).zip(&selection.places) {
            let flat = place
                .iter()
                .zip(&shape)
                .fold(0, |at, (i, size)| at * size + i);
            let value = values.spread(&i);
            expected.elements[flat] = match add {
                true => sum(expected.elements[flat], value, dtype),
                false => value,
            };
        }
        let in_place = choices.truth();
        let call = Call::new(match in_place {
            true => "aten::index_put_",
            false => "aten::index_put.out",
        });
        let call = call
            .tensor(&x)
            .some_tensors(&selection.given)
            .tensor(&values)
            .truth(add);
        let call = match in_place {
            true => call.out_is(0),
            false => call.out(choices, dtype, rank),
        };
        call.gives(choices, &[&expected], 8.0);
    });
}

#[test]
fn elements_that_are_not_zero_are_found() {
    check(150, |choices| {
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let x = choices.array(dtype, &shape, Fill::Small);
        let found: Vec<Vec<usize>> = indices(&shape).filter(|i| x.at(i).truth()).collect();
        let expected = Array::new(ScalarType::Long, &[found.len(), shape.len()], |i| {
            Whole(found[i[0]][i[1]] as i128)
        });
        Call::new("aten::nonzero.out")
            .tensor(&x)
            .out(choices, ScalarType::Long, 2)
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn masks_select_and_scatter() {
    check(250, |choices| {
        let dtype = choices.pick(&TYPES);
        let shape = choices.shape();
        let (x_sizes, mask_sizes) = (choices.narrower(&shape), choices.narrower(&shape));
        let shape = broadcast(&[&x_sizes, &mask_sizes]).unwrap();
        let x = choices.array(dtype, &x_sizes, Fill::Any);
        let mask = choices.wholes(ScalarType::Bool, &mask_sizes, 0, 2);
        let found: Vec<Vec<usize>> = indices(&shape).filter(|i| mask.spread(i).truth()).collect();
        if choices.truth() {
            let expected = Array::new(dtype, &[found.len()], |i| x.spread(&found[i[0]]));
            return Call::new("aten::masked_select.out")
                .tensor(&x)
                .tensor(&mask)
                .out(choices, dtype, 1)
                .gives(choices, &[&expected], 0.0);
        }
        let source_sizes = [found.len() + choices.below(2), 1];
        let source = choices.array(dtype, &source_sizes, Fill::Any);
        let mut next = source.elements.iter();
        let expected = Array::new(dtype, &shape, |i| match mask.spread(i).truth() {
            true => *next.next().unwrap(),
            false => x.spread(i),
        });
        Call::new("aten::masked_scatter.out")
            .tensor(&x)
            .tensor(&mask)
            .tensor(&source)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

#[test]
fn indices_are_repeated() {
    check(80, |choices| {
        let dtype = choices.pick(&INDEX_TYPES);
        let len = choices.below(6);
        let repeats = choices.wholes(dtype, &[len], 0, 4);
        let all: Vec<i64> = (0..len)
            .flat_map(|i| std::iter::repeat_n(i as i64, repeats.at(&[i]).whole() as usize))
            .collect();
        let expected = Array::wholes(dtype, &[all.len()], &all);
        let call = Call::new("aten::repeat_interleave.Tensor_out").tensor(&repeats);
        let call = match choices.truth() {
            true => call.int(all.len()),
            false => call.none(),
        };
        call.out(choices, dtype, 1)
            .gives(choices, &[&expected], 0.0);
    });
}

/// A part of a tensor replaced by another tensor.
#[test]
fn parts_are_replaced() {
    check(200, |choices| {
        let dtype = choices.pick(&TYPES);
        let (mut shape, dim) = choices.shape_and_dim();
        shape[dim] = shape[dim].max(1);
        let size = shape[dim];
        let x = choices.array(dtype, &shape, Fill::Any);
        let name = choices.named(dim, shape.len());
        let call = |name_of: &'static str, source: &Array| {
            Call::new(name_of).tensor(&x).tensor(source).int(name)
        };
        if choices.truth() {
            let at = choices.below(size);
            let mut small = shape.clone();
            small.remove(dim);
            let source = choices.array(dtype, &small, Fill::Any);
            let expected = Array::new(dtype, &shape, |i| {
                let mut rest = i.to_vec();
                if rest.remove(dim) == at {
                    source.at(&rest)
                } else {
                    x.at(i)
                }
            });
            let index = choices.named(at, size);
            return call("aten::select_scatter.out", &source)
                .int(index)
                .out(choices, dtype, shape.len())
                .gives(choices, &[&expected], 0.0);
        }
        let (start, end) = (choices.below(size + 1), choices.below(size + 2));
        let step = choices.within(1, 3) as usize;
        let taken: Vec<usize> = (start..end.min(size)).step_by(step).collect();
        let source = choices.array(dtype, &resized(&shape, dim, taken.len()), Fill::Any);
        let expected = Array::new(dtype, &shape, |i| {
            match taken.iter().position(|&at| at == i[dim]) {
                Some(at) => source.at(&with(i, dim, at)),
                None => x.at(i),
            }
        });
        call("aten::slice_scatter.out", &source)
            .int(start)
            .int(end)
            .int(step)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 0.0);
    });
}

/// Half of a tensor is the gate of the other half.
#[test]
fn gates_open() {
    check(100, |choices| {
        let dtype = choices.pick(&FLOATS);
        let (mut shape, dim) = choices.shape_and_dim();
        shape[dim] = 2 * shape[dim].min(3);
        let x = choices.array(dtype, &shape, Fill::Small);
        let half = shape[dim] / 2;
        let expected = Array::new(dtype, &resized(&shape, dim, half), |i| {
            let gate = x.at(&with(i, dim, i[dim] + half)).float();
            Float(x.at(i).float() / (1.0 + (-gate).exp()))
        });
        let name = choices.named(dim, shape.len());
        Call::new("aten::glu.out")
            .tensor(&x)
            .int(name)
            .out(choices, dtype, shape.len())
            .gives(choices, &[&expected], 4.0);
    });
}
