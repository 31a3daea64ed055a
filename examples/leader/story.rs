//! What happens to the three processes, one after the other.

use std::path::Path;
use std::time::Duration;

use dlock_harness::{RedisServer, now_ns};
use rustix::process::Signal;
use tokio::time::sleep;

use crate::Failure;
use crate::picture;
use crate::troupe::Troupe;

/// The leader's lease: how long nobody leads after it was killed.
const TTL: Duration = Duration::from_secs(3);

/// Between two events.
const SCENE: Duration = Duration::from_secs(2);

/// What happened to whom, and when.
pub(crate) struct Event {
    pub(crate) name: &'static str,
    pub(crate) at: u64,
    pub(crate) what: &'static str,
}

pub(crate) async fn tell(svg: Option<&Path>) -> Result<(), Failure> {
    let server = RedisServer::start();
    let mut troupe = Troupe::new(server.url(), TTL);
    let (begun, mut events) = (now_ns(), Vec::new());
    for name in ["web-1", "web-2", "web-3"] {
        troupe.start(name).await?;
    }
    let mut happens = |name, what| {
        println!("{name} {what}");
        let at = now_ns();
        events.push(Event { name, at, what });
    };
    let first = troupe.other_than("").await;
    sleep(SCENE).await;
    happens(first, "resigns");
    troupe.signal(first, Signal::USR1)?;
    let second = troupe.other_than(first).await;

    sleep(SCENE).await;
    happens(second, "is killed");
    troupe.kill(second)?;
    let third = troupe.other_than(second).await;
    troupe.start(second).await?;
    happens(second, "is started again");

    sleep(SCENE).await;
    happens(third, "is stopped");
    troupe.get(third)?.stop();
    let fourth = troupe.other_than(third).await;
    sleep(SCENE).await;
    happens(third, "wakes");
    troupe.get(third)?.cont();

    for name in [fourth, first, second, third] {
        if troupe.get(name).is_ok() {
            sleep(SCENE / 2).await;
            happens(name, "ends");
            troupe.end(name).await?;
        }
    }
    let (terms, mails) = (troupe.terms()?, troupe.check_mails()?);
    println!("\n{}", picture::text(begun, &terms));
    println!(
        "{mails} mails were written, none by halves but by a process that was killed or stopped"
    );
    if let Some(path) = svg {
        let written = std::fs::write(path, picture::svg(begun, &terms, &events));
        written.map_err(|why| format!("can't write {}: {why}", path.display()))?;
        println!("the picture is in {}", path.display());
    }
    Ok(())
}
