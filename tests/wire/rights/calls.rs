//! Everything that a lock does, each call by itself, while a right is missing.

use std::time::{Duration, Instant};

use dlock_harness::{until, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Released, Wait};
use dlock_tests::of_kind;
use futures_util::future::try_join_all;
use tokio::time::timeout;

use super::{Missing, is_counter};
use crate::user::{CAP, Lab, wait_for};

/// How long a caller waits who doesn't get the lock: several polls.
const WAIT: Duration = Duration::from_millis(300);

/// How soon the next one has a lock that is handed over.
const SOON: Duration = Duration::from_secs(2);

/// Two pools of the user, and a kind of lock.
pub(super) struct Calls<'a> {
    lab: &'a Lab,
    kind: &'a str,
    /// One that no test waits out.
    lease: Duration,
    one: LockPool,
    two: LockPool,
    errors: Vec<LockError>,
}

impl<'a> Calls<'a> {
    pub(super) async fn of(lab: &'a Lab, kind: &'a str, lease: Duration) -> Self {
        Self {
            lab,
            kind,
            lease,
            one: lab.pool().await.unwrap(),
            two: lab.pool().await.unwrap(),
            errors: Vec::new(),
        }
    }

    /// The errors of all calls, the first of which are made before the right is missing.
    pub(super) async fn without(mut self, missing: &Missing<'_>) -> Vec<LockError> {
        let [lease, short] = missing.column.leases;
        let held = self.take(self.lock("k")).await;
        // Nobody waits for it, so that its release deletes it.
        let alone = self.take(self.lock("alone")).await;
        let kept = self.take(self.lock("kept").min_hold(lease)).await;
        let renewed = self.lock("renewed").ttl(short).renew_every(short / 20);
        let renewed = self.take(renewed).await;
        let given = self.take(self.lock("given")).await;
        let next = wait_for(self.other("given"));
        self.lab.queued("given").await;
        // So that the texts have to be sent.
        self.lab.each(&["SCRIPT", "FLUSH"]).await;
        missing.is_taken(self.lab).await;

        let late = self.look().await;
        self.ask().await;
        let extended = held.extend(lease).await;
        self.errors.extend(extended.and(held.verify().await).err());
        if missing.works() {
            let for_long = match missing.right {
                "" if lease > short * 5 => short * 5 / 4,
                _ => Duration::ZERO,
            };
            self.lasts(for_long, &late.unwrap(), &renewed).await;
        }
        let fence = given.fence();
        let begun = Instant::now();
        for guard in [held, alone, kept, renewed, given] {
            self.errors.extend(guard.release().await.err());
        }
        if !missing.works() {
            missing.is_given_back(self.lab).await;
        }
        match timeout(CAP, next).await.unwrap().unwrap() {
            Err(error) => self.errors.push(error),
            Ok(guard) => {
                let took = begun.elapsed();
                assert!(!missing.works() || took < wait::scaled(SOON), "{took:?}");
                assert!(guard.fence() > fence);
                let _ = guard.release().await;
            }
        }
        if missing.works() {
            let kept = self.other("kept").try_acquire().await;
            assert!(kept.unwrap().is_none());
            let several = self.several().await;
            self.errors.extend(several.err());
            missing.is_given_back(self.lab).await;
            self.left_is_kept().await;
        }
        self.errors
    }

    fn lock(&self, key: &str) -> LockRequest {
        of_kind(self.one.lock(key).ttl(self.lease), self.kind)
    }

    /// One that does not fit beside it.
    fn other(&self, key: &str) -> LockRequest {
        let kind = match self.kind {
            "r" => "w",
            "o:a" => "o:b",
            kind => kind,
        };
        of_kind(self.two.lock(key).ttl(self.lease), kind)
    }

    async fn take(&self, request: LockRequest) -> LockGuard {
        request.acquire().await.unwrap()
    }

    /// Returns a pool that connects without the right, if one can.
    async fn look(&mut self) -> Option<LockPool> {
        self.errors.extend(self.one.ping().await.err());
        match self.two.holder("k").await {
            Ok(holder) => assert!(holder.is_some()),
            Err(error) => self.errors.push(error),
        }
        let late = self.lab.pool().await;
        late.map_err(|error| self.errors.push(error)).ok()
    }

