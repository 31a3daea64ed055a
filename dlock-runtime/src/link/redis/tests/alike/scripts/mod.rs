//! A server with queues: every operation on both servers. `without_scripts` does those that it
//! offers over a link that sends no script, on the same machine.

mod by_key;
mod combined;
mod heartbeats;
mod people;
mod without_scripts;

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_harness::cases;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use redis::Value;

use self::by_key::ByKey;
use self::people::RUN_ONCE;
use self::without_scripts::Asks;
use super::clockwork::Clockwork;
use super::epochs::Epochs;
use super::pair::{Foreign, Pair, even, foreign};
use super::witness::Witness;
use super::{Alike, Seconds, Stage, Who};
use crate::link::redis::names::Names;
use crate::link::redis::tests::lab::{CAP, HOUR, Lab, acquire, renewal, seconds};
use crate::rules::commands::{Acquire, Acquired, Claim, Polled, Renewal, Renewed, RunOutcome};
use crate::values::entry::Letter;

const KEYS: [&str; 2] = ["lock:a", "lock:{b}"];

/// A queue entry that this version can't parse.
const STRANGE: &str = "r|lock:@grant:x|30000|1|reader";

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        who: Who,
        lease: Seconds,
        late: bool,
        repair: Option<Seconds>,
    },
    /// Both keys in one `acquire_all`, for claims that also wait for each key alone.
    Together {
        people: [usize; 2],
        lease: Seconds,
        late: bool,
    },
    /// A batch: several releases, then several acquires, of exclusive locks.
    Combined {
        releases: Vec<(Who, Option<Seconds>)>,
        acquires: Vec<(Who, Seconds, bool)>,
    },
    Poll(Who),
    /// Heartbeats of several claims in one command.
    Heartbeats(Vec<Who>),
    Release {
        who: Who,
        keep: Option<Seconds>,
        run: Run,
    },
    Cancel {
        who: Who,
        keep: Option<Seconds>,
        over: bool,
        run: Run,
    },
    /// Before the body of a run that began so long ago.
    NoteRun(Who, Seconds),
    /// Another version, or a stranger, writes a record.
    Record(usize, usize, Option<Seconds>),
    Renew(Vec<(Who, Seconds)>),
    Downgrade(Who, Seconds),
    Holds(Who),
    Read(usize),
    /// By its key alone, as while the lock's slot moves; if nobody waits for it.
    ByKey(Who, ByKey),
    Pass(Seconds),
    /// By a client that does not use dlock.
    Foreign(usize, Foreign),
    /// A queue entry that another version wrote; `bool`: with a heartbeat.
    Strange(usize, bool),
    LoseQueue(usize),
}

/// What is said of a run that is once per period, and how long ago it began.
type Run = Option<(RunOutcome, Seconds)>;

const OUTCOMES: &[RunOutcome] = &[
    RunOutcome::Unknown,
    RunOutcome::Succeeded,
    RunOutcome::Succeeded,
    RunOutcome::Failed,
];

fn run() -> impl Strategy<Value = Run> {
    let run = (
        proptest::sample::select(OUTCOMES),
        proptest::sample::select(&[0, 4, 30][..]),
    );
    option::weighted(0.8, run)
}

