//! Transfers between accounts in PostgreSQL, whose transactions check the locks of both accounts: clerks
//! with pools of their own stand still beyond their leases, before the check and behind it, connections are
//! cut, and the server crashes and is replaced by a standby that may lack what was committed last.
//!
//! A transfer writes what it has read, changed, with a number that is one higher: two that interleave write
//! one number twice. Each is also a row of a journal, so that the accounts can be computed again.

use std::cell::Cell;
use std::time::Duration;

use dlock_harness::{PostgresServer, all_cases, until};
use dlock_runtime::{Config, LockError, LockPool};
use dlock_tests::Seeded;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::fleet::CAP;

const CLERKS: u64 = 16;
const ACCOUNTS: u64 = 16;

/// What an account has at first.
const CENTS: i64 = 1_000;

const TTL: Duration = Duration::from_secs(1);

/// Of a clerk who stands still.
const BEYOND: Duration = Duration::from_millis(1_400);

/// Longer than any server is away.
const WAIT: Duration = Duration::from_secs(60);

const TABLES: &str = "
    CREATE TABLE account (id bigint PRIMARY KEY, cents bigint NOT NULL, number bigint NOT NULL);
    CREATE TABLE journal (account bigint, number bigint, cents bigint NOT NULL, PRIMARY KEY (account, number));
    ALTER DATABASE postgres SET idle_in_transaction_session_timeout = '5s'";

/// Accounts whose last row of the journal is not what they have, or whose rows are not all there.
const WRONG: &str = "
    SELECT a.id FROM account a LEFT JOIN journal j ON j.account = a.id
    GROUP BY a.id, a.cents, a.number
    HAVING count(j) <> a.number OR max(j.number) <> a.number
        OR max(j.cents) FILTER (WHERE j.number = a.number) <> a.cents";

/// What became of the transfers.
#[derive(Debug, Default)]
struct Tally {
    committed: Cell<u64>,
    /// The check found that the lease had ended.
    refused: Cell<u64>,
    /// Committed behind the end of the lease.
    late: Cell<u64>,
    /// Cut, or without a server.
    failed: Cell<u64>,
}

struct Clerk<'a> {
    pool: LockPool,
    servers: &'a [PostgresServer],
    random: Seeded,
    client: Option<Client>,
    tally: &'a Tally,
}

fn one_more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

