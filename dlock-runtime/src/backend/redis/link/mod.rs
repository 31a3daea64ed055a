//! One live connection: it gives each command its own deadline, and counts what tells a dead connection from a
//! slow server; the supervisor replaces it then. `operations` are the protocol's commands over it.

mod operations;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisError, ToRedisArgs};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::connect::Plan;
use super::errors;
use super::names::Names;
use super::push::Ear;
use super::reply;
use super::scripts::Script;
use super::server_clock::ServerClock;
use crate::backend::clock::Clock;
use crate::backend::fault::Fault;
use crate::values::error::{Refusal, Text};
use crate::values::moment::Moment;

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
}

impl Drop for RedisLink {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}
