//! Commands about one key each, for a slot of a cluster that is moving: its keys are at the node
//! that serves it or, from one moment to the next, at the one that it moves to. A script over
//! several keys is executed at neither (`TRYAGAIN`), a command about one key at the right one: the
//! first node answers `ASK` for a key that it has no more, and the second takes it behind `ASKING`.
//!
//! Invariant: a command goes to the second node only if the first one has just said so of this
//! command. There a key that is missing counts as missing.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::time::Instant;

use super::RedisLink;
use crate::backend::command_error::CommandError;
use crate::backend::redis::scripts::{self, By};
use crate::policy::commands::{Claim, GivenBack};
use crate::values::config::Host;
use crate::values::error::Reason;

/// The answer to one command: the server's, or why there is none.
type Answered = Result<Value, CommandError>;

impl RedisLink {
    /// Sends each command to the node that has its key. One answer for each, in order.
    pub(super) async fn at_its_node(&self, commands: &[Cmd], within: Duration) -> Vec<Answered> {
        let until = Instant::now() + within;
        let left = || until.saturating_duration_since(Instant::now());
        let sent = match within {
            Duration::ZERO => Err(CommandError::Unsent(Reason::new("no time is left"))),
            within => {
                let all = pipeline(commands.iter(), false);
                self.connection.exchange(all, within).await
            }
        };
        let answers = match sent {
            Ok((answers, _)) => answers,
            Err(error) => return commands.iter().map(|_| Err(error.clone())).collect(),
        };
        let cluster = self.connection.of_cluster.as_ref();
        let asks = |answer| cluster.and_then(|cluster| cluster.asks(answer));
        let mut asked: BTreeMap<Host, Vec<usize>> = BTreeMap::new();
        for (at, answer) in answers.iter().enumerate() {
            if let Some(node) = asks(answer) {
                asked.entry(node).or_default().push(at);
            }
        }
        let mut answered: Vec<Answered> = answers.into_iter().map(|it| self.read_one(it)).collect();
        let redirects = cluster.and_then(|cluster| cluster.redirects.upgrade());
        for (node, places) in asked {
            let Some(redirects) = redirects.as_ref().filter(|_| !left().is_zero()) else {
                break;
            };
            let theirs = places.iter().filter_map(|at| commands.get(*at));
            let sent = redirects.send(node, pipeline(theirs, true), left()).await;
            // Behind the answer to each `ASKING`.
            let theirs = sent.unwrap_or_default().into_iter().skip(1).step_by(2);
            for (at, answer) in places.into_iter().zip(theirs) {
                if let Some(place) = answered.get_mut(at) {
                    *place = self.read_one(answer);
                }
            }
        }
        answered
    }

    fn read_one(&self, answer: Value) -> Answered {
        match self.connection.error_of_answer(&answer) {
            None => Ok(answer),
            Some(error) => Err(error),
        }
    }

    /// The same, for one.
    pub(super) async fn one_at_its_node(&self, command: Cmd, within: Duration) -> Answered {
        let answers = self.at_its_node(&[command], within).await;
        let none = || Err(CommandError::Unsent(Reason::new("no answer")));
        answers.into_iter().next().unwrap_or_else(none)
    }

    /// Deletes an exclusive lock's key if the claim holds it. Those who wait for it learn of that by
    /// their polls.
    pub(super) async fn release_key(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<GivenBack, CommandError> {
        let release = scripts::RELEASE_KEY.call(By::Text, &[&*claim.key], &[&*claim.value]);
        let answer = self.one_at_its_node(release, within).await?;
        Ok(GivenBack {
            found: answer == Value::Int(1),
            ..GivenBack::default()
        })
    }
}

fn pipeline<'a>(commands: impl Iterator<Item = &'a Cmd>, asking: bool) -> Pipeline {
    let mut all = redis::pipe();
    for command in commands {
        if asking {
            all.cmd("ASKING");
        }
        all.add_command(command.clone());
    }
    all
}
