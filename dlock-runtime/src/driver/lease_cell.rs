//! One lease as its holder sees it: until when it counts, and whether it is over. The watchdog and
//! the guard write it, everybody reads it, without a mutex. It keeps what the holder asked for, and
//! tells observers when the lease is renewed or lost.
//!
//! It decides nothing but that a deadline has passed. Invariant: once `cause` is set or `released`
//! is true, the lease is never held again. A body that must stop ([`LostCause::ShutDown`]) counts as
//! one that has lost its lease, but the server still has it, and it is renewed until it is released.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::client::lease::Lease;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Attempt;
use crate::link::clock::Clock;
use crate::link::joined::next_of;
use crate::observe::{self, AskedLock, ObservedHold};
use crate::rules::commands::{Claim, GivenBack};
use crate::strangers::{beside_others, spared};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::Token;

#[derive(Debug)]
pub(crate) struct LeaseCell {
    /// The process that took it: in a forked child it is lost at once.
    home: Home,
    /// What its holder asked for.
    spec: Arc<AcquireSpec>,
    /// Under which token the server has it.
    attempt: Attempt,
    clock: Clock,
    deadline: AtomicU64,
    /// Why it is over at the deadline.
    at_deadline: AtomicCause,
    released: AtomicBool,
    /// Another holder in this process has the lock now, with a cell of its own.
    handed_on: AtomicBool,
    /// How many guards of one body hold it.
    pub(super) holds: AtomicU32,
    /// Batches of this holder that the server may still apply.
    open_writes: AtomicU32,
    /// Locked bodies that run inside this holder's.
    inner_bodies: AtomicU32,
    /// Why it is over.
    cause: AtomicCause,
    /// What observers are told, from when its holder has it.
    observed: OnceLock<ObservedHold>,
    /// What the watchdog's release found, where the watchdog released it.
    freed: OnceLock<Option<GivenBack>>,
    changed: Notify,
}

