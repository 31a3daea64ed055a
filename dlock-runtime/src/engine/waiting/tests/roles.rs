//! Who acts at the gates: the waiter does what `ticket` does, the driver what `driver` does, each on a thread of its own.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, Wake, Waker};

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use tokio::sync::Notify;

use super::super::{Entered, Keyed, Sight, Wheel};
use super::site::{End, Site, lane, number, position};
use crate::policy::gate::{Fate, Granted, Next, Offer, Position, Seat};
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
        let Entered { seat, wheel, .. } = self.gates.enter(self.order(), self.now());
        if let Some(wheel) = wheel {
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
            let (sight, beside) = self.gates.look(&lane(), seat, now, &waker, None);
            if let Some(position) = beside.unwanted {
                self.clean_up(&position);
            }
            match sight {
                Sight::Wait => {}
                Sight::Drive(wheel) => self.spawn(move |site| site.drive(wheel)),
                Sight::Yours(position, offer) => {
                    return self.hold(seat_at, &position, &offer);
                }
                Sight::SentAway(_) => return self.seen(|seen| seen.sent_away += 1),
            }
            // Who goes next time does so by itself; else it takes a wake-up.
            if looks != Some(look + 1) {
                block_on(woken.0.notified());
            }
        }
        self.leave(seat);
    }

    fn leave(self: &Arc<Self>, seat: Seat) {
        if let Some(position) = self.gates.leave(&lane(), seat) {
            self.clean_up(&position);
        }
    }

    /// Which gate this is, by order of their coming.
    fn gate_now(&self) -> usize {
        let gate = self.gates.at(&lane(), |keyed| keyed.itself.clone());
        let gate = gate.expect("a seat keeps its gate");
        self.seen(|seen| {
            let known = seen.gates.iter().position(|it| Arc::ptr_eq(it, &gate));
            known.unwrap_or_else(|| {
                seen.gates.push(gate);
                seen.gates.len() - 1
            })
        })
    }

    fn hold(self: &Arc<Self>, seat: (usize, Seat), position: &Position, offer: &Offer) {
        let number = number(&position.claim.value);
        assert!(
            self.held.lock().unwrap().insert(number),
            "it has a holder already"
        );
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
        if self.hand_on(number, position.token) {
            return;
        }
        self.held.lock().unwrap().remove(&number);
        self.ended(number, End::Taken);
        self.release(number);
    }

    /// As a guard leaves: the token table first, and it takes back what nobody is there for.
    fn hand_on(&self, number: u64, token: Token) -> bool {
        if !self.gates.left(&lane(), token, self.now()) {
            return false;
        }
        if self.chances.refusals && thread_rng().gen_bool(0.2) {
            self.gates.vacated(&lane(), token, self.now());
            return false;
        }
        self.held.lock().unwrap().remove(&number);
        let handed_on = self.gates.hand_on(&lane(), token, self.now());
        if !handed_on {
            self.held.lock().unwrap().insert(number);
        }
        handed_on
    }
}

/// A driver, as the task is one.
impl Site {
    fn drive(self: &Arc<Self>, wheel: Wheel) {
        loop {
            let next = self
                .gates
                .at(&lane(), |keyed| keyed.next(wheel, self.now()));
            match next.unwrap_or(Next::Rest) {
                Next::Rest => return,
                Next::GiveUp(position) => self.clean_up(&position),
                _ if self.is_lost() => break,
                Next::Ask => {
                    if self.ask(wheel).is_none() {
                        break;
                    }
                }
                Next::Poll(position) => self.poll(&position),
                Next::PassOn => {}
                Next::Sleep(until) => self.sleep(until),
            }
        }
        self.gates.at(&lane(), |keyed| keyed.driver_gone(wheel));
    }

    /// Whether the runtime ends here.
    fn is_lost(&self) -> bool {
        let lost = &self.drivers_lost;
        let so_far = lost.load(Ordering::Relaxed);
        let is_lost = so_far < self.chances.drivers_lost && thread_rng().gen_bool(0.3);
        lost.store(so_far + u64::from(is_lost), Ordering::Relaxed);
        is_lost
    }

    /// `None`: the driver went with the answer unread.
    fn ask(self: &Arc<Self>, wheel: Wheel) -> Option<()> {
        let first = self.gates.at(&lane(), |keyed| keyed.gate.first().is_some());
        if first != Some(true) {
            return Some(());
        }
        let number = self.seen(|seen| {
            seen.asked += 1;
            seen.asked
        });
        let position = position(number);
        let token = position.token;
        let asking = position.clone();
        let may_ask = self.gates.asking(&lane(), wheel, asking, self.now());
        assert!(may_ask, "no driver is ever stuck here");
        let granted = self.acquire(number);
        if self.is_lost() {
            if self.gates.ended(&lane(), token, self.now()) {
                self.clean_up(&position);
            }
            return None;
        }
        let fate = self.gates.at(&lane(), |keyed| {
            if granted {
                let offer = self.gates.to_be_handed_on(self.offer(Granted::AtOnce));
                keyed.granted(token, offer)
            } else {
                keyed.gate.queued(token, self.next_poll())
            }
        });
        if let Some(Fate::Unwanted(position)) = fate {
            self.clean_up(&position);
        }
        Some(())
    }

    fn poll(self: &Arc<Self>, position: &Position) {
        shuttle::thread::yield_now(); // it comes back here as long as others do nothing
        let token = position.token;
        let line = self.server.lock().unwrap().line.clone();
        let number = number(&position.claim.value);
        let fate = if line.front() == Some(&number) {
            let offer = self.gates.to_be_handed_on(self.offer(Granted::InTurn));
            self.gates.at(&lane(), |keyed| keyed.granted(token, offer))
        } else if line.contains(&number) {
            let next = self.next_poll();
            self.gates
                .at(&lane(), |keyed| keyed.gate.queued(token, next))
        } else {
            assert!(
                !self.gates.ended(&lane(), token, self.now()),
                "lost by the server"
            );
            None
        };
        if let Some(Fate::Unwanted(position)) = fate {
            self.clean_up(&position);
        }
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
        let bell = self.gates.at(&lane(), Keyed::bell);
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
