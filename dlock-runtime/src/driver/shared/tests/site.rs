//! The surroundings of the machine under shuttle: a server with one key, its messages, and a
//! record of what became of each token.
//!
//! Each message is a thread, so that it can arrive at any time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::rand::{Rng as _, thread_rng};
use shuttle::sync::Mutex;
use shuttle::thread::JoinHandle;
use tokio::sync::Notify;

use super::WAITERS;
use crate::client::lease::LeaseTerms;
use crate::client::local_queue::Grant;
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::{Action, Census};
use crate::client::{AcquireRefusal, Client, ClientRules, QueueStep, SentAcquire, Told};
use crate::driver::shared::{DriverHost, SharedClient};
use crate::link::clock::Clock;
use crate::rules::commands::{Acquire, Cancelled, Claim};
use crate::values::bounds::Bounds;
use crate::values::handoff::Handoff;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::token::{Token, TokenSource};
use crate::values::ttl::{Margin, Ttl};

pub(super) const KEY: &str = "k";
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// No time passes, so only a wake-up moves anything. There are two exceptions: where pushes may be
/// lost, polls come due; and one step of the clock ends all hand-offs.
const NOW: Moment = Moment::from_nanos(1);
const WITHIN: Duration = Duration::from_millis(100);
/// A pause before a poll that comes due by itself is no longer.
pub(super) const SOON: Duration = Duration::from_millis(2);

/// What may happen in one run.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each happens or not, whatever the others do"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chances {
    /// How many leaders end with their runtime.
    pub(super) leaders_lost: u64,
    /// Pushes may be lost, and polls come due at any time.
    pub(super) pushes_lost: bool,
    /// The pool is closed at some time.
    pub(super) closes: bool,
    /// How often in a row a lock may be handed on.
    pub(super) handoffs: u16,
    /// Some waiters ask for a longer lease than others and can't be handed a lock; and some leases
    /// are lost.
    pub(super) refusals: bool,
    /// At some moment so much time passes that locks granted before are not handed on any more.
    pub(super) chains_end: bool,
}

/// One run.
pub(super) struct Site {
    pub(super) server: Mutex<Server>,
    pub(super) shared: Arc<SharedClient>,
    /// How often a lock was handed on, in all runs.
    pub(super) handed_on: Arc<AtomicUsize>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) chances: Chances,
    pub(super) leaders_lost: AtomicU64,
    waiters: AtomicUsize,
    /// How many have entered so far; counted under the mutex.
    pub(super) arrivals: AtomicUsize,
    now: AtomicU64,
    /// Notified when time has passed.
    pub(super) timers: Notify,
    seen: std::sync::Mutex<Seen>,
}

/// A key of a server: the first token holds the lock, the rest wait; 0 is another process's.
#[derive(Default)]
pub(super) struct Server {
    pub(super) line: VecDeque<u64>,
}

/// What was recorded in a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) asked: u64,
    /// How each token ended.
    ends: BTreeMap<u64, Vec<End>>,
    /// Which waiters had the lock, in order: the how manieth to arrive each was.
    pub(super) turns: Vec<usize>,
    pub(super) rejected: usize,
    pub(super) holds: bool,
    /// The last holder: its token, and how often the lock had been handed on.
    pub(super) last: (u64, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Taken,
    CleanedUp,
}

impl Site {
    pub(super) fn new(chances: Chances, handed_on: Arc<AtomicUsize>) -> Arc<Self> {
        let server = Server {
            line: VecDeque::from([0]),
        };
        // Where a push may be lost, the next poll comes due by itself.
        let poll = if chances.pushes_lost {
            Duration::ZERO
        } else {
            Duration::MAX
        };
        let rules = ClientRules {
            handoff: Handoff::up_to(chances.handoffs, WITHIN),
            ..ClientRules::of_test(Duration::from_secs(1), poll)
        };
        let drawn = Arc::new(TokenSource::new().unwrap());
        let host = DriverHost::new(Clock::real(), drawn);
        let shared = Arc::new(SharedClient::new(host, rules, 0));
        Arc::new(Self {
            server: Mutex::new(server),
            shared,
            handed_on,
            threads: Mutex::default(),
            chances,
            leaders_lost: AtomicU64::new(0),
            waiters: AtomicUsize::new(WAITERS),
            arrivals: AtomicUsize::new(0),
            now: AtomicU64::new(NOW.as_nanos()),
            timers: Notify::new(),
            seen: std::sync::Mutex::default(),
        })
    }

    pub(super) fn spawn(self: &Arc<Self>, run: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let site = self.clone();
        let thread = shuttle::thread::spawn(move || run(&site));
        self.threads.lock().unwrap().push(thread);
    }

