//! Who waits at a combiner, who goes, and what is sent when; its state alone is tested beside it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use tokio::task::unconstrained;

use super::super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, link};
use super::{ONE_AT_ONCE, release, take};
use crate::backend::Link;
use crate::backend::fault::Fault;
use crate::backend::redis::link::RedisLink;
use crate::backend::redis::link::combiner::{Combiner, Limits};
use crate::backend::redis::reply::Item;
use crate::policy::commands::{Acquired, Claim};

/// Without anybody to wake.
fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A connection through a proxy, where the first command is under way and its answer is kept back.
struct Held {
    server: RedisServer,
    proxy: Proxy,
    link: Arc<RedisLink>,
    combiner: Arc<Combiner>,
    first: tokio::task::JoinHandle<Result<Item, Fault>>,
}

impl Held {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        let link = Arc::new(link(&proxy.url()).await);
        // The server knows both scripts from now on.
        let known = vec![release(&claim("lock:x", "1|x"))];
        link.combiner(ONE_AT_ONCE).ask_together(known, CAP).await;
        let warm = claim("lock:warm", "1|x");
        link.acquire(&acquire(&warm, link.server_time() + HOUR), CAP)
            .await
            .unwrap();
        let combiner = link.combiner(ONE_AT_ONCE);
        let held = proxy.on(Matcher::script(), Action::HoldReply);
        let (ask, own) = (
            take(&link, &claim("lock:first", "1|ours")),
            combiner.clone(),
        );
        let first = tokio::spawn(async move { own.ask(ask, CAP).await });
        held.seen().await;
        Self {
            server,
            proxy,
            link,
            combiner,
            first,
        }
    }

    /// So many scripts were executed.
    async fn scripts(&self) -> u64 {
        self.server.commandstats("evalsha").await
    }

    async fn is_there(&self, who: &Claim) -> bool {
        self.server.ask(&["EXISTS", &who.key]).await
    }
}

#[tokio::test]
async fn what_comes_while_one_is_under_way_goes_out_as_one() {
    let mut held = Held::new().await;
    let before = held.scripts().await;
    let claims: Vec<_> = (0..6)
        .map(|i| claim(&format!("lock:{i}"), "1|ours"))
        .collect();
    let asks = claims.iter().map(|who| take(&held.link, who));
    let mut asks: Vec<_> = asks
        .map(|ask| Box::pin(held.combiner.ask(ask, CAP)))
        .collect();
    for ask in &mut asks {
        assert!(poll_once(ask.as_mut()).is_pending());
    }
    assert_eq!(held.scripts().await, before, "they wait");
    let shown = format!("{:?}", held.combiner);
    assert!(
        shown.contains("lock:5") && !shown.contains("1|ours"),
        "no token is shown"
    );
    held.proxy.release_held();
    for ask in asks {
        let answer = ask.await.unwrap().acquired().unwrap();
        assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
    }
    assert!((&mut held.first).await.unwrap().is_ok());
    assert_eq!(held.scripts().await, before + 2, "four, and two");
}

/// Whose answer nobody reads keeps its slot, and stops nobody for longer than that.
#[tokio::test]
async fn who_is_never_polled_again_stops_nobody() {
    let lab = Lab::new().await;
    let limits = Limits {
        patience: Duration::from_millis(5),
        ..ONE_AT_ONCE
    };
    let combiner = lab.link.combiner(limits);
    let [asleep, awake] = ["lock:a", "lock:b"].map(|key| take(&lab.link, &claim(key, "1|ours")));
    let mut asleep = pin!(combiner.ask(asleep, CAP));
    assert!(poll_once(asleep.as_mut()).is_pending());
    combiner.ask(awake, CAP).await.unwrap();
}

#[tokio::test]
async fn a_caller_that_goes_leaves_its_slot_to_those_who_wait() {
    let held = Held::new().await;
    let who = claim("lock:second", "1|ours");
    let mut second = pin!(held.combiner.ask(take(&held.link, &who), CAP));
    assert!(poll_once(second.as_mut()).is_pending());
    held.first.abort();
    until("it was sent", CAP, async || held.is_there(&who).await).await;
    held.proxy.release_held();
    second.await.unwrap();
}

#[tokio::test]
async fn who_goes_while_it_waits_is_never_sent() {
    let held = Held::new().await;
    let (gone, stays) = (claim("lock:gone", "1|ours"), claim("lock:stays", "1|ours"));
    let mut stays_too = pin!(held.combiner.ask(take(&held.link, &stays), CAP));
    {
        let mut gone = pin!(held.combiner.ask(take(&held.link, &gone), CAP));
        assert!(poll_once(gone.as_mut()).is_pending());
        assert!(poll_once(stays_too.as_mut()).is_pending());
    }
    held.proxy.release_held();
    stays_too.await.unwrap();
    held.link.ping(CAP).await.unwrap();
    assert!(held.is_there(&stays).await && !held.is_there(&gone).await);
}

