//! Tests of what can't be seen from outside the driver: a lease's cell, that the token table gets
//! empty, and who is named as the holder. The rest is tested as users see it, in the `tests` package.

use std::cell::Cell;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;

use super::guard::LockGuard;
use super::lease_cell::LeaseCell;
use super::locked_future;
use super::shutdown::shut_down;
use super::waiting::{FirstAcquire, Leader};
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::local_queue::Grant;
use crate::client::spec::AcquireSpec;
use crate::client::tokens::{Attempt, Census};
use crate::client::{AcquireRefusal, Client, InTheWay, SentAcquire, in_the_way};
use crate::driver::pool::LockPool;
use crate::link::clock::Clock;
use crate::rules::commands::{Acquire, Busy, Claim, GivenBack, Left};
use crate::values::bounds::Bounds;
use crate::values::config::Config;
use crate::values::entry::LEFT_TO_A_WRITER;
use crate::values::error::LostCause;
use crate::values::holder::Holder;
use crate::values::key::{Key, KeyBuilder};
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::Token;
use crate::values::ttl::{Margin, Ttl};
use crate::values::wait::Wait;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a process keeps for each lock that it holds, besides the entry's text and two names: a pool
/// may hold a hundred thousand. What grows here should have a reason.
#[test]
fn a_held_lock_is_small() {
    assert!(size_of::<LockGuard>() <= 64);
    assert!(size_of::<AcquireSpec>() <= 200); // with the period of a job
    assert!(size_of::<LeaseCell>() <= 200);
}

/// With its owner, the box of a release has 264 bytes, as that of a first acquire has. In another
/// size class of the allocator neither could have the memory that the other has left, and with 256
/// tasks a cycle then takes some 2 % more instructions.
#[tokio::test]
async fn a_release_fits_where_an_acquire_was() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (core, spec) = pool.lock("item:7").spec().unwrap();
    let now = core.now();
    let acquire = FirstAcquire::size(Leader::new(core, spec, 1), now);
    let guard = pool.lock("item:7").acquire().await.unwrap();
    let release = locked_future::size_of_release(guard);
    assert_eq!((acquire, release), (264, 264));
}

/// The key's text stands once, however many commands and tables name it.
#[tokio::test]
async fn a_lock_keeps_its_name_once() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let template = KeyBuilder::of("item:<id>").text("item:").value(&7).finish();
    for key in [Key::from("item:7"), template] {
        let (_, spec) = pool.lock(key).spec().unwrap();
        assert!(Arc::ptr_eq(spec.key.name(), spec.name()));
    }
}

/// A lease of 100 ms, of which 97 count, on tokio's paused clock.
fn cell() -> Arc<LeaseCell> {
    cell_within(Bounds::default())
}

fn cell_within(bounds: Bounds) -> Arc<LeaseCell> {
    cell_of(bounds, false)
}

fn cell_of(bounds: Bounds, stops_at_shutdown: bool) -> Arc<LeaseCell> {
    let (clock, ttl) = (Clock::pausable(), Ttl::new(ms(100)).unwrap());
    let terms = LeaseTerms {
        ttl,
        renew: None,
        bounds,
        margin: Margin::DEFAULT,
    };
    let lease = Lease::granted(clock.now(), ttl.get(), &terms);
    let attempt = Attempt {
        token: Token::of_test(1),
        claim: Claim {
            is_once: false,
            key: "lock:x".into(),
            value: "1".into(),
            queues: true,
        },
    };
    let spec = AcquireSpec::of_test("lock:x", terms);
    let spec = Arc::new(AcquireSpec {
        stops_at_shutdown,
        ..Arc::into_inner(spec).unwrap()
    });
    let cell = LeaseCell::new(Home::here(), &spec, attempt, clock, &lease);
    Arc::new(cell)
}

