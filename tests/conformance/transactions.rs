//! PostgreSQL alone: checks of a lock in the user's own transaction.

use std::cell::Cell;

use dlock_runtime::{
    Concern, Config, LockError, LockGuard, LockPool, LostCause, Refusal, Released,
};
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use tokio_postgres::{Client, IsolationLevel};

use crate::backends::{
    HANDS_ON, LONG, database_at, database_client, handing_on, is_lost, ms, new_schema, patient,
    postgres, settled, soon,
};

pub(crate) const LEVELS: [IsolationLevel; 3] = [
    IsolationLevel::ReadCommitted,
    IsolationLevel::RepeatableRead,
    IsolationLevel::Serializable,
];

/// What happens to the hold while the check is open.
const EVENTS: [&str; 8] = [
    "renew",
    "release",
    "take",
    "lapse",
    "evict",
    "sweep",
    "hand-off",
    "downgrade",
];

/// What ends the transaction.
const ENDS: [&str; 4] = ["commit", "rollback", "savepoint", "disconnect"];

pub(crate) async fn pool() -> (String, LockPool) {
    let (schema, config) = new_schema();
    config.clone().migrate().await.unwrap();
    (schema, LockPool::connect(config).await.unwrap())
}

/// A transaction that has checked this lock.
pub(crate) async fn checked<'a>(
    client: &'a mut Client,
    level: IsolationLevel,
    lock: &LockGuard,
) -> tokio_postgres::Transaction<'a> {
    let transaction = client.build_transaction().isolation_level(level);
    let transaction = transaction.start().await.unwrap();
    lock.check_in(&transaction).await.unwrap();
    transaction
}

/// Whoever has waited, or comes, is granted the lock when both the hold and the transaction are over, and not
/// before.
#[tokio::test]
async fn nobody_is_granted_a_lock_beside_an_open_check() {
    let (schema, config) = new_schema();
    config.clone().migrate().await.unwrap();
    let checks = OpenChecks {
        pool: LockPool::connect(handing_on(config.clone())).await.unwrap(),
        other: LockPool::connect(config.clone()).await.unwrap(),
        schema,
        config,
        tempted: Cell::new(0),
    };
    let rows = LEVELS.map(|level| EVENTS.map(|event| ENDS.map(|end| (level, event, end))));
    let rows = rows.as_flattened().as_flattened();
    join_all(rows.iter().map(|row| checks.open_check(*row))).await;
    // Beside all others, each may have been too late.
    soon("a guard could have been handed on", async || {
        if checks.tempted.get() == 0 {
            checks.open_check((LEVELS[0], "hand-off", "commit")).await;
        }
        checks.tempted.get() > 0
    })
    .await;
}

struct OpenChecks {
    pool: LockPool,
    /// As of another process.
    other: LockPool,
    schema: String,
    config: Config,
    /// So many guards could have been handed on to a waiter of the same pool, but for their check.
    tempted: Cell<u32>,
}

impl OpenChecks {
    async fn open_check(&self, row: (IsolationLevel, &str, &str)) {
        let (level, event, end) = row;
        let key = &*format!("{level:?}:{event}:{end}");
        let kind = if event == "downgrade" { "w" } else { "x" };
        let asked = |pool: &LockPool| dlock_tests::of_kind(pool.lock(key), kind);
        let request = match event {
            "renew" => asked(&self.pool).ttl(ms(9_000)).renew(),
            "lapse" => asked(&self.pool).ttl(ms(4_000)),
            _ => asked(&self.pool).ttl(LONG),
        };
        let mut client = database_client().await;
        let lock = request.acquire().await.unwrap();
        let granted = Instant::now();
        let transaction = checked(&mut client, level, &lock).await;
        if end == "savepoint" {
            let writes = "SAVEPOINT behind_the_check; CREATE TEMPORARY TABLE written ()";
            transaction.batch_execute(writes).await.unwrap();
        }
        let waiters = if event == "hand-off" {
            &self.pool
        } else {
            &self.other
        };
        let wait = || tokio::spawn(asked(waiters).wait(LONG).acquire());
        let waits = (event != "sweep").then(wait); // no row is swept that somebody waits at
        settled(waiters).await;
        if event == "hand-off" && granted.elapsed() < HANDS_ON {
            self.tempted.update(|it| it + 1);
        }
        let held = self.happens(row, key, lock).await;
        let waits = waits.unwrap_or_else(wait);
        if end == "savepoint" {
            let back = "ROLLBACK TO behind_the_check";
            transaction.batch_execute(back).await.unwrap();
        }
        let at_once = timeout(ms(700), asked(&self.other).wait(ms(300)).acquire()).await;
        assert!(
            matches!(at_once, Err(_) | Ok(Err(LockError::Busy { .. }))),
            "{row:?}: {at_once:?}"
        );
        assert!(!waits.is_finished(), "{row:?}");
        match end {
            "commit" | "savepoint" => transaction.commit().await.unwrap(),
            "rollback" => transaction.rollback().await.unwrap(),
            _ => {
                std::mem::forget(transaction); // its drop would roll back
                drop(client);
            }
        }
        if let Some(lock) = held {
            if event == "downgrade" {
                soon(key, async || lock.downgrade().await.is_ok()).await;
            }
            settled(waiters).await;
            assert!(!waits.is_finished(), "{row:?}: held");
            assert_eq!(lock.release().await.unwrap(), Released::Freed, "{row:?}");
        }
        let next = timeout(LONG / 2, waits).await.expect(key).unwrap().unwrap();
        let by_the_server = next.fence().get() % 1024 == 0;
        assert!(by_the_server, "{row:?}: handed on by {}", next.fence());
        next.release().await.unwrap();
    }

