//! Tests of a server that refuses commands: out of memory, without rights, a replica. A refused
//! command leaves nothing; a command that frees still works.

use dlock_harness::RedisServer;

use super::lab::{
    CAP, FENCES, HOUR, Lab, acquire, assert_refused, claim, for_an_hour, link, renewal, token_of,
    waiter,
};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::errors;
use crate::link::redis::link::RedisLink;
use crate::rules::commands::{Acquired, Claim, Keep, Polled, Renewed};
use crate::values::error::Refusal;

/// The rights that an exclusive lock needs; `docs/operate/server.md` lists the same.
pub(super) const RIGHTS: [&str; 19] = [
    "+hello",
    "+ping",
    "+eval",
    "+evalsha",
    "+time",
    "+get",
    "+mget",
    "+exists",
    "+set",
    "+del",
    "+pttl",
    "+pexpire",
    "+zadd",
    "+zrem",
    "+zrange",
    "+zscore",
    "+publish",
    "+subscribe",
    "&lock:@grant:*",
];

#[tokio::test]
async fn out_of_memory_an_acquire_is_refused_and_leaves_nothing() {
    let lab = Lab::new().await;
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let answer = lab.acquire(&claim("lock:a", "ours")).await;
    assert_refused(answer, Refusal::OutOfMemory);
    assert!(lab.keys().await.is_empty(), "{:?}", lab.keys().await);
}

