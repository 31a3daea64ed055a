//! The lower bound of W4: a message through the server from one process to another. No lock that
//! the server grants to a waiter can be faster.
//!
//! It uses blocking sockets, so that no runtime is measured with it.

use std::thread::sleep;
use std::time::Duration;

use redis::Client;

use crate::Failure;
use crate::lab::Lab;
use crate::part::{Part, now};

const CHANNEL: &str = "hop";

/// Between two messages, as long as a lock is held in W4, so that the other process sleeps.
const PAUSE: Duration = Duration::from_millis(3);

/// The times of these messages from before the PUBLISH until the subscriber has them, in µs.
pub(crate) async fn measure(lab: &Lab, messages: usize) -> Result<Vec<f64>, Failure> {
    let url = lab.url();
    tokio::task::spawn_blocking(move || publish(&url, messages)).await?
}

fn publish(url: &str, messages: usize) -> Result<Vec<f64>, Failure> {
    let words = ["listener", url, &messages.to_string()].map(str::to_owned);
    let mut listener = Part::start(&words, &[])?;
    let mut redis = Client::open(url)?.get_connection()?;
    listener.line("ready")?;
    for _ in 0..messages {
        sleep(PAUSE);
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(CHANNEL).arg(now()).exec(&mut redis)?;
    }
    let mut hops = Vec::with_capacity(messages);
    for _ in 0..messages {
        hops.push(listener.line("after ")?.parse::<f64>()? / 1e3);
    }
    listener.end()?;
    Ok(hops)
}

/// The other process: receives these messages, and prints how long each took, in ns.
pub(crate) fn listen(url: &str, messages: &str) -> Result<(), Failure> {
    let messages: usize = messages.parse()?;
    let mut redis = Client::open(url)?.get_connection()?;
    let mut heard = redis.as_pubsub();
    heard.subscribe(CHANNEL)?;
    println!("ready");
    let mut hops = Vec::with_capacity(messages);
    for _ in 0..messages {
        let sent: u64 = heard.get_message()?.get_payload()?;
        hops.push(now().saturating_sub(sent));
    }
    for hop in hops {
        println!("after {hop}");
    }
    Ok(())
}
