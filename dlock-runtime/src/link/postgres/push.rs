//! Notifications: whom a message on this pool's channels concerns.
//!
//! Any role of the database may listen and notify on any channel. So a message has a key and no token, and
//! carries no right: a waiter that gets one polls, and a holder asks. Invariant: no more is kept than what
//! this pool has asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::sync::Notify;

use crate::link::Listener;
use crate::link::command_error::CommandError;
use crate::rules::commands::{Claim, PushedGrant};
use crate::rules::{Publish, Reached};
use crate::values::error::Reason;

/// The names of our channels begin so; 16 digits follow.
const CHANNEL: &str = "dlock_";

/// The messages.
const GRANTED: &str = "g";
const EVICTED: &str = "e";

/// A message of a connection to another one of its pool, without a key.
pub(super) const PROBE: &str = "p";

/// The entries that this pool has asked for, by their keys.
#[derive(Debug, Default)]
pub(super) struct Asked {
    entries: Mutex<HashMap<Arc<str>, Vec<Arc<str>>>>,
    pub(super) listener: OnceLock<Weak<dyn Listener>>,
    /// Notified by each [`PROBE`].
    pub(super) probed: Notify,
}

impl Asked {
    pub(super) fn add(&self, claim: &Claim) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = entries.entry(claim.key.clone()).or_default();
        if !of_key.contains(&claim.value) {
            of_key.push(claim.value.clone());
        }
    }

    pub(super) fn remove(&self, claim: &Claim) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_key) = entries.get_mut(&claim.key) {
            of_key.retain(|it| *it != claim.value);
            if of_key.is_empty() {
                entries.remove(&claim.key);
            }
        }
    }

    pub(super) fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.get().and_then(Weak::upgrade)
    }

    /// A message came, from whomever.
    pub(super) fn hear(&self, message: &str) {
        if message == PROBE {
            self.probed.notify_waiters();
        }
        let Some((what, key)) = message.split_once(' ') else {
            return;
        };
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((key, of_key)) = entries.get_key_value(key) else {
            return;
        };
        let (key, of_key) = (key.clone(), of_key.clone());
        drop(entries);
        let Some(listener) = self.listener() else {
            return;
        };
        for entry in of_key {
            match what {
                GRANTED => listener.hinted(&key, &entry),
                EVICTED => listener.evicted(&key, &entry, false),
                _ => {}
            }
        }
    }
}

/// A channel of our own.
pub(super) fn channel() -> Result<String, CommandError> {
    let random = getrandom::u64().map_err(|why| CommandError::Unsent(Reason::new(why)))?;
    Ok(format!("{CHANNEL}{random:016x}"))
}

/// Whether an entry's address is a channel of ours: nothing else is notified.
fn is_channel(address: &str) -> bool {
    let digits = address.strip_prefix(CHANNEL);
    digits.is_some_and(|it| it.len() == 16 && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

/// The messages that a command leaves behind.
#[derive(Debug, Default)]
pub(super) struct OutgoingNotes {
    pub(super) channels: Vec<String>,
    pub(super) messages: Vec<String>,
}

impl OutgoingNotes {
    fn send(&mut self, address: &str, what: &str, key: &str) -> bool {
        if !is_channel(address) {
            return false;
        }
        self.channels.push(address.to_owned());
        self.messages.push(format!("{what} {key}"));
        true
    }

    /// Whether the address is one that can be told.
    pub(super) fn evicted(&mut self, address: &str, key: &str) -> bool {
        self.send(address, EVICTED, key)
    }
}

/// Whether anybody listens is not known.
impl Publish for OutgoingNotes {
    fn publish(&mut self, address: &str, grant: &PushedGrant) -> Reached {
        self.send(address, GRANTED, &grant.key);
        Reached::Unknown
    }

    fn taken_out(&mut self, address: &str, key: &Arc<str>, _: &Arc<str>) {
        self.send(address, GRANTED, key);
    }
}
