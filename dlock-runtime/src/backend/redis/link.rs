//! One live connection: the protocol's commands over it, each with its own deadline.
//!
//! It counts what tells a dead connection from a slow server; the supervisor replaces it then.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, ToRedisArgs};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::calls::{self, Call};
use super::connect::Plan;
use super::errors;
use super::names::{Keys, Names};
use super::push::Ear;
use super::reply::{self, Looked};
use super::scripts::{self, Script};
use super::server_clock::ServerClock;
use crate::backend::clock::Clock;
use crate::backend::fault::Fault;
use crate::backend::{Answer, Link};
use crate::policy::commands::{
    Acquire, Acquired, Cancelled, Claim, GivenBack, Polled, Renewal, Renewed, TakenTogether,
};
use crate::policy::shared;
use crate::policy::writes::{Writes, Wrote};
use crate::values::error::{Refusal, Text};
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

/// A connection counts as dead after this many command timeouts of silence: it may be half open,
/// which no error ever tells.
const SILENCE_OF_A_DEAD_LINK: u32 = 2;

/// What was learned while saying hello.
pub(super) struct Hello {
    /// The server's time as just heard.
    pub(super) time: u64,
    pub(super) ear: Arc<Ear>,
    /// The channel that was subscribed to, if any was.
    pub(super) address: Option<String>,
}

/// A connection of one tokio runtime; it ends with its last owner.
#[derive(Debug)]
pub(super) struct RedisLink {
    connection: MultiplexedConnection,
    runtime: Handle,
    driver: Option<JoinHandle<()>>,
    pub(super) clock: Clock,
    command_timeout: Duration,
    broken: AtomicBool,
    /// When the server last answered, in nanoseconds of `clock`.
    answered: AtomicU64,
    /// When the first command after the last answer was sent; 0: there was none.
    unanswered: AtomicU64,
    server_clock: Mutex<ServerClock>,
    names: Names,
    ear: Arc<Ear>,
    /// The channel that this connection has subscribed to.
    address: Option<String>,
}

