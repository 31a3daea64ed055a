//! A private server, a wire to it that can be cut, and pools over it; and which request is which.

use std::fmt::Debug;
use std::time::Duration;

use dlock_harness::resp::words;
use dlock_harness::{Child, Matcher, Proxy, RedisServer, until, wait};
use dlock_runtime::{Config, LockError, LockGuard, LockPool};

/// A cap for anything that has to happen at all, on a busy machine.
pub(crate) const CAP: Duration = Duration::from_secs(10);

/// A lease that no test waits out: what is gone earlier was cleaned up, and did not expire.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A clean-up is done within this time once the server can be reached.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// The command timeout here: the default.
pub(crate) const COMMAND: Duration = Duration::from_millis(500);

/// A lease to renew: even on a busy machine a renewal gets through in time, its connection
/// included.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// How much a busy machine may add to a bound.
pub(crate) const SLACK: Duration = Duration::from_millis(700);

/// The key of most tests, and its name on the server.
pub(crate) const ITEM: &str = "item";
pub(crate) const ON_SERVER: &str = "lock:item";

/// The scripts that tests know by name.
const OPERATIONS: [&str; 10] = [
    "acquire",
    "acquire_all",
    "combined",
    "poll",
    "release",
    "cancel",
    "renew",
    "shared_acquire",
    "shared_release",
    "write",
];

pub(crate) struct Lab {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        Self { server, proxy }
    }

    /// The configuration of a pool that connects through the proxy.
    pub(crate) fn config(&self) -> Config {
        Config::new(self.proxy.url()).command_timeout(COMMAND)
    }

    pub(crate) async fn pool(&self) -> LockPool {
        self.pool_of(self.config()).await
    }

    /// A pool whose server knows the scripts, so that each operation is one request.
    pub(crate) async fn pool_of(&self, config: Config) -> LockPool {
        for text in all_texts() {
            let known = self.server.cmd(&["SCRIPT", "LOAD", &text]).await;
            assert_eq!(known, redis::Value::BulkString(hash(&text).into()));
        }
        connected(config).await
    }

    /// A pool that bypasses the proxy.
    pub(crate) async fn direct(&self) -> LockPool {
        connected(self.server.url().into()).await
    }

    /// The locks on the server: all keys but the fence counter.
    pub(crate) async fn locks(&self) -> Vec<String> {
        let mut keys = self.server.keys().await;
        keys.retain(|key| key != "lock:@fence");
        keys
    }

    pub(crate) async fn until_free(&self) {
        until("no lock is left", SOON, async || {
            self.locks().await.is_empty()
        })
        .await;
    }

    /// The value of a key.
    pub(crate) async fn value(&self, key: &str) -> Option<String> {
        self.server.ask(&["GET", key]).await
    }

    /// Checks for a while that nothing takes a lock from its holder.
    pub(crate) async fn stays(&self, guard: &LockGuard) {
        let value = self.value(guard.key().as_str()).await;
        assert!(value.is_some(), "a live lock is gone");
        for _ in 0..25 {
            assert_eq!(
                self.value(guard.key().as_str()).await,
                value,
                "a live lock was touched"
            );
            wait::pause(Duration::from_millis(20)).await;
        }
        is_held(guard).await;
    }
}

/// The server says that the guard's lock is held. That a busy machine read no answer within one
/// command timeout proves nothing, so it asks again.
pub(crate) async fn is_held(guard: &LockGuard) {
    until("the server answers", CAP, async || {
        match guard.verify().await {
            Err(LockError::Unavailable { .. }) => false,
            answer => {
                answer.unwrap();
                true
            }
        }
    })
    .await;
}

/// Retries, because connecting has its own timeout, which a busy machine may exceed before a test
/// has begun.
pub(crate) async fn connected(config: Config) -> LockPool {
    let mut pool = None;
    until("connected", CAP, async || {
        pool = LockPool::connect(config.clone()).await.ok();
        pool.is_some()
    })
    .await;
    pool.expect("until it is")
}

#[path = "../../dlock-runtime/src/rules/lua/mod.rs"]
#[allow(dead_code, reason = "it has the texts of all scripts")]
mod lua;

/// What a server is told so that it knows all scripts.
pub(crate) fn all_texts() -> impl Iterator<Item = String> {
    OPERATIONS.into_iter().flat_map(texts)
}

/// The Lua of an operation, as it is sent.
pub(crate) fn text(operation: &str) -> String {
    let name = operation.to_uppercase();
    let script = lua::ALL.iter().find(|(it, _)| *it == name);
    let (_, sections) = script.unwrap_or_else(|| panic!("no such script: {operation}"));
    // As this user may, no more than the beginning of a lock's value is read.
    lua::reading_beginnings(&lua::text(sections))
}

/// A release has one text for each way to compare and delete that a server may have.
fn texts(operation: &str) -> Vec<String> {
    let usual = text(operation);
    if operation != "release" {
        return vec![usual];
    }
    [
        lua::GET_AND_DEL,
        "redis.pcall('DELEX', KEYS[1], 'IFEQ', ARGV[1])",
        "redis.pcall('DELIFEQ', KEYS[1], ARGV[1])",
    ]
    .map(|way| usual.replace(lua::GET_AND_DEL, way))
    .into()
}

/// The hash by which an operation's script is called; `MONITOR` shows it too.
pub(crate) fn sha(operation: &str) -> String {
    hash(&text(operation))
}

fn hash(text: &str) -> String {
    redis::Script::new(text).get_hash().to_owned()
}

/// Whether a line of `MONITOR` calls an operation.
pub(crate) fn calls(line: &str, operation: &str) -> bool {
    let mut texts = texts(operation).into_iter();
    texts.any(|it| line.contains(&hash(&it)))
}

/// Whether a line of `MONITOR` deletes the item, by whichever command the server has.
pub(crate) fn deletes_the_item(line: &str) -> bool {
    ["DEL", "DELEX", "DELIFEQ"]
        .iter()
        .any(|it| line.contains(&format!("\"{it}\" \"{ON_SERVER}\"")))
}

/// Requests of an operation by hash, or by text where the server does not know the hash.
pub(crate) fn requests(operation: &str) -> Matcher {
    let texts = texts(operation);
    let mut known: Vec<String> = texts.iter().map(|it| hash(it)).collect();
    known.extend(texts);
    Matcher::when(move |request| {
        let script = words(request).get(1).copied();
        known.iter().any(|known| script == Some(known.as_bytes()))
    })
}

/// Where a child that plays a role has its server.
const ROLE: &str = "DLOCK_TEST_ROLE_URL";

/// Runs this test program as a child that plays one role: the ignored test at `path`.
pub(crate) fn child(path: &str, url: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let words = ["--exact", path, "--ignored", "--nocapture"];
    Child::spawn(program, words, [(ROLE, url)])
}

/// The server of a child that plays a role; nowhere else is there one.
pub(crate) fn server_of_role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Prints on a line of its own: the test program's output may stand before it.
pub(crate) fn tell(what: &str, value: impl Debug) {
    println!("\n{what} {value:?}");
}

/// The acquires of the item.
pub(crate) fn acquires() -> Matcher {
    requests("acquire").containing(ON_SERVER)
}
