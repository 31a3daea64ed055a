//! What stands at the key is none of ours, or of another kind.

use super::*;

/// Somebody's data, with scores that look long over.
const FOREIGN: [&str; 7] = ["ZADD", LOCK, "1", "apples", "2", "r|pears", "inf"];

async fn foreign(lab: &Lab, last: &str) {
    let words = [&FOREIGN[..], &[last]].concat();
    lab.tell::<u64>(&words).await;
}

#[tokio::test]
async fn a_foreign_sorted_set_is_never_changed() {
    let lab = Lab::new().await;
    for last in ["#|2|rw", "plums", "#|1"] {
        lab.server.cmd(&["DEL", LOCK]).await;
        foreign(&lab, last).await;
        let before: Vec<String> = lab.members().await;
        for ours in [
            reader(&lab, "a"),
            writer(&lab, "a"),
            permits(&lab, "a", 1, 2),
            owned(&lab, "a"),
            waiter(LOCK, "", "1|x"),
        ] {
            assert_refused(lab.acquire(&ours).await, Refusal::WrongType);
            assert_refused(lab.link.poll(&ours, CAP).await, Refusal::WrongType);
            assert!(!lab.link.release(&ours, 0, CAP).await.unwrap().found);
            assert!(!lab.link.cancel(&ours, 0, 0, CAP).await.unwrap().found);
            let items = [renewal(&ours, 60)];
            assert_eq!(
                lab.link.renew(&items, CAP).await.unwrap(),
                [Renewed::NotOurs]
            );
            if entry::is_entry(&ours.value) {
                assert!(!lab.link.downgrade(&ours, seconds(30), CAP).await.unwrap());
            }
            assert_refused(lab.link.holds(&ours, CAP).await, Refusal::WrongType);
            assert_refused(lab.link.read(LOCK, CAP).await, Refusal::WrongType);
        }
        assert_eq!(lab.members().await, before);
        assert_eq!(lab.keys().await, [LOCK], "no epoch was drawn either");
    }
}

/// K15, over the wire: both sides are told what is there.
#[tokio::test]
async fn k15_two_kinds_are_told_of_each_other() {
    let lab = Lab::new().await;
    let there = async |claim: &Claim| match lab.acquire(claim).await {
        Ok(Acquired::WrongKind { there, .. }) => there,
        other => panic!("not refused: {other:?}"),
    };
    let (exclusive, ours) = (claim(LOCK, "1|secret|h|1|f|0"), reader(&lab, "r"));
    lab.granted(&exclusive).await;
    assert_eq!(there(&ours).await, "1|", "and no token");
    lab.link.release(&exclusive, 0, CAP).await.unwrap();

    lab.granted(&permits(&lab, "p", 1, 3)).await;
    for newcomer in [
        exclusive.clone(),
        waiter(LOCK, "", "1|y"),
        ours,
        owned(&lab, "o"),
    ] {
        assert_eq!(there(&newcomer).await, "#|1|p");
    }
    assert_eq!(lab.keys().await, [FENCES, LOCK], "nobody queues");
}

/// In a lock that is held as the newcomer's own kind: a foreign value has come and gone in between.
#[tokio::test]
async fn f61_who_waits_as_another_kind_refuses_a_newcomer() {
    let lab = Lab::new().await;
    for (holder, waits, newcomer, expected) in [
        (
            permits(&lab, "a", 1, 3),
            "r|secret|x|30000|0|0||h",
            permits(&lab, "b", 1, 3),
            "r|-|x|30000|0|0||h",
        ),
        (
            reader(&lab, "a"),
            "x|x|30000|1|secret",
            reader(&lab, "b"),
            "x|",
        ),
        (
            owned(&lab, "a"),
            "r|secret|x|30000|0|0||h",
            owned(&lab, "b"),
            "r|-|x|30000|0|0||h",
        ),
    ] {
        lab.granted(&holder).await;
        let beat = (lab.link.server_time() + HOUR).to_string();
        for key in ["lock:@w:{lock:a}", "lock:@a:{lock:a}"] {
            lab.tell::<u64>(&["ZADD", key, &beat, waits]).await;
        }
        match lab.acquire(&newcomer).await {
            Ok(Acquired::WrongKind { there, .. }) => assert_eq!(there, expected),
            other => panic!("not refused: {other:?}"),
        }
        lab.server.cmd(&["FLUSHALL"]).await;
    }
}

/// Where nobody holds the lock: an exclusive newcomer is told who waits, less its token.
#[tokio::test]
async fn who_waits_for_a_free_lock_refuses_an_exclusive_newcomer() {
    let lab = Lab::new().await;
    let beat = (lab.link.server_time() + HOUR).to_string();
    for key in ["lock:@w:{lock:a}", "lock:@a:{lock:a}"] {
        lab.tell::<u64>(&["ZADD", key, &beat, "r|secret|x|30000|0|0||h"])
            .await;
    }
    for newcomer in [claim(LOCK, "1|x"), waiter(LOCK, "", "1|x")] {
        match lab.acquire(&newcomer).await {
            Ok(Acquired::WrongKind { there, .. }) => assert_eq!(there, "r|-|x|30000|0|0||h"),
            other => panic!("not refused: {other:?}"),
        }
    }
}

/// redis-py and its like keep the lock with a string, and are kept out by a set.
#[tokio::test]
async fn a_foreign_lock_and_a_set_exclude_each_other() {
    let lab = Lab::new().await;
    let foreign = ["SET", LOCK, "theirs", "NX", "PX", "30000"];
    lab.server.cmd(&foreign).await;
    let answer = lab.acquire(&reader(&lab, "r")).await;
    assert!(
        matches!(answer, Ok(Acquired::WrongKind { .. })),
        "{answer:?}"
    );
    lab.server.cmd(&["DEL", LOCK]).await;
    lab.granted(&reader(&lab, "r")).await;
    assert_eq!(lab.tell::<Option<String>>(&foreign).await, None);
}

/// Taken between two leases: that is a lease too and ends.
#[tokio::test]
async fn a_waiter_keeps_its_place_behind_a_foreign_lock() {
    let lab = Lab::new().await;
    lab.granted(&writer(&lab, "w")).await;
    let waiting = reader(&lab, "r");
    lab.in_line(&waiting).await;
    lab.server
        .cmd(&["SET", LOCK, "theirs", "PX", "30000"])
        .await;
    for _ in 0..2 {
        let answer = lab.link.poll(&waiting, CAP).await.unwrap();
        assert!(
            matches!(&answer, Polled::Queued(busy) if busy.value == "theirs"),
            "{answer:?}"
        );
        lab.in_line(&waiting).await;
    }
    lab.server.cmd(&["DEL", LOCK]).await;
    let answer = lab.link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
}

/// Of what a script can't read, nothing is guessed.
#[tokio::test]
async fn a_claim_that_is_no_entry_is_an_error() {
    let lab = Lab::new().await;
    let bad = claim(LOCK, "p|t||30000|3|2||h");
    assert_refused(lab.acquire(&bad).await, Refusal::Other);
    assert_refused(lab.link.poll(&bad, CAP).await, Refusal::Other);
    assert_refused(lab.link.release(&bad, 0, CAP).await, Refusal::Other);
    assert_refused(lab.link.cancel(&bad, 0, 0, CAP).await, Refusal::Other);
    let items = [renewal(&bad, 60)];
    assert_eq!(
        lab.link.renew(&items, CAP).await.unwrap(),
        [Renewed::NotOurs]
    );
    assert!(lab.keys().await.is_empty());
}
