//! A stand-in for a pooler such as `PgBouncer` in transaction mode, inside this process, so that the story
//! needs no more than PostgreSQL: each transaction gets the first session that is idle.
//!
//! It pools nothing else: what a client set or locked in a session stays there for the next client, as it
//! does behind `PgBouncer` 1.18.

use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::Client;

use super::Failure;
use super::bank::Bank;

pub(crate) struct Pooler([Mutex<Client>; 2]);

impl Pooler {
    pub(crate) async fn open(bank: &Bank) -> Result<Self, Failure> {
        let (first, second) = (bank.connect().await?, bank.connect().await?);
        Ok(Self([first, second].map(Mutex::new)))
    }

    /// A session, for one transaction.
    pub(crate) fn session(&self) -> Result<MutexGuard<'_, Client>, Failure> {
        let mut idle = self.0.iter().filter_map(|session| session.try_lock().ok());
        idle.next().ok_or_else(|| "every session is busy".into())
    }

    /// A statement outside a transaction is one by itself.
    pub(crate) async fn ask(&self, text: &str) -> Result<bool, Failure> {
        Ok(self.session()?.query_one(text, &[]).await?.get(0))
    }
}
