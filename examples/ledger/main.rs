//! A transfer between two accounts that can't be written twice: a clerk stops beyond her lease in the
//! middle of her transaction, another one takes over, and the bank always adds up.
//!
//! The check of the lock is part of the transaction, so the next holder is kept out until that has ended.
//! The last story is the same with an advisory lock behind a pooler, where money appears. `cargo run -p
//! dlock-examples --example ledger` starts a private PostgreSQL.

mod bank;
mod pooler;

use std::thread;
use std::time::Duration;

use dlock_harness::PostgresServer;
use dlock_runtime::{Config, LockError};
use tokio::task::block_in_place;

use bank::{Bank, Clerk, IDLE};
use pooler::Pooler;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let server = PostgresServer::start();
    let url = server.url("dlock");
    Config::new(&url).migrate().await?;
    let bank = Bank::open(server.directory()).await?;
    println!("each of three accounts has 100; ann moves 30 from 1 to 2, bob 50 from 1 to 3");
    for (story, sums) in [
        (Story::InTheTransaction, [20, 130, 150]),
        (Story::BeforeTheCheck, [50, 100, 150]),
        (Story::TooLong, [50, 100, 150]),
    ] {
        bank.reset().await?;
        let (ann, bob) = (
            Clerk::new("ann", &bank, &url),
            Clerk::new("bob", &bank, &url),
        );
        println!("\n{}", story.title());
        tell(story, &mut ann.await?, bob.await?).await?;
        if bank.balances().await? != sums {
            return Err("the bank does not add up".into());
        }
    }
    bank.reset().await?;
    println!("\nan advisory lock, behind a stand-in for a pooler in transaction mode");
    advisory(&Pooler::open(&bank).await?).await?;
    if bank.balances().await? != [70, 130, 150] {
        return Err("the advisory lock was expected to fail, and did not".into());
    }
    println!(
        "  50 appeared: one session of the server asked for both, and it may lock again what it has"
    );
    Ok(())
}

/// When ann's program stops: a long GC pause, a suspended VM, a debugger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Story {
    InTheTransaction,
    BeforeTheCheck,
    TooLong,
}

impl Story {
    fn title(self) -> String {
        match self {
            Self::InTheTransaction => "ann stops in the middle of her transaction".to_owned(),
            Self::BeforeTheCheck => "ann stops before her transaction".to_owned(),
            Self::TooLong => {
                format!("ann stops for longer than idle_in_transaction_session_timeout ({IDLE:?})")
            }
        }
    }
}

async fn tell(story: Story, ann: &mut Clerk, mut bob: Clerk) -> Result<(), Failure> {
    let lock = ann.lock(1, 2).await?;
    let bob = async move {
        let lock = bob.lock(1, 3).await?;
        bob.begin(&lock, 1, 3).await?.finish(50).await?;
        lock.release().await.map_err(Failure::from)
    };
    if story == Story::BeforeTheCheck {
        // Nobody renews her lease, so it ends.
        block_in_place(|| thread::sleep(lock.remaining()));
        bob.await?;
        let Err(refused) = ann.begin(&lock, 1, 2).await else {
            return Err("a check succeeded under bob's lock".into());
        };
        println!("  ann goes on, and rolls back: {refused}");
        return match refused.downcast_ref() {
            Some(LockError::Lost { .. }) => Ok(()),
            _ => Err(refused),
        };
    }
    let transfer = ann.begin(&lock, 1, 2).await?;
    let bob = tokio::spawn(bob);
    if story == Story::InTheTransaction {
        block_in_place(|| thread::sleep(lock.remaining() + Duration::from_millis(500)));
        println!(
            "  ann goes on; her lease is over, and bob still waits: {}",
            !bob.is_finished()
        );
        transfer.finish(30).await?;
        bob.await??;
        return Ok(());
    }
    bob.await??;
    match transfer.finish(30).await {
        Ok(()) => Err("a transaction that the server ended was committed".into()),
        Err(ended) => {
            println!("  ann goes on, and the server has ended her transaction: {ended}");
            Ok(())
        }
    }
}

/// Both are granted the lock: their statements reach the same session, and a session may lock again what it
/// has locked.
async fn advisory(pooler: &Pooler) -> Result<(), Failure> {
    for who in ["ann", "bob"] {
        let got = pooler.ask("SELECT pg_try_advisory_lock(1)").await?;
        println!("  {who} asks for the lock of account 1: granted = {got}");
    }
    let (mut first, mut second) = (pooler.session()?, pooler.session()?);
    let ann = bank::Transfer::begin("ann", &mut first, 1, 2).await?;
    let bob = bank::Transfer::begin("bob", &mut second, 1, 3).await?;
    bob.finish(50).await?;
    ann.finish(30).await
}
