//! `LockPool::check` on real servers: each finding from the setting that causes it, and none on a
//! server that is set up as `docs/operate/server.md` says.

use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, until, wait};
use dlock_runtime::{Concern, Config, Finding, LockError, LockPool};
use dlock_tests::served::documented_rules;
use dlock_tests::{patient, works};

use crate::connect;
use crate::record::lines;
use crate::user::Lab;

use Concern::{Eviction, NotChecked, Persistence, Protocol, Replication, Rights};

const CAP: Duration = Duration::from_secs(20);

/// What is found, but for the version if that is Redis 6.
async fn check(pool: &LockPool) -> Vec<Finding> {
    let mut findings = pool.check().await.unwrap();
    if RedisServer::is_redis_6() {
        findings.retain(|it| it.concern() != Concern::Version);
    }
    findings
}

fn concerns(findings: &[Finding]) -> Vec<Concern> {
    findings.iter().map(Finding::concern).collect()
}

/// A server that a check finds nothing on, but for these arguments.
fn server(args: &[&str]) -> RedisServer {
    let good = ["--appendonly", "yes", "--appendfsync", "everysec"];
    RedisServer::builder()
        .args(good.iter().chain(args).copied())
        .start()
}

/// What the check of a server with these arguments finds.
async fn found(args: &[&str]) -> Vec<Finding> {
    check(&connect(server(args).url()).await).await
}

/// A server that is set up well, and the user with the documented rights and these.
async fn lab(more: &[&str]) -> Lab {
    let lab = Lab::of(server(&[])).await;
    lab.rules(more.iter().copied()).await;
    lab
}

/// The only finding, which says this.
fn assert_one(findings: &[Finding], concern: Concern, risk: &str, advice: &str) {
    let [finding] = findings else {
        panic!("{findings:#?}");
    };
    assert_eq!(finding.concern(), concern, "{finding}");
    assert!(finding.risk().contains(risk), "{finding}");
    assert!(finding.advice().contains(advice), "{finding}");
    assert_eq!(
        finding.to_string(),
        format!("{}; {}", finding.risk(), finding.advice())
    );
}

/// Nothing is found, nothing is refused, nothing is written, and no other client hears anything.
#[tokio::test]
async fn the_documented_user_of_a_good_server_finds_nothing() {
    let lab = lab(&[]).await;
    let pool = lab.pool().await.unwrap();
    let mut admin = lab.server().connect().await; // each new connection of the harness adds errors
    let mut ask = async |words: [&str; 2]| -> String {
        let mut command = redis::cmd(words[0]);
        command.arg(words[1]).query_async(&mut admin).await.unwrap()
    };
    let changes = |info: String| {
        let line = info
            .lines()
            .find(|it| it.starts_with("rdb_changes_since_last_save:"));
        line.unwrap().to_owned()
    };
    let before = changes(ask(["INFO", "persistence"]).await);
    ask(["CONFIG", "RESETSTAT"]).await;
    for _ in 0..3 {
        assert_eq!(check(&pool).await, []);
    }
    assert_eq!(ask(["INFO", "errorstats"]).await.trim(), "# Errorstats");
    assert_eq!(changes(ask(["INFO", "persistence"]).await), before);
    assert_eq!(lab.refused().await, [""; 0]);
    assert_eq!(lab.server().keys().await, [""; 0]);
    let channels: Vec<String> = lab.server().ask(&["PUBSUB", "CHANNELS", "*"]).await;
    assert_eq!(channels.len(), 1, "{channels:?}");
    assert_eq!(lab.clients().await, 1, "the pool's");
}

/// One round trip: all is sent before anything is answered.
#[tokio::test]
async fn a_check_is_one_round_trip() {
    let server = server(&[]);
    let proxy = dlock_harness::Proxy::start(server.addr());
    let pool = connect(proxy.url()).await;
    let monitor = server.monitor();
    proxy.delay(Duration::from_millis(100));
    let begun = Instant::now();
    assert_eq!(check(&pool).await, []);
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_millis(200) && took < wait::scaled(Duration::from_millis(390)),
        "{took:?}"
    );
    let mut sent = lines(&monitor).await;
    sent.retain(|line| line.by_client);
    let names: Vec<&str> = sent.iter().map(|line| line.words[0].as_str()).collect();
    assert_eq!(
        names,
        [
            "PING", "TIME", "COMMAND", "INFO", "INFO", "INFO", "INFO", "EVAL", "EVALSHA"
        ]
    );
}

#[tokio::test]
async fn eviction() {
    for policy in ["allkeys-lru", "volatile-ttl"] {
        let args = ["--maxmemory", "10mb", "--maxmemory-policy", policy];
        let found = found(&args).await;
        assert_one(
            &found,
            Eviction,
            policy,
            "CONFIG SET maxmemory-policy noeviction",
        );
    }
    for args in [
        &["--maxmemory", "10mb", "--maxmemory-policy", "noeviction"][..],
        &["--maxmemory-policy", "allkeys-lru"],
    ] {
        assert_eq!(found(args).await, [], "{args:?}");
    }
}

