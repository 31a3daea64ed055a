//! The database of PostgreSQL: tables and rights that are missing or not as dlock made them, rows and messages of
//! strangers, what administrators do, and encryption.

use std::error::Error as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use dlock_harness::postgres::on_a_disk_of;
use dlock_harness::{Authority, PostgresServer};
use dlock_runtime::{Concern, Config, Finding, LockError, LockGuard, LockPool, LostCause, Refusal};
use tokio::time::timeout;
use tokio_postgres::types::ToSql;

use crate::backends::{
    LONG, database_as, database_at, database_client, is_lost, ms, new_schema, patient, settled,
    soon, url_as,
};
use crate::transactions::{LEVELS, checked, pool};

/// It is taken at once, and released.
async fn is_free(pool: &LockPool, key: &str) {
    let lock = pool.lock(key).acquire().await.unwrap();
    lock.release().await.unwrap();
}

/// An administrator locks the table, and writes it anew: who holds a lock keeps it, who asks waits.
#[tokio::test]
async fn an_administrators_locks_on_the_table_are_waited_out() {
    let (schema, pool) = pool().await;
    let held = pool.lock("held").ttl(ms(6_000)).renew().acquire();
    let held = held.await.unwrap();
    let mut client = database_client().await;
    let transaction = client.transaction().await.unwrap();
    let text = format!("LOCK TABLE {schema}.lock IN ACCESS EXCLUSIVE MODE");
    transaction.batch_execute(&text).await.unwrap();
    let waits = tokio::spawn(pool.lock("asked").wait(LONG).acquire());
    let error = timeout(LONG, pool.lock("once").wait(ms(600)).acquire()).await;
    let error = error.expect("it ends").unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(!waits.is_finished());
    transaction.rollback().await.unwrap();
    let asked = timeout(LONG, waits).await.expect("it is granted").unwrap();
    asked.unwrap().release().await.unwrap();
    let text = format!("VACUUM FULL {schema}.lock");
    client.batch_execute(&text).await.unwrap();
    held.verify().await.unwrap();
    held.extend(LONG).await.unwrap();
    held.release().await.unwrap();
}

/// What a crash of the server takes along: with `?synchronous_commit=off` the last grants, whose holders learn
/// it, but none that a committed transaction has checked; without it nothing.
#[tokio::test]
async fn a_crash_loses_no_grant_that_was_flushed() {
    let server = PostgresServer::start_with(&["wal_writer_delay=10s"]);
    server.sql("CREATE TABLE paid (site text)");
    assert!(is_held_behind_a_crash(&server, ("flushed", "", false)).await);
    let off = "&synchronous_commit=off";
    assert!(is_held_behind_a_crash(&server, ("checked", off, true)).await);
    // The server may just have come to write its log.
    for site in ["first", "second", "third"] {
        if !is_held_behind_a_crash(&server, (site, off, false)).await {
            return;
        }
    }
    panic!("each grant was flushed at once");
}

/// Whether a lock is, and then it is whole, or lost to somebody else, and then each way to ask says so.
async fn is_held_behind_a_crash(
    server: &PostgresServer,
    (schema, option, transacts): (&str, &str, bool),
) -> bool {
    let config = patient(server.url(schema) + option);
    config.clone().migrate().await.unwrap();
    let pool = LockPool::connect(config.clone()).await.unwrap();
    let mut client = database_at(server.directory(), "postgres").await;
    let site: &[&(dyn ToSql + Sync)] = &[&schema];
    client
        .execute("INSERT INTO paid VALUES ($1)", site)
        .await
        .unwrap(); // all before is flushed
    let lock = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    if transacts {
        let transaction = checked(&mut client, LEVELS[0], &lock).await;
        transaction
            .execute("INSERT INTO paid VALUES ($1)", site)
            .await
            .unwrap();
        transaction.commit().await.unwrap();
    }
    server.crash();
    server.restart();
    let other = LockPool::connect(config).await.unwrap();
    let granted = other.lock("k").ttl(LONG).try_acquire().await.unwrap();
    let mut client = database_at(server.directory(), "postgres").await;
    let paid = "SELECT count(*) FROM paid WHERE site = $1";
    let paid: i64 = client.query_one(paid, site).await.unwrap().get(0);
    assert_eq!(paid, 1 + i64::from(transacts));
    if let Some(next) = granted {
        let transaction = client.transaction().await.unwrap();
        is_lost(lock.check_in(&transaction).await, LostCause::Gone);
        is_lost(lock.extend(LONG).await, LostCause::Gone);
        is_lost(lock.verify().await, LostCause::Gone);
        next.verify().await.unwrap();
        return false;
    }
    lock.verify().await.unwrap();
    lock.extend(LONG).await.unwrap();
    let transaction = checked(&mut client, LEVELS[0], &lock).await;
    transaction.commit().await.unwrap();
    lock.release().await.unwrap();
    let next = other.lock("k").try_acquire().await.unwrap();
    next.expect("it is free").release().await.unwrap();
    true
}

