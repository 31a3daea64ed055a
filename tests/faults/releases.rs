//! A release during an outage, or of a lock that was gone; `unanswered` has those that are cut.

use std::time::Duration;

use dlock_harness::wait;
use dlock_runtime::{LostCause, Release};
use dlock_tests::of_kind;

use crate::body::lost;
use crate::lab::{ITEM, LONG, Lab, ON_SERVER};

#[tokio::test]
async fn a_key_released_during_an_outage_is_free_when_the_outage_ends() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
    lab.proxy.blackhole();
    drop(guard);
    // The outage has to last longer than the first attempts.
    wait::pause(Duration::from_secs(2)).await;
    assert_eq!(lab.locks().await.len(), 1);
    lab.proxy.pass();
    lab.until_free().await;
}

/// Another client deleted the lock while the body ran: the caller is told, not only the log.
#[tokio::test]
async fn a_strict_release_tells_of_a_lock_that_was_gone() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    for kind in ["x", "fair", "r", "w", "p:1/2", "o:a"] {
        for meanwhile in [&["DEL", ON_SERVER][..], &["SET", ON_SERVER, "theirs"]] {
            let request = |release| of_kind(pool.lock(ITEM), kind).ttl(LONG).release(release);
            for (release, is_told) in [(Release::Confirmed, false), (Release::Strict, true)] {
                let ended = request(release).run(async |_| {
                    lab.server.cmd(&["DEL", ON_SERVER]).await;
                    lab.server.cmd(meanwhile).await;
                    7
                });
                let ended = ended.await;
                if is_told {
                    assert_eq!(lost(ended), (LostCause::Gone, true), "{kind}");
                } else {
                    assert_eq!(ended.unwrap(), 7, "{kind}");
                }
                lab.server.cmd(&["DEL", ON_SERVER]).await;
            }
        }
    }
    let both = pool
        .lock_all([ITEM, "other"])
        .ttl(LONG)
        .release(Release::Strict);
    let one_is_gone = both.run(async |_| lab.server.cmd(&["DEL", ON_SERVER]).await);
    assert_eq!(lost(one_is_gone.await), (LostCause::Gone, true));
    lab.until_free().await;
}

/// It is unknown whether the lock was held to the end, and the error does not say that the call may
/// be repeated.
#[tokio::test]
async fn a_strict_release_without_a_clear_answer_says_so() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let request = || pool.lock(ITEM).ttl(LONG).release(Release::Strict);
    let error = request()
        .run(async |_| lab.proxy.blackhole())
        .await
        .unwrap_err();
    lab.proxy.pass();
    let said = format!("{error:?}");
    assert!(
        said.contains("may have been lost") && !said.contains("the body was stopped"),
        "{said}"
    );
    assert_eq!(lost(Err::<(), _>(error)), (LostCause::Unclear, true));
    lab.until_free().await;
    let held = request().acquire().await.unwrap();
    lab.proxy.blackhole();
    assert_eq!(lost(held.release().await), (LostCause::Unclear, true));
    lab.proxy.pass();
    lab.until_free().await;
}
