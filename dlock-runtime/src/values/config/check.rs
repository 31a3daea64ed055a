//! Checks a configuration, and reports every mistake in one error.
//!
//! It connects to nothing. Invariant: [`Settings`] come only out of this check.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::{Address, Config, Endpoint, Login, RedisAddress, Secret, Settings};
use dlock_grammar::visible::{first_hidden, is_visible};

use crate::values::error::LockError;
use crate::values::handoff::{Handoff, MOST_HANDOFFS};
use crate::values::shown::NAME_AT_MOST;
use crate::values::ttl::{Margin, Ttl};

/// The range of `poll_interval`. Above it, one lost poll would cost a waiter its queue entry, which
/// is kept for 3.5 s after its last poll.
const POLL_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);

const DEFAULT_TTL: Duration = Duration::from_secs(30);

/// The default of `max_ttl`.
const MAX_TTL: Duration = Duration::from_secs(60);

/// For how long after its grant a lock may be handed on, at most.
const LOCAL_HANDOFF_AT_MOST: Duration = Duration::from_secs(1);

/// The length of a `grant_secret` in bytes. A short one can be guessed from a MAC that was made
/// with it.
const GRANT_SECRET: RangeInclusive<usize> = 16..=1024;

impl Config {
    /// The settings, all checked.
    pub(crate) fn check(self) -> Result<Settings, LockError> {
        let mut wrong = Vec::new();
        let address = self
            .address()
            .map_err(|why| wrong.push(why))
            .ok()
            .map(|address| self.complete(address, &mut wrong));
        let mut lease = |what: &str, ttl: Duration| {
            dlock_grammar::bounds::check_ttl(ttl)
                .map_err(|why| wrong.push(format!("{what}: {why}")))
                .ok();
        };
        let default_ttl = self.usual_ttl();
        lease("default_ttl", default_ttl);
        if let Some(ttl) = self.repair_missing_ttl {
            lease("repair_missing_ttl", ttl);
        }
        let max_ttl = match &address {
            Some(Address::Redlock(_)) => Some(self.max_ttl.unwrap_or(MAX_TTL)),
            _ => None,
        };
        if let Some(ttl) = max_ttl {
            lease("max_ttl", ttl);
        }
        if address.is_some() {
            wrong.extend(self.check_max_ttl(max_ttl));
        }
        self.check_times(&mut wrong);
        let poll_interval = self.poll_interval.map(check_poll_interval);
        wrong.extend(poll_interval.and_then(Result::err));
        if !(1..=64).contains(&self.connections) {
            wrong.push(format!(
                "connections: {} is out of range; give 1 to 64 (one is enough for hundreds of tasks)",
                self.connections
            ));
        }
        let local_handoff = check_local_handoff(self.local_handoff)
            .map_err(|why| wrong.push(why))
            .ok();
        let clock_margin = Margin::percent(self.clock_margin);
        if clock_margin.is_none() {
            wrong.push(format!(
                "clock_margin: {} per cent is out of range; give 1 to {}",
                self.clock_margin,
                Margin::MOST
            ));
        }
        if self.max_in_flight == Some(0) {
            wrong.push("max_in_flight: 0 would send nothing; give at least 1".to_owned());
        }
        self.durability.check(&mut wrong);
        self.observing.check(&mut wrong);
        if self.counter_per_slot && self.durability.is_asked_for() {
            wrong.push(
                "counter_per_slot: `min_replicas` and `min_aof` ask one server, and a proxy that shards has several; leave one of them out"
                    .to_owned(),
            );
        }
        wrong.extend(check_namespace(&self.namespace).err());
        let holder_name = self.holder_name.as_deref().map(check_holder_name);
        wrong.extend(holder_name.and_then(Result::err));
        wrong.extend(
            self.grant_secret
                .as_ref()
                .map(check_grant_secret)
                .and_then(Result::err),
        );
        let is_cluster = matches!(address, Some(Address::Cluster(_)));
        let bounds = local_handoff.zip(clock_margin);
        match (address, Ttl::new(default_ttl), bounds) {
            (Some(address), Ok(default_ttl), Some((local_handoff, clock_margin)))
                if wrong.is_empty() =>
            {
                Ok(Settings {
                    address,
                    namespace: self.namespace,
                    default_ttl,
                    max_ttl: max_ttl.and_then(|ttl| Ttl::new(ttl).ok()), // checked above
                    default_wait: self.default_wait,
                    release: self.release,
                    connections: self.connections,
                    connect_timeout: self.connect_timeout,
                    command_timeout: self.command_timeout,
                    poll_interval: self.poll_interval,
                    health_check_interval: self.health_check_interval,
                    max_in_flight: self.max_in_flight,
                    without_scripts: self.without_scripts,
                    counter_per_slot: self.counter_per_slot || is_cluster,
                    durability: self.durability,
                    observing: self.observing,
                    repair_missing_ttl: self.repair_missing_ttl,
                    holder_name: self.holder_name,
                    grant_secret: self.grant_secret,
                    lazy: self.lazy,
                    lock_order: self.lock_order,
                    local_handoff,
                    clock_margin,
                })
            }
            _ => Err(LockError::config(wrong.join("; "))),
        }
    }
}

