//! Tests of reading a push: whether it is ignored, a hint or a grant, and the earliest time at
//! which it was granted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dlock_harness::until;
use redis::{PushInfo, PushKind, Value};

use super::lab::{CAP, Heard, Lab, assert_refused, claim, seconds};
use crate::link::clock::Clock;
use crate::link::redis::grant_key::{GrantKey, Proof};
use crate::link::redis::push::{Grants, PushReceiver, evicted_message};
use crate::link::{Link, Listener};
use crate::rules::commands::PushedGrant;
use crate::values::config::Secret;
use crate::values::entry;
use crate::values::error::Refusal;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::report::Notice;
use crate::values::ttl::Margin;

pub(super) const CHANNEL: &str = "lock:@grant:1";
const SECOND: u64 = 1_000_000;

pub(super) struct Hearing {
    clock: Clock,
    heard: Arc<Heard>,
    push_receiver: Arc<PushReceiver>,
}

impl Hearing {
    /// For a fleet without a secret.
    pub(super) fn new() -> Self {
        Self::with(&GrantKey::new(None))
    }

    pub(super) fn with(grant_key: &GrantKey) -> Self {
        let (clock, heard) = (Clock::pausable(), Arc::<Heard>::default());
        let weak = Arc::downgrade(&heard);
        let listener: std::sync::Weak<dyn Listener> = weak;
        let push_receiver = PushReceiver::new(
            clock,
            Margin::DEFAULT,
            vec![CHANNEL.to_owned()],
            grant_key.clone(),
            Some(listener),
            Grants::Count,
        );
        Self {
            clock,
            heard,
            push_receiver,
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// A command was answered just now, with this server time.
    pub(super) fn answered(&self, time: u64) {
        self.push_receiver.answered(time, self.now());
    }

    pub(super) fn message(
        &self,
        channel: &str,
        payload: &[u8],
    ) -> Vec<(PushedGrant, Option<Moment>)> {
        let text = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        self.push_receiver.hear(&PushInfo {
            kind: PushKind::Message,
            data: vec![text(channel.as_bytes()), text(payload)],
        });
        self.heard.take()
    }

    /// The `since` of a grant at this server time; `None`: it is only a hint.
    fn since(&self, time: u64) -> Option<Moment> {
        self.believed(&format!("1|granted\nlock:a\nv\n{time}\n{time}\n3000\n"))
    }

    fn believed(&self, message: &str) -> Option<Moment> {
        let granted = self.message(CHANNEL, message.as_bytes());
        let hinted = self.heard.take_hints();
        match (&granted[..], &hinted[..]) {
            ([(_, since)], []) => Some(since.expect("the time is known")),
            ([], [(key, value)]) => {
                assert_eq!((&**key, &**value), ("lock:a", "v"));
                None
            }
            other => panic!("{message:?}: {other:?}"),
        }
    }
}

pub(super) fn grant_key(secret: &str) -> GrantKey {
    GrantKey::new(Some(&Secret::new(secret)))
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_read() {
    let hearing = Hearing::new();
    let sent = hearing.clock.now();
    hearing.push_receiver.answered(1_790_000_000_000_000, sent);
    let heard = hearing.message(
        CHANNEL,
        b"1|granted\nlock:a b\n1|tok|x\n1790000000000001\n1790000000000000\n2500\n",
    );
    let expected = PushedGrant {
        key: "lock:a b".into(),
        value: "1|tok|x".into(),
        epoch: 1_790_000_000_000_001,
        time: 1_790_000_000_000_000,
        lease: Duration::from_millis(2500),
    };
    assert_eq!(heard, [(expected, Some(sent))]);
}

/// A later version of this layout may append lines; the MAC covers them too.
#[tokio::test(start_paused = true)]
async fn unknown_lines_are_read_over_and_proved() {
    let key = grant_key("of the fleet, and long");
    let hearing = Hearing::with(&key);
    hearing.answered(20 * SECOND);
    let said = |name: &str, more: &str| {
        let said = format!("1|granted\n{name}\nv\n{0}\n{0}\n3000{more}", 20 * SECOND);
        let mac = mac(&key, CHANNEL, &said);
        (said, mac)
    };
    let (whole, right) = said("lock:a", "\nnew\n9");
    assert!(hearing.believed(&format!("{whole}\n{right}")).is_some());
    let (_, of_another) = said("lock:a", "\nnew\n8");
    assert!(
        hearing
            .believed(&format!("{whole}\n{of_another}"))
            .is_none()
    );
    let (without, _) = said("lock:a", "");
    assert!(hearing.believed(&format!("{without}\n{right}")).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_grant_is_ignored() {
    let hearing = Hearing::new();
    for payload in [
        &b""[..],
        b"hello",
        b"1|granted\nk\nv\n1\n2",
        b"1|granted\nk\nv\n1\n2\n3",
        b"k\nv\n1\n2\n3\n", // neither a layout nor an event
        b"2|granted\nk\nv\n1\n2\n3\n",
        b"1|granted|k\nv\n1\n2\n3\n",
        b"1|evicted",
        b"1|evicted\nk\nv",
        b"2|evicted\nk\nv\n",
        b"1|wanted\nk\nv\n1\n", // an event of a later version
        b"1|granted\nk\nv\n1\n2\n-3\n",
        b"1|granted\nk\nv\n1.5\n2\n3\n",
        b"1|granted\nk\nv\n1e15\n2\n3\n",
        b"1|granted\nk\nv\n\n2\n3\n",
        b"1|granted\n\nv\n1\n2\n3\n",
        b"1|granted\nk\n\n1\n2\n3\n",
        b"1|granted\nk\n\xff\n1\n2\n3\n",
        b"1|granted\nk\nv\n99999999999999999999\n2\n3\n",
        b"1|granted\nk\nv\n1\n2\n3001\n", // longer than any claim
        b"1|granted\nk\nv\n1\n2\n18446744073709551615\n",
        format!("1|granted\nk\n{}\n1\n2\n3\n", "v".repeat(64 * 1024)).as_bytes(),
    ] {
        let heard = hearing.message(CHANNEL, payload);
        let hinted = hearing.heard.take_hints();
        let shown = String::from_utf8_lossy(payload);
        let evicted = hearing.heard.take_evicted();
        assert!(
            heard.is_empty() && hinted.is_empty() && evicted.is_empty(),
            "{shown}"
        );
    }
    assert!(
        hearing
            .message("another", b"1|granted\nk\nv\n1\n2\n3\n")
            .is_empty()
    );
    for data in [vec![], vec![Value::Nil; 2], vec![Value::Int(1)]] {
        let kind = PushKind::Message;
        hearing.push_receiver.hear(&PushInfo { kind, data });
    }
    for kind in [
        PushKind::Invalidate,
        PushKind::Subscribe,
        PushKind::PMessage,
    ] {
        let data = vec![
            Value::BulkString(CHANNEL.into()),
            Value::BulkString(b"1|granted\nk\nv\n1\n2\n3\n".to_vec()),
        ];
        hearing.push_receiver.hear(&PushInfo { kind, data });
    }
    assert!(hearing.heard.take().is_empty() && hearing.heard.take_hints().is_empty());
    assert!(!hearing.heard.disconnected.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connection_is_passed_on() {
    let hearing = Hearing::new();
    let (kind, data) = (PushKind::Disconnection, vec![]);
    hearing.push_receiver.hear(&PushInfo { kind, data });
    assert!(hearing.heard.disconnected.load(Ordering::SeqCst));
}

/// M10: a message may have waited in a buffer while this process was stopped.
#[tokio::test(start_paused = true)]
async fn m10_a_lease_begins_no_later_than_its_grant() {
    let hearing = Hearing::new();
    let pass = |millis| tokio::time::advance(Duration::from_millis(millis));
    assert_eq!(hearing.since(5 * SECOND), None, "nothing was answered yet");
    pass(4000).await;
    let sent = hearing.clock.now();
    pass(100).await;
    hearing.push_receiver.answered(20 * SECOND, sent);

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
    let latest = 21 * SECOND + 10_000; // nearly the latest that the server's clock can be
    let almost = Duration::from_micros(999_900);
    assert_eq!(hearing.since(latest), Some(sent.plus(almost)));
    assert_eq!(
        hearing.since(latest + 1000),
        None,
        "it is not so late there yet"
    );
    assert_eq!(hearing.since(25 * SECOND), None);
    assert_eq!(hearing.since(u64::MAX), None);
    assert_eq!(
        hearing.since(0),
        None,
        "it is over, and no number wraps around"
    );
    assert_eq!(hearing.since(18 * SECOND), None, "it has just ended");
    assert!(hearing.since(18 * SECOND + 30_000).is_some());
}

/// A fence made from it would refuse all later holders.
#[tokio::test(start_paused = true)]
async fn an_epoch_far_above_the_clock_is_not_believed() {
    let hearing = Hearing::new();
    hearing
        .push_receiver
        .answered(20 * SECOND, hearing.clock.now());
    let believed = |epoch: u64| {
        let message = format!("1|granted\nlock:a\nv\n{epoch}\n{}\n3000\n", 20 * SECOND);
        hearing.believed(&message).is_some()
    };
    assert!(believed(20 * SECOND) && believed(80 * SECOND));
    for epoch in [
        0,
        20 * SECOND - 1,
        80 * SECOND + 1,
        9_007_199_254_740_990,
        u64::MAX,
    ] {
        assert!(!believed(epoch), "{epoch}");
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_secret_only_what_is_proved_is_believed() {
    let key = grant_key("of the fleet, and long");
    let hearing = Hearing::with(&key);
    hearing
        .push_receiver
        .answered(20 * SECOND, hearing.clock.now());
    let said = |epoch: u64| format!("1|granted\nlock:a\nv\n{epoch}\n{}\n3000", 20 * SECOND);
    let right = |said: &str| mac(&key, CHANNEL, said);
    let (one, far) = (said(20 * SECOND), said(9_007_199_254_740_990));
    let believed = |said: &str, mac: &str| hearing.believed(&format!("{said}\n{mac}")).is_some();
    assert!(believed(&one, &right(&one)));
    assert!(
        !believed(&far, &right(&far)),
        "the fleet's own counter does not stand there"
    );
    let ahead = format!("1|granted\nlock:a\nv\n{0}\n{0}\n3000", 25 * SECOND);
    assert!(!believed(&ahead, &right(&ahead)), "it is not so late there");
    let mut almost = right(&one);
    almost.replace_range(39.., if almost.ends_with('0') { "1" } else { "0" });
    for wrong in [
        "",
        "0",
        &almost,
        &right(&one)[..39],
        &format!("{}0", right(&one)),
        &right(&far),
        &mac(&key, "lock:@grant:2", &one),
        &mac(&grant_key("of another fleet"), CHANNEL, &one),
        &mac(&GrantKey::new(None), CHANNEL, &one),
    ] {
        assert!(!believed(&one, wrong), "{wrong}");
    }
}

/// Whatever is said of a holder only makes it ask; who knows the secret is heard first. A later version
/// may append lines.
#[tokio::test(start_paused = true)]
async fn that_a_holder_was_evicted_is_read_and_proved() {
    let key = grant_key("of the fleet, and long");
    let claim = claim("lock:k", "1|x|1-1-1||9|0|0||h|1|f|1");
    let (proving, trusting) = (Hearing::with(&key), Hearing::new());
    let heard = |hearing: &Hearing, channel: &str, message: &str| {
        assert!(hearing.message(channel, message.as_bytes()).is_empty());
        hearing.heard.take_evicted()
    };
    let said = format!("1|evicted\n{}\n{}", claim.key, claim.value);
    let right = evicted_message(&key, CHANNEL, &claim);
    assert_eq!(right, format!("{said}\n{}", mac(&key, CHANNEL, &said)));
    let longer = format!("{said}\nnew");
    let longer = format!("{longer}\n{}", mac(&key, CHANNEL, &longer));
    let without = evicted_message(&GrantKey::new(None), CHANNEL, &claim);
    assert_eq!(without, format!("{said}\n"));
    let of_another = evicted_message(&grant_key("of another fleet"), CHANNEL, &claim);
    let of_another_channel = evicted_message(&key, "lock:@grant:2", &claim);
    for (message, is_right) in [
        (right, true),
        (longer, true),
        (without, false),
        (of_another, false),
        (of_another_channel, false),
    ] {
        let said = |is_proved| [(claim.key.to_string(), claim.value.to_string(), is_proved)];
        assert_eq!(
            heard(&proving, CHANNEL, &message),
            said(is_right),
            "{message}"
        );
        assert_eq!(
            heard(&trusting, CHANNEL, &message),
            said(false),
            "{message}"
        );
        assert_eq!(heard(&trusting, "lock:@grant:2", &message), []);
    }
}

/// Not at an address that only a stranger writes.
#[tokio::test]
async fn an_evicted_holder_is_told_at_its_address() {
    let lab = Lab::new().await;
    let address = lab.link.address().expect("it hears").to_string();
    let of = |address: &str| entry::of_test(&Kind::Exclusive, "1-1-1", address, seconds(30), "h");
    let link: &dyn Link = &lab.link;
    let tell = async |value: &str| link.tell_evicted(&claim("lock:k", value), CAP).await;
    let ours = of(&address);
    assert_eq!(tell(&ours).await.unwrap(), Notice::Sent);
    let told = [("lock:k".to_owned(), ours.clone(), true)];
    until("it is told", CAP, async || lab.heard.take_evicted() == told).await;
    for value in [
        &*of(""),
        &of("7;jobs"),
        &of("7;shop:@grant:1"),
        &entry::retired(&ours),
        "a token of redis-py",
    ] {
        assert_eq!(tell(value).await.unwrap(), Notice::NoAddress, "{value}");
    }
    lab.tell::<()>(&["ACL", "SETUSER", "default", "-publish"])
        .await;
    assert_refused(tell(&ours).await, Refusal::NoPermission);
    assert_eq!(lab.heard.take_evicted(), []);
}

/// Anyone can compute a MAC with an empty secret, so nothing is proved by it.
#[test]
fn an_empty_secret_is_none() {
    assert_eq!(grant_key("").argument(), GrantKey::new(None).argument());
    assert_eq!(grant_key("").check(CHANNEL, "m", ""), Proof::Impossible);
}

#[test]
fn no_output_shows_the_secret() {
    let key = grant_key("of the fleet, and long");
    assert_eq!(key.argument().len(), 40);
    let shown = format!("{key:?} {:?}", Secret::new("of the fleet, and long"));
    assert!(
        !shown.contains("fleet") && !shown.contains(key.argument()),
        "{shown}"
    );
}

/// The same MAC as `lua/grant.lua` computes.
pub(super) fn mac(key: &GrantKey, channel: &str, said: &str) -> String {
    let secret = key.argument();
    let inner = redis::Script::new(&format!("{secret}{channel}\n{said}"));
    let outer = redis::Script::new(&format!("{secret}{}", inner.get_hash()));
    outer.get_hash().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_tells_nothing_and_the_latest_counts() {
    let hearing = Hearing::new();
    let pass = |millis| tokio::time::advance(Duration::from_millis(millis));
    let first = hearing.clock.now();
    hearing.push_receiver.answered(10 * SECOND, first);
    pass(2000).await;
    assert_eq!(hearing.since(10 * SECOND), Some(first), "2 s old");
    pass(1).await;
    assert_eq!(hearing.since(10 * SECOND), None, "older");

    let second = hearing.clock.now();
    pass(10).await;
    hearing.push_receiver.answered(12 * SECOND + 1000, second);
    hearing.push_receiver.answered(10 * SECOND, first); // the answer of a task that ran late
    let since = hearing.since(12 * SECOND + 4000);
    assert_eq!(
        since,
        Some(second.plus(Duration::from_micros(2970))),
        "3 ms of a clock that is 1 % fast"
    );
}
