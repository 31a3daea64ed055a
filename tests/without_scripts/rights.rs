//! The rights in docs/operate/server.md for a user without scripts: enough for everything, and each
//! of them is needed.

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Concern, LockError, LockPool, Refusal};
use dlock_tests::patient;

use crate::wire::everything;
use crate::{CAP, LONG, connect, plain, wait_for, words};

/// The line that users copy, without its patterns.
fn documented() -> Vec<&'static str> {
    let text = include_str!("../../docs/operate/server.md");
    let line = text
        .lines()
        .find_map(|it| it.strip_prefix("ACL SETUSER plain on >… "));
    line.expect("the line").split(' ').collect()
}

fn commands() -> Vec<&'static str> {
    let rights = documented().into_iter();
    rights
        .filter(|it| it.starts_with('+') && *it != "+hello")
        .collect()
}

struct Lab(RedisServer);

impl Lab {
    async fn new() -> Self {
        let lab = Self(RedisServer::start());
        lab.user(&["reset", "on", ">secret"]).await;
        lab.user(&documented()).await;
        lab
    }

    async fn user(&self, rules: &[&str]) {
        self.0
            .cmd(&[&["ACL", "SETUSER", "plain"], rules].concat())
            .await;
    }

    fn url(&self) -> String {
        format!("redis://plain:secret@{}", self.0.addr())
    }

    async fn pool(&self) -> Result<LockPool, LockError> {
        LockPool::connect(plain(self.url())).await
    }

    /// The commands that the user was refused.
    async fn refused(&self) -> Vec<String> {
        let entries: Vec<redis::Value> = self.0.ask(&["ACL", "LOG"]).await;
        let text = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).ok();
        let object = |entry: &redis::Value| {
            let fields: Vec<redis::Value> = redis::from_redis_value(entry.clone()).unwrap();
            let at = fields
                .iter()
                .position(|it| text(it).as_deref() == Some("object"));
            text(&fields[at.unwrap() + 1]).unwrap()
        };
        entries.iter().map(object).collect()
    }
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let lab = Lab::new().await;
    let (one, two) = (lab.pool().await.unwrap(), lab.pool().await.unwrap());
    everything(&one, &two, &lab.0).await.unwrap();
    assert_eq!(lab.refused().await, [""; 0]);
}

/// Everything that a missing right could show in, each by itself.
async fn steps(one: &LockPool, two: &LockPool, lab: &Lab, right: &str) -> Vec<LockError> {
    let mut errors = Vec::new();
    let (allow, deny) = (right, right.replacen('+', "-", 1));
    let held = one.lock("k").ttl(LONG).acquire().await.unwrap();
    // Nobody waits for it, so that its release deletes it.
    let alone = one.lock("alone").ttl(LONG).acquire().await.unwrap();
    let kept = one
        .lock("kept")
        .ttl(LONG)
        .min_hold(LONG)
        .acquire()
        .await
        .unwrap();
    lab.user(&[&deny]).await;
    errors.extend(one.ping().await.err());
    errors.extend(lab.pool().await.err());
    errors.extend(two.holder("k").await.err());
    errors.extend(one.lock("free").try_acquire().await.err());
    let polls = lab.0.commandstats("zscore").await;
    let waiter = wait_for(two.lock("k"));
    until("it polled twice, or was refused", CAP, async || {
        waiter.is_finished() || lab.0.commandstats("zscore").await > polls + 1
    })
    .await;
    if waiter.is_finished() {
        errors.extend(waiter.await.unwrap().err());
    } else {
        waiter.abort();
    }
    errors.extend(held.extend(2 * LONG).await.err());
    for guard in [held, alone, kept] {
        errors.extend(guard.release().await.err());
    }
    lab.user(&[allow]).await;
    errors
}

