//! When to try again: for a lock that is held, and for a server that does not answer.
//!
//! It computes pauses; it neither sleeps nor counts attempts against `wait`.

use std::time::Duration;

use super::host::ForLog;
use crate::rules::commands::NoQuorum;
use crate::values::moment::Moment;

/// Spreads the timers of many processes; seeded, so that a test can repeat it (`SplitMix64`, Steele
/// 2014). `None` spreads nothing: for a model, where every other pause would be another state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Jitter(Option<u64>);

impl Jitter {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Some(seed))
    }

    /// Between zero and `most`.
    fn up_to(&mut self, most: Duration) -> Duration {
        let Some(state) = &mut self.0 else {
            return Duration::ZERO;
        };
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let share = u32::try_from(z >> 48).unwrap_or_default(); // 16 bits
        most * share / 0x1_0000
    }
}

/// How the pauses of a pool's leaders differ from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spread {
    /// By chance; each pool has a seed of its own.
    ByChance(u64),
    /// Not at all, and a second failure in a row is as the first.
    #[cfg_attr(not(test), expect(dead_code, reason = "for models"))]
    Even,
}

impl Spread {
    /// For the leader with this number.
    pub(super) fn jitter(self, leader_epoch: u64) -> Jitter {
        match self {
            Spread::ByChance(seed) => Jitter::seeded(leader_epoch.wrapping_add(seed)),
            Spread::Even => Jitter(None),
        }
    }
}

/// The shortest pause: a lock that changes hands faster is not polled more often.
const AT_LEAST: Duration = Duration::from_millis(20);

/// How long to sleep before polling a lock whose holder has `left`: until then, but at most `cap`,
/// plus up to a tenth so that waiters do not march in step.
pub(crate) fn after_busy(left: Duration, cap: Duration, jitter: &mut Jitter) -> Duration {
    let pause = left.max(AT_LEAST).min(cap);
    pause + Duration::from_millis(1) + jitter.up_to(pause / 10)
}

/// How long to sleep after the `failures`th failure in a row: 25 ms, doubled up to 800 ms, half of
/// it random.
pub(crate) fn after_failure(failures: u32, jitter: &mut Jitter) -> Duration {
    let full =
        Duration::from_millis(25) * (1 << failures.saturating_sub(1).min(FAILURES_AT_MOST - 1));
    full / 2 + jitter.up_to(full / 2)
}

/// The bounds of a round trip as it is counted with here: a fast one must not make a loop of
/// attempts, and a slow one must not make a waiter sleep through its turn.
const ROUND_TRIP_AT_LEAST: Duration = Duration::from_micros(100);
const ROUND_TRIP_AT_MOST: Duration = Duration::from_millis(100);

/// After this many others it makes no difference how many there are.
const RANKS_AT_MOST: u32 = 100;

/// After so many failures in a row another one makes no longer pause.
const FAILURES_AT_MOST: u32 = 6;

/// How often the pause after split votes is doubled.
const SPLITS_AT_MOST: u32 = 6;

/// So many attempts may follow hints at once although nothing had changed, since the nodes tell one
/// after the other; then one within each of these times. Anybody who may publish can give hints.
const VAIN_AT_ONCE: u32 = 10;
const VAIN_APART: Duration = Duration::from_millis(100);

/// How often a wait through an outage is mentioned.
const MENTION_EVERY: Duration = Duration::from_secs(60);

/// How long another program's key may be without a time to live before it counts as abandoned: a
/// program that locks in two steps, `SETNX` and `EXPIRE`, may be between them.
const TWO_STEPS_AT_MOST: Duration = Duration::from_secs(1);

/// The consecutive failures at one key, and what they mean for the next command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Retries {
    failures: u32,
    /// When the first of them was, and when to mention them next.
    outage: ForLog<Option<(Moment, Moment)>>,
    /// Since when the key was seen without a time to live.
    endless_since: Option<Moment>,
    /// How often in a row the votes of several nodes were split.
    splits: u32,
    /// The holder that the nodes named last, and when the attempts that found it would be forgotten
    /// if none followed.
    vain: Option<(String, Moment)>,
    jitter: Jitter,
}

