//! Makes a configuration one that can work, and reports every mistake in one error.
//!
//! Here are the ranges of the settings, and what depends on the server's address. It connects to
//! nothing.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::refused::ServerKind;
use super::{
    Address, Config, Endpoint, Login, PostgresAddress, RedisAddress, Secret, Settings, Tls,
};
use dlock_grammar::visible::{first_hidden, is_visible};

use crate::values::error::LockError;
use crate::values::handoff::{Handoff, MOST_HANDOFFS};
use crate::values::shown::NAME_AT_MOST;
use crate::values::ttl::{Margin, Ttl};

/// The range of `poll_interval`. Above it, one lost poll would cost a waiter its queue entry, which
/// is kept for 3.5 s after its last poll.
const POLL_INTERVAL: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);

const SHUTDOWN_GRACE_AT_MOST: Duration = Duration::from_secs(5 * 60);

/// For how long after its grant a lock may be handed on, at most.
const LOCAL_HANDOFF_AT_MOST: Duration = Duration::from_secs(1);

/// The length of a `grant_secret` in bytes. A short one can be guessed from a MAC that was made
/// with it.
const GRANT_SECRET: RangeInclusive<usize> = 16..=1024;

impl Config {
    /// The settings, all checked.
    pub(crate) fn check(mut self) -> Result<Settings, LockError> {
        let mut wrong = Vec::new();
        match self.address() {
            Err(why) => wrong.push(why),
            Ok(address) => {
                self.settings.address = self.complete(address, &mut wrong);
                wrong.extend(ServerKind::of(&self.settings.address).refused_settings(&self));
                self.settle();
            }
        }
        let settings = &self.settings;
        if let (Address::Redlock(_), Some(most)) = (&settings.address, settings.max_ttl)
            && settings.default_ttl() > most
        {
            let most = most.get();
            wrong.push(format!(
                "default_ttl: {:?} is longer than the `max_ttl` of {most:?}; shorten it, or raise `max_ttl` in all programs",
                settings.default_ttl().get()
            ));
        }
        if settings.is_behind_a_proxy() && settings.durability.is_asked_for() {
            wrong.push(
                "counter_per_slot: `min_replicas` and `min_aof` ask one server, and a proxy that shards has several; leave one of them out"
                    .to_owned(),
            );
        }
        let bad = self
            .wrong
            .iter()
            .map(|(name, why)| format!("{name}: {why}"));
        wrong.extend(bad);
        if wrong.is_empty() {
            Ok(self.settings)
        } else {
            Err(LockError::config(wrong.join("; ")))
        }
    }

    /// What follows from the address.
    fn settle(&mut self) {
        match self.settings.address {
            Address::Redlock(_) => {
                self.settings.max_ttl.get_or_insert(Ttl::MOST_OF_SEVERAL);
            }
            Address::Cluster(_) => self.settings.counter_per_slot = true,
            Address::Memory | Address::Redis(_) | Address::Postgres(_) => {}
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
                Address::Cluster(cluster)
            }
            Address::Redlock(mut nodes) => {
                for node in &mut nodes {
                    self.complete_redis(Arc::make_mut(node), wrong);
                }
                wrong.dedup(); // the same for each node
                Address::Redlock(nodes)
            }
            Address::Postgres(mut address) => {
                self.complete_postgres(Arc::make_mut(&mut address), wrong);
                Address::Postgres(address)
            }
            Address::Memory => Address::Memory,
        }
    }

    fn complete_postgres(&self, address: &mut PostgresAddress, wrong: &mut Vec<String>) {
        self.complete_tls(&mut address.tls, "write `sslmode=verify-full`", wrong);
        self.complete_login(&mut address.login, wrong);
        if matches!(&address.login, Login::Fixed(login) if login.user.is_none()) {
            wrong.push("url: no user; give `postgres://user:password@host/database` (`PGUSER` and the name of this process's user are not read)".to_owned());
        }
    }

    fn complete_redis(&self, address: &mut RedisAddress, wrong: &mut Vec<String>) {
        self.complete_tls(&mut address.tls, "begin it with `rediss://`", wrong);
        self.complete_login(&mut address.login, wrong);
        if self.connector.is_some() && matches!(address.endpoint, Endpoint::Unix(_)) {
            wrong.push(
                "connector: the URL is a unix socket's; give `redis://host:6379` for it".to_owned(),
            );
        }
        address.connector.clone_from(&self.connector);
    }

    fn complete_tls(&self, tls: &mut Option<Tls>, advice: &str, wrong: &mut Vec<String>) {
        match tls.take() {
            Some(of_url) => *tls = Some(of_url.and(self.tls.clone(), wrong)),
            None if self.tls.is_given() => wrong.push(format!(
                "tls: certificates are given, but the URL does not ask for TLS; {advice}"
            )),
            None => {}
        }
    }

    fn complete_login(&self, login: &mut Login, wrong: &mut Vec<String>) {
        let Some(asked) = &self.login else { return };
        if matches!(login, Login::Fixed(login) if login.are_given()) {
            wrong.push(
                "credentials: the URL has a user or a password too; give them in one place"
                    .to_owned(),
            );
        }
        *login = asked.clone();
    }
}

