//! A node of a quorum: batches about exclusive locks here, commands of the kinds with many holders in
//! `single`. Nobody queues there, and who was outvoted is told by hints.

mod single;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dlock_harness::cases;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use redis::Value;

use self::single::{ENTRIES, Single};
use super::clockwork::Clockwork;
use super::epochs::Epochs;
use super::pair::{Foreign, Pair, even, foreign};
use super::witness::Witness;
use super::{Alike, Seconds, Stage, Who};
use crate::link::command_error::CommandError;
use crate::link::redis::link::batcher::OwnedCommand;
use crate::link::redis::names::Names;
use crate::link::redis::reply::{ItemReply as Reply, OfNode};
use crate::link::redis::tests::lab::{CAP, HOUR, Heard, Lab, kept, seconds};
use crate::link::redis::tests::node::{claim, listening, of_one_counter, server};
use crate::rules::ballots::{Adopted, Ballot, Vote};
use crate::rules::commands::Claim;
use crate::values::entry;

#[derive(Clone, Debug)]
enum Item {
    Vote {
        who: Who,
        lease: Seconds,
        late: bool,
        proposal: u64,
    },
    Adopt(Who, u64),
    TakeBack {
        who: Who,
        keep: Option<Seconds>,
        over: bool,
    },
}

#[derive(Clone, Debug)]
enum Op {
    /// All from one connection, which listens at one of the addresses.
    Batch(usize, Vec<Item>),
    /// The same of one entry of a kind with many holders.
    Single(usize, Who, Single),
    Pass(Seconds),
    Foreign(usize, Foreign),
    /// The counter is lost, or has a text that was not drawn.
    Counter(Option<&'static str>),
}

fn op() -> impl Strategy<Value = Op> {
    let who = || (0..2usize, 0..3usize);
    let rarely = || proptest::bool::weighted(0.1);
    let item = prop_oneof![
        6 => (who(), even(), rarely(), 0..60u64)
            .prop_map(|(who, lease, late, proposal)| Item::Vote { who, lease, late, proposal }),
        2 => (who(), 0..70u64).prop_map(|(who, epoch)| Item::Adopt(who, epoch)),
        4 => (who(), option::weighted(0.2, even()), any::<bool>())
            .prop_map(|(who, keep, over)| Item::TakeBack { who, keep, over }),
    ];
    let single = prop_oneof![
        6 => (even(), rarely(), 0..60u64, any::<bool>()).prop_map(
            |(lease, late, proposal, waits)| Single::Vote { lease, late, proposal, waits }
        ),
        2 => (0..70u64).prop_map(Single::Adopt),
        4 => (option::weighted(0.2, even()), any::<bool>())
            .prop_map(|(keep, over)| Single::TakeBack { keep, over }),
        1 => even().prop_map(Single::Downgrade),
    ];
    prop_oneof![
        12 => (0..4usize, vec(item, 1..7)).prop_map(|(at, items)| Op::Batch(at, items)),
        16 => (0..4usize, (0..2usize, 0..ENTRIES), single)
            .prop_map(|(at, who, item)| Op::Single(at, who, item)),
        3 => (1..6u64).prop_map(|half| Op::Pass(2 * half)),
        2 => (0..2usize, foreign()).prop_map(|(key, what)| Op::Foreign(key, what)),
        1 => proptest::sample::select(&[None, Some("x"), Some("9007199254740993")][..])
            .prop_map(Op::Counter),
    ]
}

/// One after the other, somewhere in random operations: what they alone seldom do.
fn scene() -> impl Strategy<Value = Vec<Op>> {
    let seconds = prop_oneof![3 => Just(0), 1 => Just(2), 1 => Just(4)];
    let vote = |who, waits| {
        let (lease, late, proposal) = (30, false, 0);
        let vote = Single::Vote {
            lease,
            late,
            proposal,
            waits,
        };
        (who, vote)
    };
    let back = |who| {
        let (keep, over) = (None, false);
        (who, Single::TakeBack { keep, over })
    };
    let one_by_one = proptest::sample::select(vec![
        // A writer that waits has the turn before a reader, also once the lock is free.
        vec![
            vote(0, false),
            vote(2, true),
            back(0),
            vote(1, false),
            vote(2, true),
        ],
        vec![
            vote(0, false),
            vote(2, true),
            vote(3, true),
            vote(1, true),
            back(0),
            vote(1, true),
        ],
        // A second entry of an owner joins its hold, whose number both adopt.
        vec![
            vote(4, false),
            vote(5, false),
            (5, Single::Adopt(65)),
            back(4),
            vote(6, true),
            back(5),
        ],
        // A writer becomes a reader, beside whom others read.
        vec![
            vote(2, false),
            vote(1, true),
            (2, Single::Downgrade(30)),
            vote(1, false),
        ],
    ]);
    let one_by_one =
        (0..4usize, 0..2usize, seconds, one_by_one).prop_map(|(at, key, pass, items)| {
            let last = items.len() - 1;
            let mut ops = vec![Op::Foreign(key, Foreign::Nothing)];
            for (index, (who, item)) in items.into_iter().enumerate() {
                if index == last && pass > 0 {
                    ops.push(Op::Pass(pass));
                }
                ops.push(Op::Single(at, (key, who), item));
            }
            ops
        });
    // Several votes in one command, and then all of them back.
    let together =
        (0..4usize, 0..60u64, option::weighted(0.2, even())).prop_map(|(at, proposal, keep)| {
            let each = [(0, 0), (1, 1)];
            let vote = |(who, proposal)| Item::Vote {
                who,
                lease: 30,
                late: false,
                proposal,
            };
            let votes = each
                .into_iter()
                .zip([proposal, proposal + 1])
                .map(vote)
                .collect();
            let over = false;
            let back = each.map(|who| Item::TakeBack { who, keep, over }).to_vec();
            let free = [0, 1].map(|key| Op::Foreign(key, Foreign::Nothing));
            free.into_iter()
                .chain([Op::Batch(at, votes), Op::Batch(at, back)])
                .collect()
        });
    prop_oneof![3 => one_by_one, 1 => together]
}

#[test]
fn a_node_answers_like_the_pure_machine() {
    let witness = Witness::default();
    let stage = Stage::new(async {
        let (server, heard) = (server(), Arc::<Heard>::default());
        let link = listening(&server.url(), &heard).await;
        Lab::of(server, link, heard).await
    });
    let single = op().prop_map(|op| vec![op]);
    let ops = vec(prop_oneof![15 => single, 1 => scene()], 1..42);
    let ops = ops.prop_map(|scenes| scenes.concat());
    stage.drive(cases(300), ops, |lab| {
        let what_they_are = (Names::of_node("lock:"), Epochs::Same);
        Pair::new(lab, &witness, of_one_counter(), what_they_are)
    });
    witness.must_have_seen(REACHED.split(", ").map(|it| (it, 1)));
}

/// Every reply of a node, and what its callers wait for.
const REACHED: &str = "\
    a vote, adopted, all as asked, another layout, busy without an end, cancelled, downgraded, \
    joined an owner's hold, kept, late, left to a writer, may come yet, not adopted: gone, \
    not held, nothing can come, one of several is refused, others of the owner hold it, \
    outvoted, released, several holders, taken back by MGET and DEL, told behind others, \
    told that it is free, wrong kind";

/// The epochs of one batch. The script draws those of several items at once, before it looks closer
/// at their locks, so it may skip some, and draw in another order for different locks.
struct Drawn {
    before: u64,
    after: u64,
    is_alone: bool,
    epochs: BTreeSet<u64>,
    /// The last one for each lock.
    of_lock: BTreeMap<usize, u64>,
}

impl Drawn {
    fn allows(&self, real: u64, pure: u64) -> bool {
        if self.is_alone {
            return real == pure;
        }
        (self.before..=self.after).contains(&real)
    }

