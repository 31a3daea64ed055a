//! The two servers side by side: every operation on both, and what stands on them afterwards.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use redis::Value;

use super::{KEYS, Op, Tens, Who};
use crate::backend::Link;
use crate::backend::fault::Fault;
use crate::backend::redis::tests::lab::{CAP, HOUR, Lab, acquire, claim, renewal, seconds};
use crate::policy::commands::{Acquired, Cancelled, Claim, Left, Renewal, Renewed};
use crate::policy::server::Server;
use crate::values::error::Refusal;

/// Both servers, and what the pure one can't represent.
pub(super) struct Pair<'a> {
    lab: &'a Lab,
    pure: Server,
    /// The pure machine's clock, µs.
    time: u64,
    /// Keys with a value of another type; the pure machine sees nothing there.
    other_type: BTreeSet<usize>,
    epochs: (u64, u64),
    began: Instant,
}

impl<'a> Pair<'a> {
    pub(super) fn new(lab: &'a Lab) -> Self {
        Self {
            lab,
            pure: Server::default(),
            time: 1_000 * HOUR,
            other_type: BTreeSet::new(),
            epochs: (0, 0),
            began: Instant::now(),
        }
    }

    pub(super) async fn step(&mut self, op: &Op) {
        match op {
            Op::Acquire {
                who,
                ttl,
                late,
                repair,
            } => self.acquire(*who, *ttl, *late, *repair).await,
            Op::Release(who) => {
                let pure = self.pure.release(&named(*who), self.time);
                let real = self.lab.link.release(&named(*who), CAP).await.unwrap();
                assert_eq!(real, pure, "release");
            }
            Op::Cancel { who, over } => self.cancel(*who, *over).await,
            Op::Renew(items) => self.renew(items).await,
            Op::Read(key) => {
                let real = self.lab.link.read(KEYS[*key], CAP).await;
                if self.other_type.contains(key) {
                    assert!(
                        matches!(real, Err(Fault::Refused(Refusal::WrongType, _))),
                        "{real:?}"
                    );
                } else {
                    assert_eq!(real.unwrap(), self.pure.read(KEYS[*key], self.time), "read");
                }
            }
            Op::Pass(tens) => self.pass(*tens).await,
            Op::Set(..) | Op::Del(_) | Op::OtherType(_) => self.interfere(op).await,
        }
    }

    async fn acquire(&mut self, who: Who, ttl: Tens, late: bool, repair: Option<Tens>) {
        let repair = repair.map(|tens| Duration::from_secs(10 * tens));
        let mut command = acquire(
            &named(who),
            if late {
                self.time - 1
            } else {
                self.time + HOUR
            },
        );
        (command.ttl, command.repair_missing_ttl) = (seconds(10 * ttl), repair);
        let hindered = self.other_type.contains(&who.0) && !late;
        let pure = (!hindered).then(|| self.pure.acquire(&command, self.time));
        let real_time = self.lab.link.server_time();
        command.not_after = if late {
            real_time - HOUR
        } else {
            real_time + HOUR
        };
        let real = self.lab.link.acquire(&command, CAP).await;
        match (real, pure) {
            (Ok(real), Some(pure)) => self.compare_acquired(real, pure),
            (Err(Fault::Refused(Refusal::WrongType, _)), None) => {}
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
        }
    }

    fn compare_acquired(&mut self, real: Acquired, pure: Acquired) {
        match (real, pure) {
            (Acquired::Granted { epoch: real, .. }, Acquired::Granted { epoch: pure, .. }) => {
                self.epochs_rise(real, pure);
            }
            (
                Acquired::Yours {
                    epoch: real,
                    left: real_left,
                    ..
                },
                Acquired::Yours {
                    epoch: pure,
                    left: pure_left,
                    ..
                },
            ) => {
                self.epochs_rise(real, pure);
                self.compare_left(real_left, pure_left);
            }
            (
                Acquired::Busy {
                    left: real_left,
                    value: real,
                    ..
                },
                Acquired::Busy {
                    left: pure_left,
                    value: pure,
                    ..
                },
            ) => {
                assert_eq!(real, pure);
                match (real_left, pure_left) {
                    (Left::For(real), Left::For(pure)) => self.compare_left(real, pure),
                    (real, pure) => assert_eq!(real, pure),
                }
            }
            (Acquired::Late { .. }, Acquired::Late { .. }) => {}
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
        }
    }

