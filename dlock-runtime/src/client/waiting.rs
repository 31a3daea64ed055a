//! What a waiter tells: it enters its queue, looks for its grant, and leaves.
//!
//! Invariants: a waiter that leaves hands a pending grant to the next one; a token that no waiter
//! is left for is cleaned up in the same step.

use super::answers::{AcquireRefusal, ReadAnswer};
use super::host::{ClientHost, WakerSource};
use super::leading::Answered;
use super::local_queue::{Grant, LeaderStep, TakenTurn, WaiterId};
use super::queue_key::QueueKey;
use super::queue_state::{LeaderEpoch, QueuedWaiter};
use super::{Client, QueueStep, Told};
use crate::values::moment::Moment;

/// A waiter that has entered its queue.
pub(crate) struct JoinedQueue<H: ClientHost> {
    pub(crate) waiter_id: WaiterId,
    /// It must start a leader with this number, in a task of its own.
    pub(crate) lead: Option<LeaderEpoch>,
    /// The first acquire, which another waiter has sent from its own poll until now: that waiter
    /// may not be polled while this one waits, so it moves to a task, and its waiter is woken.
    pub(crate) moved: Option<(H::Flight, Option<H::Waker>)>,
}

/// What a waiter's poll finds.
#[derive(Default)]
pub(crate) enum Looked<H: ClientHost> {
    /// It is not this waiter's turn.
    #[default]
    Wait,
    /// The waiter holds the lock, and has left the queue.
    Yours(Grant, H::Holder),
    /// It was this waiter's turn, but the lease was over by the waiter's own ttl: it has left the
    /// queue, and may enter it again, behind the others.
    TooLate,
    Refused(AcquireRefusal<H::Error>),
}

/// What a waiter's look comes to. Its default is what `Client::at` returns without a queue, which no
/// waiter sees: a queue with a waiter is kept.
pub(crate) struct LookReply<H: ClientHost> {
    pub(crate) looked: Looked<H>,
    /// The leader with this number goes on in a task: a new one, or the one whose answer was read.
    pub(crate) lead: Option<LeaderEpoch>,
    /// What follows from the answer that was read.
    pub(crate) answered: Answered,
    /// It sends the first acquire still, and is woken if that moves to a task: until then there is
    /// no leader to watch.
    pub(crate) sends_itself: bool,
}

impl<H: ClientHost> Default for LookReply<H> {
    fn default() -> Self {
        Self {
            looked: Looked::Wait,
            lead: None,
            answered: Answered::default(),
            sends_itself: false,
        }
    }
}

impl<H: ClientHost> Client<H> {
    /// `waker`: wakes the waiter when it must look. `flight`: called if it is the only waiter and
    /// an acquire is to be sent at once; makes that acquire, which the waiter sends itself.
    pub(crate) fn enter(
        &mut self,
        queue_key: &QueueKey,
        request: H::Request,
        waker: &WakerSource<H>,
        told: Told<'_, H>,
        flight: impl FnOnce(LeaderEpoch) -> H::Flight,
    ) -> JoinedQueue<H> {
        let waiter = QueuedWaiter::new(request, waker);
        let now = told.0;
        let (queues, step) = self.step(told);
        let state = queues.at(queue_key, now);
        QueueStep { state, step }.enter(waiter, flight)
    }

    /// From now on refuses all waiters that come, and cleans up whatever is granted.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn has_waiters(&self, queue_key: &QueueKey) -> bool {
        let state = self.queues.by_key.get(queue_key);
        state.is_some_and(|state| state.queue.has_waiters())
    }

    /// How the queue's commands failed last, if one has since then and none was answered after it.
    pub(super) fn failed_since(
        &self,
        queue_key: &QueueKey,
        begun: Moment,
    ) -> Option<AcquireRefusal<H::Error>> {
        let failed = self.queues.by_key.get(queue_key)?.failed.0.as_deref()?;
        (failed.0 >= begun).then(|| failed.1.clone())
    }
}

