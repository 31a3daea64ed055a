//! A storm of jobs that run once per period: twenty processes fire them at times of their own, calls
//! are dropped, bodies fail, processes are killed or stopped while they run, connections are cut, locks
//! deleted, servers lost.
//!
//! The processes write to one file what began, what succeeded, and which run they were told of. A run's
//! start is the server's time at its grant, which is in its fence. A new master may lack what the old one
//! did while its replicas heard nothing: that alone explains a run too many, or beside another.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use dlock_harness::{Action, Child, Matcher, Proxy, Trigger, all_cases};
use dlock_tests::Seeded;
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use crate::fleet::worker;
use crate::ground::{Ground, Loss, TTL, now};

const PROCESSES: u64 = 20;
const PERIOD: Duration = Duration::from_secs(1);

/// How long a process is stopped, at least: its lock ends meanwhile.
const STOPPED: Duration = Duration::from_millis(1_800);

/// How often a server is lost; the first one soon.
const LOSSES: Duration = Duration::from_secs(15);
const FIRST_LOSS: Duration = Duration::from_secs(2);

/// How often all connections are cut, the first time too: before a server is lost, which may last.
const CUTS: Duration = Duration::from_secs(1);

/// Of a waiter that was granted the lock and is dead.
const CLAIM: Duration = Duration::from_secs(3);

/// For a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// The fence of a grant is its server's time in µs and ten bits; it may be a few µs later if several
/// are drawn at once.
const DRAWN_TOGETHER: u64 = 1_000;

const LOCKS: [&str; 4] = ["lock:again:0", "lock:again:1", "lock:skip:0", "lock:skip:1"];

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
    /// Its process was killed, or stopped for longer than its lease, its call dropped, or its lock lost.
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
    /// When its body ended.
    ended: u64,
    /// When its record was written, each time.
    recorded: Vec<RangeInclusive<u64>>,
}

/// While a process was stopped, for longer than any lease.
struct Stop {
    pid: u32,
    time: RangeInclusive<u64>,
}

#[derive(Default)]
struct Job<'a> {
    /// By their fences.
    runs: BTreeMap<u64, Run>,
    /// Who was told of which run, and when that call began.
    told: Vec<(u64, &'a Line)>,
    /// When each call began that did not get the lock, and was not told why.
    in_vain: Vec<u64>,
}

impl Line {
    fn is_at_most_once(&self) -> bool {
        self.job.starts_with("skip")
    }
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
async fn all_are_fired(
    url: &str,
    log: &Path,
    stops: &RefCell<Vec<Stop>>,
    (slot, fires): (u64, u64),
) -> u64 {
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
        let status = ended(worker(&words), stops).await;
        if status.success() {
            return killed;
        }
        assert_eq!(status.signal(), Some(9), "{status}");
    }
    unreachable!()
}

/// How a process ended that goes on some time after each stop.
async fn ended(mut process: Child, stops: &RefCell<Vec<Stop>>) -> ExitStatus {
    loop {
        match tokio::time::timeout(Duration::from_millis(100), process.wait(CAP)).await {
            Ok(status) => return status,
            Err(_) if process.is_stopped() => {
                let since = now();
                tokio::time::sleep(STOPPED).await;
                stops.borrow_mut().push(Stop {
                    pid: process.pid(),
                    time: since..=now(),
                });
                process.cont();
            }
            Err(_) => {}
        }
    }
}

/// Cuts connections, whatever they carry, or before a proxy around a script, such as the one that ends a
/// run; deletes the locks; or lets the ground lose a server. Returns how many cuts there were.
async fn disturb(ground: &Ground, proxy: Option<&Proxy>, is_over: &Cell<bool>) -> (u64, Vec<Loss>) {
    let (mut random, mut cuts) = (Seeded(47), 0);
    let (mut triggers, mut losses) = (Vec::new(), Vec::new());
    let mut next_loss = Instant::now() + FIRST_LOSS;
    let mut next_cut = Instant::now() + CUTS;
    while !is_over.get() {
        tokio::time::sleep(Duration::from_millis(random.between(50, 350))).await;
        let any = Matcher::script().nth(random.between(1, 10));
        let lock = LOCKS[usize::try_from(random.between(0, 4)).unwrap()];
        let (matcher, action) = match random.between(0, 6) {
            _ if Instant::now() > next_cut => {
                ground.cuts().await;
                cuts += 1;
                next_cut = Instant::now() + CUTS;
                continue;
            }
            _ if ground.loses_servers() && Instant::now() > next_loss => {
                let deaf = Duration::from_millis(random.between(100, 300));
                losses.push(ground.loses_one(lock, 0, deaf).await);
                next_loss = Instant::now() + LOSSES;
                continue;
            }
            0 => (any, Action::CutBefore),
            1 => (any, Action::CutAfter),
            2 => (Matcher::script().containing(":done"), Action::CutAfter),
            _ => {
                for lock in LOCKS {
                    ground.deletes(lock).await;
                }
                continue;
            }
        };
        triggers.extend(proxy.map(|it| it.on(matcher, action)));
    }
    cuts += triggers.iter().map(Trigger::fired).sum::<u64>();
    (cuts, losses)
}

