//! One acquire at all nodes: tables of answers, and what must hold in every order of them.

use proptest::prelude::*;

use super::counting::{id, nodes};
use crate::client::quorum::election::{Election, ElectionStep};
use crate::client::quorum::nodes::NodeSet;
use crate::rules::ballots::{Adopted, Outvoted, Vote};
use crate::rules::commands::{Busy, Left};

/// What the election is told about a node.
#[derive(Clone, Copy, Debug)]
enum Told {
    Granted(usize, u64),
    Busy(usize),
    Late(usize),
    /// No answer; it may have executed the command.
    Open(usize),
    /// No answer; it can't have.
    Unsent(usize),
    Adopted(usize, u64),
    Gone(usize),
    Hurry,
}

use Told::{Gone, Granted, Hurry, Late, Open, Unsent};

fn tell(election: &mut Election, told: Told) -> ElectionStep {
    let outvoted = || Outvoted {
        busy: Busy {
            time: 1,
            left: Left::Endless,
            value: String::new(),
        },
        last_epoch: 1,
        rank: 0,
    };
    match told {
        Granted(node, epoch) => election.voted(id(node), &Vote::Granted { time: 1, epoch }),
        Told::Busy(node) => election.voted(id(node), &Vote::Busy(outvoted())),
        Late(node) => election.voted(id(node), &Vote::Late { time: 1 }),
        Open(node) => election.failed(id(node), true),
        Unsent(node) => election.failed(id(node), false),
        Told::Adopted(node, epoch) => election.adopted(id(node), epoch, Adopted::Yes),
        Gone(node) => election.adopted(id(node), 1, Adopted::Gone),
        Hurry => election.hurry(),
    }
}

fn set(indices: &[usize]) -> NodeSet {
    indices.iter().map(|it| id(*it)).collect()
}

fn adopt(epoch: u64, at: &[usize]) -> ElectionStep {
    ElectionStep::Adopt { epoch, at: set(at) }
}

/// Three nodes: what the last of these leads to, and which nodes are open then.
fn check(told: &[Told], expected: ElectionStep, open: &[usize]) {
    let mut election = Election::new(nodes(3), nodes(3).all());
    let mut step = election.begin();
    assert_eq!(step, ElectionStep::Wait);
    for it in told {
        step = tell(&mut election, *it);
    }
    assert_eq!((step, election.open()), (expected, set(open)), "{told:?}");
}

#[test]
fn equal_numbers_of_a_quorum_win() {
    check(&[Granted(0, 7)], ElectionStep::Wait, &[0, 1, 2]);
    check(
        &[Granted(0, 7), Granted(1, 7)],
        ElectionStep::Won { epoch: 7 },
        &[0, 1, 2],
    );
    // Even if a further node drew a higher one.
    check(
        &[Granted(2, 9), Granted(0, 7), Granted(1, 7)],
        ElectionStep::Won { epoch: 7 },
        &[0, 1, 2],
    );
    check(
        &[Told::Busy(0), Granted(1, 7), Granted(2, 7)],
        ElectionStep::Won { epoch: 7 },
        &[1, 2],
    );
}

#[test]
fn a_vote_counts_once() {
    check(
        &[Granted(0, 7), Granted(0, 7)],
        ElectionStep::Wait,
        &[0, 1, 2],
    );
    check(
        &[Told::Busy(0), Granted(0, 7), Granted(1, 7)],
        ElectionStep::Wait,
        &[1, 2],
    );
    check(
        &[Granted(0, 7), Open(0), Told::Busy(0)],
        ElectionStep::Wait,
        &[0, 1, 2],
    );
    check(
        &[Told::Adopted(0, 7), Told::Adopted(1, 7)],
        ElectionStep::Wait,
        &[0, 1, 2],
    ); // not asked
}

#[test]
fn no_quorum_is_lost_at_once_and_leaves_open_what_may_be_there() {
    check(&[Told::Busy(0), Late(1)], ElectionStep::Lost, &[2]);
    check(&[Open(0), Open(1)], ElectionStep::Lost, &[0, 1, 2]);
    check(&[Unsent(0), Open(1)], ElectionStep::Lost, &[1, 2]);
    check(
        &[Granted(0, 7), Told::Busy(1), Unsent(2)],
        ElectionStep::Lost,
        &[0],
    );
    for asked in [&[][..], &[0], &[2]] {
        assert_eq!(
            Election::new(nodes(3), set(asked)).begin(),
            ElectionStep::Lost
        );
    }
}

