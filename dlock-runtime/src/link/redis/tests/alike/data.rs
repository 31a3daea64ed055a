//! Property test: guarded writes leave the same data in memory and on a real server, for random
//! batches in random order. A refused batch leaves the data as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

use super::clockwork::{self, Clockwork};
use super::witness::Witness;
use super::{Alike, Stage};
use crate::extras::writes::{Writes, Wrote};
use crate::link::memory::data::Data;
use crate::link::redis::tests::lab::{CAP, Lab, claim};
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

/// Both servers.
struct Written<'a> {
    lab: &'a Lab,
    witness: &'a Witness,
    pure: Data,
    time: u64,
    is_taken: bool,
    clockwork: Clockwork,
}

impl Alike<Step> for Written<'_> {
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

    fn clockwork(&self) -> &Clockwork {
        &self.clockwork
    }
}

impl Written<'_> {
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
        self.witness.saw(match pure {
            Wrote::All => "written",
            Wrote::Unfit(_) => "unfit",
            _ => "taken",
        });
        self.is_taken = false;
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
    let (stage, witness) = (Stage::new(Lab::new()), Witness::default());
    stage.drive(200, vec(step(), 1..30), |lab| Written {
        lab,
        witness: &witness,
        pure: Data::default(),
        time: SECOND,
        is_taken: false,
        clockwork: Clockwork::start(),
    });
    witness.must_have_seen([("written", 201), ("unfit", 51), ("taken", 11)]);
}
