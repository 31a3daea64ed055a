//! Both servers, the comparison of what they answer and of what is stored there, and what others
//! do to the keys.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proptest::option;
use proptest::prelude::{Just, Strategy, prop_oneof};
use redis::Value;

use super::Seconds;
use super::clockwork::{self, Clockwork};
use super::epochs::Epochs;
use super::witness::Witness;
use crate::link::Link;
use crate::link::command_error::CommandError;
use crate::link::redis::names::{Companion, Names};
use crate::link::redis::tests::lab::{CAP, HOUR, Lab, kept, seconds};
use crate::rules::commands::{
    Acquired, AcquiredAll, Busy, Cancelled, Keep, Left, NotDue, Polled, PushedGrant, RunNote,
    RunOutcome,
};
use crate::rules::{Publish, Reached, Server};
use crate::values::entry;
use crate::values::error::Refusal;
use crate::values::kind::Kind;
use crate::values::record::Record;

const SECOND: u64 = 1_000_000;

/// The pure machine's time at the beginning.
const BEGUN: u64 = 1_000 * HOUR;

/// By how much the epochs of runs are above the time at the beginning: more than any case takes.
const RUNS_AHEAD: u64 = 900 * SECOND;

/// What stands in the pure machine where the real server has a value of another type.
const ANOTHER_LAYOUT: &str = "2|a list";

/// An address at another server: this server can't tell whether it has a listener.
pub(super) const ELSEWHERE: &str = "0123456789abcdef;lock:@grant:nobody";

/// What stands at a key because of somebody else.
#[derive(Clone, Copy, Debug)]
pub(super) enum Foreign {
    Nothing,
    /// A value, by its number; `None`: without a time to live.
    Value(usize, Option<Seconds>),
    /// A reader's set.
    Set(Seconds),
    List,
    /// A set of another layout.
    OtherSet,
}

pub(super) fn foreign() -> impl Strategy<Value = Foreign> {
    prop_oneof![
        2 => (0..5usize, option::of(even())).prop_map(|(value, px)| Foreign::Value(value, px)),
        2 => Just(Foreign::Nothing),
        1 => even().prop_map(Foreign::Set),
        1 => Just(Foreign::List),
        1 => Just(Foreign::OtherSet),
    ]
}

pub(super) fn even() -> impl Strategy<Value = Seconds> {
    (1..12u64).prop_map(|half| 2 * half)
}

/// Both servers, and the state that the pure one can't represent.
pub(super) struct Pair<'a> {
    pub(super) lab: &'a Lab,
    /// The lab's, unless it sends no scripts.
    pub(super) link: &'a dyn Link,
    pub(super) witness: &'a Witness,
    pub(super) keys: [String; 2],
    names: Names,
    pub(super) pure: Server,
    pub(super) wire: Wire,
    /// The pure machine's clock, in µs.
    pub(super) time: u64,
    pub(super) clockwork: Clockwork,
    /// Keys with a value of another type; the pure machine has a value of another layout there.
    pub(super) other_type: BTreeSet<usize>,
    pub(super) epochs: Epochs,
    /// The least epoch of a run, at each server; each person's runs have one.
    run_epochs: (u64, u64),
}

/// What the pure machine says to others.
#[derive(Clone)]
pub(super) struct Wire {
    /// The only address with a listener.
    pub(super) address: String,
    pub(super) pushed: Vec<PushedGrant>,
    freed: Vec<String>,
}

impl Wire {
    /// Where hints are sent.
    pub(super) fn channel(&self) -> &str {
        self.address.split_once(';').expect("an address").1
    }
}

impl Publish for Wire {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        if address == ELSEWHERE {
            return Reached::Unknown;
        } else if address != self.address {
            return Reached::Nobody;
        }
        self.pushed.push(grant.clone());
        Reached::Somebody
    }

    fn hint(&mut self, channel: &str, key: &Arc<str>) -> Reached {
        if channel != self.channel() {
            return Reached::Nobody;
        }
        self.freed.push(key.to_string());
        Reached::Somebody
    }
}

