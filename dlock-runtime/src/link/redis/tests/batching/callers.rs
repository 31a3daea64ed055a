//! Tests of callers that share a batcher: which commands wait, which are withdrawn, and when each
//! is sent. The batcher's state alone is tested in `link/batcher/tests`.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use tokio::runtime::Builder;
use tokio::task::unconstrained;

use super::super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, link};
use super::{FEW, release, take};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::Batcher;
use crate::link::redis::reply::ItemReply;
use crate::rules::commands::{Acquired, Claim, Keep};
use crate::values::error::Reason;

/// Polls without a waker.
pub(super) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A connection through a proxy that keeps back the answers, with two commands in flight that their
/// callers sent themselves.
pub(super) struct Held {
    pub(super) server: RedisServer,
    pub(super) proxy: Proxy,
    pub(super) link: Arc<RedisLink>,
    pub(super) batcher: Arc<Batcher>,
    pub(super) first: tokio::task::JoinHandle<Result<ItemReply, CommandError>>,
    pub(super) second: tokio::task::JoinHandle<Result<ItemReply, CommandError>>,
}

impl Held {
    pub(super) async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        let link = Arc::new(link(&proxy.url()).await);
        // The server knows both scripts from now on.
        let known = [0; 2].map(|_| release(&claim("lock:x", "x"))).into();
        link.batcher(FEW).ask_together(known, CAP).await;
        let warm = claim("lock:warm", "x");
        link.acquire(&acquire(&warm, link.server_time() + HOUR), CAP)
            .await
            .unwrap();
        let batcher = link.batcher(FEW);
        let held = proxy.on(Matcher::script(), Action::HoldReply);
        let alone = |key: &str| {
            let (command, own) = (take(&link, &claim(key, "ours")), batcher.clone());
            tokio::spawn(async move { own.ask(command, CAP).await })
        };
        let first = alone("lock:first");
        held.seen().await;
        let second = alone("lock:second");
        let both = || format!("{batcher:?}").contains("in_flight: 2,");
        until("both are under way", CAP, async || both()).await;
        let held = Self {
            server,
            proxy,
            link,
            batcher,
            first,
            second,
        };
        let executed = claim("lock:second", "ours");
        until("both are executed", CAP, async || {
            held.is_there(&executed).await
        })
        .await;
        held
    }

    /// How many scripts were executed.
    pub(super) async fn scripts(&self) -> u64 {
        self.server.commandstats("evalsha").await
    }

    pub(super) async fn is_there(&self, who: &Claim) -> bool {
        self.server.ask(&["EXISTS", &who.key]).await
    }
}

/// The first batch has half of what waits and is in flight, the second the rest; neither waits for
/// an answer.
#[tokio::test]
async fn what_comes_while_one_is_under_way_goes_out_together() {
    let mut held = Held::new().await;
    let before = held.scripts().await;
    let claims: Vec<_> = (0..6)
        .map(|i| claim(&format!("lock:{i}"), "ours"))
        .collect();
    let asks = claims.iter().map(|who| take(&held.link, who));
    let mut asks: Vec<_> = asks
        .map(|ask| Box::pin(held.batcher.ask(ask, CAP)))
        .collect();
    for ask in &mut asks {
        assert!(poll_once(ask.as_mut()).is_pending());
    }
    let shown = format!("{:?}", held.batcher);
    assert!(
        shown.contains("lock:5") && !shown.contains("ours"),
        "no token is shown"
    );
    let last = &claims[5];
    until("all are sent", CAP, async || held.is_there(last).await).await;
    assert_eq!(held.scripts().await, before + 2, "four, and two");
    held.proxy.release_held();
    for ask in asks {
        let answer = ask.await.unwrap().acquired().unwrap();
        assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
    }
    for sent in [&mut held.first, &mut held.second] {
        assert!(sent.await.unwrap().is_ok());
    }
}

/// A batch of one item would cost the server more than the item's own script.
#[tokio::test]
async fn what_comes_by_itself_is_sent_as_what_it_is() {
    let held = Held::new().await;
    let who = claim("lock:third", "ours");
    let own_script = Matcher::script().containing("\r\n$1\r\n4\r\n$10\r\nlock:third\r\n");
    let sent = held.proxy.on(own_script, Action::Signal);
    let mut third = pin!(held.batcher.ask(take(&held.link, &who), CAP));
    assert!(poll_once(third.as_mut()).is_pending());
    sent.seen().await;
    held.proxy.release_held();
    let answer = third.await.unwrap().acquired().unwrap();
    assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
}

