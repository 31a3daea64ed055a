//! One connection's shared state: it gives each command its own deadline, and tells a dead
//! connection from a slow server. It does not reconnect: `slot` replaces a connection that is not
//! usable.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, ToRedisArgs, Value};
use tokio::runtime::Handle;

use super::keep_alive::KeepAlive;
use crate::client::clock_watch::ClockAnswer;
use crate::client::server_clock::ServerClock;
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::redis::calls::ScriptCall;
use crate::link::redis::errors;
use crate::link::redis::grant_key::GrantKey;
use crate::link::redis::io_task::IoTask;
use crate::link::redis::membership::Membership;
use crate::link::redis::names::{LockKeys, Names};
use crate::link::redis::native::{Deletes, Native};
use crate::link::redis::pace::ClockPace;
use crate::link::redis::plan::Plan;
use crate::link::redis::push::PushReceiver;
use crate::link::redis::reads::{ReadingMode, Reads};
use crate::link::redis::redirects::OfCluster;
use crate::link::redis::reply;
use crate::link::redis::scripts::{CallBy, Script};
use crate::link::redis::target::{ConnectionTarget, Outdated};
use crate::values::config::{Host, RedisAddress};
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;
use crate::values::shown::rounded;

/// A connection counts as dead after this many command timeouts of silence: it may be half open,
/// which no error ever reports.
const SILENCE_OF_A_DEAD_LINK: u32 = 2;

/// Which server a connection goes to; all as in [`Hello`](super::Hello).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerId {
    pub(super) run_id: Box<str>,
    pub(super) generation: Option<u64>,
    pub(super) master: Option<Host>,
}

/// Shared by a link and the tasks that send for its callers.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) multiplexed: MultiplexedConnection,
    pub(crate) runtime: Handle,
    pub(super) io_task: IoTask,
    pub(crate) clock: Clock,
    pub(crate) command_timeout: Duration,
    broken: AtomicBool,
    pub(crate) address: Arc<RedisAddress>,
    pub(crate) target: Arc<ConnectionTarget>,
    /// The node of a cluster that the server is, if it is one.
    pub(crate) of_cluster: Option<OfCluster>,
    server: ServerId,
    /// When the handshake was completed.
    made: Moment,
    /// When the server last answered, in nanoseconds of `clock`.
    last_answer: AtomicU64,
    /// When the first command after the last answer was sent; 0: none was.
    unanswered: AtomicU64,
    pub(super) server_clock: Mutex<ServerClock>,
    pub(crate) names: Names,
    pub(crate) grant_key: GrantKey,
    pub(crate) deletes: Deletes,
    pub(crate) reading: ReadingMode,
    pub(super) has_scripts: bool,
    pub(crate) pace: Arc<ClockPace>,
    pub(crate) push_receiver: Arc<PushReceiver>,
    /// What the server is as a node of a quorum, if it is one.
    pub(crate) node: Option<Membership>,
    keep_alive: KeepAlive,
}

impl Connection {
    pub(super) fn new(
        multiplexed: MultiplexedConnection,
        io_task: IoTask,
        plan: &Plan,
        time: u64,
        push_receiver: Arc<PushReceiver>,
        native: Option<Native>,
        server: ServerId,
    ) -> Self {
        let heard = plan.clock.now();
        Self {
            multiplexed,
            runtime: Handle::current(),
            io_task,
            clock: plan.clock,
            command_timeout: plan.settings.command_timeout,
            broken: AtomicBool::new(false),
            address: plan.address.clone(),
            target: plan.target.clone(),
            of_cluster: plan.of_cluster.clone(),
            server,
            made: heard,
            last_answer: AtomicU64::new(heard.as_nanos()),
            unanswered: AtomicU64::new(0),
            server_clock: Mutex::new(ServerClock { time, heard }),
            names: plan.names.clone(),
            grant_key: plan.grant_key.clone(),
            deletes: Deletes::by(native),
            reading: ReadingMode::of(Reads::Whole),
            has_scripts: !plan.settings.without_scripts,
            pace: plan.pace.clone(),
            push_receiver,
            node: None,
            keep_alive: KeepAlive::new(),
        }
    }

