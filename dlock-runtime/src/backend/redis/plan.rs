//! The settings that every connection of a pool is made with, and what the pool has already logged
//! about connecting. It opens no connection.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind, Value};

use super::cluster::read_node;
use super::epochs::HighestEpoch;
use super::grant_key::GrantKey;
use super::link::RedisLink;
use super::names::Names;
use super::node::NodePlan;
use super::pace::Pace;
use super::target::Target;
use crate::backend::clock::Clock;
use crate::backend::command_error::CommandError;
use crate::backend::{Answer, Listener};
use crate::observe;
use crate::values::config::{Durability, Host, RedisAddress};
use crate::values::error::Reason;
use crate::values::ttl::Margin;

/// What the connections to one node of a cluster tell about the others.
pub(super) trait Redirects: Debug + Send + Sync {
    /// A command was not executed, because this node serves its slot.
    fn moved(&self, slot: u16, node: Host);

    /// A connection to a node that another one has named.
    fn node(&self, node: Host, within: Duration) -> Answer<'_, Arc<RedisLink>>;

    /// The node is silent, or says that nobody serves a slot.
    fn may_have_changed(&self);

    /// A slot that this node serves.
    fn slot_of(&self, node: &Host) -> Option<u16>;
}

/// Which node of a cluster a connection goes to, and who hears of the others.
#[derive(Clone, Debug)]
pub(super) struct OfCluster {
    pub(super) redirects: Weak<dyn Redirects>,
    pub(super) host: Host,
}

impl OfCluster {
    /// The meaning of an error about slots, of which the others hear. Nothing was executed.
    pub(super) fn meaning(&self, error: &RedisError, why: Reason) -> CommandError {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::Moved) => {
                let named = error.redirect_node();
                let named =
                    named.and_then(|(node, slot)| Some((slot, read_node(node, &self.host)?)));
                match (named, self.redirects.upgrade()) {
                    (Some((slot, node)), Some(redirects)) => redirects.moved(slot, node),
                    _ => self.may_have_changed(),
                }
                CommandError::Elsewhere(why)
            }
            ErrorKind::Server(ServerErrorKind::Ask | ServerErrorKind::TryAgain) => {
                CommandError::Moving(why)
            }
            _ => {
                self.may_have_changed();
                CommandError::Unsent(why)
            }
        }
    }

    /// A connection to the node that has the key of this command by now, if the answer says so
    /// (`ASK`).
    pub(super) async fn has_it(&self, answer: &Value, within: Duration) -> Option<Arc<RedisLink>> {
        let Value::ServerError(error) = answer else {
            return None;
        };
        let error = RedisError::from(error.clone());
        let is_ask = error.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        let (node, _) = error.redirect_node().filter(|_| is_ask)?;
        let node = read_node(node, &self.host)?;
        self.redirects.upgrade()?.node(node, within).await.ok()
    }

    pub(super) fn may_have_changed(&self) {
        if let Some(redirects) = self.redirects.upgrade() {
            redirects.may_have_changed();
        }
    }
}

/// The pool's settings and state that a connection needs.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) address: Arc<RedisAddress>,
    pub(super) target: Arc<Target>,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
    pub(super) max_in_flight: Option<usize>,
    pub(super) without_scripts: bool,
    pub(super) durability: Durability,
    /// The longest pause of a waiter between two polls.
    pub(super) poll_interval: PollInterval,
    pub(super) clock: Clock,
    pub(super) margin: Margin,
    pub(super) pace: Arc<Pace>,
    pub(super) names: Names,
    pub(super) highest_epoch: HighestEpoch,
    pub(super) grant_key: GrantKey,
    /// The quorum that the server is a node of, if it is.
    pub(super) node: Option<NodePlan>,
    /// The node of a cluster that the server is, if it is one.
    pub(super) of_cluster: Option<OfCluster>,
    /// The receiver of pushes.
    pub(super) listener: OnceLock<Weak<dyn Listener>>,
    /// It was logged that waiters have to poll.
    pub(super) warned: AtomicBool,
    /// How many attempts to connect have failed since the last success, over all runtimes.
    pub(super) failures: AtomicU32,
}

/// The poll interval with pushes (`with_pushes`), and without (`without_pushes`).
#[derive(Clone, Copy, Debug)]
pub(super) struct PollInterval {
    pub(super) with_pushes: Duration,
    pub(super) without_pushes: Duration,
}

impl Plan {
    /// Logged once per pool.
    pub(super) fn waiters_poll(&self, why: &Reason) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            observe::waiters_poll(&self.address, why);
        }
    }

    /// Notes the result of an attempt to connect; logs the beginning and the end of each outage.
    pub(super) fn connected(&self, ended: Result<(), &CommandError>) {
        match ended {
            Ok(()) => match self.failures.swap(0, Ordering::Relaxed) {
                0 => {}
                failures => observe::reconnected(&self.address, failures),
            },
            Err(why) => {
                self.of_cluster.iter().for_each(OfCluster::may_have_changed);
                if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                    observe::unreachable(&self.address, why);
                }
            }
        }
    }
}
