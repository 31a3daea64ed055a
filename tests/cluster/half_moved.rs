//! Locks in a slot that is being moved for a long time: by its key alone a lock is taken, waited for
//! and given back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use dlock_harness::{Cluster, until};
use dlock_runtime::{
    AfterCrash, Batch, Config, Eviction, Fence, Finding, LockError, LockPool, LockRequest, Notice,
    Refusal, UnavailableCause, Wait,
};
use tokio::sync::oneshot;

use dlock_tests::served::{documented_cluster_rules, documented_user};
use dlock_tests::{KINDS, of_kind, refusal};

use crate::{CAP, only_counters_are_left, pool};

/// All keys here have this tag.
const TAG: &str = "{k}";

const WAIT: Wait = Wait::For(CAP);

async fn elsewhere(cluster: &Cluster) -> (u16, usize) {
    let slot = cluster.slot(TAG).await;
    (slot, (cluster.owner(slot).await + 1) % 3)
}

fn lock(pool: &LockPool, key: &str, kind: &str) -> LockRequest {
    let request = pool.lock(key).ttl(Duration::from_secs(5)).renew();
    of_kind(request.wait(WAIT), kind)
}

/// A pool as the user of the page, with no right more.
async fn pool_of_user(cluster: &Cluster) -> LockPool {
    for node in &cluster.nodes {
        documented_user(node, &documented_cluster_rules()).await;
    }
    let url = cluster.url().replacen("://", "://dlock:secret@", 1);
    let as_user = Config::new(url).command_timeout(Duration::from_secs(5));
    LockPool::connect(as_user).await.unwrap()
}

/// Taken, not taken beside another, waited for, given back, and taken again.
async fn goes_round(pools: &[LockPool; 2], (kind, against): (&str, &str), key: &str) {
    let [one, two] = pools;
    let first = lock(one, key, kind).acquire().await.unwrap();
    first.verify().await.unwrap();
    let busy = lock(two, key, against).try_acquire().await;
    assert!(!busy.is_ok_and(|it| it.is_some()), "{kind} {key}");
    let request = lock(two, key, against);
    let next = tokio::spawn(async move { request.acquire().await.unwrap() });
    until("it waits", CAP, async || two.status().unwrap().waiting == 1).await;
    let fence = first.fence();
    first.release().await.unwrap();
    let next = tokio::time::timeout(CAP, next).await.unwrap().unwrap();
    assert!(next.fence() > fence, "{kind} {key}");
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_every_kind_are_taken_while_their_slot_is_moving() {
    let cluster = Cluster::start(3).await;
    let pools = [pool_of_user(&cluster).await, pool_of_user(&cluster).await];
    // Its counter, then a lock, are at the source first, and at the target later.
    let held = lock(&pools[0], "{k}:held", "x").acquire().await.unwrap();
    let (slot, to) = elsewhere(&cluster).await;
    let mut steps = 0;
    cluster
        .migrate(slot, to, async || {
            steps += 1;
            for (number, kind) in KINDS.into_iter().enumerate() {
                goes_round(&pools, kind, &format!("{{k}}:{number}:{steps}")).await;
            }
            held.verify().await.unwrap();
        })
        .await;
    assert!(steps >= 3, "{steps} steps");
    for (number, kind) in KINDS.into_iter().enumerate() {
        goes_round(&pools, kind, &format!("{{k}}:{number}:after")).await;
    }
    held.release().await.unwrap();
    only_counters_are_left(&cluster).await;
}

/// Several in one step, a writer that becomes a reader, and a lock that stays for its `min_hold`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_locks_do_besides_they_do_while_their_slot_is_moving() {
    let cluster = Cluster::start(3).await;
    let pool = pool_of_user(&cluster).await;
    let held = lock(&pool, "{k}:held", "x").acquire().await.unwrap();
    let (slot, to) = elsewhere(&cluster).await;
    let between = async || {
        let all = ["{k}:1", "{k}:2", "{k}:3"];
        let guard = pool.lock_all(all).wait(WAIT).acquire().await.unwrap();
        let one = pool.lock(all[1]).try_acquire().await.unwrap();
        assert!(one.is_none());
        guard.release().await.unwrap();

        let writer = lock(&pool, "{k}:rw", "w").acquire().await.unwrap();
        writer.downgrade().await.unwrap();
        let other = lock(&pool, "{k}:rw", "r").acquire().await.unwrap();
        for guard in [writer, other] {
            guard.release().await.unwrap();
        }

        let min_hold = Duration::from_millis(300);
        for kind in ["x", "w", "o:one"] {
            let kept = lock(&pool, "{k}:least", kind).min_hold(min_hold);
            let begun = Instant::now(); // before the lock is granted, which takes several steps
            let guard = kept.acquire().await.unwrap();
            guard.release().await.unwrap();
            let next = lock(&pool, "{k}:least", "p:1/1").acquire().await.unwrap();
            assert!(begun.elapsed() >= min_hold * 5 / 6, "{kind}");
            next.release().await.unwrap();
        }
    };
    cluster.migrate(slot, to, between).await;
    held.release().await.unwrap();
    only_counters_are_left(&cluster).await;
}

