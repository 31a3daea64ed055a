//! A lock that is held: what its owner can ask and do. `write` is what it protects,
//! `release` how it goes.

mod release;
mod write;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::Order;
use super::held::Held;
use super::lease_cell::LeaseCell;
use super::pool::LockPool;
use crate::backend::fault::Fault;
use crate::policy::commands::{Claim, Renewal, Renewed};
use crate::policy::lease::Terms;
use crate::values::error::{LockError, LostCause, Refusal, Text};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::release::Release;
use crate::values::token::Token;
use crate::values::ttl::Ttl;

pub use self::release::Released;

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
    release: Release,
}

impl LockGuard {
    pub(crate) fn new(
        pool: LockPool,
        order: &Order,
        claim: Claim,
        token: Token,
        fence: Fence,
        cell: Arc<LeaseCell>,
    ) -> Self {
        Self {
            pool,
            key: order.key.clone(),
            release: order.release,
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
        match self
            .prolong(ttl, ttl, self.pool.settings().command_timeout)
            .await
        {
            Ok(Prolonged::Yes) => Ok(()),
            Ok(Prolonged::TooLate) => {
                Err(self.lost_error(self.cell.why_lost().unwrap_or(LostCause::Deadline)))
            }
            Ok(Prolonged::NotOurs) => Err(self.gone()),
            Err(fault) => Err(fault.into_error(Some(&self.key))),
        }
    }

    /// Before the body: makes the server promise the whole lease. `false`: it is lost.
    pub(crate) async fn confirm(&self, terms: &Terms, within: Duration) -> Result<bool, Fault> {
        Ok(self.prolong(terms.lease(), terms.ttl, within).await? == Prolonged::Yes)
    }

    /// The body begins: from here on the key stays until this server time. `false`: it is lost.
    pub(crate) fn keep_until(&self, until: u64) -> bool {
        self.pool.guardian().keep_until(self.token, until)
    }

    /// Makes the server keep the lock for `on_server`, of which its holder counts on `ttl`.
    async fn prolong(
        &self,
        on_server: Ttl,
        ttl: Ttl,
        within: Duration,
    ) -> Result<Prolonged, Fault> {
        let (clock, guardian) = (self.pool.backend().clock(), self.pool.guardian());
        let item = [Renewal {
            claim: self.claim.clone(),
            ttl: on_server,
        }];
        let begun = clock.now();
        let link = self.pool.backend().link(self.key.as_str(), within).await?;
        if !guardian.extending(self.token, on_server) {
            return Ok(Prolonged::TooLate);
        }
        let sent = clock.now();
        let rest = sent.until(begun.plus(within));
        match link.renew(&item, rest).await?.first() {
            Some(Renewed::Yes) if guardian.extended(self.token, sent, ttl, &self.cell) => {
                Ok(Prolonged::Yes)
            }
            Some(Renewed::Yes) => Ok(Prolonged::TooLate),
            Some(Renewed::NotOurs) => Ok(Prolonged::NotOurs),
            Some(Renewed::Failed) | None => Err(Fault::Unclear(Text::new(
                "the server could not look at the key",
            ))),
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

/// What became of a lease that was to be prolonged.
#[derive(PartialEq)]
enum Prolonged {
    Yes,
    /// It was over before the answer came.
    TooLate,
    NotOurs,
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
