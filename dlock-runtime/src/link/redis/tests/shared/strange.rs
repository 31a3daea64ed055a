//! Tests with a value at the key that is not ours, or of another kind.

use super::*;
use crate::link::redis::tests::lab;

/// Another program's data, with scores that look lapsed.
const FOREIGN: [&str; 7] = ["ZADD", LOCK, "1", "apples", "2", "r|pears", "inf"];

async fn foreign(lab: &Lab, last: &str) {
    let words = [&FOREIGN[..], &[last]].concat();
    lab.tell::<u64>(&words).await;
}

#[tokio::test]
async fn a_foreign_sorted_set_is_never_changed() {
    let lab = Lab::new().await;
    for (last, refusal) in [
        ("2|#|rw", Refusal::Layout),
        ("12|#|", Refusal::Layout),
        ("plums", Refusal::WrongType),
        ("1|#", Refusal::WrongType),
    ] {
        lab.server.cmd(&["DEL", LOCK]).await;
        foreign(&lab, last).await;
        let before: Vec<String> = lab.members().await;
        for ours in [
            reader(&lab, "a"),
            writer(&lab, "a"),
            permits(&lab, "a", 1, 2),
            owned(&lab, "a"),
            waiter(LOCK, "", "x"),
        ] {
            assert_refused(lab.acquire(&ours).await, refusal);
            assert_refused(lab.link.poll(&ours, CAP).await, refusal);
            assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
            assert!(
                !lab.link
                    .cancel(&ours, Keep::NOT, 0, CAP)
                    .await
                    .unwrap()
                    .found
            );
            let items = [renewal(&ours, 60)];
            assert_eq!(
                lab.link.renew(&items, CAP).await.unwrap(),
                [Renewed::NotOurs]
            );
            if ours.kind().is_shared() {
                assert!(!lab.link.downgrade(&ours, seconds(30), CAP).await.unwrap());
            }
            assert_refused(lab.link.holds(&ours, CAP).await, refusal);
            assert_refused(lab.link.read(LOCK, CAP).await, refusal);
        }
        assert_eq!(lab.members().await, before);
        assert_eq!(lab.keys().await, [LOCK], "no epoch was drawn either");
    }
}

/// K15, over the wire: a caller that does not queue is told which kind is there.
#[tokio::test]
async fn k15_who_does_not_wait_is_refused_by_another_kind() {
    let lab = Lab::new().await;
    let once = |claim: &Claim| Claim {
        queues: false,
        ..claim.clone()
    };
    let there = async |claim: &Claim| match lab.acquire(&once(claim)).await {
        Ok(Acquired::WrongKind { there, .. }) => there,
        other => panic!("not refused: {other:?}"),
    };
    let (exclusive, ours) = (waiter(LOCK, "", "secret"), reader(&lab, "r"));
    lab.granted(&exclusive).await;
    assert_eq!(there(&ours).await, "1|x|", "and no token");
    lab.link.release(&exclusive, Keep::NOT, CAP).await.unwrap();

    lab.granted(&permits(&lab, "p", 1, 3)).await;
    for newcomer in [exclusive, ours, owned(&lab, "o")] {
        assert_eq!(there(&newcomer).await, "1|#|p");
    }
    assert_eq!(lab.keys().await, [FENCES, LOCK], "nobody queues");
}

/// Each kind waits behind each other one, and the release of the holder grants it the lock.
#[tokio::test]
async fn who_waits_behind_another_kind_is_told_when_that_has_gone() {
    let lab = Lab::new().await;
    let kinds = || {
        let address = lab.link.address().unwrap();
        [
            waiter(LOCK, address, "x"),
            reader(&lab, "r"),
            writer(&lab, "w"),
            permits(&lab, "p", 2, 3),
            owned(&lab, "o"),
        ]
    };
    for holder in kinds() {
        for newcomer in kinds().into_iter().filter(|it| it.value != holder.value) {
            lab.granted(&holder).await;
            lab.in_line(&newcomer).await;
            let answer = lab.link.poll(&newcomer, CAP).await.unwrap();
            assert!(matches!(answer, Polled::Queued(_)), "{answer:?}");
            assert!(
                lab.link
                    .release(&holder, Keep::NOT, CAP)
                    .await
                    .unwrap()
                    .found
            );
            let told = lab.heard.take();
            let told: Vec<_> = told.iter().map(|(grant, _)| &grant.value).collect();
            assert_eq!(told, [&newcomer.value], "behind {}", holder.value);
            assert!(lab.link.holds(&newcomer, CAP).await.unwrap());
            assert!(
                lab.link
                    .release(&newcomer, Keep::NOT, CAP)
                    .await
                    .unwrap()
                    .found
            );
            assert_eq!(lab.keys().await, [FENCES], "nothing is left");
        }
    }
}

