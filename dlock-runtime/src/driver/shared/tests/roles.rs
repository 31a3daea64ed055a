//! The roles around the machine: a waiter does what `waiter` does, a leader what `leader` does, each
//! on a thread of its own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::task::{Poll, Wake, Waker};

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::site::{End, LEASE, SOON, Site, number, queue_key, sent};
use crate::client::local_queue::{Grant, WaiterId};
use crate::client::tokens::Attempt;
use crate::client::tokens::ReleaseBy;
use crate::client::{
    Heard, JoinedQueue, LeaderEpoch, LeaderTurn, LookReply, Looked, ReadAnswer, ReturnedTo,
    SentAcquire,
};
use crate::driver::attempt::AttemptAnswer;
use crate::driver::lease_cell::LeaseCell;
use crate::driver::waiting::FirstAcquire;
use crate::rules::commands::{Acquired, Busy, Keep, Left, Polled};
use crate::values::moment::Moment;

/// A waker that loses no wake-up while its thread is blocked elsewhere.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

const HEARD: Heard = Heard {
    is_told: true,
    follows: None,
};

/// The first acquire of a waiter that sends it itself: the waiter's thread is that acquire.
pub(super) fn flight() -> Arc<FirstAcquire> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
    Arc::new(FirstAcquire::gone(RUNTIME.handle()))
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
        let (spec, queue_key) = (self.spec(), queue_key());
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut own = None;
        let (arrival, entered) = self.tell(|client, told| {
            let first = |leader_epoch| {
                own = Some(leader_epoch);
                flight()
            };
            let entered = client.enter(&queue_key, spec.clone(), &waker, told, first);
            (self.arrivals.fetch_add(1, Ordering::Relaxed), entered)
        });
        let JoinedQueue {
            waiter_id,
            lead,
            moved,
        } = entered;
        if let Some((_, Some(sender))) = moved {
            sender.wake();
        }
        // Another waiter may join at once, and move the first acquire to a task of its own.
        let moves = thread_rng().gen_bool(0.5);
        if let Some(leader_epoch) = lead.or(own.filter(|_| moves)) {
            self.spawn(move |site| site.lead(leader_epoch));
        }
        let own = own.filter(|_| !moves);
        let mut unread = own.map(|leader_epoch| match self.ask(leader_epoch) {
            Asked::Answered(sent, answer) => (leader_epoch, Some((sent, answer))),
            Asked::Unsent | Asked::Lost => (leader_epoch, None),
        });
        for look in 0.. {
            if looks == Some(look) {
                break;
            }
            let (by, answer) = unread.take().unzip();
            let (sent, answer) = answer.flatten().unzip();
            let read = by.map(|leader_epoch| ReadAnswer {
                leader_epoch,
                answer: sent
                    .as_ref()
                    .zip(answer)
                    .map(|(sent, answer)| (sent, answer, HEARD)),
            });
            let LookReply { looked, lead, .. } =
                self.at(|queue| queue.look(&spec, (waiter_id, &waker), read));
            if let Some(leader_epoch) = lead {
                self.spawn(move |site| site.lead(leader_epoch));
            }
            match looked {
                Looked::Wait => {}
                Looked::Yours(grant, cell) => return self.hold(arrival, &grant, &cell),
                Looked::TooLate => unreachable!("all leases are long"),
                Looked::Refused(_) => return self.seen(|seen| seen.rejected += 1),
            }
            // If it leaves at the next poll it needs no wake-up; otherwise it consumes one.
            if looks != Some(look + 1) {
                block_on(woken.0.notified());
            }
        }
        // It reads the answer before it leaves.
        if let Some((leader_epoch, answer)) = unread {
            if let Some((sent, answer)) = answer {
                self.answered(leader_epoch, &sent, answer);
            }
            let goes_on = self.at(|queue| queue.continue_or_dismiss(leader_epoch));
            if goes_on.is_some() {
                self.spawn(move |site| site.lead(leader_epoch));
            }
        }
        self.leave(waiter_id);
    }

    fn leave(self: &Arc<Self>, waiter_id: WaiterId) {
        self.at(|queue| queue.leave(waiter_id));
    }

    fn hold(self: &Arc<Self>, arrival: usize, grant: &Grant, cell: &Arc<LeaseCell>) {
        let (ours, claim) = (cell.token(), cell.claim());
        let number = number(&claim.value);
        self.seen(|seen| {
            assert!(!std::mem::replace(&mut seen.holds, true), "two at once");
            seen.turns.push(arrival);
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
        let (key, ended) = (queue_key(), || cell.hand_on());
        let given_back =
            self.tell(|client, told| client.give_back((&key, ours), may_hand_on, told, ended));
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
    Unsent,
    Answered(SentAcquire, AttemptAnswer),
    /// The leader ended with the answer unread.
    Lost,
}

/// A leader, as `Leader` is one.
impl Site {
    fn lead(self: &Arc<Self>, leader_epoch: LeaderEpoch) {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        loop {
            match self.at(|queue| queue.lead(leader_epoch, &waker)) {
                LeaderTurn::Rest => return,
                _ if self.is_lost() => break,
                LeaderTurn::Acquire(_) => match self.ask(leader_epoch) {
                    Asked::Unsent => {}
                    Asked::Answered(sent, answer) => self.answered(leader_epoch, &sent, answer),
                    Asked::Lost => break,
                },
                LeaderTurn::Poll { attempt, .. } => self.poll(leader_epoch, &attempt),
                LeaderTurn::Sleep(until) => self.sleep(until, &woken),
            }
        }
        self.at(|queue| queue.leader_gone(leader_epoch));
    }

    /// Whether the leader's runtime ends here.
    fn is_lost(&self) -> bool {
        let lost = &self.leaders_lost;
        let so_far = lost.load(Ordering::Relaxed);
        let is_lost = so_far < self.chances.leaders_lost && thread_rng().gen_bool(0.3);
        lost.store(so_far + u64::from(is_lost), Ordering::Relaxed);
        is_lost
    }

    /// Sends an acquire.
    fn ask(self: &Arc<Self>, leader_epoch: LeaderEpoch) -> Asked {
        let number = self.seen(|seen| {
            seen.asked += 1;
            seen.asked
        });
        let (key, sent) = (queue_key(), sent(number, self.now()));
        let sends = self.tell(|client, told| client.sending((&key, leader_epoch), &sent, told));
        if !sends {
            // The lock was handed on by a holder that had read its clock before time passed.
            self.ended(number, End::CleanedUp); // there is nothing to clean up
            return Asked::Unsent;
        }
        let granted = self.acquire(number);
        if self.is_lost() {
            let open = (true, None);
            if self.tell(|client, told| client.ended(Some(&key), &sent, open, told)) {
                self.clean_up(sent.token);
            }
            return Asked::Lost;
        }
        let (time, epoch) = (0, 1);
        let answer = if granted {
            Acquired::Granted { time, epoch }
        } else {
            Acquired::Queued(others())
        };
        let landed = sent.landed(answer);
        Asked::Answered(sent, Ok(landed))
    }

    fn answered(
        self: &Arc<Self>,
        leader_epoch: LeaderEpoch,
        sent: &SentAcquire,
        answer: AttemptAnswer,
    ) {
        self.at(|queue| queue.answered(leader_epoch, (sent, answer), HEARD));
    }

    fn poll(self: &Arc<Self>, leader_epoch: LeaderEpoch, attempt: &Attempt) {
        shuttle::thread::yield_now(); // polls again while other threads do nothing
        let line = self.server.lock().unwrap().line.clone();
        let number = number(&attempt.claim.value);
        let answer = if line.front() == Some(&number) {
            Polled::Yours {
                time: 0,
                epoch: 1,
                left: LEASE,
            }
        } else if line.contains(&number) {
            Polled::Queued(others())
        } else {
            Polled::Gone { time: 0 }
        };
        let of = (attempt.token, self.now());
        self.at(|queue| queue.polled(leader_epoch, of, Ok(answer), (true, true)));
    }

    fn sleep(&self, until: Moment, woken: &Woken) {
        if self.chances.pushes_lost && self.now().until(until) <= SOON {
            return self.passes(self.now().until(until)); // a poll comes due
        }
        let mut notified = pin!(woken.0.notified());
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

/// Another has it, for as long as anybody looks.
fn others() -> Busy {
    Busy {
        time: 0,
        left: Left::For(LEASE),
        value: "1|0".to_owned(),
    }
}
