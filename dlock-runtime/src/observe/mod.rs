//! What operators see: the events of the log, here, one function each; the spans and events of a
//! call (`call`) and of a hold (`hold`); what listeners and metrics are told (`classes`, `metrics`,
//! `gauges`). The only folder that names the crates `tracing` and `metrics`.
//!
//! Never in this folder: a decision; the caller says when an event is due. Invariant: a text from
//! outside is made printable before it is logged.

/// Logs an event, unless nothing listens. What listens is the program's: its panic must end neither
/// the caller's task nor the watchdog.
macro_rules! event {
    ($log:ident, $level:ident, $($field:tt)*) => {
        if tracing::level_filters::LevelFilter::current() >= tracing::Level::$level {
            $crate::strangers::spared(|| tracing::$log!($($field)*));
        }
    };
}
macro_rules! error { ($($field:tt)*) => { event!(error, ERROR, $($field)*) }; }
macro_rules! warn { ($($field:tt)*) => { event!(warn, WARN, $($field)*) }; }
macro_rules! info { ($($field:tt)*) => { event!(info, INFO, $($field)*) }; }
macro_rules! debug { ($($field:tt)*) => { event!(debug, DEBUG, $($field)*) }; }

/// A span at a [`SpanLevel`], which has to be a constant for `tracing`.
macro_rules! span_at {
    ($level:expr, $($fields:tt)*) => {
        match $level {
            $crate::values::config::SpanLevel::Info => tracing::info_span!($($fields)*),
            $crate::values::config::SpanLevel::Debug => tracing::debug_span!($($fields)*),
            $crate::values::config::SpanLevel::Trace => tracing::trace_span!($($fields)*),
        }
    };
}

mod call;
mod classes;
#[cfg(feature = "metrics")]
mod gauges;
mod hold;
#[cfg(feature = "metrics")]
mod metrics;

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Once;
use std::time::Duration;

use tracing::Span;
use tracing::field::display;
use tracing::level_filters::LevelFilter;
use tracing::span::Id;

use crate::strangers::spared;
use crate::values::class::{Class, Site};
use crate::values::config::SpanLevel;
use crate::values::error::{LockError, LostCause};
use crate::values::fence::Fence;
use crate::values::finding::{Finding, Weight};
use crate::values::key::{Key, KeyParts};
use crate::values::kind::Kind;
use crate::values::shown::{TEXT_AT_MOST, shown};

pub(crate) use self::call::ObservedCall;
pub(crate) use self::classes::{ObservedClass, Observers};
#[cfg(feature = "metrics")]
pub(crate) use self::gauges::{Gauges, PoolGauges};
pub(crate) use self::hold::ObservedHold;

/// Which lock is asked for, and where in the program.
#[derive(Clone, Copy)]
pub(crate) struct AskedLock<'a> {
    pub(crate) key: &'a Key,
    pub(crate) kind: &'a Kind,
    pub(crate) site: Site,
}

impl AskedLock<'_> {
    pub(crate) fn class(&self) -> Class {
        Class::of(self.key, self.site)
    }
}

/// Whether any event may be seen, as far as that is known without asking.
pub(crate) fn is_logging() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Whether a span at this level may be seen, as far as that is known without asking. Asked before a
/// span is made, because `debug_span!` may evaluate its fields although nobody records any; and not
/// by `span_enabled!`, which filters by name would not know as that span.
fn may_open(level: SpanLevel) -> bool {
    let needed = match level {
        SpanLevel::Info => LevelFilter::INFO,
        SpanLevel::Debug => LevelFilter::DEBUG,
        SpanLevel::Trace => LevelFilter::TRACE,
    };
    LevelFilter::current() >= needed
}

fn current_span() -> Option<Id> {
    spared(|| Span::current().id()).flatten()
}

pub(crate) fn memory_only() {
    warn!("dlock keeps its locks in memory:// and protects this process only");
}

/// `function`: that of its holder; `None` if nobody had begun to hold it. `span`: the holder's.
fn lost_inside(
    span: Option<Id>,
    (key, function): (KeyParts<'_>, Option<&str>),
    (cause, is_renewed): (LostCause, bool),
) {
    let function = function.map(display);
    warn!(
        parent: span,
        key = &*key.shown(), namespace = key.namespace(),
        function,
        ?cause,
        "lost a lock: {}",
        cause.of_lease(is_renewed)
    );
}

/// Nobody had begun to hold it, as far as observers were told.
pub(crate) fn lost(key: KeyParts<'_>, cause: LostCause, is_renewed: bool) {
    lost_inside(current_span(), (key, None), (cause, is_renewed));
}

/// Once for each process.
fn listener_panicked() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        error!("a `LockListener` panicked; locks go on, but it was told less than happened");
    });
}

