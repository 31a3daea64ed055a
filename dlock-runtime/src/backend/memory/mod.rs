//! `memory://`: the pure server machine behind a mutex, for development and tests.
//!
//! Every answer is ready at once and no step crosses a thread, so tokio's paused clock works.
//! It protects this process only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;

use super::clock::Clock;
use super::fault::Fault;
use super::{Answer, Backend, GuardianKind, Link};
use crate::policy::commands::{Acquire, Acquired, Cancelled, Claim, Renewal, Renewed};
use crate::policy::server::Server;

/// A server in this process; each pool has its own.
#[derive(Debug)]
pub(crate) struct Memory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    server: Mutex<Server>,
    clock: Clock,
    /// The wall clock's µs when `clock` began.
    began: u64,
}

impl Memory {
    pub(crate) fn new() -> Self {
        let began = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self(Arc::new(Shared {
            server: Mutex::default(),
            clock: Clock::pausable(),
            began: u64::try_from(began.as_micros()).unwrap_or(0),
        }))
    }
}

impl Shared {
    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self) -> u64 {
        self.began + self.clock.now().as_nanos() / 1000
    }
}

impl Backend for Memory {
    fn clock(&self) -> Clock {
        self.0.clock
    }

    fn guardian(&self) -> GuardianKind {
        GuardianKind::Caller
    }

    fn link<'a>(&'a self, _key: &'a str, _within: Duration) -> Answer<'a, Arc<dyn Link>> {
        ready(self.0.clone() as Arc<dyn Link>)
    }
}

fn ready<'a, T: Send + 'a>(answer: T) -> Answer<'a, T> {
    Box::pin(std::future::ready(Ok::<T, Fault>(answer)))
}

impl Link for Shared {
    fn server_time(&self) -> u64 {
        self.time()
    }

    fn runtime(&self) -> Option<&Handle> {
        None
    }

    fn acquire<'a>(&'a self, command: &'a Acquire, _within: Duration) -> Answer<'a, Acquired> {
        ready(self.server().acquire(command, self.time()))
    }

    fn release<'a>(&'a self, claim: &'a Claim, _within: Duration) -> Answer<'a, bool> {
        ready(self.server().release(claim, self.time()))
    }

    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        not_after: u64,
        _within: Duration,
    ) -> Answer<'a, Cancelled> {
        ready(self.server().cancel(claim, not_after, self.time()))
    }

    fn renew<'a>(&'a self, items: &'a [Renewal], _within: Duration) -> Answer<'a, Vec<Renewed>> {
        let (mut server, time) = (self.server(), self.time());
        ready(items.iter().map(|item| server.renew(item, time)).collect())
    }

    fn read<'a>(&'a self, key: &'a str, _within: Duration) -> Answer<'a, Option<String>> {
        ready(self.server().read(key, self.time()))
    }

    fn ping(&self, _within: Duration) -> Answer<'_, ()> {
        ready(())
    }
}
