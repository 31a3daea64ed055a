//! A node that lies: about who serves what, and about where to go. A pool that hears it grants no lock
//! that somebody has, ends each call in time, keeps its other locks, and recovers when the node is gone.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dlock_harness::fake::{Fake, Says, listener};
use dlock_harness::{Cluster, RedisServer, until, wait};
use dlock_runtime::{Config, LockError, LockPool};
use dlock_tests::of_kind;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::sync::Barrier;

use crate::liar::{liar, silent, slots};
use crate::{CAP, pool, tag_at};

const TIMEOUT: Duration = Duration::from_millis(500);
const WAIT: Duration = Duration::from_millis(300);

/// What a loaded machine adds.
const SLACK: Duration = Duration::from_secs(2);

/// What one connection may take: 16 MiB, and what the system's buffers on both sides hold.
const MOST: u64 = 32 << 20;

/// So many tasks are sent round and round.
const CALLS: usize = 50;

/// So many cases at once.
const AT_ONCE: usize = 24;

/// Ports that a lie may name; nothing listens on port 1.
#[derive(Clone, Copy)]
struct Ports {
    /// Another liar's, which redirects to the first one.
    other: i64,
    /// Of a server that accepts and never answers.
    silent: i64,
    /// Of a server that is no node of a cluster.
    stranger: i64,
    real: [i64; 3],
    /// The liar's own.
    own: i64,
    /// The slot of the locks that it lies about, which is the first node's.
    slot: i64,
}

/// What it says to `CLUSTER SLOTS`, and to scripts (the nth, counted from 0).
struct Lie {
    name: &'static str,
    slots: fn(Ports) -> Says,
    script: fn(Ports, u64) -> String,
    /// Whether other nodes' locks must be had meanwhile.
    others_go_on: bool,
}

fn range(node: usize) -> (i64, i64) {
    let first = |node: usize| i64::try_from(16_384 * node / 3).unwrap();
    (first(node), first(node + 1) - 1)
}

/// The first node's slots are somebody else's, the others are where they are.
fn first_at(ports: Ports, name: &str, port: i64) -> Says {
    let at = |node| (range(node).0, range(node).1, "127.0.0.1", ports.real[node]);
    let first = (0, range(0).1, name, port);
    Says::This(slots([first, at(1), at(2)]))
}

const HERE: fn(Ports) -> Says = |ports| first_at(ports, "127.0.0.1", ports.own);
const UNKNOWN: fn(Ports, u64) -> String = |_, _| "-ERR unknown command\r\n".to_owned();

/// Lies about who serves what.
const fn map(name: &'static str, slots: fn(Ports) -> Says) -> Lie {
    Lie {
        name,
        slots,
        script: UNKNOWN,
        others_go_on: true,
    }
}

/// It serves the slot, and answers scripts with this.
const fn redirect(name: &'static str, script: fn(Ports, u64) -> String) -> Lie {
    Lie {
        name,
        slots: HERE,
        script,
        others_go_on: true,
    }
}

fn moved(ports: Ports, to: &str, port: i64) -> String {
    format!("-MOVED {} {to}:{port}\r\n", ports.slot)
}

fn ask(ports: Ports, port: i64) -> String {
    format!("-ASK {} 127.0.0.1:{port}\r\n", ports.slot)
}

/// Up to ten thousand names of this machine: octal numbers with leading zeros.
fn names(number: usize) -> Vec<String> {
    let zeros = |at: usize| "0".repeat(at % 10);
    let name = |at: usize| {
        let (b, c, d) = (zeros(at), zeros(at / 10), zeros(at / 100));
        let a = zeros(at / 1000);
        format!("0{a}177.{b}0.{c}0.{d}1")
    };
    (0..number).map(name).collect()
}

/// Each of so many nodes serves some slots, and all are silent.
fn many(ports: Ports, number: i64) -> Says {
    let names = names(usize::try_from(number).unwrap());
    let each = (0..).zip(&names).map(|(nth, name)| {
        let first = |nth: i64| 16_384 * nth / number;
        (first(nth), first(nth + 1) - 1, &**name, ports.silent)
    });
    Says::This(slots(each))
}

