//! What forged messages cost the processes that receive them: few commands, and no memory.

use std::time::{Duration, Instant};

use dlock_harness::{Monitor, RedisServer, until};
use dlock_runtime::{Eviction, LockGuard, LostCause, Notice};
use dlock_tests::{Seeded, alone, memory, of_kind};

use crate::eve::{Eve, Message};
use crate::forge;
use crate::lab::{CAP, LONG, Lab, on_labs};
use crate::storm::seed;

/// The kinds of the waiters that receive every message, each in a queue of its own.
const KINDS: [&str; 6] = ["x", "fair", "r", "w", "p:1/2", "o:a"];

/// For each kind, a holder and a waiter.
async fn all_wait(lab: &Lab) -> Vec<tokio::task::JoinHandle<()>> {
    let (pool, other) = (lab.pool().await, lab.pool().await);
    let mut tasks = Vec::new();
    for (kind, number) in KINDS.iter().zip(0..) {
        let key = format!("k{number}");
        let kind = if lab.offers(kind) { *kind } else { "x" };
        let against = match kind {
            "r" | "w" => "w",
            "p:1/2" => "p:2/2",
            "o:a" => "o:b",
            _ => "x",
        };
        let holder = of_kind(lab.lock(&other, &key, LONG), against);
        let holder = holder.acquire().await.unwrap();
        let request = of_kind(lab.lock(&pool, &key, LONG).wait(LONG), kind);
        let waiter = lab.queued(&key, request).await;
        tasks.push(tokio::spawn(async move {
            let _held = waiter.await.unwrap();
            drop(holder);
        }));
    }
    tasks
}

/// Publishes the messages in large batches, and waits until the server has executed them.
async fn say(lab: &Lab, eve: &mut Eve, messages: &[Message]) {
    for some in messages.chunks(500) {
        eve.say(some).await;
    }
    for server in &lab.servers {
        server.cmd(&["PING"]).await;
    }
}

/// Eve's messages about the waiting entries only.
fn storm(eve: &mut Eve, number: usize) -> Vec<Message> {
    let mut all = Vec::with_capacity(number);
    while all.len() < number {
        all.push(forge::hint(&mut eve.seeded, &eve.seen));
        let message = forge::message(&mut eve.seeded, &eve.seen);
        if message.1.len() < 10_000 {
            all.push(message);
        }
    }
    all
}

/// Says of each key that it is free, to everybody, again and again for a second: at once after each
/// answer.
async fn trickle(eve: &mut Eve) {
    let mut hints = Vec::new();
    for channel in &eve.seen.channels {
        for key in &eve.seen.keys {
            hints.push((channel.clone(), format!("1|freed\n{key}").into_bytes()));
        }
    }
    let begun = Instant::now();
    while begun.elapsed().as_secs() < 1 {
        eve.say(&hints).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// An entry that gets hints is polled at most ten times a second because of them, and once a second
/// on its own.
async fn no_amplifier(lab: Lab) {
    let tasks = all_wait(&lab).await;
    let mut eve = lab.eve(seed()).await;
    eve.look().await;
    let messages = storm(&mut eve, 10_000);
    let (before, begun) = (lab.commands().await, Instant::now());
    say(&lab, &mut eve, &messages).await;
    trickle(&mut eve).await;
    let sent = lab.commands().await - before;
    let tenths = u64::try_from(begun.elapsed().as_millis() / 100).unwrap() + 1;
    // Per entry: its own polls, and ten a second caused by hints; and a few other commands of the
    // pool. A node's hints count at once until ten in a row have been false.
    let (places, servers) = (KINDS.len() as u64, lab.servers.len() as u64);
    let at_once = if lab.is_of_nodes() { 10 } else { 0 };
    let polls = places * (tenths + 1 + tenths.div_ceil(10) + at_once);
    let at_most = servers * (polls + 2 * tenths + 2);
    println!("{sent} commands, at most {at_most}");
    assert!(sent <= at_most, "{sent} commands, not {at_most}");
    for task in tasks {
        assert!(!task.is_finished(), "somebody has a lock");
        task.abort();
    }
}
on_labs!(no_amplifier: with_a_secret, nodes_with_a_secret);

/// Fifty thousand messages about tokens that were never drawn, or were drawn and forgotten, leave
/// nothing in memory.
#[test]
#[cfg(target_os = "linux")]
fn forgeries_leave_nothing_in_memory() {
    alone("cost::forgeries_leave_nothing_in_memory", || {
        leave_nothing(Lab::without_a_secret());
    });
}

#[test]
#[cfg(target_os = "linux")]
fn forgeries_at_nodes_leave_nothing_in_memory() {
    alone("cost::forgeries_at_nodes_leave_nothing_in_memory", || {
        leave_nothing(Lab::nodes_without_a_secret());
    });
}

fn leave_nothing(lab: impl Future<Output = Lab>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let lab = lab.await;
        let _tasks = all_wait(&lab).await;
        let pool = lab.pool().await;
        let mut eve = lab.eve(1).await;
        eve.look().await;
        let place = lab.waiter("k0").await;
        let channels: Vec<_> = eve.seen.channels.iter().cloned().collect();
        let mut numbers = Seeded(1);
        let mut some = |how_many: usize| -> Vec<Message> {
            let one = |nth: usize| {
                let value = crate::findings::with_number(&place, numbers.between(0, u64::MAX));
                let text = format!(
                    "1|granted\nlock:k0\n{value}{}\n1\n1\n3000\n",
                    "7".repeat(500)
                );
                (channels[nth % channels.len()].clone(), text.into_bytes())
            };
            (0..how_many).map(one).collect()
        };
        let (mut least, mut before) = (usize::MAX, memory());
        for _ in 0..5 {
            for _ in 0..40 {
                // Few at a time, because this process also publishes them.
                eve.say(&some(250)).await;
            }
            pool.ping().await.unwrap();
            let now = memory();
            (least, before) = (least.min(now.saturating_sub(before)), now);
        }
        // Buffers and caches grow to what they need and then stop; memory kept per message would
        // grow each time.
        assert!(
            least < 2_000 * 1024,
            "{least} bytes for each 10,000 messages of 600 bytes"
        );
    });
}

