//! Twenty instances of a service fire a daily job for a month, each by a clock that is some minutes
//! off. Each day one of them runs it.
//!
//! An instance that fires while another one runs the job waits for it: if that run fails, the next
//! instance runs the job; if it succeeds, the run is recorded beside the lock, and all others are told
//! that the job is not due. The month passes in a moment, on tokio's paused clock:
//! `cargo run --example nightly`.

use std::error::Error;
use std::time::Duration;

use dlock_runtime::{LockError, LockPool};
use tokio::time::{Instant, sleep, sleep_until};

const INSTANCES: u64 = 20;
const DAYS: u64 = 30;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Seconds: each clock is up to this much ahead, and each day fires up to this much late.
const SKEW: u64 = 4 * MINUTE;

/// A day less what two starts may differ by, and far more than all instances need to fire. With `DAY`,
/// a day whose first instance fires earlier than the day before would be left out.
const PERIOD: Duration = Duration::from_secs(20 * HOUR);

/// What became of one call.
enum Call {
    Ran { began: u64, ended: u64 },
    Failed,
    NotDue,
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = LockPool::connect("memory://").await?;
    let start = Instant::now();
    let fire = |number| tokio::spawn(instance(pool.clone(), number, start));
    let instances: Vec<_> = (1..=INSTANCES).map(fire).collect();
    let mut months = Vec::new();
    for instance in instances {
        months.push(instance.await??.into_iter());
    }

    println!("day  ran by       began     took   failed before  not due");
    let (mut runs, mut last) = (0, None);
    for day in 0..DAYS {
        let (mut ran, mut failed, mut not_due) = (Vec::new(), Vec::new(), 0);
        for (number, month) in (1..).zip(&mut months) {
            match month.next() {
                Some(Call::Ran { began, ended }) => ran.push((number, began, ended)),
                Some(Call::Failed) => failed.push(format!("{number}")),
                Some(Call::NotDue) | None => not_due += 1,
            }
        }
        for (number, began, ended) in ran {
            let (minutes, failed) = ((ended - began) / MINUTE, failed.join(", "));
            println!(
                "{:>3}  instance {number:<2}  {}  {minutes:>2} min  {failed:<13}  {not_due:>7}",
                day + 1,
                clock(began)
            );
            let is_due = last.is_none_or(|last| began >= last + PERIOD.as_secs());
            if began / DAY != day || !is_due {
                return Err(format!("day {}: the wrong time to run", day + 1).into());
            }
            (runs, last) = (runs + 1, Some(began));
        }
    }
    if let Some(last_run) = pool.admin().record("nightly").await? {
        println!("\nthe record: {last_run}");
    }
    println!("{DAYS} days, {runs} runs");
    if runs == DAYS {
        Ok(())
    } else {
        Err("a day without a run, or with two".into())
    }
}

/// Fires the job each day at 03:00 by its own clock.
async fn instance(pool: LockPool, number: u64, start: Instant) -> Result<Vec<Call>, LockError> {
    let mut chance = Chance(number);
    let ahead = chance.below(SKEW);
    let mut calls = Vec::new();
    for day in 0..DAYS {
        let at = day * DAY + 3 * HOUR - ahead + chance.below(SKEW);
        sleep_until(start + Duration::from_secs(at)).await;
        let job = pool.lock("nightly").ttl(Duration::from_secs(30)).renew();
        let job = job.wait(Duration::from_secs(HOUR)).once_per(PERIOD);
        let run = job.run_once_per(async |_| {
            let began = start.elapsed().as_secs();
            send_report(&mut chance).await?;
            let ended = start.elapsed().as_secs();
            Ok::<_, &str>(Call::Ran { began, ended })
        });
        calls.push(match run.await {
            Ok(ran) => ran.unwrap_or(Call::Failed),
            Err(error) if error.is_not_due() => Call::NotDue,
            Err(error) => return Err(error),
        });
    }
    Ok(calls)
}

/// Takes some minutes, and fails one time in four.
async fn send_report(chance: &mut Chance) -> Result<(), &'static str> {
    sleep(Duration::from_secs(MINUTE + chance.below(4 * MINUTE))).await;
    match chance.below(4) {
        0 => Err("the mail server refused it"),
        _ => Ok(()),
    }
}

fn clock(at: u64) -> String {
    let (hour, minute, second) = (at % DAY / HOUR, at % HOUR / MINUTE, at % MINUTE);
    format!("{hour:02}:{minute:02}:{second:02}")
}

/// Pseudo-random numbers, the same in each run (`SplitMix64`, Steele 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }
}
