//! Several items in one command: each has the outcome of its own script. `company` is about who waits, who goes, and what is
//! sent when.

mod company;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use dlock_harness::{Proxy, RedisServer};

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, waiter};
use super::refusals::{RIGHTS, as_user};
use crate::backend::Link;
use crate::backend::fault::Fault;
use crate::backend::redis::link::RedisLink;
use crate::backend::redis::link::combiner::{Ask, Combiner, Limits};
use crate::backend::redis::reply::Item;
use crate::policy::commands::{Acquired, Claim};
use crate::values::error::Refusal;

/// One goes by itself, and whoever comes while it is under way waits for it.
const ONE_AT_ONCE: Limits = Limits {
    at_once: 1,
    most: 4,
    patience: CAP,
};

fn release(who: &Claim) -> Ask<'static> {
    Ask::Release {
        claim: Cow::Owned(who.clone()),
        keep_until: 0,
    }
}

fn take(link: &RedisLink, who: &Claim) -> Ask<'static> {
    Ask::Acquire(Cow::Owned(acquire(who, link.server_time() + HOUR)))
}

/// What became of each: `free`, `not ours`, `granted`, or what else.
async fn together(link: &RedisLink, asks: Vec<Ask<'static>>) -> Vec<String> {
    let kinds: Vec<_> = asks
        .iter()
        .map(|it| matches!(it, Ask::Release { .. }))
        .collect();
    let answers = link.combiner(ONE_AT_ONCE).ask_together(asks, CAP).await;
    let words = |(is_release, answer): (bool, Option<Result<Item, Fault>>)| match answer {
        None => "alone".to_owned(),
        Some(Err(Fault::Refused(refusal, _))) => format!("{refusal:?}"),
        Some(Err(fault)) => panic!("{fault:?}"),
        Some(Ok(value)) if is_release => {
            let found = value.given_back().unwrap().answer.found;
            if found { "free" } else { "not ours" }.to_owned()
        }
        Some(Ok(value)) => match value.acquired() {
            Ok(Acquired::Granted { .. }) => "granted".to_owned(),
            Ok(Acquired::Busy(_)) => "busy".to_owned(),
            Ok(Acquired::Queued(_)) => "queued".to_owned(),
            Ok(Acquired::WrongKind { .. }) => "wrong kind".to_owned(),
            Ok(other) => panic!("{other:?}"),
            Err(Fault::Refused(refusal, _)) => format!("{refusal:?}"),
            Err(fault) => panic!("{fault:?}"),
        },
    };
    kinds.into_iter().zip(answers).map(words).collect()
}

#[tokio::test]
async fn one_bad_key_hurts_no_neighbour() {
    let lab = Lab::new().await;
    let [a, b, list, set, theirs] =
        ["a", "b", "list", "set", "theirs"].map(|key| claim(&format!("lock:{key}"), "1|ours"));
    for held in [&a, &b] {
        lab.granted(held).await;
    }
    lab.tell::<()>(&["LPUSH", "lock:list", "x"]).await;
    lab.tell::<()>(&["ZADD", "lock:set", "inf", "#|1|rw", "9e15", "r|x|"])
        .await;
    lab.tell::<()>(&["SET", "lock:theirs", "foreign", "PX", "30000"])
        .await;
    lab.tell::<()>(&["LPUSH", "lock:@w:{lock:odd}", "x"]).await;
    let odd = claim("lock:odd", "1|ours");
    let asks = [&a, &list, &odd, &set, &b, &theirs].map(release);
    let mut asks = Vec::from(asks);
    asks.extend([&a, &list, &set, &odd, &theirs, &b].map(|who| take(&lab.link, who)));
    assert_eq!(
        together(&lab.link, asks).await,
        [
            "free",
            "not ours",
            "WrongType",
            "not ours",
            "free",
            "not ours", // released
            "granted",
            "WrongType",
            "wrong kind",
            "WrongType",
            "busy",
            "granted"
        ]
    );
}

