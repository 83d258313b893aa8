//! Programs that are a delegate's data.

use crate::render::{self, Section};
use crate::source::Source;
use et_schema::summary::ProgramSummary;
use et_schema::{ByteSource, DelegateView, ParsedProgram, Processed, ProgramView, SourceError};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The backend whose data is a whole program.
const BACKEND: &str = "NestedProgramBackend";
/// Data that only names an entry of the program's named data.
const NAMED: &[u8] = b"key:";
/// The longest data that is looked at for a name.
const MAX_KEY: u64 = 4096;
/// Bytes that are hashed at a time.
const PIECE: u64 = 1 << 20;

/// A nested program: the delegates that run it, by the hash of their data.
pub(super) struct Nested {
    users: Vec<String>,
    program: ParsedProgram,
}

/// All nested programs of a program, by the SHA-256 of the delegates' data. What is no program is left out: the
/// backend would refuse it.
pub(super) fn find(source: &Source, program: &ProgramView<'_>) -> BTreeMap<String, Nested> {
    let mut known: BTreeMap<Place, String> = BTreeMap::new();
    let mut found: BTreeMap<String, Nested> = BTreeMap::new();
    for plan in program.plans() {
        for (index, delegate) in plan.delegates().enumerate() {
            let Some(place) = place(&delegate) else {
                continue;
            };
            let user = format!("delegate {index} of {}", render::name(plan.name()));
            if let Some(nested) = known.get(&place).and_then(|hash| found.get_mut(hash)) {
                nested.users.push(user);
                continue;
            }
            let Some((hash, nested)) = read(source, program, place) else {
                continue;
            };
            known.insert(place, hash.clone());
            let entry = Nested {
                users: Vec::new(),
                program: nested,
            };
            found.entry(hash).or_insert(entry).users.push(user);
        }
    }
    found
}

/// Where a delegate's data is: data that several delegates share is read once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Segment(u32),
    Inline(u32),
}

fn place(delegate: &DelegateView<'_>) -> Option<Place> {
    match delegate.processed() {
        _ if delegate.id() != BACKEND => None,
        Processed::Segment(index) => Some(Place::Segment(index)),
        Processed::Inline(index) => Some(Place::Inline(index)),
        _ => None,
    }
}

fn read(
    source: &Source,
    program: &ProgramView<'_>,
    place: Place,
) -> Option<(String, ParsedProgram)> {
    match place {
        Place::Segment(index) => read_data(source, program, &segment(source, program, index)?),
        Place::Inline(index) => read_data(source, program, program.inline_delegate_data(index)?),
    }
}

/// The program in a delegate's data, or in the named data that it names; with the hash of the delegate's data.
fn read_data(
    source: &Source,
    program: &ProgramView<'_>,
    data: &(impl ByteSource + ?Sized),
) -> Option<(String, ParsedProgram)> {
    let parsed = match named(data)? {
        Some(key) => {
            let entry = program
                .named_data()
                .find(|entry| entry.key.as_bytes() == key)?;
            ParsedProgram::read(&segment(source, program, entry.segment_index)?)
        }
        None => ParsedProgram::read(data),
    };
    Some((hash(data)?, parsed.ok()?))
}

/// The key, if the data only names an entry of the named data.
fn named(data: &(impl ByteSource + ?Sized)) -> Option<Option<Vec<u8>>> {
    if data.len() > MAX_KEY {
        return Some(None);
    }
    let mut bytes = vec![0; usize::try_from(data.len()).ok()?];
    data.read_at(0, &mut bytes).ok()?;
    Some(bytes.strip_prefix(NAMED).map(<[u8]>::to_vec))
}

/// The SHA-256 of the data, which is read piece by piece.
fn hash(data: &(impl ByteSource + ?Sized)) -> Option<String> {
    let mut hash = Sha256::new();
    let mut offset = 0;
    while offset < data.len() {
        let nbytes = PIECE.min(data.len() - offset);
        let mut piece = vec![0; usize::try_from(nbytes).ok()?];
        data.read_at(offset, &mut piece).ok()?;
        hash.update(&piece);
        offset += nbytes;
    }
    Some(
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

/// A segment, which may be larger than what should be in memory.
struct Segment<'a> {
    source: &'a Source,
    start: u64,
    nbytes: u64,
}

fn segment<'a>(source: &'a Source, program: &ProgramView<'_>, index: u32) -> Option<Segment<'a>> {
    let range = program.segment_range(index)?.ok()?;
    Some(Segment {
        source,
        start: range.start,
        nbytes: range.end.checked_sub(range.start)?,
    })
}

impl ByteSource for Segment<'_> {
    fn len(&self) -> u64 {
        self.nbytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), SourceError> {
        let nbytes = into.len() as u64;
        if offset
            .checked_add(nbytes)
            .is_none_or(|end| end > self.nbytes)
        {
            return Err(SourceError::OutOfRange {
                offset,
                nbytes,
                len: self.nbytes,
            });
        }
        // The whole segment lies in the file, so the sum is a position in it.
        self.source.read_at(self.start + offset, into)
    }
}

/// The nested programs as a field of the document.
pub(super) fn to_json(nested: &BTreeMap<String, Nested>) -> Json {
    let entry = |(hash, nested): (&String, &Nested)| {
        let summary = serde_json::to_value(ProgramSummary::new(&nested.program));
        let summary = summary.expect("invariant: a summary's keys are field names");
        (hash.clone(), summary)
    };
    nested.iter().map(entry).collect::<Map<_, _>>().into()
}

/// One line per method of each nested program.
pub(super) fn section(nested: &BTreeMap<String, Nested>) -> Section {
    let heads = ["run by", "method", ">instructions", "operators"];
    let mut section = Section::new("nested programs", &heads);
    for nested in nested.values() {
        for method in ProgramSummary::new(&nested.program).methods {
            let instructions: u64 = method.instruction_counts.values().sum();
            section.row([
                render::name(&nested.users.join(", ")),
                render::name(&method.name),
                instructions.to_string(),
                render::name(&method.operators.join(", ")),
            ]);
        }
    }
    section
}
