//! Tasks that repeatedly take one lock, of kinds with many holders; tasks that take two keys; and
//! tasks that wait in a queue.

use std::time::Duration;

use dlock_harness::{Interval, now_ns};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Wait, distributed_lock};
use dlock_tests::{Seeded, of_kind, patient};

use crate::counter::meet;
use crate::settings::Settings;

/// A task, and its name in the output.
struct Task {
    pool: LockPool,
    random: Seeded,
    /// The key; with `apart=1` each task has its own, as if there were no lock.
    key: String,
    who: String,
    ttl: Duration,
    /// With `may_lose=1`, a hold may end as lost, or be unable to reach the servers: they fail.
    may_lose: bool,
}

/// Prints `begins` and an interval at the start of each hold, and the interval at its end; the
/// interval's key says what was held.
#[tokio::main]
pub(crate) async fn take_turns(settings: &Settings) {
    let pool = LockPool::connect(settings.config()).await.unwrap();
    let _redis = meet(settings).await;
    let (rounds, mix) = (settings.number("rounds"), settings.text("mix").to_owned());
    let tasks = (0..settings.number("tasks")).map(|number| {
        let who = format!("process {} task {number}", std::process::id());
        let mut task = Task {
            pool: pool.clone(),
            random: Seeded(settings.number("seed") * 1000 + number),
            key: match settings.number("apart") {
                0 => "item".to_owned(),
                _ => who.replace(' ', "-"),
            },
            who,
            ttl: Duration::from_millis(settings.number("ttl_ms")),
            may_lose: settings.text_or("may_lose", "0") == "1",
        };
        let mix = mix.clone();
        tokio::spawn(async move {
            for _ in 0..rounds {
                task.one_turn(&mix).await;
            }
        })
    });
    for task in futures_util::future::join_all(tasks.collect::<Vec<_>>()).await {
        task.unwrap();
    }
    println!("done");
}

impl Task {
    async fn one_turn(&mut self, mix: &str) {
        match mix {
            "rw" if self.random.between(0, 4) > 0 => self.hold("r").await,
            "rw" => self.write_then_perhaps_read().await,
            "permits" => {
                let take = self.random.between(1, 4);
                self.hold(&format!("p:{take}/5")).await;
            }
            "owners" => {
                let owner = self.random.between(0, 3);
                self.hold(&format!("o:{owner}")).await;
            }
            "keys" => self.hold_several().await,
            other => panic!("no mix {other:?}"),
        }
    }

    fn terms(&self, request: LockRequest) -> LockRequest {
        request.ttl(self.ttl).renew().wait(Wait::Forever)
    }

    async fn hold(&mut self, kind: &str) {
        let request = of_kind(self.terms(self.pool.lock(self.key.as_str())), kind);
        let (pause, who) = (self.pause(), self.who.clone());
        let body = async |lock: &LockGuard| holds(&[(kind, lock)], pause, &who).await;
        self.ended(request.run(body).await);
    }

    fn ended(&self, outcome: Result<(), LockError>) {
        let of_a_failure = |error: &LockError| {
            matches!(
                error,
                LockError::Lost { .. } | LockError::Unavailable { .. }
            )
        };
        match outcome {
            Err(error) if self.may_lose && of_a_failure(&error) => println!("failed {error:?}"),
            outcome => outcome.unwrap(),
        }
    }

    async fn write_then_perhaps_read(&mut self) {
        let (pause, downgrades) = (self.pause(), self.random.between(0, 2) == 0);
        let request = self.terms(self.pool.lock(self.key.as_str())).write();
        let body = async |lock: &LockGuard| {
            holds(&[("w", lock)], pause, &self.who).await;
            if downgrades {
                lock.downgrade().await?;
                holds(&[("r", lock)], pause, &self.who).await;
            }
            Ok(())
        };
        self.ended(request.run(body).await.and_then(|done| done));
    }

