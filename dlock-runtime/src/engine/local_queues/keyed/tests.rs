//! Who is woken by the answer to an acquire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::{Keyed, Locked, Waiter};
use crate::engine::pool::LockPool;
use crate::policy::client::Settled;
use crate::policy::commands::Claim;
use crate::policy::gate::{Next, Offer, Position};
use crate::policy::tokens::Tokens;
use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// How often a waiter is woken by a grant that `here` reads; `asks`: it sent the acquire itself.
async fn woken(asks: bool, reads_itself: bool) -> usize {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (_, order) = pool.lock("k").order().unwrap();
    let now = Moment::from_nanos(1);
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut keyed = Keyed::default();
    let seat = keyed.gate.enter(Waiter::new(order));
    let wheel = keyed.take_wheel(now).unwrap();
    let waiter = keyed.gate.waiter(seat).unwrap();
    waiter.asks = asks;
    waiter.listen_with(&waker);
    let mut tokens = Tokens::default();
    let mut it = Locked {
        keyed: &mut keyed,
        tokens: &mut tokens,
        command_timeout: Duration::from_secs(1),
        begins: None,
    };
    assert_eq!(it.next(wheel, now), Next::Ask);
    let token = Token::of_test(1);
    let [key, value] = ["k", "v"].map(Arc::from);
    let queues = false;
    let claim = Claim { key, value, queues };
    assert!(it.sending(wheel, Position { token, claim }, now));
    let offer = Offer::at_once(now, Duration::from_secs(10), 1, 1);
    let here = if reads_itself {
        waker.clone()
    } else {
        Waker::noop().clone()
    };
    assert_eq!(it.answered(token, offer, &here, now), Settled::Taken);
    // A driver that was told to ask before that, and is late: the offer stays.
    let late = Position {
        token: Token::of_test(2),
        claim: Claim {
            key: "k".into(),
            value: "w".into(),
            queues: false,
        },
    };
    assert!(!it.sending(wheel, late, now));
    keyed.wakes.wake();
    count.0.load(Ordering::Relaxed)
}

#[tokio::test]
async fn only_who_reads_the_answer_to_its_own_acquire_is_not_woken() {
    assert_eq!(woken(true, true).await, 0, "it looks anyway");
    assert_eq!(woken(true, false).await, 1, "another task reads it");
    assert_eq!(woken(false, true).await, 1, "a sibling in the same task");
}
