//! ExecuTorch's own results as vectors: `golden_G01` is the entry G01 of the catalogue of executed plans.

use super::*;

/// Buffers as (size, first, last), all without a pool.
fn buffers(list: &[(u64, u64, u64)]) -> Vec<PoolBuffer> {
    let buffer = |&(nbytes, first, last)| PoolBuffer {
        lifetime: Lifetime::new(first, last + 1),
        nbytes,
        pool: None,
    };
    list.iter().map(buffer).collect()
}

fn pinned(mut buffers: Vec<PoolBuffer>, pools: &[u32]) -> Vec<PoolBuffer> {
    for (buffer, pool) in buffers.iter_mut().zip(pools) {
        buffer.pool = Some(*pool);
    }
    buffers
}

fn reserve(bytes: &[u64]) -> PoolOptions {
    PoolOptions {
        reserve: bytes.to_vec(),
        ..PoolOptions::default()
    }
}

fn padding(extra_padding: u64) -> PoolOptions {
    PoolOptions {
        extra_padding,
        ..PoolOptions::default()
    }
}

fn alignment(alignment: u64) -> PoolOptions {
    PoolOptions {
        alignment,
        ..PoolOptions::default()
    }
}

#[track_caller]
fn check(
    planner: PoolPlanner,
    buffers: &[PoolBuffer],
    options: &PoolOptions,
    slots: &[(u32, u64)],
    sizes: &[u64],
) {
    let plan = plan_pools(planner, buffers, options).unwrap();
    let found: Vec<_> = plan
        .slots
        .iter()
        .map(|slot| (slot.pool, slot.offset))
        .collect();
    // The reference lists pools that nobody asked for, and the reserved one.
    let expected = (0..).zip(sizes.iter().copied());
    let expected = expected.filter(|&(pool, nbytes)| pool == 1 || nbytes > 0);
    let expected = expected.collect();
    assert_eq!((found.as_slice(), plan.sizes), (slots, expected));
}

/// Greedy, all in pool 1.
#[track_caller]
fn greedy(list: &[(u64, u64, u64)], options: &PoolOptions, offsets: &[u64], sizes: &[u64]) {
    let slots: Vec<_> = offsets.iter().map(|&offset| (1, offset)).collect();
    check(PoolPlanner::Greedy, &buffers(list), options, &slots, sizes);
}

#[track_caller]
fn naive(list: &[(u64, u64, u64)], options: &PoolOptions, offsets: &[u64], sizes: &[u64]) {
    let slots: Vec<_> = offsets.iter().map(|&offset| (1, offset)).collect();
    check(PoolPlanner::Naive, &buffers(list), options, &slots, sizes);
}

const G03: [(u64, u64, u64); 5] = [(64, 0, 1), (16, 2, 5), (16, 3, 5), (32, 4, 6), (16, 6, 7)];
const G09: [(u64, u64, u64); 4] = [(16, 0, 1), (16, 0, 2), (16, 2, 3), (16, 1, 2)];

#[test]
fn golden_g01_a_slot_is_reused() {
    greedy(
        &[(16, 0, 1), (16, 1, 2), (16, 2, 3)],
        &reserve(&[]),
        &[0, 16, 0],
        &[0, 32],
    );
}

#[test]
fn golden_g02_equal_sizes_go_in_reverse() {
    greedy(&[(16, 0, 3); 3], &reserve(&[]), &[32, 16, 0], &[0, 48]);
}

#[test]
fn golden_g03_small_ones_stack_in_a_large_object() {
    greedy(&G03, &reserve(&[]), &[0, 48, 32, 0, 32], &[0, 64]);
}

#[test]
fn golden_g03b_stacking_can_be_off() {
    let options = PoolOptions {
        allow_overlapping: false,
        ..PoolOptions::default()
    };
    greedy(&G03, &options, &[0, 80, 64, 0, 64], &[0, 96]);
}

#[test]
fn golden_g04_empty_buffers_have_slots() {
    let list = [(0, 0, 5), (16, 0, 1), (0, 1, 2), (16, 1, 2)];
    greedy(&list, &reserve(&[]), &[16, 16, 16, 0], &[0, 32]);
}

#[test]
fn golden_g05_sizes_are_rounded() {
    let list = [(5, 0, 1), (17, 1, 2), (33, 0, 2), (1, 2, 3)];
    greedy(&list, &reserve(&[]), &[80, 48, 0, 80], &[0, 96]);
}

#[test]
fn golden_g06_padding_is_added_once() {
    greedy(&[(16, 0, 1), (16, 1, 2)], &padding(64), &[16, 0], &[0, 96]);
}

#[test]
fn golden_g07_objects_start_above_the_reserve() {
    greedy(
        &[(16, 0, 1), (16, 1, 2)],
        &reserve(&[0, 48]),
        &[64, 48],
        &[0, 80],
    );
}

#[test]
fn golden_g08_no_buffers_drop_the_reserve() {
    greedy(&[], &reserve(&[0, 48]), &[], &[0, 0]);
}

