//! The metrics, by the facade crate `metrics`: the only file that names it.
//!
//! The names are in docs/reference/metrics.md. Invariant: no label has a value of a key, a token or a
//! server's words.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use crate::strangers::spared;
use crate::values::error::LostCause;
use crate::values::listener::{AcquireOutcome, HoldOutcome};

const ACQUIRE: &str = "dlock_acquire_seconds";
const HOLD: &str = "dlock_hold_seconds";
const LOST: &str = "dlock_lost_total";
const MARGIN: &str = "dlock_renewal_margin_ratio";
const RENEWALS: &str = "dlock_renewals_total";
const RENEWAL: &str = "dlock_renewal_seconds";
const UNCLEAR: &str = "dlock_release_unclear_total";
const RECONNECTS: &str = "dlock_reconnects_total";
const HELD: &str = "dlock_held";
const WAITING: &str = "dlock_waiting";
const OLDEST_HOLD: &str = "dlock_oldest_hold_seconds";
const CLEANING_UP: &str = "dlock_cleaning_up";
const IN_FLIGHT: &str = "dlock_in_flight";

const ACQUIRE_OUTCOMES: usize = AcquireOutcome::Cancelled as usize + 1;
const HOLD_OUTCOMES: usize = HoldOutcome::Stopped as usize + 1;

/// Tells the recorder what each name means. Called whenever handles are made anew, because the
/// program may install its recorder after its first lock.
pub(super) fn describe() {
    spared(describe_all);
}

fn describe_all() {
    describe_histogram!(
        ACQUIRE,
        Unit::Seconds,
        "How long calls waited for their lock, by how they ended"
    );
    describe_histogram!(HOLD, Unit::Seconds, "How long locks were held");
    describe_counter!(
        LOST,
        Unit::Count,
        "Leases that ended before their holder was done"
    );
    describe_histogram!(
        MARGIN,
        "What part of a lease was left when it was renewed: near 0, it was nearly lost"
    );
    describe_counter!(
        RENEWALS,
        Unit::Count,
        "Renewals of leases, by what the server said"
    );
    describe_histogram!(
        RENEWAL,
        Unit::Seconds,
        "How long the server took to answer a batch of renewals"
    );
    describe_counter!(
        UNCLEAR,
        Unit::Count,
        "Releases without a clear answer, which are repeated in the background"
    );
    describe_counter!(
        RECONNECTS,
        Unit::Count,
        "Connections that were made again after a failure"
    );
    describe_gauge!(HELD, Unit::Count, "Locks that this process holds");
    describe_gauge!(
        WAITING,
        Unit::Count,
        "Calls of this process that wait for a lock"
    );
    describe_gauge!(
        OLDEST_HOLD,
        Unit::Seconds,
        "How long the oldest of the locks that this process holds has been held, at least"
    );
    describe_gauge!(
        CLEANING_UP,
        Unit::Count,
        "Abandoned attempts that are being cleaned up"
    );
    describe_gauge!(
        IN_FLIGHT,
        Unit::Count,
        "Acquires and releases that are sent and not answered yet"
    );
}

/// The handles of one class, each made when it is first used: a recorder shows what was made.
pub(super) struct Meters {
    lock: String,
    kind: &'static str,
    function: String,
    acquire: [OnceLock<Histogram>; ACQUIRE_OUTCOMES],
    hold: [OnceLock<Histogram>; HOLD_OUTCOMES],
    margin: OnceLock<Histogram>,
}

impl Meters {
    pub(super) fn new(lock: &str, kind: &'static str, function: &str) -> Self {
        let meters = Self {
            lock: lock.to_owned(),
            kind,
            function: function.to_owned(),
            acquire: Default::default(),
            hold: Default::default(),
            margin: OnceLock::new(),
        };
        // Shown before the first loss, because the increase to a first sample is not seen.
        spared(|| meters.losses(LostCause::Gone).increment(0));
        meters
    }

    pub(super) fn acquire_ended(&self, outcome: AcquireOutcome, waited: Duration) {
        let make = || histogram!(ACQUIRE, "lock" => self.lock.clone(), "kind" => self.kind, "outcome" => outcome.as_str());
        if let Some(handle) = self.acquire.get(outcome as usize) {
            spared(|| handle.get_or_init(make).record(waited));
        }
    }

    pub(super) fn hold_ended(&self, outcome: HoldOutcome, held: Duration) {
        let make = || histogram!(HOLD, "lock" => self.lock.clone(), "kind" => self.kind, "outcome" => outcome.as_str());
        if let Some(handle) = self.hold.get(outcome as usize) {
            spared(|| handle.get_or_init(make).record(held));
        }
    }

    pub(super) fn lost(&self, cause: LostCause) {
        spared(|| self.losses(cause).increment(1));
    }

    fn losses(&self, cause: LostCause) -> Counter {
        counter!(
            LOST,
            "lock" => self.lock.clone(),
            "kind" => self.kind,
            "function" => self.function.clone(),
            "cause" => cause.as_str(),
        )
    }

    pub(super) fn renewed(&self, left: Duration, lease: Duration) {
        let make = || histogram!(MARGIN, "lock" => self.lock.clone(), "kind" => self.kind);
        let margin = left.as_secs_f64() / lease.as_secs_f64().max(f64::MIN_POSITIVE);
        spared(|| self.margin.get_or_init(make).record(margin.min(1.0)));
    }
}

/// A batch of renewals was answered, or was not.
pub(super) fn renewals(renewed: u64, gone: u64, failed: u64, took: Option<Duration>) {
    for (result, count) in [("renewed", renewed), ("gone", gone), ("failed", failed)] {
        if count > 0 {
            spared(|| counter!(RENEWALS, "result" => result).increment(count));
        }
    }
    if let Some(took) = took {
        spared(|| histogram!(RENEWAL).record(took));
    }
}

pub(super) fn release_unclear() {
    spared(|| counter!(UNCLEAR).increment(1));
}

pub(super) fn reconnected() {
    spared(|| counter!(RECONNECTS).increment(1));
}

/// The sums over all pools: cleaning up, in flight.
pub(super) fn pool_gauges(sums: [usize; 2]) {
    for (name, sum) in [CLEANING_UP, IN_FLIGHT].into_iter().zip(sums) {
        spared(|| gauge!(name).set(number(sum)));
    }
}

/// A class in all pools. `oldest`: for how long the oldest of what is held has been held.
pub(super) fn class_gauges(
    lock: &str,
    kind: &'static str,
    (held, waiting, oldest): (usize, usize, Duration),
) {
    let numbers = [number(held), number(waiting), oldest.as_secs_f64()];
    for (name, number) in [HELD, WAITING, OLDEST_HOLD].into_iter().zip(numbers) {
        spared(|| gauge!(name, "lock" => lock.to_owned(), "kind" => kind).set(number));
    }
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
