//! A quick yes or no: is this FlatBuffer well-formed?
//!
//! The verifier of the flatbuffers crate answers the same question and says where a fault is, but
//! takes several times as long, which loading cannot afford. So this walk decides, the other one
//! explains; builds with debug assertions ask both.

use super::shape::Shape;

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A number of 1, 4 or 8 bytes.
    Number(usize),
    /// A text.
    Text,
    /// A list of numbers of 1, 4 or 8 bytes.
    Numbers(usize),
    /// Another table.
    Table(&'static Shape),
    /// A list of tables.
    Tables(&'static Shape),
    /// Which member the union in the next field holds.
    UnionTag,
    /// One of these tables, counted from 1.
    Union(&'static [&'static Shape]),
}

/// Why the walk ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Something is not as it must be.
    Damaged,
    /// Followed one by one, the tables are more bytes than the limit.
    Expands,
}

/// Follows every table from the root. `limit` bounds the bytes looked at, however often.
pub(super) fn walk(bytes: &[u8], root: &'static Shape, limit: usize) -> Result<(), Fault> {
    let mut walk = Walk {
        bytes,
        budget: limit,
    };
    let position = walk.target(0)?;
    walk.table(position, root)
}

struct Walk<'a> {
    bytes: &'a [u8],
    /// Bytes that may still be looked at.
    budget: usize,
}

impl Walk<'_> {
    /// The schemas nest tables a few levels deep and never in circles, so recursion is bounded.
    fn table(&mut self, position: usize, shape: &'static Shape) -> Result<(), Fault> {
        let back = self.word(position)?.cast_signed();
        // The field list is before the table or after it.
        let list = match isize::try_from(back).ok().and_then(isize::checked_neg) {
            Some(ahead) => position.checked_add_signed(ahead).ok_or(Fault::Damaged)?,
            None => return Err(Fault::Damaged),
        };
        let len = usize::from(self.half_word(list)?);
        if !len.is_multiple_of(2) {
            return Err(Fault::Damaged);
        }
        let end = list.checked_add(len).ok_or(Fault::Damaged)?;
        let fields = self.bytes.get(list..end).ok_or(Fault::Damaged)?;
        self.spend(len.saturating_add(4))?;
        // The first two entries are the lengths of the list and of the table.
        let entries = fields.get(4..).unwrap_or_default().chunks_exact(2);
        let mut tag = None;
        for (entry, kind) in entries.zip(shape.fields) {
            let offset = usize::from(entry.first_chunk().map_or(0, |it| u16::from_le_bytes(*it)));
            let field = (offset > 0).then(|| position.saturating_add(offset));
            match (kind, field) {
                (Kind::UnionTag, field) => {
                    tag = field.map(|field| self.byte(field)).transpose()?;
                    // A tag without room for the value in the field list has no value.
                    if tag.is_some() && fields.len() < 8 {
                        return Err(Fault::Damaged);
                    }
                }
                (Kind::Union(members), field) => self.union(members, tag, field)?,
                (_, None) => {}
                (kind, Some(field)) => self.field(*kind, field)?,
            }
        }
        Ok(())
    }

    #[inline]
    fn field(&mut self, kind: Kind, position: usize) -> Result<(), Fault> {
        match kind {
            Kind::Number(size) => self.range(position, size, size).map(|_| ()),
            Kind::Text => self.text(position),
            Kind::Numbers(size) => self.list(position, size).map(|_| ()),
            Kind::Table(shape) => {
                let table = self.target(position)?;
                self.table(table, shape)
            }
            Kind::Tables(shape) => {
                let (start, end) = self.list(position, 4)?;
                for slot in (start..end).step_by(4) {
                    let table = self.target(slot)?;
                    self.table(table, shape)?;
                }
                Ok(())
            }
            // Handled with the table, as they need each other.
            Kind::UnionTag | Kind::Union(_) => Err(Fault::Damaged),
        }
    }

    fn union(
        &mut self,
        members: &'static [&'static Shape],
        tag: Option<u8>,
        field: Option<usize>,
    ) -> Result<(), Fault> {
        match (tag, field) {
            (None, None) => Ok(()),
            (Some(tag), Some(field)) => {
                // Members that we do not know are left alone, here and by whoever reads later.
                let known = usize::from(tag)
                    .checked_sub(1)
                    .and_then(|index| members.get(index));
                let Some(shape) = known else { return Ok(()) };
                let table = self.target(field)?;
                self.table(table, shape)
            }
            _ => Err(Fault::Damaged),
        }
    }

    fn text(&mut self, position: usize) -> Result<(), Fault> {
        let (start, end) = self.list(position, 1)?;
        let text = self.bytes.get(start..end).ok_or(Fault::Damaged)?;
        let ended = self.bytes.get(end) == Some(&0);
        if ended && core::str::from_utf8(text).is_ok() {
            Ok(())
        } else {
            Err(Fault::Damaged)
        }
    }

    /// Where the items of the list that the field at `position` points to start and end.
    #[inline]
    fn list(&mut self, position: usize, size: usize) -> Result<(usize, usize), Fault> {
        let list = self.target(position)?;
        let len = usize::try_from(self.word(list)?).map_err(|_| Fault::Damaged)?;
        let start = list.checked_add(4).ok_or(Fault::Damaged)?;
        let nbytes = len.checked_mul(size).ok_or(Fault::Damaged)?;
        let end = self.range(start, nbytes, size)?;
        self.spend(nbytes.saturating_add(4))?;
        Ok((start, end))
    }

    /// What the forward offset at `position` points to.
    #[inline]
    fn target(&self, position: usize) -> Result<usize, Fault> {
        let offset = usize::try_from(self.word(position)?).map_err(|_| Fault::Damaged)?;
        position.checked_add(offset).ok_or(Fault::Damaged)
    }

    /// The end of a range that lies inside, at a multiple of `alignment` (a power of two).
    #[inline]
    fn range(&self, start: usize, nbytes: usize, alignment: usize) -> Result<usize, Fault> {
        let end = start.checked_add(nbytes).ok_or(Fault::Damaged)?;
        let aligned = start & alignment.wrapping_sub(1) == 0;
        if end <= self.bytes.len() && aligned {
            Ok(end)
        } else {
            Err(Fault::Damaged)
        }
    }

    #[inline]
    fn word(&self, position: usize) -> Result<u32, Fault> {
        let word = self
            .bytes
            .get(position..)
            .and_then(|rest| rest.first_chunk());
        match word {
            Some(word) if position.is_multiple_of(4) => Ok(u32::from_le_bytes(*word)),
            _ => Err(Fault::Damaged),
        }
    }

    #[inline]
    fn half_word(&self, position: usize) -> Result<u16, Fault> {
        let word = self
            .bytes
            .get(position..)
            .and_then(|rest| rest.first_chunk());
        match word {
            Some(word) if position.is_multiple_of(2) => Ok(u16::from_le_bytes(*word)),
            _ => Err(Fault::Damaged),
        }
    }

    #[inline]
    fn byte(&self, position: usize) -> Result<u8, Fault> {
        self.bytes.get(position).copied().ok_or(Fault::Damaged)
    }

    #[inline]
    fn spend(&mut self, nbytes: usize) -> Result<(), Fault> {
        self.budget = self.budget.checked_sub(nbytes).ok_or(Fault::Expands)?;
        Ok(())
    }
}