#[test]
fn golden_g09_pools_are_apart() {
    let mut list = pinned(buffers(&G09), &[1, 3, 3]);
    list[3].pool = None;
    let slots = [(1, 16), (3, 16), (3, 0), (1, 0)];
    check(
        PoolPlanner::Greedy,
        &list,
        &reserve(&[]),
        &slots,
        &[0, 32, 0, 32],
    );
}

#[test]
fn golden_g09b_padding_and_reserve_per_pool() {
    let list = pinned(buffers(&G09[..3]), &[1, 3, 3]);
    let options = PoolOptions {
        extra_padding: 64,
        ..reserve(&[0, 32])
    };
    let slots = [(1, 32), (3, 16), (3, 0)];
    check(
        PoolPlanner::Greedy,
        &list,
        &options,
        &slots,
        &[0, 112, 0, 96],
    );
}

#[test]
fn golden_g10_the_order_precedes_the_alignment() {
    greedy(
        &[(16, 0, 1), (100, 1, 2), (64, 0, 2)],
        &alignment(64),
        &[192, 0, 128],
        &[0, 256],
    );
}

#[test]
fn golden_g11_first_fit_among_objects() {
    let list = [(32, 0, 9), (16, 0, 2), (16, 3, 5), (16, 5, 9)];
    greedy(&list, &reserve(&[]), &[0, 32, 48, 32], &[0, 64]);
}

#[test]
fn golden_g15_the_last_scan_takes_the_first_object_with_room() {
    let list = [
        (64, 0, 9),
        (64, 10, 20),
        (16, 10, 12),
        (16, 11, 13),
        (16, 14, 15),
        (32, 13, 14),
        (48, 0, 3),
    ];
    greedy(
        &list,
        &reserve(&[]),
        &[0, 0, 112, 96, 96, 64, 64],
        &[0, 128],
    );
}

#[test]
fn golden_n12_naive_never_reuses() {
    naive(
        &[(5, 0, 1), (17, 2, 3), (33, 4, 5)],
        &reserve(&[]),
        &[0, 16, 48],
        &[0, 96],
    );
}

#[test]
fn golden_n12b_naive_ignores_padding() {
    naive(&[(5, 0, 1)], &padding(64), &[0], &[0, 16]);
}

#[test]
fn golden_n13_nothing_needs_nothing() {
    naive(&[], &reserve(&[]), &[], &[0, 0]);
    greedy(&[], &reserve(&[]), &[], &[0, 0]);
}

#[test]
fn golden_ga1_small_alignments() {
    greedy(&[(4, 2, 3), (8, 0, 1)], &alignment(1), &[0, 0], &[0, 8]);
    // The reference stops on an assertion here.
    greedy(&[(8, 0, 1), (4, 2, 3)], &alignment(1), &[4, 0], &[0, 12]);
}

#[test]
fn the_worked_device_example_comes_out() {
    greedy(
        &[(16, 0, 4), (16, 0, 6), (16, 9, 11)],
        &reserve(&[]),
        &[16, 0, 0],
        &[0, 32],
    );
    greedy(
        &[(16, 3, 7), (16, 5, 7), (16, 7, 11)],
        &reserve(&[]),
        &[32, 16, 0],
        &[0, 48],
    );
}

#[test]
fn wrapping_sizes_and_alignment_0_are_refused() {
    for planner in [PoolPlanner::Naive, PoolPlanner::Greedy] {
        let huge = buffers(&[(u64::MAX - 16, 0, 1), (u64::MAX - 16, 0, 1)]);
        assert_eq!(
            plan_pools(planner, &huge, &reserve(&[])),
            Err(PoolError::TooLarge)
        );
        assert_eq!(
            plan_pools(planner, &buffers(&[(u64::MAX, 0, 1)]), &reserve(&[])),
            Err(PoolError::TooLarge)
        );
        assert_eq!(
            plan_pools(planner, &[], &alignment(0)),
            Err(PoolError::NoAlignment)
        );
    }
}

/// The reference's naive planner counts in the reserve list itself, so that what runs after it starts higher.
#[test]
fn limit_17_planners_do_not_disturb_each_other() {
    let (list, options) = (buffers(&G03), reserve(&[0, 48]));
    let alone = plan_pools(PoolPlanner::Greedy, &list, &options);
    let naive = plan_pools(PoolPlanner::Naive, &list, &options).unwrap();
    assert_eq!(plan_pools(PoolPlanner::Greedy, &list, &options), alone);
    assert!(naive.sizes[&1] > alone.unwrap().sizes[&1]);
}

#[test]
fn pools_of_any_number_cost_no_more_than_others_and_pool_0_is_refused() {
    let buffer = |pool| PoolBuffer {
        pool: Some(pool),
        ..buffers(&[(20, 0, 1)])[0]
    };
    for planner in [PoolPlanner::Naive, PoolPlanner::Greedy] {
        let plan = plan_pools(planner, &[buffer(u32::MAX)], &reserve(&[])).unwrap();
        assert_eq!(plan.sizes, [(1, 0), (u32::MAX, 32)].into());
        assert_eq!(plan.slots[0].pool, u32::MAX);
        let refused = plan_pools(planner, &[buffer(1), buffer(0)], &reserve(&[]));
        assert_eq!(refused, Err(PoolError::ReservedPool { index: 1 }));
    }
}
