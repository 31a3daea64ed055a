//! The same server over a link that sends no script: what it offers does what the pure machine does,
//! but for what follows (docs/inside/protocol.md, Without scripts).
//!
//! - A free lock is taken past its queue, which stays as it is.
//! - A free lock is taken by a claim that is not due, too, and is given back at once.
//! - A key outlives its lease a little; leases here are that much shorter.
//! - Of a set it names what all holders have in common, or nobody.
//! - Nobody is pushed a grant, so no claim has an address at this server.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::cases;
use proptest::prelude::Strategy;
use redis::Value;

use super::{BY_ALL, Op, Pair, Stage, Witness, ops, pair};
use crate::link::redis::link::RedisLink;
use crate::link::redis::plan::Plan;
use crate::link::redis::tests::alike::pair::Foreign;
use crate::link::redis::tests::alike::{Seconds, Who};
use crate::link::redis::tests::lab::{CAP, Lab, plan, seconds};
use crate::rules::commands::{Acquire, Acquired, Busy, Claim, Keep, Left, Polled};
use crate::topology::plain::{Checkouts, PlainLink, key_lasts};
use crate::topology::server::connect::connect;
use crate::values::entry;
use crate::values::ttl::Ttl;

/// No address, one elsewhere, a lease that is shorter than a claim, another layout; two never queue.
const PEOPLE: &[usize] = &[2, 3, 3, 4, 24, 24, 25, 25, 27, 29, 30];

/// What the machine does at a server with scripts alone.
const NEVER: [&str; 5] = [
    "another layout",
    "by its key",
    "granted from a queue",
    "several keys: all",
    "several keys: none",
];

#[test]
fn a_server_without_scripts_answers_like_the_pure_machine() {
    let (stage, witness) = (Stage::new(Lab::new()), Witness::default());
    let plain = stage.runtime.block_on(plain_link(&stage.lab));
    let offered = (ops(PEOPLE), found_free()).prop_map(|(mut ops, then)| {
        ops.retain(is_offered);
        ops.extend(then);
        ops
    });
    stage.drive(cases(300), offered, |lab| {
        let mut both = pair(lab, &witness);
        both.link = &plain;
        both
    });
    let all = BY_ALL.split(", ").filter(|it| !NEVER.contains(it));
    let also = [
        "past the queue",
        "of a set",
        "wrong kind",
        "polled: granted",
        "granted by a stranger's poll",
        "not due",
        "polled: not due",
        "recorded",
        "recorded before its body",
    ];
    witness.must_have_seen(all.chain(also).map(|it| (it, 1)));
}

/// Somebody waits for a lock that ends, and this or another claim finds it free.
fn found_free() -> impl Strategy<Value = Vec<Op>> {
    let people = || proptest::sample::select(PEOPLE);
    (0..2usize, people(), people()).prop_map(|(key, waits, polls)| {
        let acquire = Op::Acquire {
            who: (key, waits),
            lease: 30,
            late: false,
            repair: None,
        };
        let held = Op::Foreign(key, Foreign::Value(0, Some(20)));
        let free = Op::Foreign(key, Foreign::Nothing);
        vec![held, acquire, free, Op::Poll((key, polls))]
    })
}

async fn plain_link(lab: &Lab) -> PlainLink {
    let mut plan: Plan = plan(&lab.server.url());
    Arc::make_mut(&mut plan.settings).without_scripts = true;
    let link: RedisLink = connect(&plan).await.expect("a connection");
    PlainLink::new(
        Arc::new(link),
        Arc::new(Checkouts::default()),
        Arc::new(plan),
    )
}

fn is_offered(op: &Op) -> bool {
    let is_other_type = |it: &Foreign| matches!(it, Foreign::List | Foreign::OtherSet);
    match op {
        Op::Together { .. } | Op::Combined { .. } | Op::Heartbeats(_) | Op::ByKey(..) => false,
        Op::Foreign(_, what) => !is_other_type(what), // `tests/without_scripts/wire.rs`
        _ => true,
    }
}

