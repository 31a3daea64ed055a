//! PostgreSQL alone: checks of a lock in the user's own transaction, and tables that are not as dlock made
//! them.

use std::error::Error as _;

use dlock_runtime::{
    Concern, Config, Finding, LockError, LockGuard, LockPool, LostCause, Refusal, Released,
};
use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_postgres::{Client, IsolationLevel};

use crate::backends::{
    LONG, database_as, database_at, database_client, is_lost, ms, new_schema, patient, postgres,
    settled, soon, url_as,
};

const LEVELS: [IsolationLevel; 3] = [
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Serializable,
];

/// What ends the hold while the check is open.
const EVENTS: [&str; 3] = ["release", "lapse", "evict"];

/// What ends the transaction.
const ENDS: [&str; 3] = ["commit", "rollback", "disconnect"];

async fn pool() -> (String, LockPool) {
    let (schema, config) = new_schema();
    config.clone().migrate().await.unwrap();
    (schema, LockPool::connect(config).await.unwrap())
}

/// A transaction that has checked this lock.
async fn checked<'a>(
    client: &'a mut Client,
    level: IsolationLevel,
    lock: &LockGuard,
) -> tokio_postgres::Transaction<'a> {
    let transaction = client.build_transaction().isolation_level(level);
    let transaction = transaction.start().await.unwrap();
    lock.check_in(&transaction).await.unwrap();
    transaction
}

/// Whoever has waited, or comes, is granted the lock when the transaction is over and not before.
#[tokio::test]
async fn nobody_is_granted_a_lock_beside_an_open_check() {
    let (_, pool) = pool().await;
    let rows = LEVELS
        .into_iter()
        .flat_map(|level| EVENTS.map(|event| ENDS.map(|end| (level, event, end))));
    let rows = rows.flatten().map(|row| open_check(&pool, row));
    join_all(rows).await;
}

async fn open_check(pool: &LockPool, row: (IsolationLevel, &str, &str)) {
    let (level, event, end) = row;
    let key = format!("{level:?}:{event}:{end}");
    let mut lock = pool.lock(&*key).ttl(LONG);
    if event == "lapse" {
        lock = pool.lock(&*key).ttl(ms(1_500));
    }
    let lock = lock.acquire().await.unwrap();
    let mut client = database_client().await;
    let transaction = checked(&mut client, level, &lock).await;
    let waits = tokio::spawn(pool.lock(&*key).wait(LONG).acquire());
    settled(pool).await;
    if event != "lapse" {
        lock.extend(LONG * 2).await.unwrap(); // a renewal does not wait
    }
    lock.verify().await.ok();
    match event {
        "release" => assert_eq!(lock.release().await.unwrap(), Released::Freed, "{row:?}"),
        "evict" => {
            let shown = pool.admin().show(&*key).await.unwrap().unwrap();
            let holder = shown.holders()[0].fingerprint();
            let _ = pool.admin().evict(&*key, holder).await.unwrap();
            is_lost(lock.verify().await, LostCause::Gone);
        }
        _ => assert_eq!(lock.lost().await, LostCause::Deadline, "{row:?}"),
    }
    let at_once = timeout(ms(700), pool.lock(&*key).wait(ms(300)).acquire()).await;
    assert!(
        matches!(at_once, Err(_) | Ok(Err(LockError::Busy { .. }))),
        "{row:?}: {at_once:?}"
    );
    assert!(!waits.is_finished(), "{row:?}");
    match end {
        "commit" => transaction.commit().await.unwrap(),
        "rollback" => transaction.rollback().await.unwrap(),
        _ => {
            std::mem::forget(transaction); // its drop would roll back
            drop(client);
        }
    }
    let next = timeout(LONG / 2, waits)
        .await
        .expect(&key)
        .unwrap()
        .unwrap();
    assert_eq!(
        next.fence().get() % 1024,
        0,
        "{row:?}: granted by the server"
    );
    next.release().await.unwrap();
}

