//! A lock that is held: what its owner can ask and do, and what happens when it goes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::held::Held;
use super::lease_cell::LeaseCell;
use super::pool::LockPool;
use crate::backend::fault::{self, Fault};
use crate::observe;
use crate::policy::commands::{Claim, Renewal, Renewed};
use crate::policy::tokens::ReleaseBy;
use crate::values::error::{LockError, LostCause, Refusal, Text};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

/// A lock that is held, until it is released, dropped or lost.
///
/// Dropping it gives the lock back in the background, from anywhere, also outside any runtime;
/// [`release`](Self::release) waits until that is done. It holds a *lease*: when that ends, somebody
/// else may have the lock while this guard still exists. [`is_held`](Self::is_held) and
/// [`lost`](Self::lost) tell; what must not happen twice needs the [`fence`](Self::fence).
#[must_use = "dropping the guard gives the lock back at once"]
pub struct LockGuard {
    pool: LockPool,
    key: Key,
    claim: Claim,
    token: Token,
    fence: Fence,
    cell: Arc<LeaseCell>,
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was ours, and is free.
    Freed,
    /// It was no longer ours: lost before, or released before.
    NotHeld,
}

impl LockGuard {
    pub(crate) fn new(
        pool: LockPool,
        key: Key,
        claim: Claim,
        token: Token,
        fence: Fence,
        cell: Arc<LeaseCell>,
    ) -> Self {
        Self {
            pool,
            key,
            claim,
            token,
            fence,
            cell,
        }
    }

