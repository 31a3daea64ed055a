//! Fires jobs that run once per period, at times of its own, and writes to a file what it saw.
//!
//! A fire is drawn from the process's slot and the fire's number, so that whoever takes the place of a
//! killed process goes on with the next one.

use std::fs::File;
use std::io::Write as _;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_runtime::{AfterCrash, LockError, LockGuard, LockPool, Refusal, Release};
use dlock_tests::Seeded;
use tokio::time::{sleep, timeout};

use crate::settings::Settings;

/// Longer than any call lasts.
const PATIENCE: u64 = 60_000;

struct Firing<'a> {
    settings: &'a Settings,
    pool: LockPool,
    log: File,
    slot: u64,
}

/// Fires the numbers `from` to `fires`. Of four jobs, half are run again after a crash. Some calls are
/// dropped, some bodies fail, and some processes kill or stop themselves while a body runs or is
/// released.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn fire(settings: &Settings) {
    let firing = Firing {
        settings,
        // Its first connection may be cut, too.
        pool: LockPool::connect(settings.config().lazy()).await.unwrap(),
        log: File::options()
            .append(true)
            .open(settings.text("log"))
            .unwrap(),
        slot: settings.number("slot"),
    };
    for nth in settings.number("from")..settings.number("fires") {
        firing.fire(nth).await;
    }
}

impl Firing<'_> {
    async fn fire(&self, nth: u64) {
        let mut random = Seeded(self.slot * 1_000_000 + nth);
        let mut up_to = |most: u64| Duration::from_millis(random.between(0, most));
        let pause = up_to(self.settings.number("pause_ms"));
        let (wait, takes, signals_after) = (up_to(400), up_to(300), up_to(350));
        let mut patience = up_to(60);
        let mut one_of = |many: u64| random.between(0, many) == 0;
        if !one_of(6) {
            patience = Duration::from_millis(PATIENCE);
        }
        let (waits, fails) = (one_of(2), one_of(6));
        let (is_killed, is_stopped) = (one_of(4), one_of(2));
        let (prefix, after_crash) = if one_of(2) {
            ("again", AfterCrash::Again)
        } else {
            ("skip", AfterCrash::Skip)
        };
        let job = format!("{prefix}:{}", random.between(0, 2));
        let notes = |what: &str, fence: u64| {
            self.note(&job, nth, what, fence, std::process::id(), now());
        };
        let body = async |lock: &LockGuard| {
            let fence = lock.fence().get();
            notes("begins", fence);
            let signals = [(is_killed, "-KILL"), (is_stopped, "-STOP")];
            if let Some((_, signal)) = signals.into_iter().find(|(is_sent, _)| *is_sent) {
                thread::spawn(move || signal_after(signals_after, signal));
            }
            sleep(takes).await;
            notes(if fails { "fails" } else { "succeeds" }, fence);
            if fails { Err(fence) } else { Ok(fence) }
        };
        let request = self.pool.lock(job.as_str()).after_crash(after_crash);
        let request = request.wait(if waits { wait } else { Duration::ZERO });
        let request = request.once_per(Duration::from_millis(self.settings.number("period_ms")));
        let request = request.ttl(Duration::from_millis(self.settings.number("ttl_ms")));
        sleep(pause).await;
        notes("fires", 0);
        // `Strict`: it says if the record is not certain.
        let call = request.release(Release::Strict).run_once_per(body);
        match timeout(patience, call).await {
            Err(_) => notes("dropped", 0),
            Ok(Ok(Ok(fence))) => notes("recorded", fence),
            Ok(Ok(Err(fence))) => notes("failed", fence),
            Ok(Err(LockError::NotDue { last_run, .. })) => {
                let fence = last_run.fence().unwrap().get();
                let at = micros(last_run.started().unwrap());
                self.note(&job, nth, "told", fence, last_run.pid(), at);
            }
            Ok(Err(LockError::Busy { .. })) => notes("busy", 0),
            Ok(Err(LockError::Lost { .. })) => notes("lost", 0),
            Ok(Err(
                LockError::Unavailable { .. }
                | LockError::Refused {
                    reason: Refusal::Loading,
                    ..
                },
            )) => notes("unavailable", 0),
            Ok(Err(error)) => panic!("{error:?}"),
        }
    }

    /// In one write, so that a line is whole or not there.
    fn note(&self, job: &str, nth: u64, what: &str, fence: u64, pid: u32, at: u64) {
        let line = format!("{job} {} {nth} {what} {fence} {pid} {at}\n", self.slot);
        (&self.log).write_all(line.as_bytes()).unwrap();
    }
}

fn signal_after(pause: Duration, name: &str) {
    thread::sleep(pause);
    let pid = std::process::id().to_string();
    Command::new("kill").args([name, &pid]).status().unwrap();
}

/// The time of this host, as the server's, in µs.
fn now() -> u64 {
    micros(SystemTime::now())
}

fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}
