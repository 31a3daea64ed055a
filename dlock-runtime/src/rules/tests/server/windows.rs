//! What is loaded of a key, and what is written back: the same as if the machine had it all, however
//! small the window.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::{Just, ProptestConfig, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::RngSeed;

use super::world::{KEY, until_then};
use super::{MS, NOW};
use crate::rules::commands::{Acquire, Cancelled, Claim, Keep, PushedGrant};
use crate::rules::window::{StoredChange, StoredHolders, StoredQueue, StoredWaiter, Window};
use crate::rules::{Publish, Reached, Server};
use crate::values::entry;
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

#[derive(Clone, Copy, Debug)]
pub(super) enum Does {
    Acquire,
    Poll,
    Release,
    Keep,
    Cancel,
    Downgrade,
}

pub(super) fn kind(number: usize) -> Kind {
    match number % 5 {
        0 => Kind::Exclusive,
        1 => Kind::Read,
        2 => Kind::Write,
        3 => Kind::Permits { of: 3, take: 2 },
        _ => Kind::Owned(
            if number.is_multiple_of(2) {
                "one"
            } else {
                "two"
            }
            .into(),
        ),
    }
}

/// Every third one has no subscriber.
pub(super) fn claim(who: usize) -> Claim {
    let address = if who.is_multiple_of(3) {
        "nobody"
    } else {
        "somebody"
    };
    let ttl = Ttl::new(std::time::Duration::from_secs(8)).unwrap();
    let value = entry::of_test(&kind(who), &format!("t{who}"), address, ttl, "h|1|f|0");
    Claim {
        is_once: false,
        key: KEY.into(),
        value: value.into(),
        queues: who != 9,
    }
}

#[derive(Default)]
pub(super) struct Wire(pub(super) Vec<PushedGrant>);

impl Publish for Wire {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        if address == "nobody" {
            return Reached::Nobody;
        }
        self.0.push(grant.clone());
        Reached::Somebody
    }
}

/// A store that knows no rule: it hands out windows, and keeps what it is told.
struct Store {
    holders: StoredHolders,
    waiters: BTreeMap<(u64, Arc<str>), u64>,
    /// Until when it keeps the waiters; the whole machine says so, because a window has no such end.
    queue_ends: u64,
    last_epoch: u64,
    /// So many entries from the head on are in a window.
    heads: usize,
}

impl Store {
    fn window(&self, own: &Claim, time: u64) -> Window {
        let all = self
            .waiters
            .iter()
            .map(|((arrival, entry), alive)| StoredWaiter {
                entry: entry.clone(),
                arrival: *arrival,
                alive_until: *alive,
            });
        let all: Vec<_> = all.collect();
        let read_to = all
            .get(..self.heads)
            .and_then(|it| it.last())
            .map(|it| it.arrival);
        let read_to = read_to.filter(|_| all.len() > self.heads);
        let is_read = |it: &StoredWaiter| {
            let has_lapsed = it.alive_until <= time;
            read_to.is_none_or(|to| it.arrival <= to) || has_lapsed || it.entry == own.value
        };
        let waiters = all.into_iter().filter(is_read).collect();
        let queue = StoredQueue { waiters, read_to };
        Window::load(&KEY.into(), &self.holders, &queue, time).expect("one of ours")
    }

    fn write(&mut self, changes: Vec<StoredChange>) {
        for change in changes {
            match (change, &mut self.holders) {
                (StoredChange::Free, holders) => *holders = StoredHolders::Nobody,
                (StoredChange::Value { value, ends }, holders) => {
                    *holders = StoredHolders::Value { value, ends };
                }
                (StoredChange::Meta(new), StoredHolders::Set { meta, .. }) => *meta = new,
                (StoredChange::Meta(meta), holders) => {
                    let entries = Vec::new();
                    *holders = StoredHolders::Set { meta, entries };
                }
                (StoredChange::Holder { entry, ends }, StoredHolders::Set { entries, .. }) => {
                    entries.retain(|it| it.0 != entry);
                    entries.push((entry, ends));
                }
                (StoredChange::HolderGone(entry), StoredHolders::Set { entries, .. }) => {
                    entries.retain(|it| it.0 != entry);
                }
                (StoredChange::Waiter(it), _) => {
                    self.waiters.retain(|(_, entry), _| *entry != it.entry);
                    self.waiters.insert((it.arrival, it.entry), it.alive_until);
                }
                (StoredChange::WaiterGone(gone), _) => {
                    self.waiters.retain(|(_, entry), _| *entry != gone);
                }
                (change, holders) => panic!("{change:?} of {holders:?}"),
            }
        }
    }

