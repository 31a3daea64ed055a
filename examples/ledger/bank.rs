//! Accounts in PostgreSQL, and clerks who move money: each reads two balances, decides, and writes both, so
//! two of them must not overlap.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dlock_runtime::{LockGuard, LockPool};
use tokio_postgres::{Client, NoTls, Transaction};

use super::Failure;

/// Without renewals, so that a pause ends it.
const LEASE: Duration = Duration::from_secs(2);

/// After this long the server ends a transaction of which it hears nothing.
pub(crate) const IDLE: Duration = Duration::from_secs(5);

/// The next holder waits for as long as an open transaction may last, at most.
const WAIT: Duration = Duration::from_secs(60);

pub(crate) struct Bank {
    directory: PathBuf,
    client: Client,
}

pub(crate) struct Clerk {
    name: &'static str,
    pool: LockPool,
    client: Client,
}

/// Half of a transfer: two balances were read, and will be written.
pub(crate) struct Transfer<'a> {
    name: &'static str,
    transaction: Transaction<'a>,
    accounts: [i32; 2],
    balances: [i64; 2],
}

impl Bank {
    pub(crate) async fn open(directory: &Path) -> Result<Self, Failure> {
        let client = connect(directory).await?;
        let idle = IDLE.as_millis();
        client
            .batch_execute(&format!(
                "CREATE TABLE account (id int PRIMARY KEY, cents bigint NOT NULL);
                ALTER ROLE postgres SET idle_in_transaction_session_timeout = {idle}"
            ))
            .await?;
        let directory = directory.to_owned();
        Ok(Self { directory, client })
    }

    pub(crate) async fn reset(&self) -> Result<(), Failure> {
        let text = "TRUNCATE account; INSERT INTO account VALUES (1, 100), (2, 100), (3, 100)";
        Ok(self.client.batch_execute(text).await?)
    }

    pub(crate) async fn connect(&self) -> Result<Client, Failure> {
        connect(&self.directory).await
    }

    pub(crate) async fn balances(&self) -> Result<Vec<i64>, Failure> {
        let rows = self
            .client
            .query("SELECT cents FROM account ORDER BY id", &[])
            .await?;
        let balances: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        println!(
            "  the accounts have {balances:?}, the bank {}",
            balances.iter().sum::<i64>()
        );
        Ok(balances)
    }
}

impl Clerk {
    /// With a pool of its own, as a process has.
    pub(crate) async fn new(name: &'static str, bank: &Bank, url: &str) -> Result<Self, Failure> {
        let pool = LockPool::connect(url).await?;
        let client = bank.connect().await?;
        Ok(Self { name, pool, client })
    }

    /// Takes the locks of two accounts.
    pub(crate) async fn lock(&self, from: i32, to: i32) -> Result<LockGuard, Failure> {
        let keys = [from, to].map(|id| format!("account:{id}"));
        let lock = self.pool.lock_all(keys).ttl(LEASE).wait(WAIT).acquire();
        let lock = lock.await?;
        println!(
            "  {} holds the locks of accounts {from} and {to}",
            self.name
        );
        Ok(lock)
    }

    /// Begins a transaction that is sure of the lock until it ends.
    pub(crate) async fn begin(
        &mut self,
        lock: &LockGuard,
        from: i32,
        to: i32,
    ) -> Result<Transfer<'_>, Failure> {
        let transaction = self.client.transaction().await?;
        lock.check_in(&transaction).await?;
        Transfer::read(self.name, transaction, [from, to]).await
    }
}

impl<'a> Transfer<'a> {
    /// Begins a transaction that checks no lock.
    pub(crate) async fn begin(
        name: &'static str,
        client: &'a mut Client,
        from: i32,
        to: i32,
    ) -> Result<Self, Failure> {
        Self::read(name, client.transaction().await?, [from, to]).await
    }

    async fn read(
        name: &'static str,
        transaction: Transaction<'a>,
        accounts: [i32; 2],
    ) -> Result<Self, Failure> {
        let mut balances = [0; 2];
        for (id, balance) in accounts.iter().zip(&mut balances) {
            let text = "SELECT cents FROM account WHERE id = $1";
            *balance = transaction.query_one(text, &[id]).await?.get(0);
        }
        println!("  {name} reads {balances:?}");
        Ok(Self {
            name,
            transaction,
            accounts,
            balances,
        })
    }

    /// Writes both balances, and commits.
    pub(crate) async fn finish(self, cents: i64) -> Result<(), Failure> {
        let [from, to] = self.balances;
        let balances = [from - cents, to + cents];
        for (id, balance) in self.accounts.iter().zip(&balances) {
            let text = "UPDATE account SET cents = $2 WHERE id = $1";
            self.transaction.execute(text, &[id, balance]).await?;
        }
        self.transaction.commit().await?;
        println!("  {} writes {balances:?} and commits", self.name);
        Ok(())
    }
}

async fn connect(directory: &Path) -> Result<Client, Failure> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(directory).user("postgres");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection); // an error of it is one of the next statement, too
    Ok(client)
}
