//! A node's side: one key, votes, numbers and hints.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::ballots::{
    Adopted, Ballot, HINTS_AT_ONCE, HINTS_TTL, Vote, WRITER_COMES, WRITER_WAITS,
};
use crate::rules::commands::{Cancelled, Claim, Keep, Left, PushedGrant};
use crate::rules::tests::ttl;
use crate::rules::{Publish, Reached, Server};

const KEY: &str = "k";

/// Notes who was told, and says that these listen.
struct Hinted {
    told: Vec<String>,
    listening: &'static [&'static str],
}

impl Publish for Hinted {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        unreachable!("a node of a quorum grants nothing in turn")
    }

    fn hint(&mut self, address: &str, key: &Arc<str>) -> Reached {
        assert_eq!(&**key, KEY);
        self.told.push(address.into());
        if self.listening.contains(&address) {
            Reached::Somebody
        } else {
            Reached::Nobody
        }
    }
}

fn claim(token: &str) -> Claim {
    Claim {
        is_once: false,
        key: KEY.into(),
        value: token.into(),
        queues: false,
    }
}

fn nobody() -> Hinted {
    Hinted {
        told: Vec::new(),
        listening: &[],
    }
}

/// For a lease of ten seconds, to be executed at any time.
fn ballot(token: &str, proposal: u64) -> Ballot {
    Ballot {
        claim: claim(token),
        lease: ttl(10_000),
        not_after: u64::MAX,
        proposal,
        hint_to: token.into(),
    }
}

fn drawn(vote: &Vote) -> Option<u64> {
    match vote {
        Vote::Granted { epoch, .. } => Some(*epoch),
        _ => None,
    }
}

fn take_back(server: &mut Server, token: &str, not_after: u64, time: u64) -> Cancelled {
    server.cancel(&claim(token), Keep::NOT, not_after, time, &mut nobody())
}

#[test]
fn a_number_is_the_proposal_or_above_the_last() {
    let mut server = Server::default();
    for (proposal, expected) in [
        (0, 1),
        (0, 2),
        (9, 9),
        (9, 10),
        (3, 11),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(
            drawn(&server.vote(&ballot("a", proposal), 5, &mut nobody())),
            Some(expected)
        );
        assert!(take_back(&mut server, "a", 0, 5).found);
    }
}

#[test]
fn only_the_first_claim_has_the_vote_until_its_lease_ends() {
    let mut server = Server::default();
    assert_eq!(
        drawn(&server.vote(&ballot("a", 4), 0, &mut nobody())),
        Some(4)
    );
    let Vote::Busy(outvoted) = server.vote(&ballot("b", 9), 9_999_999, &mut nobody()) else {
        panic!("two have the vote");
    };
    assert_eq!(
        (outvoted.last_epoch, outvoted.busy.value.as_str()),
        (4, "a")
    );
    assert_eq!(
        drawn(&server.vote(&ballot("a", 9), 1, &mut nobody())),
        Some(4),
        "executed twice"
    );
    assert_eq!(
        drawn(&server.vote(&ballot("b", 0), 10_000_000, &mut nobody())),
        Some(5)
    );
}

#[test]
fn nothing_is_created_after_the_stamp() {
    let late = Ballot {
        not_after: 7,
        ..ballot("a", 4)
    };
    let mut server = Server::default();
    assert_eq!(server.vote(&late, 8, &mut nobody()), Vote::Late { time: 8 });
    assert_eq!((server.len(), server.last_epoch()), (0, 0));
    assert_eq!(drawn(&server.vote(&late, 7, &mut nobody())), Some(4));
}

#[test]
fn a_number_is_adopted_only_where_the_key_is_ours_and_never_lowers_it() {
    let mut server = Server::default();
    server.vote(&ballot("a", 4), 0, &mut nobody());
    for (token, epoch, expected, last) in [
        ("a", 3, Adopted::Yes, 4),
        ("a", 4, Adopted::Yes, 4),
        ("a", 9, Adopted::Yes, 9),
        ("b", 12, Adopted::Gone, 9),
    ] {
        assert_eq!(server.adopt(&claim(token), epoch, 1), expected);
        assert_eq!(server.last_epoch(), last);
    }
    assert_eq!(
        server.adopt(&claim("a"), 12, 10_000_000),
        Adopted::Gone,
        "it lapsed"
    );
    assert_eq!(
        drawn(&server.vote(&ballot("b", 0), 10_000_000, &mut nobody())),
        Some(10)
    );
}

