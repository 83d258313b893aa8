//! The search against brute force, and against itself.

use std::time::Duration;

use proptest::prelude::*;

use super::super::instance::{Buffer, Lifetime};
use super::super::naive;
use super::*;

fn buffer(lower: u64, upper: u64, nbytes: u64) -> Buffer {
    Buffer::new(Lifetime::new(lower, upper), nbytes)
}

fn instance(buffers: Vec<Buffer>) -> Instance {
    Instance::new(buffers).unwrap()
}

/// The lowest arena, by trying every order: each buffer as low as those before it let it.
///
/// Some order gives a lowest plan: the buffers of one by increasing offset.
fn brute_force(instance: &Instance) -> u64 {
    fn go(buffers: &[Buffer], offsets: &mut [Option<u64>], height: u64, best: &mut u64) {
        if height >= *best {
            return;
        }
        let left: Vec<usize> = (0..buffers.len())
            .filter(|&at| offsets[at].is_none())
            .collect();
        if left.is_empty() {
            *best = height;
        }
        for at in left {
            let offset = lowest(buffers, offsets, at);
            offsets[at] = Some(offset);
            go(
                buffers,
                offsets,
                height.max(offset + buffers[at].nbytes),
                best,
            );
            offsets[at] = None;
        }
    }
    let buffers = instance.buffers();
    let mut offsets: Vec<_> = buffers.iter().map(|buffer| buffer.fixed_offset).collect();
    let tops = buffers
        .iter()
        .filter_map(|buffer| Some(buffer.fixed_offset? + buffer.nbytes));
    let mut best = u64::MAX;
    go(buffers, &mut offsets, tops.max().unwrap_or(0), &mut best);
    best
}

fn lowest(buffers: &[Buffer], offsets: &[Option<u64>], at: usize) -> u64 {
    let buffer = &buffers[at];
    let clear = |offset: u64| {
        buffers.iter().zip(offsets).all(|(other, place)| {
            let Some(place) = *place else { return true };
            !other.lifetime.overlaps(buffer.lifetime)
                || place + other.nbytes <= offset
                || offset + buffer.nbytes <= place
        })
    };
    let mut offset = 0;
    while !clear(offset) {
        offset += buffer.alignment;
    }
    offset
}

/// Small instances, some with alignments, some with one fixed buffer.
fn small() -> impl Strategy<Value = Instance> {
    let one = (
        0..6_u64,
        1..5_u64,
        1..9_u64,
        prop::sample::select(vec![1, 1, 1, 2, 3, 4]),
    );
    let fixed = prop::option::weighted(0.3, 0..9_u64);
    (prop::collection::vec(one, 1..7), fixed, any::<bool>()).prop_map(|(list, fixed, aligned)| {
        let mut buffers: Vec<Buffer> = list
            .into_iter()
            .map(|(lower, length, nbytes, alignment)| {
                let buffer = buffer(lower, lower + length, nbytes);
                if aligned {
                    buffer.aligned(alignment)
                } else {
                    buffer
                }
            })
            .collect();
        if let Some(offset) = fixed {
            buffers[0] = buffers[0].aligned(1).fixed(offset);
        }
        instance(buffers)
    })
}

