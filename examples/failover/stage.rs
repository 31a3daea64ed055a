//! The holder and the waiter: each has a pool of its own, as two programs would, and writes to the
//! resource as long as it has the lock.

use std::pin::pin;
use std::time::Duration;

use dlock_runtime::{Config, LockError, LockGuard, LockPool};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::record::{Record, What, Who};
use crate::resource::Resource;
use crate::servers::Servers;
use crate::{CAP, Failure};

/// How often the resource is written to.
const WRITE: Duration = Duration::from_millis(250);

/// How often the time that is left of a lease is looked at, to see that it was renewed.
const LOOK: Duration = Duration::from_millis(10);

/// The lock's lease.
#[derive(Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) ttl: Duration,
    pub(crate) renewed_every: Duration,
}

pub(crate) struct Stage<'a> {
    record: &'a Record,
    resource: Resource<'a>,
    lease: Lease,
    holder: LockPool,
    waiter: LockPool,
}

impl<'a> Stage<'a> {
    pub(crate) async fn new(
        record: &'a Record,
        servers: &Servers,
        lease: Lease,
    ) -> Result<Self, Failure> {
        let pool = |user| LockPool::connect(Config::new(servers.url(user)).connect_timeout(CAP));
        Ok(Self {
            record,
            resource: Resource::new(record),
            lease,
            holder: pool("holder").await?,
            waiter: pool("waiter").await?,
        })
    }

    pub(crate) async fn acquire(&self, who: Who) -> Result<LockGuard, Failure> {
        self.record.add(who, What::Asked);
        let pool = if who == Who::Holder {
            &self.holder
        } else {
            &self.waiter
        };
        let request = pool.lock("report").ttl(self.lease.ttl);
        let request = request.renew_every(self.lease.renewed_every).wait(CAP);
        let guard = request.acquire().await;
        let guard = guard.map_err(|error| format!("the {who} did not get the lock: {error}"))?;
        self.record.add(who, What::Granted(guard.fence()));
        Ok(guard)
    }

    /// Writes while it has the lock: until that is `enough`, the lock is lost, or the resource
    /// refuses a write.
    pub(crate) async fn work(&self, who: Who, guard: LockGuard, enough: impl Future<Output = ()>) {
        let mut enough = pin!(enough);
        let mut lost = pin!(guard.lost());
        let (mut write, mut look) = (each(WRITE), each(LOOK));
        let mut left = guard.remaining();
        loop {
            tokio::select! {
                cause = &mut lost => return self.record.add(who, What::Lost(cause)),
                () = &mut enough => return self.release(who, guard).await,
                _ = write.tick() => if !self.resource.write(who, guard.fence()) {
                    return self.stop(who, &guard).await;
                },
                _ = look.tick() => {
                    let before = std::mem::replace(&mut left, guard.remaining());
                    if left > before {
                        self.record.add(who, What::Renewed);
                    }
                },
            }
        }
    }

    async fn release(&self, who: Who, guard: LockGuard) {
        self.record.add(who, What::Releases);
        if guard.release().await.is_err() {
            self.record.add(who, What::ReleaseUnclear);
        }
    }

    /// Whoever is refused stops, whatever the lock's server says.
    async fn stop(&self, who: Who, guard: &LockGuard) {
        let is_held = match guard.verify().await {
            Ok(()) => Some(true),
            Err(LockError::Lost { .. }) => Some(false),
            Err(_) => None,
        };
        self.record.add(who, What::Stopped { is_held });
    }
}

fn each(time: Duration) -> Interval {
    let mut interval = interval(time);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
