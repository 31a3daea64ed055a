//! The server's side of the protocol: what the Lua scripts do, as a pure machine.
//!
//! `memory://` runs it, a model checker explores it, and `backend/redis/lua` is tested against it,
//! operation by operation. Invariants: a key has at most one value; `last_epoch` only grows; nothing
//! is created for a claim after its `not_after`; only `acquire` creates, and a grant only out of the
//! queue; nothing shortens a lease; whoever finds a lock absent grants to the head of its queue first.

mod grant;
mod queues;
mod together;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use self::queues::Queues;
use super::commands::{
    Acquire, Acquired, Busy, Cancelled, Claim, GivenBack, Grant, Left, Polled, Renewal, Renewed,
};
use super::queue;
use crate::values::ttl::Ttl;
use crate::values::{holder, ttl};

/// How a grant reaches the waiter that it is for.
pub(crate) trait Publish {
    fn publish(&mut self, address: &str, grant: &Grant) -> Reached;
}

/// Who heard of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reached {
    /// Its waiter is dead, or has lost its place with its connection: the next one is granted.
    Nobody,
    Somebody,
    /// The server refuses to publish: the waiter's poll will find the grant.
    #[cfg_attr(not(test), allow(dead_code, reason = "`memory://` always knows"))]
    Unknown,
}

/// All locks of one server, and who waits for them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    locks: BTreeMap<Arc<str>, Held>,
    queues: Queues,
    last_epoch: u64,
    /// How long a lock that is granted to a waiter is its own at most.
    claim: Duration,
    /// When so many keys are there, the lapsed are swept out.
    sweep_at: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            locks: BTreeMap::new(),
            queues: Queues::default(),
            last_epoch: 0,
            claim: queue::CLAIM,
            sweep_at: 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    value: Arc<str>,
    /// Server time; `None` for a key without a time to live.
    expires: Option<u64>,
}

impl Server {
    /// A server whose waiters are in its own process: a claim is there for processes that may have been
    /// stopped, and would only be lost to a body that blocks the runtime which extends it.
    pub(crate) fn in_process() -> Self {
        Self {
            claim: Duration::MAX,
            ..Self::default()
        }
    }

