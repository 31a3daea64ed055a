//! Administration: who holds which lock, who waits, and ending a hold.
//!
//! It reads what stands on the server, and releases by the value that it read. Never in this
//! folder: a part in the waiting, or the state of a lock. Invariant: what it read leaves this
//! folder as a report only.

mod listing;
mod watch;

use std::fmt;
use std::sync::Arc;

pub use self::listing::{Listing, Records};
pub use self::watch::{Change, LockChange, Watch};
use crate::driver::core::Core;
use crate::link::command::ReadReply;
use crate::link::command_error::CommandError;
use crate::link::offers::WantedOffer;
use crate::link::{Link, LinkCommand};
use crate::rules::commands::{Claim, Keep, NotDue};
use crate::values::error::{LockError, Reason};
use crate::values::key::Key;
use crate::values::record::LastRun;
use crate::values::report::{Fingerprint, HolderSearch, LockReport, Notice, Part, Stored};

/// An administrator's view of the locks of a server, which can also end a hold, from
/// [`LockPool::admin`](crate::LockPool::admin).
///
/// It sees the locks of every process in the pool's namespace; of `memory://`, those of this pool.
/// It shows neither tokens nor values: a holder is named by its [`Fingerprint`]. On a server
/// without scripts it does the same, except that it evicts only holders of exclusive locks.
///
/// # Rights
/// It needs the [rights for locks](crate#rights), of which `publish` and the channels serve to tell
/// an evicted holder, and `+scan` for [`list`](Self::list) and [`watch`](Self::watch) with a pattern
/// that has wildcards. A user that only looks needs few of them, but it does need `+eval`: a script
/// reads the locks of readers, permits and owners.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::{Eviction, LockPool, LostCause, Notice};
///
/// let pool = LockPool::connect("memory://").await?;
/// let held = pool.lock("item:7").acquire().await?;
/// let admin = pool.admin();
///
/// let mut list = admin.list("item:*");
/// while let Some(page) = list.next_page().await? {
///     for lock in page {
///         println!("{} {:?} {:?}", lock.key(), lock.holders(), lock.waiting());
///     }
/// }
///
/// let lock = admin.show("item:7").await?.expect("it is held");
/// let holder = lock.holders()[0].fingerprint();
/// assert_eq!(admin.evict("item:7", holder).await?, Eviction::Done(Notice::Sent));
/// assert_eq!(held.lost().await, LostCause::Gone);
/// assert_eq!(admin.evict("item:7", holder).await?, Eviction::Free);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Admin(Arc<Core>);

