//! What stands around the gates under shuttle: a server with one key, waiters, drivers and the wire, each a thread.
//!
//! The waiter does what `ticket` does, the driver what `driver` does, with a thread for each task and for each message.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use shuttle::rand::{Rng as _, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread::JoinHandle;
use tokio::sync::Notify;

use super::super::{Entered, Gates, Sight, Wheel};
use crate::engine::acquire::Order;
use crate::policy::commands::Claim;
use crate::policy::gate::{Fate, Granted, Next, Offer, Position, Seat};
use crate::policy::lease::Terms;
use crate::values::bounds::Bounds;
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::moment::Moment;
use crate::values::release::Release;
use crate::values::token::Token;
use crate::values::ttl::Ttl;
use crate::values::wait::Wait;

const KEY: &str = "k";
const LEASE: Duration = Duration::from_secs(30);
/// No time passes, unless a poll is let come due; so nothing but a wake-up moves anybody.
const NOW: Moment = Moment::from_nanos(1);

/// What may happen in one run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chances {
    /// So many drivers end with their runtime.
    pub(super) drivers_lost: u64,
    /// Pushes may be lost, and polls come due at any time.
    pub(super) pushes_lost: bool,
    /// The pool is closed at some time.
    pub(super) closes: bool,
}

/// One run.
pub(super) struct Site {
    gates: Gates,
    server: Mutex<Server>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    chances: Chances,
    drivers_lost: AtomicU64,
    seen: std::sync::Mutex<Seen>,
}

/// A key of a server: the first token has the lock, the rest wait; 0 is somebody else's.
#[derive(Default)]
struct Server {
    line: VecDeque<u64>,
}

/// What the run came to.
#[derive(Debug, Default)]
pub(super) struct Seen {
    asked: u64,
    /// How each token ended.
    ends: BTreeMap<u64, Vec<End>>,
    /// Who had the lock, in order.
    pub(super) turns: Vec<(usize, Seat)>,
    /// A gate that nobody misses goes, and the next one counts its seats anew: their bells tell them apart.
    gates: Vec<Arc<Notify>>,
    pub(super) sent_away: usize,
    holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Taken,
    CleanedUp,
}

/// A waker that loses nothing while its thread is blocked elsewhere.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    shuttle::future::block_on(future)
}

impl Site {
    pub(super) fn new(chances: Chances) -> Arc<Self> {
        let server = Server {
            line: VecDeque::from([0]),
        };
        Arc::new(Self {
            gates: Gates::new(Duration::from_secs(1)),
            server: Mutex::new(server),
            threads: Mutex::default(),
            chances,
            drivers_lost: AtomicU64::new(0),
            seen: std::sync::Mutex::default(),
        })
    }

    fn spawn(self: &Arc<Self>, run: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let site = self.clone();
        let thread = shuttle::thread::spawn(move || run(&site));
        self.threads.lock().unwrap().push(thread);
    }

    /// Waits for all threads; then for what those have started.
    pub(super) fn end(self: &Arc<Self>) {
        loop {
            let thread = self.threads.lock().unwrap().pop();
            match thread {
                Some(thread) => thread.join().unwrap(),
                None => return,
            }
        }
    }

    pub(super) fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }

    /// Nothing is left anywhere, and each token ended once.
    pub(super) fn is_clean(&self) {
        assert!(
            self.server.lock().unwrap().line.is_empty(),
            "left on the server"
        );
        assert!(self.gates.keys().is_empty(), "a gate is left");
        self.seen(|seen| {
            for token in 1..=seen.asked {
                let ends = seen.ends.get(&token).map_or(&[][..], |ends| ends);
                assert_eq!(ends.len(), 1, "token {token} ended: {ends:?}");
            }
        });
    }

    /// The one who has the lock at first gives it back.
    pub(super) fn stranger(self: &Arc<Self>) {
        self.spawn(|site| site.release(0));
    }

    pub(super) fn closer(self: &Arc<Self>) {
        self.spawn(|site| {
            for position in site.gates.close(&LockError::ShutDown) {
                site.clean_up(&position);
            }
        });
    }

    fn ended(&self, token: u64, end: End) {
        self.seen(|seen| seen.ends.entry(token).or_default().push(end));
    }
}

/// The server.
impl Site {
    /// Whether the lock is the token's.
    fn acquire(&self, token: u64) -> bool {
        let mut server = self.server.lock().unwrap();
        server.line.push_back(token);
        server.line.len() == 1
    }

    /// Leaves the queue, or gives the lock back, whose grant to the next one is published.
    fn release(self: &Arc<Self>, token: u64) {
        let mut server = self.server.lock().unwrap();
        let held = server.line.front() == Some(&token);
        server.line.retain(|other| *other != token);
        let granted = server.line.front().copied().filter(|_| held);
        drop(server);
        if let Some(granted) = granted {
            self.spawn(move |site| site.push(granted));
        }
    }

    fn clean_up(self: &Arc<Self>, position: &Position) {
        let token = number(&position.claim.value);
        self.ended(token, End::CleanedUp);
        self.release(token);
    }