async fn each_runs_once_per_period(ground: Ground) {
    let proxy = match &ground {
        Ground::OneServer(server) => Some(Proxy::start(server.addr())),
        _ => None, // they name their servers themselves
    };
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    fs::write(&log, "").unwrap();
    let fires = match &ground {
        _ if all_cases() => 10_000,
        Ground::OneServer(_) => 300,
        _ => 200,
    } / PROCESSES;
    let begun = Instant::now();
    let url = proxy.as_ref().map_or_else(|| ground.url(), Proxy::url);
    let stops = RefCell::default();
    let slots = (0..PROCESSES).map(|slot| all_are_fired(&url, &log, &stops, (slot, fires)));
    let is_over = Cell::new(false);
    let firing = join_all(slots).inspect(|_| is_over.set(true));
    let disturbing = disturb(&ground, proxy.as_ref(), &is_over);
    let (killed, (cuts, losses)) = tokio::join!(firing, disturbing);
    let killed: u64 = killed.into_iter().sum();
    let took = begun.elapsed();

    let (lines, stops) = (lines(&log), stops.into_inner());
    let many = |what: &str| lines.iter().filter(|it| it.what == what).count();
    assert_eq!(many("fires") as u64, PROCESSES * fires);
    let (mut again, mut explained) = (0, 0);
    for (name, job) in jobs(&lines, &stops) {
        let found = check(name, &job, &losses);
        again += found.again;
        explained += found.explained;
    }
    let stopped = stops.len();
    println!("{took:?}: {killed} killed, {stopped} stopped, {cuts} cuts, {again} times again");
    println!("{} servers lost, which explain {explained}", losses.len());
    for what in "fires begins recorded failed dropped told busy lost unavailable".split(' ') {
        println!("{what}: {}", many(what));
    }
    let is_storm = killed > 0 && stopped > 0 && cuts > 0 && many("dropped") + many("failed") > 0;
    assert!(is_storm && many("told") > 0, "it proves nothing");
    assert!(many("recorded") > 2, "few succeed");
    // Each record ends with its period.
    ground.is_free(CLAIM + TTL + SLACK).await;
}

fn jobs<'a>(lines: &'a [Line], stops: &[Stop]) -> BTreeMap<&'a str, Job<'a>> {
    let mut jobs = BTreeMap::<&str, Job<'_>>::new();
    let mut fired = BTreeMap::new();
    for line in lines {
        let job = jobs.entry(&line.job).or_default();
        match line.what.as_str() {
            "begins" | "fails" | "succeeds" | "recorded" => {}
            "fires" => {
                fired.insert(line.slot, line.at);
                continue;
            }
            "told" => {
                job.told.push((fired[&line.slot], line));
                continue;
            }
            "busy" | "unavailable" => {
                job.in_vain.push(fired[&line.slot]);
                continue;
            }
            _ => continue,
        }
        let run = job.runs.entry(line.fence).or_insert_with(|| Run::of(line));
        assert_eq!(run.pid, line.pid, "a fence was given twice");
        let within = fired[&line.slot]..=line.at + DRAWN_TOGETHER;
        assert!(within.contains(&run.start), "{line:?}, not in {within:?}");
        run.comes_to(line);
    }
    for run in jobs.values_mut().flat_map(|it| it.runs.values_mut()) {
        for stop in stops {
            run.is_stopped(stop);
        }
    }
    jobs
}

impl Run {
    fn of(begins: &Line) -> Self {
        Self {
            start: begins.fence >> 10,
            pid: begins.pid,
            stage: Stage::Begun,
            ended: 0,
            recorded: Vec::new(),
        }
    }

    fn comes_to(&mut self, line: &Line) {
        match line.what.as_str() {
            // Before its body.
            "begins" if line.is_at_most_once() => self.recorded.push(self.start..=line.at),
            "fails" => self.stage = Stage::Failed,
            "succeeds" => (self.stage, self.ended) = (Stage::Succeeded, line.at),
            "recorded" => {
                self.stage = Stage::Recorded;
                self.recorded.push(self.ended..=line.at);
            }
            _ => {}
        }
    }