/// redis-py and similar libraries keep a lock as a string: it excludes our sets, and is excluded by
/// them.
#[tokio::test]
async fn a_foreign_lock_and_a_set_exclude_each_other() {
    let lab = Lab::new().await;
    let foreign = ["SET", LOCK, "theirs", "NX", "PX", "30000"];
    lab.server.cmd(&foreign).await;
    let once = Claim {
        queues: false,
        ..reader(&lab, "once")
    };
    let answer = lab.acquire(&once).await;
    assert!(
        matches!(answer, Ok(Acquired::WrongKind { .. })),
        "{answer:?}"
    );
    let ours = reader(&lab, "r");
    lab.in_line(&ours).await;
    lab.server.cmd(&["DEL", LOCK]).await;
    let answer = lab.link.poll(&ours, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
    assert_eq!(lab.tell::<Option<String>>(&foreign).await, None);
}

/// A foreign client takes the lock between two leases of ours; its lease ends too.
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

/// A later layout, or another program, has taken the set over.
#[tokio::test]
async fn our_entry_in_a_set_that_is_not_ours_is_left_there() {
    let lab = Lab::new().await;
    let (ours, waiting) = (reader(&lab, "r"), writer(&lab, "w"));
    let long = format!("1|#|rw|{}", "x".repeat(5000));
    for last in ["other-program", "2|#|rw", &long] {
        lab.granted(&ours).await;
        lab.in_line(&waiting).await;
        lab.tell::<u64>(&["ZREM", LOCK, "1|#|rw"]).await;
        lab.tell::<u64>(&["ZADD", LOCK, "inf", last]).await;
        let before: Vec<String> = lab.tell(&["ZRANGE", LOCK, "0", "-1"]).await;
        assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
        let kept = lab::for_an_hour(&lab.link);
        assert!(!lab.link.release(&ours, kept, CAP).await.unwrap().found);
        assert!(
            !lab.link
                .cancel(&ours, Keep::NOT, 0, CAP)
                .await
                .unwrap()
                .found
        );
        let after: Vec<String> = lab.tell(&["ZRANGE", LOCK, "0", "-1"]).await;
        assert_eq!(before, after, "{last}");
        lab.tell::<()>(&["FLUSHALL"]).await;
    }
}

/// The counter proves that a clock was set back; if it can't, nothing is cut, and all else is done.
#[tokio::test]
async fn a_counter_of_another_type_keeps_no_lock() {
    let lab = Lab::new().await;
    let ours = reader(&lab, "r");
    lab.granted(&ours).await;
    let until = (lab.link.server_time() + 100_000_000).to_string();
    lab.tell::<u64>(&["ZADD", LOCK, "XX", "CH", &until, &ours.value])
        .await;
    lab.tell::<u64>(&["DEL", FENCES]).await;
    lab.tell::<u64>(&["LPUSH", FENCES, "x"]).await;
    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(lab.keys().await, [FENCES]);
}

/// An entry that a script can't parse is an error, never guessed at.
#[tokio::test]
async fn a_claim_that_is_no_entry_is_an_error() {
    let lab = Lab::new().await;
    let bad = claim(LOCK, "1|p|t||30000|3|2||h");
    assert_refused(lab.acquire(&bad).await, Refusal::Other);
    assert_refused(lab.link.poll(&bad, CAP).await, Refusal::Other);
    assert_refused(lab.link.release(&bad, Keep::NOT, CAP).await, Refusal::Other);
    assert_refused(
        lab.link.cancel(&bad, Keep::NOT, 0, CAP).await,
        Refusal::Other,
    );
    let items = [renewal(&bad, 60)];
    let renewed = lab.link.renew(&items, CAP).await.unwrap();
    assert_eq!(renewed, [Renewed::Failed]);
    assert!(lab.keys().await.is_empty());
}
