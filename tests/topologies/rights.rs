//! Users with only the documented rights, at the servers and at the sentinels.

use dlock_harness::{RedisServer, Watched, until};
use dlock_runtime::{LockPool, Refusal};
use dlock_tests::served::{documented_sentinel_rules, documented_sentinel_user, documented_user};
use dlock_tests::{patient, refusal};

use crate::CAP;
use crate::failover::check_handed_over;
use dlock_tests::recorded as log;

/// The documented users everywhere, and nobody else but the servers themselves.
async fn watched() -> Watched {
    let watched = Watched::start().await;
    for server in &watched.servers {
        documented_user(server, &[]).await;
    }
    for sentinel in &watched.sentinels {
        documented_sentinel_user(sentinel).await;
    }
    watched
}

async fn sentinel_user(sentinel: &RedisServer, rules: &[&str]) {
    let reset = ["ACL", "SETUSER", "dlock", "reset", "on", ">secret"];
    sentinel.cmd(&[&reset, rules].concat()).await;
}

fn url(watched: &Watched) -> String {
    let url = watched.url().replacen("://", "://dlock:secret@", 1);
    url + "?sentinel_user=dlock&sentinel_pass=secret"
}

#[tokio::test]
async fn the_documented_users_hold_a_lock_through_a_failover() {
    log::record();
    let watched = watched().await;
    check_handed_over(&watched, &url(&watched)).await;
    for sentinel in &watched.sentinels {
        let port = sentinel.port().to_string();
        assert_eq!(log::lines(&["does not tell", &port]), [""; 0]);
    }
}

#[tokio::test]
async fn a_right_that_is_missing_at_the_sentinels_is_named() {
    log::record();
    let watched = watched().await;
    let documented = documented_sentinel_rules();
    let rights = documented.iter().filter(|it| it.starts_with(['+', '&']));
    for missing in rights {
        // From Redis 7 on HELLO needs no right.
        if *missing == "+hello" && !RedisServer::is_redis_6() {
            continue;
        }
        let rules: Vec<&str> = documented
            .iter()
            .copied()
            .filter(|it| it != missing)
            .collect();
        for sentinel in &watched.sentinels {
            sentinel_user(sentinel, &rules).await;
        }
        let connected = LockPool::connect(patient(url(&watched))).await;
        if missing.starts_with("+sentinel") || *missing == "+hello" {
            let error = connected.map(drop).unwrap_err();
            let text = format!("{error:?}");
            assert_eq!(refusal(&error), Some(Refusal::NoPermission), "{text}");
            assert!(text.contains(&missing[1..]), "{text}");
            continue;
        }
        // Locks go on; a failover is noticed later.
        let pool = connected.unwrap();
        let word = missing.strip_prefix('+').unwrap_or("channel");
        for sentinel in &watched.sentinels {
            let port = sentinel.port().to_string();
            until("it is named", CAP, async || {
                !log::lines(&["WARN", "does not tell", &port, word]).is_empty()
            })
            .await;
        }
        let held = pool.lock("k").acquire().await.unwrap();
        held.release().await.unwrap();
    }
}