    /// The lock's name on the server, namespace included.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fencing token of this grant: send it along with each write that must not come late.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the lease can be counted on without a renewal; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cell.remaining()
    }

    /// Whether the lease can be counted on at this moment, by the local clock. No command is sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cell.is_held()
    }

    /// Asks the server whether the lock is still ours. A check before a sensitive write; only the
    /// fencing token, checked where the write goes, closes the gap between the two.
    ///
    /// # Errors
    /// [`LockError::Lost`] when it is not, or the lease is over; [`LockError::Unavailable`] or
    /// [`LockError::Refused`] when the server did not say, which ends no lease.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn verify(&self) -> Result<(), LockError> {
        self.still_held()?;
        let timeout = self.pool.settings().command_timeout;
        let read = async {
            let link = self.pool.backend().link(self.key.as_str(), timeout).await?;
            link.read(self.key.as_str(), timeout).await
        };
        match read.await {
            Ok(Some(value)) if value == *self.claim.value => self.still_held(),
            Ok(_) | Err(Fault::Refused(Refusal::WrongType, _)) => Err(self.gone()),
            Err(fault) => Err(fault.into_error(Some(&self.key))),
        }
    }

    /// Makes the lease last at least this much longer from now on: 10 ms to 24 h.
    ///
    /// A lease that would last longer anyway stays as it is: a late extension must not shorten what
    /// the watchdog has renewed meanwhile.
    ///
    /// # Errors
    /// [`LockError::Config`] for a time out of range, [`LockError::Lost`] when the lease is over,
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server did not confirm it; then
    /// the lease counts as it did before.
    ///
    /// # Cancel safety
    /// May be dropped at any time; whether the lease got longer is then open, and it counts as it
    /// did before.
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let ttl = Ttl::new(lease)?;
        self.still_held()?;
        let timeout = self.pool.settings().command_timeout;
        let item = [Renewal {
            claim: self.claim.clone(),
            ttl,
        }];
        let renew = async {
            let link = self.pool.backend().link(self.key.as_str(), timeout).await?;
            if !self.pool.guardian().extending(self.token, ttl) {
                return Ok(None);
            }
            let sent = self.pool.backend().clock().now();
            Ok(Some((sent, link.renew(&item, timeout).await?)))
        };
        let asked = renew
            .await
            .map_err(|fault: Fault| fault.into_error(Some(&self.key)))?;
        let over = || self.lost_error(self.cell.why_lost().unwrap_or(LostCause::Deadline));
        let Some((sent, outcomes)) = asked else {
            return Err(over());
        };
        match outcomes.first() {
            Some(Renewed::Yes)
                if self
                    .pool
                    .guardian()
                    .extended(self.token, sent, ttl, &self.cell) =>
            {
                Ok(())
            }
            Some(Renewed::Yes) => Err(over()),
            Some(Renewed::NotOurs) => Err(self.gone()),
            Some(Renewed::Failed) | None => {
                let source = Text::new("the server could not look at the key");
                Err(LockError::Unavailable {
                    key: Some(self.key.clone()),
                    source,
                })
            }
        }
    }

    /// Ends when the lease is lost, with the cause; **never** for one that is released in time.
    ///
    /// Owns what it needs, so it can be awaited by any task of any runtime. End the waiting with the
    /// work, by `select!` or by aborting its task: left alone, it would wait for ever.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// # async fn work() {}
    /// let lock = pool.lock("import").renew().acquire().await?;
    /// tokio::select! {
    ///     () = work() => println!("done"),
    ///     cause = lock.lost() => println!("stopped: {cause}"),
    /// }
    /// lock.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostCause> + Send + 'static + use<> {
        let cell = self.cell.clone();
        async move { cell.wait_lost().await }
    }

    /// Gives the lock back, and waits until that is done.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server did not confirm it within
    /// `command_timeout` (twice that where a renewal was on its way); the release is then repeated in the background, and the lock is free at the
    /// latest when its lease ends.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the release goes on in the background.
    pub async fn release(self) -> Result<Released, LockError> {
        self.give_back().await
    }

    pub(crate) async fn give_back(&self) -> Result<Released, LockError> {
        if !self.cell.release() {
            return Ok(Released::NotHeld);
        }
        match self.pool.guardian().release(self.token) {
            ReleaseBy::Caller => match self.send_release().await {
                // Nothing can be sent from here: no runtime, or half of one. The guardian has it now.
                Err(Fault::Setup(_)) => self.wait_for_guardian().await,
                Err(fault) => {
                    let error = fault.into_error(Some(&self.key));
                    observe::release_unclear(self.key.as_str(), &error);
                    Err(error)
                }
                Ok(found) => Ok(self.released(found)),
            },
            ReleaseBy::Host => self.wait_for_guardian().await,
            ReleaseBy::Nobody => Ok(Released::NotHeld),
        }
    }

    /// Gives the lock back in the background, from anywhere.
    pub(crate) fn abandon(&self) {
        if self.cell.release() {
            self.pool.guardian().hand_over(self.token);
        }
    }

    /// Whether the lock was ours; without a clear answer, the guardian has been told to see to it.
    async fn send_release(&self) -> Result<bool, Fault> {
        let mut unclear = Unclear {
            guard: self,
            settled: false,
        };
        let (timeout, clock) = (
            self.pool.settings().command_timeout,
            self.pool.backend().clock(),
        );
        let begun = clock.now();
        let link = self.pool.backend().link(self.key.as_str(), timeout).await?;
        let left = clock.now().until(begun.plus(timeout));
        let found = link.release(&self.claim, 0, left).await?;
        unclear.settled = true;
        self.pool.guardian().released(self.token, &self.cell);
        Ok(found)
    }

    /// The guardian's own deadlines bound this; where there are timers, so does `command_timeout`.
    async fn wait_for_guardian(&self) -> Result<Released, LockError> {
        let freed = self.cell.wait_freed();
        let found = match fault::check_timers() {
            Ok(()) => tokio::time::timeout(self.pool.settings().command_timeout * 2, freed)
                .await
                .ok()
                .flatten(),
            Err(_) => freed.await,
        };
        found.map(|found| self.released(found)).ok_or_else(|| {
            let source =
                Text::new("the release is not confirmed yet, and goes on in the background");
            LockError::Unavailable {
                key: Some(self.key.clone()),
                source,
            }
        })
    }

    fn released(&self, found: bool) -> Released {
        if found {
            return Released::Freed;
        }
        observe::release_found_nothing(self.key.as_str());
        Released::NotHeld
    }

    fn still_held(&self) -> Result<(), LockError> {
        match self.cell.why_lost() {
            Some(cause) => Err(self.lost_error(cause)),
            None => Ok(()),
        }
    }

    fn gone(&self) -> LockError {
        self.pool.guardian().refused(self.token);
        self.lost_error(LostCause::Gone)
    }

    fn lost_error(&self, cause: LostCause) -> LockError {
        LockError::Lost {
            key: self.key.clone(),
            cause,
            finished: false,
        }
    }

    pub(crate) fn why_lost(&self) -> Option<LostCause> {
        self.cell.why_lost()
    }

    pub(crate) fn is_of(&self, pool: &LockPool) -> bool {
        self.pool.is(pool)
    }

    pub(crate) fn held(&self) -> Held {
        Held::new(self.key.clone(), self.fence, self.cell.clone())
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held().fmt(f)
    }
}

/// A release under way; dropped before it is settled, the guardian finishes it.
struct Unclear<'a> {
    guard: &'a LockGuard,
    settled: bool,
}

impl Drop for Unclear<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.guard.pool.guardian().hand_over(self.guard.token);
        }
    }
}
