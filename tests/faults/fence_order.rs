//! Fences of all kinds, with hand-offs within the process, many tasks, and a server that loses its
//! data or its counter: the fences of locks with one holder at a time rise from hold to hold, and
//! no number comes twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlock_runtime::LockPool;
use dlock_tests::{Seeded, of_kind, patient};
use tokio::task::JoinSet;

use crate::lab::{ITEM, LONG, Lab};

/// The kinds with one holder at a time, whose fences rise; `o` stands for a different owner in each
/// hold.
const RISING: [&str; 4] = ["x", "fair", "w", "o"];
/// The kinds with many holders, whose fences are unique.
const UNIQUE: [&str; 2] = ["r", "p:1/2"];

const ROUNDS: u64 = 5;
const TASKS: u64 = 4;
const HOLDS: u64 = 10;

/// The fences in the order in which the bodies ran.
type Seen = Arc<Mutex<Vec<u64>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_rise_through_handoffs_and_lost_data() {
    let lab = Lab::new();
    let pool = lab.pool_of(patient(lab.server.url())).await;
    let seen: Vec<Seen> = (0..RISING.len() + UNIQUE.len())
        .map(|_| Seen::default())
        .collect();
    let mut random = Seeded(22);
    for round in 0..ROUNDS {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            for (kind, seen) in RISING.into_iter().chain(UNIQUE).zip(&seen) {
                let salt = random.between(0, u64::MAX);
                let who = format!("{round}-{task}");
                tasks.spawn(holds(pool.clone(), kind, who, seen.clone(), Seeded(salt)));
            }
        }
        // Only the counter is deleted while locks are held and handed over; the keys stay.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(random.between(1, 8))).await;
            lab.server.cmd(&["DEL", "lock:@fence"]).await;
        }
        tasks.join_all().await;
        lab.server.cmd(&["FLUSHALL"]).await; // no lock is held: only the server's clock is left
    }
    let total = usize::try_from(ROUNDS * TASKS * HOLDS).unwrap();
    let (rising, unique) = seen.split_at(RISING.len());
    for (kind, seen) in RISING.into_iter().zip(rising) {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), total, "{kind}");
        let inversion = seen.windows(2).find(|pair| pair[0] >= pair[1]);
        assert_eq!(inversion, None, "{kind}");
    }
    for (kind, seen) in UNIQUE.into_iter().zip(unique) {
        let seen = seen.lock().unwrap();
        let different: BTreeSet<u64> = seen.iter().copied().collect();
        assert_eq!((seen.len(), different.len()), (total, total), "{kind}");
    }
    let handed_on = rising[0]
        .lock()
        .unwrap()
        .iter()
        .any(|fence| fence % 1024 != 0);
    assert!(handed_on, "nothing was handed on");
}

async fn holds(pool: LockPool, kind: &'static str, who: String, seen: Seen, mut random: Seeded) {
    for hold in 0..HOLDS {
        let named = match kind {
            "o" => format!("o:{who}-{hold}"),
            _ => kind.to_owned(),
        };
        let request = of_kind(pool.lock(format!("{ITEM}:{kind}")), &named)
            .ttl(LONG)
            .wait(LONG);
        let guard = request.acquire().await.unwrap();
        seen.lock().unwrap().push(guard.fence().get());
        if random.between(0, 3) == 0 {
            tokio::task::yield_now().await;
        }
        if random.between(0, 2) == 0 {
            guard.release().await.unwrap();
        } else {
            drop(guard);
        }
    }
}
