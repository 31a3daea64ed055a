//! How leases end, and how renewals keep them: holds of each kind, of which some are renewed and
//! some end by themselves, and who comes after those.
//!
//! A row says who lives (renewed for three leases), whose lease ends (unrenewed; `@`: the ttl in
//! milliseconds), who waits for what those held, who is let in beside all of them, and who is not
//! until they are released. `>w` is a writer that is downgraded. Numbers are issues of
//! Redisson about that.

use std::time::Duration;

use dlock_runtime::{LockGuard, LockPool, LockRequest, Released};
use dlock_tests::of_kind;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::backends::{LONG, given_back, ms, settled, soon};

on_every_backend!(
    exclusive_leases;
    scripts:
    leases_of_permits_and_of_fair_locks;
    many_holders:
    leases_of_readers_writers_and_owners,
);

/// The shortest lease of those who live: in time even if the machine stalls for 2 s.
const RENEWED: Duration = ms(4_000);
const DOWNGRADED: char = '>';

/// The columns: name | who lives | whose lease ends | who comes next | who is let in | who is not.
const EXCLUSIVE: &str = "
    renewed | x@4000 | | | | x
    one waits | | x@300 | x | | x
    over already | | x@50 | x | | x";

const PERMITS: &str = "
    renewed | p:3/4@4000 | | | p:1/4 | p:2/4 p:4/4
    renewed, fair | fair@4000 | | | | fair x
    over already, all | | p:2/2@100 | p:2/2 | | p:1/2
    over, fair | | fair@100 | fair | | fair x
    one of two | p:1/2@60000 | p:1/2@600 | p:1/2 | | p:1/2
    4462, a dead holder's | p:1/3@4000 | p:2/3@600 | p:2/3 | | p:1/3
    7334, released late | | p:1/2@200 p:1/2@200 | p:1/2 | p:1/2 | p:2/2
    7334, never three | | p:1/2@200 p:1/2@200 | p:1/2 p:1/2 | | p:1/2";

const SHARED: &str = "
    1604 | r@4000 r@4600 | | | r | w
    4217 | >w@4000 | | | r | w
    renewed, a writer | w@4000 | | | | r w
    renewed, an owner | o:a@4000 | | | o:a | o:b
    over already, a reader | | r@100 | w | | r w
    over already, a writer | | w@100 | w | | r w
    over already, an owner | | o:a@100 | o:b | | o:a
    the longest counts | | r@700 r@1500 | w | | r w
    1458 | | r@300 r@1000 r@600 r@200 | w | | r w
    2144 | r@60000 | r@200 r@300 | | r | w
    7098 | r@4000 | r@600 | | r | w
    an entry of an owner's | o:a@4000 o:a@60000 | o:a@500 | | o:a | o:b";

async fn exclusive_leases(pool: LockPool) {
    each(&pool, EXCLUSIVE).await;
}

async fn leases_of_permits_and_of_fair_locks(pool: LockPool) {
    each(&pool, PERMITS).await;
}

async fn leases_of_readers_writers_and_owners(pool: LockPool) {
    each(&pool, SHARED).await;
}

/// What becomes of a guard whose lease has ended.
#[derive(Debug, Clone, Copy)]
enum Late {
    Released,
    Dropped,
    /// Its holder has died.
    Never,
}

/// All rows at the same time, each three times, on keys of their own; and once more.
async fn each(pool: &LockPool, rows: &str) {
    let lates = [Late::Released, Late::Dropped, Late::Never];
    for waits in [true, false] {
        let rows = rows.lines().filter(|row| !row.trim().is_empty());
        let all = rows.flat_map(|row| lates.map(|late| Holds::of(pool, row, late, waits)));
        join_all(all.map(Holds::go)).await;
    }
}

/// A row at one key.
struct Holds<'a> {
    pool: &'a LockPool,
    key: String,
    late: Late,
    /// Who comes next, before the leases have ended.
    waits: bool,
    columns: [Vec<&'a str>; 5],
}

impl<'a> Holds<'a> {
    fn of(pool: &'a LockPool, row: &'a str, late: Late, waits: bool) -> Self {
        let mut columns = row.split('|');
        let key = format!("{} {late:?} {waits}", columns.next().unwrap().trim());
        let columns: Vec<_> = columns.map(|it| it.split_whitespace().collect()).collect();
        Self {
            pool,
            key,
            late,
            waits,
            columns: columns.try_into().unwrap(),
        }
    }

