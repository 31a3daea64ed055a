//! Tests of the kinds with many holders on a real server: cases that the random sequences can't
//! reach.

mod granting;
mod reading;
mod refused;
mod strange;

pub(super) use refused::MORE_RIGHTS;

use std::time::Duration;

use dlock_harness::until;

use super::lab::{
    CAP, FENCES, HOUR, Lab, acquire, assert_refused, claim, renewal, seconds, waiter,
};
use crate::link::Link;
use crate::rules::commands::{Acquired, Claim, Keep, Polled, Renewed};
use crate::values::entry;
use crate::values::error::Refusal;
use crate::values::kind::Kind;

const LOCK: &str = "lock:a";

/// The keys that remain after everything was released: the epoch counter.
const NOTHING: [&str; 1] = [FENCES];

/// A claim for 30 s that queues, with this link's address.
fn entry(lab: &Lab, kind: &Kind, token: &str) -> Claim {
    let address = lab.link.address().unwrap();
    let value = entry::of_test(kind, token, address, seconds(30), "host|1|f|0");
    Claim {
        queues: true,
        ..claim(LOCK, &value)
    }
}

fn reader(lab: &Lab, token: &str) -> Claim {
    entry(lab, &Kind::Read, token)
}

fn writer(lab: &Lab, token: &str) -> Claim {
    entry(lab, &Kind::Write, token)
}

fn permits(lab: &Lab, token: &str, take: u32, of: u32) -> Claim {
    entry(lab, &Kind::Permits { of, take }, token)
}

fn owned(lab: &Lab, token: &str) -> Claim {
    entry(lab, &Kind::Owned("one".into()), token)
}

impl Lab {
    async fn in_line(&self, claim: &Claim) {
        let answer = self.acquire(claim).await;
        assert!(matches!(answer, Ok(Acquired::Queued(_))), "{answer:?}");
    }

    async fn granted_for(&self, who: &Claim, lease: u64) {
        let mut command = acquire(who, self.link.server_time() + HOUR);
        command.lease = seconds(lease);
        let answer = self.link.acquire(&command, CAP).await;
        assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    }

    /// The members of the set, including the meta.
    async fn members(&self) -> Vec<String> {
        self.tell(&["ZRANGE", LOCK, "0", "-1"]).await
    }

    /// Ends the holder's lease now; the key's own end stays.
    async fn end(&self, who: &Claim) {
        let now = self.link.server_time().to_string();
        self.tell::<u64>(&["ZADD", LOCK, "XX", &now, &who.value])
            .await;
    }

    async fn heard(&self, count: usize) -> Vec<String> {
        let mut heard = Vec::new();
        until("all are told", CAP, async || {
            heard.extend(self.heard.take());
            heard.len() >= count
        })
        .await;
        let value = |grant: &crate::rules::commands::PushedGrant| grant.value.to_string();
        heard.iter().map(|(grant, _)| value(grant)).collect()
    }
}

/// A reader's entry ends by its score, whatever end the key has; and the key ends after its last
/// entry.
#[tokio::test]
async fn k1_the_key_ends_with_its_last_holder_and_not_before() {
    let lab = Lab::new().await;
    let (long, short) = (reader(&lab, "long"), reader(&lab, "short"));
    lab.granted_for(&long, 60).await;
    lab.granted_for(&short, 5).await;
    let pttl = async || lab.server.pttl(LOCK).await;
    assert!((50_000..=60_002).contains(&pttl().await));
    assert!(lab.link.release(&long, Keep::NOT, CAP).await.unwrap().found);
    assert!((1..=5002).contains(&pttl().await), "{}", pttl().await);
    let items = [renewal(&short, 40)];
    assert_eq!(lab.link.renew(&items, CAP).await.unwrap(), [Renewed::Yes]);
    assert!((30_000..=40_002).contains(&pttl().await));
}

