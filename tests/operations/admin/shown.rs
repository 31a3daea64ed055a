//! Each kind of lock as it is: who holds it, who waits, since when, for how long.

use std::time::Duration;

use dlock_runtime::{
    Fence, HoldKind, Holder, HolderReport, LockGuard, LockKind, LockPool, LockReport, Process,
    WaiterReport,
};

use dlock_tests::patient;

use super::{LONG, Lab, granted, held, pool, show, wait};

/// Host, process and function of a holder in this test.
fn is_of_this_test(holder: &Holder) {
    let Holder::Process(process) = holder else {
        panic!("{holder}");
    };
    assert!(!process.host().is_empty());
    assert_eq!(process.pid(), std::process::id());
    assert!(process.function().contains("shown.rs:"), "{process:?}");
    assert!(process.is_this_process());
}

fn is_fresh(holder: &HolderReport) {
    is_of_this_test(holder.holder());
    let remaining = holder.remaining().unwrap();
    let most = LONG + Duration::from_millis(250); // without scripts a key stays longer than its ttl
    assert!(remaining <= most && remaining > LONG / 2, "{remaining:?}");
    assert!(holder.age().unwrap() < LONG / 2, "{:?}", holder.age());
    assert!(!holder.is_kept());
}

fn kinds(lock: &LockReport) -> Vec<String> {
    let kinds = lock.holders().iter().map(|it| it.kind().to_string());
    kinds.collect()
}

/// No fence of a holder is above what the report says.
fn bounds(lock: &LockReport, guards: &[&LockGuard]) {
    let highest: Fence = guards.iter().map(|it| it.fence()).max().unwrap();
    assert!(lock.fence_at_most() >= highest);
}

#[tokio::test]
async fn an_exclusive_lock_and_a_fair_queue_of_two_processes() {
    let lab = Lab::new().await;
    assert_eq!(lab.admin.show("ticket:7").await.unwrap(), None);
    let guard = held(lab.here.lock("ticket:7")).await;
    let _first = wait(&lab.admin, lab.there.lock("ticket:7").fair(), "ticket:7", 1).await;
    let _second = wait(&lab.admin, lab.here.lock("ticket:7").fair(), "ticket:7", 2).await;
    let _third = wait(&lab.admin, lab.there.lock("ticket:7").fair(), "ticket:7", 3).await;
    lab.shows(include_str!("../../../docs/kinds/fair.md")).await;

    let lock = show(&lab.admin, "ticket:7").await;
    assert_eq!(lock.key(), "ticket:7");
    assert_eq!(lock.kind(), Some(&LockKind::Exclusive));
    assert!(lock.is_whole());
    assert_eq!((lock.holder_count(), lock.waiter_count()), (1, 3));
    let [holder] = lock.holders() else {
        panic!("{lock:?}");
    };
    is_fresh(holder);
    assert_eq!(holder.kind(), &HoldKind::Exclusive);
    let left = lock.remaining().unwrap();
    assert!(left <= LONG && left > LONG / 2, "{left:?}");
    bounds(&lock, &[&guard]);
    assert_eq!(lock.fence(), None, "only its holder knows it");

    let [first, second, third] = lock.waiters() else {
        panic!("{lock:?}");
    };
    for waiter in [first, second, third] {
        is_of_this_test(waiter.waiter());
        assert_eq!(waiter.kind(), &HoldKind::Exclusive);
        assert!(!waiter.is_silent());
        assert!(waiter.waiting() < LONG);
    }
    assert!(first.waiting() >= second.waiting() && second.waiting() >= third.waiting());
    assert_eq!(lock.waiting(), Some(first.waiting()));
    let mut names = [
        holder.fingerprint(),
        first.fingerprint(),
        second.fingerprint(),
    ];
    names.sort();
    assert!(names[0] < names[1] && names[1] < names[2], "{names:?}");
}

#[tokio::test]
async fn an_owners() {
    let lab = Lab::new().await;
    let owned = |owner| lab.here.lock("order:7").reentrant().owner(owner);
    let one = held(owned("checkout w1")).await;
    let _other = held(lab.there.lock("order:7").reentrant().owner("checkout w1")).await;
    let _waiter = wait(&lab.admin, owned("w2"), "order:7", 1).await;
    let lock = show(&lab.admin, "order:7").await;
    assert_eq!(
        lock.kind(),
        Some(&LockKind::Owner("checkout w1".to_owned()))
    );
    assert_eq!(kinds(&lock), ["owner checkout w1", "owner checkout w1"]);
    assert_eq!(lock.fence(), Some(one.fence()));
    assert_eq!(lock.waiters()[0].kind(), &HoldKind::Owner("w2".to_owned()));
    lock.holders().iter().for_each(is_fresh);
}

