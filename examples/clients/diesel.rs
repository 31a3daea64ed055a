//! A transfer by diesel that checks its lock. diesel blocks, so it runs on a thread of its own while dlock renews
//! the lock.

use std::time::Duration;

use diesel::pg::PgConnection;
use diesel::prelude::*;
use diesel::result::Error;
use diesel::sql_query;
use diesel::sql_types::{Array, BigInt, Text};
use dlock_harness::PostgresServer;
use dlock_runtime::{Config, LockPool, SqlCheck, distributed_lock};
use tokio::task::spawn_blocking;

type Failed = Box<dyn std::error::Error + Send + Sync>;

diesel::table! {
    account (id) {
        id -> Integer,
        cents -> BigInt,
    }
}

#[distributed_lock(keys = ["account:<from>", "account:<to>"], ttl = "10s", renew, wait = "30s", guard = lock)]
async fn transfer(url: &str, from: i32, to: i32, amount: i64) -> Result<(), Failed> {
    use crate::account::dsl::{account, cents};
    let (lock, url) = (lock.sql_check()?, url.to_owned());
    let moved = spawn_blocking(move || {
        PgConnection::establish(&url)?.transaction(|db| {
            check(&lock, db)?;
            let had: i64 = account.find(from).select(cents).first(db)?;
            let has: i64 = account.find(to).select(cents).first(db)?;
            for (id, balance) in [(from, had - amount), (to, has + amount)] {
                diesel::update(account.find(id))
                    .set(cents.eq(balance))
                    .execute(db)?;
            }
            Ok(())
        })
    });
    moved.await?
}

/// In the outermost `transaction`: a nested one is a savepoint.
fn check(check: &SqlCheck, db: &mut PgConnection) -> Result<(), Failed> {
    sql_query(check.begin()).execute(db)?;
    let held = sql_query(check.sql())
        .bind::<Array<Text>, _>(check.keys())
        .bind::<Array<BigInt>, _>(check.epochs());
    match held.execute(db)? {
        1 => Ok(()),
        _ => Err(Error::RollbackTransaction.into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let server = PostgresServer::start();
    let url = format!(
        "postgres://postgres@/postgres?host={}",
        server.directory().display()
    );
    Config::new(&url).migrate().await?;
    dlock_runtime::init(&*url).await?;
    let mut db = PgConnection::establish(&url)?;
    sql_query("CREATE TABLE account (id int PRIMARY KEY, cents bigint NOT NULL)")
        .execute(&mut db)?;
    sql_query("INSERT INTO account VALUES (1, 100), (2, 100), (3, 100)").execute(&mut db)?;

    tokio::try_join!(
        transfer(&url, 1, 2, 30),
        transfer(&url, 1, 3, 50),
        transfer(&url, 3, 2, 10)
    )?;
    let balances: Vec<i64> = account::table
        .order(account::id)
        .select(account::cents)
        .load(&mut db)?;
    println!("the accounts have {balances:?}");
    assert_eq!(balances, [20, 140, 140]);

    // Her lease ends, bob has the lock: the check returns no row.
    let pool = LockPool::connect(&*url).await?;
    let ann = pool
        .lock("account:1")
        .ttl(Duration::from_secs(1))
        .acquire()
        .await?;
    let stale = ann.sql_check()?;
    let bob = pool
        .lock("account:1")
        .wait(Duration::from_secs(30))
        .acquire()
        .await?;
    let late = db.transaction(|db| check(&stale, db)).unwrap_err();
    println!("a late one is rolled back: {late}");
    bob.release().await?;
    Ok(())
}