impl<'a> Pair<'a> {
    pub(super) fn new(
        lab: &'a Lab,
        witness: &'a Witness,
        keys: [String; 2],
        (names, epochs): (Names, Epochs),
    ) -> Self {
        Self {
            lab,
            link: &lab.link,
            witness,
            keys,
            names,
            pure: Server::default(),
            wire: Wire {
                address: lab.link.address().unwrap().to_string(),
                pushed: Vec::new(),
                freed: Vec::new(),
            },
            time: BEGUN,
            clockwork: Clockwork::start(),
            other_type: BTreeSet::new(),
            epochs,
            run_epochs: (0, BEGUN + RUNS_AHEAD),
        }
    }

    pub(super) fn sends_scripts(&self) -> bool {
        self.link.address().is_some()
    }

    pub(super) async fn pass(&mut self, seconds: Seconds) {
        self.time += seconds * SECOND;
        clockwork::pass(seconds, self.lab, &self.every_key()).await;
    }

    /// The same by each server's clock.
    pub(super) async fn keep(&self, keep: Option<Seconds>) -> (Keep, Keep) {
        (kept(keep, self.real_time().await), kept(keep, self.time))
    }

    /// From here on runs have epochs.
    pub(super) async fn begin_runs(&mut self) {
        self.run_epochs.0 = self.real_time().await + RUNS_AHEAD;
    }

    /// The same, and what is said of a run that began so long ago.
    pub(super) async fn keep_and_note(
        &self,
        keep: Option<Seconds>,
        run: Option<(RunOutcome, Seconds)>,
        number: usize,
    ) -> (Keep, Keep) {
        let (real, pure) = self.keep(keep).await;
        let now = self.real_time().await;
        let with = |keep: Keep, now: u64, first: u64| {
            run.map_or(keep, |(outcome, ago)| {
                keep.with(RunNote {
                    start: now - ago * SECOND,
                    epoch: first + u64::try_from(number).unwrap(),
                    outcome,
                })
            })
        };
        let (first, first_pure) = self.run_epochs;
        (with(real, now, first), with(pure, self.time, first_pure))
    }

    /// The real server's time, in µs.
    pub(super) async fn real_time(&self) -> u64 {
        let (seconds, micros): (u64, u64) = self.lab.tell(&["TIME"]).await;
        seconds * SECOND + micros
    }

    /// Something else stands at this key from now on; `value`: what another program wrote.
    pub(super) async fn interfere(&mut self, at: usize, what: Foreign, value: &str) {
        let (lab, lock) = (self.lab, self.keys[at].clone());
        lab.tell::<Value>(&["DEL", &lock]).await;
        self.pure.remove(&lock);
        self.other_type.remove(&at);
        match what {
            Foreign::Nothing => {}
            Foreign::Value(_, ttl) => {
                let mut words = vec!["SET", &lock, value];
                let px = ttl.map(|ttl| (ttl * 1000).to_string());
                words.extend(px.iter().flat_map(|px| ["PX", px]));
                lab.tell::<Value>(&words).await;
                let expires = ttl.map(|ttl| self.time + ttl * SECOND);
                self.pure.put(&lock, value, expires);
            }
            Foreign::Set(ttl) => {
                let reader = entry::of_test(&Kind::Read, "r", "", seconds(30), "host|1|f|0");
                let until = lab.link.server_time() + ttl * SECOND;
                let (score, ends) = (until.to_string(), until.div_ceil(1000).to_string());
                let set = ["ZADD", &lock, &score, &reader, "inf", "1|#|rw"];
                lab.tell::<Value>(&set).await;
                lab.tell::<Value>(&["PEXPIREAT", &lock, &ends]).await;
                let before = self.pure.last_epoch();
                let until = self.time + ttl * SECOND;
                self.pure.put_entry(&lock, &reader, until, self.time);
                self.pure.set_last_epoch(before);
            }
            Foreign::List | Foreign::OtherSet => {
                let words = match what {
                    Foreign::List => &["LPUSH", &lock, "x"][..],
                    _ => &["ZADD", &lock, "1", "long over", "inf", "2|#|rw"],
                };
                lab.tell::<Value>(words).await;
                self.pure.put(&lock, ANOTHER_LAYOUT, None);
                self.other_type.insert(at);
            }
        }
    }

    /// Whether it is the answer about a key of another type, where that is expected.
    pub(super) fn is_other_type<T>(&self, at: usize, answer: &Result<T, CommandError>) -> bool {
        // `Layout`: a set that another version wrote
        let refusals = [Refusal::WrongType, Refusal::Layout];
        let is_one = matches!(answer, Err(CommandError::Refused(it, _)) if refusals.contains(it));
        self.witness.saw_if(is_one, "another layout");
        is_one && self.other_type.contains(&at)
    }

