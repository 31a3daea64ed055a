//! Asks the master how many replicas and append-only files have what it has answered so far, for
//! `min_replicas` and `min_aof`. `link` is a link whose leases count only then.
//!
//! `WAIT` stops its connection until it is answered, so it has one of its own, the *witness*. A
//! round is one `SET` there and the `WAIT`s behind it: about a connection that has written nothing
//! `WAIT` says that all replicas have it. One round at a time; it serves all that wait when it
//! begins.
//!
//! Invariant: a round counts for a caller only if it began after the answer that the caller wants
//! confirmed, at the server that gave it.
//!
//! Never in this folder: a lock's own command on the connection of the witness.

mod link;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::connection::Connection;
use crate::link::redis::plan::Plan;
use crate::link::redis::{errors, reply};
use crate::strangers::spared;
use crate::topology::server::slot::Slot;
use crate::values::config::{Durability, Settings};
use crate::values::error::{Reason, Refusal};
use crate::values::shown::rounded;

pub(crate) use self::link::WitnessedLink;

/// How long the witness's key stays after its last round.
const KEPT: Duration = Duration::from_secs(60);

/// The witness of one runtime.
#[derive(Debug)]
pub(crate) struct Witness {
    plan: Arc<Plan>,
    slot: Arc<Slot>,
    state: Mutex<WitnessState>,
}

#[derive(Debug, Default)]
struct WitnessState {
    /// Those whom the next round serves.
    waiting: Vec<WitnessCall>,
    /// A task runs rounds until nobody waits.
    is_running: bool,
}

struct WitnessCall {
    /// The connection over which the answer came that is to be confirmed.
    connection: Arc<Connection>,
    /// Closed when its caller goes.
    answer: oneshot::Sender<Result<(), CommandError>>,
}

impl fmt::Debug for WitnessCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

