//! The tables that `postgres://` needs: a pool makes none, because its user need not be allowed to.

use std::sync::Arc;
use std::time::Duration;

use crate::link::postgres;
use crate::values::config::{Address, Config, PostgresAddress};
use crate::values::error::LockError;

/// Another migration, which holds the advisory lock, may have to end first.
const AT_LEAST: Duration = Duration::from_secs(10);

impl Config {
    /// Makes the tables of dlock in the PostgreSQL database of this configuration's URL, or brings
    /// them to the layout of this version. Does nothing if they are up to date.
    ///
    /// It may run again at any time, and several at a time. A later layout only adds, so programs of
    /// older versions go on. The URL's role must be allowed to create a schema; the role of the
    /// programs needs `USAGE` on that schema, `SELECT` on its table `layout`, and `SELECT`, `INSERT`,
    /// `UPDATE` and `DELETE` on the others. [`migration`](Self::migration) returns the statements instead.
    ///
    /// # Errors
    /// [`LockError::Config`] if the URL is not one of PostgreSQL, [`LockError::Unavailable`] or
    /// [`LockError::Refused`] as for a pool.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    ///
    /// let url = "postgres://shop:secret@localhost/shop";
    /// Config::new(url).migrate().await?;
    /// let pool = LockPool::connect(url).await?;
    /// # Ok(()) }
    /// ```
    pub async fn migrate(self) -> Result<(), LockError> {
        let (address, within) = self.database()?;
        let migrated = postgres::migrate(&address, within.max(AT_LEAST)).await;
        migrated.map_err(|error| error.into_error(None).at(&address))
    }

    /// Returns the statements of [`migrate`](Self::migrate), for `psql` or a tool for migrations.
    ///
    /// # Errors
    /// [`LockError::Config`] if the URL is not one of PostgreSQL.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::Config;
    ///
    /// let text = Config::new("postgres://shop@localhost/shop?schema=locks").migration()?;
    /// assert!(text.contains("CREATE SCHEMA IF NOT EXISTS \"locks\""));
    /// # Ok(()) }
    /// ```
    pub fn migration(self) -> Result<String, LockError> {
        let (address, _) = self.database()?;
        Ok(postgres::migration(&address.schema))
    }

    fn database(self) -> Result<(Arc<PostgresAddress>, Duration), LockError> {
        let settings = self.check()?;
        match settings.address {
            Address::Postgres(address) => Ok((address, settings.connect_timeout)),
            other => Err(LockError::config(format_args!(
                "{other} has no tables: give `postgres://user:password@host/database`"
            ))),
        }
    }
}
