//! The roles at the local queues: a waiter does what `waiter` does, a leader what `leader` does,
//! each on a thread of its own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::Notify;

use super::super::{FirstAnswered, FirstAttempt, Joined, LeaderEpoch, PollResult, Taken};
use super::site::{End, LEASE, Site, attempt, number, queue_key};
use crate::client::local_queue::{Attempt, Grant, GrantKind, LeaderStep, WaiterId};
use crate::client::tokens::ReleaseBy;
use crate::client::{ReturnedTo, Settled};
use crate::policy::commands::Keep;
use crate::strangers::CallersWaker;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// A waker that loses no wake-up while its thread is blocked elsewhere.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// The first acquire of a waiter that sends it itself.
#[derive(Debug)]
pub(super) struct First;

impl FirstAttempt for First {
    fn spawn(&self, _: Option<CallersWaker>) {}
}

/// A waiter, as `Waiter` is one.
impl Site {
    /// `looks`: it leaves after so many polls; `None`: when it has the lock.
    pub(super) fn waiter(self: &Arc<Self>, looks: Option<u32>) {
        self.spawn(move |site| {
            site.wait(looks);
            site.one_is_done();
        });
    }

    fn wait(self: &Arc<Self>, looks: Option<u32>) {
        let spec = self.spec();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut own = None;
        let Joined {
            waiter_id,
            leader_epoch,
            ..
        } = (self.local_queues).enter(spec.clone(), self.now(), &waker, |leader_epoch| {
            own = Some(leader_epoch);
            Arc::new(First)
        });
        // Another waiter may join at once, and move the first acquire to a task of its own.
        let moves = thread_rng().gen_bool(0.5);
        let mut answered = own.filter(|_| !moves).map(|it| self.acquires_first(it));
        if let Some(leader_epoch) = leader_epoch.or(own.filter(|_| moves)) {
            self.spawn(move |site| site.lead(leader_epoch));
        }
        let waiter_id_at = (self.queue_now(), waiter_id);
        for look in 0.. {
            if looks == Some(look) {
                break;
            }
            let now = self.now();
            let answered = answered.take();
            let (poll_result, side_effects) = self
                .local_queues
                .check(&spec, waiter_id, now, &waker, answered);
            side_effects
                .unowned
                .into_iter()
                .for_each(|it| self.hand_to_watchdog(it));
            if let Some(FirstAnswered { leader_epoch, .. }) =
                answered.filter(|_| !side_effects.is_dismissed)
            {
                self.spawn(move |site| site.lead(leader_epoch));
            }
            match poll_result {
                PollResult::Wait => {}
                PollResult::Lead(leader_epoch) => self.spawn(move |site| site.lead(leader_epoch)),
                PollResult::Yours(taken) => return self.hold(waiter_id_at, &taken),
                PollResult::TooLate => unreachable!("all leases are long"),
                PollResult::Rejected(_) => return self.seen(|seen| seen.rejected += 1),
            }
            // If it leaves at the next poll it needs no wake-up; otherwise it consumes one.
            if looks != Some(look + 1) {
                block_on(woken.0.notified());
            }
        }
        // It reads the answer before it leaves.
        if let Some(FirstAnswered {
            leader_epoch,
            granted,
        }) = answered
        {
            if let Some((token, grant)) = granted {
                self.granted_to_leader(token, grant);
            }
            self.spawn(move |site| site.lead(leader_epoch));
        }
        self.leave(waiter_id);
    }

    /// The first acquire, sent by the waiter itself.
    fn acquires_first(self: &Arc<Self>, leader_epoch: LeaderEpoch) -> FirstAnswered {
        let granted = match self.send_acquire(leader_epoch) {
            Asked::Granted(token, grant) => Some((token, grant)),
            _ => None,
        };
        FirstAnswered {
            leader_epoch,
            granted,
        }
    }

    fn leave(self: &Arc<Self>, waiter_id: WaiterId) {
        self.hand_to_watchdog(self.local_queues.leave(&queue_key(), waiter_id, self.now()));
    }

    /// The number of this queue among those of the run, in order of first use.
    fn queue_now(&self) -> usize {
        let queue = self
            .local_queues
            .at(&queue_key(), |it| it.queue_state.itself.clone());
        let queue = queue.expect("a waiter keeps its queue");
        self.seen(|seen| {
            let known = seen
                .local_queues
                .iter()
                .position(|it| Arc::ptr_eq(it, &queue));
            known.unwrap_or_else(|| {
                seen.local_queues.push(queue);
                seen.local_queues.len() - 1
            })
        })
    }

    fn hold(self: &Arc<Self>, waiter_id: (usize, WaiterId), taken: &Taken) {
        let (ours, claim) = (taken.cell.token(), taken.cell.claim());
        let (grant, number) = (&taken.grant, number(&claim.value));
        self.seen(|seen| {
            assert!(!std::mem::replace(&mut seen.holds, true), "two at once");
            seen.turns.push(waiter_id);
            let (last, index) = std::mem::replace(&mut seen.last, (number, grant.chain.index));
            let expected = if last == number { index + 1 } else { 0 };
            assert_eq!(grant.chain.index, expected, "the fence rises");
            assert!(
                grant.chain.index <= self.chances.handoffs,
                "no row is longer"
            );
            let handed_on = usize::from(expected > 0);
            self.handed_on.fetch_add(handed_on, Ordering::Relaxed);
        });
        shuttle::thread::yield_now();
        self.seen(|seen| seen.holds = false);
        let may_hand_on = !(self.chances.refusals && thread_rng().gen_bool(0.2));
        let given_back = (self.local_queues).give_back(&taken.cell, self.now(), may_hand_on);
        if given_back == ReturnedTo::HandedOn {
            return;
        }
        let by_caller = ReturnedTo::ToServer(ReleaseBy::Caller { keep: Keep::NOT });
        assert_eq!(given_back, by_caller, "it is held until then");
        self.ended(number, End::Taken);
        self.release(number);
        self.shared.update(|tokens| tokens.released(ours));
    }
}

