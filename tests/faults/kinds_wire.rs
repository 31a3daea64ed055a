//! Faults of the wire, for every kind of lock: an acquire whose answer is lost, a release that comes
//! late, connections that break while waiters use them. What may be left is taken back, and no other
//! holder's entry with it. `unanswered` has acquires that are cut off or come late.

use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, Monitor, until, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest};
use dlock_tests::{KINDS, of_kind};

use crate::lab::{CAP, COMMAND, ITEM, LONG, Lab, ON_SERVER, SOON, is_held, requests, sha};
use crate::waiters::{AT_ONCE, WAIT, turn, waits};

/// The kinds that can have several holders.
fn shared() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter().filter(|(kind, _)| *kind != "fair")
}

fn item(pool: &LockPool, kind: &str) -> LockRequest {
    of_kind(pool.lock(ITEM), kind).ttl(LONG).wait(WAIT)
}

fn acquires(kind: &str) -> Matcher {
    let script = match kind {
        "fair" => "acquire",
        _ => "shared_acquire",
    };
    requests(script).containing(ON_SERVER)
}

/// Checks for a while that nothing takes an entry from the key.
async fn stays(lab: &Lab, guard: &LockGuard) {
    let dump = async || {
        lab.server
            .ask::<Option<Vec<u8>>>(&["DUMP", ON_SERVER])
            .await
    };
    let before = dump().await;
    assert!(before.is_some(), "a live lock is gone");
    for _ in 0..8 {
        assert_eq!(dump().await, before, "a live lock was touched");
        wait::pause(Duration::from_millis(20)).await;
    }
    is_held(guard).await;
}

/// The answer to its first attempt is lost, and nothing takes that back before the call ends: the
/// last attempt finds the key taken, by nobody else.
#[tokio::test]
async fn a_call_is_not_busy_because_of_its_own_attempt() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let plain = lab.pool_of(lab.config().without_scripts()).await;
    let kinds = KINDS.into_iter().map(|(kind, _)| kind).chain(["x"]);
    let scripts = kinds.map(|kind| (kind, item(&pool, kind), Matcher::script()));
    let others = [
        ("several", pool.lock_all([ITEM, "z"]), Matcher::script()),
        ("plain", plain.lock(ITEM), Matcher::command("EXEC")),
    ];
    for (name, request, acquires) in scripts.chain(others) {
        until("all are connected", CAP, async || {
            pool.ping().await.is_ok() && plain.ping().await.is_ok()
        })
        .await;
        lab.proxy.on(acquires, Action::CutReply(0));
        lab.proxy.on(requests("cancel").every(), Action::CutBefore);
        lab.proxy.on(requests("cancel").every(), Action::CutBefore);
        let ended = request.ttl(LONG).wait(COMMAND / 10).acquire().await;
        let is_own = matches!(ended, Ok(_) | Err(LockError::Unavailable { .. }));
        assert!(is_own, "{name}: {ended:?}");
        lab.proxy.clear_triggers();
        drop(ended);
        lab.until_free().await;
    }
}

/// How many hold the item, each with all its permits.
async fn holders(lab: &Lab, kind: &str) -> usize {
    if kind == "fair" {
        return 1;
    }
    let members: usize = lab.server.ask(&["ZCARD", ON_SERVER]).await;
    let each = if kind == "p:3/3" { 3 } else { 1 };
    members.saturating_sub(1) / each
}

fn executed(monitor: &Monitor, operation: &str) -> usize {
    let script = format!("\"EVALSHA\" \"{}\"", sha(operation));
    let lines = monitor.lines();
    lines.iter().filter(|line| line.contains(&script)).count()
}