impl Config {
    fn check_times(&self, wrong: &mut Vec<String>) {
        for (what, time) in [
            ("connect_timeout", self.connect_timeout),
            ("command_timeout", self.command_timeout),
            ("health_check_interval", self.health_check_interval),
        ] {
            if time < Duration::from_millis(1) || time > Duration::from_secs(3600) {
                wrong.push(format!(
                    "{what}: {time:?} is out of range; give 1 ms to 1 h"
                ));
            }
        }
    }

    /// The URL's address, with what the configuration gives beside the URL.
    fn complete(&self, address: Address, wrong: &mut Vec<String>) -> Address {
        match address {
            Address::Redis(mut redis) => {
                self.complete_redis(Arc::make_mut(&mut redis), wrong);
                Address::Redis(redis)
            }
            Address::Cluster(mut cluster) => {
                self.complete_redis(&mut Arc::make_mut(&mut cluster).any, wrong);
                self.check_cluster(wrong);
                Address::Cluster(cluster)
            }
            Address::Redlock(mut nodes) => {
                for node in &mut nodes {
                    self.complete_redis(Arc::make_mut(node), wrong);
                }
                wrong.dedup(); // the same for each node
                self.check_redlock(wrong);
                Address::Redlock(nodes)
            }
            Address::Memory => {
                for (what, is_given) in [
                    ("tls", self.tls.is_given()),
                    ("credentials", self.login.is_some()),
                    ("connector", self.connector.is_some()),
                    ("min_replicas", self.durability.min_replicas.is_some()),
                    ("min_aof", self.durability.min_aof.is_some()),
                ] {
                    if is_given {
                        wrong.push(format!("{what}: `memory://` has no server; leave it out"));
                    }
                }
                Address::Memory
            }
        }
    }

    /// What a cluster has anyway, and what it can't have.
    fn check_cluster(&self, wrong: &mut Vec<String>) {
        for (what, is_given, why) in [
            (
                "without_scripts",
                self.without_scripts,
                "transactions over the nodes of a cluster are not built",
            ),
            (
                "counter_per_slot",
                self.counter_per_slot,
                "a cluster has a counter in each slot anyway",
            ),
            (
                "min_replicas",
                self.durability.min_replicas.is_some(),
                "waiting for the replicas of each node is not built",
            ),
            (
                "min_aof",
                self.durability.min_aof.is_some(),
                "waiting for the files of each node is not built",
            ),
        ] {
            if is_given {
                wrong.push(format!(
                    "{what}: {why}; leave it out with `redis+cluster://`"
                ));
            }
        }
    }

    /// What can't be had of several nodes.
    fn check_redlock(&self, wrong: &mut Vec<String>) {
        for (what, is_given, why) in [
            (
                "repair_missing_ttl",
                self.repair_missing_ttl.is_some(),
                "a key without a time to live at some of several nodes can't be told from a lock that is held",
            ),
            (
                "without_scripts",
                self.without_scripts,
                "a node draws its epoch and gives its vote in one script",
            ),
            (
                "counter_per_slot",
                self.counter_per_slot,
                "a node is one server, and a proxy that shards is several",
            ),
            (
                "max_in_flight",
                self.max_in_flight.is_some(),
                "the commands to a node have to keep their order",
            ),
            (
                "min_replicas",
                self.durability.min_replicas.is_some(),
                "a node has no replicas",
            ),
            (
                "min_aof",
                self.durability.min_aof.is_some(),
                "the other nodes are what a lock survives a restart by",
            ),
        ] {
            if is_given {
                wrong.push(format!("{what}: {why}; leave it out with `redlock`"));
            }
        }
    }