impl LeaseCell {
    pub(crate) fn new(
        home: Home,
        spec: &Arc<AcquireSpec>,
        attempt: Attempt,
        clock: Clock,
        lease: &Lease,
    ) -> Self {
        Self {
            home,
            spec: spec.clone(),
            attempt,
            clock,
            deadline: AtomicU64::new(lease.deadline().as_nanos()),
            at_deadline: AtomicCause::new(lease.cause()),
            released: AtomicBool::new(false),
            handed_on: AtomicBool::new(false),
            holds: AtomicU32::new(1),
            open_writes: AtomicU32::new(0),
            inner_bodies: AtomicU32::new(0),
            cause: AtomicCause::none(),
            observed: OnceLock::new(),
            freed: OnceLock::new(),
            changed: Notify::new(),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.released.load(Ordering::Acquire) && self.why_lost().is_none()
    }

    /// Zero once it is over.
    pub(crate) fn remaining(&self) -> Duration {
        if self.is_held() {
            self.clock.now().until(self.deadline())
        } else {
            Duration::ZERO
        }
    }

    /// Why the lease is over although it was not released. A passed deadline is enough; once a call
    /// has seen that, no late renewal brings the lease back.
    pub(crate) fn why_lost(&self) -> Option<LostCause> {
        if self.is_inherited() {
            return Some(LostCause::Forked);
        }
        self.why_lost_at(self.clock.now())
    }

    /// The same, without the check for a forked child.
    pub(crate) fn why_lost_at(&self, now: Moment) -> Option<LostCause> {
        if self.cause.is_open() && now >= self.deadline() {
            self.lose(self.cause_at_deadline());
        }
        self.cause.get()
    }

    /// Whether it is known to be over although it was not released. No clock is read.
    pub(super) fn is_lost(&self) -> bool {
        !self.cause.is_open()
    }

    /// Whether its body must stop, although the server still has the lease.
    pub(super) fn must_stop(&self) -> bool {
        self.cause.get() == Some(LostCause::ShutDown)
    }

    /// Why the release found nothing at the server.
    pub(crate) fn why_gone(&self) -> LostCause {
        let known = self.cause.get().filter(|_| self.is_lost());
        known.unwrap_or_else(|| {
            if self.clock.now() >= self.deadline() {
                self.cause_at_deadline()
            } else {
                LostCause::Gone
            }
        })
    }

    /// Whether the process that this one was forked from took it.
    pub(crate) fn is_inherited(&self) -> bool {
        self.home.is_elsewhere()
    }

    pub(crate) fn spec(&self) -> &Arc<AcquireSpec> {
        &self.spec
    }

    pub(super) fn token(&self) -> Token {
        self.attempt.token
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.attempt.claim
    }

    /// A holder has the lock.
    pub(crate) fn begins(&self, observed: ObservedHold) {
        let _ = self.observed.set(observed); // a cell has one holder
        if let Some(cause) = self.cause.get().filter(|_| self.is_lost()) {
            self.tell_loss(cause); // it was logged before there was a hold
        }
    }

    /// A release has found nothing at the server: tells observers why, if they do not know yet.
    pub(super) fn was_gone(&self) {
        self.tell_loss(self.why_gone());
    }

    fn tell_loss(&self, cause: LostCause) {
        if let Some((hold, asked)) = self.hold() {
            hold.tell_loss(asked.key.parts(), cause);
        }
    }

    pub(super) fn observed(&self) -> Option<&ObservedHold> {
        self.observed.get()
    }

    /// The hold, with what was asked for, once it has begun.
    fn hold(&self) -> Option<(&ObservedHold, AskedLock<'_>)> {
        Some((self.observed.get()?, self.spec.asked()))
    }

    /// As [`extend`](Self::extend), by a renewal.
    pub(super) fn renewed(&self, deadline: Moment, at_deadline: LostCause) -> bool {
        let before = self.deadline();
        let is_held = self.extend(deadline, at_deadline);
        if let Some((hold, asked)) = self.hold().filter(|_| is_held) {
            let now = self.clock.now();
            hold.renewed(asked, now.until(before), now.until(deadline));
        }
        is_held
    }

    /// It is longer than `long_hold` by now: logs that, once, if its holder has it and is not done.
    /// Returns whether it logged it.
    pub(super) fn log_as_long(&self, held: Duration) -> bool {
        let observed = self.hold().filter(|_| self.is_held());
        observed.is_some_and(|(hold, asked)| hold.log_as_long(asked, held))
    }

    fn cause_at_deadline(&self) -> LostCause {
        self.at_deadline.get().unwrap_or(LostCause::Deadline) // it always has one
    }

    /// When the lease ends without a renewal.
    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// Makes the lease last until `deadline`, where it ends for this cause; it never gets shorter.
    /// `false` if it was over before.
    pub(crate) fn extend(&self, deadline: Moment, at_deadline: LostCause) -> bool {
        if !matches!(self.why_lost(), None | Some(LostCause::ShutDown)) {
            return false;
        }
        self.at_deadline.replace(at_deadline);
        self.deadline
            .fetch_max(deadline.as_nanos(), Ordering::AcqRel);
        self.cause.is_open()
    }

    /// Ends the lease; `false` if it was over already: the first cause wins.
    pub(crate) fn lose(&self, cause: LostCause) -> bool {
        let first = !self.is_released() && self.cause.set(cause);
        if first {
            let is_renewed = self.spec.terms.renew.is_some();
            match self.hold() {
                Some((hold, asked)) => hold.lost(asked, cause, is_renewed),
                None => observe::lost(self.spec.key.parts(), cause, is_renewed),
            }
        }
        self.notify();
        first
    }

    /// Stops the body, if it is one that may be stopped and no locked body runs inside it.
    pub(super) fn stop(&self) {
        let may_stop =
            self.spec.stops_at_shutdown && self.inner_bodies.load(Ordering::Acquire) == 0;
        if may_stop && !self.is_released() && self.cause.set(LostCause::ShutDown) {
            self.notify();
        }
    }

    /// A locked body begins inside this holder's.
    pub(super) fn inner_begins(&self) {
        self.inner_bodies.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn inner_ended(&self) {
        self.inner_bodies.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_released(&self) -> bool {
        self.released.load(Ordering::Acquire)
    }

    /// The holder gives it back; `false` if it had done so before.
    pub(crate) fn release(&self) -> bool {
        !self.released.swap(true, Ordering::SeqCst)
    }

    /// A batch is about to be sent; `false` if the holder has given the lock back, and then it must
    /// not be sent. One total order with [`release`](Self::release): either the release sees the
    /// batch, or the batch sees the release.
    pub(crate) fn write_begins(&self) -> bool {
        self.open_writes.fetch_add(1, Ordering::SeqCst);
        let may_be_sent = !self.released.load(Ordering::SeqCst);
        if !may_be_sent {
            self.write_ended();
        }
        may_be_sent
    }

    /// The server has applied the batch, or never will.
    pub(crate) fn write_ended(&self) {
        self.open_writes.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a batch without a clear answer may still be applied: only another token at the key
    /// stops it.
    pub(crate) fn has_open_writes(&self) -> bool {
        self.open_writes.load(Ordering::SeqCst) > 0
    }

    /// The lock goes to another holder in this process. The task that watches over this holder's
    /// lease is done, and must be [told](Self::notify).
    pub(crate) fn hand_on(&self) {
        self.handed_on.store(true, Ordering::Release);
    }

    pub(crate) fn is_handed_on(&self) -> bool {
        self.handed_on.load(Ordering::Acquire)
    }

    /// Something about the lease changed: wakes the tasks that watch it.
    pub(crate) fn notify(&self) {
        spared(|| self.changed.notify_waiters());
    }

    /// Waits for the next change after this future was created.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The watchdog has released the lock, or given up.
    pub(crate) fn freed(&self, found: Option<GivenBack>) {
        let _ = self.freed.set(found); // the first result wins
        self.notify();
    }

    /// What the watchdog's release found; `None` if it gave up.
    pub(crate) async fn wait_freed(&self) -> Option<GivenBack> {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = self.freed.get() {
                return *found;
            }
            changed.await;
        }
    }

    /// Why it was lost, once it is. Never ends for a lease that is released in time.
    pub(crate) async fn wait_lost(&self) -> LostCause {
        loop {
            let changed = self.changed.notified();
            if let Some(cause) = self.cause.get() {
                return cause;
            }
            changed.await;
        }
    }
}

/// The leases of all keys of one lock: lost when the first of them is.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    first: Arc<LeaseCell>,
    others: Vec<Arc<LeaseCell>>,
}

impl Cells {
    pub(crate) fn new(first: Arc<LeaseCell>, others: Vec<Arc<LeaseCell>>) -> Self {
        Self { first, others }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.all().all(|cell| cell.is_held())
    }

    pub(crate) fn remaining(&self) -> Duration {
        let remaining = self.all().map(|cell| cell.remaining());
        remaining.min().unwrap_or_default()
    }

    /// As [`LeaseCell::wait_lost`], for the body; in a forked child it ends at once.
    pub(crate) fn wait_lost(self) -> Lost {
        Lost::new(self.first.home, self.wait(), LostCause::Forked)
    }

    /// The same for those who watch the lock beside its body.
    pub(crate) fn watch_lost(self) -> Lost {
        Lost::new(
            self.first.home,
            beside_others(self.wait()),
            LostCause::Forked,
        )
    }

    async fn wait(self) -> LostCause {
        if self.others.is_empty() {
            return self.first.wait_lost().await;
        }
        let waits = self.all().map(|cell| Box::pin(cell.wait_lost()));
        let mut waits: Vec<_> = waits.collect();
        let lost = next_of(&mut waits, Pin::as_mut).await;
        lost.map_or(LostCause::Deadline, |(_, cause)| cause) // there are some
    }

    fn all(&self) -> impl Iterator<Item = &Arc<LeaseCell>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Ends when a lease is lost.
pub(crate) type Lost = InProcess<LostCause>;

/// What is waited for in the process that began to wait.
pub(crate) struct InProcess<T> {
    home: Home,
    waits: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    /// What a forked child gets.
    forked: T,
}

impl<T> InProcess<T> {
    pub(crate) fn new(
        home: Home,
        waits: impl Future<Output = T> + Send + 'static,
        forked: T,
    ) -> Self {
        let waits = Some(Box::pin(waits) as _);
        Self {
            home,
            waits,
            forked,
        }
    }
}

impl<T: Copy + Unpin> Future for InProcess<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.home.is_elsewhere() {
            return Poll::Ready(self.forked);
        }
        match &mut self.waits {
            Some(waits) => waits.as_mut().poll(cx),
            None => Poll::Pending, // only while it is dropped
        }
    }
}

/// The waiting future is registered in a list with a mutex, which a forked child must not touch.
impl<T> Drop for InProcess<T> {
    fn drop(&mut self) {
        if self.home.is_elsewhere() {
            std::mem::forget(self.waits.take());
        }
    }
}

/// A cause, or none yet, without a mutex.
struct AtomicCause(AtomicU8);

/// In the order of their numbers; a number is an index here, plus 1.
const CAUSES: [LostCause; 9] = [
    LostCause::ShutDown,
    LostCause::Deadline,
    LostCause::Gone,
    LostCause::MaxHold,
    LostCause::MaxRenewals,
    LostCause::Watchdog,
    LostCause::Unclear,
    LostCause::Forked,
    LostCause::TooFewNodes,
];

impl AtomicCause {
    const NONE: u8 = 0;

