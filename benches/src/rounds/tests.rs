//! The order within rounds, ratios, and when rounds end.

use std::time::{Duration, Instant};

use super::{LEAST, Rounds, order, ratios};

#[test]
fn everybody_has_every_place_equally_often() {
    let contenders = 4;
    let rounds = 2 * contenders;
    let mut had = vec![vec![0; contenders]; contenders];
    for round in 0..rounds {
        for (place, who) in order(contenders, round).into_iter().enumerate() {
            had[who][place] += 1;
        }
    }
    assert!(had.iter().flatten().all(|times| *times == 2), "{had:?}");
}

#[test]
fn nobody_always_follows_the_same_one() {
    let follows = |round: usize| {
        let order = order(3, round);
        let at = order.iter().position(|who| *who == 0).unwrap();
        order[(at + 2) % 3]
    };
    assert_ne!(follows(0), follows(3));
}

/// The second contender always takes twice as long as the first, however slow the round is.
#[test]
fn a_ratio_is_one_within_a_round() {
    let of = ratios(&[vec![1.0, 10.0, 100.0], vec![2.0, 20.0, 200.0]], 0);
    let [Some(first), Some(second)] = of[..] else {
        panic!("{of:?}")
    };
    assert_eq!((first.lower, first.median, first.upper), (1.0, 1.0, 1.0));
    assert_eq!((second.lower, second.median, second.upper), (2.0, 2.0, 2.0));
    let of = ratios(&[vec![1.0, 10.0], vec![2.0, 20.0]], 1);
    assert_eq!(of[0].unwrap().median.to_bits(), 0.5_f64.to_bits());
    assert_eq!(ratios(&[vec![1.0]], 1), [None]);
}

#[test]
fn a_round_without_a_figure_of_the_first_says_nothing() {
    let of = ratios(&[vec![0.0, 1.0], vec![5.0, 3.0]], 0);
    let second = of[1].unwrap();
    assert_eq!((second.lower, second.upper), (3.0, 3.0));
    assert_eq!(ratios(&[vec![0.0], vec![5.0]], 0), [None, None]);
    assert_eq!(ratios(&[vec![1.0], vec![f64::NAN]], 0)[1], None);
    assert_eq!(ratios(&[], 0), []);
}

#[test]
fn rounds_end_by_their_number_or_by_the_clock_but_there_are_some() {
    let begun = Instant::now();
    let rounds = |most, secs| Rounds {
        most,
        within: Duration::from_secs(secs),
    };
    assert!(rounds(9, 600).another(8, begun));
    assert!(!rounds(9, 600).another(9, begun));
    assert!(rounds(9, 0).another(LEAST - 1, begun));
    assert!(!rounds(9, 0).another(LEAST, begun));
}
