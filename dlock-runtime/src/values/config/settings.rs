//! The settings of a pool, all checked. Invariant: every value is usable; no later step refuses
//! one.

use std::time::Duration;

use super::{Address, Durability, Observing, Secret};
use crate::values::handoff::Handoff;
use crate::values::lock_order::LockOrder;
use crate::values::release::Release;
use crate::values::ttl::{Margin, Ttl};
use crate::values::wait::Wait;

/// A configuration that can work.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) namespace: String,
    pub(crate) default_ttl: Ttl,
    /// With several nodes: the longest lease of the fleet.
    pub(crate) max_ttl: Option<Ttl>,
    pub(crate) default_wait: Wait,
    pub(crate) release: Release,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    /// As it was configured; read it with [`Settings::poll_interval`].
    pub(super) poll_interval: Option<Duration>,
    pub(crate) health_check_interval: Duration,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) without_scripts: bool,
    pub(crate) counter_per_slot: bool,
    pub(crate) durability: Durability,
    pub(crate) observing: Observing,
    pub(crate) repair_missing_ttl: Option<Duration>,
    pub(crate) holder_name: Option<String>,
    pub(crate) grant_secret: Option<Secret>,
    pub(crate) lazy: bool,
    pub(crate) local_handoff: Handoff,
    pub(crate) clock_margin: Margin,
    pub(crate) lock_order: LockOrder,
}

impl Settings {
    /// The longest that a command may take, connecting included.
    pub(crate) fn one_step(&self) -> Duration {
        self.connect_timeout + self.command_timeout
    }

    /// Whether one address stands for servers that it does not show.
    pub(crate) fn is_behind_a_proxy(&self) -> bool {
        self.counter_per_slot && !matches!(self.address, Address::Cluster(_))
    }

    /// Checks a lease: with several nodes, none may be longer than all programs agreed on.
    pub(crate) fn check_lease(&self, lease: Ttl) -> Result<(), String> {
        match self.max_ttl {
            Some(most) if lease > most => Err(format!(
                "a lease of {:?} is longer than the `max_ttl` of {:?}, after which a node that was restarted votes again; shorten it, or raise `max_ttl` in all programs",
                lease.get(),
                most.get()
            )),
            _ => Ok(()),
        }
    }

    /// The longest time between two polls of a waiter. `pushes`: the server tells waiters about
    /// grants.
    pub(crate) fn poll_interval(&self, pushes: bool) -> Duration {
        let default = if pushes {
            Duration::from_secs(1)
        } else {
            Duration::from_millis(100)
        };
        self.poll_interval.unwrap_or(default)
    }
}
