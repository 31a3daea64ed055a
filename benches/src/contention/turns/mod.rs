//! All turns of all tasks of a run: checks that no two overlapped, and computes the figures.

use std::ops::Range;

use crate::statistics::jain;

/// One task's hold of the lock. Times are in ns of the clock that all processes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The task's number among those of all processes.
    pub(crate) task: usize,
    /// Before its acquire was called.
    pub(crate) asked: u64,
    /// After its acquire returned.
    pub(crate) begin: u64,
    /// Before its release began.
    pub(crate) end: u64,
    /// The fencing token; 0 for a lock that has none.
    pub(crate) fence: u64,
}

impl Turn {
    /// The line that [`parse`](Self::parse) reads.
    pub(crate) fn line(&self) -> String {
        let Self {
            task,
            asked,
            begin,
            end,
            fence,
        } = self;
        format!("turn {task} {asked} {begin} {end} {fence}")
    }

    /// `None` for any other line.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("turn ")?.split(' ');
        let task = words.next()?.parse().ok()?;
        let mut number = || words.next()?.parse().ok();
        Some(Self {
            task,
            asked: number()?,
            begin: number()?,
            end: number()?,
            fence: number()?,
        })
    }
}

/// The figures of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Turns that began in the measured span, and how many of them followed another task's turn.
    pub(crate) acquisitions: usize,
    pub(crate) handoffs: usize,
    /// The number of turns of each task, with 0 for a task that had none.
    pub(crate) shares: Vec<f64>,
    /// From request to grant, for each turn; ascending, in ms.
    pub(crate) waits: Vec<f64>,
    /// From the end of a turn to the beginning of the next, if another task was waiting; ascending,
    /// in µs.
    pub(crate) passes: Vec<f64>,
    /// All turns, also those that began before or after the measured span: after its end each
    /// waiting task has one more turn.
    pub(crate) all: usize,
}

impl Outcome {
    /// Evaluates a run; turns that began in this span are measured.
    ///
    /// # Errors
    /// Two turns overlap, or a fencing token is not greater than the one before it.
    pub(crate) fn of(
        mut turns: Vec<Turn>,
        tasks: usize,
        span: &Range<u64>,
    ) -> Result<Self, String> {
        turns.sort_by_key(|turn| (turn.begin, turn.end));
        // Comparing neighbours is enough: in a sorted list the first overlap is between neighbours,
        // and "greater" is transitive.
        let pairs = turns.iter().zip(turns.iter().skip(1));
        for (before, after) in pairs.clone() {
            alone(before, after)?;
        }
        let mut outcome = Self {
            all: turns.len(),
            shares: vec![0.0; tasks],
            ..Self::default()
        };
        for turn in turns.iter().filter(|turn| span.contains(&turn.begin)) {
            outcome.acquisitions += 1;
            outcome.waits.push(millis(turn.begin - turn.asked));
            if let Some(share) = outcome.shares.get_mut(turn.task) {
                *share += 1.0;
            }
        }
        let changes = pairs.filter(|(before, after)| before.task != after.task);
        for (before, after) in changes.filter(|(_, after)| span.contains(&after.begin)) {
            outcome.handoffs += 1;
            if after.asked < before.end {
                outcome.passes.push(millis(after.begin - before.end) * 1e3);
            }
        }
        outcome.waits.sort_by(f64::total_cmp);
        outcome.passes.sort_by(f64::total_cmp);
        Ok(outcome)
    }

    pub(crate) fn fairness(&self) -> Option<f64> {
        jain(&self.shares)
    }
}

fn alone(before: &Turn, after: &Turn) -> Result<(), String> {
    if after.begin < before.end {
        return Err(format!(
            "two held the lock at once: {before:?} and {after:?}"
        ));
    }
    if after.fence <= before.fence && before.fence != 0 {
        return Err(format!(
            "a fencing token did not grow: {before:?}, then {after:?}"
        ));
    }
    Ok(())
}

#[allow(
    clippy::cast_precision_loss,
    reason = "times of a run: exact to 2^53 ns, three months"
)]
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

#[cfg(test)]
mod tests;