const LIES: &[Lie] = &[
    map("nothing", |_| Says::This("*0\r\n".into())),
    map("nil", |_| Says::This("$-1\r\n".into())),
    map("an error", |_| Says::This("-ERR no\r\n".into())),
    map("a number", |_| Says::This(":5\r\n".into())),
    map("a nest", |_| Says::This("*1\r\n".repeat(5000))),
    map("a list without an end", |_| {
        Says::Endless("*2000000000\r\n".into(), ":1\r\n")
    }),
    map("a text without an end", |_| {
        Says::Endless("$2000000000\r\n".into(), "x")
    }),
    map("silence", |_| Says::This(String::new())),
    map("a range that runs backwards", |it| {
        Says::This(slots([(5460, 0, "127.0.0.1", it.own)]))
    }),
    map("a slot below 0", |it| {
        Says::This(slots([(-1, 5460, "127.0.0.1", it.own)]))
    }),
    map("a slot too high", |it| {
        Says::This(slots([(0, 16_384, "127.0.0.1", it.own)]))
    }),
    map("a huge slot", |it| {
        Says::This(slots([(0, i64::MAX, "127.0.0.1", it.own)]))
    }),
    map("port 0", |it| first_at(it, "127.0.0.1", 0)),
    map("a port too high", |it| first_at(it, "127.0.0.1", 65_536)),
    map("a port that nobody listens on", |it| {
        first_at(it, "127.0.0.1", 1)
    }),
    map("a name with control characters", |it| {
        first_at(it, "a\u{1b}[31m\r\n\0:1", it.own)
    }),
    map("a name that is none", |it| {
        first_at(it, "locks.invalid", 6379)
    }),
    map("a long name", |it| first_at(it, &"x".repeat(10_000), 6379)),
    map("a silent server", |it| first_at(it, "127.0.0.1", it.silent)),
    map("a stranger's server", |it| {
        first_at(it, "127.0.0.1", it.stranger)
    }),
    map("another node's slots", |it| {
        first_at(it, "127.0.0.1", it.real[2])
    }),
    map("nobody else's slots", |it| {
        Says::This(slots([(0, range(0).1, "127.0.0.1", it.own)]))
    }),
    map("ranges that overlap", |it| {
        let real = |node| (range(node).0, range(node).1, "127.0.0.1", it.real[node]);
        let all = |port| (0, 16_383, "127.0.0.1", port);
        let ranges = [real(0), all(it.silent), real(1), all(1), real(2), real(2)];
        Says::This(slots(ranges))
    }),
    Lie {
        others_go_on: false,
        ..map("many silent nodes", |it| many(it, 100))
    },
    map("ten thousand silent nodes", |it| many(it, 10_000)),
    map("more nodes than there may be", |it| many(it, 1001)),
    redirect("moved to itself", |it, _| moved(it, "127.0.0.1", it.own)),
    redirect("moved to itself, without a name", |it, _| {
        moved(it, "", it.own)
    }),
    redirect("moved round and round", |it, _| {
        moved(it, "127.0.0.1", it.other)
    }),
    redirect("moved to nobody", |it, _| moved(it, "127.0.0.1", 1)),
    redirect("moved to a silent server", |it, _| {
        moved(it, "127.0.0.1", it.silent)
    }),
    redirect("moved to a stranger's server", |it, _| {
        moved(it, "127.0.0.1", it.stranger)
    }),
    redirect("moved to a node of another slot", |it, _| {
        moved(it, "127.0.0.1", it.real[1])
    }),
    redirect("moved to port 0", |it, _| moved(it, "127.0.0.1", 0)),
    redirect("moved to another place each time", |it, nth| {
        let port = 40_000 + i64::try_from(nth % 20_000).unwrap();
        moved(it, "127.0.0.1", port)
    }),
    redirect("another slot moved", |_, _| {
        format!("-MOVED {} 127.0.0.1:1\r\n", range(1).0)
    }),
    redirect("a slot too high moved", |it, _| {
        format!("-MOVED 16384 127.0.0.1:{}\r\n", it.own)
    }),
    redirect("a huge slot moved", |it, _| {
        format!("-MOVED 99999999999999999999 127.0.0.1:{}\r\n", it.own)
    }),
    redirect("moved, and nothing else", |_, _| "-MOVED\r\n".into()),
    redirect("moved to garbage", |it, _| {
        format!("-MOVED {} \u{1b}[31m\u{202e}\r\n", it.slot)
    }),
    redirect("asks itself", |it, _| ask(it, it.own)),
    redirect("asks round and round", |it, _| ask(it, it.other)),
    redirect("asks nobody", |it, _| ask(it, 1)),
    redirect("asks a silent server", |it, _| ask(it, it.silent)),
    redirect("asks a stranger's server", |it, _| ask(it, it.stranger)),
    redirect("asks, and nothing else", |_, _| "-ASK\r\n".into()),
    redirect("moves for ever", |_, _| "-TRYAGAIN later\r\n".into()),
    redirect("is down", |_, _| "-CLUSTERDOWN it is\r\n".into()),
];

