//! The protocol's commands over a connection: chooses the script or the batcher for each operation,
//! repeats a script that has more entries to remove, and reads the reply. Every repetition fits
//! within the time of the command.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::runtime::Handle;
use tokio::time::Instant;

use super::RedisLink;
use super::moving::NodeAnswer;
use crate::extras::server_check::Answers;
use crate::link::batched::{BatchedAnswer, ReleaseCommand};
use crate::link::command_error::CommandError;
use crate::link::redis::calls::{self, ScriptCall};
use crate::link::redis::push;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply::{self, Done, Holders};
use crate::link::redis::scripts::{self, CallBy};
use crate::link::{Answer, Link, LinkCommand, LinkReply, replied};
use crate::rules::commands::{
    Acquire, Acquired, AcquiredAll, Cancelled, Claim, GivenBack, Keep, Polled,
};
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;
use crate::values::report::Notice;
use crate::values::ttl::Ttl;
use crate::values::{entry, token};

impl Link for RedisLink {
    fn server_time_at(&self, now: Moment) -> u64 {
        let clock = self
            .connection
            .server_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        clock.at(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        Some(&self.connection.runtime)
    }

    fn address(&self) -> Option<&Arc<str>> {
        self.address.as_ref()
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        if command.claim.is_once || command.claim.kind().is_shared() {
            return BatchedAnswer::Boxed(Box::pin(self.acquire_shared(command, within)));
        }
        BatchedAnswer::new(self, command, within)
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        if claim.is_once || claim.kind().is_shared() {
            return BatchedAnswer::Boxed(Box::pin(self.release_shared(claim, keep, within)));
        }
        BatchedAnswer::new(self, ReleaseCommand { claim, keep }, within)
    }

    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply> {
        match command {
            LinkCommand::AcquireAll(commands) => replied(self.acquire_all(commands, within)),
            LinkCommand::Poll(claim) => replied(self.poll(claim, within)),
            LinkCommand::Heartbeat(claim) => replied(self.heartbeat(claim, within)),
            LinkCommand::Cancel {
                claim,
                keep,
                not_after,
            } => replied(self.cancel(claim, keep, not_after, within)),
            LinkCommand::Renew(items) => replied(self.renew(items, within)),
            LinkCommand::Downgrade { claim, ttl } => replied(self.downgrade(claim, ttl, within)),
            LinkCommand::Vote(ballot) => replied(self.vote(ballot, within)),
            LinkCommand::Adopt { claim, epoch } => replied(self.adopt(claim, epoch, within)),
            LinkCommand::Holds(claim) => replied(self.holds(claim, within)),
            LinkCommand::Write(claim, writes) => replied(self.write(claim, writes, within)),
            LinkCommand::NoteRun { claim, run } => replied(self.note_run(claim, run, within)),
            LinkCommand::LastRun(key) => replied(self.last_run(key, within)),
            LinkCommand::ClearRecord(key) => replied(self.clear_record(key, within)),
            LinkCommand::Read(key) => replied(self.read(key, within)),
            LinkCommand::Scan {
                sought,
                prefix,
                cursor,
            } => replied(self.scan(sought, prefix, cursor, within)),
            LinkCommand::Inspect { keys, part } => replied(self.inspect(keys, part, within)),
            LinkCommand::TellEvicted(claim) => replied(self.tell_evicted(claim, within)),
            LinkCommand::Ping => replied(self.ping(within)),
            LinkCommand::Check => replied(self.check(within)),
        }
    }
}

/// The commands that are sent by themselves.
impl RedisLink {
    pub(crate) async fn acquire_all(
        &self,
        commands: &[Acquire],
        within: Duration,
    ) -> Result<AcquiredAll, CommandError> {
        let call = calls::acquire_all(commands, &self.connection.names);
        let (keys, mut arguments) = (borrowed(&call.keys), borrowed(&call.arguments));
        arguments.push(self.connection.grant_key.argument());
        let mut rounds = Repetitions::new(within);
        let (reply, sent) = loop {
            let within = rounds.next()?;
            let reply = self
                .connection
                .script(&scripts::ACQUIRE_ALL, &keys, &arguments, within);
            let (reply, sent) = match reply.await {
                Err(error) => {
                    let first = commands.first().map_or("", |it| &*it.claim.key);
                    return Err(Box::pin(self.blamed(first, error, rounds.until)).await);
                }
                Ok(reply) => reply,
            };
            if !reply::says_again(&reply) {
                break (reply, sent);
            }
        };
        let answer = reply::acquired_all(&reply, commands.len())?;
        if let (Some(first), highest) = (commands.first(), answer.epochs().iter().max()) {
            self.believe(&first.claim.key, highest.copied(), answer.time())?;
        }
        self.connection.heard_time(answer.time(), sent);
        Ok(answer)
    }

