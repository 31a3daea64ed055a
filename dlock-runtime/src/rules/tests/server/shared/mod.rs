//! The kinds with many holders at their boundaries; `every_kind` has exclusive locks beside them. K
//! and F numbers are those of the protocol's counterexamples and of the list of faults that the
//! tests of this project are named after.

mod every_kind;
mod keeping;
mod owners;
mod permits;
mod read_write;
mod two_kinds;
mod waiting;

use std::time::Duration;

use super::world::{KEY, World, once, until_then, waiter};
use super::{MS, NOW};
use crate::rules::commands::{
    Acquire, Acquired, Busy, Claim, GivenBack, Keep, Left, Polled, Renewal, Renewed,
};
use crate::rules::queue;
use crate::values::entry::{self, There};
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

fn seconds(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).unwrap()
}

/// For 30 s; its token and its address are its name.
fn claim(kind: &Kind, name: &str) -> Claim {
    let entry = entry::of_test(kind, name, name, seconds(30), "host|1|f|0");
    Claim {
        is_once: false,
        key: KEY.into(),
        value: entry.into(),
        queues: true,
    }
}

fn reader(name: &str) -> Claim {
    claim(&Kind::Read, name)
}

fn writer(name: &str) -> Claim {
    claim(&Kind::Write, name)
}

fn permits(name: &str, take: u32, of: u32) -> Claim {
    claim(&Kind::Permits { of, take }, name)
}

fn owned(name: &str, owner: &str) -> Claim {
    claim(&Kind::Owned(owner.into()), name)
}

/// The same claim, which never queues.
fn at_once(claim: Claim) -> Claim {
    Claim {
        queues: false,
        ..claim
    }
}

/// The name in a value or an entry.
fn name(text: &str) -> String {
    let fields: Vec<&str> = text.split('|').collect();
    fields.get(2).copied().unwrap_or_default().to_owned()
}

fn busy(answer: Acquired) -> Busy {
    match answer {
        Acquired::Busy(busy) => busy,
        other => panic!("not busy: {other:?}"),
    }
}

impl World {
    /// These hold the lock, for 30 s each.
    fn held_by(claims: &[Claim]) -> Self {
        let mut world = World::new();
        for claim in claims {
            world.granted(claim);
        }
        world
    }

    fn acquire_for(&mut self, claim: &Claim, lease: u64) -> Acquired {
        let command = Acquire {
            claim: claim.clone(),
            lease: seconds(lease),
            not_after: u64::MAX,
            repair_missing_ttl: None,
        };
        self.server.acquire(&command, self.time, &mut self.wire)
    }

    /// Its epoch.
    #[track_caller]
    fn granted(&mut self, claim: &Claim) -> u64 {
        match self.acquire(claim) {
            Acquired::Granted { epoch, .. } => epoch,
            other => panic!("{claim:?} is not granted: {other:?}"),
        }
    }

    #[track_caller]
    fn queued(&mut self, claim: &Claim) {
        let answer = self.acquire(claim);
        assert!(matches!(answer, Acquired::Queued(_)), "{answer:?}");
    }

    #[track_caller]
    fn refused(&mut self, claim: &Claim) -> String {
        match self.acquire(claim) {
            Acquired::WrongKind { there, .. } => there,
            other => panic!("{claim:?} is not refused: {other:?}"),
        }
    }

    fn give_back(&mut self, claim: &Claim) -> GivenBack {
        self.server
            .release(claim, Keep::NOT, self.time, &mut self.wire)
    }

    fn renew(&mut self, claim: &Claim, ttl: u64) -> Renewed {
        let item = Renewal {
            claim: claim.clone(),
            ttl: seconds(ttl),
        };
        self.server.renew(&item, self.time)
    }

    fn downgrade(&mut self, claim: &Claim, ttl: u64) -> bool {
        let ttl = seconds(ttl);
        self.server.downgrade(claim, ttl, self.time, &mut self.wire)
    }

    fn holds(&mut self, claim: &Claim) -> bool {
        self.server.holds(claim, self.time)
    }

    /// The holders by name, in the order of their ends; one for each permit.
    fn holders(&mut self) -> Vec<String> {
        let members = self.server.members(KEY, self.time);
        members.iter().map(|(entry, _)| name(entry)).collect()
    }

    /// The waiters by name, in order.
    fn line(&mut self) -> Vec<String> {
        let places = self.server.waiting(KEY, self.time);
        places.iter().map(|(entry, _)| name(entry)).collect()
    }

    /// The waiters that got a push since the last call.
    fn told(&mut self) -> Vec<String> {
        let pushed = std::mem::take(&mut self.wire.pushed);
        pushed.iter().map(|grant| name(&grant.value)).collect()
    }

    /// All these waiters poll every 500 ms, for this long.
    fn wait_alive(&mut self, waiters: &[Claim], millis: u64) {
        for _ in 0..millis / 500 {
            self.pass(500);
            for claim in waiters {
                self.poll(claim);
            }
        }
    }
}