/// What the advice says to type removes the finding.
#[tokio::test]
async fn the_advice_can_be_typed() {
    let args = [
        "--maxmemory",
        "10mb",
        "--maxmemory-policy",
        "allkeys-lru",
        "--appendonly",
        "no",
    ];
    let server = server(&args);
    let pool = connect(server.url()).await;
    let findings = check(&pool).await;
    assert_eq!(
        concerns(&findings),
        [Eviction, Persistence],
        "the worst first"
    );
    for finding in &findings {
        let words = finding.advice().split('`').nth(1).unwrap();
        server.cmd(&words.split(' ').collect::<Vec<_>>()).await;
    }
    assert_eq!(check(&pool).await, []);
}

#[tokio::test]
async fn replicas() {
    let server = server(&[]);
    let master = server.port().to_string();
    let replica = RedisServer::builder()
        .args(["--replicaof", "127.0.0.1", &master])
        .start();
    let pool = connect(server.url()).await;
    until("the replica is there", CAP, async || {
        let info: String = server.ask(&["INFO", "replication"]).await;
        info.contains("state=online")
    })
    .await;
    let type_this = "CONFIG SET min-replicas-to-write 1";
    assert_one(&check(&pool).await, Replication, "promoted", type_this);
    server
        .cmd(&["CONFIG", "SET", "min-replicas-to-write", "1"])
        .await;
    until("it is in time", CAP, async || check(&pool).await.is_empty()).await;
    replica.kill9();
    until("it is gone", CAP, async || !check(&pool).await.is_empty()).await;
    let found = check(&pool).await;
    assert_one(
        &found,
        Replication,
        "refuses all writes",
        "min-replicas-to-write 0",
    );
}

#[tokio::test]
async fn persistence() {
    for args in [
        ["--appendonly", "no"],
        ["--appendfsync", "always"],
        ["--appendfsync", "everysec"],
    ] {
        let found = found(&args).await;
        if args == ["--appendonly", "no"] {
            let risk = "(10s by default), else at its deadline (30s)";
            assert_one(&found, Persistence, risk, "CONFIG SET appendonly yes");
        } else {
            assert_eq!(found, [], "{args:?}");
        }
    }
    // A snapshot is older than a lock that is held.
    let found = found(&["--appendonly", "no", "--save", "1 1"]).await;
    assert_eq!(concerns(&found), [Persistence]);
}

/// The handshake sees by `INFO` what it is.
#[tokio::test]
async fn a_server_that_does_not_know_hello() {
    let without_hello = ["--rename-command", "HELLO", ""];
    let found = found(&without_hello).await;
    let of = |concern| found.iter().find(|it| it.concern() == concern);
    assert!(
        of(Protocol)
            .unwrap()
            .advice()
            .contains("rename-command HELLO")
    );
    let node = server(&[&["--cluster-enabled", "yes"][..], &without_hello].concat());
    let error = LockPool::connect(node.url()).await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains("`redis+cluster://`"), "{error}");
}

#[tokio::test]
async fn resp2() {
    let server = server(&[]);
    let pool = connect(format!("{}?protocol=resp2", server.url())).await;
    assert_one(
        &check(&pool).await,
        Protocol,
        "every 100 ms",
        "remove `protocol=resp2`",
    );
}

/// Each right of the documented lines, taken away before the pool connects and after.
#[tokio::test]
async fn each_missing_right_is_named() {
    for user in ["dlock", "plain"] {
        let mut lab = lab(&[]).await;
        lab.user = user;
        // HELLO needs no right from Redis 7 on.
        let mut rights = documented_rules(&format!("ACL SETUSER {user} on >… "));
        rights.retain(|it| it.starts_with('+') && *it != "+hello");
        let pool = lab.pool().await.unwrap();
        for right in rights {
            lab.deny(right).await;
            let mut pools = vec![pool.clone()];
            match lab.pool().await {
                Ok(pool) => pools.push(pool),
                Err(error) => assert_eq!(right, "+time", "{error:?}"), // without it, none connects
            }
            if right == "+subscribe" {
                pools.remove(0); // it stays subscribed
            }
            for pool in pools {
                assert_named(check(&pool).await, right);
            }
            lab.rules([right]).await;
            assert_eq!(check(&pool).await, [], "{right}");
            works(&pool, "k").await.unwrap();
        }
        lab.server().cmd(&["DEL", "lock:@fence"]).await;
        lab.server().cmd(&["ACL", "LOG", "RESET"]).await;
        assert_eq!(check(&pool).await, []);
        assert_eq!(lab.refused().await, [""; 0]);
        assert_eq!(lab.server().keys().await, [""; 0], "a check writes nothing");
    }
}

