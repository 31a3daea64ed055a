//! Runs every operation on both servers, and compares their state after it.

mod combined;
mod compare;
mod epochs;
mod heartbeats;
mod people;

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Value;

use self::epochs::Epochs;
use super::clockwork::{self, Clockwork};
use super::{KEYS, Op, Seconds, Who};
use crate::backend::Link;
use crate::backend::command_error::CommandError;
use crate::backend::redis::names::Names;
use crate::backend::redis::tests::lab::{CAP, HOUR, Lab, acquire, kept, renewal, seconds};
use crate::policy::commands::{Acquire, Cancelled, Claim, Keep, PushedGrant, Renewal, Renewed};
use crate::policy::server::{Publish, Reached, Server};
use crate::values::error::Refusal;

const SECOND: u64 = 1_000_000;

/// A queue entry that this version can't parse.
const STRANGE: &str = "r|lock:@grant:x|30000|1|reader";

/// What stands in the pure machine where the real server has a value of another type.
const A_LIST: &str = "2|a list";

/// Both servers, and the state that the pure one can't represent.
pub(super) struct Pair<'a> {
    lab: &'a Lab,
    pure: Server,
    wire: Wire,
    /// The pure machine's clock, in µs.
    time: u64,
    pub(super) clockwork: Clockwork,
    /// Keys with a value of another type; the pure machine has a value of another layout there.
    other_type: BTreeSet<usize>,
    epochs: Epochs,
}

/// The pure machine's pushes.
struct Wire {
    /// The only address with a listener.
    address: String,
    pushed: Vec<PushedGrant>,
}

impl Publish for Wire {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        if address == people::ELSEWHERE {
            return Reached::Unknown;
        } else if address != self.address {
            return Reached::Nobody;
        }
        self.pushed.push(grant.clone());
        Reached::Somebody
    }
}

impl<'a> Pair<'a> {
    pub(super) fn new(lab: &'a Lab) -> Self {
        Self {
            lab,
            pure: Server::default(),
            wire: Wire {
                address: lab.link.address().unwrap().to_string(),
                pushed: Vec::new(),
            },
            time: 1_000 * HOUR,
            clockwork: Clockwork::start(),
            other_type: BTreeSet::new(),
            epochs: Epochs::default(),
        }
    }

    pub(super) async fn step(&mut self, op: &Op) {
        // As on the real server, so that entries end in the order in which they came.
        self.time += 1;
        match op {
            Op::Acquire {
                who,
                lease,
                late,
                repair,
            } => self.acquire(*who, *lease, *late, *repair).await,
            Op::Together {
                people,
                lease,
                late,
            } => self.together(*people, *lease, *late).await,
            Op::Combined { releases, acquires } => self.combined(releases, acquires).await,
            Op::Poll(who) => self.poll(*who).await,
            Op::Heartbeats(people) => self.heartbeats(people).await,
            Op::Release { who, keep } => self.release(*who, *keep).await,
            Op::Cancel { who, keep, over } => self.cancel(*who, *keep, *over).await,
            Op::Renew(items) => self.renew(items).await,
            Op::Downgrade(who, ttl) => self.downgrade(*who, *ttl).await,
            Op::Holds(who) => self.holds(*who).await,
            Op::Read(key) => {
                let real = self.lab.link.read(KEYS[*key], CAP).await;
                if self.other_type.contains(key) {
                    assert!(is_other_type(&real), "{real:?}");
                } else {
                    assert_eq!(real.unwrap(), self.pure.read(KEYS[*key], self.time), "read");
                }
            }
            Op::Pass(seconds) => {
                self.time += seconds * SECOND;
                clockwork::pass(*seconds, self.lab, &every_key()).await;
            }
            Op::Strange(key, beats) => self.strange(KEYS[*key], *beats).await,
            Op::LoseQueue(key) => {
                let [_, waiting, alive] = keys(KEYS[*key]);
                self.lab.tell::<Value>(&["DEL", &waiting, &alive]).await;
                self.pure.lose_queue(KEYS[*key]);
            }
            Op::Set(..) | Op::Del(_) | Op::OtherType(_) | Op::ForeignSet(_) => {
                self.interfere(op).await;
            }
        }
    }