/// Whoever is kept out learns by what, and who wants to let others in is refused.
#[tokio::test]
async fn an_open_check_is_told() {
    let (schema, pool) = pool().await;
    let mut client = database_client().await;
    let lock = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let transaction = checked(&mut client, LEVELS[0], &lock).await;
    let row = transaction.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = row.unwrap().get(0);
    let kept_by = async || {
        let report = pool.admin().show("k").await.unwrap();
        report.and_then(|it| it.kept_by().map(ToOwned::to_owned))
    };
    assert!(kept_by().await.unwrap().contains(&format!("process {pid}")));
    lock.release().await.unwrap();
    let waits = pool.lock("k").wait(ms(1_000)).acquire().await;
    let said = waits.unwrap_err().to_string();
    assert!(said.contains("kept by an open transaction"), "{said}");

    let name = format!("PREPARE TRANSACTION '{schema}'");
    transaction.batch_execute(&name).await.unwrap();
    drop(transaction); // it is in no session any more
    let said = kept_by().await.unwrap();
    assert_eq!(said, format!("prepared transaction '{schema}'"));
    let name = format!("COMMIT PREPARED '{schema}'");
    client.batch_execute(&name).await.unwrap();
    let again = pool.lock("k").wait(LONG).acquire().await.unwrap();
    assert_eq!(kept_by().await, None);
    again.release().await.unwrap();

    let writer = pool.lock("w").write().ttl(LONG).acquire().await.unwrap();
    let transaction = checked(&mut client, LEVELS[0], &writer).await;
    let refused = writer.downgrade().await.unwrap_err();
    let is_typed = matches!(
        refused,
        LockError::Refused {
            reason: Refusal::OpenTransaction,
            ..
        }
    );
    assert!(is_typed, "{refused:?}");
    transaction.commit().await.unwrap();
    writer.downgrade().await.unwrap();
    writer.release().await.unwrap();
}