#[tokio::test]
async fn who_is_never_polled_again_stops_nobody() {
    let lab = Lab::new().await;
    let batcher = lab.link.batcher(FEW);
    let command = |key: &str| take(&lab.link, &claim(key, "ours"));
    let mut asleep =
        ["lock:a", "lock:b", "lock:c"].map(|it| Box::pin(batcher.ask(command(it), CAP)));
    for one in &mut asleep {
        assert!(poll_once(one.as_mut()).is_pending());
    }
    batcher.ask(command("lock:d"), CAP).await.unwrap();
    batcher.ask(command("lock:e"), CAP).await.unwrap();
}

/// Otherwise no later caller could send its command itself.
#[tokio::test]
async fn a_caller_that_goes_is_no_more_under_way() {
    let held = Held::new().await;
    let in_flight = |number: usize| format!("in_flight: {number},");
    let shown = || format!("{:?}", held.batcher);
    assert!(shown().contains(&in_flight(2)), "{}", shown());
    held.first.abort();
    until("it has gone", CAP, async || shown().contains(&in_flight(1))).await;
}

/// A runtime that is not driven sends nothing. Callers on another runtime are told so: at their
/// deadline, or when that runtime ends.
#[test]
fn what_waits_for_a_runtime_that_does_not_run_was_not_sent() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (undriven, other) = (runtime(), runtime());
    let lab = undriven.block_on(Lab::new());
    let batcher = lab.link.batcher(FEW);
    let command = |key: &str| take(&lab.link, &claim(key, "ours"));
    let within = Duration::from_millis(20);
    other.block_on(async {
        let mut alone = ["lock:a", "lock:e"].map(|it| Box::pin(batcher.ask(command(it), CAP)));
        for one in &mut alone {
            assert!(poll_once(one.as_mut()).is_pending());
        }
        let late = batcher.ask(command("lock:b"), within).await;
        assert!(matches!(late, Err(CommandError::Unsent(_))), "{late:?}");
        let mut waits = pin!(batcher.ask(command("lock:c"), CAP));
        assert!(poll_once(waits.as_mut()).is_pending());
        undriven.shutdown_background();
        for told in [waits.await, batcher.ask(command("lock:d"), CAP).await] {
            let is_ended = |why: &Reason| why.to_string().contains("has ended");
            let is_told = matches!(&told, Err(CommandError::Unsent(why)) if is_ended(why));
            assert!(is_told, "{told:?}");
        }
    });
    assert_eq!(other.block_on(lab.server.keys()), [""; 0]);
}

/// The flusher is queued behind the task that started it, and no other thread takes it over. Other
/// callers notice, and send their commands themselves.
#[test]
fn who_waits_behind_a_task_that_blocks_its_thread_is_sent_soon() {
    let mut threads = Builder::new_multi_thread();
    let runtime = threads.worker_threads(3).enable_all().build().unwrap();
    let asked = async |held: &Held, key: &str, within| {
        let (command, own) = (take(&held.link, &claim(key, "ours")), held.batcher.clone());
        let asked = tokio::spawn(async move { own.ask(command, within).await });
        asked.await.unwrap()
    };
    runtime.block_on(async {
        let held = Held::new().await;
        let (go_on, blocked) = std::sync::mpsc::channel::<()>();
        let (command, own) = (
            take(&held.link, &claim("lock:blocks", "ours")),
            held.batcher.clone(),
        );
        let (has_begun, begun) = tokio::sync::oneshot::channel();
        let blocks = tokio::spawn(async move {
            let mut ask = Box::pin(own.ask(command, CAP));
            assert!(poll_once(ask.as_mut()).is_pending());
            has_begun.send(()).unwrap();
            blocked.recv().unwrap(); // blocks within the same poll
            ask.await
        });
        begun.await.unwrap();
        // If nothing can be sent before its deadline, the caller is told then; otherwise it is
        // sent.
        let late = asked(&held, "lock:late", Duration::from_millis(5)).await;
        assert!(matches!(late, Err(CommandError::Unsent(_))), "{late:?}");
        held.proxy.release_held();
        let other = asked(&held, "lock:other", CAP).await;
        assert!(other.is_ok(), "{other:?}");
        assert!(held.is_there(&claim("lock:other", "ours")).await);
        go_on.send(()).unwrap();
        assert!(blocks.await.unwrap().is_ok(), "as if nothing had been");
    });
}

