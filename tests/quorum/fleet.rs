//! Processes that count under a lock of several nodes, and what must hold whatever happens to a
//! minority of the nodes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dlock_harness::{Child, Interval, Proxy, RedisServer, check_exclusive, now_ns, until};

use crate::CAP;
use crate::nodes::Nodes;

/// Every lease of a fleet, which is also its `max_ttl`.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// Progress is made within one ttl and this.
const PROGRESS: Duration = Duration::from_secs(2);

/// A released or expired key is gone at the latest so long after the last command for it, on a busy
/// machine.
const A_LITTLE: Duration = Duration::from_secs(1);

pub(crate) struct Fleet {
    pub(crate) nodes: Nodes,
    /// The processes' wires to the nodes.
    pub(crate) wires: Vec<Proxy>,
    pub(crate) workers: Vec<Child>,
    resource: RedisServer,
}

impl Fleet {
    /// Waits until all nodes vote and all workers are ready.
    pub(crate) async fn start(nodes: Nodes, workers: usize, body: Duration) -> Self {
        let wires = nodes.0.iter().map(|node| Proxy::start(node.addr()));
        let wires: Vec<_> = wires.collect();
        let addrs: Vec<_> = wires.iter().map(Proxy::addr).collect();
        let mut fleet = Self::at(nodes, &addrs, workers, (body, Duration::ZERO)).await;
        fleet.wires = wires;
        fleet
    }

    /// As `start`, over other wires; between two of its bodies a worker pauses.
    pub(crate) async fn at(
        nodes: Nodes,
        addrs: &[SocketAddr],
        workers: usize,
        (body, pause): (Duration, Duration),
    ) -> Self {
        nodes.until_voting(TTL).await;
        let resource = RedisServer::start();
        let hosts: Vec<_> = addrs.iter().map(SocketAddr::to_string).collect();
        let url = format!("redlock://{}", hosts.join(","));
        let worker = |_| {
            const NO_ENVS: [(&str, &str); 0] = [];
            let arguments = [
                "quorum".to_owned(),
                url.clone(),
                format!("resource={}", resource.url()),
                format!("max_ttl_ms={}", TTL.as_millis()),
                format!("ttl_ms={}", TTL.as_millis()),
                format!("body_ms={}", body.as_millis()),
                format!("pause_ms={}", pause.as_millis()),
            ];
            Child::spawn(env!("CARGO_BIN_EXE_worker"), arguments, NO_ENVS)
        };
        let mut workers: Vec<_> = (0..workers).map(worker).collect();
        for worker in &mut workers {
            worker.expect_line("ready", CAP).await;
        }
        Self {
            nodes,
            wires: Vec::new(),
            workers,
            resource,
        }
    }

    /// Another body begins within one ttl and two seconds.
    pub(crate) async fn progresses(&self, after: &str) {
        let since = now_ns();
        let mut first = None;
        until(&format!("a count after: {after}"), CAP, async || {
            let starts = self.intervals().into_iter().map(|it| it.start_ns);
            first = starts.filter(|it| *it > since).min();
            first.is_some()
        })
        .await;
        let took = Duration::from_nanos(first.unwrap() - since);
        let most = dlock_harness::wait::scaled(TTL + PROGRESS);
        assert!(took <= most, "{after}: the next body began after {took:?}");
    }

    /// How many bodies have begun.
    pub(crate) fn begun(&self) -> usize {
        let lines = self.workers.iter().flat_map(Child::lines);
        lines.filter(|it| it.starts_with("holds ")).count()
    }

    /// So many more bodies have ended.
    pub(crate) async fn counts(&self, more: usize) {
        let before = self.intervals().len();
        until("the fleet counts", CAP, async || {
            self.intervals().len() >= before + more
        })
        .await;
    }

    pub(crate) fn intervals(&self) -> Vec<Interval> {
        let lines = self.workers.iter().flat_map(Child::lines);
        lines.filter_map(|it| Interval::parse(&it)).collect()
    }

    /// Ends all workers. Nothing is left at any node after one ttl, and no count is lost.
    pub(crate) async fn finish(mut self) -> Outcome {
        self.resource.cmd(&["SET", "over", "1"]).await;
        for worker in &mut self.workers {
            worker.expect_line("done", CAP).await;
            assert!(worker.wait(CAP).await.success(), "{:#?}", worker.lines());
        }
        let ended = Instant::now();
        self.nodes.until_empty("count").await;
        let most = dlock_harness::wait::scaled(TTL + A_LITTLE);
        let took = ended.elapsed();
        assert!(took <= most, "a key was left for {took:?}");
        self.outcome().await
    }

    pub(crate) async fn outcome(&self) -> Outcome {
        let number = async |key: &str| {
            let number: Option<u64> = self.resource.ask(&["GET", key]).await;
            number.unwrap_or(0)
        };
        let (value, accepted) = (number("value").await, number("accepted").await);
        assert_eq!(
            value, accepted,
            "a count was lost: two bodies with one fence"
        );
        Outcome {
            intervals: self.intervals(),
            accepted,
            refused: number("refused").await,
        }
    }
}

pub(crate) struct Outcome {
    pub(crate) intervals: Vec<Interval>,
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
}

impl Outcome {
    /// No two bodies were executed at once, and fences rise.
    pub(crate) fn check(&self) {
        check_exclusive(&self.intervals).unwrap();
        assert!(self.accepted > 0);
        assert_eq!(self.refused, 0);
    }

    /// Two may have believed at once; no fence was given twice.
    pub(crate) fn check_fences(&self) {
        let fences: BTreeSet<_> = self.intervals.iter().map(|it| it.fence).collect();
        assert_eq!(
            fences.len(),
            self.intervals.len(),
            "a fence was given twice"
        );
        assert!(self.accepted > 0);
    }
}
