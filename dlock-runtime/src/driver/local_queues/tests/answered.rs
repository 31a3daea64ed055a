//! Which waiter is woken by the answer to an acquire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::roles::First;
use crate::client::Settled;
use crate::client::local_queue::{Attempt, Grant, LeaderStep};
use crate::driver::local_queues::{FirstAnswered, PollResult};
use crate::engine::pool::LockPool;
use crate::policy::commands::Claim;
use crate::values::token::Token;

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
    let (local_queues, queue_key, now) = (core.local_queues(), &spec.queue_key, core.now());
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut own = None;
    let first = local_queues.enter(spec.clone(), now, &waker, |leader_epoch| {
        own = Some(leader_epoch);
        Arc::new(First)
    });
    assert_eq!(first.leader_epoch, None, "it sends the acquire itself");
    let leader_epoch = own.unwrap();
    let behind = local_queues.enter(spec.clone(), now, Waker::noop(), |_| Arc::new(First));
    assert_eq!(behind.leader_epoch, None, "there is a leader");
    let (_, sender) = behind.first_acquire.expect("which it moves to a task");
    assert!(sender.unwrap().will_wake(&waker), "and wakes the first");
    let acquires = local_queues.at(queue_key, |it| it.next(leader_epoch, now));
    assert_eq!(acquires, Some(LeaderStep::Acquire));
    let token = core.tokens().draw();
    let attempt = |token: Token, value: &str| {
        let (key, value, queues) = ("k".into(), value.into(), false);
        let claim = Claim { key, value, queues };
        Attempt { token, claim }
    };
    let sends = Some((queue_key, leader_epoch));
    assert!(local_queues.sending(sends, attempt(token, "v"), now));
    let grant = Grant::at_once(now, Duration::from_secs(10), 1, 1);
    let granted = Some((token, grant));
    let answered = Some(FirstAnswered {
        leader_epoch,
        granted,
    });
    match by {
        Reader::Itself => {
            let (poll_result, _) =
                local_queues.check(&spec, first.waiter_id, now, &waker, answered);
            assert!(matches!(poll_result, PollResult::Yours(it) if it.cell.token() == token));
        }
        Reader::Sibling => {
            let (poll_result, _) =
                local_queues.check(&spec, behind.waiter_id, now, &waker, answered);
            assert!(matches!(poll_result, PollResult::Wait));
        }
        Reader::Leader => assert_eq!(
            local_queues.granted_to_leader(queue_key, token, grant, now),
            Settled::Taken
        ),
    }
    if by != Reader::Itself {
        // A leader that was told to send an acquire before that, and is late: the grant stays.
        let another = attempt(core.tokens().draw(), "w");
        assert!(!local_queues.sending(sends, another, now));
    }
    count.0.load(Ordering::Relaxed)
}

#[tokio::test]
async fn only_who_reads_the_answer_to_its_own_acquire_is_not_woken() {
    assert_eq!(woken(Reader::Itself).await, 0, "it looks anyway");
    assert_eq!(woken(Reader::Leader).await, 1, "another task reads it");
    assert_eq!(woken(Reader::Sibling).await, 1, "it is not its turn");
}
