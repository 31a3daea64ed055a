//! Who acts at the gates: the waiter does what `ticket` does, the driver what `driver` does, each on a thread of its own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::Notify;

use super::super::{Answered, Entered, Sight, Taken, Wheel};
use super::site::{End, LEASE, Site, lane, number, position};
use crate::policy::client::{GivenBack, Settled};
use crate::policy::gate::{Granted, Next, Offer, Position, Seat};
use crate::policy::tokens::ReleaseBy;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// A waker that loses nothing while its thread is blocked elsewhere.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

/// A waiter, as a ticket is one.
impl Site {
    /// `looks`: after so many it goes; else when it has the lock.
    pub(super) fn waiter(self: &Arc<Self>, looks: Option<u32>) {
        self.spawn(move |site| {
            site.wait(looks);
            site.one_is_done();
        });
    }

    fn wait(self: &Arc<Self>, looks: Option<u32>) {
        let order = self.order();
        let Entered { seat, wheel, .. } = self.gates.enter(order.clone(), self.now());
        let asks_itself = thread_rng().gen_bool(0.5);
        let mut answered = wheel.filter(|_| asks_itself).map(|it| self.asks_first(it));
        if let Some(wheel) = wheel.filter(|_| !asks_itself) {
            self.spawn(move |site| site.drive(wheel));
        }
        let seat_at = (self.gate_now(), seat);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        for look in 0.. {
            if looks == Some(look) {
                break;
            }
            let now = self.now();
            let answered = answered.take();
            let (sight, beside) = self.gates.look(&order, seat, now, &waker, answered);
            beside.unowned.into_iter().for_each(|it| self.see_to(it));
            if let Some(Answered { wheel, .. }) = answered.filter(|_| !beside.is_dismissed) {
                self.spawn(move |site| site.drive(wheel));
            }
            match sight {
                Sight::Wait => {}
                Sight::Drive(wheel) => self.spawn(move |site| site.drive(wheel)),
                Sight::Yours(taken) => return self.hold(seat_at, &taken),
                Sight::TooLate => unreachable!("all leases are long"),
                Sight::SentAway(_) => return self.seen(|seen| seen.sent_away += 1),
            }
            // Who goes next time does so by itself; else it takes a wake-up.
            if looks != Some(look + 1) {
                block_on(woken.0.notified());
            }
        }
        // What was answered is read before it goes.
        if let Some(Answered { wheel, granted }) = answered {
            if let Some((token, offer)) = granted {
                self.offered(token, offer);
            }
            self.spawn(move |site| site.drive(wheel));
        }
        self.leave(seat);
    }

    /// The first acquire, by the waiter itself.
    fn asks_first(self: &Arc<Self>, wheel: Wheel) -> Answered {
        let next = self.gates.at(&lane(), |it| it.next(wheel, self.now()));
        let mut granted = None;
        match next.unwrap_or(Next::Rest) {
            Next::Ask => {
                if let Asked::Granted(token, offer) = self.ask(wheel) {
                    granted = Some((token, offer));
                }
            }
            Next::GiveUp(position) => self.see_to(Some(position.token)),
            _ => {} // whoever drives asks again
        }
        Answered { wheel, granted }
    }

    fn leave(self: &Arc<Self>, seat: Seat) {
        self.see_to(self.gates.leave(&lane(), seat, self.now()));
    }

    /// Which gate this is, by order of their coming.
    fn gate_now(&self) -> usize {
        let gate = self.gates.at(&lane(), |it| it.keyed.itself.clone());
        let gate = gate.expect("a seat keeps its gate");
        self.seen(|seen| {
            let known = seen.gates.iter().position(|it| Arc::ptr_eq(it, &gate));
            known.unwrap_or_else(|| {
                seen.gates.push(gate);
                seen.gates.len() - 1
            })
        })
    }

    fn hold(self: &Arc<Self>, seat: (usize, Seat), taken: &Taken) {
        let Position { token: ours, claim } = &taken.position;
        let (ours, offer, number) = (*ours, &taken.offer, number(&claim.value));
        self.seen(|seen| {
            assert!(!std::mem::replace(&mut seen.holds, true), "two at once");
            seen.turns.push(seat);
            let (last, index) = std::mem::replace(&mut seen.last, (number, offer.row.index));
            let expected = if last == number { index + 1 } else { 0 };
            assert_eq!(offer.row.index, expected, "the fence rises");
            assert!(offer.row.index <= self.chances.handoffs, "no row is longer");
            let handed_on = usize::from(expected > 0);
            self.handed_on.fetch_add(handed_on, Ordering::Relaxed);
        });
        shuttle::thread::yield_now();
        self.seen(|seen| seen.holds = false);
        let may_hand_on = !(self.chances.refusals && thread_rng().gen_bool(0.2));
        let given_back =
            (self.gates).give_back(&lane(), ours, self.now(), may_hand_on, &taken.cell);
        if given_back == GivenBack::HandedOn {
            return;
        }
        let by_caller = GivenBack::ToServer(ReleaseBy::Caller { keep_until: 0 });
        assert_eq!(given_back, by_caller, "it is held until then");
        self.ended(number, End::Taken);
        self.release(number);
        self.shared.update(|tokens| tokens.released(ours));
    }
}