impl Pair<'_> {
    /// A take estimates the server's time by earlier answers: by one, then, that is no later than
    /// this case has taken so far.
    pub(super) async fn hear_the_time(&self) {
        if !self.sends_scripts() {
            let polled = self.link.poll(&self.named((0, 25)), CAP).await.unwrap();
            assert!(matches!(polled, Polled::Gone { .. }), "{polled:?}");
        }
    }

    /// The machine's answer. `command` is then what the real server is asked for.
    pub(super) fn acquire_pure(&mut self, command: &mut Acquire) -> Acquired {
        let key = command.claim.key.clone();
        if self.sends_scripts() {
            return self.pure.acquire(command, self.time, &mut self.wire);
        }
        if self.pure.holds(&command.claim, self.time) {
            command.lease = seconds(40); // a shorter one would shorten the key, as after a clock was set back
        }
        let is_free = self.pure.read(&key, self.time).is_none();
        let before = self.pure.clone();
        if is_free {
            self.pure.lose_queue(&key);
        }
        let answer = self.pure.acquire(command, self.time, &mut self.wire);
        if matches!(answer, Acquired::NotDue(_)) && is_free {
            // It has taken the lock, and given it back to the queue.
            let record = self.pure.stored_record(&key, self.time);
            self.pure = before;
            let (claim, wire) = (&command.claim, &mut self.wire);
            if let Some(it) = record {
                self.pure.put_record(&key, &it.text, it.expires);
            }
            self.pure.release(claim, Keep::NOT, self.time, wire);
        } else if is_free {
            let waiting = before.clone().waiting(&key, self.time);
            self.witness.saw_if(!waiting.is_empty(), "past the queue");
            self.pure.take_queue_of(&before);
        }
        command.lease = whose_key_lasts(command.lease);
        answer
    }

    /// Reads what is said of a set as a server with scripts says it, which also knows when the first
    /// waiter's heartbeat ends.
    pub(super) fn as_with_scripts(&mut self, claim: &Claim, real: &mut Busy, pure: &Busy) {
        let (key, time) = (&claim.key, self.time);
        let Some(meta) = self.pure.meta(key, time) else {
            return;
        };
        if !self.sends_scripts() {
            assert!(real.value.is_empty() || real.value == meta, "{real:?}");
            let ends = self.pure.expires(key).expect("the end of a set");
            let Left::For(left) = real.left else {
                panic!("{real:?}");
            };
            self.compare_left(left, Duration::from_micros(ends - time));
            *real = pure.clone();
            self.witness.saw("of a set");
        }
    }

    /// Removes waiters without a sign of life, as only scripts do it in the queue of a set; and those of
    /// a queue that has ended, as it does later here: anybody's poll keeps it.
    pub(super) async fn drop_lapsed(&mut self) {
        for key in self.keys.clone() {
            let waiting = self.pure.waiting(&key, self.time);
            let is_set = self.pure.meta(&key, self.time).is_some();
            if self.sends_scripts() || !(is_set || waiting.is_empty()) {
                continue;
            }
            let (lab, [_, queue, heartbeats, ..]) = (self.lab, self.keys_of(&key));
            let mut gone: Vec<String> = lab.tell(&["ZRANGE", &queue, "0", "-1"]).await;
            gone.retain(|it| waiting.iter().all(|(entry, _)| **entry != **it));
            for entry in gone {
                let beats: Option<u64> = lab.tell(&["ZSCORE", &heartbeats, &entry]).await;
                assert!(
                    beats.is_none_or(|it| it <= lab.link.server_time()),
                    "{entry} waits"
                );
                lab.tell::<Value>(&["ZREM", &queue, &entry]).await;
                lab.tell::<Value>(&["ZREM", &heartbeats, &entry]).await;
            }
        }
    }

    /// A claim stands once among those that the watchdog renews: without scripts all are read first.
    pub(super) fn once_each(&self, items: &[(Who, Seconds)]) -> Vec<(Who, Seconds)> {
        let is_first = |at: usize| items[..at].iter().all(|it| it.0 != items[at].0);
        let each = (0..items.len()).filter(|at| self.sends_scripts() || is_first(*at));
        each.map(|at| items[at]).collect()
    }

    /// Whether this does less than at a server with scripts: who waits already does not show a sign of
    /// life at a lock without an end, and a release by the server's own command that does not find the
    /// lock does not grant.
    pub(super) fn does_less(&mut self, command: Asks, claim: &Claim) -> bool {
        let (key, time) = (&claim.key, self.time);
        let holds = self.pure.holds(claim, time);
        let waiting = self.pure.waiting(key, time);
        let waits = waiting.iter().any(|it| it.0 == claim.value);
        let is_once = entry::read(&claim.value).is_some_and(|it| it.once_per.is_some());
        if self.sends_scripts() {
            return false;
        } else if is_once && (holds || waits) && matches!(command, Asks::Acquire) {
            return true; // an acquire is sent once, and its record is looked at whatever it finds
        } else if holds {
            return false;
        }
        let holder = self.pure.read(key, time);
        match command {
            Asks::Acquire => {
                let is_endless =
                    |it: &str| it.starts_with("2|") || self.pure.expires(key).is_none();
                waits && holder.is_some_and(|it| is_endless(&it))
            }
            Asks::Release => {
                let native = self.lab.link.connection.deletes.native();
                !waiting.is_empty() && native.is_some()
            }
        }
    }
}

/// What a claim asks for.
#[derive(Clone, Copy)]
pub(super) enum Asks {
    Acquire,
    Release,
}

/// The lease of a key that is to last so long.
fn whose_key_lasts(whole: Ttl) -> Ttl {
    let whole = whole.get();
    let shorter = whole.saturating_sub(Duration::from_millis(250));
    let lease = if key_lasts(shorter) == whole {
        shorter
    } else {
        whole.saturating_sub(Duration::from_millis(10)) * 32 / 33
    };
    Ttl::new(lease).expect("a ttl within bounds")
}
