//! Which waiter is woken by the answer to an acquire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use super::roles::flight;
use super::site::sent;
use crate::client::{Heard, Looked, ReadAnswer};
use crate::driver::pool::LockPool;
use crate::rules::commands::Acquired;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(PartialEq)]
enum Reader {
    /// The first waiter, which has sent the acquire.
    Itself,
    /// A waiter behind it.
    Sibling,
    /// A leader in a task of its own.
    Leader,
}

/// How often the first waiter is woken by a grant.
async fn woken(by: Reader) -> usize {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (core, spec) = pool.lock("k").spec().unwrap();
    let (queue_key, now) = (&spec.queue_key, core.now());
    let count = Arc::new(Count::default());
    let (waker, noop) = (Waker::from(count.clone()), Waker::noop());
    let mut own = None;
    let first = core.tell(now, |client, told| {
        client.enter(queue_key, spec.clone(), &waker, told, |leader_epoch| {
            own = Some(leader_epoch);
            flight()
        })
    });
    assert_eq!(first.lead, None, "it sends the acquire itself");
    let leader_epoch = own.unwrap();
    let of_leader = (queue_key, leader_epoch);
    let behind = core.tell(now, |client, told| {
        client.enter(queue_key, spec.clone(), noop, told, |_| flight())
    });
    assert_eq!(behind.lead, None, "there is a leader");
    let (_, sender) = behind.moved.expect("which it moves to a task");
    assert!(sender.unwrap().will_wake(&waker), "and wakes the first");
    // It may be polled with another waker just then: it hears that it sends nothing any more.
    let looks = |waiter, waker: &Waker, read: Option<ReadAnswer<'_, _>>| {
        core.at(queue_key, now, |queue| {
            queue.look(&spec, (waiter, waker), read)
        })
    };
    let reply = looks(first.waiter_id, &waker, None);
    assert!(matches!(reply.looked, Looked::Wait) && !reply.sends_itself);
    let sent = sent(1, now);
    assert!(core.tell(now, |client, told| client.sending(of_leader, &sent, told)));
    let landed = || sent.landed(Acquired::Granted { time: 1, epoch: 1 });
    let heard = Heard {
        is_told: true,
        follows: None,
    };
    let read = || ReadAnswer {
        leader_epoch,
        answer: Some((&sent, Ok(landed()), heard)),
    };
    match by {
        Reader::Itself => {
            let reply = looks(first.waiter_id, &waker, Some(read()));
            assert!(matches!(reply.looked, Looked::Yours(_, cell) if cell.token() == sent.token));
        }
        Reader::Sibling => {
            let reply = looks(behind.waiter_id, noop, Some(read()));
            assert!(matches!(reply.looked, Looked::Wait));
        }
        Reader::Leader => {
            let answer = (&sent, Ok(landed()));
            let answered = core.at(queue_key, now, |queue| {
                queue.answered(leader_epoch, answer, heard)
            });
            assert!(answered.is_granted);
        }
    }
    if by != Reader::Itself {
        // A leader that was told to send an acquire before that, and is late: the grant stays.
        let another = super::site::sent(2, now);
        assert!(!core.tell(now, |client, told| {
            client.sending(of_leader, &another, told)
        }));
    }
    count.0.load(Ordering::Relaxed)
}

#[tokio::test]
async fn only_who_reads_the_answer_to_its_own_acquire_is_not_woken() {
    assert_eq!(woken(Reader::Itself).await, 0, "it looks anyway");
    assert_eq!(woken(Reader::Leader).await, 1, "another task reads it");
    assert_eq!(woken(Reader::Sibling).await, 1, "it is not its turn");
}
