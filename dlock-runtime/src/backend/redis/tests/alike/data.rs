//! Property test: guarded writes leave the same data in memory and on a real server, for random
//! batches in random order. A refused batch leaves the data as it was.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::clockwork::{self, Clockwork};
use crate::backend::redis::tests::lab::{CAP, Lab, claim};
use crate::policy::data::Data;
use crate::policy::writes::{Writes, Wrote};
use crate::values::batch::Batch;
use crate::values::memory_value::MemoryValue;

const LOCK: &str = "lock:{7}";
const KEYS: [&str; 3] = ["a{7}", "b{7}", "c{7}"];
const SECOND: u64 = 1_000_000;

/// Values that can be incremented, values that can't, bytes that are not UTF-8, and an empty one.
const VALUES: [&[u8]; 9] = [
    b"0",
    b"-7",
    b"999999999999999999",
    b"1000000000000000000",
    b"01",
    b"x",
    b"",
    b"\xff\x00\r\n",
    b"1\n",
];
const FIELDS: [&[u8]; 3] = [b"f", b"", b"\x80"];
const NUMBERS: [i64; 5] = [
    0,
    1,
    -1,
    4_000_000_000_000_000_000,
    -8_000_000_000_000_000_000,
];
const SCORES: [f64; 6] = [0.0, -1.5, 0.1, 1e300, f64::INFINITY, f64::NEG_INFINITY];

/// A method of [`Batch`], its key, and its possible arguments.
#[derive(Clone, Debug)]
struct Word {
    method: usize,
    key: usize,
    field: &'static [u8],
    value: &'static [u8],
    by: i64,
    score: f64,
    seconds: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Word>),
    Pass(u64),
    /// Another client holds the lock during the next batch.
    Taken,
}

fn step() -> impl Strategy<Value = Step> {
    let word = (
        (0..14_usize, 0..KEYS.len()),
        (select(&FIELDS[..]), select(&VALUES[..])),
        (select(&NUMBERS[..]), select(&SCORES[..]), 1..4_u64),
    );
    let word = word.prop_map(|((method, key), (field, value), (by, score, half))| Word {
        method,
        key,
        field,
        value,
        by,
        score,
        seconds: 2 * half,
    });
    prop_oneof![
        12 => vec(word, 1..7).prop_map(Step::Write),
        3 => (any::<bool>()).prop_map(|long| Step::Pass(if long { 3 } else { 1 })),
        1 => Just(Step::Taken),
    ]
}

/// The batch with one more command.
fn and(batch: Batch, word: &Word) -> Batch {
    let Word {
        field,
        value,
        by,
        score,
        ..
    } = *word;
    let (key, ttl) = (KEYS[word.key], Duration::from_secs(word.seconds));
    match word.method {
        0 => batch.set(key, value),
        1 => batch.set_with_ttl(key, value, ttl),
        2 => batch.del(key),
        3 => batch.expire(key, ttl),
        4 => batch.incr_by(key, by),
        5 => batch.hset(key, field, value),
        6 => batch.hdel(key, field),
        7 => batch.hincr_by(key, field, by),
        8 => batch.sadd(key, value),
        9 => batch.srem(key, value),
        10 => batch.zadd(key, field, score),
        11 => batch.zrem(key, field),
        12 => batch.lpush(key, value),
        _ => batch.rpush(key, value),
    }
}

/// A valid batch of these commands; those that would make it invalid are left out.
fn batch(words: &[Word]) -> Batch {
    words.iter().fold(Batch::new(), |batch, word| {
        let longer = and(batch.clone(), word);
        if Writes::new(&longer, LOCK, "lock:").is_ok() {
            longer
        } else {
            batch
        }
    })
}

/// Both servers, and how often each answer came.
struct Pair<'a> {
    lab: &'a Lab,
    pure: Data,
    time: u64,
    is_taken: bool,
    clockwork: Clockwork,
    seen: &'a Seen,
}

#[derive(Debug, Default)]
struct Seen {
    written: Cell<u32>,
    unfit: Cell<u32>,
    taken: Cell<u32>,
}

fn count(cell: &Cell<u32>) {
    cell.set(cell.get() + 1);
}

