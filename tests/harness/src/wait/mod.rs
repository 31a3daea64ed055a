//! Waits for a condition, on the real clock, under a hard cap that fails the test by name.
//!
//! The pauses run on tokio's blocking pool. A runtime with a paused clock does not advance it while
//! blocking work is under way, so a test on virtual time can wait here for a real server without
//! its own timers going off.

use std::env;
use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

/// How often a condition is checked at first; less often the longer it takes, because a check at a
/// server costs CPU time that it may be waiting for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The pause before the next check of a condition that has been waited for since then.
fn next_pause(begun: Instant) -> Duration {
    (begun.elapsed() / 16).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

/// The factor for every cap: `DLOCK_TEST_SLOW`, 1 if unset. Set it on a machine that is busy or
/// slow.
#[must_use]
pub fn slow_factor() -> u32 {
    static FACTOR: OnceLock<u32> = OnceLock::new();
    *FACTOR.get_or_init(|| match env::var("DLOCK_TEST_SLOW") {
        Ok(text) => text
            .parse()
            .expect("DLOCK_TEST_SLOW must be a whole number, such as 5"),
        Err(_) => 1,
    })
}

/// `cap`, multiplied by [`slow_factor`] for this machine.
#[must_use]
pub fn scaled(cap: Duration) -> Duration {
    cap * slow_factor()
}

/// Checks `cond` every 2 ms, and after a second every 50 ms, until it is true. Panics with `what`
/// once the (scaled) cap is over, even if `cond` itself hangs.
///
/// ```no_run
/// # async fn example(server: &dlock_harness::RedisServer) {
/// use std::time::Duration;
/// dlock_harness::until("the key is gone", Duration::from_secs(1), async || server.keys().await.is_empty()).await;
/// # }
/// ```
pub async fn until(what: &str, cap: Duration, mut cond: impl AsyncFnMut() -> bool) {
    until_ok(what, cap, async || {
        cond().await.then_some(()).ok_or("false")
    })
    .await;
}

/// [`until`] the answer is `Ok`. The panic also shows what the last `Err` was.
pub async fn until_ok<E: Debug>(
    what: &str,
    cap: Duration,
    mut cond: impl AsyncFnMut() -> Result<(), E>,
) {
    let (begun, mut last) = (Instant::now(), None);
    let polling = async {
        while let Err(answer) = cond().await {
            last = Some(answer);
            pause(next_pause(begun)).await;
        }
    };
    let held = within(cap, polling).await;
    assert!(
        held.is_some(),
        "still not so after {:?}: {what} ({last:#?})",
        scaled(cap)
    );
}

/// [`until`] for synchronous code. A `cond` that hangs is not interrupted.
pub fn until_blocking(what: &str, cap: Duration, mut cond: impl FnMut() -> bool) {
    let (begun, cap) = (Instant::now(), scaled(cap));
    while !cond() {
        assert!(begun.elapsed() < cap, "still not so after {cap:?}: {what}");
        thread::sleep(next_pause(begun));
    }
}

/// The output of `work`, or `None` if it took longer than the (scaled) cap on the real clock.
pub async fn within<T>(cap: Duration, work: impl Future<Output = T>) -> Option<T> {
    let cap = scaled(cap);
    // If `work` is done first, dropping `armed` ends the alarm's thread at once.
    let (armed, disarmed) = mpsc::channel::<()>();
    let alarm = spawn_blocking(move || disarmed.recv_timeout(cap));
    let output = tokio::select! {
        biased;
        output = work => Some(output),
        _ = alarm => None,
    };
    drop(armed);
    output
}

/// Sleeps on the real clock, whatever the runtime's clock does. For the pace of a loop, never
/// instead of a condition.
pub async fn pause(length: Duration) {
    spawn_blocking(move || thread::sleep(length))
        .await
        .expect("a sleeping thread does not panic");
}

#[cfg(test)]
mod tests;
