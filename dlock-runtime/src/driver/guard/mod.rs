//! A lock that is held: what its owner can ask and do.
//!
//! `write` changes data under the lock, `prolong` extends it, `downgrade` turns a writer into a
//! reader, `release` gives it back, and `reentry` counts how often one body holds it.
//!
//! Never in this folder: a belief that the lock is held without a check of its `lease_cell`.

mod downgrade;
mod prolong;
mod reentry;
mod release;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::reentry::Reentry;
use super::core::Core;
use super::lease_cell::{Cells, LeaseCell, Lost};
use super::lock_handle::LockHandle;
use crate::client::spec::AcquireSpec;
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::observe::{ObservedClass, ObservedHold};
use crate::rules::commands::{Claim, Keep};
use crate::values::class::{LockSite, Site};
use crate::values::error::{LockError, LostCause, Reason, Refusal};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::kind::Kind;
use crate::values::listener::AcquireOutcome;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub use self::release::Released;

/// A lock that is held, until it is released, dropped or lost.
///
/// Dropping the guard gives the lock back in the background, from anywhere, also outside any
/// runtime; [`release`](Self::release) waits until that is done. A guard holds a *lease*: when that
/// ends, another caller may have the lock while this guard still exists. [`is_held`](Self::is_held)
/// and [`lost`](Self::lost) tell; what must not happen twice needs the [`fence`](Self::fence).
///
/// # A guard needs a name
///
/// `let _ = pool.lock("report").acquire().await?;` gives the lock back before the next line: `_` is
/// no variable. Neither `#[must_use]` nor any lint that is on by default notices it. This one does,
/// in the root of your crate:
///
/// ```compile_fail
/// #![deny(let_underscore_drop)]
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// let pool = dlock_runtime::LockPool::connect("memory://").await?;
/// let _ = pool.lock("report").acquire().await?; // does not compile; `let _lock = …` does
/// # Ok(()) }
/// ```
///
/// `clippy::let_underscore_must_use` notices it too. A body under [`run`](crate::LockRequest::run)
/// or the attribute has no guard that could be forgotten.
#[must_use = "dropping the guard gives the lock back at once: bind it, `let _lock = …` (`let _ = …` drops it)"]
pub struct LockGuard {
    hold: Hold,
    entered: Reentry,
    /// The guards of all keys but the first, if there are several.
    #[expect(
        clippy::box_collection,
        reason = "most guards have none, and a pointer is a third of a `Vec`"
    )]
    others: Option<Box<Vec<LockGuard>>>,
}

/// What was granted, and on what terms.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) core: Arc<Core>,
    pub(crate) fence: Fence,
    pub(crate) cell: Arc<LeaseCell>,
    /// When the call began that took it, and when it had it.
    pub(crate) begun: Moment,
    pub(crate) granted: Moment,
    pub(crate) outcome: AcquireOutcome,
}

impl Hold {
    async fn link(&self, within: Duration) -> Result<Arc<dyn Link>, CommandError> {
        self.core
            .backend()
            .link(self.spec().key.as_str(), within)
            .await
    }

    fn spec(&self) -> &Arc<AcquireSpec> {
        self.cell.spec()
    }

    fn token(&self) -> Token {
        self.cell.token()
    }

    fn claim(&self) -> &Claim {
        self.cell.claim()
    }
}

impl LockGuard {
    pub(crate) fn new(hold: Hold) -> Self {
        Self {
            hold,
            entered: Reentry::outermost(),
            others: None,
        }
    }

    /// The same lock once more, for a nested call.
    pub(crate) fn join(&self) -> Self {
        Self {
            hold: self.hold.clone(),
            entered: Reentry::once_more(&self.hold.cell.holds),
            others: None,
        }
    }

    /// One guard for all of these; `None` if there are none.
    pub(crate) fn of_all(guards: Vec<LockGuard>) -> Option<Self> {
        let mut guards = guards.into_iter();
        let mut first = guards.next()?;
        let others: Vec<_> = guards.collect();
        first.others = (!others.is_empty()).then(|| Box::new(others));
        Some(first)
    }

    /// One guard for each key, in the order of their names, in which they were taken. The first
    /// part is this guard itself, which speaks for all keys except in `key()`, `fence()` and
    /// [`write`](Self::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let both = pool.lock_all(["account:9", "account:7"]).acquire().await?;
    /// let fences: Vec<_> = both.parts().map(|part| (part.key().to_string(), part.fence())).collect();
    /// assert_eq!(fences[0].0, "account:7");
    /// assert!(fences[0].1 < fences[1].1);
    /// # both.release().await?; Ok(()) }
    /// ```
    pub fn parts(&self) -> impl Iterator<Item = &LockGuard> {
        std::iter::once(self).chain(self.others())
    }

