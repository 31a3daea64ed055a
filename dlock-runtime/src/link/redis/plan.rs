//! What every connection of a pool is made with, and what the pool has already logged about
//! connecting. It opens no connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::epochs::HighestEpoch;
use super::grant_key::GrantKey;
use super::membership::NodePlan;
use super::names::Names;
use super::outage::{AttemptNumber, Attempts};
use super::pace::ClockPace;
use super::redirects::OfCluster;
use super::target::ConnectionTarget;
use crate::link::Listener;
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::observe;
use crate::values::config::{RedisAddress, Settings};
use crate::values::error::Reason;

/// The pool's settings and state that a connection needs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) address: Arc<RedisAddress>,
    pub(crate) target: Arc<ConnectionTarget>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) pace: Arc<ClockPace>,
    pub(crate) names: Names,
    pub(crate) highest_epoch: HighestEpoch,
    pub(crate) grant_key: GrantKey,
    /// The quorum that the server is a node of, if it is.
    pub(crate) node: Option<NodePlan>,
    /// The node of a cluster that the server is, if it is one.
    pub(crate) of_cluster: Option<OfCluster>,
    /// The receiver of pushes.
    pub(crate) listener: OnceLock<Weak<dyn Listener>>,
    /// It was logged that waiters have to poll.
    pub(crate) warned: AtomicBool,
    /// The attempts to connect, of all runtimes.
    pub(crate) attempts: Attempts,
}

impl Plan {
    /// Logged once per pool.
    pub(crate) fn waiters_poll(&self, why: &Reason) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            observe::waiters_poll(&self.address, why);
        }
    }

    /// Notes the result of an attempt to connect; logs the beginning and the end of each outage.
    pub(crate) fn connected(&self, attempt: AttemptNumber, ended: Result<(), &CommandError>) {
        match ended {
            Ok(()) => {
                if let Some(failed) = self.attempts.succeeded() {
                    observe::reconnected(&self.address, failed);
                }
            }
            Err(why) => {
                self.of_cluster.iter().for_each(OfCluster::may_have_changed);
                if self.attempts.failed(attempt) {
                    observe::unreachable(&self.address, why);
                }
            }
        }
    }
}