    /// Runs an operation, and again while there is more; the first answer of those that give something
    /// back, else the last one.
    fn run(&mut self, does: Does, who: usize, time: u64, wire: &mut Wire) -> String {
        let claim = claim(who);
        let mut answer = None;
        if time >= self.queue_ends {
            self.waiters.clear();
        }
        for _ in 0..1000 {
            let mut window = self.window(&claim, time);
            let gives_back = !matches!(does, Does::Acquire | Does::Poll);
            let only_grants = gives_back && answer.is_some();
            let mut last_epoch = self.last_epoch;
            let (said, more) = window.run(&mut last_epoch, time, wire, |it| match does {
                _ if only_grants => {
                    it.grant_next();
                    String::new()
                }
                Does::Acquire => format!("{:?}", it.acquire(&acquire(&claim))),
                Does::Poll => format!("{:?}", it.poll(&claim)),
                Does::Release => format!("{:?}", it.release(&claim, Keep::NOT)),
                Does::Keep => format!(
                    "{:?}",
                    it.release(&claim, until_then(time + 2_000 * MS, time))
                ),
                Does::Cancel => format!("{:?}", it.cancel(&claim, Keep::NOT, 0)),
                Does::Downgrade => format!("{:?}", it.downgrade(&claim, ttl())),
            });
            self.last_epoch = last_epoch;
            self.write(window.difference());
            if !only_grants {
                answer = Some(said);
            }
            if !more {
                return answer.unwrap_or_default();
            }
        }
        panic!("{does:?} of {who} has no end")
    }
}

pub(super) fn ttl() -> Ttl {
    Ttl::new(std::time::Duration::from_secs(5)).unwrap()
}

pub(super) fn acquire(claim: &Claim) -> Acquire {
    Acquire {
        claim: claim.clone(),
        lease: ttl(),
        not_after: u64::MAX,
        repair_missing_ttl: None,
    }
}

fn whole(server: &mut Server, does: Does, who: usize, time: u64, wire: &mut Wire) -> String {
    let claim = claim(who);
    match does {
        Does::Acquire => format!("{:?}", server.acquire(&acquire(&claim), time, wire)),
        Does::Poll => format!("{:?}", server.poll(&claim, time, wire)),
        Does::Release => format!("{:?}", server.release(&claim, Keep::NOT, time, wire)),
        Does::Keep => {
            let keep = until_then(time + 2_000 * MS, time);
            format!("{:?}", server.release(&claim, keep, time, wire))
        }
        Does::Cancel => {
            let answer: Cancelled = server.cancel(&claim, Keep::NOT, 0, time, wire);
            format!("{answer:?}")
        }
        Does::Downgrade => format!("{:?}", server.downgrade(&claim, ttl(), time, wire)),
    }
}

/// Without the numbers of epochs: an operation that is run again may draw one more.
pub(crate) fn without_epochs(text: &str) -> String {
    let mut parts = text.split("epoch: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.trim_start_matches(|it: char| it.is_ascii_digit())
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn a_window_of_any_size_decides_like_the_whole(
        heads in 1..4usize,
        steps in proptest::collection::vec((
            prop_oneof![
                5 => Just(Does::Acquire), 3 => Just(Does::Poll), 3 => Just(Does::Release),
                1 => Just(Does::Keep), 2 => Just(Does::Cancel), 1 => Just(Does::Downgrade),
            ],
            0..12usize,
            prop_oneof![6 => Just(1u64), 2 => Just(700), 1 => Just(2_500)],
        ), 1..60),
    ) {
        let (mut server, mut time) = (Server::default(), NOW);
        let mut store = Store {
            holders: StoredHolders::Nobody,
            waiters: BTreeMap::new(),
            queue_ends: 0,
            last_epoch: 0,
            heads,
        };
        for (does, who, pass) in steps {
            time += pass * MS;
            let (mut pushed, mut windowed) = (Wire::default(), Wire::default());
            let all = whole(&mut server, does, who, time, &mut pushed);
            let some = store.run(does, who, time, &mut windowed);
            prop_assert_eq!(without_epochs(&some), without_epochs(&all), "{:?} of {}", does, who);
            let told = |wire: Wire| -> Vec<_> { wire.0.into_iter().map(|it| (it.value, it.lease)).collect() };
            prop_assert_eq!(told(windowed), told(pushed));
            let waiting: Vec<_> = server.waiting(KEY, time);
            store.queue_ends = server.queue_ends(KEY, time).unwrap_or_default();
            let stored: Vec<_> = store.waiters.iter().map(|((_, entry), alive)| (entry.clone(), *alive)).collect();
            prop_assert_eq!(stored, waiting);
        }
    }
}
