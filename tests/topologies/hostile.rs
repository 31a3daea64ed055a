//! Sentinels that lie, flood, hang, or never end an answer.

use std::time::{Duration, Instant};

use dlock_harness::fake::with_buffers;
use dlock_harness::{Fake, RedisServer, Watched, until};
use dlock_runtime::{Config, LockError, LockGuard, LockPool};

use crate::CAP;
use crate::fake::{ALL, Kind, sentinel};

/// What a loaded machine adds.
const SLACK: Duration = Duration::from_secs(3);

/// What of one connection is read at most.
const READ: u64 = 128 << 10;

fn url(watched: &Watched, honest: usize, hostile: &[Fake]) -> String {
    let honest = watched.sentinels[..honest].iter().map(RedisServer::addr);
    let hosts = honest.chain(hostile.iter().map(Fake::addr));
    let hosts: Vec<String> = hosts.map(|it| it.to_string()).collect();
    format!("redis+sentinel://{}/locks", hosts.join(","))
}

fn pair(kind: Kind) -> Vec<Fake> {
    (0..2).map(|_| sentinel(kind)).collect()
}

async fn held(pool: &LockPool, key: String) -> LockGuard {
    let request = pool.lock(key).ttl(2 * CAP).renew().wait(CAP);
    request.acquire().await.unwrap()
}

#[tokio::test]
async fn a_minority_of_hostile_sentinels_changes_nothing() {
    let watched = Watched::start().await;
    let (mut fakes, mut holds) = (Vec::new(), Vec::new());
    for fake in ALL {
        let hostile = pair(fake);
        let config = Config::new(url(&watched, 3, &hostile)).connect_timeout(CAP);
        let pool = LockPool::connect(config).await.unwrap();
        holds.push((fake, held(&pool, format!("{fake:?}")).await));
        fakes.push((fake, hostile));
    }
    watched.servers[0].replicated(2).await;
    watched.servers[0].kill9();
    watched.moved_from(0, &[0, 1, 2]).await;
    for (fake, held) in holds {
        until(
            &format!("{fake:?}: held at the new master"),
            CAP,
            async || held.verify().await.is_ok(),
        )
        .await;
        held.release().await.unwrap();
    }
    for (fake, hostile) in fakes {
        for it in hostile {
            let taken = it.most_taken();
            assert!(taken <= with_buffers(READ), "{fake:?}: {taken} bytes");
            // All of it was read, as many pushes as fit.
            assert!(
                fake != Kind::Flooding || taken >= 128 << 10,
                "{taken} bytes"
            );
        }
    }
}

#[tokio::test]
async fn a_majority_of_hostile_sentinels_ends_each_call_in_time() {
    let watched = Watched::start().await;
    for fake in ALL {
        let hostile = pair(fake);
        let within = Duration::from_secs(1);
        let config = || Config::new(url(&watched, 1, &hostile)).connect_timeout(within);
        let begun = Instant::now();
        let error = LockPool::connect(config()).await.unwrap_err();
        let took = begun.elapsed();
        assert!(took < within + SLACK, "{fake:?}: {took:?}");
        assert!(
            matches!(error, LockError::Unavailable { .. }),
            "{fake:?}: {error:?}"
        );

        let pool = LockPool::connect(config().lazy()).await.unwrap();
        let (begun, wait) = (Instant::now(), Duration::from_millis(200));
        let error = pool.lock("k").wait(wait).acquire().await.unwrap_err();
        let took = begun.elapsed();
        let timeout = Duration::from_millis(500); // the default `command_timeout`
        assert!(took < wait + timeout + SLACK, "{fake:?}: {took:?}");
        assert!(
            matches!(error, LockError::Unavailable { .. }),
            "{fake:?}: {error:?}"
        );
        for it in &hostile {
            let taken = it.most_taken();
            assert!(taken <= with_buffers(READ), "{fake:?}: {taken} bytes");
        }
    }
}
