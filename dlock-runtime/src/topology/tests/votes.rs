//! The majority of all voters, against a count by brute force.

use proptest::prelude::*;

use crate::topology::votes::Votes;

/// The value that got a majority first; `None` stands for a voter that is silent.
fn elected(asked: usize, answers: &[Option<u8>]) -> Option<u8> {
    let mut votes = Votes::of(asked);
    let mut values = answers.iter().flatten().copied();
    values.find(|value| votes.count(*value))
}

#[test]
fn more_than_half_of_all_voters_decide() {
    for (voters, answers, expected) in [
        (1, &[Some(1)][..], Some(1)),
        (1, &[None], None),
        (2, &[Some(1)], None),
        (2, &[Some(1), Some(2)], None),
        (2, &[Some(1), Some(1)], Some(1)),
        (3, &[Some(1), None], None),
        (3, &[Some(1), Some(1)], Some(1)),
        (3, &[Some(2), Some(1), Some(1)], Some(1)), // one lies
        (3, &[Some(1), Some(2), None], None),
        (5, &[Some(1), Some(1), None, None, None], None),
    ] {
        assert_eq!(elected(voters, answers), expected, "{answers:?}");
    }
}

proptest! {
    #[test]
    fn a_value_is_elected_if_and_only_if_most_voters_gave_it(
        answers in proptest::collection::vec(proptest::option::of(0u8..3), 1..8)
    ) {
        let voters = answers.len();
        let votes = |value| answers.iter().filter(|it| **it == Some(value)).count();
        let expected = (0..3).find(|value| votes(*value) * 2 > voters);
        prop_assert_eq!(elected(voters, &answers), expected);
    }
}
