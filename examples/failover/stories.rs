//! The two failovers.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use crate::record::{Record, Story, What, Who};
use crate::servers::Servers;
use crate::stage::{Lease, Stage};
use crate::{CAP, Failure, until};

/// How long holder and waiter work undisturbed.
const WORK: Duration = Duration::from_millis(700);

/// The master is killed. The lease outlasts the failover, and the replicas have it, so the holder
/// goes on.
pub(crate) async fn killed(record: &Record, mut servers: Servers) -> Result<(), Failure> {
    let lease = Lease {
        ttl: Duration::from_secs(10),
        renewed_every: Duration::from_millis(500),
    };
    let stage = Stage::new(record, &servers, lease).await?;
    record.begin("1. The master is killed. Its replicas have a copy of the lock.");
    record.add(Who::Servers, What::Master(servers.agreed(0..3).await?));
    let held = stage.acquire(Who::Holder).await?;
    servers.replicated().await?;

    let enough = Notify::new();
    let failover = async {
        sleep(WORK).await;
        servers.kill()?;
        record.add(Who::Servers, What::Killed);
        let new = servers.agreed(1..3).await?;
        record.add(Who::Servers, What::Master(new));
        let so_far = renewals(record);
        until(
            "the lease is renewed at the new master, or lost",
            async || (renewals(record) > so_far || is_over(record)).then_some(()),
        )
        .await?;
        sleep(WORK).await;
        enough.notify_one();
        Ok(())
    };
    let holder = stage.work(Who::Holder, held, enough.notified());
    let ((), (), ()) = tokio::try_join!(ok(holder), wait(&stage), failover)?;
    tell(record);
    Ok(())
}

/// The master is cut off with the holder, whom it still answers. No replica learns of the next
/// renewals, so the new master gives the lock to the waiter when what it knows of the lease is
/// over.
pub(crate) async fn cut_off(record: &Record, servers: Servers) -> Result<(), Failure> {
    let lease = Lease {
        ttl: Duration::from_secs(2),
        renewed_every: Duration::from_millis(500),
    };
    let stage = Stage::new(record, &servers, lease).await?;
    record.begin("2. Master and holder are cut off from the replicas and the sentinels.");
    record.add(Who::Servers, What::Master(servers.agreed(0..3).await?));
    let held = stage.acquire(Who::Holder).await?;

    let failover = async {
        until("the lease is renewed", async || {
            (renewals(record) > 0 || is_over(record)).then_some(())
        })
        .await?;
        servers.replicated().await?;
        servers.cut_off().await?;
        record.add(Who::Servers, What::CutOff);
        let new = servers.agreed(1..3).await?;
        record.add(Who::Servers, What::Master(new));
        Ok(())
    };
    let holder = stage.work(Who::Holder, held, sleep(CAP));
    let ((), (), ()) = tokio::try_join!(ok(holder), wait(&stage), failover)?;
    tell(record);
    Ok(())
}

async fn wait(stage: &Stage<'_>) -> Result<(), Failure> {
    let held = stage.acquire(Who::Waiter).await?;
    stage.work(Who::Waiter, held, sleep(WORK)).await;
    Ok(())
}

async fn ok(work: impl Future<Output = ()>) -> Result<(), Failure> {
    work.await;
    Ok(())
}

fn renewals(record: &Record) -> usize {
    let holders = |story: &Story| {
        let events = story.of(Who::Holder);
        events.filter(|it| it.what == What::Renewed).count()
    };
    record.look(holders).unwrap_or_default()
}

/// Whether the holder no longer has the lock.
fn is_over(record: &Record) -> bool {
    let over = |story: &Story| story.first(Who::Holder, What::ends_work).is_some();
    record.look(over).unwrap_or_default()
}

/// How the story ended.
fn tell(record: &Record) {
    let text = record.look(|story| {
        let accepted = |who| story.count(What::Accepted(who));
        let refused = |who| story.count(What::Refused(who));
        let both = match story.overlap() {
            Some((from, to)) => {
                let time = to.saturating_sub(from).as_millis();
                format!("for {time} ms both believed to have the lock")
            }
            None => "at no time did both believe to have the lock".to_owned(),
        };
        format!(
            "{both}; of the holder's writes {} were accepted and {} refused, of the waiter's {} and {}",
            accepted(Who::Holder),
            refused(Who::Holder),
            accepted(Who::Waiter),
            refused(Who::Waiter),
        )
    });
    println!("\n{}", text.unwrap_or_default());
}