/// Of what may be called, only this right is missing.
fn assert_named(mut findings: Vec<Finding>, right: &str) {
    let count = findings.len();
    findings.retain(|it| it.concern() == Rights);
    if right == "+incr" {
        assert_eq!(findings, [], "it would create a key");
        return;
    }
    let advice = format!("type `ACL SETUSER <user> {right}`");
    assert_one(&findings, Rights, "this user may not call", &advice);
    // Without these, other things can't be looked at.
    let is_needed = ["+info", "+eval"].contains(&right);
    assert_eq!(count, 1 + usize::from(is_needed), "{right}");
}

/// The advice of each finding, as the administrator would type it, in turn.
#[tokio::test]
async fn a_user_without_any_right_in_scripts_gets_them_by_the_advice() {
    let lab = lab(&["-@all", "+hello", "+time", "resetchannels", "resetkeys"]).await;
    let mut rounds = 0;
    loop {
        let pool = lab.pool().await.unwrap();
        let findings = check(&pool).await;
        let typed = findings.iter().filter(|it| it.concern() == Rights);
        let typed = typed.map(|it| it.advice().split('`').nth(1).unwrap().to_owned());
        let typed: Vec<String> = typed.collect();
        if typed.is_empty() {
            assert_eq!(findings, []);
            break;
        }
        for words in typed {
            let rules = words.strip_prefix("ACL SETUSER <user> ").unwrap();
            lab.rules(rules.split(' ')).await;
        }
        rounds += 1;
        assert!(rounds < 6, "{findings:#?}");
    }
    works(&lab.pool().await.unwrap(), "k").await.unwrap();
}

#[tokio::test]
async fn keys_and_channels_outside_the_patterns() {
    let lab = lab(&["resetkeys", "~other:*"]).await;
    let findings = check(&lab.pool().await.unwrap()).await;
    assert_eq!(concerns(&findings), [Rights, NotChecked], "{findings:#?}");
    assert!(
        findings[0].advice().contains("<user> ~lock:*`"),
        "{findings:#?}"
    );
    lab.rules(["~lock:*", "resetchannels"]).await;
    let findings = check(&lab.pool().await.unwrap()).await;
    assert_eq!(concerns(&findings), [Rights, Rights], "{findings:#?}");
    for finding in &findings {
        assert!(
            finding.advice().contains("<user> &lock:@grant:*`"),
            "{finding}"
        );
    }
}

/// Another namespace, whose patterns the advice has to name.
#[tokio::test]
async fn the_pool_s_own_namespace_is_tried() {
    let lab = lab(&["resetkeys", "resetchannels", "~shop:*", "&shop:@grant:*"]).await;
    let url = format!("redis://dlock:secret@{}", lab.server().addr());
    let pool = |namespace: &str| LockPool::connect(patient(&url).namespace(namespace));
    assert_eq!(check(&pool("shop:").await.unwrap()).await, []);
    let findings = check(&pool("other:").await.unwrap()).await;
    assert!(findings[0].advice().contains("~other:*"), "{findings:#?}");
}

#[tokio::test]
async fn a_command_that_was_renamed() {
    let found = found(&["--rename-command", "ZADD", ""]).await;
    assert_one(&found, Rights, "does not know `ZADD`", "rename-command");
}

#[tokio::test]
async fn without_info_it_says_what_was_not_looked_at() {
    let lab = lab(&["-info"]).await;
    let findings = check(&lab.pool().await.unwrap()).await;
    assert_eq!(concerns(&findings), [Rights, NotChecked], "{findings:#?}");
    for field in ["redis_mode", "maxmemory_policy", "role", "aof_enabled"] {
        assert!(findings[1].risk().contains(field), "{findings:#?}");
    }
}

/// A full server refuses writes, and that is no missing right.
#[tokio::test]
async fn a_full_server_lacks_no_right() {
    let server = server(&[]);
    let pool = connect(server.url()).await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(check(&pool).await, []);
}

#[tokio::test]
async fn a_server_that_hangs_ends_a_check_in_time() {
    let server = server(&[]);
    let config = || {
        Config::new(server.url())
            .connect_timeout(Duration::from_millis(700))
            .command_timeout(Duration::from_millis(300))
    };
    let pool = LockPool::connect(config()).await.unwrap();
    let lazy = LockPool::connect(config().lazy()).await.unwrap();
    server.stop_signal();
    for pool in [&pool, &lazy] {
        let begun = Instant::now();
        let error = pool.check().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        let took = begun.elapsed();
        assert!(
            took < wait::scaled(Duration::from_millis(1_900)),
            "{took:?}"
        );
    }
    server.cont();
    until("it is checked", CAP, async || pool.check().await.is_ok()).await;
}

/// A lazy pool sends nothing before it is used.
#[tokio::test]
async fn init_checks_once_and_a_lazy_pool_never() {
    let server = server(&[]);
    let evals = async || server.commandstats("eval").await;
    let pool = connect(server.url()).await;
    assert_eq!(evals().await, 1);
    pool.ping().await.unwrap();
    let lazy = LockPool::connect(patient(server.url()).lazy())
        .await
        .unwrap();
    lazy.ping().await.unwrap();
    assert_eq!(evals().await, 1);
}