/// The wait until the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) length: Duration,
    /// Set if the outage must be mentioned now: how long it has lasted.
    pub(crate) mention: Option<Duration>,
}

impl Retries {
    pub(crate) fn new(jitter: Jitter) -> Self {
        Self {
            failures: 0,
            outage: ForLog(None),
            endless_since: None,
            splits: 0,
            vain: None,
            jitter,
        }
    }

    /// The server answers, and the key is as it should be.
    pub(crate) fn succeeded(&mut self) {
        (self.failures, self.outage, self.endless_since) = (0, ForLog(None), None);
    }

    /// No quorum of nodes granted the lock, so it is asked for again. If it is held: when its lease
    /// ends, at most `cap` later, and behind those who are told first that it is free. If votes were
    /// split: after a random pause, about ten round trips, doubled from time to time.
    pub(crate) fn no_quorum(
        &mut self,
        answer: &NoQuorum,
        left: Duration,
        cap: Duration,
    ) -> Duration {
        self.succeeded();
        let trip = answer
            .round_trip
            .clamp(ROUND_TRIP_AT_LEAST, ROUND_TRIP_AT_MOST);
        if answer.is_held {
            self.splits = 0;
            let behind = trip * 5 / 2 * answer.rank.min(RANKS_AT_MOST);
            return after_busy(left, cap, &mut self.jitter) + behind.min(cap);
        }
        let window = trip * 10 * (1 << self.splits.min(SPLITS_AT_MOST));
        self.splits = self.splits.saturating_add(1);
        self.jitter.up_to(window.min(cap))
    }

    /// When the next hint of a node may take effect, after an attempt that no quorum granted.
    pub(crate) fn next_hint(&mut self, answer: &NoQuorum, now: Moment) -> Moment {
        let holder = &answer.busy.value;
        let known = self
            .vain
            .take_if(|(known, _)| answer.is_held && known == holder);
        let (holder, since) = known.unwrap_or_else(|| (holder.clone(), now));
        let forgotten = since.max(now).plus(VAIN_APART);
        self.vain = answer.is_held.then_some((holder, forgotten));
        let ahead = now
            .until(forgotten)
            .saturating_sub(VAIN_APART * VAIN_AT_ONCE);
        now.plus(ahead)
    }

    /// As [`after_busy`].
    pub(crate) fn busy(&mut self, left: Duration, cap: Duration) -> Duration {
        after_busy(left, cap, &mut self.jitter)
    }

    /// One more failure that may pass.
    pub(crate) fn failed(&mut self, now: Moment) -> Pause {
        let (since, mention) = self.outage.0.get_or_insert((now, now.plus(MENTION_EVERY)));
        let is_due = now >= *mention;
        if is_due {
            *mention = now.plus(MENTION_EVERY);
        }
        let mention = is_due.then(|| since.until(now));
        let most = if self.jitter.0.is_some() {
            FAILURES_AT_MOST
        } else {
            1
        };
        self.failures = (self.failures + 1).min(most);
        Pause {
            length: after_failure(self.failures, &mut self.jitter),
            mention,
        }
    }

    /// Nothing was created, and the client knows better now, the server's time or who has the lock:
    /// retry once without a pause (`None`); if that fails too, pause as after any other failure.
    pub(crate) fn at_once(&mut self, now: Moment) -> Option<Pause> {
        if self.failures == 0 {
            self.failures = 1;
            return None;
        }
        Some(self.failed(now))
    }

    /// The key has no time to live: how long to wait for one, at most `cap`; `None`: the wait is
    /// over.
    pub(crate) fn endless(&mut self, now: Moment, cap: Duration) -> Option<Duration> {
        let since = self.endless_since.unwrap_or(now);
        self.succeeded();
        let waited = since.until(now);
        let rest = TWO_STEPS_AT_MOST.saturating_sub(waited);
        self.endless_since = (!rest.is_zero()).then_some(since);
        (!rest.is_zero()).then(|| rest.min(cap))
    }
}