    /// The part that locks this key, written as it was asked for, without the namespace; `None` if
    /// the guard does not lock it, or it can't be a key.
    ///
    /// For its [`key`](Self::key), [`fence`](Self::fence) and [`write`](Self::write). The part whose
    /// name comes first is this guard itself, whose other methods speak for all keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError, lock_key};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let (from, to) = (9, 7);
    /// let keys = [lock_key!("account:<from>"), lock_key!("account:<to>")];
    /// let both = pool.lock_all(keys).acquire().await?;
    /// let debit = both.part(lock_key!("account:<from>")).map(|part| part.fence());
    /// let credit = both.part(lock_key!("account:<to>")).map(|part| part.fence());
    /// assert!(credit < debit, "acquired in the order of their names");
    ///
    /// assert!(both.part("account:8").is_none());
    /// # both.release().await?; Ok(()) }
    /// ```
    pub fn part(&self, key: impl Into<Key>) -> Option<&LockGuard> {
        let namespace = &self.hold.core.settings().namespace;
        let name = key.into().in_namespace(namespace).ok()?;
        self.part_named(&name)
    }

    /// The lock's name on the server, namespace included; of several keys, the first one's.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.hold.spec().key
    }

    /// The fencing token of this grant: send it along with each write that must not come late.
    ///
    /// Of several keys it is the first one's; [`parts`](Self::parts) has the others'. It rises from
    /// grant to grant for an exclusive lock, a write lock and an owner's lock (whose entries all
    /// have the same one). **Readers and permits have many holders at once: their numbers are
    /// unique, but order nothing**, and a resource that accepts only rising numbers would refuse
    /// some current holders.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.hold.fence
    }

    /// How long the call that took the lock waited for it; for several keys, until it had the last
    /// one. A call that joined a lock of its own body has the outer call's time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// let lock = pool.lock("report").acquire().await?;
    /// println!("waited for {:?}", lock.waited());
    /// # lock.release().await?; Ok(()) }
    /// ```
    #[must_use]
    pub fn waited(&self) -> Duration {
        let granted = self.parts().map(|part| part.hold.granted).max();
        self.hold.begun.until(granted.unwrap_or(self.hold.granted))
    }

    /// How often this body holds the lock: 1, and one more for each nested call that joined it.
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
        if self.hold.cell.is_released() {
            return 0; // an inner guard that outlives the outermost
        }
        self.hold.cell.holds.load(Ordering::Relaxed)
    }

    /// How long the lease can be counted on without a renewal; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cells().remaining()
    }

    /// Whether the lease can be counted on at this moment, by the local clock. No command is sent.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cells().is_held()
    }

    /// Asks the server whether the lock is still ours, as a check before a sensitive write. Only
    /// the fencing token, checked where the write goes, closes the gap between the check and the
    /// write.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the lock is not ours, or the lease is over;
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server did not answer clearly,
    /// which ends no lease.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn verify(&self) -> Result<(), LockError> {
        let verified = self.check_at_server().await;
        verified.map_err(|lost| undone(lost, "nothing protects what comes after this"))
    }

    async fn check_at_server(&self) -> Result<(), LockError> {
        self.still_held()?;
        let timeout = self.hold.core.settings().command_timeout;
        for part in self.parts() {
            let holds = async {
                let link = part.hold.link(timeout).await?;
                link.holds(part.hold.claim(), timeout).await
            };
            match holds.await {
                Ok(true) => {}
                Ok(false) | Err(CommandError::Refused(Refusal::WrongType, _)) => {
                    return Err(part.gone());
                }
                Err(error) => return Err(part.hold.core.error(error, Some(part.key()))),
            }
        }
        self.still_held()
    }

    /// The body begins: keeps the key until this server time. `false` if the lease is lost.
    pub(crate) fn keep(&self, keep: Keep) -> bool {
        self.hold.core.watchdog().keep(self.hold.token(), keep)
    }

    /// Ends when the lease is lost, with the cause; **never** for a lease that is released in time.
    ///
    /// The future owns what it needs, so any task of any runtime can await it. End the waiting
    /// together with the work, by `select!` or by aborting its task: left alone, it would wait for
    /// ever.
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
        self.cells().watch_lost()
    }

    pub(crate) fn wait_lost(&self) -> Lost {
        self.cells().wait_lost()
    }

    /// Gives the lock back, and waits until that is done.
    ///
    /// # Errors
    /// With [`Release::Strict`](crate::Release::Strict), [`LockError::Lost`] with `finished: true`
    /// if the release found nothing or got no clear answer. Otherwise [`LockError::Unavailable`] or
    /// [`LockError::Refused`] when the server did not confirm it within one `command_timeout`. The
    /// release is then repeated in the background, and the lock is free when its lease ends at the
    /// latest.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the release goes on in the background.
    pub async fn release(self) -> Result<Released, LockError> {
        self.give_back(None).await
    }

    /// Whether the lease still counts. After a local hand-off the server still shows our token, so
    /// that is checked locally first.
    fn still_held(&self) -> Result<(), LockError> {
        if let Some(part) = self.parts().find(|part| part.hold.cell.is_handed_on()) {
            return Err(part.lost_error(LostCause::Gone));
        }
        match self.check() {
            Err((part, cause)) => Err(part.lost_error(cause)),
            Ok(_) => Ok(()),
        }
    }

    /// The server said that the lock is not ours. The token table knows why: after the deadline
    /// that is expected.
    fn gone(&self) -> LockError {
        self.hold.core.watchdog().refused(self.hold.token());
        self.lost_error(self.why_lost().unwrap_or(LostCause::Gone))
    }

    /// The one cause that every caller is told.
    fn why_lost(&self) -> Option<LostCause> {
        self.hold.cell.why_lost()
    }

    fn lost_error(&self, cause: LostCause) -> LockError {
        LockError::Lost {
            key: self.key().clone(),
            cause,
            renewed: self.is_renewed(),
            finished: false,
            source: None,
        }
    }

    pub(crate) fn part_named(&self, name: &Key) -> Option<&LockGuard> {
        self.parts().find(|part| part.key() == name)
    }

    /// Whether it holds this key, even if it has lost another one of several.
    pub(crate) fn holds(&self, key: &Key) -> bool {
        self.part_named(key)
            .is_some_and(|part| part.hold.cell.is_held())
    }

    /// The time of the check if all parts are held; otherwise a part that is lost, and why.
    pub(crate) fn check(&self) -> Result<Moment, (&LockGuard, LostCause)> {
        if self.hold.cell.is_inherited() {
            return Err((self, LostCause::Forked));
        }
        let now = self.hold.core.now();
        let lost = |part: &'_ LockGuard| part.hold.cell.why_lost_at(now);
        let lost = self.parts().find_map(|part| Some((part, lost(part)?)));
        lost.map_or(Ok(now), Err)
    }

    fn others(&self) -> &[LockGuard] {
        self.others.as_ref().map_or(&[], |it| it.as_slice())
    }

    fn cells(&self) -> Cells {
        let others = self.others().iter().map(|part| part.hold.cell.clone());
        Cells::new(self.hold.cell.clone(), others.collect())
    }

    /// How the lock was granted.
    pub(crate) fn outcome(&self) -> AcquireOutcome {
        self.hold.outcome
    }

    /// The holder has it: observers are told from here on. Called in the caller's span.
    pub(crate) fn begins(&self, class: Option<Arc<ObservedClass>>) {
        let hold = ObservedHold::begins(self.spec().asked(), class, self.hold.fence);
        self.hold.cell.begins(hold);
    }

    pub(crate) fn spec(&self) -> &Arc<AcquireSpec> {
        self.hold.spec()
    }

    /// What observers are told of the hold of the first key.
    pub(super) fn observed(&self) -> Option<&ObservedHold> {
        self.hold.cell.observed()
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.hold.spec().kind
    }

    /// Whether this guard only counts, because an outer guard owns the lock.
    pub(crate) fn is_joined(&self) -> bool {
        self.entered.is_inner()
    }

    pub(crate) fn is_of(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.hold.core, core)
    }

    /// Where in the program it was requested.
    pub(crate) fn site(&self) -> Site {
        self.hold.spec().site
    }

    pub(crate) fn is_renewed(&self) -> bool {
        self.hold.spec().terms.renew.is_some()
    }

    /// The lock and its site, for the lock order.
    pub(crate) fn lock_site(&self) -> LockSite {
        LockSite::new(self.key(), self.site())
    }

    pub(crate) fn held(&self) -> LockHandle {
        LockHandle::new(self.key().clone(), self.hold.fence, self.cells())
    }
}

/// A `Lost` error as a call on the guard reports it: it says what the call did not do, not whether
/// a body was stopped.
fn undone(error: LockError, what: &str) -> LockError {
    match error {
        LockError::Lost {
            key,
            cause,
            renewed,
            finished,
            ..
        } => LockError::Lost {
            key,
            cause,
            renewed,
            finished,
            source: Some(Reason::new(what)),
        },
        other => other,
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