/// What became of an acquire.
enum Asked {
    Granted(Token, Offer),
    Waits,
    /// The driver went with the answer unread.
    Lost,
}

/// A driver, as the task is one.
impl Site {
    fn drive(self: &Arc<Self>, wheel: Wheel) {
        loop {
            let next = self.gates.at(&lane(), |it| it.next(wheel, self.now()));
            match next.unwrap_or(Next::Rest) {
                Next::Rest => return,
                Next::GiveUp(position) => self.see_to(Some(position.token)),
                _ if self.is_lost() => break,
                Next::Ask => match self.ask(wheel) {
                    Asked::Lost => break,
                    Asked::Waits => {}
                    Asked::Granted(token, offer) => self.offered(token, offer),
                },
                Next::Poll(position) => self.poll(&position),
                Next::PassOn => {}
                Next::Sleep(until) => self.sleep(until),
            }
        }
        self.gates.at(&lane(), |it| it.keyed.driver_gone(wheel));
    }

    /// Whether the runtime ends here.
    fn is_lost(&self) -> bool {
        let lost = &self.drivers_lost;
        let so_far = lost.load(Ordering::Relaxed);
        let is_lost = so_far < self.chances.drivers_lost && thread_rng().gen_bool(0.3);
        lost.store(so_far + u64::from(is_lost), Ordering::Relaxed);
        is_lost
    }

    fn offered(self: &Arc<Self>, token: Token, offer: Offer) {
        let settled = self.gates.offered(&lane(), token, offer, self.now());
        self.see_to(settled.unowned());
    }

    fn ask(self: &Arc<Self>, wheel: Wheel) -> Asked {
        let first = self.gates.at(&lane(), |it| it.keyed.gate.first().is_some());
        if first != Some(true) {
            return Asked::Waits;
        }
        let number = self.seen(|seen| {
            seen.asked += 1;
            seen.asked
        });
        let position = position(number);
        let token = position.token;
        let by = Some((&lane(), wheel));
        let may_send = self.gates.sending(by, position, self.now());
        assert!(may_send, "no driver is ever stuck here");
        let granted = self.acquire(number);
        let now = self.now();
        if self.is_lost() {
            let times = (0, now.plus(LEASE));
            if self.gates.abandoned(Some(&lane()), token, times, None, now) {
                self.see_to(Some(token));
            }
            return Asked::Lost;
        }
        if granted {
            return Asked::Granted(token, self.offer(Granted::AtOnce));
        }
        let next = self.next_poll();
        let settled = (self.gates).at(&lane(), |it| it.client().queued(token, next, now));
        self.see_to(settled.and_then(Settled::unowned));
        Asked::Waits
    }

    fn poll(self: &Arc<Self>, position: &Position) {
        shuttle::thread::yield_now(); // it comes back here as long as others do nothing
        let token = position.token;
        let line = self.server.lock().unwrap().line.clone();
        let number = number(&position.claim.value);
        let now = self.now();
        let settled = if line.front() == Some(&number) {
            Some((self.gates).offered(&lane(), token, self.offer(Granted::InTurn), now))
        } else if line.contains(&number) {
            let next = self.next_poll();
            self.gates
                .at(&lane(), |it| it.client().queued(token, next, now))
        } else {
            let value = &position.claim.value;
            let awaits = self.gates.at(&lane(), |it| it.keyed.gate.awaits(value));
            assert_eq!(awaits.flatten(), None, "lost by the server");
            None
        };
        self.see_to(settled.and_then(Settled::unowned));
    }

    /// A poll that is due is due at once; others never are.
    fn next_poll(&self) -> Moment {
        if self.chances.pushes_lost {
            self.now()
        } else {
            Moment::NEVER
        }
    }

    fn sleep(&self, until: Moment) {
        let bell = self.gates.at(&lane(), |it| it.keyed.bell());
        let bell = bell.unwrap_or_default();
        let mut rung = pin!(bell.notified());
        let mut timer = pin!(self.timers.notified());
        block_on(poll_fn(|cx| {
            let passed = timer.as_mut().poll(cx); // before the clock is read, so that no change is missed
            if passed.is_ready() {
                timer.set(self.timers.notified());
            }
            if self.now() >= until || rung.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if passed.is_ready() {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        }));
    }
}
