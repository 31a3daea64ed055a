//! Compares two answers, and the state of the two servers after them.

use std::collections::HashMap;
use std::time::Duration;

use super::{A_LIST, Pair, every_key};
use crate::backend::redis::tests::alike::KEYS;
use crate::backend::redis::tests::lab::CAP;
use crate::policy::commands::{Acquired, AcquiredAll, Busy, Left, Polled};

impl Pair<'_> {
    pub(super) fn compare_acquired(&mut self, real: Acquired, pure: Acquired) {
        match (real, pure) {
            (Acquired::Granted { epoch: real, .. }, Acquired::Granted { epoch: pure, .. }) => {
                self.epochs.same(real, pure);
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
                self.epochs.same(real, pure);
                self.compare_left(real_left, pure_left);
            }
            (Acquired::Busy(real), Acquired::Busy(pure))
            | (Acquired::Queued(real), Acquired::Queued(pure)) => self.compare_busy(&real, &pure),
            (Acquired::Late { .. }, Acquired::Late { .. }) => {}
            (Acquired::WrongKind { there: real, .. }, Acquired::WrongKind { there: pure, .. }) => {
                self.epochs.same_meta(&real, &pure);
            }
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
        }
    }

    pub(super) fn compare_together(&mut self, real: &AcquiredAll, pure: &AcquiredAll) {
        match (real, pure) {
            (
                AcquiredAll::All {
                    epochs: real,
                    left: real_left,
                    ..
                },
                AcquiredAll::All {
                    epochs: pure,
                    left: pure_left,
                    ..
                },
            ) => {
                assert_eq!(real.len(), pure.len());
                for (real, pure) in real.iter().zip(pure) {
                    self.epochs.same(*real, *pure);
                }
                assert_eq!(real_left.is_some(), pure_left.is_some());
                if let (Some(real), Some(pure)) = (real_left, pure_left) {
                    self.compare_left(*real, *pure);
                }
            }
            (
                AcquiredAll::Not { at: real, busy },
                AcquiredAll::Not {
                    at: pure,
                    busy: expected,
                },
            ) => {
                assert_eq!(real, pure, "who is in the way");
                if expected.value != A_LIST {
                    self.compare_busy(busy, expected);
                }
            }
            (AcquiredAll::Late { .. }, AcquiredAll::Late { .. }) => {}
            (real, pure) => panic!("together: {real:?} is not like {pure:?}"),
        }
    }

    pub(super) fn compare_polled(&mut self, real: Polled, pure: Polled) {
        match (real, pure) {
            (
                Polled::Yours {
                    epoch: real,
                    left: real_left,
                    ..
                },
                Polled::Yours {
                    epoch: pure,
                    left: pure_left,
                    ..
                },
            ) => {
                self.epochs.same(real, pure);
                self.compare_left(real_left, pure_left);
            }
            (Polled::Queued(real), Polled::Queued(pure)) => self.compare_busy(&real, &pure),
            (Polled::Gone { .. }, Polled::Gone { .. }) => {}
            (real, pure) => panic!("poll: {real:?} is not like {pure:?}"),
        }
    }

    fn compare_busy(&self, real: &Busy, pure: &Busy) {
        assert_eq!(real.value, pure.value);
        match (real.left, pure.left) {
            (Left::For(real), Left::For(pure)) => self.compare_left(real, pure),
            (real, pure) => assert_eq!(real, pure),
        }
    }

    fn compare_left(&self, real: Duration, pure: Duration) {
        let least = pure.saturating_sub(self.clockwork.drift() + Duration::from_millis(20));
        let pure = Duration::from_millis(u64::try_from(pure.as_micros().div_ceil(1000)).unwrap());
        assert!(
            real <= pure && real >= least,
            "{real:?} is not like {pure:?}"
        );
    }

    /// Which grants reached which address, in which order.
    pub(super) async fn compare_pushes(&mut self) {
        // Answered after every push so far, in either protocol.
        self.lab.link.ping(CAP).await.unwrap();
        let (real, pure) = (self.lab.heard.take(), std::mem::take(&mut self.wire.pushed));
        assert_eq!(real.len(), pure.len(), "{real:?} is not like {pure:?}");
        for ((real, _), pure) in real.into_iter().zip(pure) {
            assert_eq!(
                (&real.key, &real.value, real.lease),
                (&pure.key, &pure.value, pure.lease)
            );
            if pure.value.starts_with("o|") {
                self.epochs.same(real.epoch, pure.epoch);
            } else {
                self.epochs.rise(real.epoch, pure.epoch);
            }
        }
    }

    /// Compares the value at each key and its end: two operations may answer alike and still leave
    /// different state.
    pub(in super::super) async fn compare_all(&mut self) {
        let (seconds, micros, looks) = self.look().await;
        let now = Duration::from_secs(seconds) + Duration::from_micros(micros);
        for (index, look) in looks.into_iter().enumerate() {
            let key = KEYS[index];
            let (held, left, waiting, alive, ends, members) = look;
            if self.other_type.contains(&index) {
                assert!(matches!(held.as_deref(), Some("a list" | "a foreign set")));
            } else if let Some(meta) = self.pure.meta(key, self.time) {
                self.epochs.same_meta(&held.unwrap_or_default(), &meta);
                let is_live = |it: &&(String, u64)| Duration::from_micros(it.1) > now;
                let live: Vec<_> = members.iter().filter(is_live).collect();
                self.compare_members(&live, now, key);
                // The key's own end is up to 2 ms after its last holder's.
                self.compare_end(left - 2, Some(End::at(self.pure.expires(key))));
            } else {
                let pure = self.pure.read(key, self.time);
                assert_eq!(held, pure, "what stands at {key}");
                let ends = pure.map(|_| End::at(self.pure.expires(key)));
                self.compare_end(left, ends);
            }
            let pure = self.pure.waiting(key, self.time);
            let entries: Vec<&str> = pure.iter().map(|(entry, _)| &**entry).collect();
            assert_eq!(waiting, entries, "who waits for {key}");
            let beating: Vec<_> = pure.iter().filter(|(_, until)| *until > 0).collect();
            assert_eq!(alive.len(), beating.len());
            for (entry, until) in &beating {
                self.compare_heartbeat(alive[&**entry], now, *until);
            }
            let pure = self.pure.queue_ends(key, self.time).map(End::At);
            self.compare_end(ends.0, pure);
            self.compare_end(ends.1, pure.filter(|_| !beating.is_empty()));
        }
    }

    /// The holders of the lock, their order, and their ends.
    fn compare_members(&mut self, real: &[&(String, u64)], now: Duration, key: &str) {
        let pure = self.pure.members(key, self.time);
        let expected: Vec<&str> = pure.iter().map(|it| &*it.0).collect();
        let names: Vec<&str> = real.iter().map(|it| &*it.0).collect();
        assert_eq!(names, expected, "who holds {key}");
        for ((_, real), (_, pure)) in real.iter().zip(&pure) {
            let real = Duration::from_micros(*real).saturating_sub(now);
            self.compare_left(real, Duration::from_micros(pure - self.time));
        }
    }

    async fn look(&self) -> (u64, u64, Vec<Look>) {
        let (keys, mut words) = (every_key(), vec!["EVAL", LOOK]);
        let count = keys.len().to_string();
        words.push(&count);
        words.extend(keys.iter().map(String::as_str));
        self.lab.tell(&words).await
    }

    /// `None`: the key is absent.
    fn compare_end(&self, real: i64, pure: Option<End>) {
        match pure {
            None => assert_eq!(real, -2, "it is gone"),
            Some(End::Never) => assert_eq!(real, -1, "it does not end"),
            Some(End::At(at)) => {
                let real = Duration::from_millis(u64::try_from(real).expect("it ends"));
                self.compare_left(real, Duration::from_micros(at - self.time));
            }
        }
    }

    /// Each by its own clock; a heartbeat may have lapsed.
    fn compare_heartbeat(&self, real: u64, now: Duration, pure: u64) {
        let left = |until: u64, now: Duration| {
            let ahead = Duration::from_secs(100);
            (Duration::from_micros(until) + ahead).saturating_sub(now)
        };
        let pure = left(pure, Duration::from_micros(self.time));
        self.compare_left(left(real, now), pure);
    }
}

