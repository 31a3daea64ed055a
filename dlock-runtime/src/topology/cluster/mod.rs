//! A cluster: each hash slot is served by one node, and all keys of a lock are in one slot.
//!
//! `nodes` has the connections to each node, a `supervisor` each, and knows who serves what: it asks
//! the nodes (`questions`) when `rounds` says so, and keeps it in a `topology::cluster::slot_map`. What a node
//! refused because of a slot (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`) was certainly not executed.
//! `link` sends a command on if it finishes what was begun; an acquire is repeated by its caller, with
//! a fresh token.
//!
//! Invariant: what a node says about others decides only whom to ask next. Never in this folder: an
//! acquire that is sent a second time.

mod link;
mod nodes;
mod questions;
mod rounds;
pub(crate) mod slot_map;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use self::link::ClusterLink;
use self::nodes::{ClusterNodes, unserved, unserved_slots};
use crate::link::clock::Clock;
use crate::link::command_error::{self, CommandError};
use crate::link::joined::all;
use crate::link::offers::Offers;
use crate::link::{Answer, Backend, BackgroundTask, Connected, Link, Listener, WatchdogKind};
use crate::values::config::{ClusterAddress, Host, Settings};
use crate::values::moment::Moment;
use crate::values::slot::slot;

/// A pool's connections to the nodes of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster(Arc<ClusterNodes>);

impl Cluster {
    pub(crate) fn new(address: &ClusterAddress, settings: &Arc<Settings>) -> Self {
        Self(ClusterNodes::new(address, settings))
    }

    fn through(&self, node: Arc<dyn Link>) -> Arc<dyn Link> {
        Arc::new(ClusterLink::new(self.0.clone(), node))
    }
}

impl Backend for Cluster {
    fn clock(&self) -> Clock {
        self.0.clock
    }

    fn offers(&self) -> Offers {
        Offers::Everything
    }

    fn watchdog(&self) -> WatchdogKind {
        WatchdogKind::Thread
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        let _ = self.0.listener.set(listener); // called once, before the first node is known
    }

    fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>> {
        let state = self.0.lock();
        let node = state.nodes.get(state.map.node(slot(key))?)?.clone();
        drop(state);
        node.ready(key, now).map(|node| self.through(node))
    }

    fn connect<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>> {
        Box::pin(async move {
            let node = self.0.connect_to_owner(key, within).await?;
            Ok(self.through(node))
        })
    }

    fn prepare(&self, runtime: &Handle, key: &str) {
        if let Some((_, node)) = self.0.owner(slot(key)) {
            node.prepare(runtime, key);
        }
    }

    fn any_ready(&self, key: &str) -> Option<Arc<dyn Link>> {
        let (_, node) = self.0.owner(slot(key))?;
        node.any_ready().map(|node| self.through(node))
    }

    fn connect_all(&self, within: Duration) -> Answer<'_, Vec<Connected>> {
        Box::pin(async move {
            command_error::runtime_with_timers()?;
            let until = Instant::now() + within;
            let known = || -> Vec<Host> {
                let state = self.0.lock();
                state.map.nodes().into_iter().cloned().collect()
            };
            let mut hosts = known();
            if hosts.is_empty() {
                self.0.ask(until).await?;
                hosts = known();
            }
            if hosts.is_empty() {
                return Err(unserved(0));
            }
            let connect = |host: Host| -> Answer<'_, Arc<dyn Link>> {
                let node = self.0.connections_to(&mut self.0.lock(), &host);
                let left = until.saturating_duration_since(Instant::now());
                Box::pin(async move {
                    let linked = node.link("", left).await;
                    linked.map_err(|error| self.0.of_node(&host, error))
                })
            };
            Ok(all(hosts.into_iter().map(connect).collect()).await)
        })
    }

    fn unserved(&self) -> Option<CommandError> {
        let unserved = self.0.lock().map.unserved();
        unserved.map(|(count, first)| unserved_slots(count, first))
    }

    fn server_of(&self, key: &str) -> usize {
        self.0.lock().map.number(slot(key))
    }

    fn links_are_for_all(&self) -> bool {
        false
    }

    fn in_one_step(&self, keys: &mut dyn Iterator<Item = &str>) -> bool {
        let mut slots = keys.map(slot);
        let first = slots.next();
        slots.all(|slot| Some(slot) == first)
    }

    fn connections(&self) -> usize {
        let nodes: Vec<_> = self.0.lock().nodes.values().cloned().collect();
        nodes.iter().map(|node| node.working()).sum()
    }

    fn background_task(&self) -> Option<BackgroundTask> {
        Some(Box::pin(ClusterNodes::follow(Arc::downgrade(&self.0))))
    }
}
