//! Copies that an instruction makes, worked out once for the shapes that its tensors have.

use et_kernel::{
    Arguments, EValue, Kernel, KernelContext, KernelError, PrepareContext, Prepared, RunFn,
    ScalarTypeSet, TensorId, TensorMeta,
};
use et_memory::Place;

use crate::dims::Walk;
use crate::memo::Memo;
use crate::view::{self, View};

/// Copies of one instruction that are kept at most.
const MOST: usize = 8;

/// A kernel of an operator that moves elements, whose copies are kept: its `run` is [`keep`].
pub(crate) const fn moving(name: &'static str, dtypes: ScalarTypeSet, run: RunFn) -> Kernel {
    Kernel::new(name, dtypes, run).with_prepare(prepare)
}

/// The copies that an instruction made the last time.
type Plan = Memo<Vec<Piece>>;

/// A view of a tensor that is copied to another tensor, or to a part of one.
struct Piece {
    out: TensorId,
    input: TensorId,
    walk: Walk<2>,
    /// Whether the output has the input's bytes in their order.
    is_whole: bool,
}

/// Makes room for the copies of an instruction, unless its result is always the same and so made once.
pub(crate) fn prepare(context: &PrepareContext<'_>) -> Result<Prepared, KernelError> {
    let (mut tensors, mut listed) = (0usize, 0);
    for at in 0..context.argument_count() {
        match context.value(at)? {
            EValue::Tensor(_) => tensors += 1,
            EValue::TensorList(items) => listed = listed.max(items.len()),
            _ => {}
        }
    }
    // One copy for each input, or for each output.
    let pieces = listed.max(tensors.saturating_sub(1)).max(1);
    if pieces > MOST || context.is_constant(0) {
        return Ok(Prepared::nothing());
    }
    let nbytes = pieces * size_of::<Piece>();
    Plan::prepare(context, nbytes, || Vec::with_capacity(pieces))
}

/// Does what the kept plan says, if there is one that fits. Else lets `make` make the copies, which are kept.
#[inline]
pub(crate) fn keep<'a>(
    context: &mut KernelContext<'a>,
    make: impl FnOnce(&mut KernelContext<'a>, NewPlan<'_>) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let Some(plan) = context.take_state::<Plan>() else {
        return make(context, NewPlan::UNKEPT);
    };
    if let Some(pieces) = plan.value(context)
        && is_apart(context, pieces)
    {
        for piece in pieces {
            copy(context, piece.out, piece.input, &piece.walk, piece.is_whole)?;
        }
        return Ok(());
    }
    plan.renew(context, |context, pieces| {
        pieces.clear();
        make(context, NewPlan(Some(&mut *pieces)))?;
        Ok(!pieces.is_empty())
    })?;
    Ok(())
}

/// Whether no copy writes what another one reads. Either all of them write one tensor, or all of them read one.
fn is_apart(context: &KernelContext<'_>, pieces: &[Piece]) -> bool {
    if pieces.len() == 1 {
        return true;
    }
    pieces.iter().enumerate().all(|(at, piece)| {
        // All the memory that the two have, which is found out faster than what they use of it.
        let places = [piece.out, piece.input].map(|id| context.table_tensor(id).place());
        let [Some(out), Some(input)] = places else {
            return true;
        };
        // Behind another copy what is in place would be overwritten already.
        let in_place = || piece.is_whole && is_in_place(context, piece.out, piece.input);
        !out.overlaps(&input) || at == 0 && in_place()
    })
}

/// Whether the memory of two tensors on the host starts at one place.
#[inline]
fn is_in_place(context: &KernelContext<'_>, out: TensorId, input: TensorId) -> bool {
    let places = [out, input].map(|id| context.table_tensor(id).place());
    match places {
        [Some(Place::Host(out)), Some(Place::Host(input))] => out.base() == input.base(),
        _ => false,
    }
}

/// Copies along a walk; `is_whole` says whether it leads through all bytes of both in their order.
fn copy(
    context: &mut KernelContext<'_>,
    out: TensorId,
    input: TensorId,
    walk: &Walk<2>,
    is_whole: bool,
) -> Result<(), KernelError> {
    if is_whole && is_in_place(context, out, input) {
        return Ok(());
    }
    let ([out], [input]) = context.disjoint([out], [input])?;
    view::copy_words(walk, out, input.bytes)
}

/// Where copies are kept while they are made.
pub(crate) struct NewPlan<'a>(Option<&'a mut Vec<Piece>>);

impl NewPlan<'_> {
    /// Of copies that are not kept.
    pub(crate) const UNKEPT: Self = Self(None);

    /// Whether copies are kept at all.
    pub(crate) const fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Makes `out` a copy of a view of `input`, and that is all.
    pub(crate) fn copy(
        mut self,
        context: &mut KernelContext<'_>,
        out: TensorId,
        input: TensorId,
        view: &View,
    ) -> Result<(), KernelError> {
        view::expect_same_dtype(context, out, input)?;
        context.resize(out, &view.sizes)?;
        let walk = view::walk_whole(context.meta(out), view);
        self.add(context, out, input, walk)
    }

    /// Copies along a walk whose positions are those in `out`, which has its shape, and in `input`.
    pub(crate) fn add(
        &mut self,
        context: &mut KernelContext<'_>,
        out: TensorId,
        input: TensorId,
        walk: Walk<2>,
    ) -> Result<(), KernelError> {
        let is_whole = is_whole(&walk, context.meta(out), context.meta(input));
        copy(context, out, input, &walk, is_whole)?;
        if let Some(pieces) = &mut self.0 {
            let lens = [out, input].map(|id| context.meta(id).numel());
            pieces.push(Piece {
                out,
                input,
                walk: walk.checked(lens)?,
                is_whole,
            });
        }
        Ok(())
    }
}

