//! Tensor data files.

use alloc::string::ToString;
use alloc::vec::Vec;

use crate::number::file_len;
use crate::owned::{FlatTensor, NamedTensor, TensorLayout};
use crate::scalar_type::ScalarType;
use crate::write::{WriteError, WriteOptions, lay_out, write_flat_tensor};

/// Builds a tensor data file: each entry gets a segment of its own.
#[derive(Debug, Clone, Default)]
pub struct FlatTensorBuilder {
    file: FlatTensor,
    segments: Vec<Vec<u8>>,
    alignment: Option<u32>,
}

impl FlatTensorBuilder {
    /// A file without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Aligns segments to this many bytes; 128 if never called.
    pub fn alignment(&mut self, nbytes: u32) -> &mut Self {
        self.alignment = Some(nbytes);
        self
    }

    /// Adds a contiguous tensor.
    pub fn tensor(
        &mut self,
        key: &str,
        scalar_type: ScalarType,
        sizes: &[i32],
        bytes: &[u8],
    ) -> &mut Self {
        let dim_order = (0..=u8::MAX).take(sizes.len()).collect();
        let layout = TensorLayout {
            scalar_type,
            sizes: sizes.to_vec(),
            dim_order,
        };
        self.entry(key, Some(layout), bytes)
    }

    /// Adds bytes that are not a tensor.
    pub fn blob(&mut self, key: &str, bytes: &[u8]) -> &mut Self {
        self.entry(key, None, bytes)
    }

    /// Adds an entry with any layout.
    pub fn entry(
        &mut self,
        key: &str,
        tensor_layout: Option<TensorLayout>,
        bytes: &[u8],
    ) -> &mut Self {
        let segment_index = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        self.segments.push(bytes.to_vec());
        let entry = NamedTensor {
            key: key.to_string(),
            segment_index,
            tensor_layout,
        };
        self.file.named_data.push(entry);
        self
    }

    /// The file as it is, to be changed at will. The segment table is made when the bytes are.
    pub fn file_mut(&mut self) -> &mut FlatTensor {
        &mut self.file
    }

    /// The bytes of the finished file.
    ///
    /// # Errors
    /// What the format cannot hold.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let sizes: Vec<_> = self
            .segments
            .iter()
            .map(|bytes| (file_len(bytes.len()), 1))
            .collect();
        let alignment = self.alignment.unwrap_or(WriteOptions::DEFAULT_ALIGNMENT);
        let (table, options) = lay_out(&sizes, alignment)?;
        let mut file = self.file.clone();
        file.segments = table;
        let mut bytes = Vec::new();
        write_flat_tensor(&file, self.segments.as_slice(), &options, &mut bytes)?;
        Ok(bytes)
    }
}
