//! `dlock lead`: runs a command whenever this host leads, until the command ends with 0.
//!
//! It is `dlock run` again and again: each term is one of its runs. It decides nothing about a lock.
//! Invariant: after a signal that asks a program to end, no other term begins.

use std::time::Duration;

use dlock_runtime::{LockPool, Wait};
use rustix::process::Signal;

use super::{Run, by_signal};
use crate::args::{LeadArgs, RunArgs};
use crate::output::Notices;
use crate::status::{self, Failure};

/// Runs the command in one term after the other, and gives the exit status of the last one.
pub(crate) async fn lead(
    args: LeadArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    let LeadArgs {
        key,
        verbatim,
        ttl,
        grace,
        pause,
        command,
    } = args;
    let run = RunArgs {
        key,
        verbatim,
        ttl,
        wait: Some(Wait::Forever),
        skip: false,
        min_hold: None,
        once_per: None,
        after_crash: None,
        grace,
        busy_status: status::BUSY,
        lost_status: status::LOST,
        command,
    };
    let (mut run, pool) = Run::prepare(run, "dlock lead", url, notices).await?;
    let ended = terms(&mut run, &pool, pause).await;
    run.leave(&pool).await;
    ended
}

async fn terms(run: &mut Run, pool: &LockPool, pause: Duration) -> Result<u8, Failure> {
    loop {
        let why = match run.under_lock(pool).await {
            // A command that can't be started won't be the next time either.
            Ok(status @ (0 | status::NOT_EXECUTABLE | status::NO_COMMAND)) => return Ok(status),
            Ok(status) if run.told_to_end.is_some() => return Ok(status),
            Ok(status) => format!("the command ended with {status}"),
            Err(failure)
                if run.told_to_end.is_none()
                    && (failure.status == status::LOST || failure.passes) =>
            {
                failure.message.unwrap_or_default()
            }
            Err(failure) => return Err(failure),
        };
        let pause_text = dlock_grammar::duration::format(pause);
        run.notices.say(
            "campaigns_again",
            &format!("{why}; it campaigns for the lead again in {pause_text}"),
        );
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            signal = run.ending_signal() => return Ok(by_signal(Some(signal))),
        }
    }
}

impl Run {
    /// The next signal that asks a program to end.
    async fn ending_signal(&mut self) -> Signal {
        loop {
            match self.signals.recv().await {
                Some(signal) if ends(signal) => return signal,
                Some(_) => {}
                None => std::future::pending().await, // all of them were ignored when it started
            }
        }
    }
}

/// Whether this signal asks a program to end.
pub(super) fn ends(signal: Signal) -> bool {
    matches!(
        signal,
        Signal::HUP | Signal::INT | Signal::QUIT | Signal::TERM
    )
}
