//! What every connection of a pool is made with, and what they have said already.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::grant_key::GrantKey;
use super::names::Names;
use super::pace::Pace;
use crate::backend::Listener;
use crate::backend::clock::Clock;
use crate::backend::command_error::CommandError;
use crate::observe;
use crate::values::config::RedisAddress;
use crate::values::error::Reason;
use crate::values::ttl::Margin;

/// What a connection needs to know.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) address: RedisAddress,
    pub(super) connect_timeout: Duration,
    pub(super) command_timeout: Duration,
    pub(super) max_in_flight: Option<usize>,
    /// How long its waiters sleep between two polls, at most.
    pub(super) poll_interval: PollInterval,
    pub(super) clock: Clock,
    pub(super) margin: Margin,
    pub(super) pace: Arc<Pace>,
    pub(super) names: Names,
    pub(super) grant_key: GrantKey,
    /// Who hears pushes.
    pub(super) listener: OnceLock<Weak<dyn Listener>>,
    /// It was said that waiters have to poll.
    pub(super) warned: AtomicBool,
    /// How often connecting has failed since it last did not, whichever runtime tried.
    pub(super) failures: AtomicU32,
}

/// As it is with pushes, and without.
#[derive(Clone, Copy, Debug)]
pub(super) struct PollInterval {
    pub(super) told: Duration,
    pub(super) untold: Duration,
}

impl Plan {
    /// Said once for each pool.
    pub(super) fn waiters_poll(&self, why: &Reason) {
        if !self.warned.swap(true, Ordering::Relaxed) {
            observe::waiters_poll(&self.address, why);
        }
    }

    /// Said once for each outage, and once that it is over.
    pub(super) fn connected(&self, ended: Result<(), &CommandError>) {
        match ended {
            Ok(()) => match self.failures.swap(0, Ordering::Relaxed) {
                0 => {}
                failures => observe::reconnected(&self.address, failures),
            },
            Err(why) => {
                if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                    observe::unreachable(&self.address, why);
                }
            }
        }
    }
}
