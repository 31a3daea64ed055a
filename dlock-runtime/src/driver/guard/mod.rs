//! A lock that is held: what its owner can ask and do.
//!
//! `write` changes data under the lock, `sql_check` checks it in a transaction of the user's, `prolong`
//! extends it, `downgrade` turns a writer into a reader, `release` gives it back, `run` says of a job that runs once per period whether it ran, and
//! `reentry` counts how often one body holds it.
//!
//! Never in this folder: a belief that the lock is held without a check of its `lease_cell`.

mod downgrade;
mod prolong;
mod reentry;
mod release;
mod run;
#[cfg(feature = "postgres")]
mod sql_check;
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
use crate::values::error::{LockError, LostCause, Reason};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::kind::Kind;
use crate::values::listener::AcquireOutcome;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub use self::release::Released;
#[cfg(feature = "postgres")]
pub use self::sql_check::SqlCheck;

/// A lock that is held, until it is released, dropped or lost.
///
/// Dropping the guard releases the lock in the background, from anywhere, even outside a runtime;
/// [`release`](Self::release) waits until that is done. A guard holds a *lease*: when that ends,
/// another caller may have the lock while this guard still exists. [`is_held`](Self::is_held) and
/// [`lost`](Self::lost) report that; a write that must not come late needs the
/// [`fence`](Self::fence).
///
/// # A guard needs a name
///
/// `let _ = pool.lock("report").acquire().await?;` releases the lock before the next line: `_` is
/// not a variable. Neither `#[must_use]` nor any lint that is on by default notices it. This lint
/// does, in the root of your crate:
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
#[must_use = "dropping the guard releases the lock at once: bind it, `let _lock = …` (`let _ = …` drops it)"]
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

    /// The same lock once more, for a nested call that asked for this.
    pub(crate) fn join(&self, asked: &AcquireSpec) -> Self {
        Self {
            hold: self.hold.clone(),
            entered: Reentry::once_more(&self.hold.cell.holds, asked.stops_at_shutdown),
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

    /// Returns one guard for each key, in the order of their names, which is the order in which
    /// they were taken. The first part is this guard itself, whose methods apply to all keys,
    /// except [`key`](Self::key), [`fence`](Self::fence) and [`write`](Self::write).
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

    /// Returns the part that locks this key, given as in the request, without the namespace; `None`
    /// if the guard does not lock it, or it can't be a key.
    ///
    /// Use it for the part's [`key`](Self::key), [`fence`](Self::fence) and [`write`](Self::write).
    /// The part whose name comes first is this guard itself, whose other methods apply to all keys.
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

    /// Returns the lock's name on the server, including the namespace; with several keys, the first
    /// one's.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.hold.spec().key
    }

    /// Returns the fencing token of this grant: send it with each write that must not come late.
    ///
    /// With several keys it is the first one's; [`parts`](Self::parts) have the others'. It rises
    /// from grant to grant for an exclusive lock, a write lock and an owner's lock (whose entries
    /// all have the same one). **Readers and permits have many holders at once: their tokens are
    /// unique, but give no order**, and a resource that accepts only rising numbers would refuse
    /// some current holders.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.hold.fence
    }

    /// Returns how long the call that took the lock waited for it; with several keys, until it had
    /// the last one. A call that joined a lock of its own body reports the outer call's time.
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

    /// Returns how often this body holds the lock: 1, and one more for each nested call that joined
    /// it.
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

    /// Returns how long the lease can be counted on without a renewal; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cells().remaining()
    }

    /// Returns whether the lease can be counted on at this moment, by the local clock. No command
    /// is sent.
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
    /// which does not end the lease.
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
                link.still_holds(part.hold.claim(), timeout).await
            };
            match holds.await {
                Ok(true) => {}
                Ok(false) => return Err(part.gone()),
                Err(error) => return Err(part.hold.core.error(error, Some(part.key()))),
            }
        }
        self.still_held()
    }

    /// The body begins: keeps the key until this server time. `false` if the lease is lost.
    pub(crate) fn keep(&self, keep: Keep) -> bool {
        self.hold.core.watchdog().keep(self.hold.token(), keep)
    }

    /// Waits until the lease is lost, and returns the cause; **never** ends for a lease that is
    /// released in time. A body that a shutdown stops gets
    /// [`LostCause::ShutDown`](crate::LostCause::ShutDown).
    ///
    /// The future owns what it needs, so any task of any runtime can await it. Stop waiting
    /// together with the work, with `select!` or by aborting the task: left alone, it would wait
    /// for ever.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
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

    /// Waits until a shutdown of its pool begins; ready at once if one has begun.
    ///
    /// A body that ends soon after it loses no work: once
    /// [`shutdown_grace`](crate::Config::shutdown_grace) is over, a body that may be stopped is
    /// dropped. The future owns what it needs, so any task of any runtime can await it.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// # async fn next() { tokio::task::yield_now().await }
    /// # async fn send(_: ()) {}
    /// let mailer = pool.lock("mailer").run(async |lock| {
    ///     let mut closing = std::pin::pin!(lock.closing());
    ///     loop {
    ///         let mail = tokio::select! { // the arm that is not ready is dropped: it only waits
    ///             () = &mut closing => return "ended between two mails",
    ///             mail = next() => mail,
    ///         };
    ///         send(mail).await; // not cut short
    ///     }
    /// });
    /// let (ended, drained) = tokio::join!(mailer, pool.shutdown());
    /// assert_eq!(ended?, "ended between two mails");
    /// # assert!(drained.is_complete()); Ok(()) }
    /// ```
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.hold.core.closing_signal().wait()
    }

    pub(crate) fn wait_lost(&self) -> Lost {
        self.cells().wait_lost()
    }

    /// Releases the lock and waits until that is done. A job that runs [once per
    /// period](crate::LockRequest::once_per) has then not run: [`release_done`](Self::release_done)
    /// records it.
    ///
    /// # Errors
    /// With [`Release::Strict`](crate::Release::Strict), [`LockError::Lost`] with `finished: true`
    /// if the release found nothing or got no clear answer. Otherwise [`LockError::Unavailable`] or
    /// [`LockError::Refused`] when the server did not confirm it within one
    /// [`command_timeout`](crate::Config::command_timeout). The release is then repeated in the
    /// background, and the lock is free at the latest when its lease ends.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the release continues in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError, Released};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let lock = pool.lock("report").acquire().await?;
    /// assert_eq!(lock.release().await?, Released::Freed);
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<Released, LockError> {
        self.run_failed();
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
        let first = self.parts().find_map(|part| Some((part, lost(part)?)));
        match first {
            None => Ok(now),
            // A lease that is over says more than that the body must stop.
            Some((_, LostCause::ShutDown)) => {
                let over = self.parts().find(|part| part.hold.cell.is_lost());
                let over = over.and_then(|part| Some((part, lost(part)?)));
                Err(over.unwrap_or((self, LostCause::ShutDown)))
            }
            Some(lost) => Err(lost),
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.hold.core.now()
    }

    /// Whether one of its keys is held by no body around this one.
    pub(super) fn holds_more(&self) -> bool {
        self.parts().any(|part| !part.is_joined())
    }

    /// Whether no body around this one's may be stopped before it.
    pub(super) fn is_stopped_first(&self) -> bool {
        self.holds_more() || self.parts().any(|part| part.entered.finishes())
    }

    /// A locked body begins inside this lock's: this one is not stopped before it.
    pub(super) fn inner_begins(&self) {
        self.parts().for_each(|part| part.hold.cell.inner_begins());
    }

    /// It has given its lock back.
    pub(super) fn inner_ended(&self) {
        self.parts().for_each(|part| part.hold.cell.inner_ended());
        if !self.hold.cell.is_inherited() {
            self.hold.core.watchdog().look_again();
        }
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
        let level = self.hold.core.settings().observing.span_level;
        let hold = ObservedHold::begins(self.spec().asked(), class, self.hold.fence, level);
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
        let closing = self.hold.core.closing_signal();
        LockHandle::new(self.key().clone(), self.hold.fence, self.cells(), closing)
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
