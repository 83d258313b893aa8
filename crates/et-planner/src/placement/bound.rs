//! What no plan can beat.

use super::instance::Instance;

/// The largest number of bytes alive at one time, or the highest end of a fixed buffer or the size of one that is
/// never alive if that is more: no arena is smaller.
pub fn max_live_load(instance: &Instance) -> u64 {
    let mut events = Vec::new();
    let mut highest_end = 0;
    for buffer in instance.buffers() {
        highest_end = highest_end.max(buffer.fixed_offset.unwrap_or(0) + buffer.nbytes);
        if !buffer.is_vacant() {
            events.push((buffer.lifetime.lower, true, buffer.nbytes));
            events.push((buffer.lifetime.upper, false, buffer.nbytes));
        }
    }
    // At one time, ends sort before begins.
    events.sort_unstable();
    let (mut load, mut most) = (0, 0);
    for (_, begins, nbytes) in events {
        load = if begins { load + nbytes } else { load - nbytes };
        most = most.max(load);
    }
    most.max(highest_end)
}

#[cfg(test)]
mod tests {
    use super::super::instance::{Buffer, Lifetime};
    use super::*;

    #[test]
    fn the_load_counts_what_lives_at_one_time() {
        let buffer = |lower, upper, nbytes| Buffer::new(Lifetime::new(lower, upper), nbytes);
        let of = |buffers| max_live_load(&Instance::new(buffers).unwrap());
        assert_eq!(of(vec![]), 0);
        assert_eq!(
            of(vec![buffer(0, 2, 5), buffer(2, 3, 7), buffer(1, 3, 1)]),
            8
        );
        assert_eq!(of(vec![buffer(0, 2, 5).fixed(100), buffer(1, 1, 100)]), 105);
    }
}
