//! Headers: what they say of the file's parts is inside of the file.

use et_schema::{HEAD_LEN, Layout};

use super::Outcome;

/// Accepted is a header whose parts are all inside of the file; anything else that is accepted is a fault.
pub(super) fn check(bytes: &[u8]) -> Result<Outcome, String> {
    let file_len = bytes.len() as u64;
    let head = bytes.get(..HEAD_LEN).unwrap_or(bytes);
    let Ok(layout) = Layout::detect(head, file_len) else {
        return Ok(Outcome::Refused);
    };
    let parts = [Some(layout.flatbuffer_range()), layout.segment_region()];
    for part in parts.into_iter().flatten() {
        if part.start > part.end || part.end > file_len {
            return Err(format!(
                "{part:?} of a file of {file_len} bytes was accepted"
            ));
        }
    }
    // Offsets are counted from the region's start and stay inside of it.
    for (offset, size) in [
        (0, 0),
        (0, file_len),
        (file_len, 1),
        (u64::MAX, 1),
        (1, u64::MAX),
    ] {
        if let (Ok(found), Some(region)) = (layout.locate(offset, size), layout.segment_region())
            && size > 0
            && (found.start < region.start || found.end > file_len)
        {
            return Err(format!(
                "{size} bytes at {offset} were located at {found:?}"
            ));
        }
    }
    Ok(Outcome::Accepted)
}