    pub(crate) async fn poll(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<Polled, CommandError> {
        let until = Instant::now() + within;
        let call = || calls::poll(claim);
        let (reply, sent) = match self.repeated(&claim.key, call, within).await {
            Err(CommandError::Moving(_)) => {
                return Box::pin(self.poll_by_key(claim, until)).await;
            }
            reply => reply?,
        };
        let answer = reply::polled(&reply)?;
        self.believe(&claim.key, answer.epoch(), answer.time())?;
        self.connection.heard_time(answer.time(), sent);
        Ok(answer)
    }

    pub(crate) async fn heartbeat(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<Option<Polled>, CommandError> {
        let heartbeats = &self.groups.of(&claim.key).heartbeats;
        match heartbeats.beat(claim, within).await {
            Err(CommandError::Moving(_)) => Ok(None), // a poll finds out
            answer => answer,
        }
    }

    pub(crate) async fn cancel(
        &self,
        claim: &Claim,
        keep: Keep,
        not_after: u64,
        within: Duration,
    ) -> Result<Cancelled, CommandError> {
        if self.connection.node.is_some() {
            return self.take_back(claim, keep, not_after, within).await;
        }
        let until = Instant::now() + within;
        let call = || calls::cancel(claim, keep, not_after);
        let (reply, sent) = match self.repeated(&claim.key, call, within).await {
            Err(CommandError::Moving(_)) if !keep.records() => {
                let times = (keep, not_after);
                return Box::pin(self.cancel_by_key(claim, times, until)).await;
            }
            reply => reply?,
        };
        let answer = self.clear_queue(claim, reply::cancelled(&reply)?);
        self.connection.heard_time(answer.time, sent);
        Ok(answer)
    }

    pub(crate) async fn downgrade(
        &self,
        claim: &Claim,
        ttl: Ttl,
        within: Duration,
    ) -> Result<bool, CommandError> {
        if self.connection.node.is_some() {
            return self.downgrade_at_node(claim, ttl, within).await;
        }
        let until = Instant::now() + within;
        let call = || calls::downgrade(claim, ttl);
        match self.repeated(&claim.key, call, within).await {
            Err(CommandError::Moving(_)) => {
                Box::pin(self.downgrade_by_key(claim, ttl, until)).await
            }
            reply => Ok(self.clear_queue(claim, reply::downgraded(&reply?.0)?)),
        }
    }

    pub(crate) async fn holds(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<bool, CommandError> {
        if claim.kind().is_shared() {
            return Ok(self.holders(&claim.key, &claim.value, within).await?.found);
        }
        Ok(self.read(&claim.key, within).await?.as_deref() == Some(&*claim.value))
    }

    pub(crate) async fn read(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Option<String>, CommandError> {
        let (until, reads) = (Instant::now() + within, self.connection.reading.now());
        let mut answer = self.read_string(key, reads, within).await;
        if answer.is_err() && self.connection.reading.now() != reads {
            // The user lost a right that can be done without.
            let whole = self.read_string(key, Reads::Whole, left(until));
            answer = Box::pin(whole).await;
        }
        match answer {
            Err(CommandError::Refused(Refusal::WrongType, _)) => {
                Ok(self.holders(key, "", within).await?.holder)
            }
            Ok(value) if reply::is_empty(&value) => {
                let pttl = redis::Cmd::pttl(key);
                let pttl = Box::pin(self.one_at_its_node(pttl, left(until))).await?;
                Ok((pttl != reply::NO_KEY).then(String::new))
            }
            value => reply::value(&value?),
        }
    }

    pub(crate) async fn tell_evicted(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<Notice, CommandError> {
        let Some(channel) = self.channel_of_holder(claim) else {
            return Ok(Notice::NoAddress);
        };
        let message = push::evicted_message(&self.connection.grant_key, &channel, claim);
        let mut connection = self.connection.multiplexed.clone();
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&*channel).arg(message);
        let publish = pin!(async move { publish.exec_async(&mut connection).await });
        self.connection.call(within, publish).await?;
        Ok(Notice::Sent)
    }

    /// Where a claim's holder hears messages. An entry may be a stranger's, which names any channel.
    fn channel_of_holder<'a>(&self, claim: &'a Claim) -> Option<Cow<'a, str>> {
        let holder = entry::of_holder(&claim.value)?;
        let names = &self.connection.names;
        if self.connection.node.is_some() {
            let pool = token::number_of_pool(holder.token)?;
            return Some(names.channel(pool).into());
        }
        let channel = holder.channel().filter(|it| names.is_channel(it))?;
        Some(channel.into())
    }

    pub(crate) async fn ping(&self, within: Duration) -> Result<(), CommandError> {
        let mut connection = self.connection.multiplexed.clone();
        let ping = pin!(async move { redis::cmd("PING").exec_async(&mut connection).await });
        self.connection.call(within, ping).await.map(|((), _)| ())
    }

    pub(crate) async fn check(&self, within: Duration) -> Result<Vec<Answers>, CommandError> {
        let mut answers = self.query_settings(true, within).await?;
        let of_cluster = self.connection.of_cluster.as_ref();
        answers.node = of_cluster.map(|it| it.host.to_string());
        Ok(vec![answers])
    }
}

/// How often a script may ask to be repeated. Each repetition has removed up to 200 dead entries.
const MOST_ROUNDS: u32 = 10_000;

/// The repetitions of one command, which all have to fit within its time.
pub(super) struct Repetitions {
    within: Duration,
    until: Instant,
    left: u32,
}

impl Repetitions {
    pub(super) fn new(within: Duration) -> Self {
        Self {
            within,
            until: Instant::now() + within,
            left: MOST_ROUNDS,
        }
    }

    /// After the first, which was sent elsewhere.
    pub(super) fn repeats(until: Instant) -> Self {
        Self {
            within: Duration::ZERO,
            until,
            left: MOST_ROUNDS - 1,
        }
    }

    /// The time left for the next repetition.
    pub(super) fn next(&mut self) -> Result<Duration, CommandError> {
        let within = if self.left == MOST_ROUNDS {
            self.within // the usual case: the first is the only one
        } else {
            left(self.until)
        };
        if within.is_zero() || self.left == 0 {
            let why = "the server had to tidy up after others for longer than that";
            return Err(CommandError::Unsent(Reason::new(why)));
        }
        self.left -= 1;
        Ok(within)
    }
}

impl RedisLink {
    async fn acquire_shared(
        &self,
        command: &Acquire,
        within: Duration,
    ) -> Result<Acquired, CommandError> {
        let until = Instant::now() + within;
        let (lock, call) = (&command.claim.key, || calls::acquire(command));
        let (reply, sent) = match self.repeated(lock, call, within).await {
            // Its record can't be looked at there.
            Err(CommandError::Moving(_)) if !command.claim.is_once => {
                return Box::pin(self.acquire_by_key(command, until)).await;
            }
            reply => reply?,
        };
        let answer = reply::acquired(&reply)?;
        self.believe(lock, answer.epoch(), answer.time())?;
        self.connection.heard_time(answer.time(), sent);
        Ok(answer)
    }

    async fn release_shared(
        &self,
        claim: &Claim,
        keep: Keep,
        within: Duration,
    ) -> Result<GivenBack, CommandError> {
        let until = Instant::now() + within;
        let call = || calls::release(claim, keep, None);
        match self.repeated(&claim.key, call, within).await {
            // A record would be lost there; the clean-up repeats it until the slot has moved.
            Err(CommandError::Moving(_)) if !keep.records() => {
                Box::pin(self.release_by_key(claim, keep, until)).await
            }
            reply => Ok(self.clear_queue(claim, reply::given_back(&reply?.0)?)),
        }
    }

    /// Repeats a script about one lock until it is done. Also returns when the last repetition was
    /// sent.
    async fn repeated<'a>(
        &self,
        lock: &str,
        call: impl Fn() -> ScriptCall<'a>,
        within: Duration,
    ) -> Result<(Value, Moment), CommandError> {
        let mut rounds = Repetitions::new(within);
        loop {
            let within = rounds.next()?;
            let reply = self.connection.script_on(lock, call(), within).await;
            let (reply, sent) = match reply {
                Err(error) => return Err(Box::pin(self.blamed(lock, error, rounds.until)).await),
                Ok(reply) => reply,
            };
            if !reply::says_again(&reply) {
                return Ok((reply, sent));
            }
        }
    }

    /// Makes the server continue with a queue if one call could not finish it. Runs in the
    /// background, so that the releasing caller does not wait for it. If it fails, the next poll of
    /// a waiter continues.
    pub(super) fn clear_queue<T>(&self, claim: &Claim, done: Done<T>) -> T {
        if done.more {
            let (connection, lock) = (self.connection.clone(), claim.key.clone());
            self.connection.runtime.spawn(async move {
                for _ in 0..MOST_ROUNDS {
                    let call = calls::go_on();
                    let reply = connection
                        .script_on(&lock, call, connection.command_timeout)
                        .await;
                    if !reply.is_ok_and(|(reply, _)| reply::says_again(&reply)) {
                        return;
                    }
                }
            });
        }
        done.answer
    }

    /// The string at a key, or its beginning.
    async fn read_string(&self, key: &str, reads: Reads, within: Duration) -> NodeAnswer {
        let (mut connection, command) = (self.connection.multiplexed.clone(), reads.get(key));
        let get = pin!(command.query_async(&mut connection));
        let until = Instant::now() + within;
        match self.connection.call(within, get).await {
            Err(CommandError::Moving(_)) => {
                Box::pin(self.one_at_its_node(command.clone(), left(until))).await
            }
            answer => answer.map(|(value, _)| value),
        }
    }

    /// Reads the holder of a lock of a kind with many holders.
    async fn holders(
        &self,
        lock: &str,
        entry: &str,
        within: Duration,
    ) -> Result<Holders, CommandError> {
        let (keys, arguments) = ([lock], [entry]);
        let script = &scripts::HOLDERS;
        let until = Instant::now() + within;
        let reply = self.connection.script(script, &keys, &arguments, within);
        match reply.await {
            Err(CommandError::Moving(_)) => {
                let call = script.call(
                    CallBy::Text(self.connection.reading.now()),
                    &keys,
                    &arguments,
                );
                reply::holders(&Box::pin(self.one_at_its_node(call, left(until))).await?)
            }
            reply => reply::holders(&reply?.0),
        }
    }
}

/// The time left until then.
pub(super) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn borrowed<'a>(words: &'a [Cow<'_, str>]) -> Vec<&'a str> {
    words.iter().map(|word| &**word).collect()
}