/// Rows that nobody used for a day; not one whose record counts, or that somebody waits at.
#[tokio::test]
async fn old_rows_are_removed() {
    let (schema, config) = new_schema();
    config.clone().migrate().await.unwrap();
    let client = database_client().await;
    let now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let rows = format!(
        "INSERT INTO {schema}.lock (key, version, epoch, waiting, ends, record, record_ends)
        SELECT v.key, 7, {now} - v.hours * 3600000000, v.waiting, v.ends, v.record, v.record_ends FROM (VALUES
            ('old', 25, false, 0, '', 0), ('young', 23, false, 0, '', 0), ('waited', 25, true, 0, '', 0),
            ('forsaken', 25, true, 0, '', 0),
            ('held', 25, false, {now} + 1, '', 0), ('endless', 25, false, 9223372036854775807, '', 0),
            ('recorded', 25, false, 0, 'x', {now} + 1)) AS v(key, hours, waiting, ends, record, record_ends)
        UNION ALL SELECT 'old' || n, 7, 1, false, 0, '', 0 FROM generate_series(1, 12000) AS n;
        INSERT INTO {schema}.waiter VALUES ('waited', 1, {now}, 'x'), ('forsaken', 1, 1, 'x')"
    );
    client.batch_execute(&rows).await.unwrap();
    let pool = LockPool::connect(config.health_check_interval(ms(100))).await;
    let _pool = pool.unwrap();
    let keys = format!("SELECT key FROM {schema}.lock ORDER BY key");
    soon("the old ones are gone", async || {
        let rows = client.query(&keys, &[]).await.unwrap();
        let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        left == ["endless", "held", "recorded", "waited", "young"]
    })
    .await;
    let waiters = format!("SELECT count(*) FROM {schema}.waiter");
    let row = client.query_one(&waiters, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
}

/// A hold that is over, one of several keys that is, a snapshot that is older, a nested transaction.
#[tokio::test]
async fn a_check_that_would_not_protect_is_an_error() {
    let (schema, pool) = pool().await;
    let mut client = database_client().await;
    for level in LEVELS {
        let both = pool.lock_all(["a", "b"]).ttl(LONG).acquire().await.unwrap();
        checked(&mut client, level, &both)
            .await
            .commit()
            .await
            .unwrap();
        // Taken away behind dlock's back, so that only the server knows.
        let text = format!("UPDATE {schema}.lock SET sole = 1 WHERE key = 'lock:b'");
        client.execute(&text, &[]).await.unwrap();
        let transaction = client.build_transaction().isolation_level(level);
        let transaction = transaction.start().await.unwrap();
        is_lost(both.check_in(&transaction).await, LostCause::Gone);
        transaction.rollback().await.unwrap();
        both.release().await.unwrap();
    }
    let old = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .start()
        .await
        .unwrap();
    old.query("SELECT 1", &[]).await.unwrap();
    let lock = pool.lock("c").ttl(LONG).acquire().await.unwrap();
    is_lost(lock.check_in(&old).await, LostCause::Gone);
    old.rollback().await.unwrap();

    let mut outer = client.transaction().await.unwrap();
    let nested = outer.transaction().await.unwrap();
    let refused = lock.check_in(&nested).await.unwrap_err();
    assert!(refused.to_string().contains("nested"), "{refused}");
    nested.rollback().await.unwrap();
    // The savepoint is still there.
    assert!(lock.check_in(&outer).await.is_err());
    outer.rollback().await.unwrap();

    let check = lock.sql_check().unwrap();
    let outside = client.execute(check.begin(), &[]).await.unwrap_err();
    assert_eq!(outside.code().unwrap().code(), "25P01");
    lock.release().await.unwrap();

    let reader = pool.lock("r").read().acquire().await.unwrap();
    let refused = reader.sql_check().unwrap_err().to_string();
    assert!(refused.contains("is not alone"), "{refused}");
    let elsewhere = LockPool::connect("memory://").await.unwrap();
    let elsewhere = elsewhere.lock("k").acquire().await.unwrap();
    let refused = elsewhere.sql_check().unwrap_err().to_string();
    assert!(refused.contains("postgres://"), "{refused}");
}

/// A writer and an owner are checked by their epochs, too.
#[tokio::test]
async fn each_holder_that_is_alone_is_checked() {
    let (_, pool) = pool().await;
    let mut client = database_client().await;
    for kind in ["x", "w", "o:ann", "fair"] {
        for waits in [false, true] {
            let request = || {
                dlock_tests::of_kind(pool.lock(kind), kind)
                    .ttl(LONG)
                    .wait(LONG)
            };
            let mut before = None;
            if waits {
                before = Some(pool.lock(kind).ttl(LONG).acquire().await.unwrap());
            }
            let waiter = tokio::spawn(request().acquire());
            settled(&pool).await;
            if let Some(before) = before {
                before.release().await.unwrap();
            }
            let lock = waiter.await.unwrap().unwrap();
            checked(&mut client, LEVELS[0], &lock)
                .await
                .commit()
                .await
                .unwrap();
            lock.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_pool_without_tables_names_the_command() {
    let (schema, config) = new_schema();
    let said = LockPool::connect(config.clone()).await.unwrap_err();
    assert!(matches!(said, LockError::Config { .. }), "{said:?}");
    assert!(said.to_string().contains("dlock migrate"), "{said}");
    let both = tokio::join!(config.clone().migrate(), config.clone().migrate());
    both.0.and(both.1).unwrap();
    let text = config.clone().migration().unwrap();
    assert!(text.contains(&format!("CREATE TABLE IF NOT EXISTS \"{schema}\".lock")));
    let pool = LockPool::connect(config).await.unwrap();
    let found = pool.check().await.unwrap();
    let found: Vec<_> = found.iter().map(Finding::concern).collect();
    // The test's server does not flush, and lets transactions stay open.
    assert_eq!(found, [Concern::Persistence, Concern::Transactions]);
    pool.lock("k")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let other = Config::new("memory://").migrate().await.unwrap_err();
    assert!(other.to_string().contains("has no tables"), "{other}");
}

/// Whatever another program writes, or keeps locked, ends in a typed error or in a wait.
#[tokio::test]
async fn a_strangers_row_is_an_error_and_a_lock_on_it_a_wait() {
    let (schema, pool) = pool().await;
    let mut client = database_client().await;
    for (number, set) in [
        "holder = '1|#|rw', members = 'x'",
        "holder = '1|#|z', ends = 9e18",
        "ends = -1, holder = 'x'",
        "epoch = -1",
        "record = 'x', record_ends = -1",
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("strange:{number}");
        pool.lock(&*key)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        let text =
            format!("UPDATE {schema}.lock SET waiting = true, {set} WHERE key = 'lock:{key}'");
        client.execute(&text, &[]).await.unwrap();
        let error = pool.lock(&*key).wait(ms(300)).acquire().await.unwrap_err();
        let is_typed = matches!(
            error,
            LockError::Refused {
                reason: Refusal::WrongType,
                ..
            }
        );
        assert!(is_typed, "{set}: {error:?}");
    }
    let foreign = format!(
        "INSERT INTO {schema}.lock (key, holder, ends) VALUES ('lock:foreign', 'somebody', 9e18)"
    );
    client.execute(&foreign, &[]).await.unwrap();
    let busy = pool
        .lock("foreign")
        .wait(ms(300))
        .acquire()
        .await
        .unwrap_err();
    assert!(busy.is_busy(), "{busy:?}");

    // Renewals of others go on, and this one's is asked again.
    let [kept, other] = ["kept", "other"].map(|key| pool.lock(key).ttl(ms(6_000)).renew());
    let (kept, other) = (
        kept.acquire().await.unwrap(),
        other.acquire().await.unwrap(),
    );
    let transaction = client.transaction().await.unwrap();
    let lock = format!("SELECT 1 FROM {schema}.lock WHERE key = 'lock:kept' FOR UPDATE");
    transaction.query(&lock, &[]).await.unwrap();
    soon("time passes", async || other.remaining() < ms(4_900)).await;
    soon("the other is renewed", async || {
        other.remaining() > ms(5_200)
    })
    .await;
    transaction.rollback().await.unwrap();
    kept.verify().await.unwrap();
    other.verify().await.unwrap();
}

/// Locks that are taken or released at the same time share a statement, which waits for a row that a
/// stranger has made and not committed.
#[tokio::test]
async fn a_row_that_a_stranger_keeps_locked_fails_only_itself() {
    let (schema, config) = new_schema();
    config.clone().migrate().await.unwrap();
    let pool = LockPool::connect(config.command_timeout(LONG))
        .await
        .unwrap();
    let mut client = database_client().await;
    let transaction = client.transaction().await.unwrap();
    let text = format!("INSERT INTO {schema}.lock (key) VALUES ('lock:batch:5')");
    transaction.execute(&text, &[]).await.unwrap();
    let request = |number: u32| pool.lock(format!("batch:{number}"));
    let all = (0..12).filter(|number| *number != 5);
    let all = all.map(|number| tokio::spawn(request(number).try_acquire()));
    let kept = tokio::spawn(request(5).wait(LONG).acquire());
    let all = timeout(LONG / 2, join_all(all)).await.unwrap();
    let all: Vec<_> = all
        .into_iter()
        .map(|it| it.unwrap().unwrap().unwrap())
        .collect();
    assert!(!kept.is_finished());
    transaction.rollback().await.unwrap();
    kept.await.unwrap().unwrap().release().await.unwrap();

    // Of a row that is there, nobody waits for the lock.
    let transaction = client.transaction().await.unwrap();
    let text = format!("SELECT 1 FROM {schema}.lock WHERE key = 'lock:batch:7' FOR UPDATE");
    transaction.query(&text, &[]).await.unwrap();
    let mut all: Vec<_> = all
        .into_iter()
        .map(|it| tokio::spawn(it.release()))
        .collect();
    let kept = all.remove(6); // the sixth is not among them
    for released in join_all(all).await {
        assert_eq!(released.unwrap().unwrap(), Released::Freed);
    }
    assert!(!kept.is_finished());
    transaction.rollback().await.unwrap();
    assert_eq!(kept.await.unwrap().unwrap(), Released::Freed);
}

/// The rights of the page are enough for each role, and an error names each one that is missing.
#[tokio::test]
async fn a_missing_right_is_named() {
    let page = include_str!("../../docs/topologies/postgres.md");
    let (schema, config) = new_schema();
    config.migrate().await.unwrap();
    let admin = database_client().await;
    let execute = async |text: String| admin.batch_execute(&text).await.expect(&text);
    let (shop, bank) = (format!("shop_{schema}"), format!("bank_{schema}"));
    execute(format!(
        "CREATE ROLE {shop} LOGIN; CREATE ROLE {bank} LOGIN"
    ))
    .await;
    let grants = page.lines().filter(|line| line.starts_with("GRANT "));
    for grant in grants {
        let of_the_page = [
            (" dlock.", format!(" {schema}.")),
            ("SCHEMA dlock ", format!("SCHEMA {schema} ")),
            (" shop;", format!(" {shop}")),
            (" bank;", format!(" {bank}")),
        ];
        let grant = of_the_page
            .iter()
            .fold(grant.to_owned(), |grant, (from, to)| {
                grant.replace(from, to)
            });
        execute(grant).await;
    }
    let refused = |error: &LockError, named: &str| {
        let is_typed = matches!(
            error,
            LockError::Refused {
                reason: Refusal::NoPermission,
                ..
            }
        );
        let said = error.source().expect("what the server said").to_string();
        assert!(is_typed && said.contains(named), "{named}: {error:?}");
    };

    let pool = LockPool::connect(url_as(&shop, &schema)).await.unwrap();
    let lock = pool.lock("k").acquire().await.unwrap();
    let waits = tokio::spawn(pool.lock("k").fair().wait(LONG).acquire());
    settled(&pool).await;
    lock.extend(LONG).await.unwrap();
    lock.release().await.unwrap();
    let lock = waits.await.unwrap().unwrap();
    for (right, on, named) in [
        ("USAGE", format!("SCHEMA {schema}"), "schema"),
        ("SELECT", format!("{schema}.layout"), "layout"),
        ("SELECT", format!("{schema}.lock"), "SELECT on"),
        ("INSERT", format!("{schema}.lock"), "INSERT on"),
        ("UPDATE", format!("{schema}.lock"), "UPDATE on"),
        ("SELECT", format!("{schema}.waiter"), "SELECT on"),
        ("INSERT", format!("{schema}.waiter"), "INSERT on"),
        ("UPDATE", format!("{schema}.waiter"), "UPDATE on"),
        ("DELETE", format!("{schema}.lock"), "DELETE on"),
        ("DELETE", format!("{schema}.waiter"), "DELETE on"),
    ] {
        execute(format!("REVOKE {right} ON {on} FROM {shop}")).await;
        let error = LockPool::connect(url_as(&shop, &schema)).await.unwrap_err();
        refused(&error, named);
        refused(&error, on.rsplit(['.', ' ']).next().unwrap());
        execute(format!("GRANT {right} ON {on} TO {shop}")).await;
    }

    let mut client = database_as(&bank).await;
    checked(&mut client, LEVELS[0], &lock)
        .await
        .commit()
        .await
        .unwrap();
    for (right, on, named) in [
        ("USAGE", format!("SCHEMA {schema}"), "USAGE on the schema"),
        ("SELECT", format!("{schema}.lock"), "SELECT on the table"),
        ("UPDATE (epoch)", format!("{schema}.lock"), "UPDATE (epoch)"),
    ] {
        execute(format!("REVOKE {right} ON {on} FROM {bank}")).await;
        let transaction = client.transaction().await.unwrap();
        refused(&lock.check_in(&transaction).await.unwrap_err(), named);
        transaction.rollback().await.unwrap();
        execute(format!("GRANT {right} ON {on} TO {bank}")).await;
    }
}

/// Behind `PgBouncer` in either mode waiters get their turn, and transactions check their locks. What the
/// URL does not say, a pool finds out.
#[tokio::test]
#[ignore = "needs PgBouncer; with --rest"]
async fn postgres_pooled_transactions() {
    for (mode, name, option) in [
        ("session", "session", ""),
        ("transaction", "told", "&pooler=transaction"),
        ("transaction", "found", ""),
    ] {
        let (schema, config) = new_schema();
        config.migrate().await.unwrap();
        let pooler = postgres().pooled_by(mode, name);
        let url = pooler.url(&schema) + option;
        let [pool, other] = [(); 2].map(|()| LockPool::connect(patient(&*url)));
        let (pool, other) = (pool.await.unwrap(), other.await.unwrap());
        let found = pool.check().await.unwrap();
        let polls = found.iter().any(|it| it.concern() == Concern::Protocol);
        assert_eq!(polls, mode == "transaction", "{name}: {found:?}");
        for _ in 0..5 {
            let first = pool.lock("k").ttl(LONG).acquire().await.unwrap();
            let waits = tokio::spawn(other.lock("k").wait(LONG).acquire());
            let has_waiter = async || {
                let shown = pool.admin().show("k").await.unwrap();
                shown.is_some_and(|lock| !lock.waiters().is_empty())
            };
            soon("it waits", has_waiter).await;
            first.release().await.unwrap();
            let next = waits.await.unwrap().unwrap();
            let mut client = database_at(pooler.directory(), "postgres").await;
            let transaction = checked(&mut client, LEVELS[0], &next).await;
            transaction.commit().await.unwrap();
            next.release().await.unwrap();
        }
    }
}
