//! A holder sleeps past its lease and writes as if nothing had happened; the resource refuses its stale token.
//!
//! No lock can prevent the late write: the holder was stopped between its last look at the lock and
//! the write. What can is the fencing token, checked where the write goes. `cargo run --example
//! fenced_write` starts a private `redis-server` for it; `DLOCK_URL` names another.

use std::error::Error;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use dlock_runtime::{Config, Fence, LockPool};

/// Whatever is written to. It keeps the highest token it has seen and refuses lower ones; in SQL:
/// `UPDATE account SET balance = $1, fence = $2 WHERE id = 7 AND fence <= $2`.
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
async fn main() -> Result<(), Box<dyn Error>> {
    let (config, _server) = if std::env::var_os("DLOCK_URL").is_some() {
        (Config::from_env()?, None)
    } else {
        let (url, server) = Server::start().await?;
        println!("DLOCK_URL is not set: using a private redis-server at {url}\n");
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

/// A `redis-server` of our own, which ends with us.
struct Server(Child);

impl Server {
    async fn start() -> Result<(String, Self), Box<dyn Error>> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?
            .local_addr()?
            .port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(std::env::temp_dir())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|why| {
                format!("no redis-server on PATH ({why}): install it, or set DLOCK_URL")
            })?;
        let (url, server) = (format!("redis://127.0.0.1:{port}"), Server(child));
        for _ in 0..100 {
            if LockPool::connect(url.as_str()).await.is_ok() {
                return Ok((url, server));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("redis-server did not answer within 5 s".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended by itself
        let _ = self.0.wait();
    }
}
