//! Gives a lock back: released and confirmed, or left to the watchdog.
//!
//! It does not decide whether a lock may be handed on (`client` does). Invariant: only the
//! call that sets the lease cell to released gives the lock back.

use std::error::Error;

use super::{Hold, LockGuard};
use crate::client::ReturnedTo;
use crate::client::tokens::ReleaseBy;
use crate::link::command_error::{self, CommandError};
use crate::link::joined::all;
use crate::observe;
use crate::rules::commands::{GivenBack as Found, Keep};
use crate::values::error::{LockError, LostCause, Reason};
use crate::values::listener::HoldOutcome;
use crate::values::moment::Moment;
use crate::values::release::Release;

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Released {
    /// The lock was ours, and is released: it is free, or its key is kept without a holder until
    /// the end of its [`min_hold`](crate::LockRequest::min_hold).
    Freed,
    /// The lock was ours, and its owner still holds it this many times: in nested calls of the same
    /// body that joined it, or in entries of the same [`owner`](crate::LockRequest::owner) at the
    /// server.
    StillHeld(u32),
    /// The lock was no longer ours: it had been lost or released before.
    NotHeld,
}

impl Released {
    /// The combined result of two releases.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Released::NotHeld, _) | (_, Released::NotHeld) => Released::NotHeld,
            (Released::StillHeld(one), Released::StillHeld(other)) => {
                Released::StillHeld(one.max(other))
            }
            (Released::StillHeld(rest), _) | (_, Released::StillHeld(rest)) => {
                Released::StillHeld(rest)
            }
            (Released::Freed, Released::Freed) => Released::Freed,
        }
    }
}

/// How a holder leaves its lock.
enum Leaves {
    /// It must be given back; the holder is done since then.
    At(Moment),
    /// It belongs to the process that this one was forked from, and must not be given back here.
    Forked,
}

