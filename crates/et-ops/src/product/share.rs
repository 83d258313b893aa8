//! Products that several threads share.

use std::sync::{Mutex, PoisonError};

use et_kernel::KernelError;
use pulp::Arch;
use smallvec::SmallVec;

use super::blocked::{Job, Work};
use super::lanes::Lanes;
use super::pack::Room;
use super::tile::ROWS;
use super::{Extent, MOST_PARTS, MatrixMut};
use crate::elementwise::scratch;

/// Parts have a multiple of so many columns, so that none of a panel's are missing.
const COLUMNS: usize = 32;

/// Makes parts of the rows, or of the columns, at the same time, if the product is large.
pub(super) fn multiply<T: Lanes>(
    room: &mut Room<'_, T>,
    job: Job<'_, T>,
) -> Result<(), KernelError> {
    let cut = Cut::new(room.parts_of(job.extent), &job);
    let (Some((workers, temp)), Some(cut)) = (room.sharing(), cut) else {
        return Arch::new().dispatch(Work { room, job });
    };
    let mut rooms: SmallVec<[[&mut [T]; 2]; MOST_PARTS]> = SmallVec::new();
    let [rows, panels] = job.room(cut.extent(job.extent, 0));
    for _ in 0..cut.parts() {
        rooms.push([scratch(temp, rows)?, scratch(temp, panels)?]);
    }
    let Job {
        extent,
        out,
        accumulate,
        a,
        b,
        ending,
        way,
    } = job;
    let failed = Mutex::new(None);
    let chunks = out.elements.chunks_mut(cut.each * cut.stride);
    workers.each(
        chunks.zip(&mut rooms).take(cut.parts()).enumerate(),
        |(part, (elements, pieces))| {
            let [i, j] = cut.start(part);
            let [rows, panels] = pieces;
            let job = Job {
                extent: cut.extent(extent, part),
                out: MatrixMut { elements, ..out },
                accumulate,
                a: a.from(i, 0),
                b: b.from(0, j),
                ending: ending.from(i, j),
                way,
            };
            let room = &mut Room::lent([rows, panels]);
            if let Err(error) = Arch::new().dispatch(Work { room, job }) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        },
    );
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.map_or(Ok(()), Err)
}

/// How a product is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    by_rows: bool,
    /// Rows or columns, of all and of a part.
    len: usize,
    each: usize,
    /// Elements from one to the next in the output.
    stride: usize,
}

impl Cut {
    /// Into no more than so many parts, if there are some whose elements do not lie between each other.
    fn new<T>(parts: usize, job: &Job<'_, T>) -> Option<Self> {
        let Extent { m, n, .. } = job.extent;
        let (row, column) = (job.out.row_stride, job.out.column_stride);
        let by_rows = m > 1 && (n == 1 || row > column);
        let (len, unit, stride, between) = if by_rows {
            (m, ROWS, row, (n - 1) * column)
        } else {
            (n, COLUMNS, column, (m - 1) * row)
        };
        let each = len.div_ceil(parts).next_multiple_of(unit);
        (parts > 1 && each < len && between < stride).then_some(Self {
            by_rows,
            len,
            each,
            stride,
        })
    }

    fn parts(&self) -> usize {
        self.len.div_ceil(self.each)
    }

    /// The first row and column of a part.
    fn start(&self, part: usize) -> [usize; 2] {
        let start = part * self.each;
        if self.by_rows { [start, 0] } else { [0, start] }
    }

    /// The extent of a part.
    fn extent(&self, extent: Extent, part: usize) -> Extent {
        let len = self.each.min(self.len - part * self.each);
        match self.by_rows {
            true => Extent { m: len, ..extent },
            false => Extent { n: len, ..extent },
        }
    }
}
