//! Conversions between file numbers (64 bits) and memory numbers (`usize`) that cannot lose bits.

/// A length in memory as a file number. Exact: no supported platform has a wider `usize`.
pub(crate) fn file_len(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// An index that is stored as `u32`, as an index in memory; one that does not fit is past any list.
pub(crate) fn mem_index(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// A signed index of the file as an unsigned one; negative ones become values past any list.
pub(crate) fn unsigned(index: i32) -> u32 {
    index.cast_unsigned()
}
