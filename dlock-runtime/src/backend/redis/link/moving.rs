//! Commands about one key each, for a slot of a cluster that is moving: its keys are at the node
//! that serves it or, from one moment to the next, at the one that it moves to. A script over
//! several keys is executed at neither (`TRYAGAIN`), a command about one key at the right one: the
//! first node answers `ASK` for a key that it has no more, and the second takes it behind `ASKING`.
//!
//! Invariant: a command goes to the second node only if the first one has just said so of this
//! command. There a key that is missing counts as missing.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisLink;
use crate::backend::command_error::CommandError;
use crate::backend::redis::scripts::{self, By};
use crate::policy::commands::{Claim, GivenBack};
use crate::values::error::Reason;

/// The answer to one command: the server's, or why there is none.
type Answered = Result<Value, CommandError>;

impl RedisLink {
    /// Sends each command to the node that has its key. One answer for each, in order.
    pub(super) async fn at_its_node(&self, commands: &[Cmd], within: Duration) -> Vec<Answered> {
        let until = Instant::now() + within;
        let left = || until.saturating_duration_since(Instant::now());
        let mut answered = self.each(commands, false, within).await;
        let Some(cluster) = &self.connection.of_cluster else {
            return answered.into_iter().map(|(_, answer)| answer).collect();
        };
        // Those that are said to be at one node go there together.
        while let Some(ask) = answered.iter().find_map(|(asks, _)| asks.clone()) {
            let is_there = |(asks, _): &(Option<Value>, Answered)| asks.as_ref() == Some(&ask);
            let moved: Vec<usize> = (0..)
                .zip(&answered)
                .filter(|(_, it)| is_there(it))
                .map(|(at, _)| at)
                .collect();
            let next: Option<Arc<RedisLink>> = cluster.has_it(&ask, left()).await;
            let theirs = moved.iter().filter_map(|at| commands.get(*at).cloned());
            let theirs: Vec<Cmd> = theirs.collect();
            let answers = match &next {
                Some(next) => next.each(&theirs, true, left()).await,
                None => Vec::new(),
            };
            let mut answers = answers.into_iter().map(|(_, answer)| answer);
            for at in moved {
                if let Some((asks, answer)) = answered.get_mut(at) {
                    *asks = None;
                    if let Some(theirs) = answers.next() {
                        *answer = theirs;
                    }
                }
            }
        }
        answered.into_iter().map(|(_, answer)| answer).collect()
    }

    /// One answer for each command; beside it the answer that names another node, if it is one.
    async fn each(
        &self,
        commands: &[Cmd],
        asking: bool,
        within: Duration,
    ) -> Vec<(Option<Value>, Answered)> {
        let mut all = redis::pipe();
        for command in commands {
            if asking {
                all.cmd("ASKING");
            }
            all.add_command(command.clone());
        }
        let answers = match within {
            Duration::ZERO => Err(CommandError::Unsent(Reason::new("no time is left"))),
            within => self.connection.exchange(all, within).await,
        };
        match answers {
            Ok((answers, _)) => {
                let apart = if asking { 2 } else { 1 };
                let answers = answers.into_iter().skip(apart - 1).step_by(apart);
                answers.map(|answer| self.read_one(answer)).collect()
            }
            Err(error) => commands
                .iter()
                .map(|_| (None, Err(error.clone())))
                .collect(),
        }
    }

    fn read_one(&self, answer: Value) -> (Option<Value>, Answered) {
        match self.connection.error_of_answer(&answer) {
            None => (None, Ok(answer)),
            Some(error @ CommandError::Moving(_)) => (Some(answer), Err(error)),
            Some(error) => (None, Err(error)),
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
