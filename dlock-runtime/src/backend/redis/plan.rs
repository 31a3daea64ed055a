//! The settings that every connection of a pool is made with, and what the pool has already logged
//! about connecting. It opens no connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

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
use crate::values::config::{Durability, RedisAddress};
use crate::values::error::Reason;
use crate::values::ttl::Margin;

/// The pool's settings and state that a connection needs.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) address: Arc<RedisAddress>,
    pub(super) target: Arc<ConnectionTarget>,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
    pub(super) max_in_flight: Option<usize>,
    pub(super) without_scripts: bool,
    pub(super) durability: Durability,
    /// The longest pause of a waiter between two polls.
    pub(super) poll_interval: PollInterval,
    pub(super) clock: Clock,
    pub(super) margin: Margin,
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
