//! Asks a server for everything that a check judges, in one round trip. Nothing is changed, and
//! only commands are sent that the documented user may call: `CONFIG GET` would show passwords.

use std::pin::pin;
use std::time::Duration;

use redis::{Pipeline, RedisResult, Value};

use super::beside;
use super::errors;
use super::link::RedisLink;
use super::native::Native;
use super::reads::Reads;
use super::reply;
use super::scripts::{self, CallBy};
use crate::extras::server_check::Answers;
use crate::extras::server_check::rights::{RIGHTS, Refused, Right, Why, right};
use crate::link::clock::wall_clock;
use crate::link::command_error::CommandError;
use crate::link::joined::both;
use crate::values::error::Reason;
use crate::values::slot::tag;

/// The sections of `INFO`; Redis 6.2 takes one at a time.
const SECTIONS: [&str; 4] = ["server", "memory", "replication", "persistence"];

/// What a pool without scripts calls on a lock or its queue; `INCR` is not among them, because it
/// would create a key.
const ON_A_KEY: [&str; 13] = [
    "get", "getrange", "set", "del", "pttl", "pexpire", "zadd", "zrem", "zrange", "zscore",
    "zcard", "delex", "delifeq",
];

/// The answers to [`questions`].
type CheckReplies = Vec<RedisResult<Value>>;

impl RedisLink {
    /// `with_scripts`: the pool may run scripts, so commands are tried in one, as its own scripts
    /// call them.
    ///
    /// # Errors
    /// If nothing at all can be learned.
    pub(crate) async fn query_settings(
        &self,
        with_scripts: bool,
        within: Duration,
    ) -> Result<Answers, CommandError> {
        let native = self.connection.deletes.known();
        let unused = self.unused_names();
        let of_cluster = self.connection.of_cluster.is_some();
        let (questions, tried) = questions(&unused, native, with_scripts, of_cluster);
        let mut multiplexed = self.connection.multiplexed.clone();
        let asking = pin!(async move { questions.query_async(&mut multiplexed).await });
        let before = wall_clock();
        let asked = self.connection.call::<CheckReplies>(within, asking);
        let (asked, ()) = both(asked, beside::look(&self.connection, within)).await;
        let (replies, sent) = asked?;
        let after = wall_clock();
        let mut replies = replies.into_iter();
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        let [ping, time, native] = [next(), next(), next()];
        let sections = SECTIONS.map(|_| next());
        let mut answers = Answers {
            several: self.connection.target.several(),
            pushes: self.pushes.clone(),
            ..Answers::default()
        };
        match time {
            Ok(time) => {
                let time = reply::time(&time)?;
                self.connection.heard_time(time, sent);
                let time = i128::from(time);
                answers.clock.ahead = Some((time - after, time - before));
            }
            Err(error) => {
                let error = errors::command_error(&error);
                if !note(&mut answers, "time", &error) {
                    return Err(error); // it is loading, or busy: everything else failed as well
                }
            }
        }
        let (ppm, stepped) = self.connection.pace.told();
        (answers.clock.ppm, answers.clock.stepped) = (ppm, stepped);
        for (name, answer) in [("ping", &ping), ("command|info", &native)] {
            note_refused(&mut answers, name, answer);
        }
        for section in sections {
            read_info(&mut answers, section);
        }
        if with_scripts {
            read_tried(&mut answers, next());
        }
        for name in tried {
            let answer = next();
            note_refused(&mut answers, name, &answer);
            if let (CLUSTER_INFO, Ok(info)) = (name, &answer) {
                answers.cluster_info = reply::text(info);
            }
            if OF_TWO_SLOTS.contains(&name) {
                answers.takes_several_slots = takes_several_slots(&answer);
            }
        }
        Ok(answers)
    }

    /// Two keys in different hash slots that nobody uses, because no other connection has our
    /// channel; the first is a channel too, and at a node of a cluster in a slot of that node. Names
    /// that differ in the last bit only never hash to the same slot.
    fn unused_names(&self) -> [String; 2] {
        let channel = self.connection.push_receiver.channel();
        let of_cluster = self.connection.of_cluster.as_ref();
        let slot = of_cluster.and_then(|it| it.redirects.upgrade()?.slot_of(&it.host));
        match slot {
            None => [0, 1].map(|number| format!("{channel}:check{number}")),
            Some(slot) => [slot, slot ^ 1].map(|slot| format!("{channel}:check{{{}}}", tag(slot))),
        }
    }
}

/// The commands that are sent with both unused names.
const OF_TWO_SLOTS: [&str; 2] = ["evalsha", "watch"];

const CLUSTER_INFO: &str = "cluster|info";

