//! Dimensions: counted from either end, broadcast, merged.

use et_kernel::{KernelError, MAX_RANK, TensorMeta};
use smallvec::SmallVec;

/// A list with something for each dimension, of which a tensor has no more than there is room for without a heap block.
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

/// The strides of a tensor seen as one of shape `sizes`, which it broadcasts to.
pub(crate) fn broadcast_strides(
    meta: &TensorMeta,
    sizes: &[usize],
) -> Result<Strides, KernelError> {
    broadcast_strides_of((meta.sizes(), meta.strides()), sizes)
}

/// The same for a shape and its strides.
pub(crate) fn broadcast_strides_of(
    (own_sizes, own_strides): (&[usize], &[usize]),
    sizes: &[usize],
) -> Result<Strides, KernelError> {
    let refused = || {
        KernelError::invalid(format!(
            "shape {own_sizes:?} does not broadcast to {sizes:?}"
        ))
    };
    let missing = sizes
        .len()
        .checked_sub(own_sizes.len())
        .ok_or_else(refused)?;
    let mut strides: Strides = SmallVec::from_elem(0, missing);
    for (dim, &size) in sizes[missing..].iter().enumerate() {
        strides.push(match own_sizes[dim] {
            1 => 0,
            own if own == size => own_strides[dim] as isize,
            _ => return Err(refused()),
        });
    }
    Ok(strides)
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
    sizes: Sizes,
    strides: Dims<[isize; N]>,
    start: [isize; N],
}

impl Walk<2> {
    /// The same with the two tensors exchanged.
    #[must_use]
    pub(crate) fn swapped(mut self) -> Self {
        self.start.reverse();
        self.strides
            .iter_mut()
            .for_each(|strides| strides.reverse());
        self
    }
}

impl<const N: usize> Walk<N> {
    /// Over dimensions given outermost first: each one's size, and its stride in each tensor.
    pub(crate) fn new(dims: impl IntoIterator<Item = (usize, [isize; N])>) -> Self {
        let mut walk = Self {
            sizes: Sizes::new(),
            strides: SmallVec::new(),
            start: [0; N],
        };
        for (size, stride) in dims {
            walk.push(size, stride);
        }
        walk
    }

    /// The same, starting at other positions than 0.
    #[must_use]
    pub(crate) fn starting_at(mut self, start: [isize; N]) -> Self {
        self.start = start;
        self
    }

    fn push(&mut self, size: usize, stride: [isize; N]) {
        if size == 1 {
            return;
        }
        if let (Some(last_size), Some(last)) = (self.sizes.last_mut(), self.strides.last_mut())
            && (0..N).all(|i| last[i] == stride[i].saturating_mul(size as isize))
        {
            *last_size *= size;
            *last = stride;
            return;
        }
        self.sizes.push(size);
        self.strides.push(stride);
    }

    /// The size of the innermost dimension and its strides.
    pub(crate) fn inner(&self) -> (usize, [isize; N]) {
        match (self.sizes.last(), self.strides.last()) {
            (Some(&size), Some(&strides)) => (size, strides),
            _ => (1, [0; N]),
        }
    }

    /// The dimension that has the given strides (in the tensors where one is given), if there is one.
    pub(crate) fn find(&self, strides: [Option<isize>; N]) -> Option<usize> {
        self.strides
            .iter()
            .position(|own| (0..N).all(|i| strides[i].is_none_or(|wanted| wanted == own[i])))
    }

    /// Whether no stride leads backward.
    pub(crate) fn is_forward(&self) -> bool {
        self.strides.iter().flatten().all(|&stride| stride >= 0)
    }

    /// The same positions in another order: with `dim` right around the innermost dimension.
    #[must_use]
    pub(crate) fn with_second_innermost(mut self, dim: usize) -> Self {
        let last = self.sizes.len() - 1;
        self.sizes[dim..last].rotate_left(1);
        self.strides[dim..last].rotate_left(1);
        self
    }

    /// The walk over all but the innermost dimension.
    pub(crate) fn outer(mut self) -> Self {
        self.sizes.pop();
        self.strides.pop();
        self
    }

    /// Checks that every position is within tensors of `lens` elements.
    pub(crate) fn check(&self, lens: [usize; N]) -> Result<(), KernelError> {
        if self.sizes.contains(&0) {
            return Ok(());
        }
        for (i, &len) in lens.iter().enumerate() {
            let (mut low, mut high) = (Some(self.start[i]), Some(self.start[i]));
            for (&size, strides) in self.sizes.iter().zip(&self.strides) {
                let far = isize::try_from(size - 1)
                    .ok()
                    .and_then(|n| n.checked_mul(strides[i]));
                let end = if strides[i] < 0 { &mut low } else { &mut high };
                *end = end.zip(far).and_then(|(at, far)| at.checked_add(far));
            }
            let inside = low.is_some_and(|low| low >= 0)
                && high.is_some_and(|high| high >= 0 && (high as usize) < len);
            if !inside {
                return Err(KernelError::invalid("a view reaches outside of its tensor"));
            }
        }
        Ok(())
    }

    /// How many positions there are.
    pub(crate) fn count(&self) -> usize {
        // Of dimensions of a tensor, whose number of elements was checked.
        self.sizes.iter().product()
    }

    /// Calls `visit` with every position, in order, until it fails.
    pub(crate) fn each<E>(
        &self,
        mut visit: impl FnMut([isize; N]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (_, steps) = self.inner();
        self.runs(|at, len| {
            (0..len as isize).try_for_each(|i| visit(std::array::from_fn(|n| at[n] + steps[n] * i)))
        })
    }

    /// Calls `visit` with the positions of each run along the innermost dimension, in order, until it fails.
    pub(crate) fn runs<E>(
        &self,
        mut visit: impl FnMut([isize; N], usize) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.sizes.contains(&0) {
            return Ok(());
        }
        let Some((&len, outer)) = self.sizes.split_last() else {
            return visit(self.start, 1);
        };
        let mut index: Sizes = SmallVec::from_elem(0, outer.len());
        let mut at = self.start;
        'runs: loop {
            visit(at, len)?;
            for dim in (0..outer.len()).rev() {
                index[dim] += 1;
                if index[dim] < outer[dim] {
                    for (at, stride) in at.iter_mut().zip(self.strides[dim]) {
                        *at += stride;
                    }
                    continue 'runs;
                }
                index[dim] = 0;
                for (at, stride) in at.iter_mut().zip(self.strides[dim]) {
                    *at -= stride * (outer[dim] as isize - 1);
                }
            }
            return Ok(());
        }
    }
}