    fn none() -> Self {
        Self(AtomicU8::new(Self::NONE))
    }

    fn new(cause: LostCause) -> Self {
        Self(AtomicU8::new(Self::number(cause)))
    }

    fn get(&self) -> Option<LostCause> {
        let at = self.0.load(Ordering::Acquire).checked_sub(1)?;
        let cause = CAUSES.get(usize::from(at)).copied();
        Some(cause.unwrap_or(LostCause::Deadline)) // a loss is one, whatever its number
    }

    /// Whether there is none by which the lease is over: a body that must stop may lose it yet.
    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire) <= Self::number(LostCause::ShutDown)
    }

    /// `false` if there is one already: the first wins, but over one that only stops the body.
    fn set(&self, cause: LostCause) -> bool {
        let cause = Self::number(cause);
        let replaces = |before| {
            (before <= Self::number(LostCause::ShutDown) && before < cause).then_some(cause)
        };
        let set = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, replaces);
        set.is_ok()
    }

    fn replace(&self, cause: LostCause) {
        self.0.store(Self::number(cause), Ordering::Release);
    }

    const fn number(cause: LostCause) -> u8 {
        match cause {
            LostCause::ShutDown => 1,
            LostCause::Deadline => 2,
            LostCause::Gone => 3,
            LostCause::MaxHold => 4,
            LostCause::MaxRenewals => 5,
            LostCause::Watchdog => 6,
            LostCause::Unclear => 7,
            LostCause::Forked => 8,
            LostCause::TooFewNodes => 9,
        }
    }
}

impl fmt::Debug for AtomicCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// Each cause stands at its own number.
const _: () = {
    let mut at = 0;
    while at < CAUSES.len() {
        at += 1;
        assert!(AtomicCause::number(CAUSES[at - 1]) as usize == at);
    }
};