impl Pair<'_> {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Write(words) => self.write(&batch(words)).await,
            Step::Taken => self.is_taken = true,
            Step::Pass(seconds) => {
                self.time += seconds * SECOND;
                clockwork::pass(*seconds, self.lab, &KEYS.map(str::to_owned)).await;
            }
        }
    }

    async fn write(&mut self, batch: &Batch) {
        let writes = Writes::new(batch, LOCK, "lock:").unwrap();
        let value = if self.is_taken { "other" } else { "ours" };
        self.lab.tell::<()>(&["SET", LOCK, value]).await;
        let ours = claim(LOCK, "ours");
        let real = self.lab.link.write(&ours, &writes, CAP).await.unwrap();
        let pure = if self.is_taken {
            Wrote::NotOurs
        } else {
            let written = self.pure.write(&writes, self.time);
            written.map_or_else(Wrote::Unfit, |()| Wrote::All)
        };
        assert_eq!(real, pure, "{batch:?}");
        count(match pure {
            Wrote::All => &self.seen.written,
            Wrote::Unfit(_) => &self.seen.unfit,
            _ => &self.seen.taken,
        });
        self.is_taken = false;
    }

    async fn compare(&mut self) {
        for key in KEYS {
            let real = self.real(key).await;
            let pure = self.pure.get(key, self.time).cloned();
            assert_eq!(real, pure, "{key}");
            let left: i64 = self.lab.tell(&["PTTL", key]).await;
            match (left, self.pure.left(key, self.time)) {
                (-2 | -1, None) => {}
                (left, Some(pure)) => {
                    let left = u64::try_from(left).expect("a time to live") * 1_000;
                    let most = u64::try_from(self.clockwork.drift().as_micros()).unwrap();
                    assert!(left <= pure && left + most + 2_000 >= pure, "{left} {pure}");
                }
                other => panic!("{key}: {other:?}"),
            }
        }
    }

    async fn real(&self, key: &str) -> Option<MemoryValue> {
        let lab = self.lab;
        let is: String = lab.tell(&["TYPE", key]).await;
        Some(match &*is {
            "none" => return None,
            "string" => MemoryValue::Bytes(lab.tell(&["GET", key]).await),
            "hash" => {
                let fields: BTreeMap<_, _> = lab.tell(&["HGETALL", key]).await;
                MemoryValue::Hash(fields)
            }
            "set" => {
                let members: BTreeSet<_> = lab.tell(&["SMEMBERS", key]).await;
                MemoryValue::Set(members)
            }
            "zset" => {
                let words = ["ZRANGE", key, "0", "-1", "WITHSCORES"];
                let members: Vec<(Vec<u8>, f64)> = lab.tell(&words).await;
                MemoryValue::SortedSet(members.into_iter().collect())
            }
            _ => MemoryValue::List(lab.tell(&["LRANGE", key, "0", "-1"]).await),
        })
    }
}

#[test]
fn guarded_writes_leave_the_same_data_in_memory() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lab = runtime.block_on(Lab::new());
    let config = Config {
        cases: 200,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let seen = Seen::default();
    let checked = TestRunner::new_with_rng(config, rng).run(&vec(step(), 1..30), |steps| {
        runtime.block_on(lab.tell::<()>(&["FLUSHALL"]));
        let mut pair = Pair {
            lab: &lab,
            pure: Data::default(),
            time: SECOND,
            is_taken: false,
            clockwork: Clockwork::start(),
            seen: &seen,
        };
        for step in &steps {
            let step = AssertUnwindSafe(|| {
                runtime.block_on(async {
                    pair.step(step).await;
                    pair.compare().await;
                });
            });
            let outcome = catch_unwind(step);
            if pair.clockwork.is_useless() {
                break;
            }
            if let Err(difference) = outcome {
                resume_unwind(difference); // the runner catches and shrinks it
            }
        }
        Ok(())
    });
    if let Err(difference) = checked {
        panic!("{difference}");
    }
    let Seen {
        written,
        unfit,
        taken,
    } = &seen;
    let enough = written.get() > 200 && unfit.get() > 50 && taken.get() > 10;
    assert!(enough, "{seen:?}");
}
