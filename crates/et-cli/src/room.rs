//! Blocks whose size a file decides: asked for, so that too little memory is an error.

use crate::failure::{Blame, Failure};

/// There is no memory for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no memory for {nbytes} bytes")]
pub(crate) struct NoRoom {
    nbytes: usize,
}

impl From<NoRoom> for Failure {
    fn from(error: NoRoom) -> Self {
        Self::new(Blame::Environment, "memory", error.to_string())
    }
}

/// An empty list that can grow to `nbytes` bytes.
pub(crate) fn reserve(nbytes: usize) -> Result<Vec<u8>, NoRoom> {
    let mut bytes = Vec::new();
    match bytes.try_reserve_exact(nbytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(NoRoom { nbytes }),
    }
}

/// The same bytes once more.
pub(crate) fn copy(bytes: &[u8]) -> Result<Vec<u8>, NoRoom> {
    let mut copied = reserve(bytes.len())?;
    copied.extend_from_slice(bytes);
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_an_error_of_the_machine() {
        let error = reserve(usize::MAX).unwrap_err();
        let failure = Failure::from(error);
        assert_eq!(failure.blame, Blame::Environment);
        assert!(
            failure.message.contains(&usize::MAX.to_string()),
            "{}",
            failure.message
        );
        assert_eq!(copy(&[1, 2]).unwrap(), [1, 2]);
    }
}
