//! The other processes of this program: they wait for the lock and pass it on, or receive messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlock_runtime::{Config, LockPool, Wait};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, PushKind};
use rustix::time::{ClockId, clock_gettime};

use super::Failure;

/// Takes the lock this often in this many tasks, and prints when each body began and ended.
pub(crate) async fn player(tasks: usize, turns: usize, body: Duration) -> Result<(), Failure> {
    let pool = LockPool::connect(Config::from_env()?.local_handoff(0, Duration::ZERO)).await?;
    println!("ready");
    std::io::stdin().lines().next().ok_or("nobody says go")??;
    let left = Arc::new(AtomicUsize::new(turns));
    let tasks: Vec<_> = (0..tasks)
        .map(|_| tokio::spawn(take_turns(pool.clone(), left.clone(), body)))
        .collect();
    println!("waiting");
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    for line in all {
        println!("{line}");
    }
    println!("done");
    Ok(())
}

async fn take_turns(
    pool: LockPool,
    left: Arc<AtomicUsize>,
    body: Duration,
) -> Result<Vec<String>, Failure> {
    let mut turns = Vec::new();
    let another = |left: usize| left.checked_sub(1);
    while left
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, another)
        .is_ok()
    {
        let lock = pool.lock("key").wait(Wait::Forever).acquire().await?;
        let begin = now();
        if !body.is_zero() {
            tokio::time::sleep(body).await;
        }
        let fence = lock.fence();
        let end = now();
        lock.release().await?;
        turns.push(format!("turn {fence} {begin} {end}"));
    }
    Ok(turns)
}

/// Receives this many messages, and prints how long each took.
pub(crate) async fn listener(messages: usize) -> Result<(), Failure> {
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let hear = move |push: PushInfo| {
        let received = now();
        if push.kind == PushKind::Message
            && let Some(redis::Value::BulkString(text)) = push.data.get(1)
        {
            let sent = String::from_utf8_lossy(text).parse::<u64>();
            let _ = sender.send(sent.map(|sent| received - sent)); // no receiver at the end
        }
        Ok::<(), std::convert::Infallible>(())
    };
    let config = AsyncConnectionConfig::new().set_push_sender(hear);
    let mut redis = connect(&std::env::var("DLOCK_URL")?, Some(config)).await?;
    let channel = format!("{}messages", std::env::var("DLOCK_NAMESPACE")?);
    redis.subscribe(channel).await?;
    println!("ready");
    let mut times = Vec::new();
    while times.len() < messages {
        times.push(heard.recv().await.ok_or("the connection ended")??);
    }
    for time in times {
        println!("after {time}");
    }
    Ok(())
}

pub(crate) async fn connect(
    url: &str,
    config: Option<AsyncConnectionConfig>,
) -> Result<MultiplexedConnection, Failure> {
    use redis::IntoConnectionInfo as _;
    let info = url.into_connection_info()?;
    let redis = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3);
    let client = redis::Client::open(info.set_redis_settings(redis))?;
    let config = config.unwrap_or_default();
    Ok(client
        .get_multiplexed_async_connection_with_config(&config)
        .await?)
}

/// Nanoseconds of the clock that all processes of this machine share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let nanos = Duration::from_secs(now.tv_sec.unsigned_abs()).as_nanos()
        + u128::from(now.tv_nsec.unsigned_abs());
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
