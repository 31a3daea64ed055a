//! A thread of the program that is blocked while it sends for others.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use dlock_harness::{DelayProxy, until, wait};
use dlock_runtime::Config;
use tokio::sync::oneshot;

use crate::CAP;
use crate::nodes::Nodes;

/// On each way to a node: commands are in flight for twice as long, so that others are batched.
const FAR: Duration = Duration::from_millis(300);

const BLOCKED: Duration = Duration::from_secs(4);

const LEASE: Duration = Duration::from_secs(8);

/// The last node's flusher is ready to run on a thread that is blocked, where no other takes it
/// over. Another node hangs, so that the vote of each of the two others is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stuck_flusher_of_one_node_delays_nobody() {
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let wires: Vec<_> = nodes
        .0
        .iter()
        .map(|it| DelayProxy::start(it.addr(), FAR))
        .collect();
    let config = Config::redlock(wires.iter().map(DelayProxy::url))
        .max_ttl(LEASE)
        .default_ttl(LEASE)
        .connect_timeout(CAP)
        .command_timeout(CAP);
    let pool = dlock_runtime::LockPool::connect(config).await.unwrap();
    pool.lock("first").run(async |_| ()).await.unwrap();
    nodes.0[0].stop_signal();

    // Something is always under way, however late this machine polls what follows: who finds nobody
    // else under way sends by itself, and then nothing helps.
    let traffic = {
        let pool = pool.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let run = pool.lock(format!("other:{number}")).run(async |_| ());
                tokio::spawn(async move { run.await.unwrap() });
                tokio::time::sleep(FAR / 2).await;
            }
        })
    };
    until("commands are in flight", CAP, async || {
        pool.status().unwrap().in_flight >= 2
    })
    .await;
    let (blocks, blocked) = oneshot::channel();
    let lock = pool.lock("c");
    let stuck = tokio::spawn(async move {
        let mut acquire = pin!(lock.acquire());
        let polled = poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx).is_ready())).await;
        assert!(!polled);
        blocks.send(()).unwrap();
        thread::sleep(BLOCKED); // what a body must not do
        acquire.await.unwrap()
    });
    blocked.await.unwrap();
    let begun = Instant::now();
    let other = pool.lock("d").acquire().await.unwrap();
    let took = begun.elapsed();
    println!("{took:?}");
    assert!(took < wait::scaled(BLOCKED / 3), "{took:?}");
    assert!(!stuck.is_finished());
    other.release().await.unwrap();
    nodes.0[0].cont();
    stuck.await.unwrap().release().await.unwrap();
    traffic.abort();
    until("no lock is left", CAP, async || nodes.locks().await == 0).await;
}