    /// Asks for a lock that is free, which is dropped, and for one that is held: once, for some
    /// time, and until the caller goes.
    async fn ask(&mut self) {
        self.errors
            .extend(self.lock("free").try_acquire().await.err());
        match self.other("k").try_acquire().await {
            Ok(taken) => assert!(taken.is_none()),
            Err(error) => self.errors.push(error),
        }
        match self.other("k").wait(WAIT).acquire().await {
            Ok(taken) => panic!("{taken:?}"),
            Err(LockError::Busy { .. }) => {}
            Err(error) => self.errors.push(error),
        }
        let waits = self.other("k").wait(Wait::Forever).acquire();
        if let Ok(taken) = timeout(WAIT, waits).await {
            self.errors.push(taken.unwrap_err());
        }
    }

    /// Another lock is taken and released by each pool, again and again, while one is renewed.
    async fn lasts(&self, for_long: Duration, late: &LockPool, renewed: &LockGuard) {
        let begun = Instant::now();
        let mut fence = None;
        loop {
            for pool in [&self.one, &self.two, late] {
                let taken = of_kind(pool.lock("other"), self.kind).wait(Duration::ZERO);
                let taken = self.take(taken).await;
                assert!(Some(taken.fence()) > fence);
                fence = Some(taken.fence());
                assert_eq!(taken.release().await.unwrap(), Released::Freed);
            }
            renewed.verify().await.unwrap();
            if begun.elapsed() >= for_long {
                return;
            }
            wait::pause(Duration::from_millis(100)).await;
        }
    }

    /// Several locks at once, entries or keys, where there are such.
    async fn several(&self) -> Result<(), LockError> {
        match self.kind {
            "x" | "r" if self.lab.has_scripts() => {
                keys(&self.one).await?;
                many_at_once(&self.one).await?;
                many_wait(&self.one).await?;
            }
            "o:a" => {
                let entry = |pool: &LockPool| of_kind(pool.lock("entries"), "o:a").acquire();
                let (first, second) = (entry(&self.one).await?, entry(&self.two).await?);
                assert_eq!(second.release().await?, Released::StillHeld(1));
                first.release().await?;
            }
            "w" => {
                let writer = self.one.lock("rw").write().acquire().await?;
                let reader = wait_for(self.two.lock("rw").read());
                self.lab.queued("rw").await;
                writer.downgrade().await?;
                reader.await.unwrap()?.release().await?;
                writer.release().await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Nothing stays but counters and what is kept.
    async fn left_is_kept(&self) {
        let may_stay = |key: &String| key == "lock:kept" || is_counter(key);
        until("nothing else is left", CAP, async || {
            self.lab.keys().await.iter().all(may_stay)
        })
        .await;
    }
}

/// First all are free and taken in one command; then one is held, so that they are taken one after
/// the other.
async fn keys(pool: &LockPool) -> Result<(), LockError> {
    let both = || pool.lock_all(["{s}:a", "{s}:b"]);
    both().acquire().await?.release().await?;
    let held = pool.lock("{s}:b").acquire().await?;
    assert!(both().try_acquire().await?.is_none());
    held.release().await?;
    both().read().acquire().await?.release().await?;
    Ok(())
}

/// More locks than are sent one by one: the rest is acquired in one command, and released in one.
async fn many_at_once(pool: &LockPool) -> Result<(), LockError> {
    let guards = try_join_all((0..24).map(|it| pool.lock(format!("many:{it}")).acquire())).await?;
    try_join_all(guards.into_iter().map(LockGuard::release)).await?;
    Ok(())
}

/// Enough waiters that their heartbeats are batched; when each has sent some, they get the lock.
async fn many_wait(pool: &LockPool) -> Result<(), LockError> {
    let held = pool.lock("many").write().acquire().await?;
    let waiters: Vec<_> = (0..20)
        .map(|_| wait_for(pool.lock("many").read()))
        .collect();
    wait::pause(Duration::from_millis(300)).await; // six polls
    held.release().await?;
    for waiter in waiters {
        waiter.await.unwrap()?.release().await?;
    }
    Ok(())
}
