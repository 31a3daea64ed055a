//! What is done by a lock's key alone, while its slot moves, answers and leaves the same as the whole
//! script, unless somebody waits. Two answers say less: of a poll, since the key does not tell
//! whether a claim waits; of a cancel that finds nothing, since it may have overtaken the acquire.

use proptest::option;
use proptest::prelude::{Strategy, any, prop_oneof};
use redis::Value;
use tokio::time::Instant;

use super::{Op, Pair, pair};
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::tests::alike::pair::{Foreign, even};
use crate::link::redis::tests::alike::witness::Witness;
use crate::link::redis::tests::alike::{Seconds, Stage, Who};
use crate::link::redis::tests::lab::{CAP, HOUR, Lab, acquire, seconds};
use crate::rules::commands::{Acquire, Claim, Polled};

#[derive(Clone, Copy, Debug)]
pub(super) enum ByKey {
    /// For how long, and whether it comes too late.
    Acquire(Seconds, bool),
    Poll,
    Release(Option<Seconds>),
    /// Whether it stays, and whether nothing can come any more.
    Cancel(Option<Seconds>, bool),
    Downgrade(Seconds),
    /// The same, with an entry of the claim there that has lapsed.
    Lapsed(&'static ByKey),
}

/// What is done by a key in each state of it.
static OPERATIONS: [ByKey; 8] = [
    ByKey::Acquire(30, false),
    ByKey::Acquire(30, true),
    ByKey::Poll,
    ByKey::Release(None),
    ByKey::Release(Some(3600)),
    ByKey::Cancel(None, true),
    ByKey::Cancel(Some(3600), false),
    ByKey::Downgrade(60),
];

pub(super) fn operation() -> impl Strategy<Value = ByKey> {
    let keep = || option::weighted(0.2, even());
    prop_oneof![
        3 => (even(), proptest::bool::weighted(0.1))
            .prop_map(|(lease, late)| ByKey::Acquire(lease, late)),
        1 => any::<bool>().prop_map(|_| ByKey::Poll),
        1 => keep().prop_map(ByKey::Release),
        1 => (keep(), any::<bool>()).prop_map(|(keep, over)| ByKey::Cancel(keep, over)),
        1 => even().prop_map(ByKey::Downgrade),
        1 => (0..OPERATIONS.len()).prop_map(|at| ByKey::Lapsed(&OPERATIONS[at])),
    ]
}

fn until() -> Instant {
    Instant::now() + CAP
}

impl Pair<'_> {
    pub(super) async fn by_key(&mut self, who: Who, what: ByKey) {
        let (lab, time) = (self.lab, self.time);
        let claim = Claim {
            queues: false,
            ..self.named(who)
        };
        if !self.pure.waiting(&claim.key, time).is_empty() {
            return;
        }
        let is_itself = !matches!(what, ByKey::Lapsed(_));
        self.witness.saw_if(is_itself, "by its key");
        match what {
            ByKey::Acquire(lease, late) => {
                let command = |now: u64| Acquire {
                    lease: seconds(lease),
                    ..acquire(&claim, if late { now - HOUR } else { now + HOUR })
                };
                let real = command(lab.link.server_time());
                let answer = lab.link.acquire_by_key(&real, until()).await;
                if self.other_type.contains(&who.0) && !late {
                    assert!(self.is_other_type(who.0, &answer), "{answer:?}");
                    let whole = lab.link.acquire(&real, CAP).await;
                    assert_eq!(format!("{answer:?}"), format!("{whole:?}"));
                } else {
                    let pure = self.pure.acquire(&command(time), time, &mut self.wire);
                    self.compare_acquired(answer.unwrap(), pure);
                }
            }
            ByKey::Poll => {
                let answer = lab.link.poll_by_key(&claim, until()).await;
                if self.other_type.contains(&who.0) {
                    assert!(self.is_other_type(who.0, &answer), "{answer:?}");
                    let whole = lab.link.poll(&claim, CAP).await;
                    assert_eq!(format!("{answer:?}"), format!("{whole:?}"));
                    return;
                }
                match (
                    answer.unwrap(),
                    self.pure.poll(&claim, time, &mut self.wire),
                ) {
                    (Polled::Queued(_), Polled::Gone { .. }) => {}
                    (real, pure) => self.compare_polled(real, pure),
                }
            }
            ByKey::Release(keep) => {
                let (real, pure) = self.keep(keep).await;
                let real = lab.link.release_by_key(&claim, real, until()).await;
                let pure = self.pure.release(&claim, pure, time, &mut self.wire);
                assert_eq!(real.unwrap(), pure, "release by key");
            }
            ByKey::Cancel(keep, over) => {
                let (real, pure) = self.keep(keep).await;
                let not_after = |now: u64| if over { now - HOUR } else { now + HOUR };
                let times = (real, not_after(lab.link.server_time()));
                let real = lab.link.cancel_by_key(&claim, times, until()).await;
                let until = not_after(time);
                let pure = (self.pure).cancel(&claim, pure, until, time, &mut self.wire);
                if pure.conclusive {
                    self.compare_cancelled(real.unwrap(), pure);
                } else {
                    assert!(matches!(real, Err(CommandError::Unclear(_))), "{real:?}");
                }
            }
            ByKey::Downgrade(ttl) => {
                let ttl = seconds(ttl);
                let real = lab.link.downgrade_by_key(&claim, ttl, until()).await;
                let pure = self.pure.downgrade(&claim, ttl, time, &mut self.wire);
                assert_eq!(real.unwrap(), pure, "downgrade by key");
            }
            ByKey::Lapsed(then) => return self.lapsed(who, &claim, *then).await,
        }
        self.compare_told().await;
    }

