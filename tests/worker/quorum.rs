//! Counts under a lock of several nodes, at a resource that checks fences, until it is told to stop.
//!
//! The resource is a server of its own (`resource=<url>`): it refuses a fence that is lower than one
//! that it has seen, at a count's read and at its write. The end of an interval is when its body was
//! last executed, so a body that goes on after its lease is seen beside the next one.

use std::cell::Cell;
use std::time::{Duration, Instant};

use dlock_harness::{Interval, now_ns};
use dlock_runtime::{Config, LockError, LockGuard, LockPool};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Script};

use crate::settings::Settings;

const WAIT: Duration = Duration::from_secs(1);
const COMMAND_TIMEOUT: Duration = Duration::from_millis(300);
/// Beyond a call's `wait` and one `command_timeout`, for a loaded machine.
const SLACK: Duration = Duration::from_secs(3);

const STEP: Duration = Duration::from_millis(1);

// Fences are compared as texts of equal length: a script's numbers are doubles.
const READ: &str = "
if ARGV[1] < (redis.call('GET', KEYS[1]) or '') then
  redis.call('INCR', KEYS[4])
  return false
end
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('GET', KEYS[2]) or '0'";

const WRITE: &str = "
if ARGV[1] < (redis.call('GET', KEYS[1]) or '') then
  return redis.call('INCR', KEYS[4])
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('SET', KEYS[2], ARGV[2])
return redis.call('INCR', KEYS[3])";

/// Prints `holds <fence>` at the start of each body, and its interval at its end; `failed <error>`
/// for a call without a body. A body takes `body_ms`, and there are `pause_ms` between two.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn count(settings: &Settings) {
    let config = Config::new(&settings.url)
        .max_ttl(Duration::from_millis(settings.number("max_ttl_ms")))
        .default_ttl(Duration::from_millis(settings.number("ttl_ms")))
        .command_timeout(COMMAND_TIMEOUT);
    let pool = LockPool::connect(config).await.unwrap();
    let resource = Resource::at(settings.text("resource")).await;
    let takes = Duration::from_millis(settings.number("body_ms"));
    let pause = Duration::from_millis(settings.number("pause_ms"));
    println!("ready");
    while !resource.is_over().await {
        let ran = Ran::default();
        let begun = Instant::now();
        let body = async |lock: &LockGuard| {
            assert!(
                begun.elapsed() < WAIT + COMMAND_TIMEOUT + SLACK,
                "{begun:?}"
            );
            resource.count(lock, &ran, takes).await;
        };
        let outcome = pool.lock("count").wait(WAIT).run(body).await;
        if let Some(interval) = ran.interval() {
            println!("{interval}");
        }
        match outcome {
            Ok(()) | Err(LockError::Lost { .. }) => {}
            Err(error @ (LockError::Busy { .. } | LockError::Unavailable { .. })) => {
                let took = begun.elapsed();
                assert!(took < WAIT + COMMAND_TIMEOUT + SLACK, "{took:?}: {error:?}");
                println!("failed {error:?}");
            }
            Err(error) => panic!("{error:?}"),
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    drop(pool);
    println!("done");
}

/// When a body was executed.
#[derive(Default)]
struct Ran {
    fence: Cell<u64>,
    start_ns: Cell<u64>,
    last_ns: Cell<u64>,
}

impl Ran {
    fn interval(&self) -> Option<Interval> {
        (self.fence.get() > 0).then(|| Interval {
            key: "count".to_owned(),
            fence: self.fence.get(),
            start_ns: self.start_ns.get(),
            end_ns: self.last_ns.get(),
            who: format!("process {}", std::process::id()),
        })
    }
}

struct Resource(MultiplexedConnection);

impl Resource {
    async fn at(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        // The default timeout of half a second is too short on a busy machine.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let connect = client.get_multiplexed_async_connection_with_config(&config);
        Self(connect.await.unwrap())
    }

    async fn is_over(&self) -> bool {
        let mut exists = redis::cmd("EXISTS");
        let exists = exists.arg("over").query_async(&mut self.0.clone()).await;
        exists.unwrap()
    }

    async fn count(&self, lock: &LockGuard, ran: &Ran, takes: Duration) {
        let begun = Instant::now();
        ran.start_ns.set(now_ns());
        ran.last_ns.set(ran.start_ns.get());
        ran.fence.set(lock.fence().get());
        println!("holds {}", lock.fence());
        let fence = format!("{:020}", lock.fence().get());
        let before: Option<u64> = self.call(READ, &[&fence]).await;
        while begun.elapsed() < takes {
            ran.last_ns.set(now_ns());
            tokio::time::sleep(STEP).await;
        }
        ran.last_ns.set(now_ns());
        if let Some(before) = before {
            let after = (before + 1).to_string();
            let _: u64 = self.call(WRITE, &[&fence, &after]).await;
            ran.last_ns.set(now_ns());
        }
    }

    async fn call<T: redis::FromRedisValue>(&self, script: &str, arguments: &[&str]) -> T {
        let script = Script::new(script);
        let mut call = script.prepare_invoke();
        for key in ["newest", "value", "accepted", "refused"] {
            call.key(key);
        }
        for argument in arguments {
            call.arg(*argument);
        }
        call.invoke_async(&mut self.0.clone()).await.unwrap()
    }
}