#[tokio::test]
async fn who_goes_while_it_waits_is_never_sent() {
    let held = Held::new().await;
    let (gone, stays) = (claim("lock:gone", "ours"), claim("lock:stays", "ours"));
    let mut stays_too = pin!(held.batcher.ask(take(&held.link, &stays), CAP));
    {
        let mut gone = pin!(held.batcher.ask(take(&held.link, &gone), CAP));
        assert!(poll_once(gone.as_mut()).is_pending());
        assert!(poll_once(stays_too.as_mut()).is_pending());
    }
    held.proxy.release_held();
    stays_too.await.unwrap();
    held.link.ping(CAP).await.unwrap();
    assert!(held.is_there(&stays).await && !held.is_there(&gone).await);
}

/// The link's own acquires and releases, which wait by a ticket where the flusher keeps deadlines.
#[tokio::test]
async fn a_links_command_that_is_dropped_is_never_sent() {
    let held = Held::new().await;
    let link = &held.link;
    let keys = ["a", "b", "stays", "gone", "released", "unpolled"].map(|it| format!("lock:{it}"));
    let claims = keys.map(|key| claim(&key, "ours"));
    let commands = claims
        .each_ref()
        .map(|who| acquire(who, link.server_time() + HOUR));
    held.proxy.release_held();
    link.acquire(&commands[4], CAP).await.unwrap(); // is to stay
    let answers = held.proxy.on(Matcher::script(), Action::HoldReply);
    let mut alone = [0, 1].map(|it| link.acquire(&commands[it], CAP));
    for one in &mut alone {
        assert!(poll_once(Pin::new(one)).is_pending());
    }
    drop(link.acquire(&commands[5], CAP)); // begins when it is polled
    {
        let mut gone = link.acquire(&commands[3], CAP);
        let mut released = link.release(&claims[4], Keep::NOT, CAP);
        assert!(poll_once(Pin::new(&mut gone)).is_pending());
        assert!(poll_once(Pin::new(&mut released)).is_pending());
    }
    let mut stays = link.acquire(&commands[2], CAP);
    assert!(poll_once(Pin::new(&mut stays)).is_pending());
    answers.seen().await;
    held.proxy.release_held();
    let answer = (&mut stays).await;
    assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    for one in alone {
        one.await.unwrap();
    }
    link.ping(CAP).await.unwrap();
    for (who, is_there) in claims.iter().zip([true, true, true, false, true, false]) {
        assert_eq!(held.is_there(who).await, is_there, "{}", who.key);
    }
    assert!(link.own_batcher().is_idle());
}

#[tokio::test]
async fn a_cancel_of_who_goes_after_it_was_sent_comes_behind() {
    let held = Held::new().await;
    let gone = claim("lock:gone", "ours");
    let ask = take(&held.link, &gone);
    let batch = held
        .proxy
        .on(Matcher::script().containing("lock:gone"), Action::Hold);
    let own = held.batcher.clone();
    let task = tokio::spawn(async move { own.ask(ask, CAP).await });
    batch.seen().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let not_after = held.link.server_time() + HOUR;
    let mut cancel = pin!(held.link.cancel(&gone, Keep::NOT, not_after, CAP));
    assert!(poll_once(cancel.as_mut()).is_pending());
    held.proxy.release_held();
    assert!(cancel.await.unwrap().found, "the acquire was there before");
    assert!(!held.is_there(&gone).await);
}

/// However many commands there are, each gets its position in the pipe with its first poll.
#[tokio::test]
async fn no_cancel_overtakes_a_batch_behind_a_crowd() {
    let lab = Lab::new().await;
    let gone = claim("lock:gone", "ours");
    let batcher = lab.link.batcher(FEW);
    batcher
        // From then on the server knows the script.
        .ask_together([0; 2].map(|_| release(&claim("lock:x", "x"))).into(), CAP)
        .await;
    lab.link.cancel(&gone, Keep::NOT, 0, CAP).await.unwrap();
    let mut crowd: Vec<_> = (0..64)
        .map(|_| Box::pin(unconstrained(lab.link.ping(CAP))))
        .collect();
    for ping in &mut crowd {
        assert!(poll_once(ping.as_mut()).is_pending());
    }
    let both = [&gone, &claim("lock:stays", "ours")].map(|who| take(&lab.link, who));
    let mut batch = pin!(batcher.ask_together(both.into(), CAP));
    assert!(poll_once(batch.as_mut()).is_pending());
    tokio::task::yield_now().await; // the connection takes the queued commands
    let mut cancel = Box::pin(lab.link.cancel(&gone, Keep::NOT, 0, CAP));
    assert!(poll_once(cancel.as_mut()).is_pending());
    batch.await;
    assert!(cancel.await.unwrap().found, "the acquire was there before");
    assert_eq!(lab.keys().await, [FENCES, "lock:stays"]);
}