/// What is sent, and which rights are tried by what comes behind `INFO` and, with scripts, `EVAL`.
fn questions(
    unused: &[String; 2],
    native: Option<Native>,
    with_scripts: bool,
    of_cluster: bool,
) -> (Pipeline, Vec<&'static str>) {
    let mut all = redis::pipe();
    all.cmd("PING").cmd("TIME").add_command(Native::question());
    for section in SECTIONS {
        all.cmd("INFO").arg(section);
    }
    all.ignore_errors(); // each has its own answer
    let is_there = |right: &&Right| match right.name {
        "delex" => native == Some(Native::Delex),
        "delifeq" => native == Some(Native::Delifeq),
        _ => true,
    };
    let on_a_key = RIGHTS.iter().filter(is_there);
    let on_a_key = on_a_key.filter_map(|right| Some((right.name, right.after_key?)));
    let [one, two] = unused;
    if with_scripts {
        let tried = on_a_key.map(|(name, after_key)| format!("{name} {after_key}"));
        let tried: Vec<String> = tried.collect();
        all.add_command(scripts::RIGHTS.call(CallBy::Text(Reads::Whole), &[one], &tried));
        let none: [&str; 0] = [];
        all.add_command(scripts::RIGHTS.call(CallBy::Hash(Reads::Whole), &[one, two], &none));
        if !of_cluster {
            return (all, vec!["evalsha"]);
        }
        // `ASKING` is about the next command alone, which must not be another caller's.
        all.cmd("ASKING").cmd("CLUSTER").arg("INFO");
        return (all, vec!["evalsha", "asking", CLUSTER_INFO]);
    }
    let mut tried = Vec::new();
    for (name, after_key) in on_a_key.filter(|(name, _)| ON_A_KEY.contains(name)) {
        all.cmd(name)
            .arg(one)
            .arg(after_key.split_ascii_whitespace().collect::<Vec<_>>());
        tried.push(name);
    }
    // Nobody changes these keys, so that a `WATCH` that stays breaks no transaction.
    all.cmd("WATCH").arg(one).arg(two).cmd("UNWATCH");
    all.cmd("MULTI").cmd("EXEC");
    tried.extend(["watch", "unwatch", "multi", "exec"]);
    (all, tried)
}

/// Whether the server took keys of two hash slots in one command; `None`: it refused the command for
/// another reason.
fn takes_several_slots(answer: &RedisResult<Value>) -> Option<bool> {
    match answer {
        Ok(Value::Array(_) | Value::Okay) => Some(true),
        Ok(_) => None,
        Err(error) => errors::is_cross_slot(&error.to_string()).then_some(false),
    }
}

fn note_refused(answers: &mut Answers, name: &str, answer: &RedisResult<Value>) {
    if let Err(error) = answer {
        note(answers, name, &errors::command_error(error));
    }
}

/// Notes a refused command; `false` if it was not refused for want of a right.
fn note(answers: &mut Answers, name: &str, error: &CommandError) -> bool {
    let said = words(error).to_string();
    let refused = right(name).zip(Why::of(&said));
    let refused = refused.map(|(right, why)| Refused { right, why });
    answers.refused.extend(refused);
    refused.is_some()
}

/// The server's own words.
fn words(error: &CommandError) -> Reason {
    match error {
        CommandError::Refused(_, said) => said.clone(),
        other => Reason::new(other),
    }
}

fn read_info(answers: &mut Answers, section: RedisResult<Value>) {
    match section {
        Ok(section) => {
            answers.info += &reply::text(&section).unwrap_or_default();
            answers.info.push('\n');
        }
        Err(error) if answers.no_info.is_none() => {
            let error = errors::command_error(&error);
            note(answers, "info", &error);
            answers.no_info = Some(words(&error));
        }
        Err(_) => {}
    }
}

/// Reads the answer of `lua/rights.lua`.
fn read_tried(answers: &mut Answers, tried: RedisResult<Value>) {
    match tried {
        Ok(tried) if read_failed(answers, &tried).is_some() => {}
        Ok(other) => answers.untried = Some(words(&reply::unexpected("EVAL", &other))),
        Err(error) => {
            let error = errors::command_error(&error);
            note(answers, "eval", &error);
            answers.untried = Some(words(&error));
        }
    }
}

fn read_failed(answers: &mut Answers, tried: &Value) -> Option<()> {
    let Value::Array(failed) = tried else {
        return None;
    };
    for pair in failed {
        let Value::Array(pair) = pair else {
            return None;
        };
        let (name, said) = pair.first().zip(pair.get(1))?;
        let name = right(&reply::text(name)?)?.name;
        // Another error than a missing right comes after the check of rights: out of memory.
        note(answers, name, &errors::error_of_item(&reply::text(said)?));
    }
    Some(())
}