/// When a key ends, by the pure machine's clock.
#[derive(Clone, Copy)]
enum End {
    Never,
    At(u64),
}

impl End {
    fn at(expires: Option<u64>) -> Self {
        expires.map_or(End::Never, End::At)
    }
}

/// Value or meta, PTTL, queue, heartbeats, PTTL of both, members of the set.
type Look = (
    Option<String>,
    i64,
    Vec<String>,
    HashMap<String, u64>,
    (i64, i64),
    Vec<(String, u64)>,
);

/// KEYS: the lock, queue and heartbeats of each lock in turn.
const LOOK: &str = "
    local looks = {}
    for i = 1, #KEYS, 3 do
      local lock, W, A = KEYS[i], KEYS[i + 1], KEYS[i + 2]
      local held, members = redis.call('TYPE', lock).ok, {}
      if held == 'zset' then
        local all = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES')
        held = table.concat(all, ' ') == 'long over 1 2|#|rw inf' and 'a foreign set' or all[#all - 1]
        for n = 1, #all - 2, 2 do
          members[#members + 1] = {all[n], all[n + 1]}
        end
      else
        held = held == 'list' and 'a list' or redis.call('GET', lock)
      end
      looks[#looks + 1] = {
        held, redis.call('PTTL', lock),
        redis.call('ZRANGE', W, 0, -1), redis.call('ZRANGE', A, 0, -1, 'WITHSCORES'),
        {redis.call('PTTL', W), redis.call('PTTL', A)}, members,
      }
    end
    local time = redis.call('TIME')
    return {time[1], time[2], looks}";