impl Witness {
    /// `None`: the master's memory is enough for this pool.
    pub(crate) fn of(plan: &Arc<Plan>) -> Option<Arc<Self>> {
        plan.settings.durability.is_asked_for().then(|| {
            Arc::new(Self {
                plan: plan.clone(),
                slot: Arc::default(),
                state: Mutex::default(),
            })
        })
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Connects, so that the first grant need not wait for it.
    pub(crate) async fn connect(self: Arc<Self>) {
        // An error is the next round's.
        let _ = self
            .slot
            .link(&self.plan, self.plan.settings.connect_timeout)
            .await;
    }

    /// Waits until enough servers have what was answered on this connection before this call.
    async fn confirm(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        until: Instant,
    ) -> Result<(), CommandError> {
        let (sender, answer) = oneshot::channel();
        let asked = WitnessCall {
            connection: connection.clone(),
            answer: sender,
        };
        if self.joins(asked) {
            connection
                .runtime
                .spawn(WitnessRounds::of(self.clone()).run());
        }
        match timeout_at(until, answer).await {
            Ok(Ok(said)) => said,
            Ok(Err(_)) => Err(CommandError::Unclear(Reason::new(
                "the runtime of the connection has ended",
            ))),
            Err(_) => Err(not_replicated("the replicas did not answer in time")),
        }
    }

    /// `true`: the caller has to start the rounds.
    fn joins(&self, asked: WitnessCall) -> bool {
        let mut state = self.state();
        state.waiting.push(asked);
        !std::mem::replace(&mut state.is_running, true)
    }

    async fn round(&self) -> Result<Arc<RedisLink>, CommandError> {
        let Settings {
            durability,
            command_timeout,
            connect_timeout,
            ..
        } = &*self.plan.settings;
        let link = self.slot.link(&self.plan, *connect_timeout).await?;
        // Half of the time that a command has, so that the other half is left to release what was
        // not confirmed. 0 would wait for ever.
        let patience = (*command_timeout / 2).max(Duration::from_millis(1));
        let commands = round(self.plan.names.witness(), *durability, patience);
        let within = patience * 2 + *command_timeout;
        let (answers, _) = link.connection.exchange(commands, within).await?;
        read(&answers, *durability, patience)?;
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, WitnessState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that runs rounds until nobody waits.
struct WitnessRounds {
    witness: Arc<Witness>,
    /// Nobody waited, so the next caller starts other rounds.
    has_ended: bool,
}

impl WitnessRounds {
    fn of(witness: Arc<Witness>) -> Self {
        Self {
            witness,
            has_ended: false,
        }
    }

    async fn run(mut self) {
        while let Some(batch) = self.next() {
            let ended = self.witness.round().await;
            for WitnessCall { connection, answer } in batch {
                let said = match &ended {
                    Ok(link) if link.connection.is_same_server(&connection) => Ok(()),
                    Ok(_) => Err(CommandError::Unclear(Reason::new(
                        "the master moved while its replicas were waited for",
                    ))),
                    Err(error) => Err(error.clone()),
                };
                let _ = spared(|| answer.send(said)); // fails if its caller has gone
            }
        }
    }

    /// Those who wait; `None`: nobody does.
    fn next(&mut self) -> Option<Vec<WitnessCall>> {
        let mut state = self.witness.state();
        let mut batch = std::mem::take(&mut state.waiting);
        batch.retain(|it| !it.answer.is_closed());
        state.is_running = !batch.is_empty();
        self.has_ended = batch.is_empty();
        (!self.has_ended).then_some(batch)
    }
}

impl Drop for WitnessRounds {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // The runtime has ended: each caller sees the end of its channel.
        let mut state = self.witness.state();
        state.is_running = false;
        let unserved = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unserved);
    }
}

fn round(key: &str, durability: Durability, patience: Duration) -> Pipeline {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut commands = redis::pipe();
    commands.cmd("SET").arg(key).arg(1);
    commands.arg("PX").arg(millis(KEPT));
    if let Some(replicas) = durability.min_replicas {
        commands.cmd("WAIT").arg(replicas).arg(millis(patience));
    }
    if let Some(files) = durability.min_aof {
        let of_replicas = files.saturating_sub(1);
        commands.cmd("WAITAOF").arg(1).arg(of_replicas);
        commands.arg(millis(patience));
    }
    commands
}

/// Reads the answers to [`round`].
fn read(answers: &[Value], durability: Durability, patience: Duration) -> Result<(), CommandError> {
    if let Some(error) = answers.iter().find_map(errors::error_of_answer) {
        return Err(error);
    }
    let mut counts = answers.iter().skip(1);
    if let Some(asked) = durability.min_replicas {
        let said = counts.next().and_then(reply::number);
        let said = said.ok_or_else(|| reply::unexpected("WAIT", &Value::Nil))?;
        if said < u64::try_from(asked).unwrap_or(u64::MAX) {
            return Err(not_replicated(format_args!(
                "{said} of {asked} replicas confirmed it within {:?}",
                rounded(patience)
            )));
        }
    }
    if let Some(asked) = durability.min_aof {
        let said = counts.next().and_then(of_files);
        let said = said.ok_or_else(|| reply::unexpected("WAITAOF", &Value::Nil))?;
        if said < (1, u64::try_from(asked).unwrap_or(u64::MAX)) {
            let (_, files) = said;
            return Err(not_replicated(format_args!(
                "{files} of {asked} append-only files had it within {:?}",
                rounded(patience)
            )));
        }
    }
    Ok(())
}

/// The answer to `WAITAOF`: the master's file, and all files.
fn of_files(answer: &Value) -> Option<(u64, u64)> {
    let Value::Array(counts) = answer else {
        return None;
    };
    let [local, replicas] = &counts[..] else {
        return None;
    };
    let (local, replicas) = (reply::number(local)?, reply::number(replicas)?);
    Some((local, local.saturating_add(replicas)))
}

fn not_replicated(why: impl fmt::Display) -> CommandError {
    CommandError::Refused(Refusal::NotReplicated, Reason::new(why))
}

#[cfg(test)]
mod tests;