    /// The `default_ttl`: without one that was given, no longer than a `max_ttl` that was.
    fn usual_ttl(&self) -> Duration {
        let usual = self
            .max_ttl
            .map_or(DEFAULT_TTL, |most| DEFAULT_TTL.min(most));
        self.default_ttl.unwrap_or(usual)
    }

    /// `max_ttl`: that of several nodes.
    fn check_max_ttl(&self, max_ttl: Option<Duration>) -> Option<String> {
        match (max_ttl, self.max_ttl) {
            (None, Some(_)) => {
                Some("max_ttl: it is for several nodes (`redlock://`); leave it out".to_owned())
            }
            (Some(most), _) if self.usual_ttl() > most => Some(format!(
                "default_ttl: {:?} is longer than the `max_ttl` of {most:?}; shorten it, or raise `max_ttl` in all programs",
                self.usual_ttl()
            )),
            _ => None,
        }
    }

    fn complete_redis(&self, address: &mut RedisAddress, wrong: &mut Vec<String>) {
        match address.tls.take() {
            Some(tls) => address.tls = Some(tls.and(self.tls.clone(), wrong)),
            None if self.tls.is_given() => wrong.push(
                "tls: certificates are given, but the URL does not ask for TLS; begin it with `rediss://`"
                    .to_owned(),
            ),
            None => {}
        }
        if let Some(asked) = &self.login {
            if matches!(&address.login, Login::Fixed(login) if login.are_given()) {
                wrong.push(
                    "credentials: the URL has a user or a password too; give them in one place"
                        .to_owned(),
                );
            }
            address.login = asked.clone();
        }
        if self.connector.is_some() && matches!(address.endpoint, Endpoint::Unix(_)) {
            wrong.push(
                "connector: the URL is a unix socket's; give `redis://host:6379` for it".to_owned(),
            );
        }
        address.connector.clone_from(&self.connector);
    }
}

fn check_poll_interval(interval: Duration) -> Result<(), String> {
    if POLL_INTERVAL.contains(&interval) {
        return Ok(());
    }
    Err(format!(
        "poll_interval: {interval:?} is out of range; give 1 ms to 1 s (a waiter that is silent for 3.5 s loses its place in the queue)"
    ))
}

fn check_local_handoff((most, within): (usize, Duration)) -> Result<Handoff, String> {
    if within > LOCAL_HANDOFF_AT_MOST {
        return Err(format!(
            "local_handoff: {within:?} is out of range; give at most 1 s (waiters of other processes stand still meanwhile)"
        ));
    }
    match u16::try_from(most) {
        Ok(most) if most <= MOST_HANDOFFS => Ok(Handoff::up_to(most, within)),
        _ => Err(format!(
            "local_handoff: {most} times is out of range; give 0 to {MOST_HANDOFFS}"
        )),
    }
}

fn check_grant_secret(secret: &Secret) -> Result<(), String> {
    if GRANT_SECRET.contains(&secret.reveal().len()) {
        return Ok(());
    }
    Err("grant_secret: shorter than 16 bytes or longer than 1024; give 32 random ones".to_owned())
}

/// The last two are of texts that went through an editor or a chat.
const QUOTES: [(char, char); 4] = [('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’')];

/// A text without the quotes around it, and blanks, which some readers of files do not take away.
pub(super) fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = |(left, right)| text.strip_prefix(left)?.strip_suffix(right);
    QUOTES.into_iter().find_map(inner).map_or(text, str::trim)
}

fn check_namespace(namespace: &str) -> Result<(), String> {
    if unwrapped(namespace).len() < namespace.len() {
        return Err("namespace: stands in quotes or has a blank at an end, which would be part of every key; leave it out".to_owned());
    }
    if namespace.len() > 128 {
        return Err("namespace: longer than 128 bytes; shorten it".to_owned());
    }
    if namespace
        .chars()
        .any(|c| matches!(c, '{' | '}' | '|' | '@') || !is_visible(c))
    {
        return Err("namespace: has a brace, a bar, an `@`, a control character or another that nobody sees; leave it out (a hash tag belongs in the key)".to_owned());
    }
    Ok(())
}

/// The name stands in each entry on the server, and in the errors of other processes.
fn check_holder_name(name: &str) -> Result<(), String> {
    if name.len() > NAME_AT_MOST {
        return Err(format!(
            "holder_name: longer than {NAME_AT_MOST} bytes; shorten it"
        ));
    }
    if first_hidden(name).is_some() {
        return Err(
            "holder_name: has a control character or another that nobody sees; leave it out"
                .to_owned(),
        );
    }
    Ok(())
}