    /// The same, to a node of a quorum if it is one, which reads as much of a string.
    pub(super) fn that_reads(self, reads: Reads, node: Option<Membership>) -> Self {
        let reading = ReadingMode::of(reads);
        Self {
            reading,
            node,
            ..self
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.broken.load(Ordering::Acquire) && !self.is_outdated() && !self.io_task.is_finished()
    }

    /// Whether the master has moved since this connection was made.
    pub(crate) fn is_outdated(&self) -> bool {
        (self.server.generation).is_some_and(|made| made != self.target.generation())
    }

    /// The first digits of the process's run id.
    pub(crate) fn run_id(&self) -> &str {
        &self.server.run_id
    }

    /// Whether both go to the same process, in the same generation. Two servers whose run ids are
    /// unknown count as different.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.server == other.server && !self.server.run_id.is_empty()
    }

    /// Whether the server has answered a command since the handshake.
    pub(crate) fn has_answered(&self) -> bool {
        self.last_answer.load(Ordering::Relaxed) > self.made.as_nanos()
    }

    /// How long ago the server last answered.
    pub(crate) fn idle(&self, now: Moment) -> Duration {
        Moment::from_nanos(self.last_answer.load(Ordering::Relaxed)).until(now)
    }

    /// Checks that the connection works, and reads the server's time.
    pub(crate) async fn refresh(&self, within: Duration) -> Result<(), CommandError> {
        let mut multiplexed = self.multiplexed.clone();
        let time = pin!(async move { redis::cmd("TIME").query_async(&mut multiplexed).await });
        let (time, sent) = self.call(within, time).await?;
        self.heard_time(reply::time(&time)?, sent);
        if self.node_is_due() {
            self.tell_node(within).await;
        }
        Ok(())
    }

    pub(crate) fn heard_time(&self, time: u64, sent: Moment) {
        let mut clock = self
            .server_clock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        clock.hear(time, sent, now);
        drop(clock);
        if let Some(node) = &self.node {
            let heard = now;
            node.heard(ClockAnswer { sent, heard, time });
        }
        self.pace.heard(time, sent, now);
        self.push_receiver.answered(time, sent);
    }

    /// Runs a command with a deadline, and notes what its outcome tells about the connection. Also
    /// returns when it was sent. The caller pins the future, because a future that is passed by
    /// value is stored again in each function that it passes through.
    pub(crate) async fn call<T>(
        &self,
        within: Duration,
        command: Pin<&mut impl Future<Output = Result<T, RedisError>>>,
    ) -> Result<(T, Moment), CommandError> {
        let sent = self.begin()?;
        Ok((self.finish(within, command).await?, sent))
    }