#[tokio::test]
async fn a_deadline_that_is_over_after_it_was_sent_is_unclear() {
    let held = Held::new().await;
    let who = claim("lock:late", "ours");
    let mut late = pin!(
        held.batcher
            .ask(take(&held.link, &who), Duration::from_secs(2))
    );
    assert!(poll_once(late.as_mut()).is_pending());
    let answer = late.await; // its answer is kept back behind the first one's

    assert!(
        matches!(answer, Err(CommandError::Unclear(_))),
        "{answer:?}"
    );
    assert!(held.is_there(&who).await);
    assert!(
        held.link.connection.is_usable(),
        "a short deadline says nothing about a connection"
    );
}

/// A batch has one timer; each of its items has its own deadline.
#[tokio::test]
async fn each_item_of_a_batch_has_a_deadline_of_its_own() {
    let held = Held::new().await;
    let batcher = &held.batcher;
    let ask = |key: &str, within| {
        let command = take(&held.link, &claim(key, "ours"));
        Box::pin(async move { batcher.ask(command, within).await })
    };
    let short = [200, 100].map(Duration::from_millis);
    let keys = ["lock:long", "lock:short", "lock:shorter", "lock:filler"];
    let within = [CAP, short[0], short[1], CAP];
    let mut asks: Vec<_> = keys
        .iter()
        .zip(within)
        .map(|(it, within)| ask(it, within))
        .collect();
    for ask in &mut asks {
        assert!(poll_once(ask.as_mut()).is_pending());
    }
    let (mut long, mut shorter) = (asks.remove(0), asks.remove(1));
    for late in [shorter.as_mut().await, asks.remove(0).await] {
        assert!(matches!(late, Err(CommandError::Unclear(_))), "{late:?}");
    }
    assert!(poll_once(long.as_mut()).is_pending());
    held.proxy.release_held();
    let answer = long.await.unwrap().acquired().unwrap();
    assert!(matches!(answer, Acquired::Granted { .. }), "{answer:?}");
}

#[tokio::test]
async fn what_is_late_before_it_is_sent_is_not_sent() {
    let held = Held::new().await;
    let (late, in_time) = (claim("lock:late", "ours"), claim("lock:in_time", "ours"));
    let within = Duration::from_millis(5);
    let mut asked = pin!(held.batcher.ask(take(&held.link, &late), within));
    let mut other = pin!(held.batcher.ask(take(&held.link, &in_time), CAP));
    assert!(poll_once(asked.as_mut()).is_pending());
    assert!(poll_once(other.as_mut()).is_pending());
    std::thread::sleep(within); // like a task that blocks the runtime
    let answer = asked.await;
    assert!(matches!(answer, Err(CommandError::Unsent(_))), "{answer:?}");
    held.proxy.release_held();
    assert!(other.await.is_ok());
    assert!(held.is_there(&in_time).await && !held.is_there(&late).await);
}

/// A cancel follows each dropped acquire, on several threads, while the server forgets its scripts:
/// nothing is ever left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_cancel_overtakes_the_acquire_of_a_caller_that_has_gone() {
    let lab = Arc::new(Lab::new().await);
    let batcher = lab.link.batcher(8);
    let tasks = (0..8_u64).map(|task| {
        let (lab, batcher) = (lab.clone(), batcher.clone());
        tokio::spawn(async move {
            for turn in 0..300_u64 {
                let who = claim(&format!("lock:{task}"), &format!("{task}:{turn}"));
                let patience = Duration::from_micros((turn * 7 + task * 131) % 400);
                let ask = batcher.ask(take(&lab.link, &who), CAP);
                let _ = tokio::time::timeout(patience, ask).await;
                lab.link.cancel(&who, Keep::NOT, 0, CAP).await.unwrap();
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