    /// Takes some of four keys, in any order; sometimes a single one, to compete with those who
    /// take several.
    async fn hold_several(&mut self) {
        let mut keys: Vec<_> = (0..4).map(|it| format!("{}:{it}", self.key)).collect();
        for last in (1..keys.len()).rev() {
            let with = self.random.between(0, last as u64 + 1);
            keys.swap(last, usize::try_from(with).unwrap());
        }
        let how_many = self.random.between(1, 5);
        keys.truncate(usize::try_from(how_many).unwrap());
        let request = if let [key] = &keys[..] {
            self.pool.lock(key.as_str())
        } else {
            self.pool.lock_all(keys)
        };
        let pause = self.pause();
        let body = async |lock: &LockGuard| {
            let names: Vec<_> = lock
                .parts()
                .map(|part| part.key().as_str().to_owned())
                .collect();
            let parts: Vec<_> = names.iter().map(String::as_str).zip(lock.parts()).collect();
            holds(&parts, pause, &self.who).await;
        };
        self.terms(request).run(body).await.unwrap();
    }

    fn pause(&mut self) -> Duration {
        Duration::from_micros(self.random.between(500, 4000))
    }
}

/// Prints all of these as held at the same time.
async fn holds(what: &[(&str, &LockGuard)], pause: Duration, who: &str) {
    let start_ns = now_ns();
    let interval = |(kind, lock): &(&str, &LockGuard), end_ns| Interval {
        key: (*kind).to_owned(),
        fence: lock.fence().get(),
        start_ns,
        end_ns,
        who: who.to_owned(),
    };
    for it in what {
        println!("begins {}", interval(it, start_ns));
    }
    tokio::time::sleep(pause).await;
    let end_ns = now_ns();
    for it in what {
        println!("{}", interval(it, end_ns));
    }
}

/// Asks `tasks` times for the lock `item`, of this `kind`, a moment apart, and prints `asked`. Each
/// holder prints as above, and keeps the lock for `hold_ms`. An entry's function is its task's
/// number.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn ask(settings: &Settings) {
    let pool = LockPool::connect(patient(&settings.url)).await.unwrap();
    let mut random = Seeded(settings.number("seed"));
    let ttl = Duration::from_millis(settings.number("ttl_ms"));
    let pause = Duration::from_millis(settings.number("hold_ms"));
    let mut tasks = Vec::new();
    for number in 0..settings.number("tasks") {
        let kind = settings.text("kind").to_owned();
        let request = of_kind(pool.lock("item"), &kind);
        let request = request.ttl(ttl).renew().wait(Wait::Forever);
        let request = request.function(number.to_string().leak());
        let who = format!("process {} task {number}", std::process::id());
        let body = async move |lock: &LockGuard| holds(&[(&kind, lock)], pause, &who).await;
        tasks.push(tokio::spawn(async move { request.run(body).await }));
        tokio::time::sleep(Duration::from_millis(random.between(1, 8))).await;
    }
    println!("asked");
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    println!("done");
}

#[distributed_lock(keys = ["account:<from>", "account:<to>"], ttl = "10s", wait = "1m", renew, guard = lock)]
async fn transfer(from: u64, to: u64, who: &str) -> Result<(), LockError> {
    let parts: Vec<_> = lock.parts().collect();
    let held = [("account:0", parts[0]), ("account:1", parts[1])];
    holds(&held, Duration::from_millis(2), who).await;
    Ok(())
}

/// Takes both keys again and again, always in this process's `order`; prints as above, for each
/// key.
#[tokio::main]
pub(crate) async fn both(settings: &Settings) {
    let pool = dlock_runtime::init(patient(&settings.url)).await.unwrap();
    pool.ping().await.unwrap();
    let _redis = meet(settings).await;
    let (order, rounds) = (settings.number("order"), settings.number("rounds"));
    let tasks = (0..settings.number("tasks")).map(|task| async move {
        let who = format!("process {} task {task}", std::process::id());
        for _ in 0..rounds {
            transfer(order, 1 - order, &who).await.unwrap();
        }
    });
    futures_util::future::join_all(tasks).await;
    println!("done");
}