    /// Called before a command is polled for the first time; returns that time.
    pub(super) fn begin(&self) -> Result<Moment, CommandError> {
        if !self.is_usable() {
            return Err(CommandError::Unsent(Reason::new(
                "the connection to redis broke",
            )));
        }
        self.keep_alive.command_sent();
        let now = self.clock.now();
        // Only the first command after an answer starts a silence.
        let _ = self.unanswered.compare_exchange(
            0,
            now.as_nanos(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        Ok(now)
    }

    /// Sends commands one right behind the other. Returns an answer for each, which may be its
    /// error, and when they were sent.
    pub(crate) async fn exchange(
        &self,
        mut commands: Pipeline,
        within: Duration,
    ) -> Result<(Vec<Value>, Moment), CommandError> {
        commands.ignore_errors();
        let mut multiplexed = self.multiplexed.clone();
        let answers = pin!(async move { commands.query_async(&mut multiplexed).await });
        let (answers, sent) = self.call::<Vec<Value>>(within, answers).await?;
        for answer in &answers {
            let Value::ServerError(error) = answer else {
                continue;
            };
            let error = errors::command_error(&RedisError::from(error.clone()));
            if matches!(error, CommandError::Refused(Refusal::Cluster, _)) {
                continue; // this one only
            }
            if let error @ CommandError::Unsent(_) = self.noted(error) {
                return Err(error); // a replica executes none of them
            }
        }
        Ok((answers, sent))
    }

    /// Waits for the answer of a command that has begun.
    pub(super) async fn finish<T>(
        &self,
        within: Duration,
        command: Pin<&mut impl Future<Output = Result<T, RedisError>>>,
    ) -> Result<T, CommandError> {
        let Ok(answer) = tokio::time::timeout(within, command).await else {
            return Err(self.no_answer(within));
        };
        self.answered(answer)
    }

    /// Notes what an answer tells about the connection.
    pub(super) fn answered<T>(&self, answer: Result<T, RedisError>) -> Result<T, CommandError> {
        let answer = answer.map_err(|error| self.io_task.explain(self.meant_by(&error)));
        let tells_nothing = match &answer {
            Err(CommandError::Unclear(_)) => true,
            Err(CommandError::Refused(refusal, _)) => self.is_elsewhere(*refusal),
            _ => false,
        };
        if tells_nothing {
            self.give_up();
        } else {
            self.unanswered.store(0, Ordering::Release);
            self.last_answer
                .store(self.clock.now().as_nanos(), Ordering::Relaxed);
        }
        if self.is_outdated() {
            return Err(CommandError::Unclear(Reason::new(
                "the master moved while the command was under way",
            )));
        }
        answer.map_err(|error| self.meaning(error))
    }

    /// Whether a refusal means that another server is the one to ask. If sentinels or a cluster name
    /// it, they say so; a name may lead elsewhere by now.
    fn is_elsewhere(&self, refusal: Refusal) -> bool {
        let is_named = self.server.generation.is_some() || self.of_cluster.is_some();
        if refusal == Refusal::ReadOnly && !is_named {
            self.target.is_replica(self.run_id());
        }
        errors::may_be_elsewhere(refusal)
    }

    /// The error of an answer to one of several commands.
    pub(super) fn error_of_answer(&self, answer: &Value) -> Option<CommandError> {
        match answer {
            Value::ServerError(error) => {
                let error = RedisError::from(error.clone());
                Some(self.noted(self.meant_by(&error)))
            }
            _ => None,
        }
    }

    /// What an error says. The cluster hears of it if it is about slots.
    fn meant_by(&self, error: &RedisError) -> CommandError {
        match (errors::command_error(error), &self.of_cluster) {
            (CommandError::Refused(Refusal::Cluster, why), Some(cluster)) => {
                cluster.meaning(error, why)
            }
            (error, _) => error,
        }
    }

    /// The meaning of an error on this connection: if others name the master, the refusal of a
    /// replica, or of a master that lacks its replicas, is a failover's, and nothing was executed.
    fn meaning(&self, error: CommandError) -> CommandError {
        let is_named = self.server.generation.is_some() || self.of_cluster.is_some();
        if let CommandError::Refused(Refusal::NoPermission, why) = &error
            && why.to_string().to_ascii_lowercase().contains("getrange")
        {
            self.reading.was_refused();
        }
        match error {
            CommandError::Refused(refusal, why)
                if is_named && errors::is_of_a_failover(refusal, &why) =>
            {
                self.target.may_have_moved.notify_one();
                self.of_cluster.iter().for_each(OfCluster::may_have_changed);
                self.of_node(CommandError::Unsent(why))
            }
            CommandError::Refused(Refusal::Other, why)
                if self.of_cluster.is_some() && errors::is_of_a_slot_that_moved(&why) =>
            {
                CommandError::Unclear(why) // the script may have written
            }
            error @ (CommandError::Refused(..) | CommandError::Unclear(_)) => self.of_node(error),
            error => error,
        }
    }

    /// Names the node of a cluster, or the master that sentinels named: the pool's address does not
    /// say which server it is.
    fn of_node(&self, error: CommandError) -> CommandError {
        match (&self.of_cluster, &self.server.master) {
            (Some(OfCluster { host, .. }), _) => error.at(host),
            (None, Some(master)) => error.at(format_args!("the master, {master}")),
            (None, None) => error,
        }
    }

    /// The meaning of the error of one item of several, whose connection is given up if only a new
    /// handshake can tell where the master is.
    pub(crate) fn noted(&self, error: CommandError) -> CommandError {
        if let CommandError::Refused(refusal, _) = &error
            && self.is_elsewhere(*refusal)
        {
            self.give_up();
        }
        self.meaning(error)
    }

    pub(super) fn no_answer(&self, within: Duration) -> CommandError {
        self.of_cluster.iter().for_each(OfCluster::may_have_changed);
        self.watch_for_silence();
        self.of_node(CommandError::Unclear(Reason::new(format_args!(
            "no answer within {:?}",
            rounded(within)
        ))))
    }

    /// A short deadline that passed says nothing about the connection; a long silence does.
    fn watch_for_silence(&self) {
        let since = self.unanswered.load(Ordering::Acquire);
        let silent = Moment::from_nanos(since).until(self.clock.now());
        if since != 0 && silent >= self.command_timeout * SILENCE_OF_A_DEAD_LINK {
            self.give_up();
        }
    }

    /// Marks the connection as broken: the next command uses a new one.
    pub(crate) fn give_up(&self) {
        if !self.broken.swap(true, Ordering::AcqRel) {
            self.push_receiver.disconnected();
        }
    }

    pub(crate) async fn script(
        &self,
        script: &Script,
        keys: &[&str],
        arguments: &[impl ToRedisArgs],
        within: Duration,
    ) -> Result<(Value, Moment), CommandError> {
        self.run(within, |by| script.call(by, keys, arguments))
            .await
    }

    /// A script about one lock, which may grant it, with the keys of that lock.
    pub(super) async fn script_on(
        &self,
        lock: &str,
        call: ScriptCall<'_>,
        within: Duration,
    ) -> Result<(Value, Moment), CommandError> {
        self.run(within, |by| self.command_on(lock, &call, by))
            .await
    }

    /// The same call as a command to be sent.
    pub(super) fn command_on(&self, lock: &str, call: &ScriptCall<'_>, by: CallBy) -> redis::Cmd {
        let LockKeys {
            counter,
            queue,
            heartbeats,
            ..
        } = self.names.of(lock);
        let arguments: usize = call.arguments.iter().map(|it| it.room()).sum();
        let bytes = self.names.room(lock) + counter.len() + arguments;
        let absent = self.names.absent(&counter);
        let words = 7 + call.arguments.len();
        let mut command = call.script.called(by, words, bytes);
        let mut name = String::with_capacity(lock.len() + counter.len());
        command.arg(4 + usize::from(absent.is_some()));
        command.arg(lock).arg(&*counter);
        command.arg(queue.text_in(&mut name));
        command.arg(heartbeats.text_in(&mut name));
        command.arg(absent);
        for word in &call.arguments {
            word.write(&mut command);
        }
        command.arg(self.grant_key.argument());
        command
    }

    /// Runs a script by hash or, if the server does not know the hash, by text. Also returns when
    /// it was sent.
    pub(super) async fn run(
        &self,
        within: Duration,
        call: impl Fn(CallBy) -> redis::Cmd,
    ) -> Result<(Value, Moment), CommandError> {
        let mut multiplexed = self.multiplexed.clone();
        let reads = self.reading.now();
        let answer = pin!(Script::run(&mut multiplexed, reads, call));
        self.call(within, answer).await
    }

    /// Closes the connection, even if others still hold a handle to it.
    pub(crate) fn hang_up(&self) {
        self.keep_alive.end();
        self.io_task.abort();
    }
}

impl Outdated for Connection {
    fn end(&self) {
        self.give_up();
        self.hang_up();
    }

    fn works(&self) -> bool {
        self.is_usable()
    }
}
