//! The client machine of a pool under its one mutex, and what follows from its steps.
//!
//! `client` decides; [`SharedClient::tell`] tells it an event and carries out what follows. Invariant:
//! nothing is sent, awaited, woken or logged while the mutex is locked.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;

use super::lease_cell::LeaseCell;
use super::status::PoolCounts;
use super::waiting::FirstAcquire;
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::spec::AcquireSpec;
use crate::client::tokens::{self, Action, Attempt};
use crate::client::{Client, ClientActions, ClientHost, ClientRules, ClientWaker, Told};
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::observe;
use crate::strangers::CallersWaker;
use crate::sync::{Mutex, MutexGuard};
use crate::values::key::KeyParts;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::{Token, TokenSource};

pub(super) type PoolTokens = tokens::Tokens<Arc<LeaseCell>>;

/// What the machine keeps for a pool.
#[derive(Debug)]
pub(super) struct DriverHost {
    home: Home,
    clock: Clock,
    drawn: Arc<TokenSource>,
}

impl DriverHost {
    pub(super) fn new(clock: Clock, drawn: Arc<TokenSource>) -> Self {
        let home = Home::here();
        Self { home, clock, drawn }
    }
}

impl ClientHost for DriverHost {
    type Waker = CallersWaker;
    type Flight = Arc<FirstAcquire>;
    type Holder = Arc<LeaseCell>;
    type Request = Arc<AcquireSpec>;
    type Error = CommandError;

    fn holder(&self, spec: &Arc<AcquireSpec>, attempt: Attempt, lease: &Lease) -> Arc<LeaseCell> {
        Arc::new(LeaseCell::new(self.home, spec, attempt, self.clock, lease))
    }

    fn token_in(&self, value: &str) -> Option<Token> {
        self.drawn.recognize_in(value)
    }

    fn terms(spec: &Arc<AcquireSpec>) -> &LeaseTerms {
        &spec.terms
    }

    fn kind(spec: &Arc<AcquireSpec>) -> &Kind {
        &spec.kind
    }
}

impl ClientWaker for CallersWaker {
    type Source = Waker;

    fn of(waker: &Waker) -> Self {
        Self::of(waker)
    }

    fn will_wake(&self, waker: &Waker) -> bool {
        self.will_wake(waker)
    }
}

/// What all tasks of a pool share, and how its watchdog is woken.
#[derive(Debug)]
pub(super) struct SharedClient {
    /// In a forked child, nothing may wait for the mutex.
    pub(super) home: Home,
    pub(super) state: Mutex<ClientState>,
    pub(super) clock: Clock,
    pub(super) command_timeout: Duration,
    /// How long the names' namespace is.
    namespace: usize,
    /// The watchdog's thread ended although leases were left. Set under the mutex, so that a lease
    /// begins either before that, or sees it.
    pub(super) dead: AtomicBool,
    /// Wakes the watchdog before its planned time.
    pub(super) wake: Notify,
    /// Notified when a token may have been forgotten, from when `Watchdog::drained` waits for it.
    pub(super) fewer: Notify,
}

#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) client: Client<DriverHost>,
    /// When the next stray grant may be cleaned up.
    pub(super) next_stray: Moment,
    /// Somebody waits, or has waited, until no token is left.
    pub(super) is_draining: bool,
    /// The pool is gone: the watchdog's thread ends when nothing is left to clean up.
    pub(super) closing: bool,
    /// `memory://`: the lease whose task looks at what is held and waited for.
    pub(super) looker: Option<Token>,
}

/// What a pool has at one moment.
pub(super) struct PoolSnapshot {
    pub(super) counts: PoolCounts,
    /// Each lock that is held, by its holder's lease.
    pub(super) held: Vec<Arc<LeaseCell>>,
    /// Each call that waits.
    pub(super) waiting: Vec<Arc<AcquireSpec>>,
}

impl ClientState {
    pub(super) fn snapshot(&self) -> PoolSnapshot {
        PoolSnapshot {
            counts: self.counts(),
            held: self.client.tokens.holders().cloned().collect(),
            waiting: self.client.queues.waiters().cloned().collect(),
        }
    }

    fn counts(&self) -> PoolCounts {
        let census = self.client.tokens.census();
        PoolCounts {
            held: census.held,
            waiting: self.client.queues.waiters().count(),
            cleaning_up: census.cleaning_up,
            in_flight: census.acquiring + census.releasing,
        }
    }
}

/// Wakes who must look, and drops wakers that are not needed any more.
struct LeftToDo(ClientActions<DriverHost>);

impl Drop for LeftToDo {
    fn drop(&mut self) {
        if let Some(waker) = self.0.wake.take() {
            waker.wake();
            let more = std::mem::take(&mut self.0.wake_too);
            more.into_iter().for_each(CallersWaker::wake);
        }
    }
}

