//! Tests of `memory://`: which waiters are told of a grant, and when; which claims may write data.
//! The clock is paused, and every answer must be ready at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{ADDRESS, Memory};
use crate::extras::writes::{Writes, Wrote};
use crate::link::command_error::CommandError;
use crate::link::{Backend, Link, Listener};
use crate::rules::commands::{Acquire, Acquired, Claim, Keep, Polled, PushedGrant};
use crate::values::batch::Batch;
use crate::values::entry;
use crate::values::kind::Kind;
use crate::values::memory_value::MemoryValue;
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

const CAP: Duration = Duration::from_secs(10);

/// A grant, its `since`, and the value at its key when the listener was told.
type Told = (PushedGrant, Option<Moment>, Option<String>);

/// A listener that may read the key from the server as soon as it is told of a grant.
#[derive(Debug)]
struct Curious {
    asks: Option<Arc<dyn Link>>,
    told: Sender<Told>,
}

impl Listener for Curious {
    fn hinted(&self, _: &Arc<str>, _: &str) {}

    fn granted(&self, grant: PushedGrant, since: Option<Moment>) {
        let asks = self.asks.as_ref();
        let value = asks.and_then(|link| now(link.read(&grant.key, CAP)));
        self.told.send((grant, since, value)).unwrap();
    }

    fn evicted(&self, _: &str, _: &str, _: bool) {}

    fn disconnected(&self) {}
}

/// Returns an answer that must be ready at once.
fn now<T>(answer: impl Future<Output = Result<T, CommandError>>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(answer).poll(&mut context) {
        std::task::Poll::Ready(Ok(answer)) => answer,
        _ => panic!("no answer at once"),
    }
}

fn claim(token: &str) -> Claim {
    let lease = Ttl::new(Duration::from_secs(30)).unwrap();
    let entry = entry::of_test(&Kind::Exclusive, token, ADDRESS, lease, "");
    Claim {
        is_once: false,
        key: "k".into(),
        value: entry.into(),
        queues: true,
    }
}

fn acquire(link: &dyn Link, value: &str) -> Acquired {
    now(link.acquire(
        &Acquire {
            claim: claim(value),
            lease: Ttl::new(Duration::from_secs(30)).unwrap(),
            not_after: u64::MAX,
            repair_missing_ttl: None,
        },
        CAP,
    ))
}

/// A server, its listener, and the channel of what the listener is told.
fn world(is_curious: bool) -> (Memory, Arc<dyn Link>, Arc<Curious>, Receiver<Told>) {
    let memory = Memory::new();
    let link = now(memory.connect("k", CAP));
    let (told, heard) = channel();
    let curious = Arc::new(Curious {
        asks: is_curious.then(|| link.clone()),
        told,
    });
    let weak = Arc::downgrade(&curious);
    memory.listen(weak as Weak<dyn Listener>);
    (memory, link, curious, heard)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_hears_of_its_grant_when_the_server_is_free_again() {
    let (memory, link, listener, heard) = world(true);
    acquire(&*link, "ours");
    assert!(matches!(acquire(&*link, "next"), Acquired::Queued(_)));
    let releasing = link.clone();
    // On a thread, because this test would hang if the server were still locked.
    let runtime = tokio::runtime::Handle::current();
    std::thread::spawn(move || {
        let _paused = runtime.enter();
        now(releasing.release(&claim("ours"), Keep::NOT, CAP))
    });
    let (grant, since, value) = heard.recv_timeout(CAP).expect("it is told");
    assert_eq!((&*grant.key, &grant.value), ("k", &claim("next").value));
    let whole = Duration::from_secs(30);
    assert_eq!(grant.lease, whole, "no claim inside a process");
    assert_eq!(since, Some(memory.clock().now()));
    assert_eq!(value.as_deref(), Some(&*grant.value), "and may ask at once");
    drop(listener);
}

#[tokio::test(start_paused = true)]
async fn each_command_that_grants_tells() {
    let (_memory, link, _listener, heard) = world(false);
    acquire(&*link, "ours");
    for value in ["a", "b", "c", "d"] {
        acquire(&*link, value);
    }
    let next = || heard.try_recv().expect("one grant").0.value;
    assert!(now(link.cancel(&claim("ours"), Keep::NOT, 0, CAP)).found);
    assert_eq!(next(), claim("a").value);
    for value in ["b", "c", "d"] {
        for _ in 0..14 {
            tokio::time::advance(Duration::from_secs(2)).await;
            for waiting in ["b", "c", "d"] {
                now(link.poll(&claim(waiting), CAP));
            }
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        // The lease has lapsed; the next command about the key grants the lock to the head.
        match value {
            "c" => drop(acquire(&*link, "d")),
            _ => assert!(matches!(
                now(link.poll(&claim("d"), CAP)),
                Polled::Queued(_) | Polled::Yours { .. }
            )),
        }
        assert_eq!(next(), claim(value).value);
    }
    assert!(heard.try_recv().is_err());
}

fn write(link: &dyn Link, value: &str, batch: &Batch) -> Wrote {
    let writes = Writes::new(batch, "k", "").unwrap();
    now(link.write(&claim(value), &writes, CAP))
}

/// The server decides, not what the holder believes.
#[tokio::test(start_paused = true)]
async fn only_who_holds_the_lock_writes() {
    let (memory, link, _listener, _heard) = world(false);
    let batch = |value| Batch::new().set("{k}", value);
    assert_eq!(write(&*link, "ours", &batch("never")), Wrote::NotOurs);
    acquire(&*link, "ours");
    assert_eq!(write(&*link, "ours", &batch("first")), Wrote::All);
    assert_eq!(write(&*link, "next", &batch("never")), Wrote::NotOurs);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(write(&*link, "ours", &batch("lapsed")), Wrote::NotOurs);
    acquire(&*link, "next");
    assert_eq!(write(&*link, "ours", &batch("late")), Wrote::NotOurs);
    let first = MemoryValue::Bytes(b"first".into());
    assert_eq!(memory.memory_value("{k}").unwrap(), Some(first));
    assert_eq!(write(&*link, "next", &batch("second")), Wrote::All);
}

#[test]
fn grants_need_no_listener() {
    let memory = Memory::new();
    let link = now(memory.connect("k", CAP));
    assert_eq!(link.address().map(|it| &**it), Some(ADDRESS));
}