#[test]
fn a_node_that_was_not_asked_has_no_vote() {
    let mut election = Election::new(nodes(3), set(&[0, 1]));
    assert_eq!(tell(&mut election, Granted(0, 7)), ElectionStep::Wait);
    assert_eq!(tell(&mut election, Granted(2, 7)), ElectionStep::Wait);
    assert_eq!(election.open(), set(&[0, 1]));
    assert_eq!(
        tell(&mut election, Granted(1, 7)),
        ElectionStep::Won { epoch: 7 }
    );
}

#[test]
fn unequal_numbers_are_adopted_when_nothing_else_can_make_them_equal() {
    let unequal = [Granted(0, 7), Granted(1, 8)];
    check(&unequal, ElectionStep::WaitBriefly, &[0, 1, 2]);
    check(&[unequal[0], unequal[1], Hurry], adopt(8, &[0]), &[0, 1, 2]);
    check(
        &[Told::Busy(2), unequal[0], unequal[1]],
        adopt(8, &[0]),
        &[0, 1],
    );
    check(
        &[unequal[0], unequal[1], Granted(2, 9)],
        adopt(9, &[0, 1]),
        &[0, 1, 2],
    );
    check(
        &[unequal[0], unequal[1], Hurry, Told::Adopted(0, 8)],
        ElectionStep::Won { epoch: 8 },
        &[0, 1, 2],
    );
}

#[test]
fn a_number_counts_only_where_the_key_is_ours() {
    let begun = [Told::Busy(2), Granted(0, 7), Granted(1, 8)];
    check(
        &[begun[0], begun[1], begun[2], Gone(0)],
        ElectionStep::Lost,
        &[1],
    );
    check(
        &[begun[0], begun[1], begun[2], Open(0)],
        ElectionStep::Lost,
        &[0, 1],
    );
}

#[test]
fn a_late_vote_with_a_higher_number_is_adopted_once_and_no_more() {
    let adopting = [Granted(0, 7), Granted(1, 8), Hurry, Granted(2, 9)];
    let then = |last: &[Told]| [&adopting[..], last].concat();
    check(&then(&[]), ElectionStep::Wait, &[0, 1, 2]);
    check(
        &then(&[Told::Adopted(0, 8)]),
        ElectionStep::Won { epoch: 8 },
        &[0, 1, 2],
    );
    check(&then(&[Gone(0)]), adopt(9, &[1]), &[1, 2]);
    check(
        &then(&[Gone(0), Told::Adopted(1, 9)]),
        ElectionStep::Won { epoch: 9 },
        &[1, 2],
    );
    check(&then(&[Gone(0), Gone(1)]), ElectionStep::Lost, &[2]);
}

fn any_told() -> impl Strategy<Value = Told> {
    let node = || 0usize..5;
    let epoch = || 1u64..4;
    prop_oneof![
        4 => (node(), epoch()).prop_map(|(node, epoch)| Granted(node, epoch)),
        1 => node().prop_map(Told::Busy),
        1 => node().prop_map(Open),
        3 => (node(), epoch()).prop_map(|(node, epoch)| Told::Adopted(node, epoch)),
        1 => node().prop_map(Gone),
        1 => Just(Hurry),
    ]
}

proptest! {
    /// Whatever is told, in any order, also what makes no sense: who wins holds its number at a
    /// quorum whose keys are known to be its own; who can't win is told so.
    #[test]
    fn only_a_quorum_wins(told in proptest::collection::vec(any_told(), 1..25)) {
        let mut election = Election::new(nodes(5), nodes(5).all());
        let mut granted = NodeSet::NONE;
        let mut refused = NodeSet::NONE;
        for it in told {
            let before = election.granted();
            let step = tell(&mut election, it);
            match it {
                Granted(node, _) if !refused.contains(id(node)) => granted.insert(id(node)),
                Told::Busy(node) | Open(node) if !before.contains(id(node)) => {
                    refused.insert(id(node));
                }
                _ => {}
            }
            prop_assert!(election.granted().iter().all(|it| granted.contains(it)));
            prop_assert!(election.granted().iter().all(|it| election.open().contains(it)));
            match step {
                ElectionStep::Won { .. } => prop_assert!(election.granted().len() >= 3),
                ElectionStep::Adopt { at, .. } => {
                    prop_assert!(!at.is_empty());
                    prop_assert!(at.iter().all(|it| election.granted().contains(it)));
                }
                ElectionStep::Wait | ElectionStep::WaitBriefly => {
                    let unknown = nodes(5).ids().filter(|it| !refused.contains(*it)).count();
                    prop_assert!(unknown >= 3);
                }
                ElectionStep::Lost => {}
            }
        }
    }
}
