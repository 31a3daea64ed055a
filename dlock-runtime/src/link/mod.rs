//! One live connection to a lock server: a command goes in, its reply comes out.
//!
//! A [`Backend`] hands out [`Link`]s; the commands of a link arrive in order. `command` lists them, and
//! what each may do. `memory`, `redis` and `postgres` are the servers there are (`by_machine` is what the
//! first and the last have in common); `topology` chooses among several and wraps their links. CONTRIBUTING has the steps to add a server.
//!
//! Never in this folder: a command that is sent again although it may have been executed; a decision
//! about who gets a lock (→ `rules`). Only `redis/`, and `topology`, name the `redis` crate.

pub(crate) mod batched;
mod by_machine;
pub(crate) mod clock;
pub(crate) mod command;
pub(crate) mod command_error;
pub(crate) mod joined;
pub(crate) mod memory;
pub(crate) mod offers;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod redis;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use self::clock::Clock;
use self::command_error::CommandError;
use self::offers::Offers;
use crate::client::clock_watch::ClockAnswer;
use crate::rules::commands::PushedGrant;
use crate::values::error::Reason;
use crate::values::memory_value::MemoryValue;
use crate::values::moment::Moment;
use crate::values::node_status::NodeStatus;

pub(crate) use self::command::{Link, LinkCommand, LinkReply, not_offered, replied};

/// The pending answer of a server.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, CommandError>> + Send + 'a>>;

/// A connection to one of several servers, or why there is none.
pub(crate) type Connected = Result<Arc<dyn Link>, CommandError>;

/// A future that ends with the pool.
pub(crate) type BackgroundTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The maximum number of items in one `renew`, so that it never blocks the server for long.
pub(crate) const RENEWALS_AT_ONCE: usize = 100;

/// A lock server, or an in-memory substitute for one.
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// The clock that measures this backend's leases.
    fn clock(&self) -> Clock;

    /// What it can do. It never changes.
    fn offers(&self) -> Offers;

    /// Where the watchdog of its leases runs.
    fn watchdog(&self) -> WatchdogKind;

    /// Sets the receiver of the server's pushes. Called once, before the first link is made.
    fn listen(&self, listener: Weak<dyn Listener>);

    /// The current tokio runtime's connection that carries commands for `key`, if it exists and
    /// works.
    fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>>;

    /// The same connection, made if necessary.
    fn connect<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>>;

    /// Begins to connect to the server of this lock in another runtime, unless the connection there
    /// works. Returns at once.
    fn prepare(&self, _runtime: &Handle, _key: &str) {}

    /// A working connection to the server of this lock, of whatever runtime: for a command that no
    /// order binds to others, while the current runtime can't connect.
    fn any_ready(&self, _key: &str) -> Option<Arc<dyn Link>> {
        None
    }

    /// Why some locks are at no server that is known; asked after [`connect_all`](Self::connect_all).
    fn unserved(&self) -> Option<CommandError> {
        None
    }

    /// A connection to each server that has locks, or why there is none.
    fn connect_all(&self, within: Duration) -> Answer<'_, Vec<Connected>> {
        Box::pin(async move {
            let ready = self.ready("", self.clock().now());
            match ready {
                Some(link) => Ok(vec![Ok(link)]),
                None => Ok(vec![self.connect("", within).await]),
            }
        })
    }

    /// Whether each connection is for all locks, so that one `inspect` may be about several.
    fn links_are_for_all(&self) -> bool {
        true
    }

    /// Which of several servers has this lock: a number that may change. What goes to one server in
    /// one call has one number.
    fn server_of(&self, _key: &str) -> usize {
        0
    }

    /// Whether `acquire_all` may get these keys.
    fn in_one_step(&self, _: &mut dyn Iterator<Item = &str>) -> bool {
        true
    }

    /// A holder was told this epoch, so that none that is drawn later may be lower.
    fn epoch_given(&self, _: u64) {}

    /// What has to run beside the watchdog for as long as the pool lives: following a master that
    /// moves. Called once for each thread of the watchdog.
    fn background_task(&self) -> Option<BackgroundTask> {
        None
    }

    /// What is known of each server, if a quorum of several decides.
    fn nodes(&self) -> Vec<NodeStatus> {
        Vec::new()
    }

    /// How many connections to the server work.
    fn connections(&self) -> usize {
        0
    }

    /// What guarded writes left at a data key, if this process keeps the data.
    fn memory_value(&self, _key: &str) -> Result<Option<MemoryValue>, CommandError> {
        Err(CommandError::Setup(Reason::new(
            "`memory_value` looks into `memory://` only: read data on a server with your own client",
        )))
    }
}

