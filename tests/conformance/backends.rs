//! The backends that a case runs on, and the helpers that all cases share. It tests nothing itself.

use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use dlock_harness::wait::pause;
use dlock_harness::{PgBouncer, PostgresServer, RedisServer, until, until_ok};
use dlock_runtime::{Config, Key, LockError, LockGuard, LockPool, LockRequest, LostCause};
use dlock_tests::of_kind;
use dlock_tests::served::{Served, TOPOLOGIES};
use tokio::time::Instant;

pub(crate) use crate::data::{on_memory_with_data, on_redis_with_data};

/// A case. Not generic, so that what stands here is compiled once and not for each of a thousand cases.
pub(crate) type Case<Given = LockPool> = fn(Given) -> Pin<Box<dyn Future<Output = ()>>>;

/// Turns local hand-off off.
pub(crate) fn by_the_server(config: Config) -> Config {
    config.local_handoff(0, Duration::ZERO)
}

/// With hand-off chains so long that no stall of the machine ends one.
pub(crate) fn handing_on(config: Config) -> Config {
    config.local_handoff(16, HANDS_ON)
}

/// For so long from its grant on.
pub(crate) const HANDS_ON: Duration = ms(1_000);

pub(crate) async fn on_memory(case: Case) {
    case(LockPool::connect("memory://").await.unwrap()).await;
}

pub(crate) async fn on_memory_by_the_server(case: Case) {
    let config = by_the_server(Config::new("memory://"));
    case(LockPool::connect(config).await.unwrap()).await;
}

pub(crate) async fn on_memory_handing_on(case: Case) {
    let config = handing_on(Config::new("memory://"));
    case(LockPool::connect(config).await.unwrap()).await;
}

pub(crate) async fn on_redis(case: Case) {
    on_served(case, "dlock", |config| config).await;
}

pub(crate) async fn on_redis_by_the_server(case: Case) {
    on_served(case, "dlock", by_the_server).await;
}

pub(crate) async fn on_redis_handing_on(case: Case) {
    on_served(case, "dlock", handing_on).await;
}

pub(crate) async fn on_redis_without_scripts(case: Case) {
    on_served(case, "plain", |config| config).await;
}

async fn on_served(case: Case, user: &str, set: fn(Config) -> Config) {
    let served = served().await;
    let config = set(config(&served, user));
    case(LockPool::connect(config).await.unwrap()).await;
    passed(served).await;
}

pub(crate) async fn on_postgres(case: Case) {
    on_database(case, |config| config).await;
}

pub(crate) async fn on_postgres_by_the_server(case: Case) {
    on_database(case, by_the_server).await;
}

pub(crate) async fn on_postgres_handing_on(case: Case) {
    on_database(case, handing_on).await;
}

/// Behind `PgBouncer`, where each transaction may have another session.
pub(crate) async fn on_postgres_pooled(case: Case) {
    static POOLER: OnceLock<PgBouncer> = OnceLock::new();
    let (schema, config) = new_schema();
    config.migrate().await.unwrap();
    let pooler = POOLER.get_or_init(|| postgres().pooled_by("transaction", "column"));
    let config = patient(pooler.url(&schema) + "&pooler=transaction");
    case(LockPool::connect(config).await.unwrap()).await;
    nobody_left(&schema).await;
}

/// A schema of its own in the one database, without tables.
pub(crate) fn new_schema() -> (String, Config) {
    let schema = format!("case_{}", CASES.fetch_add(1, Ordering::Relaxed));
    let config = patient(postgres().url(&schema));
    (schema, config)
}

pub(crate) fn postgres() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(PostgresServer::start)
}

async fn on_database(case: Case, set: fn(Config) -> Config) {
    let (schema, config) = new_schema();
    config.clone().migrate().await.unwrap();
    case(LockPool::connect(set(config)).await.unwrap()).await;
    nobody_left(&schema).await;
}