/// F61, redisson#7334: a release that arrives when its entry is over, and others hold the lock.
#[tokio::test]
async fn a_release_that_comes_late_frees_nobody_else() {
    for (kind, others, busy) in [
        ("p:1/2", ["p:1/2", "p:1/2"], "p:1/2"),
        ("p:2/2", ["p:1/2", "p:1/2"], "p:1/2"),
        ("r", ["r", "r"], "w"),
        ("w", ["r", "r"], "w"),
        ("o:a", ["o:b", "o:b"], "o:a"),
    ] {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        let monitor = lab.server.monitor();
        let short = Duration::from_millis(500);
        let late = item(&pool, kind).ttl(short).acquire().await.unwrap();
        let held = lab.proxy.on(requests("shared_release"), Action::Hold);
        let releasing = tokio::spawn(late.release());
        held.seen().await;
        until("its lease is over", CAP, async || {
            lab.server.ask::<u64>(&["EXISTS", ON_SERVER]).await == 0
        })
        .await;
        let mut guards = Vec::new();
        for other in others {
            guards.push(item(&direct, other).acquire().await.unwrap());
        }
        lab.proxy.release_held();
        until("it came late", CAP, async || {
            executed(&monitor, "shared_release") >= 1
        })
        .await;
        let _ = releasing.await.unwrap();
        for guard in &guards {
            guard.verify().await.unwrap();
        }
        let one_more = item(&direct, busy).try_acquire().await.unwrap();
        assert!(one_more.is_none(), "{busy} beside {others:?}");
    }
}

/// Redisson #2522, #248: the queue entry and the address of the old connection are gone, and those
/// of a new one exist.
#[tokio::test]
async fn a_waiter_whose_connection_breaks_waits_on_with_one_place() {
    for (kind, held) in shared() {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        let holder = item(&direct, held).acquire().await.unwrap();
        let waiter = waits(item(&pool, kind));
        lab.until_queued(1).await;
        let old = lab.places().await;
        lab.proxy.cut_all();
        until("one place, another one", SOON, async || {
            let places = lab.places().await;
            places.len() == 1 && places != old
        })
        .await;
        let begun = Instant::now();
        holder.release().await.unwrap();
        let turn = turn(waiter).await;
        let took = turn.at.saturating_duration_since(begun);
        assert!(took < wait::scaled(AT_ONCE), "{kind}: {took:?}");
        turn.guard.release().await.unwrap();
        lab.until_free().await;
    }
}

/// Redisson #5761: pushes are lost. A poll finds the grant, whose lease counts from when the poll
/// was sent.
#[tokio::test]
async fn waiters_of_every_kind_whose_pushes_are_lost_find_their_grant() {
    for (kind, held) in shared() {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        let holder = item(&direct, held).acquire().await.unwrap();
        let waiter = waits(item(&pool, kind));
        lab.until_queued(1).await;
        let lost = lab.no_pushes();
        holder.release().await.unwrap();
        let turn = turn(waiter).await;
        assert!(lost.fired() > 0, "{kind}: it was told");
        lab.is_its(&turn.guard).await;
    }
}

/// Redisson #4744: granted after it was queued, and the answer to its acquire is lost: nothing is
/// held twice, or for ever.
#[tokio::test]
async fn a_grant_before_the_answer_to_its_acquire_is_taken_or_taken_back() {
    for (kind, held) in shared() {
        let lab = Lab::new();
        let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
        let direct = lab.direct().await;
        let holder = item(&direct, held).acquire().await.unwrap();
        let answer = lab.proxy.on(acquires(kind), Action::HoldReply);
        let waiter = waits(item(&pool, kind));
        answer.seen().await;
        holder.release().await.unwrap();
        assert_eq!(holders(&lab, kind).await, 1, "{kind}: it was granted");
        let cut = Instant::now();
        lab.proxy.cut_all();
        let turn = turn(waiter).await;
        let took = turn.at.saturating_duration_since(cut);
        assert!(took < wait::scaled(AT_ONCE), "{kind}: it expired: {took:?}");
        until("one holder", SOON, async || holders(&lab, kind).await == 1).await;
        stays(&lab, &turn.guard).await;
        turn.guard.release().await.unwrap();
        lab.until_free().await;
    }
}
