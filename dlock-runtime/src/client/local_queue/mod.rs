//! The local queue of one key: the waiters of this process, and what it has at the server for them.
//!
//! ```text
//!            acquiring           queued                granted (push, poll)
//! Vacant ───────────▶ Acquiring ────────▶ Queued ──────────────────────────┐
//!   ▲  ▲                │ │ granted                                        ▼
//!   │  └ nothing created┘ └───────────────────────────────────────────▶ Granted
//!   │       entry gone; no waiter left: given up                         │   │
//!   ├───────────────◀────────────────────────────────── stale, given up ─┘ ▲ │ taken
//!   │                                                          handed on   │ ▼
//!   └──────────────────────────── left ─────────────────────────────────── Held
//! ```
//! Invariants:
//!
//! - At most one token of the queue is at the server and not held. When it is granted, it goes to
//!   the first responsive waiter, whichever waiter's acquire it was.
//! - Waiters stand in order of arrival. A waiter that does not claim its grant keeps its waiter id
//!   and blocks no other.
//! - While somebody waits, there is a leader, or all waiters were woken.
//! - A token that leaves without being taken is returned to the caller, who cleans up after it.
//! - A lock is handed on only within the bounds of its grant.
//!
//! Never in this folder: when a lease ends (`lease`, `tokens`; a grant carries its length), a
//! server (`rules`), a waker.

mod fifo;
mod handoff;
mod next_step;
mod remote;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::token::Token;

pub(crate) use self::fifo::Fifo;
pub(crate) use self::remote::{Grant, GrantKind, Remote};

/// At most one hint counts within this time.
const HINTS_APART: Duration = Duration::from_millis(100);

/// A waiter's number; smaller numbers came first.
pub(crate) type WaiterId = u64;

/// One key; `W` is what the host knows about a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LocalQueue<W> {
    fifo: Fifo<W>,
    last_waiter_id: WaiterId,
    remote: Remote,
    /// The command under way may have missed something: poll again at this time, whatever it
    /// answers.
    again: Option<Moment>,
    /// The next hint about our attempt takes effect no earlier.
    next_hint: Moment,
    /// A node's hint takes effect no earlier.
    next_freed: Moment,
    /// The next poll is likely to find a grant, so it is sent alone and not batched.
    flushes_early: bool,
    /// The waiter whose turn it is while the lock is granted, and until when it must claim it.
    turn: Option<(WaiterId, Option<Moment>)>,
    /// Waiters that did not claim their grant, until they respond again.
    unresponsive: BTreeSet<WaiterId>,
    /// A task carries out what [`LocalQueue::next`] says.
    has_leader: bool,
}

/// What the leader must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaderStep {
    /// Send an acquire for the first waiter.
    Acquire,
    /// Poll for this token.
    Poll(Token),
    /// Clean up after this token: it was granted, but its lease is over or no waiter responds.
    GiveUp(Token),
    /// The waiter whose turn it was is unresponsive: wake the next one.
    PassOn,
    /// Sleep until then.
    Sleep(Moment),
    /// Nothing any more: the leader's work is over.
    Rest,
}

/// What a message about a token led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageOutcome {
    /// The queue has recorded it; the waiter whose turn it is must be woken.
    Taken,
    /// No waiter is left: the token must be cleaned up.
    Unwanted(Token),
    /// It is not about our attempt.
    NotOurs,
}

/// What a waiter got that looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TakenTurn {
    /// It is not this waiter's turn.
    Wait,
    /// The lock is this waiter's, and it has left the queue.
    Yours(Token, Grant),
    /// It was this waiter's turn, but the lease was over: the token must be cleaned up.
    Stale(Token),
}

impl<W> Default for LocalQueue<W> {
    fn default() -> Self {
        Self {
            fifo: Fifo::default(),
            last_waiter_id: 0,
            remote: Remote::vacant(Moment::from_nanos(0)),
            again: None,
            next_hint: Moment::from_nanos(0),
            next_freed: Moment::from_nanos(0),
            flushes_early: false,
            turn: None,
            unresponsive: BTreeSet::new(),
            has_leader: false,
        }
    }
}

/// The waiters.
impl<W> LocalQueue<W> {
    /// A new waiter enters at the end.
    pub(crate) fn enter(&mut self, waiter: W) -> WaiterId {
        self.last_waiter_id += 1;
        self.fifo.push(self.last_waiter_id, waiter);
        self.last_waiter_id
    }

    /// A waiter leaves, with or without the lock. Its grant goes to the next waiter; if no waiter
    /// is left, the token is returned and must be cleaned up. An acquire under way stays: a
    /// waiter that enters meanwhile inherits it.
    pub(crate) fn leave(&mut self, waiter_id: WaiterId) -> Option<Token> {
        self.fifo.remove(waiter_id);
        self.unresponsive.remove(&waiter_id);
        if self.fifo.is_empty() {
            return self.vacate();
        }
        if self.turn.is_some_and(|(whose, _)| whose == waiter_id) {
            self.turn = None;
            return self.offer_to_first();
        }
        None
    }

