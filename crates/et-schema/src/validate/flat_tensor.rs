//! Tensor data files: names, layouts, and that each blob is as large as its layout says.

use super::Check;
use super::sink::{Path, Sink};
use super::tensors::Shape;
use crate::container::FileKind;
use crate::flat_tensor::FlatTensorView;
use crate::problem::Rule;
use crate::view::{numbers, tables};

/// Checks a whole tensor data file.
pub(crate) fn flat_tensor<S: Sink>(view: &FlatTensorView<'_>, sink: &mut S) -> Result<(), S::Stop> {
    let mut check = Check {
        file: FileKind::FlatTensor,
        sink,
    };
    let root = view.table();
    check.newer(&root._tab, 3, &Path::field("flat_tensor"))?;
    check.version(root.version())?;
    let segments = view
        .segments()
        .map(|segment| (segment.offset, segment.size));
    check.segments(segments, view.layout())?;
    let names = tables(root.named_data()).map(|entry| (entry.key(), entry.segment_index()));
    check.names(names, view.segments().len())?;
    let list = Path::field("named_data");
    for (index, segment) in tables(root.segments()).enumerate() {
        check.newer(&segment._tab, 2, &Path::field("segments").at(index))?;
    }
    for (index, entry) in tables(root.named_data()).enumerate() {
        check.newer(&entry._tab, 3, &list.at(index))?;
        let Some(layout) = entry.tensor_layout() else {
            continue;
        };
        let entry_path = list.at(index);
        let path = entry_path.dot("tensor_layout");
        check.newer(&layout._tab, 3, &path)?;
        let shape = Shape {
            scalar_type_code: layout.scalar_type().0,
            sizes: layout.sizes().map(|sizes| numbers(Some(sizes))),
            dim_order: layout.dim_order().map(|order| order.bytes()),
        };
        let nbytes = check.shape(&shape, false, &path)?;
        let segment = view.segment(entry.segment_index());
        if let (Some(nbytes), Some(segment)) = (nbytes, segment)
            && nbytes != segment.size
        {
            let expected = format_args!("{} bytes, the size of its segment", segment.size);
            if nbytes > segment.size {
                let found = format_args!("{nbytes} bytes");
                check.error(Rule::SizeMismatch, &path, found, expected)?;
            } else {
                check.warn(
                    Rule::SizeMismatch,
                    &path,
                    format_args!("{nbytes} bytes"),
                    expected,
                )?;
            }
        }
    }
    Ok(())
}
