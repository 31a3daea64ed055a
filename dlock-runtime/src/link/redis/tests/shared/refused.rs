//! Tests of the kinds with many holders on a server that refuses commands: a refused command leaves
//! nothing, and a command that frees still works.

use std::sync::Arc;

use dlock_harness::RedisServer;

use super::*;
use crate::link::redis::tests::lab::{Heard, for_an_hour, kept, listening};
use crate::link::redis::tests::refusals::{RIGHTS, as_user};

/// The additional rights of the kinds with many holders.
pub(crate) const MORE_RIGHTS: [&str; 2] = ["+zcard", "+zremrangebyscore"];

impl Lab {
    async fn fill_memory(&self) {
        self.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    }
}

#[tokio::test]
async fn out_of_memory_an_acquire_is_refused_and_leaves_nothing() {
    let lab = Lab::new().await;
    lab.fill_memory().await;
    for ours in [
        reader(&lab, "a"),
        writer(&lab, "a"),
        permits(&lab, "a", 2, 3),
        owned(&lab, "a"),
    ] {
        assert_refused(lab.acquire(&ours).await, Refusal::OutOfMemory);
    }
    assert!(lab.keys().await.is_empty());
}

#[tokio::test]
async fn out_of_memory_nobody_enters_the_set_nor_the_queue() {
    let lab = Lab::new().await;
    lab.granted(&reader(&lab, "a")).await;
    let before = lab.members().await;
    lab.fill_memory().await;
    for ours in [reader(&lab, "b"), writer(&lab, "b")] {
        assert_refused(lab.acquire(&ours).await, Refusal::OutOfMemory);
    }
    assert_eq!(lab.members().await, before);
    assert_eq!(lab.keys().await, [FENCES, LOCK]);
}

#[tokio::test]
async fn out_of_memory_what_is_held_is_renewed_downgraded_and_given_back() {
    let lab = Lab::new().await;
    let ours = writer(&lab, "w");
    lab.granted(&ours).await;
    lab.fill_memory().await;
    let items = [renewal(&ours, 60)];
    assert_eq!(lab.link.renew(&items, CAP).await.unwrap(), [Renewed::Yes]);
    assert!(lab.link.downgrade(&ours, seconds(30), CAP).await.unwrap());
    assert!(lab.link.holds(&ours, CAP).await.unwrap());
    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(lab.keys().await, NOTHING);
}

#[tokio::test]
async fn out_of_memory_a_release_hands_over_and_keeps() {
    let lab = Lab::new().await;
    let (ours, next) = (writer(&lab, "w"), writer(&lab, "next"));
    lab.granted(&ours).await;
    lab.in_line(&next).await;
    lab.fill_memory().await;
    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(lab.heard(1).await, [next.value.to_string()]);
    let keep = for_an_hour(&lab.link);
    assert!(lab.link.cancel(&next, keep, 0, CAP).await.unwrap().found);
    assert_eq!(lab.members().await.len(), 2);
}

#[tokio::test]
async fn out_of_memory_a_late_release_and_a_cancel_hand_over() {
    let lab = Lab::new().await;
    let (ours, first, second) = (writer(&lab, "w"), writer(&lab, "a"), writer(&lab, "b"));
    lab.granted(&ours).await;
    lab.in_line(&first).await;
    lab.in_line(&second).await;
    lab.fill_memory().await;
    lab.server.cmd(&["DEL", LOCK]).await;
    assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(lab.heard(1).await, [first.value.to_string()]);
    assert!(
        lab.link
            .cancel(&first, Keep::NOT, 0, CAP)
            .await
            .unwrap()
            .found
    );
    assert_eq!(lab.heard(1).await, [second.value.to_string()]);
}

/// K16, for each way in which a waiter learns of its grant.
#[tokio::test]
async fn k16_out_of_memory_a_waiter_stays_alive_and_learns_of_its_grant() {
    let lab = Lab::new().await;
    let (ours, next) = (permits(&lab, "a", 2, 2), permits(&lab, "b", 1, 2));
    lab.granted(&ours).await;
    lab.in_line(&next).await;
    lab.fill_memory().await;
    let answer = lab.link.poll(&next, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Queued(_)), "{answer:?}");
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let answer = lab.link.poll(&next, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
}

