//! Dimensions: counted from either end, broadcast, merged.

use et_kernel::{KernelError, MAX_RANK, TensorMeta};
use smallvec::SmallVec;

/// A list with something for each dimension, of which a tensor has no more than there is room for without a heap block. That makes
/// it large: lists are changed where they are rather than moved.
pub(crate) type Dims<T> = SmallVec<[T; MAX_RANK]>;

/// Sizes of a shape.
pub(crate) type Sizes = Dims<usize>;

/// Elements from one index to the next along a dimension; negative where the walk goes backward.
pub(crate) type Strides = Dims<isize>;

/// Dimension `dim` of `rank`, counted from the end if negative. A shape without dimensions has one for this purpose.
pub(crate) fn dim_index(what: &str, dim: i64, rank: usize) -> Result<usize, KernelError> {
    let count = rank.max(1) as i64;
    let index = if dim < 0 {
        dim.checked_add(count)
    } else {
        Some(dim)
    };
    match index {
        Some(index) if (0..count).contains(&index) => Ok(index as usize),
        _ => Err(KernelError::invalid(format!(
            "{what} {dim} is not one of {count} dimensions"
        ))),
    }
}

/// The dimensions that a list names, as a set. An empty list names all of them.
pub(crate) fn dim_set(what: &str, dims: &[i64], rank: usize) -> Result<DimSet, KernelError> {
    let mut set = DimSet(0);
    for &dim in dims {
        let bit = 1 << dim_index(what, dim, rank)?;
        if set.0 & bit != 0 {
            return Err(KernelError::invalid(format!("{what} {dim} is named twice")));
        }
        set.0 |= bit;
    }
    Ok(if dims.is_empty() {
        DimSet::all(rank)
    } else {
        set
    })
}

/// A set of dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DimSet(u32);

impl DimSet {
    /// None.
    pub(crate) const NONE: Self = Self(0);

    /// The first `rank`.
    pub(crate) fn all(rank: usize) -> Self {
        Self((1 << rank) - 1)
    }

    /// One.
    pub(crate) fn one(dim: usize) -> Self {
        Self(1 << dim)
    }

    /// Whether `dim` is in the set.
    pub(crate) fn contains(self, dim: usize) -> bool {
        self.0 >> dim & 1 == 1
    }
}

/// A size from a program.
pub(crate) fn size(what: &str, value: i64) -> Result<usize, KernelError> {
    usize::try_from(value)
        .map_err(|_| KernelError::invalid(format!("{what} {value} is not a size")))
}

/// Sizes from a program.
pub(crate) fn sizes(what: &str, values: &[i64]) -> Result<Sizes, KernelError> {
    values.iter().map(|&value| size(what, value)).collect()
}

/// The number of elements of a shape that comes from a program.
pub(crate) fn numel(sizes: &[usize]) -> Result<usize, KernelError> {
    sizes
        .iter()
        .try_fold(1usize, |n, &size| n.checked_mul(size))
        .filter(|&n| n <= isize::MAX as usize)
        .ok_or_else(|| KernelError::invalid(format!("shape {sizes:?} has too many elements")))
}

/// The shape that `shapes` are broadcast to.
pub(crate) fn broadcast<'a>(
    shapes: impl IntoIterator<Item = &'a [usize]>,
) -> Result<Sizes, KernelError> {
    let mut result = Sizes::new();
    for shape in shapes {
        if shape.len() > result.len() {
            result.insert_many(0, std::iter::repeat_n(1, shape.len() - result.len()));
        }
        let start = result.len() - shape.len();
        for (to, &size) in result[start..].iter_mut().zip(shape) {
            match (*to, size) {
                (to, size) if to == size => {}
                (_, 1) => {}
                (1, _) => *to = size,
                (to, size) => {
                    return Err(KernelError::invalid(format!(
                        "sizes {to} and {size} do not broadcast"
                    )));
                }
            }
        }
    }
    Ok(result)
}

/// Whether `shapes` are broadcast to `sizes`.
pub(crate) fn is_broadcast<'a>(
    sizes: &[usize],
    shapes: impl IntoIterator<Item = &'a [usize]>,
) -> bool {
    let mut reached = DimSet::NONE;
    let mut rank = 0;
    for shape in shapes {
        let Some(missing) = sizes.len().checked_sub(shape.len()) else {
            return false;
        };
        rank = rank.max(shape.len());
        for (dim, &size) in (missing..).zip(shape) {
            if size == sizes[dim] {
                reached.0 |= 1 << dim;
            } else if size != 1 {
                return false;
            }
        }
    }
    rank == sizes.len() && reached == DimSet::all(rank)
}

/// The strides of a tensor seen as one of shape `sizes`, which it broadcasts to.
pub(crate) fn broadcast_strides(
    meta: &TensorMeta,
    sizes: &[usize],
) -> Result<Strides, KernelError> {
    broadcast_strides_of((meta.sizes(), meta.strides()), sizes)
}