/// An administrator sees the locks of both nodes, and ends a hold at either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrator_sees_the_locks_of_a_slot_that_is_moving() {
    let cluster = Cluster::start(3).await;
    let [pool, looks] = [pool(&cluster).await, pool(&cluster).await];
    let (mut held, mut keys) = (Vec::new(), BTreeSet::new());
    let kinds = KINDS.into_iter().chain([("x", "x")]);
    for (number, (kind, _)) in kinds.enumerate() {
        let key = format!("{{k}}:{number}");
        held.push(lock(&pool, &key, kind).acquire().await.unwrap());
        keys.insert(key);
    }
    let (slot, to) = elsewhere(&cluster).await;
    let (mut steps, mut listed) = (0, 0);
    let mut look = async || {
        steps += 1;
        let admin = looks.admin();
        let (mut list, mut seen) = (admin.list("{k}:*"), BTreeSet::new());
        listed = 0;
        while let Some(page) = list.next_page().await.unwrap() {
            listed += page.len();
            seen.extend(page.iter().map(|it| it.key().to_string()));
        }
        assert_eq!(seen, keys);
        for key in &keys {
            let shown = admin.show(&**key).await.unwrap().unwrap();
            assert_eq!(shown.holders().len(), 1, "{key}");
            assert!(looks.holder(&**key).await.unwrap().is_some(), "{key}");
        }
        for (number, (kind, _)) in KINDS.into_iter().enumerate() {
            let key = format!("{{k}}:evicted:{number}:{steps}");
            let evicted = lock(&pool, &key, kind).acquire().await.unwrap();
            let shown = admin.show(&*key).await.unwrap().unwrap();
            let holder = shown.holders()[0].fingerprint();
            let eviction = admin.evict(&*key, holder).await;
            assert_eq!(eviction.unwrap(), Eviction::Done(Notice::Sent), "{key}");
            evicted.verify().await.unwrap_err();
        }
    };
    look().await;
    cluster.migrate(slot, to, &mut look).await;
    look().await;
    assert_eq!(listed, keys.len(), "each once");
    for guard in held {
        guard.release().await.unwrap();
    }
    for key in &keys {
        assert!(looks.holder(&**key).await.unwrap().is_none(), "{key}");
    }
    only_counters_are_left(&cluster).await;
}

/// They stand in the queues when the slot begins to move: before its first key has moved, and later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_already_gets_the_lock_while_its_slot_is_moving() {
    let cluster = Cluster::start(3).await;
    let pools = [pool(&cluster).await, pool(&cluster).await];
    let held = lock(&pools[0], "{k}:held", "x").acquire().await.unwrap();
    let mut all = Vec::new();
    for (number, (kind, against)) in KINDS.into_iter().chain(KINDS).enumerate() {
        let key = format!("{{k}}:{number}");
        let first = lock(&pools[0], &key, kind).acquire().await.unwrap();
        let request = lock(&pools[1], &key, against);
        let next = tokio::spawn(async move { request.acquire().await.unwrap() });
        until("it waits", CAP, async || {
            pools[1].status().unwrap().waiting == number + 1
        })
        .await;
        all.push((first, next));
    }
    let (slot, to) = elsewhere(&cluster).await;
    let mut steps = 0;
    cluster
        .migrate(slot, to, async || {
            steps += 1;
            for _ in 0..if steps == 1 { KINDS.len() } else { 1 } {
                let Some((first, next)) = all.pop() else {
                    return;
                };
                let fence = first.fence();
                first.release().await.unwrap();
                let next = tokio::time::timeout(CAP, next).await.unwrap().unwrap();
                assert!(next.fence() > fence);
                next.release().await.unwrap();
            }
        })
        .await;
    assert!(all.is_empty());
    held.release().await.unwrap();
    only_counters_are_left(&cluster).await;
}