    /// A push arrives, or does not.
    fn push(self: &Arc<Self>, token: u64) {
        if self.chances.pushes_lost && thread_rng().gen_bool(0.5) {
            return;
        }
        // One that comes before the acquire's answer, and can't be dated, is found by the next poll.
        let since_when = !self.chances.pushes_lost || thread_rng().gen_bool(0.5);
        let offer = since_when.then(|| offer(Granted::InTurn));
        let fate = self.gates.granted(KEY, &value(token), offer, NOW);
        if let Fate::Unwanted(position) = fate {
            self.clean_up(&position);
        }
    }
}

/// A waiter, as a ticket is one.
impl Site {
    /// `looks`: after so many it goes; else when it has the lock.
    pub(super) fn waiter(self: &Arc<Self>, looks: Option<u32>) {
        self.spawn(move |site| site.wait(looks));
    }

    fn wait(self: &Arc<Self>, looks: Option<u32>) {
        let Entered { seat, wheel, .. } = self.gates.enter(order(), NOW);
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
            let (sight, unwanted) = self.gates.look(KEY, seat, NOW, &waker);
            if let Some(position) = unwanted {
                self.clean_up(&position);
            }
            match sight {
                Sight::Wait => {}
                Sight::Drive(wheel) => self.spawn(move |site| site.drive(wheel)),
                Sight::Yours(position, _) => {
                    self.leave(seat);
                    return self.hold(seat_at, &position);
                }
                Sight::SentAway(_) => {
                    self.seen(|seen| seen.sent_away += 1);
                    break;
                }
            }
            // Who goes next time does so by itself; else it takes a wake-up.
            if looks != Some(look + 1) {
                block_on(woken.0.notified());
            }
        }
        self.leave(seat);
    }

    fn leave(self: &Arc<Self>, seat: Seat) {
        if let Some(position) = self.gates.leave(KEY, seat) {
            self.clean_up(&position);
        }
    }

    /// Which gate this is, by order of their coming.
    fn gate_now(&self) -> usize {
        let bell = self.gates.at(KEY, |keyed| keyed.bell.clone());
        let bell = bell.expect("a seat keeps its gate");
        self.seen(|seen| {
            let known = seen.gates.iter().position(|gate| Arc::ptr_eq(gate, &bell));
            known.unwrap_or_else(|| {
                seen.gates.push(bell);
                seen.gates.len() - 1
            })
        })
    }

    fn hold(self: &Arc<Self>, seat: (usize, Seat), position: &Position) {
        self.seen(|seen| {
            assert!(!std::mem::replace(&mut seen.holds, true), "two at once");
            seen.turns.push(seat);
        });
        self.ended(number(&position.claim.value), End::Taken);
        shuttle::thread::yield_now();
        self.seen(|seen| seen.holds = false);
        self.gates.left(KEY, position.token, NOW);
        self.release(number(&position.claim.value));
    }
}

/// A driver, as the task is one.
impl Site {
    fn drive(self: &Arc<Self>, wheel: Wheel) {
        loop {
            let next = self.gates.at(KEY, |keyed| keyed.next(wheel, NOW));
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
                Next::Sleep(_) => self.sleep(),
            }
        }
        self.gates.at(KEY, |keyed| keyed.driver_gone(wheel));
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
        let first = self.gates.at(KEY, |keyed| keyed.gate.first().is_some());
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
        let may_ask = self.gates.at(KEY, |keyed| keyed.asking(wheel, asking, NOW));
        assert_eq!(may_ask, Some(true), "no driver is ever stuck here");
        let granted = self.acquire(number);
        if self.is_lost() {
            if self.gates.ended(KEY, token, NOW) {
                self.clean_up(&position);
            }
            return None;
        }
        let fate = self.gates.at(KEY, |keyed| match granted {
            true => keyed.granted(token, offer(Granted::AtOnce)),
            false => keyed.gate.queued(token, self.next_poll()),
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
            let offer = offer(Granted::InTurn);
            self.gates.at(KEY, |keyed| keyed.granted(token, offer))
        } else if line.contains(&number) {
            let next = self.next_poll();
            self.gates.at(KEY, |keyed| keyed.gate.queued(token, next))
        } else {
            assert!(!self.gates.ended(KEY, token, NOW), "lost by the server");
            None
        };
        if let Some(Fate::Unwanted(position)) = fate {
            self.clean_up(&position);
        }
    }

    /// A poll that is due is due at once; others never are.
    fn next_poll(&self) -> Moment {
        match self.chances.pushes_lost {
            true => NOW,
            false => Moment::NEVER,
        }
    }

    fn sleep(&self) {
        let bell = self.gates.at(KEY, |keyed| keyed.bell.clone());
        block_on(bell.unwrap_or_default().notified());
    }
}

fn order() -> Arc<Order> {
    Arc::new(Order {
        key: Key::from(KEY),
        name: KEY.into(),
        terms: Terms {
            ttl: Ttl::new(LEASE).unwrap(),
            renew: None,
            bounds: Bounds::default(),
        },
        wait: Wait::Forever,
        release: Release::Confirmed,
        function: "f".into(),
    })
}

fn offer(how: Granted) -> Offer {
    Offer {
        since: NOW,
        lease: LEASE,
        epoch: 1,
        time: 0,
        how,
    }
}

fn value(token: u64) -> String {
    format!("1|{token}")
}

fn number(value: &str) -> u64 {
    value.trim_start_matches("1|").parse().unwrap()
}

fn position(token: u64) -> Position {
    Position {
        token: Token::of_test(token),
        claim: Claim {
            key: KEY.into(),
            value: value(token).into(),
            entry: "".into(),
        },
    }
}