fn op(people: &'static [usize]) -> impl Strategy<Value = Op> {
    let who = move || (0..2usize, proptest::sample::select(people));
    let acquire = (
        who(),
        even(),
        proptest::bool::weighted(0.1),
        option::weighted(0.3, even()),
    );
    let keep = || option::weighted(0.2, even());
    let exclusive = || (0..2usize, 0..5usize);
    let combined = (
        vec((exclusive(), keep()), 0..4),
        vec((exclusive(), even(), proptest::bool::weighted(0.1)), 0..5),
    );
    let combined = combined.prop_filter("something", |(releases, acquires)| {
        !releases.is_empty() || !acquires.is_empty()
    });
    prop_oneof![
        9 => acquire.prop_map(|(who, lease, late, repair)| Op::Acquire { who, lease, late, repair }),
        2 => ([0..4usize, 0..4usize], even(), proptest::bool::weighted(0.1))
            .prop_map(|(people, lease, late)| Op::Together { people, lease, late }),
        5 => combined.prop_map(|(releases, acquires)| Op::Combined { releases, acquires }),
        4 => who().prop_map(Op::Poll),
        4 => vec(who(), 1..8).prop_map(Op::Heartbeats),
        3 => (who(), keep(), run()).prop_map(|(who, keep, run)| Op::Release { who, keep, run }),
        3 => (who(), keep(), any::<bool>(), run())
            .prop_map(|(who, keep, over, run)| Op::Cancel { who, keep, over, run }),
        1 => (who(), prop_oneof![Just(0), Just(4)]).prop_map(|(who, ago)| Op::NoteRun(who, ago)),
        1 => (0..2usize, 0..6usize, option::of(even())).prop_map(|(key, what, ttl)| Op::Record(key, what, ttl)),
        3 => vec((who(), even()), 0..6).prop_map(Op::Renew),
        1 => (who(), even()).prop_map(|(who, ttl)| Op::Downgrade(who, ttl)),
        1 => who().prop_map(Op::Holds),
        1 => (0..2usize).prop_map(Op::Read),
        3 => (who(), by_key::operation()).prop_map(|(who, what)| Op::ByKey(who, what)),
        4 => prop_oneof![3 => Just(2), 2 => Just(4), 1 => Just(10)].prop_map(Op::Pass),
        4 => (0..2usize, foreign()).prop_map(|(key, what)| Op::Foreign(key, what)),
        1 => (0..2usize, any::<bool>()).prop_map(|(key, beats)| Op::Strange(key, beats)),
        1 => (0..2usize).prop_map(Op::LoseQueue),
    ]
}

/// One after the other, somewhere in random operations: what they alone seldom do.
fn scene(people: &'static [usize]) -> impl Strategy<Value = Vec<Op>> {
    let person = || proptest::sample::select(people);
    let keep = option::weighted(0.5, even());
    (0..2usize, person(), person(), keep, 0..4usize).prop_map(|(key, first, then, keep, end)| {
        let (who, lease) = ((key, first), 30);
        let acquire = |who| Op::Acquire {
            who: (key, who),
            lease,
            late: false,
            repair: None,
        };
        let (over, run) = (false, Some((RunOutcome::Succeeded, 0)));
        let end = match end {
            0 => Op::Release { who, keep, run },
            1 => Op::Cancel {
                who,
                keep,
                over,
                run,
            },
            2 => Op::NoteRun(who, 0),
            _ => Op::Downgrade(who, lease),
        };
        let free = Op::Foreign(key, Foreign::Nothing);
        vec![free, acquire(first), acquire(then), end]
    })
}

#[test]
fn the_scripts_answer_like_the_pure_machine() {
    check(&[0, 1, 2, 3, 4], &[]);
}

#[test]
fn the_scripts_of_readers_and_writers_answer_like_the_pure_machine() {
    check(&[5, 5, 6, 7, 8, 9, 9, 20, 21, 0], &["downgraded"]);
}

#[test]
fn the_scripts_of_permits_answer_like_the_pure_machine() {
    check(&[10, 10, 11, 11, 12, 13, 13, 14, 22, 0], &[]);
}

#[test]
fn the_scripts_of_owners_answer_like_the_pure_machine() {
    let of_owners = ["an owner passes the queue", "others of the owner hold it"];
    check(&[15, 15, 16, 16, 17, 17, 18, 19, 23, 0], &of_owners);
}

#[test]
fn the_scripts_of_jobs_that_run_once_answer_like_the_pure_machine() {
    let once = [
        "not due",
        "polled: not due",
        "recorded",
        "recorded before its body",
    ];
    check(&[26, 26, 27, 27, 28, 29, 30, 0, 2, 3], &once);
}

/// All kinds use the same key.
#[test]
fn the_scripts_of_all_kinds_answer_like_the_pure_machine() {
    let people = &[
        0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23,
    ];
    check(people, &["an owner passes the queue"]);
}

/// What is reached by each kind of claims.
const BY_ALL: &str = "\
    another layout, busy, busy with another layout, busy without an end, by its key, \
    cancelled, granted, granted before, granted from a queue, kept, late, may come yet, \
    not held, not renewed, nothing can come, polled: gone, polled: granted, polled: queued, \
    queued, released, renewed, several keys: all, several keys: none";

fn ops(people: &'static [usize]) -> impl Strategy<Value = Vec<Op>> {
    let single = op(people).prop_map(|op| vec![op]);
    let ops = vec(prop_oneof![15 => single, 1 => scene(people)], 1..54);
    ops.prop_map(|scenes| scenes.concat())
}