impl<H: ClientHost> QueueStep<'_, H> {
    fn enter(
        &mut self,
        waiter: QueuedWaiter<H::Request, H::Waker>,
        flight: impl FnOnce(LeaderEpoch) -> H::Flight,
    ) -> JoinedQueue<H> {
        let (state, now) = (&mut *self.state, self.step.now);
        let nobody_waits = !state.queue.has_waiters();
        let nobody_responds = !nobody_waits && state.queue.first().is_none();
        let might_be_handed_on = state.queue.may_be_handed_on(now);
        // The leader may still sleep until the end of a hand-off chain whose lock has been released
        // since.
        let leader_may_acquire = nobody_waits && state.queue.may_acquire() && !might_be_handed_on;
        let moved = state.sender.flight.take();
        let moved = moved.map(|flight| (flight, state.take_first_waker()));
        let waiter_id = state.queue.enter(waiter);
        state.check_chain(now);
        let chain_ends = might_be_handed_on && !state.queue.may_be_handed_on(now);
        if self.step.is_closed {
            // The queue holds only this waiter: `close` has sent the others away.
            state.queue.leave(waiter_id);
            state.refused.insert(waiter_id, AcquireRefusal::ShutDown);
        }
        if nobody_responds || chain_ends || leader_may_acquire {
            state.wake_leader(self.step.out);
        }
        let mut lead = self.leader_if_needed();
        if let Some(leader_epoch) = lead
            && self.acquires_for_one()
        {
            self.state.sender.flight = Some(flight(leader_epoch));
            lead = None;
        }
        JoinedQueue {
            waiter_id,
            lead,
            moved,
        }
    }

    /// Whether there is one waiter, and its leader must acquire at once.
    fn acquires_for_one(&mut self) -> bool {
        let queue = &mut self.state.queue;
        let is_one = queue.waiters().nth(1).is_none();
        is_one && queue.may_acquire() && queue.next(self.step.now) == LeaderStep::Acquire
    }

    /// A waiter looks whether it has the lock. `read`: the answer to the acquire that it has sent
    /// itself.
    pub(crate) fn look(
        &mut self,
        request: &H::Request,
        (waiter_id, waker): (WaiterId, &WakerSource<H>),
        read: Option<ReadAnswer<'_, H::Error>>,
    ) -> LookReply<H> {
        let by = read.as_ref().map(|read| read.leader_epoch);
        let answered = read.map_or_else(Answered::default, |read| self.read(read));
        let (looked, mut lead) = self.look_by_itself(request, waiter_id, waker);
        if answered.is_granted && !matches!(looked, Looked::Yours(..)) {
            self.state.wake_called(self.step.out); // the grant is another waiter's
        }
        if let Some(leader_epoch) = by {
            lead = lead.or(self.continue_or_dismiss(leader_epoch));
        }
        LookReply {
            looked,
            lead,
            answered,
            sends_itself: self.state.sender.flight.is_some(),
        }
    }

    fn look_by_itself(
        &mut self,
        request: &H::Request,
        waiter_id: WaiterId,
        waker: &WakerSource<H>,
    ) -> (Looked<H>, Option<LeaderEpoch>) {
        let now = self.step.now;
        if let Some(refusal) = self.state.refused.remove(&waiter_id) {
            return (Looked::Refused(refusal), None);
        }
        // Before the check, which may drop the waiter: then it drops no last waker, for the caller
        // has this one.
        self.state.listen(waiter_id, waker, self.step.out);
        if self.state.queue.mark_responsive(waiter_id) {
            self.state.wake_leader(self.step.out);
        }
        match self.state.queue.take_turn(waiter_id, now) {
            TakenTurn::Wait => {}
            TakenTurn::Stale(token) => {
                self.step.clean_up(token);
                self.state.wake_leader(self.step.out);
            }
            TakenTurn::Yours(token, grant) => {
                let Some(holder) = self.step.take(request, token, &grant) else {
                    self.state.queue.left(token, now);
                    self.state.wake_leader(self.step.out);
                    let looked = if self.step.is_closed {
                        Looked::Refused(AcquireRefusal::ShutDown)
                    } else {
                        Looked::TooLate
                    };
                    return (looked, None);
                };
                if H::terms(request).bounds.min_hold.is_some() {
                    self.state.queue.end_chain(); // it is not handed on
                } else {
                    self.state.check_chain(now);
                }
                // The next waiter needs an attempt of its own, and the leader does not know of a
                // grant that was pushed.
                if grant.chain.index == 0 || !self.state.queue.may_be_handed_on(now) {
                    self.state.wake_leader(self.step.out);
                }
                return (Looked::Yours(grant, holder), None);
            }
        }
        let lead = self.leader_if_needed();
        (Looked::Wait, lead.or_else(|| self.leader_if_stuck()))
    }

    /// A waiter leaves; returns whether others wait.
    pub(crate) fn leave(&mut self, waiter_id: WaiterId) -> bool {
        self.state.refused.remove(&waiter_id);
        self.state.retire(waiter_id, self.step.out);
        if let Some(unwanted) = self.state.queue.leave(waiter_id) {
            self.step.clean_up(unwanted);
        }
        self.state.wake_called(self.step.out); // a pending grant may be the next waiter's now
        self.state.wake_leader(self.step.out);
        self.state.queue.has_waiters()
    }

    /// Refuses all waiters.
    pub(crate) fn refuse_all(&mut self, why: &AcquireRefusal<H::Error>) {
        let (waiters, unwanted) = self.state.queue.clear();
        if let Some(unwanted) = unwanted {
            self.step.clean_up(unwanted);
        }
        for (waiter_id, waiter) in waiters {
            self.state.refused.insert(waiter_id, why.clone());
            if let Some(waker) = waiter.into_waker() {
                self.step.out.wake(waker);
            }
        }
        self.state.wake_leader(self.step.out);
    }
}
