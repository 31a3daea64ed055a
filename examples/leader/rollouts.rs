//! Two processes; the leader is replaced again and again. For how long does nobody lead?

use std::time::Duration;

use dlock_harness::{DelayProxy, RedisServer};

use crate::Failure;
use crate::candidate::MAIL;
use crate::troupe::Troupe;

/// Far longer than any gap: no term may end by its lease.
const TTL: Duration = Duration::from_secs(15);

/// Of the wire: on loopback nobody would see how many of them a change takes.
const ROUND_TRIP: Duration = Duration::from_millis(50);

pub(crate) async fn measure(rollouts: usize) -> Result<(), Failure> {
    let server = RedisServer::start();
    let wire = DelayProxy::start(server.addr(), ROUND_TRIP / 2);
    let mut troupe = Troupe::new(wire.url(), TTL);
    let (mut leader, mut other) = ("web-1", "web-2");
    troupe.start(leader).await?;
    troupe.other_than(other).await;
    for number in 1..=rollouts {
        troupe.start(other).await?;
        troupe.end(leader).await?;
        let next = troupe.other_than(leader).await;
        println!("{number}: {next} leads after {leader}");
        (leader, other) = (other, leader);
    }
    troupe.end(leader).await?;
    let mails = troupe.check_mails()?;
    let terms = troupe.terms()?;
    if let Some(odd) = terms.iter().find(|led| led.outcome != "in_time") {
        return Err(format!("a term did not end in order: {odd:?}").into());
    }
    let pairs = terms.iter().zip(terms.iter().skip(1));
    let gaps =
        pairs.map(|(one, next)| Some(next.from.checked_sub(one.to?).map(Duration::from_nanos)));
    let gaps: Option<Vec<Option<Duration>>> = gaps.collect();
    let mut gaps: Vec<_> = gaps
        .ok_or("a term without an end")?
        .into_iter()
        .flatten()
        .collect();
    if gaps.len() < rollouts {
        return Err("two led at the same time".into());
    }
    gaps.sort_unstable();
    let in_trips = |gap: Duration| gap.as_secs_f64() / ROUND_TRIP.as_secs_f64();
    let (median, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!(
        "\nnobody led for {:.1} round trips of {ROUND_TRIP:?} (median), {:.1} at most; a mail takes {MAIL:?}, a lease {TTL:?}\n{mails} mails, none by halves",
        in_trips(median),
        in_trips(longest),
    );
    if longest > TTL / 3 {
        return Err("a change took as long as if the lease had run out".into());
    }
    Ok(())
}