fn check(people: &'static [usize], also: &[&str]) {
    let (stage, witness) = (Stage::new(Lab::new()), Witness::default());
    stage.drive(cases(300), ops(people), |lab| pair(lab, &witness));
    let is_shared = people.iter().any(|it| (5..24).contains(it));
    let shared = ["several holders", "wrong kind"];
    let shared = shared.iter().filter(|_| is_shared).copied();
    let all = BY_ALL.split(", ").chain(also.iter().copied()).chain(shared);
    witness.must_have_seen(all.map(|it| (it, 1)));
}

fn pair<'a>(lab: &'a Lab, witness: &'a Witness) -> Pair<'a> {
    let epochs = Epochs::InOrder(BTreeMap::new());
    let keys = KEYS.map(str::to_owned);
    Pair::new(lab, witness, keys, (Names::new("lock:", false), epochs))
}

impl Alike<Op> for Pair<'_> {
    async fn begin(&mut self) {
        self.hear_the_time().await;
        self.begin_runs().await;
    }

    async fn step(&mut self, op: &Op) {
        // As on the real server, so that entries end in the order in which they came.
        self.time += 1;
        match op {
            Op::Acquire {
                who,
                lease,
                late,
                repair,
            } => self.acquire(*who, *lease, *late, *repair).await,
            Op::Together {
                people,
                lease,
                late,
            } => self.together(*people, *lease, *late).await,
            Op::Combined { releases, acquires } => self.combined(releases, acquires).await,
            Op::Poll(who) => self.poll(*who).await,
            Op::Heartbeats(people) => self.heartbeats(people).await,
            Op::Release { who, keep, run } => self.release(*who, *keep, *run).await,
            Op::Cancel {
                who,
                keep,
                over,
                run,
            } => self.cancel(*who, *keep, *over, *run).await,
            Op::NoteRun(who, ago) => self.note_run(*who, *ago).await,
            Op::Record(key, what, ttl) => self.record(KEYS[*key], *what, *ttl).await,
            Op::Renew(items) => self.renew(items).await,
            Op::Downgrade(who, ttl) => self.downgrade(*who, *ttl).await,
            Op::Holds(who) => self.holds(*who).await,
            Op::Read(key) => {
                let real = self.link.read(KEYS[*key], CAP).await;
                if self.other_type.contains(key) {
                    assert!(self.is_other_type(*key, &real), "{real:?}");
                } else {
                    assert_eq!(real.unwrap(), self.pure.read(KEYS[*key], self.time), "read");
                }
            }
            Op::Pass(seconds) => self.pass(*seconds).await,
            Op::Strange(key, beats) => self.strange(KEYS[*key], *beats).await,
            Op::LoseQueue(key) => {
                let [_, waiting, alive, ..] = self.keys_of(KEYS[*key]);
                self.lab.tell::<Value>(&["DEL", &waiting, &alive]).await;
                self.pure.lose_queue(KEYS[*key]);
            }
            Op::Foreign(key, what) => {
                let number = if let Foreign::Value(number, _) = what {
                    *number
                } else {
                    0
                };
                let value = self.named((*key, number)).value;
                self.interfere(*key, *what, &value).await;
            }
            // Without its record nobody takes the lock of a job that runs once per period.
            Op::ByKey(who, what) if who.1 < RUN_ONCE => self.by_key(*who, *what).await,
            Op::ByKey(..) => {}
        }
    }

    async fn compare(&mut self) {
        self.drop_lapsed().await;
        self.compare_all().await;
    }

    fn clockwork(&self) -> &Clockwork {
        &self.clockwork
    }
}

