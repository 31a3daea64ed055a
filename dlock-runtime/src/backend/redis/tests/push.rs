//! What is made of a push: read or ignored, and when it was granted at the earliest.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};

use super::lab::Heard;
use crate::backend::Listener;
use crate::backend::clock::Clock;
use crate::backend::redis::push::Ear;
use crate::policy::commands::Grant;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

const CHANNEL: &str = "lock:@grant:1";
const SECOND: u64 = 1_000_000;

struct Hearing {
    clock: Clock,
    heard: Arc<Heard>,
    ear: Arc<Ear>,
}

impl Hearing {
    fn new() -> Self {
        let (clock, heard) = (Clock::pausable(), Arc::<Heard>::default());
        let weak = Arc::downgrade(&heard);
        let listener: std::sync::Weak<dyn Listener> = weak;
        let ear = Ear::new(clock, Margin::DEFAULT, CHANNEL.to_owned(), Some(listener));
        Self { clock, heard, ear }
    }

    fn message(&self, channel: &str, payload: &[u8]) -> Vec<(Grant, Option<Moment>)> {
        let text = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        self.ear.hear(&PushInfo {
            kind: PushKind::Message,
            data: vec![text(channel.as_bytes()), text(payload)],
        });
        self.heard.take()
    }

    /// The `since` of a grant at this server time.
    fn since(&self, time: u64) -> Option<Moment> {
        let message = format!("lock:a\n1|v\n{time}\n{time}\n3000");
        let [(_, since)] = self.message(CHANNEL, message.as_bytes())[..] else {
            panic!("not one grant")
        };
        since
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_read() {
    let hearing = Hearing::new();
    let heard = hearing.message(
        CHANNEL,
        b"lock:a b\n1|tok|x\n1790000000000001\n1790000000000000\n2500",
    );
    let expected = Grant {
        key: "lock:a b".into(),
        value: "1|tok|x".into(),
        epoch: 1_790_000_000_000_001,
        time: 1_790_000_000_000_000,
        lease: Duration::from_millis(2500),
    };
    assert_eq!(heard, [(expected, None)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_grant_is_ignored() {
    let hearing = Hearing::new();
    for payload in [
        &b""[..],
        b"hello",
        b"k\nv\n1\n2",
        b"k\nv\n1\n2\n3\n4",
        b"k\nv\n1\n2\n3\n",
        b"k\nv\n1\n2\n-3",
        b"k\nv\n1.5\n2\n3",
        b"k\nv\n1e15\n2\n3",
        b"k\nv\n\n2\n3",
        b"\nv\n1\n2\n3",
        b"k\n\n1\n2\n3",
        b"k\n\xff\n1\n2\n3",
        b"k\nv\n99999999999999999999\n2\n3",
    ] {
        let heard = hearing.message(CHANNEL, payload);
        assert!(heard.is_empty(), "{}", String::from_utf8_lossy(payload));
    }
    assert!(hearing.message("another", b"k\nv\n1\n2\n3").is_empty());
    for data in [vec![], vec![Value::Nil; 2], vec![Value::Int(1)]] {
        let kind = PushKind::Message;
        hearing.ear.hear(&PushInfo { kind, data });
    }
    for kind in [
        PushKind::Invalidate,
        PushKind::Subscribe,
        PushKind::PMessage,
    ] {
        let data = vec![
            Value::BulkString(CHANNEL.into()),
            Value::BulkString(b"k\nv\n1\n2\n3".to_vec()),
        ];
        hearing.ear.hear(&PushInfo { kind, data });
    }
    assert!(hearing.heard.take().is_empty());
    assert!(!hearing.heard.disconnected.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_is_passed_on() {
    let hearing = Hearing::new();
    let (kind, data) = (PushKind::Disconnection, vec![]);
    hearing.ear.hear(&PushInfo { kind, data });
    assert!(hearing.heard.disconnected.load(Ordering::SeqCst));
}

/// M10: a message may have lain in a buffer while this process stood still.
#[tokio::test(start_paused = true)]
async fn m10_a_lease_begins_no_later_than_its_grant() {
    let hearing = Hearing::new();
    let pass = |millis| tokio::time::advance(Duration::from_millis(millis));
    assert_eq!(hearing.since(5 * SECOND), None, "nothing was answered yet");
    pass(1000).await;
    let sent = hearing.clock.now();
    pass(100).await;
    hearing.ear.answered(20 * SECOND, sent);

    let at = |millis: u64| sent.plus(Duration::from_millis(millis));
    pass(900).await;
    assert_eq!(
        hearing.since(20 * SECOND + 300_000),
        Some(at(297)),
        "by a clock that is 1 % fast"
    );
    assert_eq!(hearing.since(20 * SECOND), Some(sent));
    let before = Moment::from_nanos(sent.as_nanos() - 200_000_000);
    assert_eq!(
        hearing.since(20 * SECOND - 198_000),
        Some(before),
        "by one that is slow"
    );
    let received = hearing.clock.now();
    assert_eq!(
        hearing.since(25 * SECOND),
        Some(received),
        "no later than received"
    );
    assert_eq!(
        hearing.since(0),
        Some(Moment::from_nanos(0)),
        "no wrap around"
    );
    assert_eq!(hearing.since(u64::MAX), Some(received));
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_tells_nothing_and_the_latest_counts() {
    let hearing = Hearing::new();
    let pass = |millis| tokio::time::advance(Duration::from_millis(millis));
    let first = hearing.clock.now();
    hearing.ear.answered(10 * SECOND, first);
    pass(2000).await;
    assert_eq!(hearing.since(10 * SECOND), Some(first), "2 s old");
    pass(1).await;
    assert_eq!(hearing.since(10 * SECOND), None, "older");

    let second = hearing.clock.now();
    pass(10).await;
    hearing.ear.answered(12 * SECOND + 1000, second);
    hearing.ear.answered(10 * SECOND, first); // whose task was late
    let since = hearing.since(12 * SECOND + 4000);
    assert_eq!(
        since,
        Some(second.plus(Duration::from_micros(2970))),
        "3 ms of a clock that is 1 % fast"
    );
}
