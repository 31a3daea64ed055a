//! Receives the pushes of one connection: grants to this connection's waiters, a node's hints that a
//! lock is free, and the word that a holder was evicted, or a waiter taken out of its queue.
//!
//! The client library calls it from whoever reads the connection's socket (`io_task`). Anyone who may
//! `PUBLISH` can write anything here. A node grants nothing by a message, and only a node gives
//! hints that a lock is free; whatever else comes is ignored. If the fleet has a secret, a grant is
//! believed only with the right MAC; without a secret, if its numbers are plausible. Any other
//! grant is a hint, which makes the waiter poll. The last word only makes a holder ask, with the right
//! MAC before others, and a waiter poll. No message is ever shown, because it holds a token.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use dlock_grammar::key::MAX_KEY_BYTES;
use redis::{PushInfo, PushKind, Value};

use super::grant_key::{GrantKey, Proof};
use crate::client::server_clock::Executed;
use crate::link::Listener;
use crate::link::clock::Clock;
use crate::rules::commands::{Claim, PushedGrant};
use crate::rules::queue;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// The maximum length of a grant message: a key has at most 512 bytes, a value some hundred more.
const LONGEST_MESSAGE: usize = 64 * 1024;

/// How far a grant's epoch may be ahead of its time to be believed, in µs. The epoch counter is
/// ahead of the clock after the clock was set back, until the clock has caught up.
const EPOCH_AHEAD_AT_MOST: u64 = 60_000_000;

/// The first line of a grant message: the layout and the event.
const GRANTED: &str = "1|granted";

/// The first line of a hint.
const FREED: &str = "1|freed";

/// The first line of a message to a holder that was evicted, or to a waiter that was taken out of its
/// queue.
const EVICTED: &str = "1|evicted";

/// What the grants in a connection's messages are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grants {
    Count,
    /// A waiter polls for what it was granted, because only that is confirmed by the witness.
    NeedAPoll,
    /// A node of a quorum grants nothing in turn, so that every such message is forged.
    None,
}

/// Receives the pushes of one connection.
#[derive(Debug)]
pub(crate) struct PushReceiver {
    clock: Clock,
    margin: Margin,
    /// The channel of this connection, and others that it hears.
    channels: Vec<String>,
    grant_key: GrantKey,
    listener: Option<Weak<dyn Listener>>,
    grants: Grants,
    answered: Mutex<Option<Executed>>,
}

impl PushReceiver {
    pub(crate) fn new(
        clock: Clock,
        margin: Margin,
        channels: Vec<String>,
        grant_key: GrantKey,
        listener: Option<Weak<dyn Listener>>,
        grants: Grants,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            margin,
            channels,
            grant_key,
            listener,
            grants,
            answered: Mutex::default(),
        })
    }

    /// The channel of this connection.
    pub(crate) fn channel(&self) -> &str {
        self.channels.first().map_or("", |it| it) // there is one
    }

    pub(crate) fn channels(&self) -> &[String] {
        &self.channels
    }

    /// Notes that a command sent at `sent` was executed at the server's time `time`.
    pub(crate) fn answered(&self, time: u64, sent: Moment) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.is_none_or(|latest| latest.sent <= sent) {
            *answered = Some(Executed { sent, time });
        }
    }

    pub(crate) fn hear(&self, push: &PushInfo) {
        match push.kind {
            PushKind::Disconnection => self.disconnected(),
            PushKind::Message => {
                let message = message(&push.data, &self.channels);
                if let (Some(message), Some(listener)) = (message, self.listener()) {
                    self.told(message, &*listener);
                }
            }
            _ => {}
        }
    }

    fn told(&self, message: Message<'_>, listener: &dyn Listener) {
        let Message { on, text } = message;
        if self.grants == Grants::None {
            if let Some(key) = freed(text) {
                return listener.freed(&key.into());
            }
        } else if let Some(read) = read(text) {
            return self.granted(read, listener);
        }
        if let Some(read) = evicted(text) {
            let proof = self.grant_key.check(on, read.said, read.mac);
            listener.evicted(read.key, read.value, proof == Proof::Right);
        }
    }

    fn granted(&self, Read { grant, said, mac }: Read<'_>, listener: &dyn Listener) {
        let received = self.clock.now();
        let since = self.no_later_than(grant.time, received);
        let is_believed = match self.grant_key.check(self.channel(), said, mac) {
            // Without a known time the waiter polls anyway, so the numbers do not matter. With one
            // they are checked, because the secret may have been guessed.
            Proof::Right => since.is_none() || self.is_plausible(&grant, received),
            Proof::Impossible => since.is_some() && self.is_plausible(&grant, received),
            Proof::Wrong => false,
        };
        let is_over = since.is_some_and(|since| since.plus(grant.lease) <= received);
        if is_believed && !is_over {
            listener.granted(grant, since.filter(|_| self.grants == Grants::Count));
        } else {
            listener.hinted(&grant.key, &grant.value);
        }
    }

    /// Whether a script could have published these numbers by now, as far as this connection's
    /// answers tell. If a forged grant were believed, its lease would end with the claim, but its
    /// fence would stay.
    fn is_plausible(&self, grant: &PushedGrant, received: Moment) -> bool {
        let known = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Executed { sent, time }) = known else {
            return false;
        };
        let ahead = Duration::from_micros(grant.time.saturating_sub(time));
        let is_past = self.margin.at_least(ahead) <= sent.until(received);
        let epochs = grant.time..=grant.time.saturating_add(EPOCH_AHEAD_AT_MOST);
        is_past && epochs.contains(&grant.epoch)
    }

    /// The connection ended, or counts as dead.
    pub(super) fn disconnected(&self) {
        if let Some(listener) = self.listener() {
            listener.disconnected();
        }
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        self.listener.as_ref()?.upgrade()
    }

    /// A moment that is no later than when the server's clock showed `time`, if this connection's
    /// answers tell; `received` is when the message arrived.
    fn no_later_than(&self, time: u64, received: Moment) -> Option<Moment> {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered?.no_later_than(time, received, self.margin)
    }
}