/// A lapsed holder leaves nothing, even if no command follows.
#[tokio::test]
async fn what_is_left_at_rest_ends_by_itself() {
    let lab = Lab::new().await;
    lab.granted(&permits(&lab, "a", 3, 3)).await;
    lab.in_line(&permits(&lab, "b", 1, 3)).await;
    let keys = lab.keys().await;
    assert_eq!(
        keys,
        ["lock:@a:{lock:a}", FENCES, "lock:@w:{lock:a}", "lock:a"]
    );
    for key in keys.iter().filter(|key| *key != FENCES) {
        assert!(lab.server.pttl(key).await > 0, "{key}");
    }
}

/// F61, redisson#2444: a lapsed entry is removed, not only ignored.
#[tokio::test]
async fn f61_the_lapsed_do_not_pile_up() {
    let lab = Lab::new().await;
    lab.granted(&permits(&lab, "stays", 1, 3)).await;
    for number in 0..20 {
        let dead = permits(&lab, &format!("dead{number}"), 2, 3);
        lab.granted(&dead).await;
        lab.end(&dead).await;
        let second = format!("{}#2", dead.value);
        lab.tell::<u64>(&["ZADD", LOCK, "XX", "1", &second]).await;
    }
    lab.granted(&permits(&lab, "last", 2, 3)).await;
    assert_eq!(lab.members().await.len(), 4);
}

/// The key outlives its last holder for a moment, and must not block the lock.
#[tokio::test]
async fn a_set_whose_holders_have_lapsed_is_free_for_every_kind() {
    let lab = Lab::new().await;
    let dead = reader(&lab, "dead");
    for next in [
        claim(LOCK, "x"),
        writer(&lab, "w"),
        permits(&lab, "p", 1, 2),
        owned(&lab, "o"),
    ] {
        lab.granted(&dead).await;
        lab.end(&dead).await;
        assert!(!lab.link.holds(&dead, CAP).await.unwrap());
        assert_eq!(lab.link.read(LOCK, CAP).await.unwrap(), None);
        lab.granted(&next).await;
        assert!(lab.link.release(&next, Keep::NOT, CAP).await.unwrap().found);
        assert_eq!(lab.keys().await, NOTHING);
    }
}

#[tokio::test]
async fn an_entry_that_is_kept_is_nobodys_and_keeps_its_end() {
    let lab = Lab::new().await;
    let (ours, next) = (permits(&lab, "a", 2, 2), permits(&lab, "b", 1, 2));
    lab.granted(&ours).await;
    lab.in_line(&next).await;
    let until = lab.link.server_time() + 20_000_000;
    let keep = Keep::from(until - 20_000_000, Duration::from_secs(20));
    assert!(lab.link.release(&ours, keep, CAP).await.unwrap().found);
    let kept = ours.value.replacen("p|", "p|-", 1);
    let named = lab.link.read(LOCK, CAP).await.unwrap();
    assert_eq!(named.as_deref(), Some(&*kept));
    assert_eq!(
        lab.members().await,
        [kept.clone(), format!("{kept}#2"), "1|#|p".to_owned()]
    );
    let until = until.to_string();
    let at_its_end: u64 = lab.tell(&["ZCOUNT", LOCK, &until, &until]).await;
    assert_eq!(at_its_end, 2);
    assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
    assert!(!lab.link.holds(&ours, CAP).await.unwrap());
    assert!(lab.heard.take().is_empty());
}

/// Each entry of an owner counts by itself; they share an epoch, written in plain digits.
#[tokio::test]
async fn an_owners_entries_share_the_holds_epoch() {
    let lab = Lab::new().await;
    let (one, two) = (owned(&lab, "a"), owned(&lab, "b"));
    let epoch = lab.granted(&one).await;
    assert_eq!(lab.granted(&two).await, epoch);
    let meta = lab.members().await.pop();
    assert_eq!(meta, Some(format!("1|#|o|one|{epoch}")));
    let given_back = lab.link.release(&one, Keep::NOT, CAP).await.unwrap();
    assert_eq!((given_back.found, given_back.rest), (true, 1));
    let given_back = lab.link.release(&two, Keep::NOT, CAP).await.unwrap();
    assert_eq!((given_back.found, given_back.rest), (true, 0));
}

