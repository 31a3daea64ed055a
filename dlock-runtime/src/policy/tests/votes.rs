//! The majority of all voters, against a count by brute force.

use proptest::prelude::*;

use crate::policy::votes::{Verdict, Votes};

fn count(voters: usize, answers: &[Option<u8>]) -> Verdict<u8> {
    let mut question = Votes::of(voters);
    let verdicts = answers.iter().map(|answer| question.count(*answer));
    verdicts.last().unwrap_or(Verdict::Open)
}

#[test]
fn more_than_half_of_all_voters_decide() {
    for (voters, answers, verdict) in [
        (1, &[Some(1)][..], Verdict::Elected(1)),
        (1, &[None], Verdict::Split),
        (2, &[Some(1)], Verdict::Open),
        (2, &[Some(1), Some(2)], Verdict::Split),
        (2, &[Some(1), Some(1)], Verdict::Elected(1)),
        (3, &[Some(1), None], Verdict::Open),
        (3, &[Some(1), Some(1)], Verdict::Elected(1)),
        (3, &[Some(2), Some(1), Some(1)], Verdict::Elected(1)), // one lies
        (3, &[None, None], Verdict::Split),
        (3, &[Some(1), Some(2), None], Verdict::Split),
        (5, &[Some(1), Some(1), None, None], Verdict::Open),
        (5, &[Some(1), Some(1), None, None, None], Verdict::Split),
    ] {
        assert_eq!(count(voters, answers), verdict, "{answers:?}");
    }
}

proptest! {
    #[test]
    fn a_verdict_is_final_and_is_the_count(
        answers in proptest::collection::vec(proptest::option::of(0u8..3), 1..8)
    ) {
        let voters = answers.len();
        let votes = |value| answers.iter().filter(|it| **it == Some(value)).count();
        let elected = (0..3).find(|value| votes(*value) * 2 > voters);
        let last = count(voters, &answers);
        prop_assert_eq!(last, elected.map_or(Verdict::Split, Verdict::Elected));
        for so_far in 1..voters {
            match count(voters, &answers[..so_far]) {
                Verdict::Open => {}
                Verdict::Split => prop_assert_eq!(elected, None),
                Verdict::Elected(value) => prop_assert_eq!(elected, Some(value)),
            }
        }
    }
}
