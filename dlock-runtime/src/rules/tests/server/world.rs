//! One lock, its waiters, and the pushes to them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{MS, NOW};
use crate::rules::commands::{Acquire, Acquired, Cancelled, Claim, Keep, Polled, PushedGrant};
use crate::rules::{Publish, Reached, Server};
use crate::values::entry;
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

pub(super) const KEY: &str = "k";

pub(super) struct World {
    pub(super) server: Server,
    pub(super) time: u64,
    pub(super) wire: Wire,
}

#[derive(Default)]
pub(super) struct Wire {
    /// Addresses without a subscriber.
    pub(super) unresponsive: BTreeSet<String>,
    /// The server refuses to publish.
    pub(super) forbidden: bool,
    pub(super) pushed: Vec<PushedGrant>,
}

impl Publish for Wire {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        if self.forbidden {
            Reached::Unknown
        } else if self.unresponsive.contains(address) {
            Reached::Nobody
        } else {
            self.pushed.push(grant.clone());
            Reached::Somebody
        }
    }
}

/// For 30 s; its token and its address are its name.
pub(super) fn waiter(name: &str) -> Claim {
    at_address(name, name)
}

pub(super) fn at_address(address: &str, name: &str) -> Claim {
    of_lease(lease(30), address, name)
}

pub(super) fn of_lease(lease: Ttl, address: &str, name: &str) -> Claim {
    let entry = entry::of_test(&Kind::Exclusive, name, address, lease, "host|1|f|0");
    Claim {
        is_once: false,
        key: KEY.into(),
        value: entry.into(),
        queues: true,
    }
}

/// Never queues.
pub(super) fn once(name: &str) -> Claim {
    Claim {
        queues: false,
        ..waiter(name)
    }
}

/// The name in an entry; `?` if it can't be read.
pub(super) fn name(entry: &str) -> String {
    entry::read(entry).map_or("?", |it| it.token).to_owned()
}

fn lease(seconds: u64) -> Ttl {
    Ttl::new(Duration::from_secs(seconds)).unwrap()
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            server: Server::default(),
            time: NOW,
            wire: Wire::default(),
        }
    }

    /// The lock is held for 30 s, and these wait for it, in order.
    pub(super) fn with_waiters(names: &[&str]) -> Self {
        let mut world = Self::new();
        world.acquire(&once("holder"));
        for name in names {
            let answer = world.acquire(&waiter(name));
            assert!(matches!(answer, Acquired::Queued(_)), "{name}: {answer:?}");
        }
        world
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.time += millis * MS;
    }

    pub(super) fn acquire(&mut self, claim: &Claim) -> Acquired {
        let command = Acquire {
            claim: claim.clone(),
            lease: lease(30),
            not_after: u64::MAX,
            repair_missing_ttl: None,
        };
        self.server.acquire(&command, self.time, &mut self.wire)
    }

    pub(super) fn poll(&mut self, claim: &Claim) -> Polled {
        self.server.poll(claim, self.time, &mut self.wire)
    }

    pub(super) fn release(&mut self, claim: &Claim) -> bool {
        self.release_keeping(claim, 0)
    }

    pub(super) fn release_keeping(&mut self, claim: &Claim, until: u64) -> bool {
        self.server
            .release(
                claim,
                until_then(until, self.time),
                self.time,
                &mut self.wire,
            )
            .found
    }

    /// For a claim whose acquire was answered.
    pub(super) fn cancel(&mut self, claim: &Claim) -> Cancelled {
        self.server
            .cancel(claim, Keep::NOT, 0, self.time, &mut self.wire)
    }

    /// The holder, by name.
    pub(super) fn holder(&mut self) -> Option<String> {
        let value = self.server.read(KEY, self.time)?;
        Some(name(&value))
    }

    /// The waiters by name, in order.
    pub(super) fn waiting(&mut self) -> Vec<String> {
        let places = self.server.waiting(KEY, self.time);
        places.iter().map(|(entry, _)| name(entry)).collect()
    }

    /// The waiters that got a push since the last call, by name.
    pub(super) fn pushed(&mut self) -> Vec<String> {
        let pushed = std::mem::take(&mut self.wire.pushed);
        pushed.iter().map(|it| name(&it.value)).collect()
    }

    /// How many ms the lock has left.
    pub(super) fn left(&self) -> u64 {
        (self.server.expires(KEY).unwrap() - self.time) / MS
    }
}

/// Kept from now on until then.
pub(super) fn until_then(until: u64, time: u64) -> Keep {
    Keep::from(time, Duration::from_micros(until.saturating_sub(time)))
}
