//! Nodes, the tally of a round, and what is made of the nodes' clocks.

use std::time::Duration;

use proptest::prelude::*;

use crate::client::quorum::clocks::{Offset, pool_time, proposal};
use crate::client::quorum::election::Election;
use crate::client::quorum::footprint::{Footprint, Reseed, ServerProcess};
use crate::client::quorum::nodes::{NodeCount, NodeId, NodeSet};
use crate::client::quorum::tally::{Tally, Verdict};
use crate::rules::ballots::Vote;
use crate::rules::tests::{at, ms};

pub(super) fn nodes(number: usize) -> NodeCount {
    NodeCount::new(number).unwrap()
}

pub(super) fn id(index: usize) -> NodeId {
    nodes(9).ids().nth(index).unwrap()
}

#[test]
fn three_to_nine_nodes_of_an_odd_number() {
    for (number, quorum) in [
        (0, None),
        (1, None),
        (2, None),
        (3, Some(2)),
        (4, None),
        (5, Some(3)),
        (7, Some(4)),
        (8, None),
        (9, Some(5)),
        (10, None),
        (11, None),
        (usize::MAX, None),
    ] {
        assert_eq!(
            NodeCount::new(number).map(NodeCount::quorum),
            quorum,
            "{number}"
        );
    }
    assert_eq!(nodes(5).minority(), 2);
    assert_eq!(nodes(5).all().iter().count(), 5);
}

#[test]
fn a_set_has_what_was_inserted() {
    let mut set = NodeSet::NONE.with(id(1)).with(id(8)).with(id(1));
    assert_eq!(set.len(), 2);
    assert_eq!(set.iter().collect::<Vec<_>>(), [id(1), id(8)]);
    set.remove(id(1));
    set.remove(id(2));
    assert!(set.contains(id(8)) && !set.contains(id(1)) && !set.is_empty());
    set.remove(id(8));
    assert!(set.is_empty());
}

/// A hold that nodes 0 and 1 granted, that node 2 refused, and whose ballot nodes 3 and 4 may execute
/// until 100.
fn held(run: &str) -> Footprint {
    let mut election = Election::new(nodes(5), nodes(5).all());
    for node in [0, 1] {
        election.voted(id(node), &Vote::Granted { time: 1, epoch: 7 });
    }
    election.voted(id(2), &Vote::Late { time: 1 });
    let granted = election.granted();
    let granted = granted.iter().map(|it| (it, ServerProcess::of(run)));
    Footprint::of(&election, 100).won(7, granted)
}

#[test]
fn a_node_is_asked_for_its_vote_again_under_all_conditions_only() {
    let reseed = Some(Reseed {
        epoch: 7,
        reads: false,
    });
    for (node, process, time, asked) in [
        (0, "aaaaaaaa", 200, None),   // it has said that it has the lock …
        (0, "bbbbbbbb", 200, reseed), // … as a process that is gone
        (0, "", 200, None),
        (2, "aaaaaaaa", 50, reseed), // its ballot was answered
        (3, "aaaaaaaa", 100, None),  // its ballot may still arrive
        (3, "aaaaaaaa", 101, reseed),
        (3, "", 101, None),
    ] {
        let mut it = held("aaaaaaaa");
        let whom = (id(node), ServerProcess::of(process));
        let told = it.reseed(whom, 300, |earlier| time > earlier);
        assert_eq!(told, asked, "{node} {process} at {time}");
        if asked.is_some() {
            assert!(it.nodes().contains(id(node)) && it.votes_until() == 300);
            let again = it.reseed(whom, 400, |earlier| time > earlier);
            assert_eq!(again, None, "the vote that was asked for may still arrive");
            it.reseeded(whom.0, whom.1, false);
            assert_eq!(it.reseed(whom, 400, |_| false), asked, "it was refused");
            it.reseeded(whom.0, whom.1, true);
            assert_eq!(it.reseed(whom, 500, |_| true), None, "it was granted");
        }
    }
    let mut reads = held("aaaaaaaa");
    reads.reads();
    let told = reads.reseed((id(2), ServerProcess::of("aaaaaaaa")), 150, |_| true);
    assert!(told.is_some_and(|it| it.reads));
}

/// A renewal that was sent before the release hears answers after it.
#[test]
fn a_node_is_not_asked_once_the_votes_are_taken_back() {
    let mut it = held("aaaaaaaa");
    let asked = it.reseed((id(3), ServerProcess::of("aaaaaaaa")), 150, |_| true);
    assert!(asked.is_some());
    it.end();
    assert!(it.nodes().contains(id(3)) && it.votes_until() == 150);
    it.reseeded(id(3), ServerProcess::of("aaaaaaaa"), true);
    for node in 0..5 {
        let asked = it.reseed((id(node), ServerProcess::of("bbbbbbbb")), 250, |_| true);
        assert_eq!(asked, None);
    }
}

const YES: Option<bool> = Some(true);
const NO: Option<bool> = Some(false);

/// The verdict after each answer.
fn verdicts(number: usize, answers: &[(usize, Option<bool>)]) -> Vec<Option<Verdict>> {
    let mut tally = Tally::new(nodes(number));
    let count = |(node, answer): &(usize, Option<bool>)| tally.count(id(*node), *answer);
    answers.iter().map(count).collect()
}

