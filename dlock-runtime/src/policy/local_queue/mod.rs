//! One key in one process: who waits here, and the one place that the process has at the server.
//!
//! ```text
//!            asking              queued                granted (push, poll)
//! Vacant ───────────▶ Asking ───────────▶ Queued ──────────────────────────┐
//!   ▲  ▲                │ │ granted                                        ▼
//!   │  └─ nothing came ─┘ └───────────────────────────────────────────▶ Offered
//!   │       of it; gone; nobody waits any more: given up                 │   │
//!   ├───────────────◀────────────────────────────────── stale, given up ─┘ ▲ │ taken
//!   │                                                          handed on   │ ▼
//!   └──────────────────────────── left ─────────────────────────────────── Held
//! ```
//! Invariants:
//!
//! - At most one token of the queue is at the server and not held. When it is granted, it goes to the first waiter that
//!   responds, even if another one's acquire asked for it.
//! - Waiters stand in order of arrival. One that does not take what is offered keeps its seat and stops nobody.
//! - While somebody waits, there is a driver, or everybody was told that there is none.
//! - A token that leaves without being taken is named to the caller, who cleans up after it.
//! - A lock is handed on within the bounds of its grant only.
//!
//! Never in this folder: when a lease ends (`lease`, `tokens`; what is offered carries its length), a server (`server`), a waker.

mod fifo;
mod handoff;
mod leading;
mod remote;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::fifo::Fifo;
pub(crate) use self::remote::{Attempt, Grant, GrantKind, Remote};

/// Hints closer together are one.
const HINTS_APART: Duration = Duration::from_millis(100);

/// A waiter's number; the smaller came first.
pub(crate) type WaiterId = u64;

/// One key; `W` is what the host knows of a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LocalQueue<W> {
    fifo: Fifo<W>,
    last_waiter_id: WaiterId,
    remote: Remote,
    /// Something may have been missed by the command that is on its way: whatever it answers, the server is asked again then.
    again: Option<Moment>,
    /// A hint about the place that we have counts from then on.
    next_hint: Moment,
    /// The next poll is for something that may well be so, and goes out by itself.
    flushes_early: bool,
    /// Whose turn it is while the lock is offered, and until when it may take its time.
    turn: Option<(WaiterId, Option<Moment>)>,
    /// Those who did not take their turn, until they are heard of again.
    unresponsive: BTreeSet<WaiterId>,
    /// Somebody carries out what [`LocalQueue::next`] says.
    has_leader: bool,
}

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Send an acquire for the first in line.
    Acquire,
    /// Send a poll for this place.
    Poll(Attempt),
    /// Clean up after this token: it was offered, and its lease is over, or nobody hears.
    GiveUp(Attempt),
    /// Whose turn it was does not hear: wake whose turn it is now.
    PassOn,
    /// Nothing until then.
    Sleep(Moment),
    /// Nothing any more: the driver is dismissed.
    Rest,
}

/// What became of news about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The place has taken it in; the first in line is to be told.
    Taken,
    /// Nobody waits any more: the token has to be cleaned up.
    Unwanted(Attempt),
    /// It is not about the place that we have.
    NotOurs,
}

/// What somebody in line finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is not this one's turn.
    Wait,
    /// The lock is this one's, and it has left the line.
    Yours(Attempt, Grant),
    /// It was this one's turn, but the lease was over: this token has to be cleaned up.
    Stale(Attempt),
}

impl<W> Default for LocalQueue<W> {
    fn default() -> Self {
        Self {
            fifo: Fifo::default(),
            last_waiter_id: 0,
            remote: Remote::vacant(Moment::from_nanos(0)),
            again: None,
            next_hint: Moment::from_nanos(0),
            flushes_early: false,
            turn: None,
            unresponsive: BTreeSet::new(),
            has_leader: false,
        }
    }
}

/// The line.
impl<W> LocalQueue<W> {
    /// Somebody comes to wait.
    pub(crate) fn enter(&mut self, waiter: W) -> WaiterId {
        self.last_waiter_id += 1;
        self.fifo.push(self.last_waiter_id, waiter);
        self.last_waiter_id
    }

