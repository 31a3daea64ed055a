//! The check of a lock inside the user's own transaction, in the database that has the lock's row.
//!
//! Invariants: only the epoch of a holder that is alone is checked, so no token leaves this pool; a guard
//! that made a check is given back to the server and not handed on, since the next holder here would have
//! the same epoch.

use tokio_postgres::Transaction;

use super::{LockGuard, undone};
use crate::link::postgres;
use crate::values::config::Address;
use crate::values::entry::Letter;
use crate::values::error::{LockError, LostCause};

/// Two statements that check a lock inside a transaction, with what to bind, from
/// [`LockGuard::sql_check`].
#[derive(Clone, Debug)]
#[must_use = "it checks nothing until both statements are executed in a transaction"]
pub struct SqlCheck {
    begin: String,
    sql: String,
    keys: Vec<String>,
    epochs: Vec<i64>,
}

impl SqlCheck {
    /// Returns the first statement. It fails outside a transaction, where the second one would protect
    /// nothing.
    #[must_use]
    pub fn begin(&self) -> &str {
        &self.begin
    }

    /// Returns the second statement. It returns one row if every key of the guard is held, and none
    /// otherwise: then roll back.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Returns what to bind as `$1`, a `text[]`.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Returns what to bind as `$2`, a `bigint[]`.
    #[must_use]
    pub fn epochs(&self) -> &[i64] {
        &self.epochs
    }
}

impl LockGuard {
    /// Returns the statements that check this lock in a transaction of any PostgreSQL client, on the
    /// database that `postgres://` names.
    ///
    /// If the second statement returned its row and the transaction commits, without having rolled
    /// back to a savepoint set before the check (an `EXCEPTION` block of PL/pgSQL is one), nobody
    /// else was granted the lock between the check and the commit, even if the lease ended
    /// meanwhile, whatever the clocks do. **A transaction that stays open, a prepared one too, keeps
    /// the next holder out**: set `idle_in_transaction_session_timeout`. Renewals and releases do
    /// not wait for it.
    ///
    /// With isolation above `READ COMMITTED`, begin the transaction under the lock: a snapshot that
    /// is older than the grant finds no row. The transaction's role needs `USAGE` on the schema, and
    /// on its table `lock` `SELECT` and `UPDATE (epoch)`. This guard is not handed on to a waiter of
    /// this process; it is released at the server.
    ///
    /// # Errors
    /// [`LockError::Config`] with another server, and for readers and permits, beside whom others
    /// hold the lock; [`LockError::Lost`] when the lease is over.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn transfer(pool: dlock_runtime::LockPool, mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = pool.lock("account:7").acquire().await?;
    /// let check = lock.sql_check()?;
    /// let transaction = client.transaction().await?;
    /// transaction.execute(check.begin(), &[]).await?;
    /// let held = transaction.query_opt(check.sql(), &[&check.keys(), &check.epochs()]).await?;
    /// held.ok_or("the lock is not held any more")?; // dropping the transaction rolls it back
    /// transaction.execute("UPDATE account SET cents = cents - 100 WHERE id = 7", &[]).await?;
    /// transaction.commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn sql_check(&self) -> Result<SqlCheck, LockError> {
        let Address::Postgres(address) = &self.hold.core.settings().address else {
            return Err(LockError::config(
                "`sql_check` and `check_in` need the lock in the database of the data: a pool of `postgres://`",
            ));
        };
        self.still_held()?;
        let (mut keys, mut epochs) = (Vec::new(), Vec::new());
        for part in self.parts() {
            if matches!(part.hold.claim().kind(), Letter::Reader | Letter::Permits) {
                return Err(LockError::config(
                    "a reader or permit is not alone, so a check keeps nobody out: take the lock exclusively, or as a writer",
                ));
            }
            // A write that never ends, as long as this guard lives.
            if !part.hold.cell.write_begins() {
                return Err(part.lost_error(part.why_lost().unwrap_or(LostCause::Gone)));
            }
            keys.push(part.key().as_str().to_owned());
            epochs.push(i64::try_from(part.fence().epoch()).unwrap_or(i64::MAX));
        }
        let (begin, sql) = postgres::check(&address.schema, keys.len());
        Ok(SqlCheck {
            begin,
            sql,
            keys,
            epochs,
        })
    }

    /// Executes [`sql_check`](Self::sql_check) in a transaction of `tokio-postgres`, with all that it
    /// promises.
    ///
    /// It refuses a nested transaction, which is a savepoint: rolling back to it would undo the
    /// check. The server can't tell it from one in which an earlier savepoint has written.
    ///
    /// # Errors
    /// As [`sql_check`](Self::sql_check); [`LockError::Lost`] when the check finds no row: roll the
    /// transaction back; [`LockError::Config`] for a nested transaction; [`LockError::Refused`] and
    /// [`LockError::Unavailable`] for errors of the transaction.
    ///
    /// # Cancel safety
    /// Roll the transaction back if the future was dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn transfer(pool: dlock_runtime::LockPool, mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let lock = pool.lock_all(["account:7", "account:9"]).acquire().await?;
    /// let transaction = client.transaction().await?;
    /// lock.check_in(&transaction).await?;
    /// transaction.execute("UPDATE account SET cents = cents - 100 WHERE id = 7", &[]).await?;
    /// transaction.execute("UPDATE account SET cents = cents + 100 WHERE id = 9", &[]).await?;
    /// transaction.commit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn check_in(&self, transaction: &Transaction<'_>) -> Result<(), LockError> {
        let SqlCheck {
            begin,
            sql,
            keys,
            epochs,
        } = self.sql_check()?;
        let checked = postgres::check_in(transaction, (&begin, &sql), (&keys, &epochs)).await;
        match checked.map_err(|error| self.hold.core.error(error, Some(self.key())))? {
            Some(true) => Ok(()),
            Some(false) => Err(LockError::config(
                "`check_in` got a nested transaction, or one in which a savepoint has written: rolling back to a savepoint would undo the check; check in a transaction without savepoints",
            )),
            None => {
                let lost = self.lost_error(self.why_lost().unwrap_or(LostCause::Gone));
                Err(undone(
                    lost,
                    "the check found no row (the lock is not ours, or the transaction's snapshot is older than the grant): roll the transaction back",
                ))
            }
        }
    }
}
