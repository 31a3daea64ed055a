//! A storm of jobs that run once per period: twenty processes fire them at times of their own, calls
//! are dropped, bodies fail, processes are killed while they run, connections are cut, locks deleted.
//!
//! The processes write to one file what began, what succeeded, and which run they were told of. A run's
//! start is the server's time at its grant, which is in its fence.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, Trigger, all_cases};
use dlock_tests::{Seeded, locks};
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use crate::fleet::worker;

const PROCESSES: u64 = 20;
const PERIOD: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_millis(1_500);

/// Of a waiter that was granted the lock and is dead.
const CLAIM: Duration = Duration::from_secs(3);

/// For a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// The fence of a grant is its server's time in µs and ten bits; it may be a few µs later if several
/// are drawn at once.
const DRAWN_TOGETHER: u64 = 1_000;

/// Takes the locks of all jobs from their holders.
const DELETE: &str = "DEL lock:again:0 lock:again:1 lock:skip:0 lock:skip:1";

/// The whole storm, with all cases, on a busy machine.
const CAP: Duration = Duration::from_secs(1_800);

/// A fire of a process, and what became of it.
#[derive(Debug)]
struct Line {
    job: String,
    slot: u64,
    nth: u64,
    what: String,
    fence: u64,
    pid: u32,
    at: u64,
}

/// How far a run came, as its process says.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Its process was killed, its call dropped, or its lock lost.
    Begun,
    Failed,
    /// Whether it is recorded is unclear.
    Succeeded,
    Recorded,
}

#[derive(Debug)]
struct Run {
    start: u64,
    pid: u32,
    stage: Stage,
}

#[derive(Default)]
struct Job<'a> {
    /// By their fences.
    runs: BTreeMap<u64, Run>,
    /// Who was told of which run, and when that call began.
    told: Vec<(u64, &'a Line)>,
}

fn lines(log: &Path) -> Vec<Line> {
    let text = fs::read_to_string(log).unwrap();
    let line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let number = |nth: usize| words[nth].parse().unwrap();
        Line {
            job: words[0].to_owned(),
            slot: number(1),
            nth: number(2),
            what: words[3].to_owned(),
            fence: number(4),
            pid: words[5].parse().unwrap(),
            at: number(6),
        }
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]); // the last one may be under way
    whole.lines().map(line).collect()
}

/// One process after the other, until all are fired. Returns how many were killed.
async fn all_are_fired(url: &str, log: &Path, slot: u64, fires: u64) -> u64 {
    for killed in 0.. {
        let so_far = lines(log).into_iter().filter(|it| it.slot == slot);
        let next = so_far.map(|it| it.nth + 1).max().unwrap_or(0);
        let numbers = [
            ("slot", slot),
            ("from", next),
            ("fires", fires),
            ("pause_ms", if all_cases() { 600 } else { 1_200 }),
            ("period_ms", u64::try_from(PERIOD.as_millis()).unwrap()),
            ("ttl_ms", u64::try_from(TTL.as_millis()).unwrap()),
        ];
        let mut words = vec!["once_per".to_owned(), url.to_owned()];
        words.extend(numbers.map(|(name, number)| format!("{name}={number}")));
        words.push(format!("log={}", log.display()));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let status = worker(&words).wait(CAP).await;
        if status.success() {
            return killed;
        }
        assert_eq!(status.signal(), Some(9), "{status}");
    }
    unreachable!()
}

/// Cuts connections, whatever they carry, or around a script, such as the one that ends a run; or
/// deletes the locks. Returns how many cuts there were.
async fn disturb(proxy: &Proxy, server: &RedisServer, is_over: &Cell<bool>) -> u64 {
    let (mut random, mut cuts, mut triggers) = (Seeded(47), 0, Vec::new());
    while !is_over.get() {
        tokio::time::sleep(Duration::from_millis(random.between(50, 350))).await;
        let any = Matcher::script().nth(random.between(1, 10));
        let (matcher, action) = match random.between(0, 7) {
            0 => (any, Action::CutBefore),
            1 => (any, Action::CutAfter),
            2 => (Matcher::script().containing(":done"), Action::CutAfter),
            3 => {
                proxy.cut_all();
                cuts += 1;
                continue;
            }
            _ => {
                server.cmd(&DELETE.split(' ').collect::<Vec<_>>()).await;
                continue;
            }
        };
        triggers.push(proxy.on(matcher, action));
    }
    cuts + triggers.iter().map(Trigger::fired).sum::<u64>()
}