    /// Returns the guard if it still holds.
    async fn happens(
        &self,
        row: (IsolationLevel, &str, &str),
        key: &str,
        lock: LockGuard,
    ) -> Option<LockGuard> {
        let (_, event, _) = row;
        match event {
            "renew" => {
                let mut left = lock.remaining();
                let is_renewed = async || {
                    let before = std::mem::replace(&mut left, lock.remaining());
                    left > before
                };
                soon("it is renewed", is_renewed).await;
            }
            "take" => {
                let taken = self.other.lock(key).try_acquire().await.unwrap();
                assert!(taken.is_none(), "{row:?}");
            }
            "downgrade" => {
                let refused = lock.downgrade().await.unwrap_err();
                assert!(is_kept_from(&refused), "{row:?}: {refused:?}");
            }
            "lapse" => {
                assert_eq!(lock.lost().await, LostCause::Deadline, "{row:?}");
                return None;
            }
            "evict" => {
                let shown = self.pool.admin().show(key).await.unwrap().unwrap();
                let holder = shown.holders()[0].fingerprint();
                let _ = self.pool.admin().evict(key, holder).await.unwrap();
                is_lost(lock.verify().await, LostCause::Gone);
                return None;
            }
            _ => {
                assert_eq!(lock.release().await.unwrap(), Released::Freed, "{row:?}");
                if event == "sweep" {
                    self.is_swept_around(key).await;
                }
                return None;
            }
        }
        lock.extend(LONG * 2).await.unwrap(); // it does not wait
        lock.verify().await.unwrap();
        Some(lock)
    }

    /// A sweep removes another row that was not used for a day, and not this one.
    async fn is_swept_around(&self, key: &str) {
        let client = database_client().await;
        let lock = format!("{}.lock", self.schema);
        let age = format!(
            "UPDATE {lock} SET epoch = 1 WHERE key = 'lock:{key}';
            INSERT INTO {lock} (key, epoch) VALUES ('old:{key}', 1)"
        );
        client.batch_execute(&age).await.unwrap();
        let sweeper = self.config.clone().health_check_interval(ms(100));
        let _sweeper = LockPool::connect(sweeper).await.unwrap();
        let left = format!("SELECT key FROM {lock} WHERE key IN ('lock:{key}', 'old:{key}')");
        let kept = [format!("lock:{key}")];
        soon("the other is swept", async || {
            let rows = client.query(&left, &[]).await.unwrap();
            let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            assert!(left.contains(&kept[0]), "{key} is swept");
            left == kept
        })
        .await;
    }
}

/// The refusal of what would let others in beside an open check.
fn is_kept_from(error: &LockError) -> bool {
    matches!(
        error,
        LockError::Refused {
            reason: Refusal::OpenTransaction,
            ..
        }
    )
}

/// What the promise excepts: who rolls back to a savepoint that was set before the check has not checked.
#[tokio::test]
async fn a_savepoint_before_the_check_takes_it_along() {
    let (_, pool) = pool().await;
    let client = database_client().await;
    for (text, is_undone) in [
        ("SAVEPOINT s; SELECT {check}; ROLLBACK TO s", true),
        (
            "DO $$ BEGIN PERFORM {check}; RAISE unique_violation; EXCEPTION WHEN unique_violation THEN NULL; END $$",
            true,
        ),
        ("SAVEPOINT s; SELECT {check}; RELEASE s", false),
        ("SELECT {check}; SAVEPOINT s; ROLLBACK TO s", false),
        ("DO $$ BEGIN PERFORM {check}; END $$", false),
    ] {
        let lock = pool.lock("k").ttl(LONG).acquire().await.unwrap();
        let check = lock.sql_check().unwrap();
        let epoch = check.epochs()[0];
        let sql = check.sql().replace("$1", "ARRAY['lock:k']");
        let sql = sql.replace("$2", &format!("ARRAY[{epoch}]"));
        let text = text.replace("{check}", &format!("1 / count(*) FROM ({sql}) c"));
        let text = format!("BEGIN; {}; {text}", check.begin());
        client.batch_execute(&text).await.expect(&text);
        lock.release().await.unwrap();
        let next = pool.lock("k").wait(ms(700)).acquire().await;
        assert_eq!(next.is_ok(), is_undone, "{text}: {next:?}");
        client.batch_execute("COMMIT").await.unwrap();
        if let Ok(next) = next {
            next.release().await.unwrap();
        }
    }
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
    assert!(kept_by().await.unwrap().contains(&format!("backend {pid}")));
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
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("SAVEPOINT s").await.unwrap();
    let nested = again.check_in(&transaction).await.unwrap_err(); // it locks the row all the same
    assert!(nested.to_string().contains("nested"), "{nested:?}");
    transaction.batch_execute("RELEASE s").await.unwrap();
    let said = kept_by().await.unwrap(); // no view knows whose savepoint it was
    assert!(said.starts_with("one of backend "), "{said}");
    transaction.rollback().await.unwrap();
    again.release().await.unwrap();

    let writer = pool.lock("w").write().ttl(LONG).acquire().await.unwrap();
    let transaction = checked(&mut client, LEVELS[0], &writer).await;
    let refused = writer.downgrade().await.unwrap_err();
    assert!(is_kept_from(&refused), "{refused:?}");
    transaction.commit().await.unwrap();
    writer.downgrade().await.unwrap();
    writer.release().await.unwrap();
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

    let read_only = client.build_transaction().read_only(true);
    let read_only = read_only.start().await.unwrap();
    let refused = lock.check_in(&read_only).await.unwrap_err().to_string();
    assert!(refused.contains("may write"), "{refused}");
    read_only.rollback().await.unwrap();

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
