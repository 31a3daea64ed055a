//! One Redis (or Valkey) server, 6.2 or newer, or the nodes of a `cluster`.
//!
//! `supervisor` keeps the connections of each tokio runtime alive, each in a `slot`; `plan` holds
//! their settings and `connect` makes one by `client`, over a stream of `dial`: a `socket`, or
//! `tls` on it. Its `io_task` reads and writes, `reply_bound` says how much. `outage` notes which attempts failed. `server_info`
//! is what it asks the server first. `target` is the server that they go to, which `sentinel` may
//! name, `redirects` what a node of a cluster says of others. `link` speaks the protocol over it
//! and batches commands, `calls` chooses the script and the arguments of an operation, `write`
//! sends guarded writes, `check` asks for the server's settings, and `beside` the other addresses of
//! its name for their server. `push` receives pushes and
//! `grant_key` authenticates them; `pace` detects clock drift and steps, `epochs` keeps the epoch
//! counter from falling. `names` has the keys and channels that belong to a lock, `scripts` the
//! Lua, `native` the server's own compare-and-delete command, `reads` says how much is read of a
//! string, `reply` and `errors` read the
//! answers. `plain` is the link to a server without scripts, `witness` asks for replicas, `node`
//! shakes hands with a node of a quorum, whose `membership` it keeps.
//!
//! Never in this folder: a `redis::` type that leaves it, a command that the client library retries
//! automatically.

mod beside;
mod calls;
mod check;
mod client;
mod cluster;
mod connect;
mod dial;
mod epochs;
mod errors;
mod grant_key;
mod io_task;
mod link;
mod lua;
mod membership;
mod names;
mod native;
mod node;
mod outage;
mod pace;
mod plain;
mod plan;
mod push;
mod reads;
mod redirects;
mod reply;
mod reply_bound;
mod scripts;
mod sentinel;
mod server_info;
mod slot;
mod socket;
mod supervisor;
mod target;
#[cfg(feature = "tls")]
mod tls;
mod witness;
mod write;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::membership::NodePlan;
use self::supervisor::Supervisor;
use super::clock::Clock;
use super::offers::Offers;
use super::{Answer, Backend, BackgroundTask, Link, Listener, Node, NodeBackend, WatchdogKind};
use crate::values::config::{RedisAddress, Settings};
use crate::values::moment::Moment;

/// A pool's connections to its server.
#[derive(Debug)]
pub(crate) struct Redis {
    supervisor: Arc<Supervisor>,
    clock: Clock,
}

impl Redis {
    /// `node`: the quorum that the server is a node of, if it is.
    pub(crate) fn new(
        address: &Arc<RedisAddress>,
        settings: &Arc<Settings>,
        node: Option<NodePlan>,
    ) -> Self {
        let clock = Clock::real();
        Self {
            supervisor: Supervisor::new(address, settings, node, None, clock),
            clock,
        }
    }
}

impl Backend for Redis {
    fn offers(&self) -> Offers {
        self.supervisor.offers()
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn watchdog(&self) -> WatchdogKind {
        WatchdogKind::Thread
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.supervisor.listen(listener);
    }

    fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>> {
        self.supervisor.ready(key, now)
    }

    fn connect<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>> {
        Box::pin(self.supervisor.link(key, within))
    }

    fn prepare(&self, runtime: &Handle, key: &str) {
        self.supervisor.prepare(runtime, key);
    }

    fn any_ready(&self, _: &str) -> Option<Arc<dyn Link>> {
        self.supervisor.any_ready()
    }

    fn in_one_step(&self, keys: &mut dyn Iterator<Item = &str>) -> bool {
        self.supervisor.in_one_step(keys)
    }

    fn epoch_given(&self, epoch: u64) {
        self.supervisor.epoch_given(epoch);
    }

    fn connections(&self) -> usize {
        self.supervisor.working()
    }

    fn background_task(&self) -> Option<BackgroundTask> {
        self.supervisor.follow_the_master()
    }
}

impl NodeBackend for Redis {
    fn ready_node(&self, key: &str, now: Moment) -> Option<Arc<dyn Node>> {
        self.supervisor.ready_node(key, now)
    }

    fn any_ready_node(&self, _: &str) -> Option<Arc<dyn Node>> {
        self.supervisor.any_ready_node()
    }

    fn connect_node<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Node>> {
        Box::pin(self.supervisor.node(key, within))
    }
}