#[tokio::test]
async fn of_jobs_that_twenty_processes_fire_each_runs_once_per_period() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    fs::write(&log, "").unwrap();
    let fires = if all_cases() { 10_000 } else { 300 } / PROCESSES;
    let begun = std::time::Instant::now();
    let url = proxy.url();
    let slots = (0..PROCESSES).map(|slot| all_are_fired(&url, &log, slot, fires));
    let is_over = Cell::new(false);
    let firing = join_all(slots).inspect(|_| is_over.set(true));
    let (killed, cuts) = tokio::join!(firing, disturb(&proxy, &server, &is_over));
    let killed: u64 = killed.into_iter().sum();
    let took = begun.elapsed();

    let lines = lines(&log);
    let many = |what: &str| lines.iter().filter(|it| it.what == what).count();
    assert_eq!(many("fires") as u64, PROCESSES * fires);
    let mut again = 0;
    for (name, job) in jobs(&lines) {
        again += check(name, &job);
    }
    println!("{took:?}: {killed} killed, {cuts} cuts, {again} times again within a period");
    for what in "fires begins recorded failed dropped told busy lost unavailable".split(' ') {
        println!("{what}: {}", many(what));
    }
    let is_storm = killed > 0 && cuts > 0 && many("dropped") + many("failed") > 0;
    assert!(is_storm && many("told") > 0, "it proves nothing");
    assert!(many("recorded") > 2, "few succeed");
    // Each record ends with its period.
    locks::until_none(&server, CLAIM + TTL + SLACK).await;
}

fn jobs(lines: &[Line]) -> BTreeMap<&str, Job<'_>> {
    let mut jobs = BTreeMap::<&str, Job<'_>>::new();
    let mut fired = BTreeMap::new();
    for line in lines {
        let job = jobs.entry(&line.job).or_default();
        let stage = match line.what.as_str() {
            "begins" => Stage::Begun,
            "fails" => Stage::Failed,
            "succeeds" => Stage::Succeeded,
            "recorded" => Stage::Recorded,
            "fires" => {
                fired.insert(line.slot, line.at);
                continue;
            }
            "told" => {
                job.told.push((fired[&line.slot], line));
                continue;
            }
            _ => continue,
        };
        let new = Run {
            start: line.fence >> 10,
            pid: line.pid,
            stage,
        };
        let run = job.runs.entry(line.fence).or_insert(new);
        assert_eq!(run.pid, line.pid, "a fence was given twice");
        let within = fired[&line.slot]..=line.at + DRAWN_TOGETHER;
        assert!(within.contains(&run.start), "{line:?}, not in {within:?}");
        run.stage = stage;
    }
    jobs
}

/// Returns how many runs began within the period of one that may have succeeded.
fn check(name: &str, Job { runs, told }: &Job<'_>) -> u64 {
    let is_at_most_once = name.starts_with("skip");
    let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap();
    let (mut counts, mut before, mut again) = (None::<&Run>, None::<&Run>, 0);
    for run in runs.values() {
        let since = |it: &Run| run.start - it.start;
        if let Some(counts) = counts {
            let is_due = since(counts) + DRAWN_TOGETHER >= micros(PERIOD);
            assert!(is_due, "{name} is not due: {counts:?}, then {run:?}");
        }
        if let Some(before) = before {
            let is_stuck = since(before) > micros(PERIOD + TTL + CLAIM + SLACK);
            assert!(!is_stuck, "{name} is stuck: {before:?}, then {run:?}");
            again += u64::from(
                since(before) + DRAWN_TOGETHER < micros(PERIOD) && before.stage != Stage::Failed,
            );
        }
        let may_not_be_repeated = match run.stage {
            Stage::Recorded => true,
            Stage::Failed => false,
            Stage::Begun | Stage::Succeeded => is_at_most_once,
        };
        counts = may_not_be_repeated.then_some(run).or(counts);
        before = Some(run);
    }
    for (asked, line) in told {
        let Some(run) = runs.get(&line.fence) else {
            // It is recorded before its body, which then did not begin: its call was dropped or cut.
            assert!(
                is_at_most_once,
                "{name}: {line:?} of a run that did not begin"
            );
            continue;
        };
        let is_right = run.pid == line.pid && run.start.abs_diff(line.at) <= DRAWN_TOGETHER;
        let succeeded = matches!(run.stage, Stage::Succeeded | Stage::Recorded);
        // No later run can have been granted beside its record, or be recorded over.
        let (_, newer) = runs
            .range(..(asked - DRAWN_TOGETHER) << 10)
            .next_back()
            .unwrap_or((&0, run));
        assert!(
            newer.start <= run.start,
            "{name}, asked at {asked}: {line:?} beside {newer:?}"
        );
        let counts = *asked <= line.at + micros(PERIOD) && (succeeded || is_at_most_once);
        assert!(
            is_right && counts,
            "{name}, asked at {asked}: {line:?} of {run:?}"
        );
    }
    again
}