pub(super) fn lease(ttl: Duration) -> Result<Ttl, String> {
    Ttl::new(ttl).map_err(|why| why.to_string())
}

pub(super) fn time(time: Duration) -> Result<Duration, String> {
    if time < Duration::from_millis(1) || time > Duration::from_secs(3600) {
        return Err(format!("{time:?} is out of range; give 1 ms to 1 h"));
    }
    Ok(time)
}

pub(super) fn shutdown_grace(grace: Duration) -> Result<Duration, String> {
    if grace > SHUTDOWN_GRACE_AT_MOST {
        return Err(format!("{grace:?} is out of range; give 0 s to 5 min"));
    }
    Ok(grace)
}

pub(super) fn connections(number: usize) -> Result<usize, String> {
    if (1..=64).contains(&number) {
        return Ok(number);
    }
    Err(format!(
        "{number} is out of range; give 1 to 64 (one is enough for hundreds of tasks)"
    ))
}

pub(super) fn in_flight(commands: usize) -> Result<usize, String> {
    match commands {
        0 => Err("0 would send nothing; give at least 1".to_owned()),
        most => Ok(most),
    }
}

pub(super) fn clock_margin(percent: usize) -> Result<Margin, String> {
    let why = || {
        let most = Margin::MOST;
        format!("{percent} per cent is out of range; give 1 to {most}")
    };
    Margin::percent(percent).ok_or_else(why)
}

pub(super) fn poll_interval(interval: Duration) -> Result<Duration, String> {
    if POLL_INTERVAL.contains(&interval) {
        return Ok(interval);
    }
    Err(format!(
        "{interval:?} is out of range; give 1 ms to 1 s (a waiter that is silent for 3.5 s loses its place in the queue)"
    ))
}

pub(super) fn local_handoff(most: usize, within: Duration) -> Result<Handoff, String> {
    if within > LOCAL_HANDOFF_AT_MOST {
        return Err(format!(
            "{within:?} is out of range; give at most 1 s (waiters of other processes stand still meanwhile)"
        ));
    }
    match u16::try_from(most) {
        Ok(most) if most <= MOST_HANDOFFS => Ok(Handoff::up_to(most, within)),
        _ => Err(format!(
            "{most} times is out of range; give 0 to {MOST_HANDOFFS}"
        )),
    }
}

pub(super) fn grant_secret(secret: Secret) -> Result<Secret, String> {
    if GRANT_SECRET.contains(&secret.reveal().len()) {
        return Ok(secret);
    }
    Err("shorter than 16 bytes or longer than 1024; give 32 random ones".to_owned())
}

/// The last two are of texts that went through an editor or a chat.
const QUOTES: [(char, char); 4] = [('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’')];

/// A text without the quotes around it, and blanks, which some readers of files do not take away.
pub(super) fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    let inner = |(left, right)| text.strip_prefix(left)?.strip_suffix(right);
    QUOTES.into_iter().find_map(inner).map_or(text, str::trim)
}

pub(super) fn namespace(namespace: String) -> Result<String, String> {
    if unwrapped(&namespace).len() < namespace.len() {
        return Err("stands in quotes or has a blank at an end, which would be part of every key; leave it out".to_owned());
    }
    if namespace.len() > 128 {
        return Err("longer than 128 bytes; shorten it".to_owned());
    }
    if namespace
        .chars()
        .any(|c| matches!(c, '{' | '}' | '|' | '@') || !is_visible(c))
    {
        return Err("has a brace, a bar, an `@`, a control character or another that nobody sees; leave it out (a hash tag belongs in the key)".to_owned());
    }
    Ok(namespace)
}

/// The name stands in each entry on the server, and in the errors of other processes.
pub(super) fn holder_name(name: String) -> Result<String, String> {
    if name.len() > NAME_AT_MOST {
        return Err(format!("longer than {NAME_AT_MOST} bytes; shorten it"));
    }
    if first_hidden(&name).is_some() {
        return Err("has a control character or another that nobody sees; leave it out".to_owned());
    }
    Ok(name)
}
