//! Extends a lease: the command that is sent, and what counts when it is answered.
//!
//! It never shortens a lease. Invariant: the lease counts from before the command was sent.

use std::time::Duration;

use super::{Hold, LockGuard, undone};
use crate::client::lease::LeaseTerms;
use crate::client::tokens::Extension;
use crate::link::RENEWALS_AT_ONCE;
use crate::link::command_error::CommandError;
use crate::link::joined::all;
use crate::rules::commands::{Renewal, Renewed};
use crate::values::error::{LockError, LostCause, Reason};
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

/// Which command extends a lease.
#[derive(Clone, Copy)]
pub(super) enum ProlongBy {
    Renewal,
    Downgrade,
}

impl LockGuard {
    /// Extends the lease so that it lasts at least this long from now: 10 ms to 24 h.
    ///
    /// A lease that would last longer anyway stays as it is: a late extension must not shorten what
    /// the watchdog has renewed meanwhile.
    ///
    /// # Errors
    /// [`LockError::Config`] for a time out of range, [`LockError::Lost`] when the lease is over,
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server did not confirm it;
    /// then the lease counts as it did before.
    ///
    /// # Cancel safety
    /// May be dropped at any time. It is then unknown whether the server extended the lease, which
    /// counts as it did before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let lock = pool.lock("report").ttl(Duration::from_secs(10)).acquire().await?;
    /// lock.extend(Duration::from_secs(60)).await?;
    /// assert!(lock.remaining() > Duration::from_secs(50));
    /// # lock.release().await?; Ok(()) }
    /// ```
    pub async fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let ttl = Ttl::new(lease).map_err(LockError::config)?;
        let settings = self.hold.core.settings();
        settings.check_lease(ttl).map_err(LockError::config)?;
        let extended = self.prolong_all(ProlongBy::Renewal, |_| Ok(ttl)).await;
        extended.map_err(|lost| undone(lost, "the lease is not extended"))
    }

    pub(super) async fn prolong_all(
        &self,
        by: ProlongBy,
        ttl: impl Fn(&LockGuard) -> Result<Ttl, LockError>,
    ) -> Result<(), LockError> {
        self.still_held()?;
        let within = self.hold.core.settings().command_timeout;
        let parts: Vec<_> = self
            .parts()
            .map(|part| Ok((part, ttl(part)?)))
            .collect::<Result<_, LockError>>()?;
        let each = parts.into_iter().map(|(part, ttl)| {
            Box::pin(async move { part.prolonged(part.prolong(by, ttl, ttl, within).await) })
        });
        all(each.collect()).await.into_iter().collect()
    }

    fn prolonged(&self, extended: Result<Extension, CommandError>) -> Result<(), LockError> {
        match extended.and_then(is_clear) {
            Ok(Extension::Until(..)) => Ok(()),
            Ok(Extension::NotOurs) => Err(self.gone()),
            Ok(_) => Err(self.lost_error(self.why_lost().unwrap_or(LostCause::Deadline))),
            Err(error) => Err(self.hold.core.error(error, Some(self.key()))),
        }
    }

    /// Before the body: makes the server promise the whole lease. `false` if it is lost.
    pub(crate) async fn confirm(
        &self,
        terms: &LeaseTerms,
        within: Duration,
    ) -> Result<bool, CommandError> {
        let (on_server, ttl) = (terms.lease(), terms.ttl);
        let extended = self.prolong(ProlongBy::Renewal, on_server, ttl, within);
        Ok(lasts(is_clear(extended.await?)?))
    }

    /// The same for many locks of one kind of one pool, in few commands, all sent at once.
    pub(crate) async fn confirm_all(
        guards: &[&LockGuard],
        terms: &LeaseTerms,
        by: Moment,
    ) -> Result<bool, CommandError> {
        let server = |it: &&LockGuard| it.hold.core.backend().server_of(it.key().as_str());
        let mut guards = guards.to_vec();
        guards.sort_by_cached_key(server);
        let at_one_server = guards.chunk_by(|one, other| server(one) == server(other));
        let batches = at_one_server.flat_map(|guards| guards.chunks(RENEWALS_AT_ONCE));
        let confirmed = batches.map(|batch| Box::pin(Self::confirm_batch(batch, terms, by)));
        for confirmed in all(confirmed.collect()).await {
            if !confirmed? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Confirms locks of one server in one command.
    async fn confirm_batch(
        guards: &[&LockGuard],
        terms: &LeaseTerms,
        by: Moment,
    ) -> Result<bool, CommandError> {
        let Some(first) = guards.first() else {
            return Ok(true);
        };
        let Hold { core, .. } = &first.hold;
        let (clock, watchdog) = (core.backend().clock(), core.watchdog());
        let link = first.hold.link(clock.now().until(by)).await?;
        if !guards
            .iter()
            .all(|it| watchdog.extending(it.hold.token(), terms.lease(), &it.hold.cell))
        {
            return Ok(false);
        }
        let item = |guard: &&LockGuard| Renewal {
            claim: guard.hold.claim().clone(),
            ttl: terms.lease(),
        };
        let (items, sent) = (guards.iter().map(item).collect::<Vec<_>>(), clock.now());
        let renewed = link.renew(&items, sent.until(by)).await?;
        for (guard, renewed) in guards.iter().zip(renewed) {
            let (token, cell) = (guard.hold.token(), &guard.hold.cell);
            let extended = watchdog.extended(token, (sent, terms.ttl), renewed, cell);
            if !lasts(is_clear(extended)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the server keep the lock for `on_server`; its holder counts on `ttl` of that.
    pub(super) async fn prolong(
        &self,
        by: ProlongBy,
        on_server: Ttl,
        ttl: Ttl,
        within: Duration,
    ) -> Result<Extension, CommandError> {
        let (clock, watchdog) = (self.hold.core.backend().clock(), self.hold.core.watchdog());
        let (token, cell, begun) = (self.hold.token(), &self.hold.cell, clock.now());
        let link = self.hold.link(within).await?;
        if !watchdog.extending(token, on_server, cell) {
            return Ok(Extension::Over);
        }
        let sent = clock.now();
        let rest = sent.until(begun.plus(within));
        let claim = self.hold.claim();
        let answer = match by {
            ProlongBy::Renewal => {
                let item = [Renewal {
                    claim: claim.clone(),
                    ttl: on_server,
                }];
                let answers = link.renew(&item, rest).await?;
                answers.first().copied().unwrap_or_default()
            }
            ProlongBy::Downgrade => {
                let is_ours = link.downgrade(claim, on_server, rest).await?;
                Renewed::by_holder(is_ours)
            }
        };
        Ok(watchdog.extended(token, (sent, ttl), answer, cell))
    }
}

fn lasts(extension: Extension) -> bool {
    matches!(extension, Extension::Until(..))
}

/// An error where the server has said nothing about the lease.
fn is_clear(extension: Extension) -> Result<Extension, CommandError> {
    match extension {
        Extension::AtTooFew => Err(CommandError::TooFewNodes {
            why: Reason::new("too few nodes have the lock or answered"),
            is_open: true,
        }),
        Extension::Failed => {
            let why = "the server could not look at the key";
            Err(CommandError::Unclear(Reason::new(why)))
        }
        clear => Ok(clear),
    }
}