    pub(super) fn saw_released(&self, found: bool, keep: Option<Seconds>) {
        self.witness.saw(match (found, keep) {
            (true, Some(_)) => "kept",
            (true, None) => "released",
            (false, _) => "not held",
        });
    }

    pub(super) fn compare_cancelled(&self, real: Cancelled, pure: Cancelled) {
        let answer = |it: &Cancelled| (it.found, it.conclusive, it.rest);
        assert_eq!(real.is_recorded, pure.is_recorded, "cancel");
        assert_eq!(answer(&real), answer(&pure), "cancel");
        self.witness.saw(match answer(&pure) {
            (true, ..) => "cancelled",
            (false, true, _) => "nothing can come",
            (false, false, _) => "may come yet",
        });
    }

    pub(super) fn compare_acquired(&mut self, real: Acquired, pure: Acquired) {
        self.witness.saw(match pure {
            Acquired::Granted { .. } => "granted",
            Acquired::Yours { .. } => "granted before",
            Acquired::Busy(_) => "busy",
            Acquired::Queued(_) => "queued",
            Acquired::Late { .. } => "late",
            Acquired::WrongKind { .. } => "wrong kind",
            Acquired::NotDue(_) => "not due",
            Acquired::NoQuorum(_) => "of no server",
        });
        match (real, pure) {
            (Acquired::Granted { epoch: real, .. }, Acquired::Granted { epoch: pure, .. }) => {
                self.epochs.same(real, pure);
            }
            (
                Acquired::Yours {
                    epoch: real,
                    left: real_left,
                    ..
                },
                Acquired::Yours {
                    epoch: pure,
                    left: pure_left,
                    ..
                },
            ) => {
                self.epochs.same(real, pure);
                self.compare_left(real_left, pure_left);
            }
            (Acquired::Busy(real), Acquired::Busy(pure))
            | (Acquired::Queued(real), Acquired::Queued(pure)) => self.compare_busy(&real, &pure),
            (Acquired::Late { .. }, Acquired::Late { .. }) => {}
            (Acquired::WrongKind { there: real, .. }, Acquired::WrongKind { there: pure, .. }) => {
                self.epochs.same_meta(&real, &pure);
            }
            (Acquired::NotDue(real), Acquired::NotDue(pure)) => self.compare_not_due(&real, &pure),
            (real, pure) => panic!("acquire: {real:?} is not like {pure:?}"),
        }
    }

    /// The record that is told is compared as it is stored.
    fn compare_not_due(&self, real: &NotDue, pure: &NotDue) {
        self.compare_left(real.left, pure.left);
        let behind = |it: &NotDue| it.record.splitn(6, '|').nth(5).map(str::to_owned);
        assert_eq!(behind(real), behind(pure), "what ran");
    }

    pub(super) fn compare_together(&mut self, real: &AcquiredAll, pure: &AcquiredAll) {
        self.witness.saw(match pure {
            AcquiredAll::All { left: None, .. } => "several keys: all",
            AcquiredAll::All { .. } => "several keys: all before",
            AcquiredAll::Not { .. } => "several keys: none",
            AcquiredAll::Late { .. } => "several keys: late",
        });
        match (real, pure) {
            (
                AcquiredAll::All {
                    epochs: real,
                    left: real_left,
                    ..
                },
                AcquiredAll::All {
                    epochs: pure,
                    left: pure_left,
                    ..
                },
            ) => {
                assert_eq!(real.len(), pure.len());
                for (real, pure) in real.iter().zip(pure) {
                    self.epochs.same(*real, *pure);
                }
                assert_eq!(real_left.is_some(), pure_left.is_some());
                if let (Some(real), Some(pure)) = (real_left, pure_left) {
                    self.compare_left(*real, *pure);
                }
            }
            (
                AcquiredAll::Not { at: real, busy },
                AcquiredAll::Not {
                    at: pure,
                    busy: expected,
                },
            ) => {
                assert_eq!(real, pure, "who is in the way");
                if expected.value != ANOTHER_LAYOUT {
                    self.compare_busy(busy, expected);
                }
            }
            (AcquiredAll::Late { .. }, AcquiredAll::Late { .. }) => {}
            (real, pure) => panic!("together: {real:?} is not like {pure:?}"),
        }
    }

