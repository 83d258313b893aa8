//! Which instructions write values that are nothing but their result: written once, read afterwards, and seen under no
//! other name. Only those may be computed at load, or never be stored at all.

mod values;

use et_schema::{InstructionView, List, PlanView};

use self::values::{Rows, Values};

/// Steps that finding this out may take (a value that is named, a range that is compared): so many, and more per instruction. A
/// program that needs more is run as it is.
const STEPS: [usize; 2] = [100_000, 256];

/// What the instructions of a method of one chain without jumps do with its values.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Per instruction: the value that is its result and nothing else.
    results: Vec<Option<u32>>,
    /// Per value: the instructions that read it, as many as matter.
    readers: Vec<Readers>,
}

#[derive(Clone, Debug, Default)]
struct Readers {
    count: usize,
    first: usize,
}

/// What each instruction reads (no value twice) and writes.
#[derive(Default)]
struct Accesses {
    reads: Rows,
    writes: Rows,
}

impl Flow {
    /// Of a method that has other chains or jumps nothing is known. `writes_last` says of an operator's index whether it writes its
    /// last argument only; any other may write all of them.
    pub(super) fn new(
        plan: &PlanView<'_>,
        chains: &[Vec<InstructionView<'_>>],
        writes_last: impl Fn(u32) -> bool,
    ) -> Self {
        let [instructions] = chains else {
            return Self::default();
        };
        let [always, each] = STEPS;
        let mut left = Left(
            instructions
                .len()
                .saturating_mul(each)
                .saturating_add(always),
        );
        let values = Values::new(plan);
        let mut reading = Reading::new(&values);
        instructions
            .iter()
            .try_for_each(|instruction| reading.access(instruction, &writes_last, &mut left))
            .and_then(|()| Self::of(&values, &reading.accesses, &mut left))
            .unwrap_or_default()
    }

    /// The value that instruction `instruction` gives and that nothing but the instructions behind it sees.
    pub(super) fn result(&self, instruction: usize) -> Option<u32> {
        *self.results.get(instruction)?
    }

    /// The instruction behind `instruction`, if it alone sees the result.
    pub(super) fn follower(&self, instruction: usize) -> Option<usize> {
        let readers = self.readers.get(self.result(instruction)? as usize)?;
        let next = instruction.checked_add(1)?;
        (readers.count == 1 && readers.first == next).then_some(next)
    }

    fn of(values: &Values, accesses: &Accesses, left: &mut Left) -> Option<Self> {
        let count = values.len();
        let (mut readers, mut writers) = (vec![Readers::default(); count], vec![0usize; count]);
        for (at, reads) in accesses.reads.iter().enumerate() {
            for &value in reads {
                let readers = &mut readers[value as usize];
                if readers.count == 0 {
                    readers.first = at;
                }
                readers.count = readers.count.saturating_add(1);
            }
        }
        for &value in accesses.writes.iter().flatten() {
            let writers = &mut writers[value as usize];
            *writers = usize::saturating_add(*writers, 1);
        }
        let shown = shown(values, accesses, left)?;
        let is_result = |at: usize, value: u32| {
            let readers = &readers[value as usize];
            let read_before = readers.count > 0 && readers.first <= at;
            values.is_temporary(value) && writers[value as usize] == 1 && !read_before
        };
        let results = accesses.writes.iter().enumerate().map(|(at, writes)| {
            let plain = !shown[at] && writes.iter().all(|&value| is_result(at, value));
            // Of several results the first counts if nobody reads the others.
            let (&first, others) = writes.split_first()?;
            let alone = others
                .iter()
                .all(|&value| readers[value as usize].count == 0);
            (plain && alone).then_some(first)
        });
        let results = results.collect();
        Some(Self { results, readers })
    }
}

/// Steps that are left.
struct Left(usize);

impl Left {
    fn take(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps)?;
        Some(())
    }
}

/// Finding out what one instruction after the other reads and writes.
struct Reading<'a> {
    values: &'a Values,
    accesses: Accesses,
    /// Per value: how many instructions were looked at when it was last seen to be a result of one.
    results: Vec<usize>,
}

impl<'a> Reading<'a> {
    fn new(values: &'a Values) -> Self {
        Self {
            values,
            accesses: Accesses::default(),
            results: vec![0; values.len()],
        }
    }

    /// Adds an instruction; `None` for one that is no call of an operator or a delegate, or has too many values.
    fn access(
        &mut self,
        instruction: &InstructionView<'_>,
        writes_last: &impl Fn(u32) -> bool,
        left: &mut Left,
    ) -> Option<()> {
        match *instruction {
            InstructionView::Kernel { op, args } if writes_last(op) => self.of_last(&args, left)?,
            InstructionView::Kernel { args, .. } | InstructionView::Delegate { args, .. } => {
                for value in args.iter() {
                    let items = self.items(value, left)?;
                    self.accesses.reads.extend(items);
                    self.accesses.writes.extend(items);
                }
            }
            _ => return None,
        }
        self.accesses.reads.end_set();
        self.accesses.writes.end();
        Some(())
    }

    /// Of an operator that writes its last argument.
    fn of_last(&mut self, args: &List<'_, u32>, left: &mut Left) -> Option<()> {
        let others = args.len().checked_sub(1)?;
        let results = self.items(args.get(others)?, left)?;
        let now = self.accesses.writes.len().saturating_add(1);
        for &value in results {
            self.results[value as usize] = now;
        }
        self.accesses.writes.extend(results);
        // The results are named before the list of them, or twice.
        let named = others.saturating_sub(results.len());
        for (at, value) in args.iter().take(others).enumerate() {
            let is_output = at >= named && self.results.get(value as usize) == Some(&now);
            if !is_output {
                let items = self.items(value, left)?;
                self.accesses.reads.extend(items);
            }
        }
        Some(())
    }

    /// A value, or the values of a list; `None` if they are more than steps are left.
    fn items(&self, value: u32, left: &mut Left) -> Option<&'a [u32]> {
        let items = self.values.items(value);
        left.take(items.len().max(1))?;
        Some(items)
    }
}

/// For each instruction, whether bytes that it writes are read under another name. `None` if that takes too long.
fn shown(values: &Values, accesses: &Accesses, left: &mut Left) -> Option<Vec<bool>> {
    let count = accesses.writes.len();
    let mut shown = vec![false; count];
    let reads = accesses.reads.iter().enumerate();
    let reads = reads
        .flat_map(|(at, reads)| reads.iter().map(move |&value| (at, value)))
        .chain(values.outputs().map(|value| (count, value)));
    for (at, value) in reads {
        let Some((buffer, bytes)) = values.place(value) else {
            continue;
        };
        // What is not written before is from the run before, unless the caller gives it.
        let from_before = if values.is_input(value) { count } else { at };
        'back: for writer in (0..at).rev().chain((from_before..count).rev()) {
            left.take(1)?;
            for &written in accesses.writes.row(writer) {
                left.take(1)?;
                if written == value {
                    break 'back;
                }
                let Some((other, place)) = values.place(written) else {
                    continue;
                };
                if other == buffer && place.start < bytes.end && bytes.start < place.end {
                    shown[writer] = true;
                    if place.start <= bytes.start && bytes.end <= place.end {
                        break 'back;
                    }
                }
            }
        }
    }
    Some(shown)
}

#[cfg(test)]
mod tests;
