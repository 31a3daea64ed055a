//! Gives a lock back: the key is deleted, kept, or given to the first entry of its queue.

use tokio::time::Instant;

use super::PlainLink;
use super::answers;
use super::seen::SeenKey;
use super::watched::{QueueView, unsettled};
use crate::link::command_error::CommandError;
use crate::link::redis::reply;
use crate::rules::commands::{Cancelled, Claim, GivenBack, Keep, RunNote};
use crate::rules::window::StoredChange;

impl PlainLink {
    /// By the server's own command where it has one, else by a transaction.
    pub(super) async fn release_claim(
        &self,
        claim: &Claim,
        keep: Keep,
        until: Instant,
    ) -> Result<GivenBack, CommandError> {
        let connection = &self.link.connection;
        if let (Some(native), Keep::NOT) = (connection.deletes.native(), keep) {
            let keys = connection.names.of(&claim.key);
            let mut commands = redis::pipe();
            commands.add_command(native.deletes(&claim.key, &claim.value));
            commands.cmd("ZCARD").arg(keys.queue.text());
            let ([deleted, waiting], _) = self.exchange(commands, until).await?;
            match answers::refused(&deleted) {
                Ok(()) => {
                    let found = reply::number(&deleted) != Some(0);
                    if found && reply::number(&waiting) != Some(0) {
                        // If this fails, a poll grants the lock.
                        let _ = self.give_back(claim, keep, until).await;
                    }
                    return Ok(GivenBack {
                        found,
                        ..GivenBack::default()
                    });
                }
                Err(CommandError::Refused(..)) => connection.deletes.was_refused(),
                Err(other) => return Err(other),
            }
        }
        self.give_back(claim, keep, until).await
    }

    async fn give_back(
        &self,
        claim: &Claim,
        keep: Keep,
        until: Instant,
    ) -> Result<GivenBack, CommandError> {
        let release = self.run_watched(
            &claim.key,
            (QueueView::Head, keep.run().is_some()),
            until,
            |seen| seen.decide(&claim.key, |it| it.release(claim, keep)),
        );
        let (given_back, _) = release.await?.ok_or_else(unsettled)?;
        Ok(given_back)
    }

    /// Records before its body that a claim runs.
    pub(super) async fn note_run(
        &self,
        claim: &Claim,
        run: RunNote,
        until: Instant,
    ) -> Result<bool, CommandError> {
        let noted = self.run_watched(&claim.key, (QueueView::None, true), until, |seen| {
            seen.decide(&claim.key, |it| it.note_run(claim, run))
        });
        let (noted, _) = noted.await?.ok_or_else(unsettled)?;
        Ok(noted)
    }

    /// First on the shared connection, behind an acquire that was sent there, which has been
    /// executed when this is answered.
    pub(super) async fn cancel_claim(
        &self,
        claim: &Claim,
        keep: Keep,
        not_after: u64,
        until: Instant,
    ) -> Result<Cancelled, CommandError> {
        let keys = self.link.connection.names.of(&claim.key);
        let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
        let mut leave = redis::pipe();
        leave.cmd("ZREM").arg(&queue).arg(&*claim.value);
        leave.cmd("ZREM").arg(&heartbeats).arg(&*claim.value);
        leave.cmd("ZCARD").arg(&queue);
        leave.add_command(self.reads().get(&claim.key));
        leave.cmd("PTTL").arg(&*claim.key).cmd("TIME");
        let answers = self.exchange(leave, until).await?;
        let ([left, beat, waiting, value, pttl, time], sent) = answers;
        for answer in [&left, &beat, &waiting] {
            answers::refused_at_companion(answer)?;
        }
        // As it was before the entry left.
        let mut seen = SeenKey::of_lock(&value, &pttl, self.heard(&time, sent)?)?;
        seen.own = (reply::number(&left) == Some(1)).then(|| claim.queue_entry().into());
        seen.others_wait = reply::number(&waiting) != Some(0);
        let mut decided = seen.decide(&claim.key, |it| it.cancel(claim, keep, not_after))?;
        let is_gone = |it: &StoredChange| matches!(it, StoredChange::WaiterGone(_));
        if decided.again || keep.records() || !decided.changes.iter().all(is_gone) {
            let given_back = self.give_back(claim, keep, until).await?;
            decided.answer.is_recorded = given_back.is_recorded;
        }
        Ok(decided.answer)
    }
}
