//! Property test: the pure machine of `policy::server` and `node.lua` answer alike, and leave the same,
//! for random batches in random order; `shared` does the same for the kinds with many holders. Time
//! passes as in `tests::alike`.

mod shared;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use dlock_harness::cases;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redis::Value;

use self::shared::{ENTRIES, Single};
use super::{CAP, HOUR, claim, listening, of_one_counter, seconds, server};
use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::backend::redis::link::batcher::OwnedCommand;
use crate::backend::redis::names::Names;
use crate::backend::redis::reply::{ItemReply as Reply, OfNode};
use crate::backend::redis::tests::alike::clockwork::{self, Clockwork};
use crate::backend::redis::tests::lab::{Heard, Lab, kept};
use crate::policy::commands::{Busy, Claim, Left, PushedGrant};
use crate::policy::quorum::commands::{Ballot, Vote};
use crate::policy::server::{Publish, Reached, Server};
use crate::values::entry;
use crate::values::error::Refusal;
use crate::values::kind::Kind;

const SECOND: u64 = 1_000_000;

/// One of two keys, and one of three claims.
type Who = (usize, usize);

/// Always even.
type Seconds = u64;

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

/// What stands at a key because of somebody else.
#[derive(Clone, Copy, Debug)]
enum Foreign {
    Nothing,
    Value(Option<Seconds>),
    /// A reader's set.
    Set(Seconds),
    List,
    /// A set of another layout.
    OtherSet,
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
    let seconds = || (1..12u64).prop_map(|half| 2 * half);
    let rarely = || proptest::bool::weighted(0.1);
    let item = prop_oneof![
        6 => (who(), seconds(), rarely(), 0..60u64)
            .prop_map(|(who, lease, late, proposal)| Item::Vote { who, lease, late, proposal }),
        2 => (who(), 0..70u64).prop_map(|(who, epoch)| Item::Adopt(who, epoch)),
        4 => (who(), option::weighted(0.2, seconds()), any::<bool>())
            .prop_map(|(who, keep, over)| Item::TakeBack { who, keep, over }),
    ];
    let single = prop_oneof![
        6 => (seconds(), rarely(), 0..60u64, any::<bool>()).prop_map(
            |(lease, late, proposal, waits)| Single::Vote { lease, late, proposal, waits }
        ),
        2 => (0..70u64).prop_map(Single::Adopt),
        4 => (option::weighted(0.2, seconds()), any::<bool>())
            .prop_map(|(keep, over)| Single::TakeBack { keep, over }),
        1 => seconds().prop_map(Single::Downgrade),
    ];
    let foreign = prop_oneof![
        (0..1u64).prop_map(|_| Foreign::Nothing),
        option::of(seconds()).prop_map(Foreign::Value),
        seconds().prop_map(Foreign::Set),
        (0..1u64).prop_map(|_| Foreign::List),
        (0..1u64).prop_map(|_| Foreign::OtherSet),
    ];
    prop_oneof![
        12 => (0..4usize, vec(item, 1..7)).prop_map(|(at, items)| Op::Batch(at, items)),
        16 => (0..4usize, (0..2usize, 0..ENTRIES), single)
            .prop_map(|(at, who, item)| Op::Single(at, who, item)),
        3 => (1..6u64).prop_map(|half| Op::Pass(2 * half)),
        1 => (0..2usize, foreign).prop_map(|(key, what)| Op::Foreign(key, what)),
        1 => proptest::sample::select(&[None, Some("x"), Some("9007199254740993")][..])
            .prop_map(Op::Counter),
    ]
}

#[test]
fn a_node_answers_like_the_pure_machine() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lab = runtime.block_on(async {
        let (server, heard) = (server(), Arc::<Heard>::default());
        let link = listening(&server.url(), &heard).await;
        Lab::of(server, link, heard).await
    });
    let config = Config {
        cases: cases(300),
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let compared = Cell::new(0);
    let checked = TestRunner::new_with_rng(config, rng).run(&vec(op(), 1..40), |ops| {
        runtime.block_on(async {
            lab.tell::<()>(&["FLUSHALL"]).await;
            lab.link.ping(CAP).await.unwrap();
            lab.heard.take_freed();
        });
        let mut pair = Pair::new(&lab);
        for op in &ops {
            let step = AssertUnwindSafe(|| {
                runtime.block_on(async {
                    pair.step(op).await;
                    pair.compare_all().await;
                });
            });
            let outcome = catch_unwind(step);
            if pair.clockwork.is_useless() {
                break;
            }
            if let Err(difference) = outcome {
                resume_unwind(difference); // the runner catches and shrinks it
            }
            compared.set(compared.get() + 1);
        }
        Ok(())
    });
    if let Err(difference) = checked {
        panic!("{difference}");
    }
    assert!(compared.get() > 500, "only {} operations", compared.get());
}

