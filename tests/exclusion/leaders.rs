//! Changes of the leader among three processes: it resigns, is killed, stopped for longer than its
//! lease, or cut off, or a server is lost. Each term has a fence of its own, higher than the last; no two
//! lead at once, but where a new master may lack the last grant; and nobody leads for no longer than the
//! cause explains.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use dlock_harness::{Child, until};
use dlock_tests::Seeded;

use crate::fleet::{CAP, worker};
use crate::ground::{Ground, TTL};

/// The key that the candidates campaign for.
const NAME: &str = "lock:leads";

/// Beyond a lease and what the servers need: the claim of a candidate that was stopped or killed (3 s),
/// and a busy machine.
const SLACK: Duration = Duration::from_secs(5);

/// With `DLOCK_TEST_ALL_CASES`, 200.
const CHANGES: u64 = 10;

/// What happens to the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fate {
    #[default]
    Resigns,
    IsKilled,
    IsStopped,
    /// It goes on over a new connection, and then resigns.
    IsCutOff,
    /// A server is killed. What is held may go on, and then it resigns.
    LosesServer,
}

const FATES: [Fate; 5] = [
    Fate::Resigns,
    Fate::IsKilled,
    Fate::IsStopped,
    Fate::IsCutOff,
    Fate::LosesServer,
];

/// From the first to the last time at which a process considered itself the leader.
#[derive(Clone, Copy, Debug)]
struct Led {
    by: u32,
    start_ns: u64,
    end_ns: u64,
}

struct Candidates {
    ground: Ground,
    running: Vec<Child>,
    killed: Vec<(u32, Vec<String>)>,
}

impl Candidates {
    async fn start(&mut self) {
        let ttl = TTL.as_millis();
        let [ttl, longest] = ["ttl_ms", "max_ttl_ms"].map(|name| format!("{name}={ttl}"));
        let url = self.ground.url();
        let mut words = vec!["lead", &url, &ttl];
        if self.ground.is_quorum() {
            words.push(&longest);
        }
        let mut candidate = worker(&words);
        candidate.expect_line("ready", CAP).await;
        self.running.push(candidate);
    }

    /// The number and fence of the one that says last, and by the highest fence, that it leads.
    fn leader(&self) -> Option<(usize, u64)> {
        let fence = |child: &Child| {
            let lines = child.lines();
            let last = lines.iter().rfind(|it| it.starts_with("leading "))?;
            numbers(last).map(|(fence, _)| fence)
        };
        let all = self.running.iter().enumerate();
        let leaders = all.filter_map(|(number, child)| Some((number, fence(child)?)));
        leaders.max_by_key(|(_, fence)| *fence)
    }

    /// Waits for a leader with a higher fence than this.
    async fn next(&self, fence: u64) -> (usize, u64) {
        let mut next = None;
        until("another term begins", CAP, async || {
            next = self.leader().filter(|(_, newest)| *newest > fence);
            next.is_some()
        })
        .await;
        next.unwrap()
    }

    /// The terms of all processes, by their fences.
    fn terms(&self) -> BTreeMap<u64, Led> {
        let running = self.running.iter().map(|it| (it.pid(), it.lines()));
        let mut terms = BTreeMap::new();
        for (by, lines) in running.chain(self.killed.iter().cloned()) {
            let leading = lines.iter().filter(|it| it.starts_with("leading "));
            for (fence, at) in leading.filter_map(|it| numbers(it)) {
                let new = Led {
                    by,
                    start_ns: at,
                    end_ns: at,
                };
                let term = terms.entry(fence).or_insert(new);
                assert_eq!(term.by, by, "a fence was given twice");
                term.start_ns = term.start_ns.min(at);
                term.end_ns = term.end_ns.max(at);
            }
        }
        terms
    }

