//! Memory that changes hands: exchanged with another tensor's, or another's for a while.

use std::sync::Arc;

use et_device::{AllocatorHandle, DeviceAllocatorRegistry};
use et_memory::Place;

use super::{Owner, Tensor, TensorError, View};
use crate::copy::copy_located;

impl Tensor {
    /// Exchanges the memory of two tensors that are of one element type, dimension order and device, and each with room for
    /// the other's bound. This tensor also takes the present shape of `other`, and keeps its own bound.
    ///
    /// # Errors
    /// [`TensorError::Unlike`] if they do not fit, [`TensorError::Shape`] if the shape does not; nothing changes.
    pub(crate) fn exchange_memory(&mut self, other: &mut Self) -> Result<(), TensorError> {
        // What is read-only stays where it is; a tensor that was never given memory has nothing to lose.
        let movable = |tensor: &Self| {
            tensor.view.is_none() && !matches!(tensor.owner, Owner::Shared(_) | Owner::Table)
        };
        let room = |tensor: &Self| tensor.place.map_or(0, |place| place.nbytes());
        let (ours, theirs) = (&self.meta, &other.meta);
        let alike = ours.dtype() == theirs.dtype()
            && ours.dim_order() == theirs.dim_order()
            && ours.device() == theirs.device()
            && room(other) >= ours.bound_nbytes() as u64
            && (self.place.is_none() || room(self) >= theirs.bound_nbytes() as u64);
        if !alike || !movable(self) || !movable(other) {
            return Err(TensorError::Unlike {
                from: Box::new(theirs.clone()),
                to: Box::new(ours.clone()),
            });
        }
        self.meta.resize(other.meta.sizes())?;
        std::mem::swap(&mut self.place, &mut other.place);
        std::mem::swap(&mut self.allocator, &mut other.allocator);
        std::mem::swap(&mut self.owner, &mut other.owner);
        Ok(())
    }

    /// Ends what [`KernelContext::alias`](crate::KernelContext::alias) began: the tensor has its own memory again.
    pub(crate) fn end_view(&mut self) {
        self.view = None;
    }

    /// Takes the tensor's memory away, as an instruction of a program may ask; [`end_view`](Self::end_view) gives it back.
    pub(crate) fn hide_memory(&mut self) {
        self.view = Some(View {
            place: None,
            allocator: None,
            guard: None,
        });
    }

    /// Nobody writes the tensor's own memory any more.
    pub(crate) fn make_read_only(&mut self) {
        self.owner = match std::mem::replace(&mut self.owner, Owner::Elsewhere) {
            Owner::Host(buffer) => Owner::Shared(Arc::new(buffer)),
            other => other,
        };
    }

    /// Ends a view, with a copy of what it showed in the tensor's own memory, which it gets if it has none.
    ///
    /// # Errors
    /// [`TensorError::ReadOnly`] if its own bytes are shared with others, or as for an allocation and a copy; nothing changes.
    pub(crate) fn settle(&mut self, registry: &DeviceAllocatorRegistry) -> Result<(), TensorError> {
        if self.view.is_none() {
            return Ok(());
        }
        if self.located().is_none() {
            return Err(TensorError::NoMemory);
        }
        let fresh = match self.place {
            None => Some(Self::allocate(self.meta.clone(), registry)?),
            Some(_) => None,
        };
        let nbytes = self.meta.nbytes() as u64;
        if nbytes > 0 {
            let own = fresh.as_ref().map_or(self.own(), Self::own);
            let (Some(to), Some(from)) =
                (own.and_then(|own| own.first(nbytes)), self.first(nbytes))
            else {
                return Err(TensorError::NoMemory);
            };
            if !to.is_same(from) {
                if fresh.is_none() && matches!(self.owner, Owner::Shared(_)) {
                    return Err(TensorError::ReadOnly);
                }
                if to.allocator().is_some() && to.overlaps(from) {
                    return Err(TensorError::Overlap);
                }
                // SAFETY: both are live: the one is the tensor's own, which is not shared by the check above, the other that of
                // a tensor of the same table, by the view's contract; `&mut self` stands for the only use of the table. On a
                // device they are apart by the check above.
                unsafe { copy_located(to, from) }?;
            }
        }
        if let Some(fresh) = fresh {
            (self.place, self.allocator, self.owner) = (fresh.place, fresh.allocator, fresh.owner);
        }
        self.view = None;
        Ok(())
    }

    /// Whether the tensor is another name for other bytes, or has its memory hidden.
    pub(crate) fn is_view(&self) -> bool {
        self.view.is_some()
    }

    /// What keeps read-only bytes alive.
    pub(crate) fn shared_owner(&self) -> Option<Arc<dyn Send + Sync>> {
        match (&self.view, &self.owner) {
            (Some(view), _) => view.guard.clone(),
            (None, Owner::Shared(owner)) => Some(Arc::clone(owner)),
            (None, _) => None,
        }
    }

    /// Uses another tensor's bytes, which are read-only if there is a guard.
    ///
    /// # Safety
    /// Until the view ends, what [`from_located`](Self::from_located) asks for holds, or, if there is a guard, what
    /// [`from_shared`](Self::from_shared) asks for.
    pub(crate) unsafe fn become_view(
        &mut self,
        memory: Option<(Place, Option<AllocatorHandle>)>,
        guard: Option<Arc<dyn Send + Sync>>,
    ) {
        let (place, allocator) = memory.unzip();
        self.view = Some(View {
            place,
            allocator: allocator.flatten(),
            guard,
        });
    }
}