/// What became of an acquire.
enum Asked {
    Granted(Token, Grant),
    Waits,
    /// The leader ended with the answer unread.
    Lost,
}

/// A leader, as `Leader` is one.
impl Site {
    fn lead(self: &Arc<Self>, leader_epoch: LeaderEpoch) {
        loop {
            let next = self
                .local_queues
                .at(&queue_key(), |it| it.next(leader_epoch, self.now()));
            match next.unwrap_or(LeaderStep::Rest) {
                LeaderStep::Rest => return,
                LeaderStep::GiveUp(attempt) => self.hand_to_watchdog(Some(attempt.token)),
                _ if self.is_lost() => break,
                LeaderStep::Acquire => match self.send_acquire(leader_epoch) {
                    Asked::Lost => break,
                    Asked::Waits => {}
                    Asked::Granted(token, grant) => self.granted_to_leader(token, grant),
                },
                LeaderStep::Poll(attempt) => self.poll(&attempt),
                LeaderStep::PassOn => {}
                LeaderStep::Sleep(until) => self.sleep(until),
            }
        }
        self.local_queues
            .at(&queue_key(), |it| it.queue_state.leader_gone(leader_epoch));
    }

    /// Whether the leader's runtime ends here.
    fn is_lost(&self) -> bool {
        let lost = &self.leaders_lost;
        let so_far = lost.load(Ordering::Relaxed);
        let is_lost = so_far < self.chances.leaders_lost && thread_rng().gen_bool(0.3);
        lost.store(so_far + u64::from(is_lost), Ordering::Relaxed);
        is_lost
    }

    fn granted_to_leader(self: &Arc<Self>, token: Token, grant: Grant) {
        let settled = self
            .local_queues
            .granted_to_leader(&queue_key(), token, grant, self.now());
        self.hand_to_watchdog(settled.unowned());
    }

    fn send_acquire(self: &Arc<Self>, leader_epoch: LeaderEpoch) -> Asked {
        let first = self
            .local_queues
            .at(&queue_key(), |it| it.queue_state.queue.first().is_some());
        if first != Some(true) {
            return Asked::Waits;
        }
        let number = self.seen(|seen| {
            seen.asked += 1;
            seen.asked
        });
        let attempt = attempt(number);
        let token = attempt.token;
        let by = Some((&queue_key(), leader_epoch));
        let may_send = self.local_queues.sending(by, attempt, self.now());
        assert!(may_send, "no leader is ever stuck here");
        let granted = self.acquire(number);
        let now = self.now();
        if self.is_lost() {
            let times = (0, now.plus(LEASE));
            if self
                .local_queues
                .abandoned(Some(&queue_key()), token, times, None, now)
            {
                self.hand_to_watchdog(Some(token));
            }
            return Asked::Lost;
        }
        if granted {
            return Asked::Granted(token, self.grant(GrantKind::AtOnce));
        }
        let next = self.next_poll();
        let settled =
            (self.local_queues).at(&queue_key(), |it| it.client().queued(token, next, now));
        self.hand_to_watchdog(settled.and_then(Settled::unowned));
        Asked::Waits
    }

    fn poll(self: &Arc<Self>, attempt: &Attempt) {
        shuttle::thread::yield_now(); // polls again while other threads do nothing
        let token = attempt.token;
        let line = self.server.lock().unwrap().line.clone();
        let number = number(&attempt.claim.value);
        let now = self.now();
        let settled = if line.front() == Some(&number) {
            Some((self.local_queues).granted_to_leader(
                &queue_key(),
                token,
                self.grant(GrantKind::InTurn),
                now,
            ))
        } else if line.contains(&number) {
            let next = self.next_poll();
            self.local_queues
                .at(&queue_key(), |it| it.client().queued(token, next, now))
        } else {
            let value = &attempt.claim.value;
            let awaits = self
                .local_queues
                .at(&queue_key(), |it| it.queue_state.queue.awaits(value));
            assert_eq!(awaits.flatten(), None, "lost by the server");
            None
        };
        self.hand_to_watchdog(settled.and_then(Settled::unowned));
    }

    /// Where pushes may be lost, the next poll is due at once; otherwise there is none.
    fn next_poll(&self) -> Moment {
        if self.chances.pushes_lost {
            self.now()
        } else {
            Moment::NEVER
        }
    }

    fn sleep(&self, until: Moment) {
        let notify = self
            .local_queues
            .at(&queue_key(), |it| it.queue_state.notify());
        let notify = notify.unwrap_or_default();
        let mut notified = pin!(notify.notified());
        let mut timer = pin!(self.timers.notified());
        block_on(poll_fn(|cx| {
            // Polled before the clock is read, so that no change is missed.
            let passed = timer.as_mut().poll(cx);
            if passed.is_ready() {
                timer.set(self.timers.notified());
            }
            if self.now() >= until || notified.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if passed.is_ready() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        }));
    }
}