/// The same for a shape and its strides.
pub(crate) fn broadcast_strides_of(
    own: (&[usize], &[usize]),
    sizes: &[usize],
) -> Result<Strides, KernelError> {
    expect_broadcast(own.0, sizes)?;
    Ok((0..sizes.len())
        .map(|dim| broadcast_stride(own, sizes.len(), dim))
        .collect())
}

/// Fails unless shape `own` broadcasts to `sizes`.
pub(crate) fn expect_broadcast(own: &[usize], sizes: &[usize]) -> Result<(), KernelError> {
    let fits = own.len() <= sizes.len()
        && own
            .iter()
            .rev()
            .zip(sizes.iter().rev())
            .all(|(&own, &size)| own == size || own == 1);
    if fits {
        return Ok(());
    }
    Err(KernelError::invalid(format!(
        "shape {own:?} does not broadcast to {sizes:?}"
    )))
}

/// The stride along `dim` of a shape that is broadcast to one of `rank` dimensions, given the shape's own strides.
#[inline]
pub(crate) fn broadcast_stride(
    (own_sizes, own_strides): (&[usize], &[usize]),
    rank: usize,
    dim: usize,
) -> isize {
    match (dim + own_sizes.len()).checked_sub(rank) {
        Some(own) if own_sizes[own] != 1 => own_strides[own] as isize,
        _ => 0,
    }
}

/// A tensor's own strides.
pub(crate) fn strides(meta: &TensorMeta) -> Strides {
    meta.strides()
        .iter()
        .map(|&stride| stride as isize)
        .collect()
}

/// Index-order strides of a dense shape.
pub(crate) fn dense_strides(sizes: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(1, sizes.len());
    for dim in (1..sizes.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(sizes[dim].max(1) as isize);
    }
    strides
}

/// The indices of some dimensions, in order, and where they lead to in `N` tensors at a time.
///
/// Dimensions of size 1 are gone, and neighbours that are one run in all of the tensors are merged.
#[derive(Clone, Debug)]
pub(crate) struct Walk<const N: usize> {
    dims: Dims<Dim<N>>,
    start: [isize; N],
    /// The elements of tensors that every position was found to be within.
    known: [usize; N],
}

/// A dimension of a walk.
#[derive(Clone, Copy, Debug)]
struct Dim<const N: usize> {
    size: usize,
    /// Elements from one index to the next in each tensor.
    strides: [isize; N],
}

/// The error for a walk that leaves its tensor.
#[cold]
pub(crate) fn outside() -> KernelError {
    KernelError::invalid("a view reaches outside of its tensor")
}

impl Walk<2> {
    /// The same with the two tensors exchanged.
    #[must_use]
    pub(crate) fn swapped(mut self) -> Self {
        self.start.reverse();
        self.known = [usize::MAX; 2];
        self.dims.iter_mut().for_each(|dim| dim.strides.reverse());
        self
    }
}

impl<const N: usize> Walk<N> {
    /// Over dimensions given outermost first: each one's size, and its stride in each tensor.
    #[inline]
    pub(crate) fn new(dims: impl IntoIterator<Item = (usize, [isize; N])>) -> Self {
        let mut walk = Self {
            dims: SmallVec::new(),
            start: [0; N],
            known: [usize::MAX; N],
        };
        for (size, stride) in dims {
            walk.push(size, stride);
        }
        walk
    }

    /// From now on the walk starts at these positions, and not at 0.
    #[inline]
    pub(crate) fn start_at(&mut self, start: [isize; N]) {
        self.start = start;
        self.known = [usize::MAX; N];
    }

    #[inline]
    fn push(&mut self, size: usize, strides: [isize; N]) {
        if size == 1 {
            return;
        }
        if let Some(last) = self.dims.last_mut()
            && (0..N).all(|i| last.strides[i] == strides[i].saturating_mul(size as isize))
        {
            last.size *= size;
            last.strides = strides;
            return;
        }
        self.dims.push(Dim { size, strides });
    }

    /// The size of the innermost dimension and its strides.
    #[inline]
    pub(crate) fn inner(&self) -> (usize, [isize; N]) {
        match self.dims.last() {
            Some(dim) => (dim.size, dim.strides),
            _ => (1, [0; N]),
        }
    }

    /// The dimension that has the given strides (in the tensors where one is given), if there is one.
    pub(crate) fn find(&self, strides: [Option<isize>; N]) -> Option<usize> {
        self.dims.iter().position(|dim| {
            (0..N).all(|i| strides[i].is_none_or(|wanted| wanted == dim.strides[i]))
        })
    }

    /// Whether no stride leads backward.
    pub(crate) fn is_forward(&self) -> bool {
        self.dims
            .iter()
            .all(|dim| dim.strides.iter().all(|&stride| stride >= 0))
    }

    /// The same positions in another order: with `dim` right around the innermost dimension.
    #[must_use]
    pub(crate) fn with_second_innermost(mut self, dim: usize) -> Self {
        let last = self.dims.len() - 1;
        self.dims[dim..last].rotate_left(1);
        self
    }