    fn named(&self, who: Who) -> Claim {
        people::named(who, &self.wire.address)
    }

    async fn acquire(&mut self, who: Who, lease: Seconds, late: bool, repair: Option<Seconds>) {
        let mut command = acquire(&self.named(who), self.time + HOUR);
        command.lease = seconds(lease);
        command.repair_missing_ttl = repair.map(Duration::from_secs);
        if late {
            command.not_after = self.time - 1;
        }
        let hindered = self.other_type.contains(&who.0) && !late;
        let pure = (!hindered).then(|| self.pure.acquire(&command, self.time, &mut self.wire));
        let real_time = self.lab.link.server_time();
        command.not_after = if late {
            real_time - HOUR
        } else {
            real_time + HOUR
        };
        let real = self.lab.link.acquire(&command, CAP).await;
        self.compare_pushes().await;
        match (real, pure) {
            (Ok(real), Some(pure)) => self.compare_acquired(real, pure),
            (real, None) if is_other_type(&real) => {}
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
        }
    }

    async fn together(&mut self, people: [usize; 2], lease: Seconds, late: bool) {
        let named = people.iter().enumerate();
        let claims: Vec<_> = named.map(|(key, who)| self.named((key, *who))).collect();
        let commands = |time: u64| -> Vec<_> {
            let not_after = if late { time - HOUR } else { time + HOUR };
            let command = |claim| Acquire {
                lease: seconds(lease),
                ..acquire(claim, not_after)
            };
            claims.iter().map(command).collect()
        };
        let pure = commands(self.time);
        let pure = self.pure.acquire_all(&pure, self.time, &mut self.wire);
        let real = commands(self.lab.link.server_time());
        let real = self.lab.link.acquire_all(&real, CAP).await.unwrap();
        self.compare_pushes().await;
        self.compare_together(&real, &pure);
    }

    async fn poll(&mut self, who: Who) {
        let claim = self.named(who);
        let pure = (!self.other_type.contains(&who.0))
            .then(|| self.pure.poll(&claim, self.time, &mut self.wire));
        let real = self.lab.link.poll(&claim, CAP).await;
        self.compare_pushes().await;
        match (real, pure) {
            (Ok(real), Some(pure)) => self.compare_polled(real, pure),
            (real, None) if is_other_type(&real) => {}
            (real, pure) => panic!("poll: {real:?} is not like {pure:?}"),
        }
    }

    /// The same by each server's clock.
    fn keep(&self, keep: Option<Seconds>) -> (Keep, Keep) {
        let real = self.lab.link.server_time();
        (kept(keep, real), kept(keep, self.time))
    }

    async fn release(&mut self, who: Who, keep: Option<Seconds>) {
        let (claim, (real, pure)) = (self.named(who), self.keep(keep));
        let pure = self.pure.release(&claim, pure, self.time, &mut self.wire);
        let real = self.lab.link.release(&claim, real, CAP).await.unwrap();
        self.compare_pushes().await;
        assert_eq!(real, pure, "release");
    }

    async fn cancel(&mut self, who: Who, keep: Option<Seconds>, over: bool) {
        let (claim, (real_keep, pure_keep)) = (self.named(who), self.keep(keep));
        let not_after = |now: u64| if over { now - 1 } else { now + HOUR };
        let (real, pure) = (self.lab.link.server_time(), self.time);
        let Cancelled {
            found,
            conclusive,
            rest,
            ..
        } = self
            .pure
            .cancel(&claim, pure_keep, not_after(pure), pure, &mut self.wire);
        let real = not_after(if over { real - HOUR } else { real });
        let real = self.lab.link.cancel(&claim, real_keep, real, CAP).await;
        let real = real.unwrap();
        self.compare_pushes().await;
        assert_eq!(
            (real.found, real.conclusive, real.rest),
            (found, conclusive, rest),
            "cancel"
        );
    }