    /// A vote that is no duplicate.
    fn granted(&mut self, lock: usize, epoch: u64, proposal: u64) {
        assert!(self.epochs.insert(epoch), "drawn twice");
        let last = self.of_lock.insert(lock, epoch).unwrap_or(self.before);
        assert!(epoch > last && epoch >= proposal, "{epoch} after {last}");
    }
}

fn counter() -> String {
    let names = Names::of_node("lock:");
    names.of("lock:{a}").counter.into_owned()
}

impl Alike<Op> for Pair<'_> {
    async fn step(&mut self, op: &Op) {
        self.time += 1;
        match op {
            Op::Batch(address, items) => self.batch(*address, items).await,
            Op::Single(address, who, item) => self.single(*address, *who, item).await,
            Op::Pass(seconds) => self.pass(*seconds).await,
            Op::Foreign(key, what) => self.interfere(*key, *what, "somebody's").await,
            Op::Counter(text) => {
                // The pure machine never loses its counter: its next proposals are above.
                if self.pure.last_epoch() == 0 {
                    let counter = counter();
                    match text {
                        None => self.lab.tell::<Value>(&["DEL", &counter]).await,
                        Some(text) => self.lab.tell(&["SET", &counter, text]).await,
                    };
                }
            }
        }
    }

    async fn compare(&mut self) {
        self.compare_all().await;
    }

