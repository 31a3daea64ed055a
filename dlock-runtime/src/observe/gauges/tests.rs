//! What the gauges show after each word of a pool, without a recorder.

use std::sync::Arc;
use std::time::Duration;

use super::{AllPools, ClassCounts, ClassLabels, PoolGauges};

fn labels(lock: &str) -> ClassLabels {
    (Arc::from(lock), "exclusive")
}

fn counts((held, waiting, oldest): (usize, usize, u64)) -> ClassCounts {
    ClassCounts {
        held,
        waiting,
        oldest: Duration::from_secs(oldest),
    }
}

type Class = (&'static str, (usize, usize, u64));

fn pool(classes: &[Class]) -> PoolGauges {
    let classes = classes.iter().map(|(lock, it)| (labels(lock), counts(*it)));
    PoolGauges {
        classes: classes.collect(),
        ..PoolGauges::new(1, 2)
    }
}

/// After each word of a pool, what the gauges show: (cleaning up, in flight), and the classes.
#[track_caller]
fn check(
    pools: &mut AllPools,
    (id, has): (u64, impl Into<Option<PoolGauges>>),
    sums: (usize, usize),
    classes: &[Class],
) {
    let next = pools.say(id, has.into());
    assert_eq!((next.cleaning_up, next.in_flight), sums);
    let expected: Vec<_> = classes
        .iter()
        .map(|(lock, it)| (labels(lock), counts(*it)))
        .collect();
    assert_eq!(next.classes, expected);
}

#[test]
fn a_gauge_is_the_sum_or_the_oldest_of_all_pools_and_0_once_when_none_has_the_class() {
    let mut pools = AllPools::new();
    let both = pool(&[("a", (2, 1, 9)), ("b", (1, 0, 3))]);
    check(
        &mut pools,
        (0, both),
        (1, 2),
        &[("a", (2, 1, 9)), ("b", (1, 0, 3))],
    );
    let other = pool(&[("a", (1, 4, 5))]);
    check(&mut pools, (1, other), (2, 4), &[("a", (3, 5, 9))]);
    let released = pool(&[("a", (1, 0, 1))]);
    check(
        &mut pools,
        (0, released.clone()),
        (2, 4),
        &[("a", (2, 4, 5)), ("b", (0, 0, 0))],
    );
    check(&mut pools, (0, released), (2, 4), &[("a", (2, 4, 5))]);
    check(&mut pools, (1, None), (1, 2), &[("a", (1, 0, 1))]);
    check(&mut pools, (0, None), (0, 0), &[("a", (0, 0, 0))]);
    check(&mut pools, (0, pool(&[])), (1, 2), &[]);
}

/// The child has its parent's recorder, copied with what it showed.
#[test]
fn a_forked_child_sets_what_its_parent_showed_to_0_once() {
    let (mut parents, mut pools) = (AllPools::new(), AllPools::new());
    parents.say(0, Some(pool(&[("a", (2, 1, 9)), ("b", (1, 0, 3))])));
    pools.inherit(&parents);
    let own = pool(&[("b", (1, 0, 1))]);
    check(
        &mut pools,
        (0, own.clone()),
        (1, 2),
        &[("a", (0, 0, 0)), ("b", (1, 0, 1))],
    );
    check(&mut pools, (0, own), (1, 2), &[("b", (1, 0, 1))]);
}
