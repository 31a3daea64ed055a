//! A thousand leases, renewed in time over the few connections that transactions have.

use std::time::{Duration, Instant};

use dlock_harness::RedisServer;
use dlock_runtime::LockGuard;
use futures_util::future::try_join_all;

use crate::{connect, plain};

#[tokio::test]
async fn a_thousand_leases_are_renewed_in_time() {
    let server = RedisServer::start();
    let patient = Duration::from_secs(60); // a busy machine, and a build without optimization
    let pool = connect(plain(server.url()).command_timeout(patient)).await;
    let ttl = Duration::from_secs(6);
    let request = |it: u32| pool.lock(format!("k{it}")).ttl(ttl).renew().acquire();
    let guards = try_join_all((0..1000).map(request)).await.unwrap();
    let begun = Instant::now();
    tokio::time::sleep(ttl * 2).await; // nobody would have its lease without renewals
    assert!(guards.iter().all(LockGuard::is_held));
    let (renewed, transactions) = (
        server.commandstats("pexpire").await,
        server.commandstats("exec").await,
    );
    println!(
        "{renewed} renewals, {transactions} transactions in {:?}",
        begun.elapsed()
    );
    assert!(renewed >= 3_000, "{renewed}");
    try_join_all(guards.into_iter().map(LockGuard::release))
        .await
        .unwrap();
}
