//! The record of a key's last run, which keeps claims that run once per period from running again.
//!
//! Whoever grants asks first whether the claim is due; only the holder of the lock writes the record,
//! with its release or before its body. Invariants: a record counts for no longer than the period of
//! the claim that asks, however the clock was set; it ends by itself after its own period; a record of a
//! layout that is not known counts until it ends, and ends, too.

use std::sync::Arc;
use std::time::Duration;

use super::key_state::KeyState;
use super::micros;
use crate::rules::commands::{NotDue, RunNote, RunOutcome};
use crate::values::entry::{self, Entry};
use crate::values::record::{self, Record};

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoredRecord {
    pub(crate) text: Arc<str>,
    /// Server time, as the key's time to live; `None` if it has none.
    pub(crate) expires: Option<u64>,
}

impl KeyState {
    /// Why this entry, whose value it is, may not run now; `None`: it may, or another holds the lock whose
    /// run is not over and may fail.
    pub(super) fn not_due(&mut self, value: &str, entry: &Entry<'_>, time: u64) -> Option<NotDue> {
        let is_held = self.lock.as_ref().is_some_and(|it| !it.holds(value));
        let (period, stored) = (entry.once_per?, self.record.as_mut()?);
        let left = match Record::read(&stored.text) {
            Some(Record { end: 0, .. }) if is_held => return None,
            Some(record) => {
                let left = (record.start.saturating_add(micros(period))).saturating_sub(time);
                if record.start > time {
                    // The clock was set back: it counts from now on, at most.
                    *stored = Record {
                        start: time,
                        ..record
                    }
                    .stored(time)?;
                }
                left.min(micros(period))
            }
            None => {
                let ends = *stored.expires.get_or_insert(time + micros(period));
                ends.saturating_sub(time)
            }
        };
        (left > 0).then(|| NotDue {
            time,
            left: Duration::from_millis(left.div_ceil(1000)),
            record: stored.text.to_string(),
        })
    }

    /// Notes what became of a run by its holder, whose entry is `value`. Returns whether the record tells
    /// of this run.
    pub(super) fn note_run(&mut self, value: &str, run: RunNote, time: u64) -> bool {
        match run.outcome {
            RunOutcome::Unknown => false,
            RunOutcome::Succeeded => self.record_run(value, run, time, time),
            RunOutcome::Failed => {
                if self.is_of_run(run) {
                    self.record = None;
                }
                false
            }
        }
    }

    /// `end`: 0 before the body.
    pub(super) fn record_run(&mut self, value: &str, run: RunNote, end: u64, time: u64) -> bool {
        let entry = entry::read(value);
        let Some((period, entry)) = entry.and_then(|it| Some((it.once_per?, it))) else {
            return false;
        };
        let record = Record {
            start: run.start,
            end,
            period,
            epoch: run.epoch,
            about: record::about(entry.description),
        };
        self.record = record.stored(time); // none of a run that took its whole period
        true
    }

    /// Whether the record tells of this run.
    pub(super) fn is_of_run(&self, run: RunNote) -> bool {
        let stored = self.record.as_ref().and_then(|it| Record::read(&it.text));
        stored.is_some_and(|it| it.epoch == run.epoch)
    }
}

impl StoredRecord {
    /// To a reader who asks for no claim.
    pub(crate) fn told(&self, time: u64) -> NotDue {
        let ends = Record::read(&self.text).map(|it| it.start.saturating_add(micros(it.period)));
        let left = ends.or(self.expires).unwrap_or(time).saturating_sub(time);
        NotDue {
            time,
            left: Duration::from_millis(left.div_ceil(1000)),
            record: self.text.to_string(),
        }
    }
}

impl Record<'_> {
    /// As it is stored at this time; `None`: its period is over.
    fn stored(&self, time: u64) -> Option<StoredRecord> {
        let left = (self.start.saturating_add(micros(self.period))).saturating_sub(time);
        let left = left.min(micros(self.period)); // the clock may have been set back
        (left > 0).then(|| StoredRecord {
            text: self.text().into(),
            // In whole milliseconds, rounded up, as the server keeps them.
            expires: Some(time + left.div_ceil(1000) * 1000),
        })
    }
}
