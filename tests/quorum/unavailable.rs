//! More nodes than a minority are gone: every call says so in time, and goes on when they are back.

use std::time::{Duration, Instant};

use dlock_harness::{Proxy, until, wait::scaled};
use dlock_runtime::{Config, LockError, LockPool};

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

const COMMAND_TIMEOUT: Duration = Duration::from_millis(300);

/// Beyond a call's `wait` and one `command_timeout`, for a loaded machine.
const SLACK: Duration = Duration::from_millis(700);

#[derive(Clone, Copy, Debug)]
enum Way {
    Killed,
    Hung,
    CutOff,
    Refused,
    Slow,
}

impl Way {
    fn begin(self, nodes: &Nodes, wires: &[Proxy], node: usize) {
        match self {
            Way::Killed => nodes.0[node].kill9(),
            Way::Hung => nodes.0[node].stop_signal(),
            Way::CutOff => wires[node].blackhole(),
            Way::Refused => {
                wires[node].refuse();
                wires[node].cut_all();
            }
            Way::Slow => wires[node].delay(Duration::from_secs(2)),
        }
    }

    fn end(self, nodes: &Nodes, wires: &[Proxy], node: usize) {
        match self {
            Way::Killed => nodes.0[node].restart_empty(),
            Way::Hung => nodes.0[node].cont(),
            Way::CutOff | Way::Refused | Way::Slow => wires[node].pass(),
        }
    }
}

async fn each_call_says_so_in_time(number: usize, ways: &[Way]) {
    let nodes = Nodes::voting(number).await;
    let wires: Vec<_> = nodes.0.iter().map(|it| Proxy::start(it.addr())).collect();
    let config = Config::redlock(wires.iter().map(Proxy::url))
        .max_ttl(MAX_TTL)
        .default_ttl(Duration::from_secs(1))
        .command_timeout(COMMAND_TIMEOUT);
    let pool = LockPool::connect(config).await.unwrap();
    let lock = pool.lock("item").acquire().await.unwrap();
    lock.release().await.unwrap();

    for way in ways {
        let gone = number / 2 + 1;
        for node in 0..gone {
            way.begin(&nodes, &wires, node);
            let turns = if node + 1 < gone { 20 } else { 0 };
            for turn in 0..turns {
                let lock = pool.lock("item").acquire().await;
                let lock = lock.unwrap_or_else(|error| panic!("{way:?}, {turn}: {error:?}"));
                lock.release().await.unwrap();
            }
        }
        for wait in [0, 400, 0, 400].map(Duration::from_millis) {
            let begun = Instant::now();
            let outcome = pool.lock("item").wait(wait).acquire().await;
            let took = begun.elapsed();
            let error = outcome.expect_err("a quorum is gone");
            assert!(
                matches!(error, LockError::Unavailable { .. }),
                "{way:?}: {error:?}"
            );
            let most = wait + COMMAND_TIMEOUT + scaled(SLACK);
            assert!(took <= most, "{way:?}, wait {wait:?}: {took:?}");
        }
        for node in 0..gone {
            way.end(&nodes, &wires, node);
        }
        until("it is there again", CAP, async || {
            let lock = pool.lock("item").wait(MAX_TTL).acquire().await;
            lock.is_ok()
        })
        .await;
        nodes.until_voting(MAX_TTL).await;
        nodes.until_empty("item").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_two_of_three() {
    let ways = [Way::Hung, Way::CutOff, Way::Refused, Way::Slow, Way::Killed];
    each_call_says_so_in_time(3, &ways).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_three_of_five() {
    each_call_says_so_in_time(5, &[Way::Hung, Way::Killed]).await;
}