impl Admin {
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self(core)
    }

    /// Returns whether a server knows who waits for a lock. With [several
    /// servers](crate::Config::redlock) nobody queues at any of them, so the reports have no
    /// waiters.
    #[must_use]
    pub fn sees_waiters(&self) -> bool {
        self.0.has_queues()
    }

    /// Lists the locks whose keys match a glob pattern, page by page; nothing is sent before
    /// [`Listing::next_page`].
    ///
    /// The pattern is for keys as a program writes them, without the namespace: `*` matches any
    /// text, `?` one character, `[a-c]` one of these, `[^a]` any other, and `\` takes the next
    /// character as it is. Without any of these it names one lock, which is read directly.
    pub fn list(&self, pattern: impl Into<String>) -> Listing {
        Listing::of(self.0.clone(), &pattern.into())
    }

    /// Reads one lock with all its holders and its queue; returns `None` if nothing is stored at
    /// the key and nobody waits. Of very many holders or waiters it reads the first 10,000
    /// ([`is_whole`](LockReport::is_whole)).
    ///
    /// # Errors
    /// [`LockError::InvalidKey`]; [`LockError::Unavailable`] or [`LockError::Refused`] when the
    /// server does not answer. Data that is not dlock's is a [`LockKind`](crate::LockKind), not an
    /// error.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// # let _held = pool.lock("item:7").acquire().await?;
    /// let admin = pool.admin();
    /// let lock = admin.show("item:7").await?.expect("it is held");
    /// for waiter in lock.waiters() {
    ///     println!("{} has waited for {:?}", waiter.waiter(), waiter.waiting());
    /// }
    /// assert_eq!(lock.holder_count(), 1);
    /// assert_eq!(admin.show("item:8").await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn show(&self, key: impl Into<Key>) -> Result<Option<LockReport>, LockError> {
        let key = self.name(key.into())?;
        let look = async {
            let link = self.link(&key).await?;
            self.read_lock(&*link, &key).await
        };
        let stored = look
            .await
            .map_err(|error| self.0.error(error, Some(&key)))?;
        Ok(stored.report(key.bare()))
    }

    /// Ends a hold now: releases the lock in place of its holder, and grants it to the next waiter
    /// at once. A `DEL` would leave the waiters to their polls, and could hit the next holder.
    ///
    /// Then tells the holder, if that is possible ([`Notice`]). The holder asks the server, and its
    /// lease is lost with [`LostCause::Gone`](crate::LostCause::Gone), which stops a body within a
    /// round trip. A holder that is not told keeps running until its next renewal or
    /// [`verify`](crate::LockGuard::verify), and without either until its deadline. Until it stops,
    /// two bodies may run; only a resource that checks the fencing token is safe from the evicted
    /// one. So evict only a holder that is known to be dead or stuck. `min_hold` does not protect a
    /// holder, and a key that it keeps can be evicted, too.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`]; [`LockError::Unavailable`] when the server does not answer (the
    /// holder may have been evicted: call it again); [`LockError::Refused`] for data that is not a
    /// lock, or for a lock of another version of dlock; [`LockError::Config`] for one of several
    /// holders on a server without scripts.
    ///
    /// # Cancel safety
    /// After the future is dropped it is unknown whether the holder was evicted, and told. Call it
    /// again: the call is idempotent.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// # let _held = pool.lock("item:7").acquire().await?;
    /// use dlock_runtime::{Eviction, LockError};
    ///
    /// let admin = pool.admin();
    /// let typed = "2fd4e1c67a2d28fc".parse()?; // from an earlier look
    /// assert_eq!(admin.evict("item:7", typed).await?, Eviction::NoSuchHolder);
    ///
    /// let error = admin.evict("@item", typed).await.unwrap_err();
    /// assert!(matches!(error, LockError::InvalidKey { .. }));
    /// # Ok(()) }
    /// ```
    pub async fn evict(
        &self,
        key: impl Into<Key>,
        holder: Fingerprint,
    ) -> Result<Eviction, LockError> {
        let key = self.name(key.into())?;
        let to_error = |error: CommandError| self.0.error(error, Some(&key));
        let link = self.link(&key).await.map_err(to_error)?;
        for _ in 0..ATTEMPTS {
            let stored = self.read_lock(&*link, &key).await.map_err(to_error)?;
            let value = match stored.find(holder) {
                HolderSearch::Free => return Ok(Eviction::Free),
                HolderSearch::Other => return Ok(Eviction::NoSuchHolder),
                HolderSearch::Strange(reason, why) => {
                    let error = CommandError::Refused(reason, Reason::new(why));
                    return Err(to_error(error));
                }
                HolderSearch::Holder(value) => value,
            };
            let claim = Claim {
                key: key.name().clone(),
                value: value.into(),
                queues: false,
                is_once: false,
            };
            if claim.kind().is_shared() {
                self.0.offers(WantedOffer::EvictionOfOne)?;
            }
            let within = self.0.settings().command_timeout;
            let released = link
                .release(&claim, Keep::NOT, within)
                .await
                .map_err(to_error)?;
            if released.found {
                let told = link.tell_evicted(&claim, within).await;
                return Ok(Eviction::Done(told.unwrap_or(Notice::Failed)));
            }
        }
        Ok(Eviction::NoSuchHolder)
    }

    /// Reads the record of the last run of a job that runs [once per
    /// period](crate::LockRequest::once_per); returns `None` if none is stored: it has not run, or its
    /// period is over.
    ///
    /// # Errors
    /// As [`show`](Self::show); [`LockError::Config`] with several servers, where no job runs once per
    /// period.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// use std::time::Duration;
    ///
    /// let nightly = pool.lock("nightly").once_per(Duration::from_secs(20 * 3600));
    /// nightly.acquire().await?.release_done().await?;
    ///
    /// let admin = pool.admin();
    /// let last_run = admin.record("nightly").await?.expect("it has run");
    /// println!("{last_run}");
    /// assert!(admin.clear_record("nightly").await?);
    /// assert_eq!(admin.record("nightly").await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn record(&self, key: impl Into<Key>) -> Result<Option<LastRun>, LockError> {
        let asked =
            self.ask_of_record::<Option<NotDue>>(key.into(), |key| LinkCommand::LastRun(key));
        let found = asked.await?;
        Ok(found.map(|it| LastRun::of(&it.record, it.time, it.left)))
    }

    /// Lists the records of last runs whose keys match a pattern, as [`list`](Self::list) lists locks,
    /// page by page; nothing is sent before [`Records::next_page`]. It needs `+scan`, too.
    pub fn records(&self, pattern: impl Into<String>) -> Records {
        Records::of(self.0.clone(), &pattern.into())
    }

    /// Removes the record of the last run, so that the next caller runs the job; returns whether there
    /// was one. A run that is under way is not stopped, and is recorded when it has succeeded.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    ///
    /// # Cancel safety
    /// After the future is dropped it is unknown whether the record was removed. Call it again.
    ///
    /// # Examples
    ///
    /// [`record`](Self::record) has one.
    pub async fn clear_record(&self, key: impl Into<Key>) -> Result<bool, LockError> {
        self.ask_of_record(key.into(), |key| LinkCommand::ClearRecord(key))
            .await
    }

    /// Follows the locks whose keys match a pattern, as in [`list`](Self::list): reports what is
    /// there, and then each change. It lists them repeatedly, once a second by default
    /// ([`Watch::every`]), because Redis does not announce who holds a lock.
    pub fn watch(&self, pattern: impl Into<String>) -> Watch {
        Watch::of(self.0.clone(), pattern.into())
    }

    async fn ask_of_record<T: ReadReply>(
        &self,
        key: Key,
        command: fn(&str) -> LinkCommand<'_>,
    ) -> Result<T, LockError> {
        self.0.offers(WantedOffer::Records)?;
        let key = self.name(key)?;
        let answer = async {
            let link = self.link(&key).await?;
            let within = self.0.settings().command_timeout;
            link.ask(command(key.as_str()), within).await
        };
        answer
            .await
            .map_err(|error| self.0.error(error, Some(&key)))
    }

    fn name(&self, key: Key) -> Result<Key, LockError> {
        self.0.check_process()?;
        Ok(key.in_namespace(&self.0.settings().namespace)?)
    }

    async fn link(&self, key: &Key) -> Result<Arc<dyn Link>, CommandError> {
        let within = self.0.settings().connect_timeout;
        self.0.backend().link(key.as_str(), within).await
    }

    /// The whole lock, as far as it is bounded.
    async fn read_lock(&self, link: &dyn Link, key: &Key) -> Result<Stored, CommandError> {
        let mut whole = self.part(link, key, 0).await?;
        let mut from = AT_ONCE;
        while !whole.is_whole() && from < MOST {
            if !whole.append(self.part(link, key, from).await?) {
                break;
            }
            from += AT_ONCE;
        }
        Ok(whole)
    }

    async fn part(&self, link: &dyn Link, key: &Key, from: usize) -> Result<Stored, CommandError> {
        let part = Part {
            from,
            most: AT_ONCE,
        };
        let within = self.0.settings().command_timeout;
        let parts = link.inspect(&[key.as_str()], part, within).await?;
        let none = || CommandError::Unclear(Reason::new("no answer about the lock"));
        parts.into_iter().next().ok_or_else(none)
    }
}

/// How many holders and waiters one command reads …
const AT_ONCE: usize = 250;

/// … and how many are read in all.
const MOST: usize = 10_000;

/// How often an eviction looks for its holder: its entry changes when a writer becomes a reader.
const ATTEMPTS: usize = 3;

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admin").field(&self.0).finish()
    }
}

/// The result of [`Admin::evict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[must_use = "nobody may have been evicted"]
pub enum Eviction {
    /// That holder no longer holds the lock, and the next waiter has been granted it; whether the
    /// holder was told.
    Done(Notice),
    /// The lock is held, but not by that holder; nothing was changed.
    NoSuchHolder,
    /// Nobody holds the lock; nothing was changed.
    Free,
}