/// To the one that takes writes.
async fn connect(servers: &[PostgresServer]) -> Option<Client> {
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres");
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    for server in servers {
        config.host("127.0.0.1").port(server.port());
    }
    let (client, connection) = config.connect(NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

impl Clerk<'_> {
    async fn transfers(&mut self) {
        let first = self.random.between(0, ACCOUNTS);
        let other = (first + self.random.between(1, ACCOUNTS)) % ACCOUNTS;
        let accounts = [first, other];
        let keys = accounts.map(|id| format!("account:{id}"));
        let lock = match self.pool.lock_all(keys).ttl(TTL).wait(WAIT).acquire().await {
            Ok(lock) => lock,
            Err(LockError::Unavailable { .. } | LockError::Refused { .. }) => {
                return one_more(&self.tally.failed);
            }
            Err(error) => panic!("{error:?}"),
        };
        let (before, behind) = (self.random.between(0, 15), self.random.between(0, 15));
        if before == 0 {
            sleep(BEYOND).await;
        }
        let client = match self.client.take().filter(|it| !it.is_closed()) {
            Some(client) => Some(client),
            None => connect(self.servers).await,
        };
        let Some(mut client) = client else {
            sleep(Duration::from_millis(50)).await;
            return one_more(&self.tally.failed);
        };
        let amount = i64::try_from(self.random.between(1, 100)).unwrap();
        let moved = async {
            let transaction = client.transaction().await?;
            if lock.check_in(&transaction).await.is_err() {
                one_more(&self.tally.refused);
                return transaction.rollback().await;
            }
            let mut read = Vec::new();
            for id in accounts {
                let id = i64::try_from(id).unwrap();
                let row = transaction
                    .query_one("SELECT cents, number FROM account WHERE id = $1", &[&id])
                    .await?;
                read.push((id, row.get::<_, i64>(0), row.get::<_, i64>(1)));
            }
            if behind == 0 {
                sleep(BEYOND).await;
            }
            for ((id, cents, number), sign) in read.into_iter().zip([-1, 1]) {
                let (cents, number) = (cents + sign * amount, number + 1);
                let text = "UPDATE account SET cents = $2, number = $3 WHERE id = $1";
                transaction.execute(text, &[&id, &cents, &number]).await?;
                let text = "INSERT INTO journal VALUES ($1, $3, $2)";
                transaction.execute(text, &[&id, &cents, &number]).await?;
            }
            transaction.commit().await?;
            one_more(&self.tally.committed);
            if lock.verify().await.is_err() {
                one_more(&self.tally.late);
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        if let Err(error) = moved.await {
            assert_ne!(
                error.code(),
                Some(&SqlState::UNIQUE_VIOLATION),
                "two interleave: {error:?}"
            );
            one_more(&self.tally.failed);
        }
        self.client = Some(client);
        let _ = lock.release().await; // or its lease has ended
    }
}

/// Each time a part of the transfers is done: a crash, and then each server is replaced by the next.
async fn disturb(servers: &[PostgresServer], tally: &Tally, (all, is_over): (u64, &Cell<bool>)) {
    let mut random = Seeded(45);
    let mut faults = 0;
    let mut master = 0;
    while !is_over.get() {
        sleep(Duration::from_millis(random.between(100, 400))).await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1";
        servers[master].try_sql(cut);
        let all_faults = u64::try_from(servers.len()).unwrap();
        let due = (faults + 1) * all / (all_faults + 1);
        if faults == all_faults || tally.committed.get() < due {
            continue;
        }
        faults += 1;
        servers[master].crash();
        if faults == 1 {
            servers[master].restart();
        } else {
            master += 1;
            servers[master].promote();
        }
    }
    assert_eq!(master, servers.len() - 1, "it proves nothing");
}

#[tokio::test]
async fn of_checked_transfers_none_is_lost_between_two_others() {
    let (all, standbys) = if all_cases() { (10_000, 2) } else { (250, 1) };
    let mut servers = vec![PostgresServer::start_on_port()];
    for _ in 0..standbys {
        servers.push(servers[servers.len() - 1].standby()); // in a row, so that the others follow the next
    }
    let hosts: Vec<_> = servers.iter().map(PostgresServer::host).collect();
    let url = format!("postgres://postgres@{}/postgres", hosts.join(","));
    Config::new(&url).migrate().await.unwrap();
    servers[0].sql(TABLES);
    servers[0].sql(&format!(
        "INSERT INTO account SELECT n, {CENTS}, 0 FROM generate_series(0, {ACCOUNTS} - 1) n"
    ));
    let tables = "SELECT count(*) FROM account";
    for standby in &servers[1..] {
        until("the standby has it", CAP, async || {
            standby.try_sql(tables) == Some(ACCOUNTS.to_string())
        })
        .await;
    }

    let (tally, is_over) = (Tally::default(), Cell::new(false));
    let clerks = (0..CLERKS).map(|clerk| {
        let (url, servers, tally) = (&url, &*servers, &tally);
        async move {
            let pool = LockPool::connect(Config::new(url).lazy()).await.unwrap();
            let random = Seeded(clerk);
            let mut clerk = Clerk {
                pool,
                servers,
                random,
                client: None,
                tally,
            };
            while tally.committed.get() < all {
                clerk.transfers().await;
            }
        }
    });
    let working = join_all(clerks).inspect(|_| is_over.set(true));
    tokio::join!(working, disturb(&servers, &tally, (all, &is_over)));

    println!("{tally:?}");
    let last = &servers[servers.len() - 1];
    let money = last.sql("SELECT sum(cents) FROM account");
    assert_eq!(
        money,
        (CENTS * i64::try_from(ACCOUNTS).unwrap()).to_string()
    );
    assert_eq!(last.sql(WRONG), "");
    let Tally {
        refused,
        late,
        failed,
        ..
    } = &tally;
    assert!(
        refused.get() > 0 && late.get() > 0 && failed.get() > 0,
        "it proves nothing"
    );
}
