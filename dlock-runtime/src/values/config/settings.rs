//! The settings of a pool: one value that the builder, the environment and the command line fill, and
//! that everything reads, down to the socket.
//!
//! Invariant: a value that is in it is usable; [`Config::set`] keeps out what is not, and the check of
//! the configuration adds what depends on the server's address.

use std::time::Duration;

use super::{Address, Config, Durability, Observing, Secret};
use crate::values::handoff::Handoff;
use crate::values::lock_order::LockOrder;
use crate::values::release::Release;
use crate::values::ttl::{Margin, Ttl};
use crate::values::wait::Wait;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Set by the check.
    pub(crate) address: Address,
    pub(crate) namespace: String,
    /// As given; read it with [`Settings::default_ttl`].
    pub(super) default_ttl: Option<Ttl>,
    /// With several nodes, which the check sees to: the longest lease of the fleet.
    pub(crate) max_ttl: Option<Ttl>,
    pub(crate) default_wait: Wait,
    /// When a renewed lock is lost that says nothing about it; `None`: never.
    pub(crate) default_max_hold: Option<Ttl>,
    pub(crate) release: Release,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) shutdown_grace: Duration,
    /// As given; read it with [`Settings::poll_interval`].
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
    pub(crate) lock_order: LockOrder,
    pub(crate) local_handoff: Handoff,
    pub(crate) clock_margin: Margin,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            address: Address::Memory,
            namespace: "lock:".to_owned(),
            default_ttl: None,
            max_ttl: None,
            default_wait: Wait::For(Duration::from_secs(3)),
            default_max_hold: None,
            release: Release::Confirmed,
            connections: 1,
            connect_timeout: Duration::from_secs(1),
            command_timeout: Duration::from_millis(500),
            shutdown_grace: Duration::from_secs(5),
            poll_interval: None,
            health_check_interval: Duration::from_secs(15),
            max_in_flight: None,
            without_scripts: false,
            counter_per_slot: false,
            durability: Durability::default(),
            observing: Observing::default(),
            repair_missing_ttl: None,
            holder_name: None,
            grant_secret: None,
            lazy: false,
            lock_order: LockOrder::default(),
            local_handoff: Handoff::DEFAULT,
            clock_margin: Margin::DEFAULT,
        }
    }
}

impl Config {
    /// Sets what is usable, or notes why it is not: the check reports all such notes in one error. A
    /// setting that is given twice counts as it was given last.
    pub(super) fn set<T>(
        mut self,
        name: &'static str,
        value: Result<T, String>,
        take: impl FnOnce(&mut Settings, T),
    ) -> Self {
        self.wrong.retain(|(of, _)| *of != name);
        match value {
            Ok(value) => take(&mut self.settings, value),
            Err(why) => self.wrong.push((name, why)),
        }
        self
    }
}

impl Settings {
    /// The lease of a lock that says nothing about it.
    pub(crate) fn default_ttl(&self) -> Ttl {
        let usual = self
            .max_ttl
            .map_or(Ttl::DEFAULT, |most| most.min(Ttl::DEFAULT));
        self.default_ttl.unwrap_or(usual)
    }

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