/// An honest cluster, and whom the lies name besides.
struct Lab {
    cluster: Cluster,
    honest: LockPool,
    stranger: RedisServer,
    /// Its keys are the first node's.
    tag: String,
    elsewhere: [String; 2],
}

impl Lab {
    async fn new() -> Self {
        let cluster = Cluster::start(3).await;
        Self {
            honest: pool(&cluster).await,
            stranger: RedisServer::start(),
            tag: tag_at(&cluster, 0).await,
            elsewhere: [tag_at(&cluster, 1).await, tag_at(&cluster, 2).await],
            cluster,
        }
    }

    /// A node that tells this lie once `lying` is set, another one, and a silent one.
    async fn liars(&self, lie: &'static Lie, lying: &Arc<AtomicBool>) -> [Fake; 3] {
        let (silent, one, other) = (silent(), listener(), listener());
        let port = |of: &TcpListener| i64::from(of.local_addr().unwrap().port());
        let real = |node: usize| i64::from(self.cluster.nodes[node].port());
        let ports = Ports {
            other: port(&other),
            silent: i64::from(silent.addr().port()),
            stranger: i64::from(self.stranger.port()),
            real: [real(0), real(1), real(2)],
            own: port(&one),
            slot: i64::from(self.cluster.slot(&self.tag).await),
        };
        let back = Ports {
            other: ports.own,
            own: ports.other,
            ..ports
        };
        let tells = |listener, ports| {
            let (scripts, lying) = (AtomicU64::new(0), lying.clone());
            liar(listener, move |asked| match asked {
                "CLUSTER SLOTS" if lying.load(Ordering::SeqCst) => Some((lie.slots)(ports)),
                "CLUSTER SLOTS" => Some(Says::This("-ERR not now\r\n".into())),
                _ if asked.starts_with("EVAL") => {
                    let nth = scripts.fetch_add(1, Ordering::SeqCst);
                    Some(Says::This((lie.script)(ports, nth)))
                }
                _ => None,
            })
        };
        [tells(one, ports), tells(other, back), silent]
    }

    /// The liar is the first node that the pool knows.
    fn config(&self, liar: &Fake) -> Config {
        let liar = format!("redis+cluster://{},", liar.addr());
        let url = self.cluster.url().replacen("redis+cluster://", &liar, 1);
        Config::new(url)
            .command_timeout(TIMEOUT)
            .connect_timeout(2 * TIMEOUT)
    }

    async fn check(&self, nth: usize, lie: &'static Lie) {
        let name = lie.name;
        let key = format!("{{{}}}:{nth}", self.tag);
        let held = self.honest.lock(&*key).ttl(2 * CAP).acquire().await;
        let held = held.unwrap();
        let [liar, other, silent] = self.liars(lie, &Arc::new(AtomicBool::new(true))).await;
        let pool = LockPool::connect(self.config(&liar).lazy()).await.unwrap();
        for wait in [Duration::ZERO, WAIT] {
            let request = pool.lock(&*key).wait(wait);
            let taken = in_time(name, wait + TIMEOUT, request.acquire()).await;
            let error = taken.map(|_| ()).expect_err(name);
            let is_config = matches!(error, LockError::Config { .. });
            assert!(!is_config, "{name}: {error:?}");
            let said = error.to_string() + &format!("{error:?}");
            assert!(
                !said.contains(['\u{1b}', '\r', '\u{202e}']),
                "{name}: {said:?}"
            );
        }
        for tag in &self.elsewhere {
            let key = format!("{{{tag}}}:{nth}");
            let wait = if lie.others_go_on { CAP / 4 } else { WAIT };
            let request = pool.lock(key).wait(wait);
            let taken = in_time(name, wait + TIMEOUT, request.acquire()).await;
            match taken {
                Ok(guard) => drop(guard.release().await), // or by the watchdog
                Err(error) => assert!(!lie.others_go_on, "{name}: {error:?}"),
            }
        }
        let _ = in_time(name, 3 * TIMEOUT, pool.ping()).await;
        held.verify().await.unwrap();
        let asked = liar.asked() + other.asked();
        let connections = [&liar, &other, &silent].map(Fake::accepted);
        // A call without an answer is cleaned up after, for some seconds.
        assert!(asked < 500, "{name}: {asked} scripts");
        assert!(
            connections.iter().sum::<u64>() < 1500,
            "{name}: {connections:?}"
        );
        drop([liar, other]); // what is silent stays so
        let fence = held.fence();
        held.release().await.unwrap();
        let next = pool.lock(&*key).wait(CAP).acquire().await;
        let next = next.unwrap_or_else(|error| panic!("{name}: afterwards: {error:?}"));
        assert!(next.fence() > fence, "{name}");
    }