impl Pair<'_> {
    fn named(&self, who: Who) -> Claim {
        people::named(who, &self.wire.address)
    }

    async fn acquire(&mut self, who: Who, lease: Seconds, late: bool, repair: Option<Seconds>) {
        let mut command = acquire(&self.named(who), self.time + HOUR);
        command.lease = seconds(lease);
        command.repair_missing_ttl = repair.map(Duration::from_secs);
        if self.does_less(Asks::Acquire, &command.claim) {
            return;
        }
        if late {
            command.not_after = self.time - 1;
        }
        let hindered = self.other_type.contains(&who.0) && !late;
        let is_behind = !self.pure.waiting(KEYS[who.0], self.time).is_empty();
        let pure = (!hindered).then(|| self.acquire_pure(&mut command));
        let passes = is_behind && matches!(pure, Some(Acquired::Granted { .. }));
        let is_owner = command.claim.kind() == Letter::Owner;
        self.witness
            .saw_if(passes && is_owner, "an owner passes the queue");
        let real_time = self.lab.link.server_time();
        command.not_after = if late {
            real_time - HOUR
        } else {
            real_time + HOUR
        };
        let mut real = self.link.acquire(&command, CAP).await;
        if let Ok(Acquired::Busy(real) | Acquired::Queued(real)) = &mut real
            && let Some(Acquired::Busy(pure) | Acquired::Queued(pure)) = &pure
        {
            self.as_with_scripts(&command.claim, real, pure);
        }
        self.compare_told().await;
        match (real, pure) {
            (Ok(real), Some(pure)) => self.compare_acquired(real, pure),
            (real, None) if self.is_other_type(who.0, &real) => {}
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
        }
    }

    async fn together(&mut self, people: [usize; 2], lease: Seconds, late: bool) {
        let named = people.iter().enumerate();
        let claims: Vec<_> = named.map(|(key, who)| self.named((key, *who))).collect();
        let commands = |time: u64| -> Vec<_> {
            let not_after = if late { time - HOUR } else { time + HOUR };
            let command = |claim| Acquire {
                lease: seconds(lease),
                ..acquire(claim, not_after)
            };
            claims.iter().map(command).collect()
        };
        let pure = commands(self.time);
        let pure = self.pure.acquire_all(&pure, self.time, &mut self.wire);
        let real = commands(self.lab.link.server_time());
        let real = self.lab.link.acquire_all(&real, CAP).await.unwrap();
        self.compare_told().await;
        self.compare_together(&real, &pure);
    }

    async fn poll(&mut self, who: Who) {
        let claim = self.named(who);
        let was_free = self.pure.read(&claim.key, self.time).is_none();
        let pure = (!self.other_type.contains(&who.0))
            .then(|| self.pure.poll(&claim, self.time, &mut self.wire));
        let is_granted = was_free && self.pure.read(&claim.key, self.time).is_some();
        let is_strange = matches!(pure, Some(Polled::Gone { .. }));
        self.witness
            .saw_if(is_granted && is_strange, "granted by a stranger's poll");
        let mut real = self.link.poll(&claim, CAP).await;
        if let (Ok(Polled::Queued(real)), Some(Polled::Queued(pure))) = (&mut real, &pure) {
            self.as_with_scripts(&claim, real, pure);
        }
        self.compare_told().await;
        match (real, pure) {
            (Ok(real), Some(pure)) => self.compare_polled(real, pure),
            (real, None) if self.is_other_type(who.0, &real) => {}
            (real, pure) => panic!("poll: {real:?} is not like {pure:?}"),
        }
    }

    async fn release(&mut self, who: Who, keep: Option<Seconds>, run: Run) {
        let run = run.filter(|_| who.1 >= RUN_ONCE);
        let (claim, both) = (self.named(who), self.keep_and_note(keep, run, who.1).await);
        let (real, pure) = both;
        if keep.is_none() && self.does_less(Asks::Release, &claim) {
            return;
        }
        let pure = self.pure.release(&claim, pure, self.time, &mut self.wire);
        let real = self.link.release(&claim, real, CAP).await.unwrap();
        self.compare_told().await;
        assert_eq!(real, pure, "release");
        self.saw_released(pure.found, keep);
        self.witness
            .saw_if(pure.rest > 0, "others of the owner hold it");
    }

    async fn note_run(&mut self, who: Who, ago: Seconds) {
        if who.1 < RUN_ONCE {
            return;
        }
        let run = Some((RunOutcome::Unknown, ago));
        let (real, pure) = self.keep_and_note(None, run, who.1).await;
        let claim = self.named(who);
        let pure = self.pure.note_run(&claim, pure.run().unwrap(), self.time);
        let real = self.link.note_run(&claim, real.run().unwrap(), CAP).await;
        assert_eq!(real.unwrap(), pure, "note_run");
        self.witness.saw_if(pure, "recorded before its body");
    }

    async fn record(&mut self, key: &str, what: usize, ttl: Option<Seconds>) {
        let [.., record] = self.keys_of(key);
        let ahead = 1_000_000_000; // as after the clock was set back
        let text = |now: u64| match what {
            0 => "2|of another version".to_owned(),
            1 => "1|7|x".to_owned(),
            2 => "1|7|0|0|7|host|1|f".to_owned(),
            3 => "1|7|0|0000000020000|7|host|1|f".to_owned(), // more digits than a period has
            4 => "1|7|0|20000|00000000000000007|host|1|f".to_owned(),
            _ => format!("1|{}|{}|20000|7|host|1|f|new", now + ahead, now + ahead),
        };
        let (real, pure) = (text(self.real_time().await), text(self.time));
        let mut set = vec!["SET", &record, &real];
        let px = ttl.map(|ttl| (ttl * 1000).to_string());
        set.extend(px.iter().flat_map(|px| ["PX", px]));
        self.lab.tell::<Value>(&set).await;
        let expires = ttl.map(|ttl| self.time + ttl * 1_000_000);
        self.pure.put_record(key, &pure, expires);
    }

    async fn cancel(&mut self, who: Who, keep: Option<Seconds>, over: bool, run: Run) {
        let run = run.filter(|_| who.1 >= RUN_ONCE);
        let (claim, both) = (self.named(who), self.keep_and_note(keep, run, who.1).await);
        let (real_keep, pure_keep) = both;
        let not_after = |now: u64| if over { now - 1 } else { now + HOUR };
        let (real, pure) = (self.lab.link.server_time(), self.time);
        let wire = &mut self.wire;
        let pure = (self.pure).cancel(&claim, pure_keep, not_after(pure), pure, wire);
        let real = not_after(if over { real - HOUR } else { real });
        let real = self.link.cancel(&claim, real_keep, real, CAP).await;
        self.compare_told().await;
        self.compare_cancelled(real.unwrap(), pure);
    }

    async fn renew(&mut self, items: &[(Who, Seconds)]) {
        let renewed = |(who, ttl): &(Who, Seconds)| renewal(&self.named(*who), *ttl);
        let items: Vec<Renewal> = self.once_each(items).iter().map(renewed).collect();
        let pure: Vec<Renewed> = items
            .iter()
            .map(|item| self.pure.renew(item, self.time))
            .collect();
        let real = self.link.renew(&items, CAP).await.unwrap();
        assert_eq!(real, pure, "renew");
        for it in pure {
            self.witness.saw(if it == Renewed::Yes {
                "renewed"
            } else {
                "not renewed"
            });
        }
    }

    async fn downgrade(&mut self, who: Who, ttl: Seconds) {
        let (claim, ttl) = (self.named(who), seconds(ttl));
        if !claim.kind().is_shared() {
            return; // only the other kinds can be downgraded
        }
        let pure = self.pure.downgrade(&claim, ttl, self.time, &mut self.wire);
        let real = self.lab.link.downgrade(&claim, ttl, CAP).await.unwrap();
        self.compare_told().await;
        assert_eq!(real, pure, "downgrade");
        self.witness.saw_if(pure, "downgraded");
    }

    async fn holds(&mut self, who: Who) {
        let claim = self.named(who);
        let pure = self.pure.holds(&claim, self.time);
        match self.link.holds(&claim, CAP).await {
            Ok(real) => assert_eq!(real, pure, "holds"),
            other => assert!(self.is_other_type(who.0, &other)),
        }
    }

    async fn strange(&mut self, key: &str, beats: bool) {
        let [_, waiting, alive, ..] = self.keys_of(key);
        let now = self.real_time().await;
        let (arrival, beat) = (self.epochs.last().max(now), now + 3_500_000);
        let (arrival, beat) = (arrival.to_string(), beat.to_string());
        let enters = ["ZADD", &waiting, "NX", &arrival, STRANGE];
        let is_new = self.lab.tell::<i64>(&enters).await == 1;
        if beats {
            self.pure.enter(key, STRANGE, self.time);
            let beats = ["ZADD", &alive, &beat, STRANGE];
            self.lab.tell::<Value>(&beats).await;
        } else {
            self.pure.enter_silently(key, STRANGE, self.time);
        }
        for key in [&waiting, &alive] {
            if is_new || beats {
                self.lab.tell::<Value>(&["PEXPIRE", key, "7000"]).await;
            }
        }
    }
}
