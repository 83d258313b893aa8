//! Sets of small numbers.

/// A set of numbers below a limit that is given when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    words: Vec<u64>,
    limit: usize,
}

impl Set {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            words: vec![0; limit.div_ceil(64)],
            limit,
        }
    }

    /// All numbers below the limit.
    pub(crate) fn full(limit: usize) -> Self {
        let mut set = Self::new(limit);
        (0..limit).for_each(|number| set.insert(number));
        set
    }

    /// The limit that was given.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// How many words the set takes; at least 1, so that work on it counts.
    pub(crate) fn words(&self) -> usize {
        self.words.len().max(1)
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words[number / 64] >> (number % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    /// Adds all of `other`; whether that was news.
    pub(crate) fn unite(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            changed |= *other & !*word != 0;
            *word |= other;
        }
        changed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * at + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let mut set = Set::new(130);
        for number in [0, 63, 64, 129] {
            set.insert(number);
        }
        set.remove(63);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 64, 129]);
        assert!(set.contains(64) && !set.contains(63));
        let mut other = Set::new(130);
        assert!(other.unite(&set) && !other.unite(&set));
        assert_eq!(other, set);
    }
}
