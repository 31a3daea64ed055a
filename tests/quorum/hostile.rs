//! Forged hints, strange data at a minority of the nodes, and a node that answers garbage: no panic,
//! no hang, no lock for two, no falling fence.

use std::time::{Duration, Instant};

use dlock_harness::fake::{Fake, Says, bulk, honest};
use dlock_harness::{RedisServer, until};
use dlock_runtime::{Fence, LockError, LockPool};
use futures_util::FutureExt;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

const LARGEST: u64 = (1 << 53) - 1;

/// Takes the lock and gives it back some times: it works, and the fences rise. The highest.
async fn works(pool: &LockPool, what: &str, mut above: Option<Fence>) -> Option<Fence> {
    for _ in 0..3 {
        let wait = Duration::from_secs(5);
        let lock = pool.lock("item").wait(wait).acquire().await;
        let lock = lock.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert!(
            Some(lock.fence()) > above,
            "{what}: {above:?}, then {:?}",
            lock.fence()
        );
        above = Some(lock.fence());
        lock.verify().await.unwrap();
        lock.release().await.unwrap();
    }
    above
}

/// The counter that the lock's epochs are drawn from.
async fn counter(node: &RedisServer) -> String {
    let keys = node.keys().await;
    let mut counters = keys
        .into_iter()
        .filter(|key| key.starts_with("lock:@fence"));
    counters.next().expect("an epoch was drawn")
}

#[tokio::test]
async fn strange_data_at_one_node() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let mut fence = works(&pool, "nothing yet", None).await;
    let counter = counter(&nodes.0[0]).await;
    let (lock, hints, quorum) = ("lock:item", "lock:@h:{lock:item}", "lock:@quorum");
    let types: [&[&str]; 7] = [
        &["HSET", "KEY", "a", "1"],
        &["RPUSH", "KEY", "1"],
        &["SADD", "KEY", "1"],
        &["ZADD", "KEY", "1", "1|#|"],
        &["ZADD", "KEY", "1", "a"],
        &["XADD", "KEY", "*", "a", "1"],
        &["SET", "KEY", "\u{0}\n|1|x|", "PX", "600000"],
    ];
    let mut cases: Vec<Vec<String>> = Vec::new();
    for words in types {
        for key in [lock, hints, &counter, quorum] {
            let words = words.iter().map(|word| word.replace("KEY", key));
            cases.push(words.collect());
        }
    }
    let numbers = [
        "",
        "-1",
        "1e300",
        "nan",
        "0x7f",
        "inf",
        "9007199254740993",
        "99999999999999999999",
    ];
    for number in numbers {
        cases.push(vec!["SET".into(), counter.clone(), number.into()]);
    }
    for words in cases {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        for node in &nodes.0[..1] {
            // In one step: the pool writes some of these keys again.
            let stored = "redis.call('DEL', KEYS[1]) redis.call(unpack(ARGV)) return 1";
            let script = ["EVAL", stored, "1", words[1]];
            node.cmd(&[&script, &words[..]].concat()).await;
        }
        fence = works(&pool, &words.join(" "), fence).await;
        nodes.0[0].cmd(&["DEL", words[1]]).await;
    }
}

/// A node that drew, or says that it drew, the last numbers that there are.
#[tokio::test]
async fn a_counter_at_its_end_at_one_node() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let mut fence = works(&pool, "nothing yet", None).await;
    let counter = counter(&nodes.0[0]).await;
    for number in [LARGEST - 2, LARGEST - 1, LARGEST, LARGEST + 1] {
        let number = number.to_string();
        nodes.0[0].cmd(&["SET", &counter, &number]).await;
        fence = works(&pool, &number, fence).await;
        // Another, who is told the number while the lock is held.
        nodes.0[0].cmd(&["SET", &counter, &number]).await;
        let other = nodes.pool().await;
        let held = pool.lock("item").acquire().await.unwrap();
        assert!(Some(held.fence()) > fence);
        fence = Some(held.fence());
        nodes.0[0].cmd(&["SET", &counter, &number]).await;
        let busy = other.lock("item").wait(Duration::ZERO).acquire().await;
        assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        held.release().await.unwrap();
        fence = works(&other, &number, fence).await;
        // One of the other nodes is away, so that this node's vote is needed.
        nodes.0[0].cmd(&["SET", &counter, &number]).await;
        nodes.0[2].stop_signal();
        fence = works(&pool, &format!("{number}, and a node hangs"), fence).await;
        nodes.0[2].cont();
        fence = works(&pool, &format!("{number}, and no node hangs"), fence).await;
    }
}

/// A quorum whose counters are at their end gives no lock until they are deleted or have begun again,
/// and no fence falls.
#[tokio::test]
async fn counters_at_their_end_at_a_quorum() {
    let nodes = Nodes::voting(3).await;
    let (pool, other) = (nodes.pool().await, nodes.pool().await);
    let mut fence = works(&pool, "nothing yet", None).await;
    let counter = counter(&nodes.0[0]).await;
    for number in [LARGEST - 9, LARGEST - 1, LARGEST, LARGEST + 1] {
        for at in [&nodes.0[..2], &nodes.0[..]] {
            for node in at {
                node.cmd(&["SET", &counter, &number.to_string()]).await;
            }
            let mut refused = 0;
            for pool in [&pool, &other, &pool] {
                match pool
                    .lock("item")
                    .wait(Duration::from_millis(50))
                    .acquire()
                    .await
                {
                    Ok(lock) => {
                        assert!(
                            Some(lock.fence()) > fence,
                            "{number}: {fence:?}, then {:?}",
                            lock.fence()
                        );
                        fence = Some(lock.fence());
                        lock.release().await.unwrap();
                    }
                    Err(error) => {
                        refused += 1;
                        // On a busy machine 50 ms may be over before.
                        assert!(
                            matches!(
                                error,
                                LockError::Unavailable { .. } | LockError::Busy { .. }
                            ),
                            "{error:?}"
                        );
                    }
                }
            }
            println!("{number} at {}: {refused} of 3 refused", at.len());
            for node in &nodes.0 {
                node.cmd(&["DEL", &counter]).await;
            }
            fence = works(&pool, &number.to_string(), fence).await;
            fence = works(&other, &number.to_string(), fence).await;
        }
    }
}