    fn epochs_rise(&mut self, real: u64, pure: u64) {
        assert!(real > self.epochs.0 && pure > self.epochs.1);
        self.epochs = (real, pure);
    }

    fn compare_left(&self, real: Duration, pure: Duration) {
        let least = pure.saturating_sub(self.began.elapsed() + Duration::from_millis(20));
        assert!(
            real <= pure && real >= least,
            "{real:?} is not like {pure:?}"
        );
    }

    async fn cancel(&mut self, who: Who, over: bool) {
        let pure = if over {
            self.time - 1
        } else {
            self.time + HOUR
        };
        let Cancelled {
            found, conclusive, ..
        } = self.pure.cancel(&named(who), pure, self.time);
        let real = self.lab.link.server_time();
        let real = if over { real - HOUR } else { real + HOUR };
        let real = self.lab.link.cancel(&named(who), real, CAP).await.unwrap();
        assert_eq!((real.found, real.conclusive), (found, conclusive), "cancel");
    }

    async fn renew(&mut self, items: &[(Who, Tens)]) {
        let items: Vec<Renewal> = items
            .iter()
            .map(|(who, ttl)| renewal(&named(*who), 10 * ttl))
            .collect();
        let pure: Vec<Renewed> = items
            .iter()
            .map(|item| self.pure.renew(item, self.time))
            .collect();
        let real = self.lab.link.renew(&items, CAP).await.unwrap();
        assert_eq!(real, pure, "renew");
    }

    async fn pass(&mut self, tens: Tens) {
        self.time += tens * 10_000_000;
        for key in KEYS {
            let left = self.lab.tell::<i64>(&["PTTL", key]).await;
            let after = left - i64::try_from(tens * 10_000).unwrap();
            if left > 0 && after <= 0 {
                self.lab.tell::<Value>(&["DEL", key]).await;
            } else if left > 0 {
                self.lab
                    .tell::<Value>(&["PEXPIRE", key, &after.to_string()])
                    .await;
            }
        }
    }

    async fn interfere(&mut self, op: &Op) {
        let (Op::Set((key, _), _) | Op::Del(key) | Op::OtherType(key)) = op else {
            return;
        };
        self.lab.tell::<Value>(&["DEL", KEYS[*key]]).await;
        self.pure.remove(KEYS[*key]);
        self.other_type.remove(key);
        match op {
            Op::Set(who, Some(tens)) => {
                let (claim, ttl) = (named(*who), tens * 10_000);
                self.lab
                    .tell::<Value>(&["SET", &claim.key, &claim.value, "PX", &ttl.to_string()])
                    .await;
                self.pure
                    .put(&claim.key, &claim.value, Some(self.time + ttl * 1000));
            }
            Op::Set(who, None) => {
                let claim = named(*who);
                self.lab
                    .tell::<Value>(&["SET", &claim.key, &claim.value])
                    .await;
                self.pure.put(&claim.key, &claim.value, None);
            }
            Op::OtherType(_) => {
                self.lab.tell::<Value>(&["LPUSH", KEYS[*key], "x"]).await;
                self.other_type.insert(*key);
            }
            _ => {}
        }
    }

    /// What stands at each key, and for how long: an operation may answer alike and still leave something else behind.
    pub(super) async fn compare_all(&mut self) {
        for (index, key) in KEYS.into_iter().enumerate() {
            if self.other_type.contains(&index) {
                let kind: String = self.lab.tell(&["TYPE", key]).await;
                assert_eq!(kind, "list");
                continue;
            }
            let real: Option<String> = self.lab.tell(&["GET", key]).await;
            assert_eq!(real, self.pure.read(key, self.time), "what stands at {key}");
            let real = self.lab.tell::<i64>(&["PTTL", key]).await;
            match self.pure.expires(key) {
                None => assert_eq!(
                    real,
                    if self.pure.read(key, self.time).is_some() {
                        -1
                    } else {
                        -2
                    }
                ),
                Some(at) => {
                    let real = Duration::from_millis(u64::try_from(real).unwrap());
                    self.compare_left(real, Duration::from_micros(at - self.time));
                }
            }
        }
    }
}

fn named((key, value): Who) -> Claim {
    claim(KEYS[key], ["1|red", "1|green", "blue"][value])
}