    pub(super) fn compare_polled(&mut self, real: Polled, pure: Polled) {
        self.witness.saw(match pure {
            Polled::Yours { .. } => "polled: granted",
            Polled::Queued(_) => "polled: queued",
            Polled::Gone { .. } => "polled: gone",
            Polled::NotDue(_) => "polled: not due",
        });
        match (real, pure) {
            (
                Polled::Yours {
                    epoch: real,
                    left: real_left,
                    ..
                },
                Polled::Yours {
                    epoch: pure,
                    left: pure_left,
                    ..
                },
            ) => {
                self.epochs.same(real, pure);
                self.compare_left(real_left, pure_left);
            }
            (Polled::Queued(real), Polled::Queued(pure)) => self.compare_busy(&real, &pure),
            (Polled::Gone { .. }, Polled::Gone { .. }) => {}
            (Polled::NotDue(real), Polled::NotDue(pure)) => self.compare_not_due(&real, &pure),
            (real, pure) => panic!("poll: {real:?} is not like {pure:?}"),
        }
    }

    pub(super) fn compare_busy(&self, real: &Busy, pure: &Busy) {
        assert_eq!(real.value, pure.value);
        match (real.left, pure.left) {
            (Left::For(real), Left::For(pure)) => self.compare_left(real, pure),
            (real, pure) => assert_eq!(real, pure),
        }
        let is_layout = pure.value.starts_with("2|");
        self.witness.saw_if(is_layout, "busy with another layout");
        self.witness
            .saw_if(pure.left == Left::Endless, "busy without an end");
    }

    pub(super) fn compare_left(&self, real: Duration, pure: Duration) {
        let (drift, slack) = (self.clockwork.drift(), Duration::from_millis(20));
        // Without scripts a key ends by an estimate of the server's time, which is as early as the
        // last answer was late.
        let early = if self.sends_scripts() {
            slack
        } else {
            drift + slack * 5
        };
        let least = pure.saturating_sub(drift + early);
        // PTTL says whole milliseconds.
        let pure = Duration::from_millis(u64::try_from(pure.as_micros().div_ceil(1000)).unwrap());
        assert!(
            real <= pure && real >= least,
            "{real:?} is not like {pure:?}"
        );
    }

    /// Which grants and hints reached which address, in which order.
    pub(super) async fn compare_told(&mut self) {
        // Answered after every push so far, in either protocol.
        self.lab.link.ping(CAP).await.unwrap();
        let freed = std::mem::take(&mut self.wire.freed);
        assert_eq!(self.lab.heard.take_freed(), freed, "who was told");
        self.witness
            .saw_if(!freed.is_empty(), "told that it is free");
        let (real, pure) = (self.lab.heard.take(), std::mem::take(&mut self.wire.pushed));
        assert_eq!(real.len(), pure.len(), "{real:?} is not like {pure:?}");
        for ((real, _), pure) in real.into_iter().zip(pure) {
            assert_eq!(
                (&real.key, &real.value, real.lease),
                (&pure.key, &pure.value, pure.lease)
            );
            if pure.value.starts_with("o|") {
                self.epochs.same(real.epoch, pure.epoch);
            } else {
                self.epochs.rise(real.epoch, pure.epoch);
            }
            self.witness.saw("granted from a queue");
        }
    }

    /// Compares the value at each key, its queue, who wants a hint there, and their ends.
    pub(super) async fn compare_all(&mut self) {
        let (seconds, micros, looks) = self.look().await;
        let now = Duration::from_secs(seconds) + Duration::from_micros(micros);
        for (index, (key, look)) in self.keys.clone().iter().zip(looks).enumerate() {
            let (held, waiting, hints, record) = look;
            self.compare_held(index, key, held, now);
            self.compare_queue(key, waiting, now);
            self.compare_hints(key, hints, now);
            self.compare_record(key, record, now);
        }
    }

