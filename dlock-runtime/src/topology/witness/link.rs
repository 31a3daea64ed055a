//! A link whose leases count only once the witness has confirmed them.
//!
//! Invariant: nothing that moves the end of a lease (a grant, a claim of one, a renewal, an
//! extension, a downgrade) is answered as done before that. A grant that is not confirmed is
//! released, or its outcome is unclear, so that its token is cleaned up.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::Witness;
use crate::extras::server_check::rights::{Refused, Why, right};
use crate::link::batched::{BatchedAnswer, ReleaseCommand};
use crate::link::command_error::CommandError;
use crate::link::redis::link::connection::Connection;
use crate::link::{Answer, Link, LinkCommand, LinkReply};
use crate::rules::commands::{
    Acquire, Acquired, AcquiredAll, Claim, GivenBack, Keep, Polled, Renewed,
};
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

#[derive(Debug)]
pub(crate) struct WitnessedLink {
    link: Arc<dyn Link>,
    /// That of `link`.
    connection: Arc<Connection>,
    witness: Arc<Witness>,
}

impl WitnessedLink {
    pub(crate) fn new(
        link: Arc<dyn Link>,
        connection: Arc<Connection>,
        witness: Arc<Witness>,
    ) -> Self {
        Self {
            link,
            connection,
            witness,
        }
    }

    async fn confirm(&self, until: Instant) -> Result<(), CommandError> {
        self.witness.confirm(&self.connection, until).await
    }

    /// What was granted within `within` from `begun` on counts, or is released.
    async fn confirm_or_release(
        &self,
        granted: impl Iterator<Item = &Claim>,
        begun: Instant,
        within: Duration,
    ) -> Result<(), CommandError> {
        let Err(error) = self.confirm(begun + within * 3 / 4).await else {
            return Ok(());
        };
        for claim in granted {
            let left = within.saturating_sub(begun.elapsed());
            if self.link.release(claim, Keep::NOT, left).await.is_err() {
                return Err(CommandError::Unclear(error.reason()));
            }
        }
        Err(match error {
            CommandError::Unclear(why) => CommandError::Unsent(why), // nothing of it is left
            other => other,
        })
    }
}

impl Link for WitnessedLink {
    fn server_time_at(&self, now: Moment) -> u64 {
        self.link.server_time_at(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        self.link.runtime()
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.link.address()
    }

    fn not_after(&self, now: Moment, within: Duration, lease: Ttl) -> u64 {
        self.link.not_after(now, within, lease)
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        BatchedAnswer::Boxed(Box::pin(async move {
            let begun = Instant::now();
            let answer = self.link.acquire(command, within).await?;
            if let Acquired::Granted { .. } | Acquired::Yours { .. } = answer {
                let granted = std::iter::once(&command.claim);
                self.confirm_or_release(granted, begun, within).await?;
            }
            Ok(answer)
        }))
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        self.link.release(claim, keep, within)
    }

    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply> {
        let answer = self.link.call(command, within);
        if !command.rules().is_witnessed {
            return answer;
        }
        Box::pin(async move {
            let begun = Instant::now();
            let confirmed = || self.confirm(begun + within);
            let mut reply = answer.await?;
            match &mut reply {
                LinkReply::AcquiredAll(AcquiredAll::All { .. }) => {
                    if let LinkCommand::AcquireAll(commands) = command {
                        let granted = commands.iter().map(|it| &it.claim);
                        self.confirm_or_release(granted, begun, within).await?;
                    }
                }
                // A grant that is not confirmed stays, and the next poll asks for it again. A master
                // that is cut off from its replicas may have been replaced.
                LinkReply::Polled(Polled::Yours { .. }) | LinkReply::Holds(true) => {
                    confirmed().await?;
                }
                LinkReply::Heartbeat(waits @ Some(Polled::Yours { .. })) => *waits = None, // a poll does
                // A lease that is not confirmed counts as not renewed; one that is not ours is not
                // ours.
                LinkReply::Renewed(answers) if answers.contains(&Renewed::Yes) => {
                    if let Err(error) = confirmed().await {
                        if answers.iter().all(|it| *it == Renewed::Yes) {
                            return Err(error);
                        }
                        for renewed in answers.iter_mut().filter(|it| **it == Renewed::Yes) {
                            *renewed = Renewed::Failed;
                        }
                    }
                }
                // Also tries the witness. A replica that is unreachable is not a missing right: `INFO` tells.
                LinkReply::Checked(answers) => {
                    let confirmed = self.confirm(Instant::now() + within).await;
                    if let (Some(answers), Err(CommandError::Refused(_, said))) =
                        (answers.first_mut(), confirmed)
                    {
                        answers.refused.extend(refused_command(&said.to_string()));
                    }
                }
                // No right, or none that was given. Each reply stands here, so that a new one is thought
                // about.
                LinkReply::AcquiredAll(_)
                | LinkReply::Polled(_)
                | LinkReply::Heartbeat(_)
                | LinkReply::Holds(false)
                | LinkReply::Renewed(_)
                | LinkReply::Cancelled(_)
                | LinkReply::Voted(_)
                | LinkReply::Adopted(_)
                | LinkReply::Wrote(_)
                | LinkReply::Read(_)
                | LinkReply::Scanned(_)
                | LinkReply::Inspected(_)
                | LinkReply::LastRun(_)
                | LinkReply::Told(_)
                | LinkReply::Pong(()) => {}
            }
            Ok(reply)
        })
    }
}

/// The command of a round that the server refused, by its words.
fn refused_command(said: &str) -> Option<Refused> {
    let why = Why::of(said)?;
    let said = said.to_ascii_lowercase();
    let names = ["waitaof", "wait", "set"];
    let name = names.into_iter().find(|name| said.contains(*name));
    let right = right(name.unwrap_or("set"))?; // the key's pattern
    Some(Refused { right, why })
}
