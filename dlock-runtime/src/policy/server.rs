//! The server's side of the protocol: what the Lua scripts do, as a pure machine.
//!
//! `memory://` runs it; `backend/redis/lua` is tested against it, operation by operation.
//! Invariants: a key has at most one value; `last_epoch` only grows; nothing is created for a claim
//! after its `not_after`; only `acquire` creates; nothing shortens a lease.

use std::collections::HashMap;
use std::time::Duration;

use super::commands::{Acquire, Acquired, Cancelled, Claim, Left, Renewal, Renewed};
use crate::values::ttl;

/// All locks of one server.
#[derive(Debug, Default)]
pub(crate) struct Server {
    locks: HashMap<String, Held>,
    last_epoch: u64,
    /// When so many keys are there, the lapsed are swept out.
    sweep_at: usize,
}

#[derive(Debug)]
struct Held {
    value: String,
    /// Server time; `None` for a key without a time to live.
    expires: Option<u64>,
}

impl Server {
    pub(crate) fn acquire(&mut self, command: &Acquire, time: u64) -> Acquired {
        let Acquire {
            claim,
            ttl,
            not_after,
            repair_missing_ttl,
            ..
        } = command;
        if time > *not_after {
            return Acquired::Late { time };
        }
        if let Some(held) = self.live(&claim.key, time) {
            if held.value == *claim.value {
                let left = held.left(time).unwrap_or(Duration::ZERO);
                return Acquired::Yours {
                    time,
                    epoch: self.draw_epoch(time),
                    left,
                };
            }
            if let (None, Some(repair)) = (held.expires, repair_missing_ttl) {
                held.expires = Some(time + micros(*repair));
            }
            let left = held.left(time).map_or(Left::Endless, Left::For);
            return Acquired::Busy {
                time,
                left,
                value: held.value.clone(),
            };
        }
        let epoch = self.draw_epoch(time);
        self.sweep(time);
        self.locks.insert(
            claim.key.to_string(),
            Held {
                value: claim.value.to_string(),
                expires: Some(time + ttl.as_millis() * 1000),
            },
        );
        Acquired::Granted { time, epoch }
    }

    /// Gives the lock back; whether it was the claim's.
    pub(crate) fn release(&mut self, claim: &Claim, time: u64) -> bool {
        let ours = self
            .live(&claim.key, time)
            .is_some_and(|held| held.value == *claim.value);
        if ours {
            self.locks.remove(&*claim.key);
        }
        ours
    }

    /// As `release`, for a claim whose acquire may not have arrived yet.
    pub(crate) fn cancel(&mut self, claim: &Claim, not_after: u64, time: u64) -> Cancelled {
        let found = self.release(claim, time);
        Cancelled {
            time,
            found,
            conclusive: found || time > not_after,
        }
    }

    pub(crate) fn renew(&mut self, item: &Renewal, time: u64) -> Renewed {
        match self.live(&item.claim.key, time) {
            Some(held) if held.value == *item.claim.value => {
                let until = time + item.ttl.as_millis() * 1000;
                held.expires = Some(held.expires.map_or(until, |before| before.max(until)));
                Renewed::Yes
            }
            _ => Renewed::NotOurs,
        }
    }

    /// What stands at the key.
    pub(crate) fn read(&mut self, key: &str, time: u64) -> Option<String> {
        self.live(key, time).map(|held| held.value.clone())
    }

    /// How many keys are stored, lapsed ones included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }

    /// Puts a foreign value at a key, as a program without dlock would.
    #[cfg(test)]
    pub(crate) fn put(&mut self, key: &str, value: &str, expires: Option<u64>) {
        self.locks.insert(
            key.to_owned(),
            Held {
                value: value.to_owned(),
                expires,
            },
        );
    }

    /// When what stands at a key lapses; `None`: never, or nothing stands there.
    #[cfg(test)]
    pub(crate) fn expires(&self, key: &str) -> Option<u64> {
        self.locks.get(key)?.expires
    }

    #[cfg(test)]
    pub(crate) fn remove(&mut self, key: &str) {
        self.locks.remove(key);
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
        if self.locks.len() >= self.sweep_at.max(64) {
            self.locks
                .retain(|_, held| held.expires.is_none_or(|at| at > time));
            self.sweep_at = self.locks.len() * 2;
        }
    }
}

impl Held {
    /// In whole milliseconds, rounded up, as PTTL never says 0 of a key that is there.
    fn left(&self, time: u64) -> Option<Duration> {
        self.expires
            .map(|at| Duration::from_millis(at.saturating_sub(time).div_ceil(1000)))
    }
}

fn micros(duration: Duration) -> u64 {
    ttl::millis(duration).saturating_mul(1000)
}
