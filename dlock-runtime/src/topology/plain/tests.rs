//! Tests how answers are read and what is decided by them. Whatever a server answers, the result is a
//! typed error or a decision, never a panic, and no error shows what stood at a key.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};
use redis::{Cmd, Value};

use super::acquire;
use super::answers::{self, KeyContent};
use super::poll::{self, PollStep};
use super::renew::{self, RenewalStep};
use super::seen::{Decided, SeenKey};
use super::{key_lasts, lease_until};
use crate::link::redis::names::Names;
use crate::rules::commands::{Acquire, Acquired, Claim, Keep, Left, Polled, Renewal, Renewed};
use crate::rules::window::StoredChange;
use crate::values::entry;
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

const OURS: &str = "1|x|token||60000|0|0||host|1|main|0";
const THEIRS: &str = "1|x|other||60000|0|0||host|1|main|0";
const LEASE: Duration = Duration::from_secs(60);

fn text(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn time() -> Value {
    Value::Array(vec![text("1700000000"), text("5")])
}

const NOW: u64 = 1_700_000_000_000_005;

fn claim() -> Claim {
    Claim {
        is_once: false,
        key: "lock:k".into(),
        value: OURS.into(),
        queues: true,
    }
}

fn command() -> Acquire {
    Acquire {
        claim: claim(),
        lease: Ttl::new(LEASE).unwrap(),
        not_after: u64::MAX,
        repair_missing_ttl: None,
    }
}

fn renewal() -> Renewal {
    Renewal {
        claim: claim(),
        ttl: Ttl::new(LEASE).unwrap(),
    }
}

fn tried(counter: Value, pttl: i64, value: Value) -> Acquired {
    let items = [
        Value::Nil,
        counter,
        time(),
        Value::Okay,
        Value::Int(pttl),
        value,
    ];
    acquire::read(&items, &command()).unwrap().decided.answer
}

#[test]
fn a_lock_is_ours_only_if_its_value_is() {
    let (counter, lease) = (Value::Int(7), 60_000);
    let granted = tried(counter.clone(), lease, text(OURS));
    let (time, epoch) = (NOW, NOW);
    assert_eq!(granted, Acquired::Granted { time, epoch });
    // SET said OK, and the key's time was over: nothing was created.
    let late = tried(counter.clone(), -2, Value::Nil);
    assert_eq!(late, Acquired::Late { time });
    // Less is left than was asked for.
    let short = tried(counter.clone(), lease - 1, text(OURS));
    let left = Duration::from_millis(59_999);
    assert_eq!(short, Acquired::Yours { time, epoch, left });
    assert!(matches!(
        tried(counter, lease, text(THEIRS)),
        Acquired::Queued(_)
    ));
}

#[test]
fn the_epoch_is_the_larger_of_counter_and_time() {
    let large = i64::try_from(NOW).unwrap() + 5;
    for (counter, epoch) in [
        (Value::Int(7), NOW),
        (Value::Int(large), NOW + 5),
        (text(&large.to_string()), NOW + 5),
        // No number, or none that was drawn here.
        (text("no number"), NOW),
        (Value::Int(i64::MAX), NOW),
        (Value::Int(-1), NOW),
        (Value::Nil, NOW),
        (Value::Array(Vec::new()), NOW),
    ] {
        assert_eq!(answers::epoch(&counter, NOW).unwrap(), epoch, "{counter:?}");
    }
}

#[test]
fn a_key_outlives_its_lease_a_little_and_nobody_counts_on_that() {
    for (lease, longer) in [(10, 10), (1_000, 41), (60_000, 250), (86_400_000, 250)] {
        let lease = Duration::from_millis(lease);
        let lasts = key_lasts(lease).as_millis() - lease.as_millis();
        assert_eq!(lasts, longer, "{lease:?}");
    }
    assert_eq!(lease_until(1_000_000, Duration::from_secs(1)), 2_041);
    let busy = |pttl, value| match tried(Value::Int(7), pttl, text(value)) {
        Acquired::Busy(busy) | Acquired::Queued(busy) => busy.left,
        other => panic!("{other:?}"),
    };
    let left = |ms| Left::For(Duration::from_millis(ms));
    assert_eq!(busy(60_200, THEIRS), Left::For(LEASE));
    assert_eq!(busy(5_000, THEIRS), left(5_000));
    assert_eq!(busy(90_000, THEIRS), left(90_000), "it was lengthened");
    assert_eq!(busy(90_000, "foreign"), left(90_000));
    assert_eq!(busy(-1, THEIRS), Left::Endless);
    assert_eq!(busy(-2, "foreign"), left(1), "it lapses");
}

fn step(first: Value, score: Value, kept: i64, last: Value) -> PollStep {
    let answers = [
        first,
        text("9"),
        Value::Int(2_000),
        time(),
        score,
        Value::Int(0),
        Value::Int(kept),
        Value::Int(kept),
        last,
    ];
    poll::read(&answers, &claim()).unwrap()
}

#[test]
fn a_grant_is_found_only_if_it_lasted_while_the_poll_was_executed() {
    let queued = || text("17");
    let (time, epoch) = (NOW, NOW);
    let yours = Polled::Yours {
        time,
        epoch,
        left: Duration::from_secs(2),
    };
    assert_eq!(
        step(text(OURS), Value::Nil, 1, text(OURS)),
        PollStep::Settled(yours.clone())
    );
    let granted = step(text(THEIRS), queued(), 1, text(OURS));
    assert_eq!(granted, PollStep::Open(yours), "the PTTL is theirs");
    let gone = || Polled::Gone { time };
    let lapsed = step(text(OURS), Value::Nil, 0, Value::Nil);
    assert_eq!(lapsed, PollStep::Settled(gone()));
    let nobody_waits = step(Value::Nil, Value::Nil, 0, Value::Nil);
    assert_eq!(nobody_waits, PollStep::Settled(gone()));
    let others_wait = step(Value::Nil, Value::Nil, 1, Value::Nil);
    assert_eq!(others_wait, PollStep::Open(gone()));
    assert!(matches!(
        step(text(THEIRS), queued(), 1, Value::Nil),
        PollStep::Open(Polled::Queued(_))
    ));
    let waits = step(text(THEIRS), queued(), 1, text(THEIRS));
    assert!(matches!(waits, PollStep::Settled(Polled::Queued(_))));
}

fn seen(held: KeyContent, first: Option<&str>) -> SeenKey {
    SeenKey {
        record: None,
        held,
        pttl: 20_000,
        time: NOW,
        head: first.map(|it| it.as_bytes().to_vec()),
        own: None,
        others_wait: first.is_some(),
        lapsed: vec![b"dead".to_vec()],
        ahead: vec![b"ahead".to_vec()],
    }
}

/// What a release of this value decides.
fn given_back(seen: &SeenKey, value: &str, keep: Keep) -> Decided<bool> {
    let claim = Claim {
        value: value.into(),
        ..claim()
    };
    let decided = seen.decide(&claim.key, |it| it.release(&claim, keep).found);
    decided.unwrap()
}

/// The changes of the lock, and of the queue's entries, in short.
fn decided(seen: &SeenKey, keep: Keep) -> String {
    let decided = given_back(seen, OURS, keep);
    let token = |value: &str| entry::read(value).map_or("?".to_owned(), |it| it.token.to_owned());
    let change = |it: &StoredChange| match it {
        StoredChange::Free => "delete".to_owned(),
        StoredChange::Value { value, ends } => {
            format!("{} for {}", token(value), (ends.unwrap() - NOW) / 1000)
        }
        StoredChange::Waiter(waiter) => format!("beat for {}", (waiter.alive_until - NOW) / 1000),
        StoredChange::WaiterGone(_) => "leave".to_owned(),
        other => panic!("{other:?}"),
    };
    let mut all: Vec<_> = decided.changes.iter().map(change).collect();
    all.extend(decided.again.then(|| "again".to_owned()));
    all.join(", ")
}

/// What no clock that only goes on brings about; `link/redis/tests/alike` has all else.
#[test]
fn a_lock_goes_to_the_first_entry_that_lives() {
    let ours = || KeyContent::By(OURS.to_owned());
    for (head, then) in [
        ("dead", "leave, again"),
        ("ahead", "delete, leave, beat for 3500"),
    ] {
        let seen = seen(ours(), Some(head));
        assert_eq!(decided(&seen, Keep::NOT), then, "{seen:?}");
    }
    let kept = seen(ours(), Some(THEIRS));
    // By the server's clock, and not for longer where that was set back.
    for (from, length, left) in [(NOW - 9_000, 9_001, 1), (NOW + 600_000_000, 9_001, 10)] {
        let keep = Keep::from(from, Duration::from_micros(length));
        let then = format!("-token for {left}");
        assert_eq!(decided(&kept, keep), then);
    }
    for pttl in [0, i64::MAX] {
        let foreign = SeenKey {
            pttl,
            ..seen(KeyContent::By("foreign".to_owned()), Some(THEIRS))
        };
        assert_eq!(decided(&foreign, Keep::NOT), "", "{pttl}");
    }
}

/// Nobody's value stands for a set in a window: it must not be SET there.
#[test]
fn what_is_not_read_is_not_written_either() {
    let endless = SeenKey {
        pttl: -1,
        ..seen(KeyContent::OtherType, None)
    };
    let command = Acquire {
        repair_missing_ttl: Some(LEASE),
        ..command()
    };
    let decided = endless
        .decide(&command.claim.key, |it| it.repair(&command))
        .unwrap();
    let names = Names::new("lock:", false);
    let written = endless.transaction(&decided, "lock:k", &names.of("lock:k"));
    let written: Vec<Vec<u8>> = written.cmd_iter().map(Cmd::get_packed_command).collect();
    let written = String::from_utf8(written.concat()).unwrap();
    assert!(written.contains("PEXPIRE") && !written.contains("SET"));
}

#[test]
fn each_key_of_a_renewal_stands_for_itself() {
    let items = vec![renewal(); 5];
    let seen = [
        (text(OURS), Value::Int(59_999)),
        (text(OURS), Value::Int(60_000)),
        (text(THEIRS), Value::Int(1)),
        (Value::Nil, Value::Int(-2)),
        (text(OURS), Value::Nil),
    ];
    let seen: Vec<Value> = seen.into_iter().flat_map(|(a, b)| [a, b]).collect();
    assert_eq!(
        renew::steps(&seen, &items).unwrap(),
        [
            RenewalStep::Lengthen,
            RenewalStep::Done(Renewed::Yes),
            RenewalStep::Done(Renewed::NotOurs),
            RenewalStep::Done(Renewed::NotOurs),
            RenewalStep::Done(Renewed::Failed),
        ]
    );
    assert!(renew::steps(&seen[1..], &items).is_err());
}

#[test]
fn a_broken_transaction_is_told_from_a_refused_one() {
    let queued = || Value::SimpleString("QUEUED".to_owned());
    assert_eq!(
        answers::executed(vec![Value::Okay, queued(), Value::Nil]).unwrap(),
        None
    );
    let items = vec![Value::Int(1)];
    let all = vec![Value::Okay, queued(), Value::Array(items.clone())];
    assert_eq!(answers::executed(all).unwrap(), Some(items));
    assert!(answers::executed(vec![Value::Okay, Value::Int(1)]).is_err());
    assert!(answers::executed_all::<1>(vec![Value::Nil]).is_err());
}

/// Any answer, with a secret in each text.
fn answer() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<i64>().prop_map(Value::Int),
        any::<Vec<u8>>().prop_map(Value::BulkString),
        Just(text("secret")),
        Just(text(OURS)),
        Just(time()),
        Just(Value::SimpleString("secret".to_owned())),
        any::<f64>().prop_map(Value::Double),
    ];
    leaf.prop_recursive(2, 12, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Value::Array)
    })
}

