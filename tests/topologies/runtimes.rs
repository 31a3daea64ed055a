//! One pool in several tokio runtimes: each has connections of its own, and all follow the master.

use std::sync::Barrier;
use std::thread;

use dlock_harness::{Watched, until};
use dlock_runtime::LockPool;
use dlock_tests::patient;
use tokio::runtime::{Builder, Runtime};

use crate::{CAP, until_asked};

const RUNTIMES: usize = 3;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn locks_of_each_runtime_go_on_through_a_failover() {
    let servers = runtime();
    let watched = servers.block_on(Watched::start());
    let pool = LockPool::connect(patient(watched.url()));
    let pool = &servers.block_on(pool).unwrap();
    let (all_hold, has_moved) = (&Barrier::new(RUNTIMES + 1), &Barrier::new(RUNTIMES + 1));
    thread::scope(|threads| {
        for number in 0..RUNTIMES {
            threads.spawn(move || {
                let own = runtime();
                let acquire = pool.lock(number.to_string()).ttl(2 * CAP).renew().acquire();
                let held = own.block_on(acquire).unwrap();
                all_hold.wait();
                has_moved.wait();
                own.block_on(async {
                    until("each runtime asks the new master", CAP, async || {
                        held.verify().await.is_ok()
                    })
                    .await;
                    held.release().await.unwrap();
                });
            });
        }
        all_hold.wait();
        servers.block_on(async {
            watched.servers[0].replicated(2).await;
            let sentinel = &watched.sentinels[0];
            sentinel.cmd(&["SENTINEL", "FAILOVER", "locks"]).await;
            let new = watched.moved_from(0, &[0, 1, 2]).await;
            until_asked(pool, &watched.servers[new]).await;
        });
        has_moved.wait();
    });
}
