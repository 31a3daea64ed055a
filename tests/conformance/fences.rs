//! Fencing tokens rise with every grant, however the previous hold ended.

use dlock_runtime::{Fence, LockPool};

use crate::backends::LONG;

on_every_backend!(
    fences_rise_across_releases,
    fences_rise_across_a_drop,
    a_lease_keeps_its_fence,
    a_fence_is_the_same_number_everywhere,
);

async fn take(pool: &LockPool) -> Fence {
    pool.lock("k")
        .ttl(LONG)
        .wait(LONG)
        .run(async |lock| lock.fence())
        .await
        .unwrap()
}

async fn fences_rise_across_releases(pool: LockPool) {
    let mut last = take(&pool).await;
    for _ in 0..20 {
        let next = take(&pool).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

async fn fences_rise_across_a_drop(pool: LockPool) {
    let first = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let fence = first.fence();
    drop(first);
    assert!(take(&pool).await > fence);
}

async fn a_lease_keeps_its_fence(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let fence = held.fence();
    held.extend(LONG * 2).await.unwrap();
    held.verify().await.unwrap();
    assert_eq!(held.fence(), fence);
}

async fn a_fence_is_the_same_number_everywhere(pool: LockPool) {
    let fence = take(&pool).await;
    assert_eq!(
        (u64::from(fence), fence.to_string()),
        (fence.get(), fence.get().to_string())
    );
    assert!(i64::try_from(fence.get()).is_ok(), "fits a signed column");
    // The low ten bits count local hand-offs: a grant has none.
    assert_eq!(fence.get() % 1024, 0);
    let year_2020 = 1_577_836_800_000_000;
    assert!(
        fence.get() / 1024 > year_2020,
        "above any counter that began at nothing"
    );
}
