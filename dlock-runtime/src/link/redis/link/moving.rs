//! Commands about one key each, for a slot of a cluster that is moving: its keys are at the node
//! that serves it or, from one moment to the next, at the one that it moves to. A script over
//! several keys is executed at neither (`TRYAGAIN`), a command about one key at the right one: the
//! first node answers `ASK` for a key that it has no more, and the second takes it behind `ASKING`.
//!
//! The lock's own key alone decides who holds it, so a lock is also taken by it, in four steps: take
//! the key; look at it, because the move may have been given up before the take arrived at the second
//! node; draw an epoch; look again, because only a holder's epoch counts. Nobody enters the queue
//! meanwhile, and whoever finds the lock free leaves it: the order of arrival is not kept.
//! `rules/tests/slot_move.rs` explores this.
//!
//! Invariant: a command goes to the second node only if the first one has just said so of this
//! command. There a key that is missing counts as missing.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::RedisLink;
use super::operations::{Repetitions, left};
use crate::link::command_error::CommandError;
use crate::link::redis::calls::{self, ScriptCall};
use crate::link::redis::errors;
use crate::link::redis::reply::{self, unexpected};
use crate::rules::commands::{Acquire, Acquired, Cancelled, Claim, GivenBack, Keep, Polled};
use crate::values::config::Host;
use crate::values::error::Reason;
use crate::values::ttl::Ttl;

/// The answer to one command: the server's, or why there is none.
pub(super) type NodeAnswer = Result<Value, CommandError>;

