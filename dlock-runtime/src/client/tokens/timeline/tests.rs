//! The timeline against a plain set of pairs.
use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{Moment, Timeline, Token};

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn hash(timeline: &Timeline) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(timeline)
}

fn made_of(all: &BTreeSet<(Moment, Token)>) -> Timeline {
    let mut timeline = Timeline::default();
    for (at, token) in all {
        timeline.insert(*at, *token);
    }
    timeline
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Like a set of pairs; two with the same content are equal however they came about.
    #[test]
    fn it_is_a_set_of_moments_with_tokens(steps in prop::collection::vec((0..4_u64, 1..9_u64, any::<bool>()), 0..80)) {
        let (mut timeline, mut all) = (Timeline::default(), BTreeSet::new());
        for (nanos, number, comes) in steps {
            let (at, token) = (at(nanos), Token::of_test(number));
            if comes && all.insert((at, token)) {
                timeline.insert(at, token);
            } else if !comes {
                all.remove(&(at, token));
                timeline.remove(at, token); // perhaps it was never there
            }
            prop_assert_eq!(timeline.first(), all.first().copied());
            let again = made_of(&all);
            prop_assert_eq!(&timeline, &again);
            prop_assert_eq!(hash(&timeline), hash(&again));
        }
        for nanos in 0..5 {
            let early = all.iter().filter(|(moment, _)| *moment <= at(nanos));
            let early: Vec<(Moment, Token)> = early.copied().collect();
            prop_assert_eq!(timeline.until(at(nanos)), early);
        }
    }
}

#[test]
fn what_never_comes_is_not_there() {
    let mut timeline = Timeline::default();
    timeline.insert(Moment::NEVER, Token::of_test(1));
    assert_eq!(timeline.first(), None);
    timeline.remove(Moment::NEVER, Token::of_test(1));
    assert_eq!(timeline, Timeline::default());
}
