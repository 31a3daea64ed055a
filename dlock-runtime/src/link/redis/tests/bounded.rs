//! One call handles a bounded number of queue entries and holders, and the client continues at
//! once. The calls are counted, not timed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_harness::until;

use super::lab::{CAP, FENCES, HOUR, Lab, acquire, claim, seconds};
use crate::link::Link;
use crate::rules::commands::{Acquired, Claim, Keep, Polled};
use crate::rules::queue::ENTRIES_AT_ONCE;
use crate::values::entry;
use crate::values::kind::Kind;

const LOCK: &str = "lock:a";
const W: &str = "lock:@w:{lock:a}";
const A: &str = "lock:@a:{lock:a}";
/// Far more than one call handles.
const CROWD: u64 = 2_999;

fn kinds() -> [Kind; 5] {
    [
        Kind::Exclusive,
        Kind::Read,
        Kind::Write,
        Kind::Permits { of: 1, take: 1 },
        Kind::Owned("one".into()),
    ]
}

fn of(lab: &Lab, kind: &Kind, token: &str, address: &str) -> Claim {
    let address = if address.is_empty() {
        lab.link.address().unwrap()
    } else {
        address
    };
    let value = entry::of_test(kind, token, address, seconds(30), "host|1|f|0");
    Claim {
        queues: true,
        ..claim(LOCK, &value)
    }
}

/// In which way the waiters are dead.
#[derive(Clone, Copy, Debug)]
enum Dead {
    /// No heartbeat.
    Silent,
    /// Their common connection has ended.
    Unresponsive,
    /// Each had a connection of its own, which has ended.
    UnresponsiveEach,
    /// Silent and unsubscribed ones in turn.
    Both,
}

impl Lab {
    /// Adds this many dead entries before all others; the server makes their names. Who waits already
    /// stays alive, however long a busy machine takes over the dead ones.
    async fn crowd(&self, kind: &Kind, dead: Dead) {
        let place = of(self, kind, "TOKEN", "ADDRESS").value;
        let script = "
            local future = redis.call('TIME')[1] * 1000000 + 3600000000
            for _, place in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
              redis.call('ZADD', KEYS[2], string.format('%.0f', future), place)
            end
            for i = 1, tonumber(ARGV[1]) do
              local place = string.gsub(ARGV[2], 'TOKEN', 'dead' .. i)
              place = string.gsub(place, 'ADDRESS', ARGV[4] .. (ARGV[3] == 'UnresponsiveEach' and i or ''))
              local silent = ARGV[3] == 'Silent' or ARGV[3] == 'Both' and i % 2 == 0
              redis.call('ZADD', KEYS[1], i, place)
              redis.call('ZADD', KEYS[2], silent and 1 or string.format('%.0f', future), place)
            end
            redis.call('PEXPIRE', KEYS[1], 60000)
            redis.call('PEXPIRE', KEYS[2], 60000)";
        let (crowd, dead) = (CROWD.to_string(), format!("{dead:?}"));
        let words = [
            "EVAL",
            script,
            "2",
            W,
            A,
            &crowd,
            &place,
            &dead,
            &self.unresponsive(),
        ];
        self.tell::<()>(&words).await;
    }

