//! Each right of the page's lines, taken away where locks run besides a plain server: it is named, and
//! nothing is left for ever.

use std::error::Error as _;
use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{LockError, LockPool, LockRequest, Refusal};
use dlock_tests::served::{Served, TOPOLOGIES, documented_rules};

use crate::everything::{As, wait_for};

const CAP: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);

/// Those with one server; a cluster's user has the same rights at each node.
fn one_server() -> impl Iterator<Item = &'static str> {
    TOPOLOGIES.into_iter().filter(|it| *it != "cluster")
}

struct Lab {
    served: Served,
    user: &'static str,
}

impl Lab {
    async fn pool(&self) -> Result<LockPool, LockError> {
        let config = self.served.config(self.user);
        let config = config.poll_interval(Duration::from_millis(20));
        LockPool::connect(config.local_handoff(0, Duration::ZERO)).await
    }

    async fn allow(&self, rule: &str) {
        let server = self.served.server();
        server.cmd(&["ACL", "SETUSER", self.user, rule]).await;
    }

    /// Waits until so many wait for the lock.
    async fn queued(&self, key: &str, waiters: u64) {
        let queue = format!("lock:@w:{{lock:{key}}}");
        let ask = ["ZCARD", &queue];
        until("it waits", CAP, async || {
            self.served.server().ask::<u64>(&ask).await == waiters
        })
        .await;
    }

    /// Everything that a missing right could show in, each by itself.
    async fn without(&self, right: &str, kind: As) -> Vec<LockError> {
        let (one, two) = (self.pool().await.unwrap(), self.pool().await.unwrap());
        let ask = |pool: &LockPool, key: &str| kind(pool.lock(key).ttl(LONG));
        let take = async |request: LockRequest| request.acquire().await.unwrap();
        let held = take(ask(&one, "k")).await;
        // Nobody waits for it, so that its release deletes it.
        let alone = take(ask(&one, "alone")).await;
        let kept = take(ask(&one, "kept").min_hold(LONG)).await;
        let given = take(ask(&one, "given")).await;
        let next = wait_for(ask(&two, "given"));
        self.queued("given", 1).await;
        self.served.server().cmd(&["SCRIPT", "FLUSH"]).await;
        self.allow(&right.replacen('+', "-", 1)).await;

        let mut errors = Vec::new();
        errors.extend(one.ping().await.err());
        errors.extend(self.pool().await.err());
        errors.extend(two.holder("k").await.err());
        errors.extend(ask(&one, "free").try_acquire().await.err());
        errors.extend(ask(&two, "k").try_acquire().await.err());
        let waits = ask(&two, "k").wait(Duration::from_millis(200));
        errors.extend(waits.acquire().await.err());
        errors.extend(held.extend(2 * LONG).await.err());
        for guard in [held, alone, kept, given] {
            errors.extend(guard.release().await.err());
        }
        self.allow(right).await;
        match tokio::time::timeout(CAP, next).await.unwrap().unwrap() {
            Ok(guard) => drop(guard),
            Err(error) => errors.push(error),
        }
        errors
    }

    async fn check(&self, kinds: &[As], quiet: &[&str], line: &'static str) {
        let commands = documented_rules(line).into_iter();
        for right in commands.filter(|it| it.starts_with('+') && *it != "+hello") {
            let command = right.trim_start_matches('+');
            let mut errors = Vec::new();
            for kind in kinds {
                errors.extend(self.without(right, *kind).await);
                let server = self.served.server();
                for key in server.keys().await {
                    let stays = server.pttl(&key).await == -1 && !key.contains("@fence");
                    assert!(
                        !stays,
                        "{:?} without {right}: {key} stays for ever",
                        self.served
                    );
                }
                server.cmd(&["FLUSHALL"]).await;
            }
            let is_named = |error: &LockError| {
                let words = format!("{:?}", error.source()).to_lowercase();
                let reason = matches!(
                    error,
                    LockError::Refused {
                        reason: Refusal::NoPermission,
                        ..
                    }
                );
                reason && words.contains(command)
            };
            let named = errors.iter().any(is_named);
            let what = format!("{:?}, {}: {right}: {errors:#?}", self.served, self.user);
            assert_eq!(named, !quiet.contains(&right), "{what}");
        }
    }
}

#[tokio::test]
async fn each_missing_right_is_named_and_leaves_nothing_for_ever() {
    // Without these, calls cost more; and where one of the two that read a string is missing, the
    // other takes its place.
    let quiet = [
        "+get",
        "+getrange",
        "+command|info",
        "+info",
        "+mget",
        "+exists",
        "+zmscore",
        "+publish",
        "+subscribe",
    ];
    let kinds: [As; 2] = [|it| it, |it| it.permits(1)];
    for topology in one_server() {
        let served = Served::start(topology, &[]).await;
        let lab = Lab {
            served,
            user: "dlock",
        };
        lab.check(&kinds, &quiet, "ACL SETUSER dlock on >… ").await;
    }
}

#[tokio::test]
async fn without_scripts_too() {
    let quiet = ["+get", "+command|info", "+info", "+unwatch", "+zcard"];
    for topology in one_server() {
        let served = Served::start(topology, &[]).await;
        let lab = Lab {
            served,
            user: "plain",
        };
        lab.check(&[|it| it], &quiet, "ACL SETUSER plain on >… ")
            .await;
    }
}