#[tokio::test]
async fn each_right_is_needed_and_named() {
    // Without these, a connection learns less about the server, and with `getrange` few need `get`.
    let quiet = ["+get", "+command|info", "+info", "+unwatch", "+zcard"];
    for right in commands() {
        let lab = Lab::new().await;
        let (one, two) = (lab.pool().await.unwrap(), lab.pool().await.unwrap());
        let errors = steps(&one, &two, &lab, right).await;
        for key in lab.0.keys().await {
            let ttl = lab.0.pttl(&key).await;
            assert!(
                ttl != -1 || key == "lock:@fence",
                "without {right}: {key} stays for ever"
            );
        }
        let command = right.trim_start_matches('+');
        if quiet.contains(&right) {
            continue;
        }
        let is_named = |error: &LockError| {
            let refused = matches!(
                error,
                LockError::Refused {
                    reason: Refusal::NoPermission,
                    ..
                }
            );
            refused && words(error).to_lowercase().contains(command)
        };
        assert!(errors.iter().any(is_named), "{right}: {errors:#?}");
        assert!(lab.refused().await.contains(&command.to_owned()), "{right}");
    }
}

/// Each right that can be tried without writing, taken away before the pool connects and after.
#[tokio::test]
async fn a_check_names_each_missing_right() {
    let lab = Lab::new().await;
    let pool = lab.pool().await.unwrap();
    let rights = async |pool: &LockPool| {
        let mut found = pool.check().await.unwrap();
        found.retain(|it| it.concern() == Concern::Rights);
        let advice = found.iter().map(|it| it.advice().to_owned());
        advice.collect::<Vec<_>>()
    };
    for right in commands() {
        lab.user(&[&right.replacen('+', "-", 1)]).await;
        let mut pools = vec![pool.clone()];
        match lab.pool().await {
            Ok(pool) => pools.push(pool),
            Err(error) => assert_eq!(right, "+time", "{error:?}"),
        }
        for pool in pools {
            let expected = format!("type `ACL SETUSER <user> {right}`");
            let named = rights(&pool).await;
            // It would create a key.
            let is_tried = right != "+incr";
            assert_eq!(
                named,
                Vec::from_iter(is_tried.then_some(expected)),
                "{right}"
            );
        }
        lab.user(&[right]).await;
        assert_eq!(rights(&pool).await, [""; 0], "{right}");
        pool.lock("k")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
    }
    lab.0.cmd(&["DEL", "lock:@fence"]).await;
    lab.0.cmd(&["ACL", "LOG", "RESET"]).await;
    assert_eq!(rights(&pool).await, [""; 0]);
    assert_eq!(lab.refused().await, [""; 0]);
    assert_eq!(lab.0.keys().await, [""; 0], "a check writes nothing");
}

/// A user without the right to scripts is told what to do, and then never asks for them.
#[tokio::test]
async fn who_may_run_no_script_is_told_of_this_way() {
    let lab = Lab::new().await;
    let pool = connect(patient(lab.url())).await;
    let error = pool.lock("k").acquire().await.unwrap_err();
    assert!(matches!(
        error,
        LockError::Refused {
            reason: Refusal::NoPermission,
            ..
        }
    ));
    assert!(
        words(&error).contains("without_scripts"),
        "{}",
        words(&error)
    );
    lab.0.cmd(&["ACL", "LOG", "RESET"]).await;
    let (one, two) = (lab.pool().await.unwrap(), lab.pool().await.unwrap());
    everything(&one, &two, &lab.0).await.unwrap();
    assert_eq!(lab.refused().await, [""; 0]);

    let renamed = [
        "--rename-command",
        "EVAL",
        "",
        "--rename-command",
        "EVALSHA",
        "",
    ];
    let server = RedisServer::builder().args(renamed).start();
    let pool = connect(patient(server.url())).await;
    let error = pool.lock("k").try_acquire().await.unwrap_err();
    assert!(
        words(&error).contains("without_scripts"),
        "{}",
        words(&error)
    );
    let (one, two) = (
        connect(plain(server.url())).await,
        connect(plain(server.url())).await,
    );
    everything(&one, &two, &server).await.unwrap();
}