    /// As if the claim held the lock alone until just now. Whoever takes the lock, asks for it or
    /// downgrades removes what has lapsed.
    async fn lapsed(&mut self, who: Who, claim: &Claim, then: ByKey) {
        let (lab, lock) = (self.lab, &*claim.key);
        if self.pure.read(lock, self.time).is_some() || !claim.kind().is_shared() {
            return;
        }
        let command = acquire(claim, lab.link.server_time() + HOUR);
        lab.link.acquire(&command, CAP).await.unwrap();
        let lapsed = (lab.link.server_time() - 1_000_000).to_string();
        let members: Vec<String> = lab.tell(&["ZRANGE", lock, "0", "-2"]).await;
        for member in members {
            let make_lapse = ["ZADD", lock, "XX", &lapsed, &member];
            lab.tell::<Value>(&make_lapse).await;
        }
        Box::pin(self.by_key(who, then)).await;
        if self.pure.read(lock, self.time).is_none() {
            let there: Vec<String> = lab.tell(&["ZRANGE", lock, "0", "-2"]).await;
            let is_left = there.iter().all(|it| it.starts_with(&*claim.value));
            let looks_closer = match then {
                ByKey::Acquire(_, late) => !late,
                ByKey::Release(_) | ByKey::Cancel(..) => false,
                ByKey::Poll | ByKey::Downgrade(_) | ByKey::Lapsed(_) => true,
            };
            let is_gone = there.is_empty() || is_left && !looks_closer;
            assert!(is_gone, "{there:?} after {then:?}");
            lab.tell::<Value>(&["DEL", lock]).await;
        }
    }
}

/// What was done to a key before: by the claim, by another one of some kind, and by a stranger.
fn states(ours: usize) -> Vec<Vec<Op>> {
    let acquire = |who: usize| Op::Acquire {
        who: (0, who),
        lease: 30,
        late: false,
        repair: None,
    };
    let mut all = vec![
        vec![],
        vec![acquire(ours)],
        vec![acquire(ours), Op::Downgrade((0, ours), 30)],
    ];
    all.extend(OTHERS.map(|other| vec![acquire(other)]));
    let another_layout = Foreign::Value(4, Some(30));
    let endless = Foreign::Value(0, None);
    let foreign = [Foreign::List, Foreign::OtherSet, another_layout, endless];
    all.extend(foreign.map(|what| vec![Op::Foreign(0, what)]));
    all
}

/// A claim of each kind, which does not wait; and another one of that kind.
const OURS: [usize; 5] = [2, 20, 21, 22, 23];
const OTHERS: [usize; 5] = [0, 5, 6, 11, 15];

/// Each kind × each state of the key × each operation.
#[test]
fn by_its_key_a_lock_is_as_by_the_whole_script() {
    let (stage, witness) = (Stage::new(Lab::new()), Witness::default());
    for ours in OURS {
        for operation in &OPERATIONS {
            let mut cases = states(ours);
            for case in &mut cases {
                case.push(Op::ByKey((0, ours), *operation));
            }
            cases.push(vec![Op::ByKey((0, ours), ByKey::Lapsed(operation))]);
            for case in cases {
                let run = || stage.case(&case, |lab| pair(lab, &witness));
                while run() < case.len() {} // it took too long to be compared
            }
        }
    }
    let all = OURS.len() * OPERATIONS.len() * 13 - OPERATIONS.len();
    witness.must_have_seen([("by its key", u32::try_from(all).unwrap())]);
}
