//! Tests of batches: each item has the outcome of its own script. `callers` tests which commands
//! wait, which are withdrawn, and when each is sent.

mod callers;
mod order;

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::{Proxy, RedisServer};

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, token_of, waiter};
use super::refusals::{RIGHTS, as_user};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::{Batcher, OwnedCommand};
use crate::link::redis::reply::ItemReply;
use crate::rules::commands::{Acquired, Claim, Keep};
use crate::values::error::Refusal;

/// The maximum number of items in one command.
const FEW: usize = 4;

fn release(who: &Claim) -> OwnedCommand {
    OwnedCommand::Release {
        claim: who.clone(),
        keep: Keep::NOT,
    }
}

fn take(link: &RedisLink, who: &Claim) -> OwnedCommand {
    OwnedCommand::Acquire(acquire(who, link.server_time() + HOUR))
}

/// The outcome of each item: `free`, `not ours`, `granted` and so on.
async fn together(link: &RedisLink, asks: Vec<OwnedCommand>) -> Vec<String> {
    let kinds: Vec<_> = asks
        .iter()
        .map(|it| matches!(it, OwnedCommand::Release { .. }))
        .collect();
    let answers = link.batcher(FEW).ask_together(asks, CAP).await;
    let words = |(is_release, answer): (bool, Option<Result<ItemReply, CommandError>>)| match answer
    {
        None => "alone".to_owned(),
        Some(Err(CommandError::Refused(refusal, _))) => format!("{refusal:?}"),
        Some(Err(error)) => panic!("{error:?}"),
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
            Err(CommandError::Refused(refusal, _)) => format!("{refusal:?}"),
            Err(error) => panic!("{error:?}"),
        },
    };
    kinds.into_iter().zip(answers).map(words).collect()
}

#[tokio::test]
async fn one_bad_key_hurts_no_neighbour() {
    let lab = Lab::new().await;
    let [a, b, list, set, theirs] =
        ["a", "b", "list", "set", "theirs"].map(|key| claim(&format!("lock:{key}"), "ours"));
    for held in [&a, &b] {
        lab.granted(held).await;
    }
    lab.tell::<()>(&["LPUSH", "lock:list", "x"]).await;
    lab.tell::<()>(&["ZADD", "lock:set", "inf", "1|#|rw", "9e15", "1|r|x|"])
        .await;
    lab.tell::<()>(&["SET", "lock:theirs", "foreign", "PX", "30000"])
        .await;
    lab.tell::<()>(&["LPUSH", "lock:@w:{lock:odd}", "x"]).await;
    let odd = claim("lock:odd", "ours");
    let asks = [&a, &list, &odd, &set, &b, &theirs].map(release);
    let mut asks = Vec::from(asks);
    asks.extend([&a, &list, &set, &odd, &theirs, &b].map(|who| take(&lab.link, who)));
    assert_eq!(
        together(&lab.link, asks).await,
        [
            "free",
            "not ours",
            "not ours", // and nothing to grant
            "not ours",
            "free",
            "not ours", // already released
            "granted",
            "WrongType",
            "wrong kind",
            "WrongType",
            "busy",
            "granted"
        ]
    );
}

/// The waiters are of another kind than all items of the batch.
#[tokio::test]
async fn a_batch_lets_in_readers_who_wait() {
    let lab = Lab::new().await;
    let (ours, address) = (claim("lock:a", "ours"), lab.link.address().unwrap());
    lab.granted(&ours).await;
    let readers = ["a", "b"].map(|token| Claim {
        queues: true,
        ..claim(
            "lock:a",
            &format!("1|r|{token}|{address}|30000|0|0||host|1|f|0"),
        )
    });
    for reader in &readers {
        let answer = lab.acquire(reader).await;
        assert!(matches!(answer, Ok(Acquired::Queued(_))), "{answer:?}");
    }
    let late = waiter("lock:a", address, "late");
    let asks = vec![release(&ours), take(&lab.link, &late)];
    assert_eq!(together(&lab.link, asks).await, ["free", "queued"]);
    let told = |lab: &Lab| -> Vec<String> {
        let told = lab.heard.take();
        told.iter()
            .map(|(grant, _)| token_of(&grant.value).to_owned())
            .collect()
    };
    assert_eq!(told(&lab), ["a", "b"]);
    for reader in &readers {
        lab.link.release(reader, Keep::NOT, CAP).await.unwrap();
    }
    assert_eq!(told(&lab), ["late"], "it stood behind them");
}

/// The user may have no right to one key of the batch: then nothing of the batch was executed.
#[tokio::test]
async fn a_key_outside_the_users_pattern_sends_each_by_itself() {
    let server = RedisServer::start();
    let link = Arc::new(as_user(&server, &RIGHTS).await);
    let (ours, other) = (claim("lock:a", "ours"), claim("other:a", "ours"));
    let asks = vec![take(&link, &ours), take(&link, &other)];
    assert_eq!(together(&link, asks).await, ["alone", "alone"]);
    assert!(server.keys().await.is_empty());

    let batcher = link.batcher(FEW);
    let [one, two] = ["lock:one", "lock:two"].map(|key| claim(key, "ours"));
    let ask = |who: &Claim| combined(&batcher, take(&link, who));
    let (_, _, good, bad) = tokio::join!(ask(&one), ask(&two), ask(&ours), ask(&other));
    assert!(good.is_ok(), "{good:?}");
    assert!(
        matches!(bad, Err(CommandError::Refused(Refusal::NoPermission, _))),
        "{bad:?}"
    );
}