    /// Times by each server's clock.
    fn compare_record(&mut self, key: &str, (real, left): (Option<String>, i64), now: Duration) {
        let pure = self.pure.stored_record(key, self.time);
        let ends = pure.as_ref().map(|it| End::at(it.expires));
        self.compare_end(left, ends);
        let (Some(real), Some(pure)) = (&real, pure) else {
            return; // neither, as the ends say
        };
        self.witness.saw("recorded");
        match (Record::read(real), Record::read(&pure.text)) {
            (Some(real), Some(pure)) => {
                let same =
                    |it: Record<'_>, first| (it.period, it.epoch.checked_sub(first), it.end > 0);
                let (first, first_pure) = self.run_epochs;
                assert_eq!(same(real, first), same(pure, first_pure), "the record");
                assert!(real.about == pure.about, "{real:?} is not like {pure:?}");
                self.compare_moment(real.start, now, pure.start);
            }
            _ => assert_eq!(**real, *pure.text, "what another version wrote"),
        }
    }

    fn compare_held(&mut self, at: usize, key: &str, (held, left, members): Held, now: Duration) {
        if self.other_type.contains(&at) {
            assert!(matches!(held.as_deref(), Some("a list" | "a foreign set")));
        } else if let Some(meta) = self.pure.meta(key, self.time) {
            self.epochs.same_meta(&held.unwrap_or_default(), &meta);
            let is_live = |it: &&(String, u64)| Duration::from_micros(it.1) > now;
            let live: Vec<_> = members.iter().filter(is_live).collect();
            self.witness
                .saw_if(live.len() < members.len(), "beside one that has lapsed");
            self.witness.saw_if(live.len() > 1, "several holders");
            self.compare_members(&live, now, key);
            // The key's own end is up to 2 ms after its last holder's.
            self.compare_end(left - 2, Some(End::at(self.pure.expires(key))));
        } else {
            let pure = self.pure.read(key, self.time);
            assert_eq!(held, pure, "what stands at {key}");
            let ends = pure.map(|_| End::at(self.pure.expires(key)));
            self.compare_end(left, ends);
        }
    }

    /// The holders of the lock, their order, and their ends.
    fn compare_members(&self, real: &[&(String, u64)], now: Duration, key: &str) {
        let pure = self.pure.clone().members(key, self.time);
        let expected: Vec<&str> = pure.iter().map(|it| &*it.0).collect();
        let names: Vec<&str> = real.iter().map(|it| &*it.0).collect();
        assert_eq!(names, expected, "who holds {key}");
        for ((_, real), (_, pure)) in real.iter().zip(&pure) {
            let real = Duration::from_micros(*real).saturating_sub(now);
            self.compare_left(real, Duration::from_micros(pure - self.time));
        }
    }

    fn compare_queue(&mut self, key: &str, (waiting, alive, ends): Waiting, now: Duration) {
        let pure = self.pure.waiting(key, self.time);
        let entries: Vec<&str> = pure.iter().map(|(entry, _)| &**entry).collect();
        assert_eq!(waiting, entries, "who waits for {key}");
        let beating: Vec<_> = pure.iter().filter(|(_, until)| *until > 0).collect();
        assert_eq!(alive.len(), beating.len());
        for (entry, until) in &beating {
            self.compare_moment(alive[&**entry], now, *until);
        }
        let pure = self.pure.queue_ends(key, self.time);
        let most = pure.map_or(i64::MAX, |at| {
            i64::try_from((at - self.time).div_ceil(1000)).unwrap()
        });
        let most = if self.link.address().is_none() {
            most
        } else {
            i64::MAX
        }; // anybody's poll keeps it
        let pure = pure.map(End::At);
        self.compare_end(ends.0.min(most), pure);
        self.compare_end(ends.1.min(most), pure.filter(|_| !beating.is_empty()));
    }

    fn compare_hints(&mut self, key: &str, (wanting, writers, left): Hints, now: Duration) {
        let pure = self.pure.writers_kept_out(key, self.time);
        assert_eq!(writers.len(), pure.len(), "{writers:?}, {pure:?}");
        for ((real, real_until), (until, pure)) in writers.iter().zip(&pure) {
            let pure = if pure.is_empty() { "-" } else { pure };
            assert_eq!(real.strip_prefix('w'), Some(pure), "the writers");
            self.compare_moment(real_until - BEHIND_ALL, now, *until);
        }
        let (pure, ends) = self.pure.hints(key, self.time).unzip();
        let pure: Vec<String> = pure.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(wanting, pure, "who wants a hint");
        self.compare_end(left, ends.map(End::At));
    }

