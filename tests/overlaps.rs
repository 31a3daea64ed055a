//! Checks the intervals of a lock with several holders: which of them may overlap, and how their
//! fencing tokens relate.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

use dlock_harness::Interval;

/// The rules of one mix in the worker's mode `kinds`. An interval's key says what was held.
#[derive(Clone, Copy, Debug)]
pub enum Promise {
    /// Readers share the lock; a writer is alone.
    ReadWrite,
    /// At most this many permits at once.
    Permits(u64),
    /// One owner at a time.
    Owners,
}

impl Promise {
    /// The largest number of holders at once; an error if two overlap that must not.
    ///
    /// # Errors
    ///
    /// Which hold was beside which, or whose fencing tokens are in the wrong order.
    pub fn check(self, intervals: &[Interval]) -> Result<usize, String> {
        self.check_overlaps(intervals, |one, other| self.is_sound_together(one, other))
    }

    /// The same of a lock of several nodes, where holders that share the lock may have equal tokens,
    /// or an owner two.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_of_quorum(self, intervals: &[Interval]) -> Result<usize, String> {
        self.check_overlaps(intervals, |_, _| true)
    }

    fn check_overlaps(
        self,
        intervals: &[Interval],
        is_sound_together: impl Fn(&Interval, &Interval) -> bool,
    ) -> Result<usize, String> {
        let mut holds: Vec<_> = intervals.iter().collect();
        holds.sort_by_key(|hold| (hold.start_ns, hold.end_ns));
        for (nth, before) in holds.iter().enumerate() {
            for after in holds.iter().skip(nth + 1) {
                let is_sound = if self.excludes(before, after) {
                    before.fence < after.fence
                } else {
                    is_sound_together(before, after)
                };
                if !is_sound {
                    return Err(format!("fencing tokens: {before:?}, then {after:?}"));
                }
            }
        }
        let (mut inside, mut most) = (Vec::<&Interval>::new(), 0);
        for hold in holds {
            inside.retain(|it| it.end_ns > hold.start_ns);
            if !self.admits(&inside, hold) {
                return Err(format!("{hold:?} beside {inside:?}"));
            }
            inside.push(hold);
            most = most.max(inside.len());
        }
        Ok(most)
    }

    fn admits(self, inside: &[&Interval], one: &Interval) -> bool {
        let all = || inside.iter().copied().chain([one]);
        match self {
            Promise::ReadWrite => inside.is_empty() || all().all(|it| it.key == "r"),
            Promise::Permits(of) => all().map(permits).sum::<u64>() <= of,
            Promise::Owners => all().all(|it| it.key == one.key),
        }
    }

    /// Whether the two may never hold the lock at the same time. A holder that reads after writing
    /// keeps its token.
    fn excludes(self, one: &Interval, other: &Interval) -> bool {
        match self {
            Promise::ReadWrite => one.who != other.who && (one.key == "w" || other.key == "w"),
            Promise::Permits(_) => false,
            Promise::Owners => one.key != other.key,
        }
    }

    /// The tokens of two that may share the lock, by start: those of one owner's hold are equal, and
    /// two readers have two.
    fn is_sound_together(self, before: &Interval, after: &Interval) -> bool {
        match self {
            Promise::Permits(_) => before.fence != after.fence,
            _ if before.who == after.who => before.fence <= after.fence,
            Promise::Owners if before.end_ns > after.start_ns => before.fence == after.fence,
            Promise::Owners => before.fence <= after.fence,
            Promise::ReadWrite => before.fence != after.fence,
        }
    }
}

/// The number of permits in `p:<take>/<of>`.
fn permits(hold: &Interval) -> u64 {
    let take = hold
        .key
        .strip_prefix("p:")
        .and_then(|it| it.split_once('/'));
    take.expect("p:<take>/<of>").0.parse().unwrap()
}

#[test]
fn who_must_not_be_in_is_seen() {
    let hold = |(key, fence, start_ns, end_ns): (&str, u64, u64, u64)| Interval {
        key: key.to_owned(),
        fence,
        start_ns,
        end_ns,
        who: format!("{key} {fence} {start_ns}"),
    };
    let check = |promise: Promise, holds: &[_], most: Option<usize>| {
        let holds: Vec<_> = holds.iter().copied().map(hold).collect();
        assert_eq!(promise.check(&holds).ok(), most, "{promise:?} {holds:?}");
    };
    let rw = Promise::ReadWrite;
    check(
        rw,
        &[("r", 1, 0, 5), ("r", 2, 1, 4), ("w", 3, 5, 6)],
        Some(2),
    );
    check(rw, &[("r", 1, 0, 5), ("w", 2, 4, 6)], None);
    check(rw, &[("w", 1, 0, 5), ("r", 2, 4, 6)], None);
    check(rw, &[("w", 2, 0, 5), ("r", 1, 5, 6)], None);
    let permits = Promise::Permits(3);
    check(permits, &[("p:2/3", 1, 0, 5), ("p:1/3", 2, 1, 4)], Some(2));
    check(permits, &[("p:2/3", 1, 0, 5), ("p:2/3", 2, 1, 4)], None);
    check(permits, &[("p:2/3", 1, 0, 5), ("p:2/3", 1, 5, 6)], None);
    let owners = Promise::Owners;
    check(
        owners,
        &[("a", 1, 0, 5), ("a", 1, 1, 4), ("b", 2, 5, 6)],
        Some(2),
    );
    check(owners, &[("a", 1, 0, 5), ("b", 2, 1, 4)], None);
    check(owners, &[("a", 1, 0, 5), ("a", 2, 1, 4)], None);
    check(owners, &[("a", 1, 0, 5), ("b", 1, 5, 6)], None);
}