    /// Somebody stops waiting, with or without the lock. What was offered goes to the next in line; with
    /// nobody left, the token of the place has to be cleaned up. An acquire on its way is waited for: who
    /// comes meanwhile inherits it.
    pub(crate) fn leave(&mut self, waiter_id: WaiterId) -> Option<Attempt> {
        self.fifo.remove(waiter_id);
        self.unresponsive.remove(&waiter_id);
        if self.fifo.is_empty() {
            return self.vacate();
        }
        if self.turn.is_some_and(|(whose, _)| whose == waiter_id) {
            self.turn = None;
            return self.wanted_by_somebody();
        }
        None
    }

    /// Everybody is sent away.
    pub(crate) fn clear(&mut self) -> (Fifo<W>, Option<Attempt>) {
        self.unresponsive.clear();
        (std::mem::take(&mut self.fifo), self.vacate())
    }

    /// Looks whether the lock is this one's by now.
    pub(crate) fn look(&mut self, waiter_id: WaiterId, now: Moment) -> Look {
        if self.turn.is_none_or(|(whose, _)| whose != waiter_id) {
            return Look::Wait;
        }
        let (attempt, grant) = match std::mem::replace(&mut self.remote, Remote::vacant(now)) {
            Remote::Granted(attempt, grant) => (attempt, grant),
            kept => {
                self.remote = kept;
                return Look::Wait;
            }
        };
        self.turn = None;
        if now >= grant.deadline() {
            return Look::Stale(attempt);
        }
        self.fifo.remove(waiter_id);
        if self.fifo.is_empty() || grant.handed_on_until(now).is_some() {
            self.remote = Remote::Held(attempt.clone(), grant);
        }
        Look::Yours(attempt, grant)
    }

    pub(crate) fn waiter(&mut self, waiter_id: WaiterId) -> Option<&mut W> {
        self.fifo.get_mut(waiter_id)
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.fifo.waiters()
    }

    /// The first in line that hears.
    pub(crate) fn first(&self) -> Option<&W> {
        self.fifo.get(self.first_responsive()?)
    }

    /// Whose turn it is.
    pub(crate) fn called(&self) -> Option<&W> {
        self.fifo.get(self.turn?.0)
    }

    /// Somebody is heard of; whether it had been taken for deaf, so that there is more to do now.
    pub(crate) fn responds(&mut self, waiter_id: WaiterId) -> bool {
        self.unresponsive.remove(&waiter_id)
    }

    fn first_responsive(&self) -> Option<WaiterId> {
        let mut waiter_ids = self.fifo.waiter_ids();
        waiter_ids.find(|waiter_id| !self.unresponsive.contains(waiter_id))
    }

    pub(crate) fn is_waited_at(&self) -> bool {
        !self.fifo.is_empty()
    }
}

/// The place.
impl<W> LocalQueue<W> {
    /// Whether an acquire may go out: also after [`Next::Acquire`] the place may have been offered to somebody meanwhile.
    pub(crate) fn may_acquire(&self) -> bool {
        matches!(self.remote, Remote::Vacant { .. } | Remote::Held(..))
    }

    /// An acquire goes out; only after [`Next::Acquire`], and if it still may.
    pub(crate) fn acquiring(&mut self, attempt: Attempt) {
        debug_assert!(self.may_acquire(), "one place at a time");
        self.again = None;
        self.next_hint = Moment::from_nanos(0); // what was said of another place is no reason to wait
        self.flushes_early = false;
        self.remote = Remote::Acquiring(attempt);
    }

    /// The acquire or a poll says: in the queue. `poll`: when to ask again.
    pub(crate) fn queued(&mut self, token: Token, poll: Moment) -> Outcome {
        let (Remote::Acquiring(attempt) | Remote::Queued { attempt, .. }) = &self.remote else {
            return Outcome::NotOurs;
        };
        if attempt.token != token {
            return Outcome::NotOurs;
        }
        let attempt = attempt.clone();
        let poll = self.again.take().map_or(poll, |again| again.min(poll));
        self.remote = Remote::Queued { attempt, poll };
        self.wanted()
    }

    /// The lock is ours: an answer or a push says so. The first word counts.
    pub(crate) fn granted(&mut self, token: Token, grant: Grant) -> Outcome {
        match std::mem::replace(&mut self.remote, Remote::vacant(Moment::from_nanos(0))) {
            Remote::Acquiring(attempt) | Remote::Queued { attempt, .. }
                if attempt.token == token =>
            {
                self.remote = Remote::Granted(attempt, grant);
                self.turn = None;
                self.wanted()
            }
            kept => {
                self.remote = kept;
                Outcome::NotOurs
            }
        }
    }

