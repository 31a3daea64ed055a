//! Read-only views of a process: what it would do next, and what it has.

use super::host::queue_key;
use super::mutants::Mutant;
use super::process::{Body, Contender, Fence, Leader, Phase, Process, Queue};
use super::run::Run;
use super::world::{Answer, Wire};
use crate::client::local_queue::{LeaderStep, Remote, TakenTurn};
use crate::client::tokens::Census;
use crate::rules::commands::{Acquired, Polled};
use crate::values::moment::Moment;

impl Process {
    /// Whether a check would tell this waiter anything.
    pub(super) fn can_check(&self, who: usize, now: Moment) -> bool {
        let Phase::Queue(waiter_id) = self.contenders[who].phase else {
            return false;
        };
        if !self.is_driven() {
            return true;
        }
        let Some(queue) = self.queue() else {
            return false;
        };
        let is_called = queue.called().is_some_and(|it| it.request.who == who);
        is_called
            && matches!(queue.remote(), Remote::Granted(..))
            && queue.clone().take_turn(waiter_id, now) != TakenTurn::Wait
    }

    /// Its one queue; `None` while nobody waits and nothing is at the server for it.
    pub(super) fn queue(&self) -> Option<&Queue> {
        Some(&self.client.queues.by_key.get(&queue_key())?.queue)
    }

    pub(super) fn remote(&self) -> Option<&Remote> {
        Some(self.queue()?.remote())
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.queue().is_some_and(Queue::has_waiters)
    }

    /// What the leader would do; `None` while it waits for something.
    pub(super) fn leads_next(&self, run: &Run, now: Moment) -> Option<LeaderStep> {
        if !self.is_driven() || self.leader != Leader::Idle {
            return None;
        }
        let next = self.queue()?.clone().next(now);
        let polls = matches!(next, LeaderStep::Poll(_));
        (!polls || !run.is(Mutant::NoPoll)).then_some(next)
    }

    /// The machine does not say whether it has a leader; but it gives the lead only if it is free.
    pub(super) fn is_driven(&self) -> bool {
        let Some(queue) = self.queue() else {
            return false;
        };
        if queue.has_waiters() {
            !queue.clone().become_leader()
        } else {
            // No waiters: only a leader that has not noticed that yet keeps an empty queue from
            // being idle.
            matches!(queue.remote(), Remote::Vacant { .. })
        }
    }

    /// Everything of this process has come to its end.
    pub(super) fn is_at_rest(&self) -> bool {
        self.wants_nothing()
            && self.client.tokens.census() == Census::default()
            && self.commands == Wire::default()
            && self.watchdog == Wire::default()
            && self.pushes.is_empty()
            && self.queue().is_none_or(Queue::is_idle)
    }

    /// This process has no waiters and no holders.
    pub(super) fn wants_nothing(&self) -> bool {
        let is_done = |it: &Contender| matches!(it.phase, Phase::Done | Phase::Idle);
        self.contenders.iter().all(is_done)
    }

    pub(super) fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.contenders.iter().filter_map(|it| match &it.phase {
            Phase::Body(body) => Some(body),
            _ => None,
        })
    }

    /// Every grant that may yet become a fence.
    pub(super) fn fences(&self, mut tell: impl FnMut(Fence)) {
        if let Some(Remote::Granted(_, grant) | Remote::Held(_, grant)) = self.remote() {
            tell((grant.epoch, grant.chain.index));
        }
        for push in &self.pushes {
            tell((push.epoch, 0));
        }
        for reply in &self.commands.back {
            match reply.answer {
                Answer::Acquired(
                    Acquired::Granted { epoch, .. } | Acquired::Yours { epoch, .. },
                )
                | Answer::Polled(Polled::Yours { epoch, .. }) => tell((epoch, 0)),
                _ => {}
            }
        }
        for contender in &self.contenders {
            if let Phase::Confirming { body, .. } = &contender.phase {
                tell(body.fence);
            }
        }
    }

    pub(super) fn describe(&self) -> String {
        let place = match self.remote() {
            None => "no queue",
            Some(Remote::Vacant { .. }) => "vacant",
            Some(Remote::Acquiring(_)) => "asking",
            Some(Remote::Queued { .. }) => "queued",
            Some(Remote::Granted(..)) => "offered",
            Some(Remote::Held(..)) => "held",
        };
        let phases: Vec<_> = self
            .contenders
            .iter()
            .map(|it| match it.phase {
                Phase::Idle => "idle",
                Phase::Queue(_) => "in line",
                Phase::Alone => "alone",
                Phase::Confirming { .. } => "confirming",
                Phase::Body(ref body) if body.lost => "body (lost)",
                Phase::Body(ref body) if body.reads => "body (reads)",
                Phase::Body(_) => "body",
                Phase::Releasing { .. } => "releasing",
                Phase::Done => "done",
            })
            .collect();
        let it = self.client.tokens.census();
        let census = [
            (it.acquiring, "acquiring"),
            (it.waiting, "waiting"),
            (it.held, "held"),
            (it.releasing, "releasing"),
            (it.cleaning_up, "cleaning up"),
        ];
        let census: Vec<_> = census.iter().filter(|(count, _)| *count > 0).collect();
        let dead = if self.alive { "" } else { "dead " };
        format!("{dead}{place} {phases:?} {census:?}")
    }
}