    fn clockwork(&self) -> &Clockwork {
        &self.clockwork
    }
}

impl Pair<'_> {
    fn claim_of(&self, (key, who): Who) -> Claim {
        claim(&self.keys[key], ["a", "b", "c"][who])
    }

    /// Where hints are sent: one listens, and one caller wants none.
    fn hint_to(&self, number: usize) -> Arc<str> {
        let channel = self.wire.channel();
        let all = [channel, "lock:@grant:dead", "lock:@grant:lost", ""];
        all[number].into()
    }

    async fn batch(&mut self, address: usize, items: &[Item]) {
        let real_time = self.lab.link.server_time();
        let claims: Vec<_> = items.iter().map(|it| self.claim_of(who(it))).collect();
        let ballot = |claim: &Claim, item: &Item, time: u64| {
            let Item::Vote {
                lease,
                late,
                proposal,
                ..
            } = *item
            else {
                return None;
            };
            Some(Ballot {
                claim: claim.clone(),
                lease: seconds(lease),
                not_after: if late { time - HOUR } else { time + HOUR },
                proposal,
                hint_to: self.hint_to(address),
            })
        };
        let both = |time| -> Vec<_> {
            let each = claims.iter().zip(items);
            each.map(|(claim, item)| ballot(claim, item, time))
                .collect()
        };
        let (real_ballots, pure_ballots) = (both(real_time), both(self.time));
        let command = |(at, item): (usize, &Item)| match item {
            Item::Vote { .. } => OwnedCommand::Vote(real_ballots[at].clone().unwrap()),
            Item::Adopt(_, epoch) => OwnedCommand::Adopt {
                claim: claims[at].clone(),
                epoch: *epoch,
            },
            Item::TakeBack { keep, .. } => OwnedCommand::TakeBack {
                claim: claims[at].clone(),
                keep: kept(*keep, real_time),
            },
        };
        let commands: Vec<_> = items.iter().enumerate().map(command).collect();
        let batcher = self.lab.link.node_batcher();
        let answers = batcher.ask_together(commands, CAP).await.into_iter();
        let answers = answers.map(|it| it.unwrap().and_then(Reply::of_node));
        let mut drawn = Drawn {
            before: self.pure.last_epoch(),
            after: self.counter().await.unwrap_or(0),
            is_alone: items.len() == 1,
            epochs: BTreeSet::new(),
            of_lock: BTreeMap::new(),
        };
        let (mut is_as_asked, is_several) = (true, items.len() > 1);
        for (at, (item, answer)) in items.iter().zip(answers).enumerate() {
            let is_other = self.other_type.contains(&who(item).0);
            match item {
                Item::Vote { late, .. } if is_other && !late => {
                    let real = answer.and_then(|it| it.vote(0));
                    assert!(self.is_other_type(who(item).0, &real), "{real:?}");
                    self.witness.saw_if(is_several, "one of several is refused");
                    is_as_asked = false;
                }
                Item::Vote { .. } => {
                    let ballot = pure_ballots[at].as_ref().unwrap();
                    let is_again = self.pure.holds(&claims[at], self.time);
                    let pure = self.pure.vote(ballot, self.time, &mut self.wire);
                    let real = answer.and_then(|it| it.vote(ballot.proposed())).unwrap();
                    if let (Vote::Granted { epoch, .. }, false) = (&real, is_again) {
                        drawn.granted(who(item).0, *epoch, ballot.proposal);
                    }
                    is_as_asked &=
                        matches!(&real, Vote::Granted { epoch, .. } if *epoch == ballot.proposal);
                    self.compare_votes(real, pure, |real, pure| drawn.allows(real, pure));
                }
                Item::Adopt(_, epoch) => {
                    let pure = self.pure.adopt(&claims[at], *epoch, self.time);
                    assert_eq!(answer.and_then(|it| it.adopted()).unwrap(), pure, "adopt");
                    self.saw_adopted(pure);
                    is_as_asked = false;
                }
                Item::TakeBack { keep, over, .. } => {
                    let found = self.compare_taken_back(&claims[at], *keep, *over, answer);
                    let is_first = at == 0 && is_several && keep.is_none();
                    self.witness
                        .saw_if(is_first && found, "taken back by MGET and DEL");
                    is_as_asked &= found;
                }
            }
        }
        self.witness
            .saw_if(is_several && is_as_asked, "all as asked");
        self.compare_told().await;
        assert!(drawn.allows(drawn.after, self.pure.last_epoch()));
        self.pure.set_last_epoch(drawn.after);
    }

    async fn counter(&self) -> Option<u64> {
        let text: Option<String> = self.lab.tell(&["GET", &counter()]).await;
        let number = text.and_then(|it| it.parse().ok());
        number.filter(|it| *it < 1 << 53)
    }

    /// `is_drawn`: whether an epoch is the pure machine's, or may be there in its place.
    fn compare_votes(&self, real: Vote, pure: Vote, is_drawn: impl Fn(u64, u64) -> bool) {
        self.witness.saw(match &pure {
            Vote::Granted { .. } => "a vote",
            Vote::Busy(_) => "outvoted",
            Vote::Late { .. } => "late",
            Vote::WrongKind { .. } => "wrong kind",
        });
        match (real, pure) {
            (Vote::Granted { epoch: real, .. }, Vote::Granted { epoch: pure, .. }) => {
                assert!(is_drawn(real, pure), "the epoch: {real}, {pure}");
            }
            (Vote::Late { .. }, Vote::Late { .. }) => {}
            (Vote::WrongKind { there: real, .. }, Vote::WrongKind { there: pure, .. }) => {
                assert_eq!(real, pure);
            }
            (Vote::Busy(real), Vote::Busy(pure)) => {
                let (last, expected) = (real.last_epoch, pure.last_epoch);
                assert!(is_drawn(last, expected), "the last: {last}, {expected}");
                assert_eq!(real.rank, pure.rank);
                self.compare_busy(&real.busy, &pure.busy);
                self.witness.saw_if(pure.rank > 0, "told behind others");
                let is_left = pure.busy.value == entry::LEFT_TO_A_WRITER;
                self.witness.saw_if(is_left, "left to a writer");
            }
            (real, pure) => panic!("vote: {real:?} is not like {pure:?}"),
        }
    }

    fn saw_adopted(&self, answer: Adopted) {
        self.witness.saw(match answer {
            Adopted::Yes => "adopted",
            Adopted::Gone => "not adopted: gone",
        });
    }

    fn compare_taken_back(
        &mut self,
        claim: &Claim,
        keep: Option<Seconds>,
        over: bool,
        answer: Result<OfNode, CommandError>,
    ) -> bool {
        let answer = answer.unwrap();
        let not_after = |time: u64| if over { time - HOUR } else { time + HOUR };
        let (kept, until) = (kept(keep, self.time), not_after(self.time));
        let pure = (self.pure).cancel(claim, kept, until, self.time, &mut self.wire);
        let real = answer.taken_back(not_after(answer.time)).unwrap();
        self.saw_released(pure.found, keep);
        self.compare_cancelled(real, pure);
        pure.found
    }
}

fn who(item: &Item) -> Who {
    let (Item::Vote { who, .. } | Item::Adopt(who, _) | Item::TakeBack { who, .. }) = item;
    *who
}