/// A waiter's acquire or poll was answered: another holder has the lock.
pub(crate) fn queued(key: KeyParts<'_>, holder: impl FnOnce() -> String) {
    if may_open(SpanLevel::Debug)
        && spared(|| tracing::enabled!(tracing::Level::DEBUG)) == Some(true)
    {
        debug!(key = &*key.shown(), holder = holder(), "waits for a lock");
    }
}

/// Once for each call.
pub(crate) fn slow_acquire(
    key: KeyParts<'_>,
    function: &str,
    waited: Duration,
    holder: Option<&str>,
) {
    warn!(
        key = &*key.shown(), namespace = key.namespace(),
        %function,
        ?waited,
        holder,
        "a call has waited for a lock for longer than `slow_acquire`"
    );
}

/// A batch of renewals was answered after `took`, or was not.
pub(crate) fn renewals(renewed: usize, gone: usize, failed: usize, took: Option<Duration>) {
    debug!(renewed, gone, failed, ?took, "a batch of renewals ended");
    #[cfg(feature = "metrics")]
    metrics::renewals(renewed as u64, gone as u64, failed as u64, took);
}

pub(crate) fn term_begins(key: KeyParts<'_>, fence: Fence) {
    info!(
        key = &*key.shown(),
        namespace = key.namespace(),
        fence = fence.get(),
        "leads"
    );
}

/// A candidate has lost its term, or could not campaign, and does so again after a pause.
pub(crate) fn campaigns_again(key: KeyParts<'_>, why: &LockError) {
    info!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "campaigns for the lead again: {why}"
    );
}

/// Once for each pair of classes.
pub(crate) fn lock_order(key: KeyParts<'_>, inversion: &dyn Display) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "locks are taken in an order that can deadlock: {inversion}"
    );
}

/// The body was allowed to finish (`on_lost = "finish"`), or it ended in time but the lock was gone
/// by then.
pub(crate) fn release_found_nothing(key: KeyParts<'_>) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "released a lock that was no longer ours"
    );
}

/// The job runs once per period, and succeeded; so it may run again within it.
pub(crate) fn run_unrecorded(key: KeyParts<'_>) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "a run that succeeded is not recorded, because its lock was gone, or the server refused the record or did not answer: the job may run again within its period"
    );
}

/// Its body ran to its end.
pub(crate) fn value_dropped(key: KeyParts<'_>) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "dropped what a body returned, because its lock was lost"
    );
}

/// Its caller gets the loss instead.
pub(crate) fn error_dropped(key: KeyParts<'_>, error: &dyn Display) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        %error,
        "dropped the error that a body returned, because its lock was lost"
    );
}

pub(crate) fn release_unclear(key: KeyParts<'_>, why: &dyn Display, total: u64) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        total,
        "a release got no clear answer and is repeated in the background: {why}"
    );
    #[cfg(feature = "metrics")]
    metrics::release_unclear();
}

pub(crate) fn cleaned_up(key: KeyParts<'_>, found: bool) {
    debug!(key = &*key.shown(), found, "cleaned up after a lock");
}

pub(crate) fn clean_up_given_up(key: KeyParts<'_>) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "could not clean up after a lock; its key ends with its ttl"
    );
}

/// A body was skipped: `on_busy = "skip"`.
pub(crate) fn skipped(key: KeyParts<'_>, holder: &dyn Display) {
    debug!(key = &*key.shown(), %holder, "left a body out because its lock is busy");
}

/// A body was skipped, because its job was run within its period.
pub(crate) fn not_due(key: KeyParts<'_>, last_run: &dyn Display) {
    debug!(key = &*key.shown(), %last_run, "left a body out because its job is not due");
}

/// At the first failure of an outage.
pub(crate) fn renewals_fail(key: KeyParts<'_>, leases: usize, why: &dyn Display) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        leases,
        "can't renew a lock; it is tried again until its deadline: {why}"
    );
}

/// Ends what [`renewals_fail`] began.
pub(crate) fn renewals_go_on(key: KeyParts<'_>) {
    info!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "a lock is renewed again"
    );
}

pub(crate) fn held_at_shutdown(key: KeyParts<'_>) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        "a lock was still held when shutdown stopped waiting"
    );
}

/// At the first failure of an outage.
pub(crate) fn unreachable(address: &dyn Display, why: &dyn Display) {
    warn!(%address, "can't connect to the lock server: {why}");
}

