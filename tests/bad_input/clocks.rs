//! A server whose clock keeps being set: the log reports it, and a check.

use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{Concern, Config, Finding, LockPool};

use crate::fake::Fake;
use crate::texts::{heard, listen};

const CAP: Duration = Duration::from_secs(20);

fn told(address: &str) -> Vec<String> {
    let is_told =
        |text: &String| text.contains("the server's clock was set") && text.contains(address);
    heard().into_iter().filter(is_told).collect()
}

#[tokio::test]
async fn a_clock_that_is_set_is_told() {
    listen();
    let server = Fake::setting_its_clock();
    let address = server.addr().to_string();
    // An idle connection asks for the time at this interval; one answer a second is examined.
    let often = Duration::from_millis(100);
    let config = Config::new(server.url()).health_check_interval(often);
    let pool = LockPool::connect(config).await.unwrap();
    until("it is told", CAP, async || !told(&address).is_empty()).await;
    let news = told(&address);
    // Several hours in ms, less the seconds in between.
    let hours = news[0].split("ms=").nth(1).unwrap();
    let millis: u64 = hours.split_whitespace().next().unwrap().parse().unwrap();
    assert!(millis >= 3_590_000, "{news:?}");
    let findings = pool.check().await.unwrap();
    let of_clock = findings.iter().filter(|it| it.concern() == Concern::Clock);
    let risks: Vec<&str> = of_clock.map(Finding::risk).collect();
    let [step, offset] = &risks[..] else {
        panic!("{risks:?}");
    };
    // As many hours as answers came since the one before that was examined.
    let seconds = step.split("was set forward by at least ").nth(1);
    let seconds: f64 = seconds.unwrap().split('s').next().unwrap().parse().unwrap();
    assert!(seconds >= 3_590.0, "{step}");
    assert!(offset.contains("behind this machine's"), "{offset}");
}
