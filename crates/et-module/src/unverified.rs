//! Loading without verification, for those who must.
#![expect(unsafe_code, reason = "skipping verification is unsafe, and says so")]

use et_schema::{AlignedBytes, HEAD_LEN, Layout, VerifiedProgram};

use crate::source::DataSource;
use crate::{Error, Program};

impl Program {
    /// Loads a program that is known to be valid, without looking at it. The container (header and sizes) is checked all the same.
    ///
    /// # Errors
    /// [`ErrorKind::Read`](crate::ErrorKind::Read) if the container is damaged.
    ///
    /// # Safety
    /// [`Program::load`] would accept the bytes. With any others, what follows may reach outside of them.
    pub unsafe fn load_unverified(source: impl DataSource + 'static) -> Result<Self, Error> {
        let len = source.len();
        let mut head = [0; HEAD_LEN];
        let there = usize::try_from(len).unwrap_or(HEAD_LEN).min(HEAD_LEN);
        source.read_at(0, &mut head[..there])?;
        let layout = Layout::program(&head[..there], len)?;
        let mut bytes = AlignedBytes::zeroed(layout.flatbuffer_range().end)?;
        source.read_at(0, bytes.as_mut_slice())?;
        // SAFETY: the caller vouches for the bytes.
        let verified = unsafe { VerifiedProgram::assume_verified(bytes, layout)? };
        Ok(Self::assemble(verified, source))
    }
}
