//! Instances as text: `id,lower,upper,size[,alignment][,fixed]`, and plans with one more column, `offset`, which is not read.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::ParseIntError;

use thiserror::Error;

use super::instance::{Buffer, Instance, InstanceError, Lifetime};
use super::plan::Plan;

/// Why a text is not an instance. Lines count from 1, with the header.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CsvError {
    /// A column name that has no meaning here, or occurs twice.
    #[error(
        "column `{name}` is not one of id, lower, upper, size, alignment, fixed, offset, or occurs twice"
    )]
    UnknownColumn {
        /// The name as written.
        name: String,
    },
    /// A column that every instance must have.
    #[error("there is no column `{name}`")]
    MissingColumn {
        /// The name of the column.
        name: &'static str,
    },
    /// A row that is shorter or longer than the header.
    #[error("line {line} has {found} fields, the header has {expected}")]
    FieldCount {
        /// The line.
        line: usize,
        /// Fields in the header.
        expected: usize,
        /// Fields in the line.
        found: usize,
    },
    /// A field that is not a number between 0 and 2^64 - 1.
    #[error("line {line}: `{text}` is not a number for column `{name}`")]
    Number {
        /// The line.
        line: usize,
        /// The name of the column.
        name: &'static str,
        /// The field as written.
        text: String,
        /// What is wrong with it.
        source: ParseIntError,
    },
    /// Two rows of one name.
    #[error("line {line}: id `{id}` is that of line {first} already")]
    SameId {
        /// The line.
        line: usize,
        /// The line that had it before.
        first: usize,
        /// The name.
        id: String,
    },
    /// Rows that are no instance together. Buffers count from 0 at the second line.
    #[error("the rows make no instance")]
    Instance(#[from] InstanceError),
}

const COLUMNS: [&str; 7] = [
    "id",
    "lower",
    "upper",
    "size",
    "alignment",
    "fixed",
    "offset",
];
const REQUIRED: usize = 4;

/// For each of [`COLUMNS`], the field in which it is.
type Layout = [Option<usize>; COLUMNS.len()];

impl Instance {
    /// The instance that `text` describes: a header line, then one line per buffer, fields separated by commas.
    ///
    /// Columns come in any order: `id`, `lower`, `upper`, `size` in bytes, and where wanted `alignment` (1 where
    /// empty) and `fixed`, the offset that the buffer must have (any where empty). A column `offset`, as
    /// [`to_csv`](Self::to_csv) writes it, is not read. Blank lines are skipped, and so is a byte order mark.
    ///
    /// # Errors
    ///
    /// [`CsvError`], with the line.
    pub fn from_csv(text: &str) -> Result<Self, CsvError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty());
        let header = lines.next().map_or("", |(_, line)| line);
        let layout = read_header(header)?;
        let expected = header.split(',').count();
        let (mut buffers, mut ids) = (Vec::new(), Vec::new());
        let mut seen = HashMap::new();
        for (number, line) in lines {
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let (line, found) = (number + 1, fields.len());
            if found != expected {
                return Err(CsvError::FieldCount {
                    line,
                    expected,
                    found,
                });
            }
            let row = Row {
                line,
                fields,
                layout: &layout,
            };
            buffers.push(row.buffer()?);
            let id = row.text(0);
            if let Some(first) = seen.insert(id, line) {
                let id = id.to_owned();
                return Err(CsvError::SameId { line, first, id });
            }
            ids.push(id.to_owned());
        }
        Ok(Self::with_ids(buffers, ids)?)
    }

    /// The instance as text with one more column, `offset`, that holds `plan`.
    ///
    /// A plan with fewer offsets than the instance has buffers leaves the fields of the last ones empty.
    pub fn to_csv(&self, plan: &Plan) -> String {
        let mut text = String::from("id,lower,upper,size,alignment,fixed,offset\n");
        for (index, (id, buffer)) in self.ids().iter().zip(self.buffers()).enumerate() {
            let Lifetime { lower, upper } = buffer.lifetime;
            let Buffer {
                nbytes, alignment, ..
            } = buffer;
            let number =
                |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
            let fixed = number(buffer.fixed_offset);
            let offset = number(plan.offsets().get(index).copied());
            writeln!(
                text,
                "{id},{lower},{upper},{nbytes},{alignment},{fixed},{offset}"
            )
            .expect("writing to a String cannot fail");
        }
        text
    }
}