#[test]
fn a_round_is_decided_by_a_quorum_of_the_configured_nodes() {
    use Verdict::{No, Unknown, Yes};
    for (number, answers, expected) in [
        (3, &[(0, YES), (1, YES)][..], Some(Yes)),
        (3, &[(0, YES), (0, YES)], None), // a node counts once
        (3, &[(0, NO), (0, YES), (1, YES)], None),
        (3, &[(0, NO), (1, NO)], Some(No)),
        (3, &[(0, NO), (1, YES)], None),
        (3, &[(0, NO), (1, YES), (2, YES)], Some(Yes)),
        (3, &[(0, NO), (1, YES), (2, None)], Some(Unknown)),
        (3, &[(0, None), (1, None)], Some(Unknown)),
        (3, &[(0, None), (1, YES)], None),
        (5, &[(0, None), (1, None), (2, YES), (3, YES)], None),
        (
            5,
            &[(0, None), (1, None), (2, YES), (3, YES), (4, YES)],
            Some(Yes),
        ),
        (5, &[(0, NO), (1, NO), (2, NO)], Some(No)),
    ] {
        assert_eq!(
            verdicts(number, answers).pop().flatten(),
            expected,
            "{answers:?}"
        );
    }
}

proptest! {
    /// In each order the same answers lead to the same verdict, and it stays.
    #[test]
    fn a_verdict_is_what_the_answers_count_to(
        size in 1usize..5,
        answers in proptest::collection::vec(proptest::option::of(any::<bool>()), 9),
    ) {
        let number = 2 * size + 1;
        let answers: Vec<_> = answers.into_iter().take(number).enumerate().collect();
        let told = verdicts(number, &answers);
        let has = |which| answers.iter().filter(|(_, it)| *it == which).count();
        let expected = if has(YES) > size {
            Verdict::Yes
        } else if has(NO) > size {
            Verdict::No
        } else {
            Verdict::Unknown
        };
        prop_assert_eq!(told.last(), Some(&Some(expected)));
        let first = told.iter().flatten().next();
        prop_assert_eq!(first, Some(&expected));
    }

    /// Two quorums share a node.
    #[test]
    fn quorums_meet(size in 1usize..5, one in any::<u16>(), other in any::<u16>()) {
        let nodes = nodes(2 * size + 1);
        let of = |bits: u16| -> NodeSet {
            nodes.ids().filter(|it| bits & 1 << it.index() != 0).collect()
        };
        let (one, other) = (of(one), of(other));
        if one.len() >= nodes.quorum() && other.len() >= nodes.quorum() {
            prop_assert!(one.iter().any(|it| other.contains(it)));
        }
    }

    /// However wild the clocks of a minority are, the proposal is between the true estimates.
    #[test]
    fn no_minority_moves_a_proposal(
        size in 1usize..5,
        wild in proptest::collection::vec(any::<u64>(), 0..5),
        good in 1_000_000_000u64..2_000_000_000,
    ) {
        let nodes = nodes(2 * size + 1);
        let mut estimates: Vec<u64> = wild.into_iter().take(nodes.minority()).collect();
        while estimates.len() < nodes.number() {
            estimates.push(good);
        }
        let proposed = proposal(nodes, &mut estimates, 0);
        prop_assert!(proposed <= good && good - proposed < 1024, "{proposed} for {good}");
    }
}

#[test]
fn a_proposal_is_above_what_is_known_to_be_drawn() {
    for (mut estimates, seen, expected) in [
        (vec![4096, 4096, 4096], 0, 4096),
        (vec![4096, 5000, 5119], 0, 4096), // one step
        (vec![5120, 4096, 9999], 0, 5120), // the second largest
        (vec![4096, 4096, 4096], 4096, 4097),
        (vec![4096], 0, 4096), // two are away
        (vec![], 0, 1),
        (vec![], u64::MAX, u64::MAX),
    ] {
        assert_eq!(proposal(nodes(3), &mut estimates, seen), expected);
    }
}

#[test]
fn a_stamp_follows_a_clock_forward_at_once_and_back_after_a_window() {
    let window = Duration::from_secs(10);
    let heard = |offset: &mut Offset, ahead: i64, when| {
        offset.heard(pool_time(when).saturating_add_signed(ahead), when);
    };
    let mut offset = Offset::new(window, at(1000));
    assert_eq!(offset.stamp(5), 5, "nothing is known");
    heard(&mut offset, 100, at(1000));
    assert_eq!(offset.stamp(5), 105);
    assert_eq!(offset.stamp(0), 0, "no bound stays no bound");
    heard(&mut offset, 700, at(2000));
    assert_eq!(offset.stamp(5), 705);
    heard(&mut offset, -50, at(3000)); // set back
    assert_eq!(offset.stamp(5), 705);
    heard(&mut offset, -50, at(12_000)); // the second window
    assert_eq!(offset.stamp(500), 1200);
    heard(&mut offset, -50, at(22_000)); // the third
    assert_eq!(offset.stamp(500), 450);
    let mut silent = Offset::new(window, at(0));
    heard(&mut silent, 700, at(1));
    heard(&mut silent, 1, at(60_000)); // nothing was heard for more than two windows
    assert_eq!(silent.stamp(5), 6);
    assert_eq!(pool_time(at(0).plus(ms(1))), 1001);
}
