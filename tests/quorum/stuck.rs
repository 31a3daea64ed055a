//! A thread of the program that is blocked while it sends for others.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use dlock_harness::{DelayProxy, until, wait};
use dlock_runtime::{Config, LockPool};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

/// On each way to a node: none of its answers comes before the thread is blocked.
const FAR: Duration = Duration::from_millis(50);

const BLOCKED: Duration = Duration::from_secs(2);

/// The last node's flusher is ready to run on a thread that is blocked, where no other takes it
/// over. Another node hangs, so that the vote of each of the two others is needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stuck_flusher_of_one_node_delays_nobody() {
    let nodes = Nodes::voting(3).await;
    let wires: Vec<_> = nodes
        .0
        .iter()
        .map(|it| DelayProxy::start(it.addr(), FAR))
        .collect();
    let config = Config::redlock(wires.iter().map(DelayProxy::url))
        .max_ttl(MAX_TTL)
        .default_ttl(MAX_TTL)
        .command_timeout(CAP);
    let pool = LockPool::connect(config).await.unwrap();
    pool.lock("first").run(async |_| ()).await.unwrap();
    nodes.0[0].stop_signal();

    // After a batch, no caller sends its command itself.
    let several = (0..8).map(|number| pool.lock(format!("item:{number}")).acquire());
    let several = join_all(several).await;
    let several: Vec<_> = several.into_iter().map(Result::unwrap).collect();
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
    for held in several {
        held.release().await.unwrap();
    }
    until("no lock is left", CAP, async || nodes.locks().await == 0).await;
}