#[tokio::test]
async fn out_of_memory_what_is_held_can_be_renewed_and_given_back() {
    let lab = Lab::new().await;
    let [one, two] = ["lock:a", "lock:b"].map(|key| claim(key, "ours"));
    lab.granted(&one).await;
    lab.granted(&two).await;
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let busy = lab.acquire(&claim("lock:a", "other")).await;
    assert!(matches!(busy, Ok(Acquired::Busy(_))), "{busy:?}");
    let items = [renewal(&one, 60), renewal(&two, 60)];
    assert_eq!(
        lab.link.renew(&items, CAP).await.unwrap(),
        [Renewed::Yes; 2]
    );
    assert!(lab.link.release(&one, Keep::NOT, CAP).await.unwrap().found);
    assert!(
        lab.link
            .cancel(&two, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .found
    );
    assert_eq!(lab.keys().await, ["lock:@fence"]);
}

/// A holder of `lock:a` and two waiters; then memory runs out.
async fn waited_for_out_of_memory(lab: &Lab) -> [Claim; 3] {
    let address = lab.link.address().unwrap();
    let ours = claim("lock:a", "1|x|ours||30000|0|0||host|1|f|0");
    let waiters = ["first", "second"].map(|value| waiter("lock:a", address, value));
    lab.granted(&ours).await;
    for claim in &waiters {
        let answer = lab.acquire(claim).await;
        assert!(matches!(answer, Ok(Acquired::Queued(_))), "{answer:?}");
    }
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let [first, second] = waiters;
    [ours, first, second]
}

#[tokio::test]
async fn out_of_memory_nobody_enters_the_queue() {
    let lab = Lab::new().await;
    lab.granted(&claim("lock:a", "ours")).await;
    let counter: String = lab.server.ask(&["GET", FENCES]).await;
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let answer = lab.acquire(&waiter("lock:a", "", "first")).await;
    assert_refused(answer, Refusal::OutOfMemory);
    assert_eq!(lab.keys().await, [FENCES, "lock:a"]);
    assert_eq!(lab.server.ask::<String>(&["GET", FENCES]).await, counter);
}

#[tokio::test]
async fn out_of_memory_a_release_hands_over() {
    let lab = Lab::new().await;
    let [ours, ..] = waited_for_out_of_memory(&lab).await;
    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(token_of(&lab.heard.take()[0].0.value), "first");
}

#[tokio::test]
async fn out_of_memory_a_cancel_hands_over() {
    let lab = Lab::new().await;
    let [ours, first, second] = waited_for_out_of_memory(&lab).await;
    assert!(
        lab.link
            .cancel(&first, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .found
    );
    assert!(
        lab.link
            .cancel(&ours, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .found
    );
    assert_eq!(token_of(&lab.heard.take()[0].0.value), "second");
    assert!(
        lab.link
            .cancel(&second, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .found
    );
    assert_eq!(lab.keys().await, [FENCES]);
}

#[tokio::test]
async fn out_of_memory_a_late_release_hands_over() {
    let lab = Lab::new().await;
    let [ours, ..] = waited_for_out_of_memory(&lab).await;
    lab.server.cmd(&["DEL", "lock:a"]).await;
    assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(token_of(&lab.heard.take()[0].0.value), "first");
}

#[tokio::test]
async fn out_of_memory_a_lock_is_kept() {
    let lab = Lab::new().await;
    let [ours, ..] = waited_for_out_of_memory(&lab).await;
    let keep = for_an_hour(&lab.link);
    assert!(lab.link.release(&ours, keep, CAP).await.unwrap().found);
    let value = lab.link.read("lock:a", CAP).await.unwrap();
    assert_eq!(value.as_deref(), Some("1|x|-ours||30000|0|0||host|1|f|0"));
}

#[tokio::test]
async fn out_of_memory_a_poll_keeps_its_place_alive() {
    let lab = Lab::new().await;
    let [_, first, _] = waited_for_out_of_memory(&lab).await;
    let beat = async || -> f64 {
        let score = ["ZSCORE", "lock:@a:{lock:a}", &first.value];
        lab.server.ask(&score).await
    };
    let before = beat().await;
    let answer = lab.link.poll(&first, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Queued(_)), "{answer:?}");
    assert!(beat().await > before);
}

/// K16: `yours` draws an epoch, whose SET would be refused as a script's first write.
#[tokio::test]
async fn k16_out_of_memory_a_waiter_learns_of_its_grant() {
    let lab = Lab::new().await;
    let [ours, first, _] = waited_for_out_of_memory(&lab).await;
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let before = lab.server.pttl("lock:a").await;
    let answer = lab.link.poll(&first, CAP).await;
    assert!(matches!(answer, Ok(Polled::Yours { .. })), "{answer:?}");
    let again = lab.acquire(&first).await;
    assert!(matches!(again, Ok(Acquired::Yours { .. })), "{again:?}");
    assert!(lab.server.pttl("lock:a").await <= before, "its end stays");
}

/// The user may subscribe to its channel, but not publish.
#[tokio::test]
async fn where_publish_is_refused_the_grant_is_kept_and_the_poll_finds_it() {
    let lab = Lab::new().await;
    let [may_not, others] = [
        ["-publish", "&lock:@grant:*"],
        ["+publish", "&lock:@grant:other"],
    ];
    for (number, rights) in [may_not, others].into_iter().enumerate() {
        let rights = [&RIGHTS[..18], &rights].concat();
        let link = as_user(&lab.server, &rights).await;
        let key = format!("lock:{number}");
        let waiting = waiter(&key, lab.link.address().unwrap(), "first");
        let ours = claim(&key, "ours");
        for claim in [&ours, &waiting] {
            let command = acquire(claim, link.server_time() + HOUR);
            link.acquire(&command, CAP).await.unwrap();
        }
        assert!(link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
        let answer = link.poll(&waiting, CAP).await;
        assert!(matches!(answer, Ok(Polled::Yours { .. })), "{answer:?}");
        lab.link.ping(CAP).await.unwrap();
        assert!(lab.heard.take().is_empty());
    }
}

#[tokio::test]
async fn where_subscribe_is_refused_waiters_poll() {
    let server = RedisServer::start();
    for rights in [&RIGHTS[..17], &RIGHTS[..18]] {
        assert_eq!(as_user(&server, rights).await.address(), None);
    }
    assert!(as_user(&server, &RIGHTS).await.address().is_some());
}

/// A link as a new ACL user with these rights, on keys that begin with `lock:`.
pub(super) async fn as_user(server: &RedisServer, rights: &[&str]) -> RedisLink {
    let words = [
        &[
            "ACL",
            "SETUSER",
            "worker",
            "reset",
            "on",
            ">secret",
            "~lock:*",
            "resetchannels",
        ],
        rights,
    ]
    .concat();
    server.cmd(&words).await;
    link(&format!("redis://worker:secret@{}", server.addr())).await
}

#[tokio::test]
async fn eighteen_rights_and_a_channel_pattern_are_enough() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let ours = claim("lock:a", "ours");
    let command = acquire(&ours, link.server_time() + HOUR);
    assert!(matches!(
        link.acquire(&command, CAP).await,
        Ok(Acquired::Granted { .. })
    ));
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Yes]
    );
    assert_eq!(
        link.read("lock:a", CAP).await.unwrap().as_deref(),
        Some("ours")
    );
    assert!(link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert!(
        link.cancel(&ours, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .conclusive
    );
    link.ping(CAP).await.unwrap();
}

/// Each right of a script is missing once: the command is refused, and nothing is written before
/// the refusal.
#[tokio::test]
async fn a_missing_right_is_named_and_leaves_nothing() {
    let server = RedisServer::start();
    for (missing, held) in [
        ("eval", false),
        ("evalsha", false),
        ("set", false),
        ("get", true),
    ] {
        let rights: Vec<&str> = RIGHTS
            .into_iter()
            .filter(|right| right[1..] != *missing)
            .collect();
        let link = as_user(&server, &rights).await;
        server.cmd(&["SCRIPT", "FLUSH"]).await;
        let before: &[&str] = if held { &["lock:a"] } else { &[] };
        if held {
            server
                .cmd(&["SET", "lock:a", "theirs", "PX", "30000"])
                .await;
        }
        let command = acquire(&claim("lock:a", "ours"), link.server_time() + HOUR);
        assert_refused(link.acquire(&command, CAP).await, Refusal::NoPermission);
        assert_eq!(server.keys().await, before, "without {missing}");
    }
}

/// Redis 6 puts the code of an error inside a script into its text.
#[test]
fn what_a_script_is_refused_is_known_by_the_words_of_redis_6() {
    for (said, refusal) in [
        (
            "-NOREPLICAS Not enough good replicas to write.",
            Refusal::Misconfigured,
        ),
        (
            "-MISCONF Redis is configured to save RDB snapshots",
            Refusal::Misconfigured,
        ),
        (
            "-OOM command not allowed when used memory > 'maxmemory'.",
            Refusal::OutOfMemory,
        ),
        (
            "-READONLY You can't write against a read only replica.",
            Refusal::ReadOnly,
        ),
    ] {
        let said = format!(
            "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: {said}"
        );
        let error = errors::error_of_item(&said);
        let is_known = matches!(error, CommandError::Refused(it, _) if it == refusal);
        assert!(is_known, "{said}: {error:?}");
    }
}

/// A right that is missing inside a script is not reported as `NOPERM`, and each server version
/// words it differently.
#[test]
fn a_right_that_a_script_misses_is_known_by_the_words_of_each_version() {
    for said in [
        "NOPERM this user has no permissions to run the 'get' command",
        "ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1.",
        "ERR ACL failure in script: User worker has no permissions to run the 'get' command",
        "ERR ACL failure in script: No permissions to access a key script: f_1, on @user_script:1.",
    ] {
        let error = errors::error_of_item(said);
        let is_known = matches!(error, CommandError::Refused(Refusal::NoPermission, _));
        assert!(is_known, "{said}: {error:?}");
    }
    let other = errors::error_of_item("ERR Error running script");
    assert!(matches!(other, CommandError::Refused(Refusal::Other, _)));
}

#[tokio::test]
async fn a_key_outside_the_users_pattern_is_refused() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let command = acquire(&claim("other:a", "ours"), link.server_time() + HOUR);
    assert_refused(link.acquire(&command, CAP).await, Refusal::NoPermission);
    assert_refused(link.read("other:a", CAP).await, Refusal::NoPermission);
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn a_release_without_rights_says_so_and_leaves_the_lock() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let ours = claim("lock:a", "ours");
    let command = acquire(&ours, link.server_time() + HOUR);
    assert!(matches!(
        link.acquire(&command, CAP).await,
        Ok(Acquired::Granted { .. })
    ));
    server
        .cmd(&["ACL", "SETUSER", "worker", "-del", "-pexpire"])
        .await;
    assert_refused(
        link.release(&ours, Keep::NOT, CAP).await,
        Refusal::NoPermission,
    );
    assert_refused(
        link.cancel(&ours, Keep::NOT, 0, CAP).await,
        Refusal::NoPermission,
    );
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Failed]
    );
    server.cmd(&["ACL", "SETUSER", "worker", "-get"]).await;
    assert_refused(
        link.release(&ours, Keep::NOT, CAP).await,
        Refusal::NoPermission,
    );
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Failed]
    );
    assert_eq!(server.keys().await, ["lock:@fence", "lock:a"]);
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_read_only() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    lab.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_refused(
        lab.acquire(&claim("lock:b", "ours")).await,
        Refusal::ReadOnly,
    );
    assert!(
        !lab.link.connection.is_usable(),
        "the master may be elsewhere by now"
    );
}

#[tokio::test]
async fn a_renewal_that_meets_a_replica_fails_and_ends_the_connection() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    lab.granted(&ours).await;
    lab.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let outcomes = lab.link.renew(&[renewal(&ours, 3600)], CAP).await;
    assert_eq!(outcomes.unwrap(), [Renewed::Failed]);
    assert!(!lab.link.connection.is_usable());
}

/// A server ends a connection whose replies are too large for its `client-output-buffer-limit`.
#[test]
fn a_connection_that_ended_is_not_told_in_the_library_s_words() {
    let ended = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    let garbage = redis::RedisError::from((redis::ErrorKind::Parse, "Incompatible type"));
    for (error, says) in [
        (ended.into(), "the connection ended before the answer came"),
        (garbage, "what arrived is no reply of redis"),
    ] {
        let told = errors::command_error(&error);
        assert!(matches!(&told, CommandError::Unclear(why) if why.to_string().starts_with(says)));
    }
}