#[test]
fn a_vote_taken_back_is_conclusive_when_it_was_found_or_can_no_longer_come() {
    let mut server = Server::default();
    let told = |it: Cancelled| (it.found, it.conclusive);
    assert_eq!(told(take_back(&mut server, "a", 7, 7)), (false, false));
    assert_eq!(told(take_back(&mut server, "a", 7, 8)), (false, true));
    server.vote(&ballot("a", 0), 3, &mut nobody());
    assert_eq!(
        told(take_back(&mut server, "b", 7, 4)),
        (false, false),
        "another's"
    );
    assert_eq!(told(take_back(&mut server, "a", 7, 4)), (true, true));
    assert_eq!(server.read(KEY, 4), None);
}

#[test]
fn min_hold_keeps_the_key_and_wakes_nobody() {
    let mut server = Server::default();
    server.vote(&ballot("a", 0), 0, &mut nobody());
    server.vote(&ballot("b", 0), 0, &mut nobody());
    let mut all = Hinted {
        told: Vec::new(),
        listening: &["b"],
    };
    let keep = Keep::from(0, Duration::from_millis(5));
    server.cancel(&claim("a"), keep, 0, 1_000, &mut all);
    assert!(all.told.is_empty());
    assert!(matches!(
        server.vote(&ballot("b", 0), 4_999, &mut nobody()),
        Vote::Busy(_)
    ));
    assert!(drawn(&server.vote(&ballot("b", 0), 5_000, &mut nobody())).is_some());
}

/// Four are outvoted, and the lock is released at that time.
fn hinted(listening: &'static [&'static str], time: u64) -> Vec<String> {
    let mut server = Server::default();
    server.vote(&ballot("a", 0), 0, &mut nobody());
    for (rank, token) in ["b", "c", "b", "d", "e"].iter().enumerate() {
        let Vote::Busy(outvoted) = server.vote(&ballot(token, 0), 1, &mut nobody()) else {
            panic!("two have the vote");
        };
        let expected = [0, 1, 0, 2, 3][rank];
        assert_eq!(outvoted.rank, expected);
    }
    server.vote(
        &Ballot {
            hint_to: "".into(),
            ..ballot("f", 0)
        },
        1,
        &mut nobody(),
    );
    let mut all = Hinted {
        told: Vec::new(),
        listening,
    };
    server.cancel(&claim("a"), Keep::NOT, 0, time, &mut all);
    all.told
}

#[test]
fn a_release_tells_the_first_that_listens_and_tries_few() {
    assert_eq!(hinted(&["b", "c"], 2), ["b"]);
    assert_eq!(hinted(&["c"], 2), ["b", "c"]);
    assert_eq!(hinted(&[], 2), ["b", "c", "d"]);
    assert_eq!(hinted(&[], 2).len(), HINTS_AT_ONCE);
    let ttl = u64::try_from(HINTS_TTL.as_micros()).unwrap();
    assert!(hinted(&["b"], 1 + ttl).is_empty(), "nobody asked for long");
}

#[test]
fn the_bounds_are_the_scripts() {
    let (ttl, waits) = (HINTS_TTL.as_millis(), WRITER_WAITS.as_micros());
    let comes = WRITER_COMES.as_micros();
    let hints = include_str!("../../../rules/lua/node.lua");
    for bounds in [
        format!("HINTS_TTL, HINTS_AT_ONCE = 4503599627370496, {ttl}, {HINTS_AT_ONCE}\n"),
        format!("local WRITER_WAITS, WRITER_COMES = {waits}, {comes}\n"),
    ] {
        assert!(hints.contains(&bounds), "{bounds}");
    }
}

mod many_holders {
    use super::*;
    use crate::values::entry;
    use crate::values::kind::Kind;

    fn of(kind: &Kind, token: &str) -> Claim {
        let value = entry::of_test(kind, token, "", ttl(10_000), "h|1|f|0");
        Claim {
            is_once: false,
            key: KEY.into(),
            value: value.into(),
            queues: true,
        }
    }

    fn asks(server: &mut Server, claim: &Claim, time: u64) -> Vote {
        let ballot = Ballot {
            claim: claim.clone(),
            hint_to: entry::read(&claim.value).expect("an entry").token.into(),
            ..ballot("", 0)
        };
        server.vote(&ballot, time, &mut nobody())
    }

    fn gives_back(server: &mut Server, claim: &Claim, time: u64) -> Cancelled {
        server.cancel(claim, Keep::NOT, 0, time, &mut nobody())
    }

    #[test]
    fn readers_draw_beside_each_other_and_a_writer_is_alone() {
        let mut server = Server::default();
        let [one, two] = ["r1", "r2"].map(|it| of(&Kind::Read, it));
        let writer = of(&Kind::Write, "w");
        assert_eq!(drawn(&asks(&mut server, &one, 0)), Some(1));
        assert_eq!(drawn(&asks(&mut server, &two, 0)), Some(2));
        assert_eq!(drawn(&asks(&mut server, &writer, 0)), None);
        assert!(gives_back(&mut server, &one, 1).found);
        assert_eq!(drawn(&asks(&mut server, &writer, 1)), None);
        assert!(gives_back(&mut server, &two, 1).found);
        assert_eq!(drawn(&asks(&mut server, &writer, 1)), Some(3));
        assert_eq!(drawn(&asks(&mut server, &one, 1)), None);
        // Its own entry is no other's.
        assert_eq!(drawn(&asks(&mut server, &writer, 1)), Some(3));
    }