/// Each key of another batch may be one that the user has no right to: nothing of that batch was executed.
#[tokio::test]
async fn a_key_outside_the_users_pattern_sends_each_by_itself() {
    let server = RedisServer::start();
    let link = Arc::new(as_user(&server, &RIGHTS).await);
    let (ours, other) = (claim("lock:a", "1|ours"), claim("other:a", "1|ours"));
    let asks = vec![take(&link, &ours), take(&link, &other)];
    assert_eq!(together(&link, asks).await, ["alone", "alone"]);
    assert!(server.keys().await.is_empty());

    let combiner = link.combiner(ONE_AT_ONCE);
    let lone = claim("lock:lone", "1|ours");
    let ask = |who: &Claim| combined(&combiner, take(&link, who));
    let (_, good, bad) = tokio::join!(ask(&lone), ask(&ours), ask(&other));
    assert!(good.is_ok(), "{good:?}");
    assert!(
        matches!(bad, Err(Fault::Refused(Refusal::NoPermission, _))),
        "{bad:?}"
    );
}

/// The first answer takes 0.4 s, that the batch was refused another 0.4 s, and so would the answer to each alone.
#[tokio::test]
async fn who_is_sent_again_by_itself_has_what_is_left_of_its_time() {
    let server = RedisServer::start();
    as_user(&server, &RIGHTS).await;
    let proxy = Proxy::start(server.addr());
    let url = format!("redis://worker:secret@{}", proxy.addr());
    let link = Arc::new(super::lab::link(&url).await);
    let combiner = link.combiner(ONE_AT_ONCE);
    let [lone, ours] = ["lock:lone", "lock:a"].map(|key| claim(key, "1|ours"));
    let other = claim("other:a", "1|ours");
    combiner.ask(take(&link, &lone), CAP).await.unwrap(); // the server knows the script from then on
    proxy.delay(Duration::from_millis(200));
    let within = Duration::from_secs(1);
    let ask = |who: &Claim| combiner.ask(take(&link, who), within);
    let (_, good, bad) = tokio::join!(ask(&lone), ask(&ours), ask(&other));
    for answer in [good, bad] {
        assert!(matches!(answer, Err(Fault::Unclear(_))), "{answer:?}");
    }
}