    /// The walk over all but the innermost dimension.
    pub(crate) fn outer(mut self) -> Self {
        self.dims.pop();
        self
    }

    fn is_empty(&self) -> bool {
        self.dims.iter().any(|dim| dim.size == 0)
    }

    /// Where the walk starts and how many positions it has, if each is `step` behind the one before it in all of the tensors.
    #[inline]
    pub(crate) fn only_run(&self, step: usize) -> Option<([isize; N], usize)> {
        match self.dims[..] {
            [] => Some((self.start, 1)),
            [dim] if dim.strides == [step as isize; N] => Some((self.start, dim.size)),
            _ => None,
        }
    }

    /// The same, for tensors of `lens` elements, within which every position is.
    pub(crate) fn checked(mut self, lens: [usize; N]) -> Result<Self, KernelError> {
        self.check(lens)?;
        self.known = lens;
        Ok(self)
    }

    /// Checks that every position is within tensors of `lens` elements.
    pub(crate) fn check(&self, lens: [usize; N]) -> Result<(), KernelError> {
        // No tensor has as many elements as stand for nothing known.
        if lens == self.known || self.is_empty() {
            return Ok(());
        }
        for (i, &len) in lens.iter().enumerate() {
            let (mut low, mut high) = (Some(self.start[i]), Some(self.start[i]));
            for dim in &self.dims {
                let far = isize::try_from(dim.size - 1)
                    .ok()
                    .and_then(|n| n.checked_mul(dim.strides[i]));
                let end = if dim.strides[i] < 0 {
                    &mut low
                } else {
                    &mut high
                };
                *end = end.zip(far).and_then(|(at, far)| at.checked_add(far));
            }
            let inside = low.is_some_and(|low| low >= 0)
                && high.is_some_and(|high| high >= 0 && (high as usize) < len);
            if !inside {
                return Err(outside());
            }
        }
        Ok(())
    }

    /// How many positions there are.
    pub(crate) fn count(&self) -> usize {
        // Of dimensions of a tensor, whose number of elements was checked.
        self.dims.iter().map(|dim| dim.size).product()
    }

    /// Calls `visit` with every position, in order, until it fails.
    pub(crate) fn each<E>(
        &self,
        mut visit: impl FnMut([isize; N]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (_, steps) = self.inner();
        self.runs(|mut at, len| {
            for _ in 0..len {
                visit(at)?;
                for (at, step) in at.iter_mut().zip(steps) {
                    *at += step;
                }
            }
            Ok(())
        })
    }

    /// Calls `visit` with the positions of each run along the innermost dimension, in order, until it fails.
    #[inline]
    pub(crate) fn runs<E>(
        &self,
        mut visit: impl FnMut([isize; N], usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some((inner, outer)) = self.dims.split_last() else {
            return visit(self.start, 1);
        };
        if self.is_empty() {
            return Ok(());
        }
        if let [outer] = outer {
            let mut at = self.start;
            for _ in 0..outer.size {
                visit(at, inner.size)?;
                for (at, stride) in at.iter_mut().zip(outer.strides) {
                    *at += stride;
                }
            }
            return Ok(());
        }
        let mut index = Sizes::new();
        index.resize(outer.len(), 0);
        let mut at = self.start;
        'runs: loop {
            visit(at, inner.size)?;
            for (dim, index) in outer.iter().zip(&mut index).rev() {
                *index += 1;
                if *index < dim.size {
                    for (at, stride) in at.iter_mut().zip(dim.strides) {
                        *at += stride;
                    }
                    continue 'runs;
                }
                *index = 0;
                for (at, stride) in at.iter_mut().zip(dim.strides) {
                    *at -= stride * (dim.size as isize - 1);
                }
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All shapes of up to 3 dimensions of 0 to 3.
    fn shapes() -> Vec<Vec<usize>> {
        let longer = |shapes: &[Vec<usize>]| -> Vec<Vec<usize>> {
            let more =
                |shape: &Vec<usize>| (0..4).map(|size| [&shape[..], &[size]].concat()).collect();
            shapes
                .iter()
                .flat_map(|shape| -> Vec<_> { more(shape) })
                .collect()
        };
        let mut all = vec![vec![]];
        let mut last = all.clone();
        for _ in 0..3 {
            last = longer(&last);
            all.extend(last.clone());
        }
        all
    }

    #[test]
    fn a_shape_is_known_to_be_the_broadcast_of_others() {
        let shapes = shapes();
        for a in &shapes {
            for b in &shapes {
                let both = [&a[..], b];
                let expected = broadcast(both).ok();
                if let Some(expected) = &expected {
                    assert!(is_broadcast(expected, both), "{a:?} {b:?} {expected:?}");
                }
                for sizes in [a, b].into_iter().chain(shapes.iter().step_by(7)) {
                    let same = expected.as_deref() == Some(sizes);
                    assert_eq!(is_broadcast(sizes, both), same, "{a:?} {b:?} {sizes:?}");
                }
            }
        }
    }
}
