//! A transfer by sqlx that checks its lock.

use std::time::Duration;

use dlock_harness::PostgresServer;
use dlock_runtime::{Config, LockError, LockPool, SqlCheck, distributed_lock};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, PgPool, PgTransaction};

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[distributed_lock(keys = ["account:<from>", "account:<to>"], ttl = "10s", renew, wait = "30s", guard = lock)]
async fn transfer(db: &PgPool, from: i32, to: i32, cents: i64) -> Result<(), Failed> {
    let mut tx = db.begin().await?;
    check(&lock.sql_check()?, &mut tx).await?;
    let balance = "SELECT cents FROM account WHERE id = $1";
    let (had,): (i64,) = sqlx::query_as(balance)
        .bind(from)
        .fetch_one(&mut *tx)
        .await?;
    let (has,): (i64,) = sqlx::query_as(balance).bind(to).fetch_one(&mut *tx).await?;
    for (id, cents) in [(from, had - cents), (to, has + cents)] {
        let write = sqlx::query("UPDATE account SET cents = $2 WHERE id = $1");
        write.bind(id).bind(cents).execute(&mut *tx).await?;
    }
    Ok(tx.commit().await?)
}

/// The transaction is rolled back when an error drops it.
async fn check(check: &SqlCheck, tx: &mut PgTransaction<'_>) -> Result<(), Failed> {
    let (begin, sql) = (AssertSqlSafe(check.begin()), AssertSqlSafe(check.sql()));
    sqlx::query(begin).execute(&mut **tx).await?;
    let held = sqlx::query(sql).bind(check.keys()).bind(check.epochs());
    let held = held.fetch_optional(&mut **tx).await?;
    held.ok_or("the lock is not ours any more")?;
    Ok(())
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
    let private = PgConnectOptions::new().socket(server.directory());
    let private = private.username("postgres").database("postgres");
    let db = PgPool::connect_with(private).await?;
    let accounts = "CREATE TABLE account (id int PRIMARY KEY, cents bigint NOT NULL);
        INSERT INTO account VALUES (1, 100), (2, 100), (3, 100)";
    sqlx::raw_sql(accounts).execute(&db).await?;

    tokio::try_join!(
        transfer(&db, 1, 2, 30),
        transfer(&db, 1, 3, 50),
        transfer(&db, 3, 2, 10)
    )?;
    let balances: Vec<(i64,)> = sqlx::query_as("SELECT cents FROM account ORDER BY id")
        .fetch_all(&db)
        .await?;
    println!("the accounts have {balances:?}");
    assert_eq!(balances, [(20,), (140,), (140,)]);

    // Her lease ends, bob has the lock: the check returns no row.
    let pool = LockPool::connect(&*url).await?;
    let ann = pool
        .lock("account:1")
        .ttl(Duration::from_secs(1))
        .acquire()
        .await?;
    let stale = ann.sql_check()?;
    let bob: Result<_, LockError> = pool
        .lock("account:1")
        .wait(Duration::from_secs(30))
        .acquire()
        .await;
    let late = check(&stale, &mut db.begin().await?).await.unwrap_err();
    println!("a late one is rolled back: {late}");
    bob?.release().await?;
    Ok(())
}