/// What the watchdog must do about a lease that has begun.
pub(super) struct BegunLease {
    lost: Option<Action<Arc<LeaseCell>>>,
    is_in_time: bool,
}

impl SharedClient {
    /// A lease has begun. If the watchdog's thread has ended, nothing renews it, so it is lost at
    /// once. Call this under the mutex, and [`begun`](Self::begun) after unlocking.
    pub(super) fn begins(&self, state: &mut ClientState, token: Token) -> BegunLease {
        let lost = self.dead.load(Ordering::Acquire).then(|| {
            let now = self.clock.now();
            state.client.tokens.unguarded(token, now)
        });
        BegunLease {
            lost: lost.flatten(),
            is_in_time: state.client.tokens.looks_in_time(),
        }
    }

    /// Carries out what `begins` found. Call it with the mutex unlocked.
    pub(super) fn begun(&self, begun: BegunLease) {
        if begun.lost.is_some() {
            self.announce(begun.lost);
        }
        if !begun.is_in_time {
            self.wake.notify_one();
        }
    }

    /// `namespace`: of the pool's names, how long.
    pub(super) fn new(host: DriverHost, rules: ClientRules, namespace: usize) -> Self {
        let (home, clock) = (host.home, host.clock);
        let command_timeout = rules.command_timeout;
        Self {
            home,
            state: Mutex::new(ClientState {
                client: Client::new(host, rules),
                next_stray: Moment::default(),
                is_draining: false,
                closing: false,
                looker: None,
            }),
            clock,
            command_timeout,
            namespace,
            dead: AtomicBool::new(false),
            wake: Notify::new(),
            fewer: Notify::new(),
        }
    }

    /// Tells the machine what has happened, and carries out what follows after unlocking.
    /// `nudge`: for each token that the watchdog must look at.
    #[inline]
    pub(super) fn tell<T>(
        &self,
        now: Moment,
        event: impl FnOnce(&mut Client<DriverHost>, Told<'_, DriverHost>) -> T,
        nudge: impl Fn(Token),
    ) -> T {
        // Before the mutex, so that it is dropped after it, in a panic too: copying a caller's waker
        // may panic.
        let mut left = LeftToDo(ClientActions::default());
        let mut state = self.lock();
        let reply = event(&mut state.client, (now, &mut left.0));
        let begun = left.0.begun.map(|token| self.begins(&mut state, token));
        let is_draining = state.is_draining;
        drop(state);
        if let Some(begun) = begun {
            self.begun(begun);
        }
        if is_draining {
            self.fewer.notify_waiters();
        }
        for token in left.0.unowned.into_iter().flatten() {
            nudge(token);
        }
        reply
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn parts<'a>(&self, name: &'a str) -> KeyParts<'a> {
        KeyParts::new(name, self.namespace)
    }

    pub(super) fn update<T>(&self, change: impl FnOnce(&mut PoolTokens) -> T) -> T {
        let mut state = self.lock();
        let changed = change(&mut state.client.tokens);
        let is_draining = state.is_draining;
        drop(state);
        if is_draining {
            self.fewer.notify_waiters();
        }
        changed
    }

    /// Wakes the watchdog unless it wakes by itself in time.
    pub(super) fn wake_if_needed(&self) {
        let state = self.lock();
        let in_time = state.client.tokens.looks_in_time();
        let closing = state.closing;
        drop(state);
        if closing || !in_time {
            self.wake.notify_one();
        }
    }

    /// Tells holders and the log what became of leases and clean-ups.
    pub(super) fn announce(&self, news: impl IntoIterator<Item = Action<Arc<LeaseCell>>>) {
        for action in news {
            self.announce_one(action);
        }
        self.fewer.notify_waiters();
    }

    fn announce_one(&self, action: Action<Arc<LeaseCell>>) {
        match action {
            Action::Lost { holder, cause, .. } => {
                holder.lose(cause);
            }
            Action::Extended {
                token,
                holder,
                deadline,
                cause,
            } => {
                if !holder.renewed(deadline, cause) {
                    // The holder has already seen the deadline pass, so stop renewing.
                    let now = self.clock.now();
                    self.lock().client.tokens.leave_to_clean_up(token, now);
                }
            }
            Action::CleanedUp {
                holder,
                claim,
                found,
                is_unrecorded,
            } => {
                if is_unrecorded {
                    observe::run_unrecorded(self.parts(&claim.key));
                }
                match found {
                    Some(it) => observe::cleaned_up(self.parts(&claim.key), it.found),
                    None => observe::clean_up_given_up(self.parts(&claim.key)),
                }
                if let Some(holder) = holder {
                    holder.freed(found);
                }
            }
            Action::Renew { .. } | Action::Verify { .. } | Action::Cancel { .. } => {}
        }
    }
}