/// Of a disk without a byte left, whoever needs more is told, and others go on; and a server that ends because
/// of its log has the same locks when it is started again. It can't end while a client that connects stands still,
/// so the pool has a thread of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "mounts a disk of its own; with --rest"]
async fn postgres_full_disk() {
    let Some(disk) = on_a_disk_of("80m", "database::postgres_full_disk") else {
        return;
    };
    let server = PostgresServer::start();
    let config = Config::new(server.url("full")).command_timeout(LONG / 6);
    config.clone().migrate().await.unwrap();
    let pool = LockPool::connect(config).await.unwrap();
    let asked = async |key: &str| {
        let asked = pool.lock(key).ttl(LONG).wait(ms(600)).acquire();
        timeout(LONG / 2, asked).await.expect("it ends")
    };
    let goes_on = async |held: &LockGuard| {
        held.extend(LONG).await.unwrap();
        held.verify().await.unwrap();
        asked("free").await.unwrap().release().await.unwrap();
    };
    let held = asked("held").await.unwrap();
    asked("free").await.unwrap().release().await.unwrap();

    let filler = fill(&disk);
    let is_full = |error: &LockError| {
        let is_typed = matches!(
            error,
            LockError::Refused {
                reason: Refusal::OutOfMemory,
                ..
            }
        );
        let said = error.source().expect("what the server said").to_string();
        assert!(is_typed && said.contains("53100"), "{error:?}");
    };
    let mut taken = Vec::new();
    let refused = loop {
        match asked(&format!("{:0>200}", taken.len())).await {
            Ok(lock) => taken.push(lock),
            Err(error) => break error,
        }
    };
    is_full(&refused);
    is_full(&asked("held").await.unwrap_err()); // a waiter is a row, too
    goes_on(&held).await;
    for lock in taken {
        lock.release().await.unwrap();
    }
    std::fs::remove_file(&filler).unwrap();
    asked(&"x".repeat(200))
        .await
        .unwrap()
        .release()
        .await
        .unwrap();

    let waits = tokio::spawn(pool.lock("held").wait(LONG).acquire());
    settled(&pool).await;
    let filler = fill(&disk);
    soon("its log has no room", async || {
        server.try_sql("SELECT pg_switch_wal()");
        match asked("free").await {
            Ok(lock) => lock.release().await.is_err(),
            Err(error) => {
                let is_away = matches!(
                    error,
                    LockError::Unavailable { .. }
                        | LockError::Refused {
                            reason: Refusal::Loading,
                            ..
                        }
                );
                assert!(is_away, "{error:?}");
                true
            }
        }
    })
    .await;
    std::fs::remove_file(filler).unwrap();
    server.crash(); // or it has ended by itself
    server.restart();
    goes_on(&held).await;
    assert!(!waits.is_finished());
    held.release().await.unwrap();
    let next = timeout(LONG / 2, waits).await.expect("it is granted");
    next.unwrap().unwrap().release().await.unwrap();
}

/// Writes a file until the disk is full.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut filler = File::create(&path).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    path
}