#[tokio::test]
async fn readers_and_a_writer_who_waits() {
    let lab = Lab::new().await;
    let key = "catalogue:1";
    let one = held(lab.here.lock(key).read()).await;
    let other = held(lab.there.lock(key).read()).await;
    let writer = wait(&lab.admin, lab.there.lock(key).write(), key, 1).await;
    lab.shows(include_str!("../../../docs/kinds/read-write.md"))
        .await;
    let lock = show(&lab.admin, key).await;
    assert_eq!(lock.kind(), Some(&LockKind::ReadWrite));
    assert_eq!(kinds(&lock), ["read", "read"]);
    assert_eq!(lock.waiters()[0].kind(), &HoldKind::Write);
    assert_eq!(lock.fence(), None);
    bounds(&lock, &[&one, &other]);
    lock.holders().iter().for_each(is_fresh);

    for reader in [one, other] {
        reader.release().await.unwrap();
    }
    let waited = lock.waiters()[0].fingerprint();
    let _writer = granted(writer).await;
    let lock = show(&lab.admin, key).await;
    assert_eq!(kinds(&lock), ["write"]);
    assert_eq!(lock.holders()[0].fingerprint(), waited);
}

#[tokio::test]
async fn permits() {
    let lab = Lab::new().await;
    let render = |pool: &LockPool, take| pool.lock("render").permits(5).take(take);
    let _two = held(render(&lab.here, 2)).await;
    let _one = held(render(&lab.there, 1)).await;
    let _waiter = wait(&lab.admin, render(&lab.there, 4), "render", 1).await;
    lab.shows(include_str!("../../../docs/kinds/permits.md"))
        .await;
    let lock = show(&lab.admin, "render").await;
    assert_eq!(lock.kind(), Some(&LockKind::Permits));
    let mut kinds = kinds(&lock);
    kinds.sort();
    assert_eq!(kinds, ["1 of 5 permits", "2 of 5 permits"]);
    assert_eq!((lock.holder_count(), lock.is_whole()), (2, true));
    assert_eq!(lock.waiters()[0].kind().to_string(), "4 of 5 permits");
    lock.holders().iter().for_each(is_fresh);
}

#[tokio::test]
async fn what_min_hold_keeps() {
    let lab = Lab::new().await;
    for (key, is_shared) in [("nightly", false), ("weekly", true)] {
        let request = lab.here.lock(key).min_hold(LONG);
        let request = if is_shared { request.read() } else { request };
        held(request).await.release().await.unwrap();
        let lock = show(&lab.admin, key).await;
        let [kept] = lock.holders() else {
            panic!("{lock:?}");
        };
        assert!(kept.is_kept());
        is_of_this_test(kept.holder());
    }
}

/// More holders and waiters than one command reads.
#[tokio::test]
async fn every_one_of_many() {
    let lab = Lab::new().await;
    let fill = "for i = 1, 600 do \
        redis.call('ZADD', KEYS[1], ARGV[1] + i, '1|r|' .. i .. '-a-1||60000|0|0||host|' .. i .. '|f|0') \
        redis.call('ZADD', KEYS[2], i, '1|w|' .. i .. '-b-1||60000|0|0||host|' .. i .. '|f|0') \
        redis.call('ZADD', KEYS[3], i % 2 * ARGV[1] + i, '1|w|' .. i .. '-b-1||60000|0|0||host|' .. i .. '|f|0') \
        end redis.call('ZADD', KEYS[1], 'inf', '1|#|rw')";
    let [lock, queue, beats] = ["lock:all", "lock:@w:{lock:all}", "lock:@a:{lock:all}"];
    let ends = "9000000000000000";
    let words = ["EVAL", fill, "3", lock, queue, beats, ends];
    lab.server.cmd(&words).await;
    let lock = show(&lab.admin, "all").await;
    assert!(lock.is_whole());
    assert_eq!((lock.holder_count(), lock.waiter_count()), (600, 600));
    let pid = |holder: &Holder| match holder {
        Holder::Process(process) => process.pid(),
        _ => 0,
    };
    let holders = lock.holders().iter().map(|it| pid(it.holder()));
    assert!(holders.eq(1..=600), "in the order of their ends");
    let waiters = lock.waiters().iter().map(|it| pid(it.waiter()));
    assert!(waiters.eq(1..=600), "in the order of the queue");
    let silent = lock.waiters().iter().filter(|it| it.is_silent());
    assert!(
        silent
            .map(|it| pid(it.waiter()))
            .eq((1..=300).map(|it| 2 * it))
    );

    let [listed] = &super::list(&lab.admin, "al*").await[..] else {
        panic!("one lock");
    };
    assert!(!listed.is_whole());
    assert_eq!((listed.holder_count(), listed.waiter_count()), (600, 600));
    assert_eq!(pid(listed.waiters()[0].waiter()), 1);
}

