//! One leader among several candidates: whose turn it is, what ends a term, and who may know.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use dlock_harness::RedisServer;
use dlock_harness::polls::{Cut, at_every_poll};
use dlock_runtime::{Candidate, LockError, LockPool, LostCause, Term, distributed_lock};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::backends::{LONG, is_free, is_lost, ms, patient, running, settled, soon, soon_free};

on_every_backend!(
    the_next_candidate_leads_once_the_leader_resigns,
    what_a_body_returns_ends_the_call_or_campaigns_again,
    a_body_that_panics_resigns,
    who_campaigns_at_once_again_lets_others_run,
    a_campaign_inside_its_own_term_is_refused,
    a_dropped_campaign_leaves_nothing,
    a_shutdown_ends_a_campaign,
    functions_lead_in_turn_until_their_bodies_end,
    a_function_that_campaigns_again_gets_its_arguments_anew,
    ; seconds: a_lost_term_is_campaigned_for_again, a_term_ends_at_its_max_hold,
    a_shutdown_ends_a_term, a_watch_tells_each_term,
    a_lost_term_of_a_function_is_campaigned_for_again, a_shutdown_ends_functions_that_lead,
);

fn mailer(pool: &LockPool) -> Candidate {
    pool.leader("mailer").ttl(LONG)
}

async fn the_next_candidate_leads_once_the_leader_resigns(pool: LockPool) {
    let first = mailer(&pool).campaign().await.unwrap();
    assert!(first.is_leader() && first.remaining() > LONG / 2);
    let second = tokio::spawn(mailer(&pool).campaign());
    settled(&pool).await;
    assert!(!second.is_finished());
    let fence = first.fence();
    first.resign().await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(second.fence() > fence);
    drop(second);
    soon_free(&pool, "mailer").await;
}