    #[test]
    fn a_writer_that_waits_keeps_new_readers_out_for_a_while() {
        let waits = u64::try_from(WRITER_WAITS.as_micros()).unwrap();
        let mut server = Server::default();
        let [one, two, three] = ["r1", "r2", "r3"].map(|it| of(&Kind::Read, it));
        asks(&mut server, &one, 0);
        assert_eq!(drawn(&asks(&mut server, &of(&Kind::Write, "w"), 5)), None);
        assert_eq!(drawn(&asks(&mut server, &two, 4 + waits)), None);
        assert!(drawn(&asks(&mut server, &two, 5 + waits)).is_some());
        assert!(drawn(&asks(&mut server, &three, 5 + waits)).is_some());
    }

    /// Two readers hold the lock, and a writer and a third reader were refused.
    fn a_writer_behind_readers() -> (Server, [Claim; 3], Claim) {
        let mut server = Server::default();
        let readers = ["r1", "r2", "r3"].map(|it| of(&Kind::Read, it));
        let writer = of(&Kind::Write, "w");
        asks(&mut server, &readers[0], 0);
        asks(&mut server, &readers[1], 0);
        assert_eq!(drawn(&asks(&mut server, &writer, 2)), None);
        assert_eq!(drawn(&asks(&mut server, &readers[2], 1)), None);
        (server, readers, writer)
    }

    fn all_listen() -> Hinted {
        Hinted {
            told: Vec::new(),
            listening: &["w", "w2", "r3"],
        }
    }

    #[test]
    fn a_writer_that_readers_kept_out_is_told_first_and_has_time_to_come() {
        let (mut server, [one, two, three], writer) = a_writer_behind_readers();
        gives_back(&mut server, &one, 2);
        let mut wire = all_listen();
        server.cancel(&two, Keep::NOT, 0, 3, &mut wire);
        assert_eq!(wire.told, ["w"]);
        let Vote::Busy(held_back) = asks(&mut server, &three, 4) else {
            panic!("the writer comes first");
        };
        assert_eq!(held_back.busy.left, Left::For(WRITER_COMES));
        let comes = u64::try_from(WRITER_COMES.as_micros()).unwrap();
        let mut later = server.clone();
        assert!(drawn(&asks(&mut later, &three, 3 + comes)).is_some());
        assert!(drawn(&asks(&mut server, &writer, 5)).is_some());
        // Behind a writer, everybody has a turn in the order in which they asked.
        assert_eq!(drawn(&asks(&mut server, &of(&Kind::Write, "w2"), 6)), None);
        let mut wire = all_listen();
        server.cancel(&writer, Keep::NOT, 0, 7, &mut wire);
        assert_eq!(wire.told, ["r3"]);
        assert!(drawn(&asks(&mut server, &three, 8)).is_some());
    }

    /// A writer that counts as waiting until a time that can't be yet asked before the step.
    #[test]
    fn a_dead_writer_is_left_the_turn_for_its_time_although_the_clock_was_set_back() {
        let mut server = Server::default();
        let [one, two, writer] = [(Kind::Read, "r1"), (Kind::Read, "r2"), (Kind::Write, "w")]
            .map(|(kind, it)| of(&kind, it));
        let before = 600_000_000;
        asks(&mut server, &one, before);
        assert_eq!(drawn(&asks(&mut server, &writer, before)), None);
        let waits = u64::try_from(WRITER_WAITS.as_micros()).unwrap();
        assert_eq!(drawn(&asks(&mut server, &two, 1)), None);
        assert_eq!(drawn(&asks(&mut server, &two, waits)), None);
        assert!(drawn(&asks(&mut server, &two, 1 + waits)).is_some());
    }

    /// The last reader leaves when two writers wait, of which the second one has gone meanwhile.
    #[test]
    fn a_free_lock_is_left_to_writers_for_no_longer_than_one_of_them_has_to_come() {
        let (mut server, [one, two, three], _) = a_writer_behind_readers();
        asks(&mut server, &of(&Kind::Write, "w2"), 3);
        gives_back(&mut server, &one, 3);
        server.cancel(&two, Keep::NOT, 0, 4, &mut all_listen());
        let comes = u64::try_from(WRITER_COMES.as_micros()).unwrap();
        assert_eq!(drawn(&asks(&mut server, &three, 3 + comes)), None);
        assert!(drawn(&asks(&mut server, &three, 4 + comes)).is_some());
    }

