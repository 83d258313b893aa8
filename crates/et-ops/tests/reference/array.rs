//! Tensors as the reference has them: elements by index.

use et_kernel::ScalarType;

use crate::number::Number;

/// A tensor: elements in index order, whatever the order of its memory.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) dtype: ScalarType,
    pub(crate) sizes: Vec<usize>,
    /// The order of the dimensions in memory.
    pub(crate) order: Vec<u8>,
    pub(crate) elements: Vec<Number>,
}

impl Array {
    /// With each element computed from its index, and rounded to the type.
    pub(crate) fn new(
        dtype: ScalarType,
        sizes: &[usize],
        mut element: impl FnMut(&[usize]) -> Number,
    ) -> Self {
        Self {
            dtype,
            sizes: sizes.into(),
            order: (0..sizes.len() as u8).collect(),
            elements: indices(sizes)
                .map(|index| element(&index).cast(dtype))
                .collect(),
        }
    }

    /// Of whole numbers.
    pub(crate) fn wholes(dtype: ScalarType, sizes: &[usize], numbers: &[i64]) -> Self {
        let mut numbers = numbers.iter();
        Self::new(dtype, sizes, |_| {
            Number::Whole((*numbers.next().unwrap()).into())
        })
    }

    pub(crate) fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub(crate) fn numel(&self) -> usize {
        self.elements.len()
    }

    /// The element at an index.
    pub(crate) fn at(&self, index: &[usize]) -> Number {
        assert_eq!(index.len(), self.rank());
        let flat = index.iter().zip(&self.sizes).fold(0, |at, (i, size)| {
            assert!(i < size);
            at * size + i
        });
        self.elements[flat]
    }

    /// The element at an index of a shape that this one is broadcast to.
    pub(crate) fn spread(&self, index: &[usize]) -> Number {
        let own = &index[index.len() - self.rank()..];
        let own: Vec<usize> = own
            .iter()
            .zip(&self.sizes)
            .map(|(&i, &size)| if size == 1 { 0 } else { i })
            .collect();
        self.at(&own)
    }

    /// With every element as another type.
    pub(crate) fn cast(&self, dtype: ScalarType) -> Self {
        Self {
            dtype,
            elements: self.elements.iter().map(|x| x.cast(dtype)).collect(),
            ..self.clone()
        }
    }
}

/// All indices of a shape, in order.
pub(crate) fn indices(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let sizes = sizes.to_vec();
    let numel: usize = sizes.iter().product();
    (0..numel).map(move |mut flat| {
        let mut index = vec![0; sizes.len()];
        for (i, &size) in index.iter_mut().zip(&sizes).rev() {
            *i = flat % size;
            flat /= size;
        }
        index
    })
}

/// The shape that shapes broadcast to, if they do.
pub(crate) fn broadcast(shapes: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    (0..rank)
        .map(|dim| {
            let sizes = shapes.iter().filter_map(|shape| {
                let own = (dim + shape.len()).checked_sub(rank)?;
                Some(shape[own])
            });
            let mut other = sizes.filter(|&size| size != 1);
            let size = other.next().unwrap_or(1);
            other.all(|own| own == size).then_some(size)
        })
        .collect()
}

/// An index with another one at `dim`.
pub(crate) fn with(index: &[usize], dim: usize, at: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[dim] = at;
    index
}

/// A shape with another size at `dim`.
pub(crate) fn resized(sizes: &[usize], dim: usize, size: usize) -> Vec<usize> {
    with(sizes, dim, size)
}