async fn what_a_body_returns_ends_the_call_or_campaigns_again(pool: LockPool) {
    let leads = async |term: &Term| {
        assert!(term.is_leader());
        let holder = pool.holder("mailer").await.unwrap();
        assert!(holder.is_some());
    };
    let value = mailer(&pool).run(async |term: &Term| {
        leads(term).await;
        Ok::<_, LockError>("done")
    });
    assert_eq!(value.await.unwrap().unwrap(), "done");
    let error = mailer(&pool).run(async |_: &Term| Err::<(), _>("no mail"));
    assert_eq!(error.await.unwrap(), Err("no mail"));
    mailer(&pool)
        .run(async |term: &Term| leads(term).await)
        .await
        .unwrap();

    let (mut terms, mut fences) = (0, Vec::new());
    let third = mailer(&pool).run(async |term: &Term| {
        fences.push(term.fence());
        terms += 1;
        if terms < 3 {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break("the third term")
    });
    assert_eq!(third.await.unwrap(), "the third term");
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    assert!(is_free(&pool, "mailer").await);
}

async fn a_body_that_panics_resigns(pool: LockPool) {
    let ended = tokio::spawn(mailer(&pool).run(async |_: &Term| panic!("on purpose")));
    assert!(ended.await.unwrap_err().is_panic());
    soon_free(&pool, "mailer").await;
}

/// Also where every command is answered at once.
async fn who_campaigns_at_once_again_lets_others_run(pool: LockPool) {
    let mut terms = 0;
    let leads = mailer(&pool).run(async |_: &Term| {
        terms += 1;
        assert!(terms < 10_000, "nothing else runs");
        ControlFlow::<()>::Continue(())
    });
    let (ended, drained) = tokio::join!(leads, async {
        settled(&pool).await;
        pool.shutdown().await
    });
    assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    assert!(drained.is_complete(), "{drained:?}");
}

async fn a_campaign_inside_its_own_term_is_refused(pool: LockPool) {
    let inside = mailer(&pool).run(async |_: &Term| {
        let campaign = mailer(&pool).campaign().await.map(drop);
        let run = mailer(&pool).run(async |_: &Term| ()).await;
        Ok::<_, LockError>([campaign, run].map(Result::unwrap_err))
    });
    for error in inside.await.unwrap().unwrap() {
        let is_right = matches!(error, LockError::WouldDeadlock { .. });
        assert!(is_right, "{error:?}");
        let said = error.to_string();
        assert!(
            said.contains("campaign after") && !said.contains("reentrant"),
            "{said}"
        );
    }
}

async fn a_dropped_campaign_leaves_nothing(pool: LockPool) {
    let campaign = async |_: Cut| {
        let campaign = mailer(&pool).campaign();
        let term = mailer(&pool).campaign().await.unwrap();
        let (term, campaigned) = tokio::join!(
            async {
                settled(&pool).await;
                term.resign().await
            },
            campaign
        );
        term.unwrap();
        campaigned.unwrap()
    };
    at_every_poll(campaign, async |_, term| {
        drop(term);
        soon_free(&pool, "mailer").await;
    })
    .await;
}

async fn a_shutdown_ends_a_campaign(pool: LockPool) {
    let term = mailer(&pool).campaign().await.unwrap();
    let campaigns = mailer(&pool).campaign();
    let campaigns = tokio::spawn(async move { campaigns.await.map(drop) });
    let runs = tokio::spawn(mailer(&pool).run(async |_: &Term| ()));
    settled(&pool).await;
    let shutdown = tokio::spawn({
        let pool = pool.clone();
        async move { pool.shutdown().await }
    });
    for ended in [campaigns, runs] {
        let ended = ended.await.unwrap();
        assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    }
    term.closing().await;
    assert!(term.is_leader(), "a term that is held by hand goes on");
    term.resign().await.unwrap();
    assert!(shutdown.await.unwrap().is_complete());
}

async fn a_shutdown_ends_a_term(pool: LockPool) {
    let leader = mailer(&pool).run(async |_: &Term| {
        loop {
            tokio::time::sleep(ms(100)).await;
        }
    });
    let shutdown = async {
        running(&pool, 1).await;
        pool.shutdown().await
    };
    let (ended, drained) = tokio::join!(leader, shutdown);
    is_lost(ended, LostCause::ShutDown);
    assert!(drained.is_complete(), "{drained:?}");
}

async fn evicts_the_first(pool: &LockPool, terms: &AtomicU32) {
    soon("it leads", async || terms.load(Ordering::Relaxed) == 1).await;
    let admin = pool.admin();
    let lock = admin.show("mailer").await.unwrap().unwrap();
    let leader = lock.holders()[0].fingerprint();
    let evicted = admin.evict("mailer", leader).await.unwrap();
    assert!(matches!(evicted, dlock_runtime::Eviction::Done(_)));
}

/// The first term is evicted.
async fn a_lost_term_is_campaigned_for_again(pool: LockPool) {
    let terms = AtomicU32::new(0);
    let leads = pool
        .leader("mailer")
        .ttl(ms(1_500))
        .run(async |term: &Term| {
            if terms.fetch_add(1, Ordering::Relaxed) == 0 {
                let cause = term.lost().await;
                assert_eq!(cause, LostCause::Gone);
                assert!(!term.is_leader());
                std::future::pending::<()>().await;
            }
        });
    let (ended, ()) = tokio::join!(timeout(LONG, leads), evicts_the_first(&pool, &terms));
    ended.unwrap().unwrap();
    assert_eq!(terms.into_inner(), 2);
}

/// A name that leads to the master may lead to the old one for a while after a failover.
#[tokio::test]
async fn a_server_that_became_a_replica_is_waited_out() {
    let (server, master) = (RedisServer::start(), RedisServer::start());
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    mailer(&pool)
        .campaign()
        .await
        .unwrap()
        .resign()
        .await
        .unwrap();
    let port = master.port().to_string();
    server.cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    let mut leads = Box::pin(mailer(&pool).run(async |term: &Term| assert!(term.is_leader())));
    assert!(timeout(ms(300), &mut leads).await.is_err(), "it campaigns");
    server.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    leads
        .await
        .expect("as soon as the server is a master again");
}

/// It pauses for up to 0.8 s between two campaigns, but not beyond a shutdown.
#[tokio::test]
async fn a_shutdown_ends_the_pause_of_a_candidate() {
    let (server, master) = (RedisServer::start(), RedisServer::start());
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let port = master.port().to_string();
    server.cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    let campaigns: Vec<_> = (0..4)
        .map(|_| tokio::spawn(mailer(&pool).run(async |_: &Term| ())))
        .collect();
    tokio::time::sleep(ms(1_500)).await; // until the pauses are long
    assert!(pool.shutdown().await.is_complete());
    for _ in 0..100 {
        tokio::task::yield_now().await; // each has been woken, and waits for nothing
    }
    for campaign in campaigns {
        assert!(campaign.is_finished(), "it pauses");
        let ended = campaign.await.unwrap();
        assert!(matches!(ended, Err(LockError::ShutDown)), "{ended:?}");
    }
}

/// The body blocks its thread until its term is over, so that nobody can stop it.
#[tokio::test]
async fn a_body_that_wants_to_go_on_after_its_term_was_lost_campaigns_again() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let candidate = pool.leader("mailer").ttl(ms(100)).max_hold(ms(100));
    let mut terms = 0;
    let led = candidate.run(async |term: &Term| {
        terms += 1;
        while terms == 1 && term.is_leader() {
            std::thread::sleep(ms(5));
        }
        match terms {
            1 => ControlFlow::Continue(()),
            _ => ControlFlow::Break("led again"),
        }
    });
    assert_eq!(led.await.unwrap(), "led again");
}