    pub(crate) fn acquire(
        &mut self,
        command: &Acquire,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Acquired {
        let claim = &command.claim;
        if time > command.not_after {
            return Acquired::Late { time };
        }
        if self.live(&claim.key, time).is_none() {
            self.grant_next(&claim.key, time, publish);
        }
        if let Some((epoch, left)) = self.yours(claim, time) {
            return Acquired::Yours { time, epoch, left };
        }
        if self.live(&claim.key, time).is_none() && self.queues.is_empty(&claim.key, time) {
            let epoch = self.draw_epoch(time);
            self.sweep(time);
            self.set(&claim.key, &claim.value, time, command.lease.get());
            return Acquired::Granted { time, epoch };
        }
        if let (Some(held), Some(repair)) =
            (self.live(&claim.key, time), command.repair_missing_ttl)
        {
            held.expires.get_or_insert(time + micros(repair));
        }
        let busy = self.in_the_way(&claim.key, time);
        if claim.entry.is_empty()
            || busy.left == Left::Endless
            || holder::is_other_layout(&busy.value)
        {
            return Acquired::Busy(busy);
        }
        let arrival = self.draw_epoch(time);
        self.queues.enter(&claim.key, &claim.entry, arrival, time);
        Acquired::Queued(busy)
    }

    /// What became of a claim in the queue, and a sign of life for it.
    pub(crate) fn poll(&mut self, claim: &Claim, time: u64, publish: &mut dyn Publish) -> Polled {
        // Before the sweep: who polls is alive, also when its heartbeat has just lapsed.
        self.queues.beat(&claim.key, &claim.entry, time);
        if self.live(&claim.key, time).is_none() {
            self.grant_next(&claim.key, time, publish);
        }
        if let Some((epoch, left)) = self.yours(claim, time) {
            Polled::Yours { time, epoch, left }
        } else if self.queues.has(&claim.key, &claim.entry, time) {
            Polled::Queued(self.in_the_way(&claim.key, time))
        } else {
            Polled::Gone { time }
        }
    }

    /// Gives the lock back, or before `keep_until` makes it nobody's.
    pub(crate) fn release(
        &mut self,
        claim: &Claim,
        keep_until: u64,
        time: u64,
        publish: &mut dyn Publish,
    ) -> GivenBack {
        let found = self.give_back(claim, keep_until, time);
        if self.live(&claim.key, time).is_none() {
            self.grant_next(&claim.key, time, publish);
        }
        GivenBack { found, rest: 0 }
    }

    /// As `release`, for a claim that may be in the queue, or whose acquire may not have arrived yet.
    pub(crate) fn cancel(
        &mut self,
        claim: &Claim,
        keep_until: u64,
        not_after: u64,
        time: u64,
        publish: &mut dyn Publish,
    ) -> Cancelled {
        let waited = self.queues.leave(&claim.key, &claim.entry, time);
        let held = self.release(claim, keep_until, time, publish).found;
        let found = waited || held;
        Cancelled {
            time,
            found,
            conclusive: found || time > not_after,
        }
    }

    pub(crate) fn renew(&mut self, item: &Renewal, time: u64) -> Renewed {
        match self.live(&item.claim.key, time) {
            Some(held) if held.value == item.claim.value => {
                let until = time + item.ttl.as_millis() * 1000;
                held.expires = Some(held.expires.map_or(until, |before| before.max(until)));
                Renewed::Yes
            }
            _ => Renewed::NotOurs,
        }
    }

    /// Turns a writer's entry into a reader's.
    pub(crate) fn downgrade(
        &mut self,
        _claim: &Claim,
        _ttl: Ttl,
        _time: u64,
        _publish: &mut dyn Publish,
    ) -> bool {
        false
    }

    pub(crate) fn holds(&mut self, claim: &Claim, time: u64) -> bool {
        let held = self.live(&claim.key, time);
        held.is_some_and(|held| held.value == claim.value)
    }

    /// What stands at the key.
    pub(crate) fn read(&mut self, key: &str, time: u64) -> Option<String> {
        self.live(key, time).map(|held| held.value.to_string())
    }

    fn give_back(&mut self, claim: &Claim, keep_until: u64, time: u64) -> bool {
        let Some(held) = self.live(&claim.key, time) else {
            return false;
        };
        if held.value != claim.value {
            return false;
        }
        if keep_until > time {
            // In whole milliseconds, rounded up, as the server keeps them.
            held.expires = Some(time + (keep_until - time).div_ceil(1000) * 1000);
            held.value = retired(&claim.value).into();
        } else {
            self.locks.remove(&claim.key);
        }
        true
    }

    /// A new epoch for a claim that holds the lock, and how long it still does.
    fn yours(&mut self, claim: &Claim, time: u64) -> Option<(u64, Duration)> {
        let held = self.live(&claim.key, time)?;
        if held.value != claim.value {
            return None;
        }
        let left = held.left(time).unwrap_or(Duration::ZERO);
        Some((self.draw_epoch(time), left))
    }

    fn in_the_way(&mut self, key: &str, time: u64) -> Busy {
        let (left, value) = match self.live(key, time) {
            Some(held) => (
                held.left(time).map_or(Left::Endless, Left::For),
                held.value.to_string(),
            ),
            // Only behind a place that can't be read.
            None => (Left::For(Duration::ZERO), String::new()),
        };
        Busy { time, left, value }
    }

    fn set(&mut self, key: &Arc<str>, value: &Arc<str>, time: u64, lease: Duration) {
        let held = Held {
            value: value.clone(),
            expires: Some(time + micros(lease)),
        };
        self.locks.insert(key.clone(), held);
    }

    fn live(&mut self, key: &str, time: u64) -> Option<&mut Held> {
        if self
            .locks
            .get(key)
            .is_some_and(|held| held.expires.is_some_and(|at| at <= time))
        {
            self.locks.remove(key);
        }
        self.locks.get_mut(key)
    }

    /// Above every epoch before it, and above the clock, so that it grows after a loss of `last_epoch` too.
    fn draw_epoch(&mut self, time: u64) -> u64 {
        self.last_epoch = time.max(self.last_epoch + 1);
        self.last_epoch
    }

    /// Drops what has lapsed whenever the number of keys has doubled: constant cost for each insert.
    fn sweep(&mut self, time: u64) {
        if self.locks.len() + self.queues.len() >= self.sweep_at.max(64) {
            self.locks
                .retain(|_, held| held.expires.is_none_or(|at| at > time));
            self.queues.sweep(time);
            self.sweep_at = (self.locks.len() + self.queues.len()) * 2;
        }
    }
}

/// What tests do behind the protocol's back, and see there.
#[cfg(test)]
impl Server {
    /// How many keys are stored, lapsed ones included; a queue counts once.
    pub(crate) fn len(&self) -> usize {
        self.locks.len() + self.queues.len()
    }

    /// Puts a foreign value at a key, as a program without dlock would.
    pub(crate) fn put(&mut self, key: &str, value: &str, expires: Option<u64>) {
        let value = value.into();
        self.locks.insert(key.into(), Held { value, expires });
    }

    /// When what stands at a key lapses; `None`: never, or nothing stands there.
    pub(crate) fn expires(&self, key: &str) -> Option<u64> {
        self.locks.get(key)?.expires
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.locks.remove(key);
    }

    /// Puts a place of any form behind the others, as another version would.
    pub(crate) fn enter(&mut self, key: &str, entry: &str, time: u64) {
        let arrival = self.draw_epoch(time);
        self.queues.enter(&key.into(), &entry.into(), arrival, time);
    }

    /// As if the keys of a queue had been evicted.
    pub(crate) fn lose_queue(&mut self, key: &str) {
        self.queues.lose(key);
    }

    /// When the queue of a key lapses.
    pub(crate) fn queue_ends(&mut self, key: &str, time: u64) -> Option<u64> {
        self.queues.ends(key, time)
    }

    /// Who waits for a key, in order, each with the time until which it counts as alive.
    pub(crate) fn waiting(&mut self, key: &str, time: u64) -> Vec<(Arc<str>, u64)> {
        self.queues.list(key, time)
    }
}

impl Held {
    /// In whole milliseconds, rounded up, as PTTL never says 0 of a key that is there.
    fn left(&self, time: u64) -> Option<Duration> {
        self.expires
            .map(|at| Duration::from_millis(at.saturating_sub(time).div_ceil(1000)))
    }
}

/// A value that holds the lock and answers to nobody: its description stays, its token is no token.
fn retired(value: &str) -> String {
    format!("1|-{}", value.strip_prefix("1|").unwrap_or(value))
}

fn micros(duration: Duration) -> u64 {
    ttl::millis(duration).saturating_mul(1000)
}