/// A thousand permits: the script unpacks a thousand members into the arguments of one command.
#[tokio::test]
async fn a_thousand_permits_are_taken_renewed_and_given_back() {
    let lab = Lab::new().await;
    let all = permits(&lab, "all", 1000, 1000);
    lab.granted(&all).await;
    assert_eq!(lab.tell::<u64>(&["ZCARD", LOCK]).await, 1001);
    let items = [renewal(&all, 60)];
    assert_eq!(lab.link.renew(&items, CAP).await.unwrap(), [Renewed::Yes]);
    lab.end(&all).await; // only the first one: the others are found by their scores
    let later = (lab.link.server_time() + 50_000_000).to_string();
    let renewed: u64 = lab.tell(&["ZCOUNT", LOCK, &later, "+inf"]).await;
    assert_eq!(renewed, 999 + 1, "the other permits, and the meta");
    lab.link.renew(&items, CAP).await.unwrap();
    lab.tell::<u64>(&["DEL", LOCK]).await;
    lab.granted(&all).await;
    assert!(lab.link.release(&all, Keep::NOT, CAP).await.unwrap().found);
    assert_eq!(lab.keys().await, NOTHING);
}

/// A batch of renewals may mix all kinds, and one failing key does not affect the others.
#[tokio::test]
async fn a_batch_of_renewals_mixes_kinds() {
    let lab = Lab::new().await;
    let elsewhere = |key: &str, claim: Claim| Claim {
        key: key.into(),
        ..claim
    };
    let ours = claim("lock:x", "x");
    let (one, two) = (
        reader(&lab, "r"),
        elsewhere("lock:b", permits(&lab, "p", 2, 3)),
    );
    let (gone, list) = (
        elsewhere("lock:c", owned(&lab, "o")),
        elsewhere("lock:d", reader(&lab, "d")),
    );
    let text = elsewhere("lock:x", reader(&lab, "t"));
    for claim in [&ours, &one, &two] {
        lab.granted(claim).await;
    }
    lab.server.cmd(&["LPUSH", "lock:d", "x"]).await;
    let items = [&one, &list, &ours, &gone, &text, &two].map(|who| renewal(who, 60));
    let answers = lab.link.renew(&items, CAP).await.unwrap();
    let renewed = answers.iter().map(|it| *it == Renewed::Yes);
    assert!(
        renewed.eq([true, false, true, false, false, true]),
        "{answers:?}"
    );
    for key in [LOCK, "lock:b", "lock:x"] {
        assert!(lab.server.pttl(key).await > 40_000, "{key}");
    }
}

/// The number of commands inside the scripts on the uncontended paths does not depend on the number
/// of holders.
#[tokio::test]
async fn the_cost_does_not_grow_with_the_holders() {
    let lab = Lab::new().await;
    let calls = async |claim: &Claim| -> u64 {
        lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
        lab.granted(claim).await;
        lab.link.release(claim, Keep::NOT, CAP).await.unwrap();
        let mut calls = 0;
        for command in [
            "zrange",
            "zcard",
            "zadd",
            "zrem",
            "zscore",
            "zremrangebyscore",
        ] {
            calls += lab.server.commandstats(command).await;
        }
        calls
    };
    lab.granted(&reader(&lab, "first")).await;
    let few = calls(&reader(&lab, "a")).await;
    for number in 0..200 {
        lab.granted(&reader(&lab, &format!("{number}"))).await;
    }
    assert_eq!(calls(&reader(&lab, "b")).await, few);
    assert!(few <= 17, "{few}");
}