/// Another candidate leads in between.
async fn a_term_ends_at_its_max_hold(pool: LockPool) {
    let terms = AtomicU32::new(0);
    let bounded = pool.leader("mailer").ttl(ms(500)).max_hold(ms(1_500));
    let bounded = bounded.run(async |_: &Term| {
        if terms.fetch_add(1, Ordering::Relaxed) == 0 {
            std::future::pending::<()>().await;
        }
    });
    let other = async {
        soon("it leads", async || terms.load(Ordering::Relaxed) == 1).await;
        let term = mailer(&pool).campaign().await.unwrap();
        assert_eq!(terms.load(Ordering::Relaxed), 1);
        term.resign().await.unwrap();
    };
    let (ended, ()) = tokio::join!(timeout(LONG, bounded), other);
    ended.unwrap().unwrap();
    assert_eq!(terms.into_inner(), 2);
}

/// Only that pool knows whether it may count on the lease.
#[tokio::test]
async fn a_watch_does_not_vouch_for_another_pool_of_this_process() {
    let server = RedisServer::start();
    let [leads, watches] = [(); 2].map(|()| LockPool::connect(patient(server.url())));
    let (leads, watches) = (leads.await.unwrap(), watches.await.unwrap());
    let term = mailer(&leads).campaign().await.unwrap();
    let own = mailer(&leads).watch().changed().await.unwrap();
    assert!(own.is_some_and(|leader| leader.is_this_process()));
    assert_eq!(mailer(&watches).watch().changed().await.unwrap(), None);
    term.resign().await.unwrap();
}

async fn a_watch_tells_each_term(pool: LockPool) {
    let candidate = mailer(&pool);
    let mut watch = candidate.watch();
    assert_eq!(watch.changed().await.unwrap(), None, "nobody leads");
    let mut terms = Vec::new();
    for _ in 0..2 {
        let term = candidate.clone().campaign().await.unwrap();
        let leader = watch.changed().await.unwrap().unwrap();
        assert!(leader.is_this_process());
        assert!(leader.fence_at_most() >= term.fence());
        assert!(leader.remaining().unwrap() > LONG / 2);
        terms.push(leader.fingerprint());
        assert!(
            timeout(ms(1_300), watch.changed()).await.is_err(),
            "no change"
        );
        term.resign().await.unwrap();
        assert_eq!(watch.changed().await.unwrap(), None);
    }
    assert_ne!(terms[0], terms[1]);
}

/// Who has led, in order, and what ends the term.
#[derive(Clone, Default)]
struct Office(Arc<(Mutex<Vec<&'static str>>, Notify)>);

impl Office {
    fn begins(&self, name: &'static str) {
        self.0.0.lock().unwrap().push(name);
    }

    async fn until(&self, terms: &[&str]) {
        soon("it leads", async || *self.0.0.lock().unwrap() == terms).await;
    }
}

/// Leads until it is told to end, and fails if it is the first.
#[distributed_lock(
    key = "mailer",
    ttl = "60s",
    lead,
    guard = lead,
    pool = pool,
    map_err = |error| error.to_string()
)]
async fn mails(pool: &LockPool, name: &'static str, office: Office) -> Result<(), String> {
    assert!(lead.is_held() && lead.key().to_string() == "mailer");
    office.begins(name);
    office.0.1.notified().await;
    if name == "first" {
        return Err("no mail".to_owned());
    }
    Ok(())
}

