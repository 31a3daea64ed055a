//! Questions that no caller of a lock waits for: which open transaction keeps a lock, what of the server
//! can harm locks, whether a pooler stands in between; and the removal of rows that nobody uses.
//!
//! They are rare, so nothing is prepared. Invariant: a row is removed only if no epoch, hold, waiter or
//! record of it can matter any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect;
use super::errors;
use super::push::{self, Asked, PROBE};
use super::session::{self, PostgresLink};
use super::statements;
use crate::extras::server_check::{Answers, Pushes};
use crate::link::clock::wall_clock;
use crate::link::command_error::CommandError;
use crate::values::config::PostgresAddress;
use crate::values::report::Stored;

/// Behind a pooler in transaction mode, a message that has not come by then never will.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// Rows that were last used longer ago than this are removed: meanwhile their epochs outlive a clock that
/// is set back.
const SWEPT_AFTER: Duration = Duration::from_secs(24 * 3600);

/// How many rows one statement looks at, and how many statements a sweep has at most.
const SWEPT_AT_ONCE: i64 = 5000;
const SWEPT_IN_ALL: usize = 10_000;

impl PostgresLink {
    /// Names the transactions that keep this lock from its next holder.
    pub(super) async fn name_keepers(
        &self,
        (key, stored): (&str, &mut Stored),
        until: Instant,
    ) -> Result<(), CommandError> {
        let text = statements::keepers(&self.schema);
        let rows = self.ask(&text, &[&key], until).await?;
        stored.kept_by = rows.first().map(|row| session::read(row, 0)).transpose()?;
        Ok(())
    }

    pub(super) async fn query_settings(
        &self,
        within: Duration,
    ) -> Result<Vec<Answers>, CommandError> {
        let until = Instant::now() + within;
        let (before, sent) = (wall_clock(), self.clock.now());
        let text = statements::harms();
        let rows = self.ask(&text, &[], until).await?;
        let after = wall_clock();
        let mut answers = Answers {
            is_database: true,
            ..Answers::default()
        };
        for row in &rows {
            let (name, value): (&str, &str) = (session::read(row, 0)?, session::read(row, 1)?);
            // Others choose the names of their programs and transactions.
            let value = value.replace(char::is_control, " ");
            answers.info.extend([name, ":", &value, "\n"]);
            if name == "time"
                && let Ok(time) = value.parse()
            {
                self.note_time(time, sent);
                let time = i128::from(time);
                answers.clock.ahead = Some((time - after, time - before));
            }
        }
        if self.channel.is_none() {
            answers.pushes = Pushes::Pooled;
        }
        Ok(vec![answers])
    }

    /// Removes rows that nobody has used for a day.
    ///
    /// # Errors
    /// The next sweep does what this one could not.
    pub(crate) async fn sweep(&self, within: Duration) -> Result<(), CommandError> {
        let text = statements::sweep(&self.schema);
        let age = super::micros(SWEPT_AFTER);
        let mut after = String::new();
        for _ in 0..SWEPT_IN_ALL {
            let until = Instant::now() + within;
            let rows = (self.ask(&text, &[&after, &SWEPT_AT_ONCE, &age], until)).await?;
            let row = rows.first().ok_or_else(session::strange)?;
            match session::read::<Option<String>>(row, 0)? {
                Some(last) if session::read::<i64>(row, 1)? >= SWEPT_AT_ONCE => after = last,
                _ => break,
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
        until: Instant,
    ) -> Result<Vec<Row>, CommandError> {
        let asked = self.send_in_turn(text, params);
        let (rows, _) = self.answer(asked, true, until).await?;
        Ok(rows)
    }
}

/// Whether a message that one connection sends comes over another while that is idle. It does not through a
/// pooler that gives the server's session to others between two transactions, for which two connections are
/// made that nothing else hears.
pub(super) async fn hears_others(
    address: &PostgresAddress,
    until: Instant,
) -> Result<bool, CommandError> {
    let failed = |error: tokio_postgres::Error| errors::of_connecting(&error);
    let (channel, asked) = (push::channel()?, Arc::<Asked>::default());
    let (listening, _io_task) = connect::writable(address, &asked, until).await?;
    let listen = format!("LISTEN {channel}");
    listening.batch_execute(&listen).await.map_err(failed)?;
    let (other, _io_task) = connect::writable(address, &Arc::default(), until).await?;
    let heard = asked.probed.notified();
    let notify = format!("NOTIFY {channel}, '{PROBE}'");
    other.batch_execute(&notify).await.map_err(failed)?;
    let by = (Instant::now() + HEARD_WITHIN).min(until);
    Ok(timeout_at(by, heard).await.is_ok())
}
