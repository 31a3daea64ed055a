//! Conditions, caps and the paused clock.

use std::future::pending;
use std::time::{Duration, Instant};

use super::{pause, until, until_blocking, within};

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn until_polls() {
    let mut looks = 0;
    until("the third look", LONG, async || {
        looks += 1;
        looks == 3
    })
    .await;
    until_blocking("the fifth look", LONG, || {
        looks += 1;
        looks == 5
    });
    assert_eq!(looks, 5);
}

#[tokio::test]
#[should_panic(expected = "pigs fly")]
async fn until_gives_up() {
    until("pigs fly", SHORT, async || false).await;
}

#[tokio::test]
#[should_panic(expected = "the server answers")]
async fn until_gives_up_on_a_condition_that_hangs() {
    until("the server answers", SHORT, async || pending().await).await;
}

#[test]
#[should_panic(expected = "pigs fly")]
fn until_blocking_gives_up() {
    until_blocking("pigs fly", SHORT, || false);
}

#[tokio::test]
async fn within_does_not_wait_for_its_cap() {
    assert_eq!(within(LONG, async { 7 }).await, Some(7));
    assert_eq!(within(SHORT, pending::<()>()).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_stands_still() {
    let virtual_start = tokio::time::Instant::now();
    let mut timer = Box::pin(tokio::time::sleep(SHORT));
    let start = Instant::now();
    pause(SHORT * 2).await;
    let gone = tokio::select! {
        () = &mut timer => true,
        held = within(SHORT, pending::<()>()) => held.is_some(),
    };
    assert!(!gone, "the timer went off");
    assert!(start.elapsed() >= SHORT * 3);
    assert_eq!(virtual_start.elapsed(), Duration::ZERO);
}