/// In a task of its own.
async fn combined(combiner: &Arc<Combiner>, ask: Ask<'static>) -> Result<Item, Fault> {
    let combiner = combiner.clone();
    let task = tokio::spawn(async move { combiner.ask(ask, CAP).await });
    task.await.unwrap()
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_for_each() {
    let server = RedisServer::start();
    for (missing, expected) in [
        ("mget", ["free", "granted"]), // the slower way
        ("exists", ["free", "granted"]),
        ("del", ["NoPermission", "granted"]),
        ("time", ["free", "NoPermission"]),
        ("set", ["free", "NoPermission"]),
    ] {
        server.cmd(&["FLUSHALL"]).await;
        let link = as_user(&server, &RIGHTS).await;
        let (held, wanted) = (claim("lock:held", "1|ours"), claim("lock:wanted", "1|ours"));
        server
            .cmd(&["SET", "lock:held", "1|ours", "PX", "30000"])
            .await;
        let right = format!("-{missing}");
        server.cmd(&["ACL", "SETUSER", "worker", &right]).await;
        let asks = vec![release(&held), take(&link, &wanted)];
        assert_eq!(together(&link, asks).await, expected, "without {missing}");
    }
}

#[tokio::test]
async fn out_of_memory_each_acquire_is_refused_and_each_release_is_done() {
    let lab = Lab::new().await;
    let [a, b, c] = ["lock:a", "lock:b", "lock:c"].map(|key| claim(key, "1|ours"));
    lab.granted(&a).await;
    lab.tell::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let other = claim("lock:a", "1|other");
    let asks = [&b, &other, &c].map(|who| take(&lab.link, who)).into();
    assert_eq!(
        together(&lab.link, asks).await,
        ["OutOfMemory", "busy", "OutOfMemory"]
    );
    assert_eq!(lab.keys().await, [FENCES, "lock:a"]);
    let asks = vec![release(&a), release(&b)];
    assert_eq!(together(&lab.link, asks).await, ["free", "not ours"]);
    assert_eq!(lab.keys().await, [FENCES]);
}

#[tokio::test]
async fn a_replica_refuses_each_and_ends_the_connection() {
    let lab = Lab::new().await;
    let [a, b] = ["lock:a", "lock:b"].map(|key| claim(key, "1|ours"));
    lab.granted(&a).await;
    lab.tell::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let asks = vec![release(&a), take(&lab.link, &b)];
    assert_eq!(together(&lab.link, asks).await, ["ReadOnly", "ReadOnly"]);
    assert!(!lab.link.is_usable(), "the master may be elsewhere by now");
}

/// Free locks that nobody waits for: a handful of commands, and one for each acquire.
#[tokio::test]
async fn a_batch_costs_one_look_at_all_and_a_set_each() {
    let lab = Lab::new().await;
    let old: Vec<_> = (0..20)
        .map(|i| claim(&format!("lock:{i}"), "1|old"))
        .collect();
    let new: Vec<_> = (10..30)
        .map(|i| claim(&format!("lock:{i}"), "1|new"))
        .collect();
    for who in &old {
        lab.granted(who).await;
    }
    together(&lab.link, vec![release(&claim("lock:x", "1|x"))]).await; // the script is known from now on
    lab.tell::<()>(&["CONFIG", "RESETSTAT"]).await;
    let mut asks: Vec<_> = old.iter().map(release).collect();
    asks.extend(new.iter().map(|who| take(&lab.link, who)));
    let answers = together(&lab.link, asks).await;
    assert!(answers[..20].iter().all(|it| it == "free"), "{answers:?}");
    assert!(
        answers[20..].iter().all(|it| it == "granted"),
        "{answers:?}"
    );
    for (command, times) in [
        ("evalsha", 1),
        ("eval", 0),
        ("exists", 1),
        ("mget", 1),
        ("del", 1),
        ("time", 1),
        ("set", 21),
        ("get", 0),
        ("zrange", 0),
    ] {
        let counted = lab.server.commandstats(command).await;
        assert_eq!(counted, times, "{command}");
    }
}

#[tokio::test]
async fn epochs_of_a_batch_rise_and_are_above_those_before() {
    let lab = Lab::new().await;
    let first = lab.granted(&claim("lock:a", "1|old")).await;
    let epochs = async |value: &str| {
        let claims = (0..4).map(|i| claim(&format!("lock:{value}:{i}"), value));
        let asks = claims.map(|who| take(&lab.link, &who)).collect();
        let answers = lab.link.combiner(ONE_AT_ONCE).ask_together(asks, CAP).await;
        let epoch = |answer: Option<Result<Item, Fault>>| match answer
            .unwrap()
            .unwrap()
            .acquired()
            .unwrap()
        {
            Acquired::Granted { epoch, .. } => epoch,
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(epoch).collect::<Vec<_>>()
    };
    let one = epochs("1|one").await;
    assert!(one[0] > first && one.is_sorted_by(|a, b| a < b));
    lab.tell::<()>(&["SET", FENCES, "8000000000000000"]).await; // a clock that was far ahead
    let ahead: Vec<u64> = (1..5).map(|i| 8_000_000_000_000_000 + i).collect();
    assert_eq!(epochs("1|two").await, ahead);
    let last: String = lab.tell(&["GET", FENCES]).await;
    assert_eq!(last, "8000000000000004");
}

/// Who waits in the queue is served before who comes, in a batch as well.
#[tokio::test]
async fn a_release_grants_to_who_waits_before_the_acquires_of_its_batch() {
    let lab = Lab::new().await;
    let address = lab.link.address().unwrap();
    let (ours, first) = (
        claim("lock:a", "1|ours"),
        waiter("lock:a", address, "1|first"),
    );
    let (free, late) = (
        claim("lock:b", "1|ours"),
        waiter("lock:a", address, "1|late"),
    );
    lab.granted(&ours).await;
    assert!(matches!(lab.acquire(&first).await, Ok(Acquired::Queued(_))));
    let asks = vec![
        release(&ours),
        take(&lab.link, &free),
        take(&lab.link, &late),
    ];
    assert_eq!(
        together(&lab.link, asks).await,
        ["free", "granted", "queued"]
    );
    lab.link.ping(CAP).await.unwrap();
    assert_eq!(&*lab.heard.take()[0].0.value, "1|first");
}

#[tokio::test]
async fn a_batch_tells_what_time_it_is_there() {
    let lab = Lab::new().await;
    let claims = ["lock:a", "lock:b"].map(|key| claim(key, "1|ours"));
    let asks = claims.iter().map(|who| take(&lab.link, who)).collect();
    let now = lab.link.server_time();
    lab.link.heard_time(now - HOUR, lab.link.clock.now());
    assert!(lab.link.server_time() < now);
    assert_eq!(together(&lab.link, asks).await, ["granted", "granted"]);
    assert!(lab.link.server_time() > now);
}