    /// Lets this happen to the leader. Returns how long nobody may have been able to lock.
    async fn befall(&mut self, fate: Fate, leader: usize, fence: u64) -> Duration {
        match fate {
            Fate::Resigns => resign(&self.running[leader]),
            Fate::IsKilled => {
                let mut killed = self.running.remove(leader);
                killed.kill();
                self.killed.push((killed.pid(), killed.lines()));
                self.start().await;
            }
            Fate::IsStopped => {
                self.running[leader].stop();
                self.next(fence).await;
                self.running[leader].cont();
            }
            Fate::IsCutOff => {
                self.ground.cuts().await;
                resign(&self.running[leader]);
            }
            Fate::LosesServer => {
                let nth = usize::try_from(fence % 3).unwrap();
                let loss = self.ground.loses_one(NAME, nth, Duration::ZERO).await;
                resign(&self.running[leader]);
                return loss.away;
            }
        }
        Duration::ZERO
    }
}

/// The fence and the time in a whole line.
fn numbers(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace().skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

async fn changes_again_and_again(ground: Ground) {
    let mut candidates = Candidates {
        ground,
        running: Vec::new(),
        killed: Vec::new(),
    };
    for _ in 0..3 {
        candidates.start().await;
    }
    let all = std::env::var_os("DLOCK_TEST_ALL_CASES").is_some();
    let changes = if all { 200 } else { CHANGES };
    let fates = FATES.len() - usize::from(!candidates.ground.loses_servers());
    let mut random = Seeded(43);
    let mut causes = BTreeMap::new();
    let mut fence = 0;
    for _ in 0..changes {
        let (leader, its_fence) = candidates.next(fence).await;
        fence = its_fence;
        tokio::time::sleep(Duration::from_millis(random.between(0, 300))).await;
        let fate = random.between(0, u64::try_from(fates).unwrap() - 1);
        let fate = FATES[usize::try_from(fate).unwrap()];
        let away = candidates.befall(fate, leader, fence).await;
        causes.insert(fence, (fate, away));
    }
    candidates.next(fence).await;
    let terms = candidates.terms();
    assert!(terms.len() as u64 > changes, "{}", terms.len());
    check(&terms, &causes, candidates.ground.may_forget());
}

/// Each term began after the one before it ended, soon, and with a higher fence.
fn check(terms: &BTreeMap<u64, Led>, causes: &BTreeMap<u64, (Fate, Duration)>, may_forget: bool) {
    let (mut overlaps, mut longest) = (0, Duration::ZERO);
    for ((fence, before), (_, after)) in terms.iter().zip(terms.iter().skip(1)) {
        let (fate, away) = causes.get(fence).copied().unwrap_or_default();
        let what = format!("{fate:?}: {before:?}, then {after:?}");
        assert!(
            before.start_ns < after.start_ns,
            "a lower fence later, {what}"
        );
        if after.start_ns < before.end_ns {
            let both = Duration::from_nanos(before.end_ns - after.start_ns);
            let is_forgotten = may_forget && fate == Fate::LosesServer && both < TTL;
            assert!(is_forgotten, "two lead for {both:?}, {what}");
            overlaps += 1;
        } else {
            let gap = Duration::from_nanos(after.start_ns - before.end_ns);
            assert!(gap < TTL + SLACK + away, "nobody leads for {gap:?}, {what}");
            longest = longest.max(gap.saturating_sub(away));
        }
    }
    println!(
        "{} terms, {overlaps} overlaps, {longest:?} without a leader",
        terms.len()
    );
}

fn resign(child: &Child) {
    let pid = child.pid().to_string();
    let sent = Command::new("kill").args(["-USR1", &pid]).status();
    assert!(sent.unwrap().success());
}

macro_rules! on_grounds {
    ($($ground:ident),*) => {
        $(
            #[tokio::test]
            async fn $ground() {
                super::changes_again_and_again(super::Ground::start(stringify!($ground)).await).await;
            }
        )*
    };
}

mod of_many_leaders_no_two_lead {
    on_grounds!(one_server, sentinels, a_cluster, a_quorum, postgres);
}
