//! One live connection. Read `connection` first: command deadlines, and the detection of a dead
//! connection. Then `batcher`, which sends the commands of many callers as one, and the heartbeats of
//! many waiters; `groups` has one of each for the locks that may share a script.
//! `renewals` lengthens leases, `inspect` reads locks for an administrator, `operations` implements
//! the protocol's commands on top of both, `exclusive` those that the batcher takes, `node` those of a
//! node of a quorum, `moving` those about a slot of a cluster that is moving.
//!
//! Never in this folder: a command that is sent again, unless the server said that it was not
//! executed (an unknown script; a batch with a key that the user has no right to; a script that
//! removed 200 dead entries and needs to go on); a command that waits for another one's answer.

pub(super) mod batcher;
mod companions;
pub(crate) mod connection;
mod exclusive;
mod groups;
mod inspect;
mod keep_alive;
mod last_run;
mod moving;
mod node;
mod operations;
mod renewals;

use std::sync::Arc;

use redis::aio::MultiplexedConnection;

use self::batcher::{Batcher, HeartbeatPace, MOST};
use self::connection::{Connection, ServerId};
use self::groups::Groups;
use super::io_task::IoTask;
use super::membership::Membership;
use super::native::Native;
use super::plan::Plan;
use super::push::PushReceiver;
use super::reads::Reads;
use crate::extras::server_check::Pushes;
use crate::values::config::Host;

/// What the handshake learned.
pub(crate) struct Hello {
    /// The server's time, just received.
    pub(crate) time: u64,
    pub(crate) push_receiver: Arc<PushReceiver>,
    /// The reply address: the server's run id and the channel; `None` without a subscription: it
    /// was refused, or the server runs no scripts that would publish grants.
    pub(crate) address: Option<Arc<str>>,
    pub(crate) pushes: Pushes,
    /// The server's native compare-and-delete command, if it has one.
    pub(crate) native: Option<Native>,
    /// How much of a string the user may read.
    pub(crate) reads: Reads,
    /// The first digits of the server's run id; empty if the user may not ask for it.
    pub(crate) run_id: String,
    /// The generation of the pool's target when the sentinels named this server, if they did.
    pub(crate) generation: Option<u64>,
    /// The server, if the sentinels named it.
    pub(crate) master: Option<Host>,
    /// What the server is as a node of a quorum, if it is one.
    pub(crate) node: Option<Membership>,
}

/// A connection of one tokio runtime; it ends when its last owner drops it.
#[derive(Debug)]
pub(crate) struct RedisLink {
    pub(crate) connection: Arc<Connection>,
    groups: Groups,
    /// For the commands of a node of a quorum.
    of_node: Arc<Batcher>,
    /// As in [`Hello`].
    address: Option<Arc<str>>,
    /// The channel, if there is a subscription and this is a node of a quorum.
    hints: Option<Arc<str>>,
    pub(super) pushes: Pushes,
}

impl RedisLink {
    pub(crate) fn new(
        connection: MultiplexedConnection,
        io_task: IoTask,
        plan: &Plan,
        hello: Hello,
    ) -> Self {
        let Hello {
            time,
            push_receiver,
            address,
            pushes,
            native,
            reads,
            run_id,
            generation,
            master,
            node,
        } = hello;
        let connection = Connection::new(
            connection,
            io_task,
            plan,
            time,
            push_receiver,
            native,
            ServerId {
                run_id: run_id.into(),
                generation,
                master,
            },
        );
        let connection = Arc::new(connection.that_reads(reads, node));
        // With a limit on commands in flight, the client library keeps no order among those that
        // wait for it, so nothing is batched.
        let (most, pace) = match (plan.settings.max_in_flight, &address) {
            (None, Some(_)) => (
                MOST,
                Some(HeartbeatPace::of(plan.settings.poll_interval(true))),
            ),
            (None, None) => (
                MOST,
                Some(HeartbeatPace::of(plan.settings.poll_interval(false))),
            ),
            (Some(_), _) => (0, None),
        };
        Self {
            groups: Groups::new(&connection, most, pace),
            hints: address
                .as_ref()
                .filter(|_| plan.node.is_some())
                .map(|_| connection.push_receiver.channel().into()),
            of_node: Batcher::of_node(&connection),
            connection,
            address,
            pushes,
        }
    }
}

#[cfg(test)]
impl RedisLink {
    /// The server's time now.
    pub(super) fn server_time(&self) -> u64 {
        use crate::link::Link;
        self.server_time_at(self.connection.clock.now())
    }

    /// Another batcher on the same connection.
    pub(super) fn batcher(&self, most: usize) -> Arc<Batcher> {
        Batcher::new(&self.connection, most)
    }

    /// The batcher of its own acquires and releases.
    pub(super) fn own_batcher(&self) -> &Arc<Batcher> {
        &self.groups.of("").batcher
    }

    /// The batcher of a node's commands.
    pub(super) fn node_batcher(&self) -> &Arc<Batcher> {
        &self.of_node
    }

    /// Other heartbeats on the same connection.
    pub(super) fn heartbeats(&self, pace: HeartbeatPace) -> Arc<Batcher> {
        Batcher::of_heartbeats(&self.connection, Some(pace))
    }
}

impl Drop for RedisLink {
    fn drop(&mut self) {
        self.connection.hang_up();
    }
}
