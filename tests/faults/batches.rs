//! Leases that are renewed in one command: what becomes of one does not affect the others.

use dlock_harness::wait;
use dlock_runtime::{LockGuard, LostCause};

use crate::lab::{CAP, Lab, SLACK, TTL, sha};

const LOCKS: usize = 50;

#[tokio::test]
async fn a_poisoned_key_hurts_no_other_of_its_batch() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    // At once, so that a slow machine renews them at once, too.
    let request = |n| pool.lock(format!("batch:{n}")).ttl(TTL).renew().acquire();
    let guards = futures_util::future::join_all((0..LOCKS).map(request)).await;
    let mut guards: Vec<LockGuard> = guards.into_iter().map(Result::unwrap).collect();
    let monitor = lab.server.monitor();
    let poison = [
        ("list", guards.remove(20)),
        ("deleted", guards.remove(10)),
        ("taken", guards.remove(5)),
    ];
    for (how, guard) in &poison {
        let key = guard.key().as_str();
        lab.server.cmd(&["DEL", key]).await;
        match *how {
            "list" => drop(lab.server.cmd(&["LPUSH", key, "theirs"]).await),
            "taken" => drop(lab.server.cmd(&["SET", key, "theirs", "PX", "60000"]).await),
            _ => {}
        }
    }
    for (how, guard) in &poison {
        let told = wait::within(TTL + SLACK, guard.lost()).await;
        assert_eq!(told, Some(LostCause::Gone), "{how}");
    }
    // The others go on for several more leases.
    for _ in 0..30 {
        wait::pause(TTL / 10).await;
        let lost: Vec<_> = guards.iter().filter(|guard| !guard.is_held()).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
    check_keys(&lab, &poison).await;
    assert_went_together(&monitor.settled().await, &poison[0].1);
    for guard in guards {
        guard.release().await.unwrap();
    }
    let rest: Vec<_> = poison
        .map(|(_, guard)| guard.key().as_str().to_owned())
        .into();
    dlock_harness::until("only theirs are left", CAP, async || {
        lab.locks().await.iter().all(|key| rest.contains(key))
    })
    .await;
}

/// Other programs' values stay, and what was deleted stays deleted.
async fn check_keys(lab: &Lab, poison: &[(&str, LockGuard); 3]) {
    let [(_, list), (_, deleted), (_, taken)] = poison;
    assert_eq!(
        lab.server.ask::<u64>(&["LLEN", list.key().as_str()]).await,
        1
    );
    assert_eq!(
        lab.server.pttl(deleted.key().as_str()).await,
        -2,
        "a renewal created it"
    );
    assert_eq!(
        lab.value(taken.key().as_str()).await.as_deref(),
        Some("theirs")
    );
    assert!(
        lab.server.pttl(taken.key().as_str()).await > 50_000,
        "a renewal touched it"
    );
}

/// The poisoned key was renewed in one command with others.
fn assert_went_together(lines: &[String], poisoned: &LockGuard) {
    let (renew, key) = (sha("renew"), format!("\"{}\"", poisoned.key().as_str()));
    let batch = lines
        .iter()
        .find(|line| line.contains(&renew) && line.contains(&key));
    let keys = batch.map_or(0, |line| line.matches("\"lock:batch:").count());
    assert!(keys > 10, "renewed together with {keys} keys: {batch:?}");
}
