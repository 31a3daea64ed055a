//! What the server says unasked over one connection: grants to this connection's waiters.
//!
//! Called by the client library from the task that moves the connection's bytes. A message that is
//! no grant is ignored, and none is ever shown: it holds a token.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use redis::{PushInfo, PushKind, Value};

use crate::backend::Listener;
use crate::backend::clock::Clock;
use crate::policy::commands::Grant;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// An answer that is older says too little about what time it is there: the clocks may have drifted,
/// or one of them was set.
const KNOWS_THE_TIME_FOR: Duration = Duration::from_secs(2);

/// Hears the pushes of one connection.
#[derive(Debug)]
pub(super) struct Ear {
    clock: Clock,
    margin: Margin,
    /// The channel of this connection.
    channel: String,
    listener: Option<Weak<dyn Listener>>,
    answered: Mutex<Option<Answered>>,
}

/// A command of this connection that was answered.
#[derive(Clone, Copy, Debug)]
struct Answered {
    sent: Moment,
    /// The server's time when it was executed, µs.
    time: u64,
}

impl Ear {
    pub(super) fn new(
        clock: Clock,
        margin: Margin,
        channel: String,
        listener: Option<Weak<dyn Listener>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            margin,
            channel,
            listener,
            answered: Mutex::default(),
        })
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// A command sent at `sent` was executed at the server's time `time`.
    pub(super) fn answered(&self, time: u64, sent: Moment) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.is_none_or(|latest| latest.sent <= sent) {
            *answered = Some(Answered { sent, time });
        }
    }

    pub(super) fn hear(&self, push: &PushInfo) {
        match push.kind {
            PushKind::Disconnection => self.disconnected(),
            PushKind::Message => {
                let received = self.clock.now();
                let grant = message(&push.data, &self.channel).and_then(grant);
                if let (Some(grant), Some(listener)) = (grant, self.listener()) {
                    let since = self.no_later_than(grant.time, received);
                    listener.granted(grant, since);
                }
            }
            _ => {}
        }
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

    /// A moment that is no later than the server's time `time`, which passed before `received`: a
    /// command sent at s and executed at T says that it was T no earlier than s. The server's clock may be the faster one
    /// of the two, within the margin.
    fn no_later_than(&self, time: u64, received: Moment) -> Option<Moment> {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let known = answered.filter(|it| it.sent.until(received) <= KNOWS_THE_TIME_FOR)?;
        let nanos = if time >= known.time {
            let later = Duration::from_micros(time - known.time);
            known.sent.plus(self.margin.at_least(later)).as_nanos()
        } else {
            let earlier = Duration::from_micros(known.time - time);
            let earlier = self.margin.at_most(earlier).as_nanos();
            let earlier = u64::try_from(earlier).unwrap_or(u64::MAX);
            known.sent.as_nanos().saturating_sub(earlier)
        };
        Some(Moment::from_nanos(nanos).min(received))
    }
}

/// The text of a message on this channel.
fn message<'a>(data: &'a [Value], channel: &str) -> Option<&'a str> {
    match data {
        [Value::BulkString(on), Value::BulkString(payload)] if on == channel.as_bytes() => {
            std::str::from_utf8(payload).ok()
        }
        _ => None,
    }
}

/// Reads what the scripts publish (`lua/queue.lua`).
fn grant(message: &str) -> Option<Grant> {
    let mut lines = message.split('\n');
    let (key, value) = (lines.next()?, lines.next()?);
    let mut number = || lines.next()?.parse::<u64>().ok();
    let (epoch, time, lease) = (number()?, number()?, number()?);
    let is_whole = lines.next().is_none() && !key.is_empty() && !value.is_empty();
    is_whole.then(|| Grant {
        key: key.into(),
        value: value.into(),
        epoch,
        time,
        lease: Duration::from_millis(lease),
    })
}
