//! Several tasks buy the same item; the attribute lets one in at a time.
//!
//! `cargo run --example quickstart` runs on `memory://`, which locks inside this process only; with
//! `DLOCK_URL=redis://127.0.0.1:6379` several of these may run at once and still take turns.

use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockError, distributed_lock};

/// Which purchase it was, and when it held the item's lock.
struct Receipt {
    fence: u64,
    from: Duration,
    to: Duration,
}

#[distributed_lock(key = "item:<id>", ttl = "2s", wait = "10s", renew, guard = lock)]
async fn purchase(id: u64, buyer: &str, start: Instant) -> Result<Receipt, LockError> {
    let from = start.elapsed();
    tokio::time::sleep(Duration::from_millis(40)).await; // talk to the bank
    println!(
        "{buyer:>6} bought item {id}, fencing token {}",
        lock.fence()
    );
    Ok(Receipt {
        fence: lock.fence().get(),
        from,
        to: start.elapsed(),
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = if std::env::var_os("DLOCK_URL").is_some() {
        Config::from_env()?
    } else {
        println!("DLOCK_URL is not set: locking in memory://, inside this process only\n");
        Config::new("memory://")
    };
    dlock_runtime::init(config).await?;

    let start = Instant::now();
    let buyers = ["ann", "bob", "cy", "dee", "eve"];
    let purchases: Vec<_> = buyers
        .map(|buyer| tokio::spawn(async move { (buyer, purchase(7, buyer, start).await) }))
        .into();
    let mut receipts = Vec::new();
    for purchase in purchases {
        let (buyer, receipt) = purchase.await?;
        receipts.push((buyer, receipt?));
    }

    receipts.sort_by_key(|(_, receipt)| receipt.from);
    println!("\nwho had the item, and when:");
    for (buyer, Receipt { fence, from, to }) in &receipts {
        println!(
            "{buyer:>6}  {:>4} ms to {:>4} ms  token {fence}",
            from.as_millis(),
            to.as_millis()
        );
    }
    let in_turn = receipts
        .windows(2)
        .all(|pair| pair[0].1.to <= pair[1].1.from && pair[0].1.fence < pair[1].1.fence);
    println!("one at a time, tokens rising: {in_turn}");

    let drained = dlock_runtime::shutdown().await;
    if in_turn && drained.is_complete() {
        Ok(())
    } else {
        Err("the buyers got in each other's way".into())
    }
}
