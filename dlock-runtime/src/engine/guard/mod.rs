//! A lock that is held: what its owner can ask and do. `prolong` makes it last, `release` is how it goes,
//! `entered` counts how often one body holds it.

mod downgrade;
mod entered;
mod prolong;
mod release;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::entered::Entered;
use super::acquire::Order;
use super::held::Held;
use super::lease_cell::LeaseCell;
use super::pool::LockPool;
use crate::backend::fault::Fault;
use crate::policy::commands::Claim;
use crate::values::error::{LockError, LostCause, Refusal};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::kind::Kind;
use crate::values::token::Token;

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
    order: Arc<Order>,
    entered: Entered,
}

/// What was granted.
pub(crate) struct Hold {
    pub(crate) pool: LockPool,
    pub(crate) claim: Claim,
    pub(crate) token: Token,
    pub(crate) fence: Fence,
    pub(crate) cell: Arc<LeaseCell>,
    pub(crate) order: Arc<Order>,
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        let Hold {
            pool,
            claim,
            token,
            fence,
            cell,
            order,
        } = hold;
        Self {
            pool,
            key: order.key.clone(),
            claim,
            token,
            fence,
            cell,
            order,
            entered: Entered::outermost(),
        }
    }

    /// The same lock once more, for a nested call.
    pub(crate) fn join(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            key: self.key.clone(),
            claim: self.claim.clone(),
            token: self.token,
            fence: self.fence,
            cell: self.cell.clone(),
            order: self.order.clone(),
            entered: self.entered.once_more(),
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

    /// How often the lock is held in this body: 1, and one more for each nested call that joined it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError, Released};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let counts = pool.lock("report").run(async |outer| {
    ///     let inner = pool.lock("report").reentrant().acquire().await?;
    ///     let twice = outer.hold_count();
    ///     assert_eq!(inner.release().await?, Released::StillHeld(1));
    ///     Ok::<_, LockError>((twice, outer.hold_count()))
    /// });
    /// assert_eq!(counts.await??, (2, 1));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn hold_count(&self) -> u32 {
        self.entered.count()
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
        let asked = async {
            let link = self.pool.backend().link(self.key.as_str(), timeout).await?;
            link.holds(&self.claim, timeout).await
        };
        match asked.await {
            Ok(true) => self.still_held(),
            Ok(false) | Err(Fault::Refused(Refusal::WrongType, _)) => Err(self.gone()),
            Err(fault) => Err(fault.into_error(Some(&self.key))),
        }
    }

    /// The body begins: from here on the key stays until this server time. `false`: it is lost.
    pub(crate) fn keep_until(&self, until: u64) -> bool {
        self.pool.guardian().keep_until(self.token, until)
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

    pub(crate) fn kind(&self) -> &Kind {
        &self.order.kind
    }

    /// Whether it counts only, and the lock is another guard's to give back.
    pub(crate) fn is_joined(&self) -> bool {
        self.entered.is_inner()
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
