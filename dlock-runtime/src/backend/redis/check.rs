//! Asks a server for everything that a check judges, in one round trip. Nothing is changed, and
//! only commands are sent that the documented user may call: `CONFIG GET` would show passwords.

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Pipeline, RedisResult, Value};

use super::errors;
use super::link::RedisLink;
use super::native::Native;
use super::reply;
use super::scripts::{self, By};
use crate::backend::command_error::CommandError;
use crate::policy::server_check::Answers;
use crate::policy::server_check::rights::{RIGHTS, Refused, Right, Why, right};
use crate::values::error::Reason;

/// The sections of `INFO`; Redis 6.2 takes one at a time.
const SECTIONS: [&str; 4] = ["server", "memory", "replication", "persistence"];

/// The answers to [`questions`].
type Replies = [RedisResult<Value>; 9];

impl RedisLink {
    /// `with_scripts`: the pool may run scripts; only a script can try commands without changing
    /// anything.
    ///
    /// # Errors
    /// If nothing at all can be learned.
    pub(super) async fn query_settings(
        &self,
        with_scripts: bool,
        within: Duration,
    ) -> Result<Answers, CommandError> {
        let native = self.connection.deletes.known();
        let questions = questions(&self.unused_name(), native, with_scripts);
        let mut multiplexed = self.connection.multiplexed.clone();
        let asking = pin!(async move { questions.query_async(&mut multiplexed).await });
        let before = wall_clock();
        let (replies, sent) = self.connection.call::<Replies>(within, asking).await?;
        let after = wall_clock();
        let [
            ping,
            time,
            native,
            server,
            memory,
            replication,
            persistence,
            tried,
            evalsha,
        ] = replies;
        let mut answers = Answers {
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
        for (name, answer) in [
            ("ping", ping),
            ("command|info", native),
            ("evalsha", evalsha),
        ] {
            if let Err(error) = answer {
                note(&mut answers, name, &errors::command_error(&error));
            }
        }
        for section in [server, memory, replication, persistence] {
            read_info(&mut answers, section);
        }
        if with_scripts {
            read_tried(&mut answers, tried);
        } else {
            let why = "the pool is without scripts, which alone can try commands harmlessly";
            answers.untried = Some(Reason::new(why));
        }
        Ok(answers)
    }

    /// A key and a channel that nobody uses, because no other connection has our channel.
    fn unused_name(&self) -> String {
        format!("{}:check", self.connection.push_receiver.channel())
    }
}

fn questions(unused: &str, native: Option<Native>, with_scripts: bool) -> Pipeline {
    let mut all = redis::pipe();
    all.cmd("PING").cmd("TIME").add_command(Native::question());
    for section in SECTIONS {
        all.cmd("INFO").arg(section);
    }
    all.ignore_errors(); // each has its own answer
    if !with_scripts {
        all.cmd("PING").cmd("PING"); // in place of two scripts
        return all;
    }
    let is_there = |right: &Right| match right.name {
        "delex" => native == Some(Native::Delex),
        "delifeq" => native == Some(Native::Delifeq),
        _ => true,
    };
    let tried = RIGHTS.iter().filter(|right| is_there(right));
    let tried = tried.filter_map(|right| Some(format!("{} {}", right.name, right.after_key?)));
    let tried: Vec<String> = tried.collect();
    all.add_command(scripts::RIGHTS.call(By::Text, &[unused], &tried));
    let none: [&str; 0] = [];
    all.add_command(scripts::RIGHTS.call(By::Hash, &[unused], &none));
    all
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

/// µs since 1970; 0 if this machine's clock is before that.
fn wall_clock() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i128::try_from(it.as_micros()).unwrap_or(i128::MAX))
}
