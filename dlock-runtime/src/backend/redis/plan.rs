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
use crate::backend::Listener;
use crate::backend::clock::Clock;
use crate::backend::command_error::CommandError;
use crate::observe;
use crate::values::config::{RedisAddress, Settings};
use crate::values::error::Reason;

/// The pool's settings and state that a connection needs.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) address: Arc<RedisAddress>,
    pub(super) target: Arc<ConnectionTarget>,
    pub(super) settings: Arc<Settings>,
    pub(super) clock: Clock,
    pub(super) pace: Arc<ClockPace>,
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
    /// The attempts to connect, of all runtimes.
    pub(super) attempts: Attempts,
}

impl Plan {
    /// Logged once per pool.
    pub(super) fn waiters_poll(&self, why: &Reason) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            observe::waiters_poll(&self.address, why);
        }
    }

    /// Notes the result of an attempt to connect; logs the beginning and the end of each outage.
    pub(super) fn connected(&self, attempt: AttemptNumber, ended: Result<(), &CommandError>) {
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