fn read_header(header: &str) -> Result<Layout, CsvError> {
    let mut layout = [None; COLUMNS.len()];
    for (field, name) in header.split(',').map(str::trim).enumerate() {
        let column = COLUMNS.iter().position(|column| *column == name);
        match column.map(|column| &mut layout[column]) {
            Some(slot @ None) => *slot = Some(field),
            _ if header.is_empty() => {}
            _ => {
                return Err(CsvError::UnknownColumn {
                    name: name.to_owned(),
                });
            }
        }
    }
    match (0..REQUIRED).find(|&column| layout[column].is_none()) {
        Some(column) => Err(CsvError::MissingColumn {
            name: COLUMNS[column],
        }),
        None => Ok(layout),
    }
}

struct Row<'a, 'l> {
    line: usize,
    fields: Vec<&'a str>,
    layout: &'l Layout,
}

impl<'a> Row<'a, '_> {
    fn buffer(&self) -> Result<Buffer, CsvError> {
        Ok(Buffer {
            lifetime: Lifetime::new(self.required(1)?, self.required(2)?),
            nbytes: self.required(3)?,
            alignment: self.optional(4)?.unwrap_or(1),
            fixed_offset: self.optional(5)?,
        })
    }

    fn text(&self, column: usize) -> &'a str {
        self.layout[column].map_or("", |field| self.fields[field])
    }

    fn required(&self, column: usize) -> Result<u64, CsvError> {
        let text = self.text(column);
        text.parse().map_err(|source| CsvError::Number {
            line: self.line,
            name: COLUMNS[column],
            text: text.to_owned(),
            source,
        })
    }

    fn optional(&self, column: usize) -> Result<Option<u64>, CsvError> {
        if self.text(column).is_empty() {
            Ok(None)
        } else {
            self.required(column).map(Some)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_in_any_order() {
        let text = "size, id,upper,lower,alignment,fixed\n8,x,3,1,,\n\n16,y,9,0,4,32\r\n";
        let instance = Instance::from_csv(text).unwrap();
        let expected = [
            Buffer::new(Lifetime::new(1, 3), 8),
            Buffer::new(Lifetime::new(0, 9), 16).aligned(4).fixed(32),
        ];
        assert_eq!(instance.buffers(), expected);
        assert_eq!(instance.ids(), ["x", "y"]);
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(Instance::from_csv(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn faults_are_named_with_their_line() {
        refused("", "there is no column `id`");
        refused("id,lower,upper\n", "there is no column `size`");
        let twice = "column `id` is not one of id, lower, upper, size, alignment, fixed, offset, or occurs twice";
        refused("id,id,lower,upper,size\n", twice);
        refused(
            "id,lower,upper,size\na,0,1\n",
            "line 2 has 3 fields, the header has 4",
        );
        refused(
            "id,lower,upper,size\na,0,1,-4\n",
            "line 2: `-4` is not a number for column `size`",
        );
        refused(
            "id,lower,upper,size\n\na,0,,4\n",
            "line 3: `` is not a number for column `upper`",
        );
        refused(
            "id,lower,upper,size\na,3,1,4\n",
            "the rows make no instance",
        );
    }

    #[test]
    fn names_are_used_once() {
        let text = "id,lower,upper,size\na,0,1,4\n\nb,0,1,4\na,1,2,4\n";
        refused(text, "line 5: id `a` is that of line 2 already");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_name() {
        let instance = Instance::from_csv("\u{feff}id,lower,upper,size\na,0,1,4\n").unwrap();
        assert_eq!(instance.ids(), ["a"]);
    }

    #[test]
    fn a_plan_that_was_written_is_an_instance_again() {
        let instance = Instance::from_csv("id,lower,upper,size\na,0,1,8\nb,0,1,8\n").unwrap();
        let text = instance.to_csv(&Plan::new(vec![0, 8], 16));
        assert_eq!(Instance::from_csv(&text), Ok(instance));
    }

    #[test]
    fn a_plan_is_one_more_column() {
        let instance = Instance::from_csv("id,lower,upper,size\na,0,1,8\nb,0,1,8\n").unwrap();
        let text = instance.to_csv(&Plan::new(vec![0, 8], 16));
        assert_eq!(
            text,
            "id,lower,upper,size,alignment,fixed,offset\na,0,1,8,1,,0\nb,0,1,8,1,,8\n"
        );
    }
}