/// Whether a walk leads through all bytes of both tensors in their order.
fn is_whole(walk: &Walk<2>, out: &TensorMeta, input: &TensorMeta) -> bool {
    out.numel() == input.numel() && walk.only_run(1) == Some(([0, 0], out.numel()))
}

#[cfg(test)]
mod tests {
    use et_kernel::{
        Arguments, Dynamism, EValue, Environment, ScalarType, Tensor, TensorMeta, ValueIndex,
        ValueTable,
    };
    use et_memory::PlannedMemory;

    use crate::testing::kernel;

    fn dynamic(sizes: &[usize]) -> Tensor {
        let meta = TensorMeta::contiguous(ScalarType::Int, sizes).unwrap();
        Tensor::zeros(meta.with_dynamism(Dynamism::Bound)).unwrap()
    }

    /// Runs an operator of two dynamic inputs in a list, a dimension and an output with one state, on inputs of several shapes.
    #[track_caller]
    fn check(name: &str, runs: &[[usize; 2]], expected: impl Fn(usize, usize) -> Vec<i32>) {
        let mut table = ValueTable::new(PlannedMemory::default());
        table.allow(1 << 12);
        table.push_owned(dynamic(&[8]));
        table.push_owned(dynamic(&[8]));
        table.push(EValue::TensorList(
            [ValueIndex(0), ValueIndex(1)].as_slice().into(),
        ));
        table.mark_constant();
        table.push(EValue::Int(0));
        table.mark_constant();
        table.push_owned(dynamic(&[16]));
        let arguments = [2, 3, 4].map(ValueIndex);
        let (kernel, environment) = (kernel(name), Environment::default());
        let context = table.prepare(&arguments, &environment).unwrap();
        let mut state = kernel.prepare().unwrap()(&context).unwrap().state;
        assert!(state.is_some());
        for &[first, second] in runs {
            for (index, len) in [(0, first), (1, second)] {
                let elements: Vec<i32> = (0..len as i32).map(|x| x + 100 * index as i32).collect();
                let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_ne_bytes()).collect();
                table.resize(ValueIndex(index), &[len]).unwrap();
                table
                    .bytes_mut(ValueIndex(index))
                    .unwrap()
                    .copy_from_slice(&bytes);
            }
            let mut context = table
                .call(&arguments, state.as_mut(), &environment)
                .unwrap();
            kernel.run()(&mut context).unwrap();
            let out = table.tensor(ValueIndex(4)).unwrap();
            assert_eq!(out.as_slice::<i32>().unwrap(), expected(first, second));
        }
    }

    #[test]
    fn a_plan_holds_for_the_shapes_it_was_made_for() {
        let runs = [[3, 2], [3, 2], [2, 3], [0, 3], [0, 3], [2, 3], [3, 0]];
        check("aten::cat.out", &runs, |first, second| {
            let (first, second) = (0..first as i32, 100..100 + second as i32);
            first.chain(second).collect()
        });
    }

    #[test]
    fn what_became_a_view_of_the_output_is_read_before_that_is_written() {
        let mut table = ValueTable::new(PlannedMemory::default());
        table.allow(1 << 12);
        let ints = |first: i32| {
            let elements = [0, 1, 2, 3].map(|i| first + i);
            Tensor::from_slice(&elements, &[4]).unwrap()
        };
        let (input, source, out) = (ints(1), ints(90), ints(50));
        table.push_owned(input);
        table.push_owned(source);
        for number in [EValue::Int(0), EValue::None, EValue::None, EValue::Int(1)] {
            table.push(number);
            table.mark_constant();
        }
        table.push_owned(out);
        let arguments = [0, 1, 2, 3, 4, 5, 6].map(ValueIndex);
        let (kernel, environment) = (kernel("aten::slice_scatter.out"), Environment::default());
        let context = table.prepare(&arguments, &environment).unwrap();
        let mut state = kernel.prepare().unwrap()(&context).unwrap().state;
        assert!(state.is_some());
        for (is_view, expected) in [(false, 90), (false, 90), (true, 50), (false, 90)] {
            let bytes = [0, 1, 2, 3].map(|i| 50 + i).map(i32::to_ne_bytes);
            table
                .bytes_mut(ValueIndex(6))
                .unwrap()
                .copy_from_slice(bytes.as_flattened());
            table.end_views();
            let mut context = table
                .call(&arguments, state.as_mut(), &environment)
                .unwrap();
            if is_view {
                let (out, source) = (context.tensor(6).unwrap(), context.tensor(1).unwrap());
                context.alias(source, out).unwrap();
            }
            kernel.run()(&mut context).unwrap();
            let out = table.tensor(ValueIndex(6)).unwrap();
            assert_eq!(out.as_slice::<i32>().unwrap()[0], expected);
        }
    }
}
