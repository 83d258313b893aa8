//! Which instructions write values that are nothing but their result: written once, read afterwards, and seen under no
//! other name. Only those may be computed at load, or never be stored at all.

use std::collections::BTreeSet;
use std::ops::Range;

use et_schema::{InstructionView, List, PlanView, ValueView};

/// Steps that finding this out may take (a value that is named, a range that is compared): so many, and more per instruction. A
/// program that needs more is run as it is.
const STEPS: [usize; 2] = [100_000, 256];

/// Bytes of planned memory: the buffer, and the part of it.
type Bytes = (u32, Range<u64>);

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

/// What an instruction reads and writes.
#[derive(Debug, Default)]
struct Access {
    reads: BTreeSet<u32>,
    writes: Vec<u32>,
}

impl Flow {
    /// Of a method that has other chains or jumps nothing is known. `writes_last` says of an operator's index whether it writes its
    /// last argument only; any other may write all of them.
    pub(super) fn new(plan: &PlanView<'_>, writes_last: impl Fn(u32) -> bool) -> Self {
        let mut chains = plan.chains();
        let (Some(chain), None) = (chains.next(), chains.next()) else {
            return Self::default();
        };
        let instructions = chain.instructions();
        let [always, each] = STEPS;
        let mut left = Left(
            instructions
                .len()
                .saturating_mul(each)
                .saturating_add(always),
        );
        instructions
            .map(|instruction| access(plan, &instruction, &writes_last, &mut left))
            .collect::<Option<Vec<_>>>()
            .and_then(|accesses| Self::of(plan, &accesses, &mut left))
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

    fn of(plan: &PlanView<'_>, accesses: &[Access], left: &mut Left) -> Option<Self> {
        let count = plan.num_values();
        let (mut readers, mut writers) = (vec![Readers::default(); count], vec![0usize; count]);
        for (at, access) in accesses.iter().enumerate() {
            for &value in &access.reads {
                let readers = &mut readers[value as usize];
                if readers.count == 0 {
                    readers.first = at;
                }
                readers.count = readers.count.saturating_add(1);
            }
            for &value in &access.writes {
                let writers = &mut writers[value as usize];
                *writers = usize::saturating_add(*writers, 1);
            }
        }
        let io: BTreeSet<u32> = plan.inputs().iter().chain(plan.outputs().iter()).collect();
        let shown = Spans::new(plan, accesses).shown(plan, accesses, left)?;
        let is_result = |at: usize, value: u32| {
            let readers = &readers[value as usize];
            let read_before = readers.count > 0 && readers.first <= at;
            let temporary = plan
                .value(value)
                .and_then(|value| value.as_tensor())
                .is_some_and(|tensor| {
                    tensor.data_buffer_idx() == 0 && tensor.fully_qualified_name().is_none()
                });
            temporary && writers[value as usize] == 1 && !read_before && !io.contains(&value)
        };
        let results = accesses.iter().enumerate().map(|(at, access)| {
            let plain = !shown[at] && access.writes.iter().all(|&value| is_result(at, value));
            // Of several results the first counts if nobody reads the others.
            let (&first, others) = access.writes.split_first()?;
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

/// What an instruction reads and writes; `None` for one that is no call of an operator or a delegate, or has too many values.
fn access(
    plan: &PlanView<'_>,
    instruction: &InstructionView<'_>,
    writes_last: &impl Fn(u32) -> bool,
    left: &mut Left,
) -> Option<Access> {
    match *instruction {
        InstructionView::Kernel { op, args } if writes_last(op) => of_last(plan, &args, left),
        InstructionView::Kernel { args, .. } | InstructionView::Delegate { args, .. } => {
            let values = all_items(plan, args.iter(), left)?;
            Some(Access {
                reads: values.iter().copied().collect(),
                writes: values,
            })
        }
        _ => None,
    }
}

/// Of an operator that writes its last argument.
fn of_last(plan: &PlanView<'_>, args: &List<'_, u32>, left: &mut Left) -> Option<Access> {
    let args: Vec<u32> = args.iter().collect();
    let (&last, others) = args.split_last()?;
    let writes = items(plan, last, left)?;
    // The results are named before the list of them, or twice.
    let named = others.len().saturating_sub(writes.len());
    let (inputs, outputs) = others.split_at(named);
    let results: BTreeSet<u32> = writes.iter().copied().collect();
    let outputs = outputs.iter().filter(|value| !results.contains(value));
    let inputs = inputs.iter().chain(outputs).copied();
    let reads = all_items(plan, inputs, left)?;
    Some(Access {
        reads: reads.into_iter().collect(),
        writes,
    })
}

fn all_items(
    plan: &PlanView<'_>,
    values: impl IntoIterator<Item = u32>,
    left: &mut Left,
) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for value in values {
        all.extend(items(plan, value, left)?);
    }
    Some(all)
}

/// A value, or the values of a list; `None` if they are more than steps are left.
fn items(plan: &PlanView<'_>, value: u32, left: &mut Left) -> Option<Vec<u32>> {
    let known = |item: i64| {
        u32::try_from(item)
            .ok()
            .filter(|&item| (item as usize) < plan.num_values())
    };
    Some(match plan.value(value) {
        Some(ValueView::TensorList(items)) => {
            left.take(items.len())?;
            items.iter().filter_map(|item| known(item.into())).collect()
        }
        Some(ValueView::OptionalTensorList(items)) => {
            left.take(items.len())?;
            items.iter().filter_map(|item| known(item.into())).collect()
        }
        _ => {
            left.take(1)?;
            known(value.into()).into_iter().collect()
        }
    })
}

/// Where values are, and who writes there.
struct Spans {
    /// Per value.
    places: Vec<Option<Bytes>>,
    /// Per instruction: the values it writes that are planned.
    writes: Vec<Vec<u32>>,
}

impl Spans {
    fn new(plan: &PlanView<'_>, accesses: &[Access]) -> Self {
        let place = |value: ValueView<'_>| {
            let tensor = value.as_tensor()?;
            let (allocation, nbytes) = (tensor.allocation()?, tensor.nbytes()?);
            // What is empty is seen by nobody.
            (nbytes > 0).then_some(())?;
            let end = allocation.offset.checked_add(nbytes)?;
            Some((allocation.memory_id, allocation.offset..end))
        };
        let places: Vec<_> = plan.values().map(place).collect();
        let planned = |value: &u32| places[*value as usize].is_some();
        let writes = accesses
            .iter()
            .map(|access| access.writes.iter().copied().filter(planned).collect())
            .collect();
        Self { places, writes }
    }

    /// For each instruction, whether bytes that it writes are read under another name. `None` if that takes too long.
    fn shown(
        &self,
        plan: &PlanView<'_>,
        accesses: &[Access],
        left: &mut Left,
    ) -> Option<Vec<bool>> {
        let mut shown = vec![false; accesses.len()];
        let inputs: BTreeSet<u32> = plan.inputs().iter().collect();
        let reads = accesses
            .iter()
            .enumerate()
            .flat_map(|(at, access)| access.reads.iter().map(move |&value| (at, value)))
            .chain(plan.outputs().iter().map(|value| (accesses.len(), value)));
        for (at, value) in reads {
            let Some((buffer, bytes)) = self.places.get(value as usize)?.clone() else {
                continue;
            };
            // What is not written before is from the run before, unless the caller gives it.
            let again = (at..accesses.len()).rev();
            let again = again.take(if inputs.contains(&value) {
                0
            } else {
                usize::MAX
            });
            'back: for writer in (0..at).rev().chain(again) {
                left.take(1)?;
                for &written in &self.writes[writer] {
                    left.take(1)?;
                    if written == value {
                        break 'back;
                    }
                    let Some((other, place)) = &self.places[written as usize] else {
                        continue;
                    };
                    if *other == buffer && place.start < bytes.end && bytes.start < place.end {
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
}

#[cfg(test)]
mod tests;