async fn nobody_left(schema: &str) {
    let client = database_client().await;
    let now = "extract(epoch FROM clock_timestamp()) * 1000000";
    let left = format!(
        "SELECT key || ': ' || holder FROM {schema}.lock WHERE holder <> '' AND ends > {now}
        UNION ALL SELECT key || ' waits: ' || entry FROM {schema}.waiter"
    );
    until_ok("nobody holds or waits", ms(10_000), async || {
        let rows = client.query(&left, &[]).await.unwrap();
        let left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// A connection without dlock.
pub(crate) async fn database_client() -> tokio_postgres::Client {
    database_as("postgres").await
}

pub(crate) async fn database_as(role: &str) -> tokio_postgres::Client {
    database_at(postgres().directory(), role).await
}

pub(crate) async fn database_at(socket: &Path, role: &str) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    config.host_path(socket).user(role);
    let (client, connection) = config
        .dbname("postgres")
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
}

/// A pool's address with this role.
pub(crate) fn url_as(role: &str, schema: &str) -> String {
    postgres()
        .url(schema)
        .replace("postgres@", &format!("{role}@"))
}

pub(crate) async fn on_quorum(case: Case) {
    let nodes = nodes().await;
    let database = CASES.fetch_add(1, Ordering::Relaxed);
    assert!(database < DATABASES, "more cases than databases");
    let urls: Vec<_> = nodes
        .iter()
        .map(|node| format!("{}/{database}", node.url()))
        .collect();
    let config = Config::redlock(urls.clone()).max_ttl(LONGEST);
    let pool = LockPool::connect(more_patient(config)).await.unwrap();
    case(pool).await;
    for url in urls {
        until_ok("only counters are left", ms(10_000), async || {
            let client = redis::Client::open(&*url).unwrap();
            let mut connection = client.get_multiplexed_async_connection().await.unwrap();
            let keys: Vec<String> = redis::cmd("KEYS")
                .arg("*")
                .query_async(&mut connection)
                .await
                .unwrap();
            // The last ends by itself.
            let stays = |key: &String| {
                key.contains("@fence") || key.ends_with("@quorum") || key.ends_with("@h:{}")
            };
            let left: Vec<_> = keys.into_iter().filter(|key| !stays(key)).collect();
            if left.is_empty() {
                return Ok(());
            }
            let mut told = Vec::new();
            for key in left {
                let ttl: i64 = redis::cmd("PTTL")
                    .arg(&key)
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                let value: Result<String, _> = redis::cmd("GET")
                    .arg(&key)
                    .query_async(&mut connection)
                    .await;
                told.push(format!("{key} for {ttl} ms at {url}: {value:?}"));
            }
            Err(told)
        })
        .await;
    }
}

/// The longest lease of any case.
const LONGEST: Duration = LONG.saturating_mul(2);

/// Each case has a database of its own at the same servers, which vote only after the longest lease.
static CASES: AtomicU64 = AtomicU64::new(0);
const DATABASES: u64 = 256;

/// The nodes of all cases, once they vote.
async fn nodes() -> &'static [RedisServer] {
    static NODES: OnceLock<Vec<RedisServer>> = OnceLock::new();
    let nodes = NODES.get_or_init(|| {
        let databases = ["--databases".to_owned(), DATABASES.to_string()];
        let node = |_| RedisServer::builder().args(databases.clone()).start();
        (0..3).map(node).collect()
    });
    for node in nodes {
        until("the node may vote", LONGEST * 2, async || {
            let info: String = node.ask(&["INFO", "server"]).await;
            let uptime = info
                .lines()
                .find_map(|it| it.strip_prefix("uptime_in_seconds:"));
            let uptime = uptime.and_then(|it| it.trim().parse().ok());
            uptime.map(Duration::from_secs) > Some(LONGEST)
        })
        .await;
    }
    nodes
}

#[test]
fn every_topology_is_run() {
    let script = include_str!("../run.sh");
    let list = format!("for topology in {}; do", TOPOLOGIES.join(" "));
    assert!(script.contains(&list), "{list}");
}

/// The servers of cases that have passed, for later ones.
static IDLE: Mutex<Vec<Served>> = Mutex::new(Vec::new());

/// The servers of one case, as `DLOCK_TEST_TOPOLOGY` says: as if they had just been started.
async fn served() -> Served {
    let idle = IDLE.lock().unwrap().pop();
    if let Some(served) = idle
        && is_deserted(&served).await
    {
        for server in served.servers() {
            server.cmd(&["FLUSHALL"]).await;
            server.cmd(&["SCRIPT", "FLUSH"]).await;
        }
        return served;
    }
    fresh(&[]).await
}

/// Servers of their own, whose documented user has these rights, too.
pub(crate) async fn fresh(more: &[&str]) -> Served {
    let topology = std::env::var("DLOCK_TEST_TOPOLOGY").unwrap_or_default();
    Served::start(&topology, &[&["~*{*"], more].concat()).await
}

/// Whether the last case's pools end soon. They do not where a guard was forgotten.
async fn is_deserted(served: &Served) -> bool {
    let begun = std::time::Instant::now(); // not tokio's, which may be paused
    for server in served.servers() {
        while server
            .ask::<String>(&["CLIENT", "LIST"])
            .await
            .lines()
            .any(is_pools)
        {
            if begun.elapsed() > ms(500) {
                return false;
            }
            pause(ms(10)).await;
        }
    }
    true
}

/// A line of `CLIENT LIST`.
fn is_pools(client: &str) -> bool {
    ["user=dlock ", "user=plain "]
        .iter()
        .any(|it| client.contains(it))
}

/// What every case on Redis leaves: nothing but counters.
async fn passed(served: Served) {
    for server in served.servers() {
        nothing_left(server).await;
    }
    IDLE.lock().unwrap().push(served);
}

/// The configuration of a user's pool there.
pub(crate) fn config(served: &Served, user: &str) -> Config {
    more_patient(served.config(user))
}

/// Long timeouts, for a machine that may stall for a second or two, and where a thousand commands
/// may take some seconds: no case here is about a server that does not answer.
pub(crate) fn patient(url: impl Into<String>) -> Config {
    more_patient(Config::new(url))
}

fn more_patient(config: Config) -> Config {
    config
        .connect_timeout(Duration::from_secs(20))
        .command_timeout(Duration::from_secs(20))
}

/// Whether a lock that is granted in turn is a claim of 3 s at first. Not on `memory://`, where no
/// single waiter can be stopped.
pub(crate) fn grants_claims(pool: &LockPool) -> bool {
    !format!("{pool:?}").contains("memory://")
}

/// Whether a waiter learns of its grant by asking, since messages carry none.
pub(crate) fn is_hinted(pool: &LockPool) -> bool {
    format!("{pool:?}").contains("postgres://")
}

/// Waits until only epoch counters and records of runs are left, which stay by design.
pub(crate) async fn nothing_left(server: &RedisServer) {
    until(
        "only the counters are left",
        Duration::from_secs(10),
        async || {
            let stays = |key: &String| key.contains("@fence") || key.contains("@r");
            server.keys().await.iter().all(stays)
        },
    )
    .await;
}

/// Lets every spawned task be polled until it waits, and waits until the server has answered what
/// they have sent: a connection's commands are answered in order.
pub(crate) async fn settled(pool: &LockPool) {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    // A command on PostgreSQL may take four statements.
    for _ in 0..4 {
        pool.ping().await.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Waits until at least so many locks are held, and lets their bodies begin: a lock is held before the task that
/// waits for it is polled.
pub(crate) async fn running(pool: &LockPool, locks: usize) {
    let held = format!("{locks} are held");
    soon(&held, async || pool.status().unwrap().held >= locks).await;
    settled(pool).await;
}

/// Whether there was a guard; it is released when this returns, not in the background.
pub(crate) async fn given_back(guard: Option<LockGuard>) -> bool {
    let Some(guard) = guard else {
        return false;
    };
    guard.release().await.unwrap();
    true
}

/// Waits until a lock is free. At first a quorum may not have settled what a dropped call of this pool
/// has there.
pub(crate) async fn soon_free(pool: &LockPool, key: &str) {
    let is_free = async || match pool.lock(key).try_acquire().await {
        Err(LockError::Unavailable { .. }) => false,
        guard => given_back(guard.unwrap()).await,
    };
    soon(&format!("{key} is free"), is_free).await;
}

/// A request of this kind for the lock `k`.
pub(crate) fn one(pool: &LockPool, kind: &str) -> LockRequest {
    of_kind(pool.lock("k"), kind).ttl(LONG).wait(LONG)
}

/// Whether the lock `k` is free for this kind.
pub(crate) async fn is_free_for(pool: &LockPool, kind: &str) -> bool {
    given_back(one(pool, kind).try_acquire().await.unwrap()).await
}

/// Whether a lock is free for an exclusive request.
pub(crate) async fn is_free(pool: &LockPool, key: &str) -> bool {
    given_back(pool.lock(key).try_acquire().await.unwrap()).await
}

/// The lock `k`, held for long.
pub(crate) async fn taken(pool: &LockPool) -> LockGuard {
    pool.lock("k").ttl(LONG).acquire().await.unwrap()
}

/// A holder was told why its lock is lost, before its body had ended.
#[track_caller]
pub(crate) fn is_lost<T: std::fmt::Debug>(answer: Result<T, LockError>, why: LostCause) -> Key {
    match answer {
        Err(LockError::Lost {
            key,
            cause,
            finished,
            ..
        }) => {
            assert_eq!((cause, finished), (why, false));
            key
        }
        other => panic!("not lost: {other:?}"),
    }
}

/// Waits for a condition on tokio's clock, which may be paused.
pub(crate) async fn soon(what: &str, mut cond: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !cond().await {
        assert!(begun.elapsed() < LONG / 2, "still not so: {what}");
        tokio::time::sleep(ms(5)).await;
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Longer than any test waits: what ends earlier ended for another reason.
pub(crate) const LONG: Duration = Duration::from_secs(60);