#[tokio::test]
async fn a_cancel_of_who_goes_after_it_was_sent_comes_behind() {
    let held = Held::new().await;
    let gone = claim("lock:gone", "1|ours");
    let ask = take(&held.link, &gone);
    let own = held.combiner.clone();
    let task = tokio::spawn(async move { own.ask(ask, CAP).await });
    until("it waits", CAP, async || {
        format!("{:?}", held.combiner).contains("lock:gone")
    })
    .await;
    let batch = held
        .proxy
        .on(Matcher::script().containing("lock:gone"), Action::Hold);
    held.proxy.release_held();
    batch.seen().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let not_after = held.link.server_time() + HOUR;
    let mut cancel = pin!(held.link.cancel(&gone, 0, not_after, CAP));
    assert!(poll_once(cancel.as_mut()).is_pending());
    held.proxy.release_held();
    assert!(cancel.await.unwrap().found, "the acquire was there before");
    assert!(!held.is_there(&gone).await);
}

/// However many commands there are at once, each has its place from its first poll on.
#[tokio::test]
async fn no_cancel_overtakes_a_batch_behind_a_crowd() {
    let lab = Lab::new().await;
    let gone = claim("lock:gone", "1|ours");
    let combiner = lab.link.combiner(ONE_AT_ONCE);
    combiner
        .ask_together(vec![release(&claim("lock:x", "1|x"))], CAP) // the server knows the script from then on
        .await;
    lab.link.cancel(&gone, 0, 0, CAP).await.unwrap();
    let mut crowd: Vec<_> = (0..64)
        .map(|_| Box::pin(unconstrained(lab.link.ping(CAP))))
        .collect();
    for ping in &mut crowd {
        assert!(poll_once(ping.as_mut()).is_pending());
    }
    let mut batch = pin!(combiner.ask_together(vec![take(&lab.link, &gone)], CAP));
    assert!(poll_once(batch.as_mut()).is_pending());
    tokio::task::yield_now().await; // the connection takes what has lined up
    let mut cancel = lab.link.cancel(&gone, 0, 0, CAP);
    assert!(poll_once(cancel.as_mut()).is_pending());
    batch.await;
    assert!(cancel.await.unwrap().found, "the acquire was there before");
    assert_eq!(lab.keys().await, [FENCES]);
}

#[tokio::test]
async fn a_deadline_that_is_over_before_it_was_sent_says_so() {
    let mut held = Held::new().await;
    let who = claim("lock:late", "1|ours");
    let within = Duration::from_millis(20);
    let answer = held.combiner.ask(take(&held.link, &who), within).await;
    assert!(matches!(answer, Err(Fault::Unsent(_))), "{answer:?}");
    held.proxy.release_held();
    (&mut held.first).await.unwrap().unwrap();
    held.link.ping(CAP).await.unwrap();
    assert!(!held.is_there(&who).await);
}

#[tokio::test]
async fn a_deadline_that_is_over_after_it_was_sent_is_unclear() {
    let held = Held::new().await;
    let who = claim("lock:late", "1|ours");
    let mut late = pin!(
        held.combiner
            .ask(take(&held.link, &who), Duration::from_millis(300))
    );
    assert!(poll_once(late.as_mut()).is_pending());
    held.first.abort(); // the batch goes out, and its answer is kept back behind the first
    let answer = late.await;
    assert!(matches!(answer, Err(Fault::Unclear(_))), "{answer:?}");
    assert!(held.is_there(&who).await);
    assert!(
        held.link.is_usable(),
        "a short deadline says nothing about a connection"
    );
}

/// A cancel behind whatever was dropped, on several threads, while the server forgets its scripts: nothing is ever left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cancel_overtakes_the_acquire_of_a_caller_that_has_gone() {
    let lab = Arc::new(Lab::new().await);
    let limits = Limits {
        at_once: 1,
        most: 8,
        patience: Duration::from_millis(1),
    };
    let combiner = lab.link.combiner(limits);
    let tasks = (0..8_u64).map(|task| {
        let (lab, combiner) = (lab.clone(), combiner.clone());
        tokio::spawn(async move {
            for turn in 0..300_u64 {
                let who = claim(&format!("lock:{task}"), &format!("1|{task}:{turn}"));
                let patience = Duration::from_micros((turn * 7 + task * 131) % 400);
                let ask = combiner.ask(take(&lab.link, &who), CAP);
                let _ = tokio::time::timeout(patience, ask).await;
                lab.link.cancel(&who, 0, 0, CAP).await.unwrap();
                if turn % 16 == task {
                    lab.tell::<()>(&["SCRIPT", "FLUSH"]).await;
                }
                let left: Option<String> = lab.tell(&["GET", &who.key]).await;
                assert_eq!(left, None, "turn {turn}");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    lab.link.ping(CAP).await.unwrap();
    assert_eq!(lab.keys().await, [FENCES]);
}