/// All or none, also where its keys are still at the first node.
#[tokio::test]
async fn a_guarded_write_waits_for_the_end_of_the_move() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    let held = lock(&pool, "{k}", "x").acquire().await.unwrap();
    let write = async |value: &str| {
        let batch = Batch::new().del("{k}:data").set("{k}:data", value);
        held.write(&batch).await
    };
    write("before").await.unwrap();
    let (slot, to) = elsewhere(&cluster).await;
    let mut steps = 0;
    cluster
        .migrate(slot, to, async || {
            steps += 1;
            write("during").await.unwrap_err();
        })
        .await;
    assert!(steps >= 3, "{steps} steps");
    let data: String = cluster.nodes[to].ask(&["GET", "{k}:data"]).await;
    assert_eq!(data, "before");
    write("after").await.unwrap();
    held.release().await.unwrap();
}

const PERIOD: Duration = Duration::from_secs(3600);

/// It holds the lock for longer than the slot moves.
fn job(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(CAP).once_per(PERIOD)
}

/// Whether the job ran, or is not due. `None`: it can't be known while its slot is moving.
async fn runs(request: LockRequest) -> Option<bool> {
    match request.run_once_per(async |_| Ok::<_, ()>(())).await {
        Err(LockError::NotDue { .. }) => Some(false),
        Err(LockError::Unavailable { cause, .. }) => {
            assert_eq!(cause, UnavailableCause::NotServed);
            None
        }
        ran => Some(ran.unwrap().is_ok()),
    }
}

/// The key of this lock, of its queue, its heartbeats and its record.
fn names(key: &str) -> [String; 4] {
    ["", "@w#", "@a#", "@r#"].map(|letter| format!("lock:{letter}{key}"))
}

/// A run ends while its slot is moving, and others of its job have waited for it since before, or come
/// meanwhile. Of some the record moves first, of the others all that a grant needs and not the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_while_its_slot_is_moving_is_recorded_once_it_has_moved() {
    let cluster = Cluster::start(3).await;
    let pools = [pool_of_user(&cluster).await, pool_of_user(&cluster).await];
    let (slot, to) = elsewhere(&cluster).await;
    let from = cluster.owner(slot).await;
    let begun = SystemTime::now();
    let (mut ends, mut running, mut waiting, mut keys) = (vec![], vec![], vec![], vec![]);
    let all = [AfterCrash::Again, AfterCrash::Skip]
        .map(|it| [(it, Ok(())), (it, Err(()))].map(|it| [(it, false), (it, true)]));
    for (number, row) in all.iter().flatten().flatten().enumerate() {
        let ((after_crash, outcome), _) = *row;
        let key = format!("{{k}}:{number}");
        let (end, ended) = oneshot::channel::<()>();
        let (begins, has_begun) = oneshot::channel();
        let run = job(&pools[0], &key).after_crash(after_crash);
        running.push(tokio::spawn(run.run_once_per(async move |lock| {
            begins.send(lock.fence()).unwrap();
            ended.await.unwrap();
            outcome
        })));
        keys.push((key.clone(), *row, has_begun.await.unwrap()));
        waiting.push(vec![tokio::spawn(runs(job(&pools[1], &key).wait(WAIT)))]);
        until("it waits", CAP, async || {
            pools[1].status().unwrap().waiting == number + 1
        })
        .await;
        ends.push(end);
    }
    let mut steps = 0;
    let between = async || {
        steps += 1;
        for (key, (_, is_record_first), _) in keys.iter().filter(|_| steps == 1) {
            let [lock, queue, heartbeats, record] = &names(key);
            let first = if *is_record_first {
                &[record][..]
            } else {
                &[lock, queue, heartbeats]
            };
            for key in first {
                cluster.move_key(key, (from, to)).await;
            }
        }
        let counter = format!("lock:@fence:{{{slot}}}");
        match steps {
            2 => cluster.move_key(&counter, (from, to)).await,
            3 => ends.drain(..).for_each(|end| end.send(()).unwrap()),
            4 => {
                for ((key, ..), waiting) in keys.iter().zip(&mut waiting) {
                    waiting.push(tokio::spawn(runs(job(&pools[0], key).wait(WAIT))));
                }
            }
            _ => {}
        }
        for (key, ((_, outcome), _), _) in &keys {
            let again = job(&pools[1], key).wait(Duration::ZERO);
            assert_eq!(runs(again).await, None, "{key}");
            let is_held = pools[1].holder(&**key).await.unwrap().is_some();
            assert!(
                is_held || outcome.is_err(),
                "{key} is free without its record"
            );
        }
    };
    cluster.migrate(slot, to, between).await;
    for it in running {
        it.await.unwrap().unwrap().ok(); // the clean-up ends it
    }
    for ((key, ((after_crash, outcome), is_first), fence), waits) in keys.into_iter().zip(waiting) {
        let what = format!("{key} {after_crash:?} {outcome:?} {is_first}");
        let mut ran = 0;
        for it in waits {
            let it = tokio::time::timeout(CAP, it).await.unwrap();
            ran += u32::from(it.unwrap().unwrap());
        }
        assert_eq!(ran, u32::from(outcome.is_err()), "{what}");
        let record = pools[0].admin().record(&*key).await.unwrap().unwrap();
        assert_eq!(
            record.fence() == Some(fence),
            outcome.is_ok(),
            "{what}: {record:?}"
        );
        assert_eq!(record.period(), Some(PERIOD));
        let (started, ended) = (record.started().unwrap(), record.ended().unwrap());
        let times = [begun, started, ended, SystemTime::now()];
        assert!(times.is_sorted(), "{what}: {times:?}");
        assert!(pools[0].holder(&*key).await.unwrap().is_none(), "{what}");
    }
}

