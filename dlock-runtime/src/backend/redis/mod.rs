//! One Redis (or Valkey) server, 6.2 or newer.
//!
//! `supervisor` keeps the connections of each tokio runtime alive, each in a `slot`; `connect` makes one, over a `socket`, `link` speaks
//! the protocol over it and combines what many want at once, `calls` which script an operation is, `write` the batches of
//! data, `push` hears what comes unasked, `grant_key` says whether that is the fleet's own, `pace` whether the clocks part, `names` the keys beside a
//! lock's own, `scripts` holds the Lua, `native` says
//! which command of the server's own it may use, `reply` and `errors` read what comes back.
//!
//! Never in this folder: a `redis::` type that leaves it, a command that the client library repeats by itself.

mod calls;
mod connect;
mod errors;
mod grant_key;
mod link;
mod names;
mod native;
mod pace;
mod plan;
mod push;
mod reply;
mod scripts;
mod slot;
mod socket;
mod supervisor;
mod write;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use self::supervisor::Supervisor;
use super::clock::Clock;
use super::command_error::CommandError;
use super::{Answer, Backend, Link, Listener, WatchdogKind};
use crate::values::config::{RedisAddress, Settings};
use crate::values::error::Reason;
use crate::values::memory_value::MemoryValue;
use crate::values::moment::Moment;

/// A pool's way to its server.
#[derive(Debug)]
pub(crate) struct Redis {
    supervisor: Arc<Supervisor>,
    clock: Clock,
}

impl Redis {
    pub(crate) fn new(address: RedisAddress, settings: &Settings) -> Self {
        let clock = Clock::real();
        Self {
            supervisor: Supervisor::new(address, settings, clock),
            clock,
        }
    }
}

impl Backend for Redis {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn watchdog(&self) -> WatchdogKind {
        WatchdogKind::Thread
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.supervisor.listen(listener);
    }

    fn ready(&self, key: &str, now: Moment) -> Option<Arc<dyn Link>> {
        let link: Arc<dyn Link> = self.supervisor.ready(key, now)?;
        Some(link)
    }

    fn connect<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Arc<dyn Link>> {
        Box::pin(async move {
            let link: Arc<dyn Link> = self.supervisor.link(key, within).await?;
            Ok(link)
        })
    }

    fn memory_value(&self, _key: &str) -> Result<Option<MemoryValue>, CommandError> {
        Err(CommandError::Setup(Reason::new(
            "`memory_value` looks into `memory://` only: read what stands on a server with your own client",
        )))
    }
}