impl dyn Backend {
    /// The current tokio runtime's connection that carries commands for `key`. It usually exists
    /// already, so this usually returns without waiting.
    pub(crate) async fn link(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Link>, CommandError> {
        let (link, _) = self.link_at(self.clock().now(), key, within).await?;
        Ok(link)
    }

    /// The same, and the time at which it returns: `now`, unless it had to wait.
    pub(crate) async fn link_at(
        &self,
        now: Moment,
        key: &str,
        within: Duration,
    ) -> Result<(Arc<dyn Link>, Moment), CommandError> {
        if let Some(link) = self.ready(key, now) {
            return Ok((link, now));
        }
        let link = self.connect(key, within).await?;
        Ok((link, self.clock().now()))
    }
}

/// Where renewals, deadlines and the cleanup run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchdogKind {
    /// On a thread of its own, with a connection of its own: leases are renewed and released even
    /// if the caller's runtime is blocked or has ended. While that connection can't be made, it uses
    /// the callers'.
    Thread,
    /// On the caller's runtime, because its clock may be paused; every answer is ready at once.
    Caller,
}

/// Receives what a server says unasked. Called from the task that reads and writes a connection's
/// socket, or from inside another command's call: it must not block, and must not send anything
/// itself.
pub(crate) trait Listener: Debug + Send + Sync {
    /// A waiter's claim was granted, and the message is to be believed. `since` is no later than
    /// the grant, on the backend's clock; `None` if that time is unknown, so that the waiter has to
    /// poll.
    fn granted(&self, grant: PushedGrant, since: Option<Moment>);

    /// A message says that this value was granted, but it may be false: the waiter has to poll.
    fn hinted(&self, key: &Arc<str>, value: &str);

    /// A node says that this lock is free there; it carries no right, and may be forged.
    fn freed(&self, _key: &Arc<str>) {}

    /// A message says that the holder with this value was evicted; it carries no right, and may be
    /// forged. `is_proved`: whoever wrote it knows the fleet's secret.
    fn evicted(&self, key: &str, value: &str, is_proved: bool);

    /// A connection ended: pushes may have been lost, so its waiters should poll.
    fn disconnected(&self);
}

/// A server that can be one node of a quorum.
pub(crate) trait NodeBackend: Backend {
    /// As [`Backend::ready`].
    fn ready_node(&self, key: &str, now: Moment) -> Option<Arc<dyn Node>>;

    /// As [`Backend::any_ready`].
    fn any_ready_node(&self, _key: &str) -> Option<Arc<dyn Node>> {
        None
    }

    /// As [`Backend::connect`].
    fn connect_node<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Node>>;
}

/// What a connection to one node of a quorum knows of it. It carries the commands of a [`Link`]. A vote,
/// an adoption, a `Cancel` (which takes a vote back) and a `Downgrade` are sent once polled, even if the
/// future is dropped, and before anything that is first polled later for the same lock.
pub(crate) trait Node: Link {
    /// Which process of the server it goes to; empty if unknown.
    fn run_id(&self) -> &str;

    /// From when on this process of the server may vote.
    fn votes_from(&self) -> Moment;

    /// The node's time in its latest answer.
    fn clock_answer(&self) -> Option<ClockAnswer>;

    /// Tells the node which quorum it belongs to, in the background, if it is time.
    fn remind(&self);

    /// Where the node sends hints to this connection's waiters; `None`: it can't.
    fn hint_address(&self) -> Option<&Arc<str>>;
}