    #[test]
    fn a_writer_that_can_not_be_told_has_time_to_come_as_well() {
        let (mut server, [one, two, three], _) = a_writer_behind_readers();
        let waits = Ballot {
            claim: of(&Kind::Write, "w2"),
            hint_to: "".into(),
            ..ballot("", 0)
        };
        let time = u64::try_from(WRITER_WAITS.as_micros()).unwrap();
        server.vote(&waits, time, &mut nobody());
        let time = time + 10; // the first one has not asked again
        gives_back(&mut server, &one, time);
        let mut wire = all_listen();
        server.cancel(&two, Keep::NOT, 0, time, &mut wire);
        assert!(wire.told.is_empty());
        assert_eq!(drawn(&asks(&mut server, &three, time)), None);
        assert!(drawn(&server.vote(&waits, time, &mut nobody())).is_some());
    }

    #[test]
    fn a_writer_keeps_readers_out_only_where_readers_kept_it_out() {
        let mut server = Server::default();
        let ann = of(&Kind::Owned("ann".into()), "a");
        asks(&mut server, &ann, 0);
        assert_eq!(drawn(&asks(&mut server, &of(&Kind::Write, "w"), 0)), None);
        assert_eq!(drawn(&asks(&mut server, &of(&Kind::Read, "r3"), 0)), None);
        server.cancel(&ann, Keep::NOT, 0, 1, &mut all_listen());
        assert!(drawn(&asks(&mut server, &of(&Kind::Read, "r3"), 1)).is_some());
    }

    #[test]
    fn a_writer_that_listens_no_more_keeps_nobody_out_of_a_free_lock() {
        let (mut server, [one, two, three], _) = a_writer_behind_readers();
        gives_back(&mut server, &one, 2);
        let mut wire = nobody();
        server.cancel(&two, Keep::NOT, 0, 2, &mut wire);
        assert_eq!(wire.told, ["w", "r3"]);
        assert!(drawn(&asks(&mut server, &three, 3)).is_some());
    }

    #[test]
    fn an_owners_entries_have_the_number_of_its_hold_and_adopt_together() {
        let mut server = Server::default();
        let own = |token| of(&Kind::Owned("ann".into()), token);
        assert_eq!(drawn(&asks(&mut server, &own("a"), 0)), Some(1));
        assert_eq!(drawn(&asks(&mut server, &own("b"), 0)), Some(1));
        assert_eq!(
            drawn(&asks(&mut server, &of(&Kind::Owned("bob".into()), "c"), 0)),
            None
        );
        assert_eq!(server.adopt(&own("b"), 7, 1), Adopted::Yes);
        assert_eq!(drawn(&asks(&mut server, &own("d"), 1)), Some(7));
        assert_eq!(server.adopt(&own("a"), 3, 1), Adopted::Yes);
        assert_eq!(drawn(&asks(&mut server, &own("e"), 1)), Some(7));
        assert_eq!(gives_back(&mut server, &own("a"), 2).rest, 3);
        assert_eq!(server.adopt(&own("a"), 9, 2), Adopted::Gone);
    }

    #[test]
    fn another_kind_is_waited_for_or_refused() {
        let mut server = Server::default();
        asks(&mut server, &of(&Kind::Read, "r"), 0);
        let exclusive = ballot("x", 0);
        assert!(matches!(
            server.vote(&exclusive, 1, &mut nobody()),
            Vote::Busy(_)
        ));
        let once = Ballot {
            hint_to: "".into(),
            ..exclusive
        };
        assert!(matches!(
            server.vote(&once, 1, &mut nobody()),
            Vote::WrongKind { .. }
        ));
    }

    #[test]
    fn a_reader_that_comes_in_and_a_downgrade_tell_the_next() {
        let mut server = Server::default();
        let mut heard = Hinted {
            told: Vec::new(),
            listening: &["b", "c"],
        };
        let writer = of(&Kind::Write, "w");
        asks(&mut server, &writer, 0);
        for address in ["b", "c"] {
            let ballot = Ballot {
                claim: of(&Kind::Read, address),
                hint_to: address.into(),
                ..ballot("", 0)
            };
            server.vote(&ballot, 1, &mut heard);
        }
        assert!(server.downgrade(&writer, ttl(1_000), 2, &mut heard));
        assert_eq!(heard.told, ["b"]);
        let ballot = Ballot {
            claim: of(&Kind::Read, "b"),
            ..ballot("", 0)
        };
        assert!(drawn(&server.vote(&ballot, 3, &mut heard)).is_some());
        assert_eq!(heard.told, ["b", "c"]);
    }
}