#[tokio::test]
async fn out_of_memory_an_owner_is_let_in_by_its_poll() {
    let lab = Lab::new().await;
    let (ours, again) = (owned(&lab, "a"), owned(&lab, "b"));
    lab.granted(&writer(&lab, "w")).await;
    lab.server.cmd(&["DEL", LOCK]).await;
    lab.granted(&ours).await;
    let now = lab.link.server_time();
    let (arrival, beat) = (now.to_string(), (now + 3_500_000).to_string());
    let other = "1|o|0||30000|0|0|two|h"; // the head of the queue
    for (key, score) in [("lock:@w:{lock:a}", &arrival), ("lock:@a:{lock:a}", &beat)] {
        for place in [other, &again.value] {
            lab.tell::<u64>(&["ZADD", key, score, place]).await;
        }
    }
    lab.fill_memory().await;
    let answer = lab.link.poll(&again, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
    for key in ["lock:@w:{lock:a}", "lock:@a:{lock:a}"] {
        let left: Vec<String> = lab.tell(&["ZRANGE", key, "0", "-1"]).await;
        assert_eq!(left, [other], "{key}");
    }
}

#[tokio::test]
async fn two_more_rights_are_enough() {
    let lab = Lab::new().await;
    let rights = [&RIGHTS[..], &MORE_RIGHTS].concat();
    let link = as_user(&lab.server, &rights).await;
    for ours in [
        writer(&lab, "a"),
        permits(&lab, "a", 2, 3),
        owned(&lab, "a"),
    ] {
        let command = acquire(&ours, link.server_time() + HOUR);
        let answer = link.acquire(&command, CAP).await;
        assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
        let items = [renewal(&ours, 60)];
        assert_eq!(link.renew(&items, CAP).await.unwrap(), [Renewed::Yes]);
        assert!(link.holds(&ours, CAP).await.unwrap());
        assert!(link.read(LOCK, CAP).await.unwrap().is_some());
        link.downgrade(&ours, seconds(30), CAP).await.unwrap();
        let answer = link.poll(&ours, CAP).await.unwrap();
        assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
        assert!(link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
        assert!(!link.cancel(&ours, Keep::NOT, 0, CAP).await.unwrap().found);
    }
}

/// The refusal is reported as a missing right; a batch of renewals continues.
#[tokio::test]
async fn a_missing_right_is_named() {
    let lab = Lab::new().await;
    let ours = reader(&lab, "a");
    lab.granted(&ours).await;
    for missing in ["zrange", "zremrangebyscore", "zscore"] {
        let rights: Vec<&str> = [&RIGHTS[..], &MORE_RIGHTS]
            .concat()
            .into_iter()
            .filter(|right| right[1..] != *missing)
            .collect();
        let link = as_user(&lab.server, &rights).await;
        let command = acquire(&reader(&lab, "b"), link.server_time() + HOUR);
        assert_refused(link.acquire(&command, CAP).await, Refusal::NoPermission);
        assert_refused(
            link.release(&ours, Keep::NOT, CAP).await,
            Refusal::NoPermission,
        );
        let items = [renewal(&ours, 60)];
        assert_eq!(link.renew(&items, CAP).await.unwrap(), [Renewed::Failed]);
    }
    assert!(lab.link.holds(&ours, CAP).await.unwrap());
}

/// The grant is kept, and the poll finds it.
#[tokio::test]
async fn where_publish_is_refused_the_grant_is_kept() {
    let lab = Lab::new().await;
    let rights = [&RIGHTS[..], &MORE_RIGHTS, &["-publish"]].concat();
    let link = as_user(&lab.server, &rights).await;
    let (ours, next) = (writer(&lab, "w"), reader(&lab, "r"));
    lab.granted(&ours).await;
    lab.in_line(&next).await;
    assert!(link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert!(link.holds(&next, CAP).await.unwrap());
    lab.link.ping(CAP).await.unwrap();
    assert!(lab.heard.take().is_empty());
}

#[tokio::test]
async fn a_renewal_that_meets_a_replica_fails_and_ends_the_connection() {
    let lab = Lab::new().await;
    let ours = reader(&lab, "a");
    lab.granted(&ours).await;
    lab.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let outcomes = lab.link.renew(&[renewal(&ours, 3600)], CAP).await;
    assert_eq!(outcomes.unwrap(), [Renewed::Failed]);
    assert!(!lab.link.connection.is_usable());
}

/// Before Redis 7.2, a server that is interrupted within `PEXPIRE` for as long as the key is to live
/// deletes it. This one always does.
#[tokio::test]
async fn nothing_stays_for_ever_at_a_server_that_was_interrupted_within_pexpire() {
    let renamed = ["PEXPIRE", "INTERRUPTED", "UNLINK", "PEXPIRE"];
    let renamed = renamed
        .chunks(2)
        .flat_map(|it| ["--rename-command", it[0], it[1]]);
    let server = RedisServer::builder().args(renamed).start();
    let heard = Arc::<Heard>::default();
    let link = listening(&server.url(), &heard).await;
    let lab = Lab::of(server, link, heard).await;
    let exclusive = waiter(LOCK, "", "x");
    let keep = kept(Some(2), lab.link.server_time());
    lab.granted(&exclusive).await;
    let given_back = lab.link.release(&exclusive, keep, CAP).await.unwrap();
    assert!(given_back.found && lab.keys().await == NOTHING);

    let now = lab.link.server_time();
    let [now, soon, ends] = [0, 900_000, HOUR].map(|it| (now + it).to_string());
    for (meta, [ours, other]) in [
        ("1|#|rw", ["a", "b"].map(|it| reader(&lab, it))),
        ("1|#|o|one|1", ["a", "b"].map(|it| owned(&lab, it))),
    ] {
        let members = [&*ends, &*ours.value, &*soon, &*other.value, "inf", meta];
        lab.tell::<u64>(&[&["ZADD", LOCK][..], &members].concat())
            .await;
        for (queue, score) in [("lock:@w:{lock:a}", &now), ("lock:@a:{lock:a}", &ends)] {
            lab.tell::<u64>(&["ZADD", queue, score, &exclusive.value])
                .await;
        }
        let given_back = lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
        assert_eq!((given_back.found, given_back.rest), (true, 0), "{meta}");
        let held: String = lab.tell(&["GET", LOCK]).await;
        assert_eq!(held, *exclusive.value, "what was gone is not in its way");
        lab.link.release(&exclusive, Keep::NOT, CAP).await.unwrap();
    }
}
