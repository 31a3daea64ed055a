//! Keeps connections alive: for each tokio runtime its own, rebuilt when they break, checked when
//! they are idle, gone when the runtime or the pool is.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::grant_key::GrantKey;
use super::link::RedisLink;
use super::names::Names;
use super::pace::Pace;
use super::plan::{Plan, PollInterval};
use super::slot::Slot;
use crate::backend::Listener;
use crate::backend::clock::Clock;
use crate::backend::command_error::{self, CommandError};
use crate::values::config::{RedisAddress, Settings};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::process::Home;

#[derive(Debug)]
pub(super) struct Supervisor {
    home: Home,
    plan: Arc<Plan>,
    connections: usize,
    health_check_interval: Duration,
    command_timeout: Duration,
    /// A handful: looking through them is faster than hashing.
    runtimes: Mutex<Vec<(Id, Arc<Links>)>>,
}

/// The connections of one tokio runtime.
#[derive(Debug)]
struct Links {
    slots: Vec<Arc<Slot>>,
    /// The task that looks after idle connections; the runtime's end is noticed by its end.
    caretaker: OnceLock<AbortHandle>,
}

impl Supervisor {
    pub(super) fn new(address: RedisAddress, settings: &Settings, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            home: Home::here(),
            plan: Arc::new(Plan {
                grant_key: GrantKey::new(
                    settings.grant_secret.as_ref().or(address.password.as_ref()),
                ),
                pace: Arc::new(Pace::new(address.clone(), settings.clock_margin)),
                address,
                connect_timeout: settings.connect_timeout,
                max_in_flight: settings.max_in_flight,
                poll_interval: PollInterval {
                    told: settings.poll_interval(true),
                    untold: settings.poll_interval(false),
                },
                command_timeout: settings.command_timeout,
                clock,
                margin: settings.clock_margin,
                names: Names::new(&settings.namespace),
                listener: OnceLock::new(),
                warned: AtomicBool::new(false),
                failures: AtomicU32::new(0),
            }),
            connections: settings.connections,
            health_check_interval: settings.health_check_interval,
            command_timeout: settings.command_timeout,
            runtimes: Mutex::default(),
        })
    }

    /// Who hears what the connections made from now on are told unasked.
    pub(super) fn listen(&self, listener: Weak<dyn Listener>) {
        let _ = self.plan.listener.set(listener); // once, by its contract
    }

    /// The current runtime's connection for this key, if it can be relied on as it is.
    pub(super) fn ready(&self, key: &str, now: Moment) -> Option<Arc<RedisLink>> {
        let here = Handle::try_current().ok()?;
        let link = self.known(here.id())?.slot(key)?.live()?;
        self.was_heard_lately(&link, now).then_some(link)
    }

    /// The current runtime's connection for this key.
    pub(super) async fn link(
        self: &Arc<Self>,
        key: &str,
        within: Duration,
    ) -> Result<Arc<RedisLink>, CommandError> {
        let here = command_error::current_runtime()?;
        let links = match self.known(here.id()) {
            Some(links) => links,
            None => self.welcome(&here)?,
        };
        let Some(slot) = links.slot(key) else {
            return Err(CommandError::Unsent(Reason::new(
                "this pool has no connections",
            ))); // there is at least one
        };
        let link = slot.link(&self.plan, within).await?;
        if self.was_heard_lately(&link, link.connection.clock.now()) {
            return Ok(link);
        }
        // Its runtime has not run for a while, its caretaker neither: better ask before it is relied on.
        let _ = link
            .connection
            .refresh(within.min(self.command_timeout))
            .await;
        if link.connection.is_usable() {
            return Ok(link);
        }
        slot.link(&self.plan, within).await
    }

    fn was_heard_lately(&self, link: &RedisLink, now: Moment) -> bool {
        link.connection.idle(now) < self.health_check_interval * 3
    }

    /// Gives a runtime its connections, and somebody who looks after them.
    fn welcome(self: &Arc<Self>, here: &Handle) -> Result<Arc<Links>, CommandError> {
        command_error::runtime_with_timers()?;
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
        find(&runtimes, runtime).map(|(_, links)| links.clone())
    }

    fn insert(&self, runtime: Id) -> Arc<Links> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, links)) = find(&runtimes, runtime) {
            return links.clone();
        }
        let links = Arc::new(Links {
            slots: (0..self.connections).map(|_| Arc::default()).collect(),
            caretaker: OnceLock::new(),
        });
        runtimes.push((runtime, links.clone()));
        links
    }

    fn forget(&self, runtime: Id) {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = runtimes.iter().position(|(id, _)| *id == runtime);
        let gone = at.map(|at| runtimes.swap_remove(at));
        drop(runtimes); // what the links drop may take a while
        drop(gone);
    }
}

fn find(runtimes: &[(Id, Arc<Links>)], runtime: Id) -> Option<&(Id, Arc<Links>)> {
    runtimes.iter().find(|(id, _)| *id == runtime)
}

impl Links {
    /// Where commands about this key go.
    fn slot(&self, key: &str) -> Option<&Arc<Slot>> {
        if let [only] = &*self.slots {
            return Some(only);
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let slots = u64::try_from(self.slots.len()).unwrap_or(1);
        let index = usize::try_from(hasher.finish() % slots.max(1)).unwrap_or(0);
        self.slots.get(index)
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
        for link in links.slots.iter().filter_map(|slot| slot.live()) {
            while link.connection.is_usable()
                && link.connection.idle(link.connection.clock.now()) >= pause
                && link.connection.refresh(within).await.is_err()
            {}
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
        // A runtime that a forked child inherited drops its tasks there too; the table is the parent's.
        if let Some(supervisor) = self.supervisor.upgrade()
            && !supervisor.home.is_elsewhere()
        {
            supervisor.forget(self.runtime);
        }
    }
}