proptest! {
    #[test]
    fn no_answer_panics_or_is_shown(all in proptest::collection::vec(answer(), 0..10)) {
        let mut errors = vec![
            answers::executed(all.clone()).err(),
            renew::steps(&all, &[renewal(), renewal()]).err(),
        ];
        for one in &all {
            errors.push(answers::held(one).err());
            errors.push(answers::texts(one).err());
            errors.push(answers::meta(one).err());
            errors.push(answers::epoch(one, NOW).err());
        }
        if let Ok(six) = answers::exactly::<6>(all.clone()) {
            errors.push(acquire::read(&six, &command()).err());
        }
        if let Ok(nine) = answers::exactly::<9>(all) {
            errors.push(poll::read(&nine, &claim()).err());
        }
        for error in errors.into_iter().flatten() {
            prop_assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn any_queue_is_decided_about(head in any::<Option<String>>(), value in any::<String>()) {
        let seen = seen(KeyContent::By(value.clone()), head.as_deref());
        let _ = given_back(&seen, &value, Keep::NOT);
    }
}

/// The entries here are as the driver writes them.
#[test]
fn the_entries_of_these_tests_can_be_read() {
    let entry = entry::read(OURS).unwrap();
    assert_eq!((entry.lease, entry.address), (LEASE, ""));
    let written = entry::of_test(
        &Kind::Exclusive,
        "token",
        "",
        command().lease,
        "host|1|main|0",
    );
    assert_eq!(Arc::<str>::from(written), Arc::<str>::from(OURS));
}