/// Everybody may publish; a hint gives no right, and a flood of them costs commands only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_hints() {
    let nodes = Nodes::voting(3).await;
    let (one, other) = (nodes.pool().await, nodes.pool().await);
    let held = one.lock("item").renew().acquire().await.unwrap();
    let request = other.lock("item").wait(CAP);
    let mut waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
    until("it waits", CAP, async || {
        other.status().unwrap().waiting == 1
    })
    .await;
    let scripts = async |node: &RedisServer| node.commandstats("evalsha").await;
    let before = scripts(&nodes.0[0]).await;
    let mut sent = 0_u64;
    for node in &nodes.0 {
        let channels: Vec<String> = node.ask(&["PUBSUB", "CHANNELS", "*"]).await;
        let mut connection = node.connect().await;
        for nth in 0..200 {
            for channel in &channels {
                let forged = [
                    "1|freed\nlock:item",
                    "1|freed\n",
                    "1|freed\nlock:item\n",
                    "1|freed",
                    "1|granted\nlock:item\n1|x|a\n1\n1\n1000\n",
                ];
                let message = forged[nth % forged.len()];
                let mut publish = redis::cmd("PUBLISH");
                let () = publish
                    .arg(channel)
                    .arg(message)
                    .query_async(&mut connection)
                    .await
                    .unwrap();
                sent += 1;
            }
        }
    }
    assert!(sent > 0, "nobody listens");
    let after = scripts(&nodes.0[0]).await;
    println!("{sent} forged hints: {} scripts at a node", after - before);
    assert!(after - before < sent, "a hint costs more than a command");
    assert!(held.is_held(), "its lease ran out");
    assert!(
        (&mut waiter).now_or_never().is_none(),
        "granted by a forged hint"
    );
    held.verify().await.unwrap();
    held.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
}

/// Answers everything with this, if it is a command whose words contain `to`.
fn fake(to: &'static str, says: &'static str) -> Fake {
    const INFO: &str = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:fake\r\nuptime_in_seconds:99999\r\nrole:master\r\n";
    Fake::start(move |asked| {
        let command = asked.to_uppercase();
        Says::This(match command.split(' ').next().unwrap_or_default() {
            _ if command.contains(to) => says.to_owned(),
            "INFO" => bulk(INFO),
            "ROLE" => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_owned(),
            "EVAL" | "EVALSHA" => ":1\r\n".to_owned(),
            _ => honest(asked),
        })
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_answers_garbage() {
    let nodes = Nodes::voting(2).await;
    let garbage = [
        ("", "+OK\r\n"),
        ("", "garbage\r\n"),
        ("HELLO", "$2000000000\r\nx"),
        ("HELLO", "*1\r\n*1\r\n*1\r\n*1\r\n"),
        ("INFO", "$3\r\n\0\0\0\r\n"),
        ("ROLE", "*0\r\n"),
        ("ROLE", ":1\r\n"),
        ("EVAL", "$6\r\n3;2000\r\n"),
        ("EVAL", "*1\r\n:0\r\n"),
        ("EVAL", "*2\r\n:0\r\n:9223372036854775807\r\n"),
        ("EVAL", "*2\r\n:1700000000000000\r\n:-1\r\n"),
        ("EVAL", "*2\r\n:1700000000000000\r\n*0\r\n"),
        (
            "EVAL",
            "*2\r\n:-9223372036854775808\r\n*5\r\n:2\r\n:-1\r\n$1\r\nx\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
        ),
        ("EVAL", "*2\r\n:9223372036854775807\r\n*1\r\n:5\r\n"),
        ("EVAL", "*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n"),
        // It says yes to everybody.
        ("EVAL", "*2\r\n:1700000000000000\r\n:1700000000000001\r\n"),
        ("EVAL", "-OOM command not allowed\r\n"),
    ];
    for (to, says) in garbage {
        let begun = Instant::now();
        let fake = fake(to, says);
        let urls = [nodes.0[0].url(), fake.url(), nodes.0[1].url()];
        let config = dlock_runtime::Config::redlock(urls)
            .max_ttl(MAX_TTL)
            .default_ttl(Duration::from_secs(1))
            .command_timeout(Duration::from_millis(300));
        match LockPool::connect(config).await {
            // A node that is no Redis server is a mistake, and said to be one.
            Err(error) => assert!(
                matches!(error, LockError::Config { .. }),
                "{says:?}: {error:?}"
            ),
            Ok(pool) => {
                works(&pool, &format!("{to} {says:?}"), None).await;
                one_excludes_the_other(&pool, &nodes).await;
            }
        }
        assert!(begun.elapsed() < CAP, "{says:?}: {:?}", begun.elapsed());
        nodes.until_empty("item").await;
    }
}

/// The fake node's votes let nobody in.
async fn one_excludes_the_other(pool: &LockPool, nodes: &Nodes) {
    for node in &nodes.0 {
        node.cmd(&["SET", "lock:taken", "1|x|another", "PX", "500"])
            .await;
    }
    let taken = pool.lock("taken").wait(Duration::ZERO).acquire().await;
    assert!(taken.is_err(), "{taken:?}");
}