/// No program without dlock is blamed for what a node does for a writer.
#[test]
fn a_reader_learns_that_a_free_lock_is_left_to_a_writer() {
    let busy = Busy {
        time: 0,
        left: Left::For(ms(500)),
        value: LEFT_TO_A_WRITER.to_owned(),
    };
    let InTheWay::Somebody { holder, left } = in_the_way(&busy) else {
        panic!("it can be waited for");
    };
    assert_eq!((holder, left), (Holder::WaitingWriter, ms(500)));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_held_until_its_deadline_and_no_longer() {
    let cell = cell();
    advance(ms(96)).await;
    assert_eq!(
        (cell.is_held(), cell.remaining(), cell.why_lost()),
        (true, ms(1), None)
    );
    advance(ms(1)).await;
    assert_eq!((cell.is_held(), cell.remaining()), (false, ms(0)));
    assert_eq!(
        cell.why_lost(),
        Some(LostCause::Deadline),
        "time alone is reason enough"
    );
}

#[tokio::test(start_paused = true)]
async fn an_extension_never_shortens() {
    let cell = cell();
    assert!(cell.extend(cell.deadline().plus(ms(50)), LostCause::Deadline));
    assert_eq!(cell.remaining(), ms(147));
    assert!(cell.extend(Clock::pausable().now().plus(ms(10)), LostCause::Deadline));
    assert_eq!(cell.remaining(), ms(147));
}

/// Also if nothing checked the lease in between.
#[tokio::test(start_paused = true)]
async fn an_extension_after_the_deadline_brings_nothing_back() {
    let cell = cell();
    advance(ms(97)).await;
    let later = cell.deadline().plus(ms(50));
    assert!(!cell.extend(later, LostCause::MaxHold));
    assert!(!cell.is_held() && cell.remaining() == ms(0));
    assert_eq!(cell.why_lost(), Some(LostCause::Deadline));
}

/// The lease says which bound its deadline is, and each extension says it anew.
#[tokio::test(start_paused = true)]
async fn a_lease_that_runs_out_says_which_bound_it_met() {
    let max_hold = Some(ms(50));
    let short = cell_within(Bounds {
        max_hold,
        ..Bounds::default()
    });
    advance(ms(50)).await;
    assert_eq!(short.why_lost(), Some(LostCause::MaxHold));

    for cause in [
        LostCause::Deadline,
        LostCause::MaxHold,
        LostCause::MaxRenewals,
    ] {
        let cell = cell();
        assert!(cell.extend(cell.deadline().plus(ms(50)), cause));
        advance(ms(147)).await;
        let told = cell.wait_lost();
        assert_eq!((cell.why_lost(), told.await), (Some(cause), cause));
        let later = cell.deadline().plus(ms(50));
        assert!(!cell.extend(later, LostCause::Deadline), "too late");
        assert_eq!(cell.why_lost(), Some(cause), "and it stays so");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_never_held_again_and_the_first_cause_counts() {
    let cell = cell();
    assert!(cell.lose(LostCause::Gone));
    assert!(!cell.lose(LostCause::Watchdog), "it was over already");
    let later = cell.deadline().plus(ms(1000));
    assert!(!cell.extend(later, LostCause::Deadline));
    assert_eq!(
        (cell.is_held(), cell.remaining(), cell.why_lost()),
        (false, ms(0), Some(LostCause::Gone))
    );
    assert_eq!(
        cell.wait_lost().await,
        LostCause::Gone,
        "also who asks late"
    );
}

/// To its holder the lease is lost; but the server has it, so it is renewed until the body has ended,
/// and may be lost in earnest.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_body_that_must_stop_goes_on() {
    let cell = cell_of(Bounds::default(), true);
    cell.inner_begins();
    cell.stop();
    assert!(cell.is_held(), "not while a locked body runs inside");
    cell.inner_ended();
    cell.stop();
    assert_eq!((cell.is_held(), cell.remaining()), (false, ms(0)));
    assert_eq!(cell.why_lost(), Some(LostCause::ShutDown));
    assert_eq!(cell.wait_lost().await, LostCause::ShutDown);
    assert!(cell.extend(cell.deadline().plus(ms(50)), LostCause::MaxHold));
    assert_eq!(cell.why_gone(), LostCause::Gone, "should it find nothing");
    advance(ms(147)).await;
    assert_eq!(cell.why_lost(), Some(LostCause::MaxHold));
    cell.stop();
    assert_eq!(cell.why_lost(), Some(LostCause::MaxHold), "and it stays so");

    let kept = self::cell();
    kept.stop();
    assert!(
        kept.is_held(),
        "it is a guard's, or that of a body that may not be stopped"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_released_is_not_held_and_not_lost() {
    let cell = cell();
    assert!(cell.release() && !cell.release(), "once");
    assert!(!cell.is_held() && cell.remaining() == ms(0));
    assert!(!cell.lose(LostCause::Deadline), "nobody is told of it");
    assert!(
        tokio::time::timeout(ms(10_000), cell.wait_lost())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_are_told() {
    let cell = cell();
    let waiters: Vec<_> = (0..3).map(|_| cell.clone()).collect();
    let waiters = waiters
        .into_iter()
        .map(|cell| tokio::spawn(async move { cell.wait_lost().await }));
    let waiters: Vec<_> = waiters.collect();
    tokio::task::yield_now().await;
    cell.lose(LostCause::Watchdog);
    for waiter in waiters {
        assert_eq!(waiter.await.unwrap(), LostCause::Watchdog);
    }
    let freed = GivenBack {
        is_recorded: false,
        found: true,
        rest: 2,
        is_open: false,
    };
    cell.freed(Some(freed));
    cell.freed(None);
    assert_eq!(
        cell.wait_freed().await,
        Some(freed),
        "the first word counts"
    );
}

/// Each way in which a lock can end, one after the other: none leaves anything in the table.
#[tokio::test(start_paused = true)]
async fn the_table_is_empty_when_nothing_is_held() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let lock = || pool.lock("k").ttl(ms(300)).renew();
    let held = lock().acquire().await.unwrap();
    assert_eq!(
        pool.core().census(),
        Census {
            held: 1,
            ..Census::default()
        }
    );
    assert!(lock().wait(Wait::Once).acquire().await.is_err());
    assert_eq!(
        pool.core().census().held,
        1,
        "who asked in vain left nothing"
    );
    held.release().await.unwrap();
    assert_eq!(pool.core().census(), Census::default());

    drop(lock().acquire().await.unwrap());
    assert_eq!(
        pool.core().census(),
        Census::default(),
        "memory:// cleans up at once"
    );

    let lapsed = pool.lock("k").ttl(ms(50)).acquire().await.unwrap();
    lapsed.lost().await;
    assert_eq!(pool.core().census(), Census::default());

    let forgotten = lock().acquire().await.unwrap();
    let waiter = tokio::time::timeout(ms(1000), lock().wait(Wait::Forever).acquire());
    assert!(waiter.await.is_err(), "given up");
    assert_eq!(
        pool.core().census(),
        Census {
            held: 1,
            ..Census::default()
        }
    );
    assert!(forgotten.is_held(), "and renewed meanwhile");
}

/// Whoever waits for the end of many locks looks at all of them each time.
#[tokio::test]
async fn a_look_at_all_locks_does_not_follow_each_end() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let watchdog = pool.core().watchdog();
    let (looks, is_over) = (Cell::new(0), Cell::new(false));
    let waits = watchdog.when(|| {
        std::thread::sleep(ms(1)); // there are many
        looks.set(looks.get() + 1);
        is_over.get()
    });
    let ends = async {
        for _ in 0..100 {
            watchdog.look_again();
            tokio::task::yield_now().await;
        }
        is_over.set(true);
        watchdog.look_again();
    };
    tokio::join!(waits, ends);
    assert!(looks.get() < 50, "{looks:?}");
}

/// An acquire for a second that is about to be sent.
fn sent(token: Token, claim: &Claim, at: Moment) -> SentAcquire {
    SentAcquire {
        token,
        command: Acquire {
            claim: claim.clone(),
            lease: Ttl::new(ms(1000)).unwrap(),
            not_after: u64::MAX,
            repair_missing_ttl: None,
        },
        at,
        give_up: at.plus(ms(60_000)),
    }
}

/// The server has granted it before it could know of the shutdown.
#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_shutdown_is_granted_to_nobody_after_it() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (core, spec) = pool.lock("k").spec().unwrap();
    let (token, now) = (Token::of_test(1), core.now());
    let claim = Claim {
        is_once: false,
        key: "lock:k".into(),
        value: "1|token|h|1|f|1".into(),
        queues: false,
    };
    let sent = sent(token, &claim, now);
    assert!(core.tell(now, |client, _| client.sending_alone(&sent)));
    core.shut();
    let grant = Grant::at_once(now, ms(1000), 1, 1);
    let lease = core.tell(now, |client, told| {
        client.take_alone(&spec, token, &grant, told)
    });
    assert!(lease.is_none());
    let why = core.ask(Client::why_not_taken);
    assert!(matches!(why, AcquireRefusal::ShutDown), "{why:?}");
    assert_eq!(core.census(), Census::default(), "and it is cleaned up");
}

/// A body of one pool runs inside a body of the other.
#[tokio::test(start_paused = true)]
async fn one_shutdown_stops_bodies_from_the_inside_out_whatever_their_pools_graces() {
    for graces in [(1, 60), (60, 1), (0, 300), (5, 5)] {
        let pool = async |grace| {
            let config = Config::new("memory://").shutdown_grace(Duration::from_secs(grace));
            LockPool::connect(config).await.unwrap()
        };
        let (outer, inner) = (pool(graces.0).await, pool(graces.1).await);
        let locked = |pool: &LockPool| pool.lock("k").ttl(ms(900_000));
        let body = locked(&outer).run(async |_| {
            let stopped = locked(&inner).run(async |_| pending::<()>().await).await;
            assert!(stopped.is_err());
            pending::<()>().await;
        });
        let shutdown = async {
            tokio::time::sleep(ms(100)).await;
            let cores = [&outer, &inner].map(|pool| pool.lock("k").spec().unwrap().0);
            shut_down(&cores).await
        };
        let (stopped, drained) = tokio::join!(body, shutdown);
        assert!(
            stopped.is_err() && drained.is_complete(),
            "{graces:?}: {drained:?}"
        );
    }
}

/// An acquire whose outcome is open until late, and whose `cancel` finds nothing: a server in this
/// process has executed every command that it was sent, so nothing can follow. Repeating the
/// `cancel` until then would never end, for no time passes meanwhile.
#[tokio::test(start_paused = true)]
async fn a_clean_up_that_finds_nothing_in_this_process_ends() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (token, now) = (Token::of_test(1), pool.core().backend().clock().now());
    let claim = Claim {
        is_once: false,
        key: "lock:k".into(),
        value: "1|token|h|1|f|1".into(),
        queues: false,
    };
    let core = pool.core();
    let link = core.backend().link(&claim.key, ms(100)).await.unwrap();
    let sent = sent(token, &claim, now);
    assert!(core.tell(now, |client, _| client.sending_alone(&sent)));
    let open = (true, None);
    assert!(core.tell(now, |client, at| client.ended(None, &sent, open, at)));
    core.watchdog().cancel_behind(token, claim, u64::MAX, link);
    assert_eq!(pool.core().census(), Census::default());
}

/// The margin is 10 % of 10 s, and 2 ms.
#[tokio::test(start_paused = true)]
async fn every_way_to_a_lease_keeps_the_margin_of_the_settings() {
    let config = Config::new("memory://").clock_margin(10);
    let config = config.local_handoff(0, Duration::ZERO);
    let pool = LockPool::connect(config).await.unwrap();
    let acquire = |key: &str| pool.lock(key).ttl(ms(10_000));
    let counts = ms(8_998);

    let at_once = acquire("at once").acquire().await.unwrap();
    assert_eq!(at_once.remaining(), counts);
    at_once.extend(ms(20_000)).await.unwrap();
    assert_eq!(at_once.remaining(), ms(17_998));
    let tried = acquire("tried").try_acquire().await.unwrap().unwrap();
    assert_eq!(tried.remaining(), counts);
    let several = pool
        .lock_all(["a", "b"])
        .ttl(ms(10_000))
        .acquire()
        .await
        .unwrap();
    assert_eq!(several.remaining(), counts);
    let written = acquire("written").write().acquire().await.unwrap();
    assert_eq!(written.remaining(), counts);
    written.downgrade().await.unwrap();
    assert_eq!(written.remaining(), counts);
    let renewed = acquire("renewed").renew().acquire().await.unwrap();
    advance(ms(3_400)).await;
    tokio::task::yield_now().await;
    assert!(renewed.remaining() > ms(8_500) && renewed.remaining() <= counts);

    let held = acquire("in turn").acquire().await.unwrap();
    let waits = tokio::spawn(acquire("in turn").acquire());
    tokio::time::sleep(ms(500)).await;
    held.release().await.unwrap();
    let in_turn = waits.await.unwrap().unwrap();
    assert!(in_turn.remaining() <= counts);
}