#[tokio::test]
async fn in_memory_and_without_scripts() {
    let lab = Lab::with(dlock_runtime::Config::without_scripts).await;
    let memory = pool("memory://".into()).await;
    for (pool, admin) in [(&lab.here, &lab.admin), (&memory, &memory.admin())] {
        let guard = held(pool.lock("item:7")).await;
        let _waiter = wait(admin, pool.lock("item:7"), "item:7", 1).await;
        let lock = show(admin, "item:7").await;
        assert_eq!(lock.kind(), Some(&LockKind::Exclusive));
        lock.holders().iter().for_each(is_fresh);
        bounds(&lock, &[&guard]);
        let waiters: Vec<&Holder> = lock.waiters().iter().map(WaiterReport::waiter).collect();
        assert_eq!(waiters.len(), 1);
        is_of_this_test(waiters[0]);
        assert_eq!(
            super::keys(&super::list(admin, "it?m:[0-9]").await),
            ["item:7"]
        );
    }
    let _reader = held(memory.lock("r").read()).await;
    let _three = held(memory.lock("p").permits(5).take(3)).await;
    let owner = held(memory.lock("o").reentrant().owner("w1")).await;
    let admin = memory.admin();
    assert_eq!(show(&admin, "r").await.kind(), Some(&LockKind::ReadWrite));
    assert_eq!(kinds(&show(&admin, "p").await), ["3 of 5 permits"]);
    assert_eq!(show(&admin, "o").await.fence(), Some(owner.fence()));
}

/// Answers have other shapes with RESP2, and a limit on commands in flight sends them otherwise.
#[tokio::test]
async fn with_other_connections() {
    let lab = Lab::new().await;
    let _one = held(lab.here.lock("catalogue").read()).await;
    let _two = held(lab.there.lock("catalogue").read()).await;
    let _waiter = wait(
        &lab.admin,
        lab.there.lock("catalogue").write(),
        "catalogue",
        1,
    )
    .await;
    let _exclusive = held(lab.here.lock("item:7")).await;
    let usual = show(&lab.admin, "catalogue").await;
    let resp2 = patient(format!("{}?protocol=resp2", lab.server.url()));
    let limited = patient(lab.server.url()).max_in_flight(2);
    for config in [resp2, limited] {
        let admin = pool(config).await.admin();
        let lock = show(&admin, "catalogue").await;
        assert_eq!(kinds(&lock), kinds(&usual));
        let names = |lock: &LockReport| {
            let holders = lock.holders().iter().map(HolderReport::fingerprint);
            let waiters = lock.waiters().iter().map(WaiterReport::fingerprint);
            holders.chain(waiters).collect::<Vec<_>>()
        };
        assert_eq!(names(&lock), names(&usual));
        let listed = super::list(&admin, "*").await;
        assert_eq!(super::keys(&listed), ["catalogue", "item:7"]);
    }
}

/// A page of an administrator's service may keep them and pass them on.
#[tokio::test]
async fn everything_can_be_sent_to_another_task() {
    fn is_shared<T: Send + Sync + std::fmt::Debug + 'static>(_: &T) {}
    let memory = pool("memory://".into()).await;
    let _guard = held(memory.lock("item:7")).await;
    let (admin, mut list, mut watch) = {
        let admin = memory.admin();
        (admin.clone(), admin.list("*"), admin.watch("*"))
    };
    is_shared(&admin);
    is_shared(&list);
    is_shared(&watch);
    let looks = tokio::spawn(async move {
        let page = list.next_page().await.unwrap().unwrap();
        let change = watch.next().await.unwrap();
        let holder = page[0].holders()[0].fingerprint();
        let done = admin.evict("item:7", holder).await.unwrap();
        (page, change, done)
    });
    is_shared(&looks.await.unwrap());
}

/// What a holder says about itself is the same as in an error.
#[tokio::test]
async fn the_holder_is_that_of_pool_holder() {
    let lab = Lab::new().await;
    let _guard = held(lab.here.lock("item:7")).await;
    let lock = show(&lab.admin, "item:7").await;
    let holder = lab.there.holder("item:7").await.unwrap();
    assert_eq!(holder.as_ref(), Some(lock.holders()[0].holder()));
    let Some(Holder::Process(process)) = holder else {
        panic!("a process");
    };
    let since = Process::since(&process).elapsed().unwrap_or_default();
    assert!(since < Duration::from_secs(60));
}
