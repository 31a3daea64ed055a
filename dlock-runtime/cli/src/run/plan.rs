//! When the command has to be told to end, and when it is killed: a machine without a clock, a
//! process or I/O, so that its tests need none.
//!
//! Times are nanoseconds of one clock. Invariant: `Kill` comes at the deadline less the margin at
//! the latest, and `Terminate` a grace before it. A lease that is short, as the 3 s of a grant that
//! was waited for, has a shorter grace, so that half of it is left for its renewal.

use std::time::Duration;

/// Why the command is told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The lease was not renewed in time: the server can't be reached, or `dlock run` stands still.
    Deadline,
    /// The server no longer has the lock.
    Lost,
    /// `dlock run` is gone.
    Orphaned,
    /// The command has ended, and processes that it started have not.
    LeftBehind,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before this time.
    Wait(u64),
    /// Tell everything to end (SIGTERM).
    Terminate(Why),
    /// SIGKILL to everything that is left, again and again until nothing is.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Runs,
    /// The command has ended; what it started has until then to end by itself.
    Lingers {
        until: u64,
    },
    Ends {
        kill_at: u64,
    },
}

/// The lease as the process that watches the command knows it, and what follows.
#[derive(Debug)]
pub(crate) struct Plan {
    deadline: u64,
    /// When the command is told to end, if no renewal comes.
    terminate_at: u64,
    grace: u64,
    margin: u64,
    phase: Phase,
    /// Told to end, and not yet said by [`next`](Self::next).
    terminate: Option<Why>,
}

impl Plan {
    pub(crate) fn new(deadline: u64, grace: Duration, margin: Duration, now: u64) -> Self {
        let mut plan = Self {
            deadline: 0,
            terminate_at: 0,
            grace: nanos(grace),
            margin: nanos(margin),
            phase: Phase::Runs,
            terminate: None,
        };
        plan.renewed(deadline, now);
        plan
    }

    /// The lease lasts until then. It never gets shorter.
    pub(crate) fn renewed(&mut self, deadline: u64, now: u64) {
        if deadline > self.deadline {
            self.deadline = deadline;
            let half = deadline.saturating_sub(now) / 2;
            let grace = self.grace.min(half.saturating_sub(self.margin));
            self.terminate_at = self.kill_at().saturating_sub(grace);
        }
    }

    /// The lock is lost, or nobody is left who could renew it.
    pub(crate) fn end(&mut self, why: Why, now: u64) {
        if !matches!(self.phase, Phase::Ends { .. }) {
            let kill_at = self.kill_at().min(now.saturating_add(self.grace));
            self.phase = Phase::Ends { kill_at };
            self.terminate = Some(why);
        }
    }

    /// The command has ended by itself or by a signal; others that it started may still run.
    pub(crate) fn command_ended(&mut self, now: u64) {
        if self.phase == Phase::Runs {
            let until = now.saturating_add(self.grace);
            self.phase = Phase::Lingers { until };
        }
    }

    /// What to do at this time.
    pub(crate) fn next(&mut self, now: u64) -> Step {
        let terminate_at = self.terminate_at;
        match self.phase {
            Phase::Lingers { until } if now >= until => self.end(Why::LeftBehind, now),
            Phase::Runs | Phase::Lingers { .. } if now >= terminate_at => {
                self.end(Why::Deadline, now);
            }
            _ => {}
        }
        if let Some(why) = self.terminate.take() {
            return Step::Terminate(why);
        }
        match self.phase {
            Phase::Runs => Step::Wait(terminate_at),
            Phase::Lingers { until } => Step::Wait(until.min(terminate_at)),
            Phase::Ends { kill_at } if now >= kill_at => Step::Kill,
            Phase::Ends { kill_at } => Step::Wait(kill_at),
        }
    }

    fn kill_at(&self) -> u64 {
        self.deadline.saturating_sub(self.margin)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Plan, Step, Why};
    use std::time::Duration;

    /// A lease until 1000, a grace of 100, a margin of 10.
    fn plan() -> Plan {
        let ns = Duration::from_nanos;
        Plan::new(1000, ns(100), ns(10), 0)
    }

    #[test]
    fn without_renewals_the_grace_is_over_before_the_deadline() {
        let mut plan = plan();
        assert_eq!(plan.next(0), Step::Wait(890));
        assert_eq!(plan.next(889), Step::Wait(890));
        assert_eq!(plan.next(890), Step::Terminate(Why::Deadline));
        assert_eq!(plan.next(891), Step::Wait(990));
        assert_eq!(plan.next(990), Step::Kill);
        assert_eq!(plan.next(991), Step::Kill, "until nothing is left");
    }

    #[test]
    fn a_renewal_moves_the_deadline_and_only_forward() {
        let mut plan = plan();
        plan.renewed(2000, 300);
        plan.renewed(1500, 400);
        assert_eq!(plan.next(900), Step::Wait(1890));
    }

    #[test]
    fn half_of_a_short_lease_is_left_for_its_renewal() {
        let ns = Duration::from_nanos;
        let mut plan = Plan::new(1100, ns(400), ns(10), 1000);
        assert_eq!(plan.next(1000), Step::Wait(1050));
        plan.renewed(2000, 1034);
        assert_eq!(plan.next(1050), Step::Wait(1590), "the whole grace");

        let mut late = Plan::new(1010, ns(400), ns(10), 1000);
        assert_eq!(late.next(1000), Step::Terminate(Why::Deadline));
    }

    #[test]
    fn a_renewal_after_the_command_was_told_to_end_saves_nothing() {
        let mut plan = plan();
        assert_eq!(plan.next(890), Step::Terminate(Why::Deadline));
        plan.renewed(5000, 900);
        assert_eq!(plan.next(990), Step::Kill);
    }

    #[test]
    fn a_lost_lock_ends_it_at_once_with_a_grace() {
        let mut plan = plan();
        plan.end(Why::Lost, 200);
        plan.end(Why::Orphaned, 250);
        assert_eq!(plan.next(250), Step::Terminate(Why::Lost));
        assert_eq!(plan.next(250), Step::Wait(300));
        assert_eq!(plan.next(300), Step::Kill);
    }

    #[test]
    fn a_grace_never_reaches_beyond_the_deadline() {
        let mut plan = plan();
        plan.end(Why::Orphaned, 950);
        assert_eq!(plan.next(950), Step::Terminate(Why::Orphaned));
        assert_eq!(plan.next(951), Step::Wait(990));
    }

    #[test]
    fn late_by_a_suspended_machine_it_kills_at_once() {
        let mut plan = plan();
        assert_eq!(plan.next(9999), Step::Terminate(Why::Deadline));
        assert_eq!(plan.next(9999), Step::Kill);
    }

    #[test]
    fn what_is_left_behind_may_end_by_itself_first() {
        let mut plan = plan();
        plan.command_ended(200);
        assert_eq!(plan.next(200), Step::Wait(300));
        assert_eq!(plan.next(300), Step::Terminate(Why::LeftBehind));
        assert_eq!(plan.next(300), Step::Wait(400));
        assert_eq!(plan.next(400), Step::Kill);

        let mut plan = self::plan();
        plan.command_ended(850);
        assert_eq!(plan.next(850), Step::Wait(890), "the lease ends sooner");
        assert_eq!(plan.next(890), Step::Terminate(Why::Deadline));
    }
}
