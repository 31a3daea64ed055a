//! Shared code of the test programs, and the pages whose code blocks run as doctests.

use std::fs;
use std::time::Duration;

use dlock_runtime::{Config, LockError, LockPool, LockRequest, Refusal, Released};

/// The README's code, compiled and run; the items below do the same for the pages in `docs/`.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// The attribute's own documentation. Its crate does not depend on the runtime: a procedural
/// macro's dev-dependencies are built separately from all others.
#[cfg(doctest)]
#[doc = include_str!("../dlock-macros/src/attribute.md")]
pub struct Attribute;

macro_rules! pages {
    ($($page:ident: $path:literal),* $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../docs/", $path))]
            pub struct $page;
        )*
    };
}

pages! {
    FirstLock: "start/first-lock.md",
    Testing: "start/testing.md",
    Production: "start/production.md",
    Need: "choosing/need.md",
    WhichKind: "choosing/kinds.md",
    Fencing: "choosing/fencing.md",
    Exclusive: "kinds/exclusive.md",
    Reentrant: "kinds/reentrant.md",
    ReadWrite: "kinds/read-write.md",
    Permits: "kinds/permits.md",
    Fair: "kinds/fair.md",
    SeveralKeys: "kinds/several-keys.md",
    WebHandler: "how-to/web-handler.md",
    CronJob: "how-to/cron-job.md",
    LongJob: "how-to/long-job.md",
    Leader: "how-to/leader.md",
    RateLimit: "how-to/rate-limit.md",
    CacheRefill: "how-to/cache-refill.md",
    Transfer: "how-to/transfer.md",
    CheckedTransfer: "how-to/checked-transfer.md",
    PartOfAFunction: "how-to/part-of-a-function.md",
    BlockingCode: "how-to/blocking-code.md",
    SeveralPools: "how-to/several-pools.md",
    RollingDeploys: "how-to/rolling-deploys.md",
    FencedSql: "how-to/fenced-sql.md",
    FencedObjectStore: "how-to/fenced-object-store.md",
    FencedRedis: "how-to/fenced-redis.md",
    PasswordRotation: "how-to/password-rotation.md",
    Migrating: "how-to/migrating.md",
    OtherClients: "how-to/other-clients.md",
    Arguments: "reference/arguments.md",
    Configuration: "reference/configuration.md",
    Errors: "reference/errors.md",
    Metrics: "reference/metrics.md",
    Troubleshooting: "operate/troubleshooting.md",
    Introduction: "introduction.md",
}

pub mod locks;
pub mod overlaps;
pub mod recorded;
pub mod resource;
pub mod served;

/// Pseudo-random numbers, the same in every run (`SplitMix64`, Steele 2014).
#[derive(Debug, Clone)]
pub struct Seeded(pub u64);

impl Seeded {
    /// At least `from`, below `to`.
    #[must_use]
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        from + (z ^ (z >> 31)) % (to - from)
    }
}

/// Runs a test in a process of its own, where it may count threads, end the global pools, or leave
/// something behind.
///
/// `name` is the test's path, as `cargo test` prints it.
///
/// # Panics
/// If the test fails, with its output.
pub fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "DLOCK_TEST_ALONE";
    if std::env::var_os(ALONE).is_some_and(|alone| alone == name) {
        return test();
    }
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let run = std::process::Command::new(program)
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, name)
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    let (out, err) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    let passed = run.status.success() && out.contains("1 passed");
    assert!(passed, "{name}, alone: {}\n{out}\n{err}", run.status);
}

/// A configuration with timeouts so long that a busy machine does not look like an outage.
pub fn patient(url: impl Into<String>) -> Config {
    more_patient(Config::new(url))
}

pub(crate) fn more_patient(config: Config) -> Config {
    config
        .connect_timeout(Duration::from_secs(10))
        .command_timeout(Duration::from_secs(5))
}

/// Takes this lock, and gives it back.
///
/// # Errors
/// Those of the acquire, and those of the release.
pub async fn works(pool: &LockPool, key: &str) -> Result<Released, LockError> {
    pool.lock(key).acquire().await?.release().await
}

/// Why the server refused; `None` for any other error.
#[must_use]
pub fn refusal(error: &LockError) -> Option<Refusal> {
    match error {
        LockError::Refused { reason, .. } => Some(*reason),
        _ => None,
    }
}

/// The memory that this process has, in bytes.
#[must_use]
pub fn memory() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or_default() * 1024
}

/// Kinds of lock in the notation of [`of_kind`], each with one that excludes it on the same key.
pub const KINDS: [(&str, &str); 6] = [
    ("r", "w"),
    ("w", "r"),
    ("p:1/3", "p:3/3"),
    ("p:3/3", "p:1/3"),
    ("o:a", "o:b"),
    ("fair", "x"),
];

/// Applies a kind given as `x`, `fair`, `r`, `w`, `p:<take>/<of>`, `o:<owner>`, or `o` for one's own.
///
/// # Panics
/// At any other word.
pub fn of_kind(request: LockRequest, kind: &str) -> LockRequest {
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{kind}: a number"));
    match kind.split_once(':') {
        Some(("p", permits)) => {
            let (take, of) = permits.split_once('/').unwrap_or((permits, permits));
            request.permits(number(of)).take(number(take))
        }
        Some(("o", owner)) => request.reentrant().owner(owner),
        _ if kind == "x" => request,
        _ if kind == "fair" => request.fair(),
        _ if kind == "o" => request.reentrant(),
        _ if kind == "r" => request.read(),
        _ if kind == "w" => request.write(),
        _ => panic!("no kind {kind:?}"),
    }
}
