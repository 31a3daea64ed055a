//! Tests of the kinds with many holders: which operation grants to which waiter, and whether the
//! waiter receives the push.

use super::*;
use crate::link::redis::link::batcher::HeartbeatPace;

/// F62: one command, however many readers wait.
#[tokio::test]
async fn f62_a_release_reaches_all_readers_at_the_head() {
    let lab = Lab::new().await;
    let ours = writer(&lab, "w");
    lab.granted(&ours).await;
    let readers: Vec<Claim> = (0..100)
        .map(|it| reader(&lab, &format!("{it:03}")))
        .collect();
    for claim in &readers {
        lab.in_line(claim).await;
    }
    lab.in_line(&writer(&lab, "next")).await;
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    assert!(lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(lab.server.commandstats("eval").await, 1, "unknown so far");
    assert_eq!(lab.server.commandstats("publish").await, 100);
    let expected: Vec<String> = readers.iter().map(|it| it.value.to_string()).collect();
    assert_eq!(lab.heard(100).await, expected);
    assert_eq!(lab.members().await.len(), 101);
    assert_eq!(lab.tell::<u64>(&["ZCARD", "lock:@w:{lock:a}"]).await, 1);
}

/// The link makes the server continue with the rest; no waiter has to poll.
#[tokio::test]
async fn a_hundred_grants_are_made_in_one_command() {
    let lab = Lab::new().await;
    let ours = writer(&lab, "w");
    lab.granted(&ours).await;
    for number in 0..120 {
        lab.in_line(&reader(&lab, &format!("{number:03}"))).await;
    }
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    assert_eq!(lab.heard(120).await.len(), 120);
    assert_eq!(lab.tell::<u64>(&["EXISTS", "lock:@w:{lock:a}"]).await, 0);
    let calls = lab.server.commandstats("eval").await;
    assert_eq!(calls, 2, "the texts of a release and of a poll");
}

/// An exclusive waiter polls, after its lock was replaced by a set.
#[tokio::test]
async fn a_set_whose_holders_have_lapsed_is_granted_by_a_poll() {
    let lab = Lab::new().await;
    let waiting = waiter(LOCK, lab.link.address().unwrap(), "x");
    let ours = claim(LOCK, "ours");
    lab.granted(&ours).await;
    lab.in_line(&waiting).await;
    lab.server.cmd(&["DEL", LOCK]).await;
    let future = (lab.link.server_time() + 60_000_000).to_string();
    let set = [
        "ZADD",
        LOCK,
        &future,
        "1|r|a||30000|0|0||h",
        "inf",
        "1|#|rw",
    ];
    lab.tell::<u64>(&set).await;
    let answer = lab.link.poll(&waiting, CAP).await.unwrap();
    assert!(
        matches!(&answer, Polled::Queued(busy) if busy.value == "1|r|a||30000|0|0||h"),
        "{answer:?}"
    );
    let again = lab.acquire(&waiting).await;
    assert!(matches!(again, Ok(Acquired::Queued(_))), "{again:?}");
    lab.tell::<u64>(&["ZADD", LOCK, "1", "1|r|a||30000|0|0||h"])
        .await;
    let answer = lab.link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
}

#[tokio::test]
async fn a_downgrade_reaches_the_readers_and_keeps_the_claim() {
    let lab = Lab::new().await;
    let (ours, waiting) = (writer(&lab, "w"), reader(&lab, "r"));
    lab.granted_for(&ours, 60).await;
    lab.in_line(&waiting).await;
    assert!(lab.link.downgrade(&ours, seconds(5), CAP).await.unwrap());
    assert_eq!(lab.heard(1).await, [waiting.value.to_string()]);
    assert!(lab.link.holds(&ours, CAP).await.unwrap());
    assert!(lab.link.holds(&waiting, CAP).await.unwrap());
    assert!(
        lab.server.pttl(LOCK).await > 50_000,
        "K10: it never shortens"
    );
}

/// Every granting operation grants at once, whichever kind holds the lock: only the cap limits the
/// time.
#[tokio::test]
async fn k7_a_dead_writer_at_the_head_is_passed_over() {
    let lab = Lab::new().await;
    let (ours, dead, waiting) = (reader(&lab, "a"), writer(&lab, "dead"), reader(&lab, "b"));
    lab.granted(&ours).await;
    lab.in_line(&dead).await;
    lab.in_line(&waiting).await;
    let long_ago = (lab.link.server_time() - 1).to_string();
    let silent = ["ZADD", "lock:@a:{lock:a}", "XX", &long_ago, &dead.value];
    lab.tell::<u64>(&silent).await;
    let answer = lab.link.poll(&waiting, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");
    let answer = lab.link.poll(&dead, CAP).await.unwrap();
    assert!(matches!(answer, Polled::Gone { .. }), "{answer:?}");
    assert!(lab.link.holds(&ours, CAP).await.unwrap());
}

/// As after the server's clock was set back by ten minutes: what was written before ends too late.
async fn set_back(lab: &Lab, key: &str, member: &str) {
    let later = "600000000";
    let drawn = (lab.link.server_time() + 600_000_000).to_string();
    lab.tell::<()>(&["SET", "lock:@fence", &drawn]).await;
    let score: u64 = lab.tell(&["ZINCRBY", key, later, member]).await;
    assert!(score > lab.link.server_time() + 590_000_000);
}

#[tokio::test]
async fn a_dead_head_and_a_dead_holder_end_although_the_clock_was_set_back() {
    let lab = Lab::new().await;
    let (ours, dead, waiting) = (reader(&lab, "a"), writer(&lab, "dead"), reader(&lab, "b"));
    lab.granted(&ours).await;
    lab.in_line(&dead).await;
    lab.in_line(&waiting).await;
    let heartbeats = "lock:@a:{lock:a}";
    set_back(&lab, heartbeats, &dead.value).await;
    // A batch of heartbeats grants nothing: it asks for the poll that makes the entry lapse in time.
    for (asks_again, most) in [(true, 600), (false, 4)] {
        let beat = lab.link.heartbeats(HeartbeatPace::of(CAP));
        let answer = beat.beat_together(vec![waiting.clone(); 2], CAP).await;
        assert_eq!(matches!(answer[0], Ok(None)), asks_again);
        let score: u64 = lab.tell(&["ZSCORE", heartbeats, &dead.value]).await;
        assert!(score < lab.link.server_time() + most * 1_010_000);
        let answer = lab.link.poll(&waiting, CAP).await.unwrap();
        assert!(matches!(answer, Polled::Queued(_)), "{answer:?}");
    }
    lab.link.cancel(&dead, Keep::NOT, 0, CAP).await.unwrap();
    for (ttl, left) in [(20, 30_000), (90, 90_000)] {
        lab.link.renew(&[renewal(&ours, ttl)], CAP).await.unwrap();
        for of in [&ours, &waiting] {
            set_back(&lab, LOCK, &of.value).await;
        }
        lab.link.poll(&waiting, CAP).await.unwrap();
        let now = lab.link.server_time() / 1000;
        let score: u64 = lab.tell(&["ZSCORE", LOCK, &ours.value]).await;
        assert!((left - 1000..=left + 50).contains(&(score / 1000 - now)));
        assert!(lab.server.pttl(LOCK).await <= 90_060);
    }
    let meta = lab.members().await.pop();
    assert_eq!(meta.as_deref(), Some("1|#|rw||90000"));
}

/// A build from before the notes in the meta gives an entry more than its own lease, and notes nothing.
/// What it gave is cut only if the last epoch proves that the clock was set back.
#[tokio::test]
async fn what_an_earlier_build_gave_is_not_cut_without_a_proof() {
    let lab = Lab::new().await;
    let (ours, next) = (reader(&lab, "a"), reader(&lab, "b"));
    lab.granted(&ours).await;
    lab.granted(&next).await;
    let now = lab.link.server_time();
    let until = (now + 60_000_000).to_string();
    for of in [&ours, &next] {
        lab.tell::<u64>(&["ZADD", LOCK, "XX", "CH", &until, &of.value])
            .await;
    }
    let waiting = writer(&lab, "w");
    for (ahead, cut) in [(0, false), (900_000, false), (2_000_000, true)] {
        let drawn = (now + ahead).to_string();
        lab.tell::<()>(&["SET", "lock:@fence", &drawn]).await;
        lab.acquire(&waiting).await.unwrap();
        lab.link.poll(&waiting, CAP).await.unwrap();
        let score: String = lab.tell(&["ZSCORE", LOCK, &ours.value]).await;
        assert_eq!(score != until, cut, "{ahead} µs ahead");
    }
}

/// An entry without any heartbeat, which no sweep finds.
#[tokio::test]
async fn k7_a_place_whose_heartbeat_was_lost_stops_nobody() {
    let lab = Lab::new().await;
    lab.granted(&reader(&lab, "a")).await;
    lab.in_line(&writer(&lab, "lost")).await;
    lab.server.cmd(&["DEL", "lock:@a:{lock:a}"]).await;
    lab.granted(&reader(&lab, "b")).await;
}

/// A grant to a holder of permits next to others, pushed over the wire.
#[tokio::test]
async fn a_grant_is_for_three_seconds_and_names_its_epoch() {
    let lab = Lab::new().await;
    let (ours, waiting) = (permits(&lab, "a", 2, 2), permits(&lab, "b", 1, 2));
    let first = lab.granted(&ours).await;
    lab.in_line(&waiting).await;
    lab.link.release(&ours, Keep::NOT, CAP).await.unwrap();
    let mut heard = Vec::new();
    until("it is told", CAP, async || {
        heard.extend(lab.heard.take());
        !heard.is_empty()
    })
    .await;
    let (grant, _) = &heard[0];
    assert_eq!(grant.lease, Duration::from_secs(3));
    assert!(grant.epoch > first);
    assert!(lab.server.pttl(LOCK).await <= 3002);
}
