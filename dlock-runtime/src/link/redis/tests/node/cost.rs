//! Measures what a cycle of a vote and its taking back costs the server, beside an acquire and a
//! release. Prints; asserts nothing.

use std::sync::Arc;

use dlock_harness::RedisServer;

use super::{CAP, HOUR, ballot, claim, link};
use crate::link::Link;
use crate::link::redis::link::RedisLink;
use crate::link::redis::tests::lab::{self, acquire};
use crate::rules::commands::Keep;

const TASKS: u32 = 64;
const CYCLES: u32 = 1000;

/// The server's CPU time so far, in µs.
async fn cpu(server: &RedisServer) -> f64 {
    let info: String = server.ask(&["INFO", "cpu"]).await;
    let field = |name: &str| -> f64 {
        let mut lines = info.lines();
        let value = lines.find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().trim().parse().unwrap()
    };
    (field("used_cpu_user") + field("used_cpu_sys")) * 1e6
}

async fn cycles(server: &RedisServer, link: RedisLink, of_node: bool) -> f64 {
    let link = Arc::new(link);
    let before = cpu(server).await;
    let tasks = (0..TASKS).map(|task| {
        let link = link.clone();
        tokio::spawn(async move {
            for cycle in 0..CYCLES {
                let who = claim(&format!("lock:item:{task}"), &format!("{task}t{cycle}"));
                if of_node {
                    let mut ballot = ballot(&who, link.server_time(), &link);
                    ballot.not_after = ballot.not_after >> 20 << 20;
                    link.vote(&ballot, CAP).await.unwrap();
                    assert!(link.take_back(&who, Keep::NOT, 0, CAP).await.unwrap().found);
                } else {
                    let until = (link.server_time() + HOUR) >> 20 << 20;
                    link.acquire(&acquire(&who, until), CAP).await.unwrap();
                    assert!(link.release(&who, Keep::NOT, CAP).await.unwrap().found);
                }
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        task.await.unwrap();
    }
    (cpu(server).await - before) / f64::from(CYCLES) / f64::from(TASKS)
}

#[tokio::test]
#[ignore = "measures"]
async fn cost_of_a_cycle_at_the_server() {
    let (mut plain, mut node) = (f64::MAX, f64::MAX);
    for _ in 0..6 {
        let server = RedisServer::start();
        plain = plain.min(cycles(&server, lab::link(&server.url()).await, false).await);
        let server = RedisServer::start();
        node = node.min(cycles(&server, link(&server.url()).await, true).await);
    }
    println!(
        "server µs a cycle: plain {plain:.2}, node {node:.2}, {:.2} x",
        node / plain
    );
}
