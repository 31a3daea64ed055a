//! One live connection. Read `connection` first: its deadlines, and whether it is dead; then `batcher`, which sends what
//! many callers want at once in one command, and `heartbeats`, which does so for those who wait; `operations` are the protocol's commands over both.
//!
//! Never in this folder: a command that is sent again, unless the server said that it has not done it (an unknown script, a
//! batch without the right to a key, a script that took out 200 dead entries and wants to go on); one that waits for
//! another one's answer.

pub(super) mod batcher;
mod connection;
pub(super) mod heartbeats;
mod keep_alive;
mod operations;

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

use self::batcher::{Batcher, MOST};
use self::connection::Connection;
use self::heartbeats::{Heartbeats, Pace};
use super::native::Native;
use super::plan::Plan;
use super::push::PushReceiver;

/// What was learned while saying hello.
pub(super) struct Hello {
    /// The server's time as just heard.
    pub(super) time: u64,
    pub(super) push_receiver: Arc<PushReceiver>,
    /// The channel that was subscribed to, if any was.
    pub(super) address: Option<Arc<str>>,
    /// What the server compares and deletes with, if it can.
    pub(super) native: Option<Native>,
}

/// A connection of one tokio runtime; it ends with its last owner.
#[derive(Debug)]
pub(super) struct RedisLink {
    pub(super) connection: Arc<Connection>,
    batcher: Arc<Batcher>,
    heartbeats: Arc<Heartbeats>,
    /// The channel that this connection has subscribed to.
    address: Option<Arc<str>>,
}

impl RedisLink {
    pub(super) fn new(
        connection: MultiplexedConnection,
        driver: Option<JoinHandle<()>>,
        plan: &Plan,
        hello: Hello,
    ) -> Self {
        let driver = driver.map(|it| it.abort_handle());
        let Hello {
            time,
            push_receiver,
            address,
            native,
        } = hello;
        let connection = Arc::new(Connection::new(
            connection,
            driver,
            plan,
            time,
            push_receiver,
            native,
        ));
        // A limit on the commands in flight is the client library's to keep, and it keeps no order among those that wait for it.
        let (most, pace) = match (plan.max_in_flight, &address) {
            (None, Some(_)) => (MOST, Some(Pace::of(plan.poll_interval.told))),
            (None, None) => (MOST, Some(Pace::of(plan.poll_interval.untold))),
            (Some(_), _) => (0, None),
        };
        Self {
            batcher: Batcher::new(&connection, most),
            heartbeats: Heartbeats::new(&connection, pace),
            connection,
            address,
        }
    }
}

#[cfg(test)]
impl RedisLink {
    /// The server's time now.
    pub(super) fn server_time(&self) -> u64 {
        use crate::backend::Link;
        self.server_time_at(self.connection.clock.now())
    }

    /// One more over the same wire.
    pub(super) fn batcher(&self, most: usize) -> Arc<Batcher> {
        Batcher::new(&self.connection, most)
    }

    /// Others over the same wire.
    pub(super) fn heartbeats(&self, pace: Pace) -> Arc<Heartbeats> {
        Heartbeats::new(&self.connection, Some(pace))
    }
}

impl Drop for RedisLink {
    fn drop(&mut self) {
        self.connection.hang_up();
    }
}