    /// Rejects all waiters.
    pub(crate) fn clear(&mut self) -> (Fifo<W>, Option<Token>) {
        self.unresponsive.clear();
        (std::mem::take(&mut self.fifo), self.vacate())
    }

    /// Takes the lock, if it is granted and this waiter's turn.
    pub(crate) fn take_turn(&mut self, waiter_id: WaiterId, now: Moment) -> TakenTurn {
        if self.turn.is_none_or(|(whose, _)| whose != waiter_id) {
            return TakenTurn::Wait;
        }
        let Remote::Granted(token, grant) = self.remote else {
            return TakenTurn::Wait;
        };
        self.turn = None;
        if now >= grant.deadline() {
            self.remote = Remote::vacant(now);
            return TakenTurn::Stale(token);
        }
        self.fifo.remove(waiter_id);
        self.remote = if self.fifo.is_empty() || grant.handed_on_until(now).is_some() {
            Remote::Held(token, grant)
        } else {
            Remote::vacant(now)
        };
        TakenTurn::Yours(token, grant)
    }

    pub(crate) fn waiter(&mut self, waiter_id: WaiterId) -> Option<&mut W> {
        self.fifo.get_mut(waiter_id)
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.fifo.waiters()
    }

    pub(crate) fn waiters_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.fifo.waiters_mut()
    }

    /// The first responsive waiter.
    pub(crate) fn first(&self) -> Option<&W> {
        self.fifo.get(self.first_responsive()?)
    }

    /// The waiter whose turn it is.
    #[cfg(test)]
    pub(crate) fn called(&self) -> Option<&W> {
        self.fifo.get(self.turn?.0)
    }

    /// The waiter whose turn it is.
    pub(crate) fn called_mut(&mut self) -> Option<&mut W> {
        self.fifo.get_mut(self.turn?.0)
    }

    /// A waiter responds. Returns whether it was marked unresponsive, so that there is more to do
    /// now.
    pub(crate) fn mark_responsive(&mut self, waiter_id: WaiterId) -> bool {
        self.unresponsive.remove(&waiter_id)
    }

    fn first_responsive(&self) -> Option<WaiterId> {
        let mut waiter_ids = self.fifo.waiter_ids();
        waiter_ids.find(|waiter_id| !self.unresponsive.contains(waiter_id))
    }

    pub(crate) fn has_waiters(&self) -> bool {
        !self.fifo.is_empty()
    }
}

/// What the process has at the server.
impl<W> LocalQueue<W> {
    /// Whether an acquire may be sent. Check again after [`LeaderStep::Acquire`]: the lock may have been
    /// handed on meanwhile.
    pub(crate) fn may_acquire(&self) -> bool {
        matches!(self.remote, Remote::Vacant { .. } | Remote::Held(..))
    }

    /// An acquire is sent; only after [`LeaderStep::Acquire`], and if it still may.
    pub(crate) fn acquiring(&mut self, token: Token) {
        debug_assert!(self.may_acquire(), "one entry at a time");
        self.again = None;
        self.next_hint = Moment::from_nanos(0); // hints about an earlier attempt don't count
        self.flushes_early = false;
        self.remote = Remote::Acquiring(token);
    }

    /// The acquire or a poll says that we are in the server's queue. `poll`: when to poll next.
    pub(crate) fn queued(&mut self, token: Token, poll: Moment) -> MessageOutcome {
        if !self.awaits(token) {
            return MessageOutcome::NotOurs;
        }
        let poll = self.again.take().map_or(poll, |again| again.min(poll));
        self.remote = Remote::Queued { token, poll };
        self.offer()
    }

    /// The lock is ours: an answer or a push says so. The first notification wins.
    pub(crate) fn granted(&mut self, token: Token, grant: Grant) -> MessageOutcome {
        if !self.awaits(token) {
            return MessageOutcome::NotOurs;
        }
        self.remote = Remote::Granted(token, grant);
        self.turn = None;
        self.offer()
    }

    /// Nothing of the token is ours any more, or it is being cleaned up: its acquire created
    /// nothing or got no clear answer, or the server's queue has lost it. `false`: it is not about
    /// our attempt, so the caller must leave the token alone.
    pub(crate) fn ended(&mut self, token: Token, not_before: Moment) -> bool {
        let is_ours = self.awaits(token);
        if is_ours {
            self.remote = Remote::Vacant { not_before };
        }
        is_ours
    }

