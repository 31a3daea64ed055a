//! More than one server: a master behind sentinels that is killed, stopped, cut off, demoted.
//!
//! `sentinel` is about finding the master, `hostile` about `fake` sentinels, `rights` about users,
//! `encrypted` about TLS; `failover` and `runtimes` about locks while it moves, `soak` about many
//! failovers in a row, and `slow` about none; `in_time` about how long each call may take; `fences` about a new master that is behind, `replicas`
//! about leases that count only once replicas have them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod encrypted;
mod failover;
mod fake;
mod fences;
mod hostile;
mod in_time;
mod replicas;
mod rights;
mod runtimes;
mod sentinel;
mod slow;
mod soak;

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::LockPool;

/// A cap for anything that has to happen at all, on a busy machine.
const CAP: Duration = Duration::from_secs(60);

/// Returns once the pool asks this server. `verify` does not tell: an old master answers as one until
/// a sentinel has turned it into a replica, and a release that is under way when the pool moves is
/// unclear.
async fn until_asked(pool: &LockPool, new_master: &RedisServer) {
    until("the new master is asked", CAP, async || {
        let probe = pool.lock("probe").ttl(Duration::from_secs(5));
        let Ok(Some(probe)) = probe.try_acquire().await else {
            return false;
        };
        let exists = new_master.ask::<u64>(&["EXISTS", "lock:probe"]).await;
        probe.release().await.is_ok() && exists == 1
    })
    .await;
}