    /// It holds a lock when it hears the lie.
    async fn check_release(
        &self,
        (nth, lie): (usize, &'static Lie),
        lying: &Arc<AtomicBool>,
        ready: &Barrier,
    ) {
        let (name, key) = (lie.name, format!("{{{}}}:{nth}", self.tag));
        let liars = self.liars(lie, lying).await;
        let config = self.config(&liars[0]).connect_timeout(CAP / 6);
        let pool = LockPool::connect(config).await.unwrap();
        let ttl = Duration::from_secs(3);
        let held = pool.lock(&*key).ttl(ttl).renew().wait(CAP);
        let held = held.acquire().await.unwrap();
        let (fence, before) = (held.fence(), liars[0].accepted());
        ready.wait().await;
        until("it lies", CAP, async || lying.load(Ordering::SeqCst)).await;
        // Its slot has moved, so the pool asks who serves what.
        let moved = pool.lock(format!("{{{}}}:{nth}", self.elsewhere[1]));
        let moved = moved.wait(CAP).acquire().await.unwrap();
        until("it hears the lie", CAP, async || {
            liars[0].accepted() > before
        })
        .await;
        drop(moved);
        let _ = in_time(name, 2 * TIMEOUT, held.verify()).await;
        let request = self.honest.lock(&*key);
        let taken = request.wait(Duration::ZERO).acquire().await;
        assert!(taken.is_err() || !held.is_held(), "{name}: two hold it");
        let _ = in_time(name, 2 * TIMEOUT, held.release()).await;
        let next = if let Ok(next) = taken {
            next
        } else {
            let next = self.honest.lock(&*key).wait(CAP).acquire().await;
            next.expect(name)
        };
        assert!(next.fence() > fence, "{name}");
        next.release().await.unwrap();
    }
}

async fn in_time<T>(name: &str, most: Duration, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let ended = call.await;
    let took = begun.elapsed();
    assert!(took < most + wait::scaled(SLACK), "{name}: {took:?}");
    ended
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lies_end_in_time_and_cost_the_others_nothing() {
    let lab = Lab::new().await;
    let checks = LIES.iter().enumerate();
    let checks = checks.map(|(nth, lie)| lab.check(nth, lie));
    stream::iter(checks)
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<()>>()
        .await;
}

/// Nobody else answers.
#[tokio::test]
async fn an_answer_without_an_end_is_not_read_to_its_end() {
    for (first, endless) in [("*2000000000\r\n", ":1\r\n"), ("$2000000000\r\n", "x")] {
        let liar = liar(listener(), move |asked| {
            let is_asked = asked == "CLUSTER SLOTS";
            is_asked.then_some(Says::Endless(first.into(), endless))
        });
        let url = format!("redis+cluster://{}", liar.addr());
        let config = Config::new(url).connect_timeout(4 * SLACK);
        let connected = in_time(first, 4 * SLACK, LockPool::connect(config)).await;
        let error = connected.map(|_| ()).unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        let taken = liar.most_taken();
        assert!((1 << 20..MOST).contains(&taken), "{taken} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_is_given_back_by_a_pool_that_is_lied_to() {
    let (lab, lying) = (Lab::new().await, Arc::<AtomicBool>::default());
    let lies = LIES.iter();
    let lies = lies.filter(|it| it.name.contains("moved") || it.name.contains("ask"));
    let lies: Vec<_> = lies.enumerate().collect();
    let ready = Barrier::new(lies.len() + 1);
    let checks = lies.into_iter();
    let checks = checks.map(|lie| lab.check_release(lie, &lying, &ready));
    let begins = async {
        ready.wait().await;
        let slot = lab.cluster.slot(&lab.elsewhere[1]).await;
        lab.cluster.migrate(slot, 1, async || {}).await;
        lying.store(true, Ordering::SeqCst);
    };
    tokio::join!(join_all(checks), begins);
}

/// What a foreign program writes at a lock's key, or its queue's (`{q}`).
const PLANTED: [&str; 7] = [
    "SET {k} garbage",
    "SET {k} 1|x|\u{1b}[31m|||||| PX 60000",
    "HSET {k} field value",
    "LPUSH {k} value",
    "ZADD {k} 1 1|#|rw",
    "ZADD {k} 9e15 \u{202e}",
    "SET {q} garbage",
];

/// At each node: that lock is refused or busy, and all others go on.
#[tokio::test]
async fn what_is_planted_at_a_key_harms_that_lock_only() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    let mut checks = Vec::new();
    for (node, server) in cluster.nodes.iter().enumerate() {
        let tag = tag_at(&cluster, node).await;
        for (nth, planted) in PLANTED.iter().enumerate() {
            let (pool, tag) = (&pool, tag.clone());
            checks.push(async move {
                let key = format!("{{{tag}}}:{nth}");
                let names = [format!("lock:{key}"), format!("lock:@w#{key}")];
                let words = planted.replace("{k}", &names[0]).replace("{q}", &names[1]);
                server.cmd(&words.split(' ').collect::<Vec<_>>()).await;
                let mut refused = 0;
                for kind in ["x", "r", "p:1/2", "o:a"] {
                    let request = of_kind(pool.lock(&*key), kind).wait(WAIT);
                    let taken = in_time(planted, WAIT + 10 * TIMEOUT, request.acquire()).await;
                    match taken {
                        Ok(guard) => drop(guard.release().await.unwrap()),
                        Err(error) => {
                            refused += 1;
                            let said = format!("{error} {error:?}");
                            assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
                        }
                    }
                    let beside = pool.lock(format!("{key}:beside")).wait(CAP);
                    beside.acquire().await.unwrap().release().await.unwrap();
                }
                assert!(refused > 0, "{planted}: it was not looked at");
                server.cmd(&["DEL", &names[0], &names[1]]).await;
                let freed = pool.lock(&*key).wait(CAP).acquire().await.unwrap();
                freed.release().await.unwrap();
            });
        }
    }
    join_all(checks).await;
}

/// A liar under a thousand names sends everybody from one to the next, while it says who serves what
/// and while it does not. Neither connections nor tasks grow with that.
#[tokio::test]
async fn redirects_without_an_end_leave_nothing_behind() {
    let lab = Lab::new().await;
    for says_slots in [true, false] {
        let (listener, names) = (listener(), names(1000));
        let port = i64::from(listener.local_addr().unwrap().port());
        let slot = lab.cluster.slot(&lab.tag).await;
        let scripts = AtomicU64::new(0);
        // Whoever was not answered in time asks again.
        let liar = liar(listener, move |command| match command {
            "CLUSTER SLOTS" if says_slots || scripts.load(Ordering::SeqCst) == 0 => {
                Some(Says::This(slots([(0, 16_383, "127.0.0.1", port)])))
            }
            "CLUSTER SLOTS" => Some(Says::This("-ERR not now\r\n".into())),
            _ if command.starts_with("EVAL") => {
                let nth = scripts.fetch_add(1, Ordering::SeqCst);
                let name = &names[usize::try_from(nth).unwrap() % names.len()];
                Some(Says::This(format!("-MOVED {slot} {name}:{port}\r\n")))
            }
            _ => None,
        });
        let url = format!("redis+cluster://{}", liar.addr());
        let config = Config::new(url).command_timeout(TIMEOUT);
        let pool = LockPool::connect(config.lazy()).await.unwrap();
        let ended = Arc::<AtomicBool>::default();
        let calls: Vec<_> = (0..CALLS)
            .map(|nth| {
                let (pool, key) = (pool.clone(), format!("{{{}}}:{nth}", lab.tag));
                let ended = ended.clone();
                tokio::spawn(async move {
                    while !ended.load(Ordering::SeqCst) {
                        let taken = pool.lock(&*key).wait(WAIT).acquire().await;
                        assert!(taken.is_err());
                    }
                })
            })
            .collect();
        let mut most = (0, 0);
        until("many were sent on", CAP, async || {
            let tasks = tokio::runtime::Handle::current().metrics();
            let tasks = tasks.num_alive_tasks() - CALLS;
            most = (most.0.max(liar.open()), most.1.max(tasks));
            liar.asked() > 200 // more than twice as many nodes as connections are allowed
        })
        .await;
        ended.store(true, Ordering::SeqCst);
        for call in calls {
            call.await.unwrap();
        }
        // Two to each node that is kept, and those of a round of questions; while the machine is busy,
        // one more that each call is making.
        let (kept, made) = (40, u64::try_from(CALLS).unwrap());
        assert!(
            most.0 < kept + made && most.1 < 250,
            "connections and tasks: {most:?}"
        );
        until("few are kept", CAP, async || liar.open() < kept).await;
    }
}