    async fn renew(&mut self, items: &[(Who, Seconds)]) {
        let items: Vec<Renewal> = items
            .iter()
            .map(|(who, ttl)| renewal(&self.named(*who), *ttl))
            .collect();
        let pure: Vec<Renewed> = items
            .iter()
            .map(|item| self.pure.renew(item, self.time))
            .collect();
        let real = self.lab.link.renew(&items, CAP).await.unwrap();
        assert_eq!(real, pure, "renew");
    }

    async fn downgrade(&mut self, who: Who, ttl: Seconds) {
        let (claim, ttl) = (self.named(who), seconds(ttl));
        if !claim.kind().is_shared() {
            return; // only the other kinds can be downgraded
        }
        let pure = self.pure.downgrade(&claim, ttl, self.time, &mut self.wire);
        let real = self.lab.link.downgrade(&claim, ttl, CAP).await.unwrap();
        self.compare_pushes().await;
        assert_eq!(real, pure, "downgrade");
    }

    async fn holds(&mut self, who: Who) {
        let claim = self.named(who);
        let pure = self.pure.holds(&claim, self.time);
        match self.lab.link.holds(&claim, CAP).await {
            Ok(real) => assert_eq!(real, pure, "holds"),
            other => assert!(is_other_type(&other) && self.other_type.contains(&who.0)),
        }
    }

    async fn strange(&mut self, key: &str, beats: bool) {
        let [_, waiting, alive] = keys(key);
        let now = self.lab.link.server_time();
        let (arrival, beat) = (self.epochs.last().max(now), now + 3_500_000);
        let (arrival, beat) = (arrival.to_string(), beat.to_string());
        let enters = ["ZADD", &waiting, "NX", &arrival, STRANGE];
        let is_new = self.lab.tell::<i64>(&enters).await == 1;
        if beats {
            self.pure.enter(key, STRANGE, self.time);
            let beats = ["ZADD", &alive, &beat, STRANGE];
            self.lab.tell::<Value>(&beats).await;
        } else {
            self.pure.enter_silently(key, STRANGE, self.time);
        }
        for key in [&waiting, &alive] {
            if is_new || beats {
                self.lab.tell::<Value>(&["PEXPIRE", key, "7000"]).await;
            }
        }
    }

    async fn interfere(&mut self, op: &Op) {
        let (Op::Set((key, _), _) | Op::Del(key) | Op::OtherType(key) | Op::ForeignSet(key)) = op
        else {
            return;
        };
        let lock = KEYS[*key];
        self.lab.tell::<Value>(&["DEL", lock]).await;
        self.pure.remove(lock);
        self.other_type.remove(key);
        match op {
            Op::Set(who, ttl) => {
                let value = self.named(*who).value;
                let mut words = vec!["SET", lock, &value];
                let px = ttl.map(|ttl| (ttl * 1000).to_string());
                words.extend(px.iter().flat_map(|px| ["PX", px]));
                self.lab.tell::<Value>(&words).await;
                let expires = ttl.map(|ttl| self.time + ttl * SECOND);
                self.pure.put(lock, &value, expires);
            }
            Op::OtherType(_) | Op::ForeignSet(_) => {
                let [list, set] = [
                    &["LPUSH", lock, "x"][..],
                    &["ZADD", lock, "1", "long over", "inf", "2|#|rw"],
                ];
                let is_list = matches!(op, Op::OtherType(_));
                self.lab
                    .tell::<Value>(if is_list { list } else { set })
                    .await;
                self.pure.put(lock, A_LIST, None);
                self.other_type.insert(*key);
            }
            _ => {}
        }
    }
}

/// A lock, its queue and its heartbeats.
fn keys(lock: &str) -> [String; 3] {
    let names = Names::new("lock:", false);
    let keys = names.of(lock);
    [lock.to_owned(), keys.queue.text(), keys.heartbeats.text()]
}

fn every_key() -> Vec<String> {
    KEYS.into_iter().flat_map(keys).collect()
}

fn is_other_type<T>(answer: &Result<T, CommandError>) -> bool {
    // `Layout`: a set that another version wrote
    let refusals = [Refusal::WrongType, Refusal::Layout];
    matches!(answer, Err(CommandError::Refused(refusal, _)) if refusals.contains(refusal))
}