impl LockGuard {
    /// Gives all parts back at the same time; returns the first error, or else the worst result.
    /// `checked`: when the caller found the lock held, in its own process, if that was in this very
    /// poll.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice"
    )]
    pub(crate) fn give_back(
        &self,
        checked: Option<Moment>,
    ) -> impl Future<Output = Result<Released, LockError>> + Send {
        async move {
            if self.others.is_none() {
                return self.give_back_part(checked).await;
            }
            let parts = self.parts();
            let parts = parts.map(|part| Box::pin(part.give_back_part(checked)));
            let mut found = Released::Freed;
            for answer in all(parts.collect()).await {
                found = found.and(answer?);
            }
            Ok(found)
        }
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice"
    )]
    fn give_back_part(
        &self,
        checked: Option<Moment>,
    ) -> impl Future<Output = Result<Released, LockError>> + Send {
        async move {
            let (by_caller, now) = match self.leave_for(checked) {
                Ok(to_send) => to_send,
                Err(done) => return self.if_strict(done),
            };
            let answer = match by_caller {
                Some(keep) => Some(self.send_release(keep, now).await),
                None => None, // the watchdog sends it
            };
            self.if_strict(match answer {
                // Nothing can be sent from here: no runtime, or one without timers or I/O. The
                // watchdog releases it.
                None | Some(Err(CommandError::Setup(_))) => {
                    Box::pin(self.wait_for_watchdog(now)).await // boxed, as it is rare
                }
                Some(answer) => self.answered(answer),
            })
        }
    }

    /// A strict release returns an error if it was not ours any more.
    fn if_strict(&self, released: Result<Released, LockError>) -> Result<Released, LockError> {
        if !self.is_strict() {
            return released;
        }
        let (cause, source) = match released {
            Ok(Released::NotHeld) => {
                let nothing = Reason::new("its release found nothing");
                (self.hold.cell.why_gone(), nothing)
            }
            Ok(found) => return Ok(found),
            Err(LockError::Lost { cause, .. }) => (cause, Reason::new("it was not released")),
            Err(unclear) => (LostCause::Unclear, in_words(&unclear)),
        };
        Err(LockError::Lost {
            key: self.key().clone(),
            cause,
            renewed: self.is_renewed(),
            finished: true,
            source: Some(source),
        })
    }

    /// The holder is done. Returns what the release keeps, if the caller sends it and not the
    /// watchdog, and since when the holder is done; the error: nothing is to be sent. Apart from the
    /// future that sends it, which would keep what this needs.
    fn leave_for(
        &self,
        checked: Option<Moment>,
    ) -> Result<(Option<Keep>, Moment), Result<Released, LockError>> {
        let Hold { core, cell, .. } = &self.hold;
        if self.entered.is_inner() {
            let left = self.entered.leave(&cell.holds);
            let left = left.filter(|_| cell.is_held());
            return Err(Ok(left.map_or(Released::NotHeld, Released::StillHeld)));
        }
        let now = match self.leave(checked) {
            None => return Err(Ok(Released::NotHeld)),
            Some(Leaves::Forked) => return Err(Err(self.lost_error(LostCause::Forked))),
            Some(Leaves::At(now)) => now,
        };
        match self.return_to_next(now) {
            ReturnedTo::HandedOn => Err(Ok(Released::Freed)),
            ReturnedTo::ToServer(ReleaseBy::Caller { keep }) => Ok((Some(keep), now)),
            ReturnedTo::ToServer(ReleaseBy::Host) => {
                core.watchdog().nudge(cell.token());
                Ok((None, now))
            }
            ReturnedTo::ToServer(ReleaseBy::Nobody) => Err(Ok(Released::NotHeld)),
        }
    }

    /// The lock goes to the next waiter of this process, or its release is to be sent.
    fn return_to_next(&self, now: Moment) -> ReturnedTo {
        let Hold { core, cell, .. } = &self.hold;
        let of = (&cell.spec().queue_key, cell.token());
        let may_hand_on = self.may_be_handed_on();
        // Under the mutex: the cell's task must not report the end of a lease that is the next
        // holder's by then.
        let ended = || cell.hand_on();
        let returned = core.tell(now, |client, told| {
            client.give_back(of, may_hand_on, told, ended)
        });
        if returned == ReturnedTo::HandedOn {
            cell.notify();
        }
        returned
    }

    /// Gives the lock back in the background, from anywhere.
    pub(crate) fn abandon(&self) {
        self.parts().for_each(LockGuard::abandon_part);
    }

    fn abandon_part(&self) {
        if self.entered.is_inner() {
            self.entered.leave(&self.hold.cell.holds);
        } else if let Some(Leaves::At(now)) = self.leave(None) {
            let Hold { core, cell, .. } = &self.hold;
            let may_hand_on = self.may_be_handed_on();
            let of = (&cell.spec().queue_key, cell.token());
            let ended = || cell.hand_on();
            if core.tell(now, |client, told| {
                client.drop_hold(of, may_hand_on, told, ended)
            }) {
                cell.notify();
            }
        }
    }

    /// Marks the lock as given back; `None` if it was given back before.
    fn leave(&self, checked: Option<Moment>) -> Option<Leaves> {
        let Hold { core, cell, .. } = &self.hold;
        if cell.is_released() {
            return None; // each drop after a release comes here, and reads no clock
        }
        let now = match checked {
            Some(now) => Some(now),
            None if cell.is_inherited() => None,
            None => {
                let now = core.now();
                let _ = cell.why_lost_at(now); // tells observers, before it counts as released
                Some(now)
            }
        };
        if !cell.release() {
            return None;
        }
        let Some(now) = now else {
            return Some(Leaves::Forked);
        };
        if let Some(observed) = cell.observed() {
            let (asked, long) = (cell.spec().asked(), core.settings().observing.long_hold);
            let outcome = if cell.is_lost() {
                HoldOutcome::Lost
            } else if cell.must_stop() && checked.is_none() {
                HoldOutcome::Stopped
            } else {
                HoldOutcome::InTime
            };
            observed.ended(asked, self.hold.granted.until(now), outcome, long);
        }
        Some(Leaves::At(now))
    }

    /// Whether the next waiter here may have the lock. It may not if the server must be told of a
    /// `min_hold`, if a write may still come late, or if a strict release must know whether the
    /// lock was ours.
    fn may_be_handed_on(&self) -> bool {
        let cell = &self.hold.cell;
        let server_must_know = cell.spec().terms.bounds.min_hold.is_some()
            || cell.has_open_writes()
            || self.is_strict();
        !server_must_know
    }

    pub(crate) fn is_released_in_background(&self) -> bool {
        self.hold.spec().release == Release::Background
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.hold.spec().release == Release::Strict
    }

    /// Sends the release. Without a clear answer, the token has gone to the watchdog when this
    /// returns.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` holds its arguments twice"
    )]
    fn send_release(
        &self,
        keep: Keep,
        begun: Moment,
    ) -> impl Future<Output = Result<Found, CommandError>> + Send {
        async move {
            let mut unclear = Unclear {
                guard: self,
                settled: false,
            };
            // What outlives an `await` makes each release larger, so it is looked up again.
            let timeout = || self.hold.core.settings().command_timeout;
            let (link, now) = self
                .hold
                .core
                .backend()
                .link_at(begun, self.key().as_str(), timeout())
                .await?;
            let left = now.until(begun.plus(timeout()));
            let given_back = link.release(self.hold.claim(), keep, left).await?;
            let Hold { core, cell, .. } = &self.hold;
            // With something open at a node the lock is free, and the watchdog cleans up there.
            unclear.settled = !given_back.is_open;
            // It was sent once, so the lock was gone before; a release that is repeated may have found
            // it the first time.
            if !given_back.found {
                cell.was_gone();
            }
            if keep.records_a_run() && !given_back.is_recorded {
                observe::run_unrecorded(self.key().parts());
            }
            if !given_back.is_open {
                core.watchdog().released(cell);
            }
            Ok(given_back)
        }
    }

    /// Waits for the watchdog's release, whose own deadlines bound this; where there are timers, so
    /// does one `command_timeout` since the release `begun`.
    async fn wait_for_watchdog(&self, begun: Moment) -> Result<Released, LockError> {
        let freed = self.hold.cell.wait_freed();
        let Hold { core, .. } = &self.hold;
        let left = core
            .now()
            .until(begun.plus(core.settings().command_timeout));
        let found = match command_error::runtime_with_timers() {
            Ok(_) => tokio::time::timeout(left, freed).await.ok().flatten(),
            Err(_) => freed.await,
        };
        found.map(|found| self.released(found)).ok_or_else(|| {
            let source =
                Reason::new("the release is not confirmed yet, and continues in the background");
            core.error(CommandError::Unclear(source), Some(self.key()))
        })
    }

    fn answered(&self, answer: Result<Found, CommandError>) -> Result<Released, LockError> {
        answer.map(|found| self.released(found)).map_err(|error| {
            let core = &self.hold.core;
            let error = core.error(error, Some(self.key()));
            observe::release_unclear(self.key().parts(), &error, core.unclear_release());
            error
        })
    }

    fn released(&self, found: Found) -> Released {
        match found {
            Found { found: false, .. } => {
                observe::release_found_nothing(self.key().parts());
                Released::NotHeld
            }
            Found { rest: 0, .. } => Released::Freed,
            Found { rest, .. } => Released::StillHeld(rest),
        }
    }
}

/// An error and its source, in one line.
fn in_words(error: &LockError) -> Reason {
    match error.source() {
        Some(source) => Reason::new(format_args!("{error}: {source}")),
        None => Reason::new(error),
    }
}

/// A release under way: if it is dropped before it is settled, the watchdog finishes it.
struct Unclear<'a> {
    guard: &'a LockGuard,
    settled: bool,
}

impl Drop for Unclear<'_> {
    fn drop(&mut self) {
        if !self.settled && !self.guard.hold.cell.is_inherited() {
            self.guard
                .hold
                .core
                .watchdog()
                .leave_to_clean_up(self.guard.hold.token());
        }
    }
}