async fn functions_lead_in_turn_until_their_bodies_end(pool: LockPool) {
    let office = Office::default();
    let candidate = |name| {
        let (pool, office) = (pool.clone(), office.clone());
        tokio::spawn(async move { mails(&pool, name, office).await })
    };
    let first = candidate("first");
    office.until(&["first"]).await;
    let second = candidate("second");
    settled(&pool).await;
    office.until(&["first"]).await;
    office.0.1.notify_one();
    assert_eq!(first.await.unwrap(), Err("no mail".to_owned()));
    office.until(&["first", "second"]).await;
    office.0.1.notify_one();
    assert_eq!(second.await.unwrap(), Ok(()));
    soon_free(&pool, "mailer").await;
}

/// Each term takes what it was given, and hangs if it is `stuck` and the first.
#[distributed_lock(key = "mailer", ttl = "1500ms", lead, guard = lead, pool = pool)]
async fn takes_mails(
    pool: &LockPool,
    mut mails: Vec<u8>,
    stuck: bool,
    terms: Arc<AtomicU32>,
) -> ControlFlow<Result<u64, LockError>> {
    assert_eq!(std::mem::take(&mut mails), [1, 2]);
    let is_first = terms.fetch_add(1, Ordering::Relaxed) == 0;
    if is_first && stuck {
        assert_eq!(lead.lost().await, LostCause::Gone);
        std::future::pending::<()>().await;
    }
    if is_first {
        return ControlFlow::Continue(());
    }
    ControlFlow::Break(Ok(lead.fence().get()))
}

async fn a_function_that_campaigns_again_gets_its_arguments_anew(pool: LockPool) {
    let terms = Arc::<AtomicU32>::default();
    let before = pool.leader("mailer").campaign().await.unwrap();
    let fence = before.fence();
    before.resign().await.unwrap();
    let ended = takes_mails(&pool, vec![1, 2], false, terms.clone()).await;
    let last = ended.break_value().unwrap().unwrap();
    assert!(last > fence.get() + 1, "{last}: the second term");
    assert_eq!(terms.load(Ordering::Relaxed), 2);
    assert!(is_free(&pool, "mailer").await);
}

async fn a_lost_term_of_a_function_is_campaigned_for_again(pool: LockPool) {
    let terms = Arc::<AtomicU32>::default();
    let leads = takes_mails(&pool, vec![1, 2], true, terms.clone());
    let (ended, ()) = tokio::join!(timeout(LONG, leads), evicts_the_first(&pool, &terms));
    assert!(matches!(ended, Ok(ControlFlow::Break(Ok(_)))), "{ended:?}");
    assert_eq!(terms.load(Ordering::Relaxed), 2);
}

/// Hangs.
#[distributed_lock(key = "stopped", ttl = "60s", lead, pool = pool)]
async fn stopped(pool: &LockPool) -> Result<(), LockError> {
    std::future::pending().await
}

/// Ends long after the grace.
#[distributed_lock(key = "finishes", ttl = "60s", lead, guard = lead, on_shutdown = "finish", pool = pool)]
async fn finishes(pool: &LockPool, after: Arc<Notify>) -> Result<&'static str, LockError> {
    lead.closing().await;
    after.notified().await;
    assert!(lead.is_held());
    Ok("finished")
}

/// A shutdown waits within the grace alone for one that may not be stopped.
async fn a_shutdown_ends_functions_that_lead(pool: LockPool) {
    let after = Arc::<Notify>::default();
    let shutdown = async {
        running(&pool, 2).await;
        let ended = tokio::join!(pool.shutdown(), stopped(&pool));
        after.notify_one();
        ended
    };
    let (finished, stopped, (drained, waited)) =
        tokio::join!(finishes(&pool, after.clone()), stopped(&pool), shutdown);
    is_lost(stopped, LostCause::ShutDown);
    assert_eq!(finished.unwrap(), "finished");
    assert!(matches!(waited, Err(LockError::ShutDown)), "{waited:?}");
    assert_eq!((drained.held(), drained.unconfirmed()), (1, 0));
    assert!(pool.shutdown().await.is_complete());
}