struct Pair<'a> {
    lab: &'a Lab,
    /// Two locks that draw from one counter, as all do in the pure machine.
    keys: [String; 2],
    pure: Server,
    wire: Wire,
    /// The pure machine's clock, in µs.
    time: u64,
    clockwork: Clockwork,
    /// Keys with a value of another type; the pure machine has a value without an end there.
    other_type: BTreeSet<usize>,
    addresses: [Arc<str>; 4],
}

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

/// The pure machine's hints.
struct Wire {
    /// The only channel with a listener.
    channel: Arc<str>,
    freed: Vec<String>,
}

impl Publish for Wire {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        panic!("nobody queues at a node")
    }

    fn hint(&mut self, address: &str, key: &Arc<str>) -> Reached {
        if *address != *self.channel {
            return Reached::Nobody;
        }
        self.freed.push(key.to_string());
        Reached::Somebody
    }
}

fn counter() -> String {
    let names = Names::of_node("lock:");
    names.of("lock:{a}").counter.into_owned()
}

impl<'a> Pair<'a> {
    fn new(lab: &'a Lab) -> Self {
        let address = lab.link.address().unwrap();
        let channel: Arc<str> = address.split_once(';').unwrap().1.into();
        Self {
            lab,
            keys: of_one_counter(),
            pure: Server::default(),
            wire: Wire {
                channel: channel.clone(),
                freed: Vec::new(),
            },
            time: 1_000 * HOUR,
            clockwork: Clockwork::start(),
            other_type: BTreeSet::new(),
            addresses: [
                channel,
                "lock:@grant:dead".into(),
                "lock:@grant:lost".into(),
                "".into(),
            ],
        }
    }

    fn named(&self, (key, who): Who) -> Claim {
        claim(&self.keys[key], ["a", "b", "c"][who])
    }

