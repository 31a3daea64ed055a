//! TLS to the sentinels and to the servers.

use dlock_harness::Watched;
use dlock_runtime::{LockPool, Refusal};
use dlock_tests::{patient, refusal};

use crate::failover::check_killed;

#[tokio::test]
async fn a_lock_is_held_and_handed_on_through_a_failover_over_tls() {
    check_killed(&Watched::start_with_tls().await).await;
}

#[tokio::test]
async fn sentinels_that_nobody_vouches_for_are_refused() {
    let watched = Watched::start_with_tls().await;
    let url = watched.url();
    let (without, _) = url.split_once('?').unwrap();
    let error = LockPool::connect(patient(without)).await.unwrap_err();
    let text = format!("{error:?}");
    assert_eq!(refusal(&error), Some(Refusal::Certificate), "{text}");
    assert!(text.contains("no majority of the sentinels"), "{text}");
}