/// The refusal of the batch takes at least 0.4 s, and the answer to each single command would take
/// another 0.4 s.
#[tokio::test]
async fn who_is_sent_again_by_itself_has_what_is_left_of_its_time() {
    let server = RedisServer::start();
    as_user(&server, &RIGHTS).await;
    let proxy = Proxy::start(server.addr());
    let url = format!("redis://worker:secret@{}", proxy.addr());
    let link = Arc::new(super::lab::link(&url).await);
    let batcher = link.batcher(FEW);
    let [one, two, ours] = ["lock:one", "lock:two", "lock:a"].map(|key| claim(key, "ours"));
    let other = claim("other:a", "ours");
    batcher.ask(take(&link, &one), CAP).await.unwrap(); // from then on the server knows the script
    proxy.delay(Duration::from_millis(200));
    let within = Duration::from_millis(700);
    let ask = |who: &Claim| batcher.ask(take(&link, who), within);
    let (_, _, good, bad) = tokio::join!(ask(&one), ask(&two), ask(&ours), ask(&other));
    for answer in [good, bad] {
        assert!(
            matches!(answer, Err(CommandError::Unclear(_))),
            "{answer:?}"
        );
    }
}

/// In a task of its own.
async fn combined(batcher: &Arc<Batcher>, ask: OwnedCommand) -> Result<ItemReply, CommandError> {
    let batcher = batcher.clone();
    let task = tokio::spawn(async move { batcher.ask(ask, CAP).await });
    task.await.unwrap()
}

#[tokio::test]
async fn a_right_that_is_missing_is_named_for_each() {
    let server = RedisServer::start();
    for (missing, expected) in [
        ("mget", ["free", "granted"]), // through the slow path
        ("exists", ["free", "granted"]),
        ("del", ["NoPermission", "granted"]),
        ("time", ["alone", "alone"]), // the batch begins with it, a release alone does not
        ("set", ["free", "NoPermission"]),
    ] {
        server.cmd(&["FLUSHALL"]).await;
        let link = as_user(&server, &RIGHTS).await;
        let (held, wanted) = (claim("lock:held", "ours"), claim("lock:wanted", "ours"));
        server
            .cmd(&["SET", "lock:held", "ours", "PX", "30000"])
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
    let [a, b, c] = ["lock:a", "lock:b", "lock:c"].map(|key| claim(key, "ours"));
    lab.granted(&a).await;
    lab.tell::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let other = claim("lock:a", "other");
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
    let [a, b] = ["lock:a", "lock:b"].map(|key| claim(key, "ours"));
    lab.granted(&a).await;
    lab.tell::<()>(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let asks = vec![release(&a), take(&lab.link, &b)];
    assert_eq!(together(&lab.link, asks).await, ["ReadOnly", "ReadOnly"]);
    assert!(
        !lab.link.connection.is_usable(),
        "the master may be elsewhere by now"
    );
}

/// Free locks with empty queues: a few commands for the batch, and one per acquire.
#[tokio::test]
async fn a_batch_costs_one_look_at_all_and_a_set_each() {
    let lab = Lab::new().await;
    let old: Vec<_> = (0..20)
        .map(|i| claim(&format!("lock:{i}"), "old"))
        .collect();
    let new: Vec<_> = (10..30)
        .map(|i| claim(&format!("lock:{i}"), "new"))
        .collect();
    for who in &old {
        lab.granted(who).await;
    }
    let nothing = || release(&claim("lock:x", "x"));
    together(&lab.link, vec![nothing(), nothing()]).await; // from now on the script is known
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
    let first = lab.granted(&claim("lock:a", "old")).await;
    let epochs = async |value: &str| {
        let claims = (0..4).map(|i| claim(&format!("lock:{value}:{i}"), value));
        let asks = claims.map(|who| take(&lab.link, &who)).collect();
        let answers = lab.link.batcher(FEW).ask_together(asks, CAP).await;
        let epoch = |answer: Option<Result<ItemReply, CommandError>>| match answer
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
    let one = epochs("one").await;
    assert!(one[0] > first && one.is_sorted_by(|a, b| a < b));
    // As after a clock that was far ahead.
    lab.tell::<()>(&["SET", FENCES, "8000000000000000"]).await;
    let ahead: Vec<u64> = (1..5).map(|i| 8_000_000_000_000_000 + i).collect();
    assert_eq!(epochs("two").await, ahead);
    let last: String = lab.tell(&["GET", FENCES]).await;
    assert_eq!(last, "8000000000000004");
}

/// A queued waiter comes before a new acquire, in a batch as well.
#[tokio::test]
async fn a_release_grants_to_who_waits_before_the_acquires_of_its_batch() {
    let lab = Lab::new().await;
    let address = lab.link.address().unwrap();
    let (ours, first) = (claim("lock:a", "ours"), waiter("lock:a", address, "first"));
    let (free, late) = (claim("lock:b", "ours"), waiter("lock:a", address, "late"));
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
    assert_eq!(token_of(&lab.heard.take()[0].0.value), "first");
}

#[tokio::test]
async fn a_batch_tells_what_time_it_is_there() {
    let lab = Lab::new().await;
    let claims = ["lock:a", "lock:b"].map(|key| claim(key, "ours"));
    let asks = claims.iter().map(|who| take(&lab.link, who)).collect();
    let now = lab.link.server_time();
    lab.link
        .connection
        .heard_time(now - HOUR, lab.link.connection.clock.now());
    assert!(lab.link.server_time() < now);
    assert_eq!(together(&lab.link, asks).await, ["granted", "granted"]);
    assert!(lab.link.server_time() > now);
}