/// Holders that nothing makes ask before their leases end, except at nodes.
const HOLDERS: usize = 20;

/// Eve says of each holder that it was evicted, again and again. They all together ask ten times a
/// second, and lose nothing; the one that is evicted in truth hears of it among all that.
async fn forged_evictions(lab: Lab) {
    let pool = lab.pool().await;
    let mut held = Vec::new();
    for number in 0..HOLDERS {
        let request = lab.lock(&pool, &format!("k{number}"), LONG);
        held.push(request.acquire().await.unwrap());
    }
    let mut eve = lab.eve(seed()).await;
    eve.look().await;
    let messages = evictions(&lab, &mut eve);
    let monitors: Vec<_> = lab.servers.iter().map(RedisServer::monitor).collect();
    let begun = Instant::now();
    let flood = async {
        loop {
            eve.say(&messages).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let judged = async {
        let servers = if lab.is_of_nodes() {
            lab.servers.len()
        } else {
            1
        };
        let mut asked = 0;
        until("they ask, for more than a second", CAP, async || {
            let lines = monitors.iter().flat_map(Monitor::lines);
            asked = lines.filter(|it| is_question(it)).count();
            asked > 25 * servers
        })
        .await;
        let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
        println!("{asked} questions in {seconds} seconds");
        assert!(asked <= 10 * servers * seconds, "{asked} in {seconds} s");
        assert!(held.iter().all(LockGuard::is_held));

        let (admin, guard) = (lab.pool().await.admin(), held.remove(7));
        let lock = admin.show("k7").await.unwrap().unwrap();
        let evicted = admin.evict("k7", lock.holders()[0].fingerprint()).await;
        assert_eq!(evicted.unwrap(), Eviction::Done(Notice::Sent));
        let lost = tokio::time::timeout(CAP, guard.lost()).await;
        assert_eq!(lost, Ok(LostCause::Gone));
    };
    tokio::select! {
        () = flood => {}
        () = judged => {}
    }
    for guard in held {
        guard.verify().await.unwrap();
    }
}
on_labs!(forged_evictions);

/// A message about each holder, with a MAC that Eve guesses.
fn evictions(lab: &Lab, eve: &mut Eve) -> Vec<Message> {
    let holders = eve
        .seen
        .sights
        .iter()
        .filter(|it| it.value.starts_with("1|"));
    let each = holders.map(|sight| {
        let channel = if lab.is_of_nodes() {
            channel_of_pool(&sight.value)
        } else {
            sight.channel.clone()
        };
        let mac = "0123456789abcdef".repeat(3);
        let text = format!("1|evicted\n{}\n{}\n{}", sight.key, sight.value, &mac[..40]);
        (channel, text.into_bytes())
    });
    each.collect()
}

/// Where a node tells the holders of a pool that they were evicted.
fn channel_of_pool(entry: &str) -> String {
    let token = entry.split('|').nth(2).unwrap();
    let (pool, _) = token.rsplit_once('-').unwrap();
    let hash = redis::Script::new(pool).get_hash().to_owned();
    format!("lock:@grant:{}", &hash[..16])
}

/// A holder's, sent by itself.
fn is_question(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    !line.contains(" lua]")
        && ["\"getrange\" \"lock:k", "\"get\" \"lock:k"]
            .iter()
            .any(|it| line.contains(it))
}
