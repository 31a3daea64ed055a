//! One server, or a master that moves: keeps the connections to it.
//!
//! `supervisor` keeps the connections of each tokio runtime alive, each in a `slot`, and wraps the
//! link over them by what the settings ask for. `connect` makes one, to the server that its target
//! names, which `sentinel` may say.

pub(crate) mod connect;
pub(crate) mod slot;
pub(crate) mod supervisor;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;

use self::supervisor::Supervisor;
use crate::link::clock::Clock;
use crate::link::offers::Offers;
use crate::link::redis::membership::NodePlan;
use crate::link::{
    Answer, Backend, BackgroundTask, Link, Listener, Node, NodeBackend, WatchdogKind,
};
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
