//! The driver of a gate: whether there is one, and what it has to do next.

use std::time::Duration;

use super::{Attempt, LocalQueue, Next, Remote};
use crate::values::moment::Moment;

/// Whoever does not take what is offered for so long does not hear: nobody polls it. The next one gets it.
const PATIENCE: Duration = Duration::from_secs(1);

impl<W> LocalQueue<W> {
    /// Takes the driver's part, if nobody has it and somebody waits.
    pub(crate) fn become_leader(&mut self) -> bool {
        let free = !self.has_leader && !self.fifo.is_empty();
        self.has_leader |= free;
        free
    }

    /// The driver is gone; whoever waits has to be told.
    pub(crate) fn leader_gone(&mut self) {
        self.has_leader = false;
    }

    /// Takes the driver's part from one that shows no sign of life. An acquire of its that is on its way
    /// has to be cleaned up after.
    pub(crate) fn take_over_lead(&mut self) -> Option<Attempt> {
        self.has_leader = true;
        let Remote::Acquiring(attempt) = &self.remote else {
            return None;
        };
        let attempt = attempt.clone();
        self.remote = Remote::vacant(Moment::from_nanos(0));
        Some(attempt)
    }

    /// What the driver has to do now.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
        if self.fifo.is_empty() {
            self.has_leader = false;
            return Next::Rest;
        }
        match &self.remote {
            Remote::Held(..) | Remote::Vacant { .. } if self.first_responsive().is_none() => {
                Next::Sleep(Moment::NEVER)
            }
            Remote::Held(_, grant) => grant
                .handed_on_until(now)
                .map_or(Next::Acquire, Next::Sleep),
            Remote::Vacant { not_before } if *not_before <= now => Next::Acquire,
            Remote::Vacant { not_before } => Next::Sleep(*not_before),
            Remote::Queued { attempt, poll } if *poll <= now => Next::Poll(attempt.clone()),
            Remote::Queued { poll, .. } => Next::Sleep(*poll),
            Remote::Granted(attempt, grant) if grant.deadline() <= now => {
                let attempt = attempt.clone();
                (self.remote, self.turn) = (Remote::vacant(now), None);
                Next::GiveUp(attempt)
            }
            Remote::Granted(_, grant) => {
                // Whoever takes it rings no bell while it may be handed on.
                let end = grant.handed_on_until(now).unwrap_or(grant.deadline());
                self.watch_the_turn(now, end)
            }
            Remote::Acquiring(_) => Next::Sleep(Moment::NEVER),
        }
    }

    /// Whoever lets its turn pass is passed over until it is heard of again.
    fn watch_the_turn(&mut self, now: Moment, end: Moment) -> Next {
        match &mut self.turn {
            Some((waiter_id, Some(until))) if *until <= now => {
                self.unresponsive.insert(*waiter_id);
                match self.wanted_by_somebody() {
                    Some(attempt) => Next::GiveUp(attempt),
                    None => Next::PassOn,
                }
            }
            Some((_, until)) => {
                let until = *until.get_or_insert(now.plus(PATIENCE));
                Next::Sleep(until.min(end))
            }
            None => Next::Sleep(end),
        }
    }

    /// Nobody would miss this gate.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_at_rest() && matches!(self.remote, Remote::Vacant { .. })
    }

    /// The same at a given moment: of a lock that is held it knows only that it may be handed on, and for how long.
    pub(crate) fn is_idle_at(&self, now: Moment) -> bool {
        let is_kept = matches!(self.remote, Remote::Held(..)) && !self.may_be_handed_on(now);
        self.is_idle() || self.is_at_rest() && is_kept
    }

    fn is_at_rest(&self) -> bool {
        self.fifo.is_empty() && !self.has_leader
    }
}