/// A message, and the channel that it came on.
#[derive(Clone, Copy)]
struct Message<'a> {
    on: &'a str,
    text: &'a str,
}

/// The message, if it came on one of these channels.
fn message<'a>(data: &'a [Value], channels: &'a [String]) -> Option<Message<'a>> {
    match data {
        [Value::BulkString(on), Value::BulkString(payload)] if payload.len() <= LONGEST_MESSAGE => {
            let on = channels.iter().find(|it| it.as_bytes() == on)?;
            let text = std::str::from_utf8(payload).ok()?;
            Some(Message { on, text })
        }
        _ => None,
    }
}

/// A message that was read as a grant.
struct Read<'a> {
    grant: PushedGrant,
    /// The part of the message that the MAC authenticates.
    said: &'a str,
    mac: &'a str,
}

/// Reads what a node publishes when a lock is free (`lua/node.lua`): the key.
fn freed(message: &str) -> Option<&str> {
    let (event, key) = message.split_once('\n')?;
    let is_key = !key.is_empty() && key.len() <= MAX_KEY_BYTES && !key.contains('\n');
    (event == FREED && is_key).then_some(key)
}

/// A message that an administrator's client published, or a script: a holder was evicted, or a waiter
/// taken out of its queue because its job is not due.
struct Evicted<'a> {
    key: &'a str,
    value: &'a str,
    /// As in [`Read`].
    said: &'a str,
    mac: &'a str,
}

fn evicted(message: &str) -> Option<Evicted<'_>> {
    let (said, mac) = message.rsplit_once('\n')?;
    let mut lines = said.split('\n');
    let is_evicted = lines.next()? == EVICTED;
    let (key, value) = (lines.next()?, lines.next()?);
    is_evicted.then_some(Evicted {
        key,
        value,
        said,
        mac,
    })
}

/// Writes what [`evicted`] reads, for this channel.
pub(super) fn evicted_message(grant_key: &GrantKey, channel: &str, claim: &Claim) -> String {
    let said = [EVICTED, &*claim.key, &*claim.value].join("\n");
    let mac = grant_key.mac(channel, &said).unwrap_or_default();
    [said, mac].join("\n")
}

/// Reads what the scripts publish (`lua/grant.lua`). Ignores a message of another version, and one
/// with another event (such as the one reserved for a holder: others want its lock).
fn read(message: &str) -> Option<Read<'_>> {
    let (said, mac) = message.rsplit_once('\n')?;
    let mut lines = said.split('\n');
    if lines.next()? != GRANTED {
        return None;
    }
    let (key, value) = (lines.next()?, lines.next()?);
    let mut number = || lines.next()?.parse::<u64>().ok();
    let (epoch, time, lease) = (number()?, number()?, number()?);
    let lease = Duration::from_millis(lease);
    // A later version may add lines before the MAC; the MAC covers them too.
    let is_whole = !key.is_empty() && !value.is_empty();
    let grant = (is_whole && lease <= queue::CLAIM).then(|| PushedGrant {
        key: key.into(),
        value: value.into(),
        epoch,
        time,
        lease,
    })?;
    Some(Read { grant, said, mac })
}