    /// Whether this is our token, and not granted yet.
    pub(crate) fn awaits(&self, token: Token) -> bool {
        matches!(self.remote, Remote::Acquiring(ours) | Remote::Queued { token: ours, .. } if ours == token)
    }

    /// The holder in this process no longer has the lock.
    pub(crate) fn left(&mut self, token: Token, now: Moment) {
        if matches!(self.remote, Remote::Held(ours, _) if ours == token) {
            self.remote = Remote::vacant(now);
        }
    }

    /// Sends no acquire before then, unless [`LocalQueue::poll_now`] is called. This holds also
    /// while a waiter of this process holds the lock, or a server that is down would get commands
    /// without a pause.
    pub(crate) fn pause(&mut self, until: Moment) {
        if let Remote::Vacant { .. } | Remote::Held(..) = self.remote {
            self.remote = Remote::vacant(until);
        }
    }

    /// The same, unless a message came while the acquire was under way that may be news to it.
    /// Nodes' hints take effect no earlier than `next_freed`.
    pub(crate) fn pause_unless_told(&mut self, until: Moment, next_freed: Moment) {
        self.next_freed = next_freed;
        let at_once = Moment::from_nanos(0); // not a hint: the connection ended
        let told = self.again.take();
        let told = told.map(|it| {
            if it == at_once {
                it
            } else {
                it.max(next_freed)
            }
        });
        self.pause(told.map_or(until, |told| told.min(until)));
    }

    /// A node says that the lock is free there, so it is asked for again: not for each message, if
    /// those before were false. Returns whether the leader has something to do.
    pub(crate) fn freed(&mut self, now: Moment) -> bool {
        let at = now.max(self.next_freed);
        match &mut self.remote {
            Remote::Vacant { not_before } if *not_before > at => *not_before = at,
            Remote::Acquiring(_) => self.again = Some(self.again.map_or(at, |it| it.min(at))),
            _ => return false,
        }
        true
    }

    /// Polls for our attempt now, because a message may have been missed.
    pub(crate) fn poll_now(&mut self, now: Moment) {
        match &mut self.remote {
            Remote::Queued { poll, .. } => *poll = (*poll).min(now),
            Remote::Vacant { not_before } => return *not_before = (*not_before).min(now),
            Remote::Acquiring(_) => self.again = Some(Moment::from_nanos(0)),
            Remote::Granted(..) | Remote::Held(..) => return,
        }
        self.flushes_early = true;
    }

    /// A push says that our attempt was granted. The message may be forged, so the server is
    /// polled: at most once per [`HINTS_APART`], so that a forger cannot make us send a command for
    /// each message; and in a batch with other polls, except for the attempt's first hint, because
    /// a poll costs the server a hundred times what such a message does. Returns whether the leader
    /// has something to do.
    pub(crate) fn hint(&mut self, now: Moment) -> bool {
        let at = now.max(self.next_hint);
        let is_first = self.next_hint == Moment::from_nanos(0);
        match &mut self.remote {
            Remote::Queued { poll, .. } if *poll > at => *poll = at,
            Remote::Queued { poll, .. } if *poll > now => return false, // a poll is due before that
            // A poll under way may have been executed before the grant that this hint is about.
            Remote::Acquiring(_) | Remote::Queued { .. } if self.again.is_none_or(|it| it > at) => {
                self.again = Some(at);
            }
            _ => return false,
        }
        self.next_hint = at.plus(HINTS_APART);
        self.flushes_early |= is_first;
        true
    }

    /// The next poll is sent alone.
    pub(crate) fn flush_early(&mut self) {
        self.flushes_early = true;
    }

    /// Whether the next poll is sent alone and not batched.
    pub(crate) fn take_early_flush(&mut self) -> bool {
        std::mem::take(&mut self.flushes_early)
    }

    #[cfg(test)]
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// For a known-bad variant.
    #[cfg(test)]
    pub(crate) fn grant_mut(&mut self) -> Option<&mut Grant> {
        match &mut self.remote {
            Remote::Granted(_, grant) => Some(grant),
            _ => None,
        }
    }

    /// Gives up an attempt that no waiter wants.
    fn vacate(&mut self) -> Option<Token> {
        self.turn = None;
        let (Remote::Queued { token, .. } | Remote::Granted(token, _)) = self.remote else {
            return None;
        };
        self.remote = Remote::vacant(Moment::from_nanos(0));
        Some(token)
    }

    /// A grant goes to the first waiter that responds.
    fn offer(&mut self) -> MessageOutcome {
        let unwanted = if self.fifo.is_empty() {
            self.vacate()
        } else {
            self.offer_to_first()
        };
        unwanted.map_or(MessageOutcome::Taken, MessageOutcome::Unwanted)
    }

    /// Gives the turn to the first responsive waiter. Returns the token if there is none: it is given
    /// up.
    fn offer_to_first(&mut self) -> Option<Token> {
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
