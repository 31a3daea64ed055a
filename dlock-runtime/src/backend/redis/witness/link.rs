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
use crate::backend::batched::{BatchedAnswer, ReleaseCommand};
use crate::backend::command_error::CommandError;
use crate::backend::redis::link::connection::Connection;
use crate::backend::{Answer, Link};
use crate::policy::commands::{
    Acquire, Acquired, AcquiredAll, Cancelled, Claim, GivenBack, Keep, Polled, Renewal, Renewed,
};
use crate::policy::server_check::Answers;
use crate::policy::server_check::rights::{Refused, Why, right};
use crate::policy::writes::{Writes, Wrote};
use crate::values::moment::Moment;
use crate::values::report::{Part, Scanned, Stored};
use crate::values::ttl::Ttl;

#[derive(Debug)]
pub(in crate::backend::redis) struct WitnessedLink {
    link: Arc<dyn Link>,
    /// That of `link`.
    connection: Arc<Connection>,
    witness: Arc<Witness>,
}

impl WitnessedLink {
    pub(in crate::backend::redis) fn new(
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

    fn acquire_all<'a>(
        &'a self,
        commands: &'a [Acquire],
        within: Duration,
    ) -> Answer<'a, AcquiredAll> {
        Box::pin(async move {
            let begun = Instant::now();
            let answer = self.link.acquire_all(commands, within).await?;
            if let AcquiredAll::All { .. } = answer {
                let granted = commands.iter().map(|it| &it.claim);
                self.confirm_or_release(granted, begun, within).await?;
            }
            Ok(answer)
        })
    }

    /// A grant that is not confirmed stays, and the next poll asks for it again.
    fn poll<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, Polled> {
        Box::pin(async move {
            let until = Instant::now() + within;
            let answer = self.link.poll(claim, within).await?;
            if let Polled::Yours { .. } = answer {
                self.confirm(until).await?;
            }
            Ok(answer)
        })
    }

    fn heartbeat<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, Option<Polled>> {
        Box::pin(async move {
            let answer = self.link.heartbeat(claim, within).await?;
            Ok(answer.filter(|it| !matches!(it, Polled::Yours { .. }))) // only a poll confirms it
        })
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        self.link.release(claim, keep, within)
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        self.link.cancel(claim, keep, not_after, within)
    }

    /// A lease that is not confirmed counts as not renewed; one that is not ours is not ours.
    fn renew<'a>(&'a self, items: &'a [Renewal], within: Duration) -> Answer<'a, Vec<Renewed>> {
        Box::pin(async move {
            let until = Instant::now() + within;
            let mut answers = self.link.renew(items, within).await?;
            if answers.contains(&Renewed::Yes)
                && let Err(error) = self.confirm(until).await
            {
                if answers.iter().all(|it| *it == Renewed::Yes) {
                    return Err(error);
                }
                for renewed in answers.iter_mut().filter(|it| **it == Renewed::Yes) {
                    *renewed = Renewed::Failed;
                }
            }
            Ok(answers)
        })
    }

    fn downgrade<'a>(&'a self, claim: &'a Claim, ttl: Ttl, within: Duration) -> Answer<'a, bool> {
        Box::pin(async move {
            let until = Instant::now() + within;
            let reads = self.link.downgrade(claim, ttl, within).await?;
            if reads {
                self.confirm(until).await?;
            }
            Ok(reads)
        })
    }

    /// A master that is cut off from its replicas may have been replaced.
    fn holds<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, bool> {
        Box::pin(async move {
            let until = Instant::now() + within;
            let holds = self.link.holds(claim, within).await?;
            if holds {
                self.confirm(until).await?;
            }
            Ok(holds)
        })
    }

    fn write<'a>(
        &'a self,
        claim: &'a Claim,
        writes: &'a Writes<'a>,
        within: Duration,
    ) -> Answer<'a, Wrote> {
        self.link.write(claim, writes, within)
    }

    fn read<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Option<String>> {
        self.link.read(key, within)
    }

    fn scan<'a>(&'a self, prefix: &'a str, cursor: u64, within: Duration) -> Answer<'a, Scanned> {
        self.link.scan(prefix, cursor, within)
    }

    fn inspect<'a>(
        &'a self,
        keys: &'a [&'a str],
        part: Part,
        within: Duration,
    ) -> Answer<'a, Vec<Stored>> {
        self.link.inspect(keys, part, within)
    }

    fn ping(&self, within: Duration) -> Answer<'_, ()> {
        self.link.ping(within)
    }

    /// Also tries the witness. That a replica is away is no missing right: `INFO` tells.
    fn check(&self, within: Duration) -> Answer<'_, Vec<Answers>> {
        Box::pin(async move {
            let mut answers = self.link.check(within).await?;
            let confirmed = self.confirm(Instant::now() + within).await;
            if let (Some(answers), Err(CommandError::Refused(_, said))) =
                (answers.first_mut(), confirmed)
            {
                answers.refused.extend(refused_command(&said.to_string()));
            }
            Ok(answers)
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