/// Instances that the fast plans alone seldom solve: a rectangle cut into pieces.
fn cut() -> impl Strategy<Value = (Instance, u64)> {
    let cuts = prop::collection::vec(
        (any::<prop::sample::Index>(), any::<bool>(), 0.2..0.8_f64),
        4..24,
    );
    cuts.prop_map(|cuts| {
        let (width, height) = (64, 96);
        let mut pieces = vec![(0_u64, width, 0_u64, height)];
        for (which, upright, at) in cuts {
            let index = which.index(pieces.len());
            let (left, right, low, high) = pieces[index];
            let middle = |from: u64, to: u64| from + ((to - from) as f64 * at) as u64;
            let (x, y) = (middle(left, right), middle(low, high));
            if upright && x > left && x < right {
                pieces[index] = (left, x, low, high);
                pieces.push((x, right, low, high));
            } else if !upright && y > low && y < high {
                pieces[index] = (left, right, low, y);
                pieces.push((left, right, y, high));
            }
        }
        let buffers = pieces
            .iter()
            .map(|&(left, right, low, high)| buffer(left, right, high - low));
        (instance(buffers.collect()), height)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_smallest_arena_is_that_of_brute_force(instance in small()) {
        let solution = minimise(&instance, &Limits::default());
        prop_assert_eq!(validate(&instance, &solution.plan), Ok(()));
        prop_assert!(solution.is_proved());
        prop_assert_eq!(solution.plan.height(), brute_force(&instance));
    }

    #[test]
    fn capacities_fit_exactly_from_the_smallest_arena_on(instance in small(), more in 0..4_u64) {
        let least = brute_force(&instance);
        let fits = fit(&instance, least + more, &Limits::default());
        prop_assert!(matches!(fits, Fit::Fits(found) if found.plan.height() <= least + more));
        let fails = fit(&instance, least - 1, &Limits::default());
        prop_assert!(matches!(fails, Fit::Impossible(proof) if proof.lower_bound == least
            || (least > proof.lower_bound && proof.lower_bound > least - 1)));
    }

    #[test]
    fn a_rectangle_cut_in_pieces_is_put_together_again((instance, height) in cut()) {
        let solution = minimise(&instance, &Limits::default());
        prop_assert_eq!(validate(&instance, &solution.plan), Ok(()));
        prop_assert_eq!((solution.plan.height(), solution.lower_bound), (height, height));
    }

    #[test]
    fn algorithms_keep_their_order(instance in small()) {
        let solution = minimise(&instance, &Limits::nodes(50));
        prop_assert_eq!(validate(&instance, &solution.plan), Ok(()));
        prop_assert!(max_live_load(&instance) <= solution.lower_bound);
        prop_assert!(solution.lower_bound <= solution.plan.height());
        if let (Ok(greedy), Ok(naive)) = (greedy(&instance), naive(&instance)) {
            prop_assert_eq!(validate(&instance, &greedy), Ok(()));
            prop_assert_eq!(validate(&instance, &naive), Ok(()));
            prop_assert!(solution.plan.height() <= greedy.height());
            prop_assert!(greedy.height() <= naive.height());
        }
    }

    #[test]
    fn the_same_question_has_the_same_answer((instance, _) in cut()) {
        let limits = Limits::nodes(300);
        prop_assert_eq!(minimise(&instance, &limits), minimise(&instance, &limits));
    }
}

#[test]
fn an_empty_instance_needs_nothing() {
    let solution = minimise(&instance(vec![]), &Limits::default());
    assert_eq!(
        (solution.plan.height(), solution.lower_bound, solution.nodes),
        (0, 0, 0)
    );
    assert!(solution.is_proved());
}

#[test]
fn vacant_buffers_lie_anywhere() {
    let buffers = vec![
        buffer(0, 9, 0).aligned(64),
        buffer(3, 3, 8).aligned(8).fixed(24),
        buffer(0, 9, 5),
    ];
    let solution = minimise(&instance(buffers), &Limits::default());
    assert_eq!(
        (solution.plan.offsets(), solution.plan.height()),
        ([0, 24, 0].as_slice(), 32)
    );
    assert!(solution.is_proved());
    let buffers = vec![buffer(3, 3, 100), buffer(4, 4, 50).fixed(25)];
    let solution = minimise(&instance(buffers), &Limits::default());
    assert_eq!((solution.plan.height(), solution.lower_bound), (100, 100));
}

#[test]
fn a_capacity_below_the_load_is_refused_at_once() {
    let buffers = instance(vec![buffer(0, 2, 8), buffer(1, 3, 8)]);
    for capacity in [0, 15] {
        let answer = fit(&buffers, capacity, &Limits::nodes(0));
        assert!(matches!(answer, Fit::Impossible(proof) if proof.lower_bound == 16));
    }
    assert!(matches!(fit(&buffers, 16, &Limits::nodes(0)), Fit::Fits(_)));
}

/// A case in which the load, 10, is no tight bound: the smallest arena has 11 bytes.
fn needs_more_than_its_load() -> Instance {
    instance(vec![
        buffer(2, 4, 3),
        buffer(6, 7, 4),
        buffer(3, 6, 2),
        buffer(3, 4, 3),
        buffer(5, 8, 5),
        buffer(1, 3, 4),
        buffer(2, 6, 2),
        buffer(1, 2, 5),
    ])
}

#[test]
fn more_than_the_load_is_proved_where_it_is_needed() {
    let instance = needs_more_than_its_load();
    let solution = minimise(&instance, &Limits::default());
    assert_eq!((max_live_load(&instance), brute_force(&instance)), (10, 11));
    assert_eq!((solution.plan.height(), solution.lower_bound), (11, 11));
    assert!(solution.is_proved() && solution.gap() == 0 && solution.stopped.is_none());
}

#[test]
fn limits_end_a_search_and_are_named() {
    let instance = needs_more_than_its_load();
    for (limits, stop) in [
        (Limits::nodes(3), Stop::Nodes),
        (
            Limits {
                nodes: Some(2),
                time: Some(Duration::MAX),
            },
            Stop::Nodes,
        ),
    ] {
        let solution = minimise(&instance, &limits);
        assert_eq!(
            (solution.stopped, Some(solution.nodes)),
            (Some(stop), limits.nodes)
        );
        assert!(!solution.is_proved());
        assert_eq!(
            solution.lower_bound + solution.gap(),
            solution.plan.height()
        );
        assert!(matches!(fit(&instance, 10, &limits), Fit::Unknown(_)));
    }
}

/// Forty buffers that take more nodes than a test should spend.
fn hard() -> Instance {
    let at = |step: u64| step * 7 % 31;
    instance(
        (0..40)
            .map(|step| buffer(at(step), at(step) + 9, 100 + step * 37 % 61))
            .collect(),
    )
}

#[test]
fn a_clock_ends_a_search() {
    let solution = minimise(&hard(), &Limits::time(Duration::ZERO));
    assert_eq!(solution.stopped, Some(Stop::Time));
    assert_eq!(validate(&hard(), &solution.plan), Ok(()));
}

#[test]
fn the_listener_hears_of_progress_and_can_cancel() {
    let instance = hard();
    let mut heard = Vec::new();
    let limits = Limits::nodes(20_000);
    let solution = minimise_with(&instance, &limits, &mut |progress| {
        heard.push(progress);
        ControlFlow::Continue(())
    });
    assert!(heard.windows(2).all(|pair| {
        pair[1].incumbent <= pair[0].incumbent
            && pair[1].bound >= pair[0].bound
            && pair[1].nodes >= pair[0].nodes
    }));
    assert!(heard.len() > 1 && solution.nodes > 0, "{solution:?}");
    let cancelled = minimise_with(&instance, &limits, &mut |_| ControlFlow::Break(()));
    assert_eq!(
        (cancelled.stopped, cancelled.nodes),
        (Some(Stop::Cancelled), 0)
    );
    assert_eq!(validate(&instance, &cancelled.plan), Ok(()));
}
