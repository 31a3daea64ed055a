//! Who leads a key, for any process: it reads the lock again and again.
//!
//! Invariant: it names this process only while this process may count on its lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::driver::core::Core;
use crate::extras::admin::Admin;
use crate::values::config::Address;
use crate::values::error::LockError;
use crate::values::fence::Fence;
use crate::values::holder::Holder;
use crate::values::key::Key;
use crate::values::report::{Fingerprint, LockReport};

/// How often the server is asked.
const EVERY: Duration = Duration::from_secs(1);

/// `memory://`, which costs nothing.
const EVERY_IN_MEMORY: Duration = Duration::from_millis(5);

/// Tells who leads a key, from [`Candidate::watch`](crate::Candidate::watch).
///
/// It asks the server once a second, with the rights that every lock needs, and only while
/// [`changed`](Self::changed) is awaited. So it is up to a second late, and misses a term that begins and
/// ends between two looks. Show what it reports; decide nothing by it. A term of this process is
/// reported only by the pool that campaigned for it; to another pool of the process nobody leads.
#[derive(Debug)]
#[must_use = "it asks the server only when `changed` is called"]
pub struct LeaderWatch {
    core: Arc<Core>,
    key: Key,
    /// The term that `changed` has returned last, …
    told: Option<Fingerprint>,
    /// … if it has returned.
    has_told: bool,
    asked: Option<Instant>,
}

/// A leader as the server showed it at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderReport {
    holder: Holder,
    fingerprint: Fingerprint,
    remaining: Option<Duration>,
    fence_at_most: Fence,
}

impl LeaderReport {
    fn of(lock: &LockReport) -> Option<Self> {
        let leader = lock.holders().first()?;
        Some(Self {
            holder: leader.holder().clone(),
            fingerprint: leader.fingerprint(),
            remaining: leader.remaining(),
            fence_at_most: lock.fence_at_most(),
        })
    }

    /// Returns the leader's host, process and function, and when it began to campaign.
    #[must_use]
    pub fn leader(&self) -> &Holder {
        &self.holder
    }

    /// Returns whether it is this process. Then its deadline had not passed when it was asked.
    #[must_use]
    pub fn is_this_process(&self) -> bool {
        matches!(&self.holder, Holder::Process(it) if it.is_this_process())
    }

    /// Returns the name of its term, which no other term has.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns how long its lease lasts without a renewal; `None` if another program leads, without a
    /// time to live.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns a bound: its fencing token is not higher. Only the leader knows the token itself.
    #[must_use]
    pub fn fence_at_most(&self) -> Fence {
        self.fence_at_most
    }
}

impl LeaderWatch {
    pub(super) fn new(core: Arc<Core>, key: Key) -> Self {
        Self {
            core,
            key,
            told: None,
            has_told: false,
            asked: None,
        }
    }

    /// Waits until another term begins or nobody leads, and returns who leads; `None`: nobody. The first
    /// call returns at once.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] and [`LockError::Refused`] when the server did not tell, and
    /// [`LockError::InvalidKey`]; the next call asks again, a second later. [`LockError::ShutDown`] once the
    /// pool is being shut down.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// let mailer = pool.leader("mailer");
    /// let mut watch = mailer.watch();
    /// assert!(watch.changed().await?.is_none(), "nobody leads");
    ///
    /// let term = mailer.clone().campaign().await?;
    /// let leader = watch.changed().await?.expect("somebody leads");
    /// println!("{} leads", leader.leader());
    /// assert!(leader.is_this_process());
    /// # term.resign().await?; Ok(()) }
    /// ```
    pub async fn changed(&mut self) -> Result<Option<LeaderReport>, LockError> {
        loop {
            let closing = self.core.closing_signal();
            if let Some(asked) = self.asked {
                let _ = tokio::time::timeout_at(asked + self.every(), closing.wait()).await;
            }
            if closing.has_begun() {
                return Err(LockError::ShutDown);
            }
            self.asked = Some(Instant::now());
            let leads = self.look().await?;
            let fingerprint = leads.as_ref().map(LeaderReport::fingerprint);
            if !self.has_told || self.told != fingerprint {
                (self.told, self.has_told) = (fingerprint, true);
                return Ok(leads);
            }
        }
    }

    async fn look(&self) -> Result<Option<LeaderReport>, LockError> {
        let name = self.core.name(self.key.clone())?;
        let admin = Admin::of(self.core.clone());
        let lock = admin.show(self.key.clone()).await?;
        let leads = lock.as_ref().and_then(LeaderReport::of);
        Ok(leads.filter(|it| !it.is_this_process() || self.is_held_here(&name)))
    }

    /// Whether this pool has the lock, and may count on it.
    fn is_held_here(&self, name: &Key) -> bool {
        let holders = self.core.watchdog().holders();
        let mut ours = holders.iter().filter(|cell| cell.spec().key == *name);
        ours.any(|cell| cell.is_held())
    }

    fn every(&self) -> Duration {
        match self.core.settings().address {
            Address::Memory => EVERY_IN_MEMORY,
            _ => EVERY,
        }
    }
}
