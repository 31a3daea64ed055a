//! Tests of full batches, of several flushers at once, and of callers that go or move while their
//! items are in a batch: items leave in order, slots are given back, deadlines are kept.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, until};
use tokio::runtime::{Builder, Runtime};
use tokio::task::coop::consume_budget;

use super::super::lab::{CAP, HOUR, Lab, acquire, claim};
use super::callers::{Held, poll_once};
use super::{FEW, take};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::Batcher;
use crate::link::redis::reply::ItemReply;
use crate::rules::commands::Acquired;

type Ask<'a> = Pin<Box<dyn Future<Output = Result<ItemReply, CommandError>> + Send + 'a>>;

/// Acquires of so many locks, not polled yet.
fn asks<'a>(
    link: &RedisLink,
    batcher: &'a Arc<Batcher>,
    (name, number): (&str, usize),
    within: Duration,
) -> Vec<Ask<'a>> {
    let ask = |i| {
        let command = take(link, &claim(&format!("lock:{name}{i}"), "ours"));
        Box::pin(batcher.ask(command, within)) as Ask<'a>
    };
    (0..number).map(ask).collect()
}

fn begin(asks: &mut [Ask<'_>]) {
    for ask in asks {
        assert!(poll_once(ask.as_mut()).is_pending());
    }
}

/// The epochs of locks that were all granted.
async fn epochs(asks: Vec<Ask<'_>>) -> Vec<u64> {
    let mut epochs = Vec::new();
    for ask in asks {
        match ask.await.unwrap().acquired().unwrap() {
            Acquired::Granted { epoch, .. } => epochs.push(epoch),
            other => panic!("{other:?}"),
        }
    }
    epochs
}

/// What has been sent can't be withdrawn: that shows that it was sent, though no flusher has run.
#[tokio::test]
async fn the_caller_that_fills_a_batch_sends_it() {
    let mut held = Held::new().await;
    let number = 2 * FEW - 1;
    let mut all = asks(&held.link, &held.batcher, ("", number), CAP);
    begin(&mut all);
    drop(all);
    held.proxy.release_held();
    for sent in [&mut held.first, &mut held.second] {
        assert!(sent.await.unwrap().is_ok());
    }
    until("its answer has come", CAP, async || held.batcher.is_idle()).await;
    for i in 0..number {
        let who = claim(&format!("lock:{i}"), "ours");
        assert_eq!(held.is_there(&who).await, i < FEW, "{}", who.key);
    }
}

/// Whether this key is at the server, asked without tokio.
fn is_there_now(server: &RedisServer, key: &str) -> bool {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    write!(stream, "EXISTS {key}\r\n").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    &answer == b":1\r\n"
}

/// No other task of this runtime runs meanwhile, the one that reads and writes included.
#[tokio::test]
async fn a_full_batch_leaves_before_the_tasks_that_are_ready() {
    let held = Held::new().await;
    let mut all = asks(&held.link, &held.batcher, ("", 2 * FEW - 1), CAP);
    let cap = Instant::now() + CAP;
    begin(&mut all);
    while !is_there_now(&held.server, "lock:0") {
        assert!(Instant::now() < cap, "it waits for the other tasks");
        std::thread::sleep(Duration::from_millis(1));
    }
    held.proxy.release_held();
    assert_eq!(epochs(all).await.len(), 2 * FEW - 1);
}

/// When it is woken, it polls these for the first time.
struct Polls(Mutex<Vec<Ask<'static>>>);

impl Wake for Polls {
    fn wake(self: Arc<Self>) {
        begin(&mut self.0.lock().unwrap());
    }
}

/// While a flusher is about to send a batch, others come and fill one: here, because the flusher
/// wakes the caller of a late item; in general, on another thread.
#[tokio::test]
async fn a_full_batch_does_not_overtake_one_that_was_taken_before() {
    let held = Held::new().await;
    let batcher: &'static Arc<Batcher> = Box::leak(Box::new(held.batcher.clone()));
    let behind = asks(&held.link, batcher, ("behind", 6), CAP);
    let polls = Arc::new(Polls(Mutex::new(behind)));
    let waker = Waker::from(polls.clone());
    let mut late = asks(&held.link, batcher, ("late", 1), Duration::from_millis(1));
    let polled = late[0].as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let mut all = asks(&held.link, batcher, ("first", 3), CAP);
    begin(&mut all);
    std::thread::sleep(Duration::from_millis(2)); // the flusher finds the item late
    let last = claim("lock:behind5", "ours");
    until("all are sent", CAP, async || held.is_there(&last).await).await;
    held.proxy.release_held();
    all.append(&mut polls.0.lock().unwrap());
    let epochs = epochs(all).await;
    assert!(epochs.len() == 9 && epochs.is_sorted(), "{epochs:?}");
}

/// The batch is sent twice, since the server has forgotten the script; meanwhile a caller goes.
#[tokio::test]
async fn the_slot_of_a_caller_that_goes_between_two_sendings_is_given_back() {
    let held = Held::new().await;
    held.server.cmd(&["SCRIPT", "FLUSH"]).await;
    let before = held.scripts().await;
    let mut all = asks(&held.link, &held.batcher, ("", 2), CAP);
    begin(&mut all);
    until("it is sent", CAP, async || held.scripts().await > before).await;
    drop(all.remove(0));
    held.proxy.release_held();
    assert_eq!(epochs(all).await.len(), 1);
    assert!(!held.is_there(&claim("lock:0", "ours")).await);
    until("no slot is left", CAP, async || held.batcher.is_idle()).await;
}

/// It began to wait on the connection's runtime, whose flusher would keep its deadline, but nothing
/// drives that any more.
#[test]
fn a_caller_that_moves_to_another_runtime_keeps_its_own_deadline() {
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (own, other): (Runtime, Runtime) = (runtime(), runtime());
    let lab = own.block_on(Lab::new());
    let claims = ["lock:a", "lock:b", "lock:c"].map(|key| claim(key, "ours"));
    let commands = claims
        .each_ref()
        .map(|who| acquire(who, lab.link.server_time() + HOUR));
    let within = Duration::from_millis(300);
    let mut all = commands.each_ref().map(|it| lab.link.acquire(it, within));
    own.block_on(async {
        for one in &mut all {
            assert!(poll_once(Pin::new(one)).is_pending());
        }
    });
    let [_, _, moved] = all;
    let answer = other.block_on(async { tokio::time::timeout(CAP, moved).await });
    let answer = answer.expect("it ends");
    assert!(matches!(answer, Err(CommandError::Unsent(_))), "{answer:?}");
}

/// What callers send themselves is on the wire with their first poll, before what waits.
#[tokio::test]
async fn what_is_sent_alone_leaves_first_although_the_budget_of_its_task_is_used_up() {
    let lab = Arc::new(Lab::new().await);
    let batcher = lab.link.batcher(FEW);
    let task = async move {
        for number in [12, 1] {
            // The server knows the scripts then.
            let mut known = asks(
                &lab.link,
                &batcher,
                (&format!("known{number}"), number),
                CAP,
            );
            begin(&mut known);
            epochs(known).await;
        }
        while poll_once(pin!(consume_budget())).is_ready() {}
        let mut all = asks(&lab.link, &batcher, ("", 6), CAP);
        begin(&mut all);
        epochs(all).await
    };
    let epochs = tokio::spawn(task).await.unwrap();
    assert!(epochs.is_sorted(), "{epochs:?}");
}