pub(crate) fn reconnected(address: &dyn Display, attempts: u32) {
    info!(%address, attempts, "connected to redis again");
    #[cfg(feature = "metrics")]
    metrics::reconnected();
}

pub(crate) fn master_moved(from: &dyn Display, to: &dyn Display) {
    info!(%from, %to, "the sentinels name another master");
}

/// Once for each pool.
pub(crate) fn several_servers(address: &dyn Display, one: &str, other: &str) {
    warn!(
        %address, %one, %other,
        "the name leads to several servers: two may hold one lock"
    );
}

/// At most every 10 s.
pub(crate) fn masters_changed(came: &str, went: &str) {
    let (came, went) = (fit(came), fit(went));
    info!(%came, %went, "the cluster has other masters");
}

/// At the first failure of an outage.
pub(crate) fn cluster_is_silent(nodes: &str, why: &dyn Display) {
    let nodes = fit(nodes);
    warn!(%nodes, "the nodes of the cluster can't be asked who serves what; locks of those that answer go on: {why}");
}

/// Ends what [`cluster_is_silent`] began.
pub(crate) fn cluster_answers(nodes: &str) {
    let nodes = fit(nodes);
    info!(%nodes, "the nodes of the cluster say again who serves what");
}

/// Once for each sentinel and pool.
pub(crate) fn sentinel_not_heard(sentinel: &dyn Display, why: &dyn Display) {
    warn!(
        %sentinel,
        "a sentinel does not tell when the master moves, so it is asked twice a minute: {why}"
    );
}

/// Once, until a majority answers again.
pub(crate) fn no_majority(address: &dyn Display, why: &dyn Display) {
    warn!(
        %address,
        "a failover would not be followed, and no new connection can be made: {why}"
    );
}

/// Ends what [`no_majority`] began.
pub(crate) fn majority_again(address: &dyn Display) {
    info!(%address, "a failover is followed again: a majority of the sentinels answers");
}

/// A node of a quorum: once for each time that it goes.
pub(crate) fn node_away(node: &str, why: &str) {
    warn!(%node, "a node does not vote, because it is away: {why}");
}

/// A node of a quorum, at the start of the pool or of the node.
pub(crate) fn node_may_not_vote_yet(node: &str, rest: Duration) {
    warn!(
        %node,
        seconds = rest.as_secs() + 1,
        "a node was started a short time ago, so it does not vote yet: it may have lost locks that are still held; new servers wait, too, and a first lock waits for a quorum of them"
    );
}

/// A node of a quorum, once for each time that its clock is set.
pub(crate) fn node_clock_was_set(node: &str, rest: Duration) {
    warn!(
        %node,
        seconds = rest.as_secs() + 1,
        "a node's clock was set, so it does not vote for a while: locks that are still held may have ended there"
    );
}

pub(crate) fn node_votes_again(node: &str) {
    info!(%node, "a node votes again");
}

/// Once for each pool.
pub(crate) fn waiters_poll(address: &dyn Display, why: &dyn Display) {
    warn!(
        %address,
        "no pushes can be had from the server, so those who wait for a lock poll it: {why}"
    );
}

pub(crate) fn waiting_through_outage(key: KeyParts<'_>, waited: Duration, why: &dyn Display) {
    warn!(
        key = &*key.shown(),
        namespace = key.namespace(),
        ?waited,
        "still waiting for a lock while the lock server can't be used: {why}"
    );
}

/// Once, until the clocks keep pace again.
pub(crate) fn clock_rate(address: &dyn Display, ppm: i64) {
    warn!(
        %address,
        ppm,
        "the server's clock and this machine's run at different rates, by more than `clock_margin`: two may hold a lock; slew both clocks more slowly, or widen it"
    );
}

/// Once, until the clocks keep pace again.
pub(crate) fn clock_stepped(address: &dyn Display, ms: i64) {
    warn!(
        %address,
        ms,
        "the server's clock was set, or another server answers: leases end earlier or later by as much"
    );
}

/// Once for each finding, when a pool is made.
pub(crate) fn found(address: &dyn Display, finding: &Finding) {
    let concern = finding.concern();
    match finding.weight() {
        Weight::Harms => {
            warn!(%address, ?concern, "the server is set up so that it can harm locks: {finding}");
        }
        Weight::Matters => {
            info!(%address, ?concern, "a setting of the server may matter to locks: {finding}");
        }
    }
}

pub(crate) fn watchdog_ended() {
    error!("dlock's watchdog ended unexpectedly; every lease it watched over is lost");
}

/// A printable form of what others wrote.
fn fit(text: &str) -> Cow<'_, str> {
    shown(text, TEXT_AT_MOST)
}
