//! Keeps epochs from falling when a new master, or a server that lost its data, has a counter and a
//! clock that are behind: a new connection raises the counter to the highest epoch that this pool
//! has been given, before it is used.
//!
//! Epochs that other pools were given are raised by their own connections.

use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult, Value};

use super::reads::Reads;
use super::scripts::{self, Script};
use super::{errors, reply};
use crate::link::command_error::CommandError;
use crate::values::error::Reason;

/// A larger number in the counter was not drawn here, and no double in a script holds it exactly.
pub(crate) const LARGEST_EPOCH: u64 = (1 << 53) - 1;

/// How often a transaction is tried that another client's draw can disturb.
const TRIES: u32 = 100;

/// The highest epoch that a pool has been given.
#[derive(Debug, Default)]
pub(crate) struct HighestEpoch(AtomicU64);

impl HighestEpoch {
    pub(crate) fn given(&self, epoch: u64) {
        if epoch > self.get() && epoch <= LARGEST_EPOCH {
            self.0.fetch_max(epoch, Ordering::AcqRel);
        }
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// How the counter is raised.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RaiseBy {
    Script,
    /// Only on a connection that nobody else uses yet.
    Transaction,
}

/// Makes the counter at least `epoch`.
pub(crate) async fn raise(
    mut connection: MultiplexedConnection,
    counter: &str,
    epoch: u64,
    by: RaiseBy,
) -> Result<(), CommandError> {
    let raised = match by {
        RaiseBy::Script => {
            let call = |by| scripts::RAISE.call(by, &[counter], &[epoch]);
            let raised = Script::run(&mut connection, Reads::Whole, call).await;
            raised
                .map(drop)
                .map_err(|error| errors::handshake_error(&error))
        }
        RaiseBy::Transaction => raise_in_transaction(connection, counter, epoch).await,
    };
    raised.map_err(|error| errors::of_companion(counter, error))
}

async fn raise_in_transaction(
    mut connection: MultiplexedConnection,
    counter: &str,
    epoch: u64,
) -> Result<(), CommandError> {
    for _ in 0..TRIES {
        let mut look = redis::pipe();
        look.cmd("WATCH").arg(counter).cmd("GET").arg(counter);
        let [_, last] = answers(&look, &mut connection).await?;
        if is_drawn_at_least(&last, epoch) {
            let unwatched = Cmd::new().arg("UNWATCH").exec_async(&mut connection).await;
            return unwatched.map_err(|error| errors::handshake_error(&error));
        }
        let mut set = redis::pipe();
        set.cmd("MULTI").cmd("SET").arg(counter).arg(epoch);
        set.cmd("EXEC");
        let [_, _, executed] = answers(&set, &mut connection).await?;
        if executed != Value::Nil {
            return Ok(());
        }
    }
    let why = "other clients changed the epoch counter each time that it was to be raised";
    Err(CommandError::Unsent(Reason::new(why)))
}

/// The answers to commands that are sent one right behind the other; the first error, if any.
async fn answers<const N: usize>(
    commands: &Pipeline,
    connection: &mut MultiplexedConnection,
) -> Result<[Value; N], CommandError> {
    let answers: RedisResult<[Value; N]> = commands.query_async(connection).await;
    answers.map_err(|error| errors::handshake_error(&error))
}

fn is_drawn_at_least(last: &Value, epoch: u64) -> bool {
    let last = reply::text(last).and_then(|last| last.parse::<u64>().ok());
    last.is_some_and(|last| (epoch..LARGEST_EPOCH).contains(&last))
}