    async fn step(&mut self, op: &Op) {
        self.time += 1;
        match op {
            Op::Batch(address, items) => self.batch(*address, items).await,
            Op::Single(address, who, item) => self.single(*address, *who, item).await,
            Op::Pass(seconds) => {
                self.time += seconds * SECOND;
                let names = Names::of_node("lock:");
                let hints = self.keys.iter().map(|it| names.of(it).hints.text());
                let keys: Vec<_> = hints.chain(self.keys.iter().cloned()).collect();
                clockwork::pass(*seconds, self.lab, &keys).await;
            }
            Op::Foreign(key, what) => self.interfere(*key, *what).await,
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

    async fn batch(&mut self, address: usize, items: &[Item]) {
        let real_time = self.lab.link.server_time();
        let claims: Vec<_> = items.iter().map(|it| self.named(who(it))).collect();
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
                hint_to: self.addresses[address].clone(),
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
        for (at, (item, answer)) in items.iter().zip(answers).enumerate() {
            let is_other = self.other_type.contains(&who(item).0);
            match item {
                Item::Vote { late, .. } if is_other && !late => {
                    let real = answer.and_then(|it| it.vote(0));
                    let refusals = [Refusal::WrongType, Refusal::Layout];
                    assert!(
                        matches!(&real, Err(CommandError::Refused(it, _)) if refusals.contains(it)),
                        "{real:?}"
                    );
                }
                Item::Vote { .. } => {
                    let ballot = pure_ballots[at].as_ref().unwrap();
                    let is_again = self.pure.holds(&claims[at], self.time);
                    let pure = self.pure.vote(ballot, self.time, &mut self.wire);
                    let real = answer.and_then(|it| it.vote(ballot.proposed())).unwrap();
                    if let (Vote::Granted { epoch, .. }, false) = (&real, is_again) {
                        drawn.granted(who(item).0, *epoch, ballot.proposal);
                    }
                    self.compare_votes(real, pure, &drawn);
                }
                Item::Adopt(_, epoch) => {
                    let pure = self.pure.adopt(&claims[at], *epoch, self.time);
                    assert_eq!(answer.and_then(|it| it.adopted()).unwrap(), pure, "adopt");
                }
                Item::TakeBack { keep, over, .. } => {
                    self.compare_taken_back(&claims[at], *keep, *over, answer);
                }
            }
        }
        self.compare_hints().await;
        assert!(drawn.allows(drawn.after, self.pure.last_epoch()));
        self.pure.set_last_epoch(drawn.after);
    }

    async fn counter(&self) -> Option<u64> {
        let text: Option<String> = self.lab.tell(&["GET", &counter()]).await;
        let number = text.and_then(|it| it.parse().ok());
        number.filter(|it| *it < 1 << 53)
    }

    fn compare_votes(&self, real: Vote, pure: Vote, drawn: &Drawn) {
        match (real, pure) {
            (Vote::Granted { epoch: real, .. }, Vote::Granted { epoch: pure, .. }) => {
                assert!(drawn.allows(real, pure), "the epoch: {real}, {pure}");
            }
            (Vote::Busy(real), Vote::Busy(pure)) => {
                assert!(drawn.allows(real.last_epoch, pure.last_epoch));
                self.compare_answers(Vote::Busy(real), Vote::Busy(pure));
            }
            (real, pure) => self.compare_answers(real, pure),
        }
    }

    /// Without epochs.
    fn compare_answers(&self, real: Vote, pure: Vote) {
        match (real, pure) {
            (Vote::Late { .. }, Vote::Late { .. }) => {}
            (Vote::WrongKind { there: real, .. }, Vote::WrongKind { there: pure, .. }) => {
                assert_eq!(real, pure);
            }
            (Vote::Busy(real), Vote::Busy(pure)) => {
                assert_eq!(real.rank, pure.rank);
                self.compare_busy(&real.busy, &pure.busy);
            }
            (real, pure) => panic!("vote: {real:?} is not like {pure:?}"),
        }
    }

    fn compare_busy(&self, real: &Busy, pure: &Busy) {
        assert_eq!(real.value, pure.value);
        match (real.left, pure.left) {
            (Left::For(real), Left::For(pure)) => self.compare_left(real, pure),
            (real, pure) => assert_eq!(real, pure),
        }
    }

    fn compare_left(&self, real: Duration, pure: Duration) {
        let least = pure.saturating_sub(self.clockwork.drift() + Duration::from_millis(20));
        // PTTL says whole milliseconds.
        let pure = Duration::from_millis(u64::try_from(pure.as_micros().div_ceil(1000)).unwrap());
        assert!(
            real <= pure && real >= least,
            "{real:?} is not like {pure:?}"
        );
    }

    fn compare_taken_back(
        &mut self,
        claim: &Claim,
        keep: Option<Seconds>,
        over: bool,
        answer: Result<OfNode, CommandError>,
    ) {
        let answer = answer.unwrap();
        let not_after = |time: u64| if over { time - HOUR } else { time + HOUR };
        let (keep, until) = (kept(keep, self.time), not_after(self.time));
        let pure = self
            .pure
            .cancel(claim, keep, until, self.time, &mut self.wire);
        let real = answer.taken_back(not_after(answer.time)).unwrap();
        assert_eq!(
            (real.found, real.conclusive, real.rest),
            (pure.found, pure.conclusive, pure.rest),
            "take back"
        );
    }

    async fn compare_hints(&mut self) {
        // Answered after every push so far.
        self.lab.link.ping(CAP).await.unwrap();
        let pure = std::mem::take(&mut self.wire.freed);
        assert_eq!(self.lab.heard.take_freed(), pure, "who was told");
    }

    async fn interfere(&mut self, at: usize, what: Foreign) {
        let lock = self.keys[at].clone();
        self.lab.tell::<Value>(&["DEL", &lock]).await;
        self.pure.remove(&lock);
        self.other_type.remove(&at);
        match what {
            Foreign::Nothing => {}
            Foreign::Value(ttl) => {
                let px = ttl.map(|ttl| (ttl * 1000).to_string());
                let mut words = vec!["SET", &lock, "somebody's"];
                words.extend(px.iter().flat_map(|px| ["PX", px]));
                self.lab.tell::<Value>(&words).await;
                let expires = ttl.map(|ttl| self.time + ttl * SECOND);
                self.pure.put(&lock, "somebody's", expires);
            }
            Foreign::Set(ttl) => {
                let reader = entry::of_test(&Kind::Read, "r", "", seconds(30), "host|1|f|0");
                let until = (self.lab.link.server_time() + ttl * SECOND).to_string();
                let words = ["ZADD", &lock, &until, &reader, "inf", "1|#|rw"];
                self.lab.tell::<Value>(&words).await;
                let px = (ttl * 1000).to_string();
                self.lab.tell::<Value>(&["PEXPIRE", &lock, &px]).await;
                self.pure.remove(&lock);
                let before = self.pure.last_epoch();
                self.pure
                    .put_entry(&lock, &reader, self.time + ttl * SECOND, self.time);
                self.pure.set_last_epoch(before);
            }
            Foreign::List | Foreign::OtherSet => {
                let words = match what {
                    Foreign::List => &["LPUSH", &lock, "x"][..],
                    _ => &["ZADD", &lock, "1", "long over", "inf", "2|#|rw"],
                };
                self.lab.tell::<Value>(words).await;
                self.pure.put(&lock, "2|a list", None);
                self.other_type.insert(at);
            }
        }
    }

    /// What stands at each key and its end, and whom to tell.
    async fn compare_all(&mut self) {
        let looks = self.look().await;
        for (at, (lock, look)) in self.keys.clone().iter().zip(looks).enumerate() {
            let (wanting, writers, hints_left, held, left, members) = look;
            let pure = self.pure.writers_kept_out(lock, self.time);
            let pure = pure.iter().map(|it| match &**it {
                "" => "w-".to_owned(),
                address => format!("w{address}"),
            });
            assert_eq!(writers, pure.collect::<Vec<_>>(), "the writers");
            let pure = self.pure.hints(lock, self.time);
            let (pure, ends) = pure.unzip();
            let pure: Vec<String> = pure.iter().flatten().map(ToString::to_string).collect();
            assert_eq!(wanting, pure, "who wants a hint");
            self.compare_end(hints_left, ends.map(End::At));
            if self.other_type.contains(&at) {
                continue;
            }
            if self.pure.meta(lock, self.time).is_some() {
                self.compare_set(lock, &members);
                continue;
            }
            let pure = self.pure.read(lock, self.time);
            let ends = pure.as_ref().map(|_| {
                let expires = self.pure.expires(lock);
                expires.map_or(End::Never, End::At)
            });
            assert_eq!(held, pure, "what stands at {lock}");
            self.compare_end(left, ends);
        }
    }

    async fn look(&self) -> Vec<Look> {
        let names = Names::of_node("lock:");
        let hints = |lock: &String| [lock.clone(), names.of(lock).hints.text()];
        let keys: Vec<String> = self.keys.iter().flat_map(hints).collect();
        let count = keys.len().to_string();
        let mut words = vec!["EVAL", LOOK, &count];
        words.extend(keys.iter().map(String::as_str));
        self.lab.tell(&words).await
    }

    /// `None`: the key is absent.
    fn compare_end(&self, real: i64, pure: Option<End>) {
        match pure {
            None => assert_eq!(real, -2, "it is gone"),
            Some(End::Never) => assert_eq!(real, -1, "it does not end"),
            Some(End::At(at)) => {
                let real = Duration::from_millis(u64::try_from(real).expect("it ends"));
                self.compare_left(real, Duration::from_micros(at - self.time));
            }
        }
    }
}

/// Who wants a hint, the writers, the PTTL of both; value, PTTL and set of the lock.
type Look = (
    Vec<String>,
    Vec<String>,
    i64,
    Option<String>,
    i64,
    Vec<(String, f64)>,
);

/// KEYS: each lock and its hints. The writers are behind the others; votes show until when.
const LOOK: &str = "
    local looks = {}
    for i = 1, #KEYS, 2 do
      local lock, hints = KEYS[i], KEYS[i + 1]
      local is = redis.call('TYPE', lock).ok
      looks[#looks + 1] = {
        redis.call('ZRANGE', hints, '0', '(4503599627370496', 'BYSCORE'),
        redis.call('ZRANGE', hints, '4503599627370496', '+inf', 'BYSCORE'),
        redis.call('PTTL', hints),
        is == 'string' and redis.call('GET', lock),
        redis.call('PTTL', lock),
        is == 'zset' and redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES') or {},
      }
    end
    return looks";

/// When a key ends, by the pure machine's clock.
#[derive(Clone, Copy)]
enum End {
    Never,
    At(u64),
}

fn who(item: &Item) -> Who {
    let (Item::Vote { who, .. } | Item::Adopt(who, _) | Item::TakeBack { who, .. }) = item;
    *who
}
