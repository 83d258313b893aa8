//! What an instruction's numbers and its tensors' shapes settle, worked out once.

use et_kernel::{
    Arguments, Dynamism, EValue, KernelContext, KernelError, PrepareContext, Prepared, TensorId,
};
use smallvec::SmallVec;

/// Tensors of an instruction up to which something is kept.
const MOST: usize = 16;

/// Something that depends on nothing but numbers that never change, and on shapes that are kept along with it.
pub(crate) struct Memo<T> {
    value: T,
    /// Whether it was worked out.
    is_made: bool,
    /// The tensors whose shapes may change.
    tensors: Vec<Side>,
}

/// A tensor and the shape it had.
struct Side {
    id: TensorId,
    sizes: SmallVec<[usize; 6]>,
    /// Whether several arguments are this tensor.
    is_shared: bool,
}

impl Side {
    /// Whether the tensor has that shape still.
    fn fits(&self, context: &KernelContext<'_>) -> bool {
        let sizes = context.meta(self.id).sizes();
        // Lists are short: a loop costs less than a call.
        sizes.len() == self.sizes.len() && sizes.iter().zip(&self.sizes).all(|(a, b)| a == b)
    }

    /// Takes the shape that the tensor has. Says whether that is no other than it was.
    fn update(&mut self, context: &KernelContext<'_>) -> bool {
        let fits = self.fits(context);
        if !fits {
            self.sizes.clear();
            self.sizes.extend_from_slice(context.meta(self.id).sizes());
        }
        fits
    }
}

impl<T: Send + 'static> Memo<T> {
    /// Room for a value of `nbytes` bytes more than a `T` has, if none of the instruction's numbers ever changes.
    pub(crate) fn prepare(
        context: &PrepareContext<'_>,
        nbytes: usize,
        value: impl FnOnce() -> T,
    ) -> Result<Prepared, KernelError> {
        let mut memo = Memo {
            value: (),
            is_made: false,
            tensors: Vec::new(),
        };
        if !memo.add_arguments(context)? {
            return Ok(Prepared::nothing());
        }
        let kept = size_of::<Memo<T>>() + size_of_val(&memo.tensors[..]) + nbytes;
        if !context.may_keep(kept) {
            return Ok(Prepared::nothing());
        }
        Ok(Prepared::with_state(Memo {
            value: value(),
            is_made: false,
            tensors: memo.tensors,
        }))
    }

    /// Whether it was worked out for the shapes that the tensors have.
    #[inline]
    pub(crate) fn value(&self, context: &KernelContext<'_>) -> Option<&T> {
        let holds = self.is_made && self.tensors.iter().all(|tensor| tensor.fits(context));
        holds.then_some(&self.value)
    }

    /// Lets `make` work it out for the shapes that the tensors have then, and say whether it may be used again.
    pub(crate) fn renew<'a>(
        &mut self,
        context: &mut KernelContext<'a>,
        make: impl FnOnce(&mut KernelContext<'a>, &mut T) -> Result<bool, KernelError>,
    ) -> Result<&T, KernelError> {
        self.is_made = false;
        for tensor in &mut self.tensors {
            tensor.update(context);
        }
        let mut holds = make(context, &mut self.value)?;
        for tensor in &mut self.tensors {
            // An input that was given another shape, as it is an output too, would be another input the next time.
            holds &= tensor.update(context) || !tensor.is_shared;
        }
        self.is_made = holds;
        Ok(&self.value)
    }
}

impl Memo<()> {
    /// Notes the tensors whose shapes may change. Says whether all numbers stay as they are, and tensors are few.
    fn add_arguments(&mut self, context: &PrepareContext<'_>) -> Result<bool, KernelError> {
        let mut count = 0usize;
        for at in 0..context.argument_count() {
            count = count.saturating_add(match context.value(at)? {
                EValue::Tensor(_) => 1,
                // Lists may be replaced like numbers.
                _ if !context.is_kept(at) => return Ok(false),
                EValue::TensorList(items) => items.len(),
                EValue::OptionalTensorList(items) => items.len(),
                _ => 0,
            });
            if count > MOST {
                return Ok(false);
            }
        }
        for at in 0..context.argument_count() {
            match context.value(at)? {
                EValue::Tensor(_) => self.add(context, context.tensor(at)?),
                EValue::TensorList(items) => {
                    for item in 0..items.len() {
                        if let Some(id) = context.tensor_in_list(at, item)? {
                            self.add(context, id);
                        }
                    }
                }
                EValue::OptionalTensorList(items) => {
                    for item in 0..items.len() {
                        if let Some(Some(id)) = context.optional_tensor_in_list(at, item)? {
                            self.add(context, id);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn add(&mut self, context: &PrepareContext<'_>, id: TensorId) {
        if context.meta(id).dynamism() == Dynamism::Static {
            return;
        }
        match self.tensors.iter_mut().find(|tensor| tensor.id == id) {
            Some(tensor) => tensor.is_shared = true,
            None => self.tensors.push(Side {
                id,
                sizes: SmallVec::new(),
                is_shared: false,
            }),
        }
    }
}

/// Lets `run` use what `make` works out, which is kept if there is a [`Memo`] of it.
#[inline]
pub(crate) fn keep<'a, T: Send + 'static>(
    context: &mut KernelContext<'a>,
    make: impl FnOnce(&mut KernelContext<'a>) -> Result<T, KernelError>,
    run: impl FnOnce(&mut KernelContext<'a>, &T) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let Some(memo) = context.take_state::<Memo<Option<T>>>() else {
        let value = make(context)?;
        return run(context, &value);
    };
    if let Some(Some(value)) = memo.value(context) {
        return run(context, value);
    }
    let value = memo.renew(context, |context, value| {
        *value = Some(make(context)?);
        Ok(true)
    })?;
    run(context, value.as_ref().expect("`make` gave one or failed"))
}

/// The `prepare` of a kernel that uses [`keep`] for a `T`.
pub(crate) fn prepare<T: Send + 'static>(
    context: &PrepareContext<'_>,
) -> Result<Prepared, KernelError> {
    Memo::<Option<T>>::prepare(context, 0, || None)
}