    async fn look(&self) -> (u64, u64, Vec<Look>) {
        let (keys, mut words) = (self.every_key(), vec!["EVAL", LOOK]);
        let count = keys.len().to_string();
        words.push(&count);
        words.extend(keys.iter().map(String::as_str));
        self.lab.tell(&words).await
    }

    /// `None`: the key is absent.
    fn compare_end(&self, real: i64, pure: Option<End>) {
        match pure {
            None => assert_eq!(real, -2, "it is gone"),
            Some(End::Never) => assert_eq!(real, -1, "it does not end"),
            Some(End::At(at)) => {
                let real = Duration::from_millis(u64::try_from(real).expect("it ends"));
                self.compare_left(real, Duration::from_micros(at - self.time));
            }
        }
    }

    /// Each by its own clock; a heartbeat, or a writer's time, may have lapsed.
    fn compare_moment(&self, real: u64, now: Duration, pure: u64) {
        let left = |until: u64, now: Duration| {
            let ahead = Duration::from_secs(100);
            (Duration::from_micros(until) + ahead).saturating_sub(now)
        };
        let pure = left(pure, Duration::from_micros(self.time));
        self.compare_left(left(real, now), pure);
    }

    /// A lock, its queue, its heartbeats, its hints and its record.
    pub(super) fn keys_of(&self, lock: &str) -> [String; 5] {
        let keys = self.names.of(lock);
        let companions = [keys.queue, keys.heartbeats, keys.hints].map(Companion::text);
        let [queue, heartbeats, hints] = companions;
        [lock.to_owned(), queue, heartbeats, hints, keys.record()]
    }

    fn every_key(&self) -> Vec<String> {
        self.keys.iter().flat_map(|it| self.keys_of(it)).collect()
    }
}

/// When a key ends, by the pure machine's clock.
#[derive(Clone, Copy)]
enum End {
    Never,
    At(u64),
}

impl End {
    fn at(expires: Option<u64>) -> Self {
        expires.map_or(End::Never, End::At)
    }
}

/// Value or meta, PTTL, members of the set.
type Held = (Option<String>, i64, Vec<(String, u64)>);

/// Queue, heartbeats, PTTL of both.
type Waiting = (Vec<String>, HashMap<String, u64>, (i64, i64));

/// Who wants one, the writers that are kept out, PTTL of both.
type Hints = (Vec<String>, Vec<(String, u64)>, i64);

/// The record of the last run, PTTL.
type Recorded = (Option<String>, i64);

type Look = (Held, Waiting, Hints, Recorded);

/// What is added to the times of writers that are kept out, as in `lua/node.lua`.
const BEHIND_ALL: u64 = 4_503_599_627_370_496;

/// KEYS: the lock, queue, heartbeats, hints and record of each lock in turn.
const LOOK: &str = "
    local looks, behind_all = {}, '4503599627370496'
    for i = 1, #KEYS, 5 do
      local lock, W, A, H, R = unpack(KEYS, i, i + 4)
      local held, members = redis.call('TYPE', lock).ok, {}
      if held == 'zset' then
        local all = redis.call('ZRANGE', lock, 0, -1, 'WITHSCORES')
        held = table.concat(all, ' ') == 'long over 1 2|#|rw inf' and 'a foreign set' or all[#all - 1]
        for n = 1, #all - 2, 2 do
          members[#members + 1] = {all[n], all[n + 1]}
        end
      else
        held = held == 'list' and 'a list' or redis.call('GET', lock)
      end
      looks[#looks + 1] = {
        {held, redis.call('PTTL', lock), members},
        {
          redis.call('ZRANGE', W, 0, -1), redis.call('ZRANGE', A, 0, -1, 'WITHSCORES'),
          {redis.call('PTTL', W), redis.call('PTTL', A)},
        },
        {
          redis.call('ZRANGE', H, '0', '(' .. behind_all, 'BYSCORE'),
          redis.call('ZRANGE', H, behind_all, '+inf', 'BYSCORE', 'WITHSCORES'), redis.call('PTTL', H),
        },
        {redis.call('GET', R), redis.call('PTTL', R)},
      }
    end
    local time = redis.call('TIME')
    return {time[1], time[2], looks}";
