//! The leader of a local queue: whether there is one, and what it must do next.
//!
//! The leader is the task that sends the queue's acquires and polls (`driver/waiting/leader`). This
//! file decides what it sends next. Invariant: a queue without waiters has no leader after
//! [`LocalQueue::next`].

use std::time::Duration;

use super::{LeaderStep, LocalQueue, Remote};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// A waiter that has not claimed its grant within this time is unresponsive: its task is not
/// polled. The next waiter gets the grant.
const RESPONDS_WITHIN: Duration = Duration::from_secs(1);

impl<W> LocalQueue<W> {
    /// Takes the lead, if it is free and somebody waits.
    pub(crate) fn become_leader(&mut self) -> bool {
        let free = !self.has_leader && !self.fifo.is_empty();
        self.has_leader |= free;
        free
    }

    /// The leader is gone; the caller must wake the waiters.
    pub(crate) fn leader_gone(&mut self) {
        self.has_leader = false;
    }

    /// Takes the lead from a leader that shows no sign of life. Returns its acquire that is under
    /// way, which must be cleaned up.
    pub(crate) fn take_over_lead(&mut self) -> Option<Token> {
        self.has_leader = true;
        let Remote::Acquiring(token) = self.remote else {
            return None;
        };
        self.remote = Remote::vacant(Moment::from_nanos(0));
        Some(token)
    }

    /// What the leader must do now.
    pub(crate) fn next(&mut self, now: Moment) -> LeaderStep {
        if self.fifo.is_empty() {
            self.has_leader = false;
            return LeaderStep::Rest;
        }
        match self.remote {
            Remote::Held(..) | Remote::Vacant { .. } if self.first_responsive().is_none() => {
                LeaderStep::Sleep(Moment::NEVER)
            }
            Remote::Held(_, grant) => grant
                .handed_on_until(now)
                .map_or(LeaderStep::Acquire, LeaderStep::Sleep),
            Remote::Vacant { not_before } if not_before <= now => LeaderStep::Acquire,
            Remote::Vacant { not_before } => LeaderStep::Sleep(not_before),
            Remote::Queued { token, poll } if poll <= now => LeaderStep::Poll(token),
            Remote::Queued { poll, .. } => LeaderStep::Sleep(poll),
            Remote::Granted(token, grant) if grant.deadline() <= now => {
                (self.remote, self.turn) = (Remote::vacant(now), None);
                LeaderStep::GiveUp(token)
            }
            Remote::Granted(_, grant) => {
                // A waiter that takes the grant does not wake the leader while it may be handed
                // on.
                let end = grant.handed_on_until(now).unwrap_or(grant.deadline());
                self.watch_the_turn(now, end)
            }
            Remote::Acquiring(_) => LeaderStep::Sleep(Moment::NEVER),
        }
    }

    /// Marks a waiter that lets its turn pass as unresponsive, until it responds again.
    fn watch_the_turn(&mut self, now: Moment, end: Moment) -> LeaderStep {
        match &mut self.turn {
            Some((waiter_id, Some(until))) if *until <= now => {
                self.unresponsive.insert(*waiter_id);
                match self.offer_to_first() {
                    Some(token) => LeaderStep::GiveUp(token),
                    None => LeaderStep::PassOn,
                }
            }
            Some((_, until)) => {
                let until = *until.get_or_insert(now.plus(RESPONDS_WITHIN));
                LeaderStep::Sleep(until.min(end))
            }
            None => LeaderStep::Sleep(end),
        }
    }

    /// Whether the queue has no state left and can be removed.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_at_rest() && matches!(self.remote, Remote::Vacant { .. })
    }

    /// Whether it can be removed at `now`. A held lock is kept here only to be handed on, so it
    /// does not count once it may not be.
    pub(crate) fn is_idle_at(&self, now: Moment) -> bool {
        let is_kept = matches!(self.remote, Remote::Held(..)) && !self.may_be_handed_on(now);
        self.is_idle() || self.is_at_rest() && is_kept
    }

    fn is_at_rest(&self) -> bool {
        self.fifo.is_empty() && !self.has_leader
    }
}