/// Whatever anybody notifies on the channels of a pool: holders keep, and waiters wait.
#[tokio::test]
async fn a_strangers_message_changes_nothing() {
    let (schema, pool) = pool().await;
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let waits = tokio::spawn(pool.lock("k").wait(LONG).acquire());
    let client = database_client().await;
    let entries =
        format!("SELECT holder FROM {schema}.lock UNION ALL SELECT entry FROM {schema}.waiter");
    let mut channels = Vec::new();
    soon("one holds and one waits", async || {
        let rows = client.query(&entries, &[]).await.unwrap();
        let entries = rows.iter().map(|row| row.get::<_, String>(0));
        channels = entries
            .filter_map(|it| Some(it.split('|').nth(3)?.to_owned()))
            .collect();
        channels.len() == 2
    })
    .await;
    for channel in &channels {
        for message in [
            "g lock:k",
            "e lock:k",
            "g",
            "",
            "p",
            "x lock:k",
            "e lock:k\n",
            "g lock:other",
        ] {
            let notify = "SELECT pg_notify($1, $2)";
            client.execute(notify, &[channel, &message]).await.unwrap();
        }
    }
    settled(&pool).await;
    held.verify().await.unwrap();
    assert!(!waits.is_finished());
    held.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Over TLS both sides are checked, and nothing is sent to a server that can't encrypt.
#[tokio::test]
async fn both_sides_of_an_encrypted_connection_are_checked() {
    let authority = Authority::new();
    let server = PostgresServer::start_encrypted(&authority);
    let port = server.port();
    let client = authority.issue("client", &["shop"]);
    let file = |path: &Path| path.display().to_string();
    let url = |server: &str, ca: &Authority, ours: bool| {
        let ours = if ours {
            format!(
                "&sslcert={}&sslkey={}",
                file(&client.certificate),
                file(&client.key)
            )
        } else {
            String::new()
        };
        let ca = file(&ca.file());
        format!("postgres://postgres@{server}/postgres?sslmode=verify-full&sslrootcert={ca}{ours}")
    };
    let good = url(&format!("localhost:{port}"), &authority, true);
    patient(&*good).migrate().await.unwrap();
    let pool = LockPool::connect(patient(&*good)).await.unwrap();
    is_free(&pool, "k").await;
    let plain = PostgresServer::start_on_port();
    for (url, reason) in [
        (
            url(&format!("localhost:{port}"), &Authority::new(), true),
            Refusal::Certificate,
        ),
        (
            url(&format!("127.0.0.1:{port}"), &authority, true),
            Refusal::Certificate,
        ),
        (url(&plain.host(), &authority, true), Refusal::Tls),
    ] {
        let error = LockPool::connect(patient(&*url)).await.unwrap_err();
        let is_typed = matches!(&error, LockError::Refused { reason: it, .. } if *it == reason);
        assert!(is_typed, "{url}: {error:?}");
    }
    let nobody = url(&format!("localhost:{port}"), &authority, false);
    let error = LockPool::connect(patient(&*nobody)).await.unwrap_err();
    assert!(matches!(error, LockError::Refused { .. }), "{error:?}");
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
    is_free(&pool, "k").await;
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
        is_free(&pool, &key).await;
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

    let pool = LockPool::connect(patient(url_as(&shop, &schema)))
        .await
        .unwrap();
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
        let error = LockPool::connect(patient(url_as(&shop, &schema)))
            .await
            .unwrap_err();
        refused(&error, named);
        refused(&error, on.rsplit(['.', ' ']).next().unwrap());
        execute(format!("GRANT {right} ON {on} TO {shop}")).await;
    }

    let mut client = database_as(&bank).await;
    let transaction = checked(&mut client, LEVELS[0], &lock).await;
    let found = pool.check().await.unwrap();
    let is_told = found.iter().any(|it| it.concern() == Concern::NotChecked);
    assert!(is_told, "whose transactions it may not see: {found:?}");
    transaction.commit().await.unwrap();
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