    /// Waits for all threads, also for those that they start.
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
        let state = self.shared.lock();
        assert!(state.client.queues.keys().is_empty(), "a queue is left");
        let census = state.client.tokens.census();
        drop(state);
        assert_eq!(census, Census::default(), "a token is left");
        self.seen(|seen| {
            for token in 1..=seen.asked {
                let ends = seen.ends.get(&token).map_or(&[][..], |ends| ends);
                assert_eq!(ends.len(), 1, "token {token} ended: {ends:?}");
            }
        });
    }

    /// The first holder, another process's, gives the lock back.
    pub(super) fn stranger(self: &Arc<Self>) {
        self.spawn(|site| site.release(0));
    }

    pub(super) fn closer(self: &Arc<Self>) {
        self.spawn(|site| {
            site.tell(|client, _| client.close());
            let keys = site.shared.lock().client.queues.keys();
            for key in keys {
                site.tell(|client, told| {
                    client.at(&key, told, |queue| {
                        queue.refuse_all(&AcquireRefusal::ShutDown);
                    });
                });
            }
        });
    }

    /// Lets time pass at some moment.
    pub(super) fn clock(self: &Arc<Self>) {
        self.spawn(|site| site.time_passes());
    }

    fn time_passes(&self) {
        self.passes(WITHIN);
        self.timers.notify_waiters();
    }

    pub(super) fn passes(&self, time: Duration) {
        let later = self.now().plus(time);
        self.now.store(later.as_nanos(), Ordering::Relaxed);
    }

    /// A waiter is done. After the last one, time passes: the leader may still sleep until the end
    /// of a hand-off chain.
    pub(super) fn one_is_done(&self) {
        if self.waiters.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.time_passes();
        }
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn ended(&self, token: u64, end: End) {
        self.seen(|seen| seen.ends.entry(token).or_default().push(end));
    }
}

/// The server.
impl Site {
    /// Whether the token gets the lock at once.
    pub(super) fn acquire(&self, token: u64) -> bool {
        let mut server = self.server.lock().unwrap();
        server.line.push_back(token);
        server.line.len() == 1
    }

    /// Leaves the server's queue, or gives the lock back; then the next token's grant is published.
    pub(super) fn release(self: &Arc<Self>, token: u64) {
        let mut server = self.server.lock().unwrap();
        let held = server.line.front() == Some(&token);
        server.line.retain(|other| *other != token);
        let granted = server.line.front().copied().filter(|_| held);
        drop(server);
        if let Some(granted) = granted {
            self.spawn(move |site| site.push(granted));
        }
    }

    /// Tells the machine what has happened; the watchdog cleans up at once.
    pub(super) fn tell<T>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut Client<DriverHost>, Told<'_, DriverHost>) -> T,
    ) -> T {
        self.shared
            .tell(self.now(), event, |token| self.clean_up(token))
    }

    /// Tells the queue what has happened.
    pub(super) fn at<T: Default>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut QueueStep<'_, DriverHost>) -> T,
    ) -> T {
        self.tell(|client, told| client.at(&queue_key(), told, event))
    }

    /// Cleans up after a token without an owner, as the watchdog does.
    pub(super) fn clean_up(self: &Arc<Self>, token: Token) {
        let due = (self.shared.lock().client.tokens).due_of(token, self.now());
        let Some(Action::Cancel { claim, .. }) = due else {
            panic!("cleaned up under its holder: {due:?}");
        };
        let number = number(&claim.value);
        self.ended(number, End::CleanedUp);
        self.release(number);
        let cancelled = Cancelled {
            is_recorded: false,
            time: 0,
            found: true,
            rest: 0,
            conclusive: true,
        };
        let now = self.now();
        self.shared
            .update(|tokens| tokens.cancelled(token, cancelled, true, now));
    }

    /// A push arrives, or is lost.
    fn push(self: &Arc<Self>, token: u64) {
        if self.chances.pushes_lost && thread_rng().gen_bool(0.5) {
            return;
        }
        // A push that comes before the acquire's answer can't be dated; then the next poll finds
        // the grant.
        let since_when = !self.chances.pushes_lost || thread_rng().gen_bool(0.5);
        let grant = since_when.then(|| Grant::in_turn(self.now(), LEASE, 1, 0));
        let (key, ours, value) = (KEY.into(), Token::of_test(token), value(token));
        self.tell(|client, told| client.pushed((&key, ours, &value), grant, told));
    }

    /// A request for the lock, perhaps for a longer lease than is granted.
    pub(super) fn spec(&self) -> Arc<AcquireSpec> {
        let longer = self.chances.refusals && thread_rng().gen_bool(0.3);
        spec(if longer { LEASE * 2 } else { LEASE })
    }
}

fn spec(ttl: Duration) -> Arc<AcquireSpec> {
    let terms = LeaseTerms {
        ttl: Ttl::new(ttl).unwrap(),
        renew: None,
        bounds: Bounds::default(),
        margin: Margin::DEFAULT,
    };
    AcquireSpec::of_test(KEY, terms)
}

/// The shared queue.
pub(super) fn queue_key() -> QueueKey {
    QueueKey::of(KEY.into(), &Kind::Exclusive, false)
}

fn value(token: u64) -> String {
    format!("{token}")
}

pub(super) fn number(value: &str) -> u64 {
    value.trim_start_matches("1|").parse().unwrap()
}

/// An acquire with this number.
pub(super) fn sent(number: u64, at: Moment) -> SentAcquire {
    SentAcquire {
        token: Token::of_test(number),
        command: Acquire {
            claim: Claim {
                is_once: false,
                key: KEY.into(),
                value: value(number).into(),
                queues: true,
            },
            lease: Ttl::new(LEASE).unwrap(),
            not_after: 0,
            repair_missing_ttl: None,
        },
        at,
        give_up: at.plus(LEASE),
    }
}