    /// A body that ends behind a stop of its process has lost its lock meanwhile, and nothing of it is
    /// recorded then.
    fn is_stopped(&mut self, Stop { pid, time }: &Stop) {
        if self.pid == *pid && self.start < *time.start() && self.ended > *time.end() {
            assert_ne!(self.stage, Stage::Recorded, "{self:?} behind {time:?}");
            self.stage = Stage::Begun;
        }
    }
}

/// What the runs of a job show.
#[derive(Default)]
struct Found {
    /// How many began within the period of one that may have succeeded.
    again: u64,
    /// How many the loss of a server explains.
    explained: u64,
}

fn check(
    name: &str,
    Job {
        runs,
        told,
        in_vain,
    }: &Job<'_>,
    losses: &[Loss],
) -> Found {
    let is_at_most_once = name.starts_with("skip");
    let (mut counts, mut before, mut found) = (None::<&Run>, None::<&Run>, Found::default());
    for run in runs.values() {
        let since = |it: &Run| run.start - it.start;
        if let Some(counts) = counts
            && since(counts) + DRAWN_TOGETHER < micros(PERIOD)
        {
            let is_explained = losses
                .iter()
                .any(|it| explains(it, &counts.recorded, run.start));
            assert!(is_explained, "{name} is not due: {counts:?}, then {run:?}");
            found.explained += 1;
        }
        if let Some(before) = before {
            let between = before.start..run.start;
            let asked = in_vain.iter().filter(|it| between.contains(it));
            let first = asked.clone().min().copied().unwrap_or(run.start);
            let last = asked.max().copied().unwrap_or(first);
            let away = losses
                .iter()
                .filter(|it| between.contains(it.unheard.end()));
            let away: Duration = away.map(|it| it.away).sum();
            let is_stuck = last - first > micros(PERIOD + TTL + CLAIM + SLACK + away);
            assert!(
                !is_stuck,
                "{name} is stuck: {before:?}, {first} to {last}, then {run:?}"
            );
            found.again += u64::from(
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
        let is_forgotten = |it: &Run| losses.iter().any(|loss| loss.unheard.contains(&it.start));
        let newer = runs.range(..(asked - DRAWN_TOGETHER) << 10);
        let mut newer = newer.rev().map(|(_, it)| it);
        let newer = newer.find(|it| !is_forgotten(it)).unwrap_or(run);
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
    found
}

/// Whether a run began beside the record of another because a new master lacks all writes of that record;
/// or lacks its own grant, so that the other's lock was back, and was recorded then.
fn explains(Loss { unheard, .. }: &Loss, recorded: &[RangeInclusive<u64>], start: u64) -> bool {
    let (from, killed) = unheard.clone().into_inner();
    let is_unheard = |it: &RangeInclusive<u64>| *it.end() >= from && *it.start() <= killed;
    let Some(last) = recorded.last() else {
        return false;
    };
    let record_is_lost = start > killed && recorded.iter().all(is_unheard);
    let grant_is_lost = unheard.contains(&start) && *last.end() > killed;
    record_is_lost || grant_is_lost
}

fn micros(it: Duration) -> u64 {
    u64::try_from(it.as_micros()).unwrap()
}

#[test]
fn the_loss_of_a_server_explains_no_more_than_what_its_replicas_did_not_hear() {
    let loss = Loss {
        unheard: 100..=200,
        away: Duration::ZERO,
    };
    for (recorded, start, expected) in [
        (&[150..=160][..], 250, true),
        (&[90..=110], 250, true), // perhaps
        (&[50..=90], 250, false),
        (&[210..=220], 250, false),
        (&[150..=160], 170, false), // granted where the record was
        (&[110..=120, 150..=160], 250, true),
        (&[50..=60, 150..=160], 250, false), // before its body it was heard
        (&[110..=120, 210..=220], 250, false),
        (&[210..=220], 150, true), // granted, which was not heard, beside a lock that came back
        (&[210..=220], 90, false),
        (&[], 250, false),
    ] {
        let said = explains(&loss, recorded, start);
        assert_eq!(said, expected, "{recorded:?}, then {start}");
    }
}

macro_rules! on_grounds {
    ($($ground:ident),*) => {
        $(
            #[tokio::test]
            async fn $ground() {
                super::each_runs_once_per_period(super::Ground::start(stringify!($ground)).await).await;
            }
        )*
    };
}

mod of_jobs_that_twenty_processes_fire {
    on_grounds!(one_server, sentinels, a_cluster, postgres);
}