    /// A busy machine may take longer for the crowd than a sign of life counts.
    async fn stays_alive(&self, waiter: &Claim) {
        loop {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let alive = (now + Duration::from_secs(3)).as_micros().to_string();
            let words = ["ZADD", A, "XX", &alive, &waiter.value];
            self.server.cmd(&words).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn calls(&self) -> u64 {
        self.server.commandstats("evalsha").await + self.server.commandstats("eval").await
    }

    /// Since the statistics were reset, no call has handled more than it may, and none was in vain.
    async fn assert_bounded(&self, handled: u64, what: &str) {
        let (calls, at_once) = (self.calls().await, ENTRIES_AT_ONCE as u64);
        let least = handled / at_once;
        assert!(
            (least..=2 * least + 6).contains(&calls),
            "{what}: {calls} calls"
        );
    }
}

#[tokio::test]
async fn a_release_grants_to_a_lone_waiter_behind_thousands_of_dead_ones() {
    let lab = Lab::new().await;
    for kind in kinds() {
        for dead in [
            Dead::Silent,
            Dead::Unresponsive,
            Dead::UnresponsiveEach,
            Dead::Both,
        ] {
            let what = format!("{kind:?}, {dead:?}");
            let holder = match &kind {
                Kind::Read => Kind::Write,
                Kind::Owned(_) => Kind::Owned("other".into()),
                kind => kind.clone(),
            };
            let (ours, alive) = (of(&lab, &holder, "ours", ""), of(&lab, &kind, "alive", ""));
            lab.granted(&ours).await;
            let queued = lab.acquire(&alive).await;
            assert!(
                matches!(queued, Ok(Acquired::Queued(_))),
                "{what}: {queued:?}"
            );
            lab.crowd(&kind, dead).await;
            lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
            let released = tokio::select! {
                released = lab.link.release(&ours, Keep::NOT, CAP) => released,
                () = lab.stays_alive(&alive) => unreachable!("it goes on"),
            };
            assert!(released.unwrap().found);
            let mut heard = Vec::new();
            let told = format!("{what}: it hears of its grant, without a poll");
            until(&told, CAP, async || {
                heard.extend(lab.heard.take());
                !heard.is_empty()
            })
            .await;
            assert_eq!(heard[0].0.value, alive.value, "{what}");
            lab.assert_bounded(CROWD, &what).await;
            let tried = lab.server.commandstats("publish").await;
            let calls = lab.calls().await;
            assert!(
                matches!(dead, Dead::UnresponsiveEach) || tried <= calls + 2,
                "{what}: {tried} tries in {calls} calls"
            );
            assert!(
                lab.link
                    .release(&alive, Keep::NOT, CAP)
                    .await
                    .unwrap()
                    .found
            );
            assert_eq!(lab.keys().await, [FENCES], "{what}");
        }
    }
}

/// An acquire or a poll of a free lock with a queue of dead entries is repeated until it is
/// answered.
#[tokio::test]
async fn each_asker_goes_on_until_it_is_answered() {
    let lab = Lab::new().await;
    let until_then = || lab.link.server_time() + HOUR;
    for kind in kinds() {
        let ours = of(&lab, &kind, "ours", "");
        let once = Claim {
            queues: false,
            ..ours.clone()
        };
        for claim in [&ours, &once] {
            lab.crowd(&kind, Dead::Both).await;
            lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
            lab.granted(claim).await;
            lab.assert_bounded(CROWD, &format!("{kind:?} acquires"))
                .await;
            lab.link.release(claim, Keep::NOT, CAP).await.unwrap();
        }
        lab.crowd(&kind, Dead::Silent).await;
        let gone = lab.link.poll(&once, CAP).await.unwrap();
        assert!(matches!(gone, Polled::Gone { .. }), "{kind:?}: {gone:?}");
        lab.crowd(&kind, Dead::Silent).await;
        let cancelled = lab.link.cancel(&ours, Keep::NOT, 0, CAP).await.unwrap();
        assert!(!cancelled.found && cancelled.conclusive, "{kind:?}");
        until("the queue is empty", CAP, async || {
            lab.keys().await == [FENCES]
        })
        .await;
    }
    lab.crowd(&Kind::Exclusive, Dead::Both).await;
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    let all = [LOCK, "lock:b"].map(|key| acquire(&claim(key, "all"), until_then()));
    let taken = lab.link.acquire_all(&all, CAP).await.unwrap();
    assert!(
        matches!(taken, crate::rules::commands::AcquiredAll::All { .. }),
        "{taken:?}"
    );
    lab.assert_bounded(CROWD, "all").await;
}

/// In a batch, the limit of one call counts over all of its items.
#[tokio::test]
async fn combined_items_go_on_each_by_itself() {
    let lab = Lab::new().await;
    let place = of(&lab, &Kind::Exclusive, "TOKEN", "unresponsive").value;
    let script = "
        for i = 1, 150 do
          for key = 1, 40 do
            local place = string.gsub(ARGV[1], 'TOKEN', 'dead' .. i)
            redis.call('ZADD', 'lock:@w:{lock:' .. key .. '}', i, place)
            redis.call('ZADD', 'lock:@a:{lock:' .. key .. '}', 1, place)
          end
        end";
    lab.tell::<()>(&["EVAL", script, "0", &place]).await;
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    let all: Vec<_> = (1..=40)
        .map(|key| claim(&format!("lock:{key}"), "ours"))
        .collect();
    let lab = Arc::new(lab);
    let asking = all.into_iter().map(|it| {
        let lab = lab.clone();
        tokio::spawn(async move { lab.acquire(&it).await })
    });
    for answer in asking.collect::<Vec<_>>() {
        let answer = answer.await.unwrap();
        assert!(matches!(answer, Ok(Acquired::Granted { .. })), "{answer:?}");
    }
    let calls = lab.calls().await;
    assert!((30..=120).contains(&calls), "{calls} for 6,000 places");
    assert_eq!(lab.keys().await.len(), 41);
}

/// Lapsed holders are removed in steps, before anything is decided.
#[tokio::test]
async fn thousands_of_lapsed_holders_keep_nobody_out() {
    let lab = Lab::new().await;
    let script = "
        for i = 1, tonumber(ARGV[1]) do
          redis.call('ZADD', KEYS[1], i, (string.gsub(ARGV[2], 'TOKEN', 'dead' .. i)))
        end
        redis.call('ZADD', KEYS[1], 'inf', ARGV[3])
        redis.call('PEXPIRE', KEYS[1], 60000)";
    let crowd = CROWD.to_string();
    let fill = async |kind: &Kind, meta: &str| {
        let dead = of(&lab, kind, "TOKEN", "unresponsive").value;
        lab.tell::<()>(&["EVAL", script, "1", LOCK, &crowd, &dead, meta])
            .await;
        lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    };
    let sets = [
        (Kind::Read, "1|#|rw"),
        (Kind::Permits { of: 1, take: 1 }, "1|#|p"),
        (Kind::Owned("one".into()), "1|#|o|one|7"),
    ];
    for (kind, meta) in &sets {
        for newcomer in kinds() {
            fill(kind, meta).await;
            let newcomer = of(&lab, &newcomer, "new", "");
            lab.granted(&newcomer).await;
            lab.assert_bounded(CROWD, &format!("{newcomer:?} at {kind:?}"))
                .await;
            lab.link.release(&newcomer, Keep::NOT, CAP).await.unwrap();
            assert_eq!(lab.keys().await, [FENCES]);
        }
        fill(kind, meta).await;
        let ours = of(&lab, kind, "new", "");
        assert!(!lab.link.release(&ours, Keep::NOT, CAP).await.unwrap().found);
        lab.assert_bounded(0, "a release of what nobody holds or waits for")
            .await;
        lab.tell::<u64>(&["DEL", LOCK]).await;
    }
}

/// `min_hold` keeps an owner's entries as one member, so that the rest need no counting.
#[tokio::test]
async fn what_is_kept_of_an_owner_is_one() {
    let lab = Lab::new().await;
    let kind = Kind::Owned("one".into());
    let all = ["a", "b", "c", "d"].map(|token| of(&lab, &kind, token, ""));
    for claim in &all {
        lab.granted(claim).await;
    }
    let now = lab.link.server_time();
    let keep = |seconds| Keep::from(now, Duration::from_secs(seconds));
    for (claim, keep, rest) in [
        (&all[0], keep(20), 3),
        (&all[1], Keep::NOT, 2),
        (&all[2], keep(19), 1),
    ] {
        assert_eq!(lab.link.release(claim, keep, CAP).await.unwrap().rest, rest);
    }
    let members: Vec<String> = lab.tell(&["ZRANGE", LOCK, "0", "-1"]).await;
    assert_eq!(members.len(), 3, "{members:?}");
    assert_eq!(members[0], entry::retired(&all[0].value));
    let end: String = lab.tell(&["ZSCORE", LOCK, &members[0]]).await;
    assert_eq!(end, (now + 20_000_000).to_string(), "the latest");
}