    async fn go(self) {
        let [lives, ends, next, _, _] = &self.columns;
        let begun = Instant::now();
        let mut held = self.acquire(lives).await;
        let over = self.acquire(ends).await;
        let longest = ends.iter().map(|hold| ttl(hold)).max().unwrap_or_default();
        // The holder's part of the lease; the rest is for clocks that differ, and for timers.
        let earliest = (longest * 99 / 100).saturating_sub(ms(2));
        let all_over = async || !over.iter().any(LockGuard::is_held);
        if !self.waits {
            soon("over", all_over).await;
        }
        for kind in next {
            let early = self.is_free(kind).await;
            assert!(!early || begun.elapsed() >= earliest, "{}", self.key);
        }
        let next = self.acquire(next).await;
        let took = begun.elapsed();
        assert!(
            next.is_empty() || took >= earliest,
            "{}: {took:?}",
            self.key
        );
        assert!(took < LONG / 3, "{}: {took:?}", self.key);
        soon("over", all_over).await;
        for (over, next) in over.iter().zip(&next) {
            assert!(next.fence() > over.fence(), "{}", self.key);
        }
        held.extend(next);
        self.are_held(&held).await;
        for guard in over {
            match self.late {
                Late::Released => assert_eq!(guard.release().await.unwrap(), Released::NotHeld),
                Late::Dropped => drop(guard),
                Late::Never => std::mem::forget(guard),
            }
        }
        settled(self.pool).await;
        self.are_held(&held).await;
        if !lives.is_empty() {
            tokio::time::sleep(RENEWED * 3).await;
            self.are_held(&held).await;
        }
        self.free(held).await;
    }

    async fn acquire(&self, holds: &[&str]) -> Vec<LockGuard> {
        let mut guards = Vec::new();
        for hold in holds {
            let request = match (self.columns[0].contains(hold), self.late) {
                (false, _) => self.request(hold),
                (true, Late::Never) if ["x@4000", "o:a@60000"].contains(hold) => {
                    self.request(hold).renew_every(ms(150))
                }
                (true, _) => self.request(hold).renew(),
            };
            let guard = request.acquire().await.unwrap();
            if hold.starts_with(DOWNGRADED) {
                guard.downgrade().await.unwrap();
            }
            guards.push(guard);
        }
        guards
    }

    fn request(&self, hold: &str) -> LockRequest {
        let kind = hold.trim_start_matches(DOWNGRADED).split('@').next();
        let request = self.pool.lock(&self.key).wait(LONG).ttl(ttl(hold));
        of_kind(request, kind.unwrap())
    }

    /// At the server too, and nobody else is let in but those who may be.
    async fn are_held(&self, held: &[LockGuard]) {
        for guard in held {
            assert!(guard.is_held(), "{}", self.key);
            guard.verify().await.unwrap();
        }
        for kind in &self.columns[3] {
            assert!(self.is_free(kind).await, "no {kind} beside {}", self.key);
        }
        for kind in &self.columns[4] {
            assert!(!self.is_free(kind).await, "{kind} beside {}", self.key);
        }
    }

    async fn is_free(&self, kind: &str) -> bool {
        given_back(self.request(kind).try_acquire().await.unwrap()).await
    }

    /// Releases all, and nothing of those that are over is left.
    async fn free(&self, held: Vec<LockGuard>) {
        assert!(self.pool.holder(&*self.key).await.unwrap().is_some());
        let mut last = None;
        for guard in held {
            last = Some(guard.release().await.unwrap());
        }
        assert_eq!(last, Some(Released::Freed), "{}", self.key);
        assert_eq!(self.pool.holder(&*self.key).await.unwrap(), None);
        for kind in &self.columns[4] {
            assert!(self.is_free(kind).await, "{kind} after {}", self.key);
        }
    }
}

/// The time behind the `@`.
fn ttl(hold: &str) -> Duration {
    let millis = hold.split_once('@').map(|(_, millis)| millis.parse());
    millis.map_or(LONG, |it| ms(it.unwrap()))
}