    /// Nothing of the token is ours any more, or somebody cleans up after it: nothing was created, the
    /// acquire's fate is open, or the queue has lost it. `false` when it is not about our place, so that
    /// whoever says so must leave the token alone.
    pub(crate) fn ended(&mut self, token: Token, not_before: Moment) -> bool {
        let (Remote::Acquiring(attempt) | Remote::Queued { attempt, .. }) = &self.remote else {
            return false;
        };
        let ours = attempt.token == token;
        if ours {
            self.remote = Remote::Vacant { not_before };
        }
        ours
    }

    /// Whether this value is at our place, waiting to be granted.
    pub(crate) fn awaits(&self, value: &str) -> Option<Token> {
        let (Remote::Acquiring(attempt) | Remote::Queued { attempt, .. }) = &self.remote else {
            return None;
        };
        (*attempt.claim.value == *value).then_some(attempt.token)
    }

    /// The holder in this process has it no longer.
    pub(crate) fn left(&mut self, token: Token, now: Moment) {
        if matches!(&self.remote, Remote::Held(attempt, _) if attempt.token == token) {
            self.remote = Remote::vacant(now);
        }
    }

    /// No acquire before then, unless somebody hurries; also while one of this process holds the lock, or
    /// a server that is down would be asked without a pause.
    pub(crate) fn pause(&mut self, until: Moment) {
        if let Remote::Vacant { .. } | Remote::Held(..) = self.remote {
            self.remote = Remote::vacant(until);
        }
    }

    /// Asks what became of the place at once: something may have been missed.
    pub(crate) fn poll_now(&mut self, now: Moment) {
        match &mut self.remote {
            Remote::Queued { poll, .. } => *poll = (*poll).min(now),
            Remote::Vacant { not_before } => return *not_before = (*not_before).min(now),
            Remote::Acquiring(_) => self.again = Some(Moment::from_nanos(0)),
            Remote::Granted(..) | Remote::Held(..) => return,
        }
        self.flushes_early = true;
    }

    /// Somebody says that the place was granted, which may not be so: the server is asked, ten times a second at most, so that
    /// who may say such things can't make us send a command for each; and but for the first time of a place together with those
    /// of others, for a poll costs the server a hundred times what such a message does. Whether there is anything to do because of it.
    pub(crate) fn hint(&mut self, now: Moment) -> bool {
        let at = now.max(self.next_hint);
        let is_first = self.next_hint == Moment::from_nanos(0);
        match &mut self.remote {
            Remote::Queued { poll, .. } if *poll > at => *poll = at,
            Remote::Queued { poll, .. } if *poll > now => return false, // it is asked before
            // A poll may be on its way, and may have been executed before what is said now.
            Remote::Acquiring(_) | Remote::Queued { .. } if self.again.is_none_or(|it| it > at) => {
                self.again = Some(at);
            }
            _ => return false,
        }
        self.next_hint = at.plus(HINTS_APART);
        self.flushes_early |= is_first;
        true
    }

    /// Whether the poll that goes out now goes by itself, and not with those of others.
    pub(crate) fn polls_by_itself(&mut self) -> bool {
        std::mem::take(&mut self.flushes_early)
    }

    #[cfg(test)]
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Gives up what nobody waits for.
    fn vacate(&mut self) -> Option<Attempt> {
        self.turn = None;
        match std::mem::replace(&mut self.remote, Remote::vacant(Moment::from_nanos(0))) {
            Remote::Queued { attempt, .. } | Remote::Granted(attempt, _) => Some(attempt),
            kept => {
                self.remote = kept;
                None
            }
        }
    }

    fn wanted(&mut self) -> Outcome {
        let unwanted = if self.fifo.is_empty() {
            self.vacate()
        } else {
            self.wanted_by_somebody()
        };
        unwanted.map_or(Outcome::Taken, Outcome::Unwanted)
    }

    /// An offer without a turn is the first one's who hears; with nobody who does, it is given up.
    fn wanted_by_somebody(&mut self) -> Option<Attempt> {
        if !matches!(self.remote, Remote::Granted(..)) {
            return None;
        }
        self.turn = self.first_responsive().map(|waiter_id| (waiter_id, None));
        if self.turn.is_some() {
            return None;
        }
        self.vacate()
    }
}
