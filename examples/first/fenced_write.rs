//! A holder sleeps past its lease and then writes; the resource refuses its stale token.
//!
//! No lock can prevent the late write: the holder was paused between its last check of the lock and
//! the write. The fencing token can, if the resource checks it. `cargo run --example fenced_write`
//! starts a private `redis-server`; `DLOCK_URL` names another.

mod server;

use std::error::Error;
use std::thread;
use std::time::Duration;

use dlock_runtime::{Config, Fence, LockPool};

use server::Server;

/// A resource. It keeps the highest token it has seen, and refuses lower ones; in SQL: `UPDATE
/// account SET balance = $1, fence = $2 WHERE id = 7 AND fence <= $2`.
#[derive(Default)]
struct Account {
    balance: u32,
    highest: Option<Fence>,
}

impl Account {
    fn write(&mut self, who: &str, balance: u32, fence: Fence) -> bool {
        let stale = self.highest.is_some_and(|highest| fence < highest);
        let verdict = if stale { "REFUSED, stale" } else { "accepted" };
        println!("  {who} writes {balance} with token {fence}: {verdict}");
        if !stale {
            (self.balance, self.highest) = (balance, Some(fence));
        }
        !stale
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (config, _server) = if std::env::var_os("DLOCK_URL").is_some() {
        (Config::from_env()?, None)
    } else {
        let (url, server) = Server::start(false).await?;
        (Config::new(url), Some(server))
    };
    let pool = LockPool::connect(config).await?;
    let mut account = Account::default();

    let ann = pool.lock("account:7");
    let ann = ann.ttl(Duration::from_millis(500)).acquire().await?;
    println!(
        "ann holds the lock for 500 ms, reads balance {} …",
        account.balance
    );
    println!("… and her thread stops for 700 ms: a long GC pause, a suspended VM, a debugger");
    thread::sleep(Duration::from_millis(700));

    let bob = pool.lock("account:7").acquire().await?;
    println!("her lease ran out, so bob has the lock now");
    let bob_wrote = account.write("bob", account.balance + 20, bob.fence());
    bob.release().await?;

    println!(
        "ann goes on where she was, without a look at her lock (it would say held: {})",
        ann.is_held()
    );
    let ann_wrote = account.write("ann", 10, ann.fence());
    println!(
        "the balance is {}: bob's write was not lost",
        account.balance
    );

    if bob_wrote && !ann_wrote && account.balance == 20 {
        Ok(())
    } else {
        Err("the stale write was accepted".into())
    }
}
