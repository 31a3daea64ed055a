//! Keeps connections alive: for each tokio runtime its own, rebuilt when they break, checked when
//! they are idle, gone when the runtime or the pool is.
//!
//! One attempt to connect at a time, spaced out while they fail: an outage costs about one connect a
//! second, however many tasks wait.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::connect::{Plan, connect};
use super::link::RedisLink;
use crate::backend::Link;
use crate::backend::clock::Clock;
use crate::backend::fault::{self, Fault};
use crate::observe;
use crate::policy::retry::{self, Jitter};
use crate::values::config::{RedisAddress, Settings};
use crate::values::error::Text;

#[derive(Debug)]
pub(super) struct Supervisor {
    plan: Plan,
    connections: usize,
    health_check_interval: Duration,
    command_timeout: Duration,
    runtimes: Mutex<HashMap<Id, Arc<Links>>>,
}

/// The connections of one tokio runtime.
#[derive(Debug)]
struct Links {
    slots: Vec<Slot>,
    /// The task that looks after idle connections; the runtime's end is noticed by its end.
    caretaker: OnceLock<AbortHandle>,
}

/// A place for one connection.
#[derive(Debug, Default)]
struct Slot {
    live: Mutex<Option<Arc<RedisLink>>>,
    /// Held by the one task that connects.
    connecting: tokio::sync::Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    next_attempt: Option<Instant>,
}

impl Supervisor {
    pub(super) fn new(address: RedisAddress, settings: &Settings, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            plan: Plan {
                address,
                connect_timeout: settings.connect_timeout,
                max_in_flight: settings.max_in_flight,
                clock,
            },
            connections: settings.connections,
            health_check_interval: settings.health_check_interval,
            command_timeout: settings.command_timeout,
            runtimes: Mutex::default(),
        })
    }

    /// The current runtime's connection for this key.
    pub(super) async fn link(
        self: &Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<Arc<RedisLink>, Fault> {
        let here = fault::current_runtime()?;
        let links = match self.known(here.id()) {
            Some(links) => links,
            None => self.welcome(&here)?,
        };
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let slots = u64::try_from(links.slots.len()).unwrap_or(1);
        let index = usize::try_from(hasher.finish() % slots).unwrap_or(0);
        match links.slots.get(index) {
            Some(slot) => slot.link(&self.plan, within).await,
            None => Err(Fault::Unsent(Text::new("this pool has no connections"))), // `connections` >= 1
        }
    }

    /// Gives a runtime its connections, and somebody who looks after them.
    fn welcome(self: &Arc<Self>, here: &Handle) -> Result<Arc<Links>, Fault> {
        fault::check_timers()?;
        let links = self.insert(here.id());
        links.caretaker.get_or_init(|| {
            let departure = Departure {
                supervisor: Arc::downgrade(self),
                runtime: here.id(),
            };
            // A runtime that is shutting down drops this at once: the entry is gone again.
            here.spawn(look_after(departure)).abort_handle()
        });
        Ok(links)
    }

    fn known(&self, runtime: Id) -> Option<Arc<Links>> {
        let runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        runtimes.get(&runtime).cloned()
    }

    fn insert(&self, runtime: Id) -> Arc<Links> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let links = runtimes.entry(runtime).or_insert_with(|| {
            let slots = (0..self.connections).map(|_| Slot::default()).collect();
            Arc::new(Links {
                slots,
                caretaker: OnceLock::new(),
            })
        });
        links.clone()
    }

    fn forget(&self, runtime: Id) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = runtimes.remove(&runtime);
        drop(runtimes); // what the links drop may take a while
        drop(gone);
    }
}

impl Slot {
    async fn link(&self, plan: &Plan, within: Duration) -> Result<Arc<RedisLink>, Fault> {
        if let Some(link) = self.live() {
            return Ok(link);
        }
        let deadline = Instant::now() + within;
        let out_of_time =
            || Fault::Unsent(Text::new(format_args!("no connection within {within:?}")));
        let Ok(mut failures) = tokio::time::timeout_at(deadline, self.connecting.lock()).await
        else {
            return Err(out_of_time());
        };
        if let Some(link) = self.live() {
            return Ok(link); // somebody else made it while we waited
        }
        if let Some(at) = failures.next_attempt {
            if at >= deadline {
                tokio::time::sleep_until(deadline).await;
                return Err(out_of_time());
            }
            tokio::time::sleep_until(at).await;
        }
        match connect(plan, deadline.duration_since(Instant::now())).await {
            Ok(link) => {
                if failures.in_a_row > 0 {
                    observe::reconnected(&plan.address, failures.in_a_row);
                }
                *failures = Failures::default();
                let link = Arc::new(link);
                *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Some(link.clone());
                Ok(link)
            }
            Err(fault) => {
                failures.in_a_row = failures.in_a_row.saturating_add(1);
                let seed = plan.clock.now().as_nanos();
                let pause = retry::after_failure(failures.in_a_row, &mut Jitter::seeded(seed));
                failures.next_attempt = Some(Instant::now() + pause);
                Err(fault)
            }
        }
    }

    /// The connection, if there is one that works; a broken one is dropped here.
    fn live(&self) -> Option<Arc<RedisLink>> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.as_ref().is_some_and(|link| !link.is_usable()) {
            *live = None;
        }
        live.clone()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Some(caretaker) = self.caretaker.get() {
            caretaker.abort();
        }
    }
}

/// Asks idle connections whether they still work; a second silence in a row ends one.
async fn look_after(departure: Departure) {
    loop {
        let Some(supervisor) = departure.supervisor.upgrade() else {
            return;
        };
        let (pause, within) = (supervisor.health_check_interval, supervisor.command_timeout);
        drop(supervisor);
        tokio::time::sleep(pause).await;
        let Some(links) = departure.links() else {
            return;
        };
        for link in links.slots.iter().filter_map(Slot::live) {
            while link.is_usable() && link.idle() >= pause && link.ping(within).await.is_err() {}
        }
    }
}

/// Forgets a runtime's connections when its caretaker is dropped: at the latest when the runtime is.
struct Departure {
    supervisor: Weak<Supervisor>,
    runtime: Id,
}

impl Departure {
    fn links(&self) -> Option<Arc<Links>> {
        self.supervisor.upgrade()?.known(self.runtime)
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        if let Some(supervisor) = self.supervisor.upgrade() {
            supervisor.forget(self.runtime);
        }
    }
}
