//! Whether two answers are alike, and whether the two servers are afterwards.

use std::time::Duration;

use super::{Pair, keys};
use crate::backend::Link;
use crate::backend::redis::tests::alike::KEYS;
use crate::backend::redis::tests::lab::CAP;
use crate::policy::commands::{Acquired, Busy, Left, Polled};

impl Pair<'_> {
    pub(super) fn compare_acquired(&mut self, real: Acquired, pure: Acquired) {
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
            (Acquired::Busy(real), Acquired::Busy(pure))
            | (Acquired::Queued(real), Acquired::Queued(pure)) => self.compare_busy(&real, &pure),
            (Acquired::Late { .. }, Acquired::Late { .. }) => {}
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
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
                self.epochs_rise(real, pure);
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

    fn epochs_rise(&mut self, real: u64, pure: u64) {
        assert!(real > self.epochs.0 && pure > self.epochs.1);
        self.epochs = (real, pure);
    }

    fn compare_left(&self, real: Duration, pure: Duration) {
        let least = pure.saturating_sub(self.clockwork.drift() + Duration::from_millis(20));
        assert!(
            real <= pure + self.clockwork.slack() && real >= least,
            "{real:?} is not like {pure:?}"
        );
    }

    /// Which grants reached whom, in which order.
    pub(super) async fn compare_pushes(&mut self) {
        self.lab.link.ping(CAP).await.unwrap(); // behind every push so far, whichever version
        let (real, pure) = (self.lab.heard.take(), std::mem::take(&mut self.wire.pushed));
        assert_eq!(real.len(), pure.len(), "{real:?} is not like {pure:?}");
        for ((real, _), pure) in real.into_iter().zip(pure) {
            assert_eq!(
                (&real.key, &real.value, real.lease),
                (&pure.key, &pure.value, pure.lease)
            );
            self.epochs_rise(real.epoch, pure.epoch);
        }
    }

    /// What stands at each key, and for how long: an operation may answer alike and still leave something else behind.
    pub(in super::super) async fn compare_all(&mut self) {
        for (index, key) in KEYS.into_iter().enumerate() {
            if self.other_type.contains(&index) {
                let kind: String = self.lab.tell(&["TYPE", key]).await;
                assert_eq!(kind, "list");
            } else {
                let real: Option<String> = self.lab.tell(&["GET", key]).await;
                assert_eq!(real, self.pure.read(key, self.time), "what stands at {key}");
                let expected = real.is_some().then(|| self.pure.expires(key));
                self.compare_end(key, expected).await;
            }
            self.compare_queue(key).await;
        }
    }

    /// `None`: nothing is there; `Some(None)`: it does not end.
    async fn compare_end(&self, key: &str, expected: Option<Option<u64>>) {
        let real = self.lab.tell::<i64>(&["PTTL", key]).await;
        match expected {
            None => assert_eq!(real, -2, "{key}"),
            Some(None) => assert_eq!(real, -1, "{key}"),
            Some(Some(at)) => {
                let real = Duration::from_millis(u64::try_from(real).expect(key));
                self.compare_left(real, Duration::from_micros(at - self.time));
            }
        }
    }

    async fn compare_queue(&mut self, key: &str) {
        let [_, waiting, alive] = keys(key);
        let pure = self.pure.waiting(key, self.time);
        let entries: Vec<&str> = pure.iter().map(|(entry, _)| &**entry).collect();
        let real: Vec<String> = self.lab.tell(&["ZRANGE", &waiting, "0", "-1"]).await;
        assert_eq!(real, entries, "who waits for {key}");
        let beating: i64 = self.lab.tell(&["ZCARD", &alive]).await;
        assert_eq!(usize::try_from(beating).unwrap(), entries.len());
        let now = self.server_time().await;
        for (entry, until) in &pure {
            let real: f64 = self.lab.tell(&["ZSCORE", &alive, entry]).await;
            let ahead = Duration::from_secs(100); // heartbeats may have lapsed
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let real = Duration::from_micros(real as u64) + ahead;
            let pure = Duration::from_micros(*until) + ahead;
            self.compare_left(
                real.saturating_sub(now),
                pure.saturating_sub(Duration::from_micros(self.time)),
            );
        }
        let ends = self.pure.queue_ends(key, self.time);
        for key in [&waiting, &alive] {
            self.compare_end(key, ends.map(Some)).await;
        }
    }

    async fn server_time(&self) -> Duration {
        let (seconds, micros): (u64, u64) = self.lab.tell(&["TIME"]).await;
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    }
}
