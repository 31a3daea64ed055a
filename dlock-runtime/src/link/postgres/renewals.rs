//! Renewals of many leases: exclusive ones in one statement, those of readers, permits and owners in two.
//!
//! Invariant: a lease is lost only if its row says that another holds the lock, or nobody. A row that
//! somebody has locked is asked about again, and one that can't be read fails only itself.

use std::time::Duration;

use tokio::time::Instant;

use super::machine::{self, HEADS, WriteScope, Written, micros};
use super::session::{self, PostgresLink};
use super::statements::Ask;
use crate::link::command_error::CommandError;
use crate::link::joined;
use crate::link::redis::dial;
use crate::rules::Server;
use crate::rules::commands::{Renewal, Renewed};
use crate::rules::row::LoadedRows;

/// How often a renewal asks again about rows that somebody has locked for a moment. The others of the batch wait
/// for the answer; whose row stays locked is asked about later.
const RENEWED_AGAIN: u32 = 8;

/// The answers, by the items' places.
type RenewalAnswers = Vec<(usize, Renewed)>;

impl PostgresLink {
    pub(super) async fn renew(
        &self,
        items: &[Renewal],
        within: Duration,
    ) -> Result<Vec<Renewed>, CommandError> {
        let until = Instant::now() + within;
        let is_set = |(_, it): &(usize, &Renewal)| it.claim.kind().is_shared();
        let (sets, rows): (Vec<_>, Vec<_>) = items.iter().enumerate().partition(is_set);
        let (mut of_sets, mut of_rows) = (RenewalAnswers::new(), RenewalAnswers::new());
        let (sets, rows) = joined::both(
            self.renew_each(sets, true, until, &mut of_sets),
            self.renew_each(rows, false, until, &mut of_rows),
        )
        .await;
        if of_sets.is_empty() && of_rows.is_empty() {
            sets.and(rows)?;
        }
        let mut all = vec![Renewed::default(); items.len()];
        for (at, renewed) in of_sets.into_iter().chain(of_rows) {
            if let (Some(place), Some(item)) = (all.get_mut(at), items.get(at)) {
                *place = renewed;
                if renewed == Renewed::NotOurs {
                    self.asked.remove(&item.claim);
                }
            }
        }
        Ok(all)
    }

    async fn renew_each(
        &self,
        mut left: Vec<(usize, &Renewal)>,
        are_sets: bool,
        until: Instant,
        answered: &mut RenewalAnswers,
    ) -> Result<(), CommandError> {
        // Other holders of a set write its row all the time, but others of the batch need time, too.
        let asked_until = Instant::now() + dial::left(until) / 2;
        let mut round = 0;
        while !left.is_empty() {
            let asked: Vec<&Renewal> = left.iter().map(|(_, it)| *it).collect();
            let answers = if are_sets {
                self.renew_sets(&asked, until).await
            } else {
                self.renew_rows(&asked, until).await
            };
            let answers = match answers {
                // What a stranger wrote into one row fails only itself.
                Err(CommandError::Refused(..)) if left.len() > 1 && self.works() => {
                    let half = left.split_off(left.len() / 2);
                    for part in [left, half] {
                        let _ = Box::pin(self.renew_each(part, are_sets, until, answered)).await;
                    }
                    return Ok(());
                }
                answers => answers?,
            };
            let mut answers = answers.into_iter();
            left.retain(|(at, _)| match answers.next().flatten() {
                Some(renewed) => {
                    answered.push((*at, renewed));
                    false
                }
                None => true,
            });
            round += 1;
            let is_over = if are_sets {
                Instant::now() >= asked_until
            } else {
                round > RENEWED_AGAIN
            };
            if left.is_empty() || is_over || !machine::pause(round, until).await {
                break;
            }
        }
        Ok(())
    }

    /// `None`: somebody has locked the row.
    async fn renew_rows(
        &self,
        items: &[&Renewal],
        until: Instant,
    ) -> Result<Vec<Option<Renewed>>, CommandError> {
        let keys: Vec<&str> = items.iter().map(|it| &*it.claim.key).collect();
        let values: Vec<&str> = items.iter().map(|it| &*it.claim.value).collect();
        let ttls: Vec<i64> = items.iter().map(|it| micros(it.ttl.get())).collect();
        let (rows, sent) = self
            .query(Ask::Renew, &[&keys, &values, &ttls], until)
            .await?;
        let mut answers = vec![None; items.len()];
        for row in rows {
            self.heard(&row, 0, sent)?;
            let (is_renewed, is_there): (bool, bool) =
                (session::read(&row, 2)?, session::read(&row, 3)?);
            let at = usize::try_from(session::read::<i64>(&row, 1)? - 1).ok();
            if let Some(place) = at.and_then(|at| answers.get_mut(at))
                && (is_renewed || !is_there)
            {
                *place = Some(Renewed::by_holder(is_renewed));
            }
        }
        Ok(answers)
    }

    /// `None`: somebody has changed the row meanwhile, or locked it.
    async fn renew_sets(
        &self,
        items: &[&Renewal],
        until: Instant,
    ) -> Result<Vec<Option<Renewed>>, CommandError> {
        let own: Vec<&str> = items.iter().map(|it| &*it.claim.value).collect();
        let mut keys: Vec<&str> = items.iter().map(|it| &*it.claim.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let (time, seen) = self.rows(&keys, HEADS, &own, until).await?;
        let mut rows = LoadedRows::load(seen, &own, time).map_err(machine::unreadable)?;
        let renew = |server: &mut Server| items.iter().map(|it| server.renew(it, time)).collect();
        let (answers, _): (Vec<_>, _) = rows.run(renew); // it looks at no queue
        let changes = rows.changes(&[]);
        let limit = machine::limit(time, until);
        let written = match self.write(&changes, WriteScope::Each, limit, until).await? {
            Written::All => return Ok(answers.into_iter().map(Some).collect()),
            Written::Late => Vec::new(),
            Written::Some(keys) => keys,
        };
        let is_over = |item: &Renewal| {
            let key = &*item.claim.key;
            written.iter().any(|it| it == key) || changes.iter().all(|it| *it.key != *key)
        };
        let answers = items.iter().zip(answers);
        let answers = answers.map(|(it, answer)| is_over(it).then_some(answer));
        Ok(answers.collect())
    }
}