/// Any of the keys of a lock that is held and waited for may be at either node, and its record too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_not_run_again_while_its_record_and_its_lock_are_at_different_nodes() {
    let cluster = Cluster::start(3).await;
    let pools = [pool_of_user(&cluster).await, pool_of_user(&cluster).await];
    let (slot, to) = elsewhere(&cluster).await;
    let from = cluster.owner(slot).await;
    let mut jobs = Vec::new();
    for moved in 0..8 {
        let key = format!("{{k}}:{moved}");
        assert_eq!(runs(job(&pools[0], &key)).await, Some(true));
        let held = pools[0].lock(&*key).ttl(CAP).acquire().await.unwrap();
        let next = pools[1].lock(&*key).wait(WAIT).run(async |_| ());
        let next = tokio::spawn(next);
        until("it waits", CAP, async || {
            pools[1].status().unwrap().waiting == moved + 1
        })
        .await;
        jobs.push((key, moved, Some((held, next))));
    }
    let mut steps = 0;
    let between = async || {
        steps += 1;
        for (key, moved, both) in &mut jobs {
            let [lock, queue, heartbeats, record] = names(key);
            let parts = [vec![lock], vec![queue, heartbeats], vec![record]];
            let first = parts.iter().enumerate();
            let first = first.filter(|(part, _)| steps == 1 && *moved >> part & 1 == 1);
            for key in first.flat_map(|(_, keys)| keys) {
                cluster.move_key(key, (from, to)).await;
            }
            if let Some((held, next)) = both.take_if(|_| steps == 3) {
                held.release().await.unwrap();
                next.await.unwrap().unwrap();
            }
            for pool in &pools {
                let again = job(pool, key).wait(Duration::ZERO);
                assert_eq!(runs(again).await, None, "{key} at step {steps}");
            }
        }
        let counter = format!("lock:@fence:{{{slot}}}");
        if steps == 1 {
            cluster.move_key(&counter, (from, to)).await;
        }
    };
    cluster.migrate(slot, to, between).await;
    assert!(steps > 3, "{steps} steps");
    for (key, ..) in &jobs {
        assert_eq!(runs(job(&pools[1], key)).await, Some(false), "{key}");
    }
}