impl RedisLink {
    /// Sends each command to the node that has its key. One answer for each, in order.
    pub(super) async fn at_its_node(&self, commands: &[Cmd], within: Duration) -> Vec<NodeAnswer> {
        let until = Instant::now() + within;
        let sent = match within {
            Duration::ZERO => Err(no_time()),
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
        let mut answered: Vec<NodeAnswer> =
            answers.into_iter().map(|it| self.read_one(it)).collect();
        let redirects = cluster.and_then(|cluster| cluster.redirects.upgrade());
        let Some(redirects) = redirects.filter(|_| !left(until).is_zero()) else {
            return answered;
        };
        let mut asking = JoinSet::new(); // at the same time: one of them may hang
        for (node, places) in asked {
            let theirs = places.iter().filter_map(|at| commands.get(*at).cloned());
            let (theirs, redirects) = (theirs.collect(), redirects.clone());
            asking.spawn(async move {
                match redirects.ask(node, theirs, left(until)).await {
                    Ok(theirs) => (places, theirs),
                    Err(error) => {
                        let each = places.iter().map(|_| Err(error.clone())).collect();
                        (places, each)
                    }
                }
            });
        }
        while let Some(ended) = asking.join_next().await {
            let Ok((places, theirs)) = ended else {
                continue; // the runtime is shutting down
            };
            for (at, answer) in places.into_iter().zip(theirs) {
                if let Some(place) = answered.get_mut(at) {
                    *place = answer;
                }
            }
        }
        answered
    }

    /// Sends each command behind an `ASKING`. If that was refused, the node takes the command for
    /// one of another slot and refuses it, too, unless the slot has become its own meanwhile.
    pub(crate) async fn asking(
        &self,
        commands: &[Cmd],
        within: Duration,
    ) -> Result<Vec<NodeAnswer>, CommandError> {
        let all = pipeline(commands.iter(), true);
        let (answers, _) = self.connection.exchange(all, within).await?;
        let mut answers = answers.into_iter().map(|it| self.read_one(it));
        let pairs = std::iter::from_fn(|| answers.next().zip(answers.next()));
        let both =
            |(asking, answer): (NodeAnswer, NodeAnswer)| answer.or_else(|why| asking.and(Err(why)));
        Ok(pairs.map(both).collect())
    }

    fn read_one(&self, answer: Value) -> NodeAnswer {
        match self.connection.error_of_answer(&answer) {
            None => Ok(answer),
            Some(error) => Err(error),
        }
    }

    /// The same, for one.
    pub(super) async fn one_at_its_node(&self, command: Cmd, within: Duration) -> NodeAnswer {
        let answers = self.at_its_node(&[command], within).await;
        let none = || Err(CommandError::Unclear(Reason::new("no answer")));
        answers.into_iter().next().unwrap_or_else(none)
    }

    /// Runs a script about a lock's key alone; again while it has lapsed entries to remove.
    async fn by_key(&self, key: &str, call: ScriptCall<'_>, until: Instant) -> NodeAnswer {
        if left(until).is_zero() {
            return Err(no_time());
        }
        let (mut rounds, reads) = (Repetitions::new(left(until)), self.connection.reading.now());
        loop {
            let answer = self
                .one_at_its_node(call.about(key, reads), rounds.next()?)
                .await?;
            if !reply::says_again(&answer) {
                return Ok(answer);
            }
        }
    }

    /// Takes a lock. An answer that says `Queued` would be wrong, for nobody enters the queue.
    pub(crate) async fn acquire_by_key(
        &self,
        command: &Acquire,
        until: Instant,
    ) -> Result<Acquired, CommandError> {
        let claim = &command.claim;
        let taken = self.by_key(&claim.key, calls::acquire_key(command), until);
        let taken = reply::acquired(&taken.await?)?;
        let drawn = match taken {
            Acquired::Granted { time, .. } | Acquired::Yours { time, .. } => {
                self.draw_for(claim, time, until).await
            }
            Acquired::Queued(busy) => return Ok(Acquired::Busy(busy)),
            not_taken => return Ok(not_taken),
        };
        let epoch = match drawn {
            Ok(epoch) => epoch,
            // No retry ends it, and nothing must be left of what was taken.
            Err(refused @ CommandError::Refused(..)) => {
                let back = self.release_by_key(claim, Keep::NOT, until).await;
                return Err(if back.is_ok() {
                    refused
                } else {
                    CommandError::Unclear(refused.reason())
                });
            }
            // It was taken, so every error leaves it open.
            Err(error) => return Err(CommandError::Unclear(error.reason())),
        };
        Ok(match taken {
            Acquired::Yours { time, left, .. } => Acquired::Yours { time, epoch, left },
            taken => Acquired::Granted {
                time: taken.time(),
                epoch,
            },
        })
    }

    /// Draws an epoch for a claim that holds its lock, between two looks at it.
    /// `time`: the server's, of an answer before.
    async fn draw_for(
        &self,
        claim: &Claim,
        time: u64,
        until: Instant,
    ) -> Result<u64, CommandError> {
        let counter = self.connection.names.of(&claim.key).counter;
        self.confirm(claim, 0, until).await?;
        let answer = self.by_key(&counter, calls::draw(), until).await;
        let answer = answer.map_err(|error| errors::of_companion(&counter, error))?;
        let drawn = reply::number(&answer).ok_or_else(|| unexpected("draw", &answer))?;
        self.believe(&claim.key, Some(drawn), time)?;
        self.confirm(claim, drawn, until).await
    }

    /// Looks at a lock that the claim should hold. Returns the epoch of its hold.
    async fn confirm(
        &self,
        claim: &Claim,
        drawn: u64,
        until: Instant,
    ) -> Result<u64, CommandError> {
        let confirm = calls::confirm_key(claim, drawn);
        let answer = self.by_key(&claim.key, confirm, until).await?;
        if answer == Value::Int(-1) {
            let why = "lost while its slot was moving";
            return Err(CommandError::Unclear(Reason::new(why)));
        }
        reply::number(&answer).ok_or_else(|| unexpected("confirm", &answer))
    }

    /// What became of a claim that may be queued. If the lock is free, the claim leaves the queue,
    /// and its caller takes the lock with a fresh token.
    pub(crate) async fn poll_by_key(
        &self,
        claim: &Claim,
        until: Instant,
    ) -> Result<Polled, CommandError> {
        let look = async || {
            let answer = self.by_key(&claim.key, calls::poll_key(claim), until);
            reply::polled(&answer.await?)
        };
        let mut found = look().await?;
        if let Polled::Gone { .. } = found {
            self.leave_by_key(claim, until).await?;
            found = look().await?; // granted in between, perhaps
        }
        let Polled::Yours { time, left, .. } = found else {
            return Ok(found);
        };
        let epoch = self.draw_for(claim, time, until).await?;
        Ok(Polled::Yours { time, epoch, left })
    }

    /// Leaves the queue; whether the claim stood there.
    async fn leave_by_key(&self, claim: &Claim, until: Instant) -> Result<bool, CommandError> {
        let of = self.connection.names.of(&claim.key);
        let leave = [of.queue, of.heartbeats].map(|it| Cmd::zrem(it.text(), &*claim.value));
        let mut stood_there = false;
        for answer in self.at_its_node(&leave, left(until)).await {
            stood_there |= match answer {
                Err(error) if errors::is_wrong_type(&error) => false, // nobody stands there
                answer => answer? == Value::Int(1),
            };
        }
        Ok(stood_there)
    }

    /// Leaves the queue first: then nobody grants the lock to the claim any more.
    pub(crate) async fn cancel_by_key(
        &self,
        claim: &Claim,
        (keep, not_after): (Keep, u64),
        until: Instant,
    ) -> Result<Cancelled, CommandError> {
        let was_queued = claim.queues && self.leave_by_key(claim, until).await?;
        let cancel = calls::cancel_key(claim, keep, not_after);
        let answer = self.by_key(&claim.key, cancel, until).await?;
        let cancelled = reply::cancelled(&answer)?.answer;
        if !(cancelled.found || cancelled.conclusive || was_queued) {
            // It went another way than the acquire, and may have overtaken it.
            return Err(CommandError::Unclear(Reason::new(
                "the acquire may arrive yet",
            )));
        }
        Ok(Cancelled {
            found: cancelled.found || was_queued,
            conclusive: cancelled.conclusive || was_queued,
            ..cancelled
        })
    }

    /// Nobody is granted the lock: those who wait for it find it free by their polls.
    pub(crate) async fn release_by_key(
        &self,
        claim: &Claim,
        keep: Keep,
        until: Instant,
    ) -> Result<GivenBack, CommandError> {
        let release = calls::cancel_key(claim, keep, 0);
        let answer = self.by_key(&claim.key, release, until).await?;
        let Cancelled { found, rest, .. } = reply::cancelled(&answer)?.answer;
        Ok(GivenBack {
            found,
            rest,
            is_open: false,
            is_recorded: false,
        })
    }

    pub(crate) async fn downgrade_by_key(
        &self,
        claim: &Claim,
        ttl: Ttl,
        until: Instant,
    ) -> Result<bool, CommandError> {
        let downgrade = calls::downgrade_key(claim, ttl);
        let answer = self.by_key(&claim.key, downgrade, until).await?;
        Ok(reply::downgraded(&answer)?.answer)
    }
}

fn no_time() -> CommandError {
    CommandError::Unsent(Reason::new("no time is left"))
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