impl RedisLink {
    pub(super) fn new(
        connection: MultiplexedConnection,
        driver: Option<JoinHandle<()>>,
        plan: &Plan,
        hello: Hello,
    ) -> Self {
        let Hello { time, ear, address } = hello;
        let heard = plan.clock.now();
        Self {
            connection,
            runtime: Handle::current(),
            driver,
            clock: plan.clock,
            command_timeout: plan.command_timeout,
            broken: AtomicBool::new(false),
            answered: AtomicU64::new(heard.as_nanos()),
            unanswered: AtomicU64::new(0),
            server_clock: Mutex::new(ServerClock { time, heard }),
            names: plan.names.clone(),
            ear,
            address,
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.broken.load(Ordering::Acquire)
            && !self.driver.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// How long the server has said nothing.
    pub(super) fn idle(&self) -> Duration {
        Moment::from_nanos(self.answered.load(Ordering::Relaxed)).until(self.clock.now())
    }

    /// Asks whether the connection works, and what time it is there.
    pub(super) async fn refresh(&self, within: Duration) -> Result<(), Fault> {
        let mut connection = self.connection.clone();
        let sent = self.clock.now();
        let time = async move { redis::cmd("TIME").query_async(&mut connection).await };
        let time = reply::time(&self.call(within, time).await?)?;
        self.heard_time(time, sent);
        Ok(())
    }

    pub(super) fn heard_time(&self, time: u64, sent: Moment) {
        let mut clock = self
            .server_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        clock.hear(time, sent, self.clock.now());
        drop(clock);
        self.ear.answered(time, sent);
    }

    /// Puts a deadline around a command and learns from how it went.
    async fn call<T>(
        &self,
        within: Duration,
        command: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, Fault> {
        if !self.is_usable() {
            return Err(Fault::Unsent(Text::new("the connection to redis broke")));
        }
        let sent = self.clock.now().as_nanos();
        // Only the first command after an answer begins a silence.
        let _ = self
            .unanswered
            .compare_exchange(0, sent, Ordering::AcqRel, Ordering::Acquire);
        let Ok(answer) = tokio::time::timeout(within, command).await else {
            self.look_for_silence();
            return Err(Fault::Unclear(Text::new(format_args!(
                "no answer within {within:?}"
            ))));
        };
        let answer = answer.map_err(|error| errors::fault(&error));
        // The master may have moved, or our password changed: only a new handshake tells.
        let tells_nothing = matches!(
            answer,
            Err(Fault::Unclear(_) | Fault::Refused(Refusal::ReadOnly | Refusal::Auth, _))
        );
        if tells_nothing {
            self.give_up();
        } else {
            self.unanswered.store(0, Ordering::Release);
            self.answered
                .store(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
        answer
    }

    /// A short deadline that passed says nothing about the connection; a long silence does.
    fn look_for_silence(&self) {
        let since = self.unanswered.load(Ordering::Acquire);
        let silent = Moment::from_nanos(since).until(self.clock.now());
        if since != 0 && silent >= self.command_timeout * SILENCE_OF_A_DEAD_LINK {
            self.give_up();
        }
    }

    /// The next command goes over a new connection.
    pub(super) fn give_up(&self) {
        if !self.broken.swap(true, Ordering::AcqRel) {
            self.ear.disconnected();
        }
    }

    pub(super) async fn script(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[impl ToRedisArgs],
        within: Duration,
    ) -> Result<redis::Value, Fault> {
        let mut connection = self.connection.clone();
        self.call(within, script.run(&mut connection, keys, arguments))
            .await
    }

    /// A script about one lock, with the keys of that lock.
    async fn script_on(
        &self,
        lock: &str,
        call: Call<'_>,
        within: Duration,
    ) -> Result<redis::Value, Fault> {
        let Keys {
            counter,
            waiting,
            alive,
        } = self.names.of(lock);
        let keys = [lock, counter, &waiting, &alive];
        let arguments: Vec<&str> = call.arguments.iter().map(|it| &**it).collect();
        self.script(call.script, &keys, &arguments, within).await
    }

    /// At a lock of a kind with many holders.
    async fn look(&self, lock: &str, entry: &str, within: Duration) -> Result<Looked, Fault> {
        let (keys, arguments) = ([lock], [entry]);
        let reply = self.script(&scripts::SHARED_LOOK, &keys, &arguments, within);
        reply::looked(&reply.await?)
    }
}

fn borrowed<'a>(words: &'a [Cow<'_, str>]) -> Vec<&'a str> {
    words.iter().map(|word| &**word).collect()
}

impl Link for RedisLink {
    fn server_time(&self) -> u64 {
        let clock = self
            .server_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        clock.at(self.clock.now())
    }

    fn runtime(&self) -> Option<&Handle> {
        Some(&self.runtime)
    }

    fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    fn acquire<'a>(&'a self, command: &'a Acquire, within: Duration) -> Answer<'a, Acquired> {
        Box::pin(async move {
            let sent = self.clock.now();
            let (lock, call) = (&command.claim.key, calls::acquire(command));
            let answer = reply::acquired(&self.script_on(lock, call, within).await?)?;
            self.heard_time(answer.time(), sent);
            Ok(answer)
        })
    }

    fn acquire_all<'a>(
        &'a self,
        commands: &'a [Acquire],
        within: Duration,
    ) -> Answer<'a, TakenTogether> {
        Box::pin(async move {
            let (sent, call) = (self.clock.now(), calls::acquire_all(commands, &self.names));
            let (keys, arguments) = (borrowed(&call.keys), borrowed(&call.arguments));
            let reply = self.script(&scripts::ACQUIRE_ALL, &keys, &arguments, within);
            let reply = reply.await?;
            let answer = reply::taken_together(&reply, commands.len())?;
            self.heard_time(answer.time(), sent);
            Ok(answer)
        })
    }

    fn poll<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, Polled> {
        Box::pin(async move {
            let sent = self.clock.now();
            let reply = self.script_on(&claim.key, calls::poll(claim), within);
            let answer = reply::polled(&reply.await?)?;
            self.heard_time(answer.time(), sent);
            Ok(answer)
        })
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep_until: u64,
        within: Duration,
    ) -> Answer<'a, GivenBack> {
        Box::pin(async move {
            let call = calls::release(claim, keep_until);
            reply::given_back(&self.script_on(&claim.key, call, within).await?)
        })
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        keep_until: u64,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        Box::pin(async move {
            let sent = self.clock.now();
            let call = calls::cancel(claim, keep_until, not_after);
            let answer = reply::cancelled(&self.script_on(&claim.key, call, within).await?)?;
            self.heard_time(answer.time, sent);
            Ok(answer)
        })
    }

    fn renew<'a>(&'a self, items: &'a [Renewal], within: Duration) -> Answer<'a, Vec<Renewed>> {
        Box::pin(async move {
            let keys: Vec<&str> = items.iter().map(|item| &*item.claim.key).collect();
            let ttls: Vec<String> = items
                .iter()
                .map(|item| item.ttl.as_millis().to_string())
                .collect();
            let pairs = items.iter().zip(&ttls);
            let arguments: Vec<&str> = pairs
                .flat_map(|(item, ttl)| [&*item.claim.value, ttl.as_str()])
                .collect();
            let reply = self
                .script(&scripts::RENEW, &keys, &arguments, within)
                .await?;
            let outcomes = reply::renewed(&reply, items.len())?;
            if reply::says_read_only(&reply) {
                self.give_up(); // the master is elsewhere
            }
            Ok(outcomes)
        })
    }

    fn downgrade<'a>(&'a self, claim: &'a Claim, ttl: Ttl, within: Duration) -> Answer<'a, bool> {
        Box::pin(async move {
            let call = calls::downgrade(claim, ttl);
            reply::downgraded(&self.script_on(&claim.key, call, within).await?)
        })
    }

    fn holds<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, bool> {
        Box::pin(async move {
            if shared::is_entry(&claim.value) {
                return Ok(self.look(&claim.key, &claim.value, within).await?.found);
            }
            Ok(self.read(&claim.key, within).await?.as_deref() == Some(&*claim.value))
        })
    }

    fn write<'a>(
        &'a self,
        claim: &'a Claim,
        writes: &'a Writes<'a>,
        within: Duration,
    ) -> Answer<'a, Wrote> {
        Box::pin(self.write_batch(claim, writes, within))
    }

    fn read<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let get = async move {
                redis::cmd("GET")
                    .arg(key)
                    .query_async(&mut connection)
                    .await
            };
            match self.call(within, get).await {
                Err(Fault::Refused(Refusal::WrongType, _)) => {
                    Ok(self.look(key, "", within).await?.holder)
                }
                value => reply::value(&value?),
            }
        })
    }

    fn ping(&self, within: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let ping = async move { redis::cmd("PING").exec_async(&mut connection).await };
            self.call(within, ping).await
        })
    }
}

impl Drop for RedisLink {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}