/// What to do about it stands in the error.
#[tokio::test]
async fn without_the_right_to_be_sent_on_the_error_names_it() {
    let cluster = Cluster::start(3).await;
    let pool = pool_of_user(&cluster).await;
    let held = lock(&pool, "{k}:held", "x").acquire().await.unwrap();
    for node in &cluster.nodes {
        node.cmd(&["ACL", "SETUSER", "dlock", "-asking"]).await;
    }
    // A check finds it before a slot moves.
    let findings = pool.check().await.unwrap();
    let names_it = |it: &Finding| it.advice().contains("ACL SETUSER <user> +asking");
    assert!(findings.iter().any(names_it), "{findings:?}");
    let (slot, to) = elsewhere(&cluster).await;
    cluster
        .migrate(slot, to, async || {
            let free = pool.lock("{k}").try_acquire().await;
            let Err(LockError::Refused { source, .. }) = free else {
                panic!("{free:?}");
            };
            assert!(source.to_string().contains("asking"), "{source}");
        })
        .await;
    held.release().await.unwrap();
}

/// As in a slot at rest, nothing is left of what was taken before the server refused.
#[tokio::test]
async fn what_a_server_refuses_it_refuses_while_the_slot_is_moving() {
    let cluster = Cluster::start(3).await;
    let pool = pool_of_user(&cluster).await;
    let (slot, to) = elsewhere(&cluster).await;
    let refused = async |reason: Refusal| {
        for kind in ["x", "r", "w", "p:1/3", "o:one"] {
            for wait in [Wait::Once, WAIT] {
                let request = of_kind(pool.lock("{k}").wait(wait), kind);
                let error = request.acquire().await.unwrap_err();
                assert_eq!(refusal(&error), Some(reason), "{kind}: {error:?}");
            }
        }
        only_counters_are_left(&cluster).await;
    };
    cluster
        .migrate(slot, to, async || {
            for node in &cluster.nodes {
                node.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
            }
            refused(Refusal::OutOfMemory).await;
            for node in &cluster.nodes {
                node.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
                node.cmd(&["ACL", "SETUSER", "dlock", "-set"]).await;
            }
            refused(Refusal::NoPermission).await;
            for node in &cluster.nodes {
                node.cmd(&["ACL", "SETUSER", "dlock", "+set"]).await;
            }
        })
        .await;
}

/// Counts one holder less.
struct Leaves(Arc<AtomicU32>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tasks of three processes, as it were, want one lock; some are aborted wherever they are. Each step
/// of the move waits until the lock has changed hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_overlaps_while_a_slot_is_moving_and_callers_go_away() {
    let cluster = Cluster::start(3).await;
    let pools = [
        pool(&cluster).await,
        pool(&cluster).await,
        pool(&cluster).await,
    ];
    let (inside, highest) = (
        Arc::<AtomicU32>::default(),
        Arc::<Mutex<Option<Fence>>>::default(),
    );
    let (done, ended) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
    let hold = {
        let (inside, highest, done) = (inside.clone(), highest.clone(), done.clone());
        async move |pool: LockPool| {
            let request = lock(&pool, "{k}", "x");
            let guard = request.wait(Wait::Forever).acquire().await.unwrap();
            {
                let mut highest = highest.lock().unwrap();
                assert!(*highest < Some(guard.fence()));
                *highest = Some(guard.fence());
            }
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
            let leaves = Leaves(inside.clone()); // before the guard, also if the task is aborted here
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(leaves);
            done.fetch_add(1, Ordering::SeqCst);
            let _ = guard.release().await; // or by the watchdog
        }
    };
    let workers: Vec<_> = (0..9_u32)
        .zip(pools.iter().cycle())
        .map(|(number, pool)| {
            let (pool, hold, ended) = (pool.clone(), hold.clone(), ended.clone());
            tokio::spawn(async move {
                let mut seed = u64::from(number);
                while !ended.load(Ordering::Relaxed) {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let impatient = Duration::from_micros(seed >> 50); // up to 16 ms
                    let hold = hold(pool.clone());
                    if number >= 6 {
                        let _ = tokio::time::timeout(impatient, hold).await;
                    } else {
                        hold.await;
                    }
                }
            })
        })
        .collect();
    for _ in 0..4 {
        let (slot, to) = elsewhere(&cluster).await;
        cluster
            .migrate(slot, to, async || {
                let before = done.load(Ordering::SeqCst);
                until("the lock changed hands", CAP, async || {
                    done.load(Ordering::SeqCst) > before + 10
                })
                .await;
            })
            .await;
    }
    ended.store(true, Ordering::Relaxed);
    for worker in workers {
        tokio::time::timeout(CAP, worker).await.unwrap().unwrap();
    }
    only_counters_are_left(&cluster).await;
}
