//! The run of a job that runs once per period, by the holder of its lock: noted before its body, and what
//! its release says of it.
//!
//! It sends no release. Invariant: a call that joined the run's lock does not end the run.

use std::time::Duration;

use super::release::Released;
use super::{Hold, LockGuard};
use crate::link::command_error::CommandError;
use crate::observe;
use crate::rules::commands::{RunNote, RunOutcome};
use crate::values::bounds::OncePer;
use crate::values::error::LockError;

impl LockGuard {
    /// Releases the lock of a job that runs [once per period](crate::LockRequest::once_per), and records
    /// in the same step that the job has run.
    ///
    /// [`release`](Self::release) records nothing, so that the next caller runs the job. Nor does a
    /// drop, which counts as a crash ([`AfterCrash`](crate::AfterCrash)).
    ///
    /// # Errors
    /// As [`release`](Self::release); after an unclear answer, the repeated release records the run.
    /// [`LockError::Config`] if the request did not say `once_per`: the lock is then released in the
    /// background. If the lock was gone, nothing is recorded, and a log event says so.
    ///
    /// # Cancel safety
    /// May be dropped at any time: release and record continue in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let nightly = || pool.lock("nightly").once_per(Duration::from_secs(20 * 3600));
    /// let lock = nightly().acquire().await?;
    /// // … the work …
    /// lock.release_done().await?;
    ///
    /// assert!(nightly().acquire().await.unwrap_err().is_not_due());
    /// # Ok(()) }
    /// ```
    pub async fn release_done(self) -> Result<Released, LockError> {
        if !self.runs_once() {
            return Err(LockError::config(
                "`release_done` records a run of a job that runs once per period: add `once_per` to the request, or call `release`",
            ));
        }
        self.run_succeeded();
        self.give_back(None).await
    }

    /// Before the body: records that the job runs. `false` if the lock is lost.
    pub(crate) async fn note_run(
        &self,
        run: RunNote,
        within: Duration,
    ) -> Result<bool, CommandError> {
        let Hold { core, .. } = &self.hold;
        let now = core.now();
        let key = self.key().as_str();
        let (link, later) = core.backend().link_at(now, key, within).await?;
        let left = later.until(now.plus(within));
        link.note_run(self.hold.claim(), run, left).await
    }

    /// The run has ended, and succeeded. One that may run at most once was recorded before its body.
    pub(crate) fn run_succeeded(&self) {
        let is_lost = !self.run_ended(RunOutcome::Succeeded) && !self.entered.is_inner();
        if is_lost && !self.once_per().is_some_and(OncePer::is_at_most_once) {
            observe::run_unrecorded(self.key().parts());
        }
    }

    /// The run has ended, and its job is to run again. What may run again after a crash was not recorded
    /// before its body, so that nothing is to be taken back.
    pub(crate) fn run_failed(&self) {
        if self.once_per().is_some_and(OncePer::is_at_most_once) {
            self.run_ended(RunOutcome::Failed);
        }
    }

    fn once_per(&self) -> Option<OncePer> {
        self.hold.spec().terms.bounds.once_per
    }

    /// Whether its job runs once per period.
    pub(crate) fn runs_once(&self) -> bool {
        self.once_per().is_some()
    }

    /// The run has ended so; `false`: the lock is lost, or a body around this call ends the run.
    pub(crate) fn run_ended(&self, outcome: RunOutcome) -> bool {
        !self.entered.is_inner()
            && self
                .hold
                .core
                .watchdog()
                .run_ended(self.hold.token(), outcome)
    }
}
