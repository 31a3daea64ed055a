//! Who is woken by the answer to an acquire.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::engine::local_queues::{Answered, Sight};
use crate::engine::pool::LockPool;
use crate::policy::client::Settled;
use crate::policy::commands::Claim;
use crate::policy::gate::{Next, Offer, Position};
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
    /// The first in line, who has sent the acquire.
    Itself,
    /// Somebody behind it.
    Sibling,
    /// A task of the driver's own.
    Driver,
}

/// How often the first in line is woken by a grant.
async fn woken(by: Reader) -> usize {
    let pool = LockPool::connect("memory://").await.unwrap();
    let (core, order) = pool.lock("k").order().unwrap();
    let (gates, lane, now) = (core.gates(), &order.lane, core.now());
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let first = gates.enter(order.clone(), now);
    let wheel = first.wheel.unwrap();
    let (sight, _) = gates.look(&order, first.seat, now, &waker, None);
    assert!(matches!(sight, Sight::Wait));
    let behind = gates.enter(order.clone(), now);
    let asks = gates.at(lane, |it| it.next(wheel, now));
    assert_eq!(asks, Some(Next::Ask));
    let token = core.tokens().draw();
    let position = |token: Token, value: &str| {
        let (key, value, queues) = ("k".into(), value.into(), false);
        let claim = Claim { key, value, queues };
        Position { token, claim }
    };
    let sends = Some((lane, wheel));
    assert!(gates.sending(sends, position(token, "v"), now));
    let offer = Offer::at_once(now, Duration::from_secs(10), 1, 1);
    let granted = Some((token, offer));
    let answered = Some(Answered { wheel, granted });
    match by {
        Reader::Itself => {
            let (sight, _) = gates.look(&order, first.seat, now, &waker, answered);
            assert!(matches!(sight, Sight::Yours(it) if it.position.token == token));
        }
        Reader::Sibling => {
            let (sight, _) = gates.look(&order, behind.seat, now, &waker, answered);
            assert!(matches!(sight, Sight::Wait));
        }
        Reader::Driver => assert_eq!(gates.offered(lane, token, offer, now), Settled::Taken),
    }
    if by != Reader::Itself {
        // A driver that was told to ask before that, and is late: the offer stays.
        let another = position(core.tokens().draw(), "w");
        assert!(!gates.sending(sends, another, now));
    }
    count.0.load(Ordering::Relaxed)
}

#[tokio::test]
async fn only_who_reads_the_answer_to_its_own_acquire_is_not_woken() {
    assert_eq!(woken(Reader::Itself).await, 0, "it looks anyway");
    assert_eq!(woken(Reader::Driver).await, 1, "another task reads it");
    assert_eq!(woken(Reader::Sibling).await, 1, "it is not its turn");
}
