//! Writes that the server applies only while the lock is held.
//!
//! It does not check the batch itself (`extras::writes` does). Invariant: while a batch may still
//! be applied, the lock is not handed on.

use super::{LockGuard, undone};
use crate::extras::writes::{Writes, Wrote};
use crate::link::command_error::CommandError;
use crate::link::offers::WantedOffer;
use crate::values::batch::Batch;
use crate::values::error::{LockError, LostCause, Reason, Refusal};
use crate::values::key::Key;

impl LockGuard {
    /// Applies a batch of your own writes on the lock's server, if the lock is still ours there;
    /// the check and the writes are one step.
    ///
    /// It closes the gap that [`verify`](Self::verify) leaves: a holder that was stopped, or whose
    /// request was delayed, writes nothing after another caller has the lock. That covers data on
    /// the lock's own server and database, as long as the server keeps its data: a failover may
    /// lose both lock and writes. For data elsewhere, use the [`fence`](Self::fence).
    ///
    /// All or nothing: types and numbers are checked before the first command. What can't be
    /// checked in advance is whether the user may run each command. A forbidden command stops the
    /// batch; the commands before it stay applied, and the error says how many they are.
    ///
    /// Two batches that are sent at the same time are applied in any order; where the order
    /// matters, await one before you send the other.
    ///
    /// # Errors
    /// - [`LockError::Config`] for a batch that can't work (a key in another slot, too many
    ///   commands, …): nothing was sent. Refused with `redlock://` and
    ///   [`without_scripts`](crate::Config::without_scripts).
    /// - [`LockError::Lost`] when the lock is not ours or the lease is over: nothing was written,
    ///   as its `source()` says.
    /// - [`LockError::Refused`] when a key has another type or holds no number (`WrongType`: its
    ///   key is that data key, and the source names the command), memory is out, or a right is
    ///   missing.
    /// - [`LockError::Unavailable`], whose `source()` says that nothing was written, or that no
    ///   clear answer came: the batch was then either applied or not, and only the data shows
    ///   which. It is not applied later than [`command_timeout`](crate::Config::command_timeout)
    ///   (500 ms) after the call. A batch that may run twice can be repeated: `set`, `hset`,
    ///   `sadd`; not `incr_by`, not `rpush`.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the batch was then applied or not, or will be within
    /// [`command_timeout`](crate::Config::command_timeout) if the lock is still ours.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Batch, LockPool};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let lock = pool.lock("item:{7}").acquire().await?;
    /// lock.write(&Batch::new().set("owner:{7}", "ann").incr_by("sold:{7}", 1)).await?;
    /// # lock.release().await?; Ok(()) }
    /// ```
    ///
    /// In an annotated function, and a batch that is refused:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Batch, LockError, LockPool, distributed_lock, lock_key};
    ///
    /// #[distributed_lock(key = "item:{<id>}", ttl = "10s", renew, guard = lock)]
    /// async fn sell(id: u64, buyer: &str, price: i64) -> Result<(), LockError> {
    ///     // Look with your own client whether it is still there; then:
    ///     let sale = Batch::new()
    ///         .srem(lock_key!("market:{<id>}"), "item")
    ///         .set(lock_key!("owner:{<id>}"), buyer)
    ///         .incr_by(lock_key!("income:{<id>}"), price);
    ///     lock.write(&sale).await
    /// }
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// pool.scope(sell(7, "ann", 30)).await?;
    ///
    /// let lock = pool.lock("item:{7}").acquire().await?;
    /// let error = lock.write(&Batch::new().set("owner:8", "bob")).await.unwrap_err();
    /// assert!(error.to_string().contains("put `{7}` into the key"), "{error}");
    /// # Ok(()) }
    /// ```
    pub async fn write(&self, batch: &Batch) -> Result<(), LockError> {
        self.hold.core.offers(WantedOffer::Writes)?;
        let writes = Writes::new(
            batch,
            self.key().as_str(),
            &self.hold.core.settings().namespace,
        )?;
        if batch.is_empty() {
            return self.verify().await;
        }
        self.still_held().map_err(unwritten)?;
        match self.send(&writes).await {
            Ok(None) => {
                let cause = self.why_lost().unwrap_or(LostCause::Gone);
                Err(unwritten(self.lost_error(cause)))
            }
            Ok(Some(Wrote::All)) => Ok(()),
            Ok(Some(Wrote::NotOurs)) => Err(unwritten(self.gone())),
            Ok(Some(Wrote::Unfit(need))) => Err(unfit(&writes, need)),
            Ok(Some(Wrote::Stopped(at, reason, words))) => Err(LockError::Refused {
                key: Some(self.key().clone()),
                reason,
                source: stopped(&writes, at, &words),
            }),
            Err(error) => Err(self.hold.core.error(with_outcome(error), Some(self.key()))),
        }
    }

    /// Sends the batch; `None` if the lock was given back meanwhile: the token at the server may be
    /// the next holder's by now.
    async fn send(&self, writes: &Writes<'_>) -> Result<Option<Wrote>, CommandError> {
        let (clock, timeout) = (
            self.hold.core.backend().clock(),
            self.hold.core.settings().command_timeout,
        );
        let begun = clock.now();
        let link = self.hold.link(timeout).await?;
        let left = clock.now().until(begun.plus(timeout));
        let cell = &self.hold.cell;
        if !cell.write_begins() {
            return Ok(None);
        }
        let answer = link.write(self.hold.claim(), writes, left).await;
        if !matches!(&answer, Err(error) if error.leaves_open()) {
            cell.write_ended();
        }
        answer.map(Some)
    }
}

fn unwritten(lost: LockError) -> LockError {
    undone(lost, "nothing of the batch was written")
}

/// Adds what is known about the batch: `Unavailable` says of any other call that it may be
/// repeated, but not every batch may be.
fn with_outcome(error: CommandError) -> CommandError {
    let outcome = match error {
        CommandError::Unsent(_)
        | CommandError::Elsewhere(_)
        | CommandError::Moving(_)
        | CommandError::Unserved(_)
        | CommandError::NoLogin(_)
        | CommandError::Unsettled(_) => "nothing was written",
        CommandError::Unclear(_) => {
            "the batch was applied or it was not: look before you repeat it"
        }
        _ => return error,
    };
    error.explained(|why| Reason::new(format_args!("{why}; {outcome}")))
}

fn unfit(writes: &Writes<'_>, need: usize) -> LockError {
    let (key, why) = writes.unfit(need);
    LockError::Refused {
        key: Some(Key::verbatim(key)),
        reason: Refusal::WrongType,
        source: Reason::new(why),
    }
}

fn stopped(writes: &Writes<'_>, at: usize, words: &Reason) -> Reason {
    let left = match at {
        0 => "nothing was written".to_owned(),
        1 => "the one before it is written".to_owned(),
        _ => format!("the {at} before it are written"),
    };
    Reason::new(format_args!("{}: {words}; {left}", writes.which(at)))
}
